"""Playing a script in an engine that runs in this process: what an engine must offer, the loops it is driven by, the trace."""

from samepath.simulators.playing.settings import (
    GAME_LOOP,
    SETTINGS,
    SYNCHRONOUS,
    TICK_S,
    VARIABLE_STEP,
    PlaySettings,
    read_settings,
)
from samepath.simulators.playing.simulator import EngineSimulator
from samepath.simulators.playing.world import (
    CONTROLS,
    Backlog,
    Floats,
    State,
    Touch,
    Touches,
    Vector,
    World,
    angle_columns_deg,
    angles_deg,
)

__all__ = [
    "CONTROLS",
    "GAME_LOOP",
    "SETTINGS",
    "SYNCHRONOUS",
    "TICK_S",
    "VARIABLE_STEP",
    "Backlog",
    "EngineSimulator",
    "Floats",
    "PlaySettings",
    "State",
    "Touch",
    "Touches",
    "Vector",
    "World",
    "angle_columns_deg",
    "angles_deg",
    "read_settings",
]
