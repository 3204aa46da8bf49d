"""A controller for a walker: go from waypoint to waypoint, and around who is in the way.

Between waypoints the walker goes straight where the cells are free and else along an A* path. Every few ticks it compares
its way ahead with the others it can see, up to its look-ahead distance; where it would come too near, the cells around
the meeting point are blocked and the way to the first waypoint beyond them is planned anew. The earlier
drafts of the paper use distances of 0.4, 2 and 20 m (tests 6 to 8): the shorter, the surer two walkers bump into each other.

Walkers keep right: the blocked disc reaches further to the walker's left, so that two who meet head on do not dodge to the
same side.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np

from samepath.core.errors import InputError
from samepath.core.states import WalkerCommand
from samepath.scenarios.astar import (
    STRAIGHT_COST,
    Cell,
    Grid,
    line_of_sight,
    make_queue,
    octile_cost,
    shortest_path,
    straighten,
)

Point = tuple[float, float]

# How finely a walker's own way ahead is compared with others, who are taken to keep their velocity.
SAMPLE_S: Final = 0.1
# A way round somebody may be this much longer than twice the straight one.
_DETOUR_M: Final = 20.0


@dataclass(frozen=True)
class WalkerObstacle:
    """Another actor as a walker sees it: a disc with a velocity."""

    x_m: float
    y_m: float
    velocity_x_mps: float
    velocity_y_mps: float
    radius_m: float


@dataclass(frozen=True)
class Meeting:
    """Where an obstacle will be when it first comes too near; the walker's direction and how far it has walked by then."""

    x_m: float
    y_m: float
    direction_x: float
    direction_y: float
    walked_m: float
    obstacle: WalkerObstacle


def distance_m(ax: float, ay: float, bx: float, by: float) -> float:
    """Return the distance of two points."""
    return math.sqrt((ax - bx) * (ax - bx) + (ay - by) * (ay - by))


def walk(start: Point, way: Sequence[Point], step_m: float, length_m: float) -> Iterator[tuple[float, float, float, float]]:
    """Yield position and direction every ``step_m`` along ``way``, for ``length_m`` or until it ends."""
    x, y = start
    into_m, walked_m = 0.0, 0.0
    for next_x, next_y in way:
        size = distance_m(x, y, next_x, next_y)
        if size == 0.0:
            continue
        direction_x, direction_y = (next_x - x) / size, (next_y - y) / size
        while into_m <= size and walked_m <= length_m:
            yield x + direction_x * into_m, y + direction_y * into_m, direction_x, direction_y
            into_m += step_m
            walked_m += step_m
        if walked_m > length_m:
            return
        into_m -= size
        x, y = next_x, next_y


def meetings(
    start: Point,
    way: Sequence[Point],
    speed_mps: float,
    look_ahead_m: float,
    clearance_m: float,
    obstacles: Sequence[WalkerObstacle],
) -> list[Meeting]:
    """Return the first meeting with each obstacle that is within ``look_ahead_m`` and will come too near on that stretch.

    Too near is closer than ``clearance_m`` plus the obstacle's radius. Distances are between centres: with a look-ahead
    shorter than two bodies are wide, nothing is seen before it is touched.
    """
    seen = [o for o in obstacles if distance_m(start[0], start[1], o.x_m, o.y_m) <= look_ahead_m]
    if not seen:
        return []
    step_m = speed_mps * SAMPLE_S
    track = list(walk(start, way, step_m, look_ahead_m))
    found = []
    for obstacle in seen:
        limit = clearance_m + obstacle.radius_m
        for k, (x, y, direction_x, direction_y) in enumerate(track):
            other_x = obstacle.x_m + obstacle.velocity_x_mps * (k * SAMPLE_S)
            other_y = obstacle.y_m + obstacle.velocity_y_mps * (k * SAMPLE_S)
            if (x - other_x) * (x - other_x) + (y - other_y) * (y - other_y) < limit * limit:
                found.append(Meeting(other_x, other_y, direction_x, direction_y, k * step_m, obstacle))
                break
    return found


@dataclass(frozen=True)
class WalkerObservation:
    """What a walker knows of itself."""

    x_m: float
    y_m: float


@dataclass(frozen=True)
class WalkerSettings:
    """How a walker walks; ``step_s`` is the control period, ``replan_ticks`` how many of them pass between looks ahead."""

    step_s: float
    speed_mps: float = 1.4
    look_ahead_m: float = 2.0
    radius_m: float = 0.3
    margin_m: float = 0.2
    arrival_m: float = 0.1
    snap_m: float = 1.0
    replan_ticks: int = 10
    queue: str = "stable"

    def __post_init__(self) -> None:
        for name in ("step_s", "speed_mps", "look_ahead_m", "radius_m", "arrival_m", "replan_ticks"):
            value = getattr(self, name)
            if not 0.0 < value < math.inf:
                raise InputError(f"a positive {name} was wanted, but {value!r} came")
        if not (0.0 <= self.margin_m < math.inf and 0.0 <= self.snap_m < math.inf):
            raise InputError(
                f"a margin and a snap limit of at least 0 were wanted, but {self.margin_m!r}, {self.snap_m!r} came"
            )
        if not isinstance(self.replan_ticks, int):
            raise InputError(f"a whole number of ticks was wanted between looks ahead, but {self.replan_ticks!r} came")
        make_queue(self.queue)


@dataclass(frozen=True)
class WalkerState:
    """What a walker remembers: ``plan`` holds the corners still ahead, the last of them waypoint number ``waypoint``.

    ``plans`` counts the plans made, which names the stream of chance of the next one.
    """

    waypoint: int
    plan: tuple[Point, ...]
    tick: int = 0
    plans: int = 0
    finished: bool = False

    def to_plain(self) -> dict[str, object]:
        """Return the state as plain data."""
        return {
            "waypoint": self.waypoint,
            "plan": [[x, y] for x, y in self.plan],
            "tick": self.tick,
            "plans": self.plans,
            "finished": self.finished,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, object]) -> "WalkerState":
        """Read what :meth:`to_plain` wrote."""
        waypoint, plan, tick, plans = plain["waypoint"], plain["plan"], plain["tick"], plain["plans"]
        if not (
            isinstance(waypoint, int) and isinstance(plan, list | tuple) and isinstance(tick, int) and isinstance(plans, int)
        ):
            raise InputError(f"a walker state as written by to_plain was wanted, but {dict(plain)!r} came")
        return cls(waypoint, tuple((float(x), float(y)) for x, y in plan), tick, plans, bool(plain["finished"]))


@dataclass(frozen=True, eq=False)
class WalkerFollower:
    """Walks over ``grid`` to each of ``waypoints_m`` in turn: a pure step from observation and state to command and state.

    ``chance`` gives the generator of the n-th plan; only the randomised queue asks for it.
    """

    grid: Grid
    waypoints_m: tuple[Point, ...]
    settings: WalkerSettings
    chance: Callable[[int], np.random.Generator] | None = None
    _cells: tuple[Cell, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.waypoints_m:
            raise InputError("at least one waypoint was wanted, but none came")
        object.__setattr__(self, "waypoints_m", tuple((float(x), float(y)) for x, y in self.waypoints_m))
        cells = tuple(self.grid.nearest_walkable(x, y, self.settings.snap_m) for x, y in self.waypoints_m)
        object.__setattr__(self, "_cells", cells)
        for number, (a, b) in enumerate(pairwise(cells)):
            if not line_of_sight(self.grid, a, b) and shortest_path(self.grid, a, b) is None:
                raise InputError(
                    f"waypoints that can be reached were wanted, but no way leads from number {number} to the next"
                )

    @cached_property
    def _arcs_m(self) -> list[float]:
        """Length of the straight way along the waypoints up to each."""
        sums = [0.0]
        for (ax, ay), (bx, by) in pairwise(self.waypoints_m):
            sums.append(sums[-1] + distance_m(ax, ay, bx, by))
        return sums

    def initial_state(self, x_m: float, y_m: float) -> WalkerState:
        """Return the state of a walker who starts at the point; one that is off the grid or cut off is refused."""
        self.grid.nearest_walkable(x_m, y_m, self.settings.snap_m)
        plan = self._plan((x_m, y_m), 0, 0)
        if plan is None:
            raise InputError(f"a start with a way to the first waypoint was wanted, but ({x_m:.2f}, {y_m:.2f}) m came")
        return WalkerState(waypoint=0, plan=plan, plans=1)

    def step(
        self, observation: WalkerObservation, obstacles: Sequence[WalkerObstacle], state: WalkerState
    ) -> tuple[WalkerCommand, WalkerState]:
        """Return this control period's command and the state for the next; the order of ``obstacles`` does not matter."""
        here = (observation.x_m, observation.y_m)
        ahead = self._pass_reached(here, state)
        if not ahead.finished and obstacles and ahead.tick % self.settings.replan_ticks == 0:
            ahead = self._avoid(here, obstacles, ahead)
        after = replace(ahead, tick=ahead.tick + 1)
        if ahead.finished:
            return WalkerCommand(0.0, 0.0, 0.0), after
        target_x, target_y = ahead.plan[0]
        size = distance_m(here[0], here[1], target_x, target_y)
        if size == 0.0:
            # A new plan may lead back through this very point; the next step passes it.
            return WalkerCommand(0.0, 0.0, 0.0), after
        speed = self.settings.speed_mps
        if len(ahead.plan) == 1 and ahead.waypoint == len(self.waypoints_m) - 1:
            speed = min(speed, size / self.settings.step_s)
        return WalkerCommand((target_x - here[0]) / size, (target_y - here[1]) / size, speed), after

    def _pass_reached(self, here: Point, state: WalkerState) -> WalkerState:
        """Drop corners within reach; at a waypoint, plan the way to the next."""
        while not state.finished:
            plan = state.plan
            while plan and self._reached(here, plan):
                plan = plan[1:]
            if plan:
                return state if plan is state.plan else replace(state, plan=plan)
            if state.waypoint == len(self.waypoints_m) - 1:
                return replace(state, plan=(), finished=True)
            number = state.waypoint + 1
            # Somebody pushed to where no way leads on walks straight: physics, not the plan, holds bodies back.
            plan = self._plan(here, number, state.plans) or (self.waypoints_m[number],)
            state = replace(state, waypoint=number, plan=plan, plans=state.plans + 1)
        return state

    def _reached(self, here: Point, plan: tuple[Point, ...]) -> bool:
        """Say whether the first of ``plan`` is behind.

        A waypoint is reached within the arrival distance. A corner is not left that early, which would cut it: it is passed
        within half a step, or near it once the walker is beyond it in the direction in which the plan goes on.
        """
        corner_x, corner_y = plan[0]
        away_m = distance_m(here[0], here[1], corner_x, corner_y)
        if away_m <= 0.5 * self.settings.speed_mps * self.settings.step_s:
            return True
        if away_m > self.settings.arrival_m or len(plan) == 1:
            return away_m <= self.settings.arrival_m
        next_x, next_y = plan[1]
        return (here[0] - corner_x) * (next_x - corner_x) + (here[1] - corner_y) * (next_y - corner_y) > 0.0

    def _avoid(self, here: Point, obstacles: Sequence[WalkerObstacle], state: WalkerState) -> WalkerState:
        """Plan anew around those the way ahead meets; where there is no way around, keep going."""
        settings = self.settings
        far = self._first_beyond(here, state, settings.look_ahead_m)
        way = (*state.plan, *self.waypoints_m[state.waypoint + 1 : far + 1])
        near_m = settings.radius_m + 0.5 * settings.margin_m
        met = meetings(here, way, settings.speed_mps, settings.look_ahead_m, near_m, obstacles)
        if not met:
            return state
        cell_m = self.grid.cell_m
        blocked: set[Cell] = set()
        beyond_m = 0.0
        for meeting in met:
            # In the left-handed frame the left of (x, y) is (y, -x).
            x = meeting.x_m + cell_m * meeting.direction_y
            y = meeting.y_m - cell_m * meeting.direction_x
            radius_m = settings.radius_m + meeting.obstacle.radius_m + settings.margin_m + 2.0 * cell_m
            beyond_m = max(beyond_m, meeting.walked_m + 2.0 * radius_m)
            # Whoever stands too near already must still find free cells around the feet.
            radius_m = min(radius_m, distance_m(here[0], here[1], x, y) - cell_m)
            if radius_m > 0.0:
                blocked |= self.grid.cells_within(x, y, radius_m)
        goal = self._first_beyond(here, state, beyond_m)
        while goal < len(self._cells) - 1 and self._cells[goal] in blocked:
            goal += 1
        plan = self._plan(here, goal, state.plans, frozenset(blocked))
        searched = replace(state, plans=state.plans + 1)
        return searched if plan is None else replace(searched, waypoint=goal, plan=plan)

    def _first_beyond(self, here: Point, state: WalkerState, distance: float) -> int:
        """Return the first waypoint at least ``distance`` metres away along the waypoints, or the last."""
        target_x, target_y = self.waypoints_m[state.waypoint]
        start_m = self._arcs_m[state.waypoint] - distance_m(here[0], here[1], target_x, target_y)
        for number in range(state.waypoint, len(self.waypoints_m)):
            if self._arcs_m[number] - start_m >= distance:
                return number
        return len(self.waypoints_m) - 1

    def _longest(self, start: Cell, goal: Cell, blocked: frozenset[Cell]) -> int | None:
        """A way round somebody may be twice the straight one and 20 m; the first plan may be as long as it must."""
        if not blocked:
            return None
        return 2 * octile_cost(start, goal) + round(_DETOUR_M / self.grid.cell_m) * STRAIGHT_COST

    def _plan(self, here: Point, number: int, plans: int, blocked: frozenset[Cell] = frozenset()) -> tuple[Point, ...] | None:
        """Return the corners of the way to waypoint ``number``, which is the last of them, or None where there is no way."""
        start = self.grid.find_walkable(here[0], here[1], self.settings.snap_m)
        if start is None:
            return None
        goal = self._cells[number]
        corners: list[Cell] = []
        if blocked or not line_of_sight(self.grid, start, goal):
            generator = self.chance(plans) if self.chance is not None and self.settings.queue == "randomised" else None
            queue = make_queue(self.settings.queue, generator)
            cells = shortest_path(
                self.grid, start, goal, queue=queue, blocked=blocked, longest=self._longest(start, goal, blocked)
            )
            if cells is None:
                return None
            corners = straighten(self.grid, cells, blocked)[1:-1]
        if start != self.grid.cell_of(*here):
            corners = [start, *corners]
        return (*(self.grid.centre_of(cell) for cell in corners), self.waypoints_m[number])
