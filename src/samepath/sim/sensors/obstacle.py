"""The obstacle sensor: a ball that flies ahead, and the first thing it meets. The ground is no obstacle."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, Self

from samepath.sim.physics.frames import axes_of, quaternion_of
from samepath.sim.sensors.attributes import SENSOR_TICK, Attribute, Flag, Given, read
from samepath.sim.world.records import Pose, Vector
from samepath.sim.world.world import World

NAME: Final = "sensor.other.obstacle"
OBSTACLE: Final[Mapping[str, Attribute | Flag]] = MappingProxyType(
    {
        "distance": Attribute(5.0, 0.0, 10_000.0, "m", above=True),
        "hit_radius": Attribute(0.5, 0.0, 100.0, "m", above=True),
        "only_dynamics": Flag(default=False),
        "debug_linetrace": Flag(default=False),
        "sensor_tick": SENSOR_TICK,
    }
)


class Obstacle(NamedTuple):
    """What is in the way: how far the ball flew, and an actor's id or a name of scenery."""

    distance_m: float
    what: int | str


@dataclass(frozen=True, slots=True)
class ObstacleSensor:
    """An obstacle sensor with CARLA's attributes."""

    values: Mapping[str, float]

    @classmethod
    def from_attributes(cls, given: Given, *, strict: bool = False) -> Self:
        """Build one from CARLA's attributes, text or numbers."""
        return cls(read(NAME, given, OBSTACLE, strict=strict))

    def look(self, world: World, pose: Pose, bearer: int | None = None) -> Obstacle | None:
        """Look ahead from a pose, past the actor that bears the sensor."""
        hit = world.sweep_ball(
            Vector(pose.x_m, pose.y_m, pose.z_m),
            Vector(*axes_of(quaternion_of(pose))[0]),
            self.values["distance"],
            self.values["hit_radius"],
            without=bearer,
            moving_only=bool(self.values["only_dynamics"]),
        )
        return None if hit is None else Obstacle(*hit)
