// The kernels of a graphics card on the processor, thread by thread, in an order that the caller chooses.
//
// No thread of ours waits for another, so any order is one that a card might have taken: if two orders give different bytes,
// some kernel depends on luck.
#include "kernels.h"

typedef void (*Kernel)(const Work &);
typedef void (*RayKernel)(const RayWork &);
struct Named { const char *name; Kernel run; RayKernel cast; };

static const Named ALL[] = {
  {"scatter", scatter, 0}, {"sky", sky, 0}, {"streets", streets, 0}, {"glow", glow, 0}, 
  {"begin", begin, 0}, {"cull", cull, 0}, {"rank", rank, 0}, {"light", light, 0},
  {"raster", raster, 0}, {"fill", fill, 0}, {"shadow_raster", shadow_raster, 0},
  {"shadow_fill", shadow_fill, 0}, {"paint", paint, 0}, {"average", average, 0}, {"rain", rain, 0},
  {"vignette", vignette, 0},
#ifndef MANY_WORLDS
  {"ray_faces", 0, ray_faces}, {"ray_balls", 0, ray_balls}, {"ray_cast", 0, ray_cast},
  {"ray_points", 0, ray_points},
#endif
};

static u64 common_divisor(u64 a, u64 b) { return b ? common_divisor(b, a % b) : a; }

extern "C" {

i64 samepath_work_bytes(const char *name) {
  for (const Named &kernel : ALL)
    if (!strcmp(kernel.name, name)) return kernel.run ? sizeof(Work) : sizeof(RayWork);
  return 0;
}

// 0, or 1 for a kernel that nobody knows. ``order`` 0 runs threads from first to last, others jump about among all of them.
int samepath_launch(const char *name, i64 blocks, i64 rows, i64 threads, const void *work, u64 order) {
  for (const Named &kernel : ALL) {
    if (strcmp(kernel.name, name)) continue;
    u64 total = (u64)(blocks * threads * rows), step = order % total + 1;
    while (order && common_divisor(step, total) != 1) step++;
    now_threads = blocks * threads;
    for (u64 k = 0; k < total; k++) {
      u64 chosen = order ? (u64)((unsigned __int128)k * step % total) : k;
      now_thread = (i64)(chosen % (u64)now_threads);
      now_row = (i64)(chosen / (u64)now_threads);
      if (kernel.run) kernel.run(*(const Work *)work);
      else kernel.cast(*(const RayWork *)work);
    }
    return 0;
  }
  return 1;
}
}
