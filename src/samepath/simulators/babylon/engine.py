"""What the project writes, read: lines to states, contacts and an end, in our units. Nothing is rounded on the way.

Havok's numbers have 32 bits; they are widened. The project writes them in the order of our axes. A car is where the middle of
its mass is, on the ground: x_m and y_m are the engine's own, z_m is less by the height that the middle has in a car at rest.
"""

import binascii
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samepath.base.errors import SimulatorError
from samepath.base.trig import to_degrees
from samepath.base.trig_arrays import atan2
from samepath.simulators.babylon.scene import centre_of_mass_m
from samepath.simulators.babylon.settings import STEPS_PER_TICK, TICK_S
from samepath.simulators.processes.telling import REASONS, Contact, Frames
from samepath.simulators.resampling import RESAMPLING, Frame, Resampler
from samepath.simulators.scripts import Role
from samepath.traces.channels import ANGULAR_VELOCITY, POSITION, ROTATION, VELOCITY

STATE: Final = (*POSITION, *ROTATION, *VELOCITY, *ANGULAR_VELOCITY)
CONTROLS: Final = ("throttle_ratio", "steer_ratio", "brake_ratio")
CHANNELS: Final = (*STATE, *CONTROLS)
RESAMPLED_CHANNELS: Final = (*STATE, RESAMPLING, *CONTROLS)
Floats = NDArray[np.float64]
# Place, quaternion (x, y, z, w), velocity, spin and command of a car.
_VALUES: Final = 16
_CONTACT: Final = struct.Struct("<7d")
_LONGEST_TOLD: Final = 60
_DEG_PER_RAD: Final = to_degrees(1.0)
# A frame this near to a tick, as a part of it, is on it; the project counts in the same way.
_ROUNDING: Final = 1e-9


class Told(NamedTuple):
    """States have come; ``tick`` is the last one they reach. The reader keeps them."""

    tick: int


@dataclass(frozen=True)
class Ended:
    """Why the run is over, and at which tick."""

    reason: str
    tick: int


Item = Told | Contact | Frames | Ended


class Reader:
    """Reads the lines of a run with these cars; ``stretched`` is one whose steps are as long as frames took.

    Of states only the bytes are kept as they come, so that reading takes no time from a run; :meth:`values` reads them.
    """

    def __init__(self, roles: Sequence[Role], *, stretched: bool) -> None:
        self._heights_m = np.array([centre_of_mass_m(role) for role in roles])
        self._numbers = [role.number for role in roles]
        self._stretched = stretched
        self._record = np.dtype([("steps", "<f8"), ("time_s", "<f8"), ("cars", "<f8", (len(roles), _VALUES))])
        self._kept: list[bytes] = []
        self._tick = 0
        self._time_s = -1.0
        self.note = ""

    def read(self, line: bytes) -> Item:
        """Return what a line says; any other line is an error."""
        mark, _, rest = line.partition(b" ")
        try:
            if mark == b"S":
                return self._told(binascii.a2b_base64(rest, strict_mode=True))
            if mark == b"C":
                return self._contact(_CONTACT.unpack(binascii.a2b_base64(rest, strict_mode=True)))
            if mark == b"F":
                count, most = rest.split()
                return Frames(int(count), int(most))
            if mark == b"E":
                reason, tick = rest.decode().split()
                return Ended(REASONS[reason], int(tick))
        except (binascii.Error, struct.error, ValueError, KeyError):
            pass
        raise SimulatorError(f"Babylon.js wrote {line[:_LONGEST_TOLD]!r} where a state, a contact or the end was wanted")

    def _told(self, data: bytes) -> Told:
        records = np.frombuffer(data, self._record)
        for steps, time_s in zip(records["steps"].tolist(), records["time_s"].tolist(), strict=True):
            if self._stretched:
                if not self._time_s < time_s < math.inf:
                    raise SimulatorError(f"Babylon.js wrote a state at {time_s!r} s after one at {self._time_s!r} s")
                self._time_s = time_s
                self._tick = math.floor(time_s / TICK_S + _ROUNDING)
            elif steps != (self._tick + 1) * STEPS_PER_TICK:
                wanted = f"step {(self._tick + 1) * STEPS_PER_TICK}, which is tick {self._tick + 1}, was wanted"
                raise SimulatorError(f"Babylon.js wrote a state of step {steps:g} where {wanted}")
            else:
                self._tick += 1
        self._kept.append(data)
        return Told(self._tick)

    def _contact(self, values: tuple[float, ...]) -> Contact:
        steps, time_s, actor, other, x, y, z = values
        if actor not in self._numbers or other not in (-1, *self._numbers):
            raise ValueError(actor)
        tick = math.ceil(time_s / TICK_S - _ROUNDING) if self._stretched else -(-int(steps) // STEPS_PER_TICK)
        return Contact(max(tick, 1), int(actor), None if other < 0 else int(other), (x, y, z))

    def values(self) -> Floats:
        """Return what was told, float64[tick, car, channel] from tick 1 on; resampled where it must be."""
        records = np.frombuffer(b"".join(self._kept), self._record)
        broken = ~np.isfinite(records["cars"]).all(axis=(1, 2))
        if broken.any():
            time_s = records["time_s"][np.argmax(broken)]
            raise SimulatorError(f"Babylon.js wrote a state at {time_s:.3f} s that is not a number")
        rows = self._rows(records["cars"])
        return self._resampled(records["time_s"].tolist(), rows) if self._stretched else rows

    def _rows(self, cars: Floats) -> Floats:
        """Return float64[state, car, channel], in the order of :data:`CHANNELS`."""
        x, y, z, qx, qy, qz, qw, vx, vy, vz, wx, wy, wz, *controls = np.moveaxis(cars, -1, 0)
        forward = (1 - 2 * (qy * qy + qz * qz), 2 * (qx * qy + qw * qz), 2 * (qx * qz - qw * qy))
        right_z, up_z = 2 * (qy * qz + qw * qx), 1 - 2 * (qx * qx + qy * qy)
        flat = np.sqrt(forward[0] * forward[0] + forward[1] * forward[1])
        angles = (atan2(-right_z, up_z), atan2(forward[2], flat), atan2(forward[1], forward[0]), wx, wy, wz)
        roll, pitch, yaw, *spin = (np.asarray(angle) * _DEG_PER_RAD for angle in angles)
        yaw = np.where(yaw < 180.0, yaw, yaw - 360.0)
        return np.stack((x, y, z - self._heights_m, roll, pitch, yaw, vx, vy, vz, *spin, *controls), axis=-1)

    def _resampled(self, times_s: list[float], rows: Floats) -> Floats:
        """States lie on the line between two frames; commands are those of the frame that reaches the tick."""
        frames = []
        for time_s, cars in zip(times_s, rows.tolist(), strict=True):
            there = {number: dict(zip(STATE, car, strict=False)) for number, car in zip(self._numbers, cars, strict=True)}
            frames.append(Frame(time_s, there))
        resampler = Resampler(TICK_S, frames[0])
        resampler.rest()  # the start itself is no tick of a trace
        ticks = [tick for frame in frames[1:] for tick in resampler.take(frame)] + resampler.rest()
        self.note = resampler.note
        reached = np.searchsorted(times_s, [(one.tick - _ROUNDING) * TICK_S for one in ticks])
        states = np.array([[list(one.states[number].values()) for number in self._numbers] for one in ticks])
        return np.concatenate([states, rows[reached, :, len(STATE) :]], axis=-1)
