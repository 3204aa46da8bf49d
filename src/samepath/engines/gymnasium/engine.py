"""Driving highway-env's vehicles: they are set up, stepped and read.

Its y looks down the screen and its headings turn clockwise, as ours do. A vehicle is a bicycle with an axle at each bumper. It
is steered by an angle that makes the bend our driver asked for with the script's wheels, and pushed by what its pedals' forces
are over its mass.
"""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from highway_env.road.road import Road, RoadNetwork
from highway_env.vehicle.kinematics import Vehicle
from highway_env.vehicle.objects import RoadObject

from samepath.core.states import VehicleCommand
from samepath.engines.in_process import (
    FirstContacts,
    InProcessContact,
    InProcessSettings,
    InProcessWorld,
    State,
    StepAccumulator,
)
from samepath.scenarios.scripts import STANDING, PlanarState, Role, Script, brake_force_n, drive_force_n


@dataclass(frozen=True)
class HighwayAction:
    """What a vehicle of highway-env is told."""

    steering_rad: float
    acceleration_mps2: float


def action_of(role: Role, command: VehicleCommand, speed_mps: float, step_s: float) -> HighwayAction:
    """Return a driver's command as an action for one step; brakes stop a vehicle, and never push it back."""
    brake = 1.0 if command.hand_brake else command.brake
    force_n = drive_force_n(role, command.throttle, speed_mps)
    slower_mps2 = min(brake_force_n(role, brake) / role.body.mass_kg, max(0.0, speed_mps) / step_s)
    return HighwayAction(_steering_rad(role, command.steer), force_n / role.body.mass_kg - slower_mps2)


def _steering_rad(role: Role, steer: float) -> float:
    if role.wheels is None or steer == 0.0:
        return 0.0
    bend = math.tan(math.radians(steer * role.wheels.max_steer_deg)) / role.wheels.wheel_base_m
    return math.atan(bend * role.body.length_m)


# pygame, which highway-env imports, greets on stdout unless asked not to.
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")


class HighwayWorld(InProcessWorld):
    """A plain with the vehicles of a script on it."""

    def __init__(self, script: Script, settings: InProcessSettings) -> None:
        self._step_s = settings.step_s
        self._accumulator = StepAccumulator(settings.step_s, settings.max_steps)
        self._contacts = FirstContacts()
        self._cars = {role.number: Car(role, self._contacts) for role in script.roles}
        self._road = Road(RoadNetwork(), list(self._cars.values()))

    def observe(self, number: int) -> PlanarState:
        """Return where a vehicle is and how it moves."""
        return self._cars[number].read()

    def command(self, number: int, command: VehicleCommand) -> None:
        """Set what a vehicle does in every step from now on."""
        self._cars[number].command = command

    def states(self) -> Mapping[int, State]:
        """Read every vehicle."""
        return {number: car.state() for number, car in self._cars.items()}

    def reading(self) -> list[PlanarState]:
        """Take down every vehicle; what is seen are the numbers of the channels, in their order."""
        return [car.read() for car in self._cars.values()]

    def step(self, count: int) -> None:
        """Make fixed steps."""
        cars, road, step_s = list(self._cars.values()), self._road, self._step_s
        for _ in range(count):
            for car in cars:
                car.obey(step_s)
            road.step(step_s)

    def advance(self, frame_s: float, on_step: Callable[[], None]) -> None:
        """Make the steps that a frame is due."""
        for _ in range(self._accumulator.due(frame_s)):
            self.step(1)
            on_step()

    def contacts(self) -> list[InProcessContact]:
        """Return who touched for the first time; highway-env moves them apart, without an impulse."""
        return self._contacts.take()


class Car(Vehicle):  # type: ignore[misc] # highway-env has no types
    """A vehicle of highway-env's that is driven by us until it crashes; then highway-env brakes it."""

    def __init__(self, role: Role, contacts: FirstContacts) -> None:
        self.LENGTH, self.WIDTH = role.body.length_m, role.body.width_m
        super().__init__(None, [role.start.x_m, role.start.y_m], math.radians(role.start.yaw_deg), 0.0)
        self._role, self._contacts = role, contacts
        self.command = STANDING

    def obey(self, step_s: float) -> None:
        """Turn the command into the action of the next step."""
        action = action_of(self._role, self.command, float(self.speed), step_s)
        self.act({"steering": action.steering_rad, "acceleration": action.acceleration_mps2})

    def handle_collisions(self, other: RoadObject, dt: float = 0.0) -> None:
        """Take down whom highway-env finds to collide."""
        pushed, crashed = self.impact, self.crashed and other.crashed
        super().handle_collisions(other, dt)
        if isinstance(other, Car) and (self.impact is not pushed or (self.crashed and other.crashed) != crashed):
            self._contacts.add(self._role.number, other._role.number, (0.0, 0.0, 0.0))

    def read(self) -> PlanarState:
        """Return where it is, its yaw and its velocity."""
        (x, y), (vx, vy) = self.position.tolist(), self.velocity.tolist()
        return PlanarState(x, y, yaw_deg(self.heading), vx, vy)

    def state(self) -> State:
        """Name the numbers, in the order of the channels."""
        x, y, yaw, vx, vy = self.read()
        return {"x_m": x, "y_m": y, "yaw_deg": yaw, "vx_mps": vx, "vy_mps": vy}


def yaw_deg(heading_rad: float) -> float:
    """highway-env counts turns; we do not."""
    return math.degrees(math.remainder(heading_rad, math.tau))
