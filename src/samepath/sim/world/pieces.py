"""What a world is furnished with beside its actors: scenery and patches of other ground."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.base.trig import sincos_deg

_TALL_M: Final = 1e6


@dataclass(frozen=True)
class StaticMesh:
    """A piece of scenery that never moves; touching ``ground`` is no collision."""

    name: str
    vertices: NDArray[np.float64]
    triangles: NDArray[np.int32]
    ground: bool


@dataclass(frozen=True)
class FrictionVolume:
    """A box in which tyres have another friction: ice, oil, gravel."""

    x_m: float
    y_m: float
    half_x_m: float
    half_y_m: float
    friction: float
    z_m: float = 0.0
    half_z_m: float = _TALL_M
    yaw_deg: float = 0.0

    def holds(self, x_m: float, y_m: float, z_m: float = 0.0) -> bool:
        """Is a point inside?"""
        x, y = x_m - self.x_m, y_m - self.y_m
        if self.yaw_deg:
            sin, cos = sincos_deg(self.yaw_deg)
            x, y = cos * x + sin * y, cos * y - sin * x
        return abs(x) <= self.half_x_m and abs(y) <= self.half_y_m and abs(z_m - self.z_m) <= self.half_z_m
