"""The same bytes whatever the threads, processes, C library, numpy and compiler: pinned digests, and no compiler at all."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

from samepath.core.errors import InputError
from samepath.simulator.sensors.raster.software import SoftwareRenderer
from tests.support import ROOT, SUPPORT
from tests.support.camera_bytes import digests
from tests.support.camera_scenes import EVERYTHING, cameras, street_scene

HERE = Path(__file__).parent
PINNED = json.loads((HERE / "camera_golden.json").read_text("utf-8"))
FUSED_OFF = "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-FMA4"


def run(*command, **changes):
    path = os.pathsep.join([str(ROOT), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, **changes}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True, env=environment).stdout


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_pictures_have_the_pinned_bytes_with_any_number_of_threads(threads):
    assert digests(threads) == PINNED


def test_a_fresh_process_without_fused_multiply_add_or_wide_vectors_gives_the_same_bytes():
    dispatched = " ".join(name for name in __cpu_dispatch__ if __cpu_features__[name])
    changes = {"GLIBC_TUNABLES": FUSED_OFF, "NPY_DISABLE_CPU_FEATURES": dispatched, "PYTHONHASHSEED": "11"}
    assert json.loads(run(str(SUPPORT / "camera_bytes.py"), "2", **changes)) == PINNED


INTERPRETED = """
import numpy as np, sys, warnings
warnings.simplefilter("ignore")
from tests.support.camera_scenes import EVERYTHING, cameras, street_scene
from samepath.simulator.sensors.raster.software import SoftwareRenderer
frame = SoftwareRenderer(1).render(street_scene("night"), cameras(EVERYTHING, 24, 16)[:1])[0]
np.savez(sys.argv[1], depth_m=frame.depth_m, label=frame.label, instance=frame.instance, normal=frame.normal, flow=frame.flow)
"""


def test_python_without_a_compiler_draws_the_same_numbers_and_stays_inside_its_arrays(tmp_path):
    run("-c", INTERPRETED, str(tmp_path / "frame.npz"), NUMBA_DISABLE_JIT="1")
    frame = SoftwareRenderer(1).render(street_scene("night"), cameras(EVERYTHING, 24, 16)[:1])[0]
    with np.load(tmp_path / "frame.npz") as interpreted:
        for name in interpreted.files:
            assert interpreted[name].tobytes() == getattr(frame, name).tobytes(), name


BUILT = """
import numba, numpy as np, re
from samepath.simulator.sensors.raster.compiled import compiled_entry, cpu_name
def kernel(a, b, to):
    for k in range(to.shape[0]):
        to[k] = a[k] * b[k] + to[k]
ours, theirs = compiled_entry(kernel), numba.njit(kernel)
a, b = np.linspace(0, 1, 64, dtype=np.float32), np.linspace(3, 4, 64, dtype=np.float32)
for function in (ours, theirs):
    function(a, b, a.copy())
text = next(iter(ours.inspect_asm().values()))
host = numba.core.registry.cpu_target.target_context.codegen()._get_host_cpu_name()
print(cpu_name(), "ymm" in text, bool(re.search("vfn?m(add|sub)", text)), host)
"""


def test_code_is_built_for_a_pinned_processor_and_other_uses_of_numba_are_not(tmp_path):
    module = tmp_path / "built.py"
    module.write_text(BUILT)
    name, wide, fused, host = run(str(module), SAMEPATH_RENDER_CPU="x86-64", SAMEPATH_CACHE_DIR=str(tmp_path)).split()
    assert (name, wide, fused) == ("x86-64", "False", "False")
    assert host not in {"x86-64", "generic"}
    assert list((tmp_path / "samepath").rglob("*.nbc")), "compiled code is kept"
    name, wide, fused, _ = run(str(module), SAMEPATH_CACHE_DIR="/proc/nowhere").split()
    assert fused == "False"
    assert (name == "x86-64-v3") == (wide == "True")


def test_an_unknown_processor_is_refused(monkeypatch):
    from samepath.simulator.sensors.raster import compiled

    monkeypatch.setenv(compiled.CPU_VARIABLE, "pentium")
    with pytest.raises(InputError, match="SAMEPATH_RENDER_CPU: one of x86-64"):
        compiled.cpu_name.__wrapped__()
