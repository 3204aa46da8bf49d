"""Where something fixed to an actor is. Pure; the bits depend on nothing but the two poses."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from samepath.core.states import Pose
from samepath.core.trig_arrays import sincos_deg
from samepath.simulator.physics.frames import Quaternion, Triple, angles_of, axes_of, quaternion_of


def seen_from(parent: Pose, relative: Pose) -> Pose:
    """The pose in the world of something that is at ``relative`` for an actor at ``parent``."""
    x, y, z = point_from(parent, (relative.x_m, relative.y_m, relative.z_m))
    if not (relative.roll_deg or relative.pitch_deg or relative.yaw_deg):
        return Pose(x, y, z, parent.roll_deg, parent.pitch_deg, parent.yaw_deg)
    return Pose(x, y, z, *angles_of(_times(quaternion_of(parent), quaternion_of(relative))))


def point_from(parent: Pose, point: Triple) -> Triple:
    """A point in the world, given as an actor at ``parent`` sees it."""
    forward, right, up = axes_of(quaternion_of(parent))
    x, y, z = (
        at + point[0] * forward[part] + point[1] * right[part] + point[2] * up[part]
        for part, at in enumerate((parent.x_m, parent.y_m, parent.z_m))
    )
    return x, y, z


def point_to(observer: Pose, point: Triple) -> Triple:
    """A point of the world as something at ``observer`` sees it: along its forward, right and up."""
    away = (point[0] - observer.x_m, point[1] - observer.y_m, point[2] - observer.z_m)
    x, y, z = (sum(a * b for a, b in zip(axis, away, strict=True)) for axis in axes_of(quaternion_of(observer)))
    return x, y, z


def _times(a: Quaternion, b: Quaternion) -> Quaternion:
    """One rotation after another: ``b`` seen from ``a``."""
    aw, ax, ay, az = a
    bw, bx, by, bz = b
    return (
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    )


# Poses as vectors: forward, right and up, for many poses at once.

F64 = NDArray[np.float64]


def places_and_axes(poses: Sequence[Pose]) -> tuple[F64, F64]:
    """Positions f64[n, 3] and axes f64[n, 3, 3]: rows are the forward, right and up vectors, in CARLA's frame."""
    numbers = np.array(poses, np.float64).reshape(-1, 6)
    (sr, sp, sy), (cr, cp, cy) = (part.T for part in sincos_deg(numbers[:, 3:]))
    axes = np.empty((len(numbers), 3, 3))
    axes[:, 0, 0], axes[:, 0, 1], axes[:, 0, 2] = cp * cy, cp * sy, sp
    axes[:, 1, 0], axes[:, 1, 1], axes[:, 1, 2] = sr * sp * cy - cr * sy, sr * sp * sy + cr * cy, 0.0 - sr * cp
    axes[:, 2, 0], axes[:, 2, 1], axes[:, 2, 2] = 0.0 - cr * sp * cy - sr * sy, sr * cy - cr * sp * sy, cr * cp
    return np.ascontiguousarray(numbers[:, :3]), axes
