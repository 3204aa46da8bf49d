"""Painting runs of pixels that show the same face: sky, ground, leaves, walls with windows."""

import numpy as np

from samepath.sim.sensors.raster.arrays import F32, F64, U8, U32, Line, Number, Shade
from samepath.sim.sensors.raster.compiled import compiled
from samepath.sim.sensors.raster.lighting import DARK, GLOW_PER_M, GLOW_X, GLOW_Y, GRASS, NIGHT, PAVING, PUDDLES, WET
from samepath.sim.sensors.raster.sky import sky_at
from samepath.sim.sensors.raster.texture import TILE

Ray = tuple[Number, Number, Number]

ONE, ZERO = np.float32(1.0), np.float32(0.0)
# Added before cutting to whole numbers, so that they are never negative: to cells of noise, to windows and storeys.
_LIFT, _CELLS = np.float32(65536.0), np.float32(1024.0)
# Fine grain is seen up to 1 / 0.03 metres; nothing is farther than 1 / 0.0001.
_FINE, _FARTHEST = np.float32(0.03), np.float32(1e-4)
_MIDDLE, _SOFT = np.uint32(TILE * TILE), np.uint32(2 * TILE * TILE)
_1, _2, _3, _4, _5 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4), np.uint64(5)


@compiled
def _grain(tile: U8, layer: Number, x: Number, y: Number) -> Number:
    """Noise of one cell, -128..127."""
    i, j = np.int32(x + _LIFT) & np.int32(255), np.int32(y + _LIFT) & np.int32(255)
    return np.float32(tile[layer + np.uint32((j << np.int32(8)) + i)]) - np.float32(128.0)


@compiled
def sky_nodes(sky: U32, axes: F64, focal: Number, width: Number, height: Number, row: Number, stride: Number, to: F32) -> None:
    """The sky at every ``stride``-th pixel of a row: blue, green, red one behind the other, and a node beyond the end."""
    pitch = 1.0 / focal
    down = (row + 0.5 - 0.5 * height) * pitch
    for k in range(width // stride + 2):
        right = (k * stride + 0.5 - 0.5 * width) * pitch
        to[3 * k], to[3 * k + 1], to[3 * k + 2] = sky_at(
            sky,
            np.float32(axes[0, 0] - axes[2, 0] * down + axes[1, 0] * right),
            np.float32(axes[0, 1] - axes[2, 1] * down + axes[1, 1] * right),
            np.float32(axes[0, 2] - axes[2, 2] * down + axes[1, 2] * right),
        )


@compiled
def paint_sky(upper: F32, lower: F32, part: Number, first: Number, last: Number, stride: Number, line: Line) -> None:
    """A run of sky, mixed from the nodes above, below, left and right."""
    gain = ONE / np.float32(np.int32(stride))
    at = first
    while at < last:
        block = at // stride
        k, end = np.uint64(3) * block, min((block + np.uint64(1)) * stride, last)
        b, g, r = upper[k], upper[k + _1], upper[k + _2]
        b, g, r = b + (lower[k] - b) * part, g + (lower[k + _1] - g) * part, r + (lower[k + _2] - r) * part
        b1, g1, r1 = upper[k + _3], upper[k + _4], upper[k + _5]
        b1, g1, r1 = b1 + (lower[k + _3] - b1) * part, g1 + (lower[k + _4] - g1) * part, r1 + (lower[k + _5] - r1) * part
        db, dg, dr = (b1 - b) * gain, (g1 - g) * gain, (r1 - r) * gain
        offset = block * stride
        for column in range(at, end):
            right = np.float32(np.int32(column - offset))
            line.blue[column], line.green[column], line.red[column] = b + db * right, g + dg * right, r + dr * right
        at = end


@compiled
def locate(place: Ray, base: Ray, step: Ray, depth: F32, first: Number, last: Number, line: Line) -> None:
    """Where in the world some pixels of a row are, and which cells of noise lie there."""
    xs, ys, zs, soft, fine, near = line.x, line.y, line.z, line.soft, line.fine, line.near
    for at in range(first, last):
        right, w = np.float32(np.int32(at)), depth[at]
        w = w if w > _FARTHEST else _FARTHEST
        far = ONE / w
        x, y = place[0] + (base[0] + step[0] * right) * far, place[1] + (base[1] + step[1] * right) * far
        xs[at], ys[at], zs[at] = x, y, place[2] + (base[2] + step[2] * right) * far
        i, j = np.int32(x * np.float32(1.7) + _LIFT), np.int32(y * np.float32(1.7) + _LIFT)
        soft[at] = ((j & np.int32(255)) << np.int32(8)) | (i & np.int32(255))
        i, j = np.int32(x * np.float32(22.0) + _LIFT), np.int32(y * np.float32(22.0) + _LIFT)
        fine[at] = ((j & np.int32(255)) << np.int32(8)) | (i & np.int32(255))
        off = w - _FINE
        near[at] = (off if off > ZERO else ZERO) / (w + _FINE)


@compiled
def paint_flat(tile: U8, material: Number, blue: Number, green: Number, red: Number, depth: F32, first: Number, last: Number,
                line: Line) -> None:  # fmt: skip
    """A run of road, paving, grass or paint; what would only flicker from afar is faded out."""
    soft_part, fine_part = np.float32(0.00045), np.float32(0.00055)
    if material == GRASS:
        soft_part, fine_part = np.float32(0.0011), np.float32(0.0011)
    for at in range(first, last):
        grain = ONE + soft_part * (np.float32(tile[_SOFT + np.uint32(line.soft[at])]) - np.float32(128.0))
        grain += fine_part * line.near[at] * (np.float32(tile[np.uint32(line.fine[at])]) - np.float32(128.0))
        line.blue[at], line.green[at], line.red[at] = blue * grain, green * grain, red * grain
    if material == PAVING:
        for at in range(first, last):
            u, v = line.x[at] * np.float32(1.6) + _LIFT, line.y[at] * np.float32(1.6) + _LIFT
            u, v = u - np.float32(np.int32(u)), v - np.float32(np.int32(v))
            if u < np.float32(0.05) or v < np.float32(0.05):
                keep = ONE - np.float32(0.10) * depth[at] / (depth[at] + np.float32(0.05))
                line.blue[at], line.green[at], line.red[at] = line.blue[at] * keep, line.green[at] * keep, line.red[at] * keep


@compiled
def light_flat(shade: Shade, first: Number, last: Number, line: Line) -> None:
    """Add the light of lamps to a run of ground: the grid is read between its four cells."""
    n, glow = shade.numbers, shade.glow
    x0, y0, per_m = np.float32(n[GLOW_X]), np.float32(n[GLOW_Y]), np.float32(n[GLOW_PER_M])
    bright, columns, rows = np.float32(1.0 / n[DARK]), np.float32(glow.shape[1] - 1), np.float32(glow.shape[0] - 1)
    for at in range(first, last):
        x, y = (line.x[at] - x0) * per_m, (line.y[at] - y0) * per_m
        if not (ZERO <= x < columns and ZERO <= y < rows):
            continue
        i, j = np.uint32(x), np.uint32(y)
        i1, j1 = i + np.uint32(1), j + np.uint32(1)
        u, v = x - np.float32(i), y - np.float32(j)
        upper = glow[j, i] + (glow[j, i1] - glow[j, i]) * u
        lower = glow[j1, i] + (glow[j1, i1] - glow[j1, i]) * u
        more = np.sqrt(ONE + (upper + (lower - upper) * v) * bright) - ONE
        line.blue[at] = line.blue[at] * (ONE + np.float32(0.72) * more)
        line.green[at] = line.green[at] * (ONE + np.float32(0.92) * more)
        line.red[at] = line.red[at] * (ONE + more)


@compiled
def mirror(shade: Shade, material: Number, base: Ray, step: Ray, first: Number, last: Number, line: Line) -> None:
    """A wet surface mirrors the sky, the more so the flatter the look, and most in puddles."""
    wet, puddles = np.float32(shade.numbers[WET]), np.float32(shade.numbers[PUDDLES] * 0.9)
    share = np.float32(0.25) if material == GRASS else ONE
    for at in range(first, last):
        right = np.float32(np.int32(at))
        x, y, z = base[0] + step[0] * right, base[1] + step[1] * right, base[2] + step[2] * right
        away = ONE + min(z / np.sqrt(x * x + y * y + z * z), ZERO)
        away = away * away
        level = _grain(shade.noise, _SOFT, line.x[at] * np.float32(2.3), line.y[at] * np.float32(2.3)) + np.float32(128.0)
        pool = min(max((puddles - level / np.float32(255.0)) * np.float32(6.0), ZERO), ONE)
        part = (np.float32(0.03) + np.float32(0.62) * away * away) * wet
        part = share * min(part + pool * (np.float32(0.12) + np.float32(0.55) * away), np.float32(0.9))
        b, g, r = sky_at(shade.sky, x, y, -z if z < ZERO else z)
        line.blue[at] = line.blue[at] + (b - line.blue[at]) * part
        line.green[at] = line.green[at] + (g - line.green[at]) * part
        line.red[at] = line.red[at] + (r - line.red[at]) * part


@compiled
def paint_leaves(
    tile: U8, blue: Number, green: Number, red: Number, depth: F32, first: Number, last: Number, line: Line
) -> None:
    """A run of leaves."""
    for at in range(first, last):
        w, z = depth[at], line.z[at]
        leaf = _grain(tile, _MIDDLE, (line.x[at] + z) * np.float32(14.0), (line.y[at] - z) * np.float32(14.0))
        grain = ONE + np.float32(0.0022) * leaf * (w / (w + np.float32(0.03)))
        line.blue[at], line.green[at], line.red[at] = blue * grain, green * grain, red * grain


@compiled
def paint_wall(
    shade: Shade, wall: Number, blue: Number, green: Number, red: Number, first: Number, last: Number, line: Line
) -> None:
    """A run of a wall with windows: glass that mirrors the sky by day, some of it lit at night."""
    m, tile, dark = shade.walls[wall], shade.noise, np.float32(shade.numbers[NIGHT])
    ux, uy, uz, u0, vx, vy, vz, v0 = m[0], m[1], m[2], m[3] + _CELLS, m[4], m[5], m[6], m[7] + _CELLS
    sky_b, sky_g, sky_r = sky_at(shade.sky, ZERO, np.float32(0.94), np.float32(0.34))
    frame = np.float32(0.045)
    for at in range(first, last):
        x, y, z = line.x[at], line.y[at], line.z[at]
        u, v = ux * x + uy * y + uz * z + u0, vx * x + vy * y + vz * z + v0
        i, j = np.int32(u), np.int32(v)
        du, dv = u - np.float32(i), v - np.float32(j)
        # How far inside a window, counted from its nearest edge; the ground floor has larger ones.
        low, high, side = np.float32(0.28), np.float32(0.80), np.float32(0.24)
        if j <= np.int32(_CELLS):
            low, high, side = np.float32(0.16), np.float32(0.82), np.float32(0.14)
        inside = min(du - side, ONE - side - du, dv - low, high - dv)
        if inside > frame:
            pick_j, pick_i = (
                (j * np.int32(59) + np.int32(17)) & np.int32(255),
                (i * np.int32(37) + np.int32(wall * 11)) & np.int32(255),
            )
            luck = tile[np.uint32((pick_j << np.int32(8)) + pick_i)]
            part = np.float32(0.19) + np.float32(0.00066) * np.float32(luck) + np.float32(0.14) * dv
            b, g, r = sky_b * part + np.float32(14.0), sky_g * part + np.float32(10.0), sky_r * part + np.float32(7.0)
            if dark > ZERO and luck < 96:
                glow = dark * (np.float32(0.6) + np.float32(0.0015) * np.float32(luck))
                b, g = b + (np.float32(120.0) - b) * glow, g + (np.float32(190.0) - g) * glow
                r = r + (np.float32(235.0) - r) * glow
            line.blue[at], line.green[at], line.red[at] = b, g, r
            continue
        stain = ONE + np.float32(0.0004) * _grain(tile, _SOFT, (x + y) * np.float32(2.0), z * np.float32(2.0))
        if inside > ZERO:
            stain = np.float32(1.16)
        elif dv < np.float32(0.035):
            stain = stain * np.float32(0.90)
        line.blue[at], line.green[at], line.red[at] = blue * stain, green * stain, red * stain
