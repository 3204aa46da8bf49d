"""States as arrays and one by one: the same bits, whatever is asked in between."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samepath.core.catalogue import actor_type
from samepath.core.states import ActorState, Pose, Vector, VehicleCommand
from samepath.core.streams import stream
from samepath.simulator.physics.actors import BodyState
from samepath.simulator.physics.engine import Physics, PhysicsSettings
from samepath.simulator.world import state_table
from samepath.simulator.world.state_table import StateTable, moved, moved_rows, row_of, state_of
from samepath.simulator.world.world import World


def bodies_of(count: int) -> list[BodyState]:
    """Bodies in every attitude, those along the axes and at rest among them; 32-bit numbers, as physics has them."""
    chance = stream(1, "bodies")
    numbers = chance.normal(0.0, 20.0, (count, 13)).astype(np.float32).astype(np.float64)
    turns = numbers[:, 3:7]
    turns /= np.sqrt((turns * turns).sum(axis=1))[:, None]
    turns[: min(count, 8)] = [
        (1, 0, 0, 0), (0, 0, 0, 1), (-1, -0.0, 0, 0), (0.5**0.5, 0, 0, 0.5**0.5),
        (0.5**0.5, 0, 0, -(0.5**0.5)), (0.5**0.5, 0, 0.5**0.5, 0), (0, 1, 0, 0), (1, -0.0, -0.0, -0.0),
    ][:count]  # fmt: skip
    numbers[3:6, 7:] = 0.0
    numbers[6:8, 7:] = -0.0
    return [
        BodyState(tuple(row[:3]), tuple(row[3:7]), tuple(row[7:10]), tuple(row[10:13]))  # type: ignore[arg-type]
        for row in numbers.tolist()
    ]


def numbers_of(bodies: list[BodyState]) -> np.ndarray:
    return np.array([(*at, *turn, *speed, *spin) for at, turn, speed, spin in bodies])


def test_arrays_give_the_bits_of_single_states() -> None:
    bodies = bodies_of(2000)
    before = [moved(number, body, None, 0.05) for number, body in enumerate(bodies[::-1])]
    single = [row_of(moved(number, body, old, 0.05)) for (number, body), old in zip(enumerate(bodies), before, strict=True)]
    together = moved_rows(numbers_of(bodies), np.array([state.velocity_mps for state in before]), 0.05)
    assert together.tobytes() == b"".join(struct.pack("<15d", *row) for row in single)


def test_bodies_are_read_alike_one_by_one_and_together() -> None:
    physics = Physics(PhysicsSettings())
    physics.add_ground()
    for number in range(1, 5):
        physics.add(number, actor_type("vehicle.tesla.model3"), Pose(10.0 * number, 2.0, 0.3, 1.0, 2.0, 70.0 * number))
        physics.set_velocity(number, Vector(-3.0, 0.5 * number, 0.0), Vector(0.1, -0.2, 0.3))
    physics.step()
    single = [struct.pack("<13d", *at, *turn, *speed, *spin) for at, turn, speed, spin in physics.states((4, 1, 3))]
    assert physics.state_array((4, 1, 3)).tobytes() == b"".join(single)


def drive(count: int, ticks: int = 30) -> tuple[str, list[list[float]]]:
    world = World(PhysicsSettings(step_s=0.05, substeps=5))
    for index in range(count):
        number = world.spawn("vehicle.tesla.model3", Pose(12.0 * (index % 10), 12.0 * (index // 10), 0.03, yaw_deg=index * 7.0))
        world.apply(number, VehicleCommand(throttle=0.5, steer=0.3))
    for tick in range(ticks):
        world.tick()
        if tick == 10:
            world.set_velocity(2, Vector(3.0, 1.0, 0.0))
        if tick == 15:
            world.destroy(3)
        if tick == 20:
            world = World.restore(world.snapshot())
    return world.digest, [world.state_row(actor.id) for actor in world.actors]


def test_a_world_has_one_digest_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    as_arrays = drive(state_table.MANY + 4)
    monkeypatch.setattr(state_table, "MANY", 1 << 30)
    assert drive(len(as_arrays[1]) + 1) == as_arrays


@pytest.mark.parametrize("as_array", [True, False])
def test_records_rows_and_arrays_agree_in_order_of_id(as_array: bool) -> None:
    table, bodies = StateTable(), bodies_of(20)
    for number, body in zip((5, 3, *range(6, 24)), bodies, strict=True):
        table.put(moved(number, body, None, 0.05))
    assert list(table) == [3, 5, *range(6, 24)]
    table.advance(numbers_of(bodies[::-1]) if as_array else bodies[::-1], 0.05)
    seventh = table[7]
    assert table.records()[7] == seventh == state_of(7, table.row(7))
    check_table(table, table.records())
    before = table.array()[1]
    table.remove(5)
    table.put(state_of(7, [1.0] * 15))
    assert table[7].pose.x_m == 1.0
    assert len(before) == 20
    assert before[3].tolist() == row_of(seventh)
    check_table(table, table.records())
    with pytest.raises(KeyError):
        table[5]


def check_table(table: StateTable, model: dict[int, ActorState]) -> None:
    """Compare every way to read the table with a dictionary."""
    ids, rows = table.array()
    assert ids.tolist() == sorted(model) == list(table)
    assert len(table) == len(model)
    assert rows.tolist() == [row_of(model[number]) for number in sorted(model)]
    assert list(table.records().items()) == sorted(model.items())
    assert all(table.row(number) == row_of(model[number]) for number in model)
    assert table.to_bytes() == ids.tobytes() + rows.tobytes()


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "remove", "read", "read all", "advance", "advance array"]), st.integers(1, 12)),
    max_size=60,
)


@settings(deadline=None, max_examples=200)
@given(STEPS)
def test_a_table_agrees_with_a_dictionary_after_any_sequence_of_calls(steps: list[tuple[str, int]]) -> None:
    table, model, bodies = StateTable(), dict[int, ActorState](), bodies_of(40)
    for count, (step, number) in enumerate(steps):
        if step == "put":
            model[number] = moved(number, bodies[count % 40], None, 0.05)
            table.put(model[number])
        elif step == "remove" and number in model:
            del model[number]
            table.remove(number)
        elif step == "read" and number in model:
            assert table[number] == model[number]
        elif step == "read all":
            assert table.records() == model
        elif step.startswith("advance"):
            some = [bodies[(count + row) % 40] for row in range(len(model))]
            table.advance(numbers_of(some).reshape(-1, 13) if "array" in step else some, 0.05)
            model = {number: moved(number, body, model[number], 0.05) for number, body in zip(sorted(model), some, strict=True)}
    check_table(table, model)
