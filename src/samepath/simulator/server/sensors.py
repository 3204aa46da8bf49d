"""Sensors: what happens to a vehicle, where it is and how it moves, and what there is to see.

``instrument(description, ordinal)`` builds one from its blueprint's attributes. NoiseKey comes from streams named by the
sensor's ``noise_seed``, its ordinal in the episode and the number of the measurement: no other sensor moves it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from samepath.core.errors import SamepathError
from samepath.core.states import Collision, Pose, Vector
from samepath.simulator.carla import streams as frames
from samepath.simulator.carla.codec import NOT_SUPPORTED, CallError
from samepath.simulator.carla.records import Actor, Description
from samepath.simulator.sensors import inertial as obstacle
from samepath.simulator.sensors.cameras import CAMERA_KINDS as CAMERAS
from samepath.simulator.sensors.cameras import CameraSensor
from samepath.simulator.sensors.events import KIND as EVENTS
from samepath.simulator.sensors.events import EventCamera
from samepath.simulator.sensors.inertial import Gnss, Imu, acceleration_of
from samepath.simulator.sensors.sensor import NoiseKey, is_due
from samepath.simulator.server.actors import ActorEntry
from samepath.simulator.server.episode import Episode, ViewBuilder
from samepath.simulator.server.maps import ServedMap
from samepath.simulator.server.rendering import RenderRequest, require_renderer
from samepath.simulator.world.world import World

# What a sensor is given in a tick, and what it gives back.


@dataclass(frozen=True)
class SensorContext:
    """What a sensor can see: the world after a tick, itself, whom it is attached to, and the body that carries it."""

    world: World
    scene: ServedMap
    viewer: ViewBuilder
    collisions: tuple[Collision, ...]
    gravity_mps2: float
    delta_s: float
    this: Actor
    parent: Actor | None
    pose: Pose
    bearer: int | None
    actor: Callable[[int], Actor]
    scenery: Callable[[str], Actor]


class SensorModel(Protocol):
    """A sensor's inside."""

    def feel(self, sight: SensorContext) -> None:
        """Follow the world through a tick, whether or not anybody listens."""
        ...

    def measure(self, sight: SensorContext) -> list[bytes]:
        """Return the payloads of a tick in which a measurement is due: one, or one per event."""
        ...

    def state(self) -> list[Any]:
        """Everything the future depends on, as plain data."""
        ...

    def restore(self, data: list[Any]) -> None:
        """Take up what :meth:`state` gave."""
        ...


class SilentSensor:
    """A sensor that never sends anything."""

    def __init__(self, description: Description, ordinal: int) -> None:
        pass

    def feel(self, sight: SensorContext) -> None:
        """Feel nothing."""

    def measure(self, sight: SensorContext) -> list[bytes]:
        """Say nothing."""
        return []

    def state(self) -> list[Any]:
        """Nothing is carried from tick to tick."""
        return []

    def restore(self, data: list[Any]) -> None:
        """Take up nothing."""


def given(description: Description) -> dict[str, object]:
    """A sensor's attributes by name."""
    return {one.id: one.value for one in description.attributes}


def real(description: Description, name: str, default: float) -> float:
    """Read a number from an actor's attributes."""
    text = description.get(name, str(default))
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) <= 1e9:
        raise CallError(f"{description.id}: {name}: a number was wanted, but {text[:40]!r} came")
    return value


# The collision sensor: one event per thing its bearer touched in a tick, with the impulse that acted on the bearer.


class ServedCollisionSensor:
    """Reports what physics reported; the ground is not worth an event."""

    def __init__(self, description: Description, ordinal: int) -> None:
        pass

    def feel(self, sight: SensorContext) -> None:
        """Nothing to follow: touching is an event of one tick."""

    def state(self) -> list[Any]:
        """Nothing is carried from tick to tick."""
        return []

    def restore(self, data: list[Any]) -> None:
        """Take up nothing."""

    def measure(self, sight: SensorContext) -> list[bytes]:
        """One event per pair, in the order of actor ids."""
        if sight.parent is None:
            return []
        found = []
        for one in sight.collisions:
            if one.actor == sight.parent.id:
                other = sight.scenery(one.scenery) if one.other is None else sight.actor(one.other)
                found.append(frames.collision(sight.parent, other, one.impulse_ns))
            elif one.other == sight.parent.id:
                impulse_ns = Vector(-one.impulse_ns.x, -one.impulse_ns.y, -one.impulse_ns.z)
                found.append(frames.collision(sight.parent, sight.actor(one.actor), impulse_ns))
        return found


# The satellite receiver on the wire.


class ServedGnss:
    """Latitude, longitude and altitude, consistent with the client's own map."""

    def __init__(self, description: Description, ordinal: int) -> None:
        self._gnss = Gnss.from_attributes(given(description))
        self._ordinal = ordinal
        self._count = 0

    def feel(self, sight: SensorContext) -> None:
        """Count the ticks, which name the noise."""
        self._count += 1

    def state(self) -> list[Any]:
        """Everything the future depends on, as plain data."""
        return [self._count]

    def restore(self, data: list[Any]) -> None:
        """Take up what :meth:`state` gave."""
        (self._count,) = data

    def measure(self, sight: SensorContext) -> list[bytes]:
        """One measurement."""
        pose = sight.pose
        chance = NoiseKey(sensor=self._ordinal, tick=self._count)
        return [frames.gnss(*self._gnss.measure(sight.scene.origin, pose.x_m, pose.y_m, pose.z_m, chance))]


# The inertial measurement unit on the wire.
#
# The acceleration is the change of the velocity of the very point where the sensor is fixed, over one tick; gravity
# is CARLA's ``imui_gravity``.


class ServedImu:
    """Accelerometer, gyroscope and compass."""

    def __init__(self, description: Description, ordinal: int) -> None:
        self._imu = Imu.from_attributes(given(description))
        self._ordinal = ordinal
        self._count = 0
        self._velocity: Vector | None = None
        self._acceleration = Vector()

    def feel(self, sight: SensorContext) -> None:
        """Follow the velocity of the point where the sensor is fixed."""
        self._count += 1
        now = Vector()
        if sight.bearer is not None:
            now = sight.world.velocity_at(sight.bearer, Vector(sight.pose.x_m, sight.pose.y_m, sight.pose.z_m))
        self._acceleration = acceleration_of(self._velocity, now, sight.delta_s)
        self._velocity = now

    def state(self) -> list[Any]:
        """Everything the future depends on, as plain data."""
        return [self._count, None if self._velocity is None else list(self._velocity), list(self._acceleration)]

    def restore(self, data: list[Any]) -> None:
        """Take up what :meth:`state` gave."""
        self._count, velocity, acceleration = data
        self._velocity = None if velocity is None else Vector(*velocity)
        self._acceleration = Vector(*acceleration)

    def measure(self, sight: SensorContext) -> list[bytes]:
        """One measurement."""
        spin = Vector() if sight.bearer is None else sight.world.state(sight.bearer).angular_velocity_degps
        chance = NoiseKey(sensor=self._ordinal, tick=self._count)
        found = self._imu.measure(sight.pose, self._acceleration, spin, sight.gravity_mps2, chance)
        return [frames.imu(found.accelerometer_mps2, found.gyroscope_radps, found.compass_rad)]


# The obstacle sensor on the wire: an event for the first thing in the way.


class ServedObstacleSensor:
    """Looks ahead after every tick."""

    def __init__(self, description: Description, ordinal: int) -> None:
        self._sensor = obstacle.ObstacleDetector.from_attributes(given(description))

    def feel(self, sight: SensorContext) -> None:
        """Nothing to follow."""

    def state(self) -> list[Any]:
        """Nothing is carried from tick to tick."""
        return []

    def restore(self, data: list[Any]) -> None:
        """Take up nothing."""

    def measure(self, sight: SensorContext) -> list[bytes]:
        """An event, or none."""
        met = self._sensor.look(sight.world, sight.pose, None if sight.parent is None else sight.parent.id)
        if met is None:
            return []
        other = sight.scenery(met.what) if isinstance(met.what, str) else sight.actor(met.what)
        return [frames.obstacle(sight.this, other, met.distance_m)]


# Sensors that see, in an episode: cameras, those that see only changes among them, LiDARs, the radar.
#
# Here they follow the world and say what is due, as an order; the pictures, scans and echoes are made in a studio, in
# this process or elsewhere. Only spawning one imports the compiler that they need.

FLOW = "sensor.camera.optical_flow"


class VisualSensor(ABC):
    """What all of them have: attributes that were checked, the number of ticks they felt, what they remember."""

    def __init__(self, description: Description, ordinal: int) -> None:
        require_renderer()
        self.check(description)
        self._type_id = description.id
        self._attributes = tuple((one.id, one.value) for one in description.attributes)
        self._ordinal = ordinal
        self._count = 0
        self._age_s: float | None = None
        self.memory = b""

    @abstractmethod
    def check(self, description: Description) -> None:
        """Refuse attributes that cannot be."""

    def feel(self, sight: SensorContext) -> None:
        """Follow a tick, whether or not anybody looks."""
        self._count += 1
        self._age_s = 0.0 if self._age_s is None else self._age_s + sight.delta_s

    def order(self, sight: SensorContext, stream_id: int, head: bytes) -> RenderRequest:
        """What is due after this tick."""
        return RenderRequest(
            sensor=sight.this.id,
            stream=stream_id,
            type_id=self._type_id,
            attributes=self._attributes,
            head=head,
            pose=sight.pose,
            was=self.was,
            ordinal=self._ordinal,
            count=self._count,
            age_s=self._age_s or 0.0,
            delta_s=sight.delta_s,
            own_mps=self.own_mps(sight),
            memory=self.memory,
        )

    @property
    def was(self) -> Pose | None:
        """Where it was a tick earlier, for those to whom it matters."""
        return None

    def own_mps(self, _: SensorContext) -> Vector:
        """How fast it moves, for those to whom it matters."""
        return Vector()

    def measure(self, sight: SensorContext) -> list[bytes]:
        """Nothing: it is measured elsewhere."""
        return []

    def state(self) -> list[Any]:
        """Everything the future depends on, as plain data."""
        return [self._count, self._age_s, self.memory]

    def restore(self, data: list[Any]) -> None:
        """Take up what :meth:`state` gave."""
        self._count, self._age_s, self.memory = data


class ServedCamera(VisualSensor):
    """A camera of any kind."""

    def __init__(self, description: Description, ordinal: int) -> None:
        super().__init__(description, ordinal)
        self._is_flow = description.id == FLOW
        self._pose: Pose | None = None
        self._was: Pose | None = None

    def check(self, description: Description) -> None:
        """Refuse images and lenses that cannot be."""
        CameraSensor.from_attributes(description.id, given(description))

    def feel(self, sight: SensorContext) -> None:
        """Follow where the camera was a tick earlier: flow is motion since then, whoever listens."""
        super().feel(sight)
        if self._is_flow:
            self._was, self._pose = self._pose, sight.pose
            sight.viewer.look()

    @property
    def was(self) -> Pose | None:
        """Where it was a tick earlier, if it sees motion."""
        return self._was

    def state(self) -> list[Any]:
        """Everything the future depends on, as plain data."""
        return [*super().state(), *(None if one is None else list(one) for one in (self._pose, self._was))]

    def restore(self, data: list[Any]) -> None:
        """Take up what :meth:`state` gave."""
        *base, pose, was = data
        super().restore(base)
        self._pose, self._was = (None if one is None else Pose(*one) for one in (pose, was))


class ServedEventCamera(VisualSensor):
    """The event camera. It remembers its last picture, the one that somebody last listened to."""

    def check(self, description: Description) -> None:
        """Refuse images and thresholds that cannot be."""
        EventCamera.from_attributes(given(description))


class ServedLidar(VisualSensor):
    """A LiDAR, plain or semantic."""

    def check(self, description: Description) -> None:
        """Refuse channels and ranges that cannot be."""
        from samepath.simulator.sensors.lidar import Lidar

        Lidar.from_attributes(given(description), semantic=description.id.endswith("_semantic"))


class ServedRadar(VisualSensor):
    """The radar."""

    def check(self, description: Description) -> None:
        """Refuse ranges that cannot be."""
        from samepath.simulator.sensors.radar import Radar

        Radar.from_attributes(given(description))

    def own_mps(self, sight: SensorContext) -> Vector:
        """How fast what bears it moves at its place."""
        if sight.bearer is None:
            return Vector()
        return sight.world.velocity_at(sight.bearer, Vector(sight.pose.x_m, sight.pose.y_m, sight.pose.z_m))


SEEING = (ServedCamera, ServedEventCamera, ServedLidar, ServedRadar)


__all__ = ["SENSOR_MODELS", "SensorModel", "instrument"]

SENSOR_MODELS: Final[dict[str, Callable[[Description, int], SensorModel]]] = {
    **dict.fromkeys(CAMERAS, ServedCamera),
    EVENTS: ServedEventCamera,
    "sensor.lidar.ray_cast": ServedLidar,
    "sensor.lidar.ray_cast_semantic": ServedLidar,
    "sensor.other.collision": ServedCollisionSensor,
    "sensor.other.gnss": ServedGnss,
    "sensor.other.imu": ServedImu,
    "sensor.other.lane_invasion": SilentSensor,  # the client works it out by itself
    "sensor.other.obstacle": ServedObstacleSensor,
    "sensor.other.radar": ServedRadar,
}


def instrument(description: Description, ordinal: int) -> SensorModel:
    """Build what measures for a sensor."""
    build = SENSOR_MODELS.get(description.id)
    if build is None:
        raise CallError(f"{NOT_SUPPORTED}: {description.id}; there are: {', '.join(SENSOR_MODELS)}")
    return build(description, ordinal)


# Sensors in an episode: when a measurement is due, and where it goes.


def _silent() -> SensorModel:
    return SilentSensor(Description(0, ""), 0)


@dataclass(eq=False)
class SensorEntry(ActorEntry):
    """A sensor; ``age_s`` is the time since its first tick, None before it."""

    instrument: SensorModel = field(default_factory=_silent)
    period_s: float = 0.0
    age_s: float | None = None
    is_lost: bool = False

    def is_due(self, delta_s: float) -> bool:
        """Is a measurement due after a tick of ``delta_s``? The first at once, then every period."""
        self.age_s = 0.0 if self.age_s is None else self.age_s + delta_s
        return is_due(self.period_s, self.age_s, delta_s)


def sense(episode: Episode, collisions: tuple[Collision, ...]) -> None:
    """Let all sensors feel a tick; those that somebody listens to send what is due."""
    episode.viewer.follow()
    orders: list[RenderRequest] = []
    for entry in episode.actors.all(SensorEntry):
        parent = episode.actors.find(entry.record.parent_id)
        sight = SensorContext(
            world=episode.world,
            scene=episode.scene,
            viewer=episode.viewer,
            collisions=collisions,
            gravity_mps2=episode.gravity_mps2,
            delta_s=episode.delta_s,
            this=entry.record,
            parent=parent.record if parent is not None else None,
            pose=entry.pose,
            bearer=parent.id if parent is not None and parent.has_body else None,
            actor=episode.actor,
            scenery=episode.scenery,
        )
        entry.instrument.feel(sight)
        if not entry.is_due(episode.delta_s) or entry.stream_id not in episode.subscriptions:
            continue
        head = frames.header(frames.SENSOR_TYPES[entry.type_id], episode.moment, episode.actors.motion(entry.id))
        if isinstance(entry.instrument, VisualSensor):
            orders.append(entry.instrument.order(sight, entry.stream_id, head))
            continue
        for payload in _measured(episode, entry, sight):
            episode.context.outbox.publish(entry.stream_id, head + payload)
    _look(episode, orders)


def _look(episode: Episode, orders: list[RenderRequest]) -> None:
    """Have made what is due of sensors that see."""
    if orders:
        episode.viewer.look()
    elif not episode.context.renderer.wants_every_tick:
        return
    by_sensor = {one.sensor: one for one in orders}
    for made in episode.context.renderer.work(episode.viewer.view(), orders):
        order, entry = by_sensor[made.sensor], episode.actors.get(made.sensor, SensorEntry, "a sensor")
        if isinstance(entry.instrument, VisualSensor):
            entry.instrument.memory = made.memory
        if made.trouble:
            _be_silent(episode, entry, made.trouble)
        elif made.payload:
            episode.context.outbox.publish(order.stream, order.head + made.payload)


def _measured(episode: Episode, entry: SensorEntry, sight: SensorContext) -> list[bytes]:
    """What a sensor measured; one that cannot, such as a receiver beyond the map, is silent, and the log says so once."""
    try:
        return entry.instrument.measure(sight)
    except SamepathError as error:
        _be_silent(episode, entry, str(error))
        return []


def _be_silent(episode: Episode, entry: SensorEntry, why: str) -> None:
    if not entry.is_lost:
        episode.context.log(f"sensor {entry.id} is silent: {why}")
    entry.is_lost = True
