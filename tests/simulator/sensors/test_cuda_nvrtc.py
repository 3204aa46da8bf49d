"""The kernels as NVRTC compiles them for graphics cards, and NVIDIA's bindings as we call them. No card is needed.

NVRTC and the bindings come with ``samepath[cuda]``. The driver does not come with pip: a library of ours stands in for it,
which has its functions and runs the kernels on the processor (``tests/support/fake_cuda.cpp``).
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from samepath.simulator.sensors.cuda import driver
from samepath.simulator.sensors.cuda.driver import HERE, CardError, compiled_kernels, kept_kernels, kernel_names
from samepath.simulator.sensors.cuda.host_device import COMPILER, FLAGS
from tests.support import ROOT, SUPPORT

nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason="samepath[cuda] is not installed")
GENERATIONS = ("sm_75", "sm_80", "sm_90", "sm_100")
PINNED = json.loads((Path(__file__).parent / "camera_golden.json").read_text("utf-8"))
PROGRAM = """
import json, sys, threading
from samepath.core.errors import SamepathError
from samepath.simulator.sensors.renderer import create_renderer
from tests.support.camera_scenes import cameras, digest, street_scene
views = [*cameras(), *cameras(width=64, height=48, samples=2, vignette=0.5)]
found = {}
def draw(renderer):
    for name in ("noon", "night"):
        found[name] = digest(renderer.render(street_scene(name), views))
try:
    renderer = create_renderer(sys.argv[1])
    # Another thread than the one that has opened the card.
    if sys.argv[2] == "thread":
        thread = threading.Thread(target=draw, args=[renderer])
        thread.start()
        thread.join()
    else:
        draw(renderer)
    kept = renderer.render(street_scene("noon"), views)
    if sys.argv[2] == "thread":
        groups = [(street_scene(name), views) for name in ("night", "noon")]
        found["worlds"] = [digest(frames) for frames in renderer.render_worlds(groups)]
    renderer.close()
    # Frames outlive their renderer.
    found["kept"] = digest(kept)
    found["told"], found["name"] = renderer.told, renderer.name
except SamepathError as error:
    found["error"] = str(error)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def fake_driver(tmp_path_factory):
    folder = tmp_path_factory.mktemp("driver")
    sources = ("-I", str(HERE), "-I", str(SUPPORT), str(SUPPORT / "fake_cuda.cpp"))
    subprocess.run([COMPILER, *FLAGS, *sources, "-o", str(folder / "libcuda.so.1")], check=True)
    many = ("-DMANY_WORLDS", "-I", str(HERE), str(SUPPORT / "emulated_card.cpp"))
    subprocess.run([COMPILER, *FLAGS, *many, "-o", str(folder / "many.so")], check=True)
    # Here, as NVRTC looks for the driver by itself, and would not like ours.
    for worlds in (False, True):
        kept_kernels(nvrtc, "sm_90", many=worlds)
    return folder


def drawn_with(folder, fault="", renderer="cuda", where="here"):
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder), "FAKE_CUDA": fault, "PYTHONPATH": str(ROOT)}
    environment["FAKE_CUDA_MANY"] = str(folder / "many.so")
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, renderer, where], env=environment, capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout), ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("generation", "many"), [*((name, False) for name in GENERATIONS), ("sm_90", True)])
def test_nothing_is_fused_approximated_or_flushed_on_a_card(generation, many):
    machine_code, assembly = compiled_kernels(nvrtc, generation, many=many)
    assert machine_code.startswith(b"\x7fELF")
    text = assembly.decode()
    assert [name for name in kernel_names(many=many) if f".entry {name}(" not in text] == []
    instructions = set(re.findall(r"^\s*(?:@\S+\s+)?([a-z0-9_]+(?:\.[a-z0-9_]+)+)", text, re.MULTILINE))
    assert {"sqrt.rn.f32", "sqrt.rn.f64", "div.rn.f32", "div.rn.f64"} <= instructions
    wrong = [
        instruction
        for instruction in instructions
        if instruction.startswith(("fma.", "mad.f")) or ".approx" in instruction or ".ftz" in instruction
    ]
    assert wrong == []


def test_the_compiler_would_fuse_if_it_were_not_told(monkeypatch):
    # The test above can see: with the compiler's default there are hundreds.
    monkeypatch.setattr(driver, "FLAGS", ("--std=c++17",))
    assert len(re.findall(r"\bfma\.", compiled_kernels(nvrtc, GENERATIONS[0])[1].decode())) > 100


def test_what_the_compiler_complains_about_is_told_in_one_line(monkeypatch):
    monkeypatch.setattr(driver, "_SOURCE", b'#include "kernels.h"\nint wrong = ;\n')
    with pytest.raises(
        CardError, match=r"^NVRTC could not compile the CUDA renderer for sm_90: kernels\.cu\(2\): error[^\n]*$"
    ):
        compiled_kernels(nvrtc, "sm_90")


@pytest.mark.slow
def test_the_bindings_carry_the_pinned_pictures(fake_driver):
    found, _ = drawn_with(fake_driver, where="thread")
    assert found == {
        "noon": PINNED["noon"], "night": PINNED["night"], "kept": PINNED["noon"],
        "told": "Fake card, driver for CUDA 13.0", "name": "cuda", "worlds": [PINNED["night"], PINNED["noon"]],
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("none", "renderer 'cuda' needs an NVIDIA card, but this machine shows none: draw in software"),
        ("old", "renderer 'cuda' needs a card of generation 7.5 or later, but Fake card is 6.0"),
        ("behind", "NVRTC 1[0-9.]+ was found, but the driver is for CUDA 11.4: update the driver, or pip install .*"),
        ("full", "the graphics card cannot draw: it has not enough memory left: take fewer or smaller cameras"),
        ("lost", "the graphics card cannot draw: it failed with CUDA_ERROR_DEVICE_UNAVAILABLE"),
    ],
)
def test_what_is_wrong_with_a_card_is_told_in_one_line(fake_driver, fault, line):
    found, _ = drawn_with(fake_driver, fault)
    assert re.fullmatch(line, found["error"]), found


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["", "lost"])
def test_every_kind_of_sensor_measures_what_is_pinned(fake_driver, fault):
    program = "import json; from tests.support.sensor_bytes import in_a_rig; print(json.dumps(in_a_rig(1, 'auto')))"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(fake_driver), "FAKE_CUDA": fault, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == json.loads((Path(__file__).parent / "sensor_golden.json").read_text("utf-8"))["rig"]
    # Cameras and rays each have the card, and each of them tells.
    assert ran.stderr.count("in software from now on, with the same bytes") == (2 if fault else 0)


@pytest.mark.slow
def test_auto_draws_the_same_bytes_when_the_card_is_lost(fake_driver):
    found, said = drawn_with(fake_driver, "lost", renderer="auto")
    assert [found[name] for name in ("name", "noon", "night", "kept")] == [
        "software", PINNED["noon"], PINNED["night"], PINNED["noon"],
    ]  # fmt: skip
    assert said.count("drawn in software from now on, with the same bytes: the graphics card cannot draw") == 1


def test_a_machine_without_a_driver_is_told_so(tmp_path):
    found, _ = drawn_with(tmp_path)
    # Where there is a real one, it draws.
    wanted = "renderer 'cuda' needs NVIDIA's driver, which is not installed here: draw in software"
    assert found.get("error") == wanted or found["noon"] == PINNED["noon"]
