// From what a pixel sees to what a camera delivers. A pixel depends on its face, its 1/z and its place in the picture alone.
//
// Constants carry an f: a plain 1.0 is a double, and one of them makes the whole expression double, with other bits.
#pragma once

struct Colour { float b, g, r; };

// Blue, green, red (0..255) of the sky in a direction, between four texels, mixed in whole numbers (16ths of a texel): sums of
// whole numbers are exact in any order. Below the horizon it is that of the horizon.
RULE Colour sky_at(const u32 *sky, float x, float y, float z) {
  const float half = (float)(0.5 * SKY_SIZE), scale = (float)(0.5 * SKY_SIZE / 1.25), limit = (float)(SKY_SIZE - 0.01);
  const u32 outer_bytes = 0x00FF00FF;
  float size = root(x * x + y * y + z * z), lowest = -0.1f * size;
  float gain = scale / (size + (z > lowest ? z : lowest));
  float u = x * gain + half, v = y * gain + half;
  u = u > 0.0f ? u : 0.0f;
  v = v > 0.0f ? v : 0.0f;
  // A hundredth of a texel inside: the neighbour to the right and below is still in the table, which has one more a side.
  u = u < limit ? u : limit;
  v = v < limit ? v : limit;
  u32 p = (u32)whole(u * 16.0f), q = (u32)whole(v * 16.0f), du = p & 15, dv = q & 15, at = (q >> 4) * SKY_ROW + (p >> 4);
  u32 a = sky[at], b = sky[at + 1], c = sky[at + SKY_ROW], d = sky[at + SKY_ROW + 1];
  u32 w00 = (16 - du) * (16 - dv), w01 = du * (16 - dv), w10 = (16 - du) * dv, w11 = du * dv;
  // Red and blue lie 16 bits apart, so that one product mixes both.
  u32 outer = (a & outer_bytes) * w00 + (b & outer_bytes) * w01 + (c & outer_bytes) * w10 + (d & outer_bytes) * w11;
  u32 green = ((a >> 8) & 255) * w00 + ((b >> 8) & 255) * w01 + ((c >> 8) & 255) * w10 + ((d >> 8) & 255) * w11;
  const float unit = (float)(1.0 / 256.0);
  Colour made = {(float)(i32)(outer & 0xFFFF) * unit, (float)(i32)green * unit, (float)(i32)(outer >> 16) * unit};
  return made;
}

// What all pixels of a picture share. ``width``, ``height`` and ``focal`` are those of the grid that is drawn.
struct Picture {
  i64 camera;
  i32 width, height;
  i64 stride, across;
  double focal, pitch;
  const double *axes;
  float place[3], step[3], twice_high, gain;
  Colour fog;
  float fog_per_m, fog_from_m, falloff;
};

RULE Picture picture_of(const Scene &s, i64 c, i32 samples) {
  const double *n = s.light.numbers, sky_stride = 0.02;
  Picture made;
  made.camera = c;
  made.width = (i32)s.views.size[3 * c] * samples;
  made.height = (i32)s.views.size[3 * c + 1] * samples;
  made.focal = s.views.focal[c] * samples;
  made.pitch = 1.0 / made.focal;
  made.axes = s.views.axes + 9 * c;
  for (int k = 0; k < 3; k++) {
    made.place[k] = (float)s.views.place[3 * c + k];
    made.step[k] = (float)(made.axes[3 + k] * made.pitch);
  }
  made.twice_high = (float)(2.0 * s.views.place[3 * c + 2]);
  // The sky is looked up once per so many radians: its own picture is hardly finer.
  made.stride = whole(made.focal * sky_stride);
  if (made.stride < 2) made.stride = 2;
  made.across = made.width / made.stride + 2;
  made.gain = 1.0f / (float)(i32)made.stride;
  made.fog.b = (float)tone(n[FOG + 2]);
  made.fog.g = (float)tone(n[FOG + 1]);
  made.fog.r = (float)tone(n[FOG]);
  // Half the falloff: it is multiplied by the heights of both ends of a ray, twice their mean.
  made.fog_per_m = (float)(0.25 * n[FOG_PER_M]);
  made.fog_from_m = (float)n[FOG_FROM_M];
  made.falloff = (float)(0.5 * n[FALLOFF]);
  return made;
}

// What the pixels of a row share: the ray through a pixel is base + step * column, both rounded to float32 once per row.
struct Row {
  i32 number;
  float base[3];
};

RULE Row row_of(const Picture &picture, i32 row) {
  const double *axes = picture.axes;
  double down = (row + 0.5 - 0.5 * picture.height) * picture.pitch, first = (0.5 - 0.5 * picture.width) * picture.pitch;
  Row made;
  made.number = row;
  for (int k = 0; k < 3; k++) made.base[k] = (float)(axes[k] - axes[6 + k] * down + axes[3 + k] * first);
  return made;
}

// The sky at the middle of a pixel; nodes are every ``stride``-th pixel of a row and row, one beyond the end included.
RULE Colour sky_node(const Scene &s, const Picture &picture, i64 node_row, i64 node_column) {
  const double *axes = picture.axes;
  double down = (node_row * picture.stride + 0.5 - 0.5 * picture.height) * picture.pitch;
  double right = (node_column * picture.stride + 0.5 - 0.5 * picture.width) * picture.pitch;
  return sky_at(s.light.sky, (float)(axes[0] - axes[6] * down + axes[3] * right),
                (float)(axes[1] - axes[7] * down + axes[4] * right), (float)(axes[2] - axes[8] * down + axes[5] * right));
}

RULE float mix(float a, float b, float part) { return a + (b - a) * part; }

// A pixel of sky between the nodes above, below, left and right: down the picture first, then across. ``nodes`` holds
// ``across`` nodes a row.
RULE Colour sky_pixel(const Picture &picture, const Colour *nodes, i32 row, i32 column) {
  i64 block_row = row / picture.stride, block = column / picture.stride;
  float part = (float)(row - block_row * picture.stride) / (float)picture.stride;
  float right = (float)(column - block * picture.stride);
  const Colour *upper = nodes + block_row * picture.across + block, *lower = upper + picture.across;
  float b = mix(upper[0].b, lower[0].b, part), b1 = mix(upper[1].b, lower[1].b, part);
  float g = mix(upper[0].g, lower[0].g, part), g1 = mix(upper[1].g, lower[1].g, part);
  float r = mix(upper[0].r, lower[0].r, part), r1 = mix(upper[1].r, lower[1].r, part);
  Colour made = {b + (b1 - b) * picture.gain * right, g + (g1 - g) * picture.gain * right, r + (r1 - r) * picture.gain * right};
  return made;
}

RULE Colour times(Colour colour, float factor) {
  Colour made = {colour.b * factor, colour.g * factor, colour.r * factor};
  return made;
}

// Added before cutting to whole numbers, so that they are never negative on a map: cutting must round down on either side of
// its origin. The tile repeats after 256 cells, so the lift does not show.
#define LIFT 65536.0f

// Where in the three tiles of noise: plain, some cells wide, clouds.
enum { NOISE_FINE = 0, NOISE_MIDDLE = TILE * TILE, NOISE_SOFT = 2 * TILE * TILE };

// Noise of one cell, -128..127.
RULE float grain_at(const u8 *tile, u32 layer, float x, float y) {
  u32 i = (u32)whole(x + LIFT) & 255, j = (u32)whole(y + LIFT) & 255;
  return (float)tile[layer + ((j << 8) | i)] - 128.0f;
}

// Leaves, mottled as far as they are near.
RULE Colour paint_leaf(const u8 *tile, Colour own, float w, float x, float y, float z) {
  float leaf = grain_at(tile, NOISE_MIDDLE, (x + z) * 14.0f, (y - z) * 14.0f);
  return times(own, 1.0f + 0.0022f * leaf * (w / (w + 0.03f)));
}

// A wall with windows: glass that mirrors the sky by day, some of it lit at night.
RULE Colour paint_wall(const Scene &s, i32 wall, Colour own, float x, float y, float z) {
  const float *m = s.light.walls + 8 * (i64)wall, cells = 1024.0f;
  const u8 *tile = s.light.noise;
  float dark = (float)s.light.numbers[NIGHT];
  float u = m[0] * x + m[1] * y + m[2] * z + (m[3] + cells), v = m[4] * x + m[5] * y + m[6] * z + (m[7] + cells);
  i32 i = whole(u), j = whole(v);
  float du = u - (float)i, dv = v - (float)j;
  // How far inside a window, counted from its nearest edge; the ground floor has larger ones.
  bool ground_floor = j <= 1024;
  float low = ground_floor ? 0.16f : 0.28f, high = ground_floor ? 0.82f : 0.80f, side = ground_floor ? 0.14f : 0.24f;
  float inside = least(least(least(du - side, 1.0f - side - du), dv - low), high - dv);
  if (!(inside > 0.045f)) {
    float stain = 1.0f + 0.0004f * grain_at(tile, NOISE_SOFT, (x + y) * 2.0f, z * 2.0f);
    if (inside > 0.0f) stain = 1.16f;
    else if (dv < 0.035f) stain = stain * 0.90f;
    return times(own, stain);
  }
  // Unsigned, as it may wrap around: only the lowest eight bits count.
  u32 pick_j = ((u32)j * 59u + 17u) & 255, pick_i = ((u32)i * 37u + (u32)wall * 11u) & 255;
  // Which window is lit depends on storey, window and wall alone: it is the same from everywhere and at every tick.
  i32 luck = tile[(pick_j << 8) + pick_i];
  float part = 0.19f + 0.00066f * (float)luck + 0.14f * dv;
  // One direction for all windows, some 20 degrees up: a true mirror image would take a look into the sky for every pixel.
  Colour sky = sky_at(s.light.sky, 0.0f, 0.94f, 0.34f);
  Colour made = {sky.b * part + 14.0f, sky.g * part + 10.0f, sky.r * part + 7.0f};
  if (dark > 0.0f && luck < 96) {
    float glow = dark * (0.6f + 0.0015f * (float)luck);
    made.b = mix(made.b, 120.0f, glow);
    made.g = mix(made.g, 190.0f, glow);
    made.r = mix(made.r, 235.0f, glow);
  }
  return made;
}

// Add the light of lamps to the ground: the grid is read between its four cells. Beyond it no lamp shines; the comparison is
// written so that what is no number is left out too.
RULE Colour lit_by_lamps(const Scene &s, Colour own, float x_m, float y_m) {
  const double *n = s.light.numbers;
  float x = (x_m - (float)n[GLOW_X]) * (float)n[GLOW_PER_M], y = (y_m - (float)n[GLOW_Y]) * (float)n[GLOW_PER_M];
  float columns = (float)(s.counts.glow_columns - 1), rows = (float)(s.counts.glow_rows - 1), bright = (float)(1.0 / n[DARK]);
  if (!(0.0f <= x && x < columns && 0.0f <= y && y < rows)) return own;
  u32 i = (u32)x, j = (u32)y;
  const float *first = s.light.glow + j * s.counts.glow_columns + i, *second = first + s.counts.glow_columns;
  float u = x - (float)i, v = y - (float)j, upper = mix(first[0], first[1], u), lower = mix(second[0], second[1], u);
  float more = root(1.0f + mix(upper, lower, v) * bright) - 1.0f;
  Colour made = {own.b * (1.0f + 0.72f * more), own.g * (1.0f + 0.92f * more), own.r * (1.0f + more)};
  return made;
}

// A wet surface mirrors the sky, the more so the flatter the look, and most in puddles.
RULE Colour mirrored(const Scene &s, int material, Colour own, const float *ray, float x_m, float y_m) {
  float wet = (float)s.light.numbers[WET], puddles = (float)(s.light.numbers[PUDDLES] * 0.9);
  float share = material == GRASS ? 0.25f : 1.0f, x = ray[0], y = ray[1], z = ray[2];
  float away = 1.0f + least(z / root(x * x + y * y + z * z), 0.0f);
  away = away * away;
  float level = grain_at(s.light.noise, NOISE_SOFT, x_m * 2.3f, y_m * 2.3f) + 128.0f;
  float pool = least(most((puddles - level / 255.0f) * 6.0f, 0.0f), 1.0f);
  float part = (0.03f + 0.62f * away * away) * wet;
  part = share * least(part + pool * (0.12f + 0.55f * away), 0.9f);
  // Flat ground throws a ray back with its z turned over.
  Colour sky = sky_at(s.light.sky, x, y, z < 0.0f ? -z : z);
  Colour made = {mix(own.b, sky.b, part), mix(own.g, sky.g, part), mix(own.r, sky.r, part)};
  return made;
}

// Road, paving, grass or paint. What would only flicker from afar is faded out.
RULE Colour paint_ground(const Scene &s, int material, Colour own, bool shadow, float w, float lifted, const float *ray,
                         float x, float y) {
  const u8 *tile = s.light.noise;
  const float *dim = s.light.flat + 3;
  // A factor of the finished colour: a pixel no longer knows what light it was made of.
  if (shadow) own.b *= dim[0], own.g *= dim[1], own.r *= dim[2];
  float soft_part = material == GRASS ? 0.0011f : 0.00045f, fine_part = material == GRASS ? 0.0011f : 0.00055f;
  // Fades to 0 at some 33 m and goes to 1 close by: what simply stopped would show as an edge on the road.
  float off = lifted - 0.03f, near = (off > 0.0f ? off : 0.0f) / (lifted + 0.03f);
  float grain = 1.0f + soft_part * grain_at(tile, NOISE_SOFT, x * 1.7f, y * 1.7f);
  grain += fine_part * near * grain_at(tile, NOISE_FINE, x * 22.0f, y * 22.0f);
  own = times(own, grain);
  if (material == PAVING) {
    float u = x * 1.6f + LIFT, v = y * 1.6f + LIFT;
    u = u - (float)whole(u);
    v = v - (float)whole(v);
    if (u < 0.05f || v < 0.05f) own = times(own, 1.0f - 0.10f * w / (w + 0.05f));
  }
  if (s.light.numbers[NIGHT] > 0.0) own = lit_by_lamps(s, own, x, y);
  // Last: water mirrors over whatever light lies on the ground below it.
  if (s.light.numbers[WET] > 0.0) own = mirrored(s, material, own, ray, x, y);
  return own;
}

// The colour of a face at a pixel.
RULE Colour paint_face(const Scene &s, const Picture &picture, const Row &row, i32 column, float w, i32 face, bool shadow) {
  const float *colour = s.rows.colour + 4 * (i64)face;
  Colour own = {colour[0], colour[1], colour[2]};
  int material = s.rows.material[face];
  if (material < FOLIAGE) return own;
  float ray[3], at[3], lifted = w > 1e-4f ? w : 1e-4f, far = 1.0f / lifted;
  for (int k = 0; k < 3; k++) {
    ray[k] = row.base[k] + picture.step[k] * (float)column;
    at[k] = picture.place[k] + ray[k] * far;
  }
  if (material == FACADE) return paint_wall(s, whole(colour[3]), own, at[0], at[1], at[2]);
  if (material == FOLIAGE) return paint_leaf(s.light.noise, own, w, at[0], at[1], at[2]);
  return paint_ground(s, material, own, shadow, w, lifted, ray, at[0], at[1]);
}

// Fog by depth, thinner high up. 1 / (1 + x / 4)**4 stands for exp(-x): products and a quotient are the same everywhere. The
// sky counts as no distance at all: its fog is in its picture already.
RULE Colour fogged(const Picture &picture, const Row &row, i32 column, float w, Colour own) {
  float far = 1.0f / (w > 1e-6f ? w : 1e6f);
  float above = picture.twice_high + (row.base[2] + picture.step[2] * (float)column) * far;
  above = above > 0.0f ? above : 0.0f;
  float thick = far - picture.fog_from_m;
  thick = picture.fog_per_m * (thick > 0.0f ? thick : 0.0f) / (1.0f + picture.falloff * above);
  float clear = 1.0f / (1.0f + thick);
  clear = clear * clear;
  clear = clear * clear;
  Colour made = {mix(picture.fog.b, own.b, clear), mix(picture.fog.g, own.g, clear), mix(picture.fog.r, own.r, clear)};
  return made;
}

// Clamped first, then rounded half up: what is out of range never reaches the conversion.
RULE u32 byte_of(float level) {
  level = level > 0.0f ? level : 0.0f;
  return (u32)((level < 255.0f ? level : 255.0f) + 0.5f);
}

// As CARLA stores it: blue in the lowest byte, then green, red, 255.
RULE u32 packed(u32 b, u32 g, u32 r) { return b | (g << 8) | (r << 16) | 0xFF000000u; }

// One pixel's colour before rain and lens.
RULE u32 paint_pixel(const Scene &s, const Picture &picture, const Row &row, const Colour *nodes, i32 column, u64 key,
                     i32 face) {
  float w = inverse_of(key);
  Colour made = key == 0 ? sky_pixel(picture, nodes, row.number, column)
                         : paint_face(s, picture, row, column, w, face, (key & KEY_SHADOW) != 0);
  made = fogged(picture, row, column, w, made);
  return packed(byte_of(made.b), byte_of(made.g), byte_of(made.r));
}

// Where a pixel has come from, back along its instance's motion and the camera's; the sky only turns. Everything is divided by
// the depth instead of multiplied: then the sky, infinitely far, is the same sum without the places.
RULE void flow_of(const Scene &s, const Picture &picture, i32 row, i32 column, u64 key, i32 face, float *to) {
  i64 c = picture.camera;
  const double *axes = picture.axes, *place = s.views.place + 3 * c;
  const double *was_axes = s.views.was_axes + 9 * c, *was_place = s.views.was_place + 3 * c;
  double right = (column + 0.5 - 0.5 * picture.width) / picture.focal;
  double down = (row + 0.5 - 0.5 * picture.height) / picture.focal;
  double x = axes[0] + right * axes[3] - down * axes[6];
  double y = axes[1] + right * axes[4] - down * axes[7];
  double z = axes[2] + right * axes[5] - down * axes[8];
  if (key != 0) {
    i64 i = s.rows.placed[face];
    double far = 1.0 / (double)inverse_of(key);
    const double *turn = s.placed.axes + 9 * i, *was = s.placed.was_axes + 9 * i;
    const double *at = s.placed.position + 3 * i, *was_at = s.placed.was_position + 3 * i;
    x += (place[0] - at[0]) / far;
    y += (place[1] - at[1]) / far;
    z += (place[2] - at[2]) / far;
    double lx = dot(turn, x, y, z), ly = dot(turn + 3, x, y, z), lz = dot(turn + 6, x, y, z);
    x = dot_down(was, lx, ly, lz) + (was_at[0] - was_place[0]) / far;
    y = dot_down(was + 1, lx, ly, lz) + (was_at[1] - was_place[1]) / far;
    z = dot_down(was + 2, lx, ly, lz) + (was_at[2] - was_place[2]) / far;
  }
  // What was beside or behind the camera has no place in the picture before: it gets a large motion, cut to 2 below.
  double ahead = most(dot(was_axes, x, y, z), 1e-3);
  double was_right = dot(was_axes + 3, x, y, z) / ahead, was_down = -dot(was_axes + 6, x, y, z) / ahead;
  double flow_x = (right - was_right) * picture.focal / (0.5 * picture.width);
  double flow_y = -(down - was_down) * picture.focal / (0.5 * picture.height);
  to[0] = (float)least(most(flow_x, -2.0), 2.0);
  to[1] = (float)least(most(flow_y, -2.0), 2.0);
}

// CARLA's pictures of what is measured: the 24 bits of a depth with the lowest in red; a label in red; an instance in green and,
// its upper byte, blue; a normal from -127..127 to 0..255, its x in red.
RULE u32 depth_coded(float far) {
  u32 steps = (u32)((double)far * DEPTH_STEPS_PER_M + 0.5);
  return packed(steps >> 16, (steps >> 8) & 255, steps & 255);
}
RULE u32 normal_level(i32 part) { return (u32)((part + 127) * 255 / 254); }

// Everything but colour, as far as it is asked for: depth, label, instance, normal and flow, as numbers and as CARLA's pictures.
RULE void measure_pixel(const Scene &s, const Picture &picture, i32 row, i32 column, u64 key, i32 face) {
  const i64 *offset = s.views.offset + CHANNELS * picture.camera;
  i64 at = (i64)row * picture.width + column;
  bool seen = key != 0;
  if (offset[1] >= 0 || offset[6] >= 0) {
    // Of the sky 1/0, infinite, which the limit turns into the farthest depth.
    float far = 1.0f / inverse_of(key);
    far = far < (float)FAR_M ? far : (float)FAR_M;
    if (offset[1] >= 0) s.out.depth[offset[1] + at] = far;
    if (offset[6] >= 0) s.out.depth_image[offset[6] + at] = depth_coded(far);
  }
  u32 label = seen ? s.rows.label[face] : (u32)SKY_LABEL, instance = seen ? s.rows.instance[face] : 0u;
  if (offset[2] >= 0) s.out.label[offset[2] + at] = (u8)label;
  if (offset[3] >= 0) s.out.instance[offset[3] + at] = (u16)instance;
  if (offset[7] >= 0) s.out.label_image[offset[7] + at] = packed(0, 0, label);
  if (offset[8] >= 0) s.out.instance_image[offset[8] + at] = packed(instance >> 8, instance & 255, label);
  if (offset[4] >= 0 || offset[9] >= 0) {
    i8 normal[3];
    for (int k = 0; k < 3; k++) normal[k] = seen ? s.rows.normal[3 * (i64)face + k] : (i8)0;
    if (offset[4] >= 0)
      for (int k = 0; k < 3; k++) s.out.normal[3 * (offset[4] + at) + k] = normal[k];
    if (offset[9] >= 0)
      s.out.normal_image[offset[9] + at] = packed(normal_level(normal[2]), normal_level(normal[1]), normal_level(normal[0]));
  }
  if (offset[5] >= 0) flow_of(s, picture, row, column, key, face, s.out.flow + 2 * (offset[5] + at));
}

// One pixel from samples x samples of a finer picture, rounded to nearest. Sums of bytes are exact in any order.
RULE u32 averaged(const u32 *fine, i32 fine_width, i32 row, i32 column, i32 samples) {
  u32 count = (u32)(samples * samples), b = count / 2, g = count / 2, r = count / 2;
  for (i32 j = 0; j < samples; j++)
    for (i32 i = 0; i < samples; i++) {
      u32 pixel = fine[((i64)row * samples + j) * fine_width + (i64)column * samples + i];
      b += pixel & 255;
      g += (pixel >> 8) & 255;
      r += (pixel >> 16) & 255;
    }
  return packed(b / count, g / count, r / count);
}

RULE i64 noise_cell(i64 row, i64 column) { return ((row & 255) << 8) + (column & 255); }

// Rain on one row of a finished picture: slanted streaks, other ones at every tick. Where streaks cross, the later one is mixed
// into the result of the earlier one, so within a row they come in order; no row depends on another.
RULE void rain_on_row(const Scene &s, u32 *line, i64 width, i64 height, i64 row) {
  const u8 *tile = s.light.noise;
  i64 tick = whole(s.light.numbers[TICK]), streaks = whole(width * s.light.numbers[RAIN] * 0.9);
  for (i64 k = 0; k < streaks; k++) {
    i64 a = tile[noise_cell(k * 7 + tick * 13, (k >> 8) * 31)], b = tile[noise_cell(k * 3 + 91, tick * 29 + k)];
    i64 step = row - (((b << 8) + a) * height >> 16);
    if (step < 0) continue;
    i64 c = tile[noise_cell(k * 5 + tick * 3, k * 11 + 7)];
    i64 length = height * (8 + (c & 15)) / 200 + 1, column = (((a << 8) + c) * width >> 16) - step / 6;
    if (step >= length || column < 0 || column >= width) continue;
    u32 pixel = line[column], part = (u32)(20 + (b & 31)), keep = 256 - part, add = part * 190;
    line[column] = packed(((pixel & 255) * keep + add) >> 8, (((pixel >> 8) & 255) * keep + add) >> 8,
                          (((pixel >> 16) & 255) * keep + add) >> 8);
  }
}

// Darker towards the corners, in 256ths: the product with a byte is a whole number on every machine.
RULE u32 darkened(u32 pixel, double strength, i64 width, i64 height, i64 row, i64 column) {
  double gain = 1.0 / (double)(width * width + height * height);
  double x = 2.0 * column + 1.0 - width, y = 2.0 * row + 1.0 - height;
  u32 keep = (u32)(256.0 * most(1.0 - strength * (x * x + y * y) * gain, 0.0));
  return packed(((pixel & 255) * keep) >> 8, (((pixel >> 8) & 255) * keep) >> 8, (((pixel >> 16) & 255) * keep) >> 8);
}
