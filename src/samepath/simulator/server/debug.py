"""Shapes that clients draw into the world: kept until they fade, and painted over the images of colour cameras.

Lines are painted as they would be seen, hidden by what is nearer; shapes of the head-up kind lie over everything. A line is at
least a pixel wide; texts are 11 pixels high wherever they stand.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samepath.core.states import Pose, Vector
from samepath.simulator.carla import records as r
from samepath.simulator.carla.codec import Reader, flag, number, struct_of, text, variant
from samepath.simulator.physics.frames import places_and_axes
from samepath.simulator.sensors.renderer import NEAR_M, Camera, CameraFrame


class DebugPoint(NamedTuple):
    """A point."""

    location: Vector
    size: float


class DebugLine(NamedTuple):
    """A line."""

    begin: Vector
    end: Vector
    thickness: float


class DebugArrow(NamedTuple):
    """A line with a head."""

    line: DebugLine
    size: float


class DebugBox(NamedTuple):
    """A box."""

    box: r.BoundingBox
    rotation: r.Rotation
    thickness: float


class DebugText(NamedTuple):
    """A text at a place."""

    location: Vector
    text: str
    shadow: bool


class DebugShape(NamedTuple):
    """A shape; ``hud`` ones lie over the image. A life time of 0 is one frame, below 0 for ever."""

    shape: DebugPoint | DebugLine | DebugArrow | DebugBox | DebugText
    colour: r.Colour
    life_time_s: float
    persistent: bool
    hud: bool = False


_point: Final = struct_of(DebugPoint, r.vector, number)
_line: Final = struct_of(DebugLine, r.vector, r.vector, number)
_arrow: Final = struct_of(DebugArrow, _line, number)
_box: Final = struct_of(DebugBox, r.bounding_box, r.rotation, number)
_text: Final = struct_of(DebugText, r.vector, text, flag)
_KINDS: Final[tuple[Reader[Any], ...]] = (_point, _line, _arrow, _box, _text, _point, _line, _arrow, _box)
_FIRST_HUD: Final = 5
_SAME_S: Final = 1e-6
_SHAPES: Final = (DebugPoint, DebugLine, DebugArrow, DebugBox, DebugText)


def _build(kind: tuple[int, Any], colour: r.Colour, life_time_s: float, persistent: bool) -> DebugShape:
    index, shape = kind
    return DebugShape(shape, colour, life_time_s, persistent, hud=index >= _FIRST_HUD)


debug_shape: Final = struct_of(_build, variant(_KINDS), r.colour, number, flag)


def written_shape(shape: DebugShape) -> list[Any]:
    """A shape as plain data."""
    return [_SHAPES.index(type(shape.shape)) + (_FIRST_HUD if shape.hud else 0), *shape]


def read_shape(data: list[Any]) -> DebugShape:
    """The shape of :func:`written_shape`."""
    kind, shape, *rest, _ = data
    return debug_shape([[kind, shape], *rest])


class DebugShapes:
    """What is drawn now; beyond a bound, of shapes or of the characters of their texts together, the oldest go first."""

    def __init__(self, most: int, most_characters: int) -> None:
        self._most = most
        self._most_characters = most_characters
        self._keep([])

    def _keep(self, shapes: Iterable[tuple[float | None, DebugShape]]) -> None:
        self._shapes = deque(shapes)
        self._characters = sum(_characters(shape) for _, shape in self._shapes)

    def draw(self, shape: DebugShape, now_s: float) -> None:
        """Add a shape."""
        for_ever = shape.persistent or shape.life_time_s < 0.0
        self._shapes.append((None if for_ever else now_s + shape.life_time_s, shape))
        self._characters += _characters(shape)
        while len(self._shapes) > self._most or self._characters > self._most_characters:
            self._characters -= _characters(self._shapes.popleft()[1])

    def fade(self, now_s: float) -> None:
        """Drop what has been there for its time; how that was rounded depends on the server's age and must not count."""
        past_s = now_s - _SAME_S
        if any(end_s is not None and end_s < past_s for end_s, _ in self._shapes):
            self._keep((end_s, shape) for end_s, shape in self._shapes if end_s is None or end_s >= past_s)

    def clear(self, *, texts_only: bool = False) -> None:
        """Drop everything, or all texts."""
        self._keep((end_s, shape) for end_s, shape in self._shapes if texts_only and not isinstance(shape.shape, DebugText))

    def state(self) -> list[Any]:
        """Everything the future depends on, as plain data."""
        return [[end_s, written_shape(shape)] for end_s, shape in self._shapes]

    def restore(self, data: list[Any]) -> None:
        """Take up what :meth:`state` gave."""
        self._keep((end_s, read_shape(shape)) for end_s, shape in data)

    @property
    def shapes(self) -> tuple[DebugShape, ...]:
        """What is drawn now, oldest first."""
        return tuple(shape for _, shape in self._shapes)


def _characters(shape: DebugShape) -> int:
    return len(shape.shape.text) if isinstance(shape.shape, DebugText) else 0


F64 = NDArray[np.float64]
SHAPES_MOST: Final = 4000
_WIDTH_PX_MOST: Final = 64.0
# A shape that lies on a surface is seen.
_LIFT_M: Final = 0.05
_CORNERS: Final = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], np.float64)
_EDGES: Final = tuple((a, b) for a in range(8) for b in range(a + 1, 8) if (a ^ b) in (1, 2, 4))


class Stroke(NamedTuple):
    """A straight line in the world."""

    begin: F64
    end: F64
    width_m: float


def painted(frame: CameraFrame, shapes: Iterable[DebugShape]) -> NDArray[np.uint8]:
    """Return the picture with the newest ``SHAPES_MOST`` shapes on it, oldest first; the frame must have colour and depth."""
    if frame.bgra is None or frame.depth_m is None:
        raise ValueError("the frame was drawn without colour or depth")
    picture = frame.bgra.copy()
    (place,), (axes,) = places_and_axes([frame.camera.pose])
    for shape in tuple(shapes)[-SHAPES_MOST:]:
        bgr = np.array([shape.colour.b, shape.colour.g, shape.colour.r], np.uint8)
        depth_m = None if shape.hud else frame.depth_m
        if isinstance(shape.shape, DebugText):
            _write(picture, depth_m, frame.camera, axes @ (_array(shape.shape.location) - place), shape.shape.text, bgr)
            continue
        for stroke in strokes(shape.shape):
            _draw(
                picture, depth_m, frame.camera, axes @ (stroke.begin - place), axes @ (stroke.end - place), stroke.width_m, bgr
            )
    return picture


def strokes(shape: DebugPoint | DebugLine | DebugArrow | DebugBox) -> Iterator[Stroke]:
    """Take a shape apart into straight lines; a point is one without length."""
    match shape:
        case DebugPoint(location, size):
            yield Stroke(_array(location), _array(location), size)
        case DebugLine(begin, end, thickness):
            yield Stroke(_array(begin), _array(end), thickness)
        case DebugArrow(line, size):
            tail, tip = _array(line.begin), _array(line.end)
            yield Stroke(tail, tip, line.thickness)
            along = tip - tail
            length = float(np.sqrt(along @ along))
            if length > 0:
                along /= length
                # Four barbs, so that two are seen from anywhere.
                across = np.array([0.0 - along[1], along[0], 0.0]) if abs(along[2]) < 0.999 else np.array([1.0, 0.0, 0.0])
                across /= np.sqrt(across @ across)
                for barb in (across, 0.0 - across, np.cross(along, across), np.cross(across, along)):
                    yield Stroke(tip, tip + size * (0.5 * barb - along), line.thickness)
        case DebugBox(box, rotation, thickness):
            _, (axes,) = places_and_axes([Pose(0.0, 0.0, 0.0, rotation.roll, rotation.pitch, rotation.yaw)])
            corners = _array(box.location) + (_CORNERS * _array(box.extent)) @ axes
            for a, b in _EDGES:
                yield Stroke(corners[a], corners[b], thickness)


def _array(vector: Vector) -> F64:
    return np.array([vector.x, vector.y, vector.z], np.float64)


def _draw(
    picture: NDArray[np.uint8],
    depth_m: NDArray[np.float32] | None,
    camera: Camera,
    a: F64,
    b: F64,
    width_m: float,
    bgr: NDArray[np.uint8],
) -> None:
    """Draw a line between two points of the camera's frame."""
    if max(a[0], b[0]) <= NEAR_M:
        return
    if min(a[0], b[0]) < NEAR_M:  # one end is behind the camera: cut the line off in front of it
        near, far = (a, b) if a[0] < b[0] else (b, a)
        a, b = far, far + (near - far) * ((far[0] - NEAR_M) / (far[0] - near[0]))
    ends = np.stack([a, b])
    columns = camera.width / 2 + camera.focal_px * ends[:, 1] / ends[:, 0]
    rows = camera.height / 2 - camera.focal_px * ends[:, 2] / ends[:, 0]
    length_px = float(max(abs(columns[1] - columns[0]), abs(rows[1] - rows[0])))
    # What is far outside of the picture needs no more samples than the picture has pixels along it, twice over.
    count = int(min(length_px, 4.0 * (camera.width + camera.height))) + 1
    share = np.linspace(0.0, 1.0, count + 1)
    at_m = 1.0 / (1.0 / ends[0, 0] + share * (1.0 / ends[1, 0] - 1.0 / ends[0, 0]))
    column = np.floor(columns[0] + share * (columns[1] - columns[0]))
    row = np.floor(rows[0] + share * (rows[1] - rows[0]))
    width_px = int(min(max(1.0, camera.focal_px * width_m / float(at_m.min())), _WIDTH_PX_MOST))
    inside = (column > -width_px) & (column < camera.width + width_px) & (row > -width_px) & (row < camera.height + width_px)
    column, row, at_m = column[inside].astype(np.int64), row[inside].astype(np.int64), at_m[inside]
    for down in range(width_px):
        for right in range(width_px):
            _dots(picture, depth_m, row + down - width_px // 2, column + right - width_px // 2, at_m, bgr)


def _dots(
    picture: NDArray[np.uint8],
    depth_m: NDArray[np.float32] | None,
    row: NDArray[np.int64],
    column: NDArray[np.int64],
    at_m: F64,
    bgr: NDArray[np.uint8],
) -> None:
    seen = (row >= 0) & (row < picture.shape[0]) & (column >= 0) & (column < picture.shape[1])
    row, column = row[seen], column[seen]
    if depth_m is not None:
        open_ = at_m[seen] <= depth_m[row, column] + _LIFT_M
        row, column = row[open_], column[open_]
    picture[row, column, :3] = bgr


def _write(
    picture: NDArray[np.uint8], depth_m: NDArray[np.float32] | None, camera: Camera, at: F64, text: str, bgr: NDArray[np.uint8]
) -> None:
    """Write a text whose first letter stands at a point of the camera's frame."""
    if at[0] <= NEAR_M or not text:
        return
    column = int(np.floor(camera.width / 2 + camera.focal_px * at[1] / at[0]))
    row = int(np.floor(camera.height / 2 - camera.focal_px * at[2] / at[0]))
    if not (0 <= row < camera.height and 0 <= column < camera.width):
        return
    if depth_m is not None and at[0] > float(depth_m[row, column]) + _LIFT_M:
        return
    from PIL import Image, ImageDraw, ImageFont

    mask = Image.new("1", (camera.width, camera.height))
    plain = "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in text[:200])
    ImageDraw.Draw(mask).text((column, row), plain, fill=1, font=ImageFont.load_default())
    picture[np.asarray(mask), :3] = bgr
