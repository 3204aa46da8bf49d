"""Trucks and buses: cabs, boxes, rows of windows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from samepath.sim.sensors.labels import OF_KIND
from samepath.sim.sensors.meshes.bank import Model
from samepath.sim.sensors.meshes.builder import WHITE, Colour, Shape, ShapeBuilder, grey
from samepath.sim.sensors.meshes.parts import GLASS, PLASTIC, lamps, plate, wheel
from samepath.sim.sensors.scene import Lamp, Material
from samepath.sim.world.catalogue import VehicleType

_FULL: Final[Colour] = (1.0, 1.0, 1.0)
_RED: Final[Colour] = (0.42, 0.015, 0.012)
_FIRE, _COLA = "firetruck", "carlacola"


def truck(kind: VehicleType) -> Model:
    """A truck with a cab and a box; the fire engine has a ladder, the drinks lorry its colours."""
    return _model(kind, _truck)


def bus(kind: VehicleType) -> Model:
    """A bus."""
    return _model(kind, _bus)


def _model(kind: VehicleType, build: Callable[[VehicleType, int], Shape]) -> Model:
    levels = tuple(build(kind, level) for level in range(3))
    return Model(levels, shadow=build(kind, 2))


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


def _truck(kind: VehicleType, level: int) -> Shape:
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


def _bus(kind: VehicleType, level: int) -> Shape:
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
