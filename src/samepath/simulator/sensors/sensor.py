"""What all sensors share: attributes as CARLA's blueprints have them, when a sensor measures, and its noise.

Attributes come as text or numbers and leave as numbers; what lies outside its limits is refused by name, nothing is clipped in
silence. A sensor with a ``sensor_tick`` measures at once, then every so many simulated seconds. Noise comes from streams named
by the sensor's seed, its number and the tick. A measurement draws for all its rays, also for those that meet nothing, so that
the noise of one ray depends on no other.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import InputError, unknown
from samepath.core.streams import stream
from samepath.core.trig_arrays import log, sincos_deg

GivenAttributes = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class NumberAttribute:
    """A number and its limits; ``above`` says that the least one is itself too small."""

    default: float
    least: float
    most: float
    unit: str = ""
    whole: bool = False
    above: bool = False

    @property
    def wanted(self) -> str:
        """The limits in words."""
        number = "a whole number" if self.whole else "a number"
        unit = f" {self.unit}" if self.unit else ""
        least, most = (f"{int(limit)}" if self.whole else f"{limit:.10g}" for limit in (self.least, self.most))
        return f"{number} {f'above {least} and at most' if self.above else f'from {least} to'} {most}{unit}"


class FlagAttribute:
    """True or false."""

    def __init__(self, *, default: bool) -> None:
        self.default = default


AttributeTable = Mapping[str, NumberAttribute | FlagAttribute]
SENSOR_TICK: Final = NumberAttribute(0.0, 0.0, 86400.0, "s")
SEED: Final = NumberAttribute(0, -(2.0**53), 2.0**53, whole=True)

# The part of a step that the rounding of sums of steps may be off by.
_ROUNDING: Final = 1e-3

Floats = NDArray[np.float64]


def read_attributes(sensor: str, given: GivenAttributes, table: AttributeTable, *, strict: bool = False) -> dict[str, float]:
    """Return the value of every attribute in ``table``, from ``given`` or by default.

    ``strict`` refuses names that are not in the table; without it they are somebody else's.
    """
    if strict:
        for name in given:
            if name not in table:
                raise unknown(f"attribute of {sensor}", name, table)
    return {name: _value(f"{sensor}: {name}", given.get(name, kind.default), kind) for name, kind in table.items()}


def _value(where: str, came: object, kind: NumberAttribute | FlagAttribute) -> float:
    if isinstance(kind, FlagAttribute):
        word = str(came).lower()
        if word not in ("true", "false", "1", "0"):
            raise InputError(f"{where}: true or false was wanted, but {_shown(came)} came")
        return float(word in ("true", "1"))
    try:
        value = math.nan if isinstance(came, bool) else float(str(came))
    except ValueError:
        value = math.nan
    # CARLA's clients send text. CARLA cuts the decimals of a whole number off; a number in a file of ours has no decimals.
    if kind.whole and isinstance(came, str) and math.isfinite(value):
        value = float(math.trunc(value))
    inside = kind.least <= value <= kind.most and not (kind.above and value == kind.least)
    if not inside or (kind.whole and value != int(value)):
        raise InputError(f"{where}: {kind.wanted} was wanted, but {_shown(came)} came")
    return value


def _shown(came: object) -> str:
    text = repr(came)
    return text if len(text) <= 40 else f"{text[:37]}..."


def is_due(period_s: float, elapsed_s: float, step_s: float) -> bool:
    """Is a measurement due ``elapsed_s`` after the sensor's first tick, the step before having taken ``step_s``?

    Depends on nothing but the time: whoever skips a tick, or begins in the middle, gets the same answers. A period of 0, or
    one shorter than the step, is due at every tick.
    """
    slack_s = _ROUNDING * step_s
    # A period of less than half a step is due at every tick, however the sums below are rounded.
    # The sums of a tiny period overflow.
    if period_s <= 0.5 * step_s or elapsed_s < slack_s:
        return True
    return math.floor((elapsed_s + slack_s) / period_s) > math.floor((elapsed_s - step_s + slack_s) / period_s)


def interval_s(period_s: float, step_s: float) -> float:
    """The time one measurement stands for: how long a LiDAR turns and a radar shines for it."""
    return max(math.ceil(period_s / step_s - _ROUNDING), 1) * step_s


@dataclass(frozen=True, slots=True)
class NoiseKey:
    """Where the noise of one measurement comes from: the sensor's seed, its number among all, and the tick.

    A key, not a generator that is handed on: nobody else's measurements, nor how many there were before, move it.
    """

    seed: int = 0
    sensor: int = 0
    tick: int = 0

    def stream(self, purpose: str) -> np.random.Generator:
        """The numbers for one purpose, such as ``lidar``."""
        return stream(self.seed, purpose, self.sensor, self.tick)


def normals(generator: np.random.Generator, count: int) -> Floats:
    """Draw from the normal distribution of mean 0 and deviation 1, by Box and Muller.

    numpy's own method takes its tails from the C library, whose last bit depends on the machine.
    """
    half = (count + 1) // 2
    uniform = generator.random(2 * half)
    radius = np.sqrt(-2.0 * log(1.0 - uniform[:half]))
    sine, cosine = sincos_deg(360.0 * uniform[half:])
    return np.concatenate([radius * cosine, radius * sine])[:count]


def check_rays(kind: str, given: GivenAttributes, step_s: float) -> None:
    """Refuse a LiDAR or radar that would send more rays in a measurement than fit into memory, before its first measurement."""
    if kind.startswith("sensor.lidar."):
        from samepath.simulator.sensors.lidar import Lidar  # here, because sensors import this module

        lidar = Lidar.from_attributes(given, semantic=kind.endswith("_semantic"))
        lidar.columns(interval_s(lidar.values["sensor_tick"], step_s))
    elif kind == "sensor.other.radar":
        from samepath.simulator.sensors.radar import Radar

        radar = Radar.from_attributes(given)
        radar.count(interval_s(radar.values["sensor_tick"], step_s))


def require_sensors() -> None:
    """Say in one line what is missing, before anything is imported that needs it."""
    if find_spec("numba") is None:
        raise InputError("sensors need the compiler numba, which is not installed: pip install 'samepath[sensors]'")
