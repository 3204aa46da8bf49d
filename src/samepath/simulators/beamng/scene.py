"""Our scenario in BeamNG's terms, and back.

BeamNG's frame is right-handed, z up, metres: our y changes its sign. A vehicle is told by a reference node of its own, its
direction and its up vector. What drivers see is its centre of gravity, which is found at the start and taken to stay in place.
"""

import math
from collections.abc import Mapping
from typing import Any

from samepath.base.errors import SimulatorError
from samepath.base.trig import sincos_deg
from samepath.simulators.playing import Vector, angles_deg
from samepath.simulators.scripts import Body, Place, Seen

Quaternion = tuple[float, float, float, float]  # x, y, z, w


def position_of(start: Place) -> tuple[float, float]:
    """Return a place in BeamNG's axes."""
    return start.x_m, -start.y_m


def turned(angle_deg: float) -> Quaternion:
    """Return a rotation about the upright axis."""
    sine, cosine = sincos_deg(angle_deg / 2)
    return 0.0, 0.0, sine, cosine


def first_angle_deg(yaw_deg: float) -> float:
    """Return the angle at which a car that looks along -y unturned looks along a heading of ours."""
    return 90.0 - yaw_deg


def state_of(told: Mapping[str, Any]) -> dict[str, float]:
    """Return a vehicle in our frame and units; numbers are BeamNG's own."""
    place, velocity = vector_of(told, "pos"), vector_of(told, "vel")
    ahead, up = vector_of(told, "dir"), vector_of(told, "up")
    # The right of a car is across its direction and its up; mirroring y leaves the height of all three.
    right_z = ahead[0] * up[1] - ahead[1] * up[0]
    roll, pitch, yaw = angles_deg((ahead[0], -ahead[1], ahead[2]), right_z, up[2])
    return {
        "x_m": place[0],
        "y_m": -place[1],
        "z_m": place[2],
        "roll_deg": roll,
        "pitch_deg": pitch,
        "yaw_deg": yaw,
        "vx_mps": velocity[0],
        "vy_mps": -velocity[1],
        "vz_mps": velocity[2],
    }


def offset_of(told: Mapping[str, Any], centre: Vector) -> tuple[float, float]:
    """Return how far ahead of its reference node, and to the right of it, a car's centre of gravity is."""
    place, ahead = vector_of(told, "pos"), vector_of(told, "dir")
    size = math.hypot(ahead[0], ahead[1])
    x, y = centre[0] - place[0], centre[1] - place[1]
    return (x * ahead[0] + y * ahead[1]) / size, (x * ahead[1] - y * ahead[0]) / size


def seen_of(state: Mapping[str, float], offset: tuple[float, float]) -> Seen:
    """Return what a driver sees: the centre of gravity, in our frame."""
    sine, cosine = sincos_deg(state["yaw_deg"])
    ahead_m, right_m = offset
    return Seen(
        state["x_m"] + ahead_m * cosine - right_m * sine,
        state["y_m"] + ahead_m * sine + right_m * cosine,
        state["yaw_deg"],
        state["vx_mps"],
        state["vy_mps"],
    )


def start_of(start: Place, offset: tuple[float, float]) -> Place:
    """Return where the reference node is when the centre of gravity is at a start."""
    sine, cosine = sincos_deg(start.yaw_deg)
    ahead_m, right_m = offset
    return Place(start.x_m - ahead_m * cosine + right_m * sine, start.y_m - ahead_m * sine - right_m * cosine, start.yaw_deg)


def may_touch(one: Seen, one_body: Body, other: Seen, other_body: Body, margin_m: float) -> bool:
    """Are two so near that their bodies, however they are turned, could touch?"""
    reach_m = sum(math.hypot(body.length_m, body.width_m) / 2 for body in (one_body, other_body))
    return math.hypot(one.x_m - other.x_m, one.y_m - other.y_m) <= reach_m + margin_m


def vector_of(told: Mapping[str, Any], name: str) -> Vector:
    """Read three numbers of what BeamNG told."""
    value = told.get(name)
    parts = list(value) if isinstance(value, list | tuple) else []
    if len(parts) != 3 or not all(isinstance(one, float | int) and math.isfinite(one) for one in parts):
        raise SimulatorError(f"BeamNG.tech sent {str(value)[:60]!r} where {name} of a vehicle was wanted")
    return float(parts[0]), float(parts[1]), float(parts[2])


def number_of(told: Mapping[str, Any], name: str) -> float:
    """Read a number of what BeamNG told."""
    value = told.get(name)
    if isinstance(value, bool) or not isinstance(value, float | int) or not math.isfinite(value):
        raise SimulatorError(f"BeamNG.tech sent {str(value)[:60]!r} where {name} of a vehicle was wanted")
    return float(value)
