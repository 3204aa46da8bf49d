"""The adapter of Babylon.js: a small project of ours on Node, in a new process for every repeat."""

from collections.abc import Callable, Mapping

from samepath.core.errors import SimulatorError
from samepath.engines.babylon.engine import (
    CHANNELS,
    FRAME,
    LOCKSTEP,
    RESAMPLED_CHANNELS,
    SETTINGS,
    TICK_S,
    BabylonReader,
    BabylonSettings,
    Ended,
    Told,
    check_script,
    playing,
    read_settings,
    version_words,
    why_not,
)
from samepath.engines.interface import RunRequest, Scalar
from samepath.engines.subprocess.project import FrameStats, ProjectProcess, SubprocessContact, SubprocessSimulator
from samepath.instrument.traces.recorder import Recorder
from samepath.scenarios.scripts import Script


class Babylon(SubprocessSimulator[BabylonSettings]):
    """Babylon.js with its physics engine Havok.

    In synchronous mode it repeats itself to the bit; in its own loops it promises nothing, and its defaults are resampled.
    """

    name = "babylon"
    summary = "cars of Babylon.js with Havok, headless: synchronous, engine defaults or deterministic lockstep"
    known = SETTINGS
    tick_s = TICK_S

    def read(self, values: Mapping[str, Scalar]) -> BabylonSettings:
        """Check a study's plain values."""
        return read_settings(values)

    def version(self, settings: BabylonSettings) -> str:
        """Ask Node, and read those of the modules."""
        return version_words(settings)

    def why_not(self, settings: BabylonSettings) -> str:
        """Say what is not installed, or is another than the project is written for."""
        return why_not(settings)

    def check(self, script: Script) -> Script:
        """Vehicles that go on after a collision, and boxes."""
        return check_script(script)

    def channels(self, settings: BabylonSettings) -> tuple[str, ...]:
        """Where steps are as long as frames took, how far off a state may be is recorded too."""
        return RESAMPLED_CHANNELS if settings.stretched else CHANNELS

    def lossless(self, settings: BabylonSettings) -> bool:
        """What is resampled is not."""
        return not settings.stretched

    def play(
        self,
        request: RunRequest,
        script: Script,
        settings: BabylonSettings,
        until: int | None,
        recorder: Recorder,
        on_tick: Callable[[int], None],
    ) -> None:
        """Run a script in a Node of its own."""
        numbers = [role.number for role in script.roles]
        reader = BabylonReader(script.roles, stretched=settings.stretched)
        most = min(round(script.duration_s / TICK_S), until or round(script.duration_s / TICK_S))
        with playing(script, settings, until) as node:
            _record(node, reader, numbers, settings, most, recorder, on_tick)


def _record(
    node: ProjectProcess,
    reader: BabylonReader,
    numbers: list[int],
    settings: BabylonSettings,
    most: int,
    recorder: Recorder,
    on_tick: Callable[[int], None],
) -> None:
    """Follow a run from its first tick to its end, then record it; a frame may reach beyond its last tick, ``most``."""
    contacts: list[SubprocessContact] = []
    tick, frames, ended = 0, FrameStats(0, 0), None
    while ended is None:
        item = reader.read(node.line())
        if isinstance(item, Told):
            while tick < min(item.tick, most):
                tick += 1
                on_tick(tick)
        elif isinstance(item, SubprocessContact):
            contacts.append(item)
        elif isinstance(item, FrameStats):
            frames = item
        elif isinstance(item, Ended):
            ended = item
    if tick < 1:
        raise SimulatorError("Babylon.js ended the run before its first tick")
    if ended.tick != tick:
        raise SimulatorError(f"Babylon.js ended the run at tick {ended.tick}, but had written {tick}")
    node.finish()
    values = reader.values()[:tick]
    recorder.block(range(1, len(values) + 1), numbers, values)
    for one in contacts:
        recorder.event(min(one.tick, tick), "collision", one.actor, one.other, one.impulse_ns)
    if reader.note:
        recorder.event(tick, "note", detail=reader.note)
    # Where the controllers hang on frames and physics does not, how these fell is part of what happened.
    if settings.mode == LOCKSTEP and settings.controller == FRAME:
        recorder.event(tick, "frames", detail=frames.words)
    recorder.end(tick, ended.reason)
