"""What a map has and lacks, for people who bring one: numbers, and one line for each thing that they may miss."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from samepath.simulator.maps.network import RoadMap
from samepath.simulator.world.signals import SPEED_SIGN, STOP_SIGN, plan_of

_KMH: Final = 3.6
_SHOWN: Final = 5
_NO_KIND: Final = frozenset({"-1", ""})


@dataclass(frozen=True)
class MapSurvey:
    """The facts of a map; ``missing`` are lines about what it lacks, ``ignored`` what was read past, and how often."""

    name: str
    size_m: tuple[float, float]
    height_m: tuple[float, float]
    roads: int
    junctions: int
    lanes_m: dict[str, float]
    spawn_points: int
    lights: int
    lights_without_lanes: int
    stop_signs: int
    yield_signs: int
    speed_limits_kmh: dict[str, int]
    limits_by_signs: bool
    crosswalks: int
    dead_ends: int
    parts: int
    objects: dict[str, int] = field(default_factory=dict)
    ignored: dict[str, int] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """The survey as plain data."""
        return asdict(self)


def survey(road_map: RoadMap) -> MapSurvey:
    """Look at a map as a whole."""
    document, plan = road_map.document, plan_of(road_map)
    points = np.vstack([line.points for line in road_map.lanes])
    low, high = points.min(axis=0), points.max(axis=0)
    lengths: Counter[str] = Counter()
    for line in road_map.lanes:
        lengths[line.kind] += round(float(np.linalg.norm(np.diff(line.points, axis=0), axis=1).sum()))
    found = MapSurvey(
        name=road_map.name,
        size_m=(round(float(high[0] - low[0]), 1), round(float(high[1] - low[1]), 1)),
        height_m=(round(float(low[2]), 1), round(float(high[2]), 1)),
        roads=len(document.roads),
        junctions=len(document.junctions),
        lanes_m=dict(lengths.most_common()),
        spawn_points=len(road_map.spawn_points),
        lights=len(plan.lights),
        lights_without_lanes=sum(not light.stops for light in plan.lights),
        stop_signs=sum(sign.signal.kind == STOP_SIGN for sign in plan.signs),
        yield_signs=sum(sign.signal.kind != STOP_SIGN for sign in plan.signs),
        speed_limits_kmh=_limits(road_map),
        limits_by_signs=document.by_roadrunner,
        crosswalks=len(road_map.crosswalks),
        dead_ends=_dead_ends(road_map),
        parts=_parts(road_map),
        objects=dict(Counter(thing.kind for road in document.roads for thing in road.objects).most_common()),
        ignored=dict(Counter(line.split(": ", 1)[-1] for line in road_map.ignored).most_common()),
    )
    return MapSurvey(**{**found.__dict__, "missing": tuple(_missing(found, road_map))})


def _limits(road_map: RoadMap) -> dict[str, int]:
    """How many roads, or signs, have which limit."""
    if road_map.document.by_roadrunner:
        values = [signal.value for signal in road_map.signals if signal.kind == SPEED_SIGN and signal.value is not None]
        return {f"{value:g}": count for value, count in sorted(Counter(values).items())}
    limits = Counter(limit.max_mps for road in road_map.document.roads for limit in road.speeds)
    ordered = sorted(limits.items(), key=lambda pair: pair[0] or 0.0)
    return {"none" if mps is None else f"{mps * _KMH:.0f}": count for mps, count in ordered}


def _dead_ends(road_map: RoadMap) -> int:
    """Driving lanes from which nobody can drive on."""
    driving = {line.key for line in road_map.lanes if line.kind == "driving"}
    return sum(not [key for key in road_map.lanes_after(line) if key in driving] for line in driving)


def _parts(road_map: RoadMap) -> int:
    """Into how many pieces the driving lanes fall that do not hang together."""
    driving = [line.key for line in road_map.lanes if line.kind == "driving"]
    root = {key: key for key in driving}

    def top(key: Any) -> Any:  # noqa: ANN401 - a lane's key
        while root[key] != key:
            root[key] = root[root[key]]
            key = root[key]
        return key

    for key in driving:
        for after in road_map.lanes_after(key):
            if after in root:
                root[top(after)] = top(key)
        # Lanes beside each other on one road hang together as well.
    beside: dict[int, Any] = {}
    for key in driving:
        root[top(beside.setdefault(key.road_id, key))] = top(key)
    return len({top(key) for key in driving})


def _missing(found: MapSurvey, road_map: RoadMap) -> Iterator[str]:
    if road_map.warning:
        yield road_map.warning
    if not found.spawn_points:
        yield "no spawn points: no driving lane outside a junction is 20 m long"
    if found.junctions and not found.lights:
        yield "no traffic lights: the file has no signals of type 1000001"
    if found.lights_without_lanes:
        yield f"{found.lights_without_lanes} traffic lights speak to no lane: no validity and no reference names one"
    if not found.crosswalks:
        yield "no crosswalks: AI walkers that do not cross roads stay on their block"
    if "sidewalk" not in found.lanes_m:
        yield "no sidewalks: AI walkers have nowhere to be"
    if not found.speed_limits_kmh:
        yield "no speed limits: vehicles keep CARLA's 30 km/h"
    if found.parts > 1:
        yield f"the driving lanes are in {found.parts} pieces that do not hang together"
    if found.dead_ends:
        yield f"{found.dead_ends} driving lanes end without another one: traffic managers take vehicles out there, or stop"
    if found.height_m[1] - found.height_m[0] > 1.0:
        yield "the ground beside roads is flat: what leaves a raised road falls"
    if not any(kind in found.objects for kind in ("building", "tree", "vegetation")):
        yield "no buildings or trees: OpenDRIVE files of CARLA's towns do not hold them"
    if not road_map.georeference:
        yield "no geoReference: GNSS counts from latitude and longitude 0"


def draw(road_map: RoadMap, path: Path) -> None:
    """Draw a map from above, as a PNG or SVG by the name of the file."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.collections import LineCollection, PolyCollection

    low_x, low_y, high_x, high_y = road_map.bounds_m
    width, height = max(high_x - low_x, 1.0), max(high_y - low_y, 1.0)
    scale = 12.0 / max(width, height)
    figure, axes = plt.subplots(figsize=(max(width * scale, 3.0), max(height * scale, 3.0)), dpi=110)
    axes.add_collection(PolyCollection([p.vertices[:, :2] for p in road_map.walkable], facecolors="#cfcabf", linewidths=0))
    axes.add_collection(PolyCollection([p.vertices[:, :2] for p in road_map.drivable], facecolors="#77797d", linewidths=0))
    crossings = [p.vertices[:, :2] for p in road_map.crosswalks]
    axes.add_collection(PolyCollection(crossings, facecolors="#f3efe2", edgecolors="#44464a", linewidths=0.3))
    driving = [line.points[:, :2] for line in road_map.lanes if line.kind == "driving"]
    axes.add_collection(LineCollection(driving, colors="#ffffff", linewidths=0.3, alpha=0.5))
    plan = plan_of(road_map)
    stops = np.array([(s.x_m, s.y_m) for light in plan.lights for s in light.stops]).reshape(-1, 2)
    signs = np.array([(s.x_m, s.y_m) for sign in plan.signs for s in sign.stops]).reshape(-1, 2)
    spawns = np.array([point[:2] for point in road_map.spawn_points]).reshape(-1, 2)
    axes.plot(*spawns.T, ".", color="#2f6fb2", markersize=2, label=f"{len(spawns)} spawn points")
    axes.plot(*stops.T, "s", color="#c0392b", markersize=3, label=f"stop lines of {len(plan.lights)} lights")
    axes.plot(*signs.T, "^", color="#d68910", markersize=3, label=f"stop lines of {len(plan.signs)} stop and yield signs")
    axes.set_xlim(low_x - 5.0, high_x + 5.0)
    axes.set_ylim(high_y + 5.0, low_y - 5.0)  # CARLA's y points down on paper, as north is up
    axes.set_aspect("equal")
    axes.set_xlabel("x (m)")
    axes.set_ylabel("y (m)")
    axes.set_title(road_map.name)
    axes.legend(loc="upper right", fontsize=7, framealpha=0.8)
    figure.tight_layout()
    # Without a date: the same map gives the same file.
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else {"Software": None})
    plt.close(figure)


def readable(found: MapSurvey) -> Iterator[tuple[str, str]]:
    """The survey as pairs of words, in the order of interest."""
    lanes = ", ".join(f"{kind} {metres / 1000:.1f} km" for kind, metres in list(found.lanes_m.items())[:_SHOWN])
    yield "size", f"{found.size_m[0]:g} x {found.size_m[1]:g} m, heights {found.height_m[0]:g} to {found.height_m[1]:g} m"
    yield "roads", f"{found.roads}, junctions: {found.junctions}"
    yield "lanes", lanes
    yield "spawn points", str(found.spawn_points)
    yield "traffic lights", str(found.lights)
    yield "stop, yield signs", f"{found.stop_signs}, {found.yield_signs}"
    limits = ", ".join(f"{limit} ({count})" for limit, count in found.speed_limits_kmh.items())
    yield "speed limits (km/h)", f"{limits}, {'by signs' if found.limits_by_signs else 'by road'}" if limits else "none"
    yield "crosswalks", str(found.crosswalks)
    # RoadRunner, which drew CARLA's towns, writes -1 where it knows no kind.
    named = {kind if kind not in _NO_KIND else "of no named kind": count for kind, count in found.objects.items()}
    things = ", ".join(f"{kind} {count}" for kind, count in list(named.items())[:_SHOWN])
    yield "objects", things or "none"
    past = ", ".join(f"{what} ({count})" for what, count in list(found.ignored.items())[:_SHOWN])
    yield "read past", past or "nothing"
