"""Passenger cars: a hull of cross-sections, a cabin of glass on it, wheels, lamps. Shapes differ by style, sizes by type."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from samepath.sim.sensors.labels import OF_KIND, Label
from samepath.sim.sensors.meshes.bank import Model
from samepath.sim.sensors.meshes.builder import Colour, Point, Shape, ShapeBuilder, grey
from samepath.sim.sensors.meshes.parts import GLASS, PLASTIC, arch, lamps, plate, wheel
from samepath.sim.sensors.scene import Lamp, Material
from samepath.sim.world.catalogue import VehicleType

_FULL: Final[Colour] = (1.0, 1.0, 1.0)
# Of a hull: place from rear (0) to front (1), height of shoulder and floor (1: the roof), half its width (1: all).
Station = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Style:
    """The lines of a car, as parts of its length, height and width.

    ``cabin`` is where the glass begins and ends: rear foot, rear of the roof, front of the roof, front foot. ``roof`` is half
    the width of the roof, ``pillars`` are the places along the side that are not glass.
    """

    hull: tuple[Station, ...]
    cabin: tuple[float, float, float, float]
    roof: float
    pillars: tuple[tuple[float, float], ...]
    lamp_low: float = 0.42
    lamp_high: float = 0.50


_BACK: Final = ((0.0, 0.40, 0.24, 0.84), (0.012, 0.58, 0.16, 0.93))
_NOSE: Final = ((0.965, 0.50, 0.15, 0.91), (0.995, 0.42, 0.20, 0.80))
_PILLARS: Final = ((0.0, 0.07), (0.47, 0.52), (0.95, 1.0))
STYLES: Final = {
    "sedan": Style(
        (*_BACK, (0.05, 0.665, 0.14, 0.97), (0.20, 0.69, 0.13, 1.0), (0.50, 0.665, 0.125, 1.0), (0.72, 0.65, 0.125, 1.0),
         (0.88, 0.585, 0.14, 0.975), *_NOSE),
        (0.13, 0.30, 0.56, 0.735), 0.74, _PILLARS,
    ),
    "hatch": Style(
        (*_BACK, (0.04, 0.63, 0.15, 0.96), (0.25, 0.64, 0.13, 1.0), (0.52, 0.63, 0.125, 1.0), (0.74, 0.615, 0.125, 1.0),
         (0.89, 0.555, 0.14, 0.97), *_NOSE),
        (0.015, 0.11, 0.57, 0.76), 0.76, _PILLARS,
    ),
    "suv": Style(
        ((0.0, 0.40, 0.24, 0.88), (0.012, 0.58, 0.18, 0.96), (0.04, 0.61, 0.17, 0.98), (0.25, 0.615, 0.16, 1.0),
         (0.52, 0.605, 0.155, 1.0), (0.73, 0.60, 0.155, 1.0), (0.90, 0.56, 0.17, 0.985), (0.975, 0.50, 0.18, 0.93),
         (0.997, 0.42, 0.24, 0.86)),
        (0.012, 0.06, 0.57, 0.72), 0.82, ((0.0, 0.06), (0.30, 0.335), (0.60, 0.645), (0.95, 1.0)), 0.40, 0.48,
    ),
    "coupe": Style(
        (*_BACK, (0.05, 0.68, 0.14, 0.97), (0.20, 0.70, 0.12, 1.0), (0.50, 0.66, 0.115, 1.0), (0.70, 0.635, 0.115, 1.0),
         (0.88, 0.56, 0.13, 0.97), *_NOSE),
        (0.085, 0.34, 0.52, 0.70), 0.72, ((0.0, 0.16), (0.95, 1.0)),
    ),
    "micro": Style(
        ((0.0, 0.36, 0.22, 0.80), (0.03, 0.55, 0.16, 0.93), (0.20, 0.60, 0.14, 1.0), (0.55, 0.60, 0.13, 1.0),
         (0.80, 0.58, 0.13, 0.97), (0.95, 0.50, 0.15, 0.86), (0.995, 0.38, 0.22, 0.70)),
        (0.04, 0.22, 0.60, 0.90), 0.72, ((0.0, 0.09), (0.93, 1.0)), 0.36, 0.44,
    ),
    "wedge": Style(
        ((0.0, 0.44, 0.24, 0.92), (0.015, 0.60, 0.18, 0.97), (0.04, 0.62, 0.17, 0.98), (0.30, 0.61, 0.16, 1.0),
         (0.52, 0.60, 0.155, 1.0), (0.72, 0.585, 0.155, 1.0), (0.90, 0.54, 0.17, 0.98), (0.975, 0.50, 0.18, 0.93),
         (0.998, 0.44, 0.24, 0.86)),
        (0.02, 0.50, 0.55, 0.86), 0.70, ((0.0, 0.42), (0.64, 0.67), (0.96, 1.0)), 0.46, 0.49,
    ),
    "bulli": Style(
        ((0.0, 0.36, 0.20, 0.90), (0.015, 0.50, 0.15, 0.97), (0.06, 0.53, 0.14, 1.0), (0.50, 0.53, 0.13, 1.0),
         (0.90, 0.53, 0.13, 1.0), (0.97, 0.50, 0.14, 0.96), (1.0, 0.36, 0.18, 0.88)),
        (0.005, 0.035, 0.925, 0.985), 0.84, ((0.0, 0.05), (0.26, 0.30), (0.51, 0.55), (0.76, 0.80), (0.97, 1.0)), 0.30, 0.38,
    ),
    "panel": Style(
        ((0.0, 0.34, 0.16, 0.94), (0.01, 0.46, 0.12, 0.99), (0.05, 0.47, 0.11, 1.0), (0.45, 0.47, 0.10, 1.0),
         (0.72, 0.47, 0.10, 1.0), (0.90, 0.42, 0.11, 0.98), (0.975, 0.34, 0.13, 0.93), (0.998, 0.27, 0.17, 0.84)),
        (0.004, 0.012, 0.72, 0.89), 0.88, ((0.0, 0.76), (0.97, 1.0)), 0.27, 0.34,
    ),
}  # fmt: skip
_STYLE_OF: Final = {
    "vehicle.audi.a2": "hatch",
    "vehicle.audi.tt": "coupe",
    "vehicle.audi.etron": "suv",
    "vehicle.bmw.grandtourer": "hatch",
    "vehicle.citroen.c3": "hatch",
    "vehicle.ford.mustang": "coupe",
    "vehicle.jeep.wrangler_rubicon": "suv",
    "vehicle.mercedes.coupe": "coupe",
    "vehicle.mercedes.coupe_2020": "coupe",
    "vehicle.micro.microlino": "micro",
    "vehicle.mini.cooper_s": "hatch",
    "vehicle.mini.cooper_s_2021": "hatch",
    "vehicle.nissan.micra": "hatch",
    "vehicle.nissan.patrol": "suv",
    "vehicle.nissan.patrol_2021": "suv",
    "vehicle.seat.leon": "hatch",
    "vehicle.toyota.prius": "hatch",
    "vehicle.tesla.cybertruck": "wedge",
    "vehicle.volkswagen.t2": "bulli",
    "vehicle.volkswagen.t2_2021": "bulli",
    "vehicle.mercedes.sprinter": "panel",
    "vehicle.ford.ambulance": "panel",
}
_POLICE: Final = frozenset({"vehicle.dodge.charger_police", "vehicle.dodge.charger_police_2020", "vehicle.ford.ambulance"})


def car(kind: VehicleType) -> Model:
    """A car, van or pick-up."""
    style = STYLES[_STYLE_OF.get(kind.name, "sedan")]
    levels = tuple(_car(kind, style, level) for level in range(3))
    return Model(levels, shadow=_car(kind, style, 2))


def _car(kind: VehicleType, style: Style, level: int) -> Shape:
    builder = ShapeBuilder(OF_KIND.get(kind.kind, Label.CAR))
    stations = style.hull if level == 0 else style.hull[::2] if level == 1 else (style.hull[1], style.hull[-4], style.hull[-1])
    if level == 1 and style.hull[-1] not in stations:
        stations = (*stations, style.hull[-1])
    _hull(builder, kind, stations, plain=level == 2)
    _cabin(builder, kind, style, level)
    half_m, length_m = 0.5 * kind.width_m, kind.length_m
    for x in (0.5 * kind.wheel_base_m, -0.5 * kind.wheel_base_m):
        for side in (1.0, -1.0):
            if level == 0:
                low_m = max(style.hull[3][2] * kind.height_m, 0.6 * kind.clearance_m)
                arch(builder, x, side, half_m + 0.003, 1.16 * kind.wheel_radius_m, kind.wheel_radius_m, low_m)
            wheel(builder, x, side, half_m + 0.006, kind.wheel_radius_m, 0.24, (14, 8, 4)[level])
    if level < 2:
        low_m, high_m = style.lamp_low * kind.height_m, style.lamp_high * kind.height_m
        lamps(builder, 0.482 * length_m, 1.0, 0.50 * half_m, 0.86 * half_m, low_m, high_m, rich=level == 0)
        lamps(builder, -0.497 * length_m, -1.0, 0.56 * half_m, 0.88 * half_m, 1.04 * low_m, 1.12 * high_m, rich=level == 0)
    if level == 0:
        plate(builder, 0.5 * length_m - 0.015, 1.0, 0.33 * kind.height_m)
        plate(builder, -0.5 * length_m + 0.005, -1.0, 0.36 * kind.height_m)
        builder.brush(PLASTIC)
        builder.box(
            (0.47 * length_m, -0.42 * half_m, 0.36 * kind.height_m), (0.499 * length_m, 0.42 * half_m, 0.44 * kind.height_m)
        )
        _mirrors(builder, kind, style)
    if kind.name in _POLICE and level < 2:
        _light_bar(builder, kind, style)
    return builder.shape()


def _hull(builder: ShapeBuilder, kind: VehicleType, stations: Sequence[Station], *, plain: bool) -> None:
    """Cross-sections joined from rear to front: skirt, sides, shoulder, bonnet."""
    rings = []
    for at, top, floor, wide in stations:
        x, half_m = (at - 0.5) * kind.length_m, 0.5 * wide * kind.width_m
        z0, z1 = max(floor * kind.height_m, 0.6 * kind.clearance_m), top * kind.height_m
        skirt, belt = z0 + 0.13 * (z1 - z0), z0 + 0.62 * (z1 - z0)
        right = [(half_m * 0.90, z0), (half_m, skirt), (half_m, belt), (half_m * 0.93, z1)]
        if plain:
            right = [(half_m * 0.95, z0), (half_m * 0.98, z1)]
        ring = [(x, y, z) for y, z in right] + [(x, -y, z) for y, z in reversed(right)]
        rings.append(ring)
    count = len(rings[0])
    for k in range(count):
        j = (k + 1) % count
        skirt_side = not plain and k in {0, count - 2}
        if k == count - 1 or skirt_side:
            builder.brush(PLASTIC)
        else:
            builder.brush(_FULL, Material.BODY)
        for low, high in pairwise(rings):
            builder.quad(low[k], low[j], high[j], high[k])
    builder.brush(_FULL, Material.BODY)
    builder.fan(rings[0][::-1])
    builder.fan(rings[-1])


def _shoulder_m(kind: VehicleType, style: Style, at: float) -> float:
    """The height of the hull's shoulder at a place along the car."""
    hull = style.hull
    for (low, z0, *_), (high, z1, *_) in pairwise(hull):
        if at <= high:
            part = min(max((at - low) / (high - low), 0.0), 1.0)
            return (z0 + part * (z1 - z0)) * kind.height_m
    return hull[-1][1] * kind.height_m


def _cabin(builder: ShapeBuilder, kind: VehicleType, style: Style, level: int) -> None:
    """Glass around, a roof on top: edges at the foot and at the roof are cut at the pillars."""
    rear, roof_rear, roof_front, front = style.cabin
    foot_half, roof_half = 0.5 * 0.90 * kind.width_m, 0.5 * style.roof * kind.width_m
    roof_z = 0.955 * kind.height_m
    cuts = [0.0, *(edge for pair in style.pillars for edge in pair if 0.0 < edge < 1.0), 1.0] if level < 2 else [0.0, 1.0]

    def foot(part: float, side: float) -> Point:
        at = rear + part * (front - rear)
        return (at - 0.5) * kind.length_m, side * foot_half, _shoulder_m(kind, style, at) - 0.02

    def roof(part: float, side: float) -> Point:
        return (roof_rear + part * (roof_front - roof_rear) - 0.5) * kind.length_m, side * roof_half, roof_z

    solid = level == 2
    for low, high in pairwise(cuts):
        pillar = any(a <= 0.5 * (low + high) <= b for a, b in style.pillars)
        if pillar and not solid:
            builder.brush(_FULL, Material.BODY)
        else:
            builder.brush(GLASS, Material.GLASS)
        builder.quad(foot(low, -1.0), foot(high, -1.0), roof(high, -1.0), roof(low, -1.0))
        builder.quad(foot(high, 1.0), foot(low, 1.0), roof(low, 1.0), roof(high, 1.0))
    builder.brush(GLASS, Material.GLASS)
    builder.quad(foot(1.0, -1.0), foot(1.0, 1.0), roof(1.0, 1.0), roof(1.0, -1.0))
    if style is STYLES["panel"]:
        builder.brush(_FULL, Material.BODY)
    builder.quad(foot(0.0, 1.0), foot(0.0, -1.0), roof(0.0, -1.0), roof(0.0, 1.0))
    builder.brush(_FULL, Material.BODY)
    ring = [roof(0.0, -1.0), roof(1.0, -1.0), roof(1.0, 1.0), roof(0.0, 1.0)]
    middle_x = 0.25 * sum(x for x, _, _ in ring)
    top = [(middle_x + 0.86 * (x - middle_x), 0.80 * y, kind.height_m) for x, y, _ in ring]
    builder.loft([ring, top], start=False)


def _mirrors(builder: ShapeBuilder, kind: VehicleType, style: Style) -> None:
    x = (style.cabin[3] - 0.5) * kind.length_m - 0.12 * kind.length_m
    z = _shoulder_m(kind, style, style.cabin[3]) + 0.06
    for side in (1.0, -1.0):
        y0, y1 = sorted((side * 0.44 * kind.width_m, side * 0.545 * kind.width_m))
        builder.brush(_FULL, Material.BODY).box((x - 0.05, y0, z), (x + 0.06, y1, z + 0.12))


def _light_bar(builder: ShapeBuilder, kind: VehicleType, style: Style) -> None:
    x = (0.5 * (style.cabin[1] + style.cabin[2]) - 0.5) * kind.length_m + (0.24 * kind.length_m if kind.kind == "van" else 0.0)
    z, half_m = kind.height_m - 0.01, 0.3 * kind.width_m
    builder.brush(grey(0.05)).box((x - 0.12, -half_m, z), (x + 0.12, half_m, z + 0.03))
    builder.brush((0.02, 0.05, 0.55), lamp=int(Lamp.SPECIAL_1)).box((x - 0.1, 0.12, z + 0.03), (x + 0.1, half_m, z + 0.12))
    builder.brush((0.5, 0.02, 0.02), lamp=int(Lamp.SPECIAL_1)).box((x - 0.1, -half_m, z + 0.03), (x + 0.1, -0.12, z + 0.12))
