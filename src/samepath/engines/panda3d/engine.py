"""Driving Bullet through Panda3D: vehicles are set up, stepped and read.

Panda3D's frame is right-handed, x to the right, y forward, z up: our x and y change places. Headings turn the other way round
there: seen from above, ours go clockwise, Panda3D's do not.

What is logged is where the wheels' springs are fixed, which follows from the chassis as a step left it. A game loop reads it
in Bullet's own callback after that step. A node's transform will not do there: it is one step late, and moved on by the time
that is left over, so that the same steps look different in frames of other lengths. Drivers see it: a game has nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from panda3d import bullet, core

from samepath.core.channels import POSITION, ROTATION, VELOCITY
from samepath.core.states import VehicleCommand
from samepath.engines.in_process import (
    FirstContacts,
    Floats,
    InProcessContact,
    InProcessSettings,
    InProcessWorld,
    State,
    Vector,
    angle_columns_deg,
)
from samepath.scenarios.scripts import PlanarState, Role, Script, Wheels, brake_force_n, drive_force_n

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
class WheelMount:
    """A wheel: where its spring is fixed, seen from the middle of the mass, in Panda3D's axes."""

    x_m: float
    y_m: float
    z_m: float
    front: bool
    driven: bool


@dataclass(frozen=True)
class CarParameters:
    """A vehicle for Bullet: a box on four springs. ``lift_m`` is how far the middle of the mass is above the road at rest."""

    number: int
    mass_kg: float
    half_m: tuple[float, float, float]
    box_z_m: float
    lift_m: float
    position_m: tuple[float, float, float]
    heading_deg: float
    wheels: tuple[WheelMount, ...]
    radius_m: float
    friction: float
    travel_m: float
    stiffness: float
    damping: float
    max_steer_deg: float


def parameters_of(role: Role, wheels: Wheels) -> CarParameters:
    """Return a role as a car of Bullet's, standing on its wheels at its place."""
    body = role.body
    lift_m = _MASS_SHARE * body.height_m
    box_m = body.height_m - wheels.clearance_m
    # At rest a spring is as long as it is unloaded, less the sag; the wheel's middle is one radius above the road.
    fixed_m = wheels.radius_m + _REST_M - _SAG_M
    x_m, y_m = wheels.track_m / 2, wheels.wheel_base_m / 2
    # Bullet wants stiffness per mass: a spring carries a quarter of the weight at its sag.
    stiffness = _GRAVITY_MPS2 / (4 * _SAG_M)
    return CarParameters(
        number=role.number,
        mass_kg=body.mass_kg,
        half_m=(body.width_m / 2, body.length_m / 2, box_m / 2),
        box_z_m=wheels.clearance_m + box_m / 2 - lift_m,
        lift_m=lift_m,
        position_m=(role.start.y_m, role.start.x_m, lift_m),
        heading_deg=-role.start.yaw_deg,
        wheels=tuple(
            WheelMount(x, y, fixed_m - lift_m, y > 0, wheels.driven == "all" or (wheels.driven == "front") == (y > 0))
            for x, y in ((-x_m, y_m), (x_m, y_m), (-x_m, -y_m), (x_m, -y_m))
        ),
        radius_m=wheels.radius_m,
        friction=wheels.friction,
        travel_m=_TRAVEL_M,
        stiffness=stiffness,
        damping=_DAMPING * 2 * stiffness**0.5,
        max_steer_deg=wheels.max_steer_deg,
    )


_GROUND: Final = "0"
CHANNELS: Final = (*POSITION, *ROTATION, *VELOCITY)


class PandaWorld(InProcessWorld):
    """A plain with the vehicles of a script on it."""

    def __init__(self, script: Script, settings: InProcessSettings) -> None:
        self._settings = settings
        self._world = bullet.BulletWorld()
        self._world.setGravity(core.Vec3(0, 0, -_GRAVITY_MPS2))
        self._root = core.NodePath("samepath")
        ground = bullet.BulletRigidBodyNode(_GROUND)
        ground.addShape(bullet.BulletPlaneShape(core.Vec3(0, 0, 1), 0))
        self._root.attachNewNode(ground)
        self._world.attach(ground)
        # Bullet takes brakes as the most impulse of a step, however long the step is.
        brake_s = settings.step_s if settings.mode != "variable-step" else settings.control_s
        self._cars = {
            role.number: Car(role, parameters_of(role, role.wheels), self._world, self._root, brake_s)
            for role in script.roles
            if role.wheels is not None
        }
        self._contacts = FirstContacts()
        self._fresh: list[tuple[int, int]] = []
        # What is asked of each vehicle in a reading, one after the other.
        self._readings = [ask for car in self._cars.values() for ask in car.readings]
        self._shape_m = [np.array([car.shape_m[part] for car in self._cars.values()]) for part in range(3)]
        self._after_step: Callable[[], None] = _nothing
        self._pairs = len(self._cars) * (len(self._cars) - 1) // 2
        self._told = core.PythonCallbackObject(self._on_step)
        self._world.setContactAddedCallback(core.PythonCallbackObject(self._on_contact))

    def observe(self, number: int) -> PlanarState:
        """Return a node's transform and its body's velocity."""
        return self._cars[number].observe()

    def command(self, number: int, command: VehicleCommand) -> None:
        """Set forces, brakes and steering of a vehicle."""
        self._cars[number].obey(command)

    def states(self) -> Mapping[int, State]:
        """Return the vehicles as the last step left them."""
        rows = self.rows([self.reading()])[0].tolist()
        return {number: dict(zip(CHANNELS, row, strict=True)) for number, row in zip(self._cars, rows, strict=True)}

    def reading(self) -> list[Any]:
        """Ask Bullet for three hard points and the velocity of each vehicle."""
        return [ask() for ask in self._readings]

    def rows(self, readings: Sequence[Any]) -> Floats:
        """Return the vehicles in our frame: middle on the road, angles and velocity, from the hard points of each reading."""
        told = core.PTA_LVecBase3f()  # an array that takes Panda3D's own vectors, and is a buffer to others
        for reading in readings:
            for vector in reading:
                told.push_back(vector)
        # Panda3D's first two axes have changed places: from here on, all is in ours.
        numbers = np.frombuffer(told, np.float32).astype(np.float64).reshape(len(readings), len(self._cars), 4, 3)
        points, velocity = numbers[:, :, :3], numbers[:, :, 3]
        (y0, x0, z0), (y1, x1, z1), (y2, x2, z2) = (np.moveaxis(points[:, :, index], -1, 0) for index in range(3))
        length_m, width_m, above_m = self._shape_m
        fx, fy, fz = (x0 - x2) / length_m, (y0 - y2) / length_m, (z0 - z2) / length_m
        rx, ry, rz = (x1 - x0) / width_m, (y1 - y0) / width_m, (z1 - z0) / width_m
        up_z = fx * ry - fy * rx
        x_m = (x1 + x2) / 2 - (fy * rz - fz * ry) * above_m
        y_m = (y1 + y2) / 2 - (fz * rx - fx * rz) * above_m
        z_m = (z1 + z2) / 2 - up_z * above_m
        angles = angle_columns_deg((fx, fy, fz), rz, up_z)
        return np.stack((x_m, y_m, z_m, *angles, velocity[..., 1], velocity[..., 0], velocity[..., 2]), axis=-1)

    def step(self, count: int) -> None:
        """Make fixed steps, one by one. They are those of ``doPhysics(step, 1, step)``, but nodes are not shown a step late."""
        world, step_s = self._world, self._settings.step_s
        for _ in range(count):
            world.doPhysics(step_s, 0)
            if self._fresh:
                self._read_impulses()
        _sweep()

    def advance(self, frame_s: float, on_step: Callable[[], None]) -> None:
        """Let Bullet make the fixed steps of a frame, as a game would."""
        failures: list[BaseException] = []

        def after_step() -> None:
            if failures:
                return
            try:
                on_step()
            except BaseException as error:
                failures.append(error)  # Panda3D would print it: it is raised once the steps are made

        self._after_step = after_step
        self._world.setTickCallback(self._told, False)
        self._world.doPhysics(frame_s, self._settings.max_steps, self._settings.step_s)
        self._world.clearTickCallback()
        _sweep()
        if failures:
            raise failures[0]

    def step_variable(self, frame_s: float) -> None:
        """Make one step as long as a frame."""
        self._world.doPhysics(frame_s, 0)
        if self._fresh:
            self._read_impulses()
        _sweep()

    def contacts(self) -> list[InProcessContact]:
        """Return who touched for the first time."""
        return self._contacts.take()

    def close(self) -> None:
        """Let go of the callbacks, which hold this world."""
        self._world.clearContactAddedCallback()
        self._world.clearTickCallback()
        self._told = None

    def _on_contact(self, data: bullet.BulletContactCallbackData) -> None:
        names = data.node0.name, data.node1.name
        if _GROUND in names:
            return
        pair = min(int(names[0]), int(names[1])), max(int(names[0]), int(names[1]))
        if not self._contacts.has_met(*pair) and pair not in self._fresh:
            self._fresh.append(pair)

    def _on_step(self, _data: object) -> None:
        if self._fresh:
            self._read_impulses()
        self._after_step()

    def _read_impulses(self) -> None:
        """Impulses are known once the step is solved."""
        for actor, other in self._fresh:
            self._contacts.add(actor, other, self._impulse_ns(actor, other))
        self._pairs -= len(self._fresh)
        self._fresh.clear()
        if self._pairs == 0:  # everybody has met: further contacts are no news
            self._world.clearContactAddedCallback()

    def _impulse_ns(self, actor: int, other: int) -> Vector:
        x = y = z = 0.0
        for manifold in self._world.getManifolds():
            names = manifold.node0.name, manifold.node1.name
            if names not in ((str(actor), str(other)), (str(other), str(actor))):
                continue
            sign = 1.0 if names[0] == str(actor) else -1.0
            for point in manifold.getManifoldPoints():
                size, normal = sign * point.getAppliedImpulse(), point.getNormalWorldOnB()
                x, y, z = x + size * normal.y, y + size * normal.x, z + size * normal.z
        return x, y, z


def _nothing() -> None:
    """Do nothing after a step."""


def _sweep() -> None:
    """Throw away transforms nobody uses, as every game does once a frame: else they pile up and each step takes longer."""
    core.TransformState.garbageCollect()


class Car:
    """A vehicle of Bullet's: a box on four rays."""

    def __init__(self, role: Role, car: CarParameters, world: bullet.BulletWorld, root: core.NodePath, brake_s: float) -> None:
        self._role, self._car, self._brake_s = role, car, brake_s
        self._body = bullet.BulletRigidBodyNode(str(car.number))
        self._body.addShape(
            bullet.BulletBoxShape(core.Vec3(*car.half_m)), core.TransformState.makePos(core.Point3(0, 0, car.box_z_m))
        )
        self._body.setMass(car.mass_kg)
        self._body.setDeactivationEnabled(False)
        self._body.notifyCollisions(True)
        self._node = root.attachNewNode(self._body)
        self._node.setPos(*car.position_m)
        self._node.setH(car.heading_deg)
        world.attach(self._body)
        self._vehicle = bullet.BulletVehicle(world, self._body)
        self._vehicle.setCoordinateSystem(bullet.ZUp)
        world.attach(self._vehicle)
        for mount in car.wheels:
            self._add_wheel(mount)
        # Asked for once all are there: Bullet moves its wheels about when it adds one. Three tell where the chassis is.
        self._rays = [self._vehicle.getWheel(index).getRaycastInfo() for index in range(3)]
        self.readings = [*(ray.getHardPointWs for ray in self._rays), self._body.getLinearVelocity]
        # Wheel base, track, and how far the hard points are above the road.
        self.shape_m = 2 * car.wheels[0].y_m, 2 * car.wheels[1].x_m, car.wheels[0].z_m + car.lift_m
        self._driven = [index for index, mount in enumerate(car.wheels) if mount.driven]

    def _add_wheel(self, mount: WheelMount) -> None:
        car, wheel = self._car, self._vehicle.createWheel()
        wheel.setChassisConnectionPointCs(core.Point3(mount.x_m, mount.y_m, mount.z_m))
        wheel.setWheelDirectionCs(core.Vec3(0, 0, -1))
        wheel.setWheelAxleCs(core.Vec3(1, 0, 0))
        wheel.setFrontWheel(mount.front)
        wheel.setWheelRadius(car.radius_m)
        wheel.setSuspensionStiffness(car.stiffness)
        wheel.setWheelsDampingCompression(car.damping)
        wheel.setWheelsDampingRelaxation(car.damping)
        wheel.setMaxSuspensionTravelCm(100 * car.travel_m)
        wheel.setFrictionSlip(car.friction)
        wheel.setRollInfluence(0.1)

    def observe(self) -> PlanarState:
        """Return where the node is shown, and the body's velocity."""
        position, velocity = self._node.getPos(), self._body.getLinearVelocity()
        return PlanarState(position.y, position.x, -self._node.getH(), velocity.y, velocity.x)

    def obey(self, command: VehicleCommand) -> None:
        """Push, brake and steer."""
        vehicle, velocity = self._vehicle, self._body.getLinearVelocity()
        force_n = drive_force_n(self._role, command.throttle, velocity.length()) / len(self._driven)
        force_n = -force_n if command.reverse else force_n
        brake_ns = brake_force_n(self._role, 1.0 if command.hand_brake else command.brake) / 4 * self._brake_s
        steer_deg = -command.steer * self._car.max_steer_deg
        for index in self._driven:
            vehicle.applyEngineForce(force_n, index)
        for index in range(4):
            vehicle.setBrake(brake_ns, index)
        vehicle.setSteeringValue(steer_deg, 0)
        vehicle.setSteeringValue(steer_deg, 1)
