"""A tile of noise that everything mottled is made from. Integers decide; nothing is left to chance."""

from functools import cache
from typing import Final

import numpy as np

from samepath.sim.sensors.raster.arrays import U8

TILE: Final = 256


def _hash(x: np.ndarray, y: np.ndarray, salt: int) -> np.ndarray:
    """Well mixed 32 bits of two integers."""
    h = (x.astype(np.uint64) * 0x9E3779B1 + y.astype(np.uint64) * 0x85EBCA77 + np.uint64(salt) * 0xC2B2AE3D) & 0xFFFFFFFF
    for shift, factor in ((15, 0x2C1B3C6D), (12, 0x297A2D39), (15, 1)):
        h = ((h ^ (h >> np.uint64(shift))) * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    return h


@cache
def noise_tile() -> U8:
    """u8[3 * 256 * 256], three tiles that repeat without a seam: plain noise, soft noise (some cells wide), clouds."""
    grid_y, grid_x = np.mgrid[0:TILE, 0:TILE]
    plain = _hash(grid_x, grid_y, 1) >> np.uint64(24)
    tiles = [plain.astype(np.uint8)]
    for salt, octaves in ((2, ((16, 128), (8, 96), (4, 32))), (3, ((64, 96), (32, 64), (16, 48), (8, 32), (4, 16)))):
        total = np.zeros((TILE, TILE), np.int64)
        for cell, weight in octaves:
            total += weight * _smooth(grid_x, grid_y, cell, salt + cell)
        total //= sum(weight for _, weight in octaves)
        low, high = int(total.min()), int(total.max())
        tiles.append(((total - low) * 255 // max(high - low, 1)).astype(np.uint8))
    made = np.concatenate([one.ravel() for one in tiles])
    made.flags.writeable = False
    return made


def _smooth(x: np.ndarray, y: np.ndarray, cell: int, salt: int) -> np.ndarray:
    """Noise between the corners of cells, in whole numbers 0..255."""
    cells = TILE // cell
    x0, y0, dx, dy = x // cell, y // cell, x % cell, y % cell
    # 3t^2 - 2t^3, in units of cell^3.
    wx, wy = 3 * dx * dx * cell - 2 * dx**3, 3 * dy * dy * cell - 2 * dy**3
    unit = cell**3
    corner = [
        [(_hash((x0 + i) % cells, (y0 + j) % cells, salt) >> np.uint64(24)).astype(np.int64) for i in (0, 1)] for j in (0, 1)
    ]
    upper = corner[0][0] * (unit - wx) + corner[0][1] * wx
    lower = corner[1][0] * (unit - wx) + corner[1][1] * wx
    mixed: np.ndarray = (upper * (unit - wy) + lower * wy) // (unit * unit)
    return mixed
