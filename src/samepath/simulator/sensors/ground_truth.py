"""The truth behind what sensors see: boxes of actors in the world, before a camera and in its picture. Pure.

A box in the picture is that of the pixels in which the actor is really seen, from the image of instances. How much of an
actor is hidden is found by drawing it once more, alone: the share of those pixels that something else covers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.catalogue import ActorType, WalkerType
from samepath.core.states import Pose
from samepath.simulator.physics.frames import Triple, point_from, point_to
from samepath.simulator.sensors.renderer import NEAR_M, Camera

# Corners by the signs of x (front), y (right) and z (top): the lower four clockwise from the rear left, then the upper.
_SIGNS: Final = ((-1, -1, -1), (1, -1, -1), (1, 1, -1), (-1, 1, -1), (-1, -1, 1), (1, -1, 1), (1, 1, 1), (-1, 1, 1))
INSTANCES: Final = 1 << 16
"""Images of instances hold ids modulo this."""


@dataclass(frozen=True, slots=True)
class Box3D:
    """A box in the world: the pose of its middle, and half of its length, width and height."""

    pose: Pose
    extent_m: Triple

    @property
    def corners_m(self) -> tuple[Triple, ...]:
        """The eight corners: the lower four clockwise from the rear left, then the upper four."""
        x, y, z = self.extent_m
        return tuple(point_from(self.pose, (a * x, b * y, c * z)) for a, b, c in _SIGNS)


@dataclass(frozen=True, slots=True)
class CameraBox:
    """A box before a camera: its middle and corners in the camera's frame, and the rectangle of its corners in the picture.

    ``projected_px`` is left, top, right, bottom, also beyond the picture's edges; None if a corner is behind the camera.
    """

    centre_m: Triple
    corners_m: tuple[Triple, ...]
    projected_px: tuple[float, float, float, float] | None


@dataclass(frozen=True, slots=True)
class VisibleBox:
    """What is seen of an actor: left, top, right, bottom in pixels (right and bottom are the first beyond), and how many."""

    box_px: tuple[int, int, int, int]
    visible_px: int


def box_of(kind: ActorType, pose: Pose) -> Box3D:
    """The box of an actor: vehicles and props stand on their origin, walkers have theirs in the middle."""
    if isinstance(kind, WalkerType):
        return Box3D(pose, (kind.radius_m, kind.radius_m, kind.height_m / 2.0))
    middle = point_from(pose, (0.0, 0.0, kind.height_m / 2.0))
    size = (kind.length_m / 2.0, kind.width_m / 2.0, kind.height_m / 2.0)
    return Box3D(Pose(*middle, pose.roll_deg, pose.pitch_deg, pose.yaw_deg), size)


def before_camera(box: Box3D, camera: Camera) -> CameraBox:
    """A box as a camera has it: x along the optical axis, y to the right, z up."""
    corners = tuple(point_to(camera.pose, corner) for corner in box.corners_m)
    middle = point_to(camera.pose, (box.pose.x_m, box.pose.y_m, box.pose.z_m))
    if min(corner[0] for corner in corners) <= NEAR_M:
        return CameraBox(middle, corners, None)
    focal = camera.focal_px
    columns = [camera.width / 2 + focal * y / x for x, y, _ in corners]
    rows = [camera.height / 2 - focal * z / x for x, _, z in corners]
    return CameraBox(middle, corners, (min(columns), min(rows), max(columns), max(rows)))


def visible_boxes(instances: NDArray[np.uint16], ids: Iterable[int]) -> dict[int, VisibleBox]:
    """Where actors are seen in an image of instances; those that are not seen are not in the answer."""
    wanted: Mapping[int, int] = {number % INSTANCES: number for number in sorted(ids, reverse=True)}
    there = np.zeros(INSTANCES, np.bool_)
    there[list(wanted)] = True
    rows, columns = np.nonzero(there[instances])
    found = instances[rows, columns]
    seen = {}
    for value, number in wanted.items():
        mine = found == value
        if mine.any():
            x, y = columns[mine], rows[mine]
            seen[number] = VisibleBox((int(x.min()), int(y.min()), int(x.max()) + 1, int(y.max()) + 1), int(mine.sum()))
    return dict(sorted(seen.items()))
