"""MetaDrive's engine with cars of its own on its plain, and nothing else: no map, no lanes, no traffic, no sensors.

MetaDrive's physics is Bullet in Panda3D's frame, right-handed with z up; samepath's y is the other way round.
"""

from __future__ import annotations

import math
import struct
from importlib import import_module
from typing import Any, NamedTuple

from .driver import STANDING_MPS, Chassis, Command, Seen

# What a car tells: place; where forward, up and left point; velocity, spin; how it is driven.
STATE = struct.Struct("<18f3d")


class Touch(NamedTuple):
    """Two cars that touch for the first time, and what the first felt."""

    one: int
    other: int
    impulse_ns: tuple[float, float, float]


class Car:
    """One of MetaDrive's vehicles."""

    def __init__(self, number: int, vehicle: Any) -> None:  # noqa: ANN401 - MetaDrive has no types
        self.number = number
        self.vehicle = vehicle
        self.command = Command(0.0, 0.0, 1.0)
        self.chassis = Chassis(vehicle.FRONT_WHEELBASE + vehicle.REAR_WHEELBASE, vehicle.REAR_WHEELBASE, vehicle.max_steering)

    def see(self) -> Seen:
        """Return what the driver sees."""
        at, velocity = self.vehicle.origin.getPos(), self.vehicle.body.getLinearVelocity()
        forward = self.vehicle.origin.getQuat().getForward()
        size = math.sqrt(forward[0] * forward[0] + forward[1] * forward[1])
        x, y = forward[0] / size, -forward[1] / size
        return Seen(at[0], -at[1], x, y, velocity[0] * x - velocity[1] * y)

    def obey(self, command: Command, speed_mps: float) -> None:
        """Act as an agent of MetaDrive's does: steering to the left, and one number for both pedals.

        Full brakes shake a car that stands, and it wanders off; without a pedal MetaDrive holds it with a little brake.
        """
        self.command = command
        pedal = command.throttle - command.brake
        if pedal < 0.0 and abs(speed_mps) < STANDING_MPS:
            pedal = 0.0
        self.vehicle.before_step([-command.steer, pedal])

    def state(self) -> bytes:
        """Return everything, along samepath's axes."""
        origin, body = self.vehicle.origin, self.vehicle.body
        turned = origin.getQuat()
        vectors = (
            origin.getPos(),
            turned.getForward(),
            turned.getUp(),
            -turned.getRight(),
            body.getLinearVelocity(),
            body.getAngularVelocity(),
        )
        return STATE.pack(*(value for x, y, z in vectors for value in (x, -y, z)), *self.command)


class World:
    """The engine, with a car for every actor of a run."""

    def __init__(self, run: dict[str, Any]) -> None:
        config = import_module("metadrive.utils").Config(import_module("metadrive.envs.base_env").BASE_DEFAULT_CONFIG)
        config.update({"cull_scene": False, "physics_world_step_size": run["step_s"]}, allow_add_new_key=True)
        engines = import_module("metadrive.engine.engine_utils")
        engines.initialize_global_config(config)
        self._engine = engines.initialize_engine(config)
        self._engine.seed(0)
        kind = import_module("metadrive.component.vehicle.vehicle_type").StaticDefaultVehicle
        self.cars = [Car(actor["id"], self._spawned(kind, actor["start"])) for actor in run["actors"]]
        self._met: set[tuple[int, int]] = set()
        self._pairs = len(self.cars) * (len(self.cars) - 1) // 2

    def _spawned(self, kind: Any, start: dict[str, float]) -> Any:  # noqa: ANN401
        """Spawn a vehicle; it is put in its place by hand, since there is no lane to start on."""
        vehicle = self._engine.spawn_object(kind, vehicle_config={"need_navigation": False}, random_seed=0)
        vehicle.reset(position=(start["x_m"], start["y_m"]), heading=start["yaw_deg"])
        return vehicle

    def step(self) -> list[Touch]:
        """Make one physics step; return who touched for the first time."""
        self._engine.step_physics_world()
        # MetaDrive's own contact callback sets this, and it stays until the next action.
        if len(self._met) < self._pairs and any(car.vehicle.crash_vehicle for car in self.cars):
            return self._fresh()
        return []

    def sweep(self) -> None:
        """Let Panda3D do what it does once a frame: among others, throw away transforms nobody uses."""
        self._engine.task_manager.step()

    def _fresh(self) -> list[Touch]:
        found: dict[tuple[int, int], list[float]] = {}
        for manifold in self._engine.physics_world.dynamic_world.getManifolds():
            numbers = [self._number(node) for node in (manifold.getNode0(), manifold.getNode1())]
            pair = (min(numbers), max(numbers))
            if pair[0] < 0 or pair in self._met:
                continue
            sign = 1.0 if numbers[0] == pair[0] else -1.0
            felt = found.setdefault(pair, [0.0, 0.0, 0.0])
            for point in manifold.getManifoldPoints():
                size, normal = sign * point.getAppliedImpulse(), point.getNormalWorldOnB()
                for axis, way in enumerate((1.0, -1.0, 1.0)):
                    felt[axis] += way * size * normal[axis]
        self._met.update(found)
        return [Touch(one, other, (x, y, z)) for (one, other), (x, y, z) in sorted(found.items())]

    def _number(self, node: Any) -> int:  # noqa: ANN401
        return next((car.number for car in self.cars if car.vehicle.body == node), -1)
