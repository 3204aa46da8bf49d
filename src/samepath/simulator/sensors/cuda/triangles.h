// Which faces a camera sees, and which pixels belong to them.
#pragma once

// An instance in sight of a camera. ``first`` counts the faces of all instances that are drawn before it; with a face's number
// it gives the face's place in the order of drawing. A scene has fewer than 2**24 faces in all levels together, so places fit
// into a pixel's key with room to spare: there is no list here that could overflow.
struct Seen {
  double ahead;
  i32 instance, level, first;
};

// Order of drawing: by distance ahead, then by number. No two have the same key, so any way of sorting will do.
RULE bool is_before(const Seen &a, const Seen &b) {
  return a.ahead < b.ahead || (a.ahead == b.ahead && a.instance < b.instance);
}

// A mesh as one camera sees it: the matrix into its frame in float64, and from where faces must be seen, a point (share 1) or a
// direction (share 0) in the mesh's frame.
struct Sight {
  double matrix[12];
  float from_x, from_y, from_z, share;
  i32 mesh;
};

// A triangle as rows: its upper corner a and middle corner b, the slopes of its edges, and 1/z as a plane. ``left`` to
// ``right`` are the columns it can touch.
struct Triangle {
  double ax, ay, bx, by, long_slope, upper_slope, lower_slope, origin, by_x, by_y;
  i32 top, bottom, left, right;
  bool long_is_left;
};

struct Corner { float column, row, inverse; };

RULE i32 mesh_of_level(const Scene &s, i32 instance, i32 level) {
  i32 mesh = s.placed.mesh[instance];
  for (i32 k = 0; k < level; k++) mesh = s.meshes.coarser[mesh];
  return mesh;
}

// Does a camera see an instance's sphere, how far ahead, and in which level of detail?
RULE bool is_in_sight(const Scene &s, i64 c, i32 i, Seen *seen) {
  const double *axes = s.views.axes + 9 * c, *place = s.views.place + 3 * c;
  double focal = s.views.focal[c], half_x = 0.5 * s.views.size[3 * c] / focal, half_y = 0.5 * s.views.size[3 * c + 1] / focal;
  double lean_x = root(1.0 + half_x * half_x), lean_y = root(1.0 + half_y * half_y);
  i32 mesh = s.placed.mesh[i], level = 0;
  const double *middle = s.meshes.centre + 3 * mesh, *turn = s.placed.axes + 9 * i, *at = s.placed.position + 3 * i;
  double radius = s.meshes.radius[mesh];
  double x = dot_down(turn, middle[0], middle[1], middle[2]) + at[0] - place[0];
  double y = dot_down(turn + 1, middle[0], middle[1], middle[2]) + at[1] - place[1];
  double z = dot_down(turn + 2, middle[0], middle[1], middle[2]) + at[2] - place[2];
  double ahead = dot(axes, x, y, z);
  if (ahead + radius < NEAR_M) return false;
  if (fabs(dot(axes + 3, x, y, z)) - ahead * half_x > radius * lean_x) return false;
  if (fabs(dot(axes + 6, x, y, z)) - ahead * half_y > radius * lean_y) return false;
  if (s.counts.detail > 0.0 && ahead > radius) {
    double size_px = radius * focal / ahead * s.counts.detail;
    while (level + 1 < LEVELS && s.meshes.coarser[mesh] >= 0 && size_px < s.meshes.coarser_px[mesh]) {
      mesh = s.meshes.coarser[mesh];
      level++;
    }
  }
  seen->ahead = ahead;
  seen->instance = i;
  seen->level = level;
  seen->first = 0;
  return true;
}

// From an instance's frame to the camera's. The camera's place is taken off before anything is multiplied: far from the map's
// origin the products would lose millimetres.
RULE void view_matrix(double *to, const double *axes, const double *place, double focal, const double *turn, const double *at) {
  for (int k = 0; k < 3; k++) {
    double x = turn[3 * k], y = turn[3 * k + 1], z = turn[3 * k + 2];
    to[k] = dot(axes + 3, x, y, z) * focal;
    to[4 + k] = -dot(axes + 6, x, y, z) * focal;
    to[8 + k] = dot(axes, x, y, z);
  }
  double x = at[0] - place[0], y = at[1] - place[1], z = at[2] - place[2];
  to[3] = dot(axes + 3, x, y, z) * focal;
  to[7] = -dot(axes + 6, x, y, z) * focal;
  to[11] = dot(axes, x, y, z);
}

// An instance that is in sight. ``focal`` is that of the grid that is drawn, finer with several samples a pixel.
RULE Sight sight_of(const Scene &s, i64 c, const Seen &seen, double focal) {
  Sight made;
  const double *turn = s.placed.axes + 9 * seen.instance, *at = s.placed.position + 3 * seen.instance;
  const double *place = s.views.place + 3 * c;
  view_matrix(made.matrix, s.views.axes + 9 * c, place, focal, turn, at);
  double x = place[0] - at[0], y = place[1] - at[1], z = place[2] - at[2];
  made.from_x = (float)dot(turn, x, y, z);
  made.from_y = (float)dot(turn + 3, x, y, z);
  made.from_z = (float)dot(turn + 6, x, y, z);
  made.share = 1.0f;
  made.mesh = mesh_of_level(s, seen.instance, seen.level);
  return made;
}

// The shadow of an instance, laid flat on the ground along the sun's rays. False where it throws none: no caster, too far away,
// smaller than a few pixels, seen from below its ground, out of sight.
RULE bool shadow_of(const Scene &s, i64 c, i64 i, double focal, i64 width, i64 height, Sight *made) {
  const double steepest = 0.14, smallest_px = 3.0;
  i32 mesh = s.meshes.shadow[s.placed.mesh[i]];
  if (mesh < 0) return false;
  const double *sun = s.light.numbers + TO_SUN, *place = s.views.place + 3 * c, *axes = s.views.axes + 9 * c;
  const double *turn = s.placed.axes + 9 * i, *at = s.placed.position + 3 * i, *middle = s.meshes.centre + 3 * mesh;
  double ground = s.placed.ground_z[i];
  if (place[2] <= ground) return false;
  double steep = most(sun[2], steepest), lean_x = sun[0] / steep, lean_y = sun[1] / steep;
  double half_x = 0.5 * width / focal, half_y = 0.5 * height / focal;
  double radius = s.meshes.radius[mesh] * root(1.0 + lean_x * lean_x + lean_y * lean_y);
  double x = dot_down(turn, middle[0], middle[1], middle[2]) + at[0];
  double y = dot_down(turn + 1, middle[0], middle[1], middle[2]) + at[1];
  double up = dot_down(turn + 2, middle[0], middle[1], middle[2]) + at[2] - ground;
  x = x - lean_x * up;
  y = y - lean_y * up;
  double dx = x - place[0], dy = y - place[1], dz = ground - place[2];
  double reach = least(SHADOW_REACH_M, focal / smallest_px * radius) + radius;
  if (dx * dx + dy * dy > reach * reach) return false;
  double ahead = dot(axes, dx, dy, dz);
  if (ahead + radius < 0.0) return false;
  if (fabs(dot(axes + 3, dx, dy, dz)) - ahead * half_x > radius * root(1.0 + half_x * half_x)) return false;
  if (fabs(dot(axes + 6, dx, dy, dz)) - ahead * half_y > radius * root(1.0 + half_y * half_y)) return false;
  double flat_turn[9], high = at[2] - ground, flat_at[3] = {at[0] - lean_x * high, at[1] - lean_y * high, ground};
  for (int k = 0; k < 3; k++) {
    flat_turn[3 * k] = turn[3 * k] - lean_x * turn[3 * k + 2];
    flat_turn[3 * k + 1] = turn[3 * k + 1] - lean_y * turn[3 * k + 2];
    flat_turn[3 * k + 2] = 0.0;
  }
  view_matrix(made->matrix, axes, place, focal, flat_turn, flat_at);
  made->from_x = (float)(turn[0] * lean_x + turn[1] * lean_y + turn[2]);
  made->from_y = (float)(turn[3] * lean_x + turn[4] * lean_y + turn[5]);
  made->from_z = (float)(turn[6] * lean_x + turn[7] * lean_y + turn[8]);
  made->share = 0.0f;
  made->mesh = mesh;
  return true;
}

// The first pixel whose middle is at or beyond ``edge``, within 0..limit; 0 for what is no number. This one rounding is the
// fill rule: of two triangles that meet at an edge, the one ends at the very pixel where the other begins.
RULE i32 first_middle(double edge, i32 limit) {
  double at = ceil(edge - 0.5);
  if (!(at > 0.0)) return 0;
  if (at >= limit) return limit;
  return (i32)at;
}

// Set a triangle up from corners (column, row, 1/z); false where it covers no pixel, faces away or has no area.
RULE bool triangle_of(i32 width, i32 height, const double *p, const double *q, const double *r, Triangle *t) {
  double ax = p[0], ay = p[1], aw = p[2], bx = q[0], by = q[1], bw = q[2], cx = r[0], cy = r[1], cw = r[2], kept;
  t->top = first_middle(least(least(ay, by), cy), height);
  t->bottom = first_middle(most(most(ay, by), cy), height);
  double area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay);
  if (t->top >= t->bottom || !(area > 0.0)) return false;
  t->left = first_middle(least(least(ax, bx), cx), width);
  t->right = first_middle(most(most(ax, bx), cx), width);
  if (t->left >= t->right) return false;
  double gain = 1.0 / area;
  t->by_x = ((bw - aw) * (cy - ay) - (cw - aw) * (by - ay)) * gain;
  t->by_y = ((cw - aw) * (bx - ax) - (bw - aw) * (cx - ax)) * gain;
  t->origin = aw + t->by_x * (0.5 - ax) + t->by_y * (0.5 - ay);
  // Corners from top to bottom. Slopes always from the upper to the lower end: the triangle on the other side of an edge gets
  // the same bits. A level edge has an infinite slope, or none at all, which nobody uses.
  if (by < ay) {
    kept = ax, ax = bx, bx = kept;
    kept = ay, ay = by, by = kept;
  }
  if (cy < by) {
    kept = bx, bx = cx, cx = kept;
    kept = by, by = cy, cy = kept;
    if (by < ay) {
      kept = ax, ax = bx, bx = kept;
      kept = ay, ay = by, by = kept;
    }
  }
  t->ax = ax;
  t->ay = ay;
  t->bx = bx;
  t->by = by;
  t->long_slope = (cx - ax) / (cy - ay);
  t->long_is_left = ax + (by - ay) * t->long_slope < bx;
  t->upper_slope = (bx - ax) / (by - ay);
  t->lower_slope = (cx - bx) / (cy - by);
  return true;
}

// One row of a triangle: its pixels ``first`` up to ``end``, and 1/z, which is near + step * (column - first) in float32. It is
// not summed up from pixel to pixel: every pixel can be worked out alone.
struct Span {
  i32 first, end;
  float near, step;
};

RULE Span span_of(const Triangle &t, i32 row, i32 width) {
  double y = row + 0.5, long_x = t.ax + (y - t.ay) * t.long_slope;
  double short_x = y < t.by ? t.ax + (y - t.ay) * t.upper_slope : t.bx + (y - t.by) * t.lower_slope;
  Span made;
  made.first = first_middle(t.long_is_left ? long_x : short_x, width);
  made.end = first_middle(t.long_is_left ? short_x : long_x, width);
  made.near = (float)(t.origin + t.by_x * made.first + t.by_y * row);
  made.step = (float)t.by_x;
  return made;
}

RULE float inverse_at(const Span &span, i32 column) { return span.near + span.step * (float)(column - span.first); }

RULE Corner project(const Scene &s, const float *m, i32 vertex, float middle_x, float middle_y) {
  float x = s.meshes.x[vertex], y = s.meshes.y[vertex], z = s.meshes.z[vertex];
  float ahead = m[8] * x + m[9] * y + m[10] * z + m[11], w = 1.0f / ahead;
  Corner made;
  made.column = (m[0] * x + m[1] * y + m[2] * z + m[3]) * w + middle_x;
  made.row = (m[4] * x + m[5] * y + m[6] * z + m[7]) * w + middle_y;
  made.inverse = ahead > (float)NEAR_M ? w : -1.0f;
  return made;
}

// Cut a face that reaches behind the camera off at the near plane; 0, 3 or 4 corners. A cut is worked out from the end in front
// to the end behind, never the other way: two faces that share an edge get the same bits.
RULE int cut_at_near_plane(const Scene &s, const double *m, i32 width, i32 height, const i32 *vertex, const Corner *from,
                           double to[4][3]) {
  int count = 0;
  for (int side = 0; side < 3; side++) {
    int next = side == 2 ? 0 : side + 1;
    bool is_in = from[side].inverse > 0.0f, next_in = from[next].inverse > 0.0f;
    if (is_in) {
      to[count][0] = from[side].column;
      to[count][1] = from[side].row;
      to[count][2] = from[side].inverse;
      count++;
    }
    if (is_in == next_in) continue;
    i32 a = is_in ? vertex[side] : vertex[next], b = is_in ? vertex[next] : vertex[side];
    double ax = s.meshes.x[a], ay = s.meshes.y[a], az = s.meshes.z[a];
    double bx = s.meshes.x[b], by = s.meshes.y[b], bz = s.meshes.z[b];
    double a_ahead = dot(m + 8, ax, ay, az) + m[11], b_ahead = dot(m + 8, bx, by, bz) + m[11];
    double part = least(most((a_ahead - NEAR_M) / (a_ahead - b_ahead), 0.0), 1.0);
    double x = ax + part * (bx - ax), y = ay + part * (by - ay), z = az + part * (bz - az);
    to[count][0] = 0.5 * width + (dot(m, x, y, z) + m[3]) / NEAR_M;
    to[count][1] = 0.5 * height + (dot(m + 4, x, y, z) + m[7]) / NEAR_M;
    to[count][2] = 1.0 / NEAR_M;
    count++;
  }
  return count;
}

// The triangles of a face that cover pixels: none, one, or two where it was cut. Faces turned away, or seen exactly from the
// side, are found by their plane in the mesh's frame: on the screen the sign of a small area would depend on rounding.
RULE int triangles_of(const Scene &s, const Sight &sight, i32 face, i32 width, i32 height, Triangle *to) {
  const float *plane = s.meshes.planes + 4 * (i64)face;
  if (plane[0] * sight.from_x + plane[1] * sight.from_y + plane[2] * sight.from_z <= plane[3] * sight.share) return 0;
  float m[12], middle_x = (float)(0.5 * width), middle_y = (float)(0.5 * height);
  for (int k = 0; k < 12; k++) m[k] = (float)sight.matrix[k];
  i32 vertex[3];
  Corner corner[3];
  int in_front = 0;
  double q[4][3];
  for (int k = 0; k < 3; k++) {
    vertex[k] = s.meshes.faces[3 * (i64)face + k];
    corner[k] = project(s, m, vertex[k], middle_x, middle_y);
    in_front += corner[k].inverse > 0.0f;
    q[k][0] = corner[k].column;
    q[k][1] = corner[k].row;
    q[k][2] = corner[k].inverse;
  }
  if (in_front == 0) return 0;
  if (in_front == 3) return triangle_of(width, height, q[0], q[1], q[2], to);
  int count = cut_at_near_plane(s, sight.matrix, width, height, vertex, corner, q), made = 0;
  for (int k = 2; k < count; k++) made += triangle_of(width, height, q[0], q[k - 1], q[k], to + made);
  return made;
}

// A pixel's key, the greatest of which is seen: 1/z (positive floats sort as their bits do), then the face that is drawn first,
// then two bits that decide nothing: whether the face lies flat, and whether the pixel lies in shadow. 0 is the sky.
enum { KEY_SHADOW = 1, KEY_FLAT = 2, ORDER_MAX = (1 << 30) - 1 };

RULE u32 low_key(i32 order, bool is_flat) { return ((u32)(ORDER_MAX - order) << 2) | (is_flat ? (u32)KEY_FLAT : 0u); }
RULE u64 key_of(float inverse, u32 low) { return ((u64)bits_of(inverse) << 32) | low; }
RULE float inverse_of(u64 key) { return float_of((u32)(key >> 32)); }
RULE i32 order_of(u64 key) { return ORDER_MAX - (i32)((u32)key >> 2); }

// Does a shadow at ``inverse`` fall on what is seen here? On flat things only, neither in front of its place nor far behind.
RULE bool is_shaded(u64 key, float inverse) {
  float seen = inverse_of(key), off = inverse - seen;
  return !(off > 0.3f * seen || -off > 0.3f * seen || seen <= 0.0f || !(key & KEY_FLAT));
}

// Which of the instances in sight has the face with a place in the order of drawing: the last that begins at or before it.
// One without faces begins where the next one does, so the last of those is meant.
RULE i32 place_of_order(const Seen *seen, i32 count, i32 order) {
  i32 low = 0, high = count - 1;
  while (low < high) {
    i32 middle = (low + high + 1) / 2;
    if (seen[middle].first <= order) low = middle;
    else high = middle - 1;
  }
  return low;
}

// The row of that face.
RULE i32 row_of_order(const Scene &s, const Seen *seen, i32 count, i32 order) {
  const Seen &has = seen[place_of_order(seen, count, order)];
  return s.placed.rows[LEVELS * has.instance + has.level] + order - has.first;
}
