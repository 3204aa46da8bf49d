"""What an OpenDRIVE file says, as frozen records in OpenDRIVE's own frame and units of metres, seconds and radians."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from samepath.simulator.maps.geometry import Cubic, CurvePoint, Geometry, cubic_at, geometry_at

DRIVABLE_KINDS: Final = frozenset(
    {
        "driving",
        "parking",
        "bidirectional",
        "entry",
        "exit",
        "onRamp",
        "offRamp",
        "connectingRamp",
        "stop",
        "shoulder",
        "slipLane",
    }
)


PLATE_LEAST_M: Final = 1.0
PLATE_M: Final = 2.1


@dataclass(frozen=True, slots=True)
class RoadMark:
    """A line painted on the outer border of a lane."""

    s_offset_m: float
    kind: str
    colour: str
    width_m: float


@dataclass(frozen=True, slots=True)
class SpeedLimit:
    """A limit that holds from a distance on; None: no limit."""

    start_m: float
    max_mps: float | None


@dataclass(frozen=True, slots=True)
class LaneHeight:
    """The lane's surface above the road, at its inner and outer border."""

    s_offset_m: float
    inner_m: float
    outer_m: float


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane of one section; widths start at offsets from the section's start."""

    id: int
    kind: str
    widths: tuple[Cubic, ...]
    predecessor: int | None
    successor: int | None
    marks: tuple[RoadMark, ...]
    speeds: tuple[SpeedLimit, ...]
    heights: tuple[LaneHeight, ...]

    @property
    def is_drivable(self) -> bool:
        """May a wheel be on it?"""
        return self.kind in DRIVABLE_KINDS


@dataclass(frozen=True, slots=True)
class LaneSection:
    """A stretch of road with a constant number of lanes, sorted from the leftmost (highest id) to the rightmost."""

    index: int
    start_m: float
    end_m: float
    lanes: tuple[Lane, ...]
    _by_id: Mapping[int, Lane] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_id", {lane.id: lane for lane in reversed(self.lanes)})

    def lane(self, lane_id: int) -> Lane | None:
        """The lane with this id."""
        return self._by_id.get(lane_id)


@dataclass(frozen=True, slots=True)
class RoadLink:
    """What a road continues into: a road at one of its ends, or a junction."""

    kind: str
    id: int
    contact: str | None


@dataclass(frozen=True, slots=True)
class Corner:
    """A corner of an object's outline: (s, t) of the road or (u, v) of the object, height above the road."""

    is_road: bool
    first_m: float
    second_m: float
    z_m: float
    height_m: float


@dataclass(frozen=True, slots=True)
class RoadObject:
    """Something beside or on the road."""

    id: str
    name: str
    kind: str
    s_m: float
    t_m: float
    z_offset_m: float
    heading_rad: float
    length_m: float
    width_m: float
    height_m: float
    radius_m: float
    outline: tuple[Corner, ...]


@dataclass(frozen=True, slots=True)
class SignalRecord:
    """A sign or traffic light as written on the road; ``lanes`` are pairs from..to it speaks to, none: all of its side.

    ``is_painted``: it lies on the road, and nothing stands there.
    """

    id: str
    name: str
    kind: str
    subtype: str
    country: str
    s_m: float
    t_m: float
    z_offset_m: float
    heading_rad: float
    orientation: str
    is_dynamic: bool
    value: float | None
    unit: str
    height_m: float
    width_m: float
    lanes: tuple[tuple[int, int], ...] = ()
    is_painted: bool = False

    @property
    def plate_m(self) -> float:
        """How high the plate hangs above its foot; files that name the foot of a post leave it to us."""
        return self.z_offset_m if self.z_offset_m >= PLATE_LEAST_M else PLATE_M


@dataclass(frozen=True, slots=True)
class SignalReference:
    """A signal written elsewhere that also speaks to lanes of this road; ``lanes`` are pairs from..to, none: all."""

    id: str
    s_m: float
    orientation: str
    lanes: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Road:
    """One road: a reference line with lanes, objects and signals along it."""

    id: int
    name: str
    length_m: float
    junction_id: int | None
    predecessor: RoadLink | None
    successor: RoadLink | None
    speeds: tuple[SpeedLimit, ...]
    plan: tuple[Geometry, ...]
    elevation: tuple[Cubic, ...]
    lane_offset: tuple[Cubic, ...]
    sections: tuple[LaneSection, ...]
    objects: tuple[RoadObject, ...]
    signals: tuple[SignalRecord, ...]
    signal_references: tuple[SignalReference, ...] = ()

    def pose(self, s_m: float) -> CurvePoint:
        """The reference line at ``s_m``, clamped to the road."""
        inside = min(max(s_m, 0.0), self.length_m)
        return geometry_at(self.plan, inside).pose(inside)

    def elevation_m(self, s_m: float) -> float:
        """Height of the reference line, clamped to the road: past its end a cubic goes anywhere."""
        inside = min(max(s_m, 0.0), self.length_m)
        piece = cubic_at(self.elevation, inside)
        return piece.value(inside) if piece else 0.0


@dataclass(frozen=True, slots=True)
class JunctionConnection:
    """One way through a junction: lane pairs from an incoming road onto a connecting road."""

    id: str
    incoming_road: int
    connecting_road: int
    contact: str
    lane_links: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Junction:
    """A set of connections."""

    id: int
    name: str
    connections: tuple[JunctionConnection, ...]
    controllers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SignalController:
    """Traffic lights that change together."""

    id: str
    name: str
    signals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpenDrive:
    """A whole file; ``ignored`` lists what was read past, because it changes neither roads nor surfaces.

    ``dead_links`` lists the links to roads and junctions that the file does not hold: a road ends there.
    """

    name: str
    georeference: str
    box: tuple[float, float, float, float] | None
    roads: tuple[Road, ...]
    junctions: tuple[Junction, ...]
    ignored: tuple[str, ...]
    controllers: tuple[SignalController, ...] = ()
    by_roadrunner: bool = False
    dead_links: tuple[str, ...] = ()
