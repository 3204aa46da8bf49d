"""Read ``<objects>`` and ``<signals>``."""

from typing import Final

from samepath.sim.maps.bounds import (
    BESIDE_M,
    CORNER_BESIDE_M,
    CORNERS_MAX,
    ELEVATION_MAX_M,
    HEADING_MAX_RAD,
    LANE_ID_MAX,
    OFFSET_MAX_M,
    SIGNAL_SIZE_MAX_M,
    SIGNAL_VALUE_MAX,
    SIZE_MAX_M,
)
from samepath.sim.maps.records import Corner, RoadObject, SignalRecord, SignalReference
from samepath.sim.maps.xmlread import Node

_SIGNAL_SIZE_M: Final = 0.6


def read_objects(objects: Node | None, length_m: float, ignored: list[str], road_id: int) -> tuple[RoadObject, ...]:
    """All objects of a road; tunnels, bridges and references are listed as ignored."""
    found = []
    for node in objects.children() if objects else ():
        if node.tag != "object":
            ignored.append(f"road {road_id}: objects <{node.tag}>")
            continue
        found.append(_read_object(node, length_m, ignored, road_id))
    return tuple(found)


def _read_object(node: Node, length_m: float, ignored: list[str], road_id: int) -> RoadObject:
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
        kind=node.text("type", "none"),
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


def _inside(node: Node, length_m: float) -> float:
    s_m = node.number("s")
    if not -BESIDE_M <= s_m <= length_m + BESIDE_M:
        raise node.fail(f"s within the road's 0..{length_m:g} was wanted, but {s_m:g} came")
    return s_m


def _size(node: Node, key: str) -> float:
    value = node.number(key, 0.0)
    if value < 0.0:
        raise node.fail(f"{key!r} must be at least 0, but {value:g} came")
    return node.within(key, 0.0, SIZE_MAX_M, 0.0)


def _read_corner(node: Node, length_m: float) -> Corner:
    height_m = _size(node, "height")
    if node.tag == "cornerRoad":
        along_m = node.within("s", -CORNER_BESIDE_M, length_m + CORNER_BESIDE_M)
        return Corner(True, along_m, node.about("t", OFFSET_MAX_M), node.about("dz", ELEVATION_MAX_M, 0.0), height_m)
    u_m, v_m = (node.about(key, SIZE_MAX_M) for key in "uv")
    return Corner(False, u_m, v_m, node.about("z", ELEVATION_MAX_M, 0.0), height_m)


def read_signals(signals: Node | None, length_m: float, ignored: list[str], road_id: int) -> tuple[SignalRecord, ...]:
    """All signals of a road; what is neither a signal nor a reference to one is listed as ignored."""
    found = []
    for node in signals.children() if signals else ():
        if node.tag == "signal":
            found.append(_read_signal(node, length_m))
        elif node.tag != "signalReference":
            ignored.append(f"road {road_id}: signals <{node.tag}>")
    return tuple(found)


def read_signal_references(signals: Node | None, length_m: float) -> tuple[SignalReference, ...]:
    """All references of a road to signals that may stand elsewhere."""
    return tuple(
        SignalReference(node.text("id"), _inside(node, length_m), _orientation(node), _read_lanes(node))
        for node in (signals.children("signalReference") if signals else ())
    )


def _read_lanes(node: Node) -> tuple[tuple[int, int], ...]:
    return tuple(
        (part.integer("fromLane", LANE_ID_MAX), part.integer("toLane", LANE_ID_MAX)) for part in node.children("validity")
    )


def _orientation(node: Node) -> str:
    orientation = node.text("orientation", "+")
    if orientation not in {"+", "-", "none"}:
        raise node.fail(f"orientation '+', '-' or 'none' was wanted, but {orientation!r} came")
    return orientation


def _read_signal(node: Node, length_m: float) -> SignalRecord:
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
        lanes=_read_lanes(node),
    )
