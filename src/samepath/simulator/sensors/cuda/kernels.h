// The work of a graphics card: who calls the rules of core.h for what, in which order.
//
// A kernel is a loop over its share of the work. Threads neither wait for each other nor share memory that is not atomic, and
// what several of them write to (keys, counts, marks) ends up the same in whatever order they come: the greatest key, a sum, a
// one. So a kernel may be run thread by thread on a processor, in any order, and tests do that.
//
// Nothing is dropped: lists per picture have room for every instance and face of the scene. The ones that have not (pieces of
// triangles that are too large for one thread) count on beyond their end, and whoever started the work reads the counts, makes
// the lists larger and starts it again.
//
// Compiled twice: for one world, which then lies among a kernel's arguments, where looking something up costs nothing, and with
// MANY_WORLDS for any number of them, of any maps and weathers, in one launch.
#pragma once

#include "core.h"
#include "rays.h"

#ifdef __CUDACC__
#define KERNEL(name) extern "C" __global__ void name(const __grid_constant__ Work w)
#define RAY_KERNEL(name) extern "C" __global__ void name(const __grid_constant__ RayWork w)
RULE i64 first_thread() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }
RULE i64 all_threads() { return (i64)gridDim.x * blockDim.x; }
RULE i64 this_row() { return blockIdx.y; }
#define UNROLL _Pragma("unroll 8")
#else
// Set by whoever runs a kernel on the processor.
static thread_local i64 now_thread, now_threads, now_row;
#define KERNEL(name) static void name(const Work &w)
#define RAY_KERNEL(name) static void name(const RayWork &w)
RULE i64 first_thread() { return now_thread; }
RULE i64 all_threads() { return now_threads; }
RULE i64 this_row() { return now_row; }
#define UNROLL
RULE i32 atomicAdd(i32 *at, i32 more) { i32 was = *at; *at = was + more; return was; }
RULE u64 atomicAdd(u64 *at, u64 more) { u64 was = *at; *at = was + more; return was; }
RULE u64 atomicMax(u64 *at, u64 other) { u64 was = *at; *at = other > was ? other : was; return was; }
RULE u64 atomicOr(u64 *at, u64 bits) { u64 was = *at; *at = was | bits; return was; }
#endif

// Threads that fill a piece of a triangle together; those of a warp, so that they read the same piece and write side by side.
enum { LANES = 32 };
// Triangles of at most this many pixels are filled by the thread that finds them, larger ones are cut into such pieces.
enum { TINY_PX = 16, NARROW_PX = 16, PIECE_PX = 1024 };

// One pass over one picture: a camera of a world, on a grid ``samples`` times as fine. What it sees is listed from
// ``first_listed`` on, the rows of its faces from ``first_face`` on.
struct Job {
  i64 camera, samples, first_key, first_node, first_fine, flags, world, first_listed, first_face;
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

// Pieces go to one of several lists, by the block of threads that finds them: all blocks counting in one place would wait for
// each other. Counts of the lists for faces come first, then those for shadows, each in a line of memory of its own. A triangle
// is kept where its first piece is.
enum { LISTS = 16, COUNT_STRIDE = 16, FACE_THREADS = 128 };

// A scene, and what the card keeps of it: ``used`` and ``lit`` have a mark for every level of every instance, of which the first
// ``kept`` ones of ``lit`` hold from the tick before. ``sky_numbers`` and ``street_glow`` belong to its weather.
struct World {
  Scene s;
  u8 *used, *lit;
  float *street_glow;
  const double *sky_numbers;
  i64 rows, kept;
};

// All that kernels work on. ``found``, ``seen``, ``sights``, ``casters`` and ``caster_first`` have room for every instance of its
// world in every job, and ``face_rows`` for every face.
struct Work {
  World one;
  const World *worlds;
  const Job *jobs;
  Picture *pictures;
  Seen *found, *seen;
  Sight *sights, *casters;
  i32 *caster_first, *face_rows, *found_count, *face_count;
  u64 *caster_count;  // how many in the upper half, their faces in the lower one
  u64 *keys;
  Colour *nodes;
  u32 *fine;
  Large *larges;
  Piece *pieces;
  u64 *counts;
  const Move *moves;
  i64 jobs_count, first_world, worlds_count, moves_count, keys_count, pieces_max;
};

RULE const World &world_of(const Work &w, i64 number) {
#ifdef MANY_WORLDS
  return w.worlds[number];
#else
  return w.one;
#endif
}

enum { SEEN_BYTES = 24, SIGHT_BYTES = 120, PICTURE_BYTES = 112, LARGE_BYTES = 112, PIECE_BYTES = 16, JOB_BYTES = 72,
       MOVE_BYTES = 24, COLOUR_BYTES = 12, WORLD_BYTES = 600, WORK_BYTES = 800 };
static_assert(sizeof(Seen) == SEEN_BYTES && sizeof(Sight) == SIGHT_BYTES && sizeof(Picture) == PICTURE_BYTES, "sizes");
static_assert(sizeof(Large) == LARGE_BYTES && sizeof(Piece) == PIECE_BYTES && sizeof(Job) == JOB_BYTES, "sizes");
static_assert(sizeof(Move) == MOVE_BYTES && sizeof(Colour) == COLOUR_BYTES, "sizes");
static_assert(sizeof(World) == WORLD_BYTES && sizeof(Work) == WORK_BYTES, "sizes");

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

// Put what has moved where it belongs, a row of threads each; then, a row for each world, begin its marks anew: nothing is used
// yet, and lit is what has kept its light. Starting a kernel costs as much as a small one takes, so kernels do several things.
KERNEL(scatter) {
  if (this_row() < w.moves_count) {
    Move move = w.moves[this_row()];
    for (i64 k = first_thread(); k < move.bytes; k += all_threads()) move.to[k] = move.from[k];
    return;
  }
  const World &world = world_of(w, this_row() - w.moves_count);
  for (i64 k = first_thread(); k < LEVELS * world.s.counts.instances; k += all_threads()) {
    world.used[k] = 0;
    if (k >= world.kept) world.lit[k] = 0;
  }
}

// The dome of a world's weather. Once per weather, as is the next.
KERNEL(sky) {
  const World &world = world_of(w, w.first_world + this_row());
  for (i64 k = first_thread(); k < (i64)SKY_ROW * SKY_ROW; k += all_threads())
    world.s.light.sky[k] = sky_texel(world.s.light.noise, world.sky_numbers, k % SKY_ROW, k / SKY_ROW);
}

// The light of street lamps on the ground.
KERNEL(streets) {
  const World &world = world_of(w, w.first_world + this_row());
  const Counts &counts = world.s.counts;
  for (i64 k = first_thread(); k < counts.glow_rows * counts.glow_columns; k += all_threads())
    world.street_glow[k] = glow_of_cell(0.0f, world.s.light.lamps, counts.lamps, world.s.light.numbers, counts.glow_rows,
                                        counts.glow_columns, k / counts.glow_columns, k % counts.glow_columns);
}

// The light of beams on top of that. Worlds without beams read the light of their streets itself.
KERNEL(glow) {
  const World &world = world_of(w, w.first_world + this_row());
  const Counts &counts = world.s.counts;
  if (!counts.beams) return;
  for (i64 k = first_thread(); k < counts.glow_rows * counts.glow_columns; k += all_threads())
    world.s.light.glow[k] = glow_of_cell(world.street_glow[k], world.s.light.beams, counts.beams, world.s.light.numbers,
                                         counts.glow_rows, counts.glow_columns, k / counts.glow_columns,
                                         k % counts.glow_columns);
}

KERNEL(begin) {
  for (i64 j = first_thread(); j < w.jobs_count; j += all_threads()) {
    w.found_count[j] = w.face_count[j] = 0;
    w.caster_count[j] = 0;
    w.pictures[j] = picture_of(world_of(w, w.jobs[j].world).s, w.jobs[j].camera, (i32)w.jobs[j].samples);
  }
  for (i64 k = first_thread(); k < w.keys_count; k += all_threads()) w.keys[k] = 0;
}

// Who throws a shadow into a job's picture. One sum gives each its place and where its faces begin, so that the two agree.
RULE void cast_shadows(const Work &w, i64 j, const Job &job, const Scene &s) {
  const Picture &picture = w.pictures[j];
  for (i64 i = first_thread(); i < s.counts.instances; i += all_threads()) {
    Sight sight;
    if (!shadow_of(s, job.camera, i, picture.focal, picture.width, picture.height, &sight)) continue;
    i32 faces = s.meshes.first_face[sight.mesh + 1] - s.meshes.first_face[sight.mesh];
    u64 was = atomicAdd(w.caster_count + j, ((u64)1 << 32) | (u64)faces);
    w.casters[job.first_listed + (i64)(was >> 32)] = sight;
    w.caster_first[job.first_listed + (i64)(was >> 32)] = (i32)(u32)was;
  }
}

RULE void make_nodes(const Work &w, i64 j, const Job &job, const Scene &s) {
  const Picture &picture = w.pictures[j];
  i64 total = ((picture.height - 1) / picture.stride + 2) * picture.across;
  for (i64 k = first_thread(); k < total; k += all_threads())
    w.nodes[job.first_node + k] = sky_node(s, picture, k / picture.across, k % picture.across);
}

// What a job sees, in no order yet; ``first`` holds how many faces it has until it is known where they begin. Then, for those
// with colours, the nodes of the sky and who throws shadows.
KERNEL(cull) {
  i64 j = this_row();
  const Job job = w.jobs[j];
  const World &world = world_of(w, job.world);
  const Scene &s = world.s;
  for (i64 i = first_thread(); i < s.counts.instances; i += all_threads()) {
    Seen one;
    if (!is_in_sight(s, job.camera, (i32)i, &one)) continue;
    i32 mesh = mesh_of_level(s, one.instance, one.level);
    one.first = s.meshes.first_face[mesh + 1] - s.meshes.first_face[mesh];
    w.found[job.first_listed + atomicAdd(w.found_count + j, 1)] = one;
    atomicAdd(w.face_count + j, one.first);
    world.used[LEVELS * i + one.level] = 1;
  }
  if (!(job.flags & JOB_PAINTS)) return;
  make_nodes(w, j, job, s);
  if (s.light.numbers[SHADOWS] > 0.0) cast_shadows(w, j, job, s);
}

// Sort by counting who comes before: no thread needs another's answer, and the keys are unique.
KERNEL(rank) {
  i64 j = this_row();
  const Job job = w.jobs[j];
  const Scene &s = world_of(w, job.world).s;
  i32 count = w.found_count[j];
  const Seen *found = w.found + job.first_listed;
  for (i64 k = first_thread(); k < count; k += all_threads()) {
    Seen own = found[k];
    i32 before = 0, first = 0;
    // Without branches, so that several are read at a time: most of the time goes into waiting for memory.
    UNROLL for (i32 m = 0; m < count; m++) {
      Seen other = found[m];
      bool earlier = is_before(other, own);
      before += earlier;
      first += earlier ? other.first : 0;
    }
    own.first = first;
    w.seen[job.first_listed + before] = own;
    w.sights[job.first_listed + before] = sight_of(s, job.camera, own, w.pictures[j].focal);
  }
}

// Light what is used and not lit yet. The rows of all levels of all instances rise from one to the next.
KERNEL(light) {
  const World &world = world_of(w, w.first_world + this_row());
  const Scene &s = world.s;
  for (i64 row = first_thread(); row < world.rows; row += all_threads()) {
    i64 slot = last_not_above(s.placed.rows, LEVELS * s.counts.instances, row), i = slot / LEVELS;
    if (!world.used[slot] || world.lit[slot]) continue;
    i32 mesh = mesh_of_level(s, (i32)i, (i32)(slot % LEVELS));
    light_face(s, i, s.meshes.first_face[mesh] + (i32)(row - s.placed.rows[slot]), (i32)row);
  }
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

// Every ``down``-th row of a triangle from ``top`` on, and in it every ``step``-th column from ``lane`` on.
template <bool SHADOW>
RULE void fill_rows(const Work &w, const Triangle &t, u32 low, i64 j, i32 top, i32 bottom, i32 down, i32 lane, i32 step) {
  i32 width = w.pictures[j].width;
  u64 *keys = w.keys + w.jobs[j].first_key;
  for (i32 row = top; row < bottom; row += down) {
    Span span = span_of(t, row, width);
    for (i32 column = span.first + lane; column < span.end; column += step)
      touch<SHADOW>(keys + (i64)row * width + column, inverse_at(span, column), low);
  }
}

template <bool SHADOW> RULE u64 *count_of(const Work &w, i64 list) {
  return w.counts + ((SHADOW ? LISTS : 0) + list) * COUNT_STRIDE;
}

// The triangles of one face: tiny ones are filled, others go to the list in pieces of about as many pixels each.
template <bool SHADOW>
RULE void rasterise(const Work &w, const Scene &s, i64 j, const Sight &sight, i32 face, u32 low) {
  Triangle triangle[2];
  const Picture &picture = w.pictures[j];
  int count = triangles_of(s, sight, face, picture.width, picture.height, triangle);
  for (int k = 0; k < count; k++) {
    const Triangle &t = triangle[k];
    i64 rows = t.bottom - t.top, box = rows * (t.right - t.left);
    if (box <= TINY_PX) {
      fill_rows<SHADOW>(w, t, low, j, t.top, t.bottom, 1, 0, 1);
      continue;
    }
    i64 parts = (box + PIECE_PX - 1) / PIECE_PX, each = (rows + parts - 1) / parts;
    parts = (rows + each - 1) / each;
    // Counted also where there is no room: the counts say how long the lists must be.
    i64 list = (first_thread() / FACE_THREADS + j) % LISTS;
    u64 to = atomicAdd(count_of<SHADOW>(w, list), (u64)parts);
    if (to + parts > (u64)w.pieces_max) continue;
    i64 at = list * w.pieces_max + (i64)to;
    Large &large = w.larges[at];
    large.triangle = t;
    large.low = low;
    large.job = (i32)j;
    for (i64 part = 0; part < parts; part++) {
      i64 top = t.top + part * each, bottom = top + each;
      Piece piece = {at, (i32)top, (i32)(bottom < t.bottom ? bottom : t.bottom)};
      w.pieces[at + part] = piece;
    }
  }
}

template <bool SHADOW> RULE void fill_pieces(const Work &w) {
  i32 lane = (i32)(first_thread() % LANES);
  i64 own = first_thread() / LANES, groups = all_threads() / LANES;
  for (i64 list = 0; list < LISTS; list++) {
    i64 count = (i64)*count_of<SHADOW>(w, list);
    // Where a list was too short, what is in it may be half written: the work is done again, so nothing is filled.
    if (count > w.pieces_max) continue;
    // Each list begins with other threads, or the first ones would have all the work.
    for (i64 k = (own + list * groups / LISTS) % groups; k < count; k += groups) {
      Piece piece = w.pieces[list * w.pieces_max + k];
      const Large &large = w.larges[piece.large];
      const Triangle &t = large.triangle;
      // A row each where rows are short, or most threads would have nothing to do; side by side in a row where they are long.
      if (t.right - t.left <= NARROW_PX)
        fill_rows<SHADOW>(w, t, large.low, large.job, piece.top + lane, piece.bottom, LANES, 0, 1);
      else
        fill_rows<SHADOW>(w, t, large.low, large.job, piece.top, piece.bottom, 1, lane, LANES);
    }
  }
}

KERNEL(raster) {
  i64 j = this_row(), start = w.jobs[j].first_listed;
  const Scene &s = world_of(w, w.jobs[j].world).s;
  i32 count = w.found_count[j];
  for (i64 order = first_thread(); order < w.face_count[j]; order += all_threads()) {
    i32 place = place_of_order(w.seen + start, count, (i32)order);
    const Sight &sight = w.sights[start + place];
    i32 face = s.meshes.first_face[sight.mesh] + (i32)order - w.seen[start + place].first;
    const Seen &seen = w.seen[start + place];
    w.face_rows[w.jobs[j].first_face + order] =
        s.placed.rows[LEVELS * seen.instance + seen.level] + (i32)order - seen.first;
    rasterise<false>(w, s, j, sight, face, low_key((i32)order, s.meshes.materials[face] >= ROAD));
  }
}

// And what is used is lit from now on.
KERNEL(fill) {
  fill_pieces<false>(w);
  for (i64 number = 0; number < w.worlds_count; number++) {
    const World &world = world_of(w, w.first_world + number);
    for (i64 k = first_thread(); k < LEVELS * world.s.counts.instances; k += all_threads())
      if (world.used[k]) world.lit[k] = 1;
  }
}

KERNEL(shadow_raster) {
  i64 j = this_row(), start = w.jobs[j].first_listed, count = (i64)(w.caster_count[j] >> 32);
  i64 faces = (i64)(u32)w.caster_count[j];
  const Scene &s = world_of(w, w.jobs[j].world).s;
  for (i64 k = first_thread(); k < faces; k += all_threads()) {
    i64 at = start + last_not_above(w.caster_first + start, count, k);
    const Sight &sight = w.casters[at];
    rasterise<true>(w, s, j, sight, s.meshes.first_face[sight.mesh] + (i32)(k - w.caster_first[at]), 0);
  }
}

KERNEL(shadow_fill) { fill_pieces<true>(w); }

KERNEL(paint) {
  i64 j = this_row();
  const Job job = w.jobs[j];
  const Scene &s = world_of(w, job.world).s;
  // A copy: read through an address, it would be read again for every pixel.
  const Picture picture = w.pictures[j];
  const i32 *face_rows = w.face_rows + job.first_face;
  // Whole numbers of 32 bits: a picture has fewer pixels, and dividing longer ones takes a card several times as long.
  u32 width = (u32)picture.width, pixels = width * (u32)picture.height;
  u32 *colour = job.samples > 1 ? w.fine + job.first_fine : s.out.colour + s.views.offset[CHANNELS * job.camera];
  for (u32 at = (u32)first_thread(); at < pixels; at += (u32)all_threads()) {
    i32 row = (i32)(at / width), column = (i32)(at - (u32)row * width);
    u64 key = w.keys[job.first_key + at];
    i32 face = key ? face_rows[order_of(key)] : -1;
    if (job.flags & JOB_MEASURES) measure_pixel(s, picture, row, column, key, face);
    if (job.flags & JOB_PAINTS)
      colour[at] = paint_pixel(s, picture, row_of(picture, row), w.nodes + job.first_node, column, key, face);
  }
}

KERNEL(average) {
  const Job &job = w.jobs[this_row()];
  if (job.samples == 1) return;
  const Scene &s = world_of(w, job.world).s;
  const i64 *size = s.views.size + 3 * job.camera;
  u32 *colour = s.out.colour + s.views.offset[CHANNELS * job.camera];
  for (i64 at = first_thread(); at < size[0] * size[1]; at += all_threads())
    colour[at] = averaged(w.fine + job.first_fine, (i32)(size[0] * job.samples), (i32)(at / size[0]), (i32)(at % size[0]),
                          (i32)job.samples);
}

KERNEL(rain) {
  const Job &job = w.jobs[this_row()];
  const Scene &s = world_of(w, job.world).s;
  if (!(job.flags & JOB_PAINTS) || !(s.light.numbers[RAIN] > 0.0)) return;
  const i64 *size = s.views.size + 3 * job.camera;
  u32 *colour = s.out.colour + s.views.offset[CHANNELS * job.camera];
  for (i64 row = first_thread(); row < size[1]; row += all_threads())
    rain_on_row(s, colour + row * size[0], size[0], size[1], row);
}

KERNEL(vignette) {
  const Job &job = w.jobs[this_row()];
  const Scene &s = world_of(w, job.world).s;
  double strength = s.views.vignette[job.camera];
  if (!(job.flags & JOB_PAINTS) || !(strength > 0.0)) return;
  const i64 *size = s.views.size + 3 * job.camera;
  u32 *colour = s.out.colour + s.views.offset[CHANNELS * job.camera];
  for (i64 at = first_thread(); at < size[0] * size[1]; at += all_threads())
    colour[at] = darkened(colour[at], strength, size[0], size[1], at / size[0], at % size[0]);
}

#ifndef MANY_WORLDS
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

// Of rays that have been cast; the rays of a LiDAR are a grid, every row with every column.
RAY_KERNEL(ray_points) {
  for (i64 at = first_thread(); at < w.rays; at += all_threads()) lidar_point(w, at, w.points + 4 * at);
}
#endif
