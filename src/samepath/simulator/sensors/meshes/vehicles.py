"""Vehicles: cars, bicycles and motorcycles with their riders, trucks and buses. Shapes differ by style, sizes by type.

A car is a hull of cross-sections, a cabin of glass on it, wheels and lamps. Machine and rider carry CARLA's two labels.

Everything stays inside the box of its type, mirrors, hubs and a rider's elbows too: clients are told that box, labels of data
sets are made of it, and CARLA's own ``check_lidar_bb.py`` holds every point of a LiDAR to it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from samepath.core.catalogue import VehicleType
from samepath.core.trig import sincos_deg
from samepath.simulator.sensors.labels import OF_KIND, Label
from samepath.simulator.sensors.meshes.builder import (
    BLACK,
    GLASS,
    HEAD,
    PLASTIC,
    TAIL,
    WHITE,
    Colour,
    MeshModel,
    MeshShape,
    Point,
    ShapeBuilder,
    arch,
    grey,
    lamps,
    plate,
    wheel,
)
from samepath.simulator.sensors.meshes.people import Limbs, person
from samepath.simulator.sensors.renderer import Lamp, Material

_FULL: Final[Colour] = (1.0, 1.0, 1.0)

# How far plates, lamps and hubs stand out from the bodywork: of cars, of trucks and buses along and across.
_PROUD_M: Final = 0.015
_PROUD_LARGE_M: Final = (0.02, 0.006)
_LIGHT_BAR_M: Final = 0.11

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


def car(kind: VehicleType) -> MeshModel:
    """A car, van or pick-up."""
    style = STYLES[_STYLE_OF.get(kind.name, "sedan")]
    body = _bodywork(kind, _PROUD_M, _PROUD_M, _LIGHT_BAR_M if kind.name in _POLICE else 0.0)
    levels = tuple(_car(body, style, level) for level in range(3))
    return MeshModel(levels, shadow=_car(body, style, 2))


def _bodywork(kind: VehicleType, ends_m: float, sides_m: float, above_m: float = 0.0) -> VehicleType:
    """A type without what stands out from its body at both ends, on both sides and above."""
    return replace(
        kind,
        length_m=kind.length_m - 2.0 * ends_m,
        width_m=kind.width_m - 2.0 * sides_m,
        height_m=kind.height_m - above_m,
    )


def _car(kind: VehicleType, style: Style, level: int) -> MeshShape:
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
        y0, y1 = sorted((side * 0.40 * kind.width_m, side * (0.5 * kind.width_m + _PROUD_M)))
        builder.brush(_FULL, Material.BODY).box((x - 0.05, y0, z), (x + 0.06, y1, z + 0.12))


def _light_bar(builder: ShapeBuilder, kind: VehicleType, style: Style) -> None:
    x = (0.5 * (style.cabin[1] + style.cabin[2]) - 0.5) * kind.length_m + (0.24 * kind.length_m if kind.kind == "van" else 0.0)
    z, half_m = kind.height_m - 0.01, 0.3 * kind.width_m
    builder.brush(grey(0.05)).box((x - 0.12, -half_m, z), (x + 0.12, half_m, z + 0.03))
    builder.brush((0.02, 0.05, 0.55), lamp=int(Lamp.SPECIAL_1)).box((x - 0.1, 0.12, z + 0.03), (x + 0.1, half_m, z + 0.12))
    builder.brush((0.5, 0.02, 0.02), lamp=int(Lamp.SPECIAL_1)).box((x - 0.1, -half_m, z + 0.03), (x + 0.1, -0.12, z + 0.12))


_RIDER_M: Final = 1.72
# How far a rider's elbows are beyond the hands, and the top of a helmet above the shoulders: on a motorcycle, on a bicycle.
_ELBOW_M: Final = 0.085
_HEAD_M: Final = (0.365, 0.35)
_HELMET: Final[Colour] = (0.05, 0.05, 0.055)


def cycle(kind: VehicleType) -> MeshModel:
    """A two-wheeler with its rider."""
    motor = kind.kind == "motorcycle"
    levels = tuple(_cycle(kind, level, motor=motor) for level in range(3))
    return MeshModel(levels, shadow=_cycle(kind, 2, motor=motor))


def _ring_wheel(builder: ShapeBuilder, x: float, radius_m: float, tyre_m: float, sides: int, *, spokes: bool) -> None:
    """A thin wheel: a tyre seen from both sides, a rim of air between, or a filled disc from afar."""
    inner = radius_m - (2.2 * tyre_m if tyre_m < 0.1 else 0.10)
    builder.brush(BLACK)
    points: list[tuple[Point, Point]] = []
    for k in range(sides):
        s, c = sincos_deg(360.0 * k / sides)
        points.append(((x + radius_m * s, 0.0, radius_m + radius_m * c), (x + inner * s, 0.0, radius_m + inner * c)))
    for k in range(sides):
        (a_out, a_in), (b_out, b_in) = points[k], points[(k + 1) % sides]
        for y, flip in ((0.5 * tyre_m, False), (-0.5 * tyre_m, True)):
            ring = [(p[0], y, p[2]) for p in (a_out, b_out, b_in, a_in)]
            builder.quad(*(ring[::-1] if flip else ring))
        right, left = 0.5 * tyre_m, -0.5 * tyre_m
        builder.quad(
            (a_out[0], left, a_out[2]), (b_out[0], left, b_out[2]), (b_out[0], right, b_out[2]), (a_out[0], right, a_out[2])
        )
    if spokes:
        builder.brush(grey(0.30))
        for k in range(6):
            s, c = sincos_deg(60.0 * k + 12.0)
            builder.tube((x, 0.0, radius_m), (x + inner * s, 0.0, radius_m + inner * c), 0.008, 0.008, 3, start=False)


def _cycle(kind: VehicleType, level: int, *, motor: bool) -> MeshShape:
    builder = ShapeBuilder(OF_KIND[kind.kind])
    r, half = kind.wheel_radius_m, 0.5 * kind.wheel_base_m
    sides = (16, 10, 6)[level]
    tyre = 0.13 if motor else 0.045
    for x in (half, -half):
        _ring_wheel(builder, x, r, tyre, sides, spokes=level == 0)
    seat = (-0.28 * half, 0.0, 0.82 if motor else 0.98)
    grip_x, grip_z, grip_y = (0.55 * half, 1.02, 0.33) if motor else (0.68 * half, 1.08, 0.27)
    grip_y = min(grip_y, 0.5 * kind.width_m - _ELBOW_M)
    head = (grip_x + 0.05, 0.0, grip_z - 0.1)
    count = (6, 4, 3)[level]
    if level == 2:
        builder.brush(_FULL, Material.BODY)
        low = 0.3 if motor else 0.45
        builder.box((-0.6 * half, -0.06, low), (head[0], 0.06, low + (0.5 if motor else 0.25)))
        _rider(builder, seat, (grip_x, grip_y, grip_z), kind.height_m, level, motor=motor)
        return builder.shape()
    if motor:
        _engine(builder, half, r, seat, head, count)
    else:
        _frame(builder, half, r, seat, head, count)
    builder.brush(BLACK)
    builder.tube((grip_x, -grip_y, grip_z), (grip_x, grip_y, grip_z), 0.016, 0.016, count)
    builder.tube((head[0], 0.0, head[2] - 0.05), (grip_x, 0.0, grip_z), 0.018, 0.018, count, start=False)
    builder.box((seat[0] - 0.22, -0.10, seat[2] - 0.06), (seat[0] + (0.30 if motor else 0.08), 0.10, seat[2]))
    if level < 2:
        builder.brush((0.8, 0.8, 0.78), lamp=int(HEAD))
        builder.box((head[0] + 0.05, -0.06, head[2] - 0.02), (head[0] + 0.12, 0.06, head[2] + 0.09))
        builder.brush((0.45, 0.015, 0.015), lamp=int(TAIL))
        rear = -half - (0.11 if motor else 0.05)
        builder.box((rear - 0.03, -0.05, 0.75), (rear, 0.05, 0.82))
    _rider(builder, seat, (grip_x, grip_y, grip_z), kind.height_m, level, motor=motor)
    return builder.shape()


def _frame(builder: ShapeBuilder, half: float, r: float, seat: Point, head: Point, count: int) -> None:
    """The tubes of a bicycle."""
    pedals, rear, front = (0.0, 0.0, 0.30), (-half, 0.0, r), (half, 0.0, r)
    under = (seat[0] + 0.03, 0.0, seat[2] - 0.06)
    builder.brush(_FULL, Material.BODY)
    for a, b in ((pedals, under), (pedals, (head[0], 0.0, head[2] - 0.22)), ((under[0], 0.0, under[2] - 0.12), head)):
        builder.tube(a, b, 0.022, 0.022, count)
    for a, b in ((rear, pedals), (rear, under), (front, head)):
        builder.tube(a, b, 0.016, 0.016, count)
    builder.brush(grey(0.25)).tube((0.0, -0.07, 0.30), (0.0, 0.07, 0.30), 0.06, 0.06, 6)


def _engine(builder: ShapeBuilder, half: float, r: float, seat: Point, head: Point, count: int) -> None:
    """Engine, tank, fork and fairing of a motorcycle."""
    builder.brush(grey(0.14)).box((-0.22, -0.16, 0.22), (0.26, 0.16, 0.56))
    builder.brush(grey(0.35)).tube((-0.1, 0.17, 0.30), (-half - 0.1, 0.20, 0.38), 0.045, 0.06, 6)
    builder.brush(_FULL, Material.BODY)
    tank = [(seat[0] + 0.24, 0.11, 0.78), (0.40 * half, 0.16, 0.92), (head[0] - 0.02, 0.12, 0.90)]
    builder.loft([[(x, y, z - 0.20), (x, 0.5 * y, z + 0.04), (x, -0.5 * y, z + 0.04), (x, -y, z - 0.20)] for x, y, z in tank])
    builder.loft(
        [
            [(x, 0.09, z), (x, 0.07, z + 0.08), (x, -0.07, z + 0.08), (x, -0.09, z)]
            for x, z in ((-half - 0.12, 0.76), (seat[0] + 0.1, 0.69))
        ]
    )
    nose = [(head[0] - 0.06, 0.19, 0.78, 1.04), (head[0] + 0.20, 0.09, 0.80, 0.96)]
    builder.loft([[(x, y, low), (x, 0.7 * y, high), (x, -0.7 * y, high), (x, -y, low)] for x, y, low, high in nose])
    builder.brush(grey(0.20))
    for y in (-0.10, 0.10):
        builder.tube((half, y, r), (head[0] - 0.02, y, head[2]), 0.028, 0.028, count)
        builder.tube((-half, y, r), (-0.1, y, 0.42), 0.03, 0.035, count)


def _rider(builder: ShapeBuilder, seat: Point, grip: Point, height_m: float, level: int, *, motor: bool) -> None:
    """Somebody sitting with hands on the handlebar and feet on the pedals, one up, one down.

    Upright, or bent forward as far as the height of the vehicle asks for.
    """
    h = _RIDER_M
    along_m, up_m = (0.24, 0.50) if motor else (0.30, 0.46)
    bent_m = min(up_m, height_m - (_HEAD_M[0] if motor else _HEAD_M[1]) - seat[2])
    shoulder_x = seat[0] + math.sqrt(along_m * along_m + up_m * up_m - bent_m * bent_m)
    shoulder_z = seat[2] + bent_m
    sides = []
    for side in (1.0, -1.0):
        pedal_z = 0.34 if motor else (0.16 if side > 0.0 else 0.44)
        ankle = (-0.02 if motor else 0.05 * side, side * 0.13, pedal_z + 0.06)
        knee = (seat[0] + (0.40 if motor else 0.36), side * 0.15, 0.5 * (seat[2] + ankle[2]) + (0.06 if motor else 0.12))
        elbow = (0.5 * (shoulder_x + grip[0]) - 0.04, side * (grip[1] + 0.04), 0.5 * (shoulder_z + grip[2]) - 0.08)
        sides.append(
            Limbs(
                (seat[0], side * 0.09, seat[2] + 0.05), knee, ankle, (ankle[0] + 0.16, ankle[1], ankle[2] - 0.05),
                (shoulder_x, side * 0.21, shoulder_z), elbow, (grip[0] - 0.02, side * (grip[1] - 0.04), grip[2] + 0.02),
            )
        )  # fmt: skip
    person(builder, h, 1 if motor else 0, sides, 0.02, 0.0, level, Label.RIDER, seat[0])
    head = (shoulder_x + 0.02 + 0.012 * h, 0.0, shoulder_z + 0.115 * h)
    if motor or level < 2:
        builder.brush(_HELMET if motor else (0.55, 0.50, 0.10), label=Label.RIDER)
        size = (0.135, 0.125, 0.145) if motor else (0.118, 0.10, 0.10)
        builder.ball((head[0], 0.0, head[2] + (0.02 if motor else 0.05)), size, (4, 3, 1)[level], (8, 6, 4)[level])


_RED: Final[Colour] = (0.42, 0.015, 0.012)
_FIRE, _COLA = "firetruck", "carlacola"


def truck(kind: VehicleType) -> MeshModel:
    """A truck with a cab and a box; the fire engine has a ladder, the drinks lorry its colours."""
    return _model(_bodywork(kind, *_PROUD_LARGE_M), _truck)


def bus(kind: VehicleType) -> MeshModel:
    """A bus."""
    return _model(_bodywork(kind, *_PROUD_LARGE_M), _bus)


def _model(kind: VehicleType, build: Callable[[VehicleType, int], MeshShape]) -> MeshModel:
    levels = tuple(build(kind, level) for level in range(3))
    return MeshModel(levels, shadow=build(kind, 2))


def _wheels(builder: ShapeBuilder, kind: VehicleType, level: int) -> None:
    for x in (0.5 * kind.wheel_base_m, -0.5 * kind.wheel_base_m):
        for side in (1.0, -1.0):
            wheel(builder, x, side, 0.49 * kind.width_m, kind.wheel_radius_m, 0.34, (16, 8, 4)[level])


@dataclass(frozen=True, slots=True)
class _Truck:
    """The lines of a truck: rear, back of the cab, front; floor, belt and roof of the cab, top of what it carries."""

    rear: float
    cab: float
    front: float
    floor: float
    belt: float
    roof: float
    top: float
    half: float
    colour: Colour
    material: Material


def _lines(kind: VehicleType) -> _Truck:
    fire = kind.name.endswith(_FIRE)
    front, floor, roof = 0.5 * kind.length_m, 0.9 * kind.wheel_radius_m, 0.82 * kind.height_m
    return _Truck(
        -front, front - min(2.1, 0.30 * kind.length_m), front, floor, floor + 0.42 * (roof - floor), roof,
        0.84 * kind.height_m if fire else kind.height_m, 0.5 * kind.width_m,
        _RED if fire else _FULL, Material.PLAIN if fire else Material.BODY,
    )  # fmt: skip


def _truck(kind: VehicleType, level: int) -> MeshShape:
    builder = ShapeBuilder(OF_KIND[kind.kind])
    line = _lines(kind)
    builder.brush(PLASTIC)
    builder.box((line.rear + 0.1, -0.42 * line.half, 0.5 * line.floor), (line.front - 0.1, 0.42 * line.half, line.floor + 0.12))
    _cab(builder, line, level)
    builder.brush(_RED if kind.name.endswith((_FIRE, _COLA)) else WHITE)
    builder.box((line.rear, -line.half, line.floor + 0.12), (line.cab - 0.12, line.half, line.top))
    if level < 2:
        _load(builder, kind, line, level)
    if level == 0:
        plate(builder, line.front, 1.0, 0.7 * line.floor)
        plate(builder, line.rear, -1.0, 0.8 * line.floor)
    _wheels(builder, kind, level)
    return builder.shape()


def _cab(builder: ShapeBuilder, line: _Truck, level: int) -> None:
    """Upright below, leaning back above the belt."""
    front, cab, floor, belt, roof = line.front, line.cab, line.floor, line.belt, line.roof
    low, y = 0.75 * floor, 0.97 * line.half
    profile = [(cab, low), (front - 0.02, low), (front, belt), (front - 0.22, roof - 0.12), (front - 0.4, roof), (cab, roof)]
    builder.brush(line.colour, line.material)
    builder.fan([(x, y, z) for x, z in reversed(profile)])
    builder.fan([(x, -y, z) for x, z in profile])
    for k, ((x0, z0), (x1, z1)) in enumerate(zip(profile, [*profile[1:], profile[0]], strict=True)):
        if k == 0:
            builder.brush(PLASTIC)
        elif k == 2:
            builder.brush(GLASS, Material.GLASS)
        else:
            builder.brush(line.colour, line.material)
        builder.quad((x0, -y, z0), (x0, y, z0), (x1, y, z1), (x1, -y, z1))
    if level == 2:
        return
    builder.brush(GLASS, Material.GLASS)
    window = [(cab + 0.25, belt + 0.05), (front - 0.22, belt + 0.05), (front - 0.40, roof - 0.22), (cab + 0.25, roof - 0.22)]
    y += 0.006
    builder.fan([(x, -y, z) for x, z in window])
    builder.fan([(x, y, z) for x, z in reversed(window)])
    half, rich = line.half, level == 0
    lamps(builder, front - 0.01, 1.0, 0.55 * half, 0.9 * half, 0.95 * floor, 0.95 * floor + 0.2, rich=rich)
    lamps(builder, line.rear, -1.0, 0.55 * half, 0.9 * half, 0.8 * floor, 0.8 * floor + 0.18, rich=rich)
    builder.brush(PLASTIC)
    builder.box((front - 0.06, -0.5 * half, 1.05 * floor), (front + 0.015, 0.5 * half, 1.05 * floor + 0.35))


def _load(builder: ShapeBuilder, kind: VehicleType, line: _Truck, level: int) -> None:
    """What is on the box: shutters, ladder and blue lights of a fire engine, rails and stripes of the others."""
    both = ((-line.half - 0.006, -line.half), (line.half, line.half + 0.006))
    if not kind.name.endswith(_FIRE):
        builder.brush(grey(0.20))
        for z in (line.floor + 0.14, line.top - 0.1):
            for y0, y1 in both:
                builder.box((line.rear, y0, z), (line.cab - 0.12, y1, z + 0.08))
        if kind.name.endswith(_COLA):
            builder.brush(WHITE)
            for y0, y1 in both:
                builder.box((line.rear + 0.4, y0, 0.55 * line.top), (line.cab - 0.5, y1, 0.68 * line.top))
        return
    builder.brush(grey(0.5))
    for k in range(3):
        x = line.rear + 0.4 + 1.5 * k
        for y0, y1 in both:
            builder.box((x, y0, line.floor + 0.35), (x + 1.2, y1, 0.66 * line.top))
    builder.brush(grey(0.45))
    for y in (-0.35, 0.35):
        builder.box((line.rear + 0.2, y - 0.05, line.top + 0.12), (line.front - 1.0, y + 0.05, line.top + 0.28))
    for k in range(0 if level else 9):
        x = line.rear + 0.6 + 0.7 * k
        builder.box((x, -0.3, line.top + 0.16), (x + 0.06, 0.3, line.top + 0.22))
    builder.brush((0.02, 0.05, 0.55), lamp=int(Lamp.SPECIAL_1))
    builder.box((line.front - 1.0, -0.8, line.roof), (line.front - 0.7, 0.8, line.roof + 0.16))


def _window_cuts(kind: VehicleType, level: int) -> Iterator[tuple[float, float]]:
    """Where along a bus its side windows are."""
    start, end = -0.47 * kind.length_m, 0.40 * kind.length_m
    count = 6 if level == 0 else 1
    step = (end - start) / count
    gap = 0.09 if level == 0 else 0.0
    for k in range(count):
        yield start + k * step + gap, start + (k + 1) * step - gap


def _bus(kind: VehicleType, level: int) -> MeshShape:
    builder = ShapeBuilder(OF_KIND[kind.kind])
    length_m, half_m, height_m = kind.length_m, 0.5 * kind.width_m, kind.height_m
    rear, front, floor = -0.5 * length_m, 0.5 * length_m, 0.32
    belt, top = 0.44 * height_m, 0.86 * height_m
    rings = []
    for x, inset in ((rear, 0.05), (rear + 0.12, 0.0), (front - 0.25, 0.0), (front, 0.08)):
        y = half_m - inset
        right = [(y, floor), (y, belt), (y * 0.985, top), (y * 0.86, height_m - inset)]
        rings.append([(x, a, z) for a, z in right] + [(x, -a, z) for a, z in reversed(right)])
    if level == 2:
        rings = [rings[1], rings[-1]]
    count = len(rings[0])
    for k in range(count):
        j = (k + 1) % count
        builder.brush(PLASTIC) if k == count - 1 else builder.brush(_FULL, Material.BODY)
        for low, high in pairwise(rings):
            builder.quad(low[k], low[j], high[j], high[k])
    builder.brush(_FULL, Material.BODY)
    builder.fan(rings[0][::-1])
    builder.fan(rings[-1])
    builder.brush(GLASS, Material.GLASS)
    if level == 2:
        y = half_m * 0.995 + 0.01
        for x0, x1 in ((-0.47 * length_m, 0.47 * length_m),):
            builder.quad((x0, -y, belt), (x1, -y, belt), (x1, -y, top), (x0, -y, top))
            builder.quad((x1, y, belt), (x0, y, belt), (x0, y, top), (x1, y, top))
    else:
        for x0, x1 in _window_cuts(kind, level):
            for side in (1.0, -1.0):
                y, inner = side * (half_m + 0.004), side * (half_m * 0.987 + 0.004)
                a, b = (x0, x1) if side < 0.0 else (x1, x0)
                builder.quad((a, y, belt + 0.04), (b, y, belt + 0.04), (b, inner, top - 0.06), (a, inner, top - 0.06))
    x = front + 0.006
    y = half_m - 0.14
    builder.quad((x, -y, 0.36 * height_m), (x, y, 0.36 * height_m), (x, y, 0.80 * height_m), (x, -y, 0.80 * height_m))
    x = rear - 0.006
    builder.quad((x, y, 0.52 * height_m), (x, -y, 0.52 * height_m), (x, -y, 0.80 * height_m), (x, y, 0.80 * height_m))
    if level < 2:
        # The door on the right, the sign with the line above the windscreen.
        y = half_m + 0.006
        x0, x1 = 0.41 * length_m, 0.475 * length_m
        builder.quad((x1, y, floor + 0.08), (x0, y, floor + 0.08), (x0, y * 0.99, top), (x1, y * 0.99, top))
        builder.brush((0.9, 0.45, 0.05), lamp=int(Lamp.POSITION | Lamp.LOW_BEAM))
        builder.box((front - 0.02, -0.6, 0.84 * height_m), (front + 0.01, 0.6, 0.92 * height_m))
        lamps(builder, front - 0.01, 1.0, 0.55 * half_m, 0.9 * half_m, 0.24 * height_m, 0.30 * height_m, rich=level == 0)
        lamps(builder, rear, -1.0, 0.6 * half_m, 0.9 * half_m, 0.30 * height_m, 0.40 * height_m, rich=level == 0)
    if level == 0:
        plate(builder, front, 1.0, 0.16 * height_m)
        plate(builder, rear, -1.0, 0.22 * height_m)
    _wheels(builder, kind, level)
    return builder.shape()
