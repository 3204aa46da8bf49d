"""Shapes that clients draw into the world: kept until they fade, for cameras to draw."""

from collections import deque
from typing import Any, Final, NamedTuple

from samepath.sim.server import records as r
from samepath.sim.server.codec import Reader, flag, number, struct_of, text, variant
from samepath.sim.world.records import Vector


class Point(NamedTuple):
    """A point."""

    location: Vector
    size: float


class Line(NamedTuple):
    """A line."""

    begin: Vector
    end: Vector
    thickness: float


class Arrow(NamedTuple):
    """A line with a head."""

    line: Line
    size: float


class Box(NamedTuple):
    """A box."""

    box: r.BoundingBox
    rotation: r.Rotation
    thickness: float


class Text(NamedTuple):
    """A text at a place."""

    location: Vector
    text: str
    shadow: bool


class DebugShape(NamedTuple):
    """A shape; ``hud`` ones lie over the image. A life time of 0 is one frame, below 0 for ever."""

    shape: Point | Line | Arrow | Box | Text
    colour: r.Colour
    life_time_s: float
    persistent: bool
    hud: bool = False


_point: Final = struct_of(Point, r.vector, number)
_line: Final = struct_of(Line, r.vector, r.vector, number)
_arrow: Final = struct_of(Arrow, _line, number)
_box: Final = struct_of(Box, r.bounding_box, r.rotation, number)
_text: Final = struct_of(Text, r.vector, text, flag)
_KINDS: Final[tuple[Reader[Any], ...]] = (_point, _line, _arrow, _box, _text, _point, _line, _arrow, _box)
_FIRST_HUD: Final = 5
_SAME_S: Final = 1e-6
_SHAPES: Final = (Point, Line, Arrow, Box, Text)


def _build(kind: tuple[int, Any], colour: r.Colour, life_time_s: float, persistent: bool) -> DebugShape:
    index, shape = kind
    return DebugShape(shape, colour, life_time_s, persistent, hud=index >= _FIRST_HUD)


debug_shape: Final = struct_of(_build, variant(_KINDS), r.colour, number, flag)


def written_shape(one: DebugShape) -> list[Any]:
    """A shape as plain data."""
    return [_SHAPES.index(type(one.shape)) + (_FIRST_HUD if one.hud else 0), *one]


def read_shape(data: list[Any]) -> DebugShape:
    """The shape of :func:`written_shape`."""
    kind, shape, *rest, _ = data
    return debug_shape([[kind, shape], *rest])


class DebugShapes:
    """What is drawn now; beyond the bound the oldest goes first."""

    def __init__(self, most: int) -> None:
        self._shapes: deque[tuple[float | None, DebugShape]] = deque(maxlen=most)

    def draw(self, shape: DebugShape, now_s: float) -> None:
        """Add a shape."""
        for_ever = shape.persistent or shape.life_time_s < 0.0
        self._shapes.append((None if for_ever else now_s + shape.life_time_s, shape))

    def fade(self, now_s: float) -> None:
        """Drop what has been there for its time; how that was rounded depends on the server's age and must not count."""
        past_s = now_s - _SAME_S
        if any(end_s is not None and end_s < past_s for end_s, _ in self._shapes):
            kept = [one for one in self._shapes if one[0] is None or one[0] >= past_s]
            self._shapes = deque(kept, maxlen=self._shapes.maxlen)

    def clear(self, *, texts_only: bool = False) -> None:
        """Drop everything, or all texts."""
        kept = [one for one in self._shapes if texts_only and not isinstance(one[1].shape, Text)]
        self._shapes = deque(kept, maxlen=self._shapes.maxlen)

    def state(self) -> list[Any]:
        """Everything the future depends on, as plain data."""
        return [[end_s, written_shape(one)] for end_s, one in self._shapes]

    def restore(self, data: list[Any]) -> None:
        """Take up what :meth:`state` gave."""
        self._shapes = deque([(end_s, read_shape(one)) for end_s, one in data], maxlen=self._shapes.maxlen)

    @property
    def shapes(self) -> tuple[DebugShape, ...]:
        """What is drawn now, oldest first."""
        return tuple(shape for _, shape in self._shapes)
