"""What a type of actor is: sizes, masses, an engine."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Engine:
    """Torque over engine speed as corner points, and the gearbox."""

    torque_curve: tuple[tuple[float, float], ...]  # (rpm, N m), rising rpm
    gear_ratios: tuple[float, ...]
    reverse_ratio: float
    final_ratio: float
    shift_up_rpm: float
    shift_down_rpm: float
    efficiency: float = 0.9
    gear_shift_rpm: tuple[tuple[float, float], ...] = ()  # (down, up) of each gear, where they differ

    def shifts_at_rpm(self, gear: int) -> tuple[float, float]:
        """Below and above which engine speed a gear is left."""
        return self.gear_shift_rpm[gear - 1] if self.gear_shift_rpm else (self.shift_down_rpm, self.shift_up_rpm)


@dataclass(frozen=True)
class WheelFit:
    """One wheel of a vehicle whose wheels are not all alike; ``side_stiffness`` 1 holds the wheel to its track."""

    friction: float
    max_steer_deg: float
    radius_m: float
    brake_n: float
    hand_brake_n: float
    side_stiffness: float = 1.0


@dataclass(frozen=True)
class VehicleType:
    """A vehicle. ``upright`` ones (two wheels in life) cannot fall over: they stand on four rays and only yaw.

    ``wheels``, front left, front right, rear left, rear right, is empty where they follow from the other numbers;
    ``steering_curve`` holds (speed in m/s, part of the steering that is left) where steering weakens with speed;
    ``slip_per_n`` is by how much, as a part of its speed, soft tyres let a driven wheel spin ahead per newton of drive.
    """

    name: str
    length_m: float
    width_m: float
    height_m: float
    mass_kg: float
    wheel_base_m: float
    track_m: float
    wheel_radius_m: float
    max_steer_deg: float
    engine: Engine
    kind: str = "car"
    clearance_m: float = 0.18
    drag_area_m2: float = 0.68
    rolling_resistance: float = 0.012
    tyre_friction: float = 0.9
    brake_force_n_per_kg: float = 11.0
    driven: str = "front"
    upright: bool = False
    wheels: tuple[WheelFit, ...] = ()
    centre_of_mass_m: tuple[float, float, float] | None = None
    steering_curve: tuple[tuple[float, float], ...] = ()
    automatic: bool = True
    slip_per_n: float = 0.0

    @property
    def max_brake_n(self) -> float:
        """What all brakes together can do."""
        return sum(one.brake_n for one in self.wheels) if self.wheels else self.brake_force_n_per_kg * self.mass_kg

    @property
    def mean_friction(self) -> float:
        """The friction of the tyres, all wheels taken together."""
        return sum(one.friction for one in self.wheels) / len(self.wheels) if self.wheels else self.tyre_friction


@dataclass(frozen=True)
class WalkerType:
    """A pedestrian: an upright capsule that is pushed along at its walking speed."""

    name: str
    height_m: float = 1.75
    radius_m: float = 0.28
    mass_kg: float = 75.0
    kind: str = "walker"


@dataclass(frozen=True)
class PropType:
    """A box that stands about; ``mass_kg`` 0: it cannot be moved."""

    name: str
    length_m: float
    width_m: float
    height_m: float
    mass_kg: float = 0.0
    kind: str = "prop"


ActorType = VehicleType | WalkerType | PropType
