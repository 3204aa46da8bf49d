"""What is done to actors from outside: changed vehicles, pushes, held velocities, patches of ground; also in snapshots."""

import dataclasses
import math

import pytest

from samepath.core.catalogue import CATALOGUE, WheelFit, actor_type, type_from, type_to
from samepath.core.errors import SimulatorError
from samepath.core.states import Pose, Vector, VehicleCommand, WalkerCommand
from samepath.simulator.physics.drivetrain import drive
from samepath.simulator.world.world import FrictionVolume, World

CAR = actor_type("vehicle.tesla.model3")
WHEEL = WheelFit(friction=0.5, max_steer_deg=20.0, radius_m=0.3, brake_n=2000.0, hand_brake_n=500.0, side_stiffness=0.8)
CHANGED = dataclasses.replace(
    CAR,
    mass_kg=2500.0,
    wheels=(WHEEL,) * 4,
    centre_of_mass_m=(0.2, 0.0, 0.5),
    steering_curve=((0.0, 1.0), (20.0, 0.5)),
    slip_per_n=1e-5,
    engine=dataclasses.replace(CAR.engine, gear_shift_rpm=((0.0, 9000.0),)),
)


def busy_world():
    """A changed car, one held at a velocity, one that is not moved, a walker, a patch of ice and a push under way."""
    world = World()
    for number in range(3):
        world.spawn("vehicle.tesla.model3", Pose(0.0, 8.0 * number, 0.1))
    world.spawn("walker.pedestrian.0001", Pose(5.0, 30.0, 1.0))
    world.refit(1, CHANGED)
    world.hold_velocity(2, Vector(3.0, 0.5, 0.0))
    world.set_simulated(3, on=False)
    world.add_friction_volume(FrictionVolume(20.0, 0.0, 10.0, 4.0, 0.05, yaw_deg=10.0))
    world.apply(1, VehicleCommand(throttle=1.0, steer=0.2))
    world.apply(4, WalkerCommand(0.6, 0.8, 1.2, face_ahead=True))
    for _ in range(20):
        world.tick()
    world.add_force(1, Vector(2000.0, 500.0, 0.0), Vector(1.0, 2.0, 0.5))
    world.add_torque(2, Vector(0.0, 0.0, 800.0))
    return world


def test_a_snapshot_holds_all_of_it():
    world = busy_world()
    again = World.restore(world.snapshot())
    for _ in range(60):
        world.tick()
        again.tick()
    assert again.digest == world.digest
    assert again.kind(1) == CHANGED
    assert again.states() == world.states()


def test_it_all_repeats():
    first, second = busy_world(), busy_world()
    for world in (first, second):
        for _ in range(60):
            world.tick()
    assert first.digest == second.digest


@pytest.mark.parametrize("kind", [CHANGED, *list(CATALOGUE.values())[::25]], ids=lambda kind: kind.name)
def test_a_type_goes_through_plain_data(kind):
    assert type_from(type_to(kind)) == kind
    assert isinstance(type_to(kind), str) == (kind is not CHANGED)


def test_steps_can_be_divided_otherwise_at_any_tick():
    world = World()
    world.spawn("static.prop.barrel", Pose(z_m=50.0))
    for step_s, substeps in ((0.1, 10), (0.1, 1), (0.02, 2)):
        before = world.state(1).velocity_mps.z
        world.tick(step_s, substeps)
        assert math.isclose(world.state(1).velocity_mps.z, before - 9.81 * step_s, rel_tol=1e-4)


def test_what_is_held_keeps_its_velocity_as_it_turns():
    world = World()
    world.spawn("vehicle.tesla.model3", Pose(yaw_deg=90.0, z_m=0.1))
    world.hold_velocity(1, Vector(5.0, 0.0, 0.0))
    for _ in range(20):
        world.tick()
    assert math.isclose(world.state(1).pose.y_m, 5.0, abs_tol=0.2)
    world.hold_velocity(1, None)
    world.apply(1, VehicleCommand(brake=1.0))
    for _ in range(60):
        world.tick()
    assert abs(world.state(1).velocity_mps.y) < 0.1


def test_a_turned_patch_holds_what_is_in_it():
    volume = FrictionVolume(10.0, 0.0, 5.0, 1.0, 0.1, z_m=0.0, half_z_m=2.0, yaw_deg=90.0)
    assert volume.holds(10.0, 4.0)
    assert not volume.holds(14.0, 0.0)
    assert not volume.holds(10.0, 0.0, 3.0)


def test_a_patch_can_be_taken_away():
    world = World()
    world.spawn("vehicle.tesla.model3", Pose(z_m=0.1))
    number = world.add_friction_volume(FrictionVolume(0.0, 0.0, 5.0, 5.0, 0.1))
    world.tick()
    assert world.tyre_friction(1) == 0.1
    world.remove_friction_volume(number)
    assert world.tyre_friction(1) is None


def test_only_vehicles_have_wheels_to_change():
    world = World()
    world.spawn("walker.pedestrian.0001", Pose(z_m=1.0))
    with pytest.raises(SimulatorError, match="no wheels"):
        world.refit(1, CHANGED)


def test_what_hangs_in_the_air_without_weight_is_not_held_back():
    forces = drive(
        dataclasses.replace(CAR, drag_area_m2=0.0), VehicleCommand(throttle=1.0, brake=1.0), 30.0, 1, 0.9, weight=0.0
    )
    assert (forces.engine_n, forces.brake_n, forces.resistance_n) == (0.0, 0.0, 0.0)


def test_soft_tyres_let_the_engine_race():
    command = VehicleCommand(throttle=1.0)
    hard = drive(CAR, command, 20.0, 1, 5.0)
    soft = drive(dataclasses.replace(CAR, slip_per_n=1e-4), command, 20.0, 1, 5.0)
    assert 0.0 < soft.engine_n < hard.engine_n
    turns = 20.0 / (2 * math.pi * CAR.wheel_radius_m) * 60.0 * 9.0 * (1.0 + 1e-4 * soft.engine_n)
    curve = CAR.engine.torque_curve
    at = next(index for index, (rpm, _) in enumerate(curve) if rpm >= turns)
    (low_rpm, low), (high_rpm, high) = curve[at - 1], curve[at]
    torque = low + (high - low) * (turns - low_rpm) / (high_rpm - low_rpm)
    assert math.isclose(soft.engine_n, torque * 9.0 * 0.9 / CAR.wheel_radius_m, rel_tol=1e-4)


def test_rays_and_balls_tell_what_they_meet():
    world = World()
    world.spawn("vehicle.tesla.model3", Pose(x_m=10.0, z_m=0.1))
    world.add_box("wall", Pose(x_m=20.0), (1.0, 10.0, 3.0))
    hits = world.ray_hits(Vector(z=0.8), Vector(x=1.0), 50.0)
    assert [hit.what for hit in hits] == [1, "wall"]
    assert math.isclose(hits[1].point_m[0], 19.5, abs_tol=0.01)
    distance_m, what = world.sweep_ball(Vector(z=0.8), Vector(x=1.0), 50.0, 0.5)
    assert what == 1
    assert math.isclose(distance_m, 10.0 - CAR.length_m / 2 - 0.5, abs_tol=0.05)
    assert world.sweep_ball(Vector(z=0.8), Vector(x=1.0), 50.0, 0.5, without=1)[1] == "wall"
    assert world.sweep_ball(Vector(z=0.8), Vector(x=1.0), 50.0, 0.5, without=1, moving_only=True) is None
    world.show_scenery(frozenset({"wall"}), on=False)
    assert [hit.what for hit in world.ray_hits(Vector(z=0.8), Vector(x=1.0), 50.0)] == [1]
