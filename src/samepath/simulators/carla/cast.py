"""The actors on a server: spawned by number, each with a collision sensor, read from snapshots, commanded, taken away."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from samepath.base.errors import SimulatorError
from samepath.base.suggest import nearest
from samepath.base.trig import sincos_deg
from samepath.sim.world.catalogue import ALIASES
from samepath.sim.world.records import Command, WalkerCommand
from samepath.simulators.carla.contacts import Report
from samepath.simulators.carla.link import Link
from samepath.simulators.carla.ticks import Frame
from samepath.simulators.scripts import Chassis

_SENSOR: Final = "sensor.other.collision"
_OLDER: Final = {new: old for old, new in ALIASES.items()}


@dataclass(frozen=True)
class Entry:
    """Who is to be spawned: ``transform`` is CARLA's."""

    number: int
    type: str
    transform: Any


class Cast:
    """Everybody that this run has spawned. Numbers are the order of spawning; CARLA's own ids differ from run to run."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._carla, self._client = link.carla, link.client
        self._library = link.world.get_blueprint_library()
        self._actors: dict[int, Any] = {}
        self._sensors: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._left: list[Any] = []
        self.reports: list[Report] = []

    @property
    def types(self) -> dict[int, str]:
        """What everybody is, in CARLA's words."""
        return {number: str(actor.type_id) for number, actor in self._actors.items()}

    def actor(self, number: int) -> Any:  # noqa: ANN401
        """Return CARLA's object."""
        return self._actors[number]

    def blueprint(self, name: str) -> Any:  # noqa: ANN401
        """Return a blueprint by the name of this or an older version of CARLA."""
        for one in (name, ALIASES.get(name), _OLDER.get(name)):
            if one is not None:
                with suppress(IndexError):
                    return self._library.find(one)
        near = nearest(name, [blueprint.id for blueprint in self._library])
        hint = f"; the nearest is {near}" if near else ""
        raise SimulatorError(f"the CARLA server at {self._link.settings.address} has no {name}{hint}")

    def spawn(self, entries: Sequence[Entry]) -> None:
        """Spawn everybody in order, then a collision sensor on everybody that can move."""
        blueprints = [self._made(entry) for entry in entries]
        places = [(blueprint, entry.transform, 0) for blueprint, entry in zip(blueprints, entries, strict=True)]
        for entry, actor in zip(entries, self._spawned(places, [one.type for one in entries]), strict=True):
            self._actors[entry.number] = actor
            self._numbers[actor.id] = entry.number
        movers = [number for number, actor in self._actors.items() if actor.type_id.startswith(("vehicle.", "walker."))]
        sensor, middle = self.blueprint(_SENSOR), self._carla.Transform()
        on_everybody = [(sensor, middle, self._actors[number].id) for number in movers]
        for number, one in zip(movers, self._spawned(on_everybody, [_SENSOR] * len(movers)), strict=True):
            self._sensors[number] = one
            one.listen(self._listener(number))

    def _made(self, entry: Entry) -> Any:  # noqa: ANN401
        blueprint = self.blueprint(entry.type)
        if blueprint.has_attribute("is_invincible"):
            blueprint.set_attribute("is_invincible", "false")
        return blueprint

    def _spawned(self, places: Sequence[tuple[Any, Any, int]], names: Sequence[str]) -> list[Any]:
        """Spawn in one batch, or one by one; the third of a place is the actor to be attached to, or 0."""
        first = len(self._left)
        world = self._link.world
        if not self._link.settings.batch:
            for (blueprint, transform, parent), name in zip(places, names, strict=True):
                attach = {"attach_to": world.get_actor(parent)} if parent else {}
                try:
                    self._left.append(world.spawn_actor(blueprint, transform, **attach))
                except RuntimeError as error:
                    raise self._refused(name, transform, str(error)) from error
            return self._left[first:]
        command = self._carla.command.SpawnActor
        batch = [command(*place) if place[2] else command(*place[:2]) for place in places]
        answers = self._client.apply_batch_sync(batch, False)
        self._left += [world.get_actor(one.actor_id) for one in answers if not one.error]
        for answer, name, place in zip(answers, names, places, strict=True):
            if answer.error:
                raise self._refused(name, place[1], answer.error)
        return self._left[first:]

    def _refused(self, name: str, transform: Any, words: str) -> SimulatorError:  # noqa: ANN401
        place = transform.location
        return SimulatorError(
            f"{name} could not be spawned at ({place.x:.1f}, {place.y:.1f}, {place.z:.1f}): {' '.join(words.split())}"
        )

    def _listener(self, number: int) -> Callable[[Any], None]:
        reports, numbers = self.reports, self._numbers

        def on_event(event: Any) -> None:  # noqa: ANN401
            """Runs in a thread of the client's: takes down what was said, and nothing else."""
            other, impulse = event.other_actor, event.normal_impulse
            known = numbers.get(other.id) if other is not None else None
            detail = "" if known is not None or other is None else str(other.type_id)
            felt = (impulse.x, impulse.y, impulse.z)
            reports.append(Report(event.frame, event.timestamp, number, known, detail, felt))

        return on_event

    def frame(self, snapshot: Any, *, controls: bool) -> Frame:  # noqa: ANN401
        """Read a snapshot: exactly the client's numbers. ``controls``: also what the server says it applies now."""
        states = {}
        for number, actor in self._actors.items():
            seen = snapshot.find(actor.id)
            if seen is not None:
                states[number] = {**_motion(seen), **(_control(actor) if controls else {})}
        return Frame(snapshot.frame, snapshot.timestamp.elapsed_seconds, states)

    def command(self, commands: Mapping[int, Command]) -> None:
        """Send everybody's commands, by number."""
        pairs = [(self._actors[number], self._control(one)) for number, one in sorted(commands.items())]
        if not self._link.settings.batch:
            for actor, control in pairs:
                actor.apply_control(control)
            return
        kinds = self._carla.command
        self._client.apply_batch_sync(
            [
                (kinds.ApplyWalkerControl if isinstance(control, self._carla.WalkerControl) else kinds.ApplyVehicleControl)(
                    actor.id, control
                )
                for actor, control in pairs
            ],
            False,
        )

    def _control(self, command: Command) -> Any:  # noqa: ANN401
        carla = self._carla
        if isinstance(command, WalkerCommand):
            direction = carla.Vector3D(command.direction_x, command.direction_y, 0.0)
            return carla.WalkerControl(direction, command.speed_mps, command.jump)
        return carla.VehicleControl(command.throttle, command.steer, command.brake, command.hand_brake, command.reverse)

    def remove(self, number: int) -> None:
        """Take somebody off the stage, sensor first."""
        sensor, actor = self._sensors.pop(number, None), self._actors[number]
        gone = {actor.id}
        if sensor is not None:
            sensor.stop()
            gone.add(sensor.id)
        self._destroy([one for one in self._left if one.id in gone])
        self._left = [one for one in self._left if one.id not in gone]

    def _destroy(self, actors: Sequence[Any]) -> None:
        if self._link.settings.batch:
            self._client.apply_batch_sync([self._carla.command.DestroyActor(one.id) for one in actors], False)
            return
        for one in actors:
            one.destroy()

    def close(self) -> None:
        """Destroy everybody who is left; sensors fall silent even where the server is gone."""
        for sensor in self._sensors.values():
            with suppress(RuntimeError):
                sensor.stop()
        left = self._left[::-1]
        if left:
            self._link.tidy([lambda: self._destroy(left)])
        self._sensors.clear()
        self._actors.clear()
        self._left.clear()


def _motion(seen: Any) -> dict[str, float]:  # noqa: ANN401
    transform, velocity = seen.get_transform(), seen.get_velocity()
    turning, pushed = seen.get_angular_velocity(), seen.get_acceleration()
    place, turn = transform.location, transform.rotation
    return {
        "x_m": place.x,
        "y_m": place.y,
        "z_m": place.z,
        "roll_deg": turn.roll,
        "pitch_deg": turn.pitch,
        "yaw_deg": turn.yaw,
        "vx_mps": velocity.x,
        "vy_mps": velocity.y,
        "vz_mps": velocity.z,
        "wx_degps": turning.x,
        "wy_degps": turning.y,
        "wz_degps": turning.z,
        "ax_mps2": pushed.x,
        "ay_mps2": pushed.y,
        "az_mps2": pushed.z,
    }


def _control(actor: Any) -> dict[str, float]:  # noqa: ANN401
    if actor.type_id.startswith("vehicle."):
        control = actor.get_control()
        return {
            "throttle_ratio": control.throttle,
            "steer_ratio": control.steer,
            "brake_ratio": control.brake,
            "hand_brake_bool": float(control.hand_brake),
            "reverse_bool": float(control.reverse),
            "gear_index": float(control.gear),
        }
    if not actor.type_id.startswith("walker."):
        return {}
    control = actor.get_control()
    way = control.direction
    return {"walk_x_ratio": way.x, "walk_y_ratio": way.y, "walk_z_ratio": way.z, "walk_speed_mps": control.speed}


def chassis_of(actor: Any) -> Chassis | None:  # noqa: ANN401
    """Ask where the wheels are (in cm, in the world's frame) and how far they turn; None where the answer is no vehicle's."""
    wheels = actor.get_physics_control().wheels
    pose = actor.get_transform()
    here = pose.location
    sine, cosine = sincos_deg(pose.rotation.yaw)

    def ahead_m(wheel: Any) -> float:  # noqa: ANN401
        return float((wheel.position.x / 100.0 - here.x) * cosine + (wheel.position.y / 100.0 - here.y) * sine)

    front = [ahead_m(one) for one in wheels if one.max_steer_angle > 0.0]
    rear = [ahead_m(one) for one in wheels if not one.max_steer_angle > 0.0]
    if not front or not rear:
        return None
    front_m, rear_m = sum(front) / len(front), sum(rear) / len(rear)
    most_deg = max(one.max_steer_angle for one in wheels)
    if not (0.5 <= front_m - rear_m <= 12.0 and -10.0 <= rear_m <= 0.0 and most_deg <= 90.0):
        return None
    return Chassis(front_m - rear_m, -rear_m, most_deg)
