"""The adapter of SUMO: scripts of vehicles on lanes, in fixed steps or in a game loop, and streets with SUMO's own traffic."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from samepath.core.errors import InputError, SimulatorError
from samepath.engines.in_process import TICK_S, InProcessSettings, InProcessSimulator, InProcessWorld, read_settings
from samepath.engines.interface import (
    GAME_LOOP,
    SYNCHRONOUS,
    CommandLog,
    RunRequest,
    Scalar,
    SimulatorInfo,
    check_request,
    last_tick,
    no_tick,
    switch,
    whole,
)
from samepath.instrument.traces.recorder import Recorder
from samepath.scenarios.scripts import Script

# SUMO's clock counts milliseconds.
_MS: Final = 1000
_LARGEST_SEED: Final = 2**31
GRID_SCENARIO: Final = "sumo-grid"


@dataclass(frozen=True)
class SumoOptions:
    """How SUMO is started."""

    threads: int
    random: bool
    seed: int

    def arguments(self, step_s: float) -> list[str]:
        """Return the command line without the files."""
        chance = ["--random", "true"] if self.random else ["--seed", str(self.seed % _LARGEST_SEED)]
        return [
            *chance,
            *("--threads", str(self.threads)),
            *("--step-length", f"{step_s:.3f}"),
            *("--collision.action", "warn", "--collision.check-junctions", "true", "--collision.mingap-factor", "0"),
            *("--time-to-teleport", "-1", "--no-step-log", "true", "--no-warnings", "true", "--xml-validation", "never"),
        ]


def read_options(values: Mapping[str, Scalar], seed: int) -> SumoOptions:
    """Check a study's plain values."""
    return SumoOptions(whole(values, "threads", 1, 64), switch(values, "random"), seed)


def check_step(settings: InProcessSettings) -> None:
    """Refuse steps that are not whole milliseconds."""
    if round(TICK_S * _MS) % settings.substeps:
        raise InputError(f"substeps: 1, 2, 5, 10, 25 or 50 was wanted, because SUMO counts ms, but {settings.substeps} came")


class Sumo(InProcessSimulator):
    """SUMO in double precision. In synchronous steps, with a seed and one thread it promises bits.

    The scenario ``sumo-grid`` is SUMO's own traffic: nobody of ours drives there, so that it has no game loop.
    """

    name = "sumo"
    summary = "SUMO (libsumo), vehicles on lanes: synchronous or game loop, threads, chance by seed or by the clock"
    package = "libsumo"
    oldest = (1, 20)
    modes = (SYNCHRONOUS, GAME_LOOP)
    channels = ("x_m", "y_m", "yaw_deg", "vx_mps", "vy_mps")
    own_settings: ClassVar[Mapping[str, Scalar]] = {"substeps": 1, "max_steps": 4, "threads": 1, "random": False}
    _seed = 0

    def described(self, settings: Mapping[str, Scalar]) -> SimulatorInfo:
        """Describe it in a mode; steps that SUMO cannot make are refused."""
        values = {**self._defaults, **settings}
        read = read_settings(values, self.modes)
        check_step(read)
        read_options(values, 0)
        info = super().described(settings)
        if read.mode != SYNCHRONOUS:
            return info
        # On the grid nobody of ours drives: whoever has it as a scenario cannot say that commands can be recorded.
        return replace(info, scenarios=(*info.scenarios, GRID_SCENARIO), capabilities=replace(info.capabilities, replays=False))

    def promises_bits(self, settings: InProcessSettings, values: Mapping[str, Scalar]) -> bool:
        """With ``random``, SUMO takes its seed from the clock; of more threads than one it says itself that it has problems."""
        options = read_options(values, 0)
        return settings.mode == SYNCHRONOUS and not options.random and options.threads == 1

    def world(self, script: Script, settings: InProcessSettings, values: Mapping[str, Scalar]) -> InProcessWorld:
        """Set up a script in SUMO."""
        from samepath.engines.sumo.engine import SumoWorld

        return SumoWorld(script, settings, read_options(values, self._seed))

    def prepare(self, request: RunRequest) -> None:
        """Read the scenario and import the engine."""
        if request.scenario != GRID_SCENARIO:
            super().prepare(request)
        elif not self.unavailable(request.settings):
            import samepath.engines.sumo.engine  # noqa: F401

    def record_commands(self, request: RunRequest) -> CommandLog:
        """Run a script once and return what our drivers said."""
        self._seed = request.seed
        if request.scenario == GRID_SCENARIO:
            raise SimulatorError(f"{GRID_SCENARIO}: nobody of ours drives there, so there are no commands to replay")
        return super().record_commands(request)

    def run(self, request: RunRequest, recorder: Recorder, on_tick: Callable[[int], None] = no_tick) -> None:
        """Run a scenario in a SUMO that was started for it."""
        self._seed = request.seed
        if request.scenario != GRID_SCENARIO:
            super().run(request, recorder, on_tick)
            return
        info = self.described({name: value for name, value in request.settings.items() if name in self._defaults})
        values = check_request(info, request)
        missing = self.unavailable(values)
        if missing:
            raise SimulatorError(missing)
        from samepath.engines.sumo.engine import play_grid

        settings = read_settings(values, self.modes)
        play_grid(settings, read_options(values, request.seed), recorder, on_tick, last_tick(info, request))
