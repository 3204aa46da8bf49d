"""The core of the CUDA renderer and its kernels, run by the processor: the software renderer's bytes, in every channel."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from samepath.core.errors import InputError, SimulatorError
from samepath.core.states import Pose
from samepath.simulator.maps import load_map
from samepath.simulator.sensors import images
from samepath.simulator.sensors import renderer as interface
from samepath.simulator.sensors.cuda import host_device, records
from samepath.simulator.sensors.cuda.card import CardDevice
from samepath.simulator.sensors.cuda.host_device import COMPILER, HERE, SOURCES, HostDevice
from samepath.simulator.sensors.cuda.renderer import CudaRenderer
from samepath.simulator.sensors.labels import Label
from samepath.simulator.sensors.raster import prepare, shading
from samepath.simulator.sensors.raster.arrays import LEVELS, ROW_MASK
from samepath.simulator.sensors.raster.prepare import ScenePreparer, camera_arrays_of
from samepath.simulator.sensors.raster.software import SoftwareRenderer
from samepath.simulator.sensors.renderer import Camera, Channel, Lamp, Material, MeshInstances
from samepath.simulator.sensors.scene_builder import scene_builder_of
from tests.support.camera_scenes import (
    EVERYTHING,
    SKY,
    WEATHERS,
    along,
    bare_scene,
    cameras,
    digest,
    fuzzed_cameras,
    looks,
    street_scene,
)
from tests.support.emulated_card import EmulatedCard

CHANNELS = ("bgra", "depth_m", "label", "instance", "normal", "flow")
PINNED = json.loads((Path(__file__).parent / "camera_golden.json").read_text("utf-8"))
TEXT = "\n".join((HERE / name).read_text("utf-8") for name in SOURCES)
TYPES = {
    "i8": "i1", "u8": "u1", "u16": "u2", "i32": "i4", "u32": "u4", "i64": "i8", "float": "f4", "double": "f8",
}  # fmt: skip

WEDGE = [(5.0, -3.0, -3.0), (5.0, 0.0, 3.0), (5.0, 3.0, -3.0)]
"""A triangle that faces back along x."""

needs_compiler = pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"{COMPILER} is not installed")


@pytest.fixture(scope="module")
def software():
    made = SoftwareRenderer(1)
    yield made
    made.close()


@pytest.fixture(scope="module", params=["core", "kernels"])
def core(request):
    # The rules called one after the other, and as a card would call them: thread by thread, in an order that a seed chooses.
    made = CudaRenderer(HostDevice() if request.param == "core" else CardDevice(EmulatedCard(seed=7)))
    yield made
    made.close()


def differing(frame, other):
    """How many numbers differ, bit by bit, in each channel of two frames."""
    found = {}
    for name in CHANNELS:
        ours, theirs = getattr(frame, name), getattr(other, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            ours, theirs = (np.ascontiguousarray(array).view(f"u{array.itemsize}") for array in (ours, theirs))
            found[name] = int((ours != theirs).sum())
    return found


def assert_same(core, software, scene, eyes):
    for number, (ours, theirs) in enumerate(zip(core.render(scene, eyes), software.render(scene, eyes), strict=True)):
        assert not any(differing(ours, theirs).values()), (number, eyes[number], differing(ours, theirs))


@needs_compiler
def test_the_pinned_pictures_have_the_pinned_bytes(core):
    for name in WEATHERS:
        views = [*cameras(), *cameras(width=64, height=48, samples=2, vignette=0.5)]
        frames = core.render(street_scene(name), views)
        assert digest(frames) == PINNED[name], name
        # Over what is there already, which must not show.
        for array in frames.arrays:
            array.view(np.uint8)[:] = 0xA5
        assert digest(core.render(street_scene(name), views, frames)) == PINNED[name], name


@needs_compiler
@pytest.mark.parametrize("weather", WEATHERS)
@pytest.mark.parametrize("samples", [1, 3, 4])
def test_every_weather_has_the_bytes_of_the_software_renderer(core, software, weather, samples):
    assert_same(core, software, street_scene(weather), cameras(width=97, height=61, samples=samples, vignette=0.8))


@needs_compiler
@pytest.mark.parametrize("weather", WEATHERS)
def test_fuzzed_cameras_see_the_bytes_of_the_software_renderer(core, software, weather):
    eyes = list(fuzzed_cameras(60, weather))
    frames = core.render(street_scene(weather), eyes)
    # Not all of them look into nothing: the comparison has something to compare.
    assert sum(frame.depth_m is not None and (frame.depth_m < interface.FAR_M).any() for frame in frames) > 10
    assert_same(core, software, street_scene(weather), eyes)


IMAGE_CHANNELS = ("depth_image", "label_image", "instance_image", "normal_image")


@needs_compiler
def test_carlas_pictures_are_made_while_drawing_as_the_rule_makes_them(core, software):
    """By the software renderer, the core and the kernels, beside the numbers and alone, in the order they were asked for."""
    eyes = [*cameras(EVERYTHING | images.IMAGES), *cameras(images.IMAGES, samples=2), *cameras(Channel.LABEL_IMAGE, 20, 9)]
    eyes += [replace(eye, channels=eye.channels | images.IMAGES) for eye in fuzzed_cameras(30, "pictures")]
    scene = street_scene("dusk")
    wanted = images.with_images(software.render(scene, images.numbers_for(eyes)), eyes)
    assert len({pixel for frame in wanted[:3] for pixel in np.unique(frame.instance_image[..., 1]).tolist()}) > 10
    for drawn in (core.render(scene, eyes), software.render(scene, eyes)):
        for eye, picture, expected in zip(eyes, drawn, wanted, strict=True):
            for name in (*CHANNELS, *IMAGE_CHANNELS):
                ours, theirs = getattr(picture, name), getattr(expected, name)
                assert (ours is None) == (theirs is None)
                assert ours is None or (ours.shape, ours.tobytes()) == (theirs.shape, theirs.tobytes()), (name, eye)


@needs_compiler
@pytest.mark.parametrize("weather", ["noon", "night"])
def test_a_town_has_the_bytes_of_the_software_renderer(core, software, weather):
    town = scene_builder_of(load_map("town"))
    scene = town.scene(looks(lamps=Lamp.LOW_BEAM), WEATHERS[weather], tick=3)
    corners = [(0.0, 0.0), (40.0, -30.0), (-60.0, 20.0)]
    eyes = [Camera(Pose(x, y, 1.8, 0.0, -4.0, 70.0 * k), 120, 80, 90.0, EVERYTHING) for k, (x, y) in enumerate(corners)]
    eyes.append(Camera(Pose(0.0, 0.0, 90.0, 0.0, -60.0, 10.0), 120, 80, 90.0, EVERYTHING))
    assert_same(core, software, scene, eyes)
    assert all(len(np.unique(frame.instance)) > 5 for frame in core.render(scene, eyes)), "each of them sees some of the town"


@needs_compiler
def test_without_levels_of_detail_the_bytes_are_the_same_too(software):
    fine, ours = SoftwareRenderer(1, detail=0.0), CudaRenderer(CardDevice(EmulatedCard()), detail=0.0)
    scene, eyes = street_scene(), cameras()
    assert_same(ours, fine, scene, eyes)
    assert digest(fine.render(scene, eyes)) != digest(software.render(scene, eyes)), "detail shows in these pictures"


@needs_compiler
def test_of_two_faces_at_the_same_place_the_first_is_seen(core, software):
    eyes = [Camera(Pose(), 40, 30, 90.0, EVERYTHING)]
    scene = bare_scene([WEDGE, WEDGE], [3, 7])
    assert_same(core, software, scene, eyes)
    assert set(np.unique(core.render(scene, eyes)[0].label)) == {3, SKY}


@needs_compiler
def test_of_two_things_at_the_same_place_the_first_is_seen(core, software):
    scene, eyes = bare_scene([WEDGE], [3]), [Camera(Pose(), 40, 30, 90.0, EVERYTHING)]
    both = {name: np.repeat(getattr(scene.moving, name), 2, axis=0) for name in MeshInstances.__slots__}
    twins = replace(scene, moving=MeshInstances(**{**both, "id": np.array([5, 6], np.int32)}))
    assert_same(core, software, twins, eyes)
    assert set(np.unique(core.render(twins, eyes)[0].instance)) == {0, 5}


@needs_compiler
def test_a_middle_on_an_edge_belongs_to_the_triangle_to_its_right_or_below(core, software):
    # Five metres ahead a pixel is a quarter of a metre: all edges run through middles of pixels, the last one slantwise.
    low, high = -8.5 / 4.0, 6.5 / 4.0
    a, b, c, d = (5.0, low, low), (5.0, low, high), (5.0, high, high), (5.0, high, low)
    scene, eyes = bare_scene([(a, b, c), (a, c, d)], [3, 7]), [Camera(Pose(), 40, 40, 90.0, EVERYTHING)]
    assert_same(core, software, scene, eyes)
    label = core.render(scene, eyes)[0].label
    # From column 11.5 up to 26.5 and from row 13.5 up to 28.5: the first middles count, the last do not.
    rows, columns = np.nonzero(label != SKY)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (13, 27, 11, 25)
    assert (label != SKY).sum() == 15 * 15
    assert {3, 7} < set(np.unique(label))


@needs_compiler
def test_shadows_far_above_or_below_the_ground_that_is_seen_have_the_same_bytes(core, software):
    scene, height_m = street_scene(), 12.0
    eyes = [
        Camera(along(ahead_m, -1.0, height_m, 0.0, -89.0, 0.0), 160, 120, 130.0, Channel.COLOUR)
        for ahead_m in (0.0, 15.0, 30.0)
    ]
    seen = set()
    # Seen from there, the shadow's place is nearer than the road by these parts, on either side of the limits.
    for part in (1.0, 1.27, 1.32, 0.72, 0.68, 4.0, -4.0):
        moving = replace(scene.moving, ground_z=np.full(len(scene.moving), height_m * (1.0 - 1.0 / part)))
        changed = replace(scene, moving=moving)
        assert_same(core, software, changed, eyes)
        seen.add(digest(core.render(changed, eyes)))
    # Those beyond the limits throw none, and so are one picture; the others throw theirs to different places.
    assert len(seen) == 4, len(seen)


@needs_compiler
@pytest.mark.parametrize("weather", ["noon", "night"])
def test_traffic_lights_have_the_bytes_of_the_software_renderer(core, software, weather):
    town = scene_builder_of(load_map("town"))
    scenes = [town.scene([], WEATHERS[weather], lights=[shown] * 99) for shown in (0, 1, 2)]
    x, y, z = scenes[0].moving.position[0]
    eyes = [
        Camera(Pose(x + dx, y + dy, z + 4.0, 0.0, 0.0, yaw), 90, 70, 70.0, EVERYTHING)
        for dx, dy, yaw in ((-9.0, 0.0, 0.0), (9.0, 0.0, 180.0), (0.0, -9.0, 90.0), (0.0, 9.0, -90.0))
    ]
    for scene in scenes:
        assert_same(core, software, scene, eyes)
    assert len({digest(core.render(scene, eyes)) for scene in scenes}) == 3, "what the light shows is seen"


@needs_compiler
def test_triangles_through_the_near_plane_have_the_same_bytes(core, software):
    chance = np.random.default_rng(5)
    eyes = [Camera(Pose(), 53, 41, 120.0, EVERYTHING), Camera(Pose(-4.0), 64, 48, 50.0, EVERYTHING)]
    for _ in range(10):
        assert_same(core, software, bare_scene(chance.normal(0.0, 2.0, (30, 3, 3))), eyes)


@needs_compiler
def test_what_was_drawn_before_leaves_nothing_behind(software):
    """Lamps come and go, actors come and go, the map changes: the device keeps memory, not pictures."""
    ours = CudaRenderer(HostDevice())
    bare = bare_scene([WEDGE])
    for scene in (street_scene("night"), street_scene("noon"), bare, street_scene("dusk"), street_scene("night")):
        assert_same(ours, software, scene, cameras(width=60, height=40))


@needs_compiler
@pytest.mark.parametrize("weather", WEATHERS)
def test_sky_and_glow_have_the_bytes_of_the_software_renderer(weather):
    device, scene = HostDevice(), street_scene(weather)
    prepared = ScenePreparer().prepare(scene)
    numbers, grid = prepared.shade.numbers.copy(), prepared.static.grid
    sky = device.paint_sky(np.zeros_like(prepared.shade.sky), prepared.shade.noise, prepared.kept.sky_numbers)
    assert sky.tobytes() == prepared.shade.sky.tobytes()
    numbers[[shading.GLOW_X, shading.GLOW_Y, shading.GLOW_PER_M]] = grid.x_m, grid.y_m, grid.cells_per_m
    lamps = np.concatenate([prepared.shade.lamps, prepared.shade.beams])
    assert (len(lamps) > 0) == (weather in {"dusk", "night"})
    ours, theirs = (np.zeros((grid.rows, grid.columns), np.float32) for _ in range(2))
    shading.add_lamps(theirs, grid.x_m, grid.y_m, grid.cells_per_m, lamps)
    assert device.add_glow(ours, numbers, lamps).tobytes() == theirs.tobytes()
    assert theirs.any() == (len(lamps) > 0)


def test_the_text_reads_the_records_that_python_writes():
    for group, kinds in records.TYPES.items():
        body = re.search(rf"struct {group.__name__} {{(.*?)}};", TEXT, re.DOTALL).group(1)
        fields = []
        for kind, names in re.findall(r"(?:const )?(\w+) (\*[^;]*);", body):
            fields += [(name.strip(" *"), TYPES[kind]) for name in names.split(",")]
        assert fields == list(zip(group._fields, kinds.split(), strict=True)), group.__name__


def test_the_text_has_the_numbers_that_python_has():
    numbers = {}
    for body in re.findall(r"enum {(.*?)};", TEXT, re.DOTALL):
        following = 0
        for item in body.split(","):
            name, _, value = (part.strip() for part in item.partition("="))
            following = eval(value, {}, dict(numbers)) if value else following
            numbers[name], following = following, following + 1
    numbers |= {name: float(value) for name, value in re.findall(r"#define (\w+_M) (\S+)", TEXT)}
    shared = [name for name in numbers if isinstance(getattr(shading, name, None), int)]
    # All of them: seven of the weather's numbers are colours or directions, with one name for three.
    assert len(shared) == len(Material) + shading.NUMBERS - 2 * 7 + len(("SIGNAL", "SKY_SIZE", "TILE", "LEVELS")), shared
    for name in shared:
        assert numbers[name] == getattr(shading, name), name
    for material in Material:
        assert numbers[material.name] == material
    for name in ("SUN", "GLOW", "HIGH", "LOW", "FOG", "CLOUD", "CLOUDS", "STRENGTH", "NIGHT"):
        assert numbers[f"SKY_{name}"] == getattr(shading, f"_{name}"), name
    assert (numbers["LEVELS"], numbers["SKY_LABEL"]) == (LEVELS, Label.SKY)
    assert numbers["CHANNELS"] == len(Channel)
    assert numbers["DEPTH_STEPS_PER_M"] == images.DEPTH_STEPS_PER_M
    assert (numbers["NEAR_M"], numbers["FAR_M"]) == (interface.NEAR_M, interface.FAR_M)
    assert numbers["SHADOW_REACH_M"] == prepare.SHADOW_REACH_M
    # Rows of all levels together stay below the one: every place in the order of drawing fits into a key.
    assert numbers["ORDER_MAX"] > ROW_MASK


@needs_compiler
def test_arrays_of_other_types_are_converted_and_outputs_never(core):
    scene, eyes = street_scene(), cameras(width=40, height=30)
    moving = replace(scene.moving, position=np.asfortranarray(scene.moving.position), id=scene.moving.id.astype(np.int64))
    # Against itself: for other types the software renderer would be compiled once more.
    assert digest(core.render(replace(scene, moving=moving), eyes)) == digest(core.render(scene, eyes))
    prepared, batch = ScenePreparer().prepare(scene), core.render(scene, eyes)
    out = batch.arrays._replace(depth=batch.arrays.depth.astype(np.float64))
    with pytest.raises(SimulatorError, match="an array of f4 in one piece was wanted for depth, but float64 came"):
        HostDevice().draw(prepared, camera_arrays_of(eyes, batch.offsets), out, 1.0)


@needs_compiler
def test_no_cameras_give_no_frames_and_bad_ones_are_refused(core):
    assert len(core.render(street_scene(), [])) == 0
    with pytest.raises(InputError, match="1 to 4 samples a side were wanted"):
        core.render(street_scene(), cameras(samples=5))


@needs_compiler
def test_the_built_core_is_kept_and_used_again(tmp_path, monkeypatch):
    kept = tmp_path / "kept"
    kept.mkdir()
    monkeypatch.setattr(host_device, "cache_folder", lambda _: kept)
    host_device._library.__wrapped__()
    (built,) = kept.iterdir()
    stamp = built.stat().st_mtime_ns
    host_device._library.__wrapped__()
    assert [path.stat().st_mtime_ns for path in kept.iterdir()] == [stamp]


def test_a_missing_compiler_is_told_in_one_line(monkeypatch):
    monkeypatch.setattr(host_device, "COMPILER", "no-such-compiler")
    with pytest.raises(SimulatorError, match=r"^the core of the CUDA renderer needs no-such-compiler on this machine: [^\n]*$"):
        host_device._library.__wrapped__()


@needs_compiler
def test_what_a_compiler_complains_about_is_told_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(host_device, "cache_folder", lambda _: None)
    monkeypatch.setattr(host_device, "FLAGS", ("-std=c++17", "-no-such-flag"))
    with pytest.raises(SimulatorError, match=r"could not build the core of the CUDA renderer: [^\n]*no-such-flag[^\n]*$"):
        host_device._library.__wrapped__()
