"""The adapter of Godot 3: a small project of ours, run headless, in a new process for every repeat."""

from collections.abc import Callable, Mapping

from samepath.base.errors import SimulatorError
from samepath.simulators.godot.engine import CHANNELS, Contact, Ended, Frames, Reader, Told, first_contacts
from samepath.simulators.godot.process import GodotProcess, find_godot, version_of, why_not
from samepath.simulators.godot.scene import check_script
from samepath.simulators.godot.settings import PHYSICS, SETTINGS, TICK_S, GodotSettings, read_settings
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
from samepath.traces.recorder import Recorder


class Godot(Simulator):
    """Godot 3 with its physics engine Bullet; ``defaults`` replace those of the settings.

    In synchronous mode it repeats itself to the bit; in the game loop it promises nothing.
    """

    def __init__(self, defaults: Mapping[str, Scalar] | None = None) -> None:
        self._defaults = {**SETTINGS, **(defaults or {})}

    def info(self) -> SimulatorInfo:
        """Describe the simulator; where there is no Godot, its version says so."""
        return self.described({})

    def described(self, settings: Mapping[str, Scalar]) -> SimulatorInfo:
        """Describe it under settings: the version is that of the program, and only synchronous is deterministic."""
        known = {name: value for name, value in settings.items() if name in self._defaults}
        read = read_settings({**self._defaults, **known})
        return SimulatorInfo(
            name="godot",
            version=_version(read),
            summary="two cars of Godot 3's Bullet physics, headless: synchronous, or a game loop on the wall clock",
            scenarios=CAR_SCENARIOS,
            step_s=TICK_S,
            channels=CHANNELS,
            capabilities=Capabilities(deterministic=read.synchronous, lossless=True, collisions=True, durations=True),
            settings=self._defaults,
        )

    def unavailable(self, settings: Mapping[str, Scalar]) -> str:
        """Say that Godot is not installed, or is another than the project is written for."""
        return why_not(read_settings({**self._defaults, **settings}))

    def prepare(self, request: RunRequest) -> None:
        """Read the scenario and Godot's version."""
        from samepath.simulators.scripts import read_script

        self.described(request.settings)
        read_script(request.scenario)

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        """Run a scenario in a Godot of its own."""
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
        reader = Reader(script.roles)
        with GodotProcess(request.scenario, script, settings, last_tick(info, request)) as godot:
            _record(godot, reader, numbers, settings, recorder, on_tick)


def _record(
    godot: GodotProcess,
    reader: Reader,
    numbers: list[int],
    settings: GodotSettings,
    recorder: Recorder,
    on_tick: Callable[[int], None],
) -> None:
    """Follow a run from its first tick to its end, then record it."""
    contacts: list[Contact] = []
    tick, frames, ended = 0, Frames(0, 0, 0), ""
    while not ended:
        line = godot.line()
        try:
            item = reader.read(line)
        except SimulatorError:
            godot.check_helpers()  # a line that was cut off has a reason
            raise
        if isinstance(item, Told):
            for told in item.ticks:
                if told != tick + 1:
                    raise SimulatorError(f"Godot wrote tick {told} where tick {tick + 1} was wanted")
                tick = told
                on_tick(tick)
        elif isinstance(item, Contact):
            contacts.append(item)
        elif isinstance(item, Frames):
            frames = item
        elif isinstance(item, Ended):
            ended = item.reason
    godot.finish()
    if settings.drawn and frames.most_drawn == 0:
        raise SimulatorError(f"Godot drew nothing in {frames.count} frames: look whether OpenGL works, or take rendering none")
    recorder.block(range(1, tick + 1), numbers, reader.rows())
    for one in first_contacts(contacts):
        recorder.event(min(one.tick, tick), "collision", one.actor, one.other, one.impulse_ns)
    # Where the controllers hang on frames, how these fell is part of what happened; elsewhere it reaches nothing.
    if not settings.synchronous and settings.controller != PHYSICS:
        words = f"{frames.count} frames, at most {frames.most_steps} physics steps in one"
        recorder.event(tick, "frames", detail=words)
    recorder.end(tick, ended)


def _version(settings: GodotSettings) -> str:
    try:
        return version_of(find_godot(settings.program, drawn=settings.drawn))
    except SimulatorError:
        return "not installed"
