"""What crosses the world's boundary: poses, commands, states, in CARLA's frame.

x forward, y right, z up, left-handed, metres; angles in degrees, yaw clockwise seen from above, pitch up, roll to the right.
What is made anew for every actor at every tick is a named tuple: as frozen as a dataclass, and a third of the cost.
"""

from dataclasses import dataclass
from typing import NamedTuple


class Pose(NamedTuple):
    """Where something is and how it is turned."""

    x_m: float = 0.0
    y_m: float = 0.0
    z_m: float = 0.0
    roll_deg: float = 0.0
    pitch_deg: float = 0.0
    yaw_deg: float = 0.0


class Vector(NamedTuple):
    """A velocity, force, impulse, ... in CARLA's frame."""

    x: float = 0.0
    y: float = 0.0
    z: float = 0.0


@dataclass(frozen=True)
class VehicleCommand:
    """How a vehicle is driven until the next command: ratios 0..1, steer -1 (left) .. 1 (right).

    ``manual_gear`` takes the choice from the gearbox: -1 is reverse, 0 neutral.
    """

    throttle: float = 0.0
    steer: float = 0.0
    brake: float = 0.0
    hand_brake: bool = False
    reverse: bool = False
    manual_gear: int | None = None


@dataclass(frozen=True)
class WalkerCommand:
    """How a walker walks until the next command: a direction on the ground and a speed.

    ``jump`` leaps once from the ground, ``face_ahead`` turns the body to where it walks.
    """

    direction_x: float = 0.0
    direction_y: float = 0.0
    speed_mps: float = 0.0
    jump: bool = False
    face_ahead: bool = False


Command = VehicleCommand | WalkerCommand


class ActorState(NamedTuple):
    """An actor after a tick."""

    id: int
    pose: Pose
    velocity_mps: Vector
    angular_velocity_degps: Vector
    acceleration_mps2: Vector


class Collision(NamedTuple):
    """Two actors touched in a tick; ``other`` None: scenery called ``scenery``. The impulse acts on ``actor``."""

    actor: int
    other: int | None
    impulse_ns: Vector
    scenery: str = ""
