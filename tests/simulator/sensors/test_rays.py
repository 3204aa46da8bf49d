"""Rays against independent oracles: Embree, plain geometry, and balls from which no ray may escape."""

import numpy as np
import pytest

from samepath.core.errors import InputError
from samepath.core.states import Pose
from samepath.core.trig_arrays import sincos_deg
from samepath.simulator.maps import load_map
from samepath.simulator.physics.frames import axes_of, quaternion_of
from samepath.simulator.sensors.labels import ActorAppearance
from samepath.simulator.sensors.rays.caster import RayCaster
from samepath.simulator.sensors.rays.kernels import ray_grid, ray_list
from samepath.simulator.sensors.scene_builder import scene_builder_of
from tests.support.ray_scenes import ball, box, crowd, floor, scene_of


@pytest.fixture(scope="module")
def caster():
    return RayCaster()


def cone(elevations_deg, azimuths_deg):
    return ray_grid(*sincos_deg(np.array(elevations_deg, float)), *sincos_deg(np.array(azimuths_deg, float)))


def directions(elevations_deg, azimuths_deg):
    (sin_e, cos_e), (sin_a, cos_a) = (sincos_deg(np.array(angles_deg, float)) for angles_deg in (elevations_deg, azimuths_deg))
    x, y = cos_e[:, None] * cos_a, cos_e[:, None] * sin_a
    return np.stack([x, y, np.broadcast_to(sin_e[:, None], x.shape)], axis=-1).reshape(-1, 3)


def test_distances_equal_embrees_to_a_millimetre(caster):
    rtcore_scene = pytest.importorskip("embreex.rtcore_scene")
    mesh_construction = pytest.importorskip("embreex.mesh_construction")
    scene, reach_m = crowd(), 90.0
    triangles = [scene.world_triangles(placed, k) for placed in (scene.fixed, scene.moving) for k in range(len(placed))]
    oracle = rtcore_scene.EmbreeScene()
    mesh_construction.TriangleMesh(oracle, np.concatenate(triangles))
    elevations, azimuths = np.linspace(-80.0, 60.0, 32), np.arange(360) - 180.0 + 0.3
    bundle, number = cone(elevations, azimuths)
    generator = np.random.default_rng(8)
    apart, rays, met = [], 0, 0
    for _ in range(8):
        pose = Pose(*generator.uniform(-30, 30, 2), 12.0, *generator.uniform(-25, 25, 2), generator.uniform(-180, 180))
        ours = caster.cast(scene, pose, bundle, reach_m).distance_m[number].reshape(-1)
        ahead = (directions(elevations, azimuths) @ np.array(axes_of(quaternion_of(pose)))).astype(np.float32)
        start = np.tile(np.float32(pose[:3]), (len(ahead), 1))
        theirs = oracle.run(start, ahead, query="DISTANCE", dists=np.full(len(ahead), reach_m, np.float32))
        apart.append(np.abs(np.minimum(ours, reach_m) - np.minimum(theirs, reach_m)))
        rays, met = rays + len(ahead), met + int(np.isfinite(ours).sum())
    differs = np.concatenate(apart) > 1e-3
    assert met > 0.5 * rays
    # What is left lies on edges, which single precision sees a hair's breadth elsewhere.
    assert differs.sum() <= rays * 1e-4


def front_distance(oracle, normals, start, ahead, reach_m):
    """Embree meets faces from behind too: go on until one is met from the front."""
    away, found, left = np.zeros(len(ahead)), np.full(len(ahead), np.inf), np.ones(len(ahead), bool)
    for _ in range(20):
        hit = oracle.run((start + away[:, None] * ahead).astype(np.float32), ahead, output=True)
        met = left & (hit["primID"] >= 0)
        front = met & ((normals[hit["primID"]] * ahead).sum(axis=1) < 0.0)
        found[front] = away[front] + hit["tfar"][front]
        left = met & ~front
        away[left] += hit["tfar"][left] + 1e-4
        if not left.any():
            break
    return np.minimum(found, reach_m)


def test_in_a_street_distances_equal_embrees_to_a_millimetre(caster):
    rtcore_scene = pytest.importorskip("embreex.rtcore_scene")
    mesh_construction = pytest.importorskip("embreex.mesh_construction")
    road_map, reach_m = load_map("t-junction"), 80.0
    places = road_map.spawn_points
    cars = [
        ActorAppearance(k + 1, "vehicle.audi.tt", Pose(x, y, z - 0.5, yaw_deg=yaw)) for k, (x, y, z, yaw) in enumerate(places)
    ]
    scene = scene_builder_of(road_map).scene(cars)
    placed = [(instances, k) for instances in (scene.fixed, scene.moving) for k in range(len(instances))]
    triangles = np.concatenate([scene.world_triangles(instances, k) for instances, k in placed])
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    oracle = rtcore_scene.EmbreeScene()
    mesh_construction.TriangleMesh(oracle, triangles)
    elevations, azimuths = np.linspace(-30.0, 10.0, 24), np.arange(0.1, 360.0, 1.0)
    bundle, number = cone(elevations, azimuths)
    differs = rays = 0
    for x, y, z, yaw in places[::7]:
        pose = Pose(x, y, z + 1.9, 0.5, -1.0, yaw)
        ours = caster.cast(scene, pose, bundle, reach_m).distance_m[number].reshape(-1)
        ahead = (directions(elevations, azimuths) @ np.array(axes_of(quaternion_of(pose)))).astype(np.float32)
        theirs = front_distance(oracle, normals, np.tile(np.float32(pose[:3]), (len(ahead), 1)), ahead, reach_m)
        differs += np.count_nonzero(np.abs(np.minimum(ours, reach_m) - theirs) > 1e-3)
        rays += len(ahead)
    assert rays > 50_000
    assert differs <= rays * 1e-4


@pytest.mark.parametrize("tilt_deg", [0.0, 7.0, -90.0, 33.3])
def test_no_ray_slips_through_a_closed_surface(caster, tilt_deg):
    radius_m, offset_m = 10.0, 1.7
    scene = scene_of([ball(radius_m)], [], [(0, Pose(100.0, -50.0, 3.0, 11.0, 5.0, 20.0))])
    bundle, _ = cone(np.linspace(-90, 90, 64), np.arange(720) / 2.0)
    hits = caster.cast(scene, Pose(100.0 + offset_m, -50.0, 3.0, 0.0, tilt_deg, 3.0), bundle, 50.0)
    assert np.all(hits.distance_m <= radius_m + offset_m)
    assert np.all(hits.distance_m >= (radius_m - offset_m) * 0.98)
    assert np.all(hits.actor == 1)


def test_the_floor_is_as_far_as_the_height_over_the_sine(caster):
    scene = scene_of([floor()], [(0, Pose())])
    elevations = np.linspace(-89.0, -1.5, 20)
    bundle, number = cone(elevations, np.arange(0.0, 360.0, 5.0))
    # Straight above the diagonal on which the two halves of the floor meet.
    found = caster.cast(scene, Pose(0.0, 0.0, 2.0), bundle, 150.0).distance_m[number]
    np.testing.assert_allclose(found, np.broadcast_to(2.0 / -np.sin(np.radians(elevations))[:, None], found.shape), rtol=1e-12)


def test_nothing_is_met_beyond_the_reach(caster):
    scene = scene_of([box(2.0, 2.0, 2.0)], [(0, Pose(10.0))])
    bundle, _ = cone([0.0], [0.0])
    assert caster.cast(scene, Pose(), bundle, 9.1).distance_m[0] == pytest.approx(9.0, abs=1e-12)
    assert caster.cast(scene, Pose(), bundle, 8.9).distance_m[0] == np.inf


def test_faces_are_not_met_from_behind(caster):
    scene = scene_of([box(4.0, 4.0, 4.0), box(2.0, 2.0, 2.0)], [(0, Pose())], [(1, Pose(10.0))])
    bundle, _ = cone([0.0], [0.0])
    hits = caster.cast(scene, Pose(), bundle, 50.0)
    assert hits.distance_m[0] == pytest.approx(9.0)
    assert hits.actor[0] == 1


def test_hits_tell_label_actor_and_slant(caster):
    scene = scene_of(
        [floor(), box(2.0, 2.0, 2.0)], [(0, Pose())], [(1, Pose(0.0, 50.0, 1.0)), (1, Pose(10.0, 0.0, 1.0))], [1, 14]
    )
    bundle, number = cone([-30.0, 0.0], [-90.0, 0.0])
    hits = caster.cast(scene, Pose(0.0, 0.0, 1.0), bundle, 100.0)
    assert hits.label[number].tolist() == [[1, 1], [0, 14]]
    assert hits.actor[number].tolist() == [[0, 0], [0, 2]]
    np.testing.assert_allclose(hits.cosine[number], [[0.5, 0.5], [0.0, 1.0]], atol=1e-12)


def test_single_rays_meet_what_the_same_rays_of_a_fan_meet_to_the_bit(caster):
    scene, pose = crowd(), Pose(3.0, 4.0, 5.0, 1.0, 2.0, 3.0)
    elevations, azimuths = np.linspace(-40, 20, 9), np.linspace(-170, 180, 23)
    bundle, number = cone(elevations, azimuths)
    expected = caster.cast(scene, pose, bundle, 100.0)
    order = np.random.default_rng(1).permutation(number.size)
    rows, columns = np.unravel_index(order, number.shape)
    (sin_e, cos_e), (sin_a, cos_a) = sincos_deg(elevations), sincos_deg(azimuths)
    single, place = ray_list(sin_e[rows], cos_e[rows], sin_a[columns], cos_a[columns])
    found = caster.cast(scene, pose, single, 100.0)
    for field in ("distance_m", "label", "actor", "cosine"):
        assert getattr(found, field)[place].tobytes() == getattr(expected, field)[number.reshape(-1)[order]].tobytes()


def test_threads_change_no_bit(caster):
    scene, pose = crowd(), Pose(-3.0, 4.0, 2.0, 1.0, -2.0, 100.0)
    bundle, _ = cone(np.linspace(-40, 20, 16), np.linspace(-180, 179, 301))
    expected = caster.cast(scene, pose, bundle, 100.0)
    for threads in (2, 3):
        several = RayCaster(threads)
        found = several.cast(scene, pose, bundle, 100.0)
        several.close()
        for field in ("distance_m", "label", "actor", "cosine"):
            assert getattr(found, field).tobytes() == getattr(expected, field).tobytes()


def test_a_scene_with_nothing_in_it_is_no_obstacle(caster):
    scene = scene_of([box()], [])
    bundle, _ = cone([0.0, 1.0], [0.0])
    assert np.all(np.isinf(caster.cast(scene, Pose(), bundle, 10.0).distance_m))
    nothing, _ = cone([0.0], [])
    assert caster.cast(scene, Pose(), nothing, 10.0).distance_m.shape == (0,)


def test_threads_are_counted_from_one():
    with pytest.raises(InputError, match="threads: a whole number from 1 to 1024 was wanted, but 0 came"):
        RayCaster(0)
