"""Physics against textbook values, and bit for bit against itself."""

import math

import pytest

from samepath.core.catalogue import CATALOGUE, VehicleType, actor_type
from samepath.core.errors import SimulatorError
from samepath.core.states import Pose, Vector, VehicleCommand, WalkerCommand
from samepath.simulator.physics.engine import Physics, PhysicsSettings
from samepath.simulator.physics.frames import angles_of, axes_of, quaternion_of
from samepath.simulator.world.world import pack_snapshot, unpack_snapshot

CARS = [name for name, kind in CATALOGUE.items() if isinstance(kind, VehicleType)]
GRAVITY = 9.81


def engine(*actors, **settings):
    physics = Physics(PhysicsSettings(**settings))
    physics.add_ground(3000.0)
    for number, (name, pose) in enumerate(actors, start=1):
        physics.add(number, actor_type(name), pose)
    return physics


def settle(physics, ticks=30):
    for _ in range(ticks):
        physics.step()


def speed(physics, actor=1):
    x, y, _ = physics.state(actor).velocity_mps
    return math.hypot(x, y)


@pytest.mark.parametrize("name", CARS)
def test_a_vehicle_at_rest_stands_on_its_wheels_and_stays_there(name):
    physics = engine((name, Pose(z_m=0.3)))
    settle(physics, 60)
    before = physics.state(1).position_m
    settle(physics, 60)
    after = physics.state(1).position_m
    assert abs(after[2]) < 0.02
    assert math.dist(before, after) < 1e-3


# 0-100 km/h as such vehicles are sold, seconds; bicycles never get there.
@pytest.mark.parametrize(
    ("name", "low_s", "high_s"),
    [
        ("vehicle.tesla.model3", 5.0, 8.0),
        ("vehicle.audi.tt", 4.0, 7.0),
        ("vehicle.toyota.prius", 7.0, 12.0),
        ("vehicle.mercedes.sprinter", 12.0, 22.0),
        ("vehicle.mitsubishi.fusorosa", 25.0, 50.0),
        ("vehicle.yamaha.yzf", 2.8, 5.0),
    ],
)
def test_acceleration_to_100_km_per_h_is_that_of_such_vehicles(name, low_s, high_s):
    physics = engine((name, Pose(z_m=0.1)))
    settle(physics, 10)
    physics.command(1, VehicleCommand(throttle=1.0))
    ticks = 0
    while speed(physics) < 100 / 3.6:
        physics.step()
        ticks += 1
        assert ticks * 0.05 < high_s
    assert ticks * 0.05 > low_s


def test_a_bicycle_is_as_fast_as_a_strong_cyclist():
    physics = engine(("vehicle.bh.crossbike", Pose(z_m=0.1)))
    physics.command(1, VehicleCommand(throttle=1.0))
    settle(physics, 1200)
    assert 25 / 3.6 < speed(physics) < 45 / 3.6


@pytest.mark.parametrize("name", ["vehicle.tesla.model3", "vehicle.audi.a2", "vehicle.mercedes.sprinter"])
def test_braking_distance_is_v_squared_over_two_mu_g(name):
    physics = engine((name, Pose(z_m=0.1)))
    settle(physics, 20)
    physics.set_velocity(1, Vector(x=100 / 3.6))
    start = physics.state(1).position_m[0]
    physics.command(1, VehicleCommand(brake=1.0))
    for _ in range(200):
        physics.step()
    mu = actor_type(name).tyre_friction
    expected = (100 / 3.6) ** 2 / (2 * mu * GRAVITY)
    assert physics.state(1).position_m[0] - start == pytest.approx(expected, rel=0.06)
    assert speed(physics) < 0.1


def test_on_ice_braking_takes_as_much_longer_as_friction_is_less():
    physics = engine(("vehicle.audi.a2", Pose(z_m=0.1)))
    settle(physics, 20)
    physics.set_tyre_friction(1, 0.15)
    physics.set_velocity(1, Vector(x=50 / 3.6))
    start = physics.state(1).position_m[0]
    physics.command(1, VehicleCommand(brake=1.0))
    for _ in range(400):
        physics.step()
    assert physics.state(1).position_m[0] - start == pytest.approx((50 / 3.6) ** 2 / (2 * 0.15 * GRAVITY), rel=0.15)


@pytest.mark.parametrize("name", ["vehicle.tesla.model3", "vehicle.audi.tt", "vehicle.mitsubishi.fusorosa"])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_the_turning_circle_is_that_of_the_wheel_base_and_steering_angle(name, side):
    kind = actor_type(name)
    physics = engine((name, Pose(z_m=0.1)))
    settle(physics, 10)
    ys = []
    for tick in range(700):
        physics.command(1, VehicleCommand(throttle=0.3 if speed(physics) < 2.0 else 0.0, steer=side))
        physics.step()
        if tick > 250:
            ys.append(physics.state(1).position_m[1])
    rear_radius = kind.wheel_base_m / math.tan(math.radians(kind.max_steer_deg))
    expected = 2 * math.hypot(rear_radius, kind.wheel_base_m / 2)
    assert max(ys) - min(ys) == pytest.approx(expected, rel=0.18)
    assert (sum(ys) > 0) == (side > 0), "positive steer turns right, towards +y"


def test_a_free_fall_takes_the_time_it_takes():
    physics = engine(("static.prop.barrel", Pose(z_m=20.0)), substeps=10)
    for _ in range(20):
        physics.step()
    assert physics.state(1).position_m[2] == pytest.approx(20 - GRAVITY / 2, abs=0.06)


def test_a_t_bone_collision_keeps_momentum_and_loses_energy():
    physics = engine(
        ("vehicle.mercedes.coupe", Pose(z_m=0.05)), ("vehicle.mercedes.coupe", Pose(x_m=7.0, y_m=0.3, z_m=0.05, yaw_deg=90))
    )
    settle(physics, 20)
    for actor in (1, 2):
        physics.set_tyre_friction(actor, 0.01)
    mass = actor_type("vehicle.mercedes.coupe").mass_kg
    physics.set_velocity(1, Vector(x=12.0))
    impulses = []
    for _ in range(12):
        before = [physics.state(actor).velocity_mps for actor in (1, 2)]
        collisions = physics.step()
        impulses += [collision.impulse_ns for collision in collisions]
        if collisions:
            after = [physics.state(actor).velocity_mps for actor in (1, 2)]
            assert sum(v[0] for v in after) == pytest.approx(sum(v[0] for v in before), rel=0.02)
            assert (after[0][0] - before[0][0]) * mass == pytest.approx(collisions[0].impulse_ns.x, rel=0.05, abs=300)
    assert impulses, "they met"
    energy = sum(v * v for actor in (1, 2) for v in physics.state(actor).velocity_mps)
    assert energy < 0.75 * 144
    assert physics.state(2).velocity_mps[0] > 2.0, "the struck car is pushed along"


def test_a_car_that_hits_a_wall_stops_and_says_what_it_hit():
    physics = engine(("vehicle.audi.a2", Pose(z_m=0.1)))
    physics.add_box("wall", Pose(x_m=15.0), (1.0, 10.0, 3.0))
    physics.set_velocity(1, Vector(x=15.0))
    met = [collision for _ in range(60) for collision in physics.step()]
    assert {collision.scenery for collision in met} == {"wall"}
    assert met[0].other is None
    assert sum(collision.impulse_ns.x for collision in met) < -0.9 * 1100 * 14
    assert physics.state(1).position_m[0] < 15.0


def test_walkers_walk_at_their_speed_and_are_thrown_by_cars():
    physics = engine(("walker.pedestrian.0001", Pose(z_m=0.9)), ("vehicle.tesla.model3", Pose(x_m=-30.0, y_m=10.0, z_m=0.05)))
    physics.command(1, WalkerCommand(0.0, 1.0, 1.4))
    settle(physics, 40)
    assert physics.state(1).position_m[1] == pytest.approx(2.8, abs=0.05)
    physics.command(1, WalkerCommand())
    physics.set_pose(1, Pose(x_m=0.0, y_m=10.0, z_m=0.9))
    physics.set_velocity(2, Vector(x=10.0))
    met = []
    for _ in range(100):
        met += physics.step()
        if met and not physics.fallen(1):
            physics.knock_down(1)
    assert (met[0].actor, met[0].other) == (1, 2)
    assert met[0].impulse_ns.x > 100
    assert physics.state(1).position_m[0] > 1.0


@pytest.mark.parametrize("velocity_mps", [Vector(x=10.0), Vector(x=-6.0, y=8.0)])
def test_who_has_fallen_slides_to_a_stop_as_people_on_asphalt_do(velocity_mps):
    physics = engine(("walker.pedestrian.0001", Pose(z_m=0.9)))
    physics.knock_down(1)
    physics.set_velocity(1, velocity_mps)
    settle(physics, 200)
    slid_m = math.hypot(*physics.state(1).position_m[:2])
    assert slid_m == pytest.approx(10.0**2 / (2 * 0.6 * GRAVITY), rel=0.3)  # it tumbles first
    assert math.hypot(*physics.state(1).velocity_mps) < 0.05
    assert physics.state(1).position_m[2] < 0.4


def test_frames_agree_with_carlas_axes():
    for pose in (
        Pose(yaw_deg=90.0),
        Pose(pitch_deg=20.0),
        Pose(roll_deg=15.0),
        Pose(roll_deg=10.0, pitch_deg=-25.0, yaw_deg=130.0),
    ):
        roll, pitch, yaw = angles_of(quaternion_of(pose))
        assert (roll, pitch, yaw) == pytest.approx((pose.roll_deg, pose.pitch_deg, pose.yaw_deg), abs=1e-12)
    forward, right, up = axes_of(quaternion_of(Pose(yaw_deg=90.0)))
    assert forward == pytest.approx((0.0, 1.0, 0.0), abs=1e-15), "yaw 90 looks along +y, to the right"
    assert right == pytest.approx((-1.0, 0.0, 0.0), abs=1e-15)
    assert up == pytest.approx((0.0, 0.0, 1.0), abs=1e-15)
    assert axes_of(quaternion_of(Pose(pitch_deg=30.0)))[0][2] == pytest.approx(0.5), "positive pitch looks up"
    assert axes_of(quaternion_of(Pose(roll_deg=30.0)))[1][2] == pytest.approx(-0.5), "positive roll lowers the right side"


def test_frames_agree_with_the_official_client():
    carla = pytest.importorskip("carla")
    for pose in (Pose(roll_deg=10.0, pitch_deg=-25.0, yaw_deg=130.0), Pose(roll_deg=-70.0, pitch_deg=40.0, yaw_deg=-100.0)):
        rotation = carla.Rotation(roll=pose.roll_deg, pitch=pose.pitch_deg, yaw=pose.yaw_deg)
        forward, right, up = axes_of(quaternion_of(pose))
        for ours, theirs in (
            (forward, rotation.get_forward_vector()),
            (right, rotation.get_right_vector()),
            (up, rotation.get_up_vector()),
        ):
            assert ours == pytest.approx((theirs.x, theirs.y, theirs.z), abs=1e-5)


def crash(threads=0):
    physics = engine(
        ("vehicle.mercedes.coupe", Pose(x_m=-30.0, z_m=0.2)),
        ("vehicle.mercedes.coupe", Pose(y_m=-30.0, z_m=0.2, yaw_deg=90.0)),
        ("walker.pedestrian.0001", Pose(x_m=30.0, y_m=5.0, z_m=1.0)),
        ("static.prop.trafficcone01", Pose(x_m=10.0, y_m=2.0, z_m=0.1)),
        threads=threads,
    )
    for actor in (1, 2):
        physics.command(actor, VehicleCommand(throttle=0.5))
    physics.command(3, WalkerCommand(0.0, -1.0, 1.4))
    return physics


def history(physics, ticks):
    return [(physics.step(), [physics.state(actor) for actor in (1, 2, 3, 4)]) for _ in range(ticks)]


def test_a_world_that_grows_large_changes_threads_and_no_bits(monkeypatch):
    small = history(crash(), 130)
    monkeypatch.setattr("samepath.simulator.physics.engine._MANY_BODIES", 2)
    grown = crash()
    assert grown._threads == 1
    assert history(grown, 130) == small


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_any_number_of_threads_gives_the_same_bits(threads):
    assert history(crash(threads), 130) == history(crash(), 130)


@pytest.mark.parametrize("ticks", [0, 40, 80, 84, 86, 90, 120])
def test_a_snapshot_goes_on_bit_for_bit_before_during_and_after_contact(ticks):
    physics = crash()
    history(physics, ticks)
    restored = Physics.restore(*unpack_snapshot(pack_snapshot(*physics.snapshot())))
    assert history(physics, 40) == history(restored, 40)


def test_a_damaged_snapshot_is_refused():
    packed = pack_snapshot(*crash().snapshot())
    with pytest.raises(SimulatorError, match="cut short"):
        unpack_snapshot(packed[:-10])


def test_a_place_that_is_taken_is_known():
    physics = crash()
    physics.add_box("wall", Pose(x_m=100.0), (1.0, 1.0, 1.0))
    kind = actor_type("vehicle.audi.a2")
    assert physics.occupant(kind, Pose(x_m=-30.0, z_m=0.2)) == 1
    assert physics.occupant(kind, Pose(x_m=100.0, z_m=0.2)) == "wall"
    assert physics.occupant(kind, Pose(x_m=-60.0, z_m=0.2)) is None


def test_a_state_that_is_no_number_is_an_error_that_names_the_actor():
    physics = crash()
    physics.set_velocity(2, Vector(x=math.nan))
    with pytest.raises(SimulatorError, match=r"actors \[2\]"):
        physics.step()


def test_an_unknown_actor_type_gets_the_nearest_name():
    with pytest.raises(Exception, match=r"did you mean 'vehicle.tesla.model3'"):
        actor_type("vehicle.tesla.model4")
    assert actor_type("vehicle.mercedes-benz.coupe").name == "vehicle.mercedes.coupe"
