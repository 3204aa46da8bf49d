"""The sky as a picture of the dome, made once per weather and looked up by direction."""

from typing import Final

import numpy as np

from samepath.sim.sensors.raster.arrays import F32, F64, U8
from samepath.sim.sensors.raster.compiled import compiled, compiled_entry
from samepath.sim.sensors.raster.tones import tone

SKY_SIZE: Final = 512
"""Texels across the dome."""
_REACH: Final = 1.25
"""The dome reaches a little below the horizon: 1 would end there."""
_SUN, _GLOW, _HIGH, _LOW, _FOG, _CLOUD, _CLOUDS, _STRENGTH, _NIGHT, _RAIN = 0, 3, 6, 9, 12, 15, 18, 19, 20, 21


@compiled
def soft(tile: U8, layer: int, x: float, y: float) -> float:
    """Noise of a layer at a place in cells, between its four neighbours; 0..1."""
    x0, y0 = np.floor(x), np.floor(y)
    i, j = np.int64(x0) & 255, np.int64(y0) & 255
    i1, j1 = (i + 1) & 255, (j + 1) & 255
    u, v = x - x0, y - y0
    upper = tile[layer, j, i] * (1.0 - u) + tile[layer, j, i1] * u
    lower = tile[layer, j1, i] * (1.0 - u) + tile[layer, j1, i1] * u
    return (upper * (1.0 - v) + lower * v) / 255.0


@compiled_entry
def build_sky(sky: F32, tile: U8, n: F64) -> None:
    """Paint the dome: texel (row, column) shows direction (x, y, z) with x/(1+z) and y/(1+z) rising along columns and rows."""
    for j in range(sky.shape[0]):
        for i in range(sky.shape[1]):
            u, v = (2.0 * i / SKY_SIZE - 1.0) * _REACH, (2.0 * j / SKY_SIZE - 1.0) * _REACH
            square = u * u + v * v
            z = (1.0 - square) / (1.0 + square)
            x, y = u * (1.0 + z), v * (1.0 + z)
            up = max(z, 0.0)
            # The horizon's colour fades upwards, quickly at first.
            blend = 1.0 - up
            blend = blend * blend * blend * (0.6 + 0.4 * blend)
            toward = max(x * n[_SUN] + y * n[_SUN + 1] + z * n[_SUN + 2], 0.0)
            halo = toward * toward
            halo = halo * halo
            halo = halo * halo
            wide, disc = 0.20 * halo, halo * halo
            disc = disc * disc * disc * disc
            disc = disc * disc * disc * disc
            disc = disc * disc
            flat = 1.0 / (up + 0.22)
            cover = 0.0
            if n[_CLOUDS] > 0.0:
                lump = 0.62 * soft(tile, 2, 28.0 * x * flat + 40.0, 28.0 * y * flat + 90.0)
                lump += 0.38 * soft(tile, 2, 90.0 * x * flat + 7.0, 90.0 * y * flat + 31.0)
                edge = 0.78 - 0.72 * n[_CLOUDS]
                cover = min(max((lump - edge) / 0.22, 0.0), 1.0) * min(up * 9.0, 1.0)
                cover *= 0.4 + 0.6 * n[_CLOUDS]
            star = 0.0
            if n[_NIGHT] > 0.5 and up > 0.05 and tile[0, (j * 7) & 255, (i * 5) & 255] > 254 and ((i * j) & 15) == 0:
                star = 0.25 * n[_NIGHT] * (1.0 - n[_CLOUDS])
            haze = n[_STRENGTH] * min(max(1.0 - 3.2 * up, 0.0), 1.0)
            haze = max(haze, n[_STRENGTH] * n[_STRENGTH] * (1.0 - 0.5 * up))
            for k in range(3):
                value = n[_HIGH + k] + (n[_LOW + k] - n[_HIGH + k]) * blend
                value += n[_GLOW + k] * (wide + 6.0 * disc) + star
                lit = n[_CLOUD + k] * (0.82 + 0.18 * up) + 0.3 * n[_GLOW + k] * halo
                value += (lit - value) * cover
                value += (n[_FOG + k] - value) * haze
                sky[j, i, 2 - k] = np.float32(tone(value))


@compiled
def sky_at(sky: F32, x: float, y: float, z: float) -> tuple[float, float, float]:
    """Blue, green, red (0..255) of the sky in a direction; below the horizon that of the horizon."""
    half, scale = np.float32(0.5 * SKY_SIZE), np.float32(0.5 * SKY_SIZE / _REACH)
    size = np.sqrt(x * x + y * y + z * z)
    lifted = z if z > np.float32(-0.1) * size else np.float32(-0.1) * size
    gain = scale / (size + lifted)
    u, v = x * gain + half, y * gain + half
    limit = np.float32(SKY_SIZE - 0.01)
    u = min(max(u, np.float32(0.0)), limit)
    v = min(max(v, np.float32(0.0)), limit)
    i, j = np.int32(u), np.int32(v)
    du, dv = u - np.float32(i), v - np.float32(j)
    w00, w01 = (np.float32(1.0) - du) * (np.float32(1.0) - dv), du * (np.float32(1.0) - dv)
    w10, w11 = (np.float32(1.0) - du) * dv, du * dv
    a, b, c, d = sky[j, i], sky[j, i + 1], sky[j + 1, i], sky[j + 1, i + 1]
    return (
        w00 * a[0] + w01 * b[0] + w10 * c[0] + w11 * d[0],
        w00 * a[1] + w01 * b[1] + w10 * c[1] + w11 * d[1],
        w00 * a[2] + w01 * b[2] + w10 * c[2] + w11 * d[2],
    )
