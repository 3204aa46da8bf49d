"""The compiled loops of the ray caster.

All rays start at one point, the origin of the sensor's frame. There a ray of direction d meets the front of the face (a, b, c)
if it lies on the inner side of the three planes through the origin and an edge, d.(a x b) <= 0 and so on, at the distance t
with 1/t = d.n / a.n, n being the normal (b - a) x (c - a). All this needs products with numbers of the face only. Two faces
with a common edge get the same product with opposite signs, to the bit: no ray slips through between them. All is float64.

A face asks only the rays whose row and column lie within bounds that are certainly wide enough: its range of azimuths,
and its heights over its least and greatest distances on the ground.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from samepath.sim.sensors.raster.compiled import compiled, compiled_apart, compiled_entry
from samepath.sim.sensors.rays.bundle import BINS

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
Rays = tuple[F64, F64, F64, F64, I32, I32, I32, I32, I32]
Point = tuple[float, float, float]

# Wider than any rounding of a share, much narrower than the range of a table's entry.
_MARGIN = 1e-9
_COLUMN_GAIN = BINS / 4.0
_ROW_GAIN = BINS / 2.0


@compiled
def azimuth_share(x: float, y: float) -> float:
    """A number from 0 to 4 that grows with the azimuth of (x, y); 0 for the point itself."""
    across = abs(x) + abs(y)
    share = abs(y) / across if across > 0.0 else 0.0
    half = share if x >= 0.0 else 2.0 - share
    return half if y >= 0.0 else 4.0 - half


@compiled
def _row_range(low: float, high: float, near: float, far: float, before: I32) -> tuple[int, int]:
    """The rows that something between two heights and two distances on the ground can meet."""
    ground = near if high > 0.0 else far
    top = high / (abs(high) + ground) if high != 0.0 else 0.0
    ground = near if low < 0.0 else far
    bottom = low / (abs(low) + ground) if low != 0.0 else 0.0
    start = int(max((bottom + 1.0 - _MARGIN) * _ROW_GAIN, 0.0))
    end = int((top + 1.0 + _MARGIN) * _ROW_GAIN)
    return before[min(start, BINS - 1)], before[min(end, BINS - 1) + 1]


@compiled
def _column_range(low: float, high: float, before: I32) -> tuple[int, int]:
    """The columns between two azimuth shares."""
    start = int(max((low - _MARGIN) * _COLUMN_GAIN, 0.0))
    end = int((high + _MARGIN) * _COLUMN_GAIN)
    return before[min(start, BINS - 1)], before[min(end, BINS - 1) + 1]


@compiled
def _spread(a: float, b: float, c: float) -> tuple[float, float, bool]:
    """From three azimuth shares within half a turn: the low and high end, and whether the range runs through 0."""
    low, high = min(a, b, c), max(a, b, c)
    if high - low <= 2.0:
        return low, high, False
    low, high = 4.0, 0.0
    for one in (a, b, c):
        if one >= 2.0:
            low = min(low, one)
        else:
            high = max(high, one)
    return low, high, True


@compiled_apart
def _stop(
    a: Point, b: Point, c: Point, code: int, rays: Rays, start: int, end: int, low: int, high: int, inverse: F64, met: I64
) -> None:
    """Let a face stop the rays of some rows and columns that meet it before anything else."""
    row_cos, row_sin, column_cos, column_sin, first, last, number, _, _ = rays
    ax, ay, az = a
    bx, by, bz = b
    cx, cy, cz = c
    nx = (by - ay) * (cz - az) - (bz - az) * (cy - ay)
    ny = (bz - az) * (cx - ax) - (bx - ax) * (cz - az)
    nz = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
    facing = nx * ax + ny * ay + nz * az
    if not facing < 0.0:
        return
    nx, ny, nz = nx / facing, ny / facing, nz / facing
    px, py, pz = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
    qx, qy, qz = by * cz - bz * cy, bz * cx - bx * cz, bx * cy - by * cx
    rx, ry, rz = cy * az - cz * ay, cz * ax - cx * az, cx * ay - cy * ax
    for row in range(start, end):
        cosine, sine = row_cos[row], row_sin[row]
        nx0, ny0, nz0 = nx * cosine, ny * cosine, nz * sine
        px0, py0, pz0 = px * cosine, py * cosine, pz * sine
        qx0, qy0, qz0 = qx * cosine, qy * cosine, qz * sine
        rx0, ry0, rz0 = rx * cosine, ry * cosine, rz * sine
        offset = number[row]
        for column in range(max(low, first[row]), min(high, last[row])):
            x, y = column_cos[column], column_sin[column]
            at = offset + column
            near = nx0 * x + ny0 * y + nz0
            p, q, r = px0 * x + py0 * y + pz0, qx0 * x + qy0 * y + qz0, rx0 * x + ry0 * y + rz0
            best = inverse[at]
            nearer = (near > best) & (p <= 0.0) & (q <= 0.0) & (r <= 0.0)
            inverse[at] = near if nearer else best
            met[at] = code if nearer else met[at]


@compiled
def _face(
    a: int, b: int, c: int, seen: tuple[F64, F64, F64], code: int, rays: Rays, from_column: int, to_column: int,
    inverse: F64, met: I64,
) -> None:  # fmt: skip
    """Find the rows and columns that may meet a face, and let it stop their rays."""
    points, ground, share = seen
    rows_before, columns_before = rays[7], rays[8]
    ax, ay, az = points[a, 0], points[a, 1], points[a, 2]
    bx, by, bz = points[b, 0], points[b, 1], points[b, 2]
    cx, cy, cz = points[c, 0], points[c, 1], points[c, 2]
    near, far = min(ground[a], ground[b], ground[c]), max(ground[a], ground[b], ground[c])
    turn_ab, turn_bc, turn_ca = ax * by - ay * bx, bx * cy - by * cx, cx * ay - cy * ax
    # Seen from above, is the origin inside, or so near the edge that rounding cannot tell?
    doubt = 1e-9 * far * far
    around = min(turn_ab, turn_bc, turn_ca) >= -doubt or max(turn_ab, turn_bc, turn_ca) <= doubt
    ab = (bx - ax) * (bx - ax) + (by - ay) * (by - ay)
    bc = (cx - bx) * (cx - bx) + (cy - by) * (cy - by)
    ca = (ax - cx) * (ax - cx) + (ay - cy) * (ay - cy)
    # A chord between two points at least ``near`` away comes nearer by at most what its half allows.
    near = near * near - 0.2500001 * max(ab, bc, ca)
    near = np.sqrt(near) if near > 0.0 and not around else 0.0
    start, end = _row_range(min(az, bz, cz), max(az, bz, cz), near, far, rows_before)
    if start >= end:
        return
    one, two, three = (ax, ay, az), (bx, by, bz), (cx, cy, cz)
    if around:
        _stop(one, two, three, code, rays, start, end, from_column, to_column, inverse, met)
        return
    least, most, through = _spread(share[a], share[b], share[c])
    if through:
        _, high = _column_range(0.0, most, columns_before)
        if high > from_column:
            _stop(one, two, three, code, rays, start, end, from_column, min(high, to_column), inverse, met)
        most = 4.0
    low, high = _column_range(least, most, columns_before)
    low, high = max(low, from_column), min(high, to_column)
    if low < high:
        _stop(one, two, three, code, rays, start, end, low, high, inverse, met)


@compiled
def _out_of_sight(ball: tuple[float, float, float, float], reach: float, rays: Rays, from_column: int, to_column: int) -> bool:
    """Can no ray meet the ball of centre x, y, z and some radius?"""
    x, y, z, radius = ball
    rows_before, columns_before = rays[7], rays[8]
    if x * x + y * y + z * z > (reach + radius) * (reach + radius):
        return True
    ground = np.sqrt(x * x + y * y)
    start, end = _row_range(z - radius, z + radius, max(ground - radius, 0.0), ground + radius, rows_before)
    if start >= end:
        return True
    if ground <= 1.5 * radius:
        return False
    # The two ends of the diameter across the line of sight, moved towards the origin by the radius.
    ux, uy = x / ground, y / ground
    mx, my = x - ux * radius, y - uy * radius
    one, two = azimuth_share(mx - uy * radius, my + ux * radius), azimuth_share(mx + uy * radius, my - ux * radius)
    least, most, through = _spread(one, two, one)
    if through:
        low, _ = _column_range(least, 4.0, columns_before)
        _, high = _column_range(0.0, most, columns_before)
        return low >= to_column and high <= from_column
    low, high = _column_range(least, most, columns_before)
    return max(low, from_column) >= min(high, to_column)


@compiled_entry
def cast(
    meshes: tuple[F64, I32, I32, I32, F64, F64],
    placed: tuple[I32, F64, F64, I64],
    rays: Any,  # noqa: ANN401 - Rays; Python need not know
    reach: float,
    from_column: int,
    to_column: int,
    inverse: F64,
    met: I64,
    seen: tuple[F64, F64, F64],
) -> None:
    """Let placed meshes stop rays: ``inverse`` holds 1 / distance and ``met`` the code of the nearest face so far.

    ``meshes`` are the arrays of :class:`~samepath.sim.sensors.rays.pieces.Meshes`. ``placed`` are mesh, axes and position as
    the sensor sees them, and what is added to the number of a face to get its code. ``seen`` is room to work in: three, one
    and one number for every vertex of the largest mesh.
    """
    vertices, faces, first_vertex, first_face, centre, radius = meshes
    mesh, axes, position, code = placed
    points, ground, share = seen
    for i in range(len(mesh)):
        one = mesh[i]
        fx, fy, fz = axes[i, 0, 0], axes[i, 0, 1], axes[i, 0, 2]
        rx, ry, rz = axes[i, 1, 0], axes[i, 1, 1], axes[i, 1, 2]
        ux, uy, uz = axes[i, 2, 0], axes[i, 2, 1], axes[i, 2, 2]
        tx, ty, tz = position[i, 0], position[i, 1], position[i, 2]
        x, y, z = centre[one, 0], centre[one, 1], centre[one, 2]
        mx, my, mz = x * fx + y * rx + z * ux + tx, x * fy + y * ry + z * uy + ty, x * fz + y * rz + z * uz + tz
        if _out_of_sight((mx, my, mz, radius[one]), reach, rays, from_column, to_column):
            continue
        start = first_vertex[one]
        for k in range(first_vertex[one + 1] - start):
            x, y, z = vertices[start + k, 0], vertices[start + k, 1], vertices[start + k, 2]
            px, py, pz = x * fx + y * rx + z * ux + tx, x * fy + y * ry + z * uy + ty, x * fz + y * rz + z * uz + tz
            points[k, 0], points[k, 1], points[k, 2] = px, py, pz
            ground[k], share[k] = np.sqrt(px * px + py * py), azimuth_share(px, py)
        for k in range(first_face[one], first_face[one + 1]):
            a, b, c = faces[k, 0] - start, faces[k, 1] - start, faces[k, 2] - start
            _face(a, b, c, seen, code[i] + k, rays, from_column, to_column, inverse, met)
