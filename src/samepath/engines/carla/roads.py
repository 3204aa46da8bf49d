"""An OpenDRIVE map as monitors ask for it: lanes and edges of the road at whole arrays of places.

Lanes are the sampled centre lines of the map's own reader, at most half a metre between samples, and each piece bent into the
arc that its ends' headings say: the error against the exact curve is of fourth order, micrometres. The road is the union of the
surfaces that wheels may be on. Its edge are those pieces of their outlines beyond which there is no other surface.
"""

import math
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.simulator.maps import RoadMap, load_map

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# Nearest pieces that are looked at: lanes lie side by side and over each other, and the nearest middle may be another's.
_CANDIDATES: Final = 24
_EDGE_PIECE_M: Final = 0.25
# Just beyond an edge: more than the grid on which corners lie, less than any gap that is meant.
_BEYOND_M: Final = 2e-3


class LaneRoads:
    """See the module. Everything is worked out on first use and kept."""

    def __init__(self, road_map: RoadMap) -> None:
        self.name = road_map.name
        self._map = road_map
        lines = [line for line in road_map.lanes if line.kind == "driving"]
        self._names = tuple(f"road {line.key.road_id} section {line.key.section_id} lane {line.key.lane_id}" for line in lines)
        self._start = np.vstack([line.points[:-1, :2] for line in lines])
        self._step = np.vstack([line.points[1:, :2] - line.points[:-1, :2] for line in lines])
        self._length = np.hypot(self._step[:, 0], self._step[:, 1])
        yaw = [np.unwrap(np.deg2rad(line.yaw_deg)) for line in lines]
        self._yaw = np.concatenate([each[:-1] for each in yaw])
        self._turn = np.concatenate([np.diff(each) for each in yaw])
        self._width = np.concatenate([line.width_m[:-1] for line in lines])
        self._wider = np.concatenate([np.diff(line.width_m) for line in lines])
        self._s = np.concatenate([line.s_m[:-1] for line in lines])
        self._line = np.concatenate([np.full(len(line.points) - 1, index) for index, line in enumerate(lines)])
        # Along a lane that is driven against the road's direction stations fall.
        self._farther = np.concatenate([np.diff(line.s_m) for line in lines])
        self._keys = [line.key for line in lines]
        self._asked: dict[bytes, tuple[Ints, Floats]] = {}
        self._edges: tuple[Floats, Floats] | None = None

    # Lanes.

    def _nearest(self, x_m: Floats, y_m: Floats) -> tuple[Ints, Floats, Floats]:
        """Of each place: the nearest piece of a centre line (-1: the place is not known), where on it, how far to the right."""
        flat_x, flat_y = np.ravel(x_m), np.ravel(y_m)
        known = np.flatnonzero(np.isfinite(flat_x) & np.isfinite(flat_y))
        piece = np.full(flat_x.shape, -1, np.int64)
        part, offset = np.full(flat_x.shape, np.nan), np.full(flat_x.shape, np.nan)
        if len(known):
            # Repeats that are alike ask for the same places: each is looked up once.
            places, back = np.unique(np.column_stack([flat_x[known], flat_y[known]]), axis=0, return_inverse=True)
            found = [column[np.ravel(back)] for column in self._find(places)]
            piece[known], part[known], offset[known] = found[0].astype(np.int64), found[1], found[2]
        return piece, part, offset

    def _find(self, places: Floats) -> tuple[Floats, Floats, Floats]:
        from scipy.spatial import cKDTree

        middle = self._start + 0.5 * self._step
        tree = cKDTree(middle)
        count = min(_CANDIDATES, len(middle))
        _, near = tree.query(places, k=count)
        near = np.sort(np.reshape(near, (len(places), count)), axis=1)  # ties go to the lane that comes first in the file
        away = places[:, None, :] - self._start[near]
        step, length = self._step[near], np.maximum(self._length[near], 1e-12)
        part = np.clip((away * step).sum(axis=2) / length**2, 0.0, 1.0)
        foot = away - part[:, :, None] * step
        # In CARLA's frame y points right of x: the cross product is positive for what is to the right.
        across = (step[:, :, 0] * foot[:, :, 1] - step[:, :, 1] * foot[:, :, 0]) / length
        beyond = np.abs((foot * step).sum(axis=2)) / length
        # A piece is the arc that its ends' headings say; it bulges from its chord to the outside of the turn.
        across = across + 0.5 * part * (1 - part) * length * self._turn[near]
        best = np.argmin(np.hypot(across, beyond), axis=1)
        rows = np.arange(len(places))
        return near[rows, best].astype(np.float64), part[rows, best], across[rows, best]

    def _kept(self, x_m: Floats, y_m: Floats) -> tuple[Ints, Floats, Floats]:
        """Several questions are asked of the same places, one after the other."""
        key = x_m.tobytes() + y_m.tobytes()
        if key not in self._asked:
            self._asked.clear()
            piece, part, offset = self._nearest(x_m, y_m)
            self._asked[key] = piece, np.stack([part, offset])
        piece, numbers = self._asked[key]
        return piece, numbers[0], numbers[1]

    def _shaped(self, values: Floats, piece: Ints, like: Floats) -> Floats:
        return np.where(piece < 0, np.nan, values).reshape(like.shape)

    def lane_offset_m(self, x_m: Floats, y_m: Floats) -> Floats:
        """How far places are to the right of the middle of the nearest driving lane."""
        piece, _, offset = self._kept(x_m, y_m)
        return self._shaped(offset, piece, x_m)

    def lane_width_m(self, x_m: Floats, y_m: Floats) -> Floats:
        """Width of that lane."""
        piece, part, _ = self._kept(x_m, y_m)
        return self._shaped(self._width[piece] + part * self._wider[piece], piece, x_m)

    def lane_heading_rad(self, x_m: Floats, y_m: Floats) -> Floats:
        """Direction of driving of that lane."""
        piece, part, _ = self._kept(x_m, y_m)
        return self._shaped(self._yaw[piece] + part * self._turn[piece], piece, x_m)

    def lane_number(self, x_m: Floats, y_m: Floats) -> Floats:
        """Which lane that is: a place in ``lane_names``."""
        piece, _, _ = self._kept(x_m, y_m)
        return self._shaped(self._line[piece].astype(np.float64), piece, x_m)

    def lane_names(self) -> tuple[str, ...]:
        """What lanes are called."""
        return self._names

    def speed_limit_mps(self, x_m: Floats, y_m: Floats) -> Floats:
        """The limit there, a lane's own before its road's; NaN where the map has none."""
        piece, part, _ = self._kept(x_m, y_m)
        station = self._s[piece] + part * self._farther[piece]
        limits = np.full(piece.shape, np.nan)
        for number in np.unique(self._line[piece[piece >= 0]]).tolist():
            here = np.flatnonzero((piece >= 0) & (self._line[piece] == number))
            starts, values = self._limits(number)
            # A limit holds from its station on; before the first there is none.
            at = np.searchsorted(starts, station[here], "right") - 1
            limits[here] = np.where(at < 0, np.nan, values[np.maximum(at, 0)])
        return self._shaped(limits, piece, x_m)

    def _limits(self, number: int) -> tuple[Floats, Floats]:
        """Stations of the road at which the limit of a lane changes, and to what; NaN where the map says that there is none."""
        key = self._keys[number]
        road = next(road for road in self._map.document.roads if road.id == key.road_id)
        section = road.sections[key.section_id]
        lane = next(lane for lane in section.lanes if lane.id == key.lane_id)
        own = [(section.start_m + limit.start_m, limit.max_mps) for limit in lane.speeds]
        # From the first of its own on a lane no longer follows its road.
        first_m = min((start_m for start_m, _ in own), default=math.inf)
        found = sorted([(limit.start_m, limit.max_mps) for limit in road.speeds if limit.start_m < first_m] + own)
        starts = np.array([start_m for start_m, _ in found] or [math.inf])
        return starts, np.array([math.nan if value is None else value for _, value in found] or [math.nan])

    # The road.

    def road_margin_m(self, x_m: Floats, y_m: Floats) -> Floats:
        """Distance to the edge of the road; negative beside it."""
        flat = np.column_stack([np.ravel(x_m), np.ravel(y_m)])
        known = np.flatnonzero(np.isfinite(flat).all(axis=1))
        found = np.full(len(flat), np.nan)
        if len(known):
            places, back = np.unique(flat[known], axis=0, return_inverse=True)
            found[known] = self._margin(places)[np.ravel(back)]
        return found.reshape(x_m.shape)

    def _margin(self, places: Floats) -> Floats:
        from scipy.spatial import cKDTree

        if self._edges is None:
            self._edges = self._outline()
        starts, steps = self._edges
        tree = cKDTree(starts + 0.5 * steps)
        count = min(8, len(starts))
        _, near = tree.query(places, k=count)
        near = np.reshape(near, (len(places), count))
        away = places[:, None, :] - starts[near]
        square = np.maximum((steps[near] ** 2).sum(axis=2), 1e-24)
        part = np.clip((away * steps[near]).sum(axis=2) / square, 0.0, 1.0)
        rest = away - part[:, :, None] * steps[near]
        distance = np.hypot(rest[:, :, 0], rest[:, :, 1]).min(axis=1)
        return np.asarray(np.where(self._on_surface(places), distance, -distance), np.float64)

    def _on_surface(self, places: Floats) -> NDArray[np.bool_]:
        """Is a place on any surface? Surfaces that touch leave no gap: a hair's breadth to either side counts."""
        shifts = ((0.0, 0.0), (_BEYOND_M, 0.0), (-_BEYOND_M, 0.0), (0.0, _BEYOND_M), (0.0, -_BEYOND_M))
        inside = [self._inside(places + np.array(shift)) for shift in shifts]
        # Between two surfaces there is one on both sides; at the edge of the road only on one.
        between = (inside[1] & inside[2]) | (inside[3] & inside[4])
        return inside[0] | between

    def _inside(self, places: Floats) -> NDArray[np.bool_]:
        found = np.zeros(len(places), np.bool_)
        for polygon in self._map.drivable:
            corners = polygon.vertices[:, :2]
            low, high = corners.min(axis=0), corners.max(axis=0)
            near = np.flatnonzero(~found & (places >= low).all(axis=1) & (places <= high).all(axis=1))
            if len(near):
                found[near] = _in_ring(corners, places[near])
        return found

    def _outline(self) -> tuple[Floats, Floats]:
        """Pieces of all outlines that have no surface beyond them."""
        starts, steps = [], []
        for polygon in self._map.drivable:
            corners = polygon.vertices[:, :2]
            sides = np.roll(corners, -1, axis=0) - corners
            for corner, side in zip(corners, sides, strict=True):
                pieces = max(1, math.ceil(float(np.hypot(*side)) / _EDGE_PIECE_M))
                starts.append(corner + side * (np.arange(pieces) / pieces)[:, None])
                steps.append(np.broadcast_to(side / pieces, (pieces, 2)))
        start, step = np.vstack(starts), np.vstack(steps)
        length = np.hypot(step[:, 0], step[:, 1])
        start, step, length = start[length > 0], step[length > 0], length[length > 0]
        normal = np.column_stack([-step[:, 1], step[:, 0]]) / length[:, None]
        middle = start + 0.5 * step
        # Whichever way an outline runs, its own surface is on one side; another on the other side makes it no edge.
        both = self._inside(middle + _BEYOND_M * normal) & self._inside(middle - _BEYOND_M * normal)
        return start[~both], step[~both]


def _in_ring(corners: Floats, places: Floats) -> NDArray[np.bool_]:
    """Count how often a ray to the right meets the ring."""
    x0, y0 = corners[:, 0], corners[:, 1]
    x1, y1 = np.roll(x0, -1), np.roll(y0, -1)
    found = np.zeros(len(places), np.bool_)
    # In bounded slices: a ring of two thousand corners times a million places would not fit.
    size = max(1, (1 << 22) // max(1, len(corners)))
    for begin in range(0, len(places), size):
        x, y = places[begin : begin + size, :1], places[begin : begin + size, 1:]
        spans = (y0 > y) != (y1 > y)
        with np.errstate(divide="ignore", invalid="ignore"):
            meets = x < (x1 - x0) * (y - y0) / (y1 - y0) + x0
        found[begin : begin + size] = (spans & meets).sum(axis=1) % 2 == 1
    return found


@lru_cache(maxsize=4)
def read_roads(name: str) -> LaneRoads:
    """Read a map: one of ours by name, an OpenDRIVE file, or one by its name in ``SAMEPATH_MAPS``."""
    return LaneRoads(load_map(name))
