"""The one place where CARLA's left-handed frame meets Rapier's right-handed one: y changes its sign.

A rotation is mirrored with it: yaw and roll change their sense, and an angular velocity, being a pseudo-vector, becomes
(-x, y, -z). No libm: sine, cosine and arc tangent come from :mod:`samepath.core.trig`, so that no bit depends on the machine.

Also here: poses of what is fixed to an actor, and poses as vectors, one or many at once.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from samepath.core.states import Pose
from samepath.core.trig import atan2, sincos_deg, to_degrees
from samepath.core.trig_arrays import sincos_deg as sincos_deg_of_arrays

F64 = NDArray[np.float64]
Triple = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]  # w, x, y, z


def mirrored(x: float, y: float, z: float) -> Triple:
    """Take a position, velocity, force or impulse from one frame to the other."""
    return x, -y, z


def mirrored_spin(x: float, y: float, z: float) -> Triple:
    """Take an angular velocity from one frame to the other."""
    return -x, y, -z


def quaternion_of(pose: Pose) -> Quaternion:
    """Rapier's rotation of a pose: yaw about z, then pitch about y, then roll about x, with the mirrored senses."""
    sy, cy = sincos_deg(-pose.yaw_deg * 0.5)
    # Nose up is a negative turn about the right-handed y axis (which points left); right side down a positive one about x.
    sp, cp = sincos_deg(-pose.pitch_deg * 0.5)
    sr, cr = sincos_deg(pose.roll_deg * 0.5)
    return (
        cr * cp * cy + sr * sp * sy,
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
    )


def axes_of(rotation: Quaternion) -> tuple[Triple, Triple, Triple]:
    """Return the forward, right and up vectors of Rapier's rotation, in CARLA's frame."""
    w, x, y, z = rotation
    forward = (1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y))
    left = (2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x))
    up = (2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y))
    return mirrored(*forward), (-left[0], left[1], -left[2]), mirrored(*up)


def forward_of(rotation: Quaternion) -> Triple:
    """Return only the forward vector, in CARLA's frame."""
    w, x, y, z = rotation
    return 1 - 2 * (y * y + z * z), -(2 * (x * y + w * z)), 2 * (x * z - w * y)


def angles_of(rotation: Quaternion) -> Triple:
    """Return roll, pitch and yaw in degrees of Rapier's rotation."""
    forward, right, up = axes_of(rotation)
    flat = math.sqrt(forward[0] * forward[0] + forward[1] * forward[1])
    yaw = to_degrees(atan2(forward[1], forward[0]))
    pitch = to_degrees(atan2(forward[2], flat))
    roll = to_degrees(atan2(-right[2], up[2]))
    return roll, pitch, yaw


def attached_pose(parent: Pose, relative: Pose) -> Pose:
    """The pose in the world of something that is at ``relative`` for an actor at ``parent``."""
    x, y, z = point_from(parent, (relative.x_m, relative.y_m, relative.z_m))
    if not (relative.roll_deg or relative.pitch_deg or relative.yaw_deg):
        return Pose(x, y, z, parent.roll_deg, parent.pitch_deg, parent.yaw_deg)
    return Pose(x, y, z, *angles_of(times(quaternion_of(parent), quaternion_of(relative))))


def relative_pose(parent: Pose, pose: Pose) -> Pose:
    """A pose of the world as an actor at ``parent`` sees it: :func:`attached_pose` the other way round."""
    rotation = quaternion_of(parent)
    gap = (pose.x_m - parent.x_m, pose.y_m - parent.y_m, pose.z_m - parent.z_m)
    x, y, z = (sum(a * b for a, b in zip(axis, gap, strict=True)) for axis in axes_of(rotation))
    back = (rotation[0], -rotation[1], -rotation[2], -rotation[3])
    return Pose(x, y, z, *angles_of(times(back, quaternion_of(pose))))


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


def times(a: Quaternion, b: Quaternion) -> Quaternion:
    """One rotation after another: ``b`` seen from ``a``."""
    aw, ax, ay, az = a
    bw, bx, by, bz = b
    return (
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    )


def places_and_axes(poses: Sequence[Pose]) -> tuple[F64, F64]:
    """Positions f64[n, 3] and axes f64[n, 3, 3]: rows are the forward, right and up vectors, in CARLA's frame."""
    numbers = np.array(poses, np.float64).reshape(-1, 6)
    (sr, sp, sy), (cr, cp, cy) = (part.T for part in sincos_deg_of_arrays(numbers[:, 3:]))
    axes = np.empty((len(numbers), 3, 3))
    axes[:, 0, 0], axes[:, 0, 1], axes[:, 0, 2] = cp * cy, cp * sy, sp
    axes[:, 1, 0], axes[:, 1, 1], axes[:, 1, 2] = sr * sp * cy - cr * sy, sr * sp * sy + cr * cy, 0.0 - sr * cp
    axes[:, 2, 0], axes[:, 2, 1], axes[:, 2, 2] = 0.0 - cr * sp * cy - sr * sy, sr * cy - cr * sp * sy, cr * cp
    return np.ascontiguousarray(numbers[:, :3]), axes
