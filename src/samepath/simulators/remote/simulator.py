"""The adapter that such programs share; each says what it is, reads its settings and sets up a world."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar

from samepath.base.clock import SYSTEM_CLOCK, Clock
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
from samepath.simulators.playing.simulator import installed_version, numbers, read_plain_script
from samepath.simulators.playing.world import CONTROLS
from samepath.simulators.remote.settings import SETTINGS, TICK_S, RemoteSettings
from samepath.simulators.remote.world import RemoteWorld
from samepath.simulators.resampling import RESAMPLING
from samepath.simulators.scripts import Script, moved
from samepath.traces.channels import POSITION, ROTATION, VELOCITY
from samepath.traces.recorder import Recorder


class RemoteSimulator(Simulator):
    """A program of somebody else's, through its published client; ``defaults`` replace those of the settings.

    It promises no bits, whatever its mode: no vendor does, and none was measured. A subclass says what it is, and which
    ``package`` of which version the client is; its name is that of the extra too.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    package: ClassVar[str]
    oldest: ClassVar[tuple[int, ...]]
    own_settings: ClassVar[Mapping[str, Scalar]]

    def __init__(self, defaults: Mapping[str, Scalar] | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._defaults = {**SETTINGS, **self.own_settings, **(defaults or {})}
        self._clock = clock

    @abstractmethod
    def read(self, values: Mapping[str, Scalar]) -> RemoteSettings:
        """Check a study's plain values."""

    @abstractmethod
    def reachable(self, settings: RemoteSettings) -> str:
        """Say in one line why the program cannot be reached or started; nothing where it can."""

    @abstractmethod
    def world(self, script: Script, settings: RemoteSettings) -> RemoteWorld:
        """Set up a script in the program; the client is imported here and not before."""

    def info(self) -> SimulatorInfo:
        """Describe the simulator; neither the client nor the program is needed."""
        return self.described({})

    def described(self, settings: Mapping[str, Scalar]) -> SimulatorInfo:
        """Describe it in a mode: what does not stand still at ticks is resampled."""
        known = {name: value for name, value in settings.items() if name in self._defaults}
        exact = self.read({**self._defaults, **known}).exact
        resampled = () if exact else (RESAMPLING,)
        return SimulatorInfo(
            name=self.name,
            version=f"client {self.package} {installed_version(self.package) or 'not installed'}",
            summary=self.summary,
            scenarios=CAR_SCENARIOS,
            step_s=TICK_S,
            channels=(*POSITION, *ROTATION, *VELOCITY, *resampled, *CONTROLS),
            capabilities=Capabilities(deterministic=False, lossless=exact, collisions=True, durations=True),
            settings=self._defaults,
        )

    def unavailable(self, settings: Mapping[str, Scalar]) -> str:
        """Say what is missing: the client, a version of it, or the program."""
        known = {name: value for name, value in settings.items() if name in self._defaults}
        read = self.read({**self._defaults, **known})
        how = f"pip install 'samepath[{self.name}]'"
        version = installed_version(self.package)
        if not version:
            return f"{self.package} is not installed: {how}"
        if numbers(version) < self.oldest:
            return f"{self.package} {'.'.join(map(str, self.oldest))} or newer was wanted, but {version} is installed: {how}"
        return self.reachable(read)

    def prepare(self, request: RunRequest) -> None:
        """Read the scenario; the client is not imported, because it has threads and loops that must not be forked."""
        read_plain_script(request.scenario)

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        """Run a scenario in the program, set up anew."""
        info = self.described(request.settings)
        values = check_scripted_request(info, request)
        missing = self.unavailable(values)
        if missing:
            raise SimulatorError(missing)
        from samepath.simulators.remote.performance import RemotePerformance

        settings = self.read(values)
        script = read_plain_script(request.scenario)
        if settings.anchor is not None:
            script = moved(script, settings.anchor)
        world = self.world(script, settings)
        try:
            RemotePerformance(world, script, settings, recorder, on_tick, last_tick(info, request)).play(self._clock)
        finally:
            world.close()
