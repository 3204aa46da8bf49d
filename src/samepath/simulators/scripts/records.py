"""The records of a script. CARLA's frame: x forward, y right, z up, left-handed, metres; yaw in degrees.

Seen from above, yaw turns clockwise: 90 degrees look along y. An actor's place is its middle on the ground.
"""

from dataclasses import dataclass, field

Point = tuple[float, float]


@dataclass(frozen=True)
class Place:
    """A point of a map and a heading there."""

    x_m: float
    y_m: float
    yaw_deg: float


@dataclass(frozen=True)
class Body:
    """An upright box around an actor; a walker is the capsule in it. ``mass_kg`` 0: it cannot be moved."""

    length_m: float
    width_m: float
    height_m: float
    mass_kg: float


@dataclass(frozen=True)
class Chassis:
    """What steering depends on; ``rear_m`` is how far the rear axle is behind the vehicle's middle."""

    wheel_base_m: float
    rear_m: float
    max_steer_deg: float


@dataclass(frozen=True)
class Wheels:
    """What makes a body a vehicle: two axles at equal distances from its middle, and what drives and stops it.

    ``power_w`` is the most that reaches the wheels, ``brake_n`` what all brakes do together, ``driven`` front, rear or all.
    """

    wheel_base_m: float
    track_m: float
    radius_m: float
    clearance_m: float
    max_steer_deg: float
    friction: float
    driven: str
    driven_share: float
    power_w: float
    brake_n: float
    drag_area_m2: float
    rolling_resistance: float

    @property
    def chassis(self) -> Chassis:
        """What steering depends on."""
        return Chassis(self.wheel_base_m, self.wheel_base_m / 2, self.max_steer_deg)


@dataclass(frozen=True)
class Driving:
    """How a path is followed. Speed by PID, gains per m/s of error; steering by pure pursuit of a point on the path.

    That point is ``look_ahead_m`` + ``look_ahead_s`` x speed beyond the nearest waypoint. Waypoints are ``spacing_m`` apart.
    """

    look_ahead_m: float
    look_ahead_s: float
    spacing_m: float
    arrival_m: float
    lateral_acceleration_mps2: float
    braking_mps2: float
    creep_mps: float
    proportional: float
    integral: float
    derivative: float
    integral_limit: float


@dataclass(frozen=True)
class Role:
    """An actor of a scenario: what it is, where it starts and where it goes. ``kind`` is vehicle, walker or prop.

    It sets off at ``start_s``. ``after_collision`` is go on, remove or fall. Props have no
    ``driving``, only vehicles have ``wheels``.
    """

    number: int
    type: str
    kind: str
    start: Place
    path: tuple[Point, ...]
    speed_mps: float
    look_ahead_m: float
    start_s: float
    after_collision: str
    body: Body
    wheels: Wheels | None = None
    driving: Driving | None = None

    @property
    def removed_when_hit(self) -> bool:
        """Is it taken away when it was hit?"""
        return self.after_collision == "remove"


@dataclass(frozen=True)
class Box:
    """A box of scenery that stands on the ground: its middle, and its size along its own axes."""

    name: str
    place: Place
    size_m: tuple[float, float, float]


@dataclass(frozen=True)
class Script:
    """A scenario. ``end`` is last-waypoint (everybody who is there has arrived), first-collision or duration.

    At ``duration_s`` it is over in any case. ``step_s`` is the tick of its traces and how often drivers are asked, ``substeps``
    how often physics steps in it where an engine lets us choose.
    """

    name: str
    description: str
    map: str
    duration_s: float
    step_s: float
    substeps: int
    end: str
    roles: tuple[Role, ...]
    boxes: tuple[Box, ...] = field(default=())

    @property
    def ends_early(self) -> bool:
        """Is it over when everybody has arrived?"""
        return self.end == "last-waypoint"

    @property
    def ticks(self) -> int:
        """How many ticks its duration is."""
        return round(self.duration_s / self.step_s)
