"""Other people's engines beside ours, in one run, where they are installed: vehicles stepped per second."""

import math

from bench.sim import bare_engine
from bench.tools import best_s, save, show

VEHICLES = 40


def main() -> bool:
    """Measure 40 vehicles, 0.05 s per tick; there is no aim, only a comparison."""
    rows, figures = [], {}
    for name, measure in (
        ("samepath (Rapier, 4 ray wheels)", _ours),
        ("panda3d Bullet (4 ray wheels)", _panda3d),
        ("highway-env (kinematic bicycle)", _highway),
    ):
        try:
            seconds = measure()
        except ImportError as error:
            rows.append([name, f"not installed: {error.name}", ""])
            continue
        figures[name] = seconds * 1e6
        rows.append([name, f"{seconds * 1e6:.0f} µs", f"{0.05 / seconds:.0f}x"])
    show(f"{VEHICLES} vehicles, one tick of 0.05 s", ["engine", "time", "real time"], rows)
    save("engines", figures)
    return True


def _ours() -> float:
    physics = bare_engine(VEHICLES)
    for _ in range(20):
        physics.step()
    return best_s(lambda: [physics.step() for _ in range(40)], 3) / 40


def _panda3d() -> float:
    from panda3d.bullet import BulletBoxShape, BulletPlaneShape, BulletRigidBodyNode, BulletVehicle, BulletWorld
    from panda3d.core import NodePath, Point3, TransformState, Vec3

    world, root = BulletWorld(), NodePath("root")
    world.setGravity(Vec3(0, 0, -9.81))
    ground = BulletRigidBodyNode("ground")
    ground.addShape(BulletPlaneShape(Vec3(0, 0, 1), 0))
    world.attachRigidBody(root.attachNewNode(ground).node())
    side = math.ceil(math.sqrt(VEHICLES))
    for number in range(VEHICLES):
        chassis = BulletRigidBodyNode(f"car{number}")
        chassis.addShape(BulletBoxShape(Vec3(0.9, 2.3, 0.6)), TransformState.makePos(Point3(0, 0, 0.5)))
        chassis.setMass(1800)
        chassis.setDeactivationEnabled(False)
        path = root.attachNewNode(chassis)
        path.setPos((number % side) * 20, (number // side) * 20, 0.5)
        world.attachRigidBody(chassis)
        vehicle = BulletVehicle(world, chassis)
        vehicle.setCoordinateSystem(2)
        world.attachVehicle(vehicle)
        for x, y, front in ((0.8, 1.4, True), (-0.8, 1.4, True), (0.8, -1.4, False), (-0.8, -1.4, False)):
            wheel = vehicle.createWheel()
            wheel.setChassisConnectionPointCs(Point3(x, y, 0.3))
            wheel.setFrontWheel(front)
            wheel.setWheelDirectionCs(Vec3(0, 0, -1))
            wheel.setWheelAxleCs(Vec3(1, 0, 0))
            wheel.setWheelRadius(0.33)
            wheel.setMaxSuspensionTravelCm(40)
        vehicle.applyEngineForce(800, 2)
        vehicle.applyEngineForce(800, 3)
    for _ in range(20):
        world.doPhysics(0.05, 5, 0.01)
    return best_s(lambda: [world.doPhysics(0.05, 5, 0.01) for _ in range(40)], 3) / 40


def _highway() -> float:
    import gymnasium
    import highway_env  # noqa: F401 - registers its environments

    # Ten steps of 1/20 s per action; one camera-less environment with as many vehicles.
    config = {"vehicles_count": VEHICLES - 1, "simulation_frequency": 20, "policy_frequency": 2, "duration": 1000}
    environment = gymnasium.make("highway-v0", config=config)
    environment.reset(seed=1)
    return best_s(lambda: [environment.unwrapped._simulate() for _ in range(4)], 3) / 40
