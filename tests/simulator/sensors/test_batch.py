"""Many worlds in one call: the frames of each alone; and pictures that stay on a card, read through DLPack."""

import gc
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from samepath.core.errors import InputError
from samepath.simulator.maps import load_map
from samepath.simulator.sensors.batch import render, render_on_card
from samepath.simulator.sensors.cuda import dlpack
from samepath.simulator.sensors.cuda.card import CardDevice
from samepath.simulator.sensors.cuda.host_device import COMPILER, HostDevice
from samepath.simulator.sensors.cuda.renderer import CudaRenderer
from samepath.simulator.sensors.raster.software import SoftwareRenderer
from samepath.simulator.sensors.renderer import Channel
from samepath.simulator.sensors.scene_builder import scene_builder_of
from tests.support import ROOT
from tests.support.camera_scenes import EVERYTHING, WEATHERS, cameras, digest, looks, street_scene
from tests.support.emulated_card import EmulatedCard

pytestmark = pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"{COMPILER} is not installed")
CHANNELS = ("bgra", "depth_m", "label", "instance", "normal", "flow")


@pytest.fixture(scope="module")
def worlds():
    """Views of three weathers and two maps, all mixed up, of several sizes and channels."""
    oval = scene_builder_of(load_map("oval")).scene(looks(), WEATHERS["noon"])
    noon, rain = street_scene("noon"), street_scene("rain")
    a, b, c = cameras(EVERYTHING, 48, 32)
    small = replace(b, width=20, height=30, channels=Channel.DEPTH | Channel.LABEL)
    return [(noon, a), (oval, c), (rain, small), (noon, b), (oval, replace(a, samples=2)), (rain, a), (noon, small)]


@pytest.fixture(scope="module")
def alone(worlds):
    """Each view drawn by a renderer that has seen nothing else."""
    return [digest(SoftwareRenderer(1).render(scene, [camera])) for scene, camera in worlds]


def test_worlds_drawn_together_are_those_drawn_alone(worlds, alone):
    assert [digest([frame]) for frame in render(worlds, "software")] == alone
    card = CudaRenderer(CardDevice(EmulatedCard(4)))
    assert [digest([frame]) for frame in render(worlds, card)] == alone
    # It is the caller's, and stays open.
    assert [digest([frame]) for frame in render(worlds[::-1], card)] == alone[::-1]
    card.close()
    assert render([], "software") == []


def test_pictures_that_stay_on_the_card_are_the_same_bytes(worlds, alone):
    card = EmulatedCard(5)
    renderer = CudaRenderer(CardDevice(card, pieces=2))
    frames = render_on_card(worlds, renderer)
    for frame, (_, camera), wanted in zip(frames, worlds, alone, strict=True):
        assert frame.camera is camera
        read = {name: None if (one := getattr(frame, name)) is None else np.from_dlpack(one) for name in CHANNELS}
        assert digest([type("Read", (), read)]) == wanted
        assert read["depth_m"].shape == (camera.height, camera.width)


def test_memory_stays_as_long_as_somebody_looks_into_it():
    card = EmulatedCard()
    renderer = CudaRenderer(CardDevice(card))
    renderer.render(street_scene("noon"), cameras(width=40, height=30))
    free = card._free
    frames = render_on_card([(street_scene("noon"), cameras(width=40, height=30)[0])], renderer)
    assert card._free < free
    look = np.from_dlpack(frames[0].depth_m)
    unread = frames[0].label.__dlpack__()
    was, kept = look.copy(), card._free
    del frames
    gc.collect()
    assert card._free == kept
    assert (look == was).all()
    del look
    gc.collect()
    assert card._free == kept, "a capsule that nobody has read holds it too"
    del unread
    gc.collect()
    assert card._free > kept
    assert dlpack._lent == {}


def test_only_a_card_leaves_pictures_on_a_card(worlds):
    with pytest.raises(InputError, match=r"^the renderer cuda was wanted to leave pictures on a card, but software came$"):
        render_on_card(worlds, SoftwareRenderer(1))
    with pytest.raises(InputError, match=r"^a card was wanted for pictures that stay there, but the processor draws$"):
        render_on_card(worlds, CudaRenderer(HostDevice()))


def test_the_example_of_the_page_runs():
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "gpu.md").read_text("utf-8"), re.DOTALL)
    names = {}
    exec(compile(example, "docs/gpu.md", "exec"), names)
    noon, night = names["frames"]
    assert noon.bgra.shape == (64, 96, 4)
    assert noon.bgra.mean() > night.bgra.mean() > 0
