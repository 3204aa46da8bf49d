"""Rays on a card: what they meet on the processor, to the bit. The kernels run here thread by thread; no card is needed."""

import ctypes
import random
import re
import shutil
import subprocess

import numpy as np
import pytest

from samepath.core.states import Pose
from samepath.core.trig import sincos_deg
from samepath.simulator.maps import load_map
from samepath.simulator.sensors.cuda import rays as card_rays
from samepath.simulator.sensors.cuda.driver import HERE, CardError
from samepath.simulator.sensors.cuda.host_device import COMPILER, FLAGS
from samepath.simulator.sensors.cuda.rays import AutoRayCaster, CardRayCaster
from samepath.simulator.sensors.lidar import Lidar
from samepath.simulator.sensors.rays import kernels
from samepath.simulator.sensors.rays.caster import RayCaster
from samepath.simulator.sensors.rays.kernels import ray_grid, ray_list
from samepath.simulator.sensors.scene_builder import scene_builder_of
from samepath.simulator.sensors.sensor import NoiseKey
from tests.support.camera_scenes import along, looks, street_scene
from tests.support.emulated_card import EmulatedCard
from tests.support.ray_scenes import ball, box, floor, scene_of

pytestmark = pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"{COMPILER} is not installed")
TEXT = (HERE / "rays.h").read_text("utf-8")


def angles(degrees):
    pairs = [sincos_deg(angle_deg) for angle_deg in degrees]
    return np.array([sine for sine, _ in pairs]), np.array([cosine for _, cosine in pairs])


def scan(rows=16, columns=360, low_deg=-25.0, high_deg=10.0):
    bundle, _ = ray_grid(
        *angles(np.linspace(low_deg, high_deg, rows).tolist()), *angles(np.linspace(0, 360, columns, endpoint=False).tolist())
    )
    return bundle


def echoes(chance, count=300):
    bundle, _ = ray_list(
        *angles([chance.uniform(-90, 90) for _ in range(count)]), *angles([chance.uniform(-180, 180) for _ in range(count)])
    )
    return bundle


def assert_same(ours, theirs, scene, pose, bundle, reach_m=80.0):
    """Every number of both, bit by bit; how many rays met something."""
    hits, other = ours.cast(scene, pose, bundle, reach_m), theirs.cast(scene, pose, bundle, reach_m)
    for name in ("distance_m", "label", "actor", "cosine"):
        assert getattr(hits, name).tobytes() == getattr(other, name).tobytes(), (name, pose)
    return int(np.isfinite(other.distance_m).sum())


@pytest.fixture(scope="module")
def casters():
    ours, theirs = CardRayCaster(EmulatedCard(seed=3)), RayCaster()
    yield ours, theirs
    ours.close()


def test_scans_and_echoes_from_anywhere_are_those_of_the_processor(casters):
    chance, scene, met = random.Random("anywhere"), street_scene("noon"), 0
    for number in range(12):
        pose = along(
            chance.uniform(-30, 80), chance.uniform(-20, 20), chance.choice((1.8, chance.uniform(-5.0, 40.0))),
            chance.uniform(-180, 180), chance.uniform(-90, 90), chance.uniform(-180, 180),
        )  # fmt: skip
        bundle = echoes(chance) if number % 2 else scan(8, 90)
        met += assert_same(*casters, scene, pose, bundle, chance.choice((3.0, 80.0, 1000.0)))
    assert met > 500, "most of them see something"


def test_a_town_with_traffic_is_that_of_the_processor(casters):
    town = scene_builder_of(load_map("town"))
    scene = town.scene(looks())
    x, y, z = scene.moving.position[0]
    assert assert_same(*casters, scene, Pose(x + 3.0, y, z + 2.0, 0.0, 0.0, 30.0), scan()) > 1000


def test_rays_on_edges_corners_and_faces_seen_from_the_side_are_those_of_the_processor(casters):
    # Sensors on the planes of the faces, rays exactly along the axes and diagonals.
    scene = scene_of(
        [box(2.0, 2.0, 2.0), floor(50.0), ball()], [(1, Pose(z_m=-1.0))], [(0, Pose(5.0)), (0, Pose(5.0)), (2, Pose())]
    )
    eights = [45.0 * k for k in range(8)]
    bundle, _ = ray_grid(*angles([-90.0, -45.0, 0.0, 45.0, 90.0]), *angles(eights))
    for pose in (Pose(), Pose(z_m=1.0), Pose(4.0, 1.0), Pose(5.0), Pose(4.0, 1.0, 1.0), Pose(0.0, 1.0, -1.0)):
        assert_same(*casters, scene, pose, bundle)
    _, theirs = casters
    # Of two boxes at the same place the first is met.
    assert 1 in theirs.cast(scene, Pose(), bundle, 80.0).actor


def test_nothing_at_all_is_met_by_no_ray_and_by_no_rays(casters):
    empty = scene_of([box()], [])
    assert assert_same(*casters, empty, Pose(), scan(4, 8)) == 0
    none, _ = ray_list(*angles([]), *angles([]))
    assert assert_same(*casters, street_scene("noon"), Pose(), none) == 0


def test_the_map_is_uploaded_once():
    card = EmulatedCard()
    ours, scene = CardRayCaster(card), street_scene("noon")
    ours.cast(scene, along(0.0, 0.0, 2.0), scan(2, 8), 50.0)
    first, card.uploaded_bytes = card.uploaded_bytes, 0
    ours.cast(scene, along(1.0, 0.0, 2.0), scan(2, 8), 50.0)
    # Tables of angles are most of it: 64 KB.
    assert card.uploaded_bytes < 100_000 < first


def test_a_lost_card_is_told_of_once_and_the_processor_goes_on_with_the_same_bytes():
    card, said, scene = EmulatedCard(), [], street_scene("noon")
    ours, theirs = AutoRayCaster(1, said.append, lambda: CardRayCaster(card)), RayCaster()
    assert_same(ours, theirs, scene, along(0.0, 0.0, 2.0), scan(4, 30))
    assert said == [] and "ray_cast" in card.launched
    card.lost = True
    for ahead_m in (1.0, 2.0):
        assert assert_same(ours, theirs, scene, along(ahead_m, 0.0, 2.0), scan(4, 30)) > 0
    (line,) = said
    assert line.startswith("rays are cast in software from now on, with the same bytes: the graphics card cannot draw")
    ours.close()


def hits_equal(hits, other):
    return all(
        getattr(hits, name).tobytes() == getattr(other, name).tobytes() for name in ("distance_m", "label", "actor", "cosine")
    )


@pytest.mark.parametrize("seed", [0, 5, 6])
def test_scans_under_way_together_meet_what_they_meet_alone(seed):
    """More of them than lanes, of two maps, asked for in another order than they were begun in; one is never asked for."""
    chance, ours, theirs = random.Random(seed), CardRayCaster(EmulatedCard(seed=seed)), RayCaster()
    street = street_scene("noon")
    boxes = scene_of([box(2.0, 2.0, 2.0), floor(50.0)], [(1, Pose(z_m=-1.0))], [(0, Pose(5.0))])
    asked = [
        (boxes if number % 5 == 3 else street, along(3.0 * number, 0.0, 2.0), scan(4, 30 + number), 80.0)
        for number in range(2 * card_rays.LANES + 3)
    ]
    under_way = [(ours.begin(*request), request) for request in asked]
    under_way.pop(2)
    chance.shuffle(under_way)
    for landed, request in under_way:
        assert hits_equal(landed(), theirs.cast(*request))
    ours.close()


def test_scans_under_way_on_a_card_that_is_lost_are_cast_by_the_processor():
    card, said, scene = EmulatedCard(), [], street_scene("noon")
    ours, theirs = AutoRayCaster(1, said.append, lambda: CardRayCaster(card)), RayCaster()
    asked = [(scene, along(float(ahead_m), 0.0, 2.0), scan(4, 30), 80.0) for ahead_m in range(6)]
    under_way = [ours.begin(*request) for request in asked]
    assert hits_equal(under_way[0](), theirs.cast(*asked[0]))
    card.lost = True
    for landed, request in zip(under_way[1:], asked[1:], strict=True):
        assert hits_equal(landed(), theirs.cast(*request))
    assert len(said) == 1
    ours.close()


def test_without_a_card_rays_are_cast_by_the_processor():
    def none():
        raise CardError("there is none")

    said = []
    ours = AutoRayCaster(1, said.append, none)
    assert assert_same(ours, RayCaster(), street_scene("noon"), along(0.0, 0.0, 2.0), scan(4, 30)) > 0
    assert said == ["rays are cast in software: there is none"]


def test_the_text_has_the_sizes_that_python_has():
    said = dict(re.findall(r"(\w+_BYTES) = (\d+)", TEXT))
    assert int(said["RAY_FACE_BYTES"]) == card_rays.RAY_FACE_BYTES
    assert int(said["RAY_BALL_BYTES"]) == card_rays.RAY_BALL_BYTES
    assert int(said["RAY_WORK_BYTES"]) == card_rays.RAY_WORK.size


QUIET = {"dropoff_general_rate": 0, "dropoff_intensity_limit": 0, "dropoff_zero_intensity": 0}
WHAT_BECOMES_OF_POINTS = {
    "nothing": QUIET,
    "CARLA's losses": {},
    "noise": {**QUIET, "noise_stddev": 0.3, "noise_seed": 7},
    "losses and noise": {"noise_stddev": 0.02, "dropoff_general_rate": 0.1},
    "only faint ones are lost": {"dropoff_general_rate": 0, "dropoff_intensity_limit": 1, "dropoff_zero_intensity": 1},
    "all are lost": {"dropoff_general_rate": 1},
    "rain": {"weather_attenuation": True},
    "no light comes back": {**QUIET, "atmosphere_attenuation_rate": 1000, "noise_stddev": 0.1},
}
SIZES = {
    "a scan": {"channels": 16, "points_per_second": 16 * 90 * 20},
    "one ray": {"channels": 1, "points_per_second": 20},
    "no ray": {"points_per_second": 1},
}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("becomes", WHAT_BECOMES_OF_POINTS.values(), ids=WHAT_BECOMES_OF_POINTS)
def test_points_that_the_card_makes_are_those_of_the_processor(casters, becomes, size):
    ours, theirs = casters
    shape = {"range": 60, "rotation_frequency": 17, "horizontal_fov": 300}
    scene, lidar = street_scene("rain"), Lidar.from_attributes({**shape, **size, **becomes})
    for tick in (0, 7):
        pose = along(4.0 * tick, 0.0, 2.0, 30.0 * tick, 5.0, 0.0)
        made, wanted = (lidar.scan(caster, scene, pose, 0.05 * tick, 0.05, NoiseKey(0, 3, tick)) for caster in (ours, theirs))
        assert made.to_bytes() == wanted.to_bytes()


def test_the_processor_is_spared_the_points_unless_they_are_named():
    card = EmulatedCard()
    ours, scene = CardRayCaster(card), street_scene("noon")
    for semantic, more in ((False, ["ray_points"]), (True, [])):
        lidar = Lidar.from_attributes({"range": 60, "points_per_second": 32 * 30 * 20}, semantic=semantic)
        card.launched.clear()
        scan = lidar.scan(ours, scene, along(0.0, 0.0, 2.0), 0.0, 0.05, NoiseKey())
        assert scan.points.size
        assert card.launched == ["ray_faces", "ray_balls", "ray_cast", *more]
    ours.close()


@pytest.mark.parametrize("lost_after", [0, 1, 4])
def test_points_under_way_on_a_card_that_is_lost_are_made_by_the_processor(lost_after):
    card, said, scene = EmulatedCard(seed=5), [], street_scene("noon")
    ours, theirs = AutoRayCaster(1, said.append, lambda: CardRayCaster(card)), RayCaster()
    lidar = Lidar.from_attributes({"range": 60, "points_per_second": 32 * 30 * 20, "noise_stddev": 0.1})
    asked = [(scene, along(float(ahead_m), 0.0, 2.0), 0.05 * ahead_m, 0.05, NoiseKey(0, 1, ahead_m)) for ahead_m in range(6)]
    under_way = [lidar.begin(ours, *request) for request in asked]
    for number, (landed, request) in enumerate(zip(under_way, asked, strict=True)):
        card.lost = number >= lost_after
        assert landed().to_bytes() == lidar.scan(theirs, *request).to_bytes()
    assert len(said) == 1
    ours.close()


def test_exponential_logarithm_and_cosine_of_the_text_are_ours_to_the_bit(tmp_path):
    """By themselves, over all they are asked for: in a scan most of their bits are rounded away."""
    source = tmp_path / "functions.cpp"
    source.write_text(
        '#include "core.h"\n#include "rays.h"\nextern "C" void all(const double *x, i64 n, double *to) {\n'
        "  for (i64 k = 0; k < n; k++) {\n"
        "    to[k] = exp_below_one(FAINTEST * x[k]);\n    to[n + k] = log_of(1.0 - x[k]);\n"
        "    to[2 * n + k] = cos_of_turn(x[k]);\n"
        "  }\n}\n",
        "utf-8",
    )
    built = tmp_path / "functions.so"
    subprocess.run([COMPILER, *FLAGS, "-I", str(HERE), "-o", str(built), str(source)], check=True)
    edges = [0.0, 0.5, 0.25, 0.125, 0.75, 1.0 - 2.0**-53, 2.0**-53, 2.0**-60, 1.0 / 700.0]
    x = np.concatenate([edges, np.random.default_rng(4).random(20_000), np.random.default_rng(5).random(5_000) * 1e-3])
    found = np.empty(3 * len(x))
    pointer = ctypes.POINTER(ctypes.c_double)
    ctypes.CDLL(str(built)).all(x.ctypes.data_as(pointer), ctypes.c_int64(len(x)), found.ctypes.data_as(pointer))
    wanted = [
        [kernels.exp_below_one(kernels.FAINTEST * at) for at in x.tolist()],
        [kernels.log_of(1.0 - at) for at in x.tolist()],
        [kernels.cos_of_turn(at) for at in x.tolist()],
    ]
    assert found.tobytes() == np.array(wanted).tobytes()
