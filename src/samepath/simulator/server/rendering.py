"""What can be seen after a tick, what is to be measured of it, and who measures: plain data in, payloads out.

A :class:`SceneView` and an :class:`RenderRequest` hold everything a measurement depends on, so that it may be made in this process or in
another, once or twice, with the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

import msgpack
import numpy as np
from numpy.typing import NDArray

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import InputError, SamepathError
from samepath.core.states import Pose, Vector
from samepath.simulator.carla.codec import NOT_SUPPORTED, CallError, WireError
from samepath.simulator.sensors.cameras import CAMERA_KINDS as CAMERAS
from samepath.simulator.sensors.cameras import CameraSensor
from samepath.simulator.sensors.events import KIND as EVENTS
from samepath.simulator.sensors.events import EventCamera, nanoseconds
from samepath.simulator.sensors.labels import ActorAppearance
from samepath.simulator.sensors.renderer import Lamp
from samepath.simulator.sensors.sensor import NoiseKey, interval_s, require_sensors
from samepath.simulator.sensors.weather import SceneWeather
from samepath.simulator.server.debug import DebugShape, read_shape, written_shape

if TYPE_CHECKING:
    from samepath.simulator.maps import RoadMap
    from samepath.simulator.sensors.cameras import RigRenderer
    from samepath.simulator.sensors.rays.caster import RayCaster
    from samepath.simulator.sensors.renderer import Camera, CameraFrame, RenderScene
    from samepath.simulator.sensors.street import SceneBuilder


# Plain data for views and orders: numbers in arrays as their bytes, everything else as MessagePack.


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


# Everything that can be seen after a tick, as plain data: whoever has it needs no history to draw the tick.

_POSE, _VECTOR = 6, 3
_STANDS: Final = -1.0
"""In place of the distance that somebody has walked who stands."""
_WEATHER: Final = tuple(one.name for one in fields(SceneWeather))


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
        types = sorted({one.type for one in self.looks})
        row = {name: number for number, name in enumerate(types)}
        return packed(
            [
                [self.episode, self.frame, self.tick],
                types,
                numbers([one.id for one in self.looks]),
                numbers([row[one.type] for one in self.looks]),
                numbers([int(one.lamps) for one in self.looks]),
                table([one.pose for one in self.looks], _POSE),
                table([[_STANDS if one.walked_m is None else one.walked_m] for one in self.looks], 1),
                [None if one.paint is None else list(one.paint) for one in self.looks],
                table(self.velocities, _VECTOR),
                [getattr(self.weather, name) for name in _WEATHER],
                list(self.lights),
                list(self.hidden),
                _written_past(self.past),
                [written_shape(one) for one in self.shapes],
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
                velocities=tuple(Vector(*one) for one in rows_of(speeds, _VECTOR)),
                weather=SceneWeather(*weather),
                lights=tuple(lights),
                hidden=tuple(hidden),
                past=None if past is None else tuple(zip(numbers_of(past[0]), _poses(past[1]), strict=True)),
                shapes=tuple(read_shape(one) for one in shapes),
            )
        except (TypeError, ValueError, IndexError, KeyError) as error:
            raise WireError(f"a view was wanted, but what came has another shape ({type(error).__name__})") from error


def _written_past(past: tuple[tuple[int, Pose], ...] | None) -> list[bytes] | None:
    return None if past is None else [numbers([number for number, _ in past]), table([pose for _, pose in past], _POSE)]


def _poses(data: bytes) -> list[Pose]:
    return [Pose(*one) for one in rows_of(data, _POSE)]


# One measurement that is due, as plain data, and what came of it.

_AT_REST: Final = Vector()
_TIME: Final = struct.Struct("<d")
_REQUESTS_KEPT: Final = 1024


@dataclass(frozen=True, slots=True)
class RenderRequest:
    """A picture, a scan or an echo that is due.

    ``attributes`` are the sensor's as text; ``head`` is what a client is sent before the measurement; ``ordinal`` and ``count``
    name the sensor's chance; ``age_s`` is the time since its first tick, ``delta_s`` the last step; ``own_mps`` how fast it
    moves. ``memory`` is what the sensor kept from the measurement before, if it is one that remembers.
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
        """The order as plain data."""
        was = None if self.was is None else list(self.was)
        return [
            self.sensor, self.stream, self.type_id, _written(self.attributes), self.head, list(self.pose), was,
            self.ordinal, self.count, self.age_s, self.delta_s, list(self.own_mps), self.memory,
        ]  # fmt: skip

    @classmethod
    def of(cls, data: list[Any]) -> RenderRequest:
        """The order of :meth:`plain`."""
        try:
            sensor, stream, type_id, attributes, head, pose, was, ordinal, count, age_s, delta_s, own_mps, memory = data
            return cls(
                sensor, stream, type_id, _attributes(attributes), head, Pose(*pose),
                None if was is None else Pose(*was), ordinal, count, age_s, delta_s, Vector(*own_mps), memory,
            )  # fmt: skip
        except (TypeError, ValueError) as error:
            raise WireError(f"an order was wanted, but what came has another shape ({type(error).__name__})") from error


@dataclass(frozen=True, slots=True)
class RenderResult:
    """What came of an order: the payload after the head, what the sensor is to remember, the time it took.

    ``trouble`` says why there is nothing; ``cost_s`` is 0 where it was not measured by itself.
    """

    sensor: int
    payload: bytes
    memory: bytes = b""
    trouble: str = ""
    cost_s: float = 0.0


@lru_cache(_REQUESTS_KEPT)
def _written(attributes: tuple[tuple[str, str], ...]) -> bytes:
    """Attributes as bytes: they are the same in every tick of a sensor, so that they need be written only once."""
    return packed(attributes)


@lru_cache(_REQUESTS_KEPT)
def _attributes(data: bytes) -> tuple[tuple[str, str], ...]:
    """The attributes of :func:`_written`."""
    return tuple((name, value) for name, value in unpacked(data, "attributes"))


def pack_requests(orders: tuple[RenderRequest, ...]) -> bytes:
    """Orders as bytes."""
    return packed([one.plain() for one in orders])


def unpack_requests(data: bytes | memoryview) -> tuple[RenderRequest, ...]:
    """The orders of :func:`pack_requests`."""
    found = unpacked(data, "orders")
    if not isinstance(found, list):
        raise WireError("a list of orders was wanted")
    return tuple(RenderRequest.of(one) for one in found)


# Where measurements of sensors that see are made: cameras draw, LiDARs and radars cast rays.
#
# The same studio works inside a single server and in every rendering node. Nothing is built, and no compiler
# imported, before it is first wanted; then everything is, so that no tick waits.

Kind = TypeVar("Kind")

COLOUR: Final = "sensor.camera.rgb"
_DRAWN: Final = frozenset({*CAMERAS, EVENTS})
_KEPT: Final = 4096
"""How many sensors' insides are kept from tick to tick."""


class SensorRenderer(Protocol):
    """Who makes measurements: this process, or nodes elsewhere."""

    wants_every_tick: bool
    """Must every tick be shown to it, also when nothing is due?"""

    def prepare(self, road_map: RoadMap) -> None:
        """A sensor that sees was spawned on a map: what has to be built is built now, not in a tick."""
        ...

    def work(self, view: SceneView, orders: Sequence[RenderRequest]) -> Sequence[RenderResult]:
        """Make what is due after a tick; an answer without a payload has been delivered already."""
        ...

    def close(self) -> None:
        """Let go of threads and memory."""
        ...


class RenderTools(NamedTuple):
    """The map as it looks, and what looks at it."""

    street: SceneBuilder
    caster: RayCaster
    eyes: RigRenderer


def require_renderer() -> None:
    """Refuse a sensor that sees where its compiler is not installed."""
    try:
        require_sensors()
    except InputError as error:
        raise CallError(f"{NOT_SUPPORTED}: {error}") from error


def tools_of(road_map: RoadMap, threads: int = 1, renderer: str = "software") -> RenderTools:
    """Build the tools and use every one of them once, which compiles them where that was never done before."""
    from samepath.simulator.sensors.cameras import RigRenderer
    from samepath.simulator.sensors.lidar import Lidar
    from samepath.simulator.sensors.radar import Radar
    from samepath.simulator.sensors.rays.caster import RayCaster
    from samepath.simulator.sensors.renderer import Camera, Channel
    from samepath.simulator.sensors.street import scene_builder_of

    made = RenderTools(scene_builder_of(road_map), RayCaster(threads), RigRenderer(threads, renderer))
    scene, pose, step_s = made.street.scene([]), Pose(z_m=2.0), 0.05
    every = Channel.COLOUR | Channel.DEPTH | Channel.LABEL | Channel.INSTANCE | Channel.NORMAL | Channel.FLOW
    made.eyes.draw(scene, [Camera(pose, 16, 16, 90.0, every, pose)])
    few = {"points_per_second": 1000}
    for semantic in (False, True):
        Lidar.from_attributes(few, semantic=semantic).scan(made.caster, scene, pose, 0.0, step_s, NoiseKey())
    Radar.from_attributes(few).detect(made.caster, scene, pose, Vector(), {}, step_s, NoiseKey())
    return made


def compile_all() -> None:
    """Compile everything that sensors need, if the compiler is there; code that is kept on disk is merely loaded."""
    if find_spec("numba") is not None:
        from samepath.simulator.maps import load_map

        tools_of(load_map("t-junction"))


class LocalRenderer:
    """Makes measurements in this process. ``threads`` change no bit; ``renderer`` is who draws."""

    wants_every_tick = False

    def __init__(self, threads: int = 1, renderer: str = "software") -> None:
        self._threads = threads
        self._renderer = renderer
        self._map: RoadMap | None = None
        self._tools: RenderTools | None = None
        self._insides: dict[tuple[str, tuple[tuple[str, str], ...]], object] = {}

    def prepare(self, road_map: RoadMap) -> None:
        """Build the tools for a map."""
        if self._tools is None or self._map is not road_map:
            self.close()
            self._map, self._tools = road_map, tools_of(road_map, self._threads, self._renderer)

    def work(self, view: SceneView, orders: Sequence[RenderRequest]) -> list[RenderResult]:
        """Make everything; all pictures in one go, views that cameras share only once."""
        return self.make(view, orders)

    def make(self, view: SceneView, orders: Sequence[RenderRequest], *, timed: bool = False) -> list[RenderResult]:
        """Make everything; ``timed`` makes one thing after the other and says what each cost, with the same bytes."""
        if not orders:
            return []
        scene = self._scene(view)
        cameras = {one.sensor: self._camera(view, one) for one in orders if one.type_id in _DRAWN}
        drawn = {} if timed else self._drawn(scene, list(cameras.values()))
        made = []
        for order in orders:
            start_s = SYSTEM_CLOCK.monotonic_s()
            try:
                if order.sensor in cameras:
                    camera = cameras[order.sensor]
                    frame = drawn[camera] if camera in drawn else self._drawn(scene, [camera])[camera]
                    one = self._picture(view, order, frame)
                else:
                    one = RenderResult(order.sensor, self._others[order.type_id](view, scene, order))
            except SamepathError as error:
                one = RenderResult(order.sensor, b"", trouble=str(error))
            made.append(replace(one, cost_s=SYSTEM_CLOCK.monotonic_s() - start_s) if timed else one)
        return made

    @property
    def tools(self) -> RenderTools:
        """The street, the caster and the eyes."""
        if self._tools is None:
            raise InputError("a studio was wanted that is prepared for a map")
        return self._tools

    def _scene(self, view: SceneView) -> RenderScene:
        past = None if view.past is None else dict(view.past)
        return self.tools.street.scene(
            view.looks, view.weather, lights=view.lights, hidden=frozenset(view.hidden), before=past, tick=view.tick
        )

    def _drawn(self, scene: RenderScene, cameras: list[Camera]) -> dict[Camera, CameraFrame]:
        return dict(zip(cameras, self.tools.eyes.draw(scene, cameras), strict=True)) if cameras else {}

    def _camera(self, view: SceneView, order: RenderRequest) -> Camera:
        if order.type_id == EVENTS:
            return self._events(order).at(order.pose)
        camera = self._sensor(order).at(order.pose, order.was)
        if order.type_id == COLOUR and view.shapes:
            from samepath.simulator.sensors.renderer import Channel

            return replace(camera, channels=camera.channels | Channel.DEPTH)
        return camera

    def _picture(self, view: SceneView, order: RenderRequest, frame: CameraFrame) -> RenderResult:
        if order.type_id == EVENTS:
            return self._changes(order, frame)
        if order.type_id == COLOUR and view.shapes:
            from samepath.simulator.server.debug import painted

            frame = replace(frame, bgra=painted(frame, view.shapes))
        return RenderResult(order.sensor, self._sensor(order).payload(frame))

    def _changes(self, order: RenderRequest, frame: CameraFrame) -> RenderResult:
        """What changed since the picture before, which the order remembers; where nothing did, CARLA's is silent too."""
        eye = self._events(order)
        eye.number = order.ordinal
        eye.recall(order.memory)
        events = eye.events(frame, nanoseconds(order.time_s))
        return RenderResult(order.sensor, eye.payload(events) if len(events) else b"", memory=eye.memory())

    def _events(self, order: RenderRequest) -> EventCamera:
        return self._inside(order, EventCamera, lambda: EventCamera.from_attributes(dict(order.attributes)))

    def _sensor(self, order: RenderRequest) -> CameraSensor:
        return self._inside(order, CameraSensor, lambda: CameraSensor.from_attributes(order.type_id, dict(order.attributes)))

    def _inside(self, order: RenderRequest, kind: type[Kind], build: Callable[[], Kind]) -> Kind:
        key = (order.type_id, order.attributes)
        found = self._insides.get(key)
        if not isinstance(found, kind):
            if len(self._insides) >= _KEPT:
                self._insides.clear()
            found = self._insides[key] = build()
        return found

    def _scan(self, _: SceneView, scene: RenderScene, order: RenderRequest) -> bytes:
        from samepath.simulator.sensors.lidar import Lidar

        semantic = order.type_id.endswith("_semantic")
        lidar = self._inside(order, Lidar, lambda: Lidar.from_attributes(dict(order.attributes), semantic=semantic))
        lasts_s = interval_s(lidar.values["sensor_tick"], order.delta_s)
        chance = NoiseKey(sensor=order.ordinal, tick=order.count)
        return lidar.scan(self.tools.caster, scene, order.pose, order.age_s, lasts_s, chance).to_bytes()

    def _echoes(self, view: SceneView, scene: RenderScene, order: RenderRequest) -> bytes:
        from samepath.simulator.sensors.radar import Radar

        radar = self._inside(order, Radar, lambda: Radar.from_attributes(dict(order.attributes)))
        others = {look.id: velocity for look, velocity in zip(view.looks, view.velocities, strict=True)}
        lasts_s = interval_s(radar.values["sensor_tick"], order.delta_s)
        chance = NoiseKey(sensor=order.ordinal, tick=order.count)
        found = radar.detect(self.tools.caster, scene, order.pose, order.own_mps, others, lasts_s, chance)
        return found.tobytes()

    @property
    def _others(self) -> dict[str, Callable[[SceneView, RenderScene, RenderRequest], bytes]]:
        return {
            "sensor.lidar.ray_cast": self._scan,
            "sensor.lidar.ray_cast_semantic": self._scan,
            "sensor.other.radar": self._echoes,
        }

    def close(self) -> None:
        """Let go of threads and memory."""
        if self._tools is not None:
            self._tools.caster.close()
            self._tools.eyes.close()
            self._tools = None
