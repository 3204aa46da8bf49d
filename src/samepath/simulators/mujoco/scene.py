"""Our script as MJCF, MuJoCo's own language. Its frame is right-handed, x forward, y to the left, z up: our y changes its sign.

A vehicle is a box that is free to move, on four springs. Each has a wheel that rolls, those in front on a knuckle that turns.
Wheels touch the road in one point, and nothing else.
"""

import math
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

from samepath.simulators.scripts import Role, Script, Wheels

GRAVITY_MPS2: Final = 9.81
CORNERS: Final = ("front_left", "front_right", "rear_left", "rear_right")
# Where the middle of the mass is, as a part of the height: low, as in a car.
_MASS_SHARE: Final = 0.38
_WHEEL_KG: Final = 20.0
# How far springs are compressed by the car's own weight, and how much of critical damping they have.
_SAG_M: Final = 0.08
_DAMPING_SHARE: Final = 0.5
# What turns the knuckles: stiff enough to follow a command within a tick.
_STEER_NM: Final = 20_000.0
_STEER_NMS: Final = 400.0
_BODY_FRICTION: Final = 0.5


@dataclass(frozen=True)
class Car:
    """What driving a vehicle needs to know about it. ``lift_m`` is how far its frame's origin is above the road at rest."""

    number: int
    lift_m: float
    radius_m: float
    driven: tuple[str, ...]
    max_steer_rad: float


def car_of(role: Role, wheels: Wheels) -> Car:
    """Return what driving needs to know about a role."""
    driven = tuple(one for one in CORNERS if wheels.driven in ("all", one.split("_", maxsplit=1)[0]))
    lift_m = _MASS_SHARE * role.body.height_m
    return Car(role.number, lift_m, wheels.radius_m, driven, math.radians(wheels.max_steer_deg))


def mjcf_of(script: Script, step_s: float) -> str:
    """Return a script as MJCF; the same script is always the same text."""
    root = Element("mujoco", model=script.name)
    SubElement(root, "compiler", angle="radian", inertiafromgeom="true")
    SubElement(
        root,
        "option",
        timestep=repr(step_s),
        gravity=f"0 0 {-GRAVITY_MPS2}",
        integrator="implicitfast",
        cone="elliptic",
        impratio="10",
    )
    world = SubElement(root, "worldbody")
    # Bits say who touches whom: the road is touched by wheels (1) and bodies (2), bodies also touch each other.
    SubElement(
        world, "geom", name="road", type="plane", size="1000 1000 1", contype="0", conaffinity="3", friction="1 0.005 0.0001"
    )
    actuators = SubElement(root, "actuator")
    for role in script.roles:
        if role.wheels is not None:
            _add_car(world, actuators, role, role.wheels)
    return tostring(root, "unicode")


def _add_car(world: Element, actuators: Element, role: Role, wheels: Wheels) -> None:
    name, body, lift_m = f"car{role.number}", role.body, _MASS_SHARE * role.body.height_m
    half = math.radians(-role.start.yaw_deg) / 2
    car = SubElement(
        world,
        "body",
        name=name,
        pos=_numbers(role.start.x_m, -role.start.y_m, lift_m),
        quat=_numbers(math.cos(half), 0.0, 0.0, math.sin(half)),
    )
    SubElement(car, "freejoint", name=name)
    box_m, mass_kg = body.height_m - wheels.clearance_m, body.mass_kg - 4 * _WHEEL_KG
    # The box that others touch has no mass; the mass is a box of the same size, its middle where a car's is.
    size = _numbers(body.length_m / 2, body.width_m / 2, box_m / 2)
    at = _numbers(0.0, 0.0, wheels.clearance_m + box_m / 2 - lift_m)
    SubElement(
        car,
        "geom",
        name=name,
        type="box",
        size=size,
        pos=at,
        mass="0",
        contype="2",
        conaffinity="2",
        friction=f"{_BODY_FRICTION} 0.005 0.0001",
    )
    SubElement(car, "geom", type="box", size=size, mass=repr(mass_kg), contype="0", conaffinity="0")
    x_m, y_m, z_m = wheels.wheel_base_m / 2, wheels.track_m / 2, wheels.radius_m - lift_m
    spring_n_m = mass_kg * GRAVITY_MPS2 / 4 / _SAG_M
    damping = _DAMPING_SHARE * 2 * math.sqrt(spring_n_m * mass_kg / 4)
    for corner in CORNERS:
        x = x_m if corner.startswith("front") else -x_m
        y = y_m if corner.endswith("left") else -y_m
        carrier = SubElement(car, "body", name=f"{name}_{corner}_carrier", pos=_numbers(x, y, z_m))
        # The spring is at rest where it carries the car: springref is how far it would go down without any weight.
        SubElement(
            carrier,
            "joint",
            name=f"{name}_{corner}_spring",
            type="slide",
            axis="0 0 1",
            stiffness=repr(spring_n_m),
            damping=repr(damping),
            springref=repr(-_SAG_M),
        )
        if corner.startswith("front"):
            steer = f"{name}_{corner}_steer"
            SubElement(carrier, "joint", name=steer, type="hinge", axis="0 0 1", damping=repr(_STEER_NMS))
            SubElement(actuators, "position", name=steer, joint=steer, kp=repr(_STEER_NM))
        SubElement(carrier, "inertial", pos="0 0 0", mass="1", diaginertia="0.1 0.1 0.1")
        wheel = SubElement(carrier, "body", name=f"{name}_{corner}")
        roll = f"{name}_{corner}"
        SubElement(wheel, "joint", name=roll, type="hinge", axis="0 1 0")
        SubElement(
            wheel,
            "geom",
            name=roll,
            type="sphere",
            size=repr(wheels.radius_m),
            mass=repr(_WHEEL_KG - 1.0),
            contype="1",
            conaffinity="0",
            priority="1",
            friction=f"{wheels.friction!r} 0.005 0.0001",
        )
        SubElement(actuators, "motor", name=roll, joint=roll)


def _numbers(*values: float) -> str:
    return " ".join(map(repr, values))
