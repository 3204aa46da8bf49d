"""From ids and 1/z to a picture: row by row, in runs that show the same face, then fog and whole bytes."""

import numpy as np

from samepath.sim.sensors.raster.arrays import F32, ROW_BITS, ROW_MASK, U32, Line, Number, Rows, Scratch, Shade, Views
from samepath.sim.sensors.raster.compiled import compiled, compiled_apart
from samepath.sim.sensors.raster.lighting import FACADE, FALLOFF, FOG, FOG_FROM_M, FOG_PER_M, FOLIAGE, NIGHT, WET
from samepath.sim.sensors.raster.painters import (
    ONE,
    ZERO,
    Ray,
    light_flat,
    locate,
    mirror,
    paint_flat,
    paint_leaves,
    paint_sky,
    paint_wall,
    sky_nodes,
)
from samepath.sim.sensors.raster.tones import tone

_OPAQUE = np.uint32(0xFF000000)
_1 = np.uint64(1)
_SKY_STRIDE = 0.02
"""The sky is looked up once per so many radians: its own picture is hardly finer."""
_BLOCK = np.uint64(64)
"""Pixels are located in blocks of at least this size, as far as a row needs it."""


@compiled
def _fog(shade: Shade, height_m: Number, base_z: Number, step_z: Number, depth: F32, width: Number, line: Line) -> None:
    """Mix fog into a row by depth, thinner high up; the sky has its own in it."""
    n = shade.numbers
    fog_b, fog_g, fog_r = np.float32(tone(n[FOG + 2])), np.float32(tone(n[FOG + 1])), np.float32(tone(n[FOG]))
    per_m, from_m, falloff = np.float32(0.25 * n[FOG_PER_M]), np.float32(n[FOG_FROM_M]), np.float32(0.5 * n[FALLOFF])
    high, blue, green, red = np.float32(2.0 * height_m), line.blue, line.green, line.red
    for at in range(np.uint64(width)):
        w = depth[at]
        far = ONE / (w if w > np.float32(1e-6) else np.float32(1e6))
        above = high + (base_z + step_z * np.float32(np.int32(at))) * far
        above = above if above > ZERO else ZERO
        thick = far - from_m
        thick = per_m * (thick if thick > ZERO else ZERO) / (ONE + falloff * above)
        clear = ONE / (ONE + thick)
        clear = clear * clear
        clear = clear * clear
        blue[at] = fog_b + (blue[at] - fog_b) * clear
        green[at] = fog_g + (green[at] - fog_g) * clear
        red[at] = fog_r + (red[at] - fog_r) * clear


@compiled
def _byte(level: Number) -> Number:
    level = level if level > ZERO else ZERO
    return np.int32((level if level < np.float32(255.0) else np.float32(255.0)) + np.float32(0.5))


@compiled
def _pack(line: Line, width: Number, to: U32) -> None:
    """A row as CARLA stores it: blue in the lowest byte, then green, red, 255."""
    blue, green, red = line.blue, line.green, line.red
    for at in range(np.uint64(width)):
        pixel = _byte(blue[at]) | (_byte(green[at]) << np.int32(8)) | (_byte(red[at]) << np.int32(16))
        to[at] = np.uint32(pixel) | _OPAQUE


@compiled
def _paint_run(shade: Shade, rows: Rows, mark: Number, base: Ray, step: Ray, depth: F32, first: Number, last: Number,
               line: Line) -> None:  # fmt: skip
    """A run of pixels that show the same face."""
    face = np.uint64(mark & ROW_MASK)
    blue, green, red = rows.colour[face, 0], rows.colour[face, 1], rows.colour[face, 2]
    material = rows.material[face]
    if material < FOLIAGE:
        for at in range(first, last):
            line.blue[at], line.green[at], line.red[at] = blue, green, red
        return
    if material == FACADE:
        paint_wall(shade, np.int64(rows.colour[face, 3]), blue, green, red, first, last, line)
    elif material == FOLIAGE:
        paint_leaves(shade.noise, blue, green, red, depth, first, last, line)
    else:
        if mark >> ROW_BITS != 0:
            blue, green, red = blue * shade.flat[1, 0], green * shade.flat[1, 1], red * shade.flat[1, 2]
        paint_flat(shade.noise, material, blue, green, red, depth, first, last, line)
        if shade.numbers[NIGHT] > 0.0:
            light_flat(shade, first, last, line)
        if shade.numbers[WET] > 0.0:
            mirror(shade, material, base, step, first, last, line)


@compiled_apart
def paint(views: Views, c: Number, width: Number, height: Number, focal: Number, rows: Rows, scratch: Scratch, shade: Shade,
          to: U32, start: Number) -> None:  # fmt: skip
    """Colour every pixel, in runs that show the same face."""
    axes, stands = views.axes[c], views.place[c]
    place = (np.float32(stands[0]), np.float32(stands[1]), np.float32(stands[2]))
    pitch = 1.0 / focal
    step = (np.float32(axes[1, 0] * pitch), np.float32(axes[1, 1] * pitch), np.float32(axes[1, 2] * pitch))
    stride: Number = max(np.int64(focal * _SKY_STRIDE), 2)
    line, last = scratch.line, np.uint64(width)
    block: Number = -1
    for row in range(height):
        down, first = (row + 0.5 - 0.5 * height) * pitch, (0.5 - 0.5 * width) * pitch
        base = (
            np.float32(axes[0, 0] - axes[2, 0] * down + axes[1, 0] * first),
            np.float32(axes[0, 1] - axes[2, 1] * down + axes[1, 1] * first),
            np.float32(axes[0, 2] - axes[2, 2] * down + axes[1, 2] * first),
        )
        depth, ids = scratch.depth[row * width : (row + 1) * width], scratch.ids[row * width : (row + 1) * width]
        column, located = np.uint64(0), np.uint64(0)
        while column < last:
            end = column + _1
            if depth[column] <= ZERO:
                while end < last and depth[end] <= ZERO:
                    end += _1
                if block != row // stride:
                    if block == row // stride - 1 and block >= 0:
                        for k in range(3 * (width // stride + 2)):
                            line.upper[k] = line.lower[k]
                    else:
                        sky_nodes(shade.sky, axes, focal, width, height, row // stride * stride, stride, line.upper)
                    block = row // stride
                    sky_nodes(shade.sky, axes, focal, width, height, (block + 1) * stride, stride, line.lower)
                part = np.float32(row - block * stride) / np.float32(stride)
                paint_sky(line.upper, line.lower, part, column, end, np.uint64(stride), line)
            else:
                mark = ids[column]
                while end < last and ids[end] == mark and depth[end] > ZERO:
                    end += _1
                if end > located and rows.material[np.uint64(mark & ROW_MASK)] >= FOLIAGE:
                    first_new = max(column, located)
                    located = min(max(end, first_new + _BLOCK), last)
                    locate(place, base, step, depth, first_new, located, line)
                _paint_run(shade, rows, mark, base, step, depth, column, end, line)
            column = end
        _fog(shade, stands[2], base[2], step[2], depth, width, line)
        _pack(line, width, to[start + row * width : start + (row + 1) * width])
