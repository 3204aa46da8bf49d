"""Where measurements of sensors that see are made: cameras draw, LiDARs and radars cast rays.

The same studio works inside a single server and in every rendering node. Nothing is built, and no compiler imported, before it
is first wanted; then everything is, so that no tick waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from samepath.base.clock import SYSTEM_CLOCK
from samepath.base.errors import InputError, SamepathError
from samepath.sim.sensors.cameras import KINDS as CAMERAS
from samepath.sim.sensors.cameras import CameraSensor
from samepath.sim.sensors.events import KIND as EVENTS
from samepath.sim.sensors.events import EventCamera, nanoseconds
from samepath.sim.sensors.extra import require_sensors
from samepath.sim.sensors.noise import Chance
from samepath.sim.sensors.schedule import interval_s
from samepath.sim.server.errors import NOT_SUPPORTED, CallError
from samepath.sim.server.viewing.order import Made, Order
from samepath.sim.world.records import Pose, Vector

if TYPE_CHECKING:
    from samepath.sim.maps import RoadMap
    from samepath.sim.sensors.eyes import Eyes
    from samepath.sim.sensors.rays.caster import RayCaster
    from samepath.sim.sensors.renderer import Camera, Frame
    from samepath.sim.sensors.scene import Scene
    from samepath.sim.sensors.street import Street
    from samepath.sim.server.viewing.view import View

Kind = TypeVar("Kind")

COLOUR: Final = "sensor.camera.rgb"
_DRAWN: Final = frozenset({*CAMERAS, EVENTS})
_KEPT: Final = 4096
"""How many sensors' insides are kept from tick to tick."""


class Workshop(Protocol):
    """Who makes measurements: this process, or nodes elsewhere."""

    wants_every_tick: bool
    """Must every tick be shown to it, also when nothing is due?"""

    def prepare(self, road_map: RoadMap) -> None:
        """A sensor that sees was spawned on a map: what has to be built is built now, not in a tick."""
        ...

    def work(self, view: View, orders: Sequence[Order]) -> Sequence[Made]:
        """Make what is due after a tick; an answer without a payload has been delivered already."""
        ...

    def close(self) -> None:
        """Let go of threads and memory."""
        ...


class Tools(NamedTuple):
    """The map as it looks, and what looks at it."""

    street: Street
    caster: RayCaster
    eyes: Eyes


def require() -> None:
    """Refuse a sensor that sees where its compiler is not installed."""
    try:
        require_sensors()
    except InputError as error:
        raise CallError(f"{NOT_SUPPORTED}: {error}") from error


def tools_of(road_map: RoadMap, threads: int = 1, renderer: str = "software") -> Tools:
    """Build the tools and use every one of them once, which compiles them where that was never done before."""
    from samepath.sim.sensors.eyes import Eyes
    from samepath.sim.sensors.lidar import Lidar
    from samepath.sim.sensors.radar import Radar
    from samepath.sim.sensors.rays.caster import RayCaster
    from samepath.sim.sensors.renderer import Camera, Channel
    from samepath.sim.sensors.street import street_of

    made = Tools(street_of(road_map), RayCaster(threads), Eyes(threads, renderer))
    scene, pose, step_s = made.street.scene([]), Pose(z_m=2.0), 0.05
    every = Channel.COLOUR | Channel.DEPTH | Channel.LABEL | Channel.INSTANCE | Channel.NORMAL | Channel.FLOW
    made.eyes.draw(scene, [Camera(pose, 16, 16, 90.0, every, pose)])
    few = {"points_per_second": 1000}
    for semantic in (False, True):
        Lidar.from_attributes(few, semantic=semantic).scan(made.caster, scene, pose, 0.0, step_s, Chance())
    Radar.from_attributes(few).detect(made.caster, scene, pose, Vector(), {}, step_s, Chance())
    return made


def compile_all() -> None:
    """Compile everything that sensors need, if the compiler is there; code that is kept on disk is merely loaded."""
    if find_spec("numba") is not None:
        from samepath.sim.maps import load_map

        tools_of(load_map("t-junction"))


class Studio:
    """Makes measurements in this process. ``threads`` change no bit; ``renderer`` is who draws."""

    wants_every_tick = False

    def __init__(self, threads: int = 1, renderer: str = "software") -> None:
        self._threads = threads
        self._renderer = renderer
        self._map: RoadMap | None = None
        self._tools: Tools | None = None
        self._insides: dict[tuple[str, tuple[tuple[str, str], ...]], object] = {}

    def prepare(self, road_map: RoadMap) -> None:
        """Build the tools for a map."""
        if self._tools is None or self._map is not road_map:
            self.close()
            self._map, self._tools = road_map, tools_of(road_map, self._threads, self._renderer)

    def work(self, view: View, orders: Sequence[Order]) -> list[Made]:
        """Make everything; all pictures in one go, views that cameras share only once."""
        return self.make(view, orders)

    def make(self, view: View, orders: Sequence[Order], *, timed: bool = False) -> list[Made]:
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
                    one = Made(order.sensor, self._others[order.type_id](view, scene, order))
            except SamepathError as error:
                one = Made(order.sensor, b"", trouble=str(error))
            made.append(replace(one, cost_s=SYSTEM_CLOCK.monotonic_s() - start_s) if timed else one)
        return made

    @property
    def tools(self) -> Tools:
        """The street, the caster and the eyes."""
        if self._tools is None:
            raise InputError("a studio was wanted that is prepared for a map")
        return self._tools

    def _scene(self, view: View) -> Scene:
        past = None if view.past is None else dict(view.past)
        return self.tools.street.scene(
            view.looks, view.weather, lights=view.lights, hidden=frozenset(view.hidden), before=past, tick=view.tick
        )

    def _drawn(self, scene: Scene, cameras: list[Camera]) -> dict[Camera, Frame]:
        return dict(zip(cameras, self.tools.eyes.draw(scene, cameras), strict=True)) if cameras else {}

    def _camera(self, view: View, order: Order) -> Camera:
        if order.type_id == EVENTS:
            return self._events(order).at(order.pose)
        camera = self._sensor(order).at(order.pose, order.was)
        if order.type_id == COLOUR and view.shapes:
            from samepath.sim.sensors.renderer import Channel

            return replace(camera, channels=camera.channels | Channel.DEPTH)
        return camera

    def _picture(self, view: View, order: Order, frame: Frame) -> Made:
        if order.type_id == EVENTS:
            return self._changes(order, frame)
        if order.type_id == COLOUR and view.shapes:
            from samepath.sim.server.debug_drawing import painted

            frame = replace(frame, bgra=painted(frame, view.shapes))
        return Made(order.sensor, self._sensor(order).payload(frame))

    def _changes(self, order: Order, frame: Frame) -> Made:
        """What changed since the picture before, which the order remembers; where nothing did, CARLA's is silent too."""
        eye = self._events(order)
        eye.number = order.ordinal
        eye.recall(order.memory)
        events = eye.events(frame, nanoseconds(order.time_s))
        return Made(order.sensor, eye.payload(events) if len(events) else b"", memory=eye.memory())

    def _events(self, order: Order) -> EventCamera:
        return self._inside(order, EventCamera, lambda: EventCamera.from_attributes(dict(order.attributes)))

    def _sensor(self, order: Order) -> CameraSensor:
        return self._inside(order, CameraSensor, lambda: CameraSensor.from_attributes(order.type_id, dict(order.attributes)))

    def _inside(self, order: Order, kind: type[Kind], build: Callable[[], Kind]) -> Kind:
        key = (order.type_id, order.attributes)
        found = self._insides.get(key)
        if not isinstance(found, kind):
            if len(self._insides) >= _KEPT:
                self._insides.clear()
            found = self._insides[key] = build()
        return found

    def _scan(self, _: View, scene: Scene, order: Order) -> bytes:
        from samepath.sim.sensors.lidar import Lidar

        semantic = order.type_id.endswith("_semantic")
        lidar = self._inside(order, Lidar, lambda: Lidar.from_attributes(dict(order.attributes), semantic=semantic))
        lasts_s = interval_s(lidar.values["sensor_tick"], order.delta_s)
        chance = Chance(sensor=order.ordinal, tick=order.count)
        return lidar.scan(self.tools.caster, scene, order.pose, order.age_s, lasts_s, chance).to_bytes()

    def _echoes(self, view: View, scene: Scene, order: Order) -> bytes:
        from samepath.sim.sensors.radar import Radar

        radar = self._inside(order, Radar, lambda: Radar.from_attributes(dict(order.attributes)))
        others = {look.id: velocity for look, velocity in zip(view.looks, view.velocities, strict=True)}
        lasts_s = interval_s(radar.values["sensor_tick"], order.delta_s)
        chance = Chance(sensor=order.ordinal, tick=order.count)
        found = radar.detect(self.tools.caster, scene, order.pose, order.own_mps, others, lasts_s, chance)
        return found.tobytes()

    @property
    def _others(self) -> dict[str, Callable[[View, Scene, Order], bytes]]:
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
