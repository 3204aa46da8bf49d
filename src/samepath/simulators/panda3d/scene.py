"""Our script in Panda3D's terms. Its frame is right-handed, x to the right, y forward, z up: our x and y change places.

Headings turn the other way round there: seen from above, ours go clockwise, Panda3D's do not.
"""

from dataclasses import dataclass
from typing import Final

from samepath.simulators.scripts import Role, Wheels

# Where the middle of the mass is, as a part of the height: low, as in a car.
_MASS_SHARE: Final = 0.38
# How far springs are compressed by the car's own weight, and how much their swing is damped.
_SAG_M: Final = 0.08
# Panda3D makes every spring so long, and has no word for another length.
_REST_M: Final = 0.4
_TRAVEL_M: Final = 0.2
_GRAVITY_MPS2: Final = 9.81
_DAMPING: Final = 0.5


@dataclass(frozen=True)
class Wheel:
    """A wheel: where its spring is fixed, seen from the middle of the mass, in Panda3D's axes."""

    x_m: float
    y_m: float
    z_m: float
    front: bool
    driven: bool


@dataclass(frozen=True)
class Car:
    """A vehicle for Bullet: a box on four springs. ``lift_m`` is how far the middle of the mass is above the road at rest."""

    number: int
    mass_kg: float
    half_m: tuple[float, float, float]
    box_z_m: float
    lift_m: float
    position_m: tuple[float, float, float]
    heading_deg: float
    wheels: tuple[Wheel, ...]
    radius_m: float
    friction: float
    travel_m: float
    stiffness: float
    damping: float
    max_steer_deg: float


def car_of(role: Role, wheels: Wheels) -> Car:
    """Return a role as a car of Bullet's, standing on its wheels at its place."""
    body = role.body
    lift_m = _MASS_SHARE * body.height_m
    box_m = body.height_m - wheels.clearance_m
    # At rest a spring is as long as it is unloaded, less the sag; the wheel's middle is one radius above the road.
    fixed_m = wheels.radius_m + _REST_M - _SAG_M
    x_m, y_m = wheels.track_m / 2, wheels.wheel_base_m / 2
    # Bullet wants stiffness per mass: a spring carries a quarter of the weight at its sag.
    stiffness = _GRAVITY_MPS2 / (4 * _SAG_M)
    return Car(
        number=role.number,
        mass_kg=body.mass_kg,
        half_m=(body.width_m / 2, body.length_m / 2, box_m / 2),
        box_z_m=wheels.clearance_m + box_m / 2 - lift_m,
        lift_m=lift_m,
        position_m=(role.start.y_m, role.start.x_m, lift_m),
        heading_deg=-role.start.yaw_deg,
        wheels=tuple(
            Wheel(x, y, fixed_m - lift_m, y > 0, wheels.driven == "all" or (wheels.driven == "front") == (y > 0))
            for x, y in ((-x_m, y_m), (x_m, y_m), (-x_m, -y_m), (x_m, -y_m))
        ),
        radius_m=wheels.radius_m,
        friction=wheels.friction,
        travel_m=_TRAVEL_M,
        stiffness=stiffness,
        damping=_DAMPING * 2 * stiffness**0.5,
        max_steer_deg=wheels.max_steer_deg,
    )
