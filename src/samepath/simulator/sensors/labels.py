"""CARLA's labels (CityObjectLabel) of everything a sensor can see, and how actors look at a tick."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from samepath.core.errors import InputError
from samepath.core.states import ActorState, Pose
from samepath.simulator.sensors.renderer import NO_LAMPS, Lamp


class Label(IntEnum):
    """What a pixel or a point belongs to, in CARLA 0.9.16's numbers."""

    NONE = 0
    ROADS = 1
    SIDEWALKS = 2
    BUILDINGS = 3
    WALLS = 4
    FENCES = 5
    POLES = 6
    TRAFFIC_LIGHT = 7
    TRAFFIC_SIGNS = 8
    VEGETATION = 9
    TERRAIN = 10
    SKY = 11
    PEDESTRIANS = 12
    RIDER = 13
    CAR = 14
    TRUCK = 15
    BUS = 16
    TRAIN = 17
    MOTORCYCLE = 18
    BICYCLE = 19
    STATIC = 20
    DYNAMIC = 21
    OTHER = 22
    WATER = 23
    ROAD_LINES = 24
    GROUND = 25
    BRIDGE = 26
    RAIL_TRACK = 27
    GUARD_RAIL = 28


# The labels of a map's meshes.
OF_SURFACE: Final = MappingProxyType(
    {
        "road": Label.ROADS,
        "sidewalk": Label.SIDEWALKS,
        "kerb": Label.SIDEWALKS,
        "ground": Label.GROUND,
        "building": Label.BUILDINGS,
        "pole": Label.POLES,
        "vegetation": Label.VEGETATION,
        "barrier": Label.WALLS,
        "sign": Label.TRAFFIC_SIGNS,
        "traffic-light": Label.TRAFFIC_LIGHT,
        "lane-marking": Label.ROAD_LINES,
        "crosswalk": Label.ROAD_LINES,
        "prop": Label.STATIC,
    }
)

# The labels of actors by the kind of their type.
OF_KIND: Final = MappingProxyType(
    {
        "car": Label.CAR,
        "van": Label.CAR,
        "truck": Label.TRUCK,
        "bus": Label.BUS,
        "motorcycle": Label.MOTORCYCLE,
        "bicycle": Label.BICYCLE,
        "walker": Label.PEDESTRIANS,
    }
)

Colour = tuple[float, float, float]
_PAINTS: Final[tuple[Colour, ...]] = (
    (0.55, 0.56, 0.57), (0.020, 0.021, 0.023), (0.35, 0.010, 0.012), (0.012, 0.050, 0.22), (0.62, 0.62, 0.60),
    (0.10, 0.105, 0.11), (0.030, 0.11, 0.055), (0.30, 0.19, 0.07), (0.045, 0.12, 0.19), (0.42, 0.30, 0.02),
)  # fmt: skip
_STANDS_MPS: Final = 0.05


@dataclass(frozen=True, slots=True)
class ActorAppearance:
    """An actor as it looks: its type, where it is, the colour of its paint (or shirt), its lamps.

    ``walked_m`` is how far a walker has walked, which is the phase of its steps; None: it stands.
    """

    id: int
    type: str
    pose: Pose
    paint: Colour | None = None
    lamps: Lamp = NO_LAMPS
    walked_m: float | None = None

    @property
    def colour(self) -> Colour:
        """The paint, or one that follows from the id."""
        return self.paint if self.paint is not None else usual_paint(self.id)


def usual_paint(number: int) -> Colour:
    """Return the default paint of an actor, by its number: neighbours have different colours."""
    return _PAINTS[number * 7 % len(_PAINTS)]


def paint_of(text: str) -> Colour:
    """CARLA's colour ``r,g,b`` (0..255 as on a screen) as linear paint."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 3 or not all(part.isdecimal() and part.isascii() and int(part) <= 255 for part in parts):
        raise InputError(f"a colour like 17,37,103 was wanted, but {text[:40]!r} came")
    red, green, blue = (int(part) for part in parts)
    return _linear(red), _linear(green), _linear(blue)


def _linear(level: int) -> float:
    """A number of the screen as an amount of light; a cubic near sRGB's curve, exact on every machine."""
    part = level / 255.0
    return part * (part * (part * 0.305306011 + 0.682171111) + 0.012522878)


class Odometer:
    """How far every walker has walked, summed over ticks from their positions: the same positions give the same steps."""

    def __init__(self) -> None:
        self._walked: dict[int, tuple[float, float, float]] = {}

    def advance(self, states: Iterable[ActorState]) -> None:
        """Follow a tick; who is gone is forgotten."""
        before, self._walked = self._walked, {}
        for state in states:
            x, y = state.pose.x_m, state.pose.y_m
            was = before.get(state.id, (x, y, 0.0))
            dx, dy = x - was[0], y - was[1]
            self._walked[state.id] = (x, y, was[2] + math.sqrt(dx * dx + dy * dy))

    def walked_m(self, state: ActorState) -> float | None:
        """How far an actor has walked; None while it stands."""
        speed = state.velocity_mps
        if speed.x * speed.x + speed.y * speed.y < _STANDS_MPS * _STANDS_MPS:
            return None
        return self._walked.get(state.id, (0.0, 0.0, 0.0))[2]

    def state(self) -> list[list[float]]:
        """Everything the future depends on, as plain data."""
        return [[number, *walked] for number, walked in self._walked.items()]

    @classmethod
    def restore(cls, data: Iterable[list[float]]) -> "Odometer":
        """The odometer that :meth:`state` was taken of."""
        made = cls()
        made._walked = {int(number): (x, y, walked) for number, x, y, walked in data}
        return made
