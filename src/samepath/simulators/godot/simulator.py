"""The adapter of Godot 3: a small project of ours, run headless, in a new process for every repeat."""

from collections.abc import Callable, Mapping

from samepath.base.errors import SimulatorError
from samepath.simulators.godot.engine import reader_of, states
from samepath.simulators.godot.process import find_godot, playing, version_of, why_not
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
from samepath.simulators.processes.axes import CHANNELS
from samepath.simulators.processes.telling import Frames, first_contacts
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
        reader = reader_of(script.roles)
        with playing(request.scenario, script, settings, last_tick(info, request)) as godot:
            followed = godot.follow(reader, on_tick)
        frames = followed.frames or Frames(0, 0)
        if settings.drawn and frames.most_drawn == 0:
            raise SimulatorError(
                f"Godot drew nothing in {frames.count} frames: look whether OpenGL works, or take rendering none"
            )
        recorder.block(range(1, followed.tick + 1), numbers, states(reader, script.roles))
        for one in first_contacts(followed.contacts):
            recorder.event(min(one.tick, followed.tick), "collision", one.actor, one.other, one.impulse_ns)
        # Where the controllers hang on frames, how these fell is part of what happened; elsewhere it reaches nothing.
        if not settings.synchronous and settings.controller != PHYSICS:
            recorder.event(followed.tick, "frames", detail=frames.words)
        recorder.end(followed.tick, followed.reason)


def _version(settings: GodotSettings) -> str:
    try:
        return version_of(find_godot(settings.program, drawn=settings.drawn))
    except SimulatorError:
        return "not installed"
