"""What lies flat: road, junctions, sidewalks with kerbs, painted lines, the ground; as meshes and as polygons."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from samepath.sim.maps.frames import frozen_points, on_grid
from samepath.sim.maps.lanes import RAISED_KINDS, borders, heights_m, place, stations_m
from samepath.sim.maps.mesh import Mesh, MeshBuilder, Point, Polygon
from samepath.sim.maps.records import Lane, LaneSection, OpenDrive, Road, RoadMark

GROUND_DROP_M: Final = 0.0625
GROUND_MARGIN_M: Final = 100.0
PAINT_LIFT_M: Final = 2.0**-7
DASH_M: Final = 2.0
DASH_PERIOD_M: Final = 6.0

Rings = Mapping[int, tuple[Point, ...] | None]
Box = tuple[float, float, float, float]


def surface_meshes(document: OpenDrive, rings: Rings, box: Box) -> Iterator[Mesh]:
    """Every flat mesh, in the order of the file; ``rings`` holds the outline of each junction that has one."""
    for road in document.roads:
        covered = road.junction_id is not None and rings.get(road.junction_id) is not None
        yield from _road_meshes(road, covered=covered)
        yield from _finished(_kerb_mesh(road))
        yield from _finished(_paint_mesh(road))
    for junction in document.junctions:
        ring = rings[junction.id]
        if ring is not None:
            builder = MeshBuilder("road", f"junction {junction.id}")
            builder.ring(ring)
            yield from _finished(builder)
    yield ground_mesh(document, box)


def _finished(builder: MeshBuilder) -> Iterator[Mesh]:
    mesh = builder.mesh()
    if mesh is not None:
        yield mesh


def _road_meshes(road: Road, *, covered: bool) -> Iterator[Mesh]:
    """Surfaces by label; the drivable part of a connecting road is left to its junction where that has a ring."""
    builders = {label: MeshBuilder(label, f"road {road.id}") for label in ("road", "sidewalk", "ground")}
    for section in road.sections:
        for lane in section.lanes:
            if lane.id == 0 or (covered and lane.is_drivable):
                continue
            label = "sidewalk" if lane.kind in RAISED_KINDS else "ground" if lane.kind == "none" else "road"
            left, right = lane_edges(road, section, lane)
            builders[label].strip(left, right)
    for builder in builders.values():
        yield from _finished(builder)


def lane_edges(road: Road, section: LaneSection, lane: Lane) -> tuple[list[Point], list[Point]]:
    """The left and right edge of a lane's surface along rising s."""
    inner: list[Point] = []
    outer: list[Point] = []
    for s_m in stations_m(road, section):
        near, far = borders(road, section, lane, s_m)
        low_m, high_m = heights_m(section, lane, s_m)
        inner.append(place(road, s_m, near.t_m, low_m))
        outer.append(place(road, s_m, far.t_m, high_m))
    return (outer, inner) if lane.id > 0 else (inner, outer)


def _kerb_mesh(road: Road) -> MeshBuilder:
    """Walls around everything raised: towards the road, outwards down to the ground, and across the ends."""
    builder = MeshBuilder("kerb", f"road {road.id}")
    for section in road.sections:
        feet_m = [on_grid(road.elevation_m(s_m) - GROUND_DROP_M) for s_m in stations_m(road, section)]
        for lane in section.lanes:
            if lane.id == 0 or lane.kind not in RAISED_KINDS:
                continue
            left, right = lane_edges(road, section, lane)
            if not _is_raised(section, lane.id, 1):
                _wall(builder, left[::-1], feet_m[::-1])
            if not _is_raised(section, lane.id, -1):
                _wall(builder, right, feet_m)
            if road.predecessor is None and section.index == 0:
                _wall(builder, [left[0], right[0]], [feet_m[0]] * 2)
            if road.successor is None and section.index == len(road.sections) - 1:
                _wall(builder, [right[-1], left[-1]], [feet_m[-1]] * 2)
    return builder


def _is_raised(section: LaneSection, lane_id: int, step: int) -> bool:
    """Is the neighbour of a lane, towards rising (1) or falling (-1) ids, raised too?"""
    neighbour = section.lane(lane_id + step)
    return neighbour is not None and neighbour.kind in RAISED_KINDS


def _wall(builder: MeshBuilder, top: list[Point], feet_m: list[float]) -> None:
    """A wall from ``top`` down to ``feet_m``; it faces to the right of somebody who walks along ``top`` on the real road."""
    bottom = [(x, y, foot_m) for (x, y, _), foot_m in zip(top, feet_m, strict=True)]
    for i in range(len(top) - 1):
        builder.quad(top[i], top[i + 1], bottom[i + 1], bottom[i])


def _paint_mesh(road: Road) -> MeshBuilder:
    """Lines on the outer borders of lanes (lane 0: on the reference line), a little above the road."""
    builder = MeshBuilder("lane-marking", f"road {road.id}")
    for section in road.sections:
        stations = stations_m(road, section)
        for lane in section.lanes:
            for index, mark in enumerate(lane.marks):
                if mark.kind in {"none", "curb"} or mark.width_m <= 0.0:
                    continue
                start_m = section.start_m + mark.s_offset_m
                following = lane.marks[index + 1 : index + 2]
                end_m = min(section.end_m, section.start_m + following[0].s_offset_m if following else section.end_m)
                for from_m, to_m in _dashes(mark, start_m, end_m) if start_m < end_m else ():
                    between = stations[bisect_right(stations, from_m) : bisect_left(stations, to_m)]
                    _paint_line(builder, road, section, lane, mark.width_m, (from_m, *between, to_m))
    return builder


def _dashes(mark: RoadMark, start_m: float, end_m: float) -> Iterator[tuple[float, float]]:
    if "broken" not in mark.kind:
        yield start_m, end_m
        return
    for index in range(int((end_m - start_m) / DASH_PERIOD_M) + 1):
        from_m = start_m + index * DASH_PERIOD_M
        if from_m + DASH_M <= end_m:
            yield from_m, from_m + DASH_M


def _paint_line(
    builder: MeshBuilder, road: Road, section: LaneSection, lane: Lane, width_m: float, stations: Sequence[float]
) -> None:
    left: list[Point] = []
    right: list[Point] = []
    for s_m in stations:
        t_m = borders(road, section, lane, s_m)[1].t_m
        left.append(place(road, s_m, t_m + 0.5 * width_m, PAINT_LIFT_M))
        right.append(place(road, s_m, t_m - 0.5 * width_m, PAINT_LIFT_M))
    builder.strip(left, right)


def ground_mesh(document: OpenDrive, box: Box) -> Mesh:
    """One large quad a little below the lowest road."""
    lowest_m = min(
        road.elevation_m(s_m) for road in document.roads for section in road.sections for s_m in stations_m(road, section)
    )
    z_m = on_grid(lowest_m - GROUND_DROP_M)
    x_min, y_min, x_max, y_max = (
        on_grid(value + margin) for value, margin in zip(box, (-GROUND_MARGIN_M,) * 2 + (GROUND_MARGIN_M,) * 2, strict=True)
    )
    builder = MeshBuilder("ground", "ground")
    builder.quad((x_min, y_min, z_m), (x_max, y_min, z_m), (x_max, y_max, z_m), (x_min, y_max, z_m))
    (mesh,) = _finished(builder)
    return mesh


def drivable_polygons(document: OpenDrive, rings: Rings) -> tuple[Polygon, ...]:
    """Where wheels may be: the drivable lanes of each road, and each junction as a whole."""
    found = [
        polygon
        for road in document.roads
        if road.junction_id is None or rings.get(road.junction_id) is None
        for polygon in _lane_polygons(road, "road", drivable=True)
    ]
    for junction in document.junctions:
        ring = rings[junction.id]
        if ring is not None:
            found.append(Polygon(frozen_points(list(ring)), "road", f"junction {junction.id}"))
    return tuple(found)


def sidewalk_polygons(document: OpenDrive) -> tuple[Polygon, ...]:
    """Where people walk beside the road."""
    return tuple(polygon for road in document.roads for polygon in _lane_polygons(road, "sidewalk", drivable=False))


def _lane_polygons(road: Road, label: str, *, drivable: bool) -> Iterator[Polygon]:
    for section in road.sections:
        for lane in section.lanes:
            if lane.id != 0 and (lane.is_drivable if drivable else lane.kind == "sidewalk"):
                left, right = lane_edges(road, section, lane)
                name = f"road {road.id} section {section.index} lane {lane.id}"
                yield Polygon(frozen_points([*left, *right[::-1]]), label, name)
