"""The one place where CARLA's left-handed frame meets Rapier's right-handed one: y changes its sign.

A rotation is mirrored with it: yaw and roll change their sense, and an angular velocity, being a pseudo-vector, becomes
(-x, y, -z). No libm: sine, cosine and arc tangent come from :mod:`samepath.core.trig`, so that no bit depends on the machine.

Also here, as both physics and world need it: the byte format of snapshots, plain data and blobs in one string.
"""

import json
import math
from typing import Any

from samepath.core.errors import SimulatorError
from samepath.core.states import Pose
from samepath.core.trig import atan2, sincos_deg, to_degrees

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


def dump(data: dict[str, Any], blobs: list[bytes]) -> bytes:
    """Pack plain data and blobs into one byte string: sizes first, floats as their shortest exact decimals.

    JSON and raw bytes, no pickle: a snapshot may come from elsewhere, and nothing in it is ever executed.
    """
    head = json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
    sizes = [len(head), *(len(blob) for blob in blobs)]
    return b"".join([len(sizes).to_bytes(4, "little"), *(size.to_bytes(8, "little") for size in sizes), head, *blobs])


def load(packed: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Unpack what :func:`dump` made."""
    count = int.from_bytes(packed[:4], "little")
    sizes = [int.from_bytes(packed[4 + 8 * i : 12 + 8 * i], "little") for i in range(count)]
    if count < 1 or 4 + 8 * count + sum(sizes) != len(packed):
        raise SimulatorError("the snapshot is cut short or damaged: its parts do not add up")
    parts, at = [], 4 + 8 * count
    for size in sizes:
        parts.append(packed[at : at + size])
        at += size
    data: dict[str, Any] = json.loads(parts[0])
    return data, parts[1:]
