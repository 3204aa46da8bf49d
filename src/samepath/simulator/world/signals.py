"""Traffic lights: which there are on a map, the deterministic machine that switches them, and who stands at which.

The plan comes from OpenDRIVE's signals, controllers and references. In files of RoadRunner, which CARLA's towns are, the
``orientation`` of a signal is that of its face and contradicts the lanes it names; there the lanes count, as in CARLA.

A junction's controllers have their turn one after the other, each with its lights green, then yellow, then red; the red at the
end of a turn keeps the junction clear. All lights of a controller change together. Times are CARLA's: 10, 3, 2 s. Lights are
known by their place in the plan, which is their order in the file: ids of actors differ from episode to episode, places do not.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import SimulatorError
from samepath.core.trig import sincos_deg
from samepath.simulator.maps.lanes import Waypoint
from samepath.simulator.maps.network import RoadMap
from samepath.simulator.maps.records import Road, SignalRecord, SignalReference
from samepath.simulator.maps.scenery import Signal

TRAFFIC_LIGHT: Final = "1000001"
STOP_SIGN: Final = "206"
_SIGNS: Final = {"205": "traffic.yield", STOP_SIGN: "traffic.stop"}
SPEED_SIGN: Final = "274"
# How far before a junction its stop lines are. Town07 has roads of a centimetre between two junctions.
_BACKS_M: Final = (0.5, 0.1, 0.005)

# CARLA's trigger: a box of 3 m by half the lane that ends 1.5 m before the line.
_TRIGGER_HALF_M: Final = 1.5
_TRIGGER_BACK_M: Final = 3.0

GREEN_S, YELLOW_S, RED_S = 10.0, 3.0, 2.0

# Who is nearer to a stop line than it takes to brake at this rate, and at least so near, is at the light.
COMFORTABLE_BRAKE_MPS2: Final = 6.0
NEAR_M: Final = 3.0

# A front that is further over the line than this has left the light behind.
OVER_LINE_M: Final = 0.5
_MARGIN_M: Final = 0.1  # far more than sums of coordinates are rounded by
_ALONG_DEG: Final = 45.0


class TrafficLightState(IntEnum):
    """What a light shows, in CARLA's numbers."""

    RED = 0
    YELLOW = 1
    GREEN = 2
    OFF = 3
    UNKNOWN = 4


_STAGES: Final = (TrafficLightState.GREEN, TrafficLightState.YELLOW, TrafficLightState.RED)


class TrafficLightStatus(NamedTuple):
    """One light after a tick; the times are those of its controller."""

    shows: TrafficLightState
    green_s: float
    yellow_s: float
    red_s: float
    elapsed_s: float
    frozen: bool


@dataclass(frozen=True, slots=True)
class StopLine:
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
    stops: tuple[StopLine, ...]
    group: int
    phase: int
    pole: int = 0


@dataclass(frozen=True, slots=True)
class PrioritySign:
    """A stop or yield sign, and where it is to be obeyed."""

    signal: Signal
    stops: tuple[StopLine, ...]


@dataclass(frozen=True, slots=True)
class LightGroup:
    """Lights that must not be green at once: ``phases`` are lights by number, those of each controller; in turn."""

    junction_id: int | None
    phases: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class SignalPlan:
    """All lights of a map, in the order of the file, and their groups; and the signs that tell who goes first."""

    lights: tuple[TrafficLight, ...]
    groups: tuple[LightGroup, ...]
    signs: tuple[PrioritySign, ...] = ()

    def number(self, signal_id: str) -> int | None:
        """The place of the light with this OpenDRIVE id."""
        return next((index for index, light in enumerate(self.lights) if light.signal.id == signal_id), None)


def sign_type(signal: Signal) -> str:
    """The id of CARLA's actor for a signal: traffic.traffic_light, traffic.stop, traffic.speed_limit.50, ..."""
    if signal.kind == TRAFFIC_LIGHT:
        return "traffic.traffic_light"
    if signal.kind == SPEED_SIGN and signal.value is not None:
        return f"traffic.speed_limit.{signal.value:g}"
    return _SIGNS.get(signal.kind, "traffic.unknown")


def plan_of(road_map: RoadMap) -> SignalPlan:
    """Find the lights of a map; those without a controller get one each, those without a junction a group each."""
    signals = [signal for signal in road_map.signals if signal.kind == TRAFFIC_LIGHT]
    numbers = {signal.id: index for index, signal in enumerate(signals)}
    places: dict[int, tuple[int, int]] = {}
    groups: list[LightGroup] = []

    def add(junction_id: int | None, phases: Iterator[tuple[int, ...]]) -> None:
        fresh = [tuple(light for light in phase if light not in places) for phase in phases]
        kept = tuple(phase for phase in fresh if phase)
        places.update({light: (len(groups), index) for index, phase in enumerate(kept) for light in phase})
        if kept:
            groups.append(LightGroup(junction_id, kept))

    controlled = {
        controller.id: tuple(dict.fromkeys(numbers[signal] for signal in controller.signals if signal in numbers))
        for controller in road_map.document.controllers
    }
    for junction in road_map.document.junctions:
        add(
            junction.id,
            (controlled.pop(controller_id) for controller_id in junction.controllers if controller_id in controlled),
        )
    for lights in controlled.values():
        add(None, iter([lights]))
    for light in range(len(signals)):
        if light not in places:
            add(None, iter([(light,)]))
    return SignalPlan(
        tuple(TrafficLight(signal, tuple(_stops(road_map, signal)), *places[index]) for index, signal in enumerate(signals)),
        tuple(groups),
        tuple(PrioritySign(signal, tuple(_stops(road_map, signal))) for signal in road_map.signals if signal.kind in _SIGNS),
    )


def _stops(road_map: RoadMap, signal: Signal) -> Iterator[StopLine]:
    """Where the signal stands and where it is referred to; a reference inside a junction means the lanes that lead there."""
    seen: set[tuple[int, int]] = set()
    for road in road_map.document.roads:
        written: tuple[SignalRecord | SignalReference, ...] = (*road.signals, *road.signal_references)
        for record in written:
            if record.id != signal.id:
                continue
            for point in _lane_points(road_map, road, record):
                if (point.road_id, point.lane_id) not in seen:
                    seen.add((point.road_id, point.lane_id))
                    sine, cosine = sincos_deg(point.yaw_deg)
                    yield StopLine(
                        point.road_id, point.lane_id, point.s_m, point.x_m, point.y_m, point.z_m, point.yaw_deg,
                        cosine, sine, 0.5 * point.lane_width_m,
                    )  # fmt: skip


def _lane_points(road_map: RoadMap, road: Road, record: SignalRecord | SignalReference) -> Iterator[Waypoint]:
    s_m = min(max(record.s_m, 0.0), road.length_m)
    section = next(section for section in reversed(road.sections) if section.start_m <= s_m or section.index == 0)
    spans = [tuple(sorted(pair)) for pair in record.lanes] or [(min(lane.id for lane in section.lanes), 100)]
    named = [lane for lane in section.lanes if lane.kind == "driving" and any(low <= lane.id <= high for low, high in spans)]
    facing = [lane for lane in named if record.orientation == "none" or (lane.id > 0) == (record.orientation == "-")]
    # Lanes that are named count more than an orientation that leaves none of them.
    for lane in facing or (named if record.lanes else ()):
        against = lane.id > 0
        point = road_map.waypoint_at(road.id, section.index, lane.id, s_m)
        if road.junction_id is None:
            yield point
        else:
            into_m = road.length_m - s_m if against else s_m
            before = ([w for w in road_map.previous(point, into_m + back_m) if not w.is_junction] for back_m in _BACKS_M)
            yield from next(filter(None, before), [])


def actor_yaw_deg(light: TrafficLight | PrioritySign) -> float:
    """Where CARLA's actor of a light or sign looks: across the traffic it speaks to, to the right.

    Its clients count on that: they look for the lanes of a light along this direction. It is worked out from the lanes, where
    there are any: what a file says of the sign's face may be either side of it.
    """
    along_deg = light.stops[0].yaw_deg if light.stops else light.signal.yaw_deg
    return along_deg + 90.0 if along_deg <= 90.0 else along_deg - 270.0


def trigger_box(light: TrafficLight | PrioritySign) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """CARLA's trigger volume in the frame of the light's actor: middle and half size; it covers all lanes beside the first."""
    if not light.stops:
        return (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    first, signal = light.stops[0], light.signal
    sine, cosine = sincos_deg(actor_yaw_deg(light))
    beside = [stop for stop in light.stops if stop.road_id == first.road_id]
    across_m = [(stop.x_m - first.x_m) * cosine + (stop.y_m - first.y_m) * sine for stop in beside]
    right_m = max(at + 0.5 * stop.half_width_m for at, stop in zip(across_m, beside, strict=True))
    left_m = min(at - 0.5 * stop.half_width_m for at, stop in zip(across_m, beside, strict=True))
    aside_m = 0.5 * (left_m + right_m)
    dx = first.x_m - _TRIGGER_BACK_M * first.forward_x + aside_m * cosine - signal.x_m
    dy = first.y_m - _TRIGGER_BACK_M * first.forward_y + aside_m * sine - signal.y_m
    middle = (dx * cosine + dy * sine, dy * cosine - dx * sine, first.z_m - signal.z_m + 1.0)
    return middle, (0.5 * (right_m - left_m), _TRIGGER_HALF_M, 1.0)


@dataclass
class _ControllerState:
    """A controller: its lights by number and its times. Mutable: owned by the machine alone."""

    lights: tuple[int, ...]
    times_s: list[float]
    stage: int = len(_STAGES) - 1
    elapsed_s: float = 0.0


@dataclass
class _JunctionState:
    """The controllers of one junction."""

    phases: list[_ControllerState]
    current: int = 0
    frozen: bool = False


class Signals:
    """All traffic lights of a map. Lights are known by their place in the plan."""

    def __init__(self, plan: SignalPlan) -> None:
        self.plan = plan
        self.version = 0
        """Another one after every change but the passing of time."""
        self._shows = [TrafficLightState.RED] * len(plan.lights)
        times_s = [GREEN_S, YELLOW_S, RED_S]
        self._groups = [
            _JunctionState([_ControllerState(lights, list(times_s)) for lights in group.phases]) for group in plan.groups
        ]
        self.reset_all()

    def tick(self, step_s: float) -> None:
        """Let ``step_s`` pass."""
        for group in self._groups:
            if group.frozen:
                continue
            phase = group.phases[group.current]
            phase.elapsed_s += step_s
            # What a step overshoots is dropped: a stage lasts whole ticks, and at most one change happens per tick.
            if phase.elapsed_s <= phase.times_s[phase.stage]:
                continue
            phase.elapsed_s = 0.0
            if phase.stage == len(_STAGES) - 1:
                group.current = (group.current + 1) % len(group.phases)
                self._enter(group.phases[group.current], 0)
            else:
                self._enter(phase, phase.stage + 1)

    def _enter(self, phase: _ControllerState, stage: int) -> None:
        self.version += 1
        phase.stage, phase.elapsed_s = stage, 0.0
        for light in phase.lights:
            self._shows[light] = _STAGES[stage]

    def shows(self, light: int) -> TrafficLightState:
        """What a light shows now."""
        self._known(light)
        return self._shows[light]

    def shown(self) -> tuple[TrafficLightState, ...]:
        """What all lights show, in the order of the plan."""
        return tuple(self._shows)

    def states(self) -> tuple[TrafficLightStatus, ...]:
        """All lights, in the order of the plan."""
        return tuple(self._state(number) for number in range(len(self.plan.lights)))

    def elapsed_s(self) -> list[float]:
        """How long each light's controller has been in its stage, in the order of the plan."""
        groups = self._groups
        return [groups[light.group].phases[light.phase].elapsed_s for light in self.plan.lights]

    def _state(self, number: int) -> TrafficLightStatus:
        group, phase = self._place(number)
        green_s, yellow_s, red_s = phase.times_s
        return TrafficLightStatus(self._shows[number], green_s, yellow_s, red_s, phase.elapsed_s, group.frozen)

    def together(self, light: int) -> tuple[int, ...]:
        """The lights of the same junction, in the order of the plan."""
        group, _ = self._place(light)
        return tuple(sorted(number for phase in group.phases for number in phase.lights))

    def set_shown(self, light: int, shows: TrafficLightState) -> None:
        """Make one light show something, until its controller next changes; freeze its junction to keep it."""
        self._known(light)
        self.version += 1
        self._shows[light] = shows

    def set_times(
        self, light: int, *, green_s: float | None = None, yellow_s: float | None = None, red_s: float | None = None
    ) -> None:
        """Change how long the light's controller stays in a stage."""
        _, phase = self._place(light)
        self.version += 1
        for stage, time_s in enumerate((green_s, yellow_s, red_s)):
            if time_s is not None:
                if not 0.0 <= time_s <= 1e6:
                    raise SimulatorError(f"a time of 0 to 1e6 s was wanted for traffic light {light}, but {time_s} came")
                phase.times_s[stage] = time_s

    def freeze(self, light: int, *, frozen: bool) -> None:
        """Stop or start the clock of the light's junction."""
        self.version += 1
        self._place(light)[0].frozen = frozen

    def freeze_all(self, *, frozen: bool) -> None:
        """Stop or start all clocks."""
        self.version += 1
        for group in self._groups:
            group.frozen = frozen

    def reset_group(self, light: int) -> None:
        """Start the light's junction anew: its first controller green, all others red."""
        self._reset(self._place(light)[0])

    def reset_all(self) -> None:
        """Start every junction anew."""
        for group in self._groups:
            self._reset(group)

    def _reset(self, group: _JunctionState) -> None:
        for phase in group.phases:
            self._enter(phase, len(_STAGES) - 1)
        group.current = 0
        self._enter(group.phases[0], 0)

    def _known(self, light: int) -> None:
        if not 0 <= light < len(self.plan.lights):
            raise SimulatorError(f"there is no traffic light {light}; there are {len(self.plan.lights)}")

    def _place(self, light: int) -> tuple[_JunctionState, _ControllerState]:
        self._known(light)
        found = self.plan.lights[light]
        group = self._groups[found.group]
        return group, group.phases[found.phase]

    def snapshot(self) -> dict[str, Any]:
        """Everything the future depends on, as plain data."""
        groups = [
            {
                "current": group.current,
                "frozen": group.frozen,
                "phases": [[list(phase.times_s), phase.stage, phase.elapsed_s] for phase in group.phases],
            }
            for group in self._groups
        ]
        return {"shows": [int(state) for state in self._shows], "groups": groups}

    @classmethod
    def restore(cls, plan: SignalPlan, data: dict[str, Any]) -> "Signals":
        """The machine that :meth:`snapshot` was taken of."""
        signals = cls(plan)
        if len(data["shows"]) != len(plan.lights):
            raise SimulatorError(f"the snapshot has {len(data['shows'])} traffic lights, but the map has {len(plan.lights)}")
        signals._shows = [TrafficLightState(number) for number in data["shows"]]
        for group, kept in zip(signals._groups, data["groups"], strict=True):
            group.current, group.frozen = kept["current"], kept["frozen"]
            for phase, (times_s, stage, elapsed_s) in zip(group.phases, kept["phases"], strict=True):
                phase.times_s, phase.stage, phase.elapsed_s = list(times_s), stage, elapsed_s
        return signals


class StopLines:
    """Which vehicles are at which light, or at which sign, for all vehicles at once."""

    def __init__(self, lights: Sequence[TrafficLight | PrioritySign]) -> None:
        stops = [(number, stop) for number, light in enumerate(lights) for stop in light.stops]
        self._stops = stops
        self._x_m = np.array([[stop.x_m for _, stop in stops]], np.float64)
        self._y_m = np.array([[stop.y_m for _, stop in stops]], np.float64)
        self._widest_m = max((stop.half_width_m for _, stop in stops), default=0.0)

    def lights_ahead(
        self,
        x_m: NDArray[np.float64],
        y_m: NDArray[np.float64],
        yaw_deg: NDArray[np.float64],
        half_length_m: NDArray[np.float64],
        speed_mps: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        """The light each vehicle is at, by its place among those given; -1: at none.

        A vehicle is at a light on whose lane it drives, when its front is no further from the stop line than it needs to
        brake comfortably. (CARLA has boxes of 3 m there, too short to stop in from 50 km/h with road tyres.)
        """
        found = np.full(len(x_m), -1, np.int64)
        if not self._stops or not len(x_m):
            return found
        reach_m = np.maximum(NEAR_M, speed_mps * speed_mps / (2.0 * COMFORTABLE_BRAKE_MPS2))
        # Few are near any line. Who has one in a square around, as wide as it may matter, is looked at closely.
        square_m = (reach_m + half_length_m + (self._widest_m + _MARGIN_M))[:, None]
        near = np.abs(self._x_m - x_m[:, None]) <= square_m
        near &= np.abs(self._y_m - y_m[:, None]) <= square_m
        best_m: dict[int, float] = {}
        for vehicle, index in zip(*(places.tolist() for places in near.nonzero()), strict=True):
            light, stop = self._stops[index]
            dx, dy = stop.x_m - float(x_m[vehicle]), stop.y_m - float(y_m[vehicle])
            ahead_m = dx * stop.forward_x + dy * stop.forward_y - float(half_length_m[vehicle])
            if not -OVER_LINE_M <= ahead_m <= reach_m[vehicle]:
                continue
            if abs(dx * stop.forward_y - dy * stop.forward_x) >= stop.half_width_m:
                continue
            turned_deg = abs((float(yaw_deg[vehicle]) - stop.yaw_deg + 180.0) % 360.0 - 180.0)
            if turned_deg < _ALONG_DEG and ahead_m < best_m.get(vehicle, math.inf):
                best_m[vehicle], found[vehicle] = ahead_m, light
        return found
