"""The state of every actor after the last tick: one array, in order of actor id, and a record for one actor on request.

Most of a tick with a hundred vehicles would be spent on records that are never read. So the states of many actors are
computed as arrays, and a record is made when it is asked for. With few actors numpy's overhead is larger than the work, so
they are computed one at a time. Both ways give the same bits (``tests/simulator/world/test_state_table.py``): each is a fixed
sequence of operations that IEEE 754 rounds in one way, the same for a number as for an array of numbers.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.channels import ACCELERATION, ANGULAR_VELOCITY, POSITION, ROTATION, VELOCITY
from samepath.core.states import ActorState, Pose, Vector
from samepath.core.trig import to_degrees
from samepath.core.trig_arrays import atan2
from samepath.simulator.physics.actors import BodyState
from samepath.simulator.physics.frames import angles_of

F64 = NDArray[np.float64]
STATE_FIELDS: Final = (*POSITION, *ROTATION, *VELOCITY, *ANGULAR_VELOCITY, *ACCELERATION)
# With this many actors or more, arrays are faster.
MANY: Final = 8


class StateTable:
    """The states of all actors, one row each, in order of actor id.

    ``_rows`` is the only truth. Records are made from it when they are asked for and kept until the row changes, so
    neither their number nor the order in which they were read can move an actor to another row.
    """

    def __init__(self, states: Iterable[ActorState] = ()) -> None:
        ordered = sorted(states, key=lambda state: state.id)
        self._records: dict[int, ActorState] = {}
        self._set_ids([state.id for state in ordered])
        self._rows = _read_only(np.array([row_of(state) for state in ordered], np.float64).reshape(-1, len(STATE_FIELDS)))

    def __len__(self) -> int:
        return len(self._row_of)

    def __iter__(self) -> Iterator[int]:
        return iter(self._row_of)

    def __getitem__(self, actor_id: int) -> ActorState:
        record = self._records.get(actor_id)
        if record is None:
            record = self._records[actor_id] = state_of(actor_id, self.row(actor_id))
        return record

    def put(self, state: ActorState) -> None:
        """Add or replace the state of one actor."""
        row = self._row_of.get(state.id)
        if row is None:
            row = int(np.searchsorted(self._ids, state.id))
            self._rows = _read_only(np.insert(self._rows, row, row_of(state), axis=0))
            self._set_ids([*self._ids[:row].tolist(), state.id, *self._ids[row:].tolist()])
        else:
            # A copy: arrays that were handed out keep the state that they were handed out with.
            rows = self._rows.copy()
            rows[row] = row_of(state)
            self._rows = _read_only(rows)
        self._records[state.id] = state

    def remove(self, actor_id: int) -> None:
        """Remove one actor."""
        row = self._row_of[actor_id]
        self._rows = _read_only(np.delete(self._rows, row, axis=0))
        self._set_ids(np.delete(self._ids, row).tolist())
        self._records.pop(actor_id, None)

    def records(self) -> dict[int, ActorState]:
        """Return all states by id, in order of id; a copy."""
        if len(self._records) < len(self._row_of):
            known = self._records
            rows = self._rows.tolist()
            self._records = {number: known.get(number) or state_of(number, rows[row]) for number, row in self._row_of.items()}
        return {number: self._records[number] for number in self._row_of}

    def row(self, actor_id: int) -> list[float]:
        """Return the ``STATE_FIELDS`` of one actor."""
        values: list[float] = self._rows[self._row_of[actor_id]].tolist()
        return values

    def array(self) -> tuple[NDArray[np.int64], F64]:
        """Return the ids, rising, and the ``STATE_FIELDS`` of all actors, f64[n, 15]; both read-only.

        The array of ids is the same object until an actor is added or removed.
        """
        return self._ids, self._rows

    def to_bytes(self) -> bytes:
        """Return every bit of the states for a digest: the ids, then eight bytes for each number."""
        return self._ids.astype("<i8", copy=False).tobytes() + self._rows.astype("<f8", copy=False).tobytes()

    @property
    def has_many(self) -> bool:
        """Return True if one array of all bodies is faster to process than one body at a time."""
        return len(self._row_of) >= MANY

    def advance(self, bodies: Sequence[BodyState] | F64, dt_s: float) -> None:
        """Take the bodies of all actors, in order of id, after a step of ``dt_s``."""
        if isinstance(bodies, np.ndarray):
            self._rows = _read_only(moved_rows(bodies, self._rows[:, 6:9], dt_s))
            self._records = {}
            return
        self._records = {
            number: moved(number, body, self[number], dt_s) for number, body in zip(self._row_of, bodies, strict=True)
        }
        rows = [row_of(state) for state in self._records.values()]
        self._rows = _read_only(np.array(rows, np.float64).reshape(-1, len(STATE_FIELDS)))

    def _set_ids(self, ids: list[int]) -> None:
        self._ids = np.array(ids, np.int64)
        self._ids.flags.writeable = False
        self._row_of = {number: row for row, number in enumerate(ids)}


def _read_only(rows: F64) -> F64:
    rows.flags.writeable = False
    return rows


def moved(actor_id: int, body: BodyState, before: ActorState | None, dt_s: float) -> ActorState:
    """The state of one body; None before: it was just put somewhere, or given a velocity, and has not accelerated by it."""
    roll, pitch, yaw = angles_of(body.rotation)
    velocity = Vector(*body.velocity_mps)
    x, y, z = body.spin_radps
    spin = Vector(to_degrees(x), to_degrees(y), to_degrees(z))
    acceleration = Vector()
    if before is not None:
        old = before.velocity_mps
        acceleration = Vector((velocity.x - old.x) / dt_s, (velocity.y - old.y) / dt_s, (velocity.z - old.z) / dt_s)
    return ActorState(actor_id, Pose(*body.position_m, roll, pitch, yaw), velocity, spin, acceleration)


def moved_rows(numbers: F64, before_mps: F64, dt_s: float) -> F64:
    """The same for many at once, f64[n, 13] to f64[n, 15]: the very bits of :func:`moved`."""
    w, x, y, z = numbers[:, 3:7].T.copy()
    # What ``axes_of`` says of forward, right and up, as far as angles need it.
    forward_x, forward_y, forward_z = 1 - 2 * (y * y + z * z), -(2 * (x * y + w * z)), 2 * (x * z - w * y)
    left_z, up_z = 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)
    flat = np.sqrt(forward_x * forward_x + forward_y * forward_y)
    angles = atan2(np.array((left_z, forward_z, forward_y)), np.array((up_z, flat, forward_x)))
    rows = np.empty((len(numbers), len(STATE_FIELDS)))
    rows[:, :3] = numbers[:, :3]
    rows[:, 3:6] = to_degrees(angles.T)  # type: ignore[arg-type] # a product, of an array as of a number
    rows[:, 6:9] = numbers[:, 7:10]
    rows[:, 9:12] = to_degrees(numbers[:, 10:13])  # type: ignore[arg-type]
    rows[:, 12:15] = (numbers[:, 7:10] - before_mps) / dt_s
    return rows


def row_of(state: ActorState) -> list[float]:
    """A state as numbers, in the order of ``STATE_FIELDS``."""
    return [*state.pose, *state.velocity_mps, *state.angular_velocity_degps, *state.acceleration_mps2]


def state_of(actor_id: int, row: Sequence[float]) -> ActorState:
    """Read what :func:`row_of` wrote."""
    return ActorState(actor_id, Pose(*row[:6]), Vector(*row[6:9]), Vector(*row[9:12]), Vector(*row[12:15]))
