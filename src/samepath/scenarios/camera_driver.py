"""A driver that goes by what its own sensors show: lane marks and kerbs in a picture of labels, obstacles in a LiDAR's points.

An example of perception in the loop, small enough to be read and real enough to drive through junctions and a town. What it
knows beside its sensors is what a car with a navigation system knows: its route, where along it the car is, and its speed.

*Lane.* The picture of labels lies behind a pinhole camera of known height h and pitch, over ground that is taken to be flat.
The ray of a pixel, u to the right and v down in units of the focal length, is (cos p + v sin p, u, -(v cos p - sin p)) in the
car's frame (p: pitch, up is positive), and meets the ground after h / (v cos p - sin p). Rows are read from near to far. In
each one the search begins at the middle of the lane as the row before had it, goes left and right over pixels of road, and
ends at the first that is none: a line, a kerb, grass. Two ends a lane apart give the middle between them. Where a dashed line
has a gap, or at one side of a junction, only the end on the right can be the lane's, and the middle lies half a lane from it.
A middle far from the route belongs to another lane and is not believed. Where no row tells anything, as in the midst of a
junction, the route does.

*Obstacles.* Of the LiDAR's points those count that stand above the ground in the strip that the car is about to sweep, an arc
of the curvature it steers. The nearest gives the gap g, and the speed is what still stops before it, v² = 2 b (g - margin).

Steering and pedals are those of the drivers with a script (pure pursuit, PID). Every number follows from the frames, the
route and the car's own state, with arithmetic that is the same on every machine: nothing is summed in an order of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import InputError, SimulatorError
from samepath.core.states import Command, VehicleCommand
from samepath.core.trig import sincos_deg
from samepath.scenarios.agents import Agent, SensorReading, WorldView
from samepath.scenarios.drivers import SpeedState, VehicleFollower, control_speed, pure_pursuit
from samepath.scenarios.paths import PathTracker, TrackerState

LABELS_KIND: Final = "sensor.camera.semantic_segmentation"
LIDAR_KIND: Final = "sensor.lidar.ray_cast"
# CARLA's label of what may be driven on; lines have one of their own.
_ROAD: Final = 1
# Of movers: they hide the ground, so that what lies behind them is not known.
_HIDING: Final = frozenset({12, 13, 14, 15, 16, 18, 19})
# Where rows of the picture are read, from the rear axle.
_NEAREST_M, _FARTHEST_M, _EVERY_M = 5.0, 16.0, 0.5
# Lanes of roads and towns, and what is taken where only one side is seen.
_NARROWEST_M, _WIDEST_M, _USUAL_M = 2.4, 4.6, 3.5
# A middle this far from the route is another lane's.
_BELIEVED_M: Final = 0.9
# Points lower than this are ground, on a car that pitches; higher ones are passed under.
_LOW_M, _HIGH_M, _CLEAR_M = 0.45, 2.2, 0.35
_REACH_M: Final = 35.0
_MARGIN_M: Final = 3.0
_BRAKING_MPS2: Final = 4.0
# As many returns as a thing must give: one may be a stray.
_RETURNS: Final = 2


@dataclass(frozen=True)
class PinholeView:
    """How a camera looks at the ground: where it sits (from the rear axle, over the ground), its pitch and focal length."""

    ahead_m: float
    right_m: float
    height_m: float
    pitch_deg: float
    focal_px: float
    width: int
    height: int

    @classmethod
    def of(cls, reading: SensorReading, rear_m: float) -> "PinholeView":
        """Read it off a sensor; ``rear_m`` is how far the rear axle is behind the actor's middle."""
        mount, (height, width) = reading.mount, reading.values.shape[:2]
        if mount.roll_deg or mount.yaw_deg or mount.z_m <= 0.0:
            raise InputError(f"sensor {reading.name!r}: a camera that looks straight ahead from above the ground was wanted")
        sine, cosine = sincos_deg(float(str(reading.attributes.get("fov", 90.0))) / 2.0)
        return cls(mount.x_m + rear_m, mount.y_m, mount.z_m, mount.pitch_deg, width / 2.0 * cosine / sine, width, height)

    def row_of(self, ahead_m: float) -> int | None:
        """The row of the picture in which the ground lies so far ahead of the rear axle; None: outside."""
        from_m = ahead_m - self.ahead_m
        if from_m <= 0.0:
            return None
        sine, cosine = sincos_deg(self.pitch_deg)
        # The inverse of the ray in the module's text: v = (h cos p + x sin p) / (x cos p - h sin p).
        below = (self.height_m * cosine + from_m * sine) / (from_m * cosine - self.height_m * sine)
        row = int(self.height / 2.0 + self.focal_px * below)
        return row if 0 <= row < self.height else None

    def metres_per_column(self, row: int) -> float:
        """How wide a pixel of a row is on the ground."""
        sine, cosine = sincos_deg(self.pitch_deg)
        v = (row + 0.5 - self.height / 2.0) / self.focal_px
        return self.height_m / (v * cosine - sine) / self.focal_px

    def column_of(self, right_m: float, per_column_m: float) -> int:
        """The column of a place so far right of the car's axis, in a row of so many metres a column."""
        return int(self.width / 2.0 + (right_m - self.right_m) / per_column_m)

    def right_of(self, column: float, per_column_m: float) -> float:
        """How far right of the car's axis the edge between two columns is."""
        return self.right_m + (column - self.width / 2.0) * per_column_m


@dataclass(frozen=True)
class LanePoint:
    """The middle of the lane, as one row of the picture has it: metres ahead of the rear axle and right of the axis."""

    ahead_m: float
    right_m: float


def lane_points(labels: NDArray[np.uint8], view: PinholeView) -> list[LanePoint]:
    """Read the middle of the lane ahead off a picture of labels u8[height, width], from near to far."""
    found: list[LanePoint] = []
    middle_m, wide_m, row_before = 0.0, _USUAL_M, -1
    for step in range(round((_FARTHEST_M - _NEAREST_M) / _EVERY_M) + 1):
        ahead_m = _NEAREST_M + _EVERY_M * step
        row = view.row_of(ahead_m)
        if row is None or row == row_before:
            continue
        row_before = row
        ends = _ends(labels[row], view.column_of(middle_m, per := view.metres_per_column(row)))
        if ends is None:
            break  # the ground is hidden there, or no road begins where the lane was: beyond, anything may be anybody's
        left_m, right_m = (None if end is None else view.right_of(end, per) for end in ends)
        if left_m is not None and right_m is not None and _NARROWEST_M <= right_m - left_m <= _WIDEST_M:
            wide_m = right_m - left_m
            middle_m = (left_m + right_m) / 2.0
        elif right_m is not None and right_m - middle_m <= _WIDEST_M / 2.0:
            middle_m = right_m - wide_m / 2.0
        else:
            continue
        found.append(LanePoint(ahead_m, middle_m))
    return found


def _ends(row: NDArray[np.uint8], start: int) -> tuple[int | None, int | None] | None:
    """The first column right of the left end of the road around ``start``, and the first one beyond its right end.

    None for an end where the road goes on to the picture's edge, or somebody stands before it.
    """
    if not 0 <= start < len(row) or row[start] != _ROAD:
        return None
    off = np.flatnonzero(row != _ROAD)
    left, right = off[off < start], off[off > start]
    left_end = int(left[-1]) + 1 if left.size and int(row[left[-1]]) not in _HIDING else None
    right_end = int(right[0]) if right.size and int(row[right[0]]) not in _HIDING else None
    return left_end, right_end


def gap_m(points: NDArray[np.float32], mount_ahead_m: float, mount_m: float, bend_per_m: float, half_m: float) -> float | None:
    """How far ahead of the rear axle something stands in the car's way; None: nothing does.

    ``points`` are a LiDAR's, f32[n, 4]; it sits ``mount_ahead_m`` before the axle and ``mount_m`` above the ground. The way
    is a strip of ``half_m`` to both sides along an arc of curvature ``bend_per_m`` (right is positive).
    """
    ahead = points[:, 0].astype(np.float64) + mount_ahead_m
    right, high = points[:, 1].astype(np.float64), points[:, 2].astype(np.float64) + mount_m
    aside = np.abs(right - 0.5 * bend_per_m * ahead * ahead)
    inside = (aside <= half_m) & (high >= _LOW_M) & (high <= _HIGH_M) & (ahead > 0.0) & (ahead <= _REACH_M)
    met = np.sort(ahead[inside])
    return float(met[_RETURNS - 1]) if met.size >= _RETURNS else None


@dataclass(frozen=True)
class CameraDriverState:
    """What the driver remembers: where along the route it is, its pedals' state, and how often the camera told the way."""

    tracker: TrackerState = field(default_factory=TrackerState)
    speed: SpeedState = field(default_factory=SpeedState)
    stopped: bool = False
    by_camera: int = 0
    by_route: int = 0


class CameraAgent(Agent):
    """Drives one vehicle by its rig; ``follower`` has the route, the speeds along it and the car's geometry."""

    def __init__(self, actor_id: int, follower: VehicleFollower, start_s: float, length_m: float, width_m: float) -> None:
        super().__init__(actor_id)
        self._follower = follower
        self._start_s = start_s - 1e-6
        self._front_m = follower.settings.rear_m + length_m / 2.0
        self._half_m = width_m / 2.0 + _CLEAR_M
        self.state = CameraDriverState()

    def decide(self, view: WorldView) -> Command:
        """Steer to the middle of the lane ahead, at a speed that stops before whatever stands there."""
        if view.time_s < self._start_s:
            return VehicleCommand(brake=1.0, hand_brake=True)
        readings, settings, was = view.sensors(self.actor_id), self._follower.settings, self.state
        me = view.states[self.actor_id]
        sine, cosine = sincos_deg(me.pose.yaw_deg)
        speed_mps = me.velocity_mps.x * cosine + me.velocity_mps.y * sine
        reach_m = max(_NEAREST_M + 0.5, settings.look_ahead_m + 0.5 * max(speed_mps, 0.0))
        tracker = PathTracker(self._follower.path, settings.look_ahead_m, settings.arrival_m, window_m=2.0)
        tracked = tracker.advance(was.tracker, me.pose.x_m, me.pose.y_m)
        rear_x, rear_y = me.pose.x_m - settings.rear_m * cosine, me.pose.y_m - settings.rear_m * sine

        def seen_from_axle(x_m: float, y_m: float) -> LanePoint:
            to_x, to_y = x_m - rear_x, y_m - rear_y
            return LanePoint(to_x * cosine + to_y * sine, to_y * cosine - to_x * sine)

        by_route = seen_from_axle(*PathTracker(self._follower.path, reach_m).look_ahead_point(tracked, beyond=True))
        by_camera = self._lane(readings, by_route, reach_m)
        target = by_camera or by_route
        steer = pure_pursuit(settings.steering, 0.0, 0.0, 1.0, 0.0, target.ahead_m, target.right_m)
        away = target.ahead_m * target.ahead_m + target.right_m * target.right_m
        free_m = self._free_m(readings, 2.0 * target.right_m / away if away > 0.0 else 0.0)
        seen, unseen = was.by_camera + (by_camera is not None), was.by_route + (by_camera is None)
        self.state = replace(was, by_camera=seen, by_route=unseen)
        if tracked.finished:
            stopped = was.stopped or abs(speed_mps) < 0.1
            self.state = replace(self.state, tracker=tracked, speed=SpeedState(0.0, speed_mps), stopped=stopped)
            return VehicleCommand(steer=steer, brake=1.0, hand_brake=stopped)
        wanted_mps = max(self._follower.speeds_mps[tracked.index], settings.creep_mps)
        if free_m is not None:
            wanted_mps = min(wanted_mps, (2.0 * _BRAKING_MPS2 * max(free_m - _MARGIN_M, 0.0)) ** 0.5)
        if wanted_mps == 0.0:
            # Something stands right before it: hold, and let the integral of the drive before be forgotten.
            self.state = replace(self.state, tracker=tracked, speed=SpeedState(0.0, speed_mps))
            return VehicleCommand(steer=steer, brake=1.0)
        pedals, speed = control_speed(settings.gains, was.speed, wanted_mps, speed_mps, settings.step_s)
        self.state = replace(self.state, tracker=tracked, speed=speed)
        return VehicleCommand(pedals.throttle, steer, pedals.brake)

    def _lane(self, readings: Mapping[str, SensorReading], by_route: LanePoint, reach_m: float) -> LanePoint | None:
        """The middle of the lane at about the distance looked ahead, if the picture shows it and it is the route's."""
        reading = _first(readings, LABELS_KIND, self.actor_id)
        points = lane_points(reading.values[..., 2], PinholeView.of(reading, self._follower.settings.rear_m))
        near = min(points, key=lambda point: (abs(point.ahead_m - reach_m), point.ahead_m), default=None)
        if near is None or abs(near.ahead_m - reach_m) > 2.0 or by_route.ahead_m <= 0.0:
            return None
        # The route's own offset where the lane was read: on a bend the two distances differ.
        there_m = by_route.right_m * near.ahead_m / by_route.ahead_m
        return near if abs(near.right_m - there_m) <= _BELIEVED_M else None

    def _free_m(self, readings: Mapping[str, SensorReading], bend_per_m: float) -> float | None:
        """How far the way before the bumper is free; None: as far as the LiDAR tells."""
        reading = _first(readings, LIDAR_KIND, self.actor_id)
        ahead_m = reading.mount.x_m + self._follower.settings.rear_m
        met_m = gap_m(reading.values, ahead_m, reading.mount.z_m, bend_per_m, self._half_m)
        return None if met_m is None else max(met_m - self._front_m, 0.0)

    @property
    def finished(self) -> bool:
        """Has it stopped at the end of its route?"""
        return self.state.stopped

    def to_plain(self) -> dict[str, Any]:
        """Return what the driver remembers."""
        state = self.state
        plain = {"tracker": state.tracker.to_plain(), "speed": state.speed.to_plain(), "stopped": state.stopped}
        return {**plain, "by_camera": state.by_camera, "by_route": state.by_route}

    def recall(self, plain: Mapping[str, Any]) -> None:
        """Take up what :meth:`to_plain` returned."""
        tracker, speed = TrackerState.from_plain(plain["tracker"]), SpeedState.from_plain(plain["speed"])
        counts = int(plain["by_camera"]), int(plain["by_route"])
        self.state = CameraDriverState(tracker, speed, bool(plain["stopped"]), *counts)


def _first(readings: Mapping[str, SensorReading], kind: str, actor_id: int) -> SensorReading:
    for reading in readings.values():
        if reading.kind == kind:
            return reading
    raise SimulatorError(
        f"actor {actor_id} is driven by its camera and needs a {kind} that measures at every step, but its rig has none: "
        "see the rig driver"
    )
