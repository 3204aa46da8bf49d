"""What of our simulator there is to look at: a scenario's map as triangles, and what a recorded session did as a trace."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.channels import ANGULAR_VELOCITY, POSITION, ROTATION, VELOCITY
from samepath.core.errors import InputError, SamepathError
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
