"""A simulator with other defaults: what it knows and does is the same, what it does unasked is not."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from samepath.base.suggest import unknown
from samepath.simulators.interface import CommandLog, RunRequest, Scalar, Simulator, SimulatorInfo, no_tick
from samepath.traces.recorder import Recorder


class Preset(Simulator):
    """``simulator`` with ``settings`` as its defaults and, if any are given, only some of its ``scenarios``."""

    def __init__(self, simulator: Simulator, settings: Mapping[str, Scalar], scenarios: Sequence[str] = ()) -> None:
        self._simulator = simulator
        known = simulator.info()
        for name in settings:
            if name not in known.settings:
                raise unknown(f"setting of {known.name}", name, known.settings)
        info = simulator.described(settings)
        for name in scenarios:
            if name not in info.scenarios:
                raise unknown(f"scenario of {info.name}", name, info.scenarios)
        self._settings = dict(settings)
        self._scenarios = tuple(dict.fromkeys(scenarios)) or info.scenarios

    def info(self) -> SimulatorInfo:
        """Describe the simulator, with these defaults."""
        return self.described({})

    def described(self, settings: Mapping[str, Scalar]) -> SimulatorInfo:
        """Describe the simulator, with these defaults, under settings."""
        info = self._simulator.described({**self._settings, **settings})
        return replace(info, settings={**info.settings, **self._settings}, scenarios=self._scenarios)

    def unavailable(self, settings: Mapping[str, Scalar]) -> str:
        """Ask with these defaults."""
        return self._simulator.unavailable({**self._settings, **settings})

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        """Run with these defaults."""
        self._simulator.run(self._with_defaults(request), recorder, on_tick)

    def prepare(self, request: RunRequest) -> None:
        """Prepare with these defaults."""
        self._simulator.prepare(self._with_defaults(request))

    def record_commands(self, request: RunRequest) -> CommandLog:
        """Record with these defaults."""
        return self._simulator.record_commands(self._with_defaults(request))

    def close(self) -> None:
        """Let go of the simulator."""
        self._simulator.close()

    def _with_defaults(self, request: RunRequest) -> RunRequest:
        return replace(request, settings={**self._settings, **request.settings})
