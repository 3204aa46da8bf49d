"""Where two courses meet: a walker's own way ahead against others that keep their velocity."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

Point = tuple[float, float]

SAMPLE_S: Final = 0.1


@dataclass(frozen=True)
class Obstacle:
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
    obstacle: Obstacle


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
    obstacles: Sequence[Obstacle],
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
