"""The world: actors that live on a map, moved by physics in whole ticks.

Decide from tick n, commit tick n + 1 at once: commands take effect together at the next tick, in the order of actor ids, so it
does not matter who called first. Everything the future depends on is in a snapshot; a restored world goes on bit for bit.

Every tick, and every change from outside between two ticks, is chained into one digest. Equal digests therefore mean equal
histories, not only equal states. What goes into the digest is the ``repr`` of records or their packed numbers: renaming
``Pose``, ``Vector``, ``Collision``, ``FrictionVolume`` or the types of the catalogue changes digests.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.catalogue import ActorType, PropType, VehicleType, WalkerType, actor_type
from samepath.core.digests import first_link, link
from samepath.core.errors import SimulatorError
from samepath.core.states import ActorState, Collision, Command, Pose, Vector, VehicleCommand, WalkerCommand
from samepath.core.trig import sincos_deg, to_radians
from samepath.simulator.physics.actors import BodyState
from samepath.simulator.physics.engine import BodyRef, Physics, PhysicsSettings, RayHit
from samepath.simulator.physics.frames import axes_of, quaternion_of
from samepath.simulator.world.state_table import StateTable, moved, state_of

SNAPSHOT_MAGIC: Final = b"samepath world 2\n"
# Higher than any map: a patch without a height of its own holds at every height.
_TALL_M: Final = 1e6


class SpawnRefusedError(SimulatorError):
    """The place where an actor was to be put is taken."""


@dataclass(frozen=True)
class WorldActor:
    id: int
    type: str


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
    z_m: float = 0.0
    half_z_m: float = _TALL_M
    yaw_deg: float = 0.0

    def holds(self, x_m: float, y_m: float, z_m: float = 0.0) -> bool:
        x, y = x_m - self.x_m, y_m - self.y_m
        if self.yaw_deg:
            sin, cos = sincos_deg(self.yaw_deg)
            x, y = cos * x + sin * y, cos * y - sin * x
        return abs(x) <= self.half_x_m and abs(y) <= self.half_y_m and abs(z_m - self.z_m) <= self.half_z_m


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
        self._states = StateTable()
        self._commands: dict[int, Command] = {}
        self._fresh: dict[int, Command] = {}  # those that physics has not been told of
        self._volumes: dict[int, FrictionVolume] = {}
        self._next_volume = 1
        self._held: dict[int, Vector] = {}
        # The place is in it: worlds of two places never share a digest, not even before the first tick.
        self._digest = first_link("world", place)
        empty = True
        for mesh in statics:
            self._physics.add_static(mesh.name, mesh.vertices, mesh.triangles, ground=mesh.ground)
            empty = False
        if empty:
            self._physics.add_ground()

    @property
    def settings(self) -> PhysicsSettings:
        return self._physics.settings

    @property
    def actors(self) -> tuple[WorldActor, ...]:
        """Everyone in the world, by id."""
        return tuple(self._actors.values())

    @property
    def digest(self) -> str:
        """Name of the world's whole history so far, in 32 hex digits."""
        return self._digest.hex()

    def spawn(self, type_: str | ActorType, pose: Pose, actor_id: int | None = None, *, overlapping: bool = False) -> int:
        """Put an actor into the world and return its id, the next one unless one is given.

        A place that is taken is refused, unless the actor may be ``overlapping`` others.
        """
        kind = actor_type(type_) if isinstance(type_, str) else type_
        # Before anything is changed: a refusal leaves the world, its ids and its digest as they were.
        taken = None if overlapping else self._physics.occupant(kind, pose)
        if taken is not None:
            who = f"actor {taken}" if isinstance(taken, int) else taken
            raise SpawnRefusedError(
                f"a {kind.name} cannot be put at ({pose.x_m:g}, {pose.y_m:g}, {pose.z_m:g}): {who} stands there"
            )
        number = self._next_id if actor_id is None else actor_id
        # Before the first tick a scenario may choose ids out of order; afterwards an id would rewrite history.
        in_order = number >= self._next_id
        if not in_order and self.tick_count:
            raise SimulatorError(f"actor id {number} must be above all before it: ids are never reused")
        self._next_id = max(self._next_id, number + 1)
        self._physics.add(number, kind, pose, in_order=in_order)
        self._actors[number] = WorldActor(number, kind.name)
        self._states.put(self._read(number))
        # Actors are always processed in order of id; the table of states keeps that order by itself.
        if not in_order:
            self._actors = dict(sorted(self._actors.items()))
        self._digest = link(self._digest, f"spawn {number} {kind.name} {pose!r}".encode())
        return number

    def destroy(self, actor_id: int) -> None:
        """Take an actor out of the world."""
        self._known(actor_id)
        self._physics.remove(actor_id)
        # With its commands: a word to somebody who is gone must not reach physics at the next tick.
        self._states.remove(actor_id)
        for table in (self._actors, self._commands, self._fresh, self._held):
            table.pop(actor_id, None)
        self._digest = link(self._digest, f"destroy {actor_id}".encode())

    def kind(self, actor_id: int) -> ActorType:
        """Return an actor's type, as it is now."""
        self._known(actor_id)
        # Asked of physics, which may have refitted it; the actor's record keeps the name it was spawned under.
        return self._physics.kind(actor_id)

    def apply(self, actor_id: int, command: Command) -> None:
        """Say how an actor moves from the next tick on; the last word before a tick counts."""
        kind = self.kind(actor_id)
        wanted: type[VehicleCommand] | type[WalkerCommand] = VehicleCommand if isinstance(kind, VehicleType) else WalkerCommand
        if isinstance(kind, PropType) or not isinstance(command, wanted):
            raise SimulatorError(f"actor {actor_id} is a {kind.name}: a {type(command).__name__} does not move it")
        # Not chained into the digest: a command shows in what it does at the next tick, and one that was overruled before that
        # never was.
        self._commands[actor_id] = self._fresh[actor_id] = command

    def tick(self, step_s: float | None = None, substeps: int | None = None) -> tuple[Collision, ...]:
        """Advance by one step, the fixed one unless a game loop gives another, and return the collisions in it."""
        # By id, not by order of arrival: clients on several connections race, their commands must not.
        for number, command in sorted(self._fresh.items()):
            self._physics.command(number, command)
        self._fresh.clear()
        for number, held in sorted(self._held.items()):
            # Turned into the world anew at every tick, since the actor turns.
            state, kind = self._states[number], self._physics.kind(number)
            axes = axes_of(quaternion_of(state.pose))
            aside_mps = 0.0
            if isinstance(kind, VehicleType):
                # A car that turns moves straight ahead at its rear axle, and sideways in front of it. If its middle were held
                # straight, front and rear tyres would work against each other, and it would turn a third as fast as it drives.
                aside_mps = to_radians(state.angular_velocity_degps.z) * kind.wheel_base_m / 2
            local = Vector(held.x, held.y + aside_mps, held.z)
            self._physics.set_velocity(number, Vector(*(_along(axes, local, part) for part in range(3))))
        if self._volumes:
            self._set_frictions()
        # From here on the tick happens: what was set above takes effect for all actors at once.
        collisions = tuple(self._physics.step(step_s, substeps))
        self.tick_count += 1
        # Accelerations are over the step that was really made, which a game loop chooses.
        read = self._physics.state_array if self._states.has_many else self._physics.states
        self._states.advance(read(self._states), step_s or self.settings.step_s)
        # Summed up, not tick times step: steps of a game loop differ. In lockstep the sum is the same to the bit at every
        # repeat.
        self.time_s += self.settings.step_s if step_s is None else step_s
        self._digest = link(self._digest, self._content(collisions))
        return collisions

    def _content(self, collisions: tuple[Collision, ...]) -> bytes:
        # Eight bytes for each number: the digest sees every bit of every state, not a rounded text.
        packed = self._states.to_bytes()
        return packed + repr(collisions).encode() if collisions else packed

    def _read(self, actor_id: int) -> ActorState:
        """The state of one who was just put somewhere, or was given a velocity."""
        return moved(actor_id, self._physics.state(actor_id), None, self.settings.step_s)

    def state(self, actor_id: int) -> ActorState:
        """Return an actor's state after the last tick."""
        self._known(actor_id)
        return self._states[actor_id]

    def states(self) -> dict[int, ActorState]:
        """Return the states of all actors after the last tick, by id."""
        return self._states.records()

    def state_row(self, actor_id: int) -> list[float]:
        """Return an actor's ``STATE_FIELDS``."""
        return self._states.row(actor_id)

    def state_array(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return ids and ``STATE_FIELDS`` of all actors, by id."""
        return self._states.array()

    def engine_bodies(self) -> dict[int, BodyState]:
        """Return the bodies that the physics engine has, read past all tables of states."""
        return self._physics.engine_bodies()

    def gear(self, actor_id: int) -> int:
        """Return a vehicle's gear; -1 is reverse."""
        self._known(actor_id)
        return self._physics.gear(actor_id)

    def gears(self, actor_ids: Iterable[int]) -> list[int]:
        """Return the gears of many vehicles."""
        return self._physics.gears(actor_ids)

    def simulated(self, actor_id: int) -> bool:
        self._known(actor_id)
        return self._physics.simulated(actor_id)

    def velocity_at(self, actor_id: int, point_m: Vector) -> Vector:
        """Return how fast a point of the world would move if it were fixed to an actor."""
        self._known(actor_id)
        return self._physics.velocity_at(actor_id, point_m)

    def wheels(self, actor_id: int) -> list[Any]:
        """Return Rapier's wheels of a vehicle: front left, front right, rear left, rear right."""
        self._known(actor_id)
        return self._physics.wheels(actor_id)

    def tyre_friction(self, actor_id: int) -> float | None:
        """Return the friction of the patch of ground a vehicle is on, None where its wheels have their own."""
        self._known(actor_id)
        return self._physics.tyre_friction(actor_id)

    # Changes from outside between two ticks. All take effect at once, except forces and torques, which act throughout the next
    # tick. Each is chained into the digest: two worlds with equal digests were also touched alike.

    def set_pose(self, actor_id: int, pose: Pose) -> None:
        self._known(actor_id)
        self._physics.set_pose(actor_id, pose)
        self._states.put(self._read(actor_id))
        self._digest = link(self._digest, f"pose {actor_id} {pose!r}".encode())

    def set_velocity(self, actor_id: int, velocity_mps: Vector) -> None:
        self._known(actor_id)
        self._physics.set_velocity(actor_id, velocity_mps)
        self._states.put(self._read(actor_id))
        self._digest = link(self._digest, f"velocity {actor_id} {velocity_mps!r}".encode())

    def set_spin(self, actor_id: int, spin_degps: Vector) -> None:
        self._known(actor_id)
        self._physics.set_spin(actor_id, Vector(*(to_radians(rate) for rate in spin_degps)))
        self._states.put(self._read(actor_id))
        self._note("spin", actor_id, spin_degps)

    def hold_velocity(self, actor_id: int, velocity_mps: Vector | None) -> None:
        """Give an actor this velocity, seen from the actor itself, before every tick from now on; None lets go."""
        self._known(actor_id)
        if velocity_mps is None:
            self._held.pop(actor_id, None)
        else:
            self._held[actor_id] = velocity_mps
        self._note("hold", actor_id, velocity_mps)

    def add_impulse(self, actor_id: int, impulse_ns: Vector, at_m: Vector | None = None) -> None:
        """Push an actor, at once, at its centre of mass or at a point of the world."""
        self._known(actor_id)
        self._physics.add_impulse(actor_id, impulse_ns, at_m)
        self._note("impulse", actor_id, impulse_ns, at_m)

    def add_angular_impulse(self, actor_id: int, impulse_nms: Vector) -> None:
        self._known(actor_id)
        self._physics.add_angular_impulse(actor_id, impulse_nms)
        self._note("angular impulse", actor_id, impulse_nms)

    def add_force(self, actor_id: int, force_n: Vector, at_m: Vector | None = None) -> None:
        """Push an actor throughout the next tick, at its centre of mass or at a point of the world."""
        self._known(actor_id)
        self._physics.add_force(actor_id, force_n, at_m)
        self._note("force", actor_id, force_n, at_m)

    def add_torque(self, actor_id: int, torque_nm: Vector) -> None:
        self._known(actor_id)
        self._physics.add_torque(actor_id, torque_nm)
        self._note("torque", actor_id, torque_nm)

    def set_simulated(self, actor_id: int, *, on: bool) -> None:
        """Let physics move an actor, or leave it where it is put; others still bump into it."""
        self._known(actor_id)
        self._physics.set_simulated(actor_id, on=on)
        self._states.put(self._read(actor_id))
        self._note("simulated", actor_id, on)

    def set_collisions(self, actor_id: int, *, on: bool) -> None:
        """Let an actor touch others, or pass through everything."""
        self._known(actor_id)
        self._physics.set_collisions(actor_id, on=on)
        self._note("collisions", actor_id, on)

    def set_gravity(self, actor_id: int, *, on: bool) -> None:
        self._known(actor_id)
        self._physics.set_gravity(actor_id, on=on)
        self._note("gravity", actor_id, on)

    def refit(self, actor_id: int, kind: VehicleType) -> None:
        """Turn a vehicle into one with other numbers (mass, engine, wheels, ...) of the same name and size."""
        self._known(actor_id)
        self._physics.refit(actor_id, kind)
        self._note("refit", actor_id, kind)

    def knock_down(self, actor_id: int) -> None:
        """Let a walker fall: it no longer walks."""
        if not isinstance(self.kind(actor_id), WalkerType):
            raise SimulatorError(f"actor {actor_id} is no walker")
        self._physics.knock_down(actor_id)

    def _note(self, what: str, actor_id: int, *values: object) -> None:
        given = " ".join(repr(value) for value in values if value is not None)
        self._digest = link(self._digest, f"{what} {actor_id} {given}".encode())

    def _known(self, actor_id: int) -> None:
        if actor_id not in self._actors:
            here = ", ".join(map(str, self._actors)) or "nobody"
            raise SimulatorError(f"there is no actor {actor_id} in the world; there are: {here}")

    def add_friction_volume(self, volume: FrictionVolume) -> int:
        """Change the tyres' friction inside a box and return its number; where boxes overlap the first one counts."""
        number, self._next_volume = self._next_volume, self._next_volume + 1
        self._volumes[number] = volume
        self._digest = link(self._digest, f"friction {volume!r}".encode())
        return number

    def remove_friction_volume(self, number: int) -> None:
        """Take a box of other friction away."""
        del self._volumes[number]
        # Now: without any volume left, ticks do not look at frictions any more, and tyres would keep the last one.
        self._set_frictions()
        self._digest = link(self._digest, f"no friction {number}".encode())

    @property
    def grip(self) -> float:
        """What the road leaves of the tyres' own friction."""
        return self._physics.grip

    def set_grip(self, grip: float) -> None:
        """Make roads wet or dry: the part that is left of the friction that tyres have of their own, not of that of volumes."""
        if not 0.0 <= grip <= 1.0:
            raise SimulatorError(f"a part of the tyres' friction from 0 to 1 was wanted, but {grip!r} came")
        if grip != self._physics.grip:
            self._physics.set_grip(grip)
            self._digest = link(self._digest, f"grip {grip!r}".encode())

    def _set_frictions(self) -> None:
        for number, state in self._states.records().items():
            kind = self.kind(number)
            if isinstance(kind, VehicleType):
                pose = state.pose
                # By where a vehicle was after the last tick, like every decision.
                inside = (volume.friction for volume in self._volumes.values() if volume.holds(pose.x_m, pose.y_m, pose.z_m))
                self._physics.set_tyre_friction(number, next(inside, None))

    def show_scenery(self, names: frozenset[str], *, on: bool) -> None:
        """Put pieces of scenery back in their place, or take them away."""
        self._physics.show_scenery(names, on=on)
        # Sorted: a set has no order of its own, its text would follow the hash seed.
        self._digest = link(self._digest, f"scenery {sorted(names)!r} {on}".encode())

    def add_box(self, name: str, pose: Pose, size_m: tuple[float, float, float]) -> None:
        self._physics.add_box(name, pose, size_m)
        self._digest = link(self._digest, f"box {name} {pose!r} {size_m!r}".encode())

    # Queries change nothing, so they are not part of the digest.

    def cast_ray(
        self, start: Vector, direction: Vector, reach_m: float, *, fixed_only: bool = False
    ) -> tuple[float, int | str] | None:
        """Return the distance to the first thing a ray meets, and what it is; ``fixed_only``: passing through actors."""
        return self._physics.cast_ray(start, direction, reach_m, fixed_only=fixed_only)

    def ray_hits(self, start: Vector, direction: Vector, reach_m: float) -> tuple[RayHit, ...]:
        """Return everything a ray of unit direction passes through, nearest first."""
        return self._physics.ray_hits(start, direction, reach_m)

    def sweep_ball(
        self,
        start: Vector,
        direction: Vector,
        reach_m: float,
        radius_m: float,
        *,
        without: int | None = None,
        moving_only: bool = False,
    ) -> tuple[float, BodyRef] | None:
        """Return how far a ball flies before it meets something other than the ground, and what."""
        return self._physics.sweep_ball(start, direction, reach_m, radius_m, without=without, moving_only=moving_only)

    def snapshot(self, extra: dict[str, Any] | None = None) -> bytes:
        """Return everything the future depends on; ``extra`` plain data travels with it."""
        physics, blobs = self._physics.snapshot()
        commands = {str(number): [type(command).__name__, command.__dict__] for number, command in self._commands.items()}
        data = {
            "physics": physics,
            "place": self.place,
            "tick_count": self.tick_count,
            "time_s": self.time_s,
            "next_id": self._next_id,
            "actors": [[actor.id, actor.type] for actor in self._actors.values()],
            # Beside physics, which has poses and velocities: the next acceleration is worked out against these.
            "states": self._states.array()[1].tolist(),
            "commands": commands,
            "volumes": [[number, volume.__dict__] for number, volume in self._volumes.items()],
            "next_volume": self._next_volume,
            "held": [[number, *velocity] for number, velocity in self._held.items()],
            "digest": self.digest,
            "extra": extra,
        }
        return SNAPSHOT_MAGIC + pack_snapshot(data, blobs)

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
            data, blobs = unpack_snapshot(packed[len(SNAPSHOT_MAGIC) :])
            # Not through ``__init__``: that would put a ground into a world that has one.
            world = cls.__new__(cls)
            world._physics = Physics.restore(data["physics"], blobs)
        except SimulatorError:
            raise
        except Exception as error:  # Rapier's own classes of error are not ours to list
            raise SimulatorError(f"the snapshot is damaged or of another Rapier version ({error}): take a new one") from error
        world.place = data["place"]
        world.tick_count = data["tick_count"]
        world.time_s = data["time_s"]
        world._next_id = data["next_id"]
        world._actors = {number: WorldActor(number, name) for number, name in data["actors"]}
        rows = zip(data["actors"], data["states"], strict=True)
        world._states = StateTable(state_of(number, row) for (number, _), row in rows)
        kinds: dict[str, type[VehicleCommand] | type[WalkerCommand]] = {
            "VehicleCommand": VehicleCommand,
            "WalkerCommand": WalkerCommand,
        }
        world._commands = {int(number): kinds[name](**fields) for number, (name, fields) in data["commands"].items()}
        world._fresh = dict(world._commands)
        world._volumes = {number: FrictionVolume(**fields) for number, fields in data["volumes"]}
        world._next_volume = data["next_volume"]
        world._held = {number: Vector(*velocity) for number, *velocity in data["held"]}
        world._digest = bytes.fromhex(data["digest"])
        return world, data["extra"]


def _along(axes: tuple[tuple[float, float, float], ...], local: Vector, part: int) -> float:
    forward, right, up = axes
    return local.x * forward[part] + local.y * right[part] + local.z * up[part]


def pack_snapshot(data: dict[str, Any], blobs: list[bytes]) -> bytes:
    """Pack plain data and blobs into one byte string: sizes first, floats as their shortest exact decimals.

    JSON and raw bytes, no pickle: a snapshot may come from elsewhere, and nothing in it is ever executed.
    """
    # A NaN is refused: it would come back, but is no JSON, and no state of a world either.
    head = json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
    sizes = [len(head), *(len(blob) for blob in blobs)]
    return b"".join([len(sizes).to_bytes(4, "little"), *(size.to_bytes(8, "little") for size in sizes), head, *blobs])


def unpack_snapshot(content: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Unpack what :func:`pack_snapshot` made."""
    count = int.from_bytes(content[:4], "little")
    sizes = [int.from_bytes(content[4 + 8 * i : 12 + 8 * i], "little") for i in range(count)]
    # Looked at before anything is cut out: sizes of a damaged file may say anything.
    if count < 1 or 4 + 8 * count + sum(sizes) != len(content):
        raise SimulatorError("the snapshot is cut short or damaged: its parts do not add up")
    parts, at = [], 4 + 8 * count
    for size in sizes:
        parts.append(content[at : at + size])
        at += size
    data: dict[str, Any] = json.loads(parts[0])
    return data, parts[1:]
