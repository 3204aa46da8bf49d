"""CARLA's recorder files (``client.start_recorder``): one file is one repeat, and all files together are one cell.

Actors are numbered in the order in which they appear, since CARLA gives them new ids in every run. Places are 32-bit floats in
the file, which is what CARLA itself computes with; say ``--lossless`` if that is where the recording comes from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from samepath.core.channels import ANGULAR_VELOCITY, POSITION, ROTATION, VELOCITY
from samepath.core.errors import InputError, SimulatorError
from samepath.instrument.traces.cell import MemoryCell
from samepath.instrument.traces.importers import Align, ImportOptions, too_large
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.records import EventKind, Floats, Header, Repeat
from samepath.simulator.carla.recorder_file import NO_ACTOR, Content, Log, LogFrame, is_log, open_log

_CONTROL: Final = ("throttle_ratio", "steer_ratio", "brake_ratio", "hand_brake_bool", "gear_index")
_SPEED: Final = "walk_speed_mps"
_MOVING: Final = ("vehicle.", "walker.", "static.prop.")
# A step is the usual one when it differs by less than this part of it.
_STEADY: Final = 0.02
_ROW_KEYS: Final = 3  # tick, actor and time of a state


class CarlaRecorderImporter:
    """Reads recorder files, known by their first bytes."""

    name = "carla-recorder"

    def accepts(self, path: Path, head: bytes) -> bool:
        """Take files that begin like a recording."""
        return is_log(head)

    def read(self, paths: Sequence[Path], options: ImportOptions) -> list[MemoryCell]:
        """Read all files as repeats of one cell."""
        if options.columns:
            raise InputError(f"{paths[0]} is a CARLA recorder file: it has no columns to map")
        logs = [open_log(path) for path in paths]
        for log in logs:
            if log.header.map_name != logs[0].header.map_name:
                raise InputError(
                    f"{log.path} was recorded on {log.header.map_name}, but {logs[0].path.name} on {logs[0].header.map_name}; "
                    "analyse them apart"
                )
        surveys = [_survey(log) for log in logs]
        steps = [_step_s(log, survey.times_s, options.align) for log, survey in zip(logs, surveys, strict=True)]
        if max(steps) - min(steps) > _STEADY * min(steps) and options.align is not Align.ROW:
            raise InputError(f"recordings with the same step were wanted, but they have {min(steps):g} to {max(steps):g} s")
        step_s = steps[0]
        speeds = all(survey.has_kinematics for survey in surveys)
        channels = (*POSITION, *ROTATION, *((*VELOCITY, *ANGULAR_VELOCITY) if speeds else ()), *_CONTROL, _SPEED)
        size_bytes = 8 * (len(channels) + _ROW_KEYS) * sum(survey.states for survey in surveys)
        if size_bytes > options.memory_bytes:
            raise too_large(f"{paths[0]} and {len(paths) - 1} more" if len(paths) > 1 else str(paths[0]), size_bytes, options)
        name = paths[0].stem if len(paths) == 1 else paths[0].resolve().parent.name
        header = Header(
            experiment=name,
            cell=name,
            scenario=logs[0].header.map_name.rpartition("/")[2] or name,
            channels=channels,
            step_s=step_s,
            simulator="CARLA recorder",
            lossless=bool(options.lossless),
            source=f"imported from {', '.join(_said(log) for log in logs)}",
        )
        return [MemoryCell(header, [_repeat(log, number, channels, step_s) for number, log in enumerate(logs)])]


def _said(log: Log) -> str:
    return f"{log.path.name} (cut off after frame {log.extent[0]})" if log.is_cut else log.path.name


@dataclass(frozen=True)
class _Survey:
    """What is in a recording, before any of it is kept: times of frames, states in all of them, whether with velocities."""

    times_s: Floats
    states: int
    has_kinematics: bool


def _survey(log: Log) -> _Survey:
    times_s, states = [], 0
    every, some = True, False  # of the frames have the velocities of all their vehicles
    for frame in log.frames():
        content = frame.content
        times_s.append(frame.elapsed_s)
        states += len(content.placed)
        moving = {vehicle.actor for vehicle in content.vehicles}
        every = every and moving <= {kinematics.actor for kinematics in content.kinematics}
        some = some or bool(content.kinematics)
    return _Survey(np.array(times_s), states, every and some)


def _step_s(log: Log, times_s: Floats, align: Align) -> float:
    """The time between frames; they must be evenly apart, unless rows are matched by number."""
    if len(times_s) < 2:
        raise InputError(f"{log.path}: a recording of at least two frames was wanted, but it has {len(times_s)}")
    gaps = np.diff(times_s)
    usual = float(np.median(gaps))
    uneven = np.flatnonzero(np.abs(gaps - usual) > _STEADY * usual)
    if usual <= 0.0 or (uneven.size and align is not Align.ROW):
        frame = int(uneven[0]) + 2 if uneven.size else 2
        raise InputError(
            f"{log.path}: frame {frame} comes {gaps[frame - 2]:g} s after the one before, others {usual:g} s: "
            "use --align row for a variable step"
        )
    return round(usual, 9)


def _repeat(log: Log, number: int, channels: tuple[str, ...], step_s: float) -> Repeat:
    recorder = Recorder(number, channels, step_s)
    known: dict[int, int] = {}
    count = tick = 0
    try:
        for tick, frame in enumerate(log.frames()):
            for added in frame.content.added:
                if added.type.startswith(_MOVING):
                    count += 1
                    known[added.actor] = count
                    recorder.actor(count, added.type, tick)
            _note(recorder, frame, tick, known, channels)
        recorder.end(tick, "end of recording")
        return recorder.finish()
    except SimulatorError as error:
        raise InputError(f"{log.path}: {error}") from error


def _note(recorder: Recorder, frame: LogFrame, tick: int, known: dict[int, int], channels: tuple[str, ...]) -> None:
    content = frame.content
    inputs = _inputs(content)
    speeds = {row.actor: dict(zip((*VELOCITY, *ANGULAR_VELOCITY), row[1:], strict=True)) for row in content.kinematics}
    for placed in content.placed:
        if placed.actor in known:
            values = dict(zip((*POSITION, *ROTATION), placed[1:], strict=True)) | inputs.get(placed.actor, {})
            if VELOCITY[0] in channels:
                values |= speeds.get(placed.actor, {})
            recorder.state(tick, known[placed.actor], values, frame.elapsed_s)
    for hit in content.hits:
        if hit.actor in known and (hit.other in known or hit.other == NO_ACTOR):
            recorder.event(tick, EventKind.COLLISION, known[hit.actor], known.get(hit.other))
    # Of those that go, not of all that are there: a frame that takes out one of many must not cost as much as they.
    for actor in sorted({actor for actor in content.removed if actor in known}):
        recorder.event(tick, EventKind.DESTROY, known.pop(actor))


def _inputs(content: Content) -> dict[int, dict[str, float]]:
    """How actors are driven, as channels."""
    found: dict[int, dict[str, float]] = {}
    for vehicle in content.vehicles:
        row = (vehicle.throttle, vehicle.steer, vehicle.brake, float(vehicle.hand_brake), float(vehicle.gear))
        found[vehicle.actor] = dict(zip(_CONTROL, row, strict=True))
    for walker in content.walkers:
        found[walker.actor] = {_SPEED: walker.speed_mps}
    return found
