"""The adapter that engines in this process share; each says what it is and sets up a world."""

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from importlib import import_module, metadata
from typing import ClassVar

from samepath.base.clock import SYSTEM_CLOCK, Clock
from samepath.base.errors import InputError, SimulatorError
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
from samepath.simulators.playing.settings import SETTINGS, SYNCHRONOUS, TICK_S, VARIABLE_STEP, PlaySettings, read_settings
from samepath.simulators.playing.world import CONTROLS, World
from samepath.simulators.resampling import RESAMPLING
from samepath.simulators.scripts import Script, read_script
from samepath.traces.channels import POSITION, ROTATION, VELOCITY
from samepath.traces.recorder import Recorder

# Tests of Table I in which only vehicles move.


class EngineSimulator(Simulator):
    """An engine of somebody else's, installed with pip; ``defaults`` replace those of the settings, ``clock`` the machine's.

    A subclass says what it is, which package of which version it needs and which modes it has, and sets up a world; its name
    is that of the extra too, and ``channels`` are those of its world's states, in their order. Its module ``engine``, beside
    it, is the only one that imports the engine.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    package: ClassVar[str]
    oldest: ClassVar[tuple[int, ...]]
    modes: ClassVar[tuple[str, ...]]
    channels: ClassVar[tuple[str, ...]] = (*POSITION, *ROTATION, *VELOCITY)
    own_settings: ClassVar[Mapping[str, Scalar]] = {}

    def __init__(self, defaults: Mapping[str, Scalar] | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._defaults = {**SETTINGS, **self.own_settings, **(defaults or {})}
        self._clock = clock

    @abstractmethod
    def world(self, script: Script, settings: PlaySettings, values: Mapping[str, Scalar]) -> World:
        """Set up a script in the engine; the engine is imported here and not before."""

    def promises_bits(self, settings: PlaySettings, values: Mapping[str, Scalar]) -> bool:
        """Does the engine promise to repeat itself to the bit?"""
        return settings.mode == SYNCHRONOUS

    def info(self) -> SimulatorInfo:
        """Describe the simulator; the engine need not be there."""
        return self.described({})

    def described(self, settings: Mapping[str, Scalar]) -> SimulatorInfo:
        """Describe it in a mode: only synchronous steps promise bits, only variable ones are resampled."""
        values = {**self._defaults, **settings}
        read = read_settings(values, self.modes)
        resampled = (RESAMPLING,) if read.mode == VARIABLE_STEP else ()
        return SimulatorInfo(
            name=self.name,
            version=installed_version(self.package) or "not installed",
            summary=self.summary,
            scenarios=CAR_SCENARIOS,
            step_s=TICK_S,
            channels=(*self.channels, *resampled, *CONTROLS),
            capabilities=Capabilities(
                deterministic=self.promises_bits(read, values),
                lossless=read.mode != VARIABLE_STEP,
                collisions=True,
                durations=True,
            ),
            settings=self._defaults,
        )

    def unavailable(self, settings: Mapping[str, Scalar]) -> str:
        """Say what to install where the engine is missing or too old."""
        how = f"pip install 'samepath[{self.name}]'"
        version = installed_version(self.package)
        if not version:
            return f"{self.package} is not installed: {how}"
        if numbers(version) < self.oldest:
            return f"{self.package} {'.'.join(map(str, self.oldest))} or newer was wanted, but {version} is installed: {how}"
        return ""

    def prepare(self, request: RunRequest) -> None:
        """Read the scenario and import the engine."""
        read_plain_script(request.scenario)
        if not self.unavailable(request.settings):
            import_module(f"{type(self).__module__.rpartition('.')[0]}.engine")

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        """Run a scenario in a fresh world."""
        info = self.described({name: value for name, value in request.settings.items() if name in self._defaults})
        values = check_scripted_request(info, request)
        missing = self.unavailable(values)
        if missing:
            raise SimulatorError(missing)
        from samepath.simulators.playing.performance import Performance

        settings = read_settings(values, self.modes)
        script = read_plain_script(request.scenario)
        world = self.world(script, settings, values)
        try:
            Performance(world, script, settings, recorder, on_tick, last_tick(info, request)).play(self._clock)
        finally:
            world.close()


def read_plain_script(scenario: str) -> Script:
    """Read a script of vehicles that go on after a collision, at our tick: others need more than these engines are given."""
    script = read_script(scenario)
    where = f"scenario {script.name}"
    if script.step_s != TICK_S:
        raise InputError(f"{where}: a step of {TICK_S} s was wanted, but {script.step_s:g} s came")
    for role in script.roles:
        if role.kind != "vehicle" or role.after_collision != "go on":
            raise InputError(
                f"{where}: only vehicles that go on after a collision were wanted, but actor {role.number} is not one"
            )
    if script.boxes:
        raise InputError(f"{where}: no boxes were wanted: this engine is given a plain")
    return script


def installed_version(package: str) -> str:
    """Return a package's version, or nothing where it is not installed; it is not imported."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers a version begins with."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()
