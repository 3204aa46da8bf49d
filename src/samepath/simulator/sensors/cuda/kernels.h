// The work of a graphics card: who calls the rules of core.h for what, in which order.
//
// A kernel is a loop over its share of the work. Threads neither wait for each other nor share memory that is not atomic, and
// what several of them write to (keys, counts, marks) ends up the same in whatever order they come: the greatest key, a sum, a
// one. So a kernel may be run thread by thread on a processor, in any order, and tests do that.
//
// Nothing is dropped: lists per picture have room for every instance of the scene. The two that have not (triangles too large
// for one thread, and the pieces they are cut into) count on beyond their end, and whoever started the work reads the counts,
// makes the lists larger and starts it again.
#pragma once

#include "core.h"
#include "rays.h"

#ifdef __CUDACC__
#define KERNEL(name) extern "C" __global__ void name(const __grid_constant__ Work w)
#define RAY_KERNEL(name) extern "C" __global__ void name(const __grid_constant__ RayWork w)
RULE i64 first_thread() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }
RULE i64 all_threads() { return (i64)gridDim.x * blockDim.x; }
RULE i64 this_row() { return blockIdx.y; }
#else
// Set by whoever runs a kernel on the processor.
static thread_local i64 now_thread, now_threads, now_row;
#define KERNEL(name) static void name(const Work &w)
#define RAY_KERNEL(name) static void name(const RayWork &w)
RULE i64 first_thread() { return now_thread; }
RULE i64 all_threads() { return now_threads; }
RULE i64 this_row() { return now_row; }
RULE i32 atomicAdd(i32 *at, i32 more) { i32 was = *at; *at = was + more; return was; }
RULE u64 atomicAdd(u64 *at, u64 more) { u64 was = *at; *at = was + more; return was; }
RULE u64 atomicMax(u64 *at, u64 other) { u64 was = *at; *at = other > was ? other : was; return was; }
RULE u64 atomicOr(u64 *at, u64 bits) { u64 was = *at; *at = was | bits; return was; }
#endif

// Threads that fill a piece of a triangle together; those of a warp, so that they read the same piece and write side by side.
enum { LANES = 32 };
// Triangles of at most this many pixels are filled by the thread that finds them, larger ones are cut into such pieces.
enum { TINY_PX = 16, PIECE_PX = 1024 };

// One pass over one picture: a camera, on a grid ``samples`` times as fine.
struct Job {
  i64 camera, samples, first_key, first_node, first_fine, flags;
};
enum { JOB_MEASURES = 1, JOB_PAINTS = 2 };

// A triangle that is too large for one thread, and a piece of one: some of its rows.
struct Large {
  Triangle triangle;
  u32 low;
  i32 job;
};
struct Piece {
  i64 large;
  i32 top, bottom;
};

// A stretch of bytes that has come with the tick and belongs elsewhere.
struct Move {
  u8 *to;
  const u8 *from;
  i64 bytes;
};

// Counts of the two lists: for faces, then for shadows.
enum { LARGES = 0, PIECES = 1, SHADOW_LARGES = 2, SHADOW_PIECES = 3 };

// All that kernels work on. ``found``, ``seen``, ``sights``, ``casters`` and ``caster_first`` have room for every instance in
// every job; ``used`` and ``lit`` have a mark for every level of every instance.
struct Work {
  Scene s;
  const Job *jobs;
  Picture *pictures;
  Seen *found, *seen;
  Sight *sights, *casters;
  i32 *caster_first, *found_count, *face_count;
  u64 *caster_count;  // how many in the upper half, their faces in the lower one
  u8 *used, *lit;
  u64 *keys;
  Colour *nodes;
  u32 *fine;
  Large *larges;
  Piece *pieces;
  u64 *counts;
  const Move *moves;
  const float *street_glow;
  i64 jobs_count, larges_max, pieces_max, rows;
};

enum { SEEN_BYTES = 24, SIGHT_BYTES = 120, PICTURE_BYTES = 112, LARGE_BYTES = 112, PIECE_BYTES = 16, JOB_BYTES = 48,
       MOVE_BYTES = 24, COLOUR_BYTES = 12, WORK_BYTES = 712 };
static_assert(sizeof(Seen) == SEEN_BYTES && sizeof(Sight) == SIGHT_BYTES && sizeof(Picture) == PICTURE_BYTES, "sizes");
static_assert(sizeof(Large) == LARGE_BYTES && sizeof(Piece) == PIECE_BYTES && sizeof(Job) == JOB_BYTES, "sizes");
static_assert(sizeof(Move) == MOVE_BYTES && sizeof(Colour) == COLOUR_BYTES && sizeof(Work) == WORK_BYTES, "sizes");

// The last of ``count`` rising numbers that is not above ``number``; where several are equal, the last of them.
RULE i64 last_not_above(const i32 *starts, i64 count, i64 number) {
  i64 low = 0, high = count - 1;
  while (low < high) {
    i64 middle = (low + high + 1) / 2;
    if (starts[middle] <= number) low = middle;
    else high = middle - 1;
  }
  return low;
}

// Put what has moved where it belongs. A row of threads each.
KERNEL(scatter) {
  Move move = w.moves[this_row()];
  for (i64 k = first_thread(); k < move.bytes; k += all_threads()) move.to[k] = move.from[k];
}

// The light of beams on the ground, on top of that of street lamps.
KERNEL(glow) {
  i64 columns = w.s.counts.glow_columns, cells = w.s.counts.glow_rows * columns;
  for (i64 k = first_thread(); k < cells; k += all_threads())
    w.s.light.glow[k] = glow_of_cell(w.street_glow[k], w.s.light.beams, w.s.counts.beams, w.s.light.numbers,
                                     w.s.counts.glow_rows, columns, k / columns, k % columns);
}

KERNEL(begin) {
  for (i64 j = first_thread(); j < w.jobs_count; j += all_threads())
    w.pictures[j] = picture_of(w.s, w.jobs[j].camera, (i32)w.jobs[j].samples);
}

// What a job sees, in no order yet; ``first`` holds how many faces it has until it is known where they begin.
KERNEL(cull) {
  i64 j = this_row(), count = w.s.counts.instances;
  for (i64 i = first_thread(); i < count; i += all_threads()) {
    Seen one;
    if (!is_in_sight(w.s, w.jobs[j].camera, (i32)i, &one)) continue;
    i32 mesh = mesh_of_level(w.s, one.instance, one.level);
    one.first = w.s.meshes.first_face[mesh + 1] - w.s.meshes.first_face[mesh];
    w.found[j * count + atomicAdd(w.found_count + j, 1)] = one;
    atomicAdd(w.face_count + j, one.first);
    w.used[LEVELS * i + one.level] = 1;
  }
}

// Sort by counting who comes before: no thread needs another's answer, and the keys are unique.
KERNEL(rank) {
  i64 j = this_row(), start = j * w.s.counts.instances;
  i32 count = w.found_count[j];
  const Seen *found = w.found + start;
  for (i64 k = first_thread(); k < count; k += all_threads()) {
    Seen own = found[k];
    i32 before = 0, first = 0;
    for (i32 m = 0; m < count; m++)
      if (is_before(found[m], own)) before++, first += found[m].first;
    own.first = first;
    w.seen[start + before] = own;
    w.sights[start + before] = sight_of(w.s, w.jobs[j].camera, own, w.pictures[j].focal);
  }
}

// Light what is used and not lit yet. The rows of all levels of all instances rise from one to the next.
KERNEL(light) {
  const MeshArrays &m = w.s.meshes;
  for (i64 row = first_thread(); row < w.rows; row += all_threads()) {
    i64 slot = last_not_above(w.s.placed.rows, LEVELS * w.s.counts.instances, row), i = slot / LEVELS;
    if (!w.used[slot] || w.lit[slot]) continue;
    i32 mesh = mesh_of_level(w.s, (i32)i, (i32)(slot % LEVELS));
    light_face(w.s, i, m.first_face[mesh] + (i32)(row - w.s.placed.rows[slot]), (i32)row);
  }
}

KERNEL(settle) {
  for (i64 k = first_thread(); k < LEVELS * w.s.counts.instances; k += all_threads())
    if (w.used[k]) w.lit[k] = 1;
}

// What a pixel inside a triangle does to its key: a face may be seen there, a shadow may lie on what is seen.
template <bool SHADOW> RULE void touch(u64 *key, float inverse, u32 low) {
  if (SHADOW) {
    if (is_shaded(*key, inverse)) atomicOr(key, (u64)KEY_SHADOW);
  } else if (inverse > 0.0f) {
    u64 own = key_of(inverse, low);
    // A look first: most pixels of what lies behind need no atomic. Keys only grow, so an old look errs on the safe side.
    if (own > *key) atomicMax(key, own);
  }
}

// Rows of a triangle, every ``step``-th column from ``lane`` on.
template <bool SHADOW>
RULE void fill_rows(const Work &w, const Triangle &t, u32 low, i64 j, i32 top, i32 bottom, i32 lane, i32 step) {
  i32 width = w.pictures[j].width;
  u64 *keys = w.keys + w.jobs[j].first_key;
  for (i32 row = top; row < bottom; row++) {
    Span span = span_of(t, row, width);
    for (i32 column = span.first + lane; column < span.end; column += step)
      touch<SHADOW>(keys + (i64)row * width + column, inverse_at(span, column), low);
  }
}

// The triangles of one face: tiny ones are filled, others go to the list in pieces of about as many pixels each.
template <bool SHADOW> RULE void rasterise(const Work &w, i64 j, const Sight &sight, i32 face, u32 low) {
  Triangle triangle[2];
  const Picture &picture = w.pictures[j];
  int count = triangles_of(w.s, sight, face, picture.width, picture.height, triangle);
  for (int k = 0; k < count; k++) {
    const Triangle &t = triangle[k];
    i64 rows = t.bottom - t.top, box = rows * (t.right - t.left);
    if (box <= TINY_PX) {
      fill_rows<SHADOW>(w, t, low, j, t.top, t.bottom, 0, 1);
      continue;
    }
    i64 parts = (box + PIECE_PX - 1) / PIECE_PX, each = (rows + parts - 1) / parts;
    parts = (rows + each - 1) / each;
    // Counted also where there is no room: the counts say how long the lists must be.
    u64 at = atomicAdd(w.counts + (SHADOW ? SHADOW_LARGES : LARGES), (u64)1);
    u64 to = atomicAdd(w.counts + (SHADOW ? SHADOW_PIECES : PIECES), (u64)parts);
    if (at >= (u64)w.larges_max || to + parts > (u64)w.pieces_max) continue;
    Large &large = w.larges[at];
    large.triangle = t;
    large.low = low;
    large.job = (i32)j;
    for (i64 part = 0; part < parts; part++) {
      i64 top = t.top + part * each, bottom = top + each;
      Piece piece = {(i64)at, (i32)top, (i32)(bottom < t.bottom ? bottom : t.bottom)};
      w.pieces[to + part] = piece;
    }
  }
}

template <bool SHADOW> RULE void fill_pieces(const Work &w) {
  u64 count = w.counts[SHADOW ? SHADOW_PIECES : PIECES];
  // Where a list was too short, what is in it may be half written: the work is done again, so nothing is filled.
  if (count > (u64)w.pieces_max || w.counts[SHADOW ? SHADOW_LARGES : LARGES] > (u64)w.larges_max) return;
  i32 lane = (i32)(first_thread() % LANES);
  for (u64 k = (u64)(first_thread() / LANES); k < count; k += (u64)(all_threads() / LANES)) {
    Piece piece = w.pieces[k];
    const Large &large = w.larges[piece.large];
    fill_rows<SHADOW>(w, large.triangle, large.low, large.job, piece.top, piece.bottom, lane, LANES);
  }
}

KERNEL(raster) {
  i64 j = this_row(), start = j * w.s.counts.instances;
  i32 count = w.found_count[j];
  for (i64 order = first_thread(); order < w.face_count[j]; order += all_threads()) {
    i32 place = place_of_order(w.seen + start, count, (i32)order);
    const Sight &sight = w.sights[start + place];
    i32 face = w.s.meshes.first_face[sight.mesh] + (i32)order - w.seen[start + place].first;
    rasterise<false>(w, j, sight, face, low_key((i32)order, w.s.meshes.materials[face] >= ROAD));
  }
}

KERNEL(fill) { fill_pieces<false>(w); }

// Who throws a shadow into a job's picture. One sum gives each its place and where its faces begin, so that the two agree.
KERNEL(cast) {
  i64 j = this_row(), count = w.s.counts.instances;
  if (!(w.jobs[j].flags & JOB_PAINTS)) return;
  const Picture &picture = w.pictures[j];
  for (i64 i = first_thread(); i < count; i += all_threads()) {
    Sight sight;
    if (!shadow_of(w.s, w.jobs[j].camera, i, picture.focal, picture.width, picture.height, &sight)) continue;
    i32 faces = w.s.meshes.first_face[sight.mesh + 1] - w.s.meshes.first_face[sight.mesh];
    u64 was = atomicAdd(w.caster_count + j, ((u64)1 << 32) | (u64)faces);
    w.casters[j * count + (i64)(was >> 32)] = sight;
    w.caster_first[j * count + (i64)(was >> 32)] = (i32)(u32)was;
  }
}

KERNEL(shadow_raster) {
  i64 j = this_row(), start = j * w.s.counts.instances, count = (i64)(w.caster_count[j] >> 32);
  i64 faces = (i64)(u32)w.caster_count[j];
  for (i64 k = first_thread(); k < faces; k += all_threads()) {
    i64 at = start + last_not_above(w.caster_first + start, count, k);
    const Sight &sight = w.casters[at];
    rasterise<true>(w, j, sight, w.s.meshes.first_face[sight.mesh] + (i32)(k - w.caster_first[at]), 0);
  }
}

KERNEL(shadow_fill) { fill_pieces<true>(w); }

KERNEL(nodes) {
  i64 j = this_row();
  if (!(w.jobs[j].flags & JOB_PAINTS)) return;
  const Picture &picture = w.pictures[j];
  i64 total = ((picture.height - 1) / picture.stride + 2) * picture.across;
  for (i64 k = first_thread(); k < total; k += all_threads())
    w.nodes[w.jobs[j].first_node + k] = sky_node(w.s, picture, k / picture.across, k % picture.across);
}

KERNEL(paint) {
  i64 j = this_row(), start = j * w.s.counts.instances;
  const Job &job = w.jobs[j];
  // A copy: read through an address, it would be read again for every pixel.
  const Picture picture = w.pictures[j];
  i32 width = picture.width, count = w.found_count[j];
  u32 *colour = job.samples > 1 ? w.fine + job.first_fine : w.s.out.colour + w.s.views.offset[6 * job.camera];
  for (i64 at = first_thread(); at < (i64)width * picture.height; at += all_threads()) {
    i32 row = (i32)(at / width), column = (i32)(at % width);
    u64 key = w.keys[job.first_key + at];
    i32 face = key ? row_of_order(w.s, w.seen + start, count, order_of(key)) : -1;
    if (job.flags & JOB_MEASURES) measure_pixel(w.s, picture, row, column, key, face);
    if (job.flags & JOB_PAINTS)
      colour[at] = paint_pixel(w.s, picture, row_of(picture, row), w.nodes + job.first_node, column, key, face);
  }
}

KERNEL(average) {
  const Job &job = w.jobs[this_row()];
  if (job.samples == 1) return;
  const i64 *size = w.s.views.size + 3 * job.camera;
  u32 *colour = w.s.out.colour + w.s.views.offset[6 * job.camera];
  for (i64 at = first_thread(); at < size[0] * size[1]; at += all_threads())
    colour[at] = averaged(w.fine + job.first_fine, (i32)(size[0] * job.samples), (i32)(at / size[0]), (i32)(at % size[0]),
                          (i32)job.samples);
}

KERNEL(rain) {
  const Job &job = w.jobs[this_row()];
  if (!(job.flags & JOB_PAINTS)) return;
  const i64 *size = w.s.views.size + 3 * job.camera;
  u32 *colour = w.s.out.colour + w.s.views.offset[6 * job.camera];
  for (i64 row = first_thread(); row < size[1]; row += all_threads())
    rain_on_row(w.s, colour + row * size[0], size[0], size[1], row);
}

KERNEL(vignette) {
  const Job &job = w.jobs[this_row()];
  double strength = w.s.views.vignette[job.camera];
  if (!(job.flags & JOB_PAINTS) || !(strength > 0.0)) return;
  const i64 *size = w.s.views.size + 3 * job.camera;
  u32 *colour = w.s.out.colour + w.s.views.offset[6 * job.camera];
  for (i64 at = first_thread(); at < size[0] * size[1]; at += all_threads())
    colour[at] = darkened(colour[at], strength, size[0], size[1], at / size[0], at % size[0]);
}

// Faces as a sensor sees them: fixed ones first, then those of instances that move, by their codes.
RAY_KERNEL(ray_faces) {
  i64 total = w.mover_start[w.movers];
  for (i64 code = first_thread(); code < total; code += all_threads()) {
    bool is_still = code < w.still_faces;
    i64 i = is_still ? 0 : last_not_above(w.mover_start, w.movers, code);
    const RayMeshArrays &m = is_still ? w.still : w.meshes;
    const double *axes = is_still ? w.still_axes : w.mover_axes + 9 * i;
    const double *position = is_still ? w.still_position : w.mover_position + 3 * i;
    i64 face = is_still ? code : m.first_face[w.mover_mesh[i]] + code - w.mover_start[i];
    double corner[3][3];
    for (int k = 0; k < 3; k++) ray_point(m.vertices + 3 * (i64)m.faces[3 * face + k], axes, position, corner[k]);
    w.faces[code] = ray_face_of(w, corner[0], corner[1], corner[2]);
  }
}

RAY_KERNEL(ray_balls) {
  for (i64 k = first_thread(); k < w.pieces + w.movers; k += all_threads()) {
    i64 i = k - w.pieces;
    if (i < 0)
      w.balls[k] = ray_ball_of(w, w.still.centre + 3 * k, w.still.radius[k], w.still_axes, w.still_position,
                               w.still.first_face[k], w.still.first_face[k + 1]);
    else
      w.balls[k] = ray_ball_of(w, w.meshes.centre + 3 * (i64)w.mover_mesh[i], w.meshes.radius[w.mover_mesh[i]],
                               w.mover_axes + 9 * i, w.mover_position + 3 * i, w.mover_start[i], w.mover_start[i + 1]);
  }
}

RAY_KERNEL(ray_cast) {
  for (i64 at = first_thread(); at < w.rays; at += all_threads()) {
    i32 row = (i32)last_not_above(w.row_start, w.rows, at);
    w.met[at] = (i32)ray_meets(w, row, (i32)at - w.number[row], w.inverse + at);
  }
}
