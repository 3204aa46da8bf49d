"""Our maps to the bit: pinned, and the same with other vector units, other libm paths and another hash order."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import samepath
from samepath.simulator.maps import available_maps, load_map, parse_map
from samepath.simulator.maps.build import DESIGNS, build

PINNED = {
    "double-mini-roundabout": "6a1da6a0f9279a916b007ba2b9114ce0",
    "oval": "08e9e8f4204180abd3279177920bf917",
    "t-junction": "b0f945b1694209a8dc1012bb25a9180d",
    "town": "02c21650252664c94e7bef58a0986d22",
}
SHOW = "from samepath.simulator.maps import *; [print(name, load_map(name).digest) for name in available_maps()]"
BUILD = "import sys, pathlib; from samepath.simulator.maps.build import build; build(pathlib.Path(sys.argv[1]))"
NO_FMA = "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-FMA4"
FEATURES = ("AVX2", "FMA3", "AVX512F", "AVX512CD", "AVX512_SKX", "X86_V3", "X86_V4", "AVX512_ICL", "AVX512_SPR")
MACHINES = {
    "no FMA in libm, another hash order": {"GLIBC_TUNABLES": NO_FMA, "PYTHONHASHSEED": "random"},
    "no wide vectors": {"GLIBC_TUNABLES": NO_FMA, "NPY_DISABLE_CPU_FEATURES": "dispatched"},
}


def run(code, *arguments, **changes):
    if "NPY_DISABLE_CPU_FEATURES" in changes:
        # NumPy complains about names its build does not dispatch, so only those it knows are switched off.
        known = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
        changes["NPY_DISABLE_CPU_FEATURES"] = " ".join(name for name in FEATURES if name in known)
    source = str(Path(samepath.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, **changes}
    done = subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_digests_are_pinned():
    assert {name: load_map(name).digest for name in available_maps()} == PINNED


@pytest.mark.parametrize("machine", MACHINES)
def test_the_digests_are_the_same_on(machine):
    wanted = "".join(f"{name} {load_map(name).digest}\n" for name in available_maps())
    assert run(SHOW, **MACHINES[machine]) == wanted


@pytest.mark.parametrize("name", available_maps())
def test_the_files_are_up_to_date(name):
    assert load_map(name).xodr == DESIGNS[name]()


def test_the_files_are_the_same_bytes_without_fma(tmp_path):
    folders = [tmp_path / "here", tmp_path / "there"]
    for folder in folders:
        folder.mkdir()
    build(folders[0])
    run(BUILD, str(folders[1]), GLIBC_TUNABLES=NO_FMA, PYTHONHASHSEED="random")
    names = [f"{name}.xodr" for name in available_maps()]
    assert [(folders[0] / name).read_bytes() for name in names] == [(folders[1] / name).read_bytes() for name in names]


def test_a_digest_sees_a_road_that_moved_by_a_hair():
    text = load_map("t-junction").xodr
    moved = text.replace('a="2"', 'a="2.00001"', 1)
    assert moved != text
    assert parse_map(moved, "t-junction").digest != load_map("t-junction").digest
    assert parse_map(text, "t-junction").digest == load_map("t-junction").digest
