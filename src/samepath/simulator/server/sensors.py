"""The sensors of an episode: when a measurement is due, what it is, and where it goes.

Two kinds. What happens to a vehicle, where it is and how it moves (collision, GNSS, IMU, obstacle) is measured here, at once.
What there is to see (cameras, LiDARs, the radar) is only described here, as a :class:`RenderRequest`: a renderer makes the
payload, in this process or on a node of a cluster, see ``rendering.py``. All sensors follow every tick, whether or not anybody
listens, so that what one measures does not depend on who connected when. The event camera is the exception: it compares with
the last image that was drawn for somebody, because an image that nobody wants is not drawn.

Noise comes from streams named by the sensor's ``noise_seed``, its ordinal in the episode and how many ticks it has seen: no
other sensor moves it, and a resumed episode goes on with the same numbers. Nothing that a sensor sends may depend on how long
the server ran before: a message carries times, frames and ids, but no measurement is computed from them.

The way of a camera frame through the server: ``ticking.tick`` calls :func:`sense`, which collects the requests that are due and
has the renderer make them; a result is published behind the header that was packed with its request, as one message.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from samepath.core.errors import InputError, SamepathError
from samepath.core.states import Collision, Pose, Vector
from samepath.simulator.carla import streams as frames
from samepath.simulator.carla.codec import NOT_SUPPORTED, CallError
from samepath.simulator.carla.records import Actor, Description
from samepath.simulator.sensors.cameras import CAMERA_KINDS as CAMERAS
from samepath.simulator.sensors.cameras import CameraSensor, image_header
from samepath.simulator.sensors.events import KIND as EVENTS
from samepath.simulator.sensors.events import EventCamera
from samepath.simulator.sensors.inertial import Gnss, Imu, ObstacleDetector, acceleration_of
from samepath.simulator.sensors.sensor import NoiseKey, interval_s, is_due
from samepath.simulator.server.actors import ActorEntry
from samepath.simulator.server.episode import Episode, ViewBuilder
from samepath.simulator.server.maps import ServedMap
from samepath.simulator.server.rendering import COLOUR, EVENT_CLOCK_BYTES, RenderRequest, require_renderer
from samepath.simulator.world.world import World


@dataclass(frozen=True)
class SensorContext:
    """What a sensor can see: the world after a tick, itself, whom it is attached to, and the body that carries it."""

    world: World
    map: ServedMap
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
    """What measures for a sensor."""

    def follow(self, context: SensorContext) -> None:
        """Follow the world through a tick, whether or not anybody listens."""
        ...

    def measure(self, context: SensorContext) -> list[bytes]:
        """Return the payloads of a tick in which a measurement is due: one, or one per event."""
        ...

    def state(self) -> list[Any]:
        """Everything the future depends on, as plain data."""
        ...

    def restore(self, data: list[Any]) -> None:
        """Take up what :meth:`state` gave."""
        ...


def sense(episode: Episode, collisions: tuple[Collision, ...]) -> None:
    """Let all sensors follow a tick; those that somebody listens to send what is due."""
    episode.viewer.follow()
    requests, owners = _follow(episode, collisions)
    if requests:
        episode.viewer.mark_seen()
    elif not episode.context.renderer.wants_every_tick:
        episode.context.renderer.idle()
        return
    for result in episode.context.renderer.render(episode.viewer.view(), tuple(requests.values())):
        entry = owners[result.sensor]
        if isinstance(entry.model, VisualSensor) and result.sensor == entry.id:
            entry.model.memory = result.memory
        if result.error:
            silence(episode, entry, result.error)
        elif result.payload:
            request = requests[result.sensor]
            episode.context.outbox.publish(request.stream, request.head + result.payload)


def _follow(episode: Episode, collisions: tuple[Collision, ...]) -> "tuple[dict[int, RenderRequest], dict[int, SensorEntry]]":
    """Let all sensors follow; send what is measured here. What is to be rendered, and for which sensors, by its number."""
    requests: dict[int, RenderRequest] = {}
    owners: dict[int, SensorEntry] = {}
    for entry in episode.actors.all(SensorEntry):
        parent = episode.actors.find(entry.record.parent_id)
        context = SensorContext(
            world=episode.world,
            map=episode.map,
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
        entry.model.follow(context)
        if not entry.is_due(episode.delta_s):
            continue
        found = list(_gbuffers(episode, entry, entry.model, context)) if isinstance(entry.model, ServedCamera) else []
        if entry.stream_id in episode.connections.subscriptions:
            head = frames.header(frames.SENSOR_TYPES[entry.type_id], episode.moment, episode.actors.motion(entry.id))
            if isinstance(entry.model, VisualSensor):
                found.append(entry.model.request(context, entry.stream_id, head))
            else:
                _measure(episode, entry, context, head)
        requests |= {request.sensor: request for request in found}
        owners |= {request.sensor: entry for request in found}
    return requests, owners


def _measure(episode: Episode, entry: "SensorEntry", context: SensorContext, head: bytes) -> None:
    """Send what a sensor measures that needs no renderer."""
    try:
        payloads = entry.model.measure(context)
    except SamepathError as error:  # such as a receiver beyond the edge of its map
        silence(episode, entry, str(error))
        return
    for payload in payloads:
        episode.context.outbox.publish(entry.stream_id, head + payload)


def _gbuffers(
    episode: Episode, entry: "SensorEntry", camera: "ServedCamera", context: SensorContext
) -> Iterator[RenderRequest]:
    """What is to be drawn for a camera's G-buffers that somebody listens to; black ones are sent at once."""
    for gbuffer in range(frames.GBUFFERS_COUNT if entry.type_id == COLOUR else 0):
        stream_id = frames.gbuffer_number(entry.stream_id, gbuffer)
        if stream_id not in episode.connections.subscriptions:
            continue
        head = frames.header(frames.GBUFFER, episode.moment, episode.actors.motion(entry.id))
        kind = GBUFFERS.get(gbuffer)
        if kind is None:
            episode.context.outbox.publish(stream_id, head + camera.black())
        else:
            number = frames.gbuffer_number(entry.id, gbuffer)
            yield replace(camera.request(context, stream_id, head), sensor=number, type_id=kind)


def silence(episode: Episode, entry: "SensorEntry", why: str) -> None:
    """A sensor that cannot measure is silent; the log says so once, not in every tick."""
    if not entry.is_lost:
        episode.context.log(f"sensor {entry.id} is silent: {why}")
    entry.is_lost = True


def given(description: Description) -> dict[str, object]:
    """A sensor's attributes by name."""
    return {attribute.id: attribute.value for attribute in description.attributes}


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


class StatelessSensor:
    """A sensor that carries nothing from tick to tick; by itself it never sends anything."""

    def __init__(self, description: Description, ordinal: int) -> None:
        pass

    def follow(self, context: SensorContext) -> None:
        pass

    def measure(self, context: SensorContext) -> list[bytes]:
        return []

    def state(self) -> list[Any]:
        return []

    def restore(self, data: list[Any]) -> None:
        pass


class ServedCollisionSensor(StatelessSensor):
    """One event per thing its bearer touched in a tick, with the impulse that acted on the bearer; in order of actor ids.

    Touching the ground is no event: physics does not report it.
    """

    def measure(self, context: SensorContext) -> list[bytes]:
        if context.parent is None:
            return []
        found = []
        for collision in context.collisions:
            if collision.actor == context.parent.id:
                other = context.scenery(collision.scenery) if collision.other is None else context.actor(collision.other)
                found.append(frames.collision(context.parent, other, collision.impulse_ns))
            elif collision.other == context.parent.id:
                impulse_ns = Vector(-collision.impulse_ns.x, -collision.impulse_ns.y, -collision.impulse_ns.z)
                found.append(frames.collision(context.parent, context.actor(collision.actor), impulse_ns))
        return found


class ServedObstacleSensor(StatelessSensor):
    """An event for the first thing in the way."""

    def __init__(self, description: Description, ordinal: int) -> None:
        self._sensor = ObstacleDetector.from_attributes(given(description))

    def measure(self, context: SensorContext) -> list[bytes]:
        met = self._sensor.look(context.world, context.pose, None if context.parent is None else context.parent.id)
        if met is None:
            return []
        other = context.scenery(met.what) if isinstance(met.what, str) else context.actor(met.what)
        return [frames.obstacle(context.this, other, met.distance_m)]


class ServedGnss:
    """Latitude, longitude and altitude, consistent with the client's own map."""

    def __init__(self, description: Description, ordinal: int) -> None:
        self._gnss = Gnss.from_attributes(given(description))
        self._ordinal = ordinal
        self._count = 0

    def follow(self, context: SensorContext) -> None:
        """Count the ticks, which name the noise."""
        self._count += 1

    def state(self) -> list[Any]:
        return [self._count]

    def restore(self, data: list[Any]) -> None:
        (self._count,) = data

    def measure(self, context: SensorContext) -> list[bytes]:
        pose = context.pose
        noise = NoiseKey(sensor=self._ordinal, tick=self._count)
        return [frames.gnss(*self._gnss.measure(context.map.origin, pose.x_m, pose.y_m, pose.z_m, noise))]


class ServedImu:
    """Accelerometer, gyroscope and compass.

    The acceleration is the change of the velocity of the very point where the sensor is fixed, over one tick; gravity is
    CARLA's ``imui_gravity``.
    """

    def __init__(self, description: Description, ordinal: int) -> None:
        self._imu = Imu.from_attributes(given(description))
        self._ordinal = ordinal
        self._count = 0
        self._velocity: Vector | None = None
        self._acceleration = Vector()

    def follow(self, context: SensorContext) -> None:
        """Follow the velocity of the point where the sensor is fixed."""
        self._count += 1
        now = Vector()
        if context.bearer is not None:
            now = context.world.velocity_at(context.bearer, Vector(context.pose.x_m, context.pose.y_m, context.pose.z_m))
        self._acceleration = acceleration_of(self._velocity, now, context.delta_s)
        self._velocity = now

    def state(self) -> list[Any]:
        return [self._count, None if self._velocity is None else list(self._velocity), list(self._acceleration)]

    def restore(self, data: list[Any]) -> None:
        self._count, velocity, acceleration = data
        self._velocity = None if velocity is None else Vector(*velocity)
        self._acceleration = Vector(*acceleration)

    def measure(self, context: SensorContext) -> list[bytes]:
        spin = Vector() if context.bearer is None else context.world.state(context.bearer).angular_velocity_degps
        noise = NoiseKey(sensor=self._ordinal, tick=self._count)
        found = self._imu.measure(context.pose, self._acceleration, spin, context.gravity_mps2, noise)
        return [frames.imu(found.accelerometer_mps2, found.gyroscope_radps, found.compass_rad)]


class MeasurementSize(NamedTuple):
    """How large measurements of a sensor get: what is sent without the head, and what the sensor remembers.

    Of an event camera it is what comes if every pixel fires once; what a scene brings is looked at when it is there.
    """

    payload_bytes: int
    memory_bytes: int = 0


class VisualSensor(ABC):
    """A sensor whose payloads a renderer makes: cameras, LiDARs, the radar.

    It follows the world and describes what is due. Only spawning one imports the compiler that renderers need.
    """

    def __init__(self, description: Description, ordinal: int) -> None:
        require_renderer()
        self._size = self.check(description)
        self._type_id = description.id
        self._attributes = tuple((attribute.id, attribute.value) for attribute in description.attributes)
        self._ordinal = ordinal
        self._count = 0  # of ticks, names the noise
        self._age_s: float | None = None
        self.memory = b""  # what the last result said is to be remembered: an event camera's last image

    @abstractmethod
    def check(self, description: Description) -> Callable[[float], MeasurementSize]:
        """Refuse attributes that cannot be; tells how large measurements get at a step, in seconds."""

    def check_size(self, step_s: float, most_bytes: int) -> None:
        """Refuse a sensor whose measurements would be too large to be sent, before its first one."""
        size_bytes = max(self._size(step_s))
        if size_bytes > most_bytes:
            raise CallError(
                f"{self._type_id}: a measurement of at most {most_bytes} bytes was wanted, but one of up to {size_bytes} came: "
                "choose a smaller picture or fewer points"
            )

    def follow(self, context: SensorContext) -> None:
        """Follow a tick, whether or not anybody looks."""
        self._count += 1
        self._age_s = 0.0 if self._age_s is None else self._age_s + context.delta_s

    def request(self, context: SensorContext, stream_id: int, head: bytes) -> RenderRequest:
        return RenderRequest(
            sensor=context.this.id,
            stream=stream_id,
            type_id=self._type_id,
            attributes=self._attributes,
            head=head,
            pose=context.pose,
            was=self.was,
            ordinal=self._ordinal,
            count=self._count,
            age_s=self._age_s or 0.0,
            delta_s=context.delta_s,
            own_mps=self.own_mps(context),
            memory=self.memory,
            size_bytes=sum(self._size(context.delta_s)),
        )

    @property
    def was(self) -> Pose | None:
        """Where it was a tick earlier, for those to whom it matters."""
        return None

    def own_mps(self, _: SensorContext) -> Vector:
        """How fast it moves, for those to whom it matters."""
        return Vector()

    def measure(self, context: SensorContext) -> list[bytes]:
        return []

    def state(self) -> list[Any]:
        return [self._count, self._age_s, self.memory]

    def restore(self, data: list[Any]) -> None:
        self._count, self._age_s, self.memory = data


class ServedCamera(VisualSensor):
    """A camera of any kind but the event camera."""

    def __init__(self, description: Description, ordinal: int) -> None:
        super().__init__(description, ordinal)
        self._is_flow = description.id == FLOW
        self._pose: Pose | None = None
        self._was: Pose | None = None

    def check(self, description: Description) -> Callable[[float], MeasurementSize]:
        """Refuse images and lenses that cannot be."""
        size = MeasurementSize(CameraSensor.from_attributes(description.id, given(description)).payload_bytes)
        return lambda _: size

    def black(self) -> bytes:
        """A picture of nothing, as CARLA sends it of a G-buffer that a scene has not."""
        camera = CameraSensor.from_attributes(self._type_id, dict(self._attributes))
        return image_header(camera.width, camera.height, camera.fov_deg) + b"\0\0\0\xff" * (camera.width * camera.height)

    def follow(self, context: SensorContext) -> None:
        """Follow where the camera was a tick earlier: flow is motion since then, whoever listens."""
        super().follow(context)
        if self._is_flow:
            self._was, self._pose = self._pose, context.pose
            context.viewer.mark_seen()

    @property
    def was(self) -> Pose | None:
        """Where it was a tick earlier, if it sees motion."""
        return self._was

    def state(self) -> list[Any]:
        return [*super().state(), *(None if pose is None else list(pose) for pose in (self._pose, self._was))]

    def restore(self, data: list[Any]) -> None:
        *base, pose, was = data
        super().restore(base)
        self._pose, self._was = (None if values is None else Pose(*values) for values in (pose, was))


class ServedEventCamera(VisualSensor):
    """The event camera. It remembers its last picture, the one that somebody last listened to."""

    def check(self, description: Description) -> Callable[[float], MeasurementSize]:
        """Refuse images and thresholds that cannot be."""
        camera = EventCamera.from_attributes(given(description))
        size = MeasurementSize(camera.payload_bytes, EVENT_CLOCK_BYTES + camera.memory_bytes)
        return lambda _: size


class ServedLidar(VisualSensor):
    """A LiDAR, plain or semantic."""

    def check(self, description: Description) -> Callable[[float], MeasurementSize]:
        """Refuse channels and ranges that cannot be."""
        from samepath.simulator.sensors.lidar import WEATHER, Lidar

        lidar = Lidar.from_attributes(given(description), semantic=description.id.endswith("_semantic"))
        self._feels = WEATHER in lidar.values
        return partial(_size_of_rays, lidar.payload_bytes, lidar.values["sensor_tick"])

    def feel_weather(self) -> None:
        """Lose sight in rain and fog; the semantic one tells the truth in any weather."""
        from samepath.simulator.sensors.lidar import WEATHER

        if self._feels:
            self._attributes = (*self._attributes, (WEATHER, "1"))


class ServedRadar(VisualSensor):
    """The radar."""

    def check(self, description: Description) -> Callable[[float], MeasurementSize]:
        """Refuse ranges that cannot be."""
        from samepath.simulator.sensors.radar import Radar

        radar = Radar.from_attributes(given(description))
        return partial(_size_of_rays, radar.payload_bytes, radar.values["sensor_tick"])

    def own_mps(self, context: SensorContext) -> Vector:
        """How fast what bears it moves at its place."""
        if context.bearer is None:
            return Vector()
        return context.world.velocity_at(context.bearer, Vector(context.pose.x_m, context.pose.y_m, context.pose.z_m))


def _size_of_rays(payload_bytes: Callable[[float], int], period_s: float, step_s: float) -> MeasurementSize:
    """How large a measurement by rays is at a step; one of too many rays is refused when it is due, and is nothing."""
    try:
        return MeasurementSize(payload_bytes(interval_s(period_s, step_s)))
    except InputError:
        return MeasurementSize(0)


FLOW: Final = "sensor.camera.optical_flow"
# The G-buffers that our renderer has, by CARLA's number, each as the camera that draws it: SceneColor, SceneDepth, GBufferA
# (normals) and CustomStencil, where CARLA has its semantic tags. The others are black.
GBUFFERS: Final = {
    0: COLOUR,
    1: "sensor.camera.depth",
    3: "sensor.camera.normals",
    12: "sensor.camera.semantic_segmentation",
}

SENSOR_MODELS: Final[dict[str, Callable[[Description, int], SensorModel]]] = {
    **dict.fromkeys(CAMERAS, ServedCamera),
    EVENTS: ServedEventCamera,
    "sensor.lidar.ray_cast": ServedLidar,
    "sensor.lidar.ray_cast_semantic": ServedLidar,
    "sensor.other.collision": ServedCollisionSensor,
    "sensor.other.gnss": ServedGnss,
    "sensor.other.imu": ServedImu,
    "sensor.other.lane_invasion": StatelessSensor,  # the client works it out by itself
    "sensor.other.obstacle": ServedObstacleSensor,
    "sensor.other.radar": ServedRadar,
}


def sensor_models() -> dict[str, Callable[[Description, int], SensorModel]]:
    """All sensors that can be spawned. Radios know this module, and are therefore added here."""
    from samepath.simulator.server.radio import AwarenessSensor, CustomRadioSensor

    return {**SENSOR_MODELS, AwarenessSensor.name: AwarenessSensor, CustomRadioSensor.name: CustomRadioSensor}


def build_sensor(description: Description, ordinal: int, *, weather_felt: bool) -> SensorModel:
    """Build the model of a sensor from its blueprint's attributes; ``weather_felt``: LiDARs lose sight in rain and fog."""
    build = sensor_models().get(description.id)
    if build is None:
        raise CallError(f"{NOT_SUPPORTED}: {description.id}; there are: {', '.join(sensor_models())}")
    model = build(description, ordinal)
    if weather_felt and isinstance(model, ServedLidar):
        model.feel_weather()
    return model


@dataclass(eq=False)
class SensorEntry(ActorEntry):
    """A sensor among the actors; ``age_s`` is the time since its first tick, None before it."""

    model: SensorModel = field(default_factory=lambda: StatelessSensor(Description(0, ""), 0))
    period_s: float = 0.0
    age_s: float | None = None
    is_lost: bool = False

    def is_due(self, delta_s: float) -> bool:
        """Is a measurement due after a tick of ``delta_s``? The first at once, then every period."""
        self.age_s = 0.0 if self.age_s is None else self.age_s + delta_s
        return is_due(self.period_s, self.age_s, delta_s)

    def streams(self) -> Iterator[int]:
        """Its stream, and those of its G-buffers."""
        yield from frames.with_gbuffers((self.stream_id,))
