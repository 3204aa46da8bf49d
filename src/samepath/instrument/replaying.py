"""``samepath.replay``: from a file, or from a repeat of a study, to a run that can be gone through, checked, and played alone.

A repeat needs no recording to be replayed: a study's traces hold what went into it. :func:`open_loop` does that for every
engine that says it can (the capability ``inputs``), again and again: with the clock, the controllers and chance out of the way,
whatever still differs is the simulator's own.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samepath.core.errors import InputError, unknown
from samepath.engines import registry
from samepath.engines.interface import RunRequest
from samepath.engines.samepath import recordings
from samepath.instrument.analysis.partings import find_parting
from samepath.instrument.execution.folder import STUDY_FILE, load_commands, read_record
from samepath.instrument.execution.job import job_of
from samepath.instrument.study.records import Plan, PlannedCell
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.records import FrameTable, Repeat, SensorFrame
from samepath.instrument.traces.store import StoredCell, stored_repeats

if TYPE_CHECKING:
    from samepath.engines.samepath.recordings import Replay, RunRecording

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class StoredRun:
    """A repeat of a study: what was asked for, what went in, and the trace that came of it."""

    simulator: str
    request: RunRequest
    repeat: Repeat
    log_every: int
    origin: str


def replay(path: PathLike, *, cell: str | None = None, repeat: int | None = None) -> "Replay":
    """Open a recording, or a repeat of a study's folder, to go through it step by step in both directions.

    ``path`` is a file of ``samepath replay --save`` or ``samepath serve --record``, or a study's folder with ``cell`` (where it
    has several) and ``repeat``.

    >>> import samepath
    >>> run = samepath.replay("runs/glancing", repeat=3)                   # doctest: +SKIP
    >>> run.until(120).actor(1).state.pose.x_m                              # doctest: +SKIP
    >>> run.back(5).camera(1, path="before.png")                            # doctest: +SKIP
    """
    place = Path(path)
    if not (place / STUDY_FILE).exists():
        _only_a_study(place, cell, repeat)
        return recordings.open_replay(place)
    run = stored_run(place, cell, repeat)
    return recordings.replay_of(recording_of(run), run.origin)


def read_recording(path: PathLike, *, cell: str | None = None, repeat: int | None = None) -> "RunRecording":
    """Read the recording of a run, or make that of a repeat of a study's folder."""
    place = Path(path)
    if not (place / STUDY_FILE).exists():
        _only_a_study(place, cell, repeat)
        return recordings.read(place)
    return recording_of(stored_run(place, cell, repeat))


def checked(path: PathLike, *, cell: str | None = None, repeat: int | None = None) -> dict[str, int]:
    """Play a recording, or a repeat, with all that rode along; return how many steps and sensor frames were as recorded."""
    place = Path(path)
    if (place / STUDY_FILE).exists():
        recording = read_recording(place, cell=cell, repeat=repeat)  # held against its trace while it is made
        return {"steps": recording.steps, "frames": len(recording.sensors)}
    _only_a_study(place, cell, repeat)
    steps, frames = recordings.check_file(place)
    return {"steps": steps, "frames": frames}


def _only_a_study(place: Path, cell: str | None, repeat: int | None) -> None:
    if cell is not None or repeat is not None:
        raise InputError(f"--cell and --repeat are of a study's folder, but {place} is none")


def recording_of(run: StoredRun) -> "RunRecording":
    """Play a stored run again, hold it against its trace, and return its recording."""
    return recordings.recording_of(run.request, run.simulator, run.repeat, log_every=run.log_every, origin=run.origin)


def stored_run(folder: Path, cell: str | None, repeat: int | None) -> StoredRun:
    """Find a repeat in a study's folder."""
    plan = read_record(folder).plan
    planned = _cell(plan, folder, cell)
    place = folder / "cells" / planned.folder
    there = sorted(stored_repeats(place))
    if repeat is None and len(there) == 1:
        repeat = there[0]
    if repeat is None or repeat not in there:
        which = f"{there[0]} to {there[-1]}" if there else "none"
        came = "none" if repeat is None else repeat
        raise InputError(
            f"--repeat: one of the {len(there)} repeats of cell {planned.name!r} ({which}) was wanted, but {came} came"
        )
    store = StoredCell(place)
    frames = tuple(frame for table in store.sensor_tables() for frame in _frames(table, repeat))
    found = replace(store.load(repeat), inputs=store.inputs(repeat), sensors=frames)
    request = job_of(plan, planned, load_commands(place)).request(repeat)
    return StoredRun(planned.simulator, request, found, plan.log_every, f"{folder}, cell {planned.name}, repeat {repeat}")


def _frames(table: FrameTable, repeat: int) -> Iterator[SensorFrame]:
    rows = table.by_repeat.get(repeat, slice(0, 0))
    for tick, digest in zip(table.tick[rows].tolist(), table.digest[rows], strict=True):
        yield SensorFrame(tick, table.sensor, table.kind, digest.tobytes())


def _cell(plan: Plan, folder: Path, name: str | None) -> PlannedCell:
    there = {cell.name: cell for cell in plan.cells if stored_repeats(folder / "cells" / cell.folder)}
    if not there:
        raise InputError(f"{folder}: a study with finished repeats was wanted, but none is there: run it first")
    if name is None:
        if len(there) > 1:
            raise InputError(f"--cell: one of {', '.join(map(repr, there))} was wanted, but none came")
        return next(iter(there.values()))
    if name not in there:
        raise unknown("cell", name, there)
    return there[name]


@dataclass(frozen=True)
class OpenLoop:
    """One run's inputs, played ``len(digests)`` times: is the simulator alone repeatable?

    ``recorded`` is the digest of the run itself. ``first_difference`` is told in words: of the replays among each other, or
    else from the run.
    """

    simulator: str
    recorded: str
    digests: tuple[str, ...]
    first_difference: str = ""

    @property
    def repeats(self) -> bool:
        """Did all replays come out the same?"""
        return len(set(self.digests)) == 1

    @property
    def same(self) -> bool:
        """Did all of them come out as the run did?"""
        return set(self.digests) == {self.recorded}

    def words(self) -> str:
        """Say what that means."""
        count, who = len(self.digests), self.simulator
        if self.same:
            return (
                f"{who} alone repeats: with the recorded inputs, {count} of {count} replays are the run to the bit. "
                "What differs between repeats came in from outside: the clock, controllers or chance."
            )
        if self.repeats:
            return (
                f"{who} alone repeats itself ({count} of {count} replays are the same to the bit), but they are not the run: "
                f"something that went into it was not recorded. {self.first_difference}"
            )
        return (
            f"{who} alone does not repeat: {len(set(self.digests))} different outcomes of {count} replays of the same inputs. "
            f"The simulator itself is a source. {self.first_difference}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        return {
            "simulator": self.simulator,
            "replays": len(self.digests),
            "repeats": self.repeats,
            "same": self.same,
            "outcomes": len(set(self.digests)),
            "recorded": self.recorded,
            "digests": list(self.digests),
            "first_difference": self.first_difference,
        }


def open_loop(
    path: PathLike,
    repeats: int = 5,
    *,
    cell: str | None = None,
    repeat: int | None = None,
    inline: bool = False,
    on_repeat: Callable[[int], None] = lambda _: None,
) -> OpenLoop:
    """Play what went into one run again ``repeats`` times, each in a process of its own unless ``inline``.

    For every engine that can play a run again from its inputs; a recording is of our own.
    """
    if not 1 <= repeats <= 10_000:
        raise InputError(f"--repeats: a number from 1 to 10000 was wanted, but {repeats} came")
    place = Path(path)
    if (place / STUDY_FILE).exists():
        run = stored_run(place, cell, repeat)
        if run.repeat.inputs is None:
            raise InputError(f"{run.origin}: {run.simulator} took down nothing of what went into the run")
        request = replace(run.request, inputs=run.repeat.inputs)
        with registry.create(run.simulator) as simulator:
            if not simulator.described(request.settings).capabilities.inputs:
                raise InputError(f"{run.origin}: {run.simulator} cannot play a run again from what went into it")
        played = _played(run.simulator, request, run.log_every, repeats, inline=inline, on_repeat=on_repeat)
        return _judged(run.simulator, run.repeat, played)
    _only_a_study(place, cell, repeat)
    recording = recordings.read(place)
    checked = recordings.check(recording, str(place))
    with recordings.request_of(recording) as request:
        played = _played(recording.simulator, request, recording.log_every, repeats, inline=inline, on_repeat=on_repeat)
    return _judged(recording.simulator, checked.repeat, played)


def _played(
    simulator: str, request: RunRequest, log_every: int, repeats: int, *, inline: bool, on_repeat: Callable[[int], None]
) -> list[Repeat]:
    requests = [replace(request, repeat=number) for number in range(repeats)]
    found: list[Repeat] = []
    if inline:
        for numbered in requests:
            found.append(play_once(simulator, numbered, log_every))
            on_repeat(len(found))
        return found
    # A fresh interpreter each: what a run leaves behind in a process could hide that the next one differs, or make it so.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        for repeat in pool.map(play_once, [simulator] * repeats, requests, [log_every] * repeats):
            found.append(repeat)
            on_repeat(len(found))
    return found


def play_once(simulator: str, request: RunRequest, log_every: int) -> Repeat:
    """Run a request once, in the process that this is called in."""
    with registry.create(simulator) as made:
        info = made.described(request.settings)
        recorder = Recorder(request.repeat, info.channels, info.step_s, log_every)
        made.run(request, recorder)
        return recorder.finish()


def _judged(simulator: str, run: Repeat, played: Sequence[Repeat]) -> OpenLoop:
    digests = tuple(recordings.run_digest(repeat) for repeat in played)
    recorded = recordings.run_digest(run)
    other = next((repeat for repeat, digest in zip(played, digests, strict=True) if digest != digests[0]), None)
    if other is not None:
        told = f"First difference among the replays: {first_difference(played[0], other)}."
    elif digests[0] != recorded:
        told = f"First difference from the run: {first_difference(run, played[0])}."
    else:
        told = ""
    return OpenLoop(simulator, recorded, digests, told)


def _without_host(run: Repeat) -> Repeat:
    return replace(run, events=tuple(event for event in run.events if event.kind not in recordings.HOST_EVENTS))


def first_difference(one: Repeat, other: Repeat) -> str:
    """Return where two runs first differ: tick, actor and field, both values. Events of the host do not count."""
    parting = find_parting(_without_host(one), _without_host(other), step_s=1.0)
    if parting is None:
        return "other channels"
    first = parting.first
    who = "the run" if first.actor is None else f"actor {first.actor}"
    return f"tick {first.tick}, {who}, {first.field}: {first.reference_value!r} and {first.value!r}"
