"""The adapter of Babylon.js: a small project of ours on Node, in a new process for every repeat."""

from collections.abc import Callable, Mapping

from samepath.base.errors import SimulatorError
from samepath.simulators.babylon.engine import CHANNELS, RESAMPLED_CHANNELS, Ended, Reader, Told
from samepath.simulators.babylon.process import playing, version_words, why_not
from samepath.simulators.babylon.scene import check_script
from samepath.simulators.babylon.settings import FRAME, LOCKSTEP, SETTINGS, TICK_S, BabylonSettings, read_settings
from samepath.simulators.interface import (
    CAR_SCENARIOS,
    Capabilities,
    RunRequest,
    Scalar,
    Simulator,
    SimulatorInfo,
    check_scripted_request,
    last_tick,
    no_tick,
)
from samepath.simulators.processes.telling import Contact, Frames, Project
from samepath.traces.recorder import Recorder


class Babylon(Simulator):
    """Babylon.js with its physics engine Havok; ``defaults`` replace those of the settings.

    In synchronous mode it repeats itself to the bit; in its own loops it promises nothing.
    """

    def __init__(self, defaults: Mapping[str, Scalar] | None = None) -> None:
        self._defaults = {**SETTINGS, **(defaults or {})}

    def info(self) -> SimulatorInfo:
        """Describe the simulator; where there is no Babylon.js, its version says so."""
        return self.described({})

    def described(self, settings: Mapping[str, Scalar]) -> SimulatorInfo:
        """Describe it under settings: only synchronous promises bits, only the engine's defaults are resampled."""
        read = self._read(settings)
        return SimulatorInfo(
            name="babylon",
            version=version_words(read),
            summary="cars of Babylon.js with Havok, headless: synchronous, engine defaults or deterministic lockstep",
            scenarios=CAR_SCENARIOS,
            step_s=TICK_S,
            channels=RESAMPLED_CHANNELS if read.stretched else CHANNELS,
            capabilities=Capabilities(
                deterministic=read.synchronous, lossless=not read.stretched, collisions=True, durations=True
            ),
            settings=self._defaults,
        )

    def unavailable(self, settings: Mapping[str, Scalar]) -> str:
        """Say what is not installed, or is another than the project is written for."""
        return why_not(self._read(settings))

    def _read(self, settings: Mapping[str, Scalar]) -> BabylonSettings:
        known = {name: value for name, value in settings.items() if name in self._defaults}
        return read_settings({**self._defaults, **known})

    def prepare(self, request: RunRequest) -> None:
        """Read the scenario and the engine's version."""
        from samepath.simulators.scripts import read_script

        self.described(request.settings)
        read_script(request.scenario)

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        """Run a scenario in a Node of its own."""
        info = self.described(request.settings)
        values = check_scripted_request(info, request)
        settings = read_settings(values)
        reason = why_not(settings)
        if reason:
            raise SimulatorError(reason)
        from samepath.simulators.scripts import read_script

        script = check_script(read_script(request.scenario))
        numbers = [role.number for role in script.roles]
        for role in script.roles:
            recorder.actor(role.number, role.type)
        reader = Reader(script.roles, stretched=settings.stretched)
        until = last_tick(info, request)
        most = min(round(script.duration_s / TICK_S), until or round(script.duration_s / TICK_S))
        with playing(script, settings, until) as node:
            _record(node, reader, numbers, settings, most, recorder, on_tick)


def _record(
    node: Project,
    reader: Reader,
    numbers: list[int],
    settings: BabylonSettings,
    most: int,
    recorder: Recorder,
    on_tick: Callable[[int], None],
) -> None:
    """Follow a run from its first tick to its end, then record it; a frame may reach beyond its last tick, ``most``."""
    contacts: list[Contact] = []
    tick, frames, ended = 0, Frames(0, 0), None
    while ended is None:
        item = reader.read(node.line())
        if isinstance(item, Told):
            while tick < min(item.tick, most):
                tick += 1
                on_tick(tick)
        elif isinstance(item, Contact):
            contacts.append(item)
        elif isinstance(item, Frames):
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
