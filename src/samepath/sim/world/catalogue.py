"""The types of actors: sizes, masses, engines, under the names CARLA's blueprint library uses.

Sizes and masses are rounded from public data sheets of such vehicles. Engines follow one honest simplification: a flat-topped
torque curve, an automatic gearbox without slip, a fixed efficiency of 0.9, drag and rolling resistance; enough for
plausible 0-100 km/h times, top speeds and braking distances, not for powertrain studies.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from samepath.base.suggest import unknown


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


@dataclass(frozen=True)
class VehicleType:
    """A vehicle. ``upright`` ones (two wheels in life) cannot fall over: they stand on four rays and only yaw."""

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

_CAR: Final = Engine(
    ((800.0, 140.0), (1600.0, 250.0), (4200.0, 250.0), (6000.0, 190.0)),
    (3.6, 2.05, 1.36, 1.03, 0.84, 0.68),
    3.4,
    3.7,
    5600.0,
    1900.0,
)
_FAST: Final = Engine(
    ((800.0, 250.0), (1500.0, 400.0), (4800.0, 400.0), (6500.0, 320.0)),
    (3.9, 2.3, 1.55, 1.15, 0.9, 0.73),
    3.6,
    3.2,
    6200.0,
    2200.0,
)
# An electric motor in one gear: the curve falls with constant power beyond 6000 rpm.
_ELECTRIC: Final = Engine(((0.0, 420.0), (6000.0, 420.0), (9000.0, 280.0), (16000.0, 157.0)), (9.0,), 9.0, 1.0, 1e9, 0.0)
_VAN: Final = Engine(
    ((800.0, 200.0), (1400.0, 360.0), (2400.0, 360.0), (4000.0, 240.0)),
    (5.0, 2.6, 1.5, 1.0, 0.75, 0.63),
    4.7,
    3.9,
    3600.0,
    1300.0,
)
_BUS: Final = Engine(
    ((700.0, 500.0), (1200.0, 900.0), (1900.0, 900.0), (2600.0, 700.0)),
    (6.6, 3.9, 2.4, 1.5, 1.0, 0.8),
    6.0,
    4.1,
    2400.0,
    1000.0,
)
_MOTORCYCLE: Final = Engine(
    ((1500.0, 50.0), (4000.0, 75.0), (8500.0, 80.0), (10500.0, 65.0)), (2.9, 2.0, 1.55, 1.3, 1.1, 1.0), 2.9, 4.6, 9500.0, 4200.0
)
# A strong cyclist: 25 N m at the crank, a few gears, no reverse to speak of.
_CYCLIST: Final = Engine(((0.0, 60.0), (60.0, 45.0), (110.0, 22.0), (140.0, 5.0)), (0.9, 0.6, 0.42, 0.33), 1.5, 1.0, 95.0, 55.0)

_VEHICLES: Final = (
    VehicleType(
        "vehicle.tesla.model3", 4.79, 1.85, 1.44, 1840.0, 2.88, 1.58, 0.34, 35.0, _ELECTRIC, drag_area_m2=0.51, driven="rear"
    ),
    VehicleType("vehicle.audi.a2", 3.83, 1.67, 1.55, 1100.0, 2.41, 1.46, 0.30, 36.0, _CAR, drag_area_m2=0.55),
    VehicleType("vehicle.audi.tt", 4.18, 1.83, 1.35, 1410.0, 2.51, 1.57, 0.33, 36.0, _FAST, drag_area_m2=0.63, driven="all"),
    VehicleType(
        "vehicle.audi.etron", 4.90, 1.94, 1.63, 2490.0, 2.93, 1.65, 0.37, 35.0, _ELECTRIC, drag_area_m2=0.74, driven="all"
    ),
    VehicleType(
        "vehicle.mercedes.coupe", 4.70, 1.81, 1.41, 1600.0, 2.84, 1.56, 0.33, 36.0, _FAST, drag_area_m2=0.58, driven="rear"
    ),
    VehicleType("vehicle.lincoln.mkz", 4.93, 1.86, 1.48, 1700.0, 2.85, 1.58, 0.34, 35.0, _CAR, drag_area_m2=0.66),
    VehicleType("vehicle.toyota.prius", 4.57, 1.76, 1.47, 1380.0, 2.70, 1.53, 0.32, 37.0, _CAR, drag_area_m2=0.55),
    VehicleType(
        "vehicle.nissan.patrol",
        5.16,
        1.99,
        1.94,
        2700.0,
        3.07,
        1.70,
        0.40,
        35.0,
        _FAST,
        drag_area_m2=1.05,
        driven="all",
        clearance_m=0.27,
    ),
    VehicleType(
        "vehicle.mercedes.sprinter",
        5.91,
        1.99,
        2.56,
        2600.0,
        3.67,
        1.72,
        0.35,
        38.0,
        _VAN,
        kind="van",
        drag_area_m2=1.45,
        driven="rear",
    ),
    VehicleType(
        "vehicle.volkswagen.t2",
        4.51,
        1.76,
        2.00,
        1450.0,
        2.40,
        1.44,
        0.33,
        38.0,
        _CAR,
        kind="van",
        drag_area_m2=1.3,
        driven="rear",
    ),
    VehicleType(
        "vehicle.mitsubishi.fusorosa",
        10.2,
        2.50,
        3.20,
        9500.0,
        5.30,
        2.05,
        0.46,
        42.0,
        _BUS,
        kind="bus",
        drag_area_m2=4.5,
        driven="rear",
        clearance_m=0.30,
        brake_force_n_per_kg=8.0,
    ),
    VehicleType(
        "vehicle.yamaha.yzf",
        2.05,
        0.72,
        1.45,
        260.0,
        1.41,
        0.40,
        0.31,
        40.0,
        _MOTORCYCLE,
        kind="motorcycle",
        drag_area_m2=0.40,
        driven="rear",
        upright=True,
    ),
    VehicleType(
        "vehicle.harley-davidson.low_rider",
        2.35,
        0.85,
        1.45,
        380.0,
        1.63,
        0.45,
        0.32,
        38.0,
        _MOTORCYCLE,
        kind="motorcycle",
        drag_area_m2=0.50,
        driven="rear",
        upright=True,
    ),
    VehicleType(
        "vehicle.bh.crossbike",
        1.75,
        0.60,
        1.70,
        90.0,
        1.05,
        0.35,
        0.34,
        45.0,
        _CYCLIST,
        kind="bicycle",
        drag_area_m2=0.45,
        rolling_resistance=0.006,
        driven="rear",
        upright=True,
        brake_force_n_per_kg=6.0,
        tyre_friction=0.8,
    ),
    VehicleType(
        "vehicle.diamondback.century",
        1.70,
        0.55,
        1.70,
        85.0,
        1.00,
        0.35,
        0.34,
        45.0,
        _CYCLIST,
        kind="bicycle",
        drag_area_m2=0.36,
        rolling_resistance=0.004,
        driven="rear",
        upright=True,
        brake_force_n_per_kg=6.0,
        tyre_friction=0.8,
    ),
)
_WALKERS: Final = tuple(
    WalkerType(f"walker.pedestrian.{number:04d}", height_m, radius_m, mass_kg)
    for number, (height_m, radius_m, mass_kg) in enumerate(
        ((1.75, 0.28, 75.0), (1.68, 0.26, 62.0), (1.82, 0.30, 88.0), (1.20, 0.20, 28.0), (1.60, 0.27, 70.0)), start=1
    )
)
_PROPS: Final = (
    PropType("static.prop.barrel", 0.6, 0.6, 0.95, 25.0),
    PropType("static.prop.box01", 0.6, 0.4, 0.5, 8.0),
    PropType("static.prop.streetbarrier", 1.2, 0.35, 1.0, 30.0),
    PropType("static.prop.trafficcone01", 0.35, 0.35, 0.7, 4.0),
    PropType("static.prop.bench01", 1.6, 0.6, 0.85),
    PropType("static.prop.container", 4.5, 2.4, 2.4),
)
# Names of older CARLA versions, which existing scripts use.
_ALIASES: Final = {
    "vehicle.mercedes-benz.coupe": "vehicle.mercedes.coupe",
    "vehicle.mercedes-benz.sprinter": "vehicle.mercedes.sprinter",
}

_ALL: Final[tuple[ActorType, ...]] = (*_VEHICLES, *_WALKERS, *_PROPS)
CATALOGUE: Final[Mapping[str, ActorType]] = MappingProxyType({one.name: one for one in _ALL})


def actor_type(name: str) -> ActorType:
    """Return the type called ``name``, by its own or an older name."""
    found = CATALOGUE.get(_ALIASES.get(name, name))
    if found is None:
        raise unknown("actor type", name, [*CATALOGUE, *_ALIASES])
    return found
