// What rays meet, stated per face and per ray: the rules of ``rays/kernels.py``, all of it float64, sums in the order written
// there. A ray looks at faces in the order of their codes, and a tie leaves what is there: no two threads share a ray's answer.
#pragma once

// Bounds of angles that are certainly wide enough are part of the rules all the same: what rounding makes of a face that is seen
// from the side depends on which rays are asked.
enum { BINS = 8192 };
#define RAY_MARGIN 1e-9

// A face as all rays of a sensor see it: its normal over its distance, the planes through the sensor and its edges, and which
// rows and columns may meet it. Columns are one range, or two where shares of azimuths begin anew: 0 up to ``wrapped``.
struct RayFace {
  double n[3], p[3], q[3], r[3];
  i32 start, end, low, high, wrapped, spare;
};

// A piece or an instance as a sensor sees it: its ball, how far away, and its faces' codes.
struct RayBall {
  double x, y, z, radius, away;
  i64 first, end;
};

// Arrays of ``caster.RayMeshes``; ``axes`` and ``position`` are as the sensor sees them.
struct RayMeshArrays {
  const double *vertices;
  const i32 *faces, *first_face;
  const double *centre, *radius;
};

struct RayWork {
  RayMeshArrays still, meshes;
  const double *still_axes, *still_position;
  const i32 *mover_mesh;
  const double *mover_axes, *mover_position;
  const i32 *mover_start;  // the first code of each, and of one behind the last
  const double *row_cos, *row_sin, *column_cos, *column_sin;
  const i32 *row_start, *number, *rows_before, *columns_before;
  RayFace *faces;
  RayBall *balls;
  double *inverse;
  i32 *met;
  // Points of a LiDAR, by channel and column as its attributes count them: their row and column among the rays, and numbers of
  // chance as ``rays/kernels.lidar_points`` takes them. ``points`` has x, y, z and intensity of each, lost ones too.
  const i32 *point_row, *point_column;
  const double *by_rate, *by_intensity, *by_noise;
  float *points;
  i64 pieces, still_faces, movers, rows, columns, rays;
  double reach, attenuation, general, limit, zero, deviation;
};

enum { RAY_FACE_BYTES = 120, RAY_BALL_BYTES = 56, RAY_WORK_BYTES = 368 };
static_assert(sizeof(RayFace) == RAY_FACE_BYTES && sizeof(RayBall) == RAY_BALL_BYTES, "sizes");
static_assert(sizeof(RayWork) == RAY_WORK_BYTES, "sizes");

// A number from 0 to 4 that grows with the azimuth.
RULE double azimuth_share(double x, double y) {
  double across = fabs(x) + fabs(y), share = across > 0.0 ? fabs(y) / across : 0.0;
  double half = x >= 0.0 ? share : 2.0 - share;
  return y >= 0.0 ? half : 4.0 - half;
}

RULE i32 bin_of(double at) {
  i64 bin = whole(at);
  return (i32)(bin < BINS - 1 ? bin : BINS - 1);
}

// The rows that something between two heights and two distances on the ground can meet.
RULE void row_range(const RayWork &w, double low, double high, double near, double far, i32 *start, i32 *end) {
  double ground = high > 0.0 ? near : far, top = high != 0.0 ? high / (fabs(high) + ground) : 0.0;
  ground = low < 0.0 ? near : far;
  double bottom = low != 0.0 ? low / (fabs(low) + ground) : 0.0;
  *start = w.rows_before[bin_of(most((bottom + 1.0 - RAY_MARGIN) * (BINS / 2.0), 0.0))];
  *end = w.rows_before[bin_of((top + 1.0 + RAY_MARGIN) * (BINS / 2.0)) + 1];
}

// The columns between two azimuth shares.
RULE void column_range(const RayWork &w, double low, double high, i32 *start, i32 *end) {
  *start = w.columns_before[bin_of(most((low - RAY_MARGIN) * (BINS / 4.0), 0.0))];
  *end = w.columns_before[bin_of((high + RAY_MARGIN) * (BINS / 4.0)) + 1];
}

// From three azimuth shares within half a turn: the low and high end, and whether the range runs through 0.
RULE bool spread(double a, double b, double c, double *low, double *high) {
  *low = least(least(a, b), c);
  *high = most(most(a, b), c);
  if (*high - *low <= 2.0) return false;
  double shares[3] = {a, b, c};
  *low = 4.0;
  *high = 0.0;
  for (int k = 0; k < 3; k++) {
    if (shares[k] >= 2.0) *low = least(*low, shares[k]);
    else *high = most(*high, shares[k]);
  }
  return true;
}

// A point of a mesh as the sensor sees it.
RULE void ray_point(const double *vertex, const double *axes, const double *position, double *to) {
  for (int k = 0; k < 3; k++) to[k] = vertex[0] * axes[k] + vertex[1] * axes[3 + k] + vertex[2] * axes[6 + k] + position[k];
}

// A face as rays see it; one that stops none has no rows.
RULE RayFace ray_face_of(const RayWork &w, const double *a, const double *b, const double *c) {
  RayFace f;
  f.start = f.end = f.low = f.high = f.wrapped = f.spare = 0;
  double ax = a[0], ay = a[1], az = a[2], bx = b[0], by = b[1], bz = b[2], cx = c[0], cy = c[1], cz = c[2];
  double nx = (by - ay) * (cz - az) - (bz - az) * (cy - ay);
  double ny = (bz - az) * (cx - ax) - (bx - ax) * (cz - az);
  double nz = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax);
  double facing = nx * ax + ny * ay + nz * az;
  f.n[0] = nx / facing, f.n[1] = ny / facing, f.n[2] = nz / facing;
  f.p[0] = ay * bz - az * by, f.p[1] = az * bx - ax * bz, f.p[2] = ax * by - ay * bx;
  f.q[0] = by * cz - bz * cy, f.q[1] = bz * cx - bx * cz, f.q[2] = bx * cy - by * cx;
  f.r[0] = cy * az - cz * ay, f.r[1] = cz * ax - cx * az, f.r[2] = cx * ay - cy * ax;
  if (!(facing < 0.0)) return f;
  double ga = root(ax * ax + ay * ay), gb = root(bx * bx + by * by), gc = root(cx * cx + cy * cy);
  double near = least(least(ga, gb), gc), far = most(most(ga, gb), gc);
  double turn_ab = ax * by - ay * bx, turn_bc = bx * cy - by * cx, turn_ca = cx * ay - cy * ax, doubt = 1e-9 * far * far;
  bool around = least(least(turn_ab, turn_bc), turn_ca) >= -doubt || most(most(turn_ab, turn_bc), turn_ca) <= doubt;
  double ab = (bx - ax) * (bx - ax) + (by - ay) * (by - ay);
  double bc = (cx - bx) * (cx - bx) + (cy - by) * (cy - by);
  double ca = (ax - cx) * (ax - cx) + (ay - cy) * (ay - cy);
  near = near * near - 0.2500001 * most(most(ab, bc), ca);
  near = near > 0.0 && !around ? root(near) : 0.0;
  i32 start, end, unused;
  row_range(w, least(least(az, bz), cz), most(most(az, bz), cz), near, far, &start, &end);
  if (start >= end) return f;
  f.start = start;
  f.end = end;
  if (around) {
    f.high = (i32)w.columns;
    return f;
  }
  double low, high;
  if (spread(azimuth_share(ax, ay), azimuth_share(bx, by), azimuth_share(cx, cy), &low, &high)) {
    column_range(w, 0.0, high, &unused, &f.wrapped);
    high = 4.0;
  }
  column_range(w, low, high, &f.low, &f.high);
  return f;
}

// Can no ray meet a ball? As the processor asks before it looks at a mesh.
RULE bool is_out_of_sight(const RayWork &w, double x, double y, double z, double radius) {
  if (x * x + y * y + z * z > (w.reach + radius) * (w.reach + radius)) return true;
  double ground = root(x * x + y * y), lowest, highest;
  i32 start, end, unused;
  row_range(w, z - radius, z + radius, most(ground - radius, 0.0), ground + radius, &start, &end);
  if (start >= end) return true;
  if (ground <= 1.5 * radius) return false;
  double ux = x / ground, uy = y / ground, mx = x - ux * radius, my = y - uy * radius;
  double left = azimuth_share(mx - uy * radius, my + ux * radius), right = azimuth_share(mx + uy * radius, my - ux * radius);
  if (spread(left, right, left, &lowest, &highest)) {
    column_range(w, lowest, 4.0, &start, &unused);
    column_range(w, 0.0, highest, &unused, &end);
    return start >= w.columns && end <= 0;
  }
  column_range(w, lowest, highest, &start, &end);
  return (start > 0 ? start : 0) >= (end < w.columns ? end : w.columns);
}

RULE RayBall ray_ball_of(const RayWork &w, const double *centre, double radius, const double *axes, const double *position,
                         i64 first, i64 end) {
  double at[3];
  ray_point(centre, axes, position, at);
  RayBall ball = {at[0], at[1], at[2], radius, root(at[0] * at[0] + at[1] * at[1] + at[2] * at[2]), first, end};
  if (is_out_of_sight(w, at[0], at[1], at[2], radius)) ball.end = ball.first;
  return ball;
}

// Does a ray pass a ball by, or has it met something nearer? Speed only: much wider than any rounding.
RULE bool passes_by(const RayBall &ball, double x, double y, double z, double best) {
  double along = ball.x * x + ball.y * y + ball.z * z, slack = 1e-6 * (ball.away + 1.0);
  if (along + ball.radius + slack < 0.0) return true;
  if ((ball.away - ball.radius - slack) * best > 1.0) return true;
  double aside = ball.away * ball.away - along * along, reach = ball.radius + slack;
  return aside > reach * reach + 1e-9 * ball.away * ball.away;
}

// The first of the nearest faces that a ray meets: its code, or -1, and one over how far it is.
RULE i64 ray_meets(const RayWork &w, i32 row, i32 column, double *inverse) {
  double cosine = w.row_cos[row], sine = w.row_sin[row], x = w.column_cos[column], y = w.column_sin[column];
  double best = 1.0 / w.reach;
  i64 met = -1;
  for (i64 k = 0; k < w.pieces + w.movers; k++) {
    const RayBall &ball = w.balls[k];
    if (ball.first >= ball.end || passes_by(ball, cosine * x, cosine * y, sine, best)) continue;
    for (i64 code = ball.first; code < ball.end; code++) {
      const RayFace &f = w.faces[code];
      if (row < f.start || row >= f.end || !((column >= f.low && column < f.high) || column < f.wrapped)) continue;
      // Row first, then column: (n cos) x and n (cos x) round differently.
      double near = f.n[0] * cosine * x + f.n[1] * cosine * y + f.n[2] * sine;
      double p = f.p[0] * cosine * x + f.p[1] * cosine * y + f.p[2] * sine;
      double q = f.q[0] * cosine * x + f.q[1] * cosine * y + f.q[2] * sine;
      double r = f.r[0] * cosine * x + f.r[1] * cosine * y + f.r[2] * sine;
      if (!(near > best && p <= 0.0 && q <= 0.0 && r <= 0.0)) continue;
      best = near;
      met = code;
    }
  }
  *inverse = best;
  return met;
}

// The intensity of a point that is none: whatever comes back has one above 0.
#define LOST -1.0f
#define FAINTEST -700.0
#define PER_LN2 1.4426950408889634
#define LN2 0.6931471805599453
#define HALF_PI 1.5707963267948966

#ifdef __CUDACC__
RULE double double_of(u64 bits) { return __longlong_as_double((i64)bits); }
RULE u64 bits_of(double x) { return (u64)__double_as_longlong(x); }
#define EVERY_TERM _Pragma("unroll")
#else
RULE double double_of(u64 bits) { double x; memcpy(&x, &bits, 8); return x; }
RULE u64 bits_of(double x) { u64 bits; memcpy(&bits, &x, 8); return bits; }
#define EVERY_TERM
#endif

// 1 / n!: every factorial up to 17 is a double, so that the quotient is rounded once. Loops over these are unrolled on a card, and
// the quotients are part of the text then.
RULE double factor(int n) {
  constexpr double of[18] = {
      1.0, 1.0, 1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0, 1.0 / 40320.0, 1.0 / 362880.0,
      1.0 / 3628800.0, 1.0 / 39916800.0, 1.0 / 479001600.0, 1.0 / 6227020800.0, 1.0 / 87178291200.0, 1.0 / 1307674368000.0,
      1.0 / 20922789888000.0, 1.0 / 355687428096000.0};
  return of[n];
}

// The exponential of a number from FAINTEST to 0.
RULE double exp_below_one(double x) {
  double power = floor(x * PER_LN2 + 0.5), rest = x - power * LN2, total = 0.0;
  EVERY_TERM
  for (int n = 13; n >= 0; n--) total = total * rest + factor(n);
  return total * double_of((u64)(1023 + (i64)power) << 52);
}

// The logarithm of a number from 2**-53 to 1.
RULE double log_of(double x) {
  u64 bits = bits_of(x);
  i64 power = (i64)(bits >> 52) - 1022;
  double mantissa = double_of((bits & 0xfffffffffffffull) | 1022ull << 52);
  if (mantissa < 0.7071067811865476) {
    mantissa = 2.0 * mantissa;
    power--;
  }
  double ratio = (mantissa - 1.0) / (mantissa + 1.0), square = ratio * ratio, series = 0.0;
  EVERY_TERM
  for (int n = 12; n >= 0; n--) series = series * square + 1.0 / (2 * n + 1);
  return 2.0 * ratio * series + (double)power * LN2;
}

// The cosine of a part of a whole turn, 0 to 1.
RULE double cos_of_turn(double turn) {
  double quarter = floor(4.0 * turn + 0.5), angle = (4.0 * turn - quarter) * HALF_PI, square = angle * angle, total = 0.0;
  i64 at = (i64)quarter;
  if (at & 1) {
    EVERY_TERM
    for (int n = 8; n >= 0; n--) total = factor(2 * n + 1) - total * square;
    total *= -angle;
  } else {
    EVERY_TERM
    for (int n = 8; n >= 0; n--) total = factor(2 * n) - total * square;
  }
  return at & 2 ? -total : total;
}

// One point of a LiDAR, or LOST: what ``rays/kernels.lidar_points`` makes of a ray's distance.
RULE void lidar_point(const RayWork &w, i64 at, float *to) {
  i64 channel = at / w.columns, column = at % w.columns;
  i32 row = w.point_row[channel], across = w.point_column[column];
  i64 ray = w.number[row] + across;
  double away = 1.0 / w.inverse[ray];
  to[0] = to[1] = to[2] = 0.0f;
  to[3] = LOST;
  if (w.met[ray] < 0 || !(away <= 1.7976931348623157e308)) return;
  if (w.general > 0.0 && w.by_rate[at] < w.general) return;
  double exponent = -w.attenuation * away, intensity = exp_below_one(exponent > FAINTEST ? exponent : FAINTEST);
  bool faint = w.limit > 0.0 && w.zero > 0.0 && intensity <= w.limit;
  if (faint && w.by_intensity[at] < w.zero * (1.0 - intensity / w.limit)) return;
  if (w.deviation > 0.0) {
    double size = root(-2.0 * log_of(1.0 - w.by_noise[at]));
    away += w.deviation * size * cos_of_turn(w.by_noise[w.rays + at]);
  }
  double flat = away * w.row_cos[row];
  to[0] = (float)(flat * w.column_cos[across]);
  to[1] = (float)(flat * w.column_sin[across]);
  to[2] = (float)(away * w.row_sin[row]);
  to[3] = (float)intensity;
}
