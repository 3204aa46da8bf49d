"""The traffic lights and signs of a map, from OpenDRIVE's signals, controllers and references. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from samepath.base.trig import sincos_deg
from samepath.sim.maps.lane_lines import Waypoint
from samepath.sim.maps.network import RoadMap
from samepath.sim.maps.records import Road, SignalRecord, SignalReference
from samepath.sim.maps.scenery import Signal

TRAFFIC_LIGHT: Final = "1000001"
_SIGNS: Final = {"205": "traffic.yield", "206": "traffic.stop"}
_SPEED_SIGN: Final = "274"
_BACK_M: Final = 0.5
# CARLA's trigger: a box of 3 m by half the lane that ends 1.5 m before the line.
_TRIGGER_HALF_M: Final = 1.5
_TRIGGER_BACK_M: Final = 3.0


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a lane meets the stop line of a light; ``forward`` is the direction of driving."""

    road_id: int
    lane_id: int
    s_m: float
    x_m: float
    y_m: float
    z_m: float
    yaw_deg: float
    forward_x: float
    forward_y: float
    half_width_m: float


@dataclass(frozen=True, slots=True)
class TrafficLight:
    """A light: its OpenDRIVE signal, what it speaks to, and its place in a junction's turn."""

    signal: Signal
    stops: tuple[Stop, ...]
    group: int
    phase: int
    pole: int = 0


@dataclass(frozen=True, slots=True)
class LightGroup:
    """Lights that must not be green at once: ``phases`` are lights by number, those of each controller; in turn."""

    junction_id: int | None
    phases: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class SignalPlan:
    """All lights of a map, in the order of the file, and their groups."""

    lights: tuple[TrafficLight, ...]
    groups: tuple[LightGroup, ...]

    def number(self, signal_id: str) -> int | None:
        """The place of the light with this OpenDRIVE id."""
        return next((index for index, one in enumerate(self.lights) if one.signal.id == signal_id), None)


def sign_type(signal: Signal) -> str:
    """The id of CARLA's actor for a signal: traffic.traffic_light, traffic.stop, traffic.speed_limit.50, ..."""
    if signal.kind == TRAFFIC_LIGHT:
        return "traffic.traffic_light"
    if signal.kind == _SPEED_SIGN and signal.value is not None:
        return f"traffic.speed_limit.{signal.value:g}"
    return _SIGNS.get(signal.kind, "traffic.unknown")


def plan_of(road_map: RoadMap) -> SignalPlan:
    """Find the lights of a map; those without a controller get one each, those without a junction a group each."""
    signals = [one for one in road_map.signals if one.kind == TRAFFIC_LIGHT]
    numbers = {one.id: index for index, one in enumerate(signals)}
    places: dict[int, tuple[int, int]] = {}
    groups: list[LightGroup] = []

    def add(junction_id: int | None, phases: Iterator[tuple[int, ...]]) -> None:
        fresh = [tuple(light for light in phase if light not in places) for phase in phases]
        kept = tuple(phase for phase in fresh if phase)
        places.update({light: (len(groups), index) for index, phase in enumerate(kept) for light in phase})
        if kept:
            groups.append(LightGroup(junction_id, kept))

    controlled = {
        one.id: tuple(dict.fromkeys(numbers[signal] for signal in one.signals if signal in numbers))
        for one in road_map.document.controllers
    }
    for junction in road_map.document.junctions:
        add(junction.id, (controlled.pop(one) for one in junction.controllers if one in controlled))
    for lights in controlled.values():
        add(None, iter([lights]))
    for light in range(len(signals)):
        if light not in places:
            add(None, iter([(light,)]))
    return SignalPlan(
        tuple(TrafficLight(one, tuple(_stops(road_map, one)), *places[index]) for index, one in enumerate(signals)),
        tuple(groups),
    )


def _stops(road_map: RoadMap, signal: Signal) -> Iterator[Stop]:
    """Where the signal stands and where it is referred to; a reference inside a junction means the lanes that lead there."""
    seen: set[tuple[int, int]] = set()
    for road in road_map.document.roads:
        written: tuple[SignalRecord | SignalReference, ...] = (*road.signals, *road.signal_references)
        for one in written:
            if one.id != signal.id:
                continue
            for point in _lane_points(road_map, road, one):
                if (point.road_id, point.lane_id) not in seen:
                    seen.add((point.road_id, point.lane_id))
                    sine, cosine = sincos_deg(point.yaw_deg)
                    yield Stop(
                        point.road_id, point.lane_id, point.s_m, point.x_m, point.y_m, point.z_m, point.yaw_deg,
                        cosine, sine, 0.5 * point.lane_width_m,
                    )  # fmt: skip


def _lane_points(road_map: RoadMap, road: Road, one: SignalRecord | SignalReference) -> Iterator[Waypoint]:
    s_m = min(max(one.s_m, 0.0), road.length_m)
    section = next(section for section in reversed(road.sections) if section.start_m <= s_m or section.index == 0)
    spans = [tuple(sorted(pair)) for pair in one.lanes] or [(min(lane.id for lane in section.lanes), 100)]
    for lane in section.lanes:
        against = lane.id > 0
        if lane.kind != "driving" or not any(low <= lane.id <= high for low, high in spans):
            continue
        if one.orientation != "none" and against != (one.orientation == "-"):
            continue
        point = road_map.waypoint_at(road.id, section.index, lane.id, s_m)
        if road.junction_id is None:
            yield point
        else:
            back_m = (road.length_m - s_m if against else s_m) + _BACK_M
            yield from (before for before in road_map.previous(point, back_m) if not before.is_junction)


def trigger_box(light: TrafficLight) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """CARLA's trigger volume of a light in the light's own frame: middle and half size; at the first of its lanes."""
    if not light.stops:
        return (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    stop, signal = light.stops[0], light.signal
    sine, cosine = sincos_deg(signal.yaw_deg)
    dx = stop.x_m - _TRIGGER_BACK_M * stop.forward_x - signal.x_m
    dy = stop.y_m - _TRIGGER_BACK_M * stop.forward_y - signal.y_m
    middle = (dx * cosine + dy * sine, dy * cosine - dx * sine, stop.z_m - signal.z_m + 1.0)
    return middle, (_TRIGGER_HALF_M, 0.5 * stop.half_width_m, 1.0)
