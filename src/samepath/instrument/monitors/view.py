"""What monitors see: some repeats of a cell as arrays ``[repeat, tick]``, and the quantities that follow from them.

A pair (repeat, tick) that is not there is NaN in every quantity of the actor, and stays it in whatever is computed from it:
nothing is filled. Rates (velocities that were not logged, accelerations, jerk) are central differences between the moments
that a repeat has. Sizes come from the catalogue of actor types, or from whoever wrote the monitors.

How far two actors are apart, and when they touch: exact plane geometry of footprints, for whole arrays of moments.

A footprint is a rectangle (vehicles, props) or a disc (walkers). Two rectangles are apart if one of their four sides separates
them (the separating axis theorem); the distance of two that are apart is that of some corner of one to the other. Where they
overlap the gap is negative: how far one must be pushed to be free. The time to contact is that of two footprints that keep
their velocities and headings; rectangles touch when the last of the four sides stops separating them, a disc touches a
rectangle when its centre enters the rectangle with rounded corners. All of it is closed form: no step, no tolerance.
"""

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from samepath.core.catalogue import ALIASES, CATALOGUE, WalkerType
from samepath.core.channels import POSITION, VELOCITY
from samepath.core.errors import InputError
from samepath.instrument.traces.cell import Block, CellTrace, RunInfo
from samepath.instrument.traces.records import Actor, EventKind

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_SIGNS: Final = ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0))


@dataclass(frozen=True)
class Size:
    """A rectangle of these half sides, or a disc where ``radius_m`` is more than 0."""

    half_length_m: float = 0.0
    half_width_m: float = 0.0
    radius_m: float = 0.0


@dataclass(frozen=True)
class Footprint:
    """An actor on the ground over time; the heading of a disc is not looked at."""

    size: Size
    x_m: Floats
    y_m: Floats
    heading_rad: Floats

    def axes(self) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """Unit vectors along and across."""
        cos, sin = np.cos(self.heading_rad), np.sin(self.heading_rad)
        return (cos, sin), (-sin, cos)

    def corners(self) -> list[tuple[Floats, Floats]]:
        """The four corners of a rectangle."""
        (ax, ay), (bx, by) = self.axes()
        length_m, width_m = self.size.half_length_m, self.size.half_width_m
        return [
            (self.x_m + i * length_m * ax + j * width_m * bx, self.y_m + i * length_m * ay + j * width_m * by)
            for i, j in _SIGNS
        ]


def gap_m(a: Footprint, b: Footprint) -> Floats:
    """Return the distance between two footprints; negative where they overlap."""
    if a.size.radius_m and b.size.radius_m:
        return np.hypot(b.x_m - a.x_m, b.y_m - a.y_m) - (a.size.radius_m + b.size.radius_m)
    if a.size.radius_m or b.size.radius_m:
        box, disc = (b, a) if a.size.radius_m else (a, b)
        return _outside(box, disc.x_m, disc.y_m) - disc.size.radius_m
    separation = np.maximum.reduce([np.abs(place) - reach for place, _, reach in _separations(a, b)])
    apart = np.minimum.reduce([*(_outside(b, x, y) for x, y in a.corners()), *(_outside(a, x, y) for x, y in b.corners())])
    return np.asarray(np.where(separation > 0, apart, separation), np.float64)


def contact_s(a: Footprint, b: Footprint, vx_mps: Floats, vy_mps: Floats) -> Floats:
    """Return when two footprints touch if ``b`` goes on at this velocity relative to ``a``: 0 where they do, inf for never."""
    if a.size.radius_m and b.size.radius_m:
        return _disc_entry(b.x_m - a.x_m, b.y_m - a.y_m, vx_mps, vy_mps, a.size.radius_m + b.size.radius_m)
    if a.size.radius_m or b.size.radius_m:
        box, disc, sign = (b, a, -1.0) if a.size.radius_m else (a, b, 1.0)
        return _rounded_entry(box, disc, sign * vx_mps, sign * vy_mps)
    slabs = [_slab(place, vx_mps * axis[0] + vy_mps * axis[1], reach) for place, axis, reach in _separations(a, b)]
    return _entry(slabs)


def _separations(a: Footprint, b: Footprint) -> list[tuple[Floats, tuple[Floats, Floats], Floats]]:
    """Of each side's direction: how far ``b`` is along it, the direction, and how far both reach together."""
    found = []
    for axis in (*a.axes(), *b.axes()):
        reach = sum(
            half * np.abs(side[0] * axis[0] + side[1] * axis[1])
            for box in (a, b)
            for side, half in zip(box.axes(), (box.size.half_length_m, box.size.half_width_m), strict=True)
        )
        found.append(((b.x_m - a.x_m) * axis[0] + (b.y_m - a.y_m) * axis[1], axis, np.asarray(reach)))
    return found


def _outside(box: Footprint, x_m: Floats, y_m: Floats) -> Floats:
    """Signed distance of points to a rectangle."""
    along, across = _local(box, x_m, y_m)
    dx, dy = np.abs(along) - box.size.half_length_m, np.abs(across) - box.size.half_width_m
    return np.hypot(np.maximum(dx, 0.0), np.maximum(dy, 0.0)) + np.minimum(np.maximum(dx, dy), 0.0)


def _local(box: Footprint, x_m: Floats, y_m: Floats) -> tuple[Floats, Floats]:
    (ax, ay), (bx, by) = box.axes()
    dx, dy = x_m - box.x_m, y_m - box.y_m
    return dx * ax + dy * ay, dx * bx + dy * by


def _slab(place: Floats, speed: Floats, reach: Floats | float) -> tuple[Floats, Floats]:
    """From when to when |place + speed t| <= reach."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        meets_low, meets_high = (-reach - place) / speed, (reach - place) / speed
    still = speed == 0
    inside = np.abs(place) <= reach
    enter = np.where(still, np.where(inside, -np.inf, np.inf), np.minimum(meets_low, meets_high))
    leave = np.where(still, np.where(inside, np.inf, -np.inf), np.maximum(meets_low, meets_high))
    return enter, leave


def _entry(slabs: list[tuple[Floats, Floats]]) -> Floats:
    enter, leave = np.maximum.reduce([slab[0] for slab in slabs]), np.minimum.reduce([slab[1] for slab in slabs])
    hit = (enter <= leave) & (leave >= 0)
    # A place that is not known makes a time that is not known, never a «never».
    return np.where(np.isnan(enter) | np.isnan(leave), np.nan, np.where(hit, np.maximum(enter, 0.0), np.inf))


def _disc_entry(x: Floats, y: Floats, vx: Floats, vy: Floats, reach: float) -> Floats:
    """When |p + v t| first is <= reach."""
    square, towards, room = vx * vx + vy * vy, x * vx + y * vy, x * x + y * y - reach * reach
    root = towards * towards - square * room
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # The smaller root as room / (...): the textbook form loses all its digits where contact is near.
        time = room / (-towards + np.sqrt(np.maximum(root, 0.0)))
    hit = (towards < 0) & (root >= 0)
    found = np.where(room <= 0, 0.0, np.where(hit, time, np.inf))
    return np.where(np.isnan(root), np.nan, found)


def _rounded_entry(box: Footprint, disc: Footprint, vx: Floats, vy: Floats) -> Floats:
    along, across = _local(box, disc.x_m, disc.y_m)
    (ax, ay), (bx, by) = box.axes()
    v_along, v_across = vx * ax + vy * ay, vx * bx + vy * by
    length_m, width_m, radius_m = box.size.half_length_m, box.size.half_width_m, disc.size.radius_m
    times = [
        _entry([_slab(along, v_along, length_m + radius_m), _slab(across, v_across, width_m)]),
        _entry([_slab(along, v_along, length_m), _slab(across, v_across, width_m + radius_m)]),
        *(_disc_entry(along - i * length_m, across - j * width_m, v_along, v_across, radius_m) for i, j in _SIGNS),
    ]
    return np.asarray(np.minimum.reduce(times), np.float64)


YAW: Final = "yaw_deg"
# What every quantity below may need, where it is logged.
BASE_CHANNELS: Final = (*POSITION, *VELOCITY, YAW)
# Slower than this an actor has no direction of its own: it keeps the last one.
_STANDING_MPS: Final = 0.05
WALKER_WORDS: Final = ("walker", "pedestrian")


class MonitoredRoads(Protocol):
    """A road map, as far as monitors need one. Arrays in, arrays out, in CARLA's frame; NaN in gives NaN out."""

    name: str

    def lane_offset_m(self, x_m: Floats, y_m: Floats) -> Floats:
        """How far points are to the right of the middle of the nearest driving lane."""
        ...

    def lane_width_m(self, x_m: Floats, y_m: Floats) -> Floats:
        """Width of that lane."""
        ...

    def lane_heading_rad(self, x_m: Floats, y_m: Floats) -> Floats:
        """Direction of driving of that lane."""
        ...

    def lane_number(self, x_m: Floats, y_m: Floats) -> Floats:
        """Which lane that is: a place in ``lane_names``."""
        ...

    def lane_names(self) -> tuple[str, ...]:
        """What lanes are called."""
        ...

    def speed_limit_mps(self, x_m: Floats, y_m: Floats) -> Floats:
        """The limit there; NaN where the map has none."""
        ...

    def road_margin_m(self, x_m: Floats, y_m: Floats) -> Floats:
        """Distance to the edge of what can be driven on; negative beside it."""
        ...


class NotApplicableError(Exception):
    """A monitor cannot be applied to a cell; the text says why, in one line."""


@dataclass(frozen=True)
class MonitoredScene:
    """What the monitors' author says of the scene: names of actors, sizes of types, the road map.

    A name stands for an id, for a pattern of types (``vehicle.*.truck``) or for a list of either.
    """

    names: Mapping[str, int | str | tuple[int | str, ...]] = field(default_factory=dict)
    sizes: Mapping[str, Size] = field(default_factory=dict)
    roads: MonitoredRoads | None = None


GROUPS: Final = ("ego", "others", "all", "vehicles", "walkers")


class RunsView:
    """A block of repeats; see the module. Quantities are kept once worked out: several monitors ask for the same."""

    def __init__(self, cell: CellTrace, block: Block, scene: MonitoredScene) -> None:
        self.scene = scene
        self.header = cell.header
        self.repeats = block.repeats
        self.actors: tuple[Actor, ...] = cell.actors
        self.ticks = cell.ticks
        self.step_s = cell.header.step_s
        self.time_s: Floats = np.asarray((cell.ticks - cell.ticks[:1]) * cell.header.step_s, np.float64)
        runs = {run.repeat: run for run in cell.runs}
        self.runs: tuple[RunInfo, ...] = tuple(runs[repeat] for repeat in block.repeats)
        self._place = {int(actor): index for index, actor in enumerate(cell.actor_ids)}
        self._values = block.values
        self._shape = (len(block.repeats), len(cell.ticks), len(cell.actor_ids))
        self._kept: dict[tuple[object, ...], Floats] = {}

    @property
    def shape(self) -> tuple[int, int]:
        """(repeats, ticks)."""
        return self._shape[:2]

    def _keep(self, key: tuple[object, ...], make: Callable[[], Floats]) -> Floats:
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def has(self, channel: str) -> bool:
        """Is a channel logged?"""
        return channel in self._values

    def channel(self, name: str, actor: int) -> Floats:
        """A channel of an actor."""
        if name not in self._values:
            raise NotApplicableError(f"its logs have no {name}")
        return self._values[name].reshape(self._shape)[:, :, self._place[actor]]

    # Who is meant.

    def ids(self, name: str | int) -> tuple[int, ...]:
        """The actors that a word stands for, by id; raises where there are none."""
        found = self._ids(name)
        if not found:
            raise NotApplicableError(f"it has no actor {name!r}" if isinstance(name, str) else f"it has no actor {name}")
        return found

    def _ids(self, name: str | int) -> tuple[int, ...]:
        known = sorted(self._place)
        if isinstance(name, int):
            return (name,) if name in self._place else ()
        given = self.scene.names.get(name)
        if given is not None:
            parts = given if isinstance(given, tuple) else (given,)
            return tuple(sorted({actor for part in parts for actor in self._matching(part)}))
        groups: dict[str, Callable[[int], bool]] = {
            "ego": lambda actor: actor == known[0],
            "others": lambda actor: actor not in self._ids("ego"),
            "walkers": self.is_walker,
            "vehicles": lambda actor: not self.is_walker(actor),
        }
        belongs = groups.get(name)
        return tuple(actor for actor in known if belongs is None or belongs(actor))

    def _matching(self, part: int | str) -> tuple[int, ...]:
        if isinstance(part, int):
            return (part,) if part in self._place else ()
        return tuple(actor for actor in sorted(self._place) if any(fnmatch.fnmatchcase(t, part) for t in self._types[actor]))

    @cached_property
    def _types(self) -> dict[int, tuple[str, ...]]:
        return {
            actor: tuple(sorted({known.type for known in self.actors if known.id == actor})) for actor in sorted(self._place)
        }

    def is_walker(self, actor: int) -> bool:
        """Is an actor a pedestrian, as far as the name of its type tells?"""
        kinds = [CATALOGUE.get(ALIASES.get(name, name)) for name in self._types[actor]]
        words = any(word in name.lower() for name in self._types[actor] for word in WALKER_WORDS)
        return words or any(isinstance(kind, WalkerType) for kind in kinds)

    def size(self, actor: int) -> Size:
        """How large an actor is."""
        for name in self._types[actor]:
            for pattern, size in self.scene.sizes.items():
                if fnmatch.fnmatchcase(name, pattern):
                    return size
            kind = CATALOGUE.get(ALIASES.get(name, name))
            if isinstance(kind, WalkerType):
                return Size(radius_m=kind.radius_m)
            if kind is not None:
                return Size(kind.length_m / 2, kind.width_m / 2)
        named = " or ".join(self._types[actor]) or "of no type"
        raise NotApplicableError(
            f"the size of actor {actor} ({named}) is not known: give it under sizes, such as sizes: {{{named}: [4.5 m, 1.8 m]}}"
        )

    # Quantities of one actor.

    def rate(self, values: Floats) -> Floats:
        """Change per second: central differences between the moments that a repeat has."""
        if values.shape[1] < 2:
            return np.full(values.shape, np.nan)
        if bool(np.isfinite(values).all()):
            return np.asarray(np.gradient(values, self.time_s, axis=1))
        found = np.full(values.shape, np.nan)
        for row, line in enumerate(values):
            known = np.flatnonzero(np.isfinite(line))
            if len(known) > 1:
                found[row, known] = np.gradient(line[known], self.time_s[known])
        return found

    def velocity(self, actor: int) -> tuple[Floats, Floats]:
        """Velocity on the ground: as logged, else from positions."""
        if self.has("vx_mps") and self.has("vy_mps"):
            return self.channel("vx_mps", actor), self.channel("vy_mps", actor)
        return (
            self._keep(("vx", actor), lambda: self.rate(self.channel("x_m", actor))),
            self._keep(("vy", actor), lambda: self.rate(self.channel("y_m", actor))),
        )

    def speed(self, actor: int) -> Floats:
        """Speed on the ground."""
        return self._keep(("speed", actor), lambda: np.hypot(*self.velocity(actor)))

    def acceleration(self, actor: int) -> Floats:
        """Change of speed; braking is negative."""
        return self._keep(("acceleration", actor), lambda: self.rate(self.speed(actor)))

    def jerk(self, actor: int) -> Floats:
        """Change of acceleration."""
        return self._keep(("jerk", actor), lambda: self.rate(self.acceleration(actor)))

    def lateral_acceleration(self, actor: int) -> Floats:
        """Acceleration across the direction of motion; 0 where there is no motion."""

        def make() -> Floats:
            vx, vy = self.velocity(actor)
            speed = self.speed(actor)
            across = vx * self.rate(vy) - vy * self.rate(vx)
            return np.divide(across, speed, out=np.where(np.isnan(speed), np.nan, 0.0), where=speed > _STANDING_MPS)

        return self._keep(("lateral", actor), make)

    def heading(self, actor: int) -> Floats:
        """Where an actor points, in radians: as logged, else where it moves; who stands keeps the last direction."""
        if self.has(YAW):
            return np.deg2rad(self.channel(YAW, actor))
        return self._keep(("heading", actor), lambda: self._course(actor))

    def _course(self, actor: int) -> Floats:
        vx, vy = self.velocity(actor)
        moving = self.speed(actor) > _STANDING_MPS
        columns = np.arange(moving.shape[1])
        last = np.maximum.accumulate(np.where(moving, columns, -1), axis=1)
        first = np.where(moving.any(axis=1), np.argmax(moving, axis=1), 0)[:, None]
        return np.asarray(np.take_along_axis(np.arctan2(vy, vx), np.where(last < 0, first, last), axis=1))

    def footprint(self, actor: int) -> Footprint:
        """An actor on the ground."""
        size = self.size(actor)
        x_m, y_m = self.channel("x_m", actor), self.channel("y_m", actor)
        return Footprint(size, x_m, y_m, np.zeros_like(x_m) if size.radius_m else self.heading(actor))

    # Quantities of two: of several others, the nearest counts.

    def nearest(self, actor: int, others: Sequence[int], of_two: Callable[[int, int], Floats]) -> Floats:
        """The smallest of a quantity over all others that are there; an actor is never its own other."""
        rest = [other for other in others if other != actor]
        if not rest:
            raise NotApplicableError(f"it has nobody but actor {actor}")
        return np.asarray(np.fmin.reduce([of_two(actor, other) for other in rest]), np.float64)

    def distance(self, a: int, b: int) -> Floats:
        """Between the actors' own points, on the ground."""
        return np.hypot(self.channel("x_m", a) - self.channel("x_m", b), self.channel("y_m", a) - self.channel("y_m", b))

    def gap(self, a: int, b: int) -> Floats:
        """Between the outlines; negative where they overlap."""
        return self._keep(("gap", *sorted((a, b))), lambda: gap_m(self.footprint(a), self.footprint(b)))

    def time_to_collision(self, a: int, b: int) -> Floats:
        """Until the outlines touch if both keep velocity and heading; inf if they never do."""

        def make() -> Floats:
            (ax, ay), (bx, by) = self.velocity(a), self.velocity(b)
            return contact_s(self.footprint(a), self.footprint(b), bx - ax, by - ay)

        return self._keep(("ttc", a, b), make)

    def contacts(self, actor: int, others: Sequence[int] | None) -> Floats:
        """How many collisions an actor has had until then; ``others`` None: with anybody and with scenery."""
        wanted = None if others is None else set(others)
        found = np.zeros(self.shape)
        for row, run in enumerate(self.runs):
            for event in run.events:
                if event.kind == EventKind.COLLISION and actor in (event.actor, event.other):
                    partner = event.other if event.actor == actor else event.actor
                    if wanted is None or partner in wanted:
                        found[row, np.searchsorted(self.ticks, event.tick) :] += 1
        return self._until_end(found)

    def events(self, kind: str) -> Floats:
        """How many events of a kind there have been until then."""
        found = np.zeros(self.shape)
        for row, run in enumerate(self.runs):
            for event in run.events:
                if event.kind == kind:
                    found[row, np.searchsorted(self.ticks, event.tick) :] += 1
        return self._until_end(found)

    def _until_end(self, counts: Floats) -> Floats:
        """A run that is over counts no further."""
        ends = np.array([run.end.tick for run in self.runs])
        return np.where(self.ticks[None, :] <= np.maximum(ends, self.ticks[0])[:, None], counts, np.nan)

    # Quantities of the road.

    @property
    def roads(self) -> MonitoredRoads:
        """The road map; raises where there is none."""
        if self.scene.roads is None:
            raise InputError("a map is needed for lanes and roads: give one, such as map: t-junction or map: Town05.xodr")
        return self.scene.roads

    def on_road(self, actor: int, ask: Callable[[MonitoredRoads, Floats, Floats], Floats], name: str) -> Floats:
        """Something of the road where an actor is."""
        place = self.channel("x_m", actor), self.channel("y_m", actor)
        return self._keep((name, actor), lambda: ask(self.roads, *place))

    def lane_margin(self, actor: int) -> Floats:
        """How far the outline is from the nearer border of the lane that the actor's point is on; negative beyond it."""
        width = self.on_road(actor, lambda roads, x, y: roads.lane_width_m(x, y), "lane width")
        offset = self.on_road(actor, lambda roads, x, y: roads.lane_offset_m(x, y), "lane offset")
        size = self.size(actor)
        half: Floats | float = size.radius_m
        if not half:
            turned = self.heading(actor) - self.on_road(actor, lambda roads, x, y: roads.lane_heading_rad(x, y), "lane heading")
            half = size.half_width_m * np.abs(np.cos(turned)) + size.half_length_m * np.abs(np.sin(turned))
        return width / 2 - np.abs(offset) - half

    def road_margin(self, actor: int) -> Floats:
        """How far the outermost corner is from the edge of the road; negative beside it."""

        def make() -> Floats:
            place = self.footprint(actor)
            if place.size.radius_m:
                return self.roads.road_margin_m(place.x_m, place.y_m) - place.size.radius_m
            margins = [self.roads.road_margin_m(x, y) for x, y in place.corners()]
            return np.asarray(np.minimum.reduce(margins), np.float64)

        return self._keep(("road margin", actor), make)

    # Lines and places.

    def crosses(self, actor: int, line: tuple[float, float, float, float]) -> Floats:
        """1 at the moment an actor's point has just gone over a line from one end to the other, else 0."""
        x, y = self.channel("x_m", actor), self.channel("y_m", actor)
        x1, y1, x2, y2 = line
        dx, dy = x2 - x1, y2 - y1
        side = (x - x1) * dy - (y - y1) * dx
        before = np.roll(side, 1, axis=1)
        passed = (before > 0) != (side > 0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            part = before / (before - side)
            px, py = np.roll(x, 1, axis=1) * (1 - part) + x * part, np.roll(y, 1, axis=1) * (1 - part) + y * part
            along = ((px - x1) * dx + (py - y1) * dy) / (dx * dx + dy * dy)
        hit = passed & (along >= 0) & (along <= 1) & np.isfinite(before) & np.isfinite(side)
        hit[:, 0] = False
        return np.where(np.isnan(side), np.nan, hit.astype(np.float64))

    def line_distance(self, actor: int, line: tuple[float, float, float, float]) -> Floats:
        """Distance of an actor's point to the line."""
        x, y = self.channel("x_m", actor), self.channel("y_m", actor)
        x1, y1, x2, y2 = line
        dx, dy = x2 - x1, y2 - y1
        part = np.clip(((x - x1) * dx + (y - y1) * dy) / (dx * dx + dy * dy), 0.0, 1.0)
        return np.hypot(x - x1 - part * dx, y - y1 - part * dy)

    def slowest_near(self, actor: int, near_m: float, line: tuple[float, float, float, float]) -> Floats:
        """The lowest speed until now of all moments within ``near_m`` of the line; inf where there was none."""
        near = np.where(self.line_distance(actor, line) <= near_m, self.speed(actor), np.inf)
        return np.where(np.isnan(self.speed(actor)), np.nan, np.fmin.accumulate(near, axis=1))

    def arrival(self, actor: int, x_m: float, y_m: float, radius_m: float) -> Floats:
        """When an actor first is within a circle, the same number at every moment; inf where it never is."""
        there = np.hypot(self.channel("x_m", actor) - x_m, self.channel("y_m", actor) - y_m) <= radius_m
        first = np.where(there.any(axis=1), self.time_s[np.argmax(there, axis=1)], np.inf)
        return np.broadcast_to(first[:, None], self.shape).copy()
