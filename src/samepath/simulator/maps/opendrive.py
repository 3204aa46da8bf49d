"""Read OpenDRIVE 1.4 text into records; what would change a road and is not understood is refused by name.

A map may come from anybody, and five hundred bytes can name a lane 10^9, or a road mark that begins 10^9 m before its road. So
each number is held against a bound by its meaning where it is read. The bounds leave room above what CARLA's towns have, which
is written beside them. What many allowed numbers come to together is :func:`samepath.simulator.maps.network.check_work`'s.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Final

from samepath.core.errors import InputError
from samepath.core.units import SPEED_UNITS_MPS
from samepath.simulator.maps.checked_xml import XmlNode, parse_xml
from samepath.simulator.maps.geometry import Arc, Cubic, Curve, Geometry, ParamPoly3, Spiral, StraightLine, poly3
from samepath.simulator.maps.records import (
    Corner,
    Junction,
    JunctionConnection,
    Lane,
    LaneHeight,
    LaneSection,
    OpenDrive,
    Road,
    RoadLink,
    RoadMark,
    RoadObject,
    SignalController,
    SignalRecord,
    SignalReference,
    SpeedLimit,
)

LANE_ID_MAX: Final = 100  # on either side; Town06: 10
ROAD_MAX_M: Final = 1e5  # Town04: 0.6 km
POSITION_MAX_M: Final = 1e7  # room for UTM coordinates
HEADING_MAX_RAD: Final = 1e3
CURVATURE_MAX_PER_M: Final = 1e3  # Town07: 1
TURN_MAX_RAD: Final = 100.0  # of one arc or spiral: sixteen full circles
WIDTH_MAX_M: Final = 100.0  # of a lane; Town06: 5
OFFSET_MAX_M: Final = 1e3  # beside the road: lane offsets, objects, signals; Town06: 120
ELEVATION_MAX_M: Final = 1e4
RAISED_MAX_M: Final = 100.0  # of a lane above its road
SIZE_MAX_M: Final = 1e3  # of an object in any direction; our oval: 280
CORNERS_MAX: Final = 1000  # of one outline
SIGNAL_SIZE_MAX_M: Final = 100.0
SIGNAL_VALUE_MAX: Final = 1e6
MARK_WIDTH_MAX_M: Final = 10.0
SPEED_MAX: Final = 1e4
BESIDE_M: Final = 1.0  # by how much a place along a road may miss it, as rounding makes it
CORNER_BESIDE_M: Final = 100.0  # the same for corners: crossings and guard rails may go on past the end of their road
JUMP_MAX_M: Final = 10.0  # between two pieces of a reference line
STRETCH_MAX: Final = 4.0  # how much longer a curve may be than its declared length

_KNOWN_PARTS: Final = frozenset({"header", "road", "junction", "controller"})
_KNOWN_ROAD_PARTS: Final = frozenset(
    {"link", "type", "planView", "elevationProfile", "lateralProfile", "lanes", "objects", "signals"}
)
_KNOWN_LANE_PARTS: Final = frozenset({"link", "width", "roadMark", "speed", "height"})

# Who wrote CARLA's towns. Their speed limits are signs, which are objects by these names, and so are some stop signs.
_ROADRUNNER: Final = "VectorZero"
_SPEED_SIGN: Final = re.compile(r"s(?:pee|ppe)d(?:limit)?[_ ]?(?:static_)?(\d{1,3})(?!\d)", re.IGNORECASE | re.ASCII)
_SPEED_SIGN_MAX_KMH: Final = 300
_STOP_STENCIL: Final = "Stencil_STOP"
_CROSSWALK: Final = "crosswalk"

_GAP_MAX_M: Final = 0.1
_MARK_WIDTH_M: Final = 0.12

_SIGNAL_SIZE_M: Final = 0.6
_SAME_M: Final = 1e-9


def read_opendrive(text: str, name: str) -> OpenDrive:
    """Read a whole file; ``name`` is used in error messages."""
    root = XmlNode(parse_xml(text, name), f"map {name!r}")
    if root.tag != "OpenDRIVE":
        raise root.fail("the root <OpenDRIVE> was wanted")
    ignored: list[str] = []
    header = root.child("header")
    if header is None:
        raise root.fail("<header> is missing")
    if header.integer("revMajor") != 1:
        raise header.fail(f"OpenDRIVE 1.x was wanted, but revMajor={header.text('revMajor')!r} came")
    georeference = header.child("geoReference")
    roads = tuple(_read_road(node, name, ignored) for node in root.children("road"))
    if not roads:
        raise root.fail("at least one <road> was wanted")
    if not any(lane.id != 0 for road in roads for section in road.sections for lane in section.lanes):
        raise root.fail("at least one lane beside the centre lane was wanted on some road, but there is none")
    _unique([road.id for road in roads], "road", name)
    junctions = tuple(_read_junction(node, name) for node in root.children("junction"))
    _unique([junction.id for junction in junctions], "junction", name)
    ignored.extend(f"<{node.tag}>" for node in root.children() if node.tag not in _KNOWN_PARTS)
    roads, junctions, dead_links = _without_dead_links(roads, junctions, name)
    return OpenDrive(
        name=header.text("name", ""),
        georeference=(georeference.element.text or "").strip() if georeference else "",
        box=_read_box(header),
        roads=roads,
        junctions=junctions,
        ignored=tuple(dict.fromkeys(ignored)),
        controllers=tuple(_read_controller(node) for node in root.children("controller")),
        by_roadrunner=header.text("vendor", "") == _ROADRUNNER,
        dead_links=dead_links,
    )


def _read_box(header: XmlNode) -> tuple[float, float, float, float] | None:
    """West, south, east, north; None where the file leaves them out or writes zeros."""
    west, south, east, north = (header.about(key, POSITION_MAX_M, 0.0) for key in ("west", "south", "east", "north"))
    return (west, south, east, north) if west < east and south < north else None


def _unique(ids: list[int], kind: str, name: str) -> None:
    seen: set[int] = set()
    for number in ids:
        if number in seen:
            raise InputError(f"map {name!r}: {kind} id {number} is used twice; ids must be unique")
        seen.add(number)


def _read_road(node: XmlNode, name: str, ignored: list[str]) -> Road:
    road_id = node.integer("id")
    node = node.inside(f"map {name!r}, road {road_id}")
    length_m = node.positive("length")
    if length_m > ROAD_MAX_M:
        raise node.fail(f"a road of at most {ROAD_MAX_M:g} m was wanted, but length={length_m:g} came")
    if node.text("rule", "RHT") != "RHT":
        raise node.fail(f"right-hand traffic was wanted, but rule={node.text('rule')!r} came")
    for part in node.children():
        if part.tag == "railroad":
            raise part.fail("railroads are not supported")
        if part.tag not in _KNOWN_ROAD_PARTS:
            ignored.append(f"road {road_id}: <{part.tag}>")
    _refuse_banking(node)
    junction_id = node.integer("junction") if node.element.get("junction") is not None else -1
    link = node.child("link")
    profile = node.child("elevationProfile")
    lanes = node.child("lanes")
    if lanes is None:
        raise node.fail("<lanes> is missing")
    return Road(
        id=road_id,
        name=node.text("name", ""),
        length_m=length_m,
        junction_id=None if junction_id < 0 else junction_id,
        predecessor=_read_link(link, "predecessor"),
        successor=_read_link(link, "successor"),
        speeds=_read_speeds(node, length_m),
        plan=_read_plan(node, length_m),
        elevation=read_cubics(profile, "elevation", "s", length_m, ELEVATION_MAX_M) if profile else (),
        lane_offset=read_cubics(lanes, "laneOffset", "s", length_m, OFFSET_MAX_M),
        sections=read_sections(lanes, length_m, ignored, road_id),
        objects=read_objects(node.child("objects"), length_m, ignored, road_id),
        signals=(
            *read_signals(node.child("signals"), length_m, ignored, road_id),
            *read_object_signs(node.child("objects"), length_m),
        ),
        signal_references=read_signal_references(node.child("signals"), length_m),
    )


def _refuse_banking(road: XmlNode) -> None:
    profile = road.child("lateralProfile")
    for part in profile.children() if profile else ():
        if any(part.number(key, 0.0) != 0.0 for key in ("a", "b", "c", "d")) or part.tag not in {
            "superelevation",
            "crossfall",
            "shape",
        }:
            raise part.fail("a banked road (non-zero lateralProfile) is not supported")


def _read_link(link: XmlNode | None, tag: str) -> RoadLink | None:
    node = link.child(tag) if link else None
    if node is None:
        return None
    kind = node.text("elementType")
    if kind not in {"road", "junction"}:
        raise node.fail(f"elementType 'road' or 'junction' was wanted, but {kind!r} came")
    contact = node.text("contactPoint") if kind == "road" else None
    if contact not in {"start", "end", None}:
        raise node.fail(f"contactPoint 'start' or 'end' was wanted, but {contact!r} came")
    return RoadLink(kind, node.integer("elementId"), contact)


def _read_speeds(road: XmlNode, length_m: float) -> tuple[SpeedLimit, ...]:
    limits = []
    for node in road.children("type"):
        speed = node.child("speed")
        if speed is not None:
            limits.append(SpeedLimit(read_station(node, "s", length_m, 0.0), read_speed_mps(speed)))
    return tuple(sorted(limits, key=lambda limit: limit.start_m))


def read_speed_mps(node: XmlNode) -> float | None:
    """The ``max`` of a speed record in m/s; None for 'no limit' and 'undefined'."""
    if node.text("max") in {"no limit", "undefined"}:
        return None
    unit = node.text("unit", "m/s")
    if unit not in SPEED_UNITS_MPS:
        raise node.fail(f"a unit of {', '.join(SPEED_UNITS_MPS)} was wanted, but {unit!r} came")
    return node.within("max", 0.0, SPEED_MAX) * SPEED_UNITS_MPS[unit]


def _read_plan(road: XmlNode, length_m: float) -> tuple[Geometry, ...]:
    view = road.child("planView")
    nodes = [] if view is None else list(view.children("geometry"))
    if not nodes:
        raise road.fail("a <planView> with at least one <geometry> was wanted")
    # carla.Osm2Odr writes pieces of length 0 where two nodes lie in one place; they hold nothing of the road.
    pieces = [_read_geometry(node) for node in nodes if node.positive("length", zero=True) > 0.0]
    if not pieces and length_m <= _GAP_MAX_M:
        pieces = [Geometry(0.0, *_read_pose(nodes[0]), length_m, StraightLine())]
    if not pieces:
        nodes[0].positive("length")
    pieces.sort(key=lambda piece: piece.start_m)
    end_m = 0.0
    for piece in pieces:
        if abs(piece.start_m - end_m) > _GAP_MAX_M:
            raise road.fail(f"geometry was wanted at s={end_m:g}, but the next starts at s={piece.start_m:g}")
        end_m = piece.start_m + piece.length_m
    if abs(end_m - length_m) > _GAP_MAX_M:
        raise road.fail(f"geometry up to length={length_m:g} was wanted, but it ends at s={end_m:g}")
    for before, after in pairwise(pieces):
        end = before.pose(before.start_m + before.length_m)
        if math.dist((end.x_m, end.y_m), (after.x_m, after.y_m)) > JUMP_MAX_M:
            raise road.fail(
                f"a geometry within {JUMP_MAX_M:g} m of ({end.x_m:g}, {end.y_m:g}), where the one before ends, was wanted at "
                f"s={after.start_m:g}, but x={after.x_m:g} y={after.y_m:g} came"
            )
    return tuple(pieces)


def _read_geometry(node: XmlNode) -> Geometry:
    length_m = node.positive("length")
    shapes = [child for child in node.children() if child.tag != "userData"]
    if len(shapes) != 1:
        raise node.fail(f"exactly one curve was wanted, but {len(shapes)} came")
    curve = _read_curve(shapes[0], length_m)
    return Geometry(node.positive("s", zero=True), *_read_pose(node), length_m, curve)


def _read_pose(node: XmlNode) -> tuple[float, float, float]:
    return node.about("x", POSITION_MAX_M), node.about("y", POSITION_MAX_M), node.about("hdg", HEADING_MAX_RAD)


def _read_curve(node: XmlNode, length_m: float) -> Curve:
    match node.tag:
        case "line":
            return StraightLine()
        case "arc":
            return Arc(_read_curvature(node, "curvature", length_m))
        case "spiral":
            start, end = (_read_curvature(node, key, length_m) for key in ("curvStart", "curvEnd"))
            return Spiral(start, end, length_m)
        case "poly3":
            return poly3(node.about("a", JUMP_MAX_M), node.number("b"), node.number("c"), node.number("d"), length_m)
        case "paramPoly3":
            kind = node.text("pRange", "normalized")
            if kind not in {"normalized", "arcLength"}:
                raise node.fail(f"pRange 'arcLength' or 'normalized' was wanted, but {kind!r} came")
            u, v = (Cubic(0.0, *(node.number(f"{power}{axis}") for power in "abcd")) for axis in "UV")
            if all(number == 0.0 for number in (u.b, u.c, u.d, v.b, v.c, v.d)):
                raise node.fail("a curve was wanted, but all its derivatives are 0")
            curve = ParamPoly3(u, v, length_m if kind == "arcLength" else 1.0, length_m)
            if max(curve.true_length_m, abs(u.a), abs(v.a)) > STRETCH_MAX * length_m + JUMP_MAX_M:
                raise node.fail(f"a curve of length={length_m:g} was wanted, but its formula is {curve.true_length_m:g} m long")
            return curve
        case _:
            raise node.fail("this geometry is not known; known: line, arc, spiral, poly3, paramPoly3")


def _read_curvature(node: XmlNode, key: str, length_m: float) -> float:
    curvature = node.about(key, CURVATURE_MAX_PER_M)
    if abs(curvature) * length_m > TURN_MAX_RAD:
        raise node.fail(f"a turn of at most {TURN_MAX_RAD:g} rad was wanted, but {key}={curvature:g} over {length_m:g} m came")
    return curvature


def read_station(node: XmlNode, key: str, length_m: float, default: float | None = None) -> float:
    """A place along a road or a section of this length."""
    return node.within(key, -BESIDE_M, length_m + BESIDE_M, default)


def read_cubics(parent: XmlNode, tag: str, key: str, length_m: float, most_m: float) -> tuple[Cubic, ...]:
    """The cubic polynomials called ``tag``, by rising start; where each of them holds it stays below ``most_m``."""
    found = [
        (Cubic(read_station(node, key, length_m), *(node.number(power) for power in "abcd")), node)
        for node in parent.children(tag)
    ]
    found.sort(key=lambda pair: pair[0].start_m)
    starts_m = [0.0, *(cubic.start_m for cubic, _ in found[1:]), length_m]  # the first one holds from the beginning
    for index, (cubic, node) in enumerate(found):
        largest_m = _largest(cubic, starts_m[index], max(starts_m[index], starts_m[index + 1]))
        if largest_m > most_m:
            raise node.fail(
                f"at most {most_m:g} m was wanted along its road, but a={cubic.a:g} b={cubic.b:g} c={cubic.c:g} d={cubic.d:g} "
                f"from {key}={cubic.start_m:g} come to {largest_m:g} m"
            )
    return tuple(cubic for cubic, _ in found)


def _largest(cubic: Cubic, low_m: float, high_m: float) -> float:
    """The largest size of a polynomial on an interval: at an end, or where its slope is 0."""
    places_m = [low_m, high_m]
    b, c, d = cubic.b, 2.0 * cubic.c, 3.0 * cubic.d
    if d != 0.0 and c * c >= 4.0 * b * d:
        root = math.sqrt(c * c - 4.0 * b * d)
        places_m += [cubic.start_m + (-c + root) / (2.0 * d), cubic.start_m + (-c - root) / (2.0 * d)]
    elif d == 0.0 and c != 0.0:
        places_m.append(cubic.start_m - b / c)
    return max(abs(cubic.value(s_m)) for s_m in places_m if low_m <= s_m <= high_m)


def read_sections(lanes: XmlNode, length_m: float, ignored: list[str], road_id: int) -> tuple[LaneSection, ...]:
    """All lane sections of a road, each ending where the next starts."""
    nodes = list(lanes.children("laneSection"))
    if not nodes:
        raise lanes.fail("at least one <laneSection> was wanted")
    starts_m = [node.positive("s", zero=True) for node in nodes]
    if starts_m[0] > _SAME_M or any(after <= before for before, after in pairwise(starts_m)):
        raise lanes.fail("lane sections must start at s=0 and rise")
    if starts_m[-1] >= length_m:
        raise lanes.fail(f"a lane section starts at s={starts_m[-1]:g}, which is not before the road's end at {length_m:g}")
    ends_m = [*starts_m[1:], length_m]
    return tuple(
        LaneSection(index, start_m, end_m, _read_lanes(node, end_m - start_m, ignored, road_id))
        for index, (node, start_m, end_m) in enumerate(zip(nodes, starts_m, ends_m, strict=True))
    )


def _read_lanes(section: XmlNode, length_m: float, ignored: list[str], road_id: int) -> tuple[Lane, ...]:
    if section.text("singleSide", "false") not in {"false", "0"}:
        raise section.fail("single-sided lane sections are not supported")
    found: list[Lane] = []
    for side in section.children("left", "center", "right"):
        for node in side.children("lane"):
            lane = _read_lane(node, length_m, ignored, road_id)
            sign = (lane.id > 0) - (lane.id < 0)
            if sign != {"left": 1, "center": 0, "right": -1}[side.tag]:
                raise node.fail(f"lane {lane.id} cannot stand in <{side.tag}>")
            found.append(lane)
    if len(found) > 2 * LANE_ID_MAX + 1:
        raise section.fail(f"at most {2 * LANE_ID_MAX + 1} lanes were wanted, but {len(found)} came")
    ids = sorted((lane.id for lane in found), reverse=True)
    if 0 not in ids:
        raise section.fail("the centre lane 0 is missing")
    if ids != list(range(ids[0], ids[-1] - 1, -1)):
        raise section.fail(f"lane ids without gaps or doubles were wanted, but {ids} came")
    return tuple(sorted(found, key=lambda lane: -lane.id))


def _read_lane(node: XmlNode, length_m: float, ignored: list[str], road_id: int) -> Lane:
    lane_id = node.integer("id", LANE_ID_MAX)
    node = node.inside(f"{node.where}, lane {lane_id}")
    for part in node.children():
        if part.tag == "border":
            raise part.fail("lanes by border are not supported; write <width>")
        if part.tag not in _KNOWN_LANE_PARTS:
            ignored.append(f"road {road_id}: lane <{part.tag}>")
    widths = read_cubics(node, "width", "sOffset", length_m, WIDTH_MAX_M)
    if lane_id != 0 and not widths:
        raise node.fail("at least one <width> was wanted")
    link = node.child("link")
    return Lane(
        id=lane_id,
        kind=node.text("type", "none"),
        widths=widths,
        predecessor=_read_lane_link(link, "predecessor"),
        successor=_read_lane_link(link, "successor"),
        marks=tuple(_read_mark(mark, length_m) for mark in node.children("roadMark")),
        speeds=tuple(
            SpeedLimit(read_station(speed, "sOffset", length_m), read_speed_mps(speed)) for speed in node.children("speed")
        ),
        heights=tuple(
            LaneHeight(
                read_station(height, "sOffset", length_m),
                height.about("inner", RAISED_MAX_M),
                height.about("outer", RAISED_MAX_M),
            )
            for height in node.children("height")
        ),
    )


def _read_lane_link(link: XmlNode | None, tag: str) -> int | None:
    node = link.child(tag) if link else None
    return None if node is None else node.integer("id", LANE_ID_MAX)


def _read_mark(node: XmlNode, length_m: float) -> RoadMark:
    return RoadMark(
        read_station(node, "sOffset", length_m),
        node.text("type", "none"),
        node.text("color", "standard"),
        node.about("width", MARK_WIDTH_MAX_M, _MARK_WIDTH_M),
    )


def read_objects(objects: XmlNode | None, length_m: float, ignored: list[str], road_id: int) -> tuple[RoadObject, ...]:
    """All objects of a road; tunnels, bridges and references are listed as ignored."""
    found = []
    for node in objects.children() if objects else ():
        if node.tag != "object":
            ignored.append(f"road {road_id}: objects <{node.tag}>")
            continue
        found.append(_read_object(node, length_m, ignored, road_id))
    return tuple(found)


def _read_object(node: XmlNode, length_m: float, ignored: list[str], road_id: int) -> RoadObject:
    object_id = node.text("id", "")
    node = node.inside(f"{node.where}, object {object_id!r}")
    parts = (part.tag for part in node.children())
    ignored.extend(f"road {road_id}: object <{tag}>" for tag in parts if tag not in {"outline", "outlines"})
    holder = node.child("outlines")
    outline = (holder.child("outline") if holder else None) or node.child("outline")
    corners = list(outline.children("cornerRoad", "cornerLocal")) if outline else []
    if len(corners) > CORNERS_MAX:
        raise node.fail(f"an outline of at most {CORNERS_MAX} corners was wanted, but {len(corners)} came")
    return RoadObject(
        id=object_id,
        name=node.text("name", ""),
        kind=_CROSSWALK if _CROSSWALK in node.text("name", "").lower() else node.text("type", "none"),
        s_m=_inside(node, length_m),
        t_m=node.about("t", OFFSET_MAX_M),
        z_offset_m=node.about("zOffset", ELEVATION_MAX_M, 0.0),
        heading_rad=node.about("hdg", HEADING_MAX_RAD, 0.0),
        length_m=_size(node, "length"),
        width_m=_size(node, "width"),
        height_m=_size(node, "height"),
        radius_m=_size(node, "radius"),
        outline=tuple(_read_corner(corner, length_m) for corner in corners),
    )


def read_object_signs(objects: XmlNode | None, length_m: float) -> Iterator[SignalRecord]:
    """The signs among a road's objects, as CARLA finds them: by name. Their orientation is the side of the road they are on."""
    for node in objects.children("object") if objects else ():
        name = node.text("name", "")
        speed = _SPEED_SIGN.match(name)
        limit_kmh = int(speed[1]) if speed else 0
        stop = _STOP_STENCIL in name
        if not stop and not 0 < limit_kmh <= _SPEED_SIGN_MAX_KMH:
            continue
        sides = {"+": ((1, LANE_ID_MAX),), "-": ((-LANE_ID_MAX, -1),)}
        yield SignalRecord(
            id=node.text("id", ""),
            name=name,
            kind="206" if stop else "274",
            subtype="" if stop else str(limit_kmh),
            country="OpenDRIVE",
            s_m=_inside(node, length_m),
            t_m=node.about("t", OFFSET_MAX_M),
            z_offset_m=node.about("zOffset", ELEVATION_MAX_M, 0.0),
            heading_rad=node.about("hdg", HEADING_MAX_RAD, 0.0),
            orientation="none",
            is_dynamic=False,
            value=None if stop else float(limit_kmh),
            unit="" if stop else "km/h",
            height_m=_SIGNAL_SIZE_M,
            width_m=_SIGNAL_SIZE_M,
            lanes=sides.get(node.text("orientation", "none"), ((-LANE_ID_MAX, LANE_ID_MAX),)),
            is_painted=stop,
        )


def _inside(node: XmlNode, length_m: float) -> float:
    s_m = node.number("s")
    if not -BESIDE_M <= s_m <= length_m + BESIDE_M:
        raise node.fail(f"s within the road's 0..{length_m:g} was wanted, but {s_m:g} came")
    return s_m


def _size(node: XmlNode, key: str) -> float:
    value = node.number(key, 0.0)
    if value < 0.0:
        raise node.fail(f"{key!r} must be at least 0, but {value:g} came")
    return node.within(key, 0.0, SIZE_MAX_M, 0.0)


def _read_corner(node: XmlNode, length_m: float) -> Corner:
    height_m = _size(node, "height")
    if node.tag == "cornerRoad":
        along_m = node.within("s", -CORNER_BESIDE_M, length_m + CORNER_BESIDE_M)
        return Corner(True, along_m, node.about("t", OFFSET_MAX_M), node.about("dz", ELEVATION_MAX_M, 0.0), height_m)
    u_m, v_m = (node.about(key, SIZE_MAX_M) for key in "uv")
    return Corner(False, u_m, v_m, node.about("z", ELEVATION_MAX_M, 0.0), height_m)


def read_signals(signals: XmlNode | None, length_m: float, ignored: list[str], road_id: int) -> tuple[SignalRecord, ...]:
    """All signals of a road; what is neither a signal nor a reference to one is listed as ignored."""
    found = []
    for node in signals.children() if signals else ():
        if node.tag == "signal":
            found.append(_read_signal(node, length_m))
        elif node.tag != "signalReference":
            ignored.append(f"road {road_id}: signals <{node.tag}>")
    return tuple(found)


def read_signal_references(signals: XmlNode | None, length_m: float) -> tuple[SignalReference, ...]:
    """All references of a road to signals that may stand elsewhere."""
    return tuple(
        SignalReference(node.text("id"), _inside(node, length_m), _orientation(node), _read_validity(node))
        for node in (signals.children("signalReference") if signals else ())
    )


def _read_validity(node: XmlNode) -> tuple[tuple[int, int], ...]:
    return tuple(
        (part.integer("fromLane", LANE_ID_MAX), part.integer("toLane", LANE_ID_MAX)) for part in node.children("validity")
    )


def _orientation(node: XmlNode) -> str:
    orientation = node.text("orientation", "+")
    if orientation not in {"+", "-", "none"}:
        raise node.fail(f"orientation '+', '-' or 'none' was wanted, but {orientation!r} came")
    return orientation


def _read_signal(node: XmlNode, length_m: float) -> SignalRecord:
    node = node.inside(f"{node.where}, signal {node.text('id')!r}")
    has_value = node.element.get("value") not in {None, "", "-1"}
    return SignalRecord(
        id=node.text("id"),
        name=node.text("name", ""),
        kind=node.text("type", ""),
        subtype=node.text("subtype", ""),
        country=node.text("country", ""),
        s_m=_inside(node, length_m),
        t_m=node.about("t", OFFSET_MAX_M),
        z_offset_m=node.about("zOffset", ELEVATION_MAX_M, 0.0),
        heading_rad=node.about("hOffset", HEADING_MAX_RAD, 0.0),
        orientation=_orientation(node),
        is_dynamic=node.text("dynamic", "no") == "yes",
        value=node.about("value", SIGNAL_VALUE_MAX) if has_value else None,
        unit=node.text("unit", ""),
        height_m=node.about("height", SIGNAL_SIZE_MAX_M, _SIGNAL_SIZE_M) or _SIGNAL_SIZE_M,
        width_m=node.about("width", SIGNAL_SIZE_MAX_M, _SIGNAL_SIZE_M) or _SIGNAL_SIZE_M,
        lanes=_read_validity(node),
    )


def _read_junction(node: XmlNode, name: str) -> Junction:
    junction_id = node.integer("id")
    node = node.inside(f"map {name!r}, junction {junction_id}")
    if node.text("type", "default") not in {"default", ""}:
        raise node.fail(f"a default junction was wanted, but type={node.text('type')!r} came")
    connections = []
    for part in node.children("connection"):
        contact = part.text("contactPoint")
        if contact not in {"start", "end"}:
            raise part.fail(f"contactPoint 'start' or 'end' was wanted, but {contact!r} came")
        links = tuple(
            (link.integer("from", LANE_ID_MAX), link.integer("to", LANE_ID_MAX)) for link in part.children("laneLink")
        )
        connections.append(
            JunctionConnection(part.text("id"), part.integer("incomingRoad"), part.integer("connectingRoad"), contact, links)
        )
    controllers = tuple(part.text("id") for part in node.children("controller"))
    return Junction(junction_id, node.text("name", ""), tuple(connections), controllers)


def _read_controller(node: XmlNode) -> SignalController:
    signals = tuple(part.text("signalId") for part in node.children("control"))
    return SignalController(node.text("id"), node.text("name", ""), signals)


def _without_dead_links(
    roads: tuple[Road, ...], junctions: tuple[Junction, ...], name: str
) -> tuple[tuple[Road, ...], tuple[Junction, ...], tuple[str, ...]]:
    """Roads and junctions without the links to what the file does not hold, and a few words for each such link.

    An excerpt of a larger map names roads and junctions beyond its edge; ``carla.Osm2Odr`` writes such links at every end of
    a street. The road ends there, as in ``carla.Map``, which only needs the roads through a junction to be there.
    """
    road_ids = {road.id for road in roads}
    junction_ids = {junction.id for junction in junctions}
    dead: list[str] = []

    def alive(road: Road, link: RoadLink | None) -> RoadLink | None:
        if link is None or link.id in (road_ids if link.kind == "road" else junction_ids):
            return link
        dead.append(f"road {road.id} links to {link.kind} {link.id}")
        return None

    def is_whole(junction: Junction, connection: JunctionConnection) -> bool:
        if connection.connecting_road not in road_ids:
            raise InputError(
                f"map {name!r}, junction {junction.id}: <connection>: road {connection.connecting_road} does not exist"
            )
        if connection.incoming_road in road_ids:
            return True
        dead.append(f"junction {junction.id} is entered from road {connection.incoming_road}")
        return False

    kept_roads = []
    for road in roads:
        if road.junction_id is not None and road.junction_id not in junction_ids:
            dead.append(f"road {road.id} is in junction {road.junction_id}")
        kept_roads.append(replace(road, predecessor=alive(road, road.predecessor), successor=alive(road, road.successor)))
    kept_junctions = tuple(
        replace(junction, connections=tuple(found for found in junction.connections if is_whole(junction, found)))
        for junction in junctions
    )
    return tuple(kept_roads), kept_junctions, tuple(dead)
