"""The adapter of SUMO: scripts of vehicles on lanes, in fixed steps or in a game loop, and streets with SUMO's own traffic."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar, Final

from samepath.core.errors import SimulatorError
from samepath.engines.in_process import (
    GAME_LOOP,
    SYNCHRONOUS,
    InProcessSettings,
    InProcessSimulator,
    InProcessWorld,
    read_settings,
)
from samepath.engines.interface import RunRequest, Scalar, SimulatorInfo, check_request, last_tick, no_tick
from samepath.engines.sumo.scene import check_step, read_options
from samepath.instrument.traces.recorder import Recorder
from samepath.scenarios.scripts import Script

GRID_SCENARIO: Final = "sumo-grid"


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
        return replace(info, scenarios=(*info.scenarios, *((GRID_SCENARIO,) if read.mode == SYNCHRONOUS else ())))

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
