"""What a camera sees and which pixels show it: culling, projection, clipping, and filling triangles into a 1/z buffer.

The rules are those of the package's docstring; the first functions are the front, what they are made of follows.
"""

from typing import NamedTuple

import numpy as np

from samepath.simulator.sensors.raster.arrays import (
    F32,
    F64,
    I32,
    LEVELS,
    ROW_MASK,
    SHADOW,
    U8,
    CameraArrays,
    InstanceArrays,
    MeshArrays,
    Number,
    Scratch,
    VisibleInstances,
)
from samepath.simulator.sensors.raster.compiled import compiled, compiled_entry

# A shadow falls on a surface whose 1/z differs from its own by no more than this part: kerbs are higher than roads.
_NEAR_ENOUGH = np.float32(0.3)

_LOOK_PART = 6
"""Boxes larger than this part of the picture are drawn without a look at what hides them."""


class Spans(NamedTuple):
    """A triangle as rows: its upper corner a and middle corner b, the slopes of its edges, and 1/z as a plane."""

    top: int
    bottom: int
    ax: float
    ay: float
    bx: float
    by: float
    long_slope: float
    upper_slope: float
    lower_slope: float
    long_is_left: bool
    origin: float
    by_x: float
    by_y: float


@compiled_entry
def cull(
    views: CameraArrays,
    meshes: MeshArrays,
    placed: InstanceArrays,
    seen: VisibleInstances,
    used: U8,
    near_m: Number,
    detail: Number,
    first: Number,
    last: Number,
) -> None:
    """Fill ``seen`` for the views ``first`` up to ``last`` and mark in ``used`` which levels of which instances are needed.

    Near to far, so that what is hidden is found out early (speed), and in an order that depends on nothing but the scene (rule:
    where two faces have the same 1/z, the first one drawn is seen). ``detail`` 0 draws every mesh in full.
    """
    for c in range(first, last):
        width, height, focal = views.size[c, 0], views.size[c, 1], views.focal[c]
        half_x, half_y = 0.5 * width / focal, 0.5 * height / focal
        lean_x, lean_y = np.sqrt(1.0 + half_x * half_x), np.sqrt(1.0 + half_y * half_y)
        axes, place = views.axes[c], views.place[c]
        count = 0
        for i in range(placed.mesh.shape[0]):
            mesh = placed.mesh[i]
            radius, middle, turn = meshes.radius[mesh], meshes.centre[mesh], placed.axes[i]
            x = middle[0] * turn[0, 0] + middle[1] * turn[1, 0] + middle[2] * turn[2, 0] + placed.position[i, 0] - place[0]
            y = middle[0] * turn[0, 1] + middle[1] * turn[1, 1] + middle[2] * turn[2, 1] + placed.position[i, 1] - place[1]
            z = middle[0] * turn[0, 2] + middle[1] * turn[1, 2] + middle[2] * turn[2, 2] + placed.position[i, 2] - place[2]
            ahead = axes[0, 0] * x + axes[0, 1] * y + axes[0, 2] * z
            # The sphere against the near plane and the four sides of the pyramid. Leaving an instance out wrongly would change
            # the picture, keeping it costs time only: so spheres are a little too large.
            if ahead + radius < near_m:
                continue
            aside = abs(axes[1, 0] * x + axes[1, 1] * y + axes[1, 2] * z)
            if aside - ahead * half_x > radius * lean_x:
                continue
            above = abs(axes[2, 0] * x + axes[2, 1] * y + axes[2, 2] * z)
            if above - ahead * half_y > radius * lean_y:
                continue
            # Part of the picture, not only speed: another level is another mesh.
            level = 0
            if detail > 0.0 and ahead > radius:
                size_px = radius * focal / ahead * detail
                while level + 1 < LEVELS and meshes.coarser[mesh] >= 0 and size_px < meshes.coarser_px[mesh]:
                    mesh = meshes.coarser[mesh]
                    level += 1
            seen.ahead[c, count], seen.instance[c, count], seen.level[c, count] = ahead, i, level
            used[i, level] = 1
            count += 1
        _sort(seen.ahead[c], seen.instance[c], seen.level[c], count)
        seen.total[c] = count


@compiled
def _sort(depth: np.ndarray, index: np.ndarray, level: np.ndarray, count: Number) -> None:
    """Sort by distance ahead, then by instance.

    Shell sort is not stable and need not be: no two entries have the same key, so the order is unique. It is written out
    because nothing may be allocated here.
    """
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, count):
            far, instance, detail = depth[i], index[i], level[i]
            j = i
            while j >= gap and (depth[j - gap] > far or (depth[j - gap] == far and index[j - gap] > instance)):
                depth[j], index[j], level[j] = depth[j - gap], index[j - gap], level[j - gap]
                j -= gap
            depth[j], index[j], level[j] = far, instance, detail
        gap //= 3


@compiled
def view_matrix(matrix: F64, axes: F64, place: F64, focal: Number, turn: F64, position: F64) -> None:
    """From an instance's frame to the camera's: rows give column and row (times z and in pixels) and z.

    Float64, and the camera's place is subtracted before anything is multiplied: far from the map's origin float32 would lose
    millimetres here.
    """
    for k in range(3):
        x, y, z = turn[k, 0], turn[k, 1], turn[k, 2]
        matrix[0, k] = (axes[1, 0] * x + axes[1, 1] * y + axes[1, 2] * z) * focal
        matrix[1, k] = -(axes[2, 0] * x + axes[2, 1] * y + axes[2, 2] * z) * focal
        matrix[2, k] = axes[0, 0] * x + axes[0, 1] * y + axes[0, 2] * z
    x, y, z = position[0] - place[0], position[1] - place[1], position[2] - place[2]
    matrix[0, 3] = (axes[1, 0] * x + axes[1, 1] * y + axes[1, 2] * z) * focal
    matrix[1, 3] = -(axes[2, 0] * x + axes[2, 1] * y + axes[2, 2] * z) * focal
    matrix[2, 3] = axes[0, 0] * x + axes[0, 1] * y + axes[0, 2] * z


@compiled
def is_hidden(meshes: MeshArrays, mesh: Number, matrix: F64, near_m: Number, width: Number, height: Number, depth: F32) -> bool:
    """Is a mesh's box off the screen, or behind what is drawn already? False where that would take long to find out.

    Speed only: a pixel and a part in 100,000 of 1/z are added, more than any rounding, so nothing is hidden that would be seen.
    """
    left, right, top, bottom, nearest = 1e30, -1e30, 1e30, -1e30, 0.0
    box = meshes.box[mesh]
    for corner in range(8):
        x, y, z = box[corner & 1, 0], box[(corner >> 1) & 1, 1], box[corner >> 2, 2]
        ahead = matrix[2, 0] * x + matrix[2, 1] * y + matrix[2, 2] * z + matrix[2, 3]
        if ahead <= near_m:
            return False
        w = 1.0 / ahead
        column = (matrix[0, 0] * x + matrix[0, 1] * y + matrix[0, 2] * z + matrix[0, 3]) * w
        row = (matrix[1, 0] * x + matrix[1, 1] * y + matrix[1, 2] * z + matrix[1, 3]) * w
        left, right, top, bottom = min(left, column), max(right, column), min(top, row), max(bottom, row)
        nearest = max(nearest, w)
    left, right, top, bottom = left + 0.5 * width, right + 0.5 * width, top + 0.5 * height, bottom + 0.5 * height
    if right < 0.0 or left > width or bottom < 0.0 or top > height:
        return True
    # A pixel of margin on each side.
    first, last = np.int64(max(left - 1.0, 0.0)), np.int64(min(right + 2.0, np.float64(width)))
    start, end = np.int64(max(top - 1.0, 0.0)), np.int64(min(bottom + 2.0, np.float64(height)))
    if (last - first) * (end - start) * _LOOK_PART > width * height:
        return False
    limit = np.float32(nearest * 1.00001)
    for row in range(start, end):
        line = depth[row * width + first : row * width + last]
        open_pixels = 0
        for k in range(line.shape[0]):
            open_pixels += line[k] < limit
        if open_pixels > 0:
            return False
    return True


@compiled
def draw_mesh(
    meshes: MeshArrays, mesh: Number, matrix: F64, from_x: Number, from_y: Number, from_z: Number, is_point: bool,
    near_m: Number, width: Number, height: Number, scratch: Scratch, corners: F64, row: Number, opaque: bool, materials: U8,
    flat_from: Number,
) -> None:  # fmt: skip
    """Draw a mesh of which ``row`` is the first row or, where it is not ``opaque``, darken the ground under it.

    Only faces turned to (``from_x``, ``from_y``, ``from_z``) count: a point in the mesh's frame, or a direction.
    """
    first, first_face, last_face = meshes.first_vertex[mesh], meshes.first_face[mesh], meshes.first_face[mesh + 1]
    _project(meshes, first, meshes.first_vertex[mesh + 1] - first, matrix, near_m, width, height, scratch)
    fx, fy, fz, share = np.float32(from_x), np.float32(from_y), np.float32(from_z), np.float32(1.0 if is_point else 0.0)
    column, line, inverse = scratch.column, scratch.row, scratch.inverse
    for face in range(first_face, last_face):
        # Turned away, or seen exactly from the side: <=, so that a face of no width is not drawn. In the mesh's frame the
        # plane is known beforehand; on the screen the sign of a small area would depend on rounding.
        plane = meshes.planes[face]
        if plane[0] * fx + plane[1] * fy + plane[2] * fz <= plane[3] * share:
            continue
        a, b, c = meshes.faces[face, 0] - first, meshes.faces[face, 1] - first, meshes.faces[face, 2] - first
        aw, bw, cw = np.float64(inverse[a]), np.float64(inverse[b]), np.float64(inverse[c])
        if aw > 0.0 and bw > 0.0 and cw > 0.0:
            ax, ay, bx = np.float64(column[a]), np.float64(line[a]), np.float64(column[b])
            by, cx, cy = np.float64(line[b]), np.float64(column[c]), np.float64(line[c])
            if opaque:
                fill(
                    scratch.depth, scratch.ids, width, height,
                    ax, ay, aw, bx, by, bw, cx, cy, cw, row + face - first_face,
                )  # fmt: skip
            else:
                darken(
                    scratch.depth, scratch.ids, materials, flat_from, width, height,
                    ax, ay, aw, bx, by, bw, cx, cy, cw,
                )  # fmt: skip
        elif aw > 0.0 or bw > 0.0 or cw > 0.0:
            # A fan from the first corner: 3 corners give one triangle, 4 give two, drawn in this order.
            for k in range(2, _cut(meshes, matrix, near_m, width, height, corners, first, face, scratch)):
                p, q, r = corners[0], corners[k - 1], corners[k]
                if opaque:
                    fill(
                        scratch.depth, scratch.ids, width, height,
                        p[0], p[1], p[2], q[0], q[1], q[2], r[0], r[1], r[2], row + face - first_face,
                    )  # fmt: skip
                else:
                    darken(
                        scratch.depth, scratch.ids, materials, flat_from, width, height,
                        p[0], p[1], p[2], q[0], q[1], q[2], r[0], r[1], r[2],
                    )  # fmt: skip


@compiled
def _project(
    meshes: MeshArrays, first: Number, count: Number, matrix: F64, near_m: Number, width: Number, height: Number, to: Scratch
) -> None:
    """Columns, rows and 1/z of a mesh's vertices; -1 instead of 1/z for those not beyond the near plane.

    Float32 from here on to the corners of triangles: the same vertex of two faces is one number, so they meet without a gap.
    Behind the camera column and row are of no use, and nobody reads them.
    """
    m00, m01, m02, m03 = (
        np.float32(matrix[0, 0]),
        np.float32(matrix[0, 1]),
        np.float32(matrix[0, 2]),
        np.float32(matrix[0, 3]),
    )
    m10, m11, m12, m13 = (
        np.float32(matrix[1, 0]),
        np.float32(matrix[1, 1]),
        np.float32(matrix[1, 2]),
        np.float32(matrix[1, 3]),
    )
    m20, m21, m22, m23 = (
        np.float32(matrix[2, 0]),
        np.float32(matrix[2, 1]),
        np.float32(matrix[2, 2]),
        np.float32(matrix[2, 3]),
    )
    middle_x, middle_y, near = np.float32(0.5 * width), np.float32(0.5 * height), np.float32(near_m)
    xs, ys, zs = meshes.x[first : first + count], meshes.y[first : first + count], meshes.z[first : first + count]
    for i in range(count):
        x, y, z = xs[i], ys[i], zs[i]
        ahead = m20 * x + m21 * y + m22 * z + m23
        w = np.float32(1.0) / ahead
        to.column[i] = (m00 * x + m01 * y + m02 * z + m03) * w + middle_x
        to.row[i] = (m10 * x + m11 * y + m12 * z + m13) * w + middle_y
        to.inverse[i] = w if ahead > near else np.float32(-1.0)


@compiled
def _cut(meshes: MeshArrays, matrix: F64, near_m: Number, width: Number, height: Number, corners: F64, first: Number,
         face: Number, to: Scratch) -> Number:  # fmt: skip
    """Cut a face that reaches behind the camera off at the near plane; ``corners`` f64[4, 3] receives 0, 3 or 4 of them.

    A cut is worked out from the end in front to the end behind, never the other way, so that two faces that share an edge get
    the same bits. Corners in front keep the bits of the projection; cuts come from the matrix before it was rounded.
    """
    count = 0
    for side in range(3):
        this, following = meshes.faces[face, side], meshes.faces[face, (side + 1) % 3]
        is_in, next_in = to.inverse[this - first] > 0.0, to.inverse[following - first] > 0.0
        if is_in:
            corners[count, 0], corners[count, 1] = to.column[this - first], to.row[this - first]
            corners[count, 2] = to.inverse[this - first]
            count += 1
        if is_in != next_in:
            a, b = (this, following) if is_in else (following, this)
            ax, ay, az = np.float64(meshes.x[a]), np.float64(meshes.y[a]), np.float64(meshes.z[a])
            bx, by, bz = np.float64(meshes.x[b]), np.float64(meshes.y[b]), np.float64(meshes.z[b])
            a_ahead = matrix[2, 0] * ax + matrix[2, 1] * ay + matrix[2, 2] * az + matrix[2, 3]
            b_ahead = matrix[2, 0] * bx + matrix[2, 1] * by + matrix[2, 2] * bz + matrix[2, 3]
            part = min(max((a_ahead - near_m) / (a_ahead - b_ahead), 0.0), 1.0)
            x, y, z = ax + part * (bx - ax), ay + part * (by - ay), az + part * (bz - az)
            across = matrix[0, 0] * x + matrix[0, 1] * y + matrix[0, 2] * z + matrix[0, 3]
            down = matrix[1, 0] * x + matrix[1, 1] * y + matrix[1, 2] * z + matrix[1, 3]
            corners[count, 0], corners[count, 1] = 0.5 * width + across / near_m, 0.5 * height + down / near_m
            corners[count, 2] = 1.0 / near_m
            count += 1
    return count


@compiled
def fill(
    depth: F32, ids: I32, width: Number, height: Number,
    ax: Number, ay: Number, aw: Number, bx: Number, by: Number, bw: Number, cx: Number, cy: Number, cw: Number, face: Number,
) -> None:  # fmt: skip
    """Write ``face`` and 1/z wherever the triangle is nearer than what is there.

    Greater 1/z is nearer. Equal 1/z leaves what is there: the first face drawn wins a tie. NaN is never greater.
    """
    s = spans_of(width, height, ax, ay, aw, bx, by, bw, cx, cy, cw)
    step, mark = np.float32(s.by_x), np.int32(face)
    for row in range(s.top, s.bottom):
        start, end = span(s, row, width)
        if start >= end:
            continue
        # Rounded once per row, then counted on by a product, not by adding up: no pixel depends on the one before it, which
        # also lets the compiler do eight at a time without changing a bit.
        near = np.float32(s.origin + s.by_x * start + s.by_y * row)
        at = np.uint64(row * width + start)
        for k in range(np.uint64(end - start)):
            w = near + step * np.float32(np.int32(k))
            # Both are written in any case: a choice of values, not a jump.
            seen = depth[at + k]
            depth[at + k] = w if w > seen else seen
            ids[at + k] = mark if w > seen else ids[at + k]


@compiled
def darken(
    depth: F32, ids: I32, materials: U8, flat_from: Number, width: Number, height: Number,
    ax: Number, ay: Number, aw: Number, bx: Number, by: Number, bw: Number, cx: Number, cy: Number, cw: Number,
) -> None:  # fmt: skip
    """Mark the flat surfaces under a triangle on the ground as lying in shadow.

    Only a bit of the id changes, neither face nor 1/z: shadows may come in any order and overlap. What is not flat, the sky,
    and what stands in front of the shadow's place or far behind it is left as it is.
    """
    s = spans_of(width, height, ax, ay, aw, bx, by, bw, cx, cy, cw)
    step = np.float32(s.by_x)
    for row in range(s.top, s.bottom):
        start, end = span(s, row, width)
        near = np.float32(s.origin + s.by_x * start + s.by_y * row)
        first = np.uint64(row * width + start)
        for k in range(np.uint64(max(end - start, 0))):
            at = first + k
            seen = depth[at]
            off = near + step * np.float32(np.int32(k)) - seen
            was = ids[at]
            if (
                off > _NEAR_ENOUGH * seen
                or -off > _NEAR_ENOUGH * seen
                or seen <= np.float32(0.0)
                or materials[np.uint64(was & ROW_MASK)] < flat_from
            ):
                continue
            ids[at] = was | SHADOW


@compiled
def spans_of(
    width: Number,
    height: Number,
    ax: Number,
    ay: Number,
    aw: Number,
    bx: Number,
    by: Number,
    bw: Number,
    cx: Number,
    cy: Number,
    cw: Number,
) -> Spans:
    """Set a triangle up; no rows where it covers no pixel, faces away or has no area. Corners are column, row, 1/z.

    All in float64, from corners that are float32 numbers (or cuts): differences and products of these lose next to nothing.
    """
    top, bottom = first_middle(min(ay, by, cy), height), first_middle(max(ay, by, cy), height)
    area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay)
    if top >= bottom or not area > 0.0 or first_middle(min(ax, bx, cx), width) >= first_middle(max(ax, bx, cx), width):
        return Spans(0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False, 0.0, 0.0, 0.0)
    # 1/z as a plane over the screen, from the middle of pixel (0, 0).
    gain = 1.0 / area
    by_x = ((bw - aw) * (cy - ay) - (cw - aw) * (by - ay)) * gain
    by_y = ((cw - aw) * (bx - ax) - (bw - aw) * (cx - ax)) * gain
    origin = aw + by_x * (0.5 - ax) + by_y * (0.5 - ay)
    # Corners from top to bottom. Corners of the same row may stay as they come: the edge between them meets no row's middle.
    if by < ay:
        ax, ay, bx, by = bx, by, ax, ay
    if cy < by:
        bx, by, cx, cy = cx, cy, bx, by
        if by < ay:
            ax, ay, bx, by = bx, by, ax, ay
    # Slopes always from the upper to the lower end: the triangle on the other side of an edge gets the same bits. A level
    # edge has an infinite slope, or none at all, which nobody uses.
    long_slope = (cx - ax) / (cy - ay)
    left = ax + (by - ay) * long_slope < bx
    upper_slope, lower_slope = (bx - ax) / (by - ay), (cx - bx) / (cy - by)
    return Spans(top, bottom, ax, ay, bx, by, long_slope, upper_slope, lower_slope, left, origin, by_x, by_y)


@compiled
def span(s: Spans, row: Number, width: Number) -> Number:
    """The pixels of a row: first, and first beyond. Left edges count as inside, right ones as outside."""
    y = row + 0.5
    long_x = s.ax + (y - s.ay) * s.long_slope
    short_x = s.ax + (y - s.ay) * s.upper_slope if y < s.by else s.bx + (y - s.by) * s.lower_slope
    left, right = (long_x, short_x) if s.long_is_left else (short_x, long_x)
    return first_middle(left, width), first_middle(right, width)


@compiled
def first_middle(edge: Number, limit: Number) -> Number:
    """The first pixel whose middle is at or beyond ``edge``, within 0..limit; 0 for what is no number.

    This one rounding is the fill rule, for rows and columns alike: of two triangles that meet at an edge, the one ends at the
    very pixel where the other begins. Limits come before the conversion: floats beyond int64 have no defined value.
    """
    at = np.ceil(edge - 0.5)
    if not at > 0.0:
        return 0
    if at >= limit:
        return limit
    return np.int64(at)
