"""The channels of a trace: what a number in a column means, and its unit.

Frame: CARLA's. x forward (east), y right, z up, left-handed, metres; angles in degrees. The unit stands last in the name.
Any other name is a channel too, if it is a plain identifier that ends in its unit (``battery_ratio``).
"""

import re
from typing import Final

from samepath.core.errors import InputError

POSITION: Final = ("x_m", "y_m", "z_m")
ROTATION: Final = ("roll_deg", "pitch_deg", "yaw_deg")
VELOCITY: Final = ("vx_mps", "vy_mps", "vz_mps")
ANGULAR_VELOCITY: Final = ("wx_degps", "wy_degps", "wz_degps")
ACCELERATION: Final = ("ax_mps2", "ay_mps2", "az_mps2")
VEHICLE_CONTROL: Final = (
    "throttle_ratio",
    "steer_ratio",
    "brake_ratio",
    "hand_brake_bool",
    "reverse_bool",
    "gear_index",
)
WALKER_CONTROL: Final = ("walk_x_ratio", "walk_y_ratio", "walk_z_ratio", "walk_speed_mps")

# What somebody tells an actor to do. The gear is the gearbox's, not the driver's.
COMMANDS: Final = frozenset((*VEHICLE_CONTROL[:-1], *WALKER_CONTROL))

STANDARD: Final = (*POSITION, *ROTATION, *VELOCITY, *ANGULAR_VELOCITY, *ACCELERATION, *VEHICLE_CONTROL, *WALKER_CONTROL)

# Angles wrap: 179.9 and -179.9 are 0.2 degrees apart, so their spread is taken after unwrapping about the first repeat.
ANGLES: Final = frozenset(ROTATION)

# How far off a state may be that was put between two frames of an engine: a trace that has this channel was resampled.
RESAMPLING: Final = "resampling_m"

KEY_COLUMNS: Final = frozenset({"experiment", "cell", "repeat", "actor", "actor_type", "tick", "time_s", "digest"})

# No quantity of a driving world is larger, and squares of anything smaller are still numbers.
LARGEST: Final = 1e100

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def check_channels(channels: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``channels`` if they can be columns of a trace: named, distinct, position among them."""
    for name in channels:
        if not _NAME.fullmatch(name) or name in KEY_COLUMNS:
            raise InputError(f"channel {name!r}: a plain name that ends in its unit was wanted, such as battery_ratio")
    if len(set(channels)) != len(channels):
        raise InputError(f"channels must be distinct, but {', '.join(channels)} came")
    missing = [name for name in POSITION[:2] if name not in channels]
    if missing:
        raise InputError(f"a trace needs at least x_m and y_m, but {', '.join(missing)} is missing")
    return channels


def unit_of(channel: str) -> str:
    """Return the unit a channel's name ends in."""
    unit = channel.rpartition("_")[2]
    return {"mps": "m/s", "degps": "deg/s", "mps2": "m/s²", "ratio": "1", "bool": "0/1", "index": "1"}.get(unit, unit)
