"""Many worlds in one call: the frames of each alone; and pictures that stay on a card, read through DLPack."""

import gc
import random
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from samepath.core.errors import InputError
from samepath.simulator.maps import load_map
from samepath.simulator.sensors.auto import AutoRenderer
from samepath.simulator.sensors.batch import render, render_on_card
from samepath.simulator.sensors.cuda import memory
from samepath.simulator.sensors.cuda import renderer as cuda_renderer
from samepath.simulator.sensors.cuda import worlds as card_worlds
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


def test_worlds_are_drawn_in_one_launch_and_stay_where_they_are(worlds, alone):
    card = EmulatedCard(6)
    renderer = CudaRenderer(CardDevice(card))
    assert [digest([frame]) for frame in render(worlds, renderer)] == alone
    # Three worlds of two maps and two weathers, in slices as ever, here one.
    assert (card.launched.count("paint"), card.launched.count("sky")) == (1, 3)
    card.launched.clear()
    first, card.uploaded_bytes = card.uploaded_bytes, 0
    assert [digest([frame]) for frame in render(worlds, renderer)] == alone
    assert (card.launched.count("paint"), card.launched.count("sky")) == (1, 0)
    assert card.uploaded_bytes < 0.05 * first, "maps and weathers are there already"


def test_more_worlds_than_fit_are_drawn_in_several_launches(worlds, alone, monkeypatch):
    monkeypatch.setattr(cuda_renderer, "_WORLDS_MOST", 2)
    card = EmulatedCard(7)
    renderer = CudaRenderer(CardDevice(card, pieces=2))
    assert [digest([frame]) for frame in render(worlds, renderer)] == alone
    monkeypatch.setattr(cuda_renderer, "_ROWS_MOST", 1)
    assert [digest([frame]) for frame in render(worlds, renderer)] == alone
    assert [digest([np_frame(frame)]) for frame in render_on_card(worlds, renderer)] == alone


def test_maps_and_weathers_that_are_let_go_are_brought_again(monkeypatch):
    """Worlds that change their weather, their lamps and their traffic, with room for one map and one weather beyond theirs."""
    monkeypatch.setattr(card_worlds, "LIGHTS_MOST", 1)
    monkeypatch.setattr(card_worlds, "_MAPS_MOST", 1)
    chance, software = random.Random(8), SoftwareRenderer(1)
    oval = scene_builder_of(load_map("oval"))
    renderer = CudaRenderer(CardDevice(EmulatedCard(8), pieces=4))
    eyes = cameras(EVERYTHING, 32, 24)
    for tick in range(6):
        scenes = [replace(street_scene(chance.choice(tuple(WEATHERS))), tick=tick) for _ in range(chance.randint(1, 3))]
        scenes.append(oval.scene(looks(0.1 * tick), WEATHERS[chance.choice(("noon", "night"))], tick=tick))
        groups = [(scene, chance.sample(eyes, chance.randint(0, 2))) for scene in scenes]
        for (scene, asked), frames in zip(groups, renderer.render_worlds(groups), strict=True):
            assert digest(frames) == digest(software.render(scene, asked)), tick


def test_auto_draws_worlds_in_software_when_the_card_is_lost(worlds, alone):
    card, said = EmulatedCard(), []
    drawn = AutoRenderer(1, said.append, lambda: CudaRenderer(CardDevice(card)))
    assert [digest([frame]) for frame in render(worlds, drawn)] == alone
    card.lost = True
    assert [digest([frame]) for frame in render(worlds, drawn)] == alone
    assert [line.partition(":")[0] for line in said[1:]] == ["cameras are drawn in software from now on, with the same bytes"]


def np_frame(frame):
    """A frame of a card as arrays of this machine."""
    read = {name: None if (channel := getattr(frame, name)) is None else np.from_dlpack(channel) for name in CHANNELS}
    return type("Read", (), read)


def test_pictures_that_stay_on_the_card_are_the_same_bytes(worlds, alone):
    card = EmulatedCard(5)
    renderer = CudaRenderer(CardDevice(card, pieces=2))
    frames = render_on_card(worlds, renderer)
    for frame, (_, camera), wanted in zip(frames, worlds, alone, strict=True):
        assert frame.camera is camera
        read = np_frame(frame)
        assert digest([read]) == wanted
        assert read.depth_m.shape == (camera.height, camera.width)


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
    assert memory._lent == {}


def test_only_a_card_leaves_pictures_on_a_card(worlds):
    with pytest.raises(InputError, match=r"^the renderer cuda was wanted to leave pictures on a card, but software came$"):
        render_on_card(worlds, SoftwareRenderer(1))
    with pytest.raises(InputError, match=r"^a card was wanted for pictures that stay there, but the processor draws$"):
        render_on_card(worlds, CudaRenderer(HostDevice()))


def test_the_examples_of_the_page_run():
    example, on_card = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "gpu.md").read_text("utf-8"), re.DOTALL)
    names = {}
    exec(compile(example, "docs/gpu.md", "exec"), names)
    noon, night = names["frames"]
    assert noon.bgra.shape == (64, 96, 4)
    assert noon.bgra.mean() > night.bgra.mean() > 0
    # NumPy reads DLPack as PyTorch does, where the card's memory is the processor's.
    names |= {"torch": np, "create_renderer": lambda _: CudaRenderer(CardDevice(EmulatedCard()))}
    exec(compile(re.sub(r"^import torch .*", "", on_card, flags=re.MULTILINE), "docs/gpu.md", "exec"), names)
    assert names["colours"].tobytes() == night.bgra.tobytes()
    assert names["metres"].tobytes() == night.depth_m.tobytes()
