"""Every sensor gives the pinned bytes in fresh processes, whatever the threads, the C library, numpy and the compiler choose.

``python -m bench sensors`` does so a hundred times, under load too.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

from samepath.simulator.sensors.rig import SENSOR_KINDS
from samepath.simulator.server.sensors import SENSOR_MODELS
from tests.support import ROOT, SUPPORT

HERE = Path(__file__).parent
PINNED = json.loads((HERE / "sensor_golden.json").read_text("utf-8"))
PLAIN_NUMPY = {"NPY_DISABLE_CPU_FEATURES": " ".join(name for name in __cpu_dispatch__ if __cpu_features__[name])}
FUSED_OFF = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-FMA4"}


def measured(threads, **changes):
    path = os.pathsep.join([str(ROOT), *sys.path])
    command = [sys.executable, str(SUPPORT / "sensor_bytes.py"), str(threads)]
    environment = {**os.environ, "PYTHONPATH": path, **changes}
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment).stdout)


def test_every_kind_of_sensor_is_pinned():
    assert set(PINNED["rig"]) == set(SENSOR_KINDS)
    assert set(PINNED["wire"]) == set(SENSOR_MODELS) - {"sensor.other.lane_invasion"}  # which only clients work out
    every = [digest for where in PINNED.values() for digest in where.values()]
    assert len(set(every)) == len(every)


@pytest.mark.parametrize(
    ("threads", "changes"),
    [(1, {"PYTHONHASHSEED": "7"}), (2, {**FUSED_OFF, **PLAIN_NUMPY}), (2, {"SAMEPATH_RENDER_CPU": "x86-64"})],
    ids=["one thread", "two threads without fused multiply-add or wide vectors", "code for the oldest processors"],
)
def test_a_fresh_process_gives_the_pinned_bytes(threads, changes):
    assert measured(threads, **changes) == PINNED
