"""What of our simulator there is to look at: a scenario's map as triangles, and what a recorded session did as a trace.

Pictures of a moment: what a camera would see of actors on one of our maps, drawn by the renderer of our sensors.

For people's eyes: actors stand where a trace, or a running server, says they are, at noon. An actor of a type that our
catalogue does not know is drawn as the nearest that it does. The bytes of a camera sensor are the simulator's business.
"""

import io
import math
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.catalogue import ALIASES, CATALOGUE
from samepath.core.channels import ANGULAR_VELOCITY, POSITION, ROTATION, VELOCITY
from samepath.core.errors import InputError, SamepathError
from samepath.core.states import Pose
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.records import Repeat
from samepath.scenarios.model import load_scenario
from samepath.simulator.maps import RoadMap, load_map, parse_map

# In the order in which they are drawn where they lie in one plane; the wide ground below everything is the page's own.
LABELS: Final = (
    "road", "sidewalk", "kerb", "lane-marking", "crosswalk", "building", "vegetation", "pole", "barrier", "sign",
    "traffic-light",
)  # fmt: skip
FLAT: Final = "flat"
# Rows of a session that are kept to be drawn: about 1 GB in memory.
_ROWS_MOST: Final = 4_000_000


@dataclass(frozen=True, eq=False)
class MapSurface:
    """All triangles of a label; ``vertices`` float32[n, 3] in CARLA's frame, ``triangles`` uint32[m, 3]."""

    label: str
    vertices: NDArray[np.float32]
    triangles: NDArray[np.uint32]


@dataclass(frozen=True)
class SessionTrace:
    """What a server's world did for its clients, one row for an actor and step, and on which map."""

    repeat: Repeat
    channels: tuple[str, ...]
    step_s: float
    map_name: str


def map_of(scenario: str) -> str | None:
    """Name the map of a scenario; None where the scenario is not known here, or its ground is flat."""
    try:
        spec = load_scenario(scenario)
    except SamepathError:
        # A scenario of another simulator, or of a file that has gone: its paths are drawn on a plain sheet.
        return None
    return None if spec.map == FLAT else spec.map


def roads_of(map_name: str) -> tuple[NDArray[np.float64], ...]:
    """The outlines of what wheels may be on, x and y of each."""
    return tuple(ring.vertices[:, :2] for ring in load_map(map_name).drivable)


def surfaces_of(map_name: str) -> tuple[MapSurface, ...]:
    """Read a map and put its triangles together by label."""
    return _surfaces(load_map(map_name))


def surfaces_of_text(xodr: str, name: str) -> tuple[MapSurface, ...]:
    """The same of OpenDRIVE text, such as a server sends."""
    return _surfaces(parse_map(xodr, name))


def _surfaces(road_map: RoadMap) -> tuple[MapSurface, ...]:
    by_label: dict[str, list[tuple[NDArray[np.float64], NDArray[np.int32]]]] = {}
    for mesh in road_map.meshes:
        by_label.setdefault(mesh.label, []).append((mesh.vertices, mesh.triangles))
    found = []
    for label in LABELS:
        pieces = by_label.get(label, [])
        if pieces:
            starts = np.cumsum([0, *(len(vertices) for vertices, _ in pieces[:-1])])
            triangles = [part.astype(np.uint32) + np.uint32(start) for (_, part), start in zip(pieces, starts, strict=True)]
            vertices = np.concatenate([part for part, _ in pieces]).astype(np.float32)
            found.append(MapSurface(label, vertices, np.concatenate(triangles)))
    return tuple(found)


def is_session(path: Path) -> bool:
    """Is this what a server did for its clients: a recording of it, or its journal?"""
    from samepath.simulator.replay.replay import is_served

    return is_served(path)


def session_trace(path: Path) -> SessionTrace:
    """Play what a server did for its clients again, every step held against the recording, and keep where everybody was.

    Steps are numbered from the start of the recording: a session may step by other times than a trace of ours has.
    """
    from samepath.engines.samepath.recordings import open_replay

    channels = (*POSITION, *ROTATION, *VELOCITY, *ANGULAR_VELOCITY)
    with open_replay(path) as played:
        if not played.steps:
            raise InputError(f"{path}: the recorded session made no step: there is nothing to see")
        played.step()
        step_s = played.time_s if played.time_s > 0 else 0.05
        recorder = Recorder(0, channels, step_s)
        known: set[int] = set()
        rows = 0
        while True:
            for actor in played.actors:
                if actor.id not in known:
                    known.add(actor.id)
                    recorder.actor(actor.id, actor.type, played.position)
                rows += 1
                state = actor.state
                values = (*state.pose, *state.velocity_mps, *state.angular_velocity_degps)
                recorder.state(played.position, actor.id, dict(zip(channels, values, strict=True)), played.time_s)
            if rows > _ROWS_MOST:
                raise InputError(f"{path}: more than {_ROWS_MOST} states of actors were recorded, too many to draw at once")
            if played.position == played.steps:
                break
            played.step()
        recorder.end(played.steps, played.ended)
        return SessionTrace(recorder.finish(), channels, step_s, played.world.place)


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
