"""Driving MuJoCo: vehicles are set up from MJCF, stepped and read.

What is read is the state itself, positions and velocities of joints: the poses of bodies are still those of the step before.
There is no callback for contacts. The list of each step is read after that step, so that none is missed.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import mujoco
import numpy as np

from samepath.simulators.mujoco.scene import CORNERS, Car, car_of, mjcf_of
from samepath.simulators.playing import Backlog, PlaySettings, State, Touch, Touches, World, angles_deg
from samepath.simulators.scripts import Role, Script, Seen, VehicleCommand, brake_force_n, drive_force_n

# Cars are shorter than 10 m, and none goes 10 m in so many steps: farther apart than this, nobody touches anybody.
_NEAR_M: Final = 20.0
_LOOK_AHEAD_STEPS: Final = 10


class MujocoWorld(World):
    """A plain with the vehicles of a script on it."""

    def __init__(self, script: Script, settings: PlaySettings) -> None:
        self._backlog = Backlog(settings.step_s, settings.max_steps)
        self._step_s = settings.step_s
        self._model: Any = mujoco.MjModel.from_xml_string(mjcf_of(script, settings.step_s))
        self._data: Any = mujoco.MjData(self._model)
        self._cars = {
            role.number: Vehicle(role, car_of(role, role.wheels), self._model, self._data)
            for role in script.roles
            if role.wheels is not None
        }
        self._numbers = {self._model.geom(f"car{number}").id: number for number in self._cars}
        self._touches = Touches()

    def see(self, number: int) -> Seen:
        """Return where a body is and how it moves."""
        state = self._cars[number].state()
        return Seen(state["x_m"], state["y_m"], state["yaw_deg"], state["vx_mps"], state["vy_mps"])

    def command(self, number: int, command: VehicleCommand) -> None:
        """Set torques, brakes and steering of a vehicle."""
        self._cars[number].obey(command)

    def states(self) -> Mapping[int, State]:
        """Read every vehicle."""
        return {number: car.state() for number, car in self._cars.items()}

    def step(self, count: int) -> None:
        """Make fixed steps, and look for contacts after each."""
        model, data = self._model, self._data
        for done in range(count):
            if done % _LOOK_AHEAD_STEPS == 0:
                near = self._some_may_meet()
            mujoco.mj_step(model, data)
            # Contacts with the road, geom 0, name it first: any other is worth a look.
            if near and data.contact.geom1.any():
                self._look_for_touches()

    def advance(self, frame_s: float, on_step: Callable[[], None]) -> None:
        """Make the steps that a frame is due."""
        for _ in range(self._backlog.due(frame_s)):
            self.step(1)
            on_step()

    def touches(self) -> list[Touch]:
        """Return who touched for the first time."""
        return self._touches.take()

    def _some_may_meet(self) -> bool:
        """Are two that have not met yet so near that they could touch within the next steps?"""
        places = [(number, *car.place()) for number, car in self._cars.items()]
        return any(
            (ax - bx) ** 2 + (ay - by) ** 2 < _NEAR_M**2 and not self._touches.has_met(a, b)
            for index, (a, ax, ay) in enumerate(places)
            for b, bx, by in places[:index]
        )

    def _look_for_touches(self) -> None:
        data, numbers = self._data, self._numbers
        pairs = data.contact.geom[: data.ncon].tolist()
        found: dict[tuple[int, int], list[int]] = {}
        for index, (first, second) in enumerate(pairs):
            if first in numbers and second in numbers:
                found.setdefault((numbers[first], numbers[second]), []).append(index)
        for (one, other), contacts in found.items():
            if not self._touches.has_met(one, other):
                x, y, z = sum((self._force_n(index) for index in contacts), np.zeros(3)).tolist()
                # MuJoCo tells what the first does to the second.
                self._touches.add(one, other, (-x * self._step_s, y * self._step_s, -z * self._step_s))

    def _force_n(self, contact: int) -> Any:  # noqa: ANN401
        wrench = np.zeros(6)
        mujoco.mj_contactForce(self._model, self._data, contact, wrench)
        return self._data.contact.frame[contact].reshape(3, 3).T @ wrench[:3]


class Vehicle:
    """A body on four sprung wheels."""

    def __init__(self, role: Role, car: Car, model: Any, data: Any) -> None:  # noqa: ANN401
        self._role, self._car, self._model, self._data = role, car, model, data
        name = f"car{car.number}"
        place, motion = int(model.joint(name).qposadr[0]), int(model.joint(name).dofadr[0])
        # Views of MuJoCo's own arrays.
        self._place = data.qpos[place : place + 7]
        self._motion = data.qvel[motion : motion + 3]
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

    def state(self) -> State:
        """Return the body in our frame: its middle on the road, angles and velocity."""
        x, y, z, qw, qx, qy, qz = self._place.tolist()
        vx, vy, vz = self._motion.tolist()
        lift_m = self._car.lift_m
        # The columns of the rotation: forward, left, up, in MuJoCo's axes.
        up = 2 * (qx * qz + qw * qy), 2 * (qy * qz - qw * qx), 1 - 2 * (qx * qx + qy * qy)
        forward = 1 - 2 * (qy * qy + qz * qz), -2 * (qx * qy + qw * qz), 2 * (qx * qz - qw * qy)
        roll, pitch, yaw = angles_deg(forward, -2 * (qy * qz + qw * qx), up[2])
        return {
            "x_m": x - up[0] * lift_m,
            "y_m": -(y - up[1] * lift_m),
            "z_m": z - up[2] * lift_m,
            "roll_deg": roll,
            "pitch_deg": pitch,
            "yaw_deg": yaw,
            "vx_mps": vx,
            "vy_mps": -vy,
            "vz_mps": vz,
        }
