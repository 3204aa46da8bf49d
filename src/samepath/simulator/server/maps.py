"""The maps of a server: which there are, and what clients are told of the one that is loaded.

A :class:`ServedMap` derives from a road map what CARLA's clients ask for (spawn points, environment objects, street lights, the
navigation mesh) and what a tick needs, once. Files that clients fetch come from memory, by exact name: nothing on disk can be
reached this way.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samepath.core.digests import fingerprint, link
from samepath.core.errors import InputError
from samepath.core.states import Pose, Vector
from samepath.simulator.carla import blueprints
from samepath.simulator.carla.codec import CallError
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.carla.records import BoundingBox, Colour, EnvironmentObject, Rotation, StreetLight, Transform
from samepath.simulator.maps import Mesh, RoadMap, available_maps, load_file, load_map, parse_map
from samepath.simulator.maps.files import OPTIMISED, chosen_maps, without_opt
from samepath.simulator.maps.lanes import LaneKey
from samepath.simulator.sensors import inertial as gnss
from samepath.simulator.server.map_trial import MapTrial
from samepath.simulator.simulation import merged
from samepath.simulator.world.signals import SPEED_SIGN, STOP_SIGN, SignalPlan, StopLines, plan_of
from samepath.simulator.world.world import StaticMesh

_CELL_M: Final = 8.0
_SHORT_M2: Final = 1e-12


class OnLane(NamedTuple):
    """A lane under a point, where along its road, and how far its middle is."""

    lane: LaneKey
    s_m: float
    away_m: float


class LaneFinder:
    """Finds the lane under a point, by a grid over the middle lines of driving lanes.

    It is asked for every vehicle every few metres. ``reach_m`` is how far from a lane's middle a point may be.
    """

    def __init__(self, road_map: RoadMap, reach_m: float = 6.0) -> None:
        self._reach_m = reach_m
        lines = [line for line in road_map.lanes if line.kind == "driving"]
        self._lanes = [line.key for line in lines]
        rows = [_pieces(line.points[:, :2], line.s_m, number) for number, line in enumerate(lines)]
        self._cells = self._grid(np.vstack(rows)) if rows else {}

    def _grid(self, rows: NDArray[np.float64]) -> dict[tuple[int, int], NDArray[np.float64]]:
        """The pieces of lanes by every cell that they can be reached from; in each cell in the order of the map."""
        low = np.floor((rows[:, :2] - self._reach_m) / _CELL_M).astype(np.int64)
        high = np.floor((rows[:, :2] + self._reach_m) / _CELL_M).astype(np.int64)
        cells, numbers = [], []
        span_x, span_y = (int(cells) + 1 for cells in (high - low).max(axis=0))
        for step in ((x, y) for x in range(span_x) for y in range(span_y)):
            here = low + step
            chosen = np.flatnonzero((here <= high).all(axis=1))
            cells.append(here[chosen])
            numbers.append(chosen)
        keys, order = np.vstack(cells), np.concatenate(numbers)
        turn = np.lexsort((order, keys[:, 1], keys[:, 0]))
        keys, order = keys[turn], order[turn]
        starts = np.flatnonzero(np.r_[True, (keys[1:] != keys[:-1]).any(axis=1)])
        groups = np.split(order, starts[1:])
        return {(int(x), int(y)): rows[group] for (x, y), group in zip(keys[starts], groups, strict=True)}

    def find(self, x_m: float, y_m: float) -> OnLane | None:
        """Return the lane whose middle is nearest; ties go to the one that comes first in the map."""
        rows = self._cells.get((math.floor(x_m / _CELL_M), math.floor(y_m / _CELL_M)))
        if rows is None:
            return None
        dx, dy = x_m - rows[:, 0], y_m - rows[:, 1]
        part = np.clip((dx * rows[:, 2] + dy * rows[:, 3]) / rows[:, 4], 0.0, 1.0)
        away = (dx - part * rows[:, 2]) ** 2 + (dy - part * rows[:, 3]) ** 2
        best = int(np.argmin(away))
        if away[best] > self._reach_m**2:
            return None
        row = rows[best]
        return OnLane(self._lanes[int(row[7])], float(row[5] + part[best] * row[6]), math.sqrt(float(away[best])))


def _pieces(points: NDArray[np.float64], s_m: NDArray[np.float64], number: int) -> NDArray[np.float64]:
    """Start, step, squared length, s and its step, and the lane's number of every piece of a line."""
    step = np.diff(points, axis=0)
    square = np.maximum((step**2).sum(axis=1), _SHORT_M2)
    return np.column_stack([points[:-1], step, square, s_m[:-1], np.diff(s_m), np.full(len(step), float(number))])


_LAMP_KINDS: Final = frozenset({"pole", "streetLamp"})
_LAMP_LEAST_M: Final = 4.0
_STREET_GROUP: Final = 2
_WARM_WHITE: Final = Colour(255, 214, 170)
_LAMP_INTENSITY: Final = 5000.0
SPECTATOR_HEIGHT_M: Final = 20.0


@dataclass(frozen=True, eq=False)
class ServedMap:
    """A map under the name it was asked for; everything derived is worked out once.

    ``walk_anywhere``: clients may send walkers onto its roads, too.
    """

    name: str
    road_map: RoadMap
    walk_anywhere: bool = False

    @cached_property
    def statics(self) -> tuple[StaticMesh, ...]:
        """What physics feels."""
        return merged(self.road_map.meshes)

    @cached_property
    def _label_by_name(self) -> dict[str, int]:
        return {mesh.name: blueprints.label_of(mesh.label) for mesh in self.road_map.meshes}

    def label_of(self, scenery: str) -> int:
        """CARLA's label of a piece of scenery."""
        return blueprints.GROUND if scenery == "ground" else self._label_by_name.get(scenery, blueprints.OTHER)

    @cached_property
    def origin(self) -> gnss.GeoOrigin:
        """Where the map lies on the globe."""
        return gnss.origin_of(self.road_map.georeference)

    @cached_property
    def lanes(self) -> LaneFinder:
        """Which lane is where."""
        return LaneFinder(self.road_map)

    @cached_property
    def signals(self) -> SignalPlan:
        """The traffic lights."""
        return plan_of(self.road_map)

    @cached_property
    def stop_lines(self) -> StopLines:
        """Where vehicles stop for them."""
        return StopLines(self.signals.lights)

    @cached_property
    def stop_signs(self) -> StopLines | None:
        """Where vehicles stop whatever comes; None where there are no stop signs."""
        signs = [sign for sign in self.signals.signs if sign.signal.kind == STOP_SIGN and sign.stops]
        return StopLines(signs) if signs else None

    @cached_property
    def speed_signs(self) -> dict[int, tuple[tuple[float, int, int, float], ...]] | None:
        """By road: where a speed sign is, from which lane to which it speaks, and km/h. None: roads tell their own limits.

        In RoadRunner's files, which CARLA's towns are, the speed of a road is left as the program suggests it. CARLA does not
        read it: limits there are signs, and hold for whoever has passed one.
        """
        document = self.road_map.document
        if not document.by_roadrunner:
            return None
        found: dict[int, tuple[tuple[float, int, int, float], ...]] = {}
        for road in document.roads:
            signs = [record for record in road.signals if record.kind == SPEED_SIGN and record.value is not None]
            spans = [(record, min(pair), max(pair)) for record in signs for pair in record.lanes or ((-1000, 1000),)]
            if spans:
                found[road.id] = tuple((record.s_m, low, high, float(record.value or 0.0)) for record, low, high in spans)
        return found

    @cached_property
    def spawn_points(self) -> tuple[Transform, ...]:
        """Where CARLA recommends to put vehicles."""
        return tuple(Transform(Vector(x, y, z), Rotation(0.0, yaw, 0.0)) for x, y, z, yaw in self.road_map.spawn_points)

    @property
    def spectator_pose(self) -> Pose:
        """Above the first place for a vehicle, looking down."""
        x, y, z = self.spawn_points[0].location if self.spawn_points else (0.0, 0.0, 0.0)
        return Pose(x, y, z + SPECTATOR_HEIGHT_M, pitch_deg=-90.0)

    @cached_property
    def objects(self) -> tuple[EnvironmentObject, ...]:
        """Everything on the map as CARLA lists it; ids name the map and the thing."""
        seen: dict[str, int] = {}
        found = []
        for mesh in self.road_map.meshes:
            number = seen[mesh.name] = seen.get(mesh.name, 0) + 1
            found.append(self._object(mesh, mesh.name if number == 1 else f"{mesh.name} {number}"))
        return tuple(found)

    def _object(self, mesh: Mesh, name: str) -> EnvironmentObject:
        low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
        middle = Vector(*(float(value) for value in (low + high) / 2))
        box = BoundingBox(middle, Vector(*(float(value) for value in (high - low) / 2)))
        number = int.from_bytes(link(self.road_map.name.encode(), f"{mesh.label} {name}".encode())[:8], "little")
        return EnvironmentObject(Transform(middle), box, number, name, blueprints.label_of(mesh.label))

    @cached_property
    def lamps(self) -> tuple[StreetLight, ...]:
        """The street lights: tall poles."""
        found = [
            f"road {road.id} object {thing.id} {thing.kind}"
            for road in self.road_map.document.roads
            for thing in road.objects
            if thing.kind in _LAMP_KINDS and thing.height_m >= _LAMP_LEAST_M
        ]
        tops = {thing.name: thing.bounding_box for thing in self.objects}
        boxes = [tops[name] for name in found if name in tops]
        return tuple(
            StreetLight(number, _top(box), _LAMP_INTENSITY, _STREET_GROUP, _WARM_WHITE, active=False)
            for number, box in enumerate(boxes, start=1)
        )

    def work_out(self) -> None:
        """Work out now what ticks will need, so that no tick waits for it."""
        _ = self.statics, self.lanes, self.stop_lines, self.stop_signs, self.objects, self.lamps, self.spawn_points

    @cached_property
    def navigation(self) -> tuple[str, bytes]:
        """The file with the mesh for walkers: a name that changes with its content (clients keep files by name), and bytes."""
        from samepath.simulator.server.navmesh import write_mesh

        mesh = write_mesh(self.road_map, walk_anywhere=self.walk_anywhere)
        return f"{self.name}/Nav/{self.road_map.name}-{fingerprint({'mesh': mesh.hex()})[:16]}.bin", mesh


def _top(box: BoundingBox) -> Vector:
    return Vector(box.location.x, box.location.y, box.location.z + box.extent.z)


@lru_cache(maxsize=4)
def served_map(name: str, road_map: RoadMap, *, walk_anywhere: bool = False) -> ServedMap:
    """A map with what is worked out of it, kept for the next time it is loaded."""
    return ServedMap(name, road_map, walk_anywhere)


SENT: Final = "OpenDriveMap"
_FOLDER: Final = "Carla/Maps"
_ALIAS_FOLDER: Final = "samepath"
# Names that CARLA's own maps have. Programs know their coordinates and treat some of them in ways of their own.
_CARLA_NAMES: Final = "Town[0-9][0-9]*"


def offered_maps(map_name: str, places: Iterable[Path]) -> tuple[str, dict[str, Path]]:
    """Of ``--map`` and ``--maps``: the name to begin with, and the user's files by name."""
    return chosen_maps(map_name, places, available_maps())


def check_aliases(aliases: Mapping[str, str], files: Iterable[str] = ()) -> None:
    """Refuse an alias for a map that is not there, or one that hides a map; ``files`` are the user's own maps."""
    known = (*available_maps(), *files)
    for name, target in aliases.items():
        if not name or "/" in name or name in (SENT, *known):
            raise InputError(f"alias {name!r}: a new name without slashes was wanted, such as Town03")
        if target not in known:
            raise InputError(f"alias {name}={target}: there is no map {target!r}; there are: {', '.join(known)}")


class MapLibrary:
    """The maps that clients can ask for: ours, the user's files, other names for them, and the map that a client sent last.

    Every name may be followed by ``_Opt``, as CARLA calls its maps with layers. An alias may be a pattern, such as ``Town*``; a
    map or an alias of exactly the name that was asked for counts more, and of several patterns the first.
    """

    def __init__(
        self,
        aliases: Mapping[str, str],
        log: Callable[[str], None],
        limits: ServerLimits,
        files: Mapping[str, Path] | None = None,
        *,
        walk_anywhere: bool = False,
    ) -> None:
        self.walk_anywhere = walk_anywhere
        self._files = dict(files or {})
        check_aliases(aliases, self._files)
        self._aliases = dict(aliases)
        self._log = log
        self._limits = limits
        self._trial = MapTrial(limits)
        self._sent: RoadMap | None = None

    @property
    def aliases(self) -> Mapping[str, str]:
        """The names that the user gave to maps."""
        return dict(self._aliases)

    @property
    def files(self) -> Mapping[str, Path]:
        """The user's own maps."""
        return dict(self._files)

    @property
    def sent(self) -> RoadMap | None:
        """The map that a client sent last."""
        return self._sent

    def forget(self) -> None:
        """Forget the map that a client sent."""
        self._sent = None

    def misleading(self) -> str:
        """A line about aliases that have names of CARLA's maps; empty where there are none."""
        names = [name for name in self._aliases if fnmatchcase(name, _CARLA_NAMES) or fnmatchcase("Town01", name)]
        if not names:
            return ""
        return (
            f"{', '.join(f'{name}={self._aliases[name]}' for name in names)}: this is not CARLA's map of that name. Routes, "
            "scenarios and special cases that programs have for it do not fit; the real one is served with --maps FOLDER"
        )

    def paths(self) -> tuple[str, ...]:
        """All maps, as CARLA names them; what a pattern stands for has no list."""
        sent = (SENT,) if self._sent is not None else ()
        files = (name for file in self._files for name in (file, file + OPTIMISED))
        plain = (name for name in self._aliases if not _is_pattern(name))
        return tuple(f"/Game/{_FOLDER}/{name}" for name in (*available_maps(), *files, *plain, *sent))

    def close(self) -> None:
        """The end: a map that is being tried is given up; from any thread."""
        self._trial.close()

    def read(self, xodr: str, *, tried: bool = False) -> RoadMap:
        """Build a map that a client sent, so that what is wrong with it is said at once; in any thread.

        Unless it was ``tried`` before, another process does so first: whatever a client sends, this one goes on.
        """
        if len(xodr.encode("utf-8", errors="surrogatepass")) > self._limits.opendrive_bytes:
            raise InputError(f"an OpenDRIVE file of at most {self._limits.opendrive_bytes} bytes was wanted")
        if not tried:
            self._trial.run(xodr, SENT)
        road_map = parse_map(xodr, SENT)
        sections = (section for road in road_map.document.roads for section in road.sections)
        lanes_m = sum((section.end_m - section.start_m) * len(section.lanes) for section in sections)
        if lanes_m > self._limits.road_m:
            raise InputError(f"lanes of at most {self._limits.road_m:g} m together were wanted, but {lanes_m:g} m came")
        served_map(SENT, road_map, walk_anywhere=self.walk_anywhere).work_out()
        return road_map

    def keep(self, road_map: RoadMap) -> None:
        """Offer a map that a client sent, from now on."""
        self._sent = road_map
        self._warn(SENT, road_map)

    def _warn(self, name: str, road_map: RoadMap) -> None:
        if road_map.warning:
            self._log(f"map {name}: {road_map.warning}")

    def open(self, asked: str) -> tuple[str, RoadMap]:
        """Return the name to show and the map behind it; any path CARLA would take is taken."""
        name = asked.rsplit("/", 1)[-1]
        if name == SENT and self._sent is not None:
            return name, self._sent
        target = self._target(name)
        if target is None:
            ours = ", ".join((*available_maps(), *self._files, *self._aliases))
            raise InputError(
                f"map {name[:80]!r} not found; there are: {ours}; samepath serve --alias {name[:40]}=MAP names one so, "
                "--maps FOLDER offers OpenDRIVE files of yours"
            )
        if target != without_opt(name):
            self._log(f"map {name} was asked for: {target} is served in its place")
        road_map = load_file(self._files[target]) if target in self._files else load_map(target)
        self._warn(name, road_map)
        return name, road_map

    def _target(self, name: str) -> str | None:
        for wanted in (name, without_opt(name)):
            if wanted in self._files or wanted in available_maps():
                return wanted
            if wanted in self._aliases:
                return self._aliases[wanted]
        return next((target for pattern, target in self._aliases.items() if fnmatchcase(name, pattern)), None)


def named_maps(names: Mapping[str, str], log: Callable[[str], None], limits: ServerLimits) -> MapLibrary:
    """The library of a rendering node, which is told names alone: aliases, and the user's files, which stand for themselves."""
    files = {name: Path() for name, target in names.items() if name == target}
    return MapLibrary({name: target for name, target in names.items() if name not in files}, log, limits, files)


def _is_pattern(name: str) -> bool:
    return any(letter in name for letter in "*?[")


def shown_path(served: ServedMap) -> str:
    """A map's name in its description.

    Programs look at its last part, and want to find there what they asked for. So that nobody takes an alias for the real
    thing, the part before says which map it is: ``samepath/town/Town03``.
    """
    real = served.road_map.name
    return f"{_FOLDER}/{served.name}" if real == without_opt(served.name) else f"{_ALIAS_FOLDER}/{real}/{served.name}"


def required_files(served: ServedMap, folder: str) -> tuple[str, ...]:
    """The files a client should have for a map; only the navigation mesh is one."""
    return (served.navigation[0],) if folder in ("", "Nav") else ()


def requested_file(served: ServedMap, recent: Iterable[ServedMap], name: str) -> bytes:
    """One of :func:`required_files`, of the map that is loaded or of one that was loaded not long ago.

    It comes from memory: no name from a client is looked up on disk.
    """
    known, content = served.navigation
    if name == known:
        return content
    for other in recent:
        # The name begins with the map's: the mesh of one that was not asked for need not be worked out.
        if name.startswith(f"{other.name}/") and name == other.navigation[0]:
            return other.navigation[1]
    raise CallError(f"there is no file {name[:100]!r}; there is: {known}")
