"""Pictures of a moment: what a camera would see of actors on one of our maps, drawn by the renderer of our sensors.

For people's eyes: actors stand where a trace, or a running server, says they are, at noon. An actor of a type that our
catalogue does not know is drawn as the nearest that it does. The bytes of a camera sensor are the simulator's business.
"""

import io
import math
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from samepath.core.catalogue import ALIASES, CATALOGUE
from samepath.core.errors import InputError
from samepath.core.states import Pose
from samepath.simulator.maps import RoadMap, load_map, parse_map

WIDTH_PX: Final = 640
HEIGHT_PX: Final = 360
# As wide as the viewer's own camera, whose 45 degrees are upright: both show the same.
FOV_DEG: Final = 72.7
_QUALITY: Final = 88
_PLACE_MOST_M: Final = 1e6
# What stands for types that nobody knows, by a word in their name.
_STAND_INS: Final = (
    (("walker", "pedestrian"), "walker.pedestrian.0001"),
    (("bike", "bicycle", "cycl"), "vehicle.bh.crossbike"),
    (("truck", "bus", "van"), "vehicle.mercedes.sprinter"),
)
_SOME_CAR: Final = "vehicle.tesla.model3"
_NOT_DRAWN: Final = ("static.", "sensor.", "traffic.", "controller.", "spectator")
# Where a camera is on an actor: metres along, across and above its point, and how far it looks down.
_MOUNTS: Final = {"behind": (-8.0, 0.0, 3.6, -12.0), "ahead": (0.6, 0.0, 1.4, -2.0), "above": (0.0, 0.0, 35.0, -90.0)}
MOUNTS: Final = tuple(_MOUNTS)


@dataclass(frozen=True)
class PosedActor:
    """Who is to be seen, and where."""

    id: int
    type: str
    pose: Pose


def mounted(actor: Pose, mount: str) -> Pose:
    """Where a camera is that goes with an actor: ``behind`` it, looking ``ahead`` from it, or ``above`` it."""
    if mount not in _MOUNTS:
        raise InputError(f"a camera {' or '.join(MOUNTS)} of an actor was wanted, but {mount[:40]!r} came")
    along_m, across_m, above_m, pitch_deg = _MOUNTS[mount]
    cosine, sine = math.cos(math.radians(actor.yaw_deg)), math.sin(math.radians(actor.yaw_deg))
    return Pose(
        actor.x_m + along_m * cosine - across_m * sine,
        actor.y_m + along_m * sine + across_m * cosine,
        actor.z_m + above_m,
        pitch_deg=pitch_deg,
        yaw_deg=actor.yaw_deg,
    )


class MapPictures:
    """Draws moments on one map. The first picture builds the map's scene, and compiles what was never compiled here."""

    def __init__(self, road_map: RoadMap) -> None:
        from samepath.simulator.sensors.sensor import require_sensors

        require_sensors()
        from samepath.simulator.sensors.renderer import create_renderer
        from samepath.simulator.sensors.scene_builder import scene_builder_of

        self._scenes = scene_builder_of(road_map)
        self._renderer = create_renderer("software", threads=1)
        self._lock = threading.Lock()  # one picture after the other: the machine has other work

    @classmethod
    def of_name(cls, name: str) -> "MapPictures":
        """Pictures on a map of ours."""
        return cls(load_map(name))

    @classmethod
    def of_text(cls, xodr: str, name: str) -> "MapPictures":
        """The same on a map that a server has sent."""
        return cls(parse_map(xodr, name))

    def jpeg(
        self, actors: Sequence[PosedActor], camera: Pose, lights: Sequence[int] = (), without: Collection[int] = ()
    ) -> bytes:
        """Draw what a camera sees. ``lights`` are as in the scene's builder; ``without``: these actors are left out."""
        from PIL import Image

        from samepath.simulator.sensors.labels import ActorAppearance
        from samepath.simulator.sensors.renderer import Camera, Channel

        if not all(math.isfinite(number) and abs(number) <= _PLACE_MOST_M for number in camera):
            raise InputError(f"a camera within {_PLACE_MOST_M:g} m of the map's middle was wanted")
        looks = [
            ActorAppearance(actor.id & 0x7FFFFFFF, _type_of(actor.type), actor.pose)
            for actor in actors
            if actor.id not in without and not actor.type.startswith(_NOT_DRAWN) and all(map(math.isfinite, actor.pose))
        ]
        with self._lock:
            scene = self._scenes.scene(looks, lights=lights)
            (frame,) = self._renderer.render(scene, [Camera(camera, WIDTH_PX, HEIGHT_PX, FOV_DEG, Channel.COLOUR, samples=2)])
            if frame.bgra is None:
                raise RuntimeError("a picture in colour was asked for")
            picture = Image.frombuffer("RGB", (WIDTH_PX, HEIGHT_PX), frame.bgra.tobytes(), "raw", "BGRX", 0, 1)
        sink = io.BytesIO()
        picture.save(sink, "JPEG", quality=_QUALITY)
        return sink.getvalue()

    def close(self) -> None:
        """Let go of threads and memory."""
        self._renderer.close()


def _type_of(name: str) -> str:
    if ALIASES.get(name, name) in CATALOGUE:
        return name
    family = name.lower()
    return next((type_ for words, type_ in _STAND_INS if any(word in family for word in words)), _SOME_CAR)
