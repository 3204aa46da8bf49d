"""The types of actors: sizes, masses, engines, under the names CARLA's blueprint library uses.

Sizes and masses are rounded from public data sheets of such vehicles. Engines follow one honest simplification: a flat-topped
torque curve, an automatic gearbox without slip, a fixed efficiency of 0.9, drag and rolling resistance; enough for plausible
0-100 km/h times, top speeds and braking distances, not for powertrain studies.

The ``repr`` of a type goes into the world's digest when a vehicle is refitted, and its fields into snapshots: renaming a field
or a class here changes both.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Final

from samepath.core.errors import unknown


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
    gear_shift_rpm: tuple[tuple[float, float], ...] = ()  # (down, up) of each gear, where they differ

    def shifts_at_rpm(self, gear: int) -> tuple[float, float]:
        """Below and above which engine speed a gear is left."""
        return self.gear_shift_rpm[gear - 1] if self.gear_shift_rpm else (self.shift_down_rpm, self.shift_up_rpm)


@dataclass(frozen=True)
class WheelFit:
    """One wheel of a vehicle whose wheels are not all alike; ``side_stiffness`` 1 holds the wheel to its track."""

    friction: float
    max_steer_deg: float
    radius_m: float
    brake_n: float
    hand_brake_n: float
    side_stiffness: float = 1.0


@dataclass(frozen=True)
class VehicleType:
    """A vehicle. ``upright`` ones (two wheels in life) cannot fall over: they stand on four rays and only yaw.

    ``wheels``, front left, front right, rear left, rear right, is empty where they follow from the other numbers;
    ``steering_curve`` holds (speed in m/s, part of the steering that is left) where steering weakens with speed;
    ``slip_per_n`` is by how much, as a part of its speed, soft tyres let a driven wheel spin ahead per newton of drive;
    ``side_grip`` is how much better tyres hold sideways than along.
    """

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
    wheels: tuple[WheelFit, ...] = ()
    centre_of_mass_m: tuple[float, float, float] | None = None
    steering_curve: tuple[tuple[float, float], ...] = ()
    automatic: bool = True
    slip_per_n: float = 0.0
    side_grip: float = 1.0

    @property
    def max_brake_n(self) -> float:
        """What all brakes together can do."""
        return sum(wheel.brake_n for wheel in self.wheels) if self.wheels else self.brake_force_n_per_kg * self.mass_kg

    @property
    def mean_friction(self) -> float:
        """The friction of the tyres, all wheels taken together."""
        return sum(wheel.friction for wheel in self.wheels) / len(self.wheels) if self.wheels else self.tyre_friction


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

# The engines: a handful that suit the classes of vehicle, not each model's own.
SMALL: Final = Engine(
    ((800.0, 80.0), (2000.0, 125.0), (4400.0, 140.0), (6000.0, 115.0)),
    (3.7, 2.05, 1.4, 1.05, 0.84),
    3.5,
    4.1,
    5600.0,
    2000.0,
)
CAR: Final = Engine(
    ((800.0, 140.0), (1600.0, 250.0), (4200.0, 250.0), (6000.0, 190.0)),
    (3.6, 2.05, 1.36, 1.03, 0.84, 0.68),
    3.4,
    3.7,
    5600.0,
    1900.0,
)
FAST: Final = Engine(
    ((800.0, 250.0), (1500.0, 400.0), (4800.0, 400.0), (6500.0, 320.0)),
    (3.9, 2.3, 1.55, 1.15, 0.9, 0.73),
    3.6,
    3.2,
    6200.0,
    2200.0,
)

# An electric motor in one gear: the curve falls with constant power beyond 6000 rpm.
ELECTRIC: Final = Engine(((0.0, 420.0), (6000.0, 420.0), (9000.0, 280.0), (16000.0, 157.0)), (9.0,), 9.0, 1.0, 1e9, 0.0)

# 12.5 kW, as in quadricycles.
SMALL_ELECTRIC: Final = Engine(((0.0, 60.0), (2000.0, 60.0), (4000.0, 30.0), (8500.0, 14.0)), (10.0,), 10.0, 1.0, 1e9, 0.0)
VAN: Final = Engine(
    ((800.0, 200.0), (1400.0, 360.0), (2400.0, 360.0), (4000.0, 240.0)),
    (5.0, 2.6, 1.5, 1.0, 0.75, 0.63),
    4.7,
    3.9,
    3600.0,
    1300.0,
)
BUS: Final = Engine(
    ((700.0, 500.0), (1200.0, 900.0), (1900.0, 900.0), (2600.0, 700.0)),
    (6.6, 3.9, 2.4, 1.5, 1.0, 0.8),
    6.0,
    4.1,
    2400.0,
    1000.0,
)
TRUCK: Final = Engine(
    ((600.0, 1000.0), (1000.0, 1700.0), (1400.0, 1700.0), (2000.0, 1250.0)),
    (8.0, 5.0, 3.3, 2.2, 1.5, 1.0, 0.78),
    7.5,
    3.7,
    1800.0,
    850.0,
)
MOTORCYCLE: Final = Engine(
    ((1500.0, 50.0), (4000.0, 75.0), (8500.0, 80.0), (10500.0, 65.0)), (2.9, 2.0, 1.55, 1.3, 1.1, 1.0), 2.9, 4.6, 9500.0, 4200.0
)
SCOOTER: Final = Engine(
    ((1500.0, 8.0), (5000.0, 10.5), (7500.0, 11.0), (9500.0, 9.0)), (3.1, 2.1, 1.5, 1.2, 1.0), 3.1, 8.6, 8500.0, 4500.0
)

# A strong cyclist: 25 N m at the crank, a few gears, no reverse to speak of.
CYCLIST: Final = Engine(((0.0, 60.0), (60.0, 45.0), (110.0, 22.0), (140.0, 5.0)), (0.9, 0.6, 0.42, 0.33), 1.5, 1.0, 95.0, 55.0)

# One line per vehicle: name, length, width, height (m), mass (kg), wheel base, track, wheel radius (m), steering (deg), engine,
# drag area (m2), driven axles, clearance (m).
_Row = tuple[str, float, float, float, float, float, float, float, float, Engine, float, str, float]

# fmt: off
_CARS: Final[tuple[_Row, ...]] = (
    ("vehicle.tesla.model3",              4.79, 1.85, 1.44, 1840.0, 2.88, 1.58, 0.34, 35.0, ELECTRIC, 0.51, "rear", 0.18),
    ("vehicle.audi.a2",                   3.83, 1.67, 1.55, 1100.0, 2.41, 1.46, 0.30, 36.0, CAR, 0.55, "front", 0.18),
    ("vehicle.audi.tt",                   4.18, 1.83, 1.35, 1410.0, 2.51, 1.57, 0.33, 36.0, FAST, 0.63, "all", 0.18),
    ("vehicle.audi.etron",                4.90, 1.94, 1.63, 2490.0, 2.93, 1.65, 0.37, 35.0, ELECTRIC, 0.74, "all", 0.18),
    ("vehicle.bmw.grandtourer",           4.57, 1.80, 1.61, 1500.0, 2.78, 1.56, 0.32, 36.0, CAR, 0.68, "front", 0.18),
    ("vehicle.chevrolet.impala",          5.11, 1.85, 1.50, 1700.0, 2.84, 1.58, 0.34, 35.0, CAR, 0.68, "front", 0.18),
    ("vehicle.citroen.c3",                3.94, 1.73, 1.51, 1100.0, 2.47, 1.47, 0.31, 36.0, SMALL, 0.62, "front", 0.18),
    ("vehicle.dodge.charger_2020",        5.04, 1.91, 1.48, 1900.0, 3.05, 1.61, 0.35, 36.0, FAST, 0.75, "rear", 0.18),
    ("vehicle.dodge.charger_police",      5.08, 1.90, 1.53, 1950.0, 3.05, 1.61, 0.35, 36.0, FAST, 0.78, "rear", 0.18),
    ("vehicle.dodge.charger_police_2020", 5.04, 1.91, 1.58, 1980.0, 3.05, 1.61, 0.35, 36.0, FAST, 0.78, "rear", 0.18),
    ("vehicle.ford.crown",                5.39, 1.99, 1.58, 1880.0, 2.91, 1.60, 0.34, 36.0, CAR, 0.78, "rear", 0.18),
    ("vehicle.ford.mustang",              4.61, 1.73, 1.30, 1270.0, 2.74, 1.42, 0.32, 36.0, FAST, 0.80, "rear", 0.15),
    ("vehicle.jeep.wrangler_rubicon",     4.33, 1.89, 1.87, 1900.0, 2.46, 1.60, 0.41, 36.0, CAR, 1.25, "all", 0.27),
    ("vehicle.lincoln.mkz",               4.93, 1.86, 1.48, 1700.0, 2.85, 1.58, 0.34, 35.0, CAR, 0.66, "front", 0.18),
    ("vehicle.lincoln.mkz_2017",          4.93, 1.86, 1.48, 1700.0, 2.85, 1.58, 0.34, 35.0, CAR, 0.66, "front", 0.18),
    ("vehicle.lincoln.mkz_2020",          4.93, 1.86, 1.48, 1740.0, 2.85, 1.58, 0.34, 35.0, CAR, 0.66, "front", 0.18),
    ("vehicle.mercedes.coupe",            4.70, 1.81, 1.41, 1600.0, 2.84, 1.56, 0.33, 36.0, FAST, 0.58, "rear", 0.18),
    ("vehicle.mercedes.coupe_2020",       4.83, 1.86, 1.43, 1735.0, 2.87, 1.60, 0.34, 36.0, FAST, 0.56, "rear", 0.18),
    ("vehicle.micro.microlino",           2.52, 1.47, 1.50,  535.0, 1.57, 1.25, 0.28, 38.0, SMALL_ELECTRIC, 0.75, "rear", 0.15),
    ("vehicle.mini.cooper_s",             3.71, 1.69, 1.41, 1215.0, 2.47, 1.46, 0.30, 36.0, CAR, 0.72, "front", 0.16),
    ("vehicle.mini.cooper_s_2021",        3.86, 1.73, 1.41, 1300.0, 2.50, 1.50, 0.31, 36.0, CAR, 0.68, "front", 0.16),
    ("vehicle.nissan.micra",              3.72, 1.66, 1.54,  980.0, 2.43, 1.46, 0.30, 37.0, SMALL, 0.66, "front", 0.18),
    ("vehicle.nissan.patrol",             5.16, 1.99, 1.94, 2700.0, 3.07, 1.70, 0.40, 35.0, FAST, 1.05, "all", 0.27),
    ("vehicle.nissan.patrol_2021",        5.17, 2.00, 1.94, 2750.0, 3.08, 1.71, 0.41, 35.0, FAST, 1.05, "all", 0.27),
    ("vehicle.seat.leon",                 4.26, 1.80, 1.46, 1300.0, 2.64, 1.54, 0.32, 36.0, CAR, 0.63, "front", 0.18),
    ("vehicle.toyota.prius",              4.57, 1.76, 1.47, 1380.0, 2.70, 1.53, 0.32, 37.0, CAR, 0.55, "front", 0.18),
)
_VANS: Final[tuple[_Row, ...]] = (
    ("vehicle.mercedes.sprinter",         5.91, 1.99, 2.56, 2600.0, 3.67, 1.72, 0.35, 38.0, VAN, 1.45, "rear", 0.18),
    ("vehicle.volkswagen.t2",             4.51, 1.76, 2.00, 1450.0, 2.40, 1.44, 0.33, 38.0, CAR, 1.3, "rear", 0.18),
    ("vehicle.volkswagen.t2_2021",        4.51, 1.76, 1.99, 1480.0, 2.40, 1.44, 0.33, 38.0, CAR, 1.3, "rear", 0.18),
    ("vehicle.ford.ambulance",            6.36, 2.35, 2.60, 4500.0, 4.01, 1.80, 0.38, 40.0, VAN, 2.6, "rear", 0.20),
)
_TRUCKS: Final[tuple[_Row, ...]] = (
    ("vehicle.carlamotors.carlacola",     5.20, 2.30, 2.85, 5000.0, 2.75, 1.75, 0.40, 42.0, BUS, 3.6, "rear", 0.25),
    ("vehicle.carlamotors.european_hgv",  7.95, 2.55, 3.50, 9500.0, 4.40, 2.05, 0.50, 42.0, TRUCK, 5.5, "rear", 0.30),
    ("vehicle.carlamotors.firetruck",     8.45, 2.55, 3.40, 13000.0, 4.60, 2.05, 0.50, 42.0, TRUCK, 5.5, "rear", 0.30),
    ("vehicle.tesla.cybertruck",          5.68, 2.03, 1.79, 3000.0, 3.64, 1.75, 0.44, 35.0, ELECTRIC, 1.0, "all", 0.25),
)
_BUSES: Final[tuple[_Row, ...]] = (
    ("vehicle.mitsubishi.fusorosa",       10.2, 2.50, 3.20, 9500.0, 5.30, 2.05, 0.46, 42.0, BUS, 4.5, "rear", 0.30),
)
_MOTORCYCLES: Final[tuple[_Row, ...]] = (
    ("vehicle.yamaha.yzf",                2.05, 0.72, 1.45, 260.0, 1.41, 0.40, 0.31, 40.0, MOTORCYCLE, 0.40, "rear", 0.18),
    ("vehicle.harley-davidson.low_rider", 2.35, 0.85, 1.45, 380.0, 1.63, 0.45, 0.32, 38.0, MOTORCYCLE, 0.50, "rear", 0.18),
    ("vehicle.kawasaki.ninja",            2.03, 0.80, 1.45, 280.0, 1.41, 0.40, 0.31, 40.0, MOTORCYCLE, 0.38, "rear", 0.18),
    ("vehicle.vespa.zx125",               1.80, 0.72, 1.55, 195.0, 1.28, 0.38, 0.24, 42.0, SCOOTER, 0.50, "rear", 0.15),
)
_BICYCLES: Final[tuple[_Row, ...]] = (
    ("vehicle.bh.crossbike",              1.75, 0.60, 1.70, 90.0, 1.05, 0.35, 0.34, 45.0, CYCLIST, 0.45, "rear", 0.18),
    ("vehicle.diamondback.century",       1.70, 0.55, 1.70, 85.0, 1.00, 0.35, 0.34, 45.0, CYCLIST, 0.36, "rear", 0.18),
    ("vehicle.gazelle.omafiets",          1.85, 0.62, 1.75, 95.0, 1.12, 0.35, 0.35, 45.0, CYCLIST, 0.50, "rear", 0.18),
)

# fmt: on
_HEAVY_KG: Final = 5000.0
_ROLLING: Final = {"vehicle.bh.crossbike": 0.006, "vehicle.gazelle.omafiets": 0.006, "vehicle.diamondback.century": 0.004}


def _vehicle(kind: str, row: _Row) -> VehicleType:
    engine, drag_area_m2, driven, clearance_m = row[9:]
    bicycle = kind == "bicycle"
    brake_n_per_kg = 6.0 if bicycle else 8.0 if row[4] >= _HEAVY_KG else 11.0
    return VehicleType(
        *row[:9],
        engine,
        kind=kind,
        clearance_m=clearance_m,
        drag_area_m2=drag_area_m2,
        rolling_resistance=_ROLLING.get(row[0], 0.012),
        tyre_friction=0.8 if bicycle else 0.9,
        brake_force_n_per_kg=brake_n_per_kg,
        driven=driven,
        upright=bicycle or kind == "motorcycle",
    )


VEHICLES: Final = tuple(
    _vehicle(kind, row)
    for kind, rows in (
        ("car", _CARS),
        ("van", _VANS),
        ("truck", _TRUCKS),
        ("bus", _BUSES),
        ("motorcycle", _MOTORCYCLES),
        ("bicycle", _BICYCLES),
    )
    for row in rows
)

# Height, radius (m), mass (kg); taken in turn.
_ADULTS: Final = ((1.75, 0.28, 75.0), (1.68, 0.26, 62.0), (1.82, 0.30, 88.0), (1.70, 0.27, 68.0), (1.60, 0.27, 70.0))
_CHILDREN: Final = ((1.20, 0.20, 28.0), (1.35, 0.21, 33.0), (1.10, 0.19, 22.0))
CHILD_NUMBERS: Final = frozenset({9, 10, 11, 12, 13, 14, 48, 49})
WALKER_COUNT: Final = 49


def _walker(number: int) -> WalkerType:
    sizes = _CHILDREN if number in CHILD_NUMBERS else _ADULTS
    return WalkerType(f"walker.pedestrian.{number:04d}", *sizes[(number - 1) % len(sizes)])


WALKERS: Final = tuple(_walker(number) for number in range(1, WALKER_COUNT + 1))

# Name, length, width, height (m), mass (kg; 0: fixed to the ground).
# fmt: off
_BOXES: Final[tuple[tuple[str, float, float, float, float], ...]] = (
    ("barrel", 0.6, 0.6, 0.95, 25.0), ("box01", 0.6, 0.4, 0.5, 8.0), ("streetbarrier", 1.2, 0.35, 1.0, 30.0),
    ("trafficcone01", 0.35, 0.35, 0.7, 4.0), ("bench01", 1.6, 0.6, 0.85, 0.0), ("container", 4.5, 2.4, 2.4, 0.0),
    ("advertisement", 1.3, 0.4, 2.4, 0.0), ("atm", 0.9, 0.7, 1.8, 0.0), ("barbeque", 1.1, 0.6, 1.0, 35.0),
    ("bench02", 1.6, 0.6, 0.85, 0.0), ("bench03", 1.8, 0.6, 0.85, 0.0), ("bike helmet", 0.3, 0.25, 0.2, 0.5),
    ("bin", 0.6, 0.6, 1.0, 20.0), ("box02", 0.5, 0.4, 0.4, 6.0), ("box03", 0.4, 0.3, 0.3, 4.0),
    ("briefcase", 0.45, 0.12, 0.35, 4.0), ("brokentile01", 0.4, 0.4, 0.05, 3.0), ("brokentile02", 0.4, 0.3, 0.05, 2.5),
    ("brokentile03", 0.3, 0.3, 0.05, 2.0), ("brokentile04", 0.3, 0.2, 0.05, 1.5), ("busstop", 4.0, 1.6, 2.6, 0.0),
    ("busstoplb", 4.0, 1.6, 2.6, 0.0), ("calibrator", 1.0, 0.1, 1.5, 12.0), ("chainbarrier", 1.6, 0.15, 1.0, 0.0),
    ("chainbarrierend", 0.2, 0.2, 1.0, 0.0), ("clothcontainer", 1.3, 1.2, 1.9, 0.0), ("clothesline", 2.0, 0.6, 1.1, 6.0),
    ("colacan", 0.07, 0.07, 0.12, 0.3), ("constructioncone", 0.45, 0.45, 0.9, 6.0), ("creasedbox01", 0.6, 0.5, 0.3, 2.0),
    ("creasedbox02", 0.5, 0.4, 0.3, 1.5), ("creasedbox03", 0.4, 0.4, 0.25, 1.0), ("dirtdebris01", 0.8, 0.6, 0.15, 15.0),
    ("dirtdebris02", 0.6, 0.5, 0.12, 10.0), ("dirtdebris03", 0.5, 0.4, 0.1, 6.0), ("doghouse", 1.1, 0.9, 1.0, 25.0),
    ("foodcart", 2.8, 1.6, 2.4, 350.0), ("fountain", 4.0, 4.0, 2.5, 0.0), ("garbage01", 0.4, 0.3, 0.15, 0.5),
    ("garbage02", 0.3, 0.3, 0.12, 0.4), ("garbage03", 0.3, 0.2, 0.1, 0.3), ("garbage04", 0.4, 0.3, 0.12, 0.4),
    ("garbage05", 0.25, 0.2, 0.1, 0.3), ("garbage06", 0.3, 0.25, 0.1, 0.3), ("gardenlamp", 0.2, 0.2, 0.6, 2.0),
    ("glasscontainer", 1.5, 1.5, 1.7, 0.0), ("gnome", 0.25, 0.25, 0.55, 4.0), ("guitarcase", 1.1, 0.4, 0.15, 7.0),
    ("haybale", 1.5, 1.2, 1.2, 250.0), ("haybalelb", 1.0, 0.5, 0.4, 20.0), ("ironplank", 2.0, 1.0, 0.05, 90.0),
    ("kiosk_01", 3.0, 2.2, 2.8, 0.0), ("mailbox", 0.6, 0.5, 1.3, 0.0), ("maptable", 1.2, 0.3, 1.9, 0.0),
    ("mesh", 1.0, 1.0, 1.0, 0.0), ("mobile", 0.15, 0.08, 0.05, 0.2), ("motorhelmet", 0.35, 0.28, 0.28, 1.5),
    ("pergola", 3.0, 3.0, 2.5, 0.0), ("plantpot01", 0.8, 0.8, 0.9, 60.0), ("plantpot02", 0.5, 0.5, 0.6, 25.0),
    ("plantpot03", 0.6, 0.6, 0.8, 35.0), ("plantpot04", 1.2, 0.5, 0.7, 70.0), ("plantpot05", 0.4, 0.4, 0.5, 12.0),
    ("plantpot06", 0.5, 0.5, 0.7, 20.0), ("plantpot07", 0.4, 0.4, 0.4, 10.0), ("plantpot08", 0.9, 0.9, 0.8, 70.0),
    ("plasticbag", 0.35, 0.25, 0.3, 0.5), ("plasticchair", 0.55, 0.55, 0.85, 3.0), ("plastictable", 0.9, 0.9, 0.72, 7.0),
    ("platformgarbage01", 1.6, 1.2, 0.5, 40.0), ("purse", 0.3, 0.12, 0.25, 1.0), ("shoppingbag", 0.35, 0.2, 0.4, 2.0),
    ("shoppingcart", 0.95, 0.6, 1.0, 20.0), ("shoppingtrolley", 0.4, 0.35, 1.0, 6.0), ("slide", 3.0, 0.8, 2.0, 0.0),
    ("streetfountain", 0.5, 0.5, 1.1, 0.0), ("streetsign", 0.6, 0.1, 2.6, 0.0), ("streetsign01", 0.6, 0.1, 2.6, 0.0),
    ("streetsign04", 0.6, 0.1, 2.6, 0.0), ("swing", 3.0, 1.6, 2.2, 0.0), ("swingcouch", 1.9, 1.2, 1.7, 30.0),
    ("table", 1.8, 0.8, 0.75, 25.0), ("trafficcone02", 0.4, 0.4, 0.75, 5.0), ("trafficwarning", 2.6, 1.6, 3.0, 600.0),
    ("trampoline", 3.0, 3.0, 0.9, 50.0), ("trashbag", 0.6, 0.5, 0.6, 5.0), ("trashcan01", 0.7, 0.6, 1.1, 20.0),
    ("trashcan02", 0.6, 0.6, 1.0, 15.0), ("trashcan03", 0.5, 0.5, 0.9, 0.0), ("trashcan04", 0.6, 0.5, 1.0, 15.0),
    ("trashcan05", 0.5, 0.4, 0.9, 0.0), ("travelcase", 0.5, 0.3, 0.75, 12.0), ("vendingmachine", 1.0, 0.9, 1.85, 0.0),
    ("warningaccident", 0.6, 0.5, 0.6, 3.0), ("warningconstruction", 0.9, 0.5, 1.1, 12.0), ("wateringcan", 0.4, 0.2, 0.35, 1.0),
)

# fmt: on
PROPS: Final = tuple(
    PropType(f"static.prop.{name}", length_m, width_m, height_m, mass_kg)
    for name, length_m, width_m, height_m, mass_kg in _BOXES
)

# Names of older CARLA versions, which existing scripts use.
ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "vehicle.mercedes-benz.coupe": "vehicle.mercedes.coupe",
        "vehicle.mercedes-benz.sprinter": "vehicle.mercedes.sprinter",
    }
)

_ALL: Final[tuple[ActorType, ...]] = (*VEHICLES, *WALKERS, *PROPS)
CATALOGUE: Final[Mapping[str, ActorType]] = MappingProxyType({kind.name: kind for kind in _ALL})


def actor_type(name: str) -> ActorType:
    """Return the type called ``name``, by its own or an older name."""
    found = CATALOGUE.get(ALIASES.get(name, name))
    if found is None:
        raise unknown("actor type", name, [*CATALOGUE, *ALIASES])
    return found


_CLASSES: Final[dict[str, type[ActorType]]] = {kind.__name__: kind for kind in (VehicleType, WalkerType, PropType)}


def type_to(kind: ActorType) -> str | list[Any]:
    """Return a type as plain data: its name where the catalogue knows it as it is, field by field where it was changed."""
    if CATALOGUE.get(kind.name) == kind:
        return kind.name
    return [type(kind).__name__, asdict(kind)]


def type_from(data: str | list[Any]) -> ActorType:
    """Read what :func:`type_to` wrote, also after it went through JSON."""
    if isinstance(data, str):
        return actor_type(data)
    name, fields = data
    if name != "VehicleType":
        return _CLASSES[name](**fields)
    plain = {key: _tuples(value) for key, value in fields.items() if key not in ("engine", "wheels")}
    engine = Engine(**{key: _tuples(value) for key, value in fields["engine"].items()})
    return VehicleType(**plain, engine=engine, wheels=tuple(WheelFit(**wheel) for wheel in fields["wheels"]))


def _tuples(value: Any) -> Any:  # noqa: ANN401 - plain data of any depth
    return tuple(_tuples(part) for part in value) if isinstance(value, list | tuple) else value
