"""Recordings of runs, made from what a study keeps: the request, what went in, and the trace that came of it.

A study needs no option for that. Its traces hold the inputs of every repeat, and in lockstep there are none but those from
outside, so that any repeat can be played again later and written to a file of its own. While that is done its states, events
and sensor frames are held against the stored trace: a recording of something else is never written.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from samepath.core.digests import first_link, link
from samepath.core.errors import InputError, SimulatorError
from samepath.engines.interface import RunRequest, Simulator, check_scripted_request, last_tick, no_tick
from samepath.engines.samepath.game_loop import SamepathGameLoop
from samepath.engines.samepath.simulator import (
    STEP_S,
    EmbeddedSimulator,
    KeptSteps,
    Samepath,
    Sensing,
    checked_scenario,
    rig_text,
    run_time_s,
    steps_per_tick,
)
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.records import Repeat

if TYPE_CHECKING:
    from samepath.simulator.replay.recording import RunRecording

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
    return [(frame.tick, frame.sensor, frame.digest) for frame in repeat.sensors]


def engine_of(name: str) -> EmbeddedSimulator:
    """Return the adapter that a recording is played with."""
    if name not in ENGINES:
        raise InputError(f"recordings are kept of {' and '.join(ENGINES)}, but the run is one of {name!r}")
    return ENGINES[name]()


def record(request: RunRequest, simulator: Simulator, *, log_every: int = 1, origin: str = "") -> tuple["RunRecording", Repeat]:
    """Run once and return the recording and the trace; only for simulators of ours."""
    if not isinstance(simulator, EmbeddedSimulator):
        raise InputError(f"recordings are kept of {' and '.join(ENGINES)}, but {simulator.info().name} came")
    info = simulator.described(request.settings)
    recorder = Recorder(request.repeat, info.channels, info.step_s, log_every)
    kept = KeptSteps()
    simulator.play(request, recorder, None, no_tick, kept)
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
        sensors=tuple(SensorDigest(frame.tick, frame.sensor, frame.digest) for frame in repeat.sensors),
        origin=origin,
        made_by=versions(),
    )


@dataclass(frozen=True)
class CheckedRecording:
    """What was held against a recording, and was the same to the bit."""

    steps: int
    frames: int


def check(recording: "RunRecording", name: str, on_step: Callable[[int], None] = no_tick) -> CheckedRecording:
    """Play a recording with all that rode along; every step and every frame must be what was recorded."""
    from samepath.simulator.replay.replay import RunReplay
    from samepath.simulator.replay.timeline import Replay, ReplayDiffersError

    setup, info = recording.setup, engine_of(recording.simulator).described(recording.values)
    with RunReplay(recording, name) as replay:
        recorder = Recorder(0, info.channels, info.step_s, recording.log_every)
        rig, most = None, None if recording.duration_s is None else round(recording.duration_s / STEP_S)
        if recording.rig:
            from samepath.simulator.sensors.rig import parse_rig

            rig = parse_rig(recording.rig, f"{name}: rig")
        values = {**recording.values, "sensors": ""}
        sensing = Sensing(replay.simulation, recorder, values, STEP_S, most, rig)
        was_s = replay.time_s

        def follow(now: Replay) -> None:
            nonlocal was_s
            sensing.after_step(None if setup.loop.is_fixed else now.time_s - was_s)
            was_s = now.time_s
            on_step(now.position)

        try:
            replay.play(follow)
        finally:
            sensing.close()
        recorder.end(replay.tick, recording.ended)
        came = [(frame.tick, frame.sensor, frame.digest) for frame in recorder.finish().sensors]
    wanted = sorted((frame.tick, frame.sensor, frame.digest) for frame in recording.sensors)
    if sorted(came) != wanted:
        first = min(set(came) ^ set(wanted))
        raise ReplayDiffersError(f"{name}: sensor {first[1]} measured something else at tick {first[0]} than was recorded")
    return CheckedRecording(recording.steps, len(came))
