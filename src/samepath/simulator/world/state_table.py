"""The state of every actor after the last tick, by id: records for whoever asks for one actor, numbers for who wants all.

Most of a tick with a hundred vehicles would be the making of records that nobody looks at. So states of many actors are worked
out as arrays, and a record is made when it is asked for. With few actors that is slower than one by one: numpy takes longer to
begin than they take. Both ways give the same bits (``tests/simulator/world/test_state_table.py``): each is a fixed sequence of
operations that IEEE 754 rounds in one way, the same for a number as for an array of them.
"""

from collections.abc import Iterator, Sequence
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
# From so many actors on, arrays are quicker.
MANY: Final = 8


class StateTable:
    """States by id, in the order in which they were put; :meth:`sort` puts them in the order of ids."""

    def __init__(self) -> None:
        self._ids: dict[int, int] = {}  # and the row of each
        self._id_array: NDArray[np.int64] | None = None  # None: to be made of them
        self._rows: F64 | None = None  # None: only the records are there
        self._records: dict[int, ActorState] = {}  # of some, if there are rows; else of all

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    def __getitem__(self, actor_id: int) -> ActorState:
        found = self._records.get(actor_id)
        if found is None and self._rows is not None:
            found = self._records[actor_id] = state_of(actor_id, self._rows[self._ids[actor_id]].tolist())
        if found is None:
            raise KeyError(actor_id)
        return found

    def put(self, state: ActorState) -> None:
        """Add or replace the state of one actor."""
        self._to_records()
        self._ids.setdefault(state.id, len(self._ids))
        self._id_array = None
        self._records[state.id] = state

    def remove(self, actor_id: int) -> None:
        """Take an actor out."""
        self._to_records()
        del self._records[actor_id]
        self._number_rows()

    def sort(self) -> None:
        """Order by id: everything that walks over the table does so in that order."""
        self._to_records()
        self._records = dict(sorted(self._records.items()))
        self._number_rows()

    def _number_rows(self) -> None:
        self._ids = {number: row for row, number in enumerate(self._records)}
        self._id_array = None

    def records(self) -> dict[int, ActorState]:
        """All states, by id; a copy."""
        self._complete()
        return dict(self._records)

    def row(self, actor_id: int) -> list[float]:
        """The ``STATE_FIELDS`` of one actor."""
        if self._rows is not None:
            found: list[float] = self._rows[self._ids[actor_id]].tolist()
            return found
        return row_of(self._records[actor_id])

    def array(self) -> tuple[NDArray[np.int64], F64]:
        """Ids, and the ``STATE_FIELDS`` of all, f64[n, 15]; not to be written to."""
        if self._rows is None:
            rows = [row_of(state) for state in self._records.values()]
            self._rows = np.array(rows, np.float64).reshape(-1, len(STATE_FIELDS))
        if self._id_array is None:
            self._id_array = np.array(list(self._ids), np.int64)
        return self._id_array, self._rows

    def to_bytes(self) -> bytes:
        """Every bit of it, for a digest: the ids, then eight bytes for each number."""
        ids, rows = self.array()
        return ids.astype("<i8", copy=False).tobytes() + rows.astype("<f8", copy=False).tobytes()

    @property
    def has_many(self) -> bool:
        """Is it quicker to take all bodies as one array?"""
        return len(self._ids) >= MANY

    def advance(self, bodies: Sequence[BodyState] | F64, dt_s: float) -> None:
        """Take what physics has made of everybody, in the order of the table, in a step of ``dt_s``."""
        if not isinstance(bodies, np.ndarray):
            old = self.records()
            self._rows = None
            self._records = {
                before.id: moved(before.id, body, before, dt_s) for before, body in zip(old.values(), bodies, strict=True)
            }
            return
        before_mps = self.array()[1][:, 6:9]
        self._rows = moved_rows(bodies, before_mps, dt_s)
        self._records = {}

    def _complete(self) -> None:
        """Have a record of everybody."""
        if len(self._records) != len(self._ids) and self._rows is not None:
            known, rows = self._records, self._rows.tolist()
            self._records = {number: known.get(number) or state_of(number, rows[row]) for number, row in self._ids.items()}

    def _to_records(self) -> None:
        """Have a record of everybody, and let go of the rows, which are about to be wrong."""
        self._complete()
        self._rows = None


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
