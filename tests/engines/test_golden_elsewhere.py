"""A golden file on another machine: one whose C library computes sines otherwise, as CPUs without fused multiply-add do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TUNABLES = "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F"
pytestmark = [pytest.mark.engine, pytest.mark.slow]


def samepath(folder, *words, **environment):
    command = [sys.executable, "-m", "samepath", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, **environment})


@pytest.mark.skipif("fma" not in Path("/proc/cpuinfo").read_text().split(), reason="this CPU has no FMA to do without")
def test_mujoco_is_red_and_says_what_is_not_the_same_and_samepath_is_green(tmp_path):
    pytest.importorskip("mujoco")
    for simulator in ("mujoco", "samepath"):
        written = samepath(
            tmp_path, "golden", "write", f"{simulator}.golden", "glancing", "--simulator", simulator, "--repeats", "1"
        )
        assert written.returncode == 0, written
    red = samepath(tmp_path, "golden", "check", "mujoco.golden", "--repeats", "1", GLIBC_TUNABLES=TUNABLES)
    assert red.returncode == 1, red
    assert f"environment: GLIBC_TUNABLES {TUNABLES} instead of not there" in red.stdout
    assert "First difference at tick " in red.stdout
    near = samepath(tmp_path, "golden", "check", "mujoco.golden", "--tolerance", "1mm", GLIBC_TUNABLES=TUNABLES)
    assert (near.returncode, "within-tolerance" in near.stdout) == (0, True)
    green = samepath(tmp_path, "golden", "check", "samepath.golden", GLIBC_TUNABLES=TUNABLES)
    assert green.stdout == "glancing on samepath: bit-identical, 1 run now\n"
