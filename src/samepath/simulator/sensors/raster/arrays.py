"""The arrays that compiled code works on, in named groups, and the frames of one call.

Named tuples, because numba passes them as plain pointers; lengths and types are those given here, and nothing is allocated in
compiled code.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from samepath.simulator.sensors.renderer import Camera, CameraFrame, Channel

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]
U16 = NDArray[np.uint16]
U32 = NDArray[np.uint32]
Number = Any
"""A number inside compiled code, whose width numba works out."""

LEVELS: Final = 3
"""How many meshes of falling detail one instance can have."""

ROW_BITS: Final = 24
"""The lower bits of a pixel's id are a row of :class:`FaceRows`; the one above them says that the pixel lies in shadow."""

ROW_MASK: Final = (1 << ROW_BITS) - 1
SHADOW: Final = 1 << ROW_BITS


class MeshArrays(NamedTuple):
    """Shapes, laid out for speed; ``planes`` holds each face's normal and its distance from the mesh's origin.

    ``box`` f64[m, 2, 3] are the lowest and highest coordinates of each mesh.
    """

    x: F32
    y: F32
    z: F32
    faces: I32
    planes: F32
    colours: F32
    labels: U8
    materials: U8
    lamps: U16
    mappings: I32
    first_vertex: I32
    first_face: I32
    centre: F64
    radius: F64
    box: F64
    coarser: I32
    coarser_px: F64
    shadow: I32


class InstanceArrays(NamedTuple):
    """Instances, the fixed ones first; ``rows[i, level]`` is the first row of an instance's mesh of that level.

    ``walls[i]`` is what to add to a face's mapping to find it in the world (``LightArrays.walls``).
    """

    mesh: I32
    position: F64
    axes: F64
    id: I32
    label: U8
    paint: F32
    lamps: U16
    ground_z: F64
    was_position: F64
    was_axes: F64
    rows: I32
    walls: I32


class FaceRows(NamedTuple):
    """What a pixel needs to know of the face it shows, one row per face of an instance and level.

    ``colour`` f32[r, 4]: blue, green, red as on the screen (0..255, gamma) and the row's mapping as a number, -1 for none.
    """

    colour: F32
    label: U8
    instance: U16
    material: U8
    normal: NDArray[np.int8]
    placed: I32


class VisibleInstances(NamedTuple):
    """For each view the instances in it from near to far (``total`` of them) and the level each is drawn in."""

    total: I32
    instance: I32
    level: U8
    ahead: F64


class CameraArrays(NamedTuple):
    """The cameras.

    ``size`` i64[c, 3]: width, height, samples; ``offset`` i64[c, 10]: first pixel in each channel's output, -1 without it;
    ``place`` f64[c, 3]; ``axes`` f64[c, 3, 3]; ``focal`` f64[c] in pixels; ``vignette`` f64[c].
    """

    size: I64
    offset: I64
    place: F64
    axes: F64
    focal: F64
    was_place: F64
    was_axes: F64
    vignette: F64


class Outputs(NamedTuple):
    """All frames of a call, one behind the other, by channel."""

    colour: U32
    depth: F32
    label: U8
    instance: U16
    normal: NDArray[np.int8]
    flow: F32
    depth_image: U32
    label_image: U32
    instance_image: U32
    normal_image: U32


class RowBuffer(NamedTuple):
    """One row of a picture: colours, where in the world what is seen there lies, cells of noise, nodes of the sky."""

    blue: F32
    green: F32
    red: F32
    x: F32
    y: F32
    z: F32
    near: F32
    soft: I32
    fine: I32
    upper: F32
    lower: F32


class Scratch(NamedTuple):
    """Working memory of one thread: 1/z and id of every pixel, colours before averaging, vertices of a mesh, and more."""

    depth: F32
    ids: I32
    colour: U32
    column: F32
    row: F32
    inverse: F32
    line: RowBuffer
    matrix: F64
    corners: F64
    turn: F64
    position: F64


class LightArrays(NamedTuple):
    """The light of the weather for compiled code; see :mod:`.shading` for the order of ``numbers``.

    ``lamps`` and ``beams`` f32[k, 8] are street lamps and head lamps, ``walls`` f32[k, 8] the mappings of walls with windows in
    the world, ``glow`` f32[h, w] the light of lamps on the ground, cell by cell.
    """

    numbers: F64
    flat: F32
    sky: U32
    noise: U8
    lamps: F32
    beams: F32
    walls: F32
    glow: F32


CHANNELS: Final = tuple(Channel)
"""The order of the arrays in a batch of frames, and of the fields of a frame."""

NUMBERS_A_PIXEL: Final = (1, 1, 1, 1, 3, 2, 1, 1, 1, 1)
"""In each array of :class:`Outputs`."""

_KINDS: Final = tuple(np.dtype(kind) for kind in ("u4", "f4", "u1", "u2", "i1", "f4", "u4", "u4", "u4", "u4"))
_BITS: Final = np.array([int(channel) for channel in CHANNELS], np.int64)
_COLOURED: Final = frozenset({0, 6, 7, 8, 9})
"""Shown byte by byte: blue, green, red, alpha."""


class FrameBatch(Sequence[CameraFrame]):
    """The frames of one call; their arrays lie one behind the other. Hand it back as ``out`` to have it written over.

    ``empty`` makes the arrays: a back end may want memory of its own kind for them.
    """

    def __init__(self, cameras: Sequence[Camera], empty: Callable[[int, Any], NDArray[Any]] = np.empty) -> None:
        # What must agree for the arrays to be used again: sizes and channels, not poses.
        self.layout = layout_of(cameras)
        # Whole numbers of Python's own in one piece: hundreds of cameras are laid out at once.
        shape = np.array([(width, height, int(channels)) for width, height, channels in self.layout], np.int64).reshape(-1, 3)
        pixels = (shape[:, 0] * shape[:, 1])[:, None] * ((shape[:, 2:] & _BITS) != 0)
        ends = np.cumsum(pixels, axis=0)
        self.offsets = np.where(pixels > 0, ends - pixels, -1)
        totals = ends[-1].tolist() if len(cameras) else [0] * len(CHANNELS)
        self.arrays = Outputs(
            *(empty(each * total, kind) for each, total, kind in zip(NUMBERS_A_PIXEL, totals, _KINDS, strict=True))
        )
        self.cameras = cameras
        self._parts: dict[int, tuple[NDArray[Any] | None, ...]] = {}

    def __len__(self) -> int:
        return len(self.layout)

    def __iter__(self) -> Iterator[CameraFrame]:
        return (self._frame(c) for c in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> CameraFrame: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[CameraFrame, ...]: ...
    def __getitem__(self, index: int | slice) -> CameraFrame | tuple[CameraFrame, ...]:
        if isinstance(index, slice):
            return tuple(self._frame(c) for c in range(*index.indices(len(self))))
        return self._frame(range(len(self))[index])

    def _frame(self, c: int) -> CameraFrame:
        # The arrays of a batch stay where they are, however often it is written over.
        parts = self._parts.get(c)
        if parts is None:
            parts = self._parts[c] = self._parts_of(c)
        return CameraFrame(self.cameras[c], *parts)

    def _parts_of(self, c: int) -> tuple[NDArray[Any] | None, ...]:
        camera = self.cameras[c]
        height, width = camera.height, camera.width
        parts: list[NDArray[Any] | None] = []
        for k, start in enumerate(self.offsets[c].tolist()):
            if start < 0:
                parts.append(None)
                continue
            each = NUMBERS_A_PIXEL[k]
            part = self.arrays[k][each * start : each * (start + width * height)]
            if k in _COLOURED:
                part, each = part.view(np.uint8), 4
            parts.append(part.reshape((height, width, each) if each > 1 else (height, width)))
        return tuple(parts)


def layout_of(cameras: Sequence[Camera]) -> list[tuple[int, int, Channel]]:
    """What must agree for the arrays of frames to be used again: sizes and channels, not poses."""
    return [(camera.width, camera.height, camera.channels) for camera in cameras]
