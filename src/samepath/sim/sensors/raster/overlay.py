"""What lies on the finished picture: averaging of samples, streaks of rain, darker corners."""

import numpy as np

from samepath.sim.sensors.raster.arrays import U8, U32, Number
from samepath.sim.sensors.raster.compiled import compiled, compiled_entry

_LOW, _MIDDLE, _OPAQUE = np.uint32(0x00FF00FF), np.uint32(0x000000FF), np.uint32(0xFF000000)


@compiled
def average(fine: U32, to: U32, start: Number, width: Number, height: Number, samples: Number) -> None:
    """One pixel from samples x samples, rounded to nearest."""
    count = np.uint32(samples * samples)
    half = count // np.uint32(2)
    for row in range(height):
        for column in range(width):
            b, g, r = half, half, half
            for j in range(samples):
                line = (row * samples + j) * width * samples + column * samples
                for i in range(samples):
                    pixel = fine[line + i]
                    b += pixel & _MIDDLE
                    g += (pixel >> np.uint32(8)) & _MIDDLE
                    r += (pixel >> np.uint32(16)) & _MIDDLE
            b, g, r = b // count, g // count, r // count
            to[start + row * width + column] = b | (g << np.uint32(8)) | (r << np.uint32(16)) | _OPAQUE


@compiled
def _lighten(pixel: Number, part: Number) -> Number:
    """Mix a pixel with pale grey; ``part`` of 256."""
    keep = np.uint32(256 - part)
    add = np.uint32(part) * np.uint32(190)
    b = ((pixel & _MIDDLE) * keep + add) >> np.uint32(8)
    g = (((pixel >> np.uint32(8)) & _MIDDLE) * keep + add) >> np.uint32(8)
    r = (((pixel >> np.uint32(16)) & _MIDDLE) * keep + add) >> np.uint32(8)
    return b | (g << np.uint32(8)) | (r << np.uint32(16)) | _OPAQUE


@compiled
def _cell(row: Number, column: Number) -> Number:
    return ((row & 255) << 8) + (column & 255)


@compiled
def rain(to: U32, start: Number, width: Number, height: Number, strength: Number, tick: Number, tile: U8) -> None:
    """Slanted streaks, other ones at every tick; their number follows the strength, their length the image's height."""
    streaks = np.int64(width * strength * 0.9)
    for k in range(streaks):
        a, b = tile[_cell(k * 7 + tick * 13, (k >> 8) * 31)], tile[_cell(k * 3 + 91, tick * 29 + k)]
        c = tile[_cell(k * 5 + tick * 3, k * 11 + 7)]
        x = ((np.int64(a) << 8) + np.int64(c)) * width >> 16
        y = ((np.int64(b) << 8) + np.int64(a)) * height >> 16
        length = height * (8 + (np.int64(c) & 15)) // 200 + 1
        part = 20 + (np.int64(b) & 31)
        for step in range(length):
            row, column = y + step, x - step // 6
            if row < height and 0 <= column < width:
                at = start + row * width + column
                to[at] = _lighten(to[at], part)


@compiled
def vignette(to: U32, start: Number, width: Number, height: Number, strength: Number) -> None:
    """Darken towards the corners with the square of the distance from the middle."""
    gain = 1.0 / (width * width + height * height)
    for row in range(height):
        for column in range(width):
            x, y = 2.0 * column + 1.0 - width, 2.0 * row + 1.0 - height
            keep = np.uint32(256.0 * max(1.0 - strength * (x * x + y * y) * gain, 0.0))
            pixel = to[start + row * width + column]
            b = ((pixel & _MIDDLE) * keep) >> np.uint32(8)
            g = (((pixel >> np.uint32(8)) & _MIDDLE) * keep) >> np.uint32(8)
            r = (((pixel >> np.uint32(16)) & _MIDDLE) * keep) >> np.uint32(8)
            to[start + row * width + column] = b | (g << np.uint32(8)) | (r << np.uint32(16)) | _OPAQUE


@compiled
def lay_over(to: U32, start: Number, width: Number, height: Number, strength: Number, tick: Number, tile: U8,
             corners: Number) -> None:  # fmt: skip
    """Rain and darker corners, where there are any."""
    if strength > 0.0:
        rain(to, start, width, height, strength, tick, tile)
    if corners > 0.0:
        vignette(to, start, width, height, corners)


@compiled_entry
def finish(to: U32, start: Number, width: Number, height: Number, strength: Number, tick: Number, tile: U8,
           corners: Number) -> None:  # fmt: skip
    """The same for a picture that was drawn elsewhere."""
    lay_over(to, start, width, height, strength, tick, tile, corners)
