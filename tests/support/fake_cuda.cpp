// A libcuda.so.1 for machines without NVIDIA's: what the driver's interface calls, over plain memory, with our kernels run by
// the processor. So the real bindings are called with the real arguments. FAKE_CUDA in the environment chooses a fault:
// "none" no card, "old" an old card, "behind" an old driver, "full" 1 MB of memory, "lost" fails once it has drawn something.
#include <dlfcn.h>
#include <stdlib.h>

#include <map>

#include "emulated_card.cpp"

typedef int Result;
enum { OK = 0, OUT_OF_MEMORY = 2, INVALID = 1, NOT_FOUND = 500, UNAVAILABLE = 46, NO_CONTEXT = 201 };

static std::map<void *, size_t> pieces;
static size_t room = (size_t)1 << 30;
static int launches;

// The kernels for many worlds are a library of their own here, which FAKE_CUDA_MANY names. Their module has none for rays.
static bool is_for_many(const char *image) {
  u64 headers, size = 0;
  u16 count;
  memcpy(&headers, image + 0x28, 8);
  memcpy(&count, image + 0x3c, 2);
  for (int k = 0; k < count; k++) {
    u64 part[2];  // offset and size of a section
    memcpy(part, image + headers + 64 * k + 24, 16);
    if (part[0] + part[1] > size) size = part[0] + part[1];
  }
  return !memmem(image, size, "ray_cast", 8);
}
typedef int (*Launch)(const char *, i64, i64, i64, const void *, u64);
static Named many[sizeof(ALL) / sizeof(Named)];
static Launch launch_of(const void *kernel) {
  if (kernel < (const void *)many || kernel >= (const void *)(many + sizeof(ALL) / sizeof(Named))) return samepath_launch;
  static void *library = dlopen(getenv("FAKE_CUDA_MANY"), RTLD_NOW | RTLD_LOCAL);
  return (Launch)dlsym(library, "samepath_launch");
}

static thread_local void *current;

static bool is_fault(const char *name) {
  const char *chosen = getenv("FAKE_CUDA");
  return chosen && !strcmp(chosen, name);
}
static Result state() { return !current ? NO_CONTEXT : is_fault("lost") && launches > 15 ? UNAVAILABLE : OK; }
static bool has(const void *at, size_t size) {
  auto next = pieces.upper_bound((void *)at);
  if (next == pieces.begin()) return false;
  --next;
  return (const char *)at + size <= (const char *)next->first + next->second;
}

extern "C" {
Result cuInit(unsigned) { return OK; }
Result cuDriverGetVersion(int *to) { *to = is_fault("behind") ? 11040 : 13000; return OK; }
Result cuDeviceGetCount(int *to) { *to = is_fault("none") ? 0 : 1; return OK; }
Result cuDeviceGet(int *to, int number) { *to = number; return OK; }
Result cuDeviceGetName(char *to, int most, int) { strncpy(to, "Fake card", most); return OK; }
Result cuDeviceGetAttribute(int *to, int kind, int) {
  *to = kind == 75 ? (is_fault("old") ? 6 : 9) : kind == 76 ? 0 : kind == 16 ? 2 : -1;
  return *to < 0 ? INVALID : OK;
}
Result cuDevicePrimaryCtxRetain(void **to, int) { *to = &pieces; return OK; }
Result cuDevicePrimaryCtxRelease_v2(int) { return OK; }
Result cuCtxSetCurrent(void *context) { current = context; return context == &pieces ? OK : INVALID; }
Result cuCtxSynchronize() { return state(); }
Result cuModuleLoadData(void **to, const void *image) {
  if (memcmp(image, "\177ELF", 4)) return INVALID;
  *to = (void *)(size_t)(is_for_many((const char *)image) ? 2 : 1);
  return OK;
}
Result cuModuleUnload(void *) { return OK; }
Result cuModuleGetFunction(void **to, void *module, const char *name) {
  for (const Named &kernel : ALL)
    if (!strcmp(kernel.name, name)) {
      Named &twin = many[&kernel - ALL];
      twin = kernel;
      *to = (size_t)module > 1 ? (void *)&twin : (void *)&kernel;
      return OK;
    }
  return NOT_FOUND;
}
Result cuMemAlloc_v2(void **to, size_t size) {
  if (state()) return state();
  if (size > (is_fault("full") ? (size_t)1 << 20 : room)) return OUT_OF_MEMORY;
  *to = malloc(size);
  memset(*to, 0xA5, size);
  pieces[*to] = size;
  return OK;
}
Result cuMemFree_v2(void *at) {
  if (!pieces.erase(at)) return INVALID;
  free(at);
  return state();
}
Result cuMemHostAlloc(void **to, size_t size, unsigned) { *to = malloc(size); return OK; }
Result cuMemFreeHost(void *at) { free(at); return OK; }
Result cuStreamCreate(void **to, unsigned flags) { *to = malloc(1); return flags == 1 ? OK : INVALID; }
Result cuStreamDestroy_v2(void *at) { free(at); return OK; }
Result cuEventCreate(void **to, unsigned flags) { *to = malloc(1); return flags == 2 ? OK : INVALID; }
Result cuEventDestroy_v2(void *at) { free(at); return OK; }
Result cuEventRecord(void *event, void *stream) { return event && stream ? state() : INVALID; }
Result cuEventSynchronize(void *event) { return event ? state() : INVALID; }
Result cuStreamWaitEvent(void *stream, void *event, unsigned) { return event && stream ? state() : INVALID; }
Result cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t size, void *stream) {
  if (!stream || !has(to, size)) return INVALID;
  memcpy(to, from, size);
  return state();
}
Result cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t size, void *stream) {
  if (!stream || !has(from, size)) return INVALID;
  memcpy(to, from, size);
  return state();
}
Result cuMemsetD8Async(void *to, unsigned char value, size_t size, void *stream) {
  if (!stream || !has(to, size)) return INVALID;
  memset(to, value, size);
  return state();
}
Result cuLaunchKernel(void *kernel, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz,
                      unsigned shared, void *stream, void **parameters, void **extra) {
  if (z != 1 || ty != 1 || tz != 1 || shared || !stream || extra || !x || !y || y > 65535 || threads > 1024) return INVALID;
  launches++;
  if (state()) return state();
  return launch_of(kernel)(((const Named *)kernel)->name, x, y, threads, parameters[0], 0) ? INVALID : OK;
}
Result cuGetErrorName(int, const char **to) { *to = "an error"; return OK; }
Result cuGetErrorString(int, const char **to) { *to = "an error"; return OK; }
// The bindings ask for everything they know by name. What is not here they must not call.
Result cuGetProcAddress_v2(const char *name, void **to, int, u64, int *found) {
  char newer[128];
  strncpy(newer, name, 120);
  newer[120] = 0;
  strcat(newer, "_v2");
  *to = dlsym(RTLD_DEFAULT, newer);
  if (!*to) *to = dlsym(RTLD_DEFAULT, name);
  if (found) *found = *to ? 0 : 1;
  return *to ? OK : NOT_FOUND;
}
Result cuGetProcAddress(const char *name, void **to, int version, u64 flags) {
  return cuGetProcAddress_v2(name, to, version, flags, 0);
}
}
