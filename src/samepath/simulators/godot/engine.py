"""What the project writes, read: lines to states, contacts and an end, in our frame and units. Nothing is rounded on the way.

Godot's numbers have 32 bits; they are widened. A car is where the middle of its mass is, on the ground: x_m and y_m are the
engine's own, z_m is less by the height that the middle has in a car at rest.
"""

import binascii
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samepath.base.errors import SimulatorError
from samepath.base.trig import to_degrees
from samepath.base.trig_arrays import atan2
from samepath.simulators.godot.scene import centre_of_mass_m
from samepath.simulators.godot.settings import STEPS_PER_TICK
from samepath.simulators.interface import DURATION
from samepath.simulators.scripts import Role
from samepath.traces.channels import ANGULAR_VELOCITY, POSITION, ROTATION, VELOCITY

CHANNELS: Final = (*POSITION, *ROTATION, *VELOCITY, *ANGULAR_VELOCITY, "throttle_ratio", "steer_ratio", "brake_ratio")
GREETING: Final = b"samepath 1"
# Godot tells about itself before the project says a word.
BANNER_LINES: Final = 50
REASONS: Final = {
    "duration": DURATION,
    "arrived": "every actor reached its last waypoint",
    "collision": "first collision",
    "over": "simulated time is over",
}
Floats = NDArray[np.float64]
# What a car writes, in the order of our axes: place; where forward, up and left point; velocity, spin; how it is driven.
_CAR: Final = np.dtype([("real", "<f4", 18), ("command", "<f8", 3)])
_CONTACT: Final = struct.Struct("<3i3f")
_LONGEST_TOLD: Final = 60
_DEG_PER_RAD: Final = to_degrees(1.0)


class Told(NamedTuple):
    """States of these ticks have come; the reader keeps them."""

    ticks: tuple[int, ...]


@dataclass(frozen=True)
class Contact:
    """A car began to touch another or, ``other`` None, scenery; the impulse is what ``actor`` felt."""

    tick: int
    actor: int
    other: int | None
    impulse_ns: tuple[float, float, float]


@dataclass(frozen=True)
class Frames:
    """How many frames there were, the most physics steps in one, and the most things drawn in one."""

    count: int
    most_steps: int
    most_drawn: int


@dataclass(frozen=True)
class Ended:
    """Why the run is over."""

    reason: str


Item = Told | Contact | Frames | Ended


class Reader:
    """Reads the lines of a run with these cars.

    Of states only the bytes are kept as they come, so that reading takes no time from a run; :meth:`rows` reads them.
    """

    def __init__(self, roles: Sequence[Role]) -> None:
        self._heights_m = np.array([centre_of_mass_m(role) for role in roles])
        self._numbers = {role.number for role in roles}
        self._tick = np.dtype([("step", "<u4"), ("cars", _CAR, len(roles))])
        self._kept: list[bytes] = []

    def read(self, line: bytes) -> Item:
        """Return what a line says; any other line is an error."""
        mark, _, rest = line.partition(b" ")
        try:
            if mark == b"S":
                return self._told(binascii.a2b_base64(rest, strict_mode=True))
            if mark == b"C":
                return self._contact(_CONTACT.unpack(binascii.a2b_base64(rest, strict_mode=True)))
            if mark == b"F":
                count, most_steps, most_drawn = map(int, rest.split())
                return Frames(count, most_steps, most_drawn)
            if mark == b"E":
                return Ended(REASONS[rest.decode()])
        except (binascii.Error, struct.error, ValueError, KeyError):
            pass
        raise SimulatorError(f"Godot wrote {line[:_LONGEST_TOLD]!r} where a state, a contact or the end was wanted")

    def _told(self, data: bytes) -> Told:
        steps = np.frombuffer(data, self._tick)["step"]
        if np.any(steps % STEPS_PER_TICK):
            raise ValueError(steps)
        self._kept.append(data)
        return Told(tuple((steps // STEPS_PER_TICK).tolist()))

    def rows(self) -> Floats:
        """Return what was told: float64[tick, car, channel], in the order of :data:`CHANNELS`."""
        cars = np.frombuffer(b"".join(self._kept), self._tick)["cars"]
        real = cars["real"].astype(np.float64)
        broken = ~np.isfinite(real).all(axis=(1, 2))
        if broken.any():
            raise SimulatorError(f"Godot wrote a state at tick {int(np.argmax(broken)) + 1} that is not a number")
        x, y, z, fx, fy, fz, _, _, uz, _, _, lz, vx, vy, vz, wx, wy, wz = np.moveaxis(real, -1, 0)
        # A turn that is one way round in a right-handed frame is the other way round in a left-handed one.
        angles = (atan2(lz, uz), atan2(fz, np.sqrt(fx * fx + fy * fy)), atan2(fy, fx), -wx, -wy, -wz)
        roll, pitch, yaw, *spin = (np.asarray(angle) * _DEG_PER_RAD for angle in angles)
        yaw = np.where(yaw < 180.0, yaw, yaw - 360.0)
        columns = (x, y, z - self._heights_m, roll, pitch, yaw, vx, vy, vz, *spin)
        return np.concatenate([np.stack(columns, axis=-1), cars["command"]], axis=-1)

    def _contact(self, values: tuple[int | float, ...]) -> Contact:
        step, actor, other, x, y, z = values
        if {actor, other} - {-1} - self._numbers or actor == -1:
            raise ValueError(actor)
        return Contact(-(-int(step) // STEPS_PER_TICK), int(actor), None if other < 0 else int(other), (x, y, z))


def first_contacts(contacts: Sequence[Contact]) -> list[Contact]:
    """Return when each pair first touched in the run, as the actor with the lower number felt it.

    Both cars of a pair tell of it, in one step. Who touches already when the run begins is not counted.
    """
    met: set[tuple[int, int]] = set()
    found = []
    for one in contacts:
        low, high = (one.actor, -1) if one.other is None else sorted((one.actor, one.other))
        if (low, high) in met:
            continue
        met.add((low, high))
        if one.tick < 1:
            continue
        if one.other is None or one.actor < one.other:
            found.append(one)
        else:
            x, y, z = one.impulse_ns
            found.append(Contact(one.tick, one.other, one.actor, (-x, -y, -z)))
    return found
