"""The scenario of a trial: cars that drive about a town, each with a camera, and other sensors on some of them."""

from dataclasses import dataclass
from typing import Final

from samepath.sim.cluster.client.remote import Remote
from samepath.sim.server.records import Rotation, Settings, Transform, VehicleControl
from samepath.sim.world.records import Vector

CAMERAS: Final = (
    "sensor.camera.rgb",
    "sensor.camera.depth",
    "sensor.camera.semantic_segmentation",
    "sensor.camera.instance_segmentation",
    "sensor.camera.normals",
    "sensor.camera.optical_flow",
)
_OTHERS: Final[tuple[tuple[str, dict[str, object]], ...]] = (
    ("sensor.lidar.ray_cast", {"points_per_second": 40000}),
    ("sensor.lidar.ray_cast_semantic", {"points_per_second": 40000}),
    ("sensor.other.radar", {}),
    ("sensor.other.imu", {"noise_accel_stddev_x": 0.1}),
    ("sensor.other.gnss", {"noise_alt_stddev": 0.5}),
)
_EVERY: Final = 8
"""One car in so many has the other sensors too."""
STEP_S: Final = 0.05
_DRIVE_TICKS: Final = 400
"""After so many ticks they roll out: nobody is to leave the map."""


@dataclass(frozen=True)
class SceneSettings:
    """How large the scenario is."""

    map_name: str = "town"
    cameras: int = 40
    width: int = 180
    height: int = 120
    others: bool = True


@dataclass(frozen=True)
class Stage:
    """The scenario as it was put up: the cars, and the sensors with their streams, in the order in which they were made."""

    cars: tuple[int, ...]
    sensors: tuple[tuple[int, int], ...]


def put_up(world: Remote, settings: SceneSettings) -> Stage:
    """Load the map anew and put everything up; the same calls in the same order every time."""
    world.load(settings.map_name).result(120.0)
    world.apply_settings(Settings(synchronous_mode=True, fixed_delta_seconds=STEP_S)).result(30.0)
    points = world.spawn_points().result(30.0)
    cars = [
        world.spawn("vehicle.tesla.model3" if number % 3 else "vehicle.volkswagen.t2", points[number * 5 % len(points)])
        for number in range(settings.cameras)
    ]
    ids = [one.result(30.0).id for one in cars]
    made = []
    ahead = Transform(Vector(1.6, 0.0, 1.7), Rotation())
    for number, car in enumerate(ids):
        kind = CAMERAS[number % len(CAMERAS)]
        made.append(world.spawn(kind, ahead, car, image_size_x=settings.width, image_size_y=settings.height))
        if settings.others and number % _EVERY == 0:
            made += [world.spawn(name, ahead, car, **attributes) for name, attributes in _OTHERS]
    records = [one.result(60.0) for one in made]
    return Stage(tuple(ids), tuple((one.id, int.from_bytes(one.stream_token[:4], "little")) for one in records))


def drive(world: Remote, stage: Stage, tick: int) -> None:
    """Command all cars for a tick: each goes round in circles at its own pace. Depends on the tick's number alone."""
    for number, car in enumerate(stage.cars):
        if tick % 10 == number % 10:
            side = 1.0 if (tick // 100 + number) % 2 else -1.0
            throttle = 0.25 + 0.01 * (number % 7) if tick < _DRIVE_TICKS else 0.0
            world.control(car, VehicleControl(throttle=throttle, steer=(0.5 + 0.02 * (tick // 10 % 5)) * side))
