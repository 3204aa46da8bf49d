"""The core as NVRTC compiles it for graphics cards: it takes the text, and fuses no product with a sum. No card is needed.

NVRTC comes with ``pip install nvidia-cuda-nvrtc-cu12``. It is no dependency, so where it is missing these tests are not there
at all: one that is skipped counts in CI as one that should have run.
"""

import ctypes
import importlib.util
import re
from pathlib import Path

import pytest

from samepath.simulator.sensors.cuda.host_device import HERE, SOURCES

ARCHITECTURES = ("compute_75", "compute_80", "compute_90", "compute_100")
HEADERS = [name for name in SOURCES if name.endswith(".h")]
# Every rule on the way from a scene to its pictures, called as kernels would, so that none is left out of what is compiled.
PROBE = """
#include "core.h"
extern "C" __global__ void light(Scene s, i32 face, i32 row, const double *sky_numbers) {
  i64 i = threadIdx.x;
  light_face(s, i, face, row);
  s.light.sky[i] = sky_texel(s.light.noise, sky_numbers, i, row);
  s.light.glow[i] = glow_of_cell(s.light.glow[i], s.light.beams, s.counts.beams, s.light.numbers, s.counts.glow_rows,
                                 s.counts.glow_columns, row, i);
}
extern "C" __global__ void draw(Scene s, Seen *seen, i32 *count, u64 *keys, Picture *pictures, Colour *nodes) {
  i32 i = threadIdx.x;
  Picture picture = picture_of(s, 0, 2);
  pictures[0] = picture;
  nodes[i] = sky_node(s, picture, i, i);
  if (is_in_sight(s, 0, i, seen + i)) *count += is_before(seen[i], seen[0]);
  Triangle triangle[2];
  Sight sight = sight_of(s, 0, seen[i], picture.focal);
  int made = triangles_of(s, sight, i, picture.width, picture.height, triangle);
  for (int k = 0; k < made; k++) {
    Span span = span_of(triangle[k], i, picture.width);
    for (i32 column = span.first; column < span.end; column++)
      atomicMax(keys + column, key_of(inverse_at(span, column), low_key(i, true)));
  }
  if (!shadow_of(s, 0, i, picture.focal, picture.width, picture.height, &sight)) return;
  made = triangles_of(s, sight, i, picture.width, picture.height, triangle);
  for (int k = 0; k < made; k++) {
    Span span = span_of(triangle[k], i, picture.width);
    if (is_shaded(keys[i], inverse_at(span, i))) atomicOr(keys + i, (u64)KEY_SHADOW);
  }
}
extern "C" __global__ void finish(Scene s, const Seen *seen, i32 count, const u64 *keys, const Colour *nodes, u32 *fine) {
  i32 i = threadIdx.x, j = blockIdx.x;
  Picture picture = picture_of(s, 0, 1);
  u64 key = keys[i];
  i32 face = key ? row_of_order(s, seen, count, order_of(key)) : -1;
  measure_pixel(s, picture, j, i, key, face);
  fine[i] = paint_pixel(s, picture, row_of(picture, j), nodes, i, key, face);
  s.out.colour[i] = averaged(fine, picture.width, j, i, 2);
  rain_on_row(s, s.out.colour, picture.width, picture.height, j);
  s.out.colour[i] = darkened(s.out.colour[i], s.views.vignette[0], picture.width, picture.height, j, i);
}
"""


def found_nvrtc():
    """The compiler's library, where pip has put it."""
    try:
        spec = importlib.util.find_spec("nvidia.cuda_nvrtc")
    except ModuleNotFoundError:
        return None
    folders = spec.submodule_search_locations if spec else ()
    return next((path for folder in folders for path in sorted(Path(folder).glob("lib/libnvrtc.so.*"))), None)


def compiled_by(library, architecture, *options):
    """The assembly of the probe and all it includes."""

    def texts(*words):
        return (ctypes.c_char_p * len(words))(*(word.encode() for word in words))

    def text_of(size_of, content_of):
        size = ctypes.c_size_t()
        getattr(nvrtc, size_of)(program, ctypes.byref(size))
        content = ctypes.create_string_buffer(size.value)
        getattr(nvrtc, content_of)(program, content)
        return content.value.decode()

    nvrtc, program = ctypes.CDLL(str(library)), ctypes.c_void_p()
    sources = texts(*((HERE / name).read_text("utf-8") for name in HEADERS))
    assert not nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), PROBE.encode(), b"probe.cu", len(HEADERS), sources, texts(*HEADERS)
    )
    flags = (f"--gpu-architecture={architecture}", "--std=c++17", *options)
    failed = nvrtc.nvrtcCompileProgram(program, len(flags), texts(*flags))
    assert not failed, text_of("nvrtcGetProgramLogSize", "nvrtcGetProgramLog")
    assembly = text_of("nvrtcGetPTXSize", "nvrtcGetPTX")
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return assembly


NVRTC = found_nvrtc()

if NVRTC:

    @pytest.mark.parametrize("architecture", ARCHITECTURES)
    def test_nothing_is_fused_approximated_or_flushed_on_a_card(architecture):
        assembly = compiled_by(NVRTC, architecture, "--fmad=false")
        assert {name for name in ("light", "draw", "finish") if f".entry {name}(" in assembly} == {"light", "draw", "finish"}
        instructions = set(re.findall(r"^\s*(?:@\S+\s+)?([a-z0-9_]+(?:\.[a-z0-9_]+)+)", assembly, re.MULTILINE))
        assert {"sqrt.rn.f32", "sqrt.rn.f64", "div.rn.f32", "div.rn.f64"} <= instructions
        wrong = [one for one in instructions if one.startswith(("fma.", "mad.f")) or ".approx" in one or ".ftz" in one]
        assert wrong == []

    def test_the_compiler_would_fuse_if_it_were_not_told():
        # The test above can see: with the compiler's default there are hundreds.
        assert len(re.findall(r"\bfma\.", compiled_by(NVRTC, ARCHITECTURES[0]))) > 100
