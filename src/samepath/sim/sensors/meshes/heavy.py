"""Trucks and buses: cabs, boxes, rows of windows."""

from collections.abc import Iterator
from typing import Final

from samepath.sim.sensors.labels import OF_KIND
from samepath.sim.sensors.meshes.bank import Model
from samepath.sim.sensors.meshes.builder import WHITE, Colour, Shape, ShapeBuilder, grey
from samepath.sim.sensors.meshes.parts import GLASS, PLASTIC, lamps, plate, wheel
from samepath.sim.sensors.scene import Lamp, Material
from samepath.sim.world.catalogue import VehicleType

_FULL: Final[Colour] = (1.0, 1.0, 1.0)
_RED: Final[Colour] = (0.42, 0.015, 0.012)


def truck(kind: VehicleType) -> Model:
    """A truck with a cab and a box; the fire engine has a ladder, the drinks lorry its colours."""
    return _model(kind, _truck)


def bus(kind: VehicleType) -> Model:
    """A bus."""
    return _model(kind, _bus)


def _model(kind: VehicleType, build) -> Model:  # noqa: ANN001 - one of the two below
    levels = tuple(build(kind, level) for level in range(3))
    return Model(levels, shadow=build(kind, 2))


def _wheels(builder: ShapeBuilder, kind: VehicleType, level: int) -> None:
    for x in (0.5 * kind.wheel_base_m, -0.5 * kind.wheel_base_m):
        for side in (1.0, -1.0):
            wheel(builder, x, side, 0.49 * kind.width_m, kind.wheel_radius_m, 0.34, (16, 8, 4)[level])


def _truck(kind: VehicleType, level: int) -> Shape:
    builder = ShapeBuilder(OF_KIND[kind.kind])
    length_m, half_m, height_m = kind.length_m, 0.5 * kind.width_m, kind.height_m
    rear, front = -0.5 * length_m, 0.5 * length_m
    floor, cab = kind.wheel_radius_m * 0.9, front - min(2.1, 0.30 * length_m)
    fire = kind.name.endswith("firetruck")
    body = _RED if fire else _FULL
    material = Material.PLAIN if fire else Material.BODY
    # The frame between the wheels.
    builder.brush(PLASTIC).box((rear + 0.1, -0.42 * half_m, 0.5 * floor), (front - 0.1, 0.42 * half_m, floor + 0.12))
    # The cab: upright below, leaning back above the bonnet line.
    belt, roof = floor + 0.42 * (0.82 * height_m - floor), 0.82 * height_m
    profile = [(cab, floor * 0.75), (front - 0.02, floor * 0.75), (front, belt), (front - 0.22, roof - 0.12), (front - 0.4, roof), (cab, roof)]
    for side, ring in ((1.0, profile), (-1.0, profile[::-1])):
        builder.brush(body, material).fan([(x, side * half_m * 0.97, z) for x, z in (ring[::-1] if side > 0 else ring[::-1])])
    for k, ((x0, z0), (x1, z1)) in enumerate(zip(profile, [*profile[1:], profile[0]], strict=True)):
        if k == 2:
            builder.brush(GLASS, Material.GLASS)
        elif k == 0:
            builder.brush(PLASTIC)
        else:
            builder.brush(body, material)
        y = half_m * 0.97
        builder.quad((x0, -y, z0), (x0, y, z0), (x1, y, z1), (x1, -y, z1))
    if level < 2:
        builder.brush(GLASS, Material.GLASS)
        window = [(cab + 0.25, belt + 0.05), (front - 0.22, belt + 0.05), (front - 0.40, roof - 0.22), (cab + 0.25, roof - 0.22)]
        y = half_m * 0.97 + 0.006
        builder.fan([(x, -y, z) for x, z in window])
        builder.fan([(x, y, z) for x, z in reversed(window)])
        lamps(builder, front - 0.01, 1.0, 0.55 * half_m, 0.9 * half_m, floor * 0.95, floor * 0.95 + 0.2, rich=level == 0)
        lamps(builder, rear, -1.0, 0.55 * half_m, 0.9 * half_m, floor * 0.8, floor * 0.8 + 0.18, rich=level == 0)
        builder.brush(PLASTIC).box((front - 0.06, -0.5 * half_m, floor * 1.05), (front + 0.015, 0.5 * half_m, floor * 1.05 + 0.35))
    # What it carries.
    box_top = 0.84 * height_m if fire else height_m
    builder.brush(body if fire else WHITE, Material.PLAIN)
    if kind.name.endswith("carlacola"):
        builder.brush(_RED)
    builder.box((rear, -half_m, floor + 0.12), (cab - 0.12, half_m, box_top))
    if fire and level < 2:
        builder.brush(grey(0.45))
        for y in (-0.35, 0.35):
            builder.box((rear + 0.2, y - 0.05, box_top + 0.12), (front - 1.0, y + 0.05, box_top + 0.28))
        for k in range(0 if level else 9):
            x = rear + 0.6 + 0.7 * k
            builder.box((x, -0.3, box_top + 0.16), (x + 0.06, 0.3, box_top + 0.22))
        builder.brush((0.02, 0.05, 0.55), lamp=int(Lamp.SPECIAL_1)).box((front - 1.0, -0.8, roof), (front - 0.7, 0.8, roof + 0.16))
        builder.brush(grey(0.5))
        for k in range(3):
            x = rear + 0.4 + 1.5 * k
            for y0, y1 in ((-half_m - 0.006, -half_m), (half_m, half_m + 0.006)):
                builder.box((x, y0, floor + 0.35), (x + 1.2, y1, 0.66 * box_top))
    elif level < 2:
        builder.brush(grey(0.20))
        for z in (floor + 0.14, box_top - 0.1):
            for y0, y1 in ((-half_m - 0.006, -half_m), (half_m, half_m + 0.006)):
                builder.box((rear, y0, z), (cab - 0.12, y1, z + 0.08))
    if kind.name.endswith("carlacola") and level < 2:
        builder.brush(WHITE)
        for y0, y1 in ((-half_m - 0.006, -half_m), (half_m, half_m + 0.006)):
            builder.box((rear + 0.4, y0, 0.55 * height_m), (cab - 0.5, y1, 0.68 * height_m))
    if level == 0:
        plate(builder, front, 1.0, 0.7 * floor)
        plate(builder, rear, -1.0, 0.8 * floor)
    _wheels(builder, kind, level)
    return builder.shape()


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
        for low, high in zip(rings, rings[1:], strict=False):
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
                low, high = (x0, side * (half_m + 0.004), belt + 0.04), (x1, side * (half_m + 0.004), belt + 0.04)
                low_top = (x0, side * (half_m * 0.987 + 0.004), top - 0.06)
                high_top = (x1, side * (half_m * 0.987 + 0.004), top - 0.06)
                builder.quad(low, high, high_top, low_top) if side < 0.0 else builder.quad(high, low, low_top, high_top)
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
