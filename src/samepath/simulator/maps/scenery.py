"""What stands or is painted beside and on the road: crossings, buildings, poles, trees, signs; and signals in CARLA's frame."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from samepath.simulator.maps.geometry import frozen_points, on_grid, to_carla, yaw_to_carla
from samepath.simulator.maps.lanes import place
from samepath.simulator.maps.records import OpenDrive, Road, RoadObject, SignalRecord
from samepath.simulator.maps.surfaces import PAINT_LIFT_M, Mesh, MeshBuilder, Point, Polygon, ring_area_m2

_STRIPE_M: Final = 0.5
_SIDES: Final = 8
_SIGN_POST_RADIUS_M: Final = 0.04
_SIGN_THICKNESS_M: Final = 0.02
_LABELS: Final = {
    "building": "building",
    "pole": "pole",
    "streetLamp": "pole",
    "tree": "vegetation",
    "vegetation": "vegetation",
    "barrier": "barrier",
    "wall": "barrier",
    "obstacle": "barrier",
}


@dataclass(frozen=True, slots=True)
class Signal:
    """A sign or traffic light in CARLA's frame; ``yaw_deg`` is the direction of the traffic it speaks to."""

    id: str
    name: str
    kind: str
    subtype: str
    road_id: int
    s_m: float
    x_m: float
    y_m: float
    z_m: float
    yaw_deg: float
    is_dynamic: bool
    value: float | None
    unit: str
    height_m: float = 0.0
    width_m: float = 0.0


def signal_records(document: OpenDrive) -> tuple[Signal, ...]:
    """All signals, in the order of the file."""
    return tuple(_signal(road, record) for road in document.roads for record in road.signals)


def _signal(road: Road, record: SignalRecord) -> Signal:
    x_m, y_m, z_m = place(road, record.s_m, record.t_m, record.z_offset_m)
    heading_rad = road.pose(record.s_m).heading_rad + record.heading_rad + (math.pi if record.orientation == "-" else 0.0)
    return Signal(
        record.id, record.name, record.kind, record.subtype, road.id, on_grid(record.s_m), x_m, y_m, z_m,
        yaw_to_carla(heading_rad), record.is_dynamic, record.value, record.unit, record.height_m, record.width_m,
    )  # fmt: skip


def crosswalk_polygons(document: OpenDrive) -> tuple[Polygon, ...]:
    """All crossings, corner by corner as in the file, at the height of the road."""
    found = []
    for road in document.roads:
        for thing in road.objects:
            if thing.kind == "crosswalk":
                corners = [point for point, _ in _outline(road, thing)] or _box(road, thing)
                ring = corners[:-1] if corners[0] == corners[-1] else corners
                found.append(Polygon(frozen_points(ring), "crosswalk", f"road {road.id} object {thing.id}"))
    return tuple(found)


def scenery_meshes(document: OpenDrive) -> Iterator[Mesh]:
    """Meshes of all objects and signals, in the order of the file."""
    for polygon in crosswalk_polygons(document):
        yield from _finished(_zebra(polygon))
    for road in document.roads:
        for thing in road.objects:
            yield from _finished(*_object(road, thing))
        for record in road.signals:
            if not record.is_painted:
                yield from _finished(*_sign(road, record))


def _finished(*builders: MeshBuilder) -> Iterator[Mesh]:
    for builder in builders:
        mesh = builder.mesh()
        if mesh is not None:
            yield mesh


def _world(road: Road, thing: RoadObject, u_m: float, v_m: float, z_m: float) -> Point:
    """A point of the object's own frame (u along its heading, v to the left)."""
    pose = road.pose(thing.s_m)
    normal_rad, heading_rad = pose.heading_rad, pose.heading_rad + thing.heading_rad
    return to_carla(
        pose.x_m - thing.t_m * math.sin(normal_rad) + u_m * math.cos(heading_rad) - v_m * math.sin(heading_rad),
        pose.y_m + thing.t_m * math.cos(normal_rad) + u_m * math.sin(heading_rad) + v_m * math.cos(heading_rad),
        road.elevation_m(thing.s_m) + thing.z_offset_m + z_m,
    )


def _outline(road: Road, thing: RoadObject) -> list[tuple[Point, float]]:
    """Corners with the height above each."""
    return [
        (
            place(road, c.first_m, c.second_m, c.z_m) if c.is_road else _world(road, thing, c.first_m, c.second_m, c.z_m),
            c.height_m,
        )
        for c in thing.outline
    ]


def _box(road: Road, thing: RoadObject) -> list[Point]:
    u_m, v_m = 0.5 * thing.length_m, 0.5 * thing.width_m
    return [_world(road, thing, u, v, 0.0) for u, v in ((-u_m, v_m), (u_m, v_m), (u_m, -v_m), (-u_m, -v_m))]


def _circle(road: Road, thing: RoadObject, radius_m: float, z_m: float = 0.0) -> list[Point]:
    # Clockwise: y changes its sign on the way into CARLA's frame, and there the ring must face up.
    angles_rad = [-2.0 * math.pi * i / _SIDES for i in range(_SIDES)]
    return [_world(road, thing, radius_m * math.cos(a), radius_m * math.sin(a), z_m) for a in angles_rad]


def _facing_up(ring: Sequence[Point]) -> list[Point]:
    return list(ring) if ring_area_m2(ring) > 0.0 else list(ring)[::-1]


def _object(road: Road, thing: RoadObject) -> Iterator[MeshBuilder]:
    name = f"road {road.id} object {thing.id} {thing.kind}"
    if thing.kind == "crosswalk":
        return
    if thing.kind in {"patch", "roadMark"}:
        yield _painted(road, thing, name)
    elif thing.kind in {"tree", "vegetation"} and not thing.outline:
        yield from _tree(road, thing, name)
    else:
        builder = MeshBuilder(_LABELS.get(thing.kind, "prop"), name)
        corners = _outline(road, thing)
        height_m = thing.height_m or max((height for _, height in corners), default=0.0)
        if corners:
            ring = [point for point, _ in corners]
            base = _facing_up(ring[:-1] if ring[0] == ring[-1] else ring)
        elif thing.radius_m > 0.0:
            base = _circle(road, thing, thing.radius_m)
        else:
            base = _facing_up(_box(road, thing))
        if height_m > 0.0 and abs(ring_area_m2(base)) > 0.0:
            builder.prism(base, on_grid(height_m))
        yield builder


def _painted(road: Road, thing: RoadObject, name: str) -> MeshBuilder:
    builder = MeshBuilder("lane-marking", name)
    corners = [point for point, _ in _outline(road, thing)] or _box(road, thing)
    builder.ring([(x, y, z + PAINT_LIFT_M) for x, y, z in corners])
    return builder


def _tree(road: Road, thing: RoadObject, name: str) -> Iterator[MeshBuilder]:
    """A trunk that a car can hit, and a crown of two cones."""
    height_m, radius_m = thing.height_m or 6.0, thing.radius_m or 2.0
    trunk = MeshBuilder("pole", f"{name} trunk")
    trunk.prism(_circle(road, thing, 0.15), on_grid(0.4 * height_m))
    yield trunk
    crown = MeshBuilder("vegetation", f"{name} crown")
    rim = _circle(road, thing, radius_m, 0.55 * height_m)
    top, bottom = _world(road, thing, 0.0, 0.0, height_m), _world(road, thing, 0.0, 0.0, 0.35 * height_m)
    for i in range(_SIDES):
        j = (i + 1) % _SIDES
        crown.triangle(rim[i], rim[j], top)
        crown.triangle(rim[j], rim[i], bottom)
    yield crown


def _sign(road: Road, record: SignalRecord) -> Iterator[MeshBuilder]:
    """A post and a plate across the direction of the traffic it speaks to."""
    name = f"road {road.id} signal {record.id}"
    turn_rad = record.heading_rad + (math.pi if record.orientation == "-" else 0.0)
    stand = RoadObject(record.id, record.name, "sign", record.s_m, record.t_m, 0.0, turn_rad, 0.0, 0.0, 0.0, 0.0, ())
    low_m = record.plate_m
    post = MeshBuilder("pole", f"{name} post")
    post.prism(_circle(road, stand, _SIGN_POST_RADIUS_M), on_grid(low_m))
    yield post
    plate = MeshBuilder("traffic-light" if record.is_dynamic else "sign", name)
    u_m, v_m = _SIGN_THICKNESS_M, 0.5 * record.width_m
    base = [_world(road, stand, u, v, low_m) for u, v in ((-u_m, v_m), (u_m, v_m), (u_m, -v_m), (-u_m, -v_m))]
    plate.prism(_facing_up(base), on_grid(record.height_m))
    yield plate


def _zebra(polygon: Polygon) -> MeshBuilder:
    """Bars across a four-cornered crossing, along the traffic and over the lane lines; any other shape is painted whole."""
    builder = MeshBuilder("crosswalk", polygon.name)
    corners = [(float(x), float(y), float(z) + 2.0 * PAINT_LIFT_M) for x, y, z in polygon.vertices]
    if len(corners) != 4:
        builder.ring(corners)
        return builder
    if math.dist(corners[0], corners[1]) < math.dist(corners[1], corners[2]):
        corners = [*corners[1:], corners[0]]
    a, b, c, d = corners
    bars = max(1, round(math.dist(a, b) / (2 * _STRIPE_M)))
    for i in range(bars):
        from_part, to_part = (i + 0.25) / bars, (i + 0.75) / bars
        builder.ring([_between(a, b, from_part), _between(a, b, to_part), _between(d, c, to_part), _between(d, c, from_part)])
    return builder


def _between(a: Point, b: Point, part: float) -> Point:
    x, y, z = (on_grid(p + part * (q - p)) for p, q in zip(a, b, strict=True))
    return x, y, z
