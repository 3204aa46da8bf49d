"""Our script in Chipmunk's terms: a plane seen from above. Its axes are ours, so that nothing need be turned.

A vehicle is a box on two axles. Tyres are joints to the road which only resist: along each axle as much as the tyres hold,
and along the vehicle as much as brakes and rolling resistance do.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from samepath.simulators.interface import Scalar
from samepath.simulators.scripts import Point, Role, Script, Wheels
from samepath.simulators.values import whole

GRAVITY_MPS2: Final = 9.81
CRATE_M: Final = 1.0
CRATE_KG: Final = 50.0
CRATE_FRICTION: Final = 0.5
# From the middle of a crate to the middle of the next.
_PITCH_M: Final = 1.05


@dataclass(frozen=True)
class Solver:
    """How Chipmunk solves a step: with one thread or two, and how often it goes through all joints and contacts.

    ``crates`` are loose ones, besides the vehicles: up to 50 joints and contacts, the second thread is left asleep.
    """

    threads: int
    iterations: int
    crates: int


def read_solver(values: Mapping[str, Scalar]) -> Solver:
    """Check a study's plain values."""
    return Solver(whole(values, "threads", 1, 2), whole(values, "iterations", 1, 1000), whole(values, "crates", 0, 10_000))


@dataclass(frozen=True)
class Car:
    """A vehicle for Chipmunk. ``hold_n`` is what the tyres of one axle can hold sideways, ``roll_n`` what rolling costs."""

    number: int
    length_m: float
    width_m: float
    mass_kg: float
    axle_m: float
    driven_m: float
    max_steer_rad: float
    hold_n: float
    roll_n: float
    x_m: float
    y_m: float
    yaw_rad: float


def car_of(role: Role, wheels: Wheels) -> Car:
    """Return a role as a box on two axles; ``driven_m`` is where the driven one is, ahead of the middle."""
    weight_n = role.body.mass_kg * GRAVITY_MPS2
    axle_m = wheels.wheel_base_m / 2
    return Car(
        number=role.number,
        length_m=role.body.length_m,
        width_m=role.body.width_m,
        mass_kg=role.body.mass_kg,
        axle_m=axle_m,
        driven_m={"front": axle_m, "rear": -axle_m}.get(wheels.driven, 0.0),
        max_steer_rad=math.radians(wheels.max_steer_deg),
        hold_n=wheels.friction * weight_n / 2,
        roll_n=wheels.rolling_resistance * weight_n,
        x_m=role.start.x_m,
        y_m=role.start.y_m,
        yaw_rad=math.radians(role.start.yaw_deg),
    )


def crate_places(script: Script, count: int) -> list[Point]:
    """Return where so many crates stand: side by side in a square, in the middle of it the last actor's last waypoint."""
    side = math.ceil(math.sqrt(count)) if count else 1
    x_m, y_m = script.roles[-1].path[-1]
    middle = (side - 1) / 2
    return [(x_m + _PITCH_M * (index % side - middle), y_m + _PITCH_M * (index // side - middle)) for index in range(count)]
