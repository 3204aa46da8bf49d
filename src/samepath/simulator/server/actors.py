"""Who is in an episode, as clients see it: vehicles, walkers and props with a body in the world, and everybody without one."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from samepath.core.catalogue import VehicleType
from samepath.core.states import Pose
from samepath.simulator.carla.blueprints import Blueprint
from samepath.simulator.carla.codec import CallError
from samepath.simulator.carla.records import (
    AckermannControl,
    AckermannSettings,
    Actor,
    PhysicsControl,
    VehicleControl,
    WalkerControl,
)
from samepath.simulator.carla.streams import ACTIVE, ActorStates
from samepath.simulator.world.signals import Signals
from samepath.simulator.world.state_table import STATE_FIELDS
from samepath.simulator.world.world import World

_STILL_MPS: Final = 0.1
_MAX_ACCELERATION_MPS2: Final = 3.0
_MAX_BRAKING_MPS2: Final = 8.0
_NO_RATE: Final = 1e-3
# The part of a fresh measurement in the smoothed acceleration.
_FRESH: Final = 0.2
_USUAL: Final = AckermannSettings()


@dataclass
class _Pid:
    """Remembers the last measurement and the sum of errors; what it gives lies between -1 and 1."""

    last: float | None = None
    total: float = 0.0

    def run(self, gains: tuple[float, float, float], wanted: float, measured: float, dt_s: float) -> float:
        change = 0.0 if self.last is None else (measured - self.last) / dt_s
        self.total = _within(self.total + gains[1] * (wanted - measured) * dt_s, 1.0)
        self.last = measured
        return _within(gains[0] * (wanted - measured) + self.total - gains[2] * change, 1.0)


def _within(value: float, most: float) -> float:
    return min(max(value, -most), most)


@dataclass
class AckermannController:
    """Drives one vehicle by speed and steering angle; ``target`` None: the pedals are the client's.

    An outer controller turns the difference of speeds into a wanted acceleration, an inner one the difference of accelerations
    into pedals; both add up what they ask for from tick to tick. Gains, limits and the rule that a vehicle stops before it
    changes direction are those of CARLA's Ackermann control.
    """

    settings: AckermannSettings = _USUAL
    target: AckermannControl | None = None
    _speed: _Pid = field(default_factory=_Pid)
    _acceleration: _Pid = field(default_factory=_Pid)
    _wanted_mps2: float = 0.0
    _pedal: float = 0.0
    _steer_rad: float = 0.0
    _reverse: bool = False
    _last_mps: float | None = None
    _felt_mps2: float = 0.0

    def aim(self, target: AckermannControl) -> None:
        """Take a new target; what was learnt on the way to the last one is kept."""
        if self.target is None:
            self.release()
        self.target = target

    def release(self) -> None:
        """Give the pedals back and forget."""
        self.target = None
        self._speed, self._acceleration = _Pid(), _Pid()
        self._wanted_mps2 = self._pedal = self._steer_rad = self._felt_mps2 = 0.0
        self._reverse, self._last_mps = False, None

    def drive(self, speed_mps: float, max_steer_rad: float, dt_s: float) -> VehicleControl:
        """Work out pedals and wheel for the next tick from the signed forward speed."""
        target = self.target or AckermannControl()
        steer = self._steer(target, max_steer_rad, dt_s)
        felt_mps2 = 0.0 if self._last_mps is None else (speed_mps - self._last_mps) / dt_s
        self._felt_mps2 += _FRESH * (felt_mps2 - self._felt_mps2)
        self._last_mps = speed_mps
        if abs(speed_mps) < _STILL_MPS and abs(target.speed) < _STILL_MPS:
            return VehicleControl(steer=steer, brake=1.0, reverse=self._reverse)
        wanted_mps = target.speed
        if abs(speed_mps) < _STILL_MPS:
            self._reverse = target.speed < 0.0
        elif speed_mps * target.speed < 0.0:
            wanted_mps = 0.0
        gains = self.settings
        most = abs(target.acceleration)
        low, high = (-most, most) if most > _NO_RATE else (-_MAX_BRAKING_MPS2, _MAX_ACCELERATION_MPS2)
        self._wanted_mps2 += self._speed.run(gains[:3], wanted_mps, speed_mps, dt_s)
        self._wanted_mps2 = min(max(self._wanted_mps2, low), high)
        self._pedal += self._acceleration.run(gains[3:], self._wanted_mps2, self._felt_mps2, dt_s)
        self._pedal = _within(self._pedal, 1.0)
        forward = -self._pedal if self._reverse else self._pedal
        return VehicleControl(max(forward, 0.0), steer, max(-forward, 0.0), reverse=self._reverse)

    def _steer(self, target: AckermannControl, max_steer_rad: float, dt_s: float) -> float:
        if max_steer_rad <= 0.0:
            return 0.0
        wanted = min(max(target.steer, -max_steer_rad), max_steer_rad)
        if abs(target.steer_speed) >= _NO_RATE:
            reach = abs(target.steer_speed) * dt_s
            wanted = min(max(wanted, self._steer_rad - reach), self._steer_rad + reach)
        self._steer_rad = wanted
        return wanted / max_steer_rad


# The world's columns in the order of the wire: x y z, pitch yaw roll, velocity, angular velocity, acceleration.
_COLUMNS: Final = [0, 1, 2, 4, 5, 3, *range(6, len(STATE_FIELDS))]
_POSE_ORDER: Final = (0, 1, 2, 4, 5, 3)
NO_CONTROL: Final = VehicleControl()
STANDING: Final = WalkerControl()


@dataclass(eq=False)
class ActorEntry:
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

    def write(self, states: ActorStates, row: int) -> None:
        """Write what only this kind of actor has."""


@dataclass(eq=False)
class VehicleEntry(ActorEntry):
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

    def write(self, states: ActorStates, row: int) -> None:
        """Write its controls; lights are written with the tick."""
        states.put_vehicle_control(row, self.control)
        states.rows["speed_limit"][row] = self.speed_limit_kmh


@dataclass(eq=False)
class WalkerEntry(ActorEntry):
    """A walker. A ``mortal`` one dies of a vehicle; a dead one is taken out when the episode's clock is at ``leaves_at_s``."""

    control: WalkerControl = STANDING
    mortal: bool = False
    leaves_at_s: float | None = None

    @property
    def is_dead(self) -> bool:
        return self.leaves_at_s is not None

    def write(self, states: ActorStates, row: int) -> None:
        """Write how it walks."""
        states.put_walker_control(row, self.control)


@dataclass(eq=False)
class SignEntry(ActorEntry):
    """A traffic sign, or a traffic light by its number in the map's plan."""

    signal_id: str = ""
    light: int | None = None

    def write(self, states: ActorStates, row: int) -> None:
        """Write its OpenDRIVE id; what a light shows is written with the tick."""
        states.rows["sign_id"][row] = self.signal_id.encode()[:32]


Kind = TypeVar("Kind", bound=ActorEntry)


class WrittenLights(NamedTuple):
    """Which state of the traffic lights stands in the table, and where: their rows, and their places in the plan."""

    signals: Signals
    version: int
    rows: NDArray[np.int64]
    lights: NDArray[np.int64]


# Rows of the table: a slice where they follow one another, which numpy reads and writes in a third of the time.
Rows = NDArray[np.int64] | slice


class VehicleRoll(NamedTuple):
    """What of the vehicles stays the same until somebody comes or goes: ids, rows, half lengths; and the ids of lights."""

    ids: tuple[int, ...]
    rows: Rows
    half_m: NDArray[np.float64]
    lights: dict[int, int]


def _together(rows: list[int]) -> Rows:
    if rows and rows == list(range(rows[0], rows[-1] + 1)):
        return slice(rows[0], rows[-1] + 1)
    return np.array(rows, np.int64)


class ActorRegistry:
    """All actors by id, and the table of their states."""

    def __init__(self) -> None:
        self._entries: dict[int, ActorEntry] = {}
        self._states = ActorStates(0)
        self._rows: dict[int, int] = {}
        # The rows of the world's bodies, and the world's ids they were worked out for.
        self._bodies: Rows = slice(0, 0)
        self._body_ids: NDArray[np.int64] | None = None
        self._stale = True
        self._kinds: dict[type[ActorEntry], list[Any]] = {}
        self._roll: VehicleRoll | None = None  # and the next: None until asked for, since somebody came or went
        self._attached: list[ActorEntry] | None = None
        self.version = 0  # counts who came and went
        self.lights: WrittenLights | None = None  # None: none since somebody came or went

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ActorEntry]:
        return iter(self._entries.values())

    def __contains__(self, actor_id: int) -> bool:
        return actor_id in self._entries

    @property
    def newest(self) -> ActorEntry:
        """The actor that came last; the map's own come before all others."""
        return next(reversed(self._entries.values()))

    def find(self, actor_id: int) -> ActorEntry | None:
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
            found = self._kinds[wanted] = [entry for entry in self._entries.values() if isinstance(entry, wanted)]
        return found

    def add(self, entry: ActorEntry) -> None:
        """Add an actor; ids rise."""
        self._entries[entry.id] = entry
        self._changed()

    def remove(self, actor_id: int) -> ActorEntry:
        """Take an actor out."""
        self._changed()
        return self._entries.pop(actor_id)

    def _changed(self) -> None:
        self.version += 1
        self._stale = True
        self._kinds = {}
        self.lights = None
        self._roll = None
        self._attached = None

    def row(self, actor_id: int) -> int:
        """An actor's row in the table."""
        self._fresh()
        return self._rows[actor_id]

    def rows(self, wanted: list[Kind]) -> list[int]:
        """The rows of some actors."""
        self._fresh()
        return [self._rows[entry.id] for entry in wanted]

    @property
    def attached(self) -> list[ActorEntry]:
        """Those that were attached to somebody when they came, by id."""
        if self._attached is None:
            self._attached = [entry for entry in self._entries.values() if entry.record.parent_id]
        return self._attached

    @property
    def roll(self) -> "VehicleRoll":
        """The vehicles, as a tick writes them."""
        if self._roll is None:
            vehicles = self.all(VehicleEntry)
            self._roll = VehicleRoll(
                tuple(entry.id for entry in vehicles),
                _together(self.rows(vehicles)),
                np.array([entry.record.bounding_box.extent.x for entry in vehicles], np.float64),
                {sign.light: sign.id for sign in self.all(SignEntry) if sign.light is not None},
            )
        return self._roll

    @property
    def states(self) -> ActorStates:
        """The table, with a row for everyone by id."""
        self._fresh()
        return self._states

    def _fresh(self) -> None:
        if not self._stale:
            return
        states = ActorStates(len(self._entries))
        states.rows["id"] = list(self._entries)
        states.rows["state"] = ACTIVE
        self._rows = {number: row for row, number in enumerate(self._entries)}
        self._body_ids = None
        for row, entry in enumerate(self._entries.values()):
            entry.write(states, row)
            if not entry.has_body:
                states.rows["motion"][row, :6] = [entry.pose[index] for index in _POSE_ORDER]
        self._states = states
        self._stale = False

    def rewrite(self, entry: ActorEntry) -> None:
        """Write again what only this kind of actor has."""
        if not self._stale:
            entry.write(self._states, self._rows[entry.id])

    def place(self, entry: ActorEntry) -> None:
        """Write where an actor without a body is."""
        if not self._stale:
            self._states.rows["motion"][self._rows[entry.id], :6] = [entry.pose[index] for index in _POSE_ORDER]

    def fill(self, world: World) -> None:
        """Write where all bodies are and how they move, each into the row of its id."""
        self._fresh()
        ids, values = world.state_array()
        if ids is not self._body_ids:
            bodies = [entry.id for entry in self._entries.values() if entry.has_body]
            if sorted(bodies) != ids.tolist():
                raise RuntimeError(f"expected bodies of actors {sorted(bodies)}, the world has those of {ids.tolist()}")
            self._bodies = _together([self._rows[number] for number in ids.tolist()])
            self._body_ids = ids
        if len(ids):
            self._states.rows["motion"][self._bodies] = values[:, _COLUMNS]

    def motion(self, actor_id: int) -> tuple[float, ...]:
        """Where an actor is, exactly as the state of this tick says it: x y z, pitch yaw roll."""
        self._fresh()
        row = self._states.rows["motion"][self._rows[actor_id], :6]
        return tuple(float(value) for value in row)
