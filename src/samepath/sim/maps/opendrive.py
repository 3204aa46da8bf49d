"""Read OpenDRIVE 1.4 text into records; what would change a road and is not understood is refused by name."""

import math
from itertools import pairwise
from typing import Final

from samepath.base.errors import InputError
from samepath.sim.maps.bounds import (
    CURVATURE_MAX_PER_M,
    ELEVATION_MAX_M,
    HEADING_MAX_RAD,
    JUMP_MAX_M,
    LANE_ID_MAX,
    OFFSET_MAX_M,
    POSITION_MAX_M,
    ROAD_MAX_M,
    STRETCH_MAX,
    TURN_MAX_RAD,
    check_work,
)
from samepath.sim.maps.geometry import Arc, Cubic, Curve, Geometry, Line, ParamPoly3, Spiral, poly3
from samepath.sim.maps.lane_reader import read_sections
from samepath.sim.maps.object_reader import read_objects, read_signal_references, read_signals
from samepath.sim.maps.records import Connection, Controller, Junction, OpenDrive, Road, RoadLink, SpeedLimit
from samepath.sim.maps.values import read_cubics, read_speed_mps, read_station
from samepath.sim.maps.xmlread import Node, parse_xml

_KNOWN_ROAD_PARTS: Final = frozenset(
    {"link", "type", "planView", "elevationProfile", "lateralProfile", "lanes", "objects", "signals"}
)
_KNOWN_PARTS: Final = frozenset({"header", "road", "junction", "controller"})
_GAP_MAX_M: Final = 0.1


def read_opendrive(text: str, name: str) -> OpenDrive:
    """Read a whole file; ``name`` is used in error messages."""
    root = Node(parse_xml(text, name), f"map {name!r}")
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
    _unique([road.id for road in roads], "road", name)
    junctions = tuple(_read_junction(node, name) for node in root.children("junction"))
    _unique([junction.id for junction in junctions], "junction", name)
    ignored.extend(f"<{node.tag}>" for node in root.children() if node.tag not in _KNOWN_PARTS)
    _check_references(roads, junctions, name)
    document = OpenDrive(
        name=header.text("name", ""),
        georeference=(georeference.element.text or "").strip() if georeference else "",
        box=_read_box(header),
        roads=roads,
        junctions=junctions,
        ignored=tuple(dict.fromkeys(ignored)),
        controllers=tuple(_read_controller(node) for node in root.children("controller")),
    )
    check_work(document, name)
    return document


def _read_box(header: Node) -> tuple[float, float, float, float] | None:
    """West, south, east, north; None where the file leaves them out or writes zeros."""
    west, south, east, north = (header.about(key, POSITION_MAX_M, 0.0) for key in ("west", "south", "east", "north"))
    return (west, south, east, north) if west < east and south < north else None


def _unique(ids: list[int], kind: str, name: str) -> None:
    seen: set[int] = set()
    for number in ids:
        if number in seen:
            raise InputError(f"map {name!r}: {kind} id {number} is used twice; ids must be unique")
        seen.add(number)


def _read_road(node: Node, name: str, ignored: list[str]) -> Road:
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
        signals=read_signals(node.child("signals"), length_m, ignored, road_id),
        signal_references=read_signal_references(node.child("signals"), length_m),
    )


def _refuse_banking(road: Node) -> None:
    profile = road.child("lateralProfile")
    for part in profile.children() if profile else ():
        if any(part.number(key, 0.0) != 0.0 for key in ("a", "b", "c", "d")) or part.tag not in {
            "superelevation",
            "crossfall",
            "shape",
        }:
            raise part.fail("a banked road (non-zero lateralProfile) is not supported")


def _read_link(link: Node | None, tag: str) -> RoadLink | None:
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


def _read_speeds(road: Node, length_m: float) -> tuple[SpeedLimit, ...]:
    limits = []
    for node in road.children("type"):
        speed = node.child("speed")
        if speed is not None:
            limits.append(SpeedLimit(read_station(node, "s", length_m, 0.0), read_speed_mps(speed)))
    return tuple(sorted(limits, key=lambda limit: limit.start_m))


def _read_plan(road: Node, length_m: float) -> tuple[Geometry, ...]:
    view = road.child("planView")
    pieces = [] if view is None else [_read_geometry(node) for node in view.children("geometry")]
    if not pieces:
        raise road.fail("a <planView> with at least one <geometry> was wanted")
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


def _read_geometry(node: Node) -> Geometry:
    length_m = node.positive("length")
    shapes = [child for child in node.children() if child.tag != "userData"]
    if len(shapes) != 1:
        raise node.fail(f"exactly one curve was wanted, but {len(shapes)} came")
    curve = _read_curve(shapes[0], length_m)
    return Geometry(node.positive("s", zero=True), *_read_pose(node), length_m, curve)


def _read_pose(node: Node) -> tuple[float, float, float]:
    return node.about("x", POSITION_MAX_M), node.about("y", POSITION_MAX_M), node.about("hdg", HEADING_MAX_RAD)


def _read_curve(node: Node, length_m: float) -> Curve:
    match node.tag:
        case "line":
            return Line()
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


def _read_curvature(node: Node, key: str, length_m: float) -> float:
    curvature = node.about(key, CURVATURE_MAX_PER_M)
    if abs(curvature) * length_m > TURN_MAX_RAD:
        raise node.fail(f"a turn of at most {TURN_MAX_RAD:g} rad was wanted, but {key}={curvature:g} over {length_m:g} m came")
    return curvature


def _read_junction(node: Node, name: str) -> Junction:
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
            Connection(part.text("id"), part.integer("incomingRoad"), part.integer("connectingRoad"), contact, links)
        )
    controllers = tuple(part.text("id") for part in node.children("controller"))
    return Junction(junction_id, node.text("name", ""), tuple(connections), controllers)


def _read_controller(node: Node) -> Controller:
    signals = tuple(part.text("signalId") for part in node.children("control"))
    return Controller(node.text("id"), node.text("name", ""), signals)


def _check_references(roads: tuple[Road, ...], junctions: tuple[Junction, ...], name: str) -> None:
    road_ids = {road.id for road in roads}
    junction_ids = {junction.id for junction in junctions}
    for road in roads:
        if road.junction_id is not None and road.junction_id not in junction_ids:
            raise InputError(f"map {name!r}, road {road.id}: <road>: junction {road.junction_id} does not exist")
        for link in (road.predecessor, road.successor):
            if link is not None and link.id not in (road_ids if link.kind == "road" else junction_ids):
                raise InputError(f"map {name!r}, road {road.id}: <link>: {link.kind} {link.id} does not exist")
    for junction in junctions:
        for connection in junction.connections:
            for number in (connection.incoming_road, connection.connecting_road):
                if number not in road_ids:
                    raise InputError(f"map {name!r}, junction {junction.id}: <connection>: road {number} does not exist")
