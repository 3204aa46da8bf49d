"""The light of lamps on the ground: a grid over the map that pixels look into. Street lamps stay, head lamps move."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from samepath.sim.sensors.raster.arrays import F32, Number
from samepath.sim.sensors.raster.compiled import compiled_entry
from samepath.sim.sensors.scene import Instances, Shapes

_CELL_M: Final = 0.5
_CELLS_MAX: Final = 2048
_MARGIN_M: Final = 60.0
_EDGE_M: Final = 1000.0


@dataclass(frozen=True, slots=True)
class Grid:
    """Where the cells are: the corner of the first one, how many per metre, rows along y, columns along x."""

    x_m: float
    y_m: float
    cells_per_m: float
    rows: int
    columns: int

    @classmethod
    def over(cls, shapes: Shapes, fixed: Instances) -> "Grid":
        """A grid over everything fixed of ordinary size; coarser where the map is larger than 1 km."""
        inside = shapes.radius[fixed.mesh] < _EDGE_M
        places = fixed.position[inside, :2] if inside.any() else np.zeros((1, 2))
        low, high = places.min(axis=0) - _MARGIN_M, places.max(axis=0) + _MARGIN_M
        size = high - low
        cell_m = max(_CELL_M, float(size.max()) / (_CELLS_MAX - 2))
        columns, rows = (math.ceil(float(one) / cell_m) + 2 for one in size)
        return cls(float(low[0]), float(low[1]), 1.0 / cell_m, rows, columns)


@compiled_entry
def add_lamps(glow: F32, x_m: Number, y_m: Number, cells_per_m: Number, lamps: F32) -> None:
    """Add the light of lamps (see :func:`.lighting.street_lamps`) to the cells around them."""
    rows, columns = glow.shape
    for k in range(lamps.shape[0]):
        x, y, reach, strength = np.float64(lamps[k, 0]), np.float64(lamps[k, 1]), np.float64(lamps[k, 6]), lamps[k, 7]
        dx, dy = np.float64(lamps[k, 3]), np.float64(lamps[k, 4])
        beam = dx != 0.0 or dy != 0.0
        first_row: Number = max(np.int64((y - reach - y_m) * cells_per_m), 0)
        last_row: Number = min(np.int64((y + reach - y_m) * cells_per_m) + 2, rows)
        first_column: Number = max(np.int64((x - reach - x_m) * cells_per_m), 0)
        last_column: Number = min(np.int64((x + reach - x_m) * cells_per_m) + 2, columns)
        for row in range(first_row, last_row):
            off_y = row / cells_per_m + y_m - y
            for column in range(first_column, last_column):
                off_x = column / cells_per_m + x_m - x
                square = (off_x * off_x + off_y * off_y) / (reach * reach)
                if square >= 1.0:
                    continue
                fade = 1.0 - square
                light = fade * fade
                if beam:
                    ahead, aside = off_x * dx + off_y * dy, off_y * dx - off_x * dy
                    if ahead <= 0.0:
                        continue
                    part = aside / (0.9 + 0.27 * ahead)
                    if part * part >= 1.0:
                        continue
                    across = 1.0 - part * part
                    light *= across * across * min(0.25 * ahead, 1.0) * (1.0 - 0.6 * square)
                glow[row, column] += np.float32(strength * light)
