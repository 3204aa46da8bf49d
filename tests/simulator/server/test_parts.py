"""Bones and components over the wire: CARLA's names, where the pictures have the joints."""

import math

import numpy as np
import pytest
from test_episode import place, spawn

from samepath.core.errors import SamepathError
from samepath.core.states import Pose
from samepath.simulator.physics.frames import attached_pose, relative_pose
from samepath.simulator.server.methods.parts import vehicle_lamps
from tests.support.serving import call, episode, ticks

# What CARLA's draw_skeleton.py draws lines between.
DRAWN = {
    "crl_hips__C", "crl_spine__C", "crl_spine01__C", "crl_neck__C", "crl_Head__C", "crl_eye__L", "crl_eye__R",
    "crl_shoulder__L", "crl_arm__L", "crl_foreArm__L", "crl_hand__L", "crl_handThumb__L", "crl_handThumb01__L",
    "crl_handThumb02__L", "crl_handThumbEnd__L", "crl_handIndex__L", "crl_handPinkyEnd__R", "crl_handMiddle02__R",
    "crl_handRing01__L", "crl_thigh__R", "crl_leg__R", "crl_foot__R", "crl_toe__R", "crl_toeEnd__R", "crl_thigh__L",
    "crl_toeEnd__L",
}  # fmt: skip


@pytest.fixture
def host():
    return episode()


def walker(host, yaw=30.0):
    x, y, z = call(host, "get_map_info")[1][0][0]
    return spawn(host, "walker.pedestrian.0015", transform=place(x, y, z + 1.0, yaw=yaw)).id


def bones_of(host, actor):
    ((found,),) = (call(host, "get_bones_transform", actor),)
    return {name: (world, component, relative) for name, world, component, relative in found}


def test_a_walker_has_carlas_bones_in_the_order_of_a_body(host):
    actor = walker(host)
    ticks(host, 20)
    bones = bones_of(host, actor)
    assert set(bones) >= DRAWN
    assert list(bones) == list(call(host, "get_actor_bone_names", actor))
    height = {name: world.location.z for name, (world, _, _) in bones.items()}
    body = [
        "crl_toeEnd__R",
        "crl_foot__R",
        "crl_leg__R",
        "crl_thigh__R",
        "crl_spine__C",
        "crl_spine01__C",
        "crl_neck__C",
        "crl_Head__C",
    ]
    assert sorted(body, key=height.__getitem__) == body
    pose = host.world.state(actor).pose
    kind = host.world.kind(actor)
    assert height["crl_root"] == pytest.approx(pose.z_m - kind.height_m / 2)
    # Everything within reach, the right hand to the right of the left one.
    for world, _, _ in bones.values():
        assert math.dist(world.location[:2], (pose.x_m, pose.y_m)) < 0.5 * kind.height_m
    right, left = (bones[f"crl_hand__{side}"][1].location.y for side in "RL")
    assert right > 0.1 > -0.1 > left


def test_bones_hang_together(host):
    actor = walker(host)
    ticks(host, 20)
    names = call(host, "get_actor_bone_names", actor)
    bones = bones_of(host, actor)
    pose = host.world.state(actor).pose
    for world, component, _ in bones.values():
        again = attached_pose(pose, pose_of(component))
        assert (again.x_m, again.y_m, again.z_m) == pytest.approx(tuple(world.location), abs=1e-5)
    forearm, hand = bones["crl_foreArm__R"], bones["crl_hand__R"]
    again = attached_pose(pose_of(forearm[1]), pose_of(hand[2]))
    assert (again.x_m, again.y_m, again.z_m) == pytest.approx(tuple(hand[1].location), abs=1e-6)
    assert again.pitch_deg == pytest.approx(hand[1].rotation.pitch, abs=1e-3)
    assert call(host, "get_actor_bone_world_transforms", actor) == tuple(bones[name][0] for name in names)
    assert call(host, "get_actor_bone_relative_transforms", actor) == tuple(bones[name][2] for name in names)


def pose_of(transform):
    pitch, yaw, roll = transform.rotation
    return Pose(*transform.location, roll, pitch, yaw)


def test_legs_swing_while_walking_and_stand_still_otherwise(host):
    actor = walker(host)
    ticks(host, 20)
    before = bones_of(host, actor)["crl_foot__R"][1]
    ticks(host, 5)
    assert bones_of(host, actor)["crl_foot__R"][1] == before
    call(host, "apply_control_to_walker", actor, ((1.0, 0.0, 0.0), 1.4, False))
    seen = set()
    for _ in range(30):
        ticks(host, 1)
        bones = bones_of(host, actor)
        seen.add(round(bones["crl_foot__R"][1].location.x - bones["crl_foot__L"][1].location.x, 3))
    assert max(seen) > 0.3
    assert min(seen) < -0.3


def test_a_vehicle_has_a_body_and_wheels_that_steer(host):
    car = spawn(host).id
    ticks(host, 20)
    call(host, "apply_control_to_vehicle", car, (0.0, 0.5, 0.0, False, False, False, 0))
    ticks(host, 1)
    names = call(host, "get_actor_bone_names", car)
    assert names == ("Vehicle_Base", "Wheel_Front_Left", "Wheel_Front_Right", "Wheel_Rear_Left", "Wheel_Rear_Right")
    found = dict(zip(names, call(host, "get_vehicle_bone_world_transforms", car), strict=True))
    pose, kind = host.world.state(car).pose, host.world.kind(car)
    assert tuple(found["Vehicle_Base"].location) == (pose.x_m, pose.y_m, pose.z_m)
    front, rear = found["Wheel_Front_Left"], found["Wheel_Rear_Left"]
    assert math.dist(front.location, rear.location) == pytest.approx(kind.wheel_base_m)
    assert (front.rotation.yaw - pose.yaw_deg) % 360.0 == pytest.approx(35.0, abs=0.1)
    assert rear.rotation.yaw == pytest.approx(pose.yaw_deg, abs=1e-3)


def test_components_are_named_and_placed(host):
    car = spawn(host).id
    names = call(host, "get_actor_component_names", car)
    assert names[:2] == ("VehicleMesh", "VehicleBounds")
    box = call(host, "get_actor_bounding_box", car)
    assert tuple(call(host, "get_actor_component_relative_transform", car, "VehicleBounds").location) == tuple(box.location)
    world = call(host, "get_actor_component_world_transform", car, "VehicleBounds")
    assert world.location.z == pytest.approx(host.world.state(car).pose.z_m + box.location.z, abs=1e-3)
    with pytest.raises(SamepathError, match="no component 'Turbo'; it has: VehicleMesh"):
        call(host, "get_actor_component_world_transform", car, "Turbo")
    assert call(host, "get_actor_component_names", host.spectator.id) == ("DefaultSceneRoot",)
    assert call(host, "get_actor_bone_names", host.spectator.id) == ()
    for kind in ("names", "world_transforms", "relative_transforms"):
        assert call(host, f"get_actor_socket_{kind}", car) == ()


SIDES = ("-l-1", "-r-1")


def test_a_vehicles_lamps_are_components_where_its_picture_has_them(host):
    car = spawn(host).id
    kind = host.world.kind(car)
    lamps = [name for name in call(host, "get_actor_component_names", car) if name.startswith(("front-", "back-"))]
    front, back = ("position", "low_beam", "high_beam", "blinker"), ("position", "brake", "reverse", "blinker")
    wanted = {f"front-{name}{side}" for name in front for side in SIDES} | {
        f"back-{name}{side}" for name in back for side in SIDES
    }
    assert set(lamps) == wanted
    for name in lamps:
        x, y, z = call(host, "get_actor_component_relative_transform", car, name).location
        assert (x if name.startswith("front-") else -x) > 0.45 * kind.length_m
        assert (y if name.endswith("-r-1") else -y) > 0.1 * kind.width_m
        assert 0.2 * kind.height_m < z < 0.7 * kind.height_m


def test_a_lamp_in_the_middle_is_on_no_side_and_a_blue_light_is_on_top(host):
    x, y, z = call(host, "get_map_info")[1][0][0]
    bike = spawn(host, "vehicle.yamaha.yzf", transform=place(x, y, z + 0.5)).id
    lamps = call(host, "get_actor_component_names", bike)[2:]
    assert lamps == ("back-brake-1", "back-position-1", "front-high_beam-1", "front-low_beam-1", "front-position-1")
    assert vehicle_lamps("vehicle.dodge.charger_police")["special1-1"][2] > 1.4
    assert "special1-1" not in vehicle_lamps("vehicle.dodge.charger_2020")


@pytest.mark.parametrize("name", ["get_bones_transform", "get_actor_component_names", "get_vehicle_bone_world_transforms"])
def test_who_is_gone_has_no_parts(host, name):
    with pytest.raises(SamepathError, match="999"):
        call(host, name, 999)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("set_bones_transform", "cannot be posed"),
        ("blend_pose", "cannot be posed"),
    ],
)
def test_the_rest_is_refused_in_words(host, name, words):
    with pytest.raises(SamepathError, match=words):
        call(host, name)


def test_relative_is_attached_the_other_way_round():
    rng = np.random.default_rng(3)
    for _ in range(50):
        parent, pose = (Pose(*rng.uniform(-9, 9, 3), *rng.uniform(-80, 80, 3)) for _ in range(2))
        again = attached_pose(parent, relative_pose(parent, pose))
        assert tuple(again) == pytest.approx(tuple(pose), abs=1e-6)
