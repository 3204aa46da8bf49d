"""The world: actors that live on a map, moved by physics in whole ticks.

Decide from tick n, commit tick n + 1 at once: commands take effect together at the next tick, in the order of actor ids.
Everything the future depends on is in a snapshot; every tick has a digest chained over all before it.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.base.digests import first_link, link
from samepath.base.errors import SimulatorError
from samepath.base.trig import to_degrees
from samepath.sim.physics.engine import Physics, PhysicsSettings
from samepath.sim.physics.frames import angles_of
from samepath.sim.physics.packing import dump, load
from samepath.sim.world.catalogue import ActorType, PropType, VehicleType, WalkerType, actor_type
from samepath.sim.world.records import ActorState, Collision, Command, Pose, Vector, VehicleCommand, WalkerCommand
from samepath.traces.channels import ACCELERATION, ANGULAR_VELOCITY, POSITION, ROTATION, VELOCITY

SNAPSHOT_MAGIC: Final = b"samepath world 1\n"
STATE_FIELDS: Final = (*POSITION, *ROTATION, *VELOCITY, *ANGULAR_VELOCITY, *ACCELERATION)


@dataclass(frozen=True)
class StaticMesh:
    """A piece of scenery that never moves; touching ``ground`` is no collision."""

    name: str
    vertices: NDArray[np.float64]
    triangles: NDArray[np.int32]
    ground: bool


@dataclass(frozen=True)
class FrictionVolume:
    """A box in which tyres have another friction: ice, oil, gravel."""

    x_m: float
    y_m: float
    half_x_m: float
    half_y_m: float
    friction: float

    def holds(self, x_m: float, y_m: float) -> bool:
        """Is a point inside?"""
        return abs(x_m - self.x_m) <= self.half_x_m and abs(y_m - self.y_m) <= self.half_y_m


@dataclass(frozen=True)
class WorldActor:
    """Who is in the world."""

    id: int
    type: str


class World:
    """A world. Actors' ids rise from 1 and are never reused."""

    def __init__(
        self, settings: PhysicsSettings | None = None, statics: Iterable[StaticMesh] = (), place: str = "flat"
    ) -> None:
        self._physics = Physics(settings or PhysicsSettings())
        self.place = place
        self.tick_count = 0
        self.time_s = 0.0
        self._next_id = 1
        self._actors: dict[int, WorldActor] = {}
        self._states: dict[int, ActorState] = {}
        self._commands: dict[int, Command] = {}
        self._volumes: list[FrictionVolume] = []
        self._digest = first_link("world", place)
        empty = True
        for mesh in statics:
            self._physics.add_static(mesh.name, mesh.vertices, mesh.triangles, ground=mesh.ground)
            empty = False
        if empty:
            self._physics.add_ground()

    @property
    def settings(self) -> PhysicsSettings:
        """What is held equal."""
        return self._physics.settings

    @property
    def actors(self) -> tuple[WorldActor, ...]:
        """Everyone in the world, by id."""
        return tuple(self._actors.values())

    @property
    def digest(self) -> str:
        """Name of the world's whole history so far, in 32 hex digits."""
        return self._digest.hex()

    def spawn(self, type_name: str, pose: Pose, actor_id: int | None = None) -> int:
        """Put an actor into the world and return its id, the next one unless one is given; refuse a place that is taken."""
        kind = actor_type(type_name)
        taken = self._physics.occupant(kind, pose)
        if taken is not None:
            who = f"actor {taken}" if isinstance(taken, int) else taken
            raise SimulatorError(
                f"a {kind.name} cannot be put at ({pose.x_m:g}, {pose.y_m:g}, {pose.z_m:g}): {who} stands there"
            )
        number = self._next_id if actor_id is None else actor_id
        in_order = number >= self._next_id
        if not in_order and self.tick_count:
            raise SimulatorError(f"actor id {number} must be above all before it: ids are never reused")
        self._next_id = max(self._next_id, number + 1)
        self._physics.add(number, kind, pose, in_order=in_order)
        self._actors[number] = WorldActor(number, kind.name)
        self._states[number] = self._read(number, None)
        if not in_order:
            self._actors = dict(sorted(self._actors.items()))
            self._states = dict(sorted(self._states.items()))
        self._digest = link(self._digest, f"spawn {number} {kind.name} {pose!r}".encode())
        return number

    def destroy(self, actor_id: int) -> None:
        """Take an actor out of the world."""
        self._known(actor_id)
        self._physics.remove(actor_id)
        for table in (self._actors, self._states, self._commands):
            table.pop(actor_id, None)
        self._digest = link(self._digest, f"destroy {actor_id}".encode())

    def apply(self, actor_id: int, command: Command) -> None:
        """Say how an actor moves from the next tick on; the last word before a tick counts."""
        kind = self.kind(actor_id)
        wanted: type[VehicleCommand] | type[WalkerCommand] = VehicleCommand if isinstance(kind, VehicleType) else WalkerCommand
        if isinstance(kind, PropType) or not isinstance(command, wanted):
            raise SimulatorError(f"actor {actor_id} is a {kind.name}: a {type(command).__name__} does not move it")
        self._commands[actor_id] = command

    def kind(self, actor_id: int) -> ActorType:
        """Return an actor's type."""
        self._known(actor_id)
        return actor_type(self._actors[actor_id].type)

    def state(self, actor_id: int) -> ActorState:
        """Return an actor's state after the last tick."""
        self._known(actor_id)
        return self._states[actor_id]

    def gear(self, actor_id: int) -> int:
        """Return a vehicle's gear; -1 is reverse."""
        self._known(actor_id)
        return self._physics.gear(actor_id)

    def states(self) -> dict[int, ActorState]:
        """Return the states of all actors after the last tick, by id."""
        return dict(self._states)

    def state_row(self, actor_id: int) -> list[float]:
        """Return an actor's ``STATE_FIELDS``."""
        return _row(self._states[actor_id])

    def state_array(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return ids and ``STATE_FIELDS`` of all actors, by id."""
        ids = np.array(list(self._states), np.int64)
        return ids, np.array([_row(state) for state in self._states.values()], np.float64).reshape(-1, len(STATE_FIELDS))

    def set_pose(self, actor_id: int, pose: Pose) -> None:
        """Put an actor elsewhere."""
        self._known(actor_id)
        self._physics.set_pose(actor_id, pose)
        self._states[actor_id] = self._read(actor_id, None)
        self._digest = link(self._digest, f"pose {actor_id} {pose!r}".encode())

    def set_velocity(self, actor_id: int, velocity_mps: Vector) -> None:
        """Set an actor's velocity."""
        self._known(actor_id)
        self._physics.set_velocity(actor_id, velocity_mps)
        self._states[actor_id] = self._read(actor_id, None)
        self._digest = link(self._digest, f"velocity {actor_id} {velocity_mps!r}".encode())

    def add_impulse(self, actor_id: int, impulse_ns: Vector) -> None:
        """Push an actor, at once."""
        self._known(actor_id)
        self._physics.add_impulse(actor_id, impulse_ns)
        self._digest = link(self._digest, f"impulse {actor_id} {impulse_ns!r}".encode())

    def add_force(self, actor_id: int, force_n: Vector) -> None:
        """Push an actor throughout the next tick."""
        self._known(actor_id)
        self._physics.add_force(actor_id, force_n)
        self._digest = link(self._digest, f"force {actor_id} {force_n!r}".encode())

    def add_friction_volume(self, volume: FrictionVolume) -> None:
        """Change the tyres' friction inside a box; where boxes overlap the first one counts."""
        self._volumes.append(volume)
        self._digest = link(self._digest, f"friction {volume!r}".encode())

    def add_box(self, name: str, pose: Pose, size_m: tuple[float, float, float]) -> None:
        """Add a box of scenery."""
        self._physics.add_box(name, pose, size_m)
        self._digest = link(self._digest, f"box {name} {pose!r} {size_m!r}".encode())

    def knock_down(self, actor_id: int) -> None:
        """Let a walker fall: it no longer walks."""
        if not isinstance(self.kind(actor_id), WalkerType):
            raise SimulatorError(f"actor {actor_id} is no walker")
        self._physics.knock_down(actor_id)

    def cast_ray(
        self, start: Vector, direction: Vector, reach_m: float, *, fixed_only: bool = False
    ) -> tuple[float, int | str] | None:
        """Return the distance to the first thing a ray meets, and what it is; ``fixed_only``: passing through actors."""
        return self._physics.cast_ray(start, direction, reach_m, fixed_only=fixed_only)

    def tick(self, step_s: float | None = None) -> tuple[Collision, ...]:
        """Advance by one step, the fixed one unless a game loop gives another, and return the collisions in it."""
        for number, command in sorted(self._commands.items()):
            self._physics.command(number, command)
        if self._volumes:
            self._set_frictions()
        collisions = tuple(self._physics.step(step_s))
        self.tick_count += 1
        for number, before in self._states.items():
            self._states[number] = self._read(number, before, step_s)
        self.time_s += self.settings.step_s if step_s is None else step_s
        self._digest = link(self._digest, self._content(collisions))
        return collisions

    def _set_frictions(self) -> None:
        for number, state in self._states.items():
            kind = self.kind(number)
            if isinstance(kind, VehicleType):
                inside = (one.friction for one in self._volumes if one.holds(state.pose.x_m, state.pose.y_m))
                self._physics.set_tyre_friction(number, next(inside, kind.tyre_friction))

    def _read(self, actor_id: int, before: ActorState | None, step_s: float | None = None) -> ActorState:
        body = self._physics.state(actor_id)
        roll, pitch, yaw = angles_of(body.rotation)
        velocity = Vector(*body.velocity_mps)
        x, y, z = body.spin_radps
        spin = Vector(to_degrees(x), to_degrees(y), to_degrees(z))
        acceleration = Vector()
        if before is not None:
            dt, old = step_s or self.settings.step_s, before.velocity_mps
            acceleration = Vector((velocity.x - old.x) / dt, (velocity.y - old.y) / dt, (velocity.z - old.z) / dt)
        return ActorState(actor_id, Pose(*body.position_m, roll, pitch, yaw), velocity, spin, acceleration)

    def _content(self, collisions: tuple[Collision, ...]) -> bytes:
        numbers = [number for state in self._states.values() for number in _row(state)]
        packed = struct.pack(f"<{len(self._states)}q{len(numbers)}d", *self._states, *numbers)
        return packed + repr(collisions).encode() if collisions else packed

    def _known(self, actor_id: int) -> None:
        if actor_id not in self._actors:
            here = ", ".join(map(str, self._actors)) or "nobody"
            raise SimulatorError(f"there is no actor {actor_id} in the world; there are: {here}")

    def snapshot(self, extra: dict[str, Any] | None = None) -> bytes:
        """Return everything the future depends on; ``extra`` plain data travels with it."""
        physics, blobs = self._physics.snapshot()
        commands = {str(number): [type(one).__name__, one.__dict__] for number, one in self._commands.items()}
        data = {
            "physics": physics,
            "place": self.place,
            "tick_count": self.tick_count,
            "time_s": self.time_s,
            "next_id": self._next_id,
            "actors": [[one.id, one.type] for one in self._actors.values()],
            "states": [_row(one) for one in self._states.values()],
            "commands": commands,
            "volumes": [one.__dict__ for one in self._volumes],
            "digest": self.digest,
            "extra": extra,
        }
        return SNAPSHOT_MAGIC + dump(data, blobs)

    @classmethod
    def restore(cls, packed: bytes) -> "World":
        """Build the world that :meth:`snapshot` was taken of; it goes on bit for bit, also in another process."""
        return cls.restore_with_extra(packed)[0]

    @classmethod
    def restore_with_extra(cls, packed: bytes) -> tuple["World", Any]:
        """Restore a world and return what travelled with it."""
        if not packed.startswith(SNAPSHOT_MAGIC):
            came = packed[: len(SNAPSHOT_MAGIC)].split(b"\n")[0][:40]
            raise SimulatorError(
                f"a {SNAPSHOT_MAGIC.decode().strip()!r} snapshot was wanted, but {came!r} came: take a new one"
            )
        try:
            data, blobs = load(packed[len(SNAPSHOT_MAGIC) :])
            world = cls.__new__(cls)
            world._physics = Physics.restore(data["physics"], blobs)
        except SimulatorError:
            raise
        except Exception as error:
            raise SimulatorError(f"the snapshot is damaged or of another Rapier version ({error}): take a new one") from error
        world.place = data["place"]
        world.tick_count = data["tick_count"]
        world.time_s = data["time_s"]
        world._next_id = data["next_id"]
        world._actors = {number: WorldActor(number, name) for number, name in data["actors"]}
        world._states = {one[0]: _state(one[0], row) for one, row in zip(data["actors"], data["states"], strict=True)}
        kinds: dict[str, type[VehicleCommand] | type[WalkerCommand]] = {
            "VehicleCommand": VehicleCommand,
            "WalkerCommand": WalkerCommand,
        }
        world._commands = {int(number): kinds[name](**fields) for number, (name, fields) in data["commands"].items()}
        world._volumes = [FrictionVolume(**one) for one in data["volumes"]]
        world._digest = bytes.fromhex(data["digest"])
        return world, data["extra"]


def _row(state: ActorState) -> list[float]:
    return [*state.pose, *state.velocity_mps, *state.angular_velocity_degps, *state.acceleration_mps2]


def _state(actor_id: int, row: list[float]) -> ActorState:
    return ActorState(actor_id, Pose(*row[:6]), Vector(*row[6:9]), Vector(*row[9:12]), Vector(*row[12:15]))
