"""The adapter of any program: what it is under a study's settings, and one run of it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from samepath.core.errors import SamepathError, SimulatorError
from samepath.engines.command.engine import play, version_of
from samepath.engines.command.settings import SETTINGS, CommandSettings, read_settings
from samepath.engines.interface import (
    Capabilities,
    RunRequest,
    Scalar,
    Simulator,
    SimulatorInfo,
    check_request,
    last_tick,
    no_tick,
)
from samepath.instrument.traces.recorder import Recorder


class CommandSimulator(Simulator):
    """A program of anybody's, described by settings; ``defaults`` replace those of the settings.

    What it promises is what the settings say. Runs end at a duration, because rows after it are not taken.
    """

    def __init__(self, defaults: Mapping[str, Scalar] | None = None) -> None:
        self._defaults = {**SETTINGS, **(defaults or {})}

    def info(self) -> SimulatorInfo:
        """Describe the simulator; no program is needed."""
        return self.described({})

    def described(self, settings: Mapping[str, Scalar]) -> SimulatorInfo:
        """Describe the program that the settings name."""
        read = self._read(settings)
        try:
            version = version_of(read) if read.program else "no program"
        except SamepathError:
            version = "not installed"
        return self._info(read, version)

    def _info(self, read: CommandSettings, version: str) -> SimulatorInfo:
        return SimulatorInfo(
            name="command",
            version=version,
            summary="any program that takes a scenario and writes a trace, to stdout or into a file",
            scenarios=read.scenarios or _our_scenarios(),
            step_s=read.step_s,
            channels=read.recorded,
            capabilities=Capabilities(read.deterministic, read.lossless and not read.resample, collisions=True, durations=True),
            settings=self._defaults,
        )

    def unavailable(self, settings: Mapping[str, Scalar]) -> str:
        """Is the program there, and does it tell its version?"""
        try:
            version_of(self._read(settings))
        except SimulatorError as error:
            return str(error)
        return ""

    def prepare(self, request: RunRequest) -> None:
        """Ask for the version once, for all runs."""
        self.described(request.settings)

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        """Run the program once."""
        read = self._read(request.settings)
        info = self._info(read, "not asked for")
        is_file = request.scenario not in info.scenarios and Path(request.scenario).is_file()
        check_request(info, replace(request, scenario=info.scenarios[0]) if is_file else request)
        play(read, request, last_tick(info, request), recorder, on_tick)

    def _read(self, settings: Mapping[str, Scalar]) -> CommandSettings:
        # What is not known is refused where a run is asked for, by its name.
        return read_settings({**self._defaults, **{name: settings[name] for name in settings if name in self._defaults}})


def _our_scenarios() -> tuple[str, ...]:
    from samepath.scenarios.scripts import script_names  # which loads more than a program with its own scenarios needs

    return script_names()
