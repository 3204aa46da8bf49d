"""The sun's view of what is around a camera: two maps of depth, a fine one near it and a coarse one farther out. Pure."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.sim.sensors.raster.arrays import F64
from samepath.sim.sensors.raster.prepare import SHADOW_REACH_M

REACHES_M: Final = (24.0, SHADOW_REACH_M)
_AHEAD: Final = 0.7
"""Maps lie ahead of the camera by this part of their reach: what is behind it need not be seen."""


@dataclass(frozen=True, eq=False)
class Sunlight:
    """The sun's axes f64[3, 3] (right, up, towards the sun), half the width of each map, and where the maps lie.

    ``areas`` f64[2, 4]: the middle of each map to the right and up, and its lowest and highest place along the sun's rays,
    all from the camera. ``casters``: the instances that can throw a shadow into each map.
    """

    axes: F64
    reaches_m: tuple[float, float]
    areas: F64
    casters: tuple[NDArray[np.intp], NDArray[np.intp]]


def sun_axes(to_sun: F64) -> F64:
    """Axes as those of a camera that looks down the sun's rays: right, up, and back towards the sun."""
    aside = np.array([0.0, 1.0, 0.0]) if abs(to_sun[1]) < 0.9 else np.array([1.0, 0.0, 0.0])
    right = np.cross(aside, to_sun)
    right /= np.sqrt((right * right).sum())
    return np.stack([right, np.cross(-to_sun, right), to_sun])


def sunlight_of(to_sun: F64, place: F64, ahead: F64, middles: F64, radii: F64, texels: int) -> Sunlight:
    """The maps of a camera; ``middles`` and ``radii`` are the spheres around all that throws shadows."""
    axes = sun_axes(to_sun)
    off = (middles - place) @ axes.T
    areas = np.zeros((2, 4))
    casters = []
    for k, reach_m in enumerate(REACHES_M):
        # The middle sits on a grid of whole texels that stands still in the world: edges do not crawl as the camera moves.
        texel_m = 2.0 * reach_m / texels
        at = axes[:2] @ place
        middle = np.rint((at + axes[:2] @ ahead * (_AHEAD * reach_m)) / texel_m) * texel_m - at
        inside = (np.abs(off[:, :2] - middle) <= (reach_m + radii)[:, None]).all(axis=1)
        found = np.flatnonzero(inside)
        low, high = 0.0, 1.0
        if len(found):
            low, high = float((off[found, 2] - radii[found]).min()), float((off[found, 2] + radii[found]).max())
        areas[k] = middle[0], middle[1], low - 1.0, high + 1.0
        casters.append(found)
    return Sunlight(axes, REACHES_M, areas, (casters[0], casters[1]))
