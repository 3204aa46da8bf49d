"""Driving MuJoCo: vehicles are set up from MJCF, MuJoCo's own language, stepped and read.

Its frame is right-handed, x forward, y to the left, z up: our y changes its sign. A vehicle is a box that is free to move, on
four springs. Each has a wheel that rolls, those in front on a knuckle that turns. Wheels touch the road in one point, and
nothing else.

What is read is the state itself, positions and velocities of joints: the poses of bodies are still those of the step before.
There is no callback for contacts. The list of each step is read after that step, so that none is missed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, tostring

import mujoco
import numpy as np

from samepath.core.channels import POSITION, ROTATION, VELOCITY
from samepath.core.states import VehicleCommand
from samepath.engines.in_process import (
    FirstContacts,
    Floats,
    InProcessContact,
    InProcessSettings,
    InProcessWorld,
    State,
    StepAccumulator,
    angle_columns_deg,
)
from samepath.scenarios.scripts import PlanarState, Role, Script, Wheels, brake_force_n, drive_force_n

# Numbers, or arrays of them.
Scalars = Any
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
class CarParameters:
    """What driving a vehicle needs to know about it. ``lift_m`` is how far its frame's origin is above the road at rest."""

    number: int
    lift_m: float
    radius_m: float
    driven: tuple[str, ...]
    max_steer_rad: float


def parameters_of(role: Role, wheels: Wheels) -> CarParameters:
    """Return what driving needs to know about a role."""
    driven = tuple(corner for corner in CORNERS if wheels.driven in ("all", corner.split("_", maxsplit=1)[0]))
    lift_m = _MASS_SHARE * role.body.height_m
    return CarParameters(role.number, lift_m, wheels.radius_m, driven, math.radians(wheels.max_steer_deg))


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


CHANNELS: Final = (*POSITION, *ROTATION, *VELOCITY)
# Contacts are looked for where two could touch within so many steps, which are a tick at most: at 60 m/s each goes 3 m in it.
_LOOK_AHEAD_STEPS: Final = 10
_LOOK_AHEAD_M: Final = 3.0


class MujocoWorld(InProcessWorld):
    """A plain with the vehicles of a script on it."""

    def __init__(self, script: Script, settings: InProcessSettings) -> None:
        self._accumulator = StepAccumulator(settings.step_s, settings.max_steps)
        self._step_s = settings.step_s
        self._model = mujoco.MjModel.from_xml_string(mjcf_of(script, settings.step_s))
        self._data = mujoco.MjData(self._model)
        self._cars = {
            role.number: Car(role, parameters_of(role, role.wheels), self._model, self._data)
            for role in script.roles
            if role.wheels is not None
        }
        self._numbers = {self._model.geom(f"car{number}").id: number for number in self._cars}
        self._contacts = FirstContacts()
        self._positions, self._velocities = self._data.qpos, self._data.qvel  # views of MuJoCo's own arrays

    def observe(self, number: int) -> PlanarState:
        """Return where a body is and how it moves."""
        return self._cars[number].observe()

    def command(self, number: int, command: VehicleCommand) -> None:
        """Set torques, brakes and steering of a vehicle."""
        self._cars[number].obey(command)

    def states(self) -> Mapping[int, State]:
        """Read every vehicle."""
        rows = self.rows([self.reading()])[0].tolist()
        return {number: dict(zip(CHANNELS, row, strict=True)) for number, row in zip(self._cars, rows, strict=True)}

    def reading(self) -> tuple[Floats, Floats]:
        """Copy all positions and velocities."""
        return self._positions.copy(), self._velocities.copy()

    def rows(self, readings: Sequence[Any]) -> Floats:
        """Return the bodies in our frame: middle on the road, angles and velocity."""
        positions, velocities = (np.array(column) for column in zip(*readings, strict=True))
        return np.stack([car.rows(positions, velocities) for car in self._cars.values()], axis=1)

    def step(self, count: int) -> None:
        """Make fixed steps, and look for contacts after each."""
        model, data = self._model, self._data
        for done in range(count):
            if done % _LOOK_AHEAD_STEPS == 0:
                near = self._some_may_meet()
            mujoco.mj_step(model, data)
            # Contacts with the road, geom 0, name it first: any other is worth a look.
            if near and data.contact.geom1.any():
                self._look_for_contacts()

    def advance(self, frame_s: float, on_step: Callable[[], None]) -> None:
        """Make the steps that a frame is due."""
        for _ in range(self._accumulator.due(frame_s)):
            self.step(1)
            on_step()

    def contacts(self) -> list[InProcessContact]:
        """Return who touched for the first time."""
        return self._contacts.take()

    def _some_may_meet(self) -> bool:
        """Are two that have not met yet so near that they could touch within the next steps?"""
        places = [(number, car.reach_m, *car.place()) for number, car in self._cars.items()]
        return any(
            (ax - bx) ** 2 + (ay - by) ** 2 < (reach_a + reach_b) ** 2 and not self._contacts.has_met(a, b)
            for index, (a, reach_a, ax, ay) in enumerate(places)
            for b, reach_b, bx, by in places[:index]
        )

    def _look_for_contacts(self) -> None:
        data, numbers = self._data, self._numbers
        pairs = data.contact.geom[: data.ncon].tolist()
        found: dict[tuple[int, int], list[int]] = {}
        for index, (first, second) in enumerate(pairs):
            if first in numbers and second in numbers:
                found.setdefault((numbers[first], numbers[second]), []).append(index)
        for (actor, other), contacts in found.items():
            if not self._contacts.has_met(actor, other):
                x, y, z = sum((self._force_n(index) for index in contacts), np.zeros(3)).tolist()
                # MuJoCo tells what the first does to the second.
                self._contacts.add(actor, other, (-x * self._step_s, y * self._step_s, -z * self._step_s))

    def _force_n(self, contact: int) -> Floats:
        wrench = np.zeros(6)
        mujoco.mj_contactForce(self._model, self._data, contact, wrench)
        force_n: Floats = self._data.contact.frame[contact].reshape(3, 3).T @ wrench[:3]
        return force_n


class Car:
    """A body on four sprung wheels."""

    def __init__(self, role: Role, car: CarParameters, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        self._role, self._car, self._model, self._data = role, car, model, data
        name = f"car{car.number}"
        self._at, self._moves = int(model.joint(name).qposadr[0]), int(model.joint(name).dofadr[0])
        # Views of MuJoCo's own arrays.
        self._place = data.qpos[self._at : self._at + 7]
        self._motion = data.qvel[self._moves : self._moves + 3]
        self.reach_m = math.hypot(role.body.length_m, role.body.width_m) / 2 + _LOOK_AHEAD_M
        self._driven = [model.actuator(f"{name}_{corner}").id for corner in car.driven]
        self._steered = [model.actuator(f"{name}_{corner}_steer").id for corner in CORNERS[:2]]
        self._wheels = [int(model.joint(f"{name}_{corner}").dofadr[0]) for corner in CORNERS]

    def place(self) -> tuple[float, float]:
        """Return where the middle of its mass is, in MuJoCo's axes."""
        x, y = self._place[:2].tolist()
        return x, y

    def obey(self, command: VehicleCommand) -> None:
        """Push, brake and steer: brakes are dry friction in the wheels' bearings."""
        car, role = self._car, self._role
        x, y, z = self._motion.tolist()
        force_n = drive_force_n(role, command.throttle, math.sqrt(x * x + y * y + z * z))
        force_n = -force_n if command.reverse else force_n
        brake_n = brake_force_n(role, 1.0 if command.hand_brake else command.brake)
        self._data.ctrl[self._driven] = force_n * car.radius_m / len(self._driven)
        self._data.ctrl[self._steered] = -command.steer * car.max_steer_rad
        self._model.dof_frictionloss[self._wheels] = brake_n * car.radius_m / 4

    def observe(self) -> PlanarState:
        """Return where the body is and how it moves."""
        x, y, _, *turn = self._place.tolist()
        vx, vy, _ = self._motion.tolist()
        up, forward, _ = _axes(*turn)
        lift_m, yaw_deg = self._car.lift_m, math.degrees(math.atan2(forward[1], forward[0]))
        return PlanarState(x - up[0] * lift_m, -(y - up[1] * lift_m), yaw_deg, vx, -vy)

    def rows(self, positions: Floats, velocities: Floats) -> Floats:
        """Return the body at many moments."""
        x, y, z, *turn = np.moveaxis(positions[:, self._at : self._at + 7], -1, 0)
        vx, vy, vz = np.moveaxis(velocities[:, self._moves : self._moves + 3], -1, 0)
        up, forward, right_z = _axes(*turn)
        lift_m = self._car.lift_m
        places = x - up[0] * lift_m, -(y - up[1] * lift_m), z - up[2] * lift_m
        return np.stack((*places, *angle_columns_deg(forward, right_z, up[2]), vx, -vy, vz), axis=-1)


def _axes(qw: Scalars, qx: Scalars, qy: Scalars, qz: Scalars) -> tuple[Any, Any, Any]:
    """Return up in MuJoCo's axes, forward in ours, and how far right points upwards: columns of the rotation."""
    up = 2 * (qx * qz + qw * qy), 2 * (qy * qz - qw * qx), 1 - 2 * (qx * qx + qy * qy)
    forward = 1 - 2 * (qy * qy + qz * qz), -2 * (qx * qy + qw * qz), 2 * (qx * qz - qw * qy)
    return up, forward, -2 * (qy * qz + qw * qx)
