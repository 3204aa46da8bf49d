"""SUMO's own traffic: a grid of streets with lights, in which nobody is driven by us."""

import math
from collections.abc import Callable
from typing import Final

from samepath.simulators.interface import DURATION
from samepath.simulators.playing import CONTROLS, PlaySettings, Touches
from samepath.simulators.sumo.engine import collisions, in_words, make_step, placed, present, start, stop
from samepath.simulators.sumo.scene import GRID, GRID_CAR_M, GRID_TICKS, Options, grid_routes
from samepath.traces.recorder import Recorder

_TYPE: Final = "vehicle.sumo.car"
_NOBODY_DRIVES: Final = [math.nan] * len(CONTROLS)


def play_grid(
    settings: PlaySettings, options: Options, recorder: Recorder, on_tick: Callable[[int], None], last: int | None
) -> None:
    """Run the grid from its first car to its last tick."""
    start(GRID, grid_routes(), settings.step_s, options)
    try:
        with in_words():
            _play(settings.substeps, recorder, on_tick, min(GRID_TICKS, last or GRID_TICKS))
        recorder.end(min(GRID_TICKS, last or GRID_TICKS), DURATION if last and last <= GRID_TICKS else "simulated time is over")
    finally:
        stop()


def _play(substeps: int, recorder: Recorder, on_tick: Callable[[int], None], ticks: int) -> None:
    touches = Touches()
    here: set[int] = set()
    half_m = GRID_CAR_M / 2
    for tick in range(1, ticks + 1):
        for _ in range(substeps):
            make_step()
            for collider, victim in collisions():
                touches.add(collider, victim, (0.0, 0.0, 0.0))
        now = present()
        for number in sorted(here.difference(now)):
            recorder.event(tick - 1, "destroy", number, detail="arrived")
        for number in now:
            if number not in here:
                recorder.actor(number, _TYPE, tick if tick > 1 else 0)
        here = set(now)
        recorder.rows(tick, now, [[*placed(str(number), half_m), *_NOBODY_DRIVES] for number in now])
        for touch in touches.take():
            recorder.event(tick, "collision", touch.actor, touch.other, touch.impulse_ns)
        on_tick(tick)
