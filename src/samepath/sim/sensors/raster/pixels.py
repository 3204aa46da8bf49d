"""From ids and 1/z to pictures: one pass over the pixels of a camera, channel by channel."""

import numpy as np

from samepath.sim.sensors.raster.arrays import F32, F64, ROW_BITS, ROW_MASK, U8, U32, Line, Outputs, Placed, Rows, Scratch, Shade, Views
from samepath.sim.sensors.raster.compiled import compiled
from samepath.sim.sensors.raster.lighting import (
    DARK,
    FACADE,
    FALLOFF,
    FOG,
    FOG_FROM_M,
    FOG_PER_M,
    FOLIAGE,
    GLOW_PER_M,
    GLOW_X,
    GLOW_Y,
    GRASS,
    NIGHT,
    PAVING,
    PUDDLES,
    ROAD,
    WET,
)
from samepath.sim.sensors.raster.sky import sky_at
from samepath.sim.sensors.raster.tones import tone

Ray = tuple[float, float, float]

ONE, ZERO = np.float32(1.0), np.float32(0.0)
# Added before cutting to whole numbers, so that they are never negative.
_LIFT = np.float32(65536.0)
_OPAQUE = np.uint32(0xFF000000)
_FINE = np.float32(0.03)
"""Fine grain is seen up to 1 / 0.03 metres."""
_CELLS = np.float32(1024.0)
"""Added to windows and storeys before cutting to whole numbers."""
_SKY_STRIDE = 0.01
"""The sky is looked up once per so many radians: its own picture is hardly finer."""
_FARTHEST = np.float32(1e-4)



@compiled
def _grain(tile: U8, layer: int, x: float, y: float) -> float:
    """Noise of one cell, -128..127."""
    i, j = np.int32(x + _LIFT) & np.int32(255), np.int32(y + _LIFT) & np.int32(255)
    return np.float32(tile[layer, np.uint32(j), np.uint32(i)]) - np.float32(128.0)


@compiled
def _sky_nodes(sky: U32, axes: F64, focal: float, width: int, height: int, row: int, stride: int, to: F32) -> None:
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
def _paint_sky(upper: F32, lower: F32, part: float, first: int, last: int, stride: int, line: Line) -> None:
    """A run of sky, mixed from the nodes above, below, left and right."""
    gain = ONE / np.float32(stride)
    at = first
    while at < last:
        k = at // stride
        end = min((k + 1) * stride, last)
        b, g, r = upper[3 * k], upper[3 * k + 1], upper[3 * k + 2]
        b, g, r = b + (lower[3 * k] - b) * part, g + (lower[3 * k + 1] - g) * part, r + (lower[3 * k + 2] - r) * part
        b1, g1, r1 = upper[3 * k + 3], upper[3 * k + 4], upper[3 * k + 5]
        b1, g1, r1 = b1 + (lower[3 * k + 3] - b1) * part, g1 + (lower[3 * k + 4] - g1) * part, r1 + (lower[3 * k + 5] - r1) * part
        db, dg, dr = (b1 - b) * gain, (g1 - g) * gain, (r1 - r) * gain
        for column in range(at, end):
            right = np.float32(column - k * stride)
            line.blue[column], line.green[column], line.red[column] = b + db * right, g + dg * right, r + dr * right
        at = end


@compiled
def _locate(place: Ray, base: Ray, step: Ray, depth: F32, width: int, line: Line) -> None:
    """Where in the world the pixels of a row are, and which cells of noise lie there."""
    xs, ys, zs, soft, fine, near = line.x, line.y, line.z, line.soft, line.fine, line.near
    for at in range(width):
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
def _paint_flat(tile: U8, material: int, blue: float, green: float, red: float, depth: F32, first: int, last: int,
                line: Line) -> None:  # fmt: skip
    """A run of road, paving, grass or paint; what would only flicker from afar is faded out."""
    soft_part, fine_part = np.float32(0.00045), np.float32(0.00055)
    if material == GRASS:
        soft_part, fine_part = np.float32(0.0011), np.float32(0.0011)
    softs, fines = tile[2].ravel(), tile[0].ravel()
    for at in range(first, last):
        grain = ONE + soft_part * (np.float32(softs[np.uint32(line.soft[at])]) - np.float32(128.0))
        grain += fine_part * line.near[at] * (np.float32(fines[np.uint32(line.fine[at])]) - np.float32(128.0))
        line.blue[at], line.green[at], line.red[at] = blue * grain, green * grain, red * grain
    if material == PAVING:
        for at in range(first, last):
            u, v = line.x[at] * np.float32(1.6) + _LIFT, line.y[at] * np.float32(1.6) + _LIFT
            u, v = u - np.float32(np.int32(u)), v - np.float32(np.int32(v))
            if u < np.float32(0.05) or v < np.float32(0.05):
                keep = ONE - np.float32(0.10) * depth[at] / (depth[at] + np.float32(0.05))
                line.blue[at], line.green[at], line.red[at] = line.blue[at] * keep, line.green[at] * keep, line.red[at] * keep


@compiled
def _light_flat(shade: Shade, first: int, last: int, line: Line) -> None:
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
def _mirror(shade: Shade, material: int, base: Ray, step: Ray, first: int, last: int, line: Line) -> None:
    """A wet surface mirrors the sky, the more so the flatter the look, and most in puddles."""
    wet, puddles = np.float32(shade.numbers[WET]), np.float32(shade.numbers[PUDDLES] * 0.9)
    share = np.float32(0.25) if material == GRASS else ONE
    for at in range(first, last):
        right = np.float32(np.int32(at))
        x, y, z = base[0] + step[0] * right, base[1] + step[1] * right, base[2] + step[2] * right
        away = ONE + min(z / np.sqrt(x * x + y * y + z * z), ZERO)
        away = away * away
        level = _grain(shade.noise, 2, line.x[at] * np.float32(2.3), line.y[at] * np.float32(2.3)) + np.float32(128.0)
        pool = min(max((puddles - level / np.float32(255.0)) * np.float32(6.0), ZERO), ONE)
        part = (np.float32(0.03) + np.float32(0.62) * away * away) * wet
        part = share * min(part + pool * (np.float32(0.12) + np.float32(0.55) * away), np.float32(0.9))
        b, g, r = sky_at(shade.sky, x, y, -z if z < ZERO else z)
        line.blue[at] = line.blue[at] + (b - line.blue[at]) * part
        line.green[at] = line.green[at] + (g - line.green[at]) * part
        line.red[at] = line.red[at] + (r - line.red[at]) * part


@compiled
def _paint_leaves(tile: U8, blue: float, green: float, red: float, depth: F32, first: int, last: int, line: Line) -> None:
    for at in range(first, last):
        w, z = depth[at], line.z[at]
        leaf = _grain(tile, 1, (line.x[at] + z) * np.float32(14.0), (line.y[at] - z) * np.float32(14.0))
        grain = ONE + np.float32(0.0022) * leaf * (w / (w + np.float32(0.03)))
        line.blue[at], line.green[at], line.red[at] = blue * grain, green * grain, red * grain


@compiled
def _paint_wall(shade: Shade, wall: int, blue: float, green: float, red: float, first: int, last: int, line: Line) -> None:
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
        inside = min(min(du - side, ONE - side - du), min(dv - low, high - dv))
        if inside > frame:
            luck = tile[0, np.uint32((j * np.int32(59) + np.int32(17)) & np.int32(255)),
                        np.uint32((i * np.int32(37) + np.int32(wall * 11)) & np.int32(255))]  # fmt: skip
            part = np.float32(0.19) + np.float32(0.00066) * np.float32(luck) + np.float32(0.14) * dv
            b, g, r = sky_b * part + np.float32(14.0), sky_g * part + np.float32(10.0), sky_r * part + np.float32(7.0)
            if dark > ZERO and luck < 96:
                glow = dark * (np.float32(0.6) + np.float32(0.0015) * np.float32(luck))
                b, g = b + (np.float32(120.0) - b) * glow, g + (np.float32(190.0) - g) * glow
                r = r + (np.float32(235.0) - r) * glow
            line.blue[at], line.green[at], line.red[at] = b, g, r
            continue
        stain = ONE + np.float32(0.0004) * _grain(tile, 2, (x + y) * np.float32(2.0), z * np.float32(2.0))
        if inside > ZERO:
            stain = np.float32(1.16)
        elif dv < np.float32(0.035):
            stain = stain * np.float32(0.90)
        line.blue[at], line.green[at], line.red[at] = blue * stain, green * stain, red * stain


@compiled
def _fog(shade: Shade, height_m: float, base_z: float, step_z: float, depth: F32, width: int, line: Line) -> None:
    """Mix fog into a row by depth, thinner high up; the sky has its own in it."""
    n = shade.numbers
    fog_b, fog_g, fog_r = np.float32(tone(n[FOG + 2])), np.float32(tone(n[FOG + 1])), np.float32(tone(n[FOG]))
    per_m, from_m, falloff = np.float32(0.25 * n[FOG_PER_M]), np.float32(n[FOG_FROM_M]), np.float32(0.5 * n[FALLOFF])
    high, blue, green, red = np.float32(2.0 * height_m), line.blue, line.green, line.red
    for at in range(width):
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
def _byte(level: float) -> int:
    level = level if level > ZERO else ZERO
    return np.int32((level if level < np.float32(255.0) else np.float32(255.0)) + np.float32(0.5))


@compiled
def _pack(line: Line, width: int, to: U32) -> None:
    """A row as CARLA stores it: blue in the lowest byte, then green, red, 255."""
    blue, green, red = line.blue, line.green, line.red
    for at in range(width):
        pixel = _byte(blue[at]) | (_byte(green[at]) << np.int32(8)) | (_byte(red[at]) << np.int32(16))
        to[at] = np.uint32(pixel) | _OPAQUE


@compiled
def _paint_run(shade: Shade, rows: Rows, mark: int, base: Ray, step: Ray, depth: F32, first: int, last: int,
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
        _paint_wall(shade, np.int64(rows.colour[face, 3]), blue, green, red, first, last, line)
    elif material == FOLIAGE:
        _paint_leaves(shade.noise, blue, green, red, depth, first, last, line)
    else:
        if mark >> ROW_BITS != 0:
            blue, green, red = blue * shade.flat[1, 0], green * shade.flat[1, 1], red * shade.flat[1, 2]
        _paint_flat(shade.noise, material, blue, green, red, depth, first, last, line)
        if shade.numbers[NIGHT] > 0.0:
            _light_flat(shade, first, last, line)
        if shade.numbers[WET] > 0.0:
            _mirror(shade, material, base, step, first, last, line)


@compiled
def paint(views: Views, c: int, width: int, height: int, focal: float, rows: Rows, scratch: Scratch, shade: Shade, to: U32,
          start: int) -> None:  # fmt: skip
    """Colour every pixel, in runs that show the same face."""
    axes, stands = views.axes[c], views.place[c]
    place = (np.float32(stands[0]), np.float32(stands[1]), np.float32(stands[2]))
    pitch = 1.0 / focal
    step = (np.float32(axes[1, 0] * pitch), np.float32(axes[1, 1] * pitch), np.float32(axes[1, 2] * pitch))
    stride = max(np.int64(focal * _SKY_STRIDE), 2)
    line, block = scratch.line, -1
    for row in range(height):
        down, first = (row + 0.5 - 0.5 * height) * pitch, (0.5 - 0.5 * width) * pitch
        base = (
            np.float32(axes[0, 0] - axes[2, 0] * down + axes[1, 0] * first),
            np.float32(axes[0, 1] - axes[2, 1] * down + axes[1, 1] * first),
            np.float32(axes[0, 2] - axes[2, 2] * down + axes[1, 2] * first),
        )
        depth, ids = scratch.depth[row * width : (row + 1) * width], scratch.ids[row * width : (row + 1) * width]
        _locate(place, base, step, depth, width, line)
        column = 0
        while column < width:
            end = column + 1
            if depth[column] <= ZERO:
                while end < width and depth[end] <= ZERO:
                    end += 1
                if block != row // stride:
                    block = row // stride
                    _sky_nodes(shade.sky, axes, focal, width, height, block * stride, stride, line.upper)
                    _sky_nodes(shade.sky, axes, focal, width, height, (block + 1) * stride, stride, line.lower)
                part = np.float32(row - block * stride) / np.float32(stride)
                _paint_sky(line.upper, line.lower, part, column, end, stride, line)
            else:
                mark = ids[column]
                while end < width and ids[end] == mark and depth[end] > ZERO:
                    end += 1
                _paint_run(shade, rows, mark, base, step, depth, column, end, line)
            column = end
        _fog(shade, stands[2], base[2], step[2], depth, width, line)
        _pack(line, width, to[start + row * width : start + (row + 1) * width])


@compiled
def _flow(views: Views, c: int, placed: Placed, rows: Rows, scratch: Scratch, to: F32, start: int) -> None:
    """Where each pixel has come from: back along its instance's motion and the camera's; the sky only by the camera's turning."""
    width, height, focal = views.size[c, 0], views.size[c, 1], views.focal[c]
    axes, place, was_axes, was_place = views.axes[c], views.place[c], views.was_axes[c], views.was_place[c]
    for row in range(height):
        for column in range(width):
            at = row * width + column
            right, down = (column + 0.5 - 0.5 * width) / focal, (row + 0.5 - 0.5 * height) / focal
            x = axes[0, 0] + right * axes[1, 0] - down * axes[2, 0]
            y = axes[0, 1] + right * axes[1, 1] - down * axes[2, 1]
            z = axes[0, 2] + right * axes[1, 2] - down * axes[2, 2]
            w = scratch.depth[at]
            if w > 0.0:
                far = 1.0 / np.float64(w)
                i = rows.placed[scratch.ids[at] & ROW_MASK]
                turn, was = placed.axes[i], placed.was_axes[i]
                x += (place[0] - placed.position[i, 0]) / far
                y += (place[1] - placed.position[i, 1]) / far
                z += (place[2] - placed.position[i, 2]) / far
                lx = turn[0, 0] * x + turn[0, 1] * y + turn[0, 2] * z
                ly = turn[1, 0] * x + turn[1, 1] * y + turn[1, 2] * z
                lz = turn[2, 0] * x + turn[2, 1] * y + turn[2, 2] * z
                x = was[0, 0] * lx + was[1, 0] * ly + was[2, 0] * lz + (placed.was_position[i, 0] - was_place[0]) / far
                y = was[0, 1] * lx + was[1, 1] * ly + was[2, 1] * lz + (placed.was_position[i, 1] - was_place[1]) / far
                z = was[0, 2] * lx + was[1, 2] * ly + was[2, 2] * lz + (placed.was_position[i, 2] - was_place[2]) / far
            ahead = max(was_axes[0, 0] * x + was_axes[0, 1] * y + was_axes[0, 2] * z, 1e-3)
            was_right = (was_axes[1, 0] * x + was_axes[1, 1] * y + was_axes[1, 2] * z) / ahead
            was_down = -(was_axes[2, 0] * x + was_axes[2, 1] * y + was_axes[2, 2] * z) / ahead
            flow_x, flow_y = (right - was_right) * focal / (0.5 * width), -(down - was_down) * focal / (0.5 * height)
            to[2 * (start + at)] = np.float32(min(max(flow_x, -2.0), 2.0))
            to[2 * (start + at) + 1] = np.float32(min(max(flow_y, -2.0), 2.0))


@compiled
def measure(views: Views, c: int, placed: Placed, rows: Rows, scratch: Scratch, out: Outputs, far_m: float, sky_label: int) -> None:
    """Everything but colour: depth, label, instance, normal and flow, as far as they are asked for."""
    count = np.uint64(views.size[c, 0] * views.size[c, 1])
    depth, ids, offset = scratch.depth, scratch.ids, views.offset[c]
    if offset[1] >= 0:
        first, limit = np.uint64(offset[1]), np.float32(far_m)
        for at in range(count):
            far = ONE / depth[at]
            out.depth[first + at] = far if far < limit else limit
    if offset[2] >= 0:
        first, none = np.uint64(offset[2]), np.uint8(sky_label)
        for at in range(count):
            out.label[first + at] = rows.label[np.uint64(ids[at] & ROW_MASK)] if depth[at] > ZERO else none
    if offset[3] >= 0:
        first = np.uint64(offset[3])
        for at in range(count):
            out.instance[first + at] = rows.instance[np.uint64(ids[at] & ROW_MASK)] if depth[at] > ZERO else np.uint16(0)
    if offset[4] >= 0:
        first = np.uint64(offset[4])
        for at in range(count):
            face, seen = np.uint64(ids[at] & ROW_MASK), depth[at] > ZERO
            for k in range(3):
                out.normal[np.uint64(3) * (first + at) + np.uint64(k)] = rows.normal[face, k] if seen else np.int8(0)
    if offset[5] >= 0:
        _flow(views, c, placed, rows, scratch, out.flow, offset[5])
