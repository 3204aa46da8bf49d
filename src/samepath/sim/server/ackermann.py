"""Driving by speed and steering angle instead of pedals: one controller for the speed, one below it for the acceleration.

The outer controller turns the difference of speeds into an acceleration wanted, the inner one the difference of accelerations
into pedals; both add up what they ask for from tick to tick. Gains, limits and the rule that a vehicle stops before it
changes direction are those of CARLA's Ackermann control.
"""

from dataclasses import dataclass, field
from typing import Final

from samepath.sim.server.records import AckermannControl, AckermannSettings, VehicleControl

_STILL_MPS: Final = 0.1
_MAX_ACCELERATION_MPS2: Final = 3.0
_MAX_BRAKING_MPS2: Final = 8.0
_NO_RATE: Final = 1e-3
# The part of a fresh measurement in the smoothed acceleration.
_FRESH: Final = 0.2
_USUAL: Final = AckermannSettings()


@dataclass
class _Pid:
    """Remembers the last measurement and the sum of errors; what it gives lies between -1 and 1."""

    last: float | None = None
    total: float = 0.0

    def run(self, gains: tuple[float, float, float], wanted: float, measured: float, dt_s: float) -> float:
        change = 0.0 if self.last is None else (measured - self.last) / dt_s
        self.total = _within(self.total + gains[1] * (wanted - measured) * dt_s, 1.0)
        self.last = measured
        return _within(gains[0] * (wanted - measured) + self.total - gains[2] * change, 1.0)


def _within(value: float, most: float) -> float:
    return min(max(value, -most), most)


@dataclass
class AckermannController:
    """The controller of one vehicle; ``target`` None: the pedals are the client's."""

    settings: AckermannSettings = _USUAL
    target: AckermannControl | None = None
    _speed: _Pid = field(default_factory=_Pid)
    _acceleration: _Pid = field(default_factory=_Pid)
    _wanted_mps2: float = 0.0
    _pedal: float = 0.0
    _steer_rad: float = 0.0
    _reverse: bool = False
    _last_mps: float | None = None
    _felt_mps2: float = 0.0

    def aim(self, target: AckermannControl) -> None:
        """Take a new target; what was learnt on the way to the last one is kept."""
        if self.target is None:
            self.release()
        self.target = target

    def release(self) -> None:
        """Give the pedals back and forget."""
        self.target = None
        self._speed, self._acceleration = _Pid(), _Pid()
        self._wanted_mps2 = self._pedal = self._steer_rad = self._felt_mps2 = 0.0
        self._reverse, self._last_mps = False, None

    def drive(self, speed_mps: float, max_steer_rad: float, dt_s: float) -> VehicleControl:
        """Work out pedals and wheel for the next tick from the signed forward speed."""
        target = self.target or AckermannControl()
        steer = self._steer(target, max_steer_rad, dt_s)
        felt_mps2 = 0.0 if self._last_mps is None else (speed_mps - self._last_mps) / dt_s
        self._felt_mps2 += _FRESH * (felt_mps2 - self._felt_mps2)
        self._last_mps = speed_mps
        if abs(speed_mps) < _STILL_MPS and abs(target.speed) < _STILL_MPS:
            return VehicleControl(steer=steer, brake=1.0, reverse=self._reverse)
        wanted_mps = target.speed
        if abs(speed_mps) < _STILL_MPS:
            self._reverse = target.speed < 0.0
        elif speed_mps * target.speed < 0.0:
            wanted_mps = 0.0
        gains = self.settings
        most = abs(target.acceleration)
        low, high = (-most, most) if most > _NO_RATE else (-_MAX_BRAKING_MPS2, _MAX_ACCELERATION_MPS2)
        self._wanted_mps2 += self._speed.run(gains[:3], wanted_mps, speed_mps, dt_s)
        self._wanted_mps2 = min(max(self._wanted_mps2, low), high)
        self._pedal += self._acceleration.run(gains[3:], self._wanted_mps2, self._felt_mps2, dt_s)
        self._pedal = _within(self._pedal, 1.0)
        forward = -self._pedal if self._reverse else self._pedal
        return VehicleControl(max(forward, 0.0), steer, max(-forward, 0.0), reverse=self._reverse)

    def _steer(self, target: AckermannControl, max_steer_rad: float, dt_s: float) -> float:
        if max_steer_rad <= 0.0:
            return 0.0
        wanted = min(max(target.steer, -max_steer_rad), max_steer_rad)
        if abs(target.steer_speed) >= _NO_RATE:
            reach = abs(target.steer_speed) * dt_s
            wanted = min(max(wanted, self._steer_rad - reach), self._steer_rad + reach)
        self._steer_rad = wanted
        return wanted / max_steer_rad
