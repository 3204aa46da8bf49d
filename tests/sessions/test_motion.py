"""The check of recorded motion finds positions that repeat and are wrong."""

from pathlib import Path

import msgpack
import numpy as np
import pytest

from samepath.sessions.recording import (
    VERSION,
    SessionAnswer,
    SessionCall,
    SessionContent,
    SessionHeader,
    SessionState,
    SessionWriter,
)
from samepath.simulator.carla.streams import ACTOR_STATE
from tests.compatibility.motion import check_motion

STEP_S = 0.05
CARS = (7, 9)


def content(value: object) -> SessionContent:
    return SessionContent.of(msgpack.packb(value), 1 << 16)


def spawned(actor: int, x_m: float) -> tuple[SessionCall, SessionAnswer]:
    """A call that spawns a car at a place, and its answer."""
    description = [actor, "vehicle.tesla.model3", []]
    call = SessionCall(actor, 1, "spawn_actor", content([[False], description, [[x_m, 0.0, 0.0], [0.0, 0.0, 0.0]]]), 1, 0.0)
    record = [actor, 0, description, [[0.0] * 3, [0.0] * 3, [0.0] * 3, actor], [], b""]
    return call, SessionAnswer(actor, False, content([[1, record]]), 1)


def state(frame: int, xs_m: dict[int, float], speed_mps: float) -> SessionState:
    rows = np.zeros(len(xs_m), ACTOR_STATE)
    for row, (actor, x_m) in zip(rows, xs_m.items(), strict=True):
        row["id"] = actor
        row["motion"][0], row["motion"][6] = x_m, speed_mps
    return SessionState(frame, frame * STEP_S, STEP_S, 1, 0, len(rows), bytes(16), None, rows.tobytes())


def recorded(path: Path, *states: SessionCall | SessionState) -> Path:
    writer = SessionWriter(path, SessionHeader(VERSION, "test", {}))
    for record in (*spawned(7, 0.0), *spawned(9, 100.0), *states):
        writer.add(record)
    writer.close("the script ended")
    return path


def test_cars_that_move_as_their_velocities_say_are_right(tmp_path: Path) -> None:
    states = [state(frame, {7: 0.5 * frame, 9: 100.0 + 0.5 * frame}, 10.0) for frame in range(1, 6)]
    check = check_motion(recorded(tmp_path / "session.samepath", *states))
    assert (check.steps, check.spawns, check.is_right) == (8, 2, True)


def test_cars_that_are_reported_at_the_place_of_another_are_found(tmp_path: Path) -> None:
    states = [state(1, {7: 0.0, 9: 100.0}, 0.0), state(2, {7: 100.0, 9: 0.0}, 0.0)]
    check = check_motion(recorded(tmp_path / "session.samepath", *states))
    assert check.jumps == ((2, 7, 100.0), (2, 9, 100.0))


def test_a_car_that_is_not_where_it_was_spawned_is_found(tmp_path: Path) -> None:
    check = check_motion(recorded(tmp_path / "session.samepath", state(1, {7: 0.0, 9: 90.0}, 0.0)))
    assert check.misplaced == ((1, 9, 10.0),)


@pytest.mark.parametrize("method", ["set_actor_location", "set_actor_transform"])
def test_a_car_that_a_client_moves_may_jump(tmp_path: Path, method: str) -> None:
    moved = SessionCall(20, 1, method, content([[False], 9, [50.0, 0.0, 0.0]]), 1, 0.0)
    states = (state(1, {7: 0.0, 9: 100.0}, 0.0), moved, state(2, {7: 0.0, 9: 50.0}, 0.0))
    assert check_motion(recorded(tmp_path / "session.samepath", *states)).is_right
