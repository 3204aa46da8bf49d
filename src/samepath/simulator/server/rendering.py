"""What is to be seen after a tick, what is to be measured of it, and who measures: plain data in, payloads out.

A :class:`SceneView` and a :class:`RenderRequest` hold everything that a measurement depends on; it needs no history and no
world. So it may be made in this process or on a node, once or twice (a node died), and the bytes are the same. That is also why
both are packed by hand: numbers go over the wire as the bytes of their arrays, to the bit, and equal views give equal bytes,
which nodes compare by digest.

:class:`LocalRenderer` makes measurements in this process, inside a single server as well as in every node. Nothing is built,
and no compiler imported, before the first visual sensor is spawned; then everything is, so that no tick waits for it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar, runtime_checkable

import msgpack
import numpy as np
from numpy.typing import NDArray

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import InputError, SamepathError
from samepath.core.processes import keep_freed_memory, return_freed_memory
from samepath.core.states import Pose, Vector
from samepath.simulator.carla.codec import NOT_SUPPORTED, CallError, WireError
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.sensors.cameras import CAMERA_KINDS as CAMERAS
from samepath.simulator.sensors.cameras import CameraSensor
from samepath.simulator.sensors.events import KIND as EVENTS
from samepath.simulator.sensors.events import EventCamera, nanoseconds, whole_nanoseconds
from samepath.simulator.sensors.labels import ActorAppearance
from samepath.simulator.sensors.renderer import Lamp
from samepath.simulator.sensors.sensor import NoiseKey, interval_s, require_sensors
from samepath.simulator.sensors.weather import SceneWeather
from samepath.simulator.server.debug import DebugShape, painted, read_shape, written_shape

if TYPE_CHECKING:
    from samepath.simulator.maps import RoadMap
    from samepath.simulator.sensors.cameras import RigRenderer
    from samepath.simulator.sensors.rays.caster import RayCaster
    from samepath.simulator.sensors.renderer import Camera, CameraFrame, RenderScene
    from samepath.simulator.sensors.scene_builder import SceneBuilder


_POSE, _VECTOR = 6, 3
_STANDS: Final = -1.0
"""In place of the distance that somebody has walked who stands."""
_WEATHER: Final = tuple(field.name for field in fields(SceneWeather))


@dataclass(frozen=True)
class SceneView:
    """What there is to see after the tick ``frame`` of an episode.

    ``tick`` counts the world's own steps. ``velocities`` belong to ``looks``, one for one. ``past`` says where actors were one
    frame earlier, for the optical flow; None: nobody looked then, and nothing counts as having moved.
    """

    episode: int
    frame: int
    tick: int
    looks: tuple[ActorAppearance, ...]
    velocities: tuple[Vector, ...]
    weather: SceneWeather
    lights: tuple[int, ...] = ()
    hidden: tuple[str, ...] = ()
    past: tuple[tuple[int, Pose], ...] | None = None
    shapes: tuple[DebugShape, ...] = ()

    def pack(self) -> bytes:
        """The view as bytes: equal views give equal bytes."""
        types = sorted({look.type for look in self.looks})
        row = {name: number for number, name in enumerate(types)}
        return packed(
            [
                [self.episode, self.frame, self.tick],
                types,
                numbers([look.id for look in self.looks]),
                numbers([row[look.type] for look in self.looks]),
                numbers([int(look.lamps) for look in self.looks]),
                table([look.pose for look in self.looks], _POSE),
                table([[_STANDS if look.walked_m is None else look.walked_m] for look in self.looks], 1),
                [None if look.paint is None else list(look.paint) for look in self.looks],
                table(self.velocities, _VECTOR),
                [getattr(self.weather, name) for name in _WEATHER],
                list(self.lights),
                list(self.hidden),
                _written_past(self.past),
                [written_shape(shape) for shape in self.shapes],
            ]
        )

    @classmethod
    def unpack(cls, data: bytes | memoryview) -> SceneView:
        """The view of :meth:`pack`."""
        try:
            head, types, ids, kinds, lamps, poses, walked, paints, speeds, weather, lights, hidden, past, shapes = unpacked(
                data, "a view"
            )
            looks = tuple(
                ActorAppearance(
                    number,
                    types[kind],
                    Pose(*pose),
                    None if paint is None else (paint[0], paint[1], paint[2]),
                    Lamp(lamp),
                    None if far_m == _STANDS else far_m,
                )
                for number, kind, lamp, pose, (far_m,), paint in zip(
                    numbers_of(ids), numbers_of(kinds), numbers_of(lamps), rows_of(poses, _POSE), rows_of(walked, 1), paints,
                    strict=True,
                )
            )  # fmt: skip
            return cls(
                episode=head[0],
                frame=head[1],
                tick=head[2],
                looks=looks,
                velocities=tuple(Vector(*row) for row in rows_of(speeds, _VECTOR)),
                weather=SceneWeather(*weather),
                lights=tuple(lights),
                hidden=tuple(hidden),
                past=None if past is None else tuple(zip(numbers_of(past[0]), _poses(past[1]), strict=True)),
                shapes=tuple(read_shape(shape) for shape in shapes),
            )
        except (TypeError, ValueError, IndexError, KeyError) as error:
            raise WireError(f"a view was wanted, but what came has another shape ({type(error).__name__})") from error


def _written_past(past: tuple[tuple[int, Pose], ...] | None) -> list[bytes] | None:
    return None if past is None else [numbers([number for number, _ in past]), table([pose for _, pose in past], _POSE)]


def _poses(data: bytes) -> list[Pose]:
    return [Pose(*row) for row in rows_of(data, _POSE)]


_AT_REST: Final = Vector()
_TIME: Final = struct.Struct("<d")
EVENT_CLOCK_BYTES: Final = _TIME.size
"""Bytes that an event camera remembers in addition to its image: the time of that image in the episode."""
_ATTRIBUTES_KEPT: Final = 1024


@dataclass(frozen=True, slots=True)
class RenderRequest:
    """An image, a scan or a radar sweep that is due.

    ``attributes`` are the sensor's as text; ``head`` is what a client is sent before the measurement; ``ordinal`` and ``count``
    name the sensor's chance; ``age_s`` is the time since its first tick, ``delta_s`` the last step; ``own_mps`` how fast it
    moves. ``memory`` is what the sensor kept from the measurement before, if it is one that remembers. ``size_bytes`` is how
    much comes of it at most (of an event camera: if every pixel fires once), payload and memory together.
    """

    sensor: int
    stream: int
    type_id: str
    attributes: tuple[tuple[str, str], ...]
    head: bytes
    pose: Pose
    was: Pose | None
    ordinal: int
    count: int
    age_s: float
    delta_s: float
    own_mps: Vector = _AT_REST
    memory: bytes = b""
    size_bytes: int = 0

    @property
    def frame(self) -> int:
        """The tick after which it is due, as its head says it."""
        return int.from_bytes(self.head[8:16], "little")

    @property
    def time_s(self) -> float:
        """The simulated time after that tick, as its head says it."""
        (found,) = _TIME.unpack_from(self.head, 16)
        return float(found)

    def plain(self) -> list[Any]:
        """The request as plain data, but for its memory: of that only whether there is any."""
        was = None if self.was is None else list(self.was)
        return [
            self.sensor, self.stream, self.type_id, _written(self.attributes), self.head, list(self.pose), was,
            self.ordinal, self.count, self.age_s, self.delta_s, list(self.own_mps), self.size_bytes, bool(self.memory),
        ]  # fmt: skip

    @classmethod
    def of(cls, data: list[Any], memories: Iterator[bytes]) -> RenderRequest:
        """The request of :meth:`plain`; its memory, if it has one, is the next of ``memories``."""
        try:
            sensor, stream, type_id, attributes, head, pose, was, ordinal, count, age_s, delta_s, own_mps, size, kept = data
            return cls(
                sensor, stream, type_id, _attributes(attributes), head, Pose(*pose),
                None if was is None else Pose(*was), ordinal, count, age_s, delta_s, Vector(*own_mps),
                next(memories) if kept else b"", size,
            )  # fmt: skip
        except StopIteration:
            raise WireError("what a sensor remembers was wanted behind the requests, but it is missing") from None
        except (TypeError, ValueError) as error:
            raise WireError(f"a render request was wanted, but what came has another shape ({type(error).__name__})") from error


@dataclass(frozen=True, slots=True)
class RenderResult:
    """What came of a request: the payload after the head, what the sensor is to remember, the time it took.

    ``error`` says why there is nothing; ``cost_s`` is 0 where it was not measured by itself.
    """

    sensor: int
    payload: bytes
    memory: bytes = b""
    error: str = ""
    cost_s: float = 0.0


@lru_cache(_ATTRIBUTES_KEPT)
def _written(attributes: tuple[tuple[str, str], ...]) -> bytes:
    """Attributes as bytes: they are the same in every tick of a sensor, so that they need be written only once."""
    return packed(attributes)


@lru_cache(_ATTRIBUTES_KEPT)
def _attributes(data: bytes) -> tuple[tuple[str, str], ...]:
    """The attributes of :func:`_written`."""
    return tuple((name, value) for name, value in unpacked(data, "attributes"))


def pack_requests(requests: Sequence[RenderRequest]) -> tuple[bytes, tuple[bytes, ...]]:
    """Requests as bytes, and what their sensors remember: that may be larger than a message and travels beside it."""
    return packed([request.plain() for request in requests]), tuple(request.memory for request in requests if request.memory)


def unpack_requests(data: bytes | memoryview, memories: Sequence[bytes] = ()) -> tuple[RenderRequest, ...]:
    """The requests of :func:`pack_requests`."""
    found = unpacked(data, "requests")
    if not isinstance(found, list):
        raise WireError("a list of requests was wanted")
    rest = iter(memories)
    return tuple([RenderRequest.of(fields, rest) for fields in found])


ROUND_BYTES: Final = 256 << 20
"""How much the requests of one round may bring: what is drawn and sent at once is bounded, however many cameras are due."""
_ROUND_REQUESTS: Final = 1000
_ROUND_TEXT_BYTES: Final = 4 << 20


def rounds(requests: Sequence[RenderRequest]) -> list[tuple[RenderRequest, ...]]:
    """Requests in their order, cut where a round would bring too much; one that is too large by itself is a round.

    Nearly every tick is a single round. Attributes count too: they are text of a client's choosing, and go to nodes.
    """
    found: list[tuple[RenderRequest, ...]] = []
    own: list[RenderRequest] = []
    size_bytes = text_bytes = 0
    for request in requests:
        text = len(_written(request.attributes))
        if own and (
            size_bytes + request.size_bytes > ROUND_BYTES
            or text_bytes + text > _ROUND_TEXT_BYTES
            or len(own) >= _ROUND_REQUESTS
        ):
            found.append(tuple(own))
            own, size_bytes, text_bytes = [], 0, 0
        own.append(request)
        size_bytes, text_bytes = size_bytes + request.size_bytes, text_bytes + text
    return [*found, tuple(own)] if own else found


Model = TypeVar("Model")

COLOUR: Final = "sensor.camera.rgb"
_DRAWN: Final = frozenset({*CAMERAS, EVENTS})
_RADAR: Final = "sensor.other.radar"
# A sensor that has not measured for so many ticks is read from its attributes anew when it does: what is kept of sensors that
# are gone, or measure seldom, must not grow with the hours.
_MODEL_TICKS: Final = 100
_MODELS_KEPT: Final = 1024


@runtime_checkable
class _Resting(Protocol):
    """A model that holds much only while it measures tick after tick."""

    def rest(self) -> None: ...


class SensorRenderer(Protocol):
    """Who makes measurements: this process, or nodes elsewhere."""

    wants_every_tick: bool
    """Must every tick be shown to it, also when nothing is due?"""

    def prepare(self, road_map: RoadMap) -> None:
        """A visual sensor was spawned on a map: what has to be built is built now, not in a tick."""
        ...

    def render(self, view: SceneView, requests: Sequence[RenderRequest]) -> Sequence[RenderResult]:
        """Make what is due after a tick; a result without a payload needs no publishing (a node has delivered it)."""
        ...

    def idle(self) -> None:
        """Nothing is due after a tick."""
        ...

    def close(self) -> None:
        """Let go of threads and memory."""
        ...


class RenderTools(NamedTuple):
    """What renders one map: scenes of it, rays through them, images of them."""

    scenes: SceneBuilder
    caster: RayCaster
    cameras: RigRenderer


def require_renderer() -> None:
    """Refuse a visual sensor where its compiler is not installed."""
    try:
        require_sensors()
    except InputError as error:
        raise CallError(f"{NOT_SUPPORTED}: {error}") from error


def tools_of(
    road_map: RoadMap, threads: int = 1, renderer: str = "software", said: Callable[[str], None] | None = None
) -> RenderTools:
    """Build the tools and use every one of them once, which compiles them where that was never done before."""
    from samepath.simulator.sensors.auto import ray_caster_of
    from samepath.simulator.sensors.building import use_code
    from samepath.simulator.sensors.cameras import RigRenderer
    from samepath.simulator.sensors.scene_builder import scene_builder_of

    caster = ray_caster_of(renderer, threads, said)
    tools = RenderTools(scene_builder_of(road_map), caster, RigRenderer(threads, renderer, said, overwrites=True))
    use_code(tools.scenes.scene([]), tools.caster, tools.cameras)
    return tools


class LocalRenderer:
    """Makes measurements in this process. ``threads`` change no bit; ``renderer`` names what draws images.

    ``said`` is told who that is where it was left open (``auto``), and of every change.
    A measurement, or what its sensor is to remember of it, that is longer than ``most_bytes`` is refused.
    """

    wants_every_tick = False

    def __init__(
        self,
        threads: int = 1,
        renderer: str = "software",
        most_bytes: int = ServerLimits.measurement_bytes,
        said: Callable[[str], None] | None = None,
    ) -> None:
        self._threads = threads
        self._said = said
        self._renderer = renderer
        self._most_bytes = most_bytes
        self._map: RoadMap | None = None
        self._tools: RenderTools | None = None
        # Sensors as their attributes describe them, and when each was last used, the latest last: attributes are read and
        # checked once. They hold nothing of the size of a picture or a scan from one tick to the next, but for the rays of a
        # LiDAR that measures in every tick.
        self._models: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[object, int]] = {}
        self._calls = 0

    def prepare(self, road_map: RoadMap) -> None:
        """Build what renders a map, unless it is there."""
        if self._tools is None or self._map is not road_map:
            is_first = self._map is None
            self.close()
            self._map, self._tools = road_map, tools_of(road_map, self._threads, self._renderer, self._said)
            if is_first:
                keep_freed_memory()  # for the pictures that come
            else:
                return_freed_memory()  # of the map before: its meshes, and pictures of it

    def render(self, view: SceneView, requests: Sequence[RenderRequest], *, timed: bool = False) -> list[RenderResult]:
        """Make everything that is due; all images in one go, so that what several cameras share is computed once.

        ``timed`` makes one thing after the other and says what each cost, with the same bytes.
        """
        self._count()
        if not requests:
            self._rest()
            return []
        past = None if view.past is None else dict(view.past)
        scene = self.tools.scenes.scene(
            view.looks, view.weather, lights=view.lights, hidden=frozenset(view.hidden), before=past, tick=view.tick
        )
        return [result for part in rounds(requests) for result in self._render_round(view, scene, part, timed=timed)]

    def _render_round(
        self, view: SceneView, scene: RenderScene, requests: Sequence[RenderRequest], *, timed: bool
    ) -> list[RenderResult]:
        cameras = {request.sensor: self._camera(view, request) for request in requests if request.type_id in _DRAWN}
        # Rays first: on a card they fly while pictures are drawn.
        rays = {} if timed else {r.sensor: self._begun(view, scene, r) for r in requests if r.sensor not in cameras}
        # Each is read before more is drawn: the next pictures are drawn into the same memory.
        drawn = {} if timed or not cameras else dict(zip(cameras, self._draw(scene, cameras.values()), strict=True))
        results = []
        for request in requests:
            start_s = SYSTEM_CLOCK.monotonic_s()
            try:
                if request.sensor in cameras:
                    frame = drawn.get(request.sensor) or self._draw(scene, [cameras[request.sensor]])[0]
                    result = self._image(view, request, frame)
                else:
                    begun = rays.pop(request.sensor, None) or self._begun(view, scene, request)
                    result = RenderResult(request.sensor, begun())
                self._check_bytes(request, len(result.payload), len(result.memory))
            except SamepathError as error:
                result = RenderResult(request.sensor, b"", error=str(error))
            results.append(replace(result, cost_s=SYSTEM_CLOCK.monotonic_s() - start_s) if timed else result)
        return results

    @property
    def tools(self) -> RenderTools:
        if self._tools is None:
            raise InputError("a renderer that is prepared for a map was wanted: call prepare first")
        return self._tools

    def _draw(self, scene: RenderScene, cameras: Iterable[Camera]) -> list[CameraFrame]:
        return self.tools.cameras.draw(scene, list(cameras))

    def _check_bytes(self, request: RenderRequest, *sizes: int) -> None:
        """Refuse what is too large to be sent, to clients as well as between nodes."""
        if max(sizes) > self._most_bytes:
            raise InputError(
                f"{request.type_id}: a measurement of at most {self._most_bytes} bytes was wanted, but one of {max(sizes)} "
                "came: choose a smaller picture, fewer points or higher thresholds"
            )

    def idle(self) -> None:
        """A tick more in which nothing is due."""
        self._count()
        self._rest()

    def _rest(self) -> None:
        """Let go of the memory of pictures: where cameras measure in every tick it is drawn into again, else it is not kept."""
        if self._tools is not None:
            self._tools.cameras.rest()

    def _count(self) -> None:
        """A tick more: let go of what belongs to sensors that do not measure any more."""
        self._calls += 1
        before = self._calls - 1
        for key in list(self._models):
            model, used = self._models[key]
            if used >= before:
                break  # and so are all behind it
            if used < self._calls - _MODEL_TICKS or len(self._models) > _MODELS_KEPT:
                del self._models[key]
            elif isinstance(model, _Resting):
                model.rest()

    def _model(self, request: RenderRequest, kind: type[Model], build: Callable[[], Model]) -> Model:
        """The sensor that a request is for, from its attributes; they are the same in every tick."""
        key = (request.type_id, request.attributes)
        found, _ = self._models.pop(key, (None, 0))
        if not isinstance(found, kind):
            found = build()
        self._models[key] = (found, self._calls)
        return found

    def _event_camera(self, request: RenderRequest) -> EventCamera:
        return self._model(request, EventCamera, lambda: EventCamera.from_attributes(dict(request.attributes)))

    def _camera_sensor(self, request: RenderRequest) -> CameraSensor:
        build = partial(CameraSensor.from_attributes, request.type_id)
        return self._model(request, CameraSensor, lambda: build(dict(request.attributes)))

    def _camera(self, view: SceneView, request: RenderRequest) -> Camera:
        """Where a camera is and what is to be drawn for it."""
        if request.type_id == EVENTS:
            return self._event_camera(request).at(request.pose)
        camera = self._camera_sensor(request).at(request.pose, request.was, image=True)
        if request.type_id == COLOUR and view.shapes:
            from samepath.simulator.sensors.renderer import Channel

            return replace(camera, channels=camera.channels | Channel.DEPTH)  # debug shapes vanish behind what is nearer
        return camera

    def _image(self, view: SceneView, request: RenderRequest, frame: CameraFrame) -> RenderResult:
        if request.type_id == EVENTS:
            return self._events(request, frame)
        if request.type_id == COLOUR and view.shapes:
            frame = replace(frame, bgra=painted(frame, view.shapes))
        return RenderResult(request.sensor, self._camera_sensor(request).payload(frame))

    def _events(self, request: RenderRequest, frame: CameraFrame) -> RenderResult:
        """What changed since the image before, which the request remembers; where nothing did, CARLA's is silent too.

        Moments are whole nanoseconds since the image before; the time of that image in the episode is added last. The rounding
        of times in the episode depends on the age of the server, and so would the order of events. The difference of two
        such times is exact (``carla.streams.as_sent``). The camera's own clock, by which its pixels rest, adds them up.
        """
        camera = self._event_camera(request)
        camera.number = request.ordinal
        (before_s,) = _TIME.unpack(request.memory[: _TIME.size] or _TIME.pack(request.time_s))
        camera.recall(request.memory[_TIME.size :])
        before_ns = camera.time_ns
        try:
            events = camera.events(frame, before_ns + whole_nanoseconds(request.time_s - before_s), request.count)
            events["t"] += nanoseconds(before_s) - before_ns
            payload = camera.payload(events) if len(events) else b""
            return RenderResult(request.sensor, payload, memory=_TIME.pack(request.time_s) + camera.memory())
        finally:
            camera.forget()  # it is in the result, and the camera serves all sensors with these attributes

    def _begun(self, view: SceneView, scene: RenderScene, request: RenderRequest) -> Callable[[], bytes]:
        """Begin to cast a sensor's rays; what comes back waits for them and returns the payload, or says what is wrong."""
        try:
            return self._echoes(view, scene, request) if request.type_id == _RADAR else self._scan(scene, request)
        except SamepathError as error:
            wrong = error  # the name of an exception ends with its clause

            def refused() -> bytes:
                raise wrong

            return refused

    def _scan(self, scene: RenderScene, request: RenderRequest) -> Callable[[], bytes]:
        from samepath.simulator.sensors.lidar import Lidar

        semantic = request.type_id.endswith("_semantic")
        lidar = self._model(request, Lidar, lambda: Lidar.from_attributes(dict(request.attributes), semantic=semantic))
        lasts_s = interval_s(lidar.values["sensor_tick"], request.delta_s)
        self._check_bytes(request, lidar.payload_bytes(lasts_s))  # before the rays are sent: the step may have grown
        noise = NoiseKey(sensor=request.ordinal, tick=request.count)
        scan = lidar.begin(self.tools.caster, scene, request.pose, request.age_s, lasts_s, noise)
        return lambda: scan().to_bytes()

    def _echoes(self, view: SceneView, scene: RenderScene, request: RenderRequest) -> Callable[[], bytes]:
        from samepath.simulator.sensors.radar import Radar

        radar = self._model(request, Radar, lambda: Radar.from_attributes(dict(request.attributes)))
        others = {look.id: velocity for look, velocity in zip(view.looks, view.velocities, strict=True)}
        lasts_s = interval_s(radar.values["sensor_tick"], request.delta_s)
        noise = NoiseKey(sensor=request.ordinal, tick=request.count)
        found = radar.begin(self.tools.caster, scene, request.pose, request.own_mps, others, lasts_s, noise)
        return lambda: found().tobytes()

    def close(self) -> None:
        """Let go of threads and memory."""
        self._models.clear()
        if self._tools is not None:
            self._tools.caster.close()
            self._tools.cameras.close()
            self._tools = None


# How views and requests are packed: numbers in arrays as their bytes, everything else as MessagePack.


def packed(value: object) -> bytes:
    """Pack plain data."""
    made: bytes = msgpack.packb(value, use_bin_type=True)
    return made


def unpacked(data: bytes | memoryview, what: str) -> Any:  # noqa: ANN401 - plain data of any shape
    """Unpack plain data."""
    try:
        return msgpack.unpackb(data, raw=False, use_list=True, strict_map_key=True)
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        raise WireError(f"{what}: MessagePack was wanted, but {type(error).__name__} came of it") from None


def table(rows: Sequence[Sequence[float]], columns: int) -> bytes:
    """Rows of numbers, to the bit."""
    return np.array(rows, "<f8").reshape(-1, columns).tobytes()


def rows_of(data: bytes, columns: int) -> list[list[float]]:
    """The rows of :func:`table`."""
    found: list[list[float]] = np.frombuffer(data, "<f8").reshape(-1, columns).tolist()
    return found


def numbers(values: Sequence[int]) -> bytes:
    """Whole numbers."""
    return np.array(values, "<i8").tobytes()


def numbers_of(data: bytes) -> list[int]:
    """The whole numbers of :func:`numbers`."""
    array: NDArray[np.int64] = np.frombuffer(data, "<i8")
    found: list[int] = array.tolist()
    return found
