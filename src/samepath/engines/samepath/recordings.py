"""Recordings of runs, made from what a study keeps: the request, what went in, and the trace that came of it.

A study needs no option for that. Its traces hold the inputs of every repeat, and in lockstep there are none but those from
outside, so that any repeat can be played again later and written to a file of its own. While that is done its states, events
and sensor frames are held against the stored trace: a recording of something else is never written.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from samepath.core.digests import first_link, link
from samepath.core.errors import InputError, SimulatorError
from samepath.engines.interface import RunRequest, Simulator, check_scripted_request, last_tick, no_tick
from samepath.engines.samepath.game_loop import SamepathGameLoop
from samepath.engines.samepath.simulator import (
    EmbeddedSimulator,
    KeptSteps,
    Samepath,
    checked_scenario,
    rig_text,
    run_time_s,
    steps_per_tick,
)
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.records import Repeat

if TYPE_CHECKING:
    # By their own names: the instrument knows our simulator through this folder alone.
    from samepath.simulator.replay.recording import RunRecording as RunRecording  # noqa: PLC0414
    from samepath.simulator.replay.replay import Replay as Replay  # noqa: PLC0414

ENGINES: Final[dict[str, type[EmbeddedSimulator]]] = {"samepath": Samepath, "samepath-game-loop": SamepathGameLoop}
# What a trace says of the host's clock, which a replay has none of.
HOST_EVENTS: Final = frozenset({"late-frames"})


def run_digest(repeat: Repeat) -> str:
    """Name everything that happened in a run's world: states, events and end, without what is said of the host."""
    chain = link(first_link("run", *repeat.channels), repeat.digests.tobytes())
    for event in repeat.events:
        if event.kind not in HOST_EVENTS:
            chain = link(chain, event.to_bytes())
    return link(chain, f"{repeat.end.tick}\x1f{repeat.end.reason}\x1f{repeat.end.completed}".encode()).hex()


def difference(one: Repeat, other: Repeat) -> str:
    """Say in a few words what differs between a run and its replay; nothing where all is the same, to the bit."""
    if run_digest(one) != run_digest(other):
        return "states, events or end"
    if _frames(one) != _frames(other):
        return "what sensors measured"
    return ""


def _frames(repeat: Repeat) -> list[tuple[int, str, bytes]]:
    return [(frame.tick, frame.sensor, frame.digest) for frame in repeat.sensors if not _is_perceived(frame.sensor)]


def _is_perceived(sensor: str) -> bool:
    """Is this what a controller was given to decide on (``actor1.road``)? A replay asks no controller, so nobody looks.

    Nothing is lost by that: what a sensor measures follows from the states, which are compared to the bit.
    """
    return "." in sensor


def engine_of(name: str) -> EmbeddedSimulator:
    """Return the adapter that a recording is played with."""
    if name not in ENGINES:
        raise InputError(f"recordings are kept of {' and '.join(ENGINES)}, but the run is one of {name!r}")
    return ENGINES[name]()


def record(
    request: RunRequest,
    simulator: Simulator,
    *,
    log_every: int = 1,
    origin: str = "",
    on_tick: Callable[[int], None] = no_tick,
) -> tuple["RunRecording", Repeat]:
    """Run once and return the recording and the trace; only for simulators of ours."""
    if not isinstance(simulator, EmbeddedSimulator):
        raise InputError(f"recordings are kept of {' and '.join(ENGINES)}, but {simulator.info().name} came")
    info = simulator.described(request.settings)
    recorder = Recorder(request.repeat, info.channels, info.step_s, log_every)
    kept = KeptSteps()
    simulator.play(request, recorder, None, on_tick, kept)
    repeat = recorder.finish()
    return _recording(request, simulator, kept, repeat, log_every, origin), repeat


def recording_of(request: RunRequest, name: str, stored: Repeat, *, log_every: int = 1, origin: str = "") -> "RunRecording":
    """Play a stored repeat again, hold it against its trace, and return its recording."""
    if stored.inputs is None:
        raise InputError(f"repeat {stored.repeat}: what went into the run was not kept, so it cannot be played again")
    recording, again = record(replace(request, inputs=stored.inputs), engine_of(name), log_every=log_every, origin=origin)
    differs = difference(stored, again)
    if differs:
        raise SimulatorError(f"repeat {stored.repeat} did not come out again as it is in the trace: {differs} differ")
    # The log of the run itself knows which commands came late; that of its replay has everybody's, which lockstep leaves out.
    return replace(recording, inputs=stored.inputs) if recording.setup.is_open_loop(stored.inputs) else recording


def _recording(
    request: RunRequest, simulator: EmbeddedSimulator, kept: KeptSteps, repeat: Repeat, log_every: int, origin: str
) -> "RunRecording":
    from samepath.simulator.replay.recording import RunRecording, SensorDigest, map_digest, versions
    from samepath.simulator.simulation import number

    info = simulator.info()
    values = check_scripted_request(info, replace(request, inputs=None))
    scenario, last = checked_scenario(request.scenario), last_tick(info, request)
    ticks = scenario.ticks if last is None else min(last, scenario.ticks)
    return RunRecording(
        simulator=info.name,
        scenario=scenario,
        values=values,
        seed=request.seed,
        duration_s=run_time_s(info, request),
        flip_ticks=ticks * steps_per_tick(number(values, "step_s")) // 2,
        inputs=kept.inputs.log,
        digests=bytes(kept.digests),
        ended=repeat.end.reason,
        map_digest=map_digest(scenario.map),
        trace_digest=run_digest(repeat),
        log_every=log_every,
        rig=rig_text(values),
        sensors=tuple(
            SensorDigest(frame.tick, frame.sensor, frame.digest) for frame in repeat.sensors if not _is_perceived(frame.sensor)
        ),
        origin=origin,
        made_by=versions(),
    )


@dataclass(frozen=True)
class CheckedRecording:
    """What was held against a recording, and was the same to the bit; ``repeat`` is its trace, as a study would have it."""

    steps: int
    frames: int
    repeat: Repeat


@contextmanager
def request_of(recording: "RunRecording", repeat: int = 0) -> Iterator[RunRequest]:
    """Return what to ask a simulator for to play a recording; its scenario and rig are files as long as that lasts."""
    with TemporaryDirectory(prefix="samepath-replay-") as folder:
        scenario, rig = Path(folder) / "scenario.yaml", Path(folder) / "rig.yaml"
        scenario.write_text(json.dumps(recording.scenario.model_dump(mode="json")), encoding="utf-8")
        rig.write_text(recording.rig, encoding="utf-8")
        settings = {**recording.values, "sensors": str(rig) if recording.rig else ""}
        yield RunRequest(str(scenario), repeat, recording.seed, settings, recording.duration_s, None, recording.inputs)


def check(recording: "RunRecording", name: str, on_tick: Callable[[int], None] = no_tick) -> CheckedRecording:
    """Play a recording with all that rode along; every step, every event and every frame must be what was recorded."""
    from samepath.core.digests import LINK_BYTES
    from samepath.simulator.replay.replay import ReplayDiffersError

    recording.check_map()
    with request_of(recording) as request:
        again, repeat = record(request, engine_of(recording.simulator), log_every=recording.log_every, on_tick=on_tick)
    if again.digests != recording.digests:
        steps = min(again.steps, recording.steps)
        same = next((k for k in range(1, steps + 1) if again.digest_after(k) != recording.digest_after(k)), steps + 1)
        what = f"step {same} of {len(recording.digests) // LINK_BYTES} came out differently"
        raise ReplayDiffersError(f"{name}: {what} from what was recorded; made with {_words(recording)}, here {_words(again)}")
    if recording.trace_digest and again.trace_digest != recording.trace_digest:
        raise ReplayDiffersError(f"{name}: every state is as it was, but events, resampled states or the end are not")
    came, wanted = ({(frame.tick, frame.sensor, frame.digest) for frame in run.sensors} for run in (again, recording))
    if recording.sensors and came != wanted:
        tick, sensor, _ = min(came ^ wanted)
        raise ReplayDiffersError(f"{name}: sensor {sensor} measured something else at tick {tick} than was recorded")
    return CheckedRecording(again.steps, len(came), repeat)


def _words(recording: "RunRecording") -> str:
    return ", ".join(f"{name} {version}" for name, version in recording.made_by.items())


def is_recording(path: Path) -> bool:
    """Does a file begin as a recording does?"""
    from samepath.simulator.replay.recording import is_recording as begins_so

    return begins_so(path)


def read(path: Path) -> "RunRecording":
    """Read the recording of a run from its file."""
    from samepath.simulator.replay.recording import read_run

    return read_run(path)


def check_file(path: Path) -> tuple[int, int]:
    """Play the recording in a file, of a run or of a server, with all that rode along; return its steps and sensor frames."""
    from samepath.simulator.replay.replay import open_file, recorded_run

    run = recorded_run(path)
    if run is not None:
        found = check(run, str(path))
        return found.steps, found.frames
    with open_file(path, sensors=True) as replay:
        replay.play()
        return replay.steps, replay.frames


def replay_of(recording: "RunRecording", name: str) -> "Replay":
    """Open a recording that is in memory."""
    from samepath.simulator.replay.replay import RunReplay

    return RunReplay(recording, name)


def open_replay(path: Path) -> "Replay":
    """Open a file, of a run or of what a server did."""
    from samepath.simulator.replay.replay import open_file

    return open_file(path)
