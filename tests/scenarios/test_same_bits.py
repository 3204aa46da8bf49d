"""Drives and walks give the same bits whatever the hash seed and whichever routines the C library picks."""

import os
import subprocess
import sys

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

from tests.support import ROOT

SCRIPT = """
import hashlib
import numpy as np
from tests.support.closed_loop import bicycle_drive, curved_path, drive_settings, walk_together, walker
from samepath.scenarios.walkers import WalkerSettings
from samepath.scenarios.astar import rasterise

digest = hashlib.blake2b()
for row in bicycle_drive(curved_path(), drive_settings(), lateral_m=0.3):
    digest.update(repr(row).encode())
hole = np.array([[9.1, -1.3], [11.7, -0.2], [10.2, 1.1]])
field = rasterise([np.array([[-5.1, -5.3], [30.2, -4.1], [31.0, 5.2], [-4.7, 6.1]])], holes=[hole])
digest.update(field.walkable.tobytes())
settings = [WalkerSettings(step_s=0.05, look_ahead_m=20.0, queue=queue) for queue in ("stable", "unstable")]
followers = [walker(field, [(25.0, 0.3)], settings[0]), walker(field, [(0.0, 0.0)], settings[1])]
digest.update(repr(walk_together(followers, [(0.0, 0.0), (25.0, 0.3)])).encode())
print(digest.hexdigest())
"""
FUSED_OFF = "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-FMA4"


def digest(**changes):
    path = os.pathsep.join([str(ROOT), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, **changes}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=environment)
    return done.stdout


@pytest.fixture(scope="module")
def reference():
    return digest(PYTHONHASHSEED="1")


def test_another_hash_seed_changes_no_bit(reference):
    assert digest(PYTHONHASHSEED="2") == reference


def test_the_c_library_without_fused_multiply_add_changes_no_bit(reference):
    assert digest(PYTHONHASHSEED="1", GLIBC_TUNABLES=FUSED_OFF) == reference


def test_numpy_without_wide_vectors_changes_no_bit(reference):
    dispatched = [name for name in __cpu_dispatch__ if __cpu_features__[name]]
    assert digest(PYTHONHASHSEED="1", NPY_DISABLE_CPU_FEATURES=" ".join(dispatched)) == reference
