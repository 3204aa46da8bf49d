"""One run in MetaDrive: reads what is to be driven from the file on the command line, drives it, and writes what happened.

Runs in MetaDrive's own interpreter, which has older packages than samepath: it needs MetaDrive, and nothing of samepath.

To what was stdout goes a line each: ``samepath 1``, S states of one tick or more, C contact, F frames, E end. Numbers are bytes
in base64, so that none loses a digit. What MetaDrive prints goes to stderr.

The world is MetaDrive's engine with cars of its own on its plain, and nothing else: no map, no lanes, no traffic, no sensors.
Its physics is Bullet in Panda3D's frame, right-handed with z up; samepath's y is the other way round. Only the game loop looks
at the wall clock.
"""

from __future__ import annotations

import base64
import json
import math
import os
import struct
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from .driver import STANDING_MPS, Chassis, DriverCommand, Observation, PathDriver

# MetaDrive has no types: a vehicle of its, and a class of vehicles.
Vehicle = Any
VehicleClass = Any
# What a car tells: place; where forward, up and left point; velocity, spin; how it is driven.
STATE = struct.Struct("<18f3d")
CONTACT = struct.Struct("<3i3f")
STEP = struct.Struct("<I")


class MetaDriveRun:
    """A run from its first step to its last."""

    def __init__(self, run: dict[str, Any], writer: TraceWriter) -> None:
        self.run, self.writer = run, writer
        self.world = MetaDriveWorld(run)
        self.drivers = [
            PathDriver(actor, car.chassis, run["control_s"])
            for actor, car in zip(run["actors"], self.world.cars)  # noqa: B905
        ]
        self.steps = 0
        self.collided = False
        self.ended = ""

    def settle(self) -> None:
        """Let everybody sink onto their wheels."""
        for car in self.world.cars:
            car.obey(car.command, 0.0)
        for _ in range(self.run["settle_steps"]):
            self.world.step()
        self.world.sweep()

    def decide(self, time_s: float) -> None:
        """Ask everybody's driver."""
        for car, driver in zip(self.world.cars, self.drivers):  # noqa: B905
            seen = car.see()
            car.obey(driver.step(seen, time_s), seen.speed_mps)

    def step(self) -> None:
        """Make a physics step and tell what came of it."""
        contacts = self.world.step()
        self.steps += 1
        for contact in contacts:
            self.collided = True
            data = CONTACT.pack(self.steps, contact.actor, contact.other, *contact.impulse_ns)
            self.writer.say(f"C {base64.b64encode(data).decode()}")
        if self.steps % self.run["steps_per_tick"] == 0:
            self.writer.states(STEP.pack(self.steps) + b"".join(car.state() for car in self.world.cars))
            self.ended = self.why_over(self.steps // self.run["steps_per_tick"])

    def why_over(self, tick: int) -> str:
        """Say why this tick is the last, if it is."""
        run = self.run
        if tick == run["last_tick"]:
            return "duration"
        if run["end"] == "last-waypoint" and all(driver.stopped for driver in self.drivers):
            return "arrived"
        if run["end"] == "first-collision" and self.collided:
            return "collision"
        return "over" if tick >= run["ticks"] else ""

    def play_in_step(self) -> None:
        """Ask drivers every tick, then make its steps, as fast as they go."""
        while not self.ended:
            self.decide(self.steps * self.run["step_s"])
            for _ in range(self.run["steps_per_tick"]):
                self.step()
            self.world.sweep()

    def play_frames(self) -> None:
        """Frames come with the wall clock: drivers are asked once, then as many steps as are due are made, up to a most."""
        run, frame_s = self.run, self.run["frame_s"]
        last_s = time.monotonic()
        due_s, game_s, left_s = last_s + frame_s, 0.0, 0.0
        frames = most = 0
        while not self.ended:
            wait_s = due_s - time.monotonic()
            if wait_s > 0:
                time.sleep(wait_s)
            here_s = time.monotonic()
            passed_s = (here_s - last_s) * run["time_scale"]
            last_s, due_s = here_s, max(due_s, here_s) + frame_s
            game_s += passed_s
            left_s += passed_s
            self.decide(game_s)
            count = int(left_s / run["step_s"])
            # What is beyond the most is dropped: the physics is behind the game from then on.
            left_s = left_s - count * run["step_s"] if count <= run["max_steps"] else 0.0
            count = min(count, run["max_steps"])
            frames, most = frames + 1, max(most, count)
            for _ in range(count):
                if not self.ended:
                    self.step()
            self.world.sweep()
        self.writer.say(f"F {frames} {most}")


class Contact(NamedTuple):
    """Two cars that touch for the first time, and the impulse that ``actor`` felt."""

    actor: int
    other: int
    impulse_ns: tuple[float, float, float]


class Car:
    """One of MetaDrive's vehicles."""

    def __init__(self, number: int, vehicle: Vehicle) -> None:
        self.number = number
        self.vehicle = vehicle
        self.command = DriverCommand(0.0, 0.0, 1.0)
        self.chassis = Chassis(vehicle.FRONT_WHEELBASE + vehicle.REAR_WHEELBASE, vehicle.REAR_WHEELBASE, vehicle.max_steering)

    def see(self) -> Observation:
        """Return what the driver sees."""
        at, velocity = self.vehicle.origin.getPos(), self.vehicle.body.getLinearVelocity()
        forward = self.vehicle.origin.getQuat().getForward()
        size = math.sqrt(forward[0] * forward[0] + forward[1] * forward[1])
        x, y = forward[0] / size, -forward[1] / size
        return Observation(at[0], -at[1], x, y, velocity[0] * x - velocity[1] * y)

    def obey(self, command: DriverCommand, speed_mps: float) -> None:
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


class MetaDriveWorld:
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

    def _spawned(self, kind: VehicleClass, start: dict[str, float]) -> Vehicle:
        """Spawn a vehicle; it is put in its place by hand, since there is no lane to start on."""
        vehicle = self._engine.spawn_object(kind, vehicle_config={"need_navigation": False}, random_seed=0)
        vehicle.reset(position=(start["x_m"], start["y_m"]), heading=start["yaw_deg"])
        return vehicle

    def step(self) -> list[Contact]:
        """Make one physics step; return who touched for the first time."""
        self._engine.step_physics_world()
        # MetaDrive's own contact callback sets this, and it stays until the next action.
        if len(self._met) < self._pairs and any(car.vehicle.crash_vehicle for car in self.cars):
            return self._fresh()
        return []

    def sweep(self) -> None:
        """Let Panda3D do what it does once a frame: among others, throw away transforms nobody uses."""
        self._engine.task_manager.step()

    def _fresh(self) -> list[Contact]:
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
        return [Contact(actor, other, (x, y, z)) for (actor, other), (x, y, z) in sorted(found.items())]

    def _number(self, node: object) -> int:
        return next((car.number for car in self.cars if car.vehicle.body == node), -1)


class TraceWriter:
    """Writes lines to what was stdout; from now on, whatever else is printed goes to stderr."""

    def __init__(self, ticks_at_once: int) -> None:
        self._out = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
        self._ticks_at_once = ticks_at_once
        self._states: list[bytes] = []

    def say(self, line: str) -> None:
        """Write a line, after what waits."""
        self.flush()
        self._write(line.encode() + b"\n")

    def states(self, data: bytes) -> None:
        """Write a tick's states: where nobody waits for the wall clock, some ticks at once."""
        self._states.append(data)
        if len(self._states) >= self._ticks_at_once:
            self.flush()

    def flush(self) -> None:
        """Write the states that wait."""
        if self._states:
            data, self._states = b"".join(self._states), []
            self._write(b"S " + base64.b64encode(data) + b"\n")

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._out.write(left) :]


def main() -> None:
    """Play the run on the command line."""
    run = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    writer = TraceWriter(run["ticks_at_once"])
    play = MetaDriveRun(run, writer)
    play.settle()
    writer.say("samepath 1")
    if run["mode"] == "synchronous":
        play.play_in_step()
    else:
        play.play_frames()
    writer.say(f"E {play.ended}")
    os._exit(0)  # Panda3D has nothing to save, and takes its time to close


if __name__ == "__main__":
    main()
