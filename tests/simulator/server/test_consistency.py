"""The server's ways to report where actors are agree, and the check that compares them finds every fault put in."""

import random
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samepath.core.states import Collision, Vector
from samepath.simulator.carla.codec import CallError
from samepath.simulator.server import consistency
from samepath.simulator.server import episode as episode_module
from samepath.simulator.server.consistency import ConsistencyCheck
from samepath.simulator.server.methods import parts
from samepath.simulator.server.recorder import EpisodeRecorder
from samepath.simulator.server.ticking import TickFailedError
from samepath.simulator.traffic.traffic import TrafficSettings
from samepath.simulator.world.world import World
from tests.support.serving import call, described, episode, ticks

MODEL3 = "vehicle.tesla.model3"
WALKER = "walker.pedestrian.0001"
GO = (0.8, 0.1, 0.0, False, False, False, 0)
SMALL = {"image_size_x": 32, "image_size_y": 24}


def checked(map_name="t-junction", folder=None, full_every=1, **context):
    """An episode with a check after every tick; ``host.check`` is the check."""
    plain = episode(map_name, **({} if folder is None else {"folder": folder}))
    check = ConsistencyCheck(plain.context.outbox, full_every=full_every)
    changed = replace(plain.context, outbox=check, after_tick=check.after_tick, **context)
    host = episode_module.Episode(changed, map_name)
    host.settings = plain.settings
    host.check = check
    return host


def spawn(host, name, where, parent=None, **attributes):
    transform = [[*where[:3]], [0.0, where[3] if len(where) > 3 else 0.0, 0.0]]
    if parent is None:
        return call(host, "spawn_actor", described(name, **attributes), transform).id
    description = described(name, **attributes)
    return call(host, "spawn_actor_with_parent", description, transform, parent, 0, "").id


def spawn_at(host, point, name=MODEL3):
    return call(host, "spawn_actor", described(name), host.map.spawn_points[point]).id


def listen(host, sensor):
    """Let a client listen to a sensor, as far as the episode is concerned."""
    entry = host.actors.find(sensor)
    host.connections.subscriptions.add(entry.stream_id, 0)


@pytest.fixture
def busy(tmp_path):
    """Two cars about to collide, a walker, a prop, attached sensors and a recording."""
    host = checked("oval", tmp_path)
    call(host, "start_recorder", "busy.log", True)
    first = spawn(host, MODEL3, (34.0, -200.0, 0.3, 90.0))
    second = spawn(host, "vehicle.audi.tt", (34.0, -190.0, 0.3, -90.0))
    walker = spawn(host, WALKER, (30.0, -195.0, 1.0))
    prop = spawn(host, "static.prop.trafficcone01", (38.0, -190.0, 0.2))
    kinds = ["sensor.other.gnss", "sensor.other.imu", "sensor.other.collision"]
    for kind in kinds:
        listen(host, spawn(host, kind, (0.5, 0.1, 1.5), parent=first))
    listen(host, spawn(host, "sensor.camera.rgb", (1.5, 0.0, 1.7), parent=first, **SMALL))
    for car in (first, second):
        call(host, "apply_control_to_vehicle", car, GO)
    call(host, "apply_control_to_walker", walker, ((1.0, 0.0, 0.0), 1.4, False))
    host.cars, host.walker, host.prop = (first, second), walker, prop
    yield host
    host.end_recording()
    host.check.close()


def test_a_busy_world_agrees_with_itself_and_every_kind_of_witness_was_heard(busy):
    ticks(busy, 60)
    counts = busy.check.counts
    assert busy.check.ticks_checked == 60
    for kind in ("state", "record", "bones and components", "collision geometry", "image", "LiDAR scan"):
        assert counts[kind] == 60 * 4
    assert counts["recorder position"] > 59 * 4
    assert counts["sensor transform"] > 100
    assert counts["collision event"] > 0
    assert "60 ticks without a difference" in busy.check.summary()


def test_the_check_changes_no_bit():
    plain, watched = episode("t-junction"), checked("t-junction")
    for host in (plain, watched):
        cars = [spawn_at(host, point) for point in range(4)]
        for car in cars:
            call(host, "apply_control_to_vehicle", car, GO)
        ticks(host, 25)
        call(host, "destroy_actor", cars[1])
        ticks(host, 5)
    assert plain.world.digest == watched.world.digest


def test_a_town_with_traffic_agrees_with_itself():
    host = checked("town", traffic=TrafficSettings.read("vehicles=12,walkers=6"), full_every=5)
    ticks(host, 15)
    number = next(entry.id for entry in host.actors if entry.has_body)
    call(host, "destroy_actor", number)
    ticks(host, 5)
    assert host.check.counts["image"] >= 3 * 17


FAULTS = {}


def fault(pattern):
    def note(function):
        FAULTS[function.__name__] = (function, pattern)
        return function

    return note


@fault(r"the state message is \d.* m from the physics engine")
def positions_of_other_actors(host, patch):
    """The fault that was served until November 2026: rows in another order than ids."""
    good = World.state_array

    def swapped(world):
        ids, rows = good(world)
        return ids, np.roll(rows, 1, axis=0)

    patch.setattr(World, "state_array", swapped)


@fault("its angles differ from the physics engine")
def a_wrong_yaw(host, patch):
    good = World.state_array

    def turned(world):
        ids, rows = good(world)
        rows = rows.copy()
        rows[1, 5] += 0.01
        return ids, rows

    patch.setattr(World, "state_array", turned)


@fault("velocity .* the physics engine has")
def a_velocity_of_before(host, patch):
    good = World.state_array

    def late(world):
        ids, rows = good(world)
        rows = rows.copy()
        rows[:, 6:9] -= rows[:, 12:15] * 0.05
        return ids, rows

    patch.setattr(World, "state_array", late)


@fault("its record, its row and the physics engine differ")
def a_stale_record(host, patch):
    good = World.state
    kept = {}
    patch.setattr(World, "state", lambda world, number: kept.setdefault(number, good(world, number)))


@fault("its bones are at|a bone is .* m outside")
def bones_of_the_actor_before(host, patch):
    good = parts._bones
    patch.setattr(parts, "_bones", lambda host, number: good(host, max(number - 1, host.cars[0])))


@fault(r"component VehicleMesh is .* m from the physics engine")
def a_component_of_another_car(host, patch):
    good = type(host).pose
    other = host.actors.find(host.cars[1])
    patch.setattr(type(host), "pose", lambda host, entry: good(host, other if entry.has_body else entry))


@fault("a camera (sees it .* outside|above it does not see it)")
def images_of_somewhere_else(host, patch):
    good = episode_module.ViewBuilder.view

    def moved(builder):
        view = good(builder)
        first, *others = view.looks
        pose = first.pose._replace(x_m=first.pose.x_m + 1.0)
        return replace(view, looks=(replace(first, pose=pose), *others))

    patch.setattr(episode_module.ViewBuilder, "view", moved)


@fault("a LiDAR (hits it .* outside|above it does not hit it)")
def scans_of_somewhere_else(host, patch):
    patch.setattr(consistency, "_check_image", lambda *_: ())
    images_of_somewhere_else(host, patch)


@fault("its collider is .* m outside")
def a_collider_of_another_actor(host, patch):
    good = World.ray_hits

    def named(world, start, direction, reach_m):
        first, second = host.cars
        swap = {first: second, second: first}
        at = world.engine_bodies()[second].position_m
        there = Vector(at[0], at[1], start.z)
        hits = good(world, there if abs(start.y + 200.0) < 8.0 else start, direction, reach_m)
        return tuple(hit._replace(what=swap.get(hit.what, hit.what)) for hit in hits)

    patch.setattr(World, "ray_hits", named)


@fault("collided, but their bounding boxes are .* m apart")
def a_collision_with_the_wrong_actor(host, patch):
    good = World.tick

    def wrong(world, *arguments):
        return (*good(world, *arguments), Collision(host.cars[0], host.prop, Vector(1.0)))

    patch.setattr(World, "tick", wrong)


@fault("the recorder file is .* m from the physics engine")
def a_recording_of_the_tick_before(host, patch):
    good = EpisodeRecorder.tick
    last = {}

    def late(recorder, host, collisions):
        poses = {entry.id: host.pose(entry) for entry in host.actors}
        before, known = last.copy(), type(host).pose
        last.update(poses)
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(type(host), "pose", lambda host, entry: before.get(entry.id, known(host, entry)))
            good(recorder, host, collisions)

    patch.setattr(EpisodeRecorder, "tick", late)


@fault("sensor.* m from where it belongs")
def an_attached_sensor_left_behind(host, patch):
    sensor = next(entry for entry in host.actors if entry.type_id == "sensor.other.gnss")
    patch.setattr("samepath.simulator.server.ticking._carry", lambda episode: None)
    assert sensor.relative is not None


@fault("its measurement says frame")
def a_header_of_another_sensor(host, patch):
    good = type(host.actors).motion
    patch.setattr(type(host.actors), "motion", lambda registry, number: good(registry, host.cars[0]))


@pytest.mark.parametrize("name", FAULTS)
def test_the_check_finds(name, busy, monkeypatch):
    put_in, pattern = FAULTS[name]
    monkeypatch.setattr(consistency, "MAX_REPORTED", 1000)
    ticks(busy, 20)
    put_in(busy, monkeypatch)
    with pytest.raises(TickFailedError, match=pattern):
        ticks(busy, 25)


ACTIONS = ["spawn", "destroy", "read", "read all", "teleport", "control", "tick", "attach", "freeze", "reload"]


class AnyOrder:
    """Does what a list of steps says to an episode, in whatever order they come."""

    def __init__(self):
        self.host = checked("oval", full_every=1 << 30)
        self.points = self.host.map.spawn_points
        self.cars = []

    def do(self, action, number):
        chance = random.Random(number)
        if action in {"spawn", "reload", "read all", "tick"}:
            getattr(self, action.replace(" ", "_"))(number, chance)
        elif self.cars:
            getattr(self, action)(self.cars[number % len(self.cars)], number, chance)

    def spawn(self, number, chance):
        with suppress(CallError):
            self.cars.append(spawn_at(self.host, number % len(self.points)))

    def reload(self, number, chance):
        if number % 8 == 0:
            call(self.host, "load_new_episode", "oval", False, 0xFFFF)
            self.cars = []

    def read_all(self, number, chance):
        for car in chance.sample(self.cars, len(self.cars)):
            call(self.host, "get_physics_control", car)

    def tick(self, number, chance):
        ticks(self.host, 1)

    def destroy(self, car, number, chance):
        call(self.host, "destroy_actor", car)
        self.cars.remove(car)

    def read(self, car, number, chance):
        call(self.host, "get_actor_bone_world_transforms", car)
        call(self.host, "get_physics_control", car)

    def teleport(self, car, number, chance):
        x, y, z = chance.choice(self.points).location
        call(self.host, "set_actor_location", car, [x, y, z + 3.0])

    def control(self, car, number, chance):
        call(self.host, "apply_control_to_vehicle", car, GO)

    def attach(self, car, number, chance):
        spawn(self.host, "sensor.other.imu", (0.3, 0.2, 1.0), parent=car)

    def freeze(self, car, number, chance):
        call(self.host, "set_actor_simulate_physics", car, bool(number % 2))


STEPS = st.tuples(st.sampled_from(ACTIONS), st.integers(0, 1 << 16))


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, min_size=10, max_size=60))
def test_any_order_of_calls_leaves_a_world_that_agrees_with_itself(steps):
    world = AnyOrder()
    for action, number in steps:
        world.do(action, number)
    ticks(world.host, 2)
    assert world.host.check.ticks_checked >= 2


def test_an_error_names_five_differences_and_counts_the_others(busy, monkeypatch):
    ticks(busy, 1)
    positions_of_other_actors(busy, monkeypatch)
    with pytest.raises(TickFailedError, match=r"the world contradicts itself: .*; and \d+ more"):
        ticks(busy, 1)


def test_matrices_of_angles_are_those_of_carlas_own_client():
    carla = pytest.importorskip("carla")
    chance = np.random.default_rng(3)
    for _ in range(50):
        roll, pitch, yaw = chance.uniform(-180.0, 180.0, 3)
        own = consistency.axes_of_angles(roll, pitch, yaw)
        theirs = np.array(carla.Transform(carla.Location(), carla.Rotation(pitch, yaw, roll)).get_matrix())
        assert np.abs(own - theirs[:3, :3]).max() < 1e-5


def test_boxes_that_overlap_have_no_gap_and_others_have_theirs():
    def box(x_m, yaw_deg=0.0, half=(2.0, 1.0, 0.5)):
        axes = consistency.axes_of_angles(0.0, 0.0, yaw_deg)
        half_m = np.array(half)
        return consistency.CheckedBody(1, "", np.array([x_m, 0.0, 0.0]), axes, np.zeros(3), np.zeros(3), half_m)

    assert consistency.box_gap_m(box(0.0), box(3.9)) == 0.0
    assert consistency.box_gap_m(box(0.0), box(5.0)) == pytest.approx(1.0)
    assert consistency.box_gap_m(box(0.0), box(5.0, 90.0)) == pytest.approx(2.0)
    assert consistency.box_gap_m(box(0.0), box(3.9, 45.0)) == 0.0
