"""The weather with CARLA's names and scales, and the light that follows from it. Pure.

Sines come from :mod:`samepath.core.trig` and powers are products, so that no bit depends on the machine.
"""

from dataclasses import dataclass, fields
from typing import Final

from samepath.core.errors import InputError
from samepath.core.trig import sincos_deg

Colour = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class SceneWeather:
    """CARLA's WeatherParameters: percentages, degrees, metres.

    The sun stands over the horizon by ``sun_altitude_angle`` in the direction of the yaw ``sun_azimuth_angle``.
    """

    cloudiness: float = 0.0
    precipitation: float = 0.0
    precipitation_deposits: float = 0.0
    wind_intensity: float = 0.0
    sun_azimuth_angle: float = 0.0
    sun_altitude_angle: float = 45.0
    fog_density: float = 0.0
    fog_distance: float = 0.0
    fog_falloff: float = 0.2
    wetness: float = 0.0
    scattering_intensity: float = 1.0
    mie_scattering_scale: float = 0.03
    rayleigh_scattering_scale: float = 0.0331
    dust_storm: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not abs(value) <= 1e6:
                raise InputError(f"weather: a number was wanted for {field.name}, but {value!r} came")

    def part(self, name: str) -> float:
        """One of the percentages as 0..1."""
        value: float = getattr(self, name)
        return min(max(value / 100.0, 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class SceneLight:
    """What the weather does to colours, all linear, 1 being white on the picture.

    ``sun`` falls on what faces ``to_sun``; ``above`` and ``below`` light what faces up and down. ``sky_high`` and ``sky_low``
    are the colours of zenith and horizon; ``fog`` is mixed in, by ``fog_per_m`` more for every metre beyond ``fog_from_m``.
    ``shadows`` says whether the sun throws any; ``night`` runs from 0 by day to 1.
    """

    to_sun: Colour
    sun: Colour
    above: Colour
    below: Colour
    sky_high: Colour
    sky_low: Colour
    glow: Colour
    fog: Colour
    fog_per_m: float
    fog_from_m: float
    shadows: bool
    night: float
    clouds: float
    cloud_colour: Colour
    wet: float
    puddles: float
    rain: float


# Altitude of the sun in degrees: zenith, horizon, sun, how strongly it shines, ambient. Between them colours are mixed.
_TIMES: Final[tuple[tuple[float, Colour, Colour, Colour, float, float], ...]] = (
    (-90.0, (0.0050, 0.0070, 0.016), (0.013, 0.017, 0.030), (0.4, 0.5, 0.8), 0.0, 0.048),
    (-14.0, (0.0050, 0.0070, 0.018), (0.017, 0.021, 0.036), (0.4, 0.5, 0.8), 0.0, 0.050),
    (-7.0, (0.014, 0.020, 0.052), (0.095, 0.068, 0.085), (1.0, 0.40, 0.18), 0.0, 0.085),
    (-1.0, (0.060, 0.090, 0.190), (0.54, 0.27, 0.165), (1.0, 0.42, 0.16), 0.10, 0.22),
    (5.0, (0.120, 0.200, 0.390), (0.76, 0.50, 0.31), (1.0, 0.56, 0.26), 0.95, 0.38),
    (15.0, (0.135, 0.260, 0.520), (0.66, 0.66, 0.64), (1.0, 0.80, 0.58), 1.30, 0.48),
    (40.0, (0.100, 0.240, 0.530), (0.56, 0.68, 0.80), (1.0, 0.94, 0.84), 1.45, 0.54),
    (90.0, (0.090, 0.230, 0.530), (0.54, 0.67, 0.81), (1.0, 0.97, 0.92), 1.50, 0.56),
)
_SUN_THROWS_SHADOWS_DEG: Final = 2.0
_DUST: Final[Colour] = (0.42, 0.30, 0.17)
_LAMPS_DEG: Final = 3.0


def _mix(a: Colour, b: Colour, part: float) -> Colour:
    return (a[0] + (b[0] - a[0]) * part, a[1] + (b[1] - a[1]) * part, a[2] + (b[2] - a[2]) * part)


def _scaled(a: Colour, factor: float) -> Colour:
    return a[0] * factor, a[1] * factor, a[2] * factor


def is_dark(weather: SceneWeather) -> bool:
    """Do street lamps burn by themselves?"""
    dim_deg = 8.0 * weather.part("cloudiness") + 6.0 * weather.part("fog_density")
    return weather.sun_altitude_angle < _LAMPS_DEG + 0.5 * dim_deg


def wetness_of(weather: SceneWeather) -> float:
    """How wet roads are, 0 to 1: by decree, under puddles, or because it rains."""
    rain = weather.part("precipitation")
    return max(weather.part("wetness"), 0.9 * weather.part("precipitation_deposits"), 0.6 * rain)


def tyre_grip(weather: SceneWeather) -> float:
    """What is left of a tyre's friction: 1 on a dry road, 0.7 on a wet one, 0.5 where water stands on it.

    Wet asphalt holds about two thirds to three quarters of what it holds dry, less under standing water and at speed (Wong,
    Theory of Ground Vehicles, 2001, table 1.3: 0.8 to 0.9 dry, 0.5 to 0.7 wet). The speed is left out.
    """
    return 1.0 - 0.3 * wetness_of(weather) - 0.2 * weather.part("precipitation_deposits")


def extinction_per_m(weather: SceneWeather) -> float:
    """How much light a metre of rain, fog or dust takes, the haze of a clear day left out: the very numbers of the pictures."""
    rain, fog, dust = (weather.part(name) for name in ("precipitation", "fog_density", "dust_storm"))
    return 0.0035 * rain * rain + 0.075 * fog * fog + 0.02 * dust


def light_of(weather: SceneWeather) -> SceneLight:
    """Work out the light."""
    altitude_deg = min(max(weather.sun_altitude_angle, -90.0), 90.0)
    upper = next(index for index, row in enumerate(_TIMES) if index and altitude_deg <= row[0])
    low, high = _TIMES[upper - 1], _TIMES[upper]
    part = (altitude_deg - low[0]) / (high[0] - low[0])
    zenith, horizon, sun = (_mix(low[k], high[k], part) for k in (1, 2, 3))  # type: ignore[arg-type]
    strength, ambient = (low[k] + (high[k] - low[k]) * part for k in (4, 5))  # type: ignore[operator]
    clouds, dust = weather.part("cloudiness"), weather.part("dust_storm")
    rain, fog_part = weather.part("precipitation"), weather.part("fog_density")
    day = min(max((altitude_deg + 8.0) / 20.0, 0.0), 1.0)
    # An overcast sky is grey, a little darker than its own horizon.
    grey_level = 0.25 * horizon[0] + 0.4 * horizon[1] + 0.35 * horizon[2]
    overcast = _scaled((0.94, 0.97, 1.0), grey_level * (0.86 - 0.26 * rain))
    veil = clouds * clouds * (3.0 - 2.0 * clouds)
    zenith = _mix(_mix(zenith, overcast, 0.88 * veil), _DUST, 0.7 * dust * day)
    horizon = _mix(_mix(horizon, _scaled(overcast, 1.1), 0.8 * veil), _DUST, 0.8 * dust * day)
    strength *= (1.0 - 0.93 * veil) * (1.0 - 0.75 * fog_part) * (1.0 - 0.7 * dust)
    tone = _mix(_mix(zenith, horizon, 0.6), (1.0, 1.0, 1.0), 0.25)
    bright = max(tone)
    above = _scaled(tone, ambient * (1.0 + 0.35 * veil) / bright)
    below = _scaled(_mix(above, _scaled(sun, strength), 0.16), 0.55)
    sin_alt, cos_alt = sincos_deg(altitude_deg)
    sin_az, cos_az = sincos_deg(weather.sun_azimuth_angle)
    # A veil of haze is always there; rain thickens it. Fog of 100 % leaves about 25 m.
    fog_per_m = 0.00045 + 0.0035 * rain * rain + 0.075 * fog_part * fog_part + 0.02 * dust
    fog = _mix(_mix(horizon, tone, 0.3 * fog_part), _scaled(above, 1.2), 0.25 * fog_part)
    wet = wetness_of(weather)
    return SceneLight(
        to_sun=(cos_alt * cos_az, cos_alt * sin_az, sin_alt),
        sun=_scaled(sun, strength),
        above=above,
        below=below,
        sky_high=zenith,
        sky_low=horizon,
        glow=_scaled(sun, (0.25 + 0.75 * strength) * day * (1.0 - 0.9 * veil)),
        fog=fog,
        fog_per_m=fog_per_m,
        fog_from_m=min(max(weather.fog_distance, 0.0), 500.0) if fog_part > 0.0 else 0.0,
        shadows=altitude_deg > _SUN_THROWS_SHADOWS_DEG and strength > 0.05,
        night=1.0 - min(max((altitude_deg + 9.0) / 14.0, 0.0), 1.0),
        clouds=clouds,
        cloud_colour=_mix(_scaled(_mix(horizon, (1.0, 1.0, 1.0), 0.35 * day), 1.0 + 0.25 * day), overcast, veil),
        wet=wet,
        puddles=weather.part("precipitation_deposits"),
        rain=rain,
    )
