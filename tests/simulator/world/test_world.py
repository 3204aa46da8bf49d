"""The world repeats itself: random lives of actors, snapshots anywhere, equal digests."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samepath.core.errors import SamepathError, SimulatorError
from samepath.core.states import Pose, Vector, VehicleCommand, WalkerCommand
from samepath.simulator.physics.engine import PhysicsSettings
from samepath.simulator.world.state_table import STATE_FIELDS
from samepath.simulator.world.world import FrictionVolume, World

VEHICLES = ["vehicle.audi.a2", "vehicle.mercedes.sprinter", "vehicle.bh.crossbike", "vehicle.yamaha.yzf"]
ratio = st.floats(0, 1, width=32)

# A life: what happens, and for how many ticks the world then goes on.
happenings = st.one_of(
    st.tuples(
        st.just("spawn"),
        st.sampled_from([*VEHICLES, "walker.pedestrian.0001", "static.prop.barrel"]),
        st.integers(-6, 6),
        st.integers(-6, 6),
    ),
    st.tuples(st.just("destroy"), st.integers(0, 20)),
    st.tuples(st.just("drive"), st.integers(0, 20), ratio, st.floats(-1, 1, width=32), ratio),
    st.tuples(st.just("push"), st.integers(0, 20), st.floats(-3000, 3000, width=32), st.floats(-3000, 3000, width=32)),
    st.tuples(st.just("tick"), st.integers(1, 6)),
)


def do(world, happening):
    """Let one thing happen; things that cannot are passed over, the same way every time."""
    kind, *rest = happening
    ids = [actor.id for actor in world.actors]
    if kind == "spawn":
        try:
            world.spawn(rest[0], Pose(rest[1] * 4.0, rest[2] * 4.0, 1.0, yaw_deg=rest[1] * 37.0))
        except SimulatorError:
            return
    elif kind == "tick":
        for _ in range(rest[0]):
            world.tick()
    elif ids:
        actor = ids[rest[0] % len(ids)]
        name = world.kind(actor).name
        if kind == "destroy":
            world.destroy(actor)
        elif kind == "push":
            world.add_impulse(actor, Vector(rest[1], rest[2], 0.0))
        elif name.startswith("vehicle"):
            world.apply(actor, VehicleCommand(rest[1], rest[2], rest[3]))
        elif name.startswith("walker"):
            world.apply(actor, WalkerCommand(rest[1], rest[2], 1.4))


@settings(max_examples=40, deadline=None)
@given(st.lists(happenings, max_size=25))
def test_any_life_lived_twice_has_the_same_digest(life):
    digests = set()
    for threads in (0, 2):
        world = World(PhysicsSettings(threads=threads))
        for happening in life:
            do(world, happening)
        digests.add(world.digest)
    assert len(digests) == 1


@settings(max_examples=40, deadline=None)
@given(st.lists(happenings, max_size=25), st.integers(0, 25))
def test_a_snapshot_anywhere_in_a_life_changes_nothing_of_the_rest(life, at):
    world = World()
    for happening in life[:at]:
        do(world, happening)
    restored = World.restore(world.snapshot())
    assert restored.digest == world.digest
    for happening in [*life[at:], ("tick", 10)]:
        do(world, happening)
        do(restored, happening)
    assert restored.digest == world.digest
    assert restored.snapshot() == world.snapshot()


def collision_course():
    world = World()
    world.spawn("vehicle.mercedes.coupe", Pose(-15.0, 0.0, 0.1))
    world.spawn("vehicle.mercedes.coupe", Pose(15.0, 0.5, 0.1, yaw_deg=180.0))
    for actor in (1, 2):
        world.apply(actor, VehicleCommand(throttle=0.7))
    return world


def test_a_snapshot_goes_on_in_another_process(tmp_path):
    world = collision_course()
    for _ in range(70):
        world.tick()
    (tmp_path / "snapshot").write_bytes(world.snapshot())
    script = (
        "import sys, pathlib; from samepath.simulator.world.world import World;"
        "world = World.restore(pathlib.Path(sys.argv[1]).read_bytes());"
        "[world.tick() for _ in range(60)]; print(world.digest)"
    )
    found = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "snapshot")], capture_output=True, text=True, check=True
    )
    for _ in range(60):
        world.tick()
    assert found.stdout.strip() == world.digest


def crash(world):
    """Two cars meet head on, a walker is in the way and a barrel beside it; what all of them do, in every bit."""
    ids = [
        world.spawn("vehicle.mercedes.coupe", Pose(-12.0, 0.3, 0.1)),
        world.spawn("vehicle.audi.tt", Pose(12.0, -0.3, 0.1, yaw_deg=180.0)),
        world.spawn("walker.pedestrian.0001", Pose(1.0, 1.0, 1.0)),
        world.spawn("static.prop.barrel", Pose(-1.0, -1.0, 0.0)),
    ]
    seen = []
    for _ in range(80):
        for car in ids[:2]:
            world.apply(car, VehicleCommand(throttle=1.0))
        touched = world.tick()
        seen.append(([world.state_row(number) for number in ids], [collision.impulse_ns for collision in touched]))
    assert any(touched for _, touched in seen)
    return ids, seen


# The order in which those of the repeat before left: the places of a car and of those it meets are then others in Rapier.
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)])
def test_who_comes_when_all_have_left_finds_a_new_world(order):
    world = World()
    repeats = []
    for repeat in range(3):
        ids, seen = crash(world)
        repeats.append(seen)
        for index in order:
            world.destroy(ids[index])
        for _ in range(repeat):  # empty ticks leave no trace, either
            world.tick()
    assert repeats[1] == repeats[0]
    assert repeats[2] == repeats[0]


@settings(max_examples=15, deadline=None)
@given(st.lists(happenings, max_size=25))
def test_whatever_happened_before_all_left_leaves_no_trace(life):
    world = World()
    for happening in life:
        do(world, happening)
    for actor in world.actors:
        world.destroy(actor.id)
    assert crash(world)[1] == crash(World())[1]


def test_a_new_world_has_the_scenery_that_was_there_and_no_other():
    world = World()
    world.add_box("wall", Pose(10.0), (1.0, 10.0, 5.0))
    world.add_box("gate", Pose(20.0), (1.0, 10.0, 5.0))
    world.show_scenery(frozenset({"wall"}), on=False)
    for _ in range(2):
        world.destroy(world.spawn("vehicle.audi.tt", Pose(-30.0, 0.0, 0.1)))
        assert world.cast_ray(Vector(0.0, 0.0, 1.0), Vector(1.0, 0.0, 0.0), 100.0) == (19.5, "gate")
    world.show_scenery(frozenset({"wall"}), on=True)
    world.spawn("vehicle.audi.tt", Pose(-30.0, 0.0, 0.1))
    assert world.cast_ray(Vector(0.0, 0.0, 1.0), Vector(1.0, 0.0, 0.0), 100.0) == (9.5, "wall")


def test_ids_rise_and_are_never_reused():
    world = World()
    first = world.spawn("static.prop.barrel", Pose())
    world.destroy(first)
    second = world.spawn("static.prop.barrel", Pose())
    assert second > first
    with pytest.raises(SimulatorError, match="there is no actor 1"):
        world.state(first)


def test_a_taken_place_is_refused_by_name():
    world = World()
    world.spawn("vehicle.audi.a2", Pose(z_m=0.1))
    with pytest.raises(SimulatorError, match="actor 1 stands there"):
        world.spawn("vehicle.audi.tt", Pose(x_m=1.0, z_m=0.1))


def test_commands_take_effect_at_the_next_tick_and_not_before():
    world = World()
    world.spawn("vehicle.tesla.model3", Pose(z_m=0.05))
    for _ in range(10):
        world.tick()
    before = world.state(1)
    world.apply(1, VehicleCommand(throttle=1.0))
    assert world.state(1) == before
    world.tick()
    assert world.state(1).velocity_mps.x > before.velocity_mps.x


def test_the_last_word_before_a_tick_counts():
    worlds = [World(), World()]
    for world in worlds:
        world.spawn("vehicle.tesla.model3", Pose(z_m=0.05))
    worlds[0].apply(1, VehicleCommand(throttle=1.0))
    for world in worlds:
        world.apply(1, VehicleCommand(brake=1.0))
        world.tick()
    assert worlds[0].state(1) == worlds[1].state(1)


def test_a_command_of_the_wrong_kind_is_refused():
    world = World()
    world.spawn("walker.pedestrian.0001", Pose(z_m=1.0))
    world.spawn("static.prop.barrel", Pose(x_m=5.0))
    with pytest.raises(SimulatorError, match="does not move it"):
        world.apply(1, VehicleCommand())
    with pytest.raises(SimulatorError, match="does not move it"):
        world.apply(2, WalkerCommand())


def test_ice_takes_the_grip_only_where_it_lies():
    world = World()
    world.add_friction_volume(FrictionVolume(x_m=0.0, y_m=20.0, half_x_m=200.0, half_y_m=5.0, friction=0.1))
    for y in (0.0, 20.0):
        world.spawn("vehicle.audi.a2", Pose(y_m=y, z_m=0.05))
    for _ in range(10):
        world.tick()
    for actor in (1, 2):
        world.set_velocity(actor, Vector(x=10.0))
        world.apply(actor, VehicleCommand(brake=1.0))
    for _ in range(60):
        world.tick()
    assert world.state(1).velocity_mps.x < 0.2
    assert world.state(2).velocity_mps.x > 5.0


def test_states_come_as_arrays_by_id():
    world = collision_course()
    world.tick()
    ids, values = world.state_array()
    assert ids.tolist() == [1, 2]
    assert values.shape == (2, len(STATE_FIELDS))
    assert values[0, 0] == world.state(1).pose.x_m


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda packed: b"", "snapshot was wanted"),
        (lambda packed: b"samepath world 9\n" + packed, "samepath world 9"),
        (lambda packed: packed[:-20], "cut short"),
        (lambda packed: packed[:40] + b"\xff" * 30 + packed[70:], "snapshot"),
    ],
)
def test_a_snapshot_that_does_not_fit_is_refused_in_words(spoil, words):
    with pytest.raises(SamepathError, match=words):
        World.restore(spoil(collision_course().snapshot()))
