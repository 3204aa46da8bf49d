"""Meshes: closed where they should be, of the size physics knows, in falling detail, under CARLA's labels."""

from itertools import pairwise

import numpy as np
import pytest

from samepath.core.catalogue import CATALOGUE, PropType, VehicleType
from samepath.core.errors import UnknownNameError
from samepath.core.states import ActorState, Pose, Vector
from samepath.simulator.maps import load_map
from samepath.simulator.sensors.labels import OF_KIND, ActorAppearance, Label, Odometer
from samepath.simulator.sensors.meshes import actor_models
from samepath.simulator.sensors.meshes.people import PHASES, STANDING, phase_of
from samepath.simulator.sensors.scene_builder import build, fixed_objects
from samepath.simulator.sensors.weather import SceneWeather
from tests.support.camera_scenes import ACTORS, looks, street

VEHICLES = [name for name, kind in CATALOGUE.items() if isinstance(kind, VehicleType)]
PROPS = [name for name, kind in CATALOGUE.items() if isinstance(kind, PropType)]


def size_of(shape):
    return shape.vertices.min(axis=0), shape.vertices.max(axis=0)


ROUNDING_M = 1e-6  # of coordinates of 32 bits


@pytest.mark.parametrize("name", [*VEHICLES, *PROPS])
def test_a_model_is_inside_the_box_of_its_type_and_reaches_its_top(name):
    kind, model = CATALOGUE[name], actor_models().single[name]
    half = np.array([kind.length_m, kind.width_m]) / 2
    for number, level in enumerate(model.levels):
        low, high = size_of(level)
        assert (low >= [*-half - ROUNDING_M, -ROUNDING_M]).all()
        assert (high <= [*half + ROUNDING_M, kind.height_m + ROUNDING_M]).all()
        assert number == 2 or high[2] >= 0.9 * kind.height_m  # from afar nobody sees the ladder of a fire engine


@pytest.mark.parametrize("name", VEHICLES)
def test_a_vehicle_fills_its_box(name):
    kind, model = CATALOGUE[name], actor_models().single[name]
    low, high = size_of(model.levels[0])
    assert high[0] - low[0] >= (0.9 if kind.upright else 0.99) * kind.length_m
    assert high[1] - low[1] >= (0.7 if kind.upright else 0.99) * kind.width_m


@pytest.mark.parametrize("name", VEHICLES)
def test_vehicles_have_three_levels_of_falling_detail_and_their_label(name):
    kind, model = CATALOGUE[name], actor_models().single[name]
    counts = [len(level.faces) for level in model.levels]
    assert counts[0] > 1.5 * counts[1] > 1.5 * 1.5 * counts[2]
    assert counts[0] <= 1000
    wanted = {OF_KIND[kind.kind], Label.RIDER} if kind.upright else {OF_KIND[kind.kind]}
    for level in model.levels:
        assert set(level.labels.tolist()) == wanted


def all_shapes():
    models = actor_models()
    for name, model in models.single.items():
        yield from ((f"{name} {k}", shape) for k, shape in enumerate(model.levels))
    for height, poses in models.posed.items():
        yield from ((f"walker {height} {p} {k}", shape) for p, pose in enumerate(poses) for k, shape in enumerate(pose.levels))
    for thing in {thing.recipe: thing for thing in fixed_objects(load_map("town"))}.values():
        yield from ((f"{thing.recipe[0]} {k}", shape) for k, shape in enumerate(build(thing.recipe).levels))


def test_every_mesh_is_sound():
    for name, shape in all_shapes():
        corners = shape.vertices[shape.faces].astype(np.float64)
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        size = np.linalg.norm(normals, axis=1)
        assert (size > 0).all(), name
        np.testing.assert_allclose(normals / size[:, None], shape.normals, atol=2e-3, err_msg=name)
        assert ((shape.colours >= 0) & (shape.colours <= 1)).all(), name
        assert (shape.labels > 0).all(), name
        # Turned outwards: the volume that the faces enclose about the middle is positive. Plates have hardly any.
        corners -= 0.5 * (corners.min(axis=(0, 1)) + corners.max(axis=(0, 1)))
        volume = np.einsum("ij,ij->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2]))
        assert volume > 0 or name.startswith("sign"), name


def test_steps_follow_the_distance_walked():
    height_m = 1.75
    phases = [phase_of(0.01 * step, height_m) for step in range(400)]
    assert set(phases) == set(range(PHASES))
    assert all((b - a) % PHASES in {0, 1} for a, b in pairwise(phases))
    assert len(actor_models().posed[height_m]) == STANDING + 1
    poses = [pose.levels[0].vertices.tobytes() for pose in actor_models().posed[height_m]]
    assert len(set(poses)) == len(poses)


def test_the_odometer_sums_what_is_walked_and_can_be_kept():
    def at(x, speed=1.0):
        return ActorState(4, Pose(x_m=x), Vector(speed), Vector(), Vector())

    odometer = Odometer()
    for x in (0.0, 0.5, 1.5):
        odometer.advance([at(x)])
    assert odometer.walked_m(at(1.5)) == 1.5
    assert odometer.walked_m(at(1.5, speed=0.0)) is None
    again = Odometer.restore(odometer.state())
    again.advance([at(2.0)])
    assert again.walked_m(at(2.0)) == 2.0
    again.advance([])
    assert again.walked_m(at(2.0)) == 0.0


def test_a_scene_has_every_actor_once_and_everything_fixed_under_a_name_of_its_own():
    scene = street().scene(looks())
    assert scene.moving.id[: len(ACTORS)].tolist() == list(range(1, len(ACTORS) + 1))
    ids = np.concatenate([scene.fixed.id, scene.moving.id])
    assert len(set(ids.tolist())) == len(ids)
    names = street().names
    assert len(names) == len(scene.fixed) == len(set(names))
    hidden = frozenset(name for name in names if name.endswith("building"))
    assert hidden
    assert len(street().scene([], hidden=hidden).fixed) == len(names) - len(hidden)
    assert street().scene([]).fixed is street().scene([], SceneWeather(50.0)).fixed
    with pytest.raises(ValueError, match="read-only"):
        scene.shapes.vertices[0] = 0.0


def test_an_unknown_type_is_refused():
    with pytest.raises(UnknownNameError, match="actor type"):
        street().scene([ActorAppearance(1, "vehicle.nobody.knows", Pose())])


def test_the_frame_before_is_found_by_id():
    before = street().scene(looks(-1.0)[::-1])
    scene = street().scene(looks(), before=before)
    np.testing.assert_allclose((scene.moving.position - scene.moving.was_position)[: len(ACTORS), 0], 1.0)
    assert (scene.moving.position[len(ACTORS) :] == scene.moving.was_position[len(ACTORS) :]).all()
