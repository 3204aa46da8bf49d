"""The adapter of MetaDrive: a small project of ours in its own interpreter, in a new process for every repeat."""

from collections.abc import Callable, Mapping

from samepath.base.errors import SimulatorError
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
from samepath.simulators.metadrive.process import NAME, find_python, playing, version_of, why_not
from samepath.simulators.metadrive.scene import check_script
from samepath.simulators.metadrive.settings import SETTINGS, STEPS_PER_TICK, TICK_S, read_settings
from samepath.simulators.processes.axes import CAR, CHANNELS, rows
from samepath.simulators.processes.telling import REASONS, Reader, first_contacts
from samepath.traces.recorder import Recorder


class MetaDrive(Simulator):
    """MetaDrive 0.3 with its physics engine Bullet; ``defaults`` replace those of the settings.

    In synchronous mode it repeats itself to the bit; in the game loop it promises nothing.
    """

    def __init__(self, defaults: Mapping[str, Scalar] | None = None) -> None:
        self._defaults = {**SETTINGS, **(defaults or {})}

    def info(self) -> SimulatorInfo:
        """Describe the simulator; where there is no MetaDrive, its version says so."""
        return self.described({})

    def described(self, settings: Mapping[str, Scalar]) -> SimulatorInfo:
        """Describe it under settings: the version is that of its environment, and only synchronous is deterministic."""
        known = {name: value for name, value in settings.items() if name in self._defaults}
        read = read_settings({**self._defaults, **known})
        return SimulatorInfo(
            name="metadrive",
            version=_version(read.python),
            summary="two of MetaDrive's vehicles on its open plain: synchronous, or a game loop on the wall clock",
            scenarios=CAR_SCENARIOS,
            step_s=TICK_S,
            channels=CHANNELS,
            capabilities=Capabilities(deterministic=read.synchronous, lossless=True, collisions=True, durations=True),
            settings=self._defaults,
        )

    def unavailable(self, settings: Mapping[str, Scalar]) -> str:
        """Say that MetaDrive is not installed, or is another than the project is written for."""
        return why_not(str({**self._defaults, **settings}["python"]).strip())

    def prepare(self, request: RunRequest) -> None:
        """Read the scenario and MetaDrive's version."""
        from samepath.simulators.scripts import read_script

        self.described(request.settings)
        read_script(request.scenario)

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        """Run a scenario in a MetaDrive of its own."""
        info = self.described(request.settings)
        settings = read_settings(check_scripted_request(info, request))
        reason = why_not(settings.python)
        if reason:
            raise SimulatorError(reason)
        from samepath.simulators.scripts import read_script

        script = check_script(read_script(request.scenario))
        numbers = [role.number for role in script.roles]
        for role in script.roles:
            recorder.actor(role.number, role.type)
        reader = Reader(NAME, CAR, numbers, STEPS_PER_TICK, REASONS)
        with playing(script, settings, last_tick(info, request)) as metadrive:
            followed = metadrive.follow(reader, on_tick)
        recorder.block(range(1, followed.tick + 1), numbers, rows(reader.cars()))
        for one in first_contacts(followed.contacts):
            recorder.event(min(one.tick, followed.tick), "collision", one.actor, one.other, one.impulse_ns)
        if followed.frames is not None:
            recorder.event(followed.tick, "frames", detail=followed.frames.words)
        recorder.end(followed.tick, followed.reason)


def _version(python: str) -> str:
    try:
        return version_of(find_python(python))
    except SimulatorError:
        return "not installed"
