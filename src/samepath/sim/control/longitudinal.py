"""A PID controller of speed.

    u = kp e + ki ∫e dt - kd dv/dt,   e = target speed - speed

u in [-1, 1]: the positive part opens the throttle, the negative part brakes. The derivative is taken of the measured speed,
so that a jump of the target gives no kick. The integral stands still while u is saturated in the direction of the error.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from samepath.base.errors import InputError


@dataclass(frozen=True)
class SpeedGains:
    """Gains per m/s of error; ``integral_limit`` bounds the integral's share of the output."""

    proportional: float = 0.5
    integral: float = 0.15
    derivative: float = 0.02
    integral_limit: float = 0.6
    throttle_max: float = 1.0
    brake_max: float = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0.0 <= value < math.inf:
                raise InputError(f"a gain of at least 0 was wanted for {name}, but {value!r} came")
        if self.throttle_max > 1.0 or self.brake_max > 1.0:
            raise InputError(f"pedals within 0 and 1 were wanted, but {self.throttle_max!r} and {self.brake_max!r} came")


@dataclass(frozen=True)
class SpeedState:
    """What the controller remembers: the integral's share of the output, and the last measured speed if there was one."""

    integral: float = 0.0
    previous_speed_mps: float | None = None

    def to_plain(self) -> dict[str, object]:
        """Return the state as plain data."""
        return {"integral": self.integral, "previous_speed_mps": self.previous_speed_mps}

    @classmethod
    def from_plain(cls, plain: Mapping[str, object]) -> "SpeedState":
        """Read what :meth:`to_plain` wrote."""
        integral, previous = plain["integral"], plain["previous_speed_mps"]
        if not isinstance(integral, float) or not (previous is None or isinstance(previous, float)):
            raise InputError(f"floats were wanted in a speed state, but {dict(plain)!r} came")
        return cls(integral, previous)


@dataclass(frozen=True)
class Pedals:
    """Throttle and brake in [0, 1]; at most one is pressed."""

    throttle: float
    brake: float


def control_speed(
    gains: SpeedGains, state: SpeedState, target_mps: float, speed_mps: float, step_s: float
) -> tuple[Pedals, SpeedState]:
    """Return the pedals for this control period of ``step_s`` and the state for the next."""
    if not step_s > 0.0:
        raise InputError(f"a positive control period was wanted, but {step_s!r} s came")
    error = target_mps - speed_mps
    change = 0.0 if state.previous_speed_mps is None else (speed_mps - state.previous_speed_mps) / step_s
    direct = gains.proportional * error - gains.derivative * change
    integral = _within(state.integral + gains.integral * error * step_s, -gains.integral_limit, gains.integral_limit)
    wanted = direct + integral
    if (wanted > gains.throttle_max and error > 0.0) or (wanted < -gains.brake_max and error < 0.0):
        integral = state.integral
        wanted = direct + integral
    output = _within(wanted, -gains.brake_max, gains.throttle_max)
    pedals = Pedals(throttle=output, brake=0.0) if output > 0.0 else Pedals(throttle=0.0, brake=0.0 - output)
    return pedals, SpeedState(integral, speed_mps)


def _within(value: float, low: float, high: float) -> float:
    if value < low:
        return low
    return high if value > high else value
