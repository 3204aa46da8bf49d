"""The adapter of CARLA: scenarios driven through the official client, on any server of the same version."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import metadata
from typing import Final

from samepath.base.errors import SimulatorError
from samepath.simulators.carla.settings import SETTINGS, TICK_S, read_settings
from samepath.simulators.interface import (
    Capabilities,
    RunRequest,
    Scalar,
    Simulator,
    SimulatorInfo,
    check_scripted_request,
    last_tick,
    no_tick,
)
from samepath.traces.channels import STANDARD
from samepath.traces.recorder import Recorder

AUTOPILOT: Final = "autopilot"
SCENARIOS: Final = (*(f"table1-test{number}" for number in range(1, 7)), AUTOPILOT)


class Carla(Simulator):
    """A CARLA server, found at ``host`` and ``port``; ``defaults`` replace those of the settings.

    It promises no bits, whatever the settings: whether a server repeats itself is what a study finds out. The numbers are the
    client's own, 32-bit floats; there are no finer ones to be had.
    """

    def __init__(self, defaults: Mapping[str, Scalar] | None = None) -> None:
        self._defaults = {**SETTINGS, **(defaults or {})}

    def info(self) -> SimulatorInfo:
        """Describe the simulator; neither the client nor a server is needed."""
        return SimulatorInfo(
            name="carla",
            version=f"client {_client_version()}",
            summary="any CARLA 0.9.x server, through the official client: promises nothing",
            scenarios=SCENARIOS,
            step_s=TICK_S,
            channels=STANDARD,
            capabilities=Capabilities(deterministic=False, lossless=True, collisions=True, durations=True),
            settings=self._defaults,
        )

    def unavailable(self, settings: Mapping[str, Scalar]) -> str:
        """Is the client installed, and does a server answer?"""
        from samepath.simulators.carla.link import find_client, find_server

        known = {name: value for name, value in settings.items() if name in self._defaults}
        read = read_settings({**self._defaults, **known})
        try:
            find_client()
            find_server(read)
        except SimulatorError as error:
            return str(error)
        return ""

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        """Run a scenario on the server, from a freshly loaded world if the settings ask for one."""
        info = self.info()
        values = check_scripted_request(info, request)
        settings = read_settings(values)
        from samepath.simulators.carla.link import import_client
        from samepath.simulators.carla.performance import perform
        from samepath.simulators.carla.script import read_script

        script = None if request.scenario == AUTOPILOT else read_script(request.scenario)
        perform(import_client(), settings, script, request.seed, last_tick(info, request), recorder, on_tick)


@cache
def _client_version() -> str:
    try:
        return metadata.version("carla")
    except metadata.PackageNotFoundError:
        return "not installed"
