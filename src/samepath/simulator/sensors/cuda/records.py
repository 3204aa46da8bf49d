"""The arrays of a scene as ``core.h`` reads them: one record of addresses, group by group, then the lengths.

C++ takes an address on trust. So every array is brought to the type and the order that the text expects before it is handed
over, and a test compares the table here with the text.
"""

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import SimulatorError
from samepath.simulator.sensors.raster.arrays import (
    CameraArrays,
    FaceRows,
    InstanceArrays,
    LightArrays,
    MeshArrays,
    Outputs,
)

Group = MeshArrays | InstanceArrays | FaceRows | LightArrays | CameraArrays | Outputs
Arrays = tuple[NDArray[Any], ...]

# The type of each field, in the order of the named tuples.
TYPES: Final = {
    MeshArrays: "f4 f4 f4 i4 f4 f4 u1 u1 u2 i4 i4 i4 f8 f8 f8 i4 f8 i4",
    InstanceArrays: "i4 f8 f8 i4 u1 f4 u2 f8 f8 f8 i4 i4",
    FaceRows: "f4 u1 u2 u1 i1 i4",
    LightArrays: "f8 f4 u4 u1 f4 f4 f4 f4",
    CameraArrays: "i8 i8 f8 f8 f8 f8 f8 f8",
    Outputs: "u4 f4 u1 u2 i1 f4 u4 u4 u4 u4",
}
_KINDS: Final = {group: tuple(np.dtype(f"={kind}") for kind in kinds.split()) for group, kinds in TYPES.items()}
# A copy of these would be written in vain.
_WRITTEN: Final = (FaceRows, Outputs)
_SCENE: Final = struct.Struct(f"={sum(len(kinds.split()) for kinds in TYPES.values())}Q6qd")
SCENE_BYTES: Final = _SCENE.size


class SceneRecord(NamedTuple):
    """The record, and the arrays it points into: whoever uses the one must keep the others."""

    content: bytes
    arrays: Arrays


def fitted(group: Group) -> Arrays:
    """The arrays of a group in the types and the order of the text; those that are written to must have them already."""
    given: Arrays = group
    made: list[NDArray[Any]] = []
    for name, array, kind in zip(type(group)._fields, given, _KINDS[type(group)], strict=True):
        # Asked here, as nearly all are as they should be: this is done for dozens of arrays at every tick.
        fit = array if array.dtype == kind and array.flags.c_contiguous else np.require(array, kind, "C")
        if fit is not array and isinstance(group, _WRITTEN):
            raise SimulatorError(
                f"an array of {kind.kind}{kind.itemsize} in one piece was wanted for {name}, but {array.dtype} came"
            )
        made.append(fit)
    return tuple(made)


def packed_scene(addresses: Sequence[int], instances: int, light: LightArrays, cameras: int, detail: float) -> bytes:
    """The record of a scene whose arrays lie at ``addresses``, wherever that is."""
    glow_rows, glow_columns = light.glow.shape
    return _SCENE.pack(*addresses, instances, len(light.lamps), len(light.beams), glow_rows, glow_columns, cameras, detail)


def scene_record(
    meshes: MeshArrays,
    placed: InstanceArrays,
    rows: FaceRows,
    light: LightArrays,
    views: CameraArrays,
    out: Outputs,
    detail: float,
) -> SceneRecord:
    """Lay a scene out for ``core.h`` on the processor."""
    groups: tuple[Group, ...] = (meshes, placed, rows, light, views, out)
    arrays = tuple(array for group in groups for array in fitted(group))
    addresses = [array.ctypes.data for array in arrays]
    return SceneRecord(packed_scene(addresses, len(placed.mesh), light, len(views.focal), detail), arrays)
