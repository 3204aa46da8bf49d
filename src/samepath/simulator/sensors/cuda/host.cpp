// The rules run on the processor, one after the other: the device for machines without a graphics card, and the witness for
// those with one. Speed is not its aim; the software renderer has that.
#include <algorithm>
#include <new>
#include <vector>

#include "core.h"

typedef std::vector<Seen> SeenList;

static SeenList seen_by(const Scene &s, i64 c) {
  SeenList seen;
  Seen one;
  for (i32 i = 0; i < s.counts.instances; i++)
    if (is_in_sight(s, c, i, &one)) seen.push_back(one);
  std::sort(seen.begin(), seen.end(), is_before);
  i32 first = 0;
  for (Seen &each : seen) {
    i32 mesh = mesh_of_level(s, each.instance, each.level);
    each.first = first;
    first += s.meshes.first_face[mesh + 1] - s.meshes.first_face[mesh];
  }
  return seen;
}

// Light what any camera sees, each level of an instance once.
static void light_seen(const Scene &s, const std::vector<SeenList> &lists) {
  std::vector<u8> lit(LEVELS * s.counts.instances, 0);
  for (const SeenList &list : lists)
    for (const Seen &seen : list) {
      u8 &done = lit[LEVELS * seen.instance + seen.level];
      if (done) continue;
      done = 1;
      i32 mesh = mesh_of_level(s, seen.instance, seen.level), first = s.meshes.first_face[mesh];
      for (i32 face = first; face < s.meshes.first_face[mesh + 1]; face++)
        light_face(s, seen.instance, face, s.placed.rows[LEVELS * seen.instance + seen.level] + face - first);
    }
}

static void draw_faces(const Scene &s, const Picture &picture, const SeenList &list, std::vector<u64> &keys) {
  Triangle triangle[2];
  for (const Seen &seen : list) {
    Sight sight = sight_of(s, picture.camera, seen, picture.focal);
    i32 first = s.meshes.first_face[sight.mesh];
    for (i32 face = first; face < s.meshes.first_face[sight.mesh + 1]; face++) {
      u32 low = low_key(seen.first + face - first, s.meshes.materials[face] >= ROAD);
      int count = triangles_of(s, sight, face, picture.width, picture.height, triangle);
      for (int k = 0; k < count; k++)
        for (i32 row = triangle[k].top; row < triangle[k].bottom; row++) {
          Span span = span_of(triangle[k], row, picture.width);
          for (i32 column = span.first; column < span.end; column++) {
            float w = inverse_at(span, column);
            u64 &at = keys[(size_t)row * picture.width + column];
            if (w > 0.0f) at = std::max(at, key_of(w, low));
          }
        }
    }
  }
}

static void draw_shadows(const Scene &s, const Picture &picture, std::vector<u64> &keys) {
  Triangle triangle[2];
  Sight sight;
  for (i64 i = 0; i < s.counts.instances; i++) {
    if (!shadow_of(s, picture.camera, i, picture.focal, picture.width, picture.height, &sight)) continue;
    for (i32 face = s.meshes.first_face[sight.mesh]; face < s.meshes.first_face[sight.mesh + 1]; face++) {
      int count = triangles_of(s, sight, face, picture.width, picture.height, triangle);
      for (int k = 0; k < count; k++)
        for (i32 row = triangle[k].top; row < triangle[k].bottom; row++) {
          Span span = span_of(triangle[k], row, picture.width);
          for (i32 column = span.first; column < span.end; column++) {
            u64 &at = keys[(size_t)row * picture.width + column];
            if (is_shaded(at, inverse_at(span, column))) at |= KEY_SHADOW;
          }
        }
    }
  }
}

static std::vector<Colour> sky_nodes(const Scene &s, const Picture &picture) {
  i64 down = (picture.height - 1) / picture.stride + 2;
  std::vector<Colour> nodes;
  nodes.reserve((size_t)down * picture.across);
  for (i64 j = 0; j < down; j++)
    for (i64 i = 0; i < picture.across; i++) nodes.push_back(sky_node(s, picture, j, i));
  return nodes;
}

// One pass over a camera's picture, on a grid ``samples`` times as fine: what is measured, colours, or both.
static void draw_picture(const Scene &s, i64 c, const SeenList &seen, i32 samples, bool measures, u32 *colour) {
  Picture picture = picture_of(s, c, samples);
  std::vector<u64> keys((size_t)picture.width * picture.height, 0);
  std::vector<Colour> nodes;
  draw_faces(s, picture, seen, keys);
  if (colour) {
    nodes = sky_nodes(s, picture);
    if (s.light.numbers[SHADOWS] > 0.0) draw_shadows(s, picture, keys);
  }
  for (i32 j = 0; j < picture.height; j++) {
    Row row = row_of(picture, j);
    for (i32 i = 0; i < picture.width; i++) {
      size_t at = (size_t)j * picture.width + i;
      u64 key = keys[at];
      i32 face = key ? row_of_order(s, seen.data(), (i32)seen.size(), order_of(key)) : -1;
      if (measures) measure_pixel(s, picture, j, i, key, face);
      if (colour) colour[at] = paint_pixel(s, picture, row, nodes.data(), i, key, face);
    }
  }
}

static void lay_over(const Scene &s, i64 c, u32 *to) {
  i64 width = s.views.size[3 * c], height = s.views.size[3 * c + 1];
  for (i64 row = 0; row < height; row++) {
    if (s.light.numbers[RAIN] > 0.0) rain_on_row(s, to + row * width, width, height, row);
    if (s.views.vignette[c] > 0.0)
      for (i64 column = 0; column < width; column++)
        to[row * width + column] = darkened(to[row * width + column], s.views.vignette[c], width, height, row, column);
  }
}

static void draw_camera(const Scene &s, i64 c, const SeenList &seen) {
  const i64 *size = s.views.size + 3 * c, *offset = s.views.offset + CHANNELS * c;
  i32 samples = (i32)size[2];
  u32 *colour = offset[0] >= 0 ? s.out.colour + offset[0] : nullptr;
  bool measures = false;
  for (int k = 1; k < CHANNELS; k++) measures |= offset[k] >= 0;
  // Labels cannot be averaged: what is measured has one sample a pixel, and colours of several come from a pass of their own.
  if (measures || (colour && samples == 1)) draw_picture(s, c, seen, 1, measures, samples == 1 ? colour : nullptr);
  if (!colour) return;
  if (samples > 1) {
    i32 fine_width = (i32)size[0] * samples;
    std::vector<u32> fine((size_t)fine_width * size[1] * samples);
    draw_picture(s, c, seen, samples, false, fine.data());
    for (i32 row = 0; row < size[1]; row++)
      for (i32 column = 0; column < size[0]; column++)
        colour[row * size[0] + column] = averaged(fine.data(), fine_width, row, column, samples);
  }
  lay_over(s, c, colour);
}

extern "C" {

i64 samepath_scene_bytes() { return sizeof(Scene); }

// Paint the dome of a weather.
void samepath_sky(u32 *sky, const u8 *noise, const double *numbers) {
  for (i64 j = 0; j < SKY_ROW; j++)
    for (i64 i = 0; i < SKY_ROW; i++) sky[j * SKY_ROW + i] = sky_texel(noise, numbers, i, j);
}

// Add the light of lamps to the ground.
void samepath_glow(float *glow, i64 rows, i64 columns, const double *numbers, const float *lamps, i64 count) {
  for (i64 row = 0; row < rows; row++)
    for (i64 column = 0; column < columns; column++) {
      float &cell = glow[row * columns + column];
      cell = glow_of_cell(cell, lamps, count, numbers, rows, columns, row, column);
    }
}

// Draw all cameras; 0, or 1 where there was not enough memory.
int samepath_draw(const Scene *scene) {
  try {
    std::vector<SeenList> lists;
    for (i64 c = 0; c < scene->counts.cameras; c++) lists.push_back(seen_by(*scene, c));
    light_seen(*scene, lists);
    for (i64 c = 0; c < scene->counts.cameras; c++) draw_camera(*scene, c, lists[c]);
  } catch (const std::bad_alloc &) {
    return 1;
  }
  return 0;
}
}
