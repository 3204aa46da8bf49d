"""From ids and 1/z to pictures: one pass over the pixels of a camera, channel by channel."""

import numpy as np

from samepath.sim.sensors.raster.arrays import F32, ROW_BITS, ROW_MASK, U8, U32, Outputs, Placed, Rows, Scratch, Shade, Views
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
    PAINT,
    PAVING,
    PUDDLES,
    ROAD,
    WET,
)
from samepath.sim.sensors.raster.sky import sky_at, soft
from samepath.sim.sensors.raster.tones import tone

ONE, ZERO = np.float32(1.0), np.float32(0.0)
# Added before cutting to whole numbers, so that they are never negative.
_LIFT = np.float32(65536.0)
_OPAQUE = np.uint32(0xFF000000)
_SKY_STRIDE = 0.006
"""The sky is looked up once per so many radians: its own picture is no finer."""


@compiled
def _grain(tile: U8, layer: int, x: float, y: float) -> float:
    """Noise of one cell, 0..255."""
    i, j = np.uint32(x + _LIFT) & np.uint32(255), np.uint32(y + _LIFT) & np.uint32(255)
    return np.float32(tile[layer, j, i])


@compiled
def _flat_texture(tile: U8, material: int, x: float, y: float, near: float) -> float:
    """How much brighter or darker a flat surface is at a place; ``near`` fades what would only flicker from afar."""
    soft_part = _grain(tile, 2, x * np.float32(1.7), y * np.float32(1.7)) - np.float32(128.0)
    fine_part = _grain(tile, 0, x * np.float32(22.0), y * np.float32(22.0)) - np.float32(128.0)
    if material == ROAD:
        return ONE + np.float32(0.00045) * soft_part + np.float32(0.00055) * fine_part * near
    if material == GRASS:
        middle = _grain(tile, 1, x * np.float32(6.0), y * np.float32(6.0)) - np.float32(128.0)
        return ONE + np.float32(0.0011) * soft_part + (np.float32(0.0009) * middle + np.float32(0.0006) * fine_part) * near
    if material == PAVING:
        u, v = x * np.float32(1.6) + _LIFT, y * np.float32(1.6) + _LIFT
        u, v = u - np.float32(np.uint32(u)), v - np.float32(np.uint32(v))
        joint = np.float32(0.10) if u < np.float32(0.05) or v < np.float32(0.05) else ZERO
        return ONE + np.float32(0.0004) * soft_part + np.float32(0.0003) * fine_part * near - joint * near
    return ONE + np.float32(0.0004) * soft_part


@compiled
def _facade(tile: U8, mapping: F32, at: int, x: float, y: float, z: float, shade: Shade,
            blue: float, green: float, red: float) -> tuple[float, float, float]:  # fmt: skip
    """A wall with windows: glass that mirrors the sky by day, some of it lit at night."""
    m = mapping[at]
    u = m[0] * x + m[1] * y + m[2] * z + m[3]
    v = m[4] * x + m[5] * y + m[6] * z + m[7]
    lifted_u, lifted_v = u + np.float32(1024.0), v + np.float32(1024.0)
    i, j = np.uint32(lifted_u), np.uint32(lifted_v)
    du, dv = lifted_u - np.float32(i), lifted_v - np.float32(j)
    ground = j < np.uint32(1025)
    low, high = (np.float32(0.16), np.float32(0.82)) if ground else (np.float32(0.28), np.float32(0.80))
    side = np.float32(0.14) if ground else np.float32(0.24)
    frame = np.float32(0.045)
    luck = tile[0, (j * np.uint32(59) + np.uint32(17)) & np.uint32(255), (i * np.uint32(37) + np.uint32(at * 11)) & np.uint32(255)]
    if side < du < ONE - side and low < dv < high:
        if side + frame < du < ONE - side - frame and low + frame < dv < high - frame:
            sky = shade.sky[400, 256]
            part = np.float32(0.34) + np.float32(0.0012) * np.float32(luck) + np.float32(0.25) * dv
            dim = np.float32(0.55)
            b, g, r = sky[0] * part * dim + np.float32(14.0), sky[1] * part * dim + np.float32(10.0), sky[2] * part * dim + np.float32(7.0)
            dark = np.float32(shade.numbers[NIGHT])
            if dark > ZERO and luck < 96:
                glow = dark * (np.float32(0.6) + np.float32(0.0015) * np.float32(luck))
                b, g, r = b + (np.float32(120.0) - b) * glow, g + (np.float32(190.0) - g) * glow, r + (np.float32(235.0) - r) * glow
            return b, g, r
        trim = np.float32(1.16)
        return blue * trim, green * trim, red * trim
    stain = ONE + np.float32(0.0004) * (_grain(tile, 2, (x + y) * np.float32(2.0), z * np.float32(2.0)) - np.float32(128.0))
    band = np.float32(0.90) if dv < np.float32(0.035) else ONE
    return blue * stain * band, green * stain * band, red * stain * band


@compiled
def _mirror(shade: Shade, blue: float, green: float, red: float, x: float, y: float, z: float, gx: float, gy: float,
            material: int) -> tuple[float, float, float]:  # fmt: skip
    """A wet surface mirrors the sky, the more so the flatter the look, and most in puddles."""
    wet, puddles = np.float32(shade.numbers[WET]), np.float32(shade.numbers[PUDDLES])
    size = np.sqrt(x * x + y * y + z * z)
    away = ONE + min(z / size, ZERO)
    away = away * away
    part = (np.float32(0.03) + np.float32(0.62) * away * away) * wet
    level = _grain(shade.noise, 2, gx * np.float32(2.3), gy * np.float32(2.3)) / np.float32(255.0)
    pool = (puddles * np.float32(0.9) - level) * np.float32(6.0)
    pool = min(max(pool, ZERO), ONE)
    part = min(part + pool * (np.float32(0.12) + np.float32(0.55) * away), np.float32(0.9))
    if material == GRASS:
        part = part * np.float32(0.25)
    b, g, r = sky_at(shade.sky, x, y, -z if z < ZERO else z)
    return blue + (b - blue) * part, green + (g - green) * part, red + (r - red) * part


@compiled
def _lamp_light(glow: F32, x: float, y: float) -> float:
    """The light of lamps at a place of the grid, between its four cells; none outside."""
    if not (x >= ZERO and y >= ZERO and x < np.float32(glow.shape[1] - 1) and y < np.float32(glow.shape[0] - 1)):
        return ZERO
    i, j = np.uint32(x), np.uint32(y)
    u, v = x - np.float32(i), y - np.float32(j)
    upper = glow[j, i] + (glow[j, i + np.uint32(1)] - glow[j, i]) * u
    lower = glow[j + np.uint32(1), i] + (glow[j + np.uint32(1), i + np.uint32(1)] - glow[j + np.uint32(1), i]) * u
    return upper + (lower - upper) * v


@compiled
def _paint_sky(shade: Shade, base: tuple[float, float, float], step: tuple[float, float, float], first: int, last: int,
               stride: int, line: F32) -> None:  # fmt: skip
    """A run of sky: looked up every ``stride`` pixels, mixed in between."""
    at = first
    right = np.float32(at)
    b, g, r = sky_at(shade.sky, base[0] + step[0] * right, base[1] + step[1] * right, base[2] + step[2] * right)
    while at < last:
        following = min(at + stride, last)
        right = np.float32(following)
        b1, g1, r1 = sky_at(shade.sky, base[0] + step[0] * right, base[1] + step[1] * right, base[2] + step[2] * right)
        gain = ONE / np.float32(following - at)
        db, dg, dr = (b1 - b) * gain, (g1 - g) * gain, (r1 - r) * gain
        for k in range(following - at):
            part = np.float32(k)
            line[0, at + k], line[1, at + k], line[2, at + k] = b + db * part, g + dg * part, r + dr * part
        b, g, r, at = b1, g1, r1, following


@compiled
def _paint_flat(shade: Shade, material: int, blue: float, green: float, red: float, place: tuple[float, float, float],
                base: tuple[float, float, float], step: tuple[float, float, float], depth: F32, first: int, last: int,
                line: F32) -> None:  # fmt: skip
    """A run of road, paving, grass or paint."""
    n, tile = shade.numbers, shade.noise
    wet, lamps = n[WET] > 0.0, n[NIGHT] > 0.0
    glow_x, glow_y, glow_per_m = np.float32(n[GLOW_X]), np.float32(n[GLOW_Y]), np.float32(n[GLOW_PER_M])
    bright = np.float32(1.0 / n[DARK])
    for at in range(np.uint64(first), np.uint64(last)):
        right, w = np.float32(at), depth[at]
        far = ONE / w
        x, y = base[0] + step[0] * right, base[1] + step[1] * right
        gx, gy = place[0] + x * far, place[1] + y * far
        grain = _flat_texture(tile, material, gx, gy, w / (w + np.float32(0.05)))
        b, g, r = blue * grain, green * grain, red * grain
        if lamps:
            glow = _lamp_light(shade.glow, (gx - glow_x) * glow_per_m, (gy - glow_y) * glow_per_m)
            more = np.sqrt(ONE + glow * bright) - ONE
            b, g, r = b * (ONE + np.float32(0.72) * more), g * (ONE + np.float32(0.92) * more), r * (ONE + more)
        if wet:
            b, g, r = _mirror(shade, b, g, r, x, y, base[2] + step[2] * right, gx, gy, material)
        line[0, at], line[1, at], line[2, at] = b, g, r


@compiled
def _paint_run(shade: Shade, material: int, wall: int, blue: float, green: float, red: float,
               place: tuple[float, float, float], base: tuple[float, float, float], step: tuple[float, float, float],
               depth: F32, first: int, last: int, line: F32) -> None:  # fmt: skip
    """A run of leaves or of a wall with windows."""
    tile = shade.noise
    for at in range(np.uint64(first), np.uint64(last)):
        right, w = np.float32(at), depth[at]
        far = ONE / w
        gx, gy = place[0] + (base[0] + step[0] * right) * far, place[1] + (base[1] + step[1] * right) * far
        gz = place[2] + (base[2] + step[2] * right) * far
        if material == FACADE:
            b, g, r = _facade(tile, shade.walls, wall, gx, gy, gz, shade, blue, green, red)
        else:
            leaf = _grain(tile, 1, (gx + gz) * np.float32(14.0), (gy - gz) * np.float32(14.0)) - np.float32(128.0)
            grain = ONE + np.float32(0.0022) * leaf * (w / (w + np.float32(0.03)))
            b, g, r = blue * grain, green * grain, red * grain
        line[0, at], line[1, at], line[2, at] = b, g, r


@compiled
def _fog(shade: Shade, height_m: float, base_z: float, step_z: float, depth: F32, width: int, line: F32) -> None:
    """Mix fog into a row by depth; the sky has its own in it."""
    n = shade.numbers
    fog_b, fog_g, fog_r = np.float32(tone(n[FOG + 2])), np.float32(tone(n[FOG + 1])), np.float32(tone(n[FOG]))
    per_m, from_m, falloff = np.float32(0.25 * n[FOG_PER_M]), np.float32(n[FOG_FROM_M]), np.float32(0.5 * n[FALLOFF])
    high = np.float32(2.0 * height_m)
    for at in range(np.uint64(width)):
        w = depth[at]
        far = ONE / (w if w > np.float32(1e-6) else np.float32(1e6))
        above = max(high + (base_z + step_z * np.float32(at)) * far, ZERO)
        thick = per_m * max(far - from_m, ZERO) / (ONE + falloff * above)
        clear = ONE / (ONE + thick)
        clear = clear * clear
        clear = clear * clear
        line[0, at] = fog_b + (line[0, at] - fog_b) * clear
        line[1, at] = fog_g + (line[1, at] - fog_g) * clear
        line[2, at] = fog_r + (line[2, at] - fog_r) * clear


@compiled
def _pack_line(line: F32, width: int, to: U32, start: int) -> None:
    """A row as CARLA stores it: blue in the lowest byte, then green, red, 255."""
    top, half = np.float32(255.0), np.float32(0.5)
    for at in range(np.uint64(width)):
        b = np.uint32(np.int32(min(max(line[0, at], ZERO), top) + half))
        g = np.uint32(np.int32(min(max(line[1, at], ZERO), top) + half))
        r = np.uint32(np.int32(min(max(line[2, at], ZERO), top) + half))
        to[np.uint64(start) + at] = b | (g << np.uint32(8)) | (r << np.uint32(16)) | _OPAQUE


@compiled
def paint(views: Views, c: int, width: int, height: int, focal: float, rows: Rows, scratch: Scratch, shade: Shade, to: U32,
          start: int) -> None:  # fmt: skip
    """Colour every pixel, in runs that show the same face."""
    axes, place3 = views.axes[c], views.place[c]
    place = (np.float32(place3[0]), np.float32(place3[1]), np.float32(place3[2]))
    pitch = 1.0 / focal
    step = (np.float32(axes[1, 0] * pitch), np.float32(axes[1, 1] * pitch), np.float32(axes[1, 2] * pitch))
    stride = max(np.int64(focal * _SKY_STRIDE), 1)
    line = scratch.line
    for row in range(height):
        down, first = (row + 0.5 - 0.5 * height) * pitch, (0.5 - 0.5 * width) * pitch
        base = (
            np.float32(axes[0, 0] - axes[2, 0] * down + axes[1, 0] * first),
            np.float32(axes[0, 1] - axes[2, 1] * down + axes[1, 1] * first),
            np.float32(axes[0, 2] - axes[2, 2] * down + axes[1, 2] * first),
        )
        depth, ids = scratch.depth[row * width : (row + 1) * width], scratch.ids[row * width : (row + 1) * width]
        column = 0
        while column < width:
            end = column + 1
            if depth[column] <= ZERO:
                while end < width and depth[end] <= ZERO:
                    end += 1
                _paint_sky(shade, base, step, column, end, stride, line)
                column = end
                continue
            mark = ids[column]
            while end < width and ids[end] == mark and depth[end] > ZERO:
                end += 1
            face = np.uint64(mark & ROW_MASK)
            blue, green, red = rows.colour[face, 0], rows.colour[face, 1], rows.colour[face, 2]
            material = rows.material[face]
            if material < FOLIAGE:
                for at in range(column, end):
                    line[0, at], line[1, at], line[2, at] = blue, green, red
            elif material >= ROAD:
                if mark >> ROW_BITS != 0:
                    blue, green, red = blue * shade.flat[1, 0], green * shade.flat[1, 1], red * shade.flat[1, 2]
                _paint_flat(shade, material, blue, green, red, place, base, step, depth, column, end, line)
            else:
                wall = np.int64(rows.colour[face, 3])
                _paint_run(shade, material, wall, blue, green, red, place, base, step, depth, column, end, line)
            column = end
        _fog(shade, place3[2], base[2], step[2], depth, width, line)
        _pack_line(line, width, to, start + row * width)


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
