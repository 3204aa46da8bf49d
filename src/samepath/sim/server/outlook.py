"""What there is to see in an episode, for sensors that see: one scene per tick, one caster of rays, one pair of eyes.

Nothing is built, and no compiler imported, before the first such sensor is spawned; then everything is, so that no tick waits.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple

from samepath.base.errors import InputError
from samepath.sim.sensors.extra import require_sensors
from samepath.sim.sensors.looks import ActorLook, Odometer, paint_of
from samepath.sim.sensors.scene import Lamp
from samepath.sim.sensors.weather import Weather
from samepath.sim.server.actors import Entry, VehicleEntry, WalkerEntry
from samepath.sim.server.errors import NOT_SUPPORTED, CallError
from samepath.sim.world.records import Pose, Vector

if TYPE_CHECKING:
    from samepath.sim.maps import RoadMap
    from samepath.sim.sensors.eyes import Eyes
    from samepath.sim.sensors.rays.caster import RayCaster
    from samepath.sim.sensors.renderer import Camera, Frame
    from samepath.sim.sensors.scene import Scene
    from samepath.sim.sensors.street import Street
    from samepath.sim.server.debug import DebugShape
    from samepath.sim.server.episode import Episode

_LAMPS: Final = (Lamp.SPECIAL_2 << 1) - 1
"""The lamps that clients can switch."""
_WEATHER_MOST: Final = 1e6


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


def tools_of(road_map: RoadMap) -> Tools:
    """Build the tools and use every one of them once, which compiles them where that was never done before."""
    from samepath.sim.sensors.eyes import Eyes
    from samepath.sim.sensors.lidar import Lidar
    from samepath.sim.sensors.noise import Chance
    from samepath.sim.sensors.radar import Radar
    from samepath.sim.sensors.rays.caster import RayCaster
    from samepath.sim.sensors.renderer import Camera, Channel
    from samepath.sim.sensors.street import street_of

    made = Tools(street_of(road_map), RayCaster(), Eyes())
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


class Outlook:
    """What can be seen in an episode."""

    def __init__(self, episode: Episode) -> None:
        self._episode = episode
        self._odometer = Odometer()
        self._tools: Tools | None = None
        self._scene: tuple[int, Scene] | None = None
        self._wanted: list[Camera] = []
        self._drawn: dict[Camera, Frame] = {}

    @property
    def tools(self) -> Tools:
        """The street, the caster and the eyes; built when they are first wanted."""
        if self._tools is None:
            self._tools = tools_of(self._episode.scene.road_map)
        return self._tools

    @property
    def debug_shapes(self) -> tuple[DebugShape, ...]:
        """What clients have drawn, where the server was asked to show it."""
        return self._episode.debug.shapes if self._episode.place.draw_debug else ()

    def follow(self) -> None:
        """Follow a tick: walkers have walked on, and the pictures of the tick before are gone."""
        world = self._episode.world
        self._odometer.advance(world.state(one.id) for one in self._episode.actors.all(WalkerEntry))
        self._wanted, self._drawn = [], {}

    def scene(self) -> Scene:
        """Everything as it is after this tick; if the scene of the tick before was looked at, it is what things moved from."""
        episode = self._episode
        if self._scene is not None and self._scene[0] == episode.frame:
            return self._scene[1]
        before = self._scene[1] if self._scene is not None and self._scene[0] == episode.frame - 1 else None
        made = self.tools.street.scene(
            [self._look(entry) for entry in episode.actors if entry.has_body],
            Weather(*(min(max(value, -_WEATHER_MOST), _WEATHER_MOST) for value in episode.weather)),
            lights=[int(episode.signals.shows(number)) for number in range(len(episode.scene.signals.lights))],
            hidden=self._hidden(),
            before=before,
            # Not the frame: how long a server stood idle leaves no trace.
            tick=episode.world.tick_count,
        )
        self._scene = (episode.frame, made)
        return made

    def _hidden(self) -> frozenset[str]:
        """What clients have taken away, by the names of the street; there a tree is one thing, and goes with its crown."""
        hidden = self._episode.hidden
        if not hidden:
            return frozenset()
        return frozenset(one.name.removesuffix(" crown") for one in self._episode.scene.objects if one.id in hidden)

    def _look(self, entry: Entry) -> ActorLook:
        state = self._episode.world.state(entry.id)
        body = entry.blueprint.body if entry.blueprint is not None else entry.type_id
        lamps = Lamp(entry.lights & _LAMPS) if isinstance(entry, VehicleEntry) else Lamp(0)
        walked_m = self._odometer.walked_m(state) if isinstance(entry, WalkerEntry) else None
        return ActorLook(entry.id, body, state.pose, _paint(entry), lamps, walked_m)

    def want(self, camera: Camera) -> None:
        """A picture will be fetched after this tick."""
        self._wanted.append(camera)

    def frame(self, camera: Camera) -> Frame:
        """A picture; all that are wanted after a tick are drawn in one go, and views that cameras share only once."""
        if camera not in self._drawn:
            cameras = [*self._wanted, camera]
            self._drawn.update(zip(cameras, self.tools.eyes.draw(self.scene(), cameras), strict=True))
        return self._drawn[camera]

    def close(self) -> None:
        """Let go of threads and memory."""
        if self._tools is not None:
            self._tools.caster.close()
            self._tools.eyes.close()
            self._tools = None


def _paint(entry: Entry) -> tuple[float, float, float] | None:
    """The colour a client has chosen; one that is none is left to the id."""
    try:
        return paint_of(entry.record.description.get("color", ""))
    except InputError:
        return None
