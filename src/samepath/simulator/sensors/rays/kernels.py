"""Bundles of rays, and the compiled loops that cast them and turn distances into the points of a LiDAR.

All rays start at one point, the origin of the sensor's frame (x forward, y right, z up). The elevation of a ray is that of its
row, its azimuth that of its column; its direction is

    (cos elevation cos azimuth, cos elevation sin azimuth, sin elevation).

A LiDAR has one row per channel and every column in each; a radar has a row and a column of its own for every ray.

**What a ray meets** is the specification for every back end; all of it is float64, products are not fused with sums, and sums
are taken in the order written. A ray of direction d meets the front of the face (a, b, c) if it lies on the inner side of the
three planes through the origin and an edge, d.(a x b) <= 0 and so on, at the distance t with 1/t = d.n / a.n, n being the
normal (b - a) x (c - a). All this needs products with numbers of the face only. Two faces with a common edge get the same
product with opposite signs, to the bit: no ray slips through between them. A ray on the edge meets both, and of equal distances
the first one counts: the test is 1/t > best. Faces come in the order of fixed pieces, then of moving instances, each in the
order of its mesh. Without an order: greatest 1/t, then least code.

**Speed only**: a face asks only the rays whose row and column lie within bounds that are certainly wide enough, from its range
of azimuths, and its heights over its least and greatest distances on the ground. Angles are compared without trigonometry: by
the share of y in |x| + |y|, counted on from quadrant to quadrant (0..4), and the share of z in |z| + the distance on the ground
(-1..1). Both grow with the angle. Tables give the rows and columns of each small range. Threads take sectors of columns: a ray
belongs to one of them.

**Points of a LiDAR** are made of sums, products, quotients and square roots only: exponential, logarithm and cosine are written
out as series, so that no bit depends on a library.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samepath.simulator.sensors.raster.compiled import compiled, compiled_apart, compiled_entry

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]

I64 = NDArray[np.int64]

Pair = tuple[F64, F64]
Rays = tuple[F64, F64, F64, F64, I32, I32, I32, I32, I32]
Point = tuple[float, float, float]
BINS: Final = 8192

# Wider than any rounding of a share, much narrower than the range of a table's entry.
_MARGIN = 1e-9
_COLUMN_GAIN = BINS / 4.0
_ROW_GAIN = BINS / 2.0

_PER_LN2 = 1.4426950408889634
_LN2 = 0.6931471805599453
_HALF_PI = 1.5707963267948966

# 1 / n!, for the series of the exponential, the sine and the cosine.
_FACTORS = np.array([1.0 / math.factorial(n) for n in range(18)])

# Powers of two from 2**-1022 up to 1.
_POWERS = np.ldexp(1.0, np.arange(-1022, 1))
FAINTEST = -700.0
"""The least exponent of an intensity: what is weaker is as good as nothing."""


@dataclass(frozen=True, eq=False, slots=True)
class RayBundle:
    """Rays, rows by rising elevation, columns by rising azimuth.

    Row ``r`` holds columns ``first[r]`` up to ``last[r]``; the ray of its column ``c`` has the number ``number[r] + c``.
    ``rows_before`` i32[BINS + 1] and ``columns_before`` i32[BINS + 1] count what lies below each small range of angles.
    """

    row_cos: F64
    row_sin: F64
    column_cos: F64
    column_sin: F64
    first: I32
    last: I32
    number: I32
    count: int
    rows_before: I32
    columns_before: I32

    @property
    def arrays(self) -> Rays:
        """Everything as the compiled loops take it."""
        rows, columns = (self.row_cos, self.row_sin), (self.column_cos, self.column_sin)
        return *rows, *columns, self.first, self.last, self.number, self.rows_before, self.columns_before


class LidarLosses(NamedTuple):
    """What becomes of the points of a LiDAR on their way; a value of 0 switches its kind off.

    ``by_rate`` and ``by_intensity`` f64[channels, columns] and ``by_noise`` f64[2, channels * columns] are uniform numbers for
    the general loss, the loss of faint points and noise, empty where that kind is off.
    """

    by_rate: F64
    by_intensity: F64
    by_noise: F64
    attenuation: float
    general: float
    limit: float
    zero: float
    deviation: float


@dataclass(frozen=True, eq=False, slots=True)
class LidarBeams:
    """The rays of a LiDAR by channel and column, as its attributes count them: ``number`` has the number of each.

    ``losses`` are worked out when they are asked for: numbers of chance take as much memory as the points.
    """

    number: I64
    elevation: Pair
    azimuth: Pair
    losses: Callable[[], LidarLosses]


def ray_grid(sin_elevation: F64, cos_elevation: F64, sin_azimuth: F64, cos_azimuth: F64) -> tuple[RayBundle, NDArray[np.intp]]:
    """Every elevation with every azimuth; the second value has the number of each ray, by row and column as they were given."""
    elevation, azimuth = _elevation_share(sin_elevation, cos_elevation), _azimuth_share(sin_azimuth, cos_azimuth)
    # Stable, so that rays of the same angle keep their order, and with it their noise.
    rows, columns = np.argsort(elevation, kind="stable"), np.argsort(azimuth, kind="stable")
    height, width = len(rows), len(columns)
    bundle = RayBundle(
        row_cos=cos_elevation[rows],
        row_sin=sin_elevation[rows],
        column_cos=cos_azimuth[columns],
        column_sin=sin_azimuth[columns],
        first=np.zeros(height, np.int32),
        last=np.full(height, width, np.int32),
        number=np.arange(height, dtype=np.int32) * np.int32(width),
        count=height * width,
        rows_before=_before(elevation[rows], -1.0, 1.0),
        columns_before=_before(azimuth[columns], 0.0, 4.0),
    )
    return bundle, np.argsort(rows)[:, None] * width + np.argsort(columns)[None, :]


def ray_list(sin_elevation: F64, cos_elevation: F64, sin_azimuth: F64, cos_azimuth: F64) -> tuple[RayBundle, NDArray[np.intp]]:
    """Single rays, each with its own elevation and azimuth; the second value has the number of each ray."""
    elevation, azimuth = _elevation_share(sin_elevation, cos_elevation), _azimuth_share(sin_azimuth, cos_azimuth)
    rows, columns = np.argsort(elevation, kind="stable"), np.argsort(azimuth, kind="stable")
    count = len(rows)
    place = np.argsort(columns)[rows].astype(np.int32)
    bundle = RayBundle(
        row_cos=cos_elevation[rows],
        row_sin=sin_elevation[rows],
        column_cos=cos_azimuth[columns],
        column_sin=sin_azimuth[columns],
        first=place,
        last=place + np.int32(1),
        number=np.arange(count, dtype=np.int32) - place,
        count=count,
        rows_before=_before(elevation[rows], -1.0, 1.0),
        columns_before=_before(azimuth[columns], 0.0, 4.0),
    )
    return bundle, np.argsort(rows)


def _azimuth_share(sine: F64, cosine: F64) -> F64:
    """What :func:`azimuth_share` works out, for arrays; the two need not agree in the last bit, as bounds have a margin."""
    share = np.abs(sine) / (np.abs(cosine) + np.abs(sine))
    half = np.where(cosine >= 0.0, share, 2.0 - share)
    found: F64 = np.where(sine >= 0.0, half, 4.0 - half)
    return found


def _elevation_share(sine: F64, cosine: F64) -> F64:
    share: F64 = sine / (np.abs(sine) + cosine)
    return share


def _before(shares: F64, low: float, high: float) -> I32:
    """How many of the rising ``shares`` lie in ranges before each of ``BINS`` equal ones."""
    # Clipped: a share of exactly ``high`` would fall behind the last range.
    ranges = np.clip(((shares - low) * (BINS / (high - low))).astype(np.int64), 0, BINS - 1)
    return np.searchsorted(ranges, np.arange(BINS + 1)).astype(np.int32)


@compiled_entry
def cast(
    meshes: tuple[F64, I32, I32, I32, F64, F64],
    placed: tuple[I32, F64, F64, I64],
    rays: Rays,
    reach: float,
    from_column: int,
    to_column: int,
    inverse: F64,
    met: I64,
    seen: tuple[F64, F64, F64],
) -> None:
    """Let placed meshes stop rays: ``inverse`` holds 1 / distance and ``met`` the code of the nearest face so far.

    ``meshes`` are the arrays of ``caster.RayMeshes``. ``placed`` are mesh, axes and position as
    the sensor sees them, and what is added to the number of a face to get its code. ``seen`` is room to work in: three, one
    and one number for every vertex of the largest mesh.
    """
    vertices, faces, first_vertex, first_face, centre, radius = meshes
    mesh, axes, position, code = placed
    points, ground, share = seen
    for i in range(len(mesh)):
        shape = mesh[i]
        fx, fy, fz = axes[i, 0, 0], axes[i, 0, 1], axes[i, 0, 2]
        rx, ry, rz = axes[i, 1, 0], axes[i, 1, 1], axes[i, 1, 2]
        ux, uy, uz = axes[i, 2, 0], axes[i, 2, 1], axes[i, 2, 2]
        tx, ty, tz = position[i, 0], position[i, 1], position[i, 2]
        x, y, z = centre[shape, 0], centre[shape, 1], centre[shape, 2]
        mx, my, mz = x * fx + y * rx + z * ux + tx, x * fy + y * ry + z * uy + ty, x * fz + y * rz + z * uz + tz
        # Before its vertices are transformed: what no ray can meet costs a look at one sphere.
        if _out_of_sight((mx, my, mz, radius[shape]), reach, rays, from_column, to_column):
            continue
        start = first_vertex[shape]
        for k in range(first_vertex[shape + 1] - start):
            x, y, z = vertices[start + k, 0], vertices[start + k, 1], vertices[start + k, 2]
            px, py, pz = x * fx + y * rx + z * ux + tx, x * fy + y * ry + z * uy + ty, x * fz + y * rz + z * uz + tz
            points[k, 0], points[k, 1], points[k, 2] = px, py, pz
            # Per vertex, not per face: a vertex belongs to several faces.
            ground[k], share[k] = np.sqrt(px * px + py * py), azimuth_share(px, py)
        for k in range(first_face[shape], first_face[shape + 1]):
            a, b, c = faces[k, 0] - start, faces[k, 1] - start, faces[k, 2] - start
            _face(a, b, c, seen, code[i] + k, rays, from_column, to_column, inverse, met)


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
    # So near that it may lie around the sensor: then it has no left and right end.
    if ground <= 1.5 * radius:
        return False
    # The two ends of the diameter across the line of sight, moved towards the origin by the radius.
    ux, uy = x / ground, y / ground
    mx, my = x - ux * radius, y - uy * radius
    left, right = azimuth_share(mx - uy * radius, my + ux * radius), azimuth_share(mx + uy * radius, my - ux * radius)
    least, most, through = _spread(left, right, left)
    if through:
        low, _ = _column_range(least, 4.0, columns_before)
        _, high = _column_range(0.0, most, columns_before)
        return low >= to_column and high <= from_column
    low, high = _column_range(least, most, columns_before)
    return max(low, from_column) >= min(high, to_column)


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
    # A chord between two points at least ``near`` away comes nearer by at most what its half allows: a quarter of its square,
    # and a little more for rounding.
    near = near * near - 0.2500001 * max(ab, bc, ca)
    near = np.sqrt(near) if near > 0.0 and not around else 0.0
    start, end = _row_range(min(az, bz, cz), max(az, bz, cz), near, far, rows_before)
    if start >= end:
        return
    corner_a, corner_b, corner_c = (ax, ay, az), (bx, by, bz), (cx, cy, cz)
    # The sensor stands above or below it: it covers every azimuth.
    if around:
        _stop(corner_a, corner_b, corner_c, code, rays, start, end, from_column, to_column, inverse, met)
        return
    least, most, through = _spread(share[a], share[b], share[c])
    # Across the azimuth where shares begin anew: two ranges of columns.
    if through:
        _, high = _column_range(0.0, most, columns_before)
        if high > from_column:
            _stop(corner_a, corner_b, corner_c, code, rays, start, end, from_column, min(high, to_column), inverse, met)
        most = 4.0
    low, high = _column_range(least, most, columns_before)
    low, high = max(low, from_column), min(high, to_column)
    if low < high:
        _stop(corner_a, corner_b, corner_c, code, rays, start, end, low, high, inverse, met)


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
    # The back of a face, one seen from the side, or one with a NaN stops nothing.
    if not facing < 0.0:
        return
    # Divided once per face, so that 1/t of a ray is products and sums alone; a nearer hit is then a greater number, and no ray
    # divides.
    nx, ny, nz = nx / facing, ny / facing, nz / facing
    # A neighbour has the same edge from its other end: each product is the same, only their places are swapped, and so is the
    # sign.
    px, py, pz = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
    qx, qy, qz = by * cz - bz * cy, bz * cx - bx * cz, bx * cy - by * cx
    rx, ry, rz = cy * az - cz * ay, cz * ax - cx * az, cx * ay - cy * ax
    for row in range(start, end):
        cosine, sine = row_cos[row], row_sin[row]
        # Row first, then column. This order of products is part of the specification: (n cos) x and n (cos x) round
        # differently.
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
            # Choices of values instead of jumps, so that the compiler does several rays at a time. A tie leaves what is there.
            best = inverse[at]
            nearer = (near > best) & (p <= 0.0) & (q <= 0.0) & (r <= 0.0)
            inverse[at] = near if nearer else best
            met[at] = code if nearer else met[at]


@compiled
def _spread(a: float, b: float, c: float) -> tuple[float, float, bool]:
    """From three azimuth shares within half a turn: the low and high end, and whether the range runs through 0."""
    low, high = min(a, b, c), max(a, b, c)
    # A face that is not around the origin spans less than half a turn, 2 of 4: more says that the range runs through 0.
    if high - low <= 2.0:
        return low, high, False
    low, high = 4.0, 0.0
    for share in (a, b, c):
        if share >= 2.0:
            low = min(low, share)
        else:
            high = max(high, share)
    return low, high, True


@compiled
def _row_range(low: float, high: float, near: float, far: float, before: I32) -> tuple[int, int]:
    """The rows that something between two heights and two distances on the ground can meet."""
    # The highest look at something above is that at its nearest point, at something below that at its farthest; the lowest look
    # is the other way round.
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
def azimuth_share(x: float, y: float) -> float:
    """A number from 0 to 4 that grows with the azimuth of (x, y); 0 for the point itself."""
    across = abs(x) + abs(y)
    share = abs(y) / across if across > 0.0 else 0.0
    half = share if x >= 0.0 else 2.0 - share
    return half if y >= 0.0 else 4.0 - half


def points_of(distance: F64, beams: LidarBeams) -> tuple[NDArray[np.float32], NDArray[np.uint32], I64]:
    """Points that come back, f32[n, 4]; how many of each channel; the number of each one's ray."""
    points, rays = np.empty((beams.number.size, 4), np.float32), np.empty(beams.number.size, np.int64)
    counts = np.empty(len(beams.number), np.uint32)
    lost = beams.losses()
    found = lidar_points(distance, beams.number, beams.elevation, beams.azimuth, lost[:3], lost[3:], points, rays, counts)
    return points[:found], counts, rays[:found]


@compiled_entry
def kept_points(all_points: NDArray[np.float32], points: NDArray[np.float32], counts: NDArray[np.uint32]) -> int:
    """Of all points of all channels, lost ones with an intensity below 0, write those that came back; return how many."""
    columns, count = len(all_points) // len(counts), 0
    for channel in range(len(counts)):
        before = count
        for at in range(channel * columns, (channel + 1) * columns):
            # Written in any case, and gone over by the next one: a jump that is guessed wrong costs more.
            for k in range(4):
                points[count, k] = all_points[at, k]
            count += all_points[at, 3] >= 0.0
        counts[channel] = count - before
    return count


@compiled_entry
def lidar_points(
    distance: F64,
    number: NDArray[np.int64],
    elevation: Pair,
    azimuth: Pair,
    losses: tuple[F64, F64, F64],
    values: tuple[float, float, float, float, float],
    points: NDArray[np.float32],
    rays: NDArray[np.int64],
    counts: NDArray[np.uint32],
) -> int:
    """Write x, y, z and intensity of every point that comes back, and the number of its ray; return how many.

    ``losses`` are uniform numbers for the general loss and the loss of faint points, by channel and column, and two for noise.
    ``values`` are attenuation, general rate, intensity limit, rate at intensity zero and the noise's deviation; 0 switches off.
    """
    attenuation, general, limit, zero, deviation = values
    by_rate, by_intensity, by_noise = losses
    (sin_e, cos_e), (sin_a, cos_a) = elevation, azimuth
    count = 0
    for channel in range(number.shape[0]):
        before = count
        for column in range(number.shape[1]):
            ray = number[channel, column]
            away = distance[ray]
            # Written so that a NaN is no point either. Random numbers belong to channel and column, drawn or not: what one ray
            # meets must not move the noise of another.
            if not away < np.inf or (general > 0.0 and by_rate[channel, column] < general):
                continue
            exponent = -attenuation * away
            intensity = exp_below_one(exponent) if exponent > FAINTEST else exp_below_one(FAINTEST)
            faint = limit > 0.0 and zero > 0.0 and intensity <= limit
            if faint and by_intensity[channel, column] < zero * (1.0 - intensity / limit):
                continue
            if deviation > 0.0:
                at = channel * number.shape[1] + column
                # Box and Muller. Uniform numbers are below 1 and may be 0: taken from 1 they have a logarithm.
                size = math.sqrt(-2.0 * log_of(1.0 - by_noise[0, at]))
                away += deviation * size * cos_of_turn(by_noise[1, at])
            flat = away * cos_e[channel]
            points[count, 0], points[count, 1] = flat * cos_a[column], flat * sin_a[column]
            points[count, 2], points[count, 3] = away * sin_e[channel], intensity
            rays[count] = ray
            count += 1
        counts[channel] = count - before
    return count


@compiled
def exp_below_one(x: float) -> float:
    """The exponential of a number from ``FAINTEST`` to 0."""
    power = math.floor(x * _PER_LN2 + 0.5)
    rest = x - power * _LN2
    total = 0.0
    # The rest is at most half of ln 2: the first term left out is below 2**-57.
    for n in range(13, -1, -1):
        total = total * rest + _FACTORS[n]
    # From a table: a product with a power of two is exact, and no library is asked.
    return total * float(_POWERS[1022 + int(power)])


@compiled
def log_of(x: float) -> float:
    """The logarithm of a number above 0, by 2 atanh((m - 1) / (m + 1)) of its mantissa."""
    mantissa, power = math.frexp(x)
    if mantissa < 0.7071067811865476:
        mantissa, power = 2.0 * mantissa, power - 1
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    series = 0.0
    # The ratio is at most 0.172: the first term left out is below 2**-60 of the sum.
    for n in range(12, -1, -1):
        series = series * square + 1.0 / (2 * n + 1)
    return 2.0 * ratio * series + power * _LN2


@compiled
def cos_of_turn(turn: float) -> float:
    """The cosine of a part of a whole turn, 0 to 1."""
    quarter = math.floor(4.0 * turn + 0.5)
    angle = (4.0 * turn - quarter) * _HALF_PI
    square = angle * angle
    total = 0.0
    odd = int(quarter) & 1
    # The angle is at most an eighth of a turn: the first term left out is below 2**-56.
    for n in range(8, -1, -1):
        total = _FACTORS[2 * n + odd] - total * square
    if odd:
        total *= -angle
    return -total if int(quarter) & 2 else total
