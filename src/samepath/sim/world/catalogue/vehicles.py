"""The vehicles, as a table: one line each."""

from typing import Final

from samepath.sim.world.catalogue.engines import (
    BUS,
    CAR,
    CYCLIST,
    ELECTRIC,
    FAST,
    MOTORCYCLE,
    SCOOTER,
    SMALL,
    SMALL_ELECTRIC,
    TRUCK,
    VAN,
)
from samepath.sim.world.catalogue.records import Engine, VehicleType

# name, length, width, height (m), mass (kg), wheel base, track, wheel radius (m), steering (deg), engine, drag area (m2),
# driven axles, clearance (m)
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
