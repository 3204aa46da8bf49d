"""The sky as a picture of the dome, made once per weather and looked up by direction."""

from typing import Final

import numpy as np
from numba.core import config

from samepath.sim.sensors.raster.arrays import F64, U8, U32, Number
from samepath.sim.sensors.raster.compiled import compiled, compiled_entry
from samepath.sim.sensors.raster.tones import tone

SKY_SIZE: Final = 16 if config.DISABLE_JIT else 512
"""Texels across the dome; without a compiler a small one has to do."""
_ROW: Final = SKY_SIZE + 1
_OUTER = np.uint32(0x00FF00FF)
REACH: Final = 1.25
"""The dome reaches a little below the horizon: 1 would end there."""
_SUN, _GLOW, _HIGH, _LOW, _FOG, _CLOUD, _CLOUDS, _STRENGTH, _NIGHT, _RAIN = 0, 3, 6, 9, 12, 15, 18, 19, 20, 21


@compiled
def soft(tile: U8, layer: Number, x: Number, y: Number) -> Number:
    """Noise of a layer at a place in cells, between its four neighbours; 0..1."""
    x0, y0 = np.floor(x), np.floor(y)
    i, j = np.int64(x0) & 255, np.int64(y0) & 255
    i1, j1 = (i + 1) & 255, (j + 1) & 255
    u, v = x - x0, y - y0
    first, second = layer * 65536 + j * 256, layer * 65536 + j1 * 256
    upper = tile[first + i] * (1.0 - u) + tile[first + i1] * u
    lower = tile[second + i] * (1.0 - u) + tile[second + i1] * u
    return (upper * (1.0 - v) + lower * v) / 255.0


@compiled_entry
def build_sky(sky: U32, tile: U8, n: F64) -> None:
    """Paint the dome, blue in the lowest byte: x/(1+z) of a direction rises along the columns, y/(1+z) along the rows."""
    for j in range(_ROW):
        for i in range(_ROW):
            u, v = (2.0 * i / SKY_SIZE - 1.0) * REACH, (2.0 * j / SKY_SIZE - 1.0) * REACH
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
            if n[_NIGHT] > 0.5 and up > 0.05 and tile[((j * 7) & 255) * 256 + ((i * 5) & 255)] > 254 and ((i * j) & 15) == 0:
                star = 0.25 * n[_NIGHT] * (1.0 - n[_CLOUDS])
            haze = n[_STRENGTH] * min(max(1.0 - 3.2 * up, 0.0), 1.0)
            haze = max(haze, n[_STRENGTH] * n[_STRENGTH] * (1.0 - 0.5 * up))
            packed = np.uint32(0)
            for k in range(3):
                value = n[_HIGH + k] + (n[_LOW + k] - n[_HIGH + k]) * blend
                value += n[_GLOW + k] * (wide + 6.0 * disc) + star
                lit = n[_CLOUD + k] * (0.82 + 0.18 * up) + 0.3 * n[_GLOW + k] * halo
                value += (lit - value) * cover
                value += (n[_FOG + k] - value) * haze
                packed |= np.uint32(tone(value) + 0.5) << np.uint32(16 - 8 * k)
            sky[j * _ROW + i] = packed


@compiled
def _green(texel: Number) -> Number:
    return (texel >> np.uint32(8)) & np.uint32(255)


@compiled
def sky_at(sky: U32, x: Number, y: Number, z: Number) -> Number:
    """Blue, green, red (0..255) of the sky in a direction, between four texels; below the horizon that of the horizon."""
    half, scale, limit = np.float32(0.5 * SKY_SIZE), np.float32(0.5 * SKY_SIZE / REACH), np.float32(SKY_SIZE - 0.01)
    size = np.sqrt(x * x + y * y + z * z)
    lowest = np.float32(-0.1) * size
    gain = scale / (size + (z if z > lowest else lowest))
    u, v = x * gain + half, y * gain + half
    u, v = (u if u > np.float32(0.0) else np.float32(0.0)), (v if v > np.float32(0.0) else np.float32(0.0))
    u, v = (u if u < limit else limit), (v if v < limit else limit)
    # In 16ths of a texel: whole numbers mix two channels in one product.
    p, q = np.uint32(np.int32(u * np.float32(16.0))), np.uint32(np.int32(v * np.float32(16.0)))
    du, dv = p & np.uint32(15), q & np.uint32(15)
    at = (q >> np.uint32(4)) * np.uint32(_ROW) + (p >> np.uint32(4))
    a, b = sky[at], sky[at + np.uint32(1)]
    c, d = sky[at + np.uint32(_ROW)], sky[at + np.uint32(_ROW + 1)]
    w00, w01 = (np.uint32(16) - du) * (np.uint32(16) - dv), du * (np.uint32(16) - dv)
    w10, w11 = (np.uint32(16) - du) * dv, du * dv
    outer = (a & _OUTER) * w00 + (b & _OUTER) * w01 + (c & _OUTER) * w10 + (d & _OUTER) * w11
    green = _green(a) * w00 + _green(b) * w01 + _green(c) * w10 + _green(d) * w11
    unit = np.float32(1.0 / 256.0)
    return (
        np.float32(np.int32(outer & np.uint32(0xFFFF))) * unit,
        np.float32(np.int32(green)) * unit,
        np.float32(np.int32(outer >> np.uint32(16))) * unit,
    )
