"""Drawing meshes: vertices to the screen, faces turned away left out, what reaches behind the camera cut off."""

import numpy as np

from samepath.sim.sensors.raster.arrays import F32, F64, U8, Meshes, Number, Scratch
from samepath.sim.sensors.raster.compiled import compiled
from samepath.sim.sensors.raster.fill import darken, fill

_LOOK_PART = 6
"""Boxes larger than this part of the picture are drawn without a look at what hides them."""


@compiled
def view_matrix(matrix: F64, axes: F64, place: F64, focal: Number, turn: F64, position: F64) -> None:
    """From an instance's frame to the camera's: rows give column and row (times z and in pixels) and z."""
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
def is_hidden(meshes: Meshes, mesh: Number, matrix: F64, near_m: Number, width: Number, height: Number, depth: F32) -> bool:
    """Is a mesh's box off the screen, or behind what is drawn already? False where that would take long to find out."""
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
    # A pixel of margin and a little depth, so that rounding hides nothing.
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
def _project(
    meshes: Meshes, first: Number, count: Number, matrix: F64, near_m: Number, width: Number, height: Number, to: Scratch
) -> None:
    """Columns, rows and 1/z of a mesh's vertices; -1 instead of 1/z for those not in front of the camera."""
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
def _cut(meshes: Meshes, matrix: F64, near_m: Number, width: Number, height: Number, corners: F64, first: Number, face: Number,
         to: Scratch) -> Number:  # fmt: skip
    """Cut a face that reaches behind the camera off at the near plane; ``corners`` f64[4, 3] receives 0, 3 or 4 of them.

    A cut is worked out from the end in front to the end behind, so that two faces that share an edge get the same bits.
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
def draw_mesh(
    meshes: Meshes, mesh: Number, matrix: F64, from_x: Number, from_y: Number, from_z: Number, is_point: bool, near_m: Number,
    width: Number, height: Number, scratch: Scratch, corners: F64, row: Number, opaque: bool, materials: U8, flat_from: Number,
) -> None:  # fmt: skip
    """Draw a mesh of which ``row`` is the first row or, where it is not ``opaque``, darken the ground under it.

    Only faces turned to (``from_x``, ``from_y``, ``from_z``) count: a point in the mesh's frame, or a direction.
    """
    first, first_face, last_face = meshes.first_vertex[mesh], meshes.first_face[mesh], meshes.first_face[mesh + 1]
    _project(meshes, first, meshes.first_vertex[mesh + 1] - first, matrix, near_m, width, height, scratch)
    fx, fy, fz, share = np.float32(from_x), np.float32(from_y), np.float32(from_z), np.float32(1.0 if is_point else 0.0)
    column, line, inverse = scratch.column, scratch.row, scratch.inverse
    for face in range(first_face, last_face):
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
