"""Driving Chipmunk through pymunk: vehicles are set up, stepped and read.

The world is a plane seen from above. Its axes are ours, so that nothing need be turned. A vehicle is a box on two axles. Tyres
are joints to the road which only resist: along each axle as much as the tyres hold, and along the vehicle as much as brakes and
rolling resistance do.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pymunk

from samepath.core.states import VehicleCommand
from samepath.engines.in_process import (
    FirstContacts,
    InProcessContact,
    InProcessSettings,
    InProcessWorld,
    State,
    StepAccumulator,
)
from samepath.engines.pymunk.simulator import SolverSettings
from samepath.scenarios.scripts import PlanarState, Point, Role, Script, Wheels, brake_force_n, drive_force_n

GRAVITY_MPS2: Final = 9.81
CRATE_M: Final = 1.0
CRATE_KG: Final = 50.0
CRATE_FRICTION: Final = 0.5
# From the middle of a crate to the middle of the next.
_PITCH_M: Final = 1.05


@dataclass(frozen=True)
class CarParameters:
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


def parameters_of(role: Role, wheels: Wheels) -> CarParameters:
    """Return a role as a box on two axles; ``driven_m`` is where the driven one is, ahead of the middle."""
    weight_n = role.body.mass_kg * GRAVITY_MPS2
    axle_m = wheels.wheel_base_m / 2
    return CarParameters(
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


_VEHICLE: Final = 1
_CRATE: Final = 2
# Longer than anybody moves in a step: a groove's ends are never reached.
_GROOVE_M: Final = 10.0
# How much bodies grip each other, and how little they bounce.
_FRICTION: Final = 0.5
_ELASTICITY: Final = 0.1


class PymunkWorld(InProcessWorld):
    """A plane with the vehicles of a script on it, and crates if they are asked for."""

    def __init__(self, script: Script, settings: InProcessSettings, solver: SolverSettings) -> None:
        self._step_s = settings.step_s
        self._accumulator = StepAccumulator(settings.step_s, settings.max_steps)
        self._space = pymunk.Space(threaded=solver.threads > 1)
        self._space.iterations = solver.iterations
        if solver.threads > 1:
            self._space.threads = solver.threads
        self._cars = {
            role.number: Car(role, parameters_of(role, role.wheels), self._space)
            for role in script.roles
            if role.wheels is not None
        }
        self._numbers = {car.body: number for number, car in self._cars.items()}
        for place in crate_places(script, solver.crates):
            _add_crate(self._space, place)
        self._contacts = FirstContacts()
        for kind in (_VEHICLE, _CRATE):
            self._space.on_collision(_VEHICLE, kind, post_solve=self._on_contact)

    def observe(self, number: int) -> PlanarState:
        """Return where a body is and how it moves."""
        body = self._cars[number].body
        (x, y), (vx, vy) = body.position, body.velocity
        return PlanarState(x, y, _yaw_deg(body.angle), vx, vy)

    def command(self, number: int, command: VehicleCommand) -> None:
        """Set what a vehicle does in every step from now on."""
        self._cars[number].command = command

    def states(self) -> Mapping[int, State]:
        """Read every body."""
        return {number: _state(car.body) for number, car in self._cars.items()}

    def step(self, count: int) -> None:
        """Make fixed steps; forces and grooves are those of each step."""
        cars, space, step_s = list(self._cars.values()), self._space, self._step_s
        for _ in range(count):
            for car in cars:
                car.act()
            space.step(step_s)

    def advance(self, frame_s: float, on_step: Callable[[], None]) -> None:
        """Make the steps that a frame is due."""
        for _ in range(self._accumulator.due(frame_s)):
            self.step(1)
            on_step()

    def contacts(self) -> list[InProcessContact]:
        """Return who touched for the first time."""
        return self._contacts.take()

    def _on_contact(self, arbiter: pymunk.Arbiter, _space: pymunk.Space, _data: object) -> None:
        actor, other = (self._numbers.get(body) for body in arbiter.bodies)
        x, y = arbiter.total_impulse
        if actor is not None:
            self._contacts.add(actor, other, (x, y, 0.0))
        elif other is not None:
            self._contacts.add(other, None, (-x, -y, 0.0))


class Car:
    """A box on two axles."""

    def __init__(self, role: Role, car: CarParameters, space: pymunk.Space) -> None:
        self._role, self._car = role, car
        self.command = VehicleCommand()
        self.body = pymunk.Body(car.mass_kg, pymunk.moment_for_box(car.mass_kg, (car.length_m, car.width_m)))
        self.body.position, self.body.angle = (car.x_m, car.y_m), car.yaw_rad
        shape = pymunk.Poly.create_box(self.body, (car.length_m, car.width_m))
        shape.friction, shape.elasticity, shape.collision_type = _FRICTION, _ELASTICITY, _VEHICLE
        space.add(self.body, shape)
        self._front, self._rear, self._along = (_groove(space, self.body, at) for at in (car.axle_m, -car.axle_m, 0.0))
        self._front.max_force = self._rear.max_force = car.hold_n

    def act(self) -> None:
        """Push, hold and steer for one step."""
        car, body, command = self._car, self.body, self.command
        sine, cosine = math.sin(body.angle), math.cos(body.angle)
        speed_mps = body.velocity.length
        force_n = drive_force_n(self._role, command.throttle, speed_mps)
        if force_n:
            force_n = -force_n if command.reverse else force_n
            body.apply_force_at_local_point((force_n, 0.0), (car.driven_m, 0.0))
        self._along.max_force = car.roll_n + brake_force_n(self._role, 1.0 if command.hand_brake else command.brake)
        steer = body.angle + command.steer * car.max_steer_rad
        x, y = body.position
        _lay(self._front, x + car.axle_m * cosine, y + car.axle_m * sine, math.cos(steer), math.sin(steer))
        _lay(self._rear, x - car.axle_m * cosine, y - car.axle_m * sine, cosine, sine)
        _lay(self._along, x, y, -sine, cosine)


def _groove(space: pymunk.Space, body: pymunk.Body, at_m: float) -> pymunk.GrooveJoint:
    """A joint that lets a point of a body move along a line on the road and resists across it; it never pulls back."""
    joint = pymunk.GrooveJoint(space.static_body, body, (-1.0, 0.0), (1.0, 0.0), (at_m, 0.0))
    joint.max_bias = 0.0
    joint.collide_bodies = False
    space.add(joint)
    return joint


def _lay(joint: pymunk.GrooveJoint, x: float, y: float, along_x: float, along_y: float) -> None:
    """Lay a groove through a point of the road, along a direction."""
    joint.groove_a = (x - _GROOVE_M * along_x, y - _GROOVE_M * along_y)
    joint.groove_b = (x + _GROOVE_M * along_x, y + _GROOVE_M * along_y)


def _add_crate(space: pymunk.Space, place: tuple[float, float]) -> None:
    """A crate that rubs on the road: two joints, which is what it is there for."""
    body = pymunk.Body(CRATE_KG, pymunk.moment_for_box(CRATE_KG, (CRATE_M, CRATE_M)))
    body.position = place
    slide = pymunk.PivotJoint(space.static_body, body, place, (0.0, 0.0))
    turn = pymunk.GearJoint(space.static_body, body, 0.0, 1.0)
    for joint in (slide, turn):
        joint.max_bias = 0.0
        joint.max_force = CRATE_FRICTION * CRATE_KG * GRAVITY_MPS2
    shape = pymunk.Poly.create_box(body, (CRATE_M, CRATE_M))
    shape.friction, shape.elasticity, shape.collision_type = _FRICTION, _ELASTICITY, _CRATE
    space.add(body, shape, slide, turn)


def _yaw_deg(angle_rad: float) -> float:
    """Chipmunk counts turns; we do not."""
    return math.degrees(math.remainder(angle_rad, math.tau))


def _state(body: pymunk.Body) -> State:
    (x, y), (vx, vy) = body.position, body.velocity
    return {"x_m": x, "y_m": y, "yaw_deg": _yaw_deg(body.angle), "vx_mps": vx, "vy_mps": vy}
