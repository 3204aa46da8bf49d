"""What the project writes, read: lines to states, contacts and an end, in our frame and units. Nothing is rounded on the way.

Godot's numbers have 32 bits; they are widened. A car is where the middle of its mass is, on the ground: x_m and y_m are the
engine's own, z_m is less by the height that the middle has in a car at rest.
"""

import base64
import binascii
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

from samepath.base.errors import SimulatorError
from samepath.base.trig import atan2, heading_deg, to_degrees
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
_CAR: Final = "18f3d"
_CONTACT: Final = struct.Struct("<3i3f")
_LONGEST_TOLD: Final = 60


@dataclass(frozen=True)
class States:
    """Everybody after a tick, a row of :data:`CHANNELS` each."""

    tick: int
    rows: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Contact:
    """A car began to touch another or, ``other`` None, scenery; the impulse is what ``actor`` felt."""

    tick: int
    actor: int
    other: int | None
    impulse_ns: tuple[float, float, float]


@dataclass(frozen=True)
class Frames:
    """How many frames there were, and the most physics steps in one."""

    count: int
    most_steps: int


@dataclass(frozen=True)
class Ended:
    """Why the run is over."""

    reason: str


Item = States | Contact | Frames | Ended


class Reader:
    """Reads the lines of a run with these cars."""

    def __init__(self, roles: Sequence[Role]) -> None:
        self._state = struct.Struct("<I" + _CAR * len(roles))
        self._heights_m = [centre_of_mass_m(role) for role in roles]
        self._numbers = {role.number for role in roles}

    def read(self, line: bytes) -> Item:
        """Return what a line says; any other line is an error."""
        mark, _, rest = line.partition(b" ")
        try:
            if mark == b"S":
                return self._states(base64.b64decode(rest, validate=True))
            if mark == b"C":
                return self._contact(_CONTACT.unpack(base64.b64decode(rest, validate=True)))
            if mark == b"F":
                count, most = rest.split()
                return Frames(int(count), int(most))
            if mark == b"E":
                return Ended(REASONS[rest.decode()])
        except (binascii.Error, struct.error, ValueError, KeyError):
            pass
        raise SimulatorError(f"Godot wrote {line[:_LONGEST_TOLD]!r} where a state, a contact or the end was wanted")

    def _states(self, data: bytes) -> States:
        step, *values = self._state.unpack(data)
        if step % STEPS_PER_TICK:
            raise ValueError(step)
        size = len(values) // len(self._heights_m)
        rows = (_row(values[index * size : (index + 1) * size], height) for index, height in enumerate(self._heights_m))
        return States(step // STEPS_PER_TICK, tuple(rows))

    def _contact(self, values: tuple[int | float, ...]) -> Contact:
        step, actor, other, x, y, z = values
        if {actor, other} - {-1} - self._numbers or actor == -1:
            raise ValueError(actor)
        return Contact(-(-int(step) // STEPS_PER_TICK), int(actor), None if other < 0 else int(other), (x, y, z))


def _row(values: Sequence[float], height_m: float) -> tuple[float, ...]:
    """Turn what a car wrote, in the order of our axes, into a row of channels."""
    x, y, z, fx, fy, fz, _, _, uz, _, _, lz, vx, vy, vz, wx, wy, wz, throttle, steer, brake = values
    yaw, pitch, roll = heading_deg(fx, fy), to_degrees(atan2(fz, sqrt(fx * fx + fy * fy))), to_degrees(atan2(lz, uz))
    # A turn that is one way round in a right-handed frame is the other way round in a left-handed one.
    spin = (to_degrees(-wx), to_degrees(-wy), to_degrees(-wz))
    return x, y, z - height_m, roll, pitch, yaw, vx, vy, vz, *spin, throttle, steer, brake


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
