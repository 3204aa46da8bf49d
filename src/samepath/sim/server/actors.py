"""Who is in an episode, as clients see it: vehicles, walkers and props with a body in the world, and everybody without one."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np

from samepath.sim.server.ackermann import AckermannController
from samepath.sim.server.blueprints import Blueprint
from samepath.sim.server.errors import CallError
from samepath.sim.server.frames import ACTIVE, States
from samepath.sim.server.records import Actor, PhysicsControl, VehicleControl, WalkerControl
from samepath.sim.world.catalogue import VehicleType
from samepath.sim.world.records import Pose
from samepath.sim.world.world import STATE_FIELDS, World

# The world's columns in the order of the wire: x y z, pitch yaw roll, velocity, angular velocity, acceleration.
_COLUMNS: Final = [0, 1, 2, 4, 5, 3, *range(6, len(STATE_FIELDS))]
_POSE_ORDER: Final = (0, 1, 2, 4, 5, 3)
NO_CONTROL: Final = VehicleControl()
STANDING: Final = WalkerControl()


@dataclass(eq=False)
class Entry:
    """An actor. ``pose`` counts for those without a body; ``relative`` for those attached to another.

    ``volume`` is the patch of ground a trigger stands for, ``stream_id`` where a sensor's measurements go.
    """

    record: Actor
    blueprint: Blueprint | None
    pose: Pose
    has_body: bool = False
    relative: Pose | None = None
    children: list[int] = field(default_factory=list)
    volume: int | None = None
    stream_id: int = 0

    @property
    def id(self) -> int:
        """The actor's id."""
        return self.record.id

    @property
    def type_id(self) -> str:
        """What it is."""
        return self.record.description.id

    def write(self, states: States, row: int) -> None:
        """Write what only this kind of actor has."""


@dataclass(eq=False)
class VehicleEntry(Entry):
    """A vehicle."""

    base: VehicleType | None = None
    control: VehicleControl = NO_CONTROL
    sticky: bool = True
    ackermann: AckermannController = field(default_factory=AckermannController)
    lights: int = 0
    open_doors: set[int] = field(default_factory=set)
    physics: PhysicsControl | None = None
    speed_limit_kmh: float = 30.0
    looked_up_at: tuple[float, float] = (float("inf"), 0.0)
    light_number: int = -1

    def write(self, states: States, row: int) -> None:
        """Write its controls; lights are written with the tick."""
        states.put_vehicle_control(row, self.control)
        states.rows["speed_limit"][row] = self.speed_limit_kmh


@dataclass(eq=False)
class WalkerEntry(Entry):
    """A walker."""

    control: WalkerControl = STANDING

    def write(self, states: States, row: int) -> None:
        """Write how it walks."""
        states.put_walker_control(row, self.control)


@dataclass(eq=False)
class SignEntry(Entry):
    """A traffic sign, or a traffic light by its number in the map's plan."""

    signal_id: str = ""
    light: int | None = None

    def write(self, states: States, row: int) -> None:
        """Write its OpenDRIVE id; what a light shows is written with the tick."""
        states.rows["sign_id"][row] = self.signal_id.encode()[:32]


Kind = TypeVar("Kind", bound=Entry)


class Registry:
    """All actors by id, and the table of their states."""

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}
        self._states = States(0)
        self._rows: dict[int, int] = {}
        self._bodies = np.zeros(0, np.int64)
        self._stale = True
        self._kinds: dict[type[Entry], list[Any]] = {}
        self.version = 0  # counts who came and went

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __contains__(self, actor_id: int) -> bool:
        return actor_id in self._entries

    def find(self, actor_id: int) -> Entry | None:
        """The actor of this id, if there is one."""
        return self._entries.get(actor_id)

    def get(self, actor_id: int, wanted: type[Kind], what: str) -> Kind:
        """The actor of this id, of the wanted kind; ``what`` says that kind in words."""
        found = self._entries.get(actor_id)
        if found is None:
            raise CallError(f"actor {actor_id} not found")
        if not isinstance(found, wanted):
            raise CallError(f"actor {actor_id} is a {found.type_id}, not {what}")
        return found

    def all(self, wanted: type[Kind]) -> list[Kind]:
        """All actors of a kind, by id; the list is kept until somebody comes or goes."""
        found = self._kinds.get(wanted)
        if found is None:
            found = self._kinds[wanted] = [one for one in self._entries.values() if isinstance(one, wanted)]
        return found

    def add(self, entry: Entry) -> None:
        """Add an actor; ids rise."""
        self._entries[entry.id] = entry
        self._changed()

    def remove(self, actor_id: int) -> Entry:
        """Take an actor out."""
        self._changed()
        return self._entries.pop(actor_id)

    def _changed(self) -> None:
        self.version += 1
        self._stale = True
        self._kinds = {}

    def row(self, actor_id: int) -> int:
        """An actor's row in the table."""
        self._fresh()
        return self._rows[actor_id]

    def rows(self, wanted: list[Kind]) -> list[int]:
        """The rows of some actors."""
        self._fresh()
        return [self._rows[one.id] for one in wanted]

    @property
    def states(self) -> States:
        """The table, with a row for everyone by id."""
        self._fresh()
        return self._states

    def _fresh(self) -> None:
        if not self._stale:
            return
        states = States(len(self._entries))
        states.rows["id"] = list(self._entries)
        states.rows["state"] = ACTIVE
        self._rows = {number: row for row, number in enumerate(self._entries)}
        bodies = [row for row, entry in enumerate(self._entries.values()) if entry.has_body]
        self._bodies = np.array(bodies, np.int64)
        for row, entry in enumerate(self._entries.values()):
            entry.write(states, row)
            if not entry.has_body:
                states.rows["motion"][row, :6] = [entry.pose[index] for index in _POSE_ORDER]
        self._states = states
        self._stale = False

    def rewrite(self, entry: Entry) -> None:
        """Write again what only this kind of actor has."""
        if not self._stale:
            entry.write(self._states, self._rows[entry.id])

    def place(self, entry: Entry) -> None:
        """Write where an actor without a body is."""
        if not self._stale:
            self._states.rows["motion"][self._rows[entry.id], :6] = [entry.pose[index] for index in _POSE_ORDER]

    def fill(self, world: World) -> None:
        """Write where all bodies are and how they move."""
        self._fresh()
        _, values = world.state_array()
        self._states.rows["motion"][self._bodies] = values[:, _COLUMNS]

    def motion(self, actor_id: int) -> tuple[float, ...]:
        """Where an actor is, exactly as the state of this tick says it: x y z, pitch yaw roll."""
        self._fresh()
        row = self._states.rows["motion"][self._rows[actor_id], :6]
        return tuple(float(one) for one in row)
