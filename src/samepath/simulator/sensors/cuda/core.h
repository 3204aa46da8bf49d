// The rules of the pictures (see ``raster/__init__.py``), stated per face, per cell and per pixel.
//
// One text, two compilers: a C++ compiler builds it for the processor (host.cpp), NVRTC for a graphics card. Both must be told
// not to fuse products with sums (-ffp-contract=off, --fmad=false): a fused sum rounds once instead of twice, and the picture
// is another one. Nothing here allocates, keeps state or depends on who calls first: each function may run in a thread of its
// own.
//
// The order of the sums and products is that of the software renderer, term by term. Do not tidy it up: another order is
// another rounding.
#pragma once

#ifdef __CUDACC__
#define RULE __device__ __forceinline__
#else
#include <math.h>
#include <string.h>
#define RULE static inline
#endif

typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

// Numbers that Python's side has as well; a test holds them equal.
enum { LEVELS = 3, SKY_SIZE = 512, SKY_ROW = SKY_SIZE + 1, TILE = 256, SKY_LABEL = 11, SIGNAL = 2048 | 4096 | 8192 };
enum { PLAIN, BODY, GLASS, FOLIAGE, FACADE, ROAD, PAVING, GRASS, PAINT };
enum { TO_SUN = 0, SUN = 3, ABOVE = 6, BELOW = 9, HIGH = 12, LOW = 15, FOG = 18, FOG_PER_M = 21, FOG_FROM_M, FALLOFF, SHADOWS,
       NIGHT, WET, PUDDLES, RAIN, TICK, GLOW_X, GLOW_Y, GLOW_PER_M, DARK };
#define NEAR_M 0.05
#define FAR_M 1000.0
#define SHADOW_REACH_M 120.0

// The records of ``raster/arrays.py``, field by field in the same order and with the same types; a test compares them.
struct MeshArrays {
  const float *x, *y, *z;
  const i32 *faces;
  const float *planes, *colours;
  const u8 *labels, *materials;
  const u16 *lamps;
  const i32 *mappings, *first_vertex, *first_face;
  const double *centre, *radius, *box;
  const i32 *coarser;
  const double *coarser_px;
  const i32 *shadow;
};

struct InstanceArrays {
  const i32 *mesh;
  const double *position, *axes;
  const i32 *id;
  const u8 *label;
  const float *paint;
  const u16 *lamps;
  const double *ground_z, *was_position, *was_axes;
  const i32 *rows, *walls;
};

struct FaceRows {
  float *colour;
  u8 *label;
  u16 *instance;
  u8 *material;
  i8 *normal;
  i32 *placed;
};

struct LightArrays {
  const double *numbers;
  const float *flat;
  u32 *sky;
  const u8 *noise;
  const float *lamps, *beams, *walls;
  float *glow;
};

struct CameraArrays {
  const i64 *size, *offset;
  const double *place, *axes, *focal, *was_place, *was_axes, *vignette;
};

struct Outputs {
  u32 *colour;
  float *depth;
  u8 *label;
  u16 *instance;
  i8 *normal;
  float *flow;
};

// Lengths of the arrays above, and ``detail`` as the renderer was given it.
struct Counts {
  i64 instances, lamps, beams, glow_rows, glow_columns, cameras;
  double detail;
};

struct Scene {
  MeshArrays meshes;
  InstanceArrays placed;
  FaceRows rows;
  LightArrays light;
  CameraArrays views;
  Outputs out;
  Counts counts;
};

// Not those of a library: which of two equal or unordered numbers comes out is part of the rules.
RULE double least(double a, double b) { return b < a ? b : a; }
RULE double most(double a, double b) { return b > a ? b : a; }
RULE float least(float a, float b) { return b < a ? b : a; }
RULE float most(float a, float b) { return b > a ? b : a; }

#ifdef __CUDACC__
// Rounded to nearest whatever the compiler was told about square roots.
RULE float root(float x) { return __fsqrt_rn(x); }
RULE double root(double x) { return __dsqrt_rn(x); }
RULE u32 bits_of(float x) { return __float_as_uint(x); }
RULE float float_of(u32 bits) { return __uint_as_float(bits); }
#else
RULE float root(float x) { return sqrtf(x); }
RULE double root(double x) { return sqrt(x); }
RULE u32 bits_of(float x) { u32 bits; memcpy(&bits, &x, 4); return bits; }
RULE float float_of(u32 bits) { float x; memcpy(&x, &bits, 4); return x; }
#endif

// Cut off to a whole number. C++ leaves open what happens out of range, and machines differ: it is the least number here, as on
// x86-64, also for what is no number at all.
RULE i32 whole(float x) { return x >= -2147483648.0f && x < 2147483648.0f ? (i32)x : (i32)0x80000000; }
RULE i64 whole(double x) {
  return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (i64)x : (i64)0x8000000000000000ull;
}

// Three numbers of a row times a vector; sums from left to right.
RULE double dot(const double *row, double x, double y, double z) { return row[0] * x + row[1] * y + row[2] * z; }
// The same down a column of a 3 x 3 matrix.
RULE double dot_down(const double *column, double x, double y, double z) {
  return x * column[0] + y * column[3] + z * column[6];
}

#include "light.h"
#include "triangles.h"
#include "paint.h"
