"""Where something attached to another actor is."""

from samepath.sim.physics.frames import Quaternion, angles_of, axes_of, quaternion_of
from samepath.sim.world.records import Pose


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


def seen_from(parent: Pose, relative: Pose) -> Pose:
    """The pose in the world of something that is at ``relative`` for an actor at ``parent``."""
    turn = quaternion_of(parent)
    x, y, z = point_from(parent, (relative.x_m, relative.y_m, relative.z_m))
    if not (relative.roll_deg or relative.pitch_deg or relative.yaw_deg):
        return Pose(x, y, z, parent.roll_deg, parent.pitch_deg, parent.yaw_deg)
    return Pose(x, y, z, *angles_of(times(turn, quaternion_of(relative))))


def point_from(parent: Pose, point: tuple[float, float, float]) -> tuple[float, float, float]:
    """A point in the world, given as an actor at ``parent`` sees it."""
    forward, right, up = axes_of(quaternion_of(parent))
    x, y, z = (
        at + point[0] * forward[part] + point[1] * right[part] + point[2] * up[part]
        for part, at in enumerate((parent.x_m, parent.y_m, parent.z_m))
    )
    return x, y, z


def into(pose: Pose, vector: tuple[float, float, float]) -> tuple[float, float, float]:
    """A vector of the world as something at ``pose`` sees it: along its forward, right and up."""
    x, y, z = (sum(a * b for a, b in zip(axis, vector, strict=True)) for axis in axes_of(quaternion_of(pose)))
    return x, y, z
