"""A card as a device: what is uploaded, what overlaps, what is drawn again, what happens when it fails. No card is needed."""

import json
import random
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from samepath.core.errors import SimulatorError
from samepath.simulator.maps import load_map
from samepath.simulator.sensors.auto import AutoRenderer
from samepath.simulator.sensors.cuda import card as cards
from samepath.simulator.sensors.cuda import driver as drivers
from samepath.simulator.sensors.cuda import jobs as jobs_module
from samepath.simulator.sensors.cuda import worlds
from samepath.simulator.sensors.cuda.card import CardDevice
from samepath.simulator.sensors.cuda.driver import HERE, KERNELS, CardError, _PinnedPool
from samepath.simulator.sensors.cuda.host_device import COMPILER
from samepath.simulator.sensors.cuda.jobs import jobs_of
from samepath.simulator.sensors.cuda.renderer import CudaRenderer
from samepath.simulator.sensors.raster.arrays import FrameBatch, Outputs
from samepath.simulator.sensors.raster.prepare import camera_arrays_of
from samepath.simulator.sensors.raster.software import SoftwareRenderer
from samepath.simulator.sensors.renderer import Channel, MeshInstances, create_renderer
from samepath.simulator.sensors.scene_builder import scene_builder_of
from tests.support.camera_scenes import WEATHERS, cameras, digest, looks, street_scene
from tests.support.emulated_card import EmulatedCard

PINNED = json.loads((Path(__file__).parent / "camera_golden.json").read_text("utf-8"))
TEXT = (HERE / "kernels.h").read_text("utf-8")
pytestmark = pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"{COMPILER} is not installed")


@pytest.fixture(scope="module")
def software():
    made = SoftwareRenderer(1)
    yield made
    made.close()


def views():
    return [*cameras(), *cameras(width=64, height=48, samples=2, vignette=0.5)]


@pytest.mark.parametrize("seed", [1, 2])
def test_no_order_of_threads_and_streams_changes_a_byte(seed):
    drawn = CudaRenderer(CardDevice(EmulatedCard(seed)))
    for name in WEATHERS:
        assert digest(drawn.render(street_scene(name), views())) == PINNED[name], name


def test_lists_that_are_too_short_are_made_longer_and_everything_is_drawn_again():
    # Room for a single piece: without drawing again nearly all of the picture would be missing.
    device = CardDevice(EmulatedCard(3), pieces=1)
    drawn = CudaRenderer(device)
    for name in WEATHERS:
        batch = FrameBatch(views(), device.empty)
        pending = device.start(drawn.prepare(street_scene(name)), camera_arrays_of(views(), batch.offsets), batch.arrays, 1.0)
        pending.wait()
        assert digest(batch) == PINNED[name], name
        # Once: then the lists are long enough, also for the weathers behind it.
        assert pending.redrawn == (1 if name == next(iter(WEATHERS)) else 0), name


def test_slices_of_any_size_give_the_same_bytes(monkeypatch):
    made = set()
    for share in (1, 20_000, 1_000_000):
        monkeypatch.setattr(jobs_module, "_SLICE_PX_LEAST", share)
        monkeypatch.setattr(jobs_module, "_SLICE_PX_MOST", share)
        batch = FrameBatch(views())
        one_world = np.zeros(len(views()), np.int64)
        jobs = jobs_of(camera_arrays_of(views(), batch.offsets), one_world, np.array([100]), np.array([5000]))
        made.add(len(jobs.slices))
        assert sum(part.jobs for part in jobs.slices) == len(jobs.content)
        assert digest(CudaRenderer(CardDevice(EmulatedCard(share))).render(street_scene("rain"), views())) == PINNED["rain"]
    assert max(made) == len(jobs.content) and min(made) == 1, "from one slice for each pass to one for all"


def test_ticks_under_way_at_once_come_out_as_if_alone(software):
    """Traffic that comes and goes, with weather that changes, always two ticks ahead; lists that are too short at first."""
    chance = random.Random(5)
    device = CardDevice(EmulatedCard(11), pieces=4)
    drawn = CudaRenderer(device)
    under_way, checked = [], 0
    for tick in range(8):
        scene = replace(street_scene(("noon", "noon", "night", "rain", "noon", "noon", "rain", "rain")[tick]), tick=tick)
        rows = np.array(chance.sample(range(len(scene.moving)), chance.randint(0, len(scene.moving))), np.intp)
        moving = MeshInstances(**{name: getattr(scene.moving, name)[rows] for name in MeshInstances.__slots__})
        scene = replace(scene, moving=moving)
        eyes = chance.sample(views(), chance.randint(1, 4))
        batch = FrameBatch(eyes, device.empty)
        prepared = drawn.prepare(scene)
        under_way.append((scene, batch, device.start(prepared, camera_arrays_of(eyes, batch.offsets), batch.arrays, 1.0)))
        if len(under_way) > 2:
            scene, batch, pending = under_way.pop(0)
            pending.wait()
            assert digest(batch) == digest(software.render(scene, batch.cameras))
            checked += 1
    for scene, batch, pending in reversed(under_way):
        pending.wait()
        assert digest(batch) == digest(software.render(scene, batch.cameras))
        checked += 1
    assert checked == 8


def test_only_what_has_moved_is_uploaded():
    card = EmulatedCard()
    drawn = CudaRenderer(CardDevice(card))
    town = scene_builder_of(load_map("town"))
    eyes = cameras(width=40, height=30)
    drawn.render(town.scene(looks(), WEATHERS["noon"]), eyes)
    first, card.uploaded_bytes = card.uploaded_bytes, 0
    drawn.render(town.scene(looks(), WEATHERS["noon"], tick=1), eyes)
    # The map is megabytes; what moves is a few hundred bytes for each actor and signal, beside cameras and numbers.
    moving = len(town.scene(looks(), WEATHERS["noon"]).moving)
    assert first > 1_000_000
    assert card.uploaded_bytes < 300 * moving + 20_000


def test_pictures_are_copied_while_the_next_ones_are_drawn(monkeypatch):
    monkeypatch.setattr(jobs_module, "_SLICE_PX_LEAST", 1)
    monkeypatch.setattr(jobs_module, "_SLICE_PX_MOST", 1)
    card = EmulatedCard()
    order = []
    run, download = card._run, card.download
    card._run = lambda kernel, *more: (order.append(kernel), run(kernel, *more))
    card.download = lambda to, given, stream: (
        download(to, given, stream), card._add(stream, lambda: order.append("copied")),
    )  # fmt: skip
    CudaRenderer(CardDevice(card)).render(street_scene("noon"), views())
    # The emulated card prefers copies to drawing, as far as nothing holds them back.
    first, last = order.index("copied"), len(order) - 1 - order[::-1].index("paint")
    assert order.index("paint") < first < last


def test_things_that_come_and_go_are_drawn_as_by_a_new_renderer(software):
    device = CardDevice(EmulatedCard(2))
    drawn, scene = CudaRenderer(device), street_scene("noon")
    for count in (2, 0, 150, 1):
        rows = np.arange(count) % len(scene.moving)
        moving = MeshInstances(**{name: getattr(scene.moving, name)[rows] for name in MeshInstances.__slots__})
        moving.position[:, 0] += 0.25 * np.arange(count)
        changed = replace(scene, moving=moving)
        eyes = cameras(width=64, height=48)
        assert digest(drawn.render(changed, eyes)) == digest(software.render(changed, eyes)), count


def test_the_text_has_the_sizes_that_python_has():
    said = dict(re.findall(r"(\w+_BYTES) = (\d+)", TEXT))
    for name in ("SEEN", "SIGHT", "PICTURE", "LARGE", "PIECE", "JOB", "COLOUR"):
        assert int(said[f"{name}_BYTES"]) == getattr(cards, f"{name}_BYTES"), name
    assert int(said["WORLD_BYTES"]) == worlds.WORLD_BYTES
    assert int(said["WORK_BYTES"]) == cards.records_bytes() == worlds.WORLD_BYTES + worlds.WORK_REST_BYTES
    assert int(said["MOVE_BYTES"]) == 24
    lists = dict(re.findall(r"\b(LISTS|COUNT_STRIDE|FACE_THREADS) = (\d+)", TEXT))
    assert {name: int(value) for name, value in lists.items()} == {
        "LISTS": cards.LISTS, "COUNT_STRIDE": cards.COUNT_STRIDE, "FACE_THREADS": cards.FACE_THREADS,
    }  # fmt: skip
    assert tuple(re.findall(r"^(?:RAY_)?KERNEL\((\w+)\)", TEXT, re.MULTILINE)) == KERNELS


def test_a_card_without_memory_says_so_in_one_line():
    drawn = CudaRenderer(CardDevice(EmulatedCard(room=1 << 20)))
    with pytest.raises(CardError, match=r"^the graphics card cannot draw: it has not enough memory left[^\n]*$"):
        drawn.render(street_scene("noon"), views())
    drawn.close()


def test_after_a_tick_that_was_too_large_smaller_ones_are_drawn():
    drawn = CudaRenderer(CardDevice(EmulatedCard(room=40 << 20), pieces=64))
    with pytest.raises(CardError, match="memory"):
        drawn.render(street_scene("noon"), cameras(width=1900, height=1400))
    assert digest(drawn.render(street_scene("noon"), views())) == PINNED["noon"]


def test_auto_goes_on_in_software_when_the_card_is_lost_and_says_so_once():
    card, said = EmulatedCard(), []
    drawn = AutoRenderer(1, said.append, lambda: CudaRenderer(CardDevice(card)))
    assert (drawn.name, said.pop()) == ("cuda", "cameras are drawn by cuda (a card that is none)")
    assert digest(drawn.render(street_scene("dusk"), views())) == PINNED["dusk"]
    card.lost = True
    for name in WEATHERS:
        assert digest(drawn.render(street_scene(name), views())) == PINNED[name]
    assert (drawn.name, card.closed) == ("software", True)
    (line,) = said
    assert line.startswith(
        "cameras are drawn in software from now on, with the same bytes: the graphics card cannot draw: it failed with"
    )
    drawn.close()


def test_auto_draws_in_software_where_there_is_no_card_and_tells_why():
    def none():
        raise CardError("renderer 'cuda' needs an NVIDIA card, but this machine shows none: draw in software")

    drawn = AutoRenderer(1, card=none)
    assert drawn.name == "software"
    assert drawn.told == (
        "drawn in software: renderer 'cuda' needs an NVIDIA card, but this machine shows none: draw in software"
    )
    assert digest(drawn.render(street_scene("noon"), views())) == PINNED["noon"]
    drawn.close()


def test_without_the_extra_the_name_is_known_and_one_line_says_what_to_install(monkeypatch):
    import builtins

    real = builtins.__import__

    def without(name, *more):
        if name.startswith("cuda"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SimulatorError, match=r"^renderer 'cuda' needs cuda[.a-z]*: pip install 'samepath\[cuda\]'$"):
        create_renderer("cuda")
    monkeypatch.undo()
    assert drivers.CardError is CardError


def test_pinned_memory_comes_back_when_the_last_look_at_it_is_gone():
    taken, freed, closed = [], [], []
    store = {}

    def allocate(size):
        piece = np.zeros(size, np.uint8)
        store[piece.ctypes.data] = piece
        taken.append(size)
        return piece.ctypes.data

    pool = _PinnedPool(allocate, freed.append)
    first = pool.take(5000)
    assert (len(first), taken) == (5000, [8192])
    look = first[10:20].view(np.uint16)
    del first
    again = pool.take(6000)
    assert taken == [8192, 8192], "a view still looks at the first piece"
    del look
    third = pool.take(7000)
    assert taken == [8192, 8192] and freed == []
    pool.close(lambda: closed.append(True))
    assert (freed, closed) == ([], [])
    del again
    assert (len(freed), closed) == (1, [])
    del third
    assert (len(freed), closed) == (2, [True])


def test_pictures_of_a_card_lie_in_memory_that_it_can_copy_to():
    device = CardDevice(EmulatedCard())
    frames = CudaRenderer(device).render(street_scene("noon"), [replace(cameras()[0], channels=Channel.COLOUR)])
    assert isinstance(frames.arrays, Outputs)
    assert [len(array) > 0 for array in frames.arrays] == [True, *[False] * 9]
