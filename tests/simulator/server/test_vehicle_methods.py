"""Vehicles and walkers over the wire: pedals, pushes, and a physics control that really changes the physics."""

import math

import numpy as np
import pytest
from test_episode import MODEL3, place, spawn, state, states

from samepath.core.errors import SamepathError
from samepath.simulator.carla import blueprints
from samepath.simulator.carla.records import PhysicsControl
from samepath.simulator.server import snapshot
from tests.support.serving import call, described, episode, ticks

GO = (1.0, 0.0, 0.0, False, False, False, 0)
STOP = (0.0, 0.0, 1.0, False, False, False, 0)
WALKER = "walker.pedestrian.0001"
VEHICLES = [blueprint.id for blueprint in blueprints.library() if blueprint.id.startswith("vehicle.")]


@pytest.fixture
def flat():
    """The oval's straight: 330 m of flat road, y from -265 to 65."""
    return episode("oval")


def on_the_straight(host, name=MODEL3, x=34.0, **attributes):
    actor = spawn(host, name, transform=place(x, -200.0, 0.3, yaw=90.0), **attributes).id
    ticks(host, 20)
    return actor


def speed(host, actor):
    return float(np.linalg.norm(state(host, actor)["motion"][6:9]))


def along(host, actor):
    return float(state(host, actor)["motion"][1])


def physics(host, actor) -> PhysicsControl:
    return call(host, "get_physics_control", actor)


def apply(host, actor, **changes):
    control = physics(host, actor)
    wheel_changes = {key: value for key, value in changes.items() if key in control.wheels[0]._fields}
    rest = {key: value for key, value in changes.items() if key not in wheel_changes}
    wheels = tuple(wheel._replace(**wheel_changes) for wheel in control.wheels)
    call(host, "apply_physics_control", actor, control._replace(wheels=wheels, **rest))


def distance_after(host, actor, control, count):
    start = along(host, actor)
    call(host, "apply_control_to_vehicle", actor, control)
    ticks(host, count)
    return along(host, actor) - start


@pytest.mark.parametrize("name", VEHICLES)
def test_physics_control_comes_back_as_it_was_given(flat, name):
    actor = spawn(flat, name, transform=place(34.0, -200.0, 0.3, yaw=90.0)).id
    control = physics(flat, actor)
    assert len(control.wheels) == 4
    changed = control._replace(mass=control.mass * 1.5, drag_coefficient=5.0, moi=2.0, gear_switch_time=0.7)
    call(flat, "apply_physics_control", actor, changed)
    again = physics(flat, actor)
    assert again._replace(wheels=()) == changed._replace(wheels=())
    assert [wheel[:9] for wheel in again.wheels] == [wheel[:9] for wheel in changed.wheels]
    ticks(flat, 5)


def test_a_physics_control_given_back_unchanged_changes_next_to_nothing(flat):
    plain, same = on_the_straight(flat, x=30.0), on_the_straight(flat, x=35.0)
    apply(flat, same)
    assert math.isclose(distance_after(flat, plain, GO, 0), 0.0)
    call(flat, "apply_control_to_vehicle", same, GO)
    ticks(flat, 80)
    assert math.isclose(along(flat, plain), along(flat, same), abs_tol=0.05)


@pytest.mark.parametrize(
    ("changes", "slower"),
    [
        ({"mass": 4000.0}, True),
        ({"torque_curve": ((0.0, 100.0), (16000.0, 100.0))}, True),
        ({"max_rpm": 3000.0}, True),
        ({"final_ratio": 0.5}, True),
        ({"tire_friction": 0.4}, True),
        ({"drag_coefficient": 20.0}, True),
        ({"long_stiff_value": 20.0}, True),
        ({"radius": 60.0}, True),
        ({"tire_friction": 8.0}, False),
    ],
)
def test_what_is_changed_is_felt_when_accelerating(flat, changes, slower):
    plain, other = on_the_straight(flat, x=30.0), on_the_straight(flat, x=35.0)
    apply(flat, other, **changes)
    for actor in (plain, other):
        call(flat, "apply_control_to_vehicle", actor, GO)
    ticks(flat, 100)
    plain_m, other_m = (along(flat, actor) + 200.0 for actor in (plain, other))
    assert plain_m > 20.0
    assert other_m < 0.97 * plain_m if slower else other_m > 1.03 * plain_m


@pytest.mark.parametrize(("changes", "longer"), [({"tire_friction": 1.0}, True), ({"max_brake_torque": 200.0}, True)])
def test_what_is_changed_is_felt_when_braking(flat, changes, longer):
    plain, other = on_the_straight(flat, x=30.0), on_the_straight(flat, x=35.0)
    apply(flat, other, **changes)
    for actor in (plain, other):
        call(flat, "set_actor_target_velocity", actor, [0.0, 20.0, 0.0])
        call(flat, "apply_control_to_vehicle", actor, STOP)
    ticks(flat, 120)
    plain_m, other_m = (along(flat, actor) + 200.0 for actor in (plain, other))
    assert (other_m > 1.5 * plain_m) is longer


def test_steering_angle_and_curve_bend_the_path(flat):
    def turned(**changes):
        host = episode("oval")
        actor = on_the_straight(host)
        if changes:
            apply(host, actor, **changes)
        call(host, "apply_control_to_vehicle", actor, (0.3, 0.5, 0.0, False, False, False, 0))
        ticks(host, 40)
        assert math.isclose(call(host, "get_wheel_steer_angle", actor, 2), 0.0, abs_tol=1e-6) or "max_steer_angle" in changes
        return abs(float(state(host, actor)["motion"][4]) - 90.0)

    plain = turned()
    weak = turned(steering_curve=((0.0, 0.2), (100.0, 0.2)))
    assert plain > 10.0
    assert weak < 0.4 * plain


def test_gears_are_shifted_as_the_control_says(flat):
    auto, manual = on_the_straight(flat, "vehicle.audi.tt", x=30.0), on_the_straight(flat, "vehicle.audi.tt", x=35.0)
    call(flat, "apply_control_to_vehicle", auto, GO)
    call(flat, "apply_control_to_vehicle", manual, (1.0, 0.0, 0.0, False, False, True, 1))
    ticks(flat, 120)
    assert state(flat, auto)["gear"] > 1
    assert state(flat, manual)["gear"] == 1
    assert speed(flat, manual) < speed(flat, auto)
    call(flat, "apply_control_to_vehicle", manual, (1.0, 0.0, 0.0, False, False, True, 0))
    before = speed(flat, manual)
    ticks(flat, 20)
    assert state(flat, manual)["gear"] == 0
    assert speed(flat, manual) < before  # neutral: the engine turns for nothing


@pytest.mark.parametrize(
    "spoil",
    [
        lambda c: c._replace(wheels=c.wheels[:2]),
        lambda c: c._replace(forward_gears=()),
        lambda c: c._replace(mass=0.0),
        lambda c: c._replace(torque_curve=()),
        lambda c: c._replace(torque_curve=(c.torque_curve[1], c.torque_curve[0])),
        lambda c: c._replace(max_rpm=0.0),
        lambda c: c._replace(wheels=tuple(wheel._replace(radius=0.0) for wheel in c.wheels)),
        lambda c: c._replace(wheels=tuple(wheel._replace(tire_friction=-1.0) for wheel in c.wheels)),
        lambda c: c._replace(center_of_mass=(0.0, 0.0, 99.0)),
    ],
)
def test_a_physics_control_that_no_vehicle_can_have_is_refused(flat, spoil):
    actor = on_the_straight(flat)
    before = physics(flat, actor)
    with pytest.raises(SamepathError, match="vehicle physics"):
        call(flat, "apply_physics_control", actor, spoil(before))
    ticks(flat, 2)
    assert physics(flat, actor).mass == before.mass


def test_sticky_control_lasts_and_the_other_kind_does_not(flat):
    sticky, loose = on_the_straight(flat, x=30.0), on_the_straight(flat, x=35.0, sticky_control="false")
    for actor in (sticky, loose):
        call(flat, "apply_control_to_vehicle", actor, GO)
    ticks(flat, 40)
    assert speed(flat, sticky) > 5.0
    assert speed(flat, loose) < 1.0


def test_controls_out_of_range_are_at_their_end(flat):
    much, full = on_the_straight(flat, x=30.0), on_the_straight(flat, x=35.0)
    call(flat, "apply_control_to_vehicle", much, (50.0, 0.0, -3.0, False, False, False, 0))
    call(flat, "apply_control_to_vehicle", full, GO)
    ticks(flat, 40)
    assert math.isclose(along(flat, much), along(flat, full), abs_tol=1e-2)


@pytest.mark.parametrize(("wanted", "reverse"), [(8.0, False), (-3.0, True)])
def test_ackermann_control_reaches_its_speed_and_holds_it(flat, wanted, reverse):
    actor = on_the_straight(flat)
    assert call(flat, "get_ackermann_controller_settings", actor)[0] == pytest.approx(0.15)
    call(flat, "apply_ackermann_control_to_vehicle", actor, (0.0, 0.0, wanted, 0.0, 0.0))
    ticks(flat, 400)
    forward_mps = float(state(flat, actor)["motion"][7])
    assert math.isclose(forward_mps, wanted, abs_tol=0.8)
    call(flat, "apply_ackermann_control_to_vehicle", actor, (0.0, 0.0, 0.0, 0.0, 0.0))
    ticks(flat, 300)
    assert speed(flat, actor) < 0.2
    call(flat, "apply_ackermann_controller_settings", actor, [0.2, 0.0, 0.1, 0.02, 0.0, 0.0])
    assert call(flat, "get_ackermann_controller_settings", actor)[0] == pytest.approx(0.2)
    call(flat, "apply_control_to_vehicle", actor, GO)
    ticks(flat, 60)
    assert speed(flat, actor) > 3.0  # the pedals are back


def test_pushes_do_what_newton_says(flat):
    actor = on_the_straight(flat)
    mass = physics(flat, actor).mass
    apply(flat, actor, tire_friction=0.0, drag_coefficient=0.0)
    ticks(flat, 1)
    call(flat, "add_actor_impulse", actor, [0.0, 2.0 * mass, 0.0])
    ticks(flat, 1)
    assert math.isclose(speed(flat, actor), 2.0, rel_tol=0.01)
    call(flat, "add_actor_force", actor, [0.0, 20.0 * mass, 0.0])  # for one tick of 0.05 s
    ticks(flat, 1)
    assert math.isclose(speed(flat, actor), 3.0, rel_tol=0.01)
    ticks(flat, 1)
    assert math.isclose(speed(flat, actor), 3.0, rel_tol=0.01)


def test_a_push_beside_the_middle_turns(flat):
    actor = on_the_straight(flat)
    apply(flat, actor, tire_friction=0.0)
    x, y, z = (float(item) for item in state(flat, actor)["motion"][:3])
    call(flat, "add_actor_impulse_at_location", actor, [2000.0, 0.0, 0.0], [x, y + 2.0, z + 0.5])
    ticks(flat, 2)
    turning = float(state(flat, actor)["motion"][11])
    assert turning < -5.0  # at the nose, towards +x: to the left of a car that looks along +y
    other = episode("oval")
    actor = on_the_straight(other)
    apply(other, actor, tire_friction=0.0)
    call(other, "add_actor_force_at_location", actor, [40000.0, 0.0, 0.0], [x, y + 2.0, z + 0.5])
    ticks(other, 2)
    assert math.isclose(float(state(other, actor)["motion"][11]), turning, rel_tol=0.1)


def test_angular_impulse_and_torque_are_in_unreal_units(flat):
    actor = on_the_straight(flat)
    apply(flat, actor, tire_friction=0.0)
    kind = flat.world.kind(actor)
    inertia = kind.mass_kg / 12 * (kind.length_m**2 + kind.width_m**2)
    wanted_degps = 30.0
    impulse = inertia * wanted_degps * 1e4  # kg cm² times degrees per second
    call(flat, "add_actor_angular_impulse", actor, [0.0, 0.0, impulse])
    ticks(flat, 1)
    assert math.isclose(float(state(flat, actor)["motion"][11]), wanted_degps, rel_tol=0.05)
    call(flat, "add_actor_torque", actor, [0.0, 0.0, -impulse / 0.05])
    ticks(flat, 1)
    assert abs(float(state(flat, actor)["motion"][11])) < 3.0


def test_velocities_can_be_set_and_held(flat):
    actor = on_the_straight(flat)
    apply(flat, actor, tire_friction=0.0)  # tyres that hold as CARLA's end it within a tick
    call(flat, "set_actor_target_angular_velocity", actor, [0.0, 0.0, 40.0])
    ticks(flat, 1)
    assert float(state(flat, actor)["motion"][11]) == pytest.approx(40.0, rel=0.05)
    other = on_the_straight(flat, x=30.0)
    call(flat, "enable_actor_constant_velocity", other, [7.0, 0.0, 0.0])  # as seen from the car
    ticks(flat, 40)
    assert math.isclose(float(state(flat, other)["motion"][7]), 7.0, abs_tol=0.2)
    call(flat, "disable_actor_constant_velocity", other)
    call(flat, "apply_control_to_vehicle", other, STOP)
    ticks(flat, 60)
    assert speed(flat, other) < 0.3


def test_gravity_physics_and_collisions_can_be_switched_off(flat):
    floating = spawn(flat, transform=place(30.0, -200.0, 3.0, yaw=90.0)).id
    call(flat, "set_actor_enable_gravity", floating, False)
    still = spawn(flat, transform=place(34.0, -200.0, 3.0, yaw=90.0)).id
    call(flat, "set_actor_simulate_physics", still, False)
    ticks(flat, 20)
    assert math.isclose(float(state(flat, floating)["motion"][2]), 3.0, abs_tol=1e-3)
    assert state(flat, still)["motion"][2] == 3.0
    call(flat, "set_actor_transform", still, place(34.0, -150.0, 2.0, yaw=90.0))
    ticks(flat, 1)
    assert state(flat, still)["motion"][1] == -150.0
    call(flat, "set_actor_simulate_physics", still, True)
    ticks(flat, 40)
    assert float(state(flat, still)["motion"][2]) < 0.1
    ghost = spawn(flat, "static.prop.box01", transform=place(36.0, -180.0, 0.5)).id
    call(flat, "set_actor_collisions", ghost, False)
    ticks(flat, 20)
    assert float(state(flat, ghost)["motion"][2]) < -0.5  # through the ground


def test_a_patch_of_ice_has_its_own_friction_and_gives_it_back(flat):
    trigger = described("static.trigger.friction", friction=0.5, extent_x=300.0, extent_y=1000.0, extent_z=500.0)
    patch = call(flat, "spawn_actor", trigger, place(34.0, -150.0, 0.0)).id
    actor = on_the_straight(flat)
    own = physics(flat, actor).wheels[0].tire_friction
    call(flat, "set_actor_target_velocity", actor, [0.0, 20.0, 0.0])
    seen = []
    for _ in range(100):
        ticks(flat, 1)
        seen.append((along(flat, actor), physics(flat, actor).wheels[0].tire_friction))
    inside = [friction for y, friction in seen if -159.0 < y < -141.0]
    assert inside
    assert inside == pytest.approx([0.5] * len(inside))
    assert seen[-1][0] > -139.0
    assert seen[-1][1] == seen[0][1] == own
    call(flat, "set_actor_location", actor, [34.0, -150.0, 0.3])
    ticks(flat, 1)
    assert physics(flat, actor).wheels[0].tire_friction == pytest.approx(0.5)
    call(flat, "destroy_actor", patch)
    ticks(flat, 1)
    assert physics(flat, actor).wheels[0].tire_friction == own


def test_lights_and_doors_are_kept(flat):
    actor = on_the_straight(flat)
    assert call(flat, "get_vehicle_light_state", actor) == (0,)
    call(flat, "set_vehicle_light_state", actor, [5])
    assert call(flat, "get_vehicle_light_states") == [(actor, 5)]
    call(flat, "apply_batch", [[[18, [actor, 1025]]]], False)
    assert call(flat, "get_vehicle_light_state", actor) == (1025,)
    call(flat, "open_vehicle_door", actor, 6)
    call(flat, "close_vehicle_door", actor, 2)
    assert flat.actors.find(actor).open_doors == {0, 1, 3, 4, 5}
    with pytest.raises(SamepathError, match="a door"):
        call(flat, "open_vehicle_door", actor, 9)


def test_telemetry_adds_up(flat):
    actor = on_the_straight(flat)
    call(flat, "apply_control_to_vehicle", actor, GO)
    ticks(flat, 60)
    found = call(flat, "get_telemetry_data", actor)
    assert math.isclose(found.speed, speed(flat, actor), rel_tol=1e-3)
    assert found.throttle == 1.0
    assert found.gear == 1
    kind = flat.world.kind(actor)
    assert math.isclose(found.engine_rpm, found.speed / (2 * math.pi * kind.wheel_radius_m) * 60 * 9.0, rel_tol=1e-3)
    assert math.isclose(sum(wheel.tire_load for wheel in found.wheels), kind.mass_kg * 9.81, rel_tol=0.1)
    assert sum(wheel.long_force for wheel in found.wheels) > 1000.0
    assert all(math.isclose(wheel.omega, found.speed / kind.wheel_radius_m, rel_tol=0.05) for wheel in found.wheels)
    call(flat, "show_vehicle_debug_telemetry", actor, True)


def test_speed_limits_are_those_of_the_road():
    host = episode("town")
    actor = spawn(host).id
    ticks(host, 1)
    x, y = (float(item) for item in state(host, actor)["motion"][:2])
    here = host.map.road_map.waypoint(x, y)
    limit = host.map.road_map.speed_limit_mps(here.road_id, here.s_m)
    assert math.isclose(float(state(host, actor)["speed_limit"]), limit * 3.6, rel_tol=1e-5)


def test_walkers_walk_turn_jump_and_fall(flat):
    walker = spawn(flat, "walker.pedestrian.0001", transform=place(34.0, -200.0, 0.0)).id
    ticks(flat, 20)
    height = float(state(flat, walker)["motion"][2])
    assert 0.8 < height < 1.1  # lifted onto its feet
    call(flat, "apply_control_to_walker", walker, ([0.0, 2.0, 0.0], 1.5, False))
    ticks(flat, 40)
    moved = state(flat, walker)["motion"]
    assert math.isclose(float(moved[1]), -197.0, abs_tol=0.1)
    assert math.isclose(float(moved[4]), 90.0, abs_tol=0.1)
    call(flat, "apply_control_to_walker", walker, ([0.0, 1.0, 0.0], 0.0, True))
    ticks(flat, 3)
    assert float(state(flat, walker)["motion"][2]) > height + 0.2
    call(flat, "set_actor_dead", walker)
    x, y, z = (float(item) for item in state(flat, walker)["motion"][:3])
    call(flat, "add_actor_impulse_at_location", walker, [60.0, 0.0, 0.0], [x, y, z + 0.7])
    ticks(flat, 60)
    assert float(state(flat, walker)["motion"][2]) < height - 0.3


def a_car_hits_a_walker(host, speed_mps, name=MODEL3, **attributes):
    """A vehicle that rolls into a walker 10 m ahead; returns both, one tick after they have met."""
    car = on_the_straight(host, name)
    walker = spawn(host, WALKER, transform=place(34.0, -190.0, 1.0), **attributes).id
    sensor = call(host, "spawn_actor_with_parent", described("sensor.other.collision"), place(), car, 0, "")
    stream_id = int.from_bytes(sensor.stream_token[:4], "little")
    call(host, "get_sensor_token", stream_id)
    call(host, "apply_control_to_walker", walker, ([0.0, 1.0, 0.0], 0.5, False))
    call(host, "enable_actor_constant_velocity", car, [speed_mps, 0.0, 0.0])
    for _ in range(300):
        ticks(host, 1)
        if host.context.outbox.of(stream_id):
            call(host, "disable_actor_constant_velocity", car)
            return car, walker
    raise AssertionError("they never met")


@pytest.mark.parametrize(("name", "speed_mps"), [(MODEL3, 12.0), ("vehicle.bh.crossbike", 6.0)])
def test_a_walker_that_is_not_invincible_dies_of_a_vehicle_and_is_gone_after_ten_seconds(name, speed_mps):
    def ends():
        host = episode("oval")
        car, walker = a_car_hits_a_walker(host, speed_mps, name, is_invincible="false")
        struck = host.frame
        row = state(host, walker)
        assert (row["state"], *row["union"][12:16].view("<f4")) == (1, 0.0)  # active, and it walks no longer
        with pytest.raises(SamepathError, match="Walker is already dead"):
            call(host, "set_walker_state", walker, place(34.0, -190.0), 1.0)
        call(host, "apply_control_to_walker", walker, ([0.0, -1.0, 0.0], 3.0, False))  # as in CARLA: taken, and to no avail
        ticks(host, 60)
        assert float(state(host, walker)["motion"][2]) < 0.5  # it lies
        kept = snapshot.take(host)
        restored = snapshot.restore(kept, host.context)
        for world in (host, restored):
            ticks(world, struck + 199 - world.frame)  # ten seconds of 0.05 s each
            assert walker in states(world)["id"]
            ticks(world, 1)
            assert walker not in states(world)["id"]
            assert car in states(world)["id"]
        assert host.world.digest == restored.world.digest
        return host.world.digest

    assert ends() == ends()


@pytest.mark.parametrize(("speed_mps", "invincible"), [(12.0, "true"), (1.5, "false")])
def test_who_is_invincible_or_merely_nudged_lives(flat, speed_mps, invincible):
    _, walker = a_car_hits_a_walker(flat, speed_mps, is_invincible=invincible)
    ticks(flat, 210)
    assert float(state(flat, walker)["motion"][2]) > 0.8
    call(flat, "set_walker_state", walker, place(34.0, -150.0), 1.0)


def test_a_walker_that_a_client_led_and_declares_dead_falls_and_is_gone_after_ten_seconds(flat):
    walker = spawn(flat, WALKER, transform=place(34.0, -190.0, 1.0)).id
    call(flat, "set_actor_simulate_physics", walker, False)
    call(flat, "set_actor_collisions", walker, False)
    call(flat, "set_walker_state", walker, place(34.0, -190.0, yaw=30.0), 1.4)
    ticks(flat, 1)
    # What the client's crowd does with somebody whom a vehicle has run into.
    call(flat, "set_actor_collisions", walker, True)
    call(flat, "set_actor_dead", walker)
    ticks(flat, 60)
    x, y, z = (float(item) for item in state(flat, walker)["motion"][:3])
    assert z < 0.5
    assert (x > 34.2, y > -190.0 + 0.1) == (True, True)  # on its face
    ticks(flat, 139)
    assert walker in states(flat)["id"]
    ticks(flat, 1)
    assert walker not in states(flat)["id"]


def test_a_walker_that_the_client_moves_itself_is_where_it_says(flat):
    walker = spawn(flat, "walker.pedestrian.0001", transform=place(34.0, -200.0, 1.0)).id
    call(flat, "set_actor_simulate_physics", walker, False)
    call(flat, "set_actor_collisions", walker, False)
    call(flat, "apply_batch", [[[7, [walker, place(35.0, -190.0, 0.0, yaw=90.0), 1.4]]]], False)
    ticks(flat, 1)
    row = state(flat, walker)["motion"]
    assert row[:3] == pytest.approx([35.0, -190.0, flat.world.kind(walker).height_m / 2])
    assert row[6:9] == pytest.approx([0.0, 1.4, 0.0], abs=1e-6)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("apply_control_to_vehicle", (GO,)),
        ("get_physics_control", ()),
        ("apply_control_to_walker", (([1.0, 0.0, 0.0], 1.0, False),)),
        ("set_vehicle_light_state", ([1],)),
        ("get_telemetry_data", ()),
        ("set_traffic_light_state", (1,)),
        ("set_walker_state", (place(), 1.0)),
    ],
)
def test_what_an_actor_is_not_it_cannot_do(flat, name, arguments):
    for actor in (flat.spectator.id, 4_000_000_000):
        with pytest.raises(SamepathError, match=r"is a spectator|not found"):
            call(flat, name, actor, *arguments)


def yaw_rate_degps(host, actor, steer, count=10):
    """How fast a vehicle turns at a steer, a second after it began to."""
    call(host, "apply_control_to_vehicle", actor, (0.0, steer, 0.0, False, False, False, 0))
    ticks(host, 20)
    rates = []
    for _ in range(count):
        ticks(host, 1)
        rates.append(float(state(host, actor)["motion"][11]))
    return float(np.mean(rates))


@pytest.mark.parametrize("name", ["vehicle.tesla.model3", "vehicle.audi.a2", "vehicle.mitsubishi.fusorosa"])
@pytest.mark.parametrize("steer", [-0.3, 0.1, 0.3])
def test_a_vehicle_held_at_a_velocity_turns_as_it_does_when_it_drives(flat, name, steer):
    """Agents of CARLA's drive so; one that turns too slowly leaves the road."""
    actor = on_the_straight(flat, name)
    call(flat, "enable_actor_constant_velocity", actor, (5.0, 0.0, 0.0))
    held = yaw_rate_degps(flat, actor, steer)
    yaw = math.radians(float(state(flat, actor)["motion"][4]))
    velocity = state(flat, actor)["motion"][6:8]
    assert velocity[0] * math.cos(yaw) + velocity[1] * math.sin(yaw) == pytest.approx(5.0, rel=0.02)
    kind = flat.world.kind(actor)
    angle_deg = steer * 70.0 * np.interp(5.0 * 3.6, [0, 20, 60, 120], [1, 0.9, 0.8, 0.7])
    bicycle = math.degrees(5.0 * math.tan(math.radians(angle_deg)) / kind.wheel_base_m)
    assert held == pytest.approx(bicycle, rel=0.12)


def test_cars_steer_as_far_as_carlas(flat):
    """What a steer of 1 means is in every controller that was tuned to CARLA: 70 degrees, less at speed."""
    actor = on_the_straight(flat)
    control = physics(flat, actor)
    assert [wheel.max_steer_angle for wheel in control.wheels] == [70.0, 70.0, 0.0, 0.0]
    assert np.array(control.steering_curve) == pytest.approx(np.array([(0.0, 1.0), (20.0, 0.9), (60.0, 0.8), (120.0, 0.7)]))
    call(flat, "apply_control_to_vehicle", actor, (0.0, 0.5, 0.0, False, False, False, 0))
    ticks(flat, 1)
    assert call(flat, "get_wheel_steer_angle", actor, 0) == pytest.approx(35.0, rel=1e-3)
    call(flat, "set_actor_target_velocity", actor, (0.0, 60.0 / 3.6, 0.0))
    call(flat, "apply_control_to_vehicle", actor, (0.0, 0.01, 0.0, False, False, False, 0))
    ticks(flat, 1)
    assert call(flat, "get_wheel_steer_angle", actor, 0) == pytest.approx(0.01 * 70.0 * 0.8, rel=1e-2)
    bicycle = spawn(flat, "vehicle.bh.crossbike", transform=place(40.0, -200.0, 0.3, yaw=90.0)).id
    assert physics(flat, bicycle).wheels[0].max_steer_angle == 45.0


@pytest.mark.parametrize("name", ["vehicle.dodge.charger_2020", "vehicle.nissan.patrol", "vehicle.mercedes.sprinter"])
def test_long_cars_take_the_corners_of_carlas_towns_at_the_speed_of_its_traffic_manager(flat, name):
    """It gives throttle in them and steers by 0.8 at most: who is then wider than a lane meets those who wait beside it."""
    actor = on_the_straight(flat, name)
    call(flat, "set_actor_target_velocity", actor, (0.0, 7.5, 0.0))
    ticks(flat, 1)
    first = along(flat, actor)
    call(flat, "apply_control_to_vehicle", actor, (0.6, 0.8, 0.0, False, False, False, 0))
    for _ in range(40):
        ticks(flat, 1)
        if float(state(flat, actor)["motion"][6]) < 0.0 <= -float(state(flat, actor)["motion"][7]):
            break
    motion = state(flat, actor)["motion"]
    assert float(motion[7]) <= 0.0, "it has turned by a right angle"
    assert along(flat, actor) - first < 4.0
    assert abs(float(motion[5])) < 2.0, "and stands on its wheels"


def bodies_at(host):
    """Where the physics engine has each actor: a way to ask that passes no table of states."""
    physics = host.world._physics
    return {actor.id: physics.state(actor.id).position_m for actor in host.world.actors}


@pytest.mark.parametrize("count", [12, 4])
@pytest.mark.parametrize("change", ["destroy", "move", "spawn"])
def test_cars_are_reported_where_they_are_in_whatever_order_clients_asked_before(count, change):
    host = episode("oval")
    cars = [spawn(host, at=4 * index).id for index in range(count)]
    ticks(host, 2)
    for car in reversed(cars):
        physics(host, car)  # once reordered the table of states
    if change == "destroy":
        call(host, "destroy_actor", cars[len(cars) // 2])
    elif change == "move":
        call(host, "set_actor_location", cars[1], [34.0, -200.0, 0.3])
    else:
        spawn(host, at=4 * count)
    for _ in range(2):
        ticks(host, 1)
        reported = {int(row["id"]): tuple(row["motion"][:3].tolist()) for row in states(host)}
        for car, where in bodies_at(host).items():
            assert reported[car] == pytest.approx(where, abs=1e-5)
