"""The adapter of CARLA: scenarios driven through the official client, on any server of the same version."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Final

from samepath.core.channels import RESAMPLING, STANDARD
from samepath.core.errors import InputError, SimulatorError
from samepath.engines.interface import (
    Capabilities,
    RunRequest,
    Scalar,
    Simulator,
    SimulatorInfo,
    check_scripted_request,
    choice,
    last_tick,
    no_tick,
    number,
    switch,
    whole,
    word,
)
from samepath.instrument.traces.recorder import Recorder

# The tick of a trace, whatever the step of the server, so that cells with other steps can be compared.
TICK_S: Final = 0.05
# Above the rounding of a quotient of steps, far below any step.
_ROUNDING: Final = 1e-9
# The map a scenario was written for: by its name where the server has it, else built from OpenDRIVE; always built; or whatever
# is loaded. Any other word is the name of a map of the server.
SCENARIO_MAP: Final = "scenario"
OPENDRIVE_MAP: Final = "opendrive"
CURRENT_MAP: Final = "current"
RELOADS: Final = ("world", "none")

SETTINGS: Final[Mapping[str, Scalar]] = {
    "host": "127.0.0.1",
    "port": 2000,
    "timeout_s": 20.0,
    "any_version": False,
    "map": SCENARIO_MAP,
    "anchor": "",
    "synchronous": True,
    "fixed_delta_s": TICK_S,
    "substeps": 10,
    "max_substep_s": 0.01,
    "deterministic_ragdolls": True,
    "no_rendering": False,
    "reload": "world",
    "batch": True,
    "lead_s": 0.5,
    "settle_s": 1.0,
    "remove_after_s": 0.5,
    "sensor_wait_s": 0.1,
    "sensors": "",
    "sensor_samples": 20,
    "vehicles": 10,
    "traffic_manager_port": 0,
    "tm_seed": -1,
    "hybrid_physics": False,
}


@dataclass(frozen=True)
class CarlaSettings:
    """What a study may vary about a CARLA server and the way it is used, checked.

    Each default is what CARLA's documentation asks for. CARLA promises to repeat itself if time is synchronous with a fixed
    step from before the world is loaded, the world is loaded anew for every repeat, commands come in batches, and the traffic
    manager is synchronous and seeded.

    ``fixed_delta_s`` 0 is a variable step, ``substeps`` 0 no substeps, a port of 0 any free one.
    """

    host: str
    port: int
    timeout_s: float
    any_version: bool
    map: str
    anchor: str
    synchronous: bool
    fixed_delta_s: float
    substeps: int
    max_substep_s: float
    deterministic_ragdolls: bool
    no_rendering: bool
    reload: str
    batch: bool
    lead_s: float
    settle_s: float
    remove_after_s: float
    sensor_wait_s: float
    sensors: str
    sensor_samples: int
    vehicles: int
    traffic_manager_port: int
    tm_seed: int
    hybrid_physics: bool

    @property
    def is_fixed(self) -> bool:
        """Is every step of the server as long as the next?"""
        return self.fixed_delta_s > 0

    @property
    def frames_per_tick(self) -> int:
        """How many fixed steps are a tick of the trace."""
        return round(TICK_S / self.fixed_delta_s)

    @property
    def control_s(self) -> float:
        """How often controllers are asked; with a variable step, what they may expect."""
        return self.fixed_delta_s or TICK_S

    @property
    def address(self) -> str:
        """Where the server is."""
        return f"{self.host}:{self.port}"


def read_settings(values: Mapping[str, Scalar]) -> CarlaSettings:
    """Check a study's plain values, each alone and then against each other."""
    read = CarlaSettings(
        host=word(values, "host"),
        port=whole(values, "port", 1, 65534),
        timeout_s=number(values, "timeout_s", 0.1, 3600.0),
        any_version=switch(values, "any_version"),
        map=word(values, "map"),
        anchor=str(values["anchor"]),
        synchronous=switch(values, "synchronous"),
        fixed_delta_s=number(values, "fixed_delta_s", 0.0, TICK_S),
        substeps=whole(values, "substeps", 0, 16),
        max_substep_s=number(values, "max_substep_s", 1e-4, 1.0),
        deterministic_ragdolls=switch(values, "deterministic_ragdolls"),
        no_rendering=switch(values, "no_rendering"),
        reload=choice(values, "reload", RELOADS),
        batch=switch(values, "batch"),
        lead_s=number(values, "lead_s", 0.0, 60.0),
        settle_s=number(values, "settle_s", 0.0, 60.0),
        remove_after_s=number(values, "remove_after_s", TICK_S, 60.0),
        sensor_wait_s=number(values, "sensor_wait_s", 0.0, 60.0),
        sensors="" if values["sensors"] == "none" else str(values["sensors"]),
        sensor_samples=whole(values, "sensor_samples", 0, 1_000_000),
        vehicles=whole(values, "vehicles", 1, 1000),
        traffic_manager_port=whole(values, "traffic_manager_port", 0, 65535),
        tm_seed=whole(values, "tm_seed", -1, 2**32 - 1),
        hybrid_physics=switch(values, "hybrid_physics"),
    )
    _check_step(read)
    return read


def _check_step(settings: CarlaSettings) -> None:
    delta_s = settings.fixed_delta_s
    if settings.synchronous and not settings.is_fixed:
        raise InputError(
            "fixed_delta_s: synchronous mode needs a fixed step, such as 0.05, but 0 came: give one, or synchronous: false"
        )
    if not settings.is_fixed:
        return
    frames = TICK_S / delta_s
    if abs(frames - round(frames)) > _ROUNDING * frames:
        raise InputError(
            f"fixed_delta_s: a whole part of {TICK_S} s was wanted, such as 0.05, 0.025 or 0.01, but {delta_s:g} came"
        )
    if settings.substeps and settings.substeps * settings.max_substep_s < delta_s * (1 - _ROUNDING):
        raise InputError(
            f"substeps: physics needs substeps * max_substep_s of at least fixed_delta_s, but {settings.substeps} * "
            f"{settings.max_substep_s:g} s is less than {delta_s:g} s: raise one of the first two"
        )


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
        return self.described({})

    def described(self, settings: Mapping[str, Scalar]) -> SimulatorInfo:
        """Describe it with a step: a variable one is resampled, of a fixed one the log has the client's own numbers."""
        values = {**self._defaults, **settings}
        is_fixed = values["fixed_delta_s"] != 0
        return SimulatorInfo(
            name="carla",
            version=f"client {_client_version()}",
            summary="any CARLA 0.9.x server, through the official client: promises nothing",
            scenarios=SCENARIOS,
            step_s=TICK_S,
            channels=STANDARD if is_fixed else (*STANDARD, RESAMPLING),
            capabilities=Capabilities(deterministic=False, lossless=is_fixed, collisions=True, durations=True),
            settings=self._defaults,
            time_scale=None if values["synchronous"] else 1.0,
        )

    def unavailable(self, settings: Mapping[str, Scalar]) -> str:
        """Is the client installed, and does a server answer?"""
        from samepath.engines.carla.engine import find_client, find_server

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
        from samepath.engines.carla.engine import import_client, read_script
        from samepath.engines.carla.run import run_on_server

        script = None if request.scenario == AUTOPILOT else read_script(request.scenario)
        run_on_server(import_client(), settings, script, request.seed, last_tick(info, request), recorder, on_tick)


@cache
def _client_version() -> str:
    try:
        return metadata.version("carla")
    except metadata.PackageNotFoundError:
        return "not installed"
