"""From ids and 1/z to what a camera delivers: colours, and the channels that are measured.

What a pixel shows depends on its face, its 1/z, its place in the picture and the light alone. Painting goes row by row in runs
that show the same face, because then the material is looked up once per run and the loops have no branches; the runs have no
influence on any value. Colours are float32 from 0 to 255 until the very end; :func:`_pack` rounds them to bytes once.
"""

import numpy as np

from samepath.simulator.sensors.images import DEPTH_STEPS_PER_M
from samepath.simulator.sensors.raster.arrays import (
    F32,
    F64,
    I32,
    I64,
    ROW_BITS,
    ROW_MASK,
    U8,
    U32,
    CameraArrays,
    FaceRows,
    InstanceArrays,
    LightArrays,
    Number,
    Outputs,
    RowBuffer,
    Scratch,
)
from samepath.simulator.sensors.raster.compiled import compiled, compiled_apart, compiled_entry
from samepath.simulator.sensors.raster.shading import (
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
    TILE,
    WET,
    sky_at,
    tone,
)

Ray = tuple[Number, Number, Number]

# Written as float32: a plain 1.0 is a float64, and one of them makes the whole expression float64, with other bits.
ONE, ZERO = np.float32(1.0), np.float32(0.0)

# Added before cutting to whole numbers, so that they are never negative: to cells of noise, to windows and storeys.
_LIFT, _CELLS = np.float32(65536.0), np.float32(1024.0)

# In 1/z: fine grain is seen up to 1 / 0.03 metres, as it would flicker farther away; nothing is farther than 1 / 0.0001.
_FINE, _FARTHEST = np.float32(0.03), np.float32(1e-4)
_MIDDLE, _SOFT = np.uint32(TILE * TILE), np.uint32(2 * TILE * TILE)
# Indices are unsigned: of a signed one compiled code first asks whether it counts from the end, for every pixel.
_1, _2, _3, _4, _5 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4), np.uint64(5)

_BYTE, _OPAQUE = np.uint32(0x000000FF), np.uint32(0xFF000000)
_SKY_STRIDE = 0.02
"""The sky is looked up once per so many radians: its own picture is hardly finer."""

_BLOCK = np.uint64(64)
"""Pixels are located in blocks of at least this size, as far as a row needs it."""


@compiled_apart
def paint(views: CameraArrays, c: Number, width: Number, height: Number, focal: Number, rows: FaceRows, scratch: Scratch,
          shade: LightArrays, to: U32, start: Number) -> None:  # fmt: skip
    """Colour every pixel, row by row, in runs that show the same face.

    The ray through a pixel is ``base + step * column``, both rounded to float32 once per row: rays of a row differ by the
    product alone, whatever run a pixel belongs to.
    """
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
                # Nodes of the sky are worked out for the rows of nodes above and below; the lower ones of a block are the
                # upper ones of the next, the very same numbers.
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
                # Blocks larger than the run: places are worked out several at a time. Nobody reads those he did not ask for.
                if end > located and rows.material[np.uint64(mark & ROW_MASK)] >= FOLIAGE:
                    first_new = max(column, located)
                    located = min(max(end, first_new + _BLOCK), last)
                    locate(place, base, step, depth, first_new, located, line)
                _paint_run(shade, rows, mark, base, step, depth, column, end, line)
            column = end
        # Over the whole row at once: fog depends on a pixel's own depth and ray, not on the run it belongs to.
        _fog(shade, stands[2], base[2], step[2], depth, width, line)
        _pack(line, width, to[start + row * width : start + (row + 1) * width])


@compiled
def _paint_run(shade: LightArrays, rows: FaceRows, mark: Number, base: Ray, step: Ray, depth: F32, first: Number, last: Number,
               line: RowBuffer) -> None:  # fmt: skip
    """A run of pixels that show the same face."""
    face = np.uint64(mark & ROW_MASK)
    blue, green, red = rows.colour[face, 0], rows.colour[face, 1], rows.colour[face, 2]
    material = rows.material[face]
    # Plain, body and glass have one colour for the whole face; they are the materials below this number.
    if material < FOLIAGE:
        for at in range(first, last):
            line.blue[at], line.green[at], line.red[at] = blue, green, red
        return
    if material == FACADE:
        paint_wall(shade, np.int64(rows.colour[face, 3]), blue, green, red, first, last, line)
    elif material == FOLIAGE:
        paint_leaves(shade.noise, blue, green, red, depth, first, last, line)
    else:
        # In shadow. A factor of the finished colour, the same for all colours of ground: a pixel no longer knows what light it
        # was made of.
        if mark >> ROW_BITS != 0:
            blue, green, red = blue * shade.flat[1, 0], green * shade.flat[1, 1], red * shade.flat[1, 2]
        paint_flat(shade.noise, material, blue, green, red, depth, first, last, line)
        if shade.numbers[NIGHT] > 0.0:
            light_flat(shade, first, last, line)
        # Last: water mirrors over whatever light lies on the ground below it.
        if shade.numbers[WET] > 0.0:
            mirror(shade, material, base, step, first, last, line)


@compiled
def sky_nodes(sky: U32, axes: F64, focal: Number, width: Number, height: Number, row: Number, stride: Number, to: F32) -> None:
    """The sky at every ``stride``-th pixel of a row: blue, green, red one behind the other, and a node beyond the end."""
    pitch = 1.0 / focal
    down = (row + 0.5 - 0.5 * height) * pitch
    # Two more than whole strides: the last pixels are mixed with the node behind the end of the row.
    for k in range(width // stride + 2):
        right = (k * stride + 0.5 - 0.5 * width) * pitch
        to[3 * k], to[3 * k + 1], to[3 * k + 2] = sky_at(
            sky,
            np.float32(axes[0, 0] - axes[2, 0] * down + axes[1, 0] * right),
            np.float32(axes[0, 1] - axes[2, 1] * down + axes[1, 1] * right),
            np.float32(axes[0, 2] - axes[2, 2] * down + axes[1, 2] * right),
        )


@compiled
def paint_sky(upper: F32, lower: F32, part: Number, first: Number, last: Number, stride: Number, line: RowBuffer) -> None:
    """A run of sky, mixed from the nodes above, below, left and right."""
    # A straight line between two nodes, started anew at each: no error adds up along a row.
    gain = ONE / np.float32(np.int32(stride))
    at = first
    while at < last:
        block = at // stride
        k, end = np.uint64(3) * block, min((block + np.uint64(1)) * stride, last)
        # Mixed down the picture first, then across: once per node instead of once per pixel.
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
def locate(place: Ray, base: Ray, step: Ray, depth: F32, first: Number, last: Number, line: RowBuffer) -> None:
    """Where in the world some pixels of a row are, and which cells of noise lie there.

    Lifted by 2**16 cells before cutting to whole numbers: cutting rounds towards zero, and must round down on either side of
    the map's origin. The tile repeats after 256 cells, so the lift does not show.
    """
    xs, ys, zs, soft, fine, near = line.x, line.y, line.z, line.soft, line.fine, line.near
    for at in range(first, last):
        # Through int32, which a processor turns into float32 several at a time; exact, as columns stay far below 2**24.
        right, w = np.float32(np.int32(at)), depth[at]
        # A block may reach over sky, where 1/z is 0: an infinite place could not become a whole number (see the rules on
        # arithmetic).
        w = w if w > _FARTHEST else _FARTHEST
        far = ONE / w
        x, y = place[0] + (base[0] + step[0] * right) * far, place[1] + (base[1] + step[1] * right) * far
        xs[at], ys[at], zs[at] = x, y, place[2] + (base[2] + step[2] * right) * far
        i, j = np.int32(x * np.float32(1.7) + _LIFT), np.int32(y * np.float32(1.7) + _LIFT)
        soft[at] = ((j & np.int32(255)) << np.int32(8)) | (i & np.int32(255))
        i, j = np.int32(x * np.float32(22.0) + _LIFT), np.int32(y * np.float32(22.0) + _LIFT)
        fine[at] = ((j & np.int32(255)) << np.int32(8)) | (i & np.int32(255))
        # Fades to 0 at the limit and goes to 1 close by: what simply stopped would show as an edge on the road.
        off = w - _FINE
        near[at] = (off if off > ZERO else ZERO) / (w + _FINE)


@compiled
def paint_flat(tile: U8, material: Number, blue: Number, green: Number, red: Number, depth: F32, first: Number, last: Number,
                line: RowBuffer) -> None:  # fmt: skip
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
def light_flat(shade: LightArrays, first: Number, last: Number, line: RowBuffer) -> None:
    """Add the light of lamps to a run of ground: the grid is read between its four cells."""
    n, glow = shade.numbers, shade.glow
    x0, y0, per_m = np.float32(n[GLOW_X]), np.float32(n[GLOW_Y]), np.float32(n[GLOW_PER_M])
    # One less than there are: the neighbour to the right and below must be in the grid too.
    bright, columns, rows = np.float32(1.0 / n[DARK]), np.float32(glow.shape[1] - 1), np.float32(glow.shape[0] - 1)
    for at in range(first, last):
        x, y = (line.x[at] - x0) * per_m, (line.y[at] - y0) * per_m
        # Beyond the grid no lamp shines. Written so that a NaN is left out too: as an index it could be anything.
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
def mirror(shade: LightArrays, material: Number, base: Ray, step: Ray, first: Number, last: Number, line: RowBuffer) -> None:
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
        # Flat ground throws a ray back with its z turned over.
        b, g, r = sky_at(shade.sky, x, y, -z if z < ZERO else z)
        line.blue[at] = line.blue[at] + (b - line.blue[at]) * part
        line.green[at] = line.green[at] + (g - line.green[at]) * part
        line.red[at] = line.red[at] + (r - line.red[at]) * part


@compiled
def paint_leaves(
    tile: U8, blue: Number, green: Number, red: Number, depth: F32, first: Number, last: Number, line: RowBuffer
) -> None:
    """A run of leaves."""
    for at in range(first, last):
        w, z = depth[at], line.z[at]
        leaf = _grain(tile, _MIDDLE, (line.x[at] + z) * np.float32(14.0), (line.y[at] - z) * np.float32(14.0))
        grain = ONE + np.float32(0.0022) * leaf * (w / (w + np.float32(0.03)))
        line.blue[at], line.green[at], line.red[at] = blue * grain, green * grain, red * grain


@compiled
def paint_wall(
    shade: LightArrays, wall: Number, blue: Number, green: Number, red: Number, first: Number, last: Number, line: RowBuffer
) -> None:
    """A run of a wall with windows: glass that mirrors the sky by day, some of it lit at night."""
    m, tile, dark = shade.walls[wall], shade.noise, np.float32(shade.numbers[NIGHT])
    ux, uy, uz, u0, vx, vy, vz, v0 = m[0], m[1], m[2], m[3] + _CELLS, m[4], m[5], m[6], m[7] + _CELLS
    # One direction for all windows, some 20 degrees up: a true mirror image would take a look into the sky for every pixel.
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
            # Which window is lit depends on storey, window and wall alone, so that it is the same from everywhere and at every
            # tick.
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


@compiled
def _grain(tile: U8, layer: Number, x: Number, y: Number) -> Number:
    """Noise of one cell, -128..127."""
    i, j = np.int32(x + _LIFT) & np.int32(255), np.int32(y + _LIFT) & np.int32(255)
    return np.float32(tile[layer + np.uint32((j << np.int32(8)) + i)]) - np.float32(128.0)


@compiled
def _fog(
    shade: LightArrays, height_m: Number, base_z: Number, step_z: Number, depth: F32, width: Number, line: RowBuffer
) -> None:
    """Mix fog into a row by depth, thinner high up; the sky has its own in it.

    1 / (1 + x / 4)**4 stands for exp(-x): products and a quotient are the same everywhere, an exponential is not.
    """
    n = shade.numbers
    fog_b, fog_g, fog_r = np.float32(tone(n[FOG + 2])), np.float32(tone(n[FOG + 1])), np.float32(tone(n[FOG]))
    per_m, from_m, falloff = np.float32(0.25 * n[FOG_PER_M]), np.float32(n[FOG_FROM_M]), np.float32(0.5 * n[FALLOFF])
    # ``above`` is the height of the camera plus that of the point, twice the mean height of the ray: hence the halved falloff.
    high, blue, green, red = np.float32(2.0 * height_m), line.blue, line.green, line.red
    for at in range(np.uint64(width)):
        w = depth[at]
        # Sky counts as no distance at all: its fog is in its picture already.
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
def _pack(line: RowBuffer, width: Number, to: U32) -> None:
    """A row as CARLA stores it: blue in the lowest byte, then green, red, 255."""
    blue, green, red = line.blue, line.green, line.red
    for at in range(np.uint64(width)):
        pixel = _byte(blue[at]) | (_byte(green[at]) << np.int32(8)) | (_byte(red[at]) << np.int32(16))
        to[at] = np.uint32(pixel) | _OPAQUE


@compiled
def _byte(level: Number) -> Number:
    """Clamped first, then rounded half up: what is out of range never reaches the conversion."""
    level = level if level > ZERO else ZERO
    return np.int32((level if level < np.float32(255.0) else np.float32(255.0)) + np.float32(0.5))


@compiled
def measure(
    views: CameraArrays,
    c: Number,
    placed: InstanceArrays,
    rows: FaceRows,
    scratch: Scratch,
    out: Outputs,
    far_m: Number,
    sky_label: Number,
) -> None:
    """Everything but colour: depth, label, instance, normal and flow, as far as they are asked for.

    One sample per pixel, at its middle: labels cannot be averaged. Where nothing was drawn 1/z is 0 and the depth 1/0,
    infinite, which the limit turns into the farthest depth.
    """
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
    _measured_images(offset, count, rows, depth, ids, out, far_m, sky_label)


@compiled
def _measured_images(
    offset: I64, count: Number, rows: FaceRows, depth: F32, ids: I32, out: Outputs, far_m: Number, sky_label: Number
) -> None:
    """The same as CARLA's cameras show it; the rules are those of :mod:`..images`, pixel by pixel."""
    if offset[6] >= 0:
        first, limit = np.uint64(offset[6]), np.float32(far_m)
        for at in range(count):
            far = ONE / depth[at]
            steps = np.uint32(np.float64(far if far < limit else limit) * DEPTH_STEPS_PER_M + 0.5)
            out.depth_image[first + at] = _pixel(steps >> np.uint32(16), steps >> np.uint32(8), steps)
    if offset[7] >= 0:
        first, none = np.uint64(offset[7]), np.uint32(sky_label)
        for at in range(count):
            label = np.uint32(rows.label[np.uint64(ids[at] & ROW_MASK)]) if depth[at] > ZERO else none
            out.label_image[first + at] = _pixel(np.uint32(0), np.uint32(0), label)
    if offset[8] >= 0:
        first, none = np.uint64(offset[8]), np.uint32(sky_label)
        for at in range(count):
            face, seen = np.uint64(ids[at] & ROW_MASK), depth[at] > ZERO
            number = np.uint32(rows.instance[face]) if seen else np.uint32(0)
            label = np.uint32(rows.label[face]) if seen else none
            out.instance_image[first + at] = _pixel(number >> np.uint32(8), number, label)
    if offset[9] >= 0:
        first = np.uint64(offset[9])
        for at in range(count):
            face, seen = np.uint64(ids[at] & ROW_MASK), depth[at] > ZERO
            x = np.int32(rows.normal[face, 0]) if seen else np.int32(0)
            y = np.int32(rows.normal[face, 1]) if seen else np.int32(0)
            z = np.int32(rows.normal[face, 2]) if seen else np.int32(0)
            out.normal_image[first + at] = _pixel(_normal_level(z), _normal_level(y), _normal_level(x))


@compiled
def _pixel(blue: Number, green: Number, red: Number) -> Number:
    """Blue in the lowest byte, then green, red, 255; of each the lowest eight bits count."""
    byte = np.uint32(255)
    return (blue & byte) | ((green & byte) << np.uint32(8)) | ((red & byte) << np.uint32(16)) | np.uint32(0xFF000000)


@compiled
def _normal_level(part: Number) -> Number:
    return np.uint32((part + 127) * 255 // 254)


@compiled
def _flow(
    views: CameraArrays, c: Number, placed: InstanceArrays, rows: FaceRows, scratch: Scratch, to: F32, start: Number
) -> None:
    """Where each pixel has come from, back along its instance's motion and the camera's; the sky only turns.

    Float64: flow is the small difference of two nearly equal directions.
    """
    width, height, focal = views.size[c, 0], views.size[c, 1], views.focal[c]
    axes, place, was_axes, was_place = views.axes[c], views.place[c], views.was_axes[c], views.was_place[c]
    for row in range(height):
        for column in range(width):
            at = row * width + column
            right, down = (column + 0.5 - 0.5 * width) / focal, (row + 0.5 - 0.5 * height) / focal
            x = axes[0, 0] + right * axes[1, 0] - down * axes[2, 0]
            y = axes[0, 1] + right * axes[1, 1] - down * axes[2, 1]
            z = axes[0, 2] + right * axes[1, 2] - down * axes[2, 2]
            # Everything is divided by the depth instead of multiplied: then the sky, infinitely far, is the same sum without
            # the places.
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
            # What was beside or behind the camera has no place in the picture before: it gets a large motion, cut to 2 below.
            ahead = max(was_axes[0, 0] * x + was_axes[0, 1] * y + was_axes[0, 2] * z, 1e-3)
            was_right = (was_axes[1, 0] * x + was_axes[1, 1] * y + was_axes[1, 2] * z) / ahead
            was_down = -(was_axes[2, 0] * x + was_axes[2, 1] * y + was_axes[2, 2] * z) / ahead
            flow_x, flow_y = (right - was_right) * focal / (0.5 * width), -(down - was_down) * focal / (0.5 * height)
            to[2 * (start + at)] = np.float32(min(max(flow_x, -2.0), 2.0))
            to[2 * (start + at) + 1] = np.float32(min(max(flow_y, -2.0), 2.0))


@compiled
def lay_over(to: U32, start: Number, width: Number, height: Number, strength: Number, tick: Number, tile: U8,
             corners: Number) -> None:  # fmt: skip
    """Rain and darker corners, where there are any; in this order, as the lens is behind the rain."""
    if strength > 0.0:
        rain(to, start, width, height, strength, tick, tile)
    if corners > 0.0:
        vignette(to, start, width, height, corners)


@compiled_entry
def finish(to: U32, start: Number, width: Number, height: Number, strength: Number, tick: Number, tile: U8,
           corners: Number) -> None:  # fmt: skip
    """:func:`lay_over` for a picture that was drawn elsewhere."""
    lay_over(to, start, width, height, strength, tick, tile, corners)


@compiled
def average(fine: U32, to: U32, start: Number, width: Number, height: Number, samples: Number) -> None:
    """One pixel from samples x samples, rounded to nearest."""
    # Sums of bytes are exact, so the order of samples does not matter; half the count is added to round to nearest.
    count = np.uint32(samples * samples)
    half = count // np.uint32(2)
    for row in range(height):
        for column in range(width):
            b, g, r = half, half, half
            for j in range(samples):
                line = (row * samples + j) * width * samples + column * samples
                for i in range(samples):
                    pixel = fine[line + i]
                    b += pixel & _BYTE
                    g += (pixel >> np.uint32(8)) & _BYTE
                    r += (pixel >> np.uint32(16)) & _BYTE
            b, g, r = b // count, g // count, r // count
            to[start + row * width + column] = b | (g << np.uint32(8)) | (r << np.uint32(16)) | _OPAQUE


@compiled
def rain(to: U32, start: Number, width: Number, height: Number, strength: Number, tick: Number, tile: U8) -> None:
    """Slanted streaks, other ones at every tick; their number follows the strength, their length the image's height.

    Where streaks cross, the later one is mixed into the result of the earlier one in whole numbers, so they must be laid in the
    order of ``k``.
    """
    # Whole numbers from the noise tile and the tick: rain repeats like everything else, and takes no random numbers.
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
def _lighten(pixel: Number, part: Number) -> Number:
    """Mix a pixel with pale grey; ``part`` of 256."""
    keep = np.uint32(256 - part)
    add = np.uint32(part) * np.uint32(190)
    b = ((pixel & _BYTE) * keep + add) >> np.uint32(8)
    g = (((pixel >> np.uint32(8)) & _BYTE) * keep + add) >> np.uint32(8)
    r = (((pixel >> np.uint32(16)) & _BYTE) * keep + add) >> np.uint32(8)
    return b | (g << np.uint32(8)) | (r << np.uint32(16)) | _OPAQUE


@compiled
def _cell(row: Number, column: Number) -> Number:
    return ((row & 255) << 8) + (column & 255)


@compiled
def vignette(to: U32, start: Number, width: Number, height: Number, strength: Number) -> None:
    """Darken towards the corners with the square of the distance from the middle."""
    gain = 1.0 / (width * width + height * height)
    for row in range(height):
        for column in range(width):
            x, y = 2.0 * column + 1.0 - width, 2.0 * row + 1.0 - height
            # In 256ths, cut off: the product with a byte is a whole number on every machine.
            keep = np.uint32(256.0 * max(1.0 - strength * (x * x + y * y) * gain, 0.0))
            pixel = to[start + row * width + column]
            b = ((pixel & _BYTE) * keep) >> np.uint32(8)
            g = (((pixel >> np.uint32(8)) & _BYTE) * keep) >> np.uint32(8)
            r = (((pixel >> np.uint32(16)) & _BYTE) * keep) >> np.uint32(8)
            to[start + row * width + column] = b | (g << np.uint32(8)) | (r << np.uint32(16)) | _OPAQUE
