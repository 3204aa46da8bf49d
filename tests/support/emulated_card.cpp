// The kernels of a graphics card on the processor, thread by thread, in an order that the caller chooses.
//
// No thread of ours waits for another, so any order is one that a card might have taken: if two orders give different bytes,
// some kernel depends on luck.
#include "kernels.h"

typedef void (*Kernel)(const Work &);
struct Named { const char *name; Kernel run; };

static const Named ALL[] = {
  {"scatter", scatter}, {"glow", glow}, {"begin", begin}, {"cull", cull}, {"rank", rank}, {"light", light}, {"settle", settle},
  {"raster", raster}, {"fill", fill}, {"cast", cast}, {"shadow_raster", shadow_raster}, {"shadow_fill", shadow_fill},
  {"nodes", nodes}, {"paint", paint}, {"average", average}, {"rain", rain}, {"vignette", vignette},
};

static u64 common_divisor(u64 a, u64 b) { return b ? common_divisor(b, a % b) : a; }

extern "C" {

i64 samepath_work_bytes() { return sizeof(Work); }

// 0, or 1 for a kernel that nobody knows. ``order`` 0 runs threads from first to last, others jump about among all of them.
int samepath_launch(const char *name, i64 blocks, i64 rows, i64 threads, const Work *work, u64 order) {
  for (const Named &kernel : ALL) {
    if (strcmp(kernel.name, name)) continue;
    u64 total = (u64)(blocks * threads * rows), step = order % total + 1;
    while (order && common_divisor(step, total) != 1) step++;
    now_threads = blocks * threads;
    for (u64 k = 0; k < total; k++) {
      u64 chosen = order ? (u64)((unsigned __int128)k * step % total) : k;
      now_thread = (i64)(chosen % (u64)now_threads);
      now_row = (i64)(chosen / (u64)now_threads);
      kernel.run(*work);
    }
    return 0;
  }
  return 1;
}
}
