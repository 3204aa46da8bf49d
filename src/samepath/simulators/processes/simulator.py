"""A simulator that is a program with a project of ours in it, which plays scripts: what all of these have in common."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Generic, Protocol, TypeVar

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
from samepath.simulators.processes.axes import CHANNELS
from samepath.simulators.scripts import Script, read_script
from samepath.traces.recorder import Recorder


class ProgramSettings(Protocol):
    """What is asked of the settings of any such program."""

    @property
    def synchronous(self) -> bool:
        """Does it step when it is told to, and never by the wall clock?"""
        ...


S = TypeVar("S", bound=ProgramSettings)


class ScriptedProgram(Simulator, Generic[S]):
    """A program that is started for every repeat; ``defaults`` replace those of the settings.

    Only in synchronous mode it promises bits.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    known: ClassVar[Mapping[str, Scalar]]
    tick_s: ClassVar[float]

    def __init__(self, defaults: Mapping[str, Scalar] | None = None) -> None:
        self._defaults = {**self.known, **(defaults or {})}

    @abstractmethod
    def read(self, values: Mapping[str, Scalar]) -> S:
        """Check a study's plain values."""

    @abstractmethod
    def version(self, settings: S) -> str:
        """Return the program's version; raises where it is not installed."""

    @abstractmethod
    def why_not(self, settings: S) -> str:
        """Say why no run is possible; nothing where one is."""

    @abstractmethod
    def check(self, script: Script) -> Script:
        """Refuse what the project cannot play."""

    @abstractmethod
    def play(
        self,
        request: RunRequest,
        script: Script,
        settings: S,
        until: int | None,
        recorder: Recorder,
        on_tick: Callable[[int], None],
    ) -> None:
        """Run a script in a program of its own, and record it; actors are announced already."""

    def channels(self, settings: S) -> tuple[str, ...]:
        """Return what is recorded."""
        return CHANNELS

    def lossless(self, settings: S) -> bool:
        """Are the program's own numbers recorded?"""
        return True

    def info(self) -> SimulatorInfo:
        """Describe the simulator; where the program is missing, its version says so."""
        return self.described({})

    def described(self, settings: Mapping[str, Scalar]) -> SimulatorInfo:
        """Describe it under settings."""
        read = self._read(settings)
        try:
            version = self.version(read)
        except SimulatorError:
            version = "not installed"
        return SimulatorInfo(
            name=self.name,
            version=version,
            summary=self.summary,
            scenarios=CAR_SCENARIOS,
            step_s=self.tick_s,
            channels=self.channels(read),
            capabilities=Capabilities(
                deterministic=read.synchronous, lossless=self.lossless(read), collisions=True, durations=True
            ),
            settings=self._defaults,
        )

    def unavailable(self, settings: Mapping[str, Scalar]) -> str:
        """Say that the program is not installed, or is another than the project is written for."""
        return self.why_not(self._read(settings))

    def _read(self, settings: Mapping[str, Scalar]) -> S:
        # What is not known is refused where a run is asked for, by its name.
        return self.read({**self._defaults, **{name: settings[name] for name in settings if name in self._defaults}})

    def prepare(self, request: RunRequest) -> None:
        """Read the scenario and the program's version."""
        self.described(request.settings)
        read_script(request.scenario)

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        """Run a scenario in a program of its own."""
        info = self.described(request.settings)
        settings = self.read(check_scripted_request(info, request))
        reason = self.why_not(settings)
        if reason:
            raise SimulatorError(reason)
        script = self.check(read_script(request.scenario))
        for role in script.roles:
            recorder.actor(role.number, role.type)
        self.play(request, script, settings, last_tick(info, request), recorder, on_tick)
