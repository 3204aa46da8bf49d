"""Parts that many vehicles share: wheels, lamps, plates."""

from typing import Final

from samepath.base.trig import sincos_deg
from samepath.sim.sensors.meshes.builder import BLACK, WHITE, Colour, Point, ShapeBuilder, grey
from samepath.sim.sensors.scene import Lamp

GLASS: Final[Colour] = (0.045, 0.055, 0.065)
PLASTIC: Final[Colour] = (0.022, 0.022, 0.024)
HEAD: Final = Lamp.POSITION | Lamp.LOW_BEAM | Lamp.HIGH_BEAM
TAIL: Final = Lamp.POSITION | Lamp.LOW_BEAM | Lamp.BRAKE


def wheel(
    builder: ShapeBuilder, x: float, side: float, half_width_m: float, radius_m: float, width_m: float, sides: int
) -> None:
    """A wheel on the right (``side`` 1) or left (-1), its outer face ``half_width_m`` from the middle."""
    outer, inner = side * half_width_m, side * (half_width_m - width_m)
    rings = []
    for y in (min(inner, outer), max(inner, outer)):
        ring: list[Point] = []
        for k in range(sides):
            s, c = sincos_deg(360.0 * (k + 0.5) / sides)
            ring.append((x + radius_m * s, y, radius_m + radius_m * c))
        rings.append(ring)
    builder.brush(BLACK)
    # From afar nobody looks at a wheel from inside.
    builder.loft(rings, start=sides > 10 or side < 0.0, end=sides > 10 or side > 0.0)
    if sides > 6:
        builder.brush(grey(0.32)).disc((x, outer + 0.004 * side, radius_m), 0.66 * radius_m, sides, side)
    if sides > 10:
        builder.brush(grey(0.05))
        for k in range(5):
            s, c = sincos_deg(72.0 * k)
            across, along = 0.16 * radius_m, 0.56 * radius_m
            y = outer + 0.008 * side
            corners = [
                (x + 0.22 * radius_m * s, y, radius_m + 0.22 * radius_m * c),
                (x + along * s + across * c, y, radius_m + along * c - across * s),
                (x + along * s - across * c, y, radius_m + along * c + across * s),
            ]
            builder.fan(corners if side < 0.0 else corners[::-1])


def arch(
    builder: ShapeBuilder, x: float, side: float, half_width_m: float, radius_m: float, wheel_m: float, low_m: float
) -> None:
    """The dark opening above a wheel, down to the sill."""
    y = side * half_width_m
    ring = []
    for k in range(9):
        s, c = sincos_deg(-90.0 + 22.5 * k)
        ring.append((x + radius_m * s, y, max(wheel_m + radius_m * c, low_m)))
    if low_m < wheel_m:
        ring.extend([(x + radius_m, y, low_m), (x - radius_m, y, low_m)])
    builder.brush(grey(0.006))
    middle = (x, y, wheel_m)
    for k in range(len(ring)):
        a, b = ring[k], ring[(k + 1) % len(ring)]
        builder.triangle(middle, *((a, b) if side > 0.0 else (b, a)))


def lamps(
    builder: ShapeBuilder,
    x: float,
    direction: float,
    inner_m: float,
    outer_m: float,
    low_m: float,
    high_m: float,
    *,
    rich: bool,
) -> None:
    """Lamps in front (``direction`` 1) or behind (-1) at ``x``, from ``inner_m`` to ``outer_m`` off the middle."""
    back, face = x - 0.10 * direction, x + 0.012 * direction
    x0, x1 = min(back, face), max(back, face)
    front = direction > 0.0
    for side, blinker in ((1.0, Lamp.RIGHT_BLINKER), (-1.0, Lamp.LEFT_BLINKER)):
        split = inner_m + (outer_m - inner_m) * (0.74 if rich else 1.0)
        y0, y1 = sorted((side * inner_m, side * split))
        if front:
            builder.brush((0.80, 0.82, 0.84), lamp=int(HEAD))
        else:
            builder.brush((0.42, 0.012, 0.012), lamp=int(TAIL))
        builder.box((x0, y0, low_m), (x1, y1, high_m))
        if rich:
            y0, y1 = sorted((side * split, side * outer_m))
            builder.brush((0.75, 0.28, 0.02), lamp=int(blinker)).box((x0, y0, low_m), (x1, y1, high_m))
            if not front:
                y0, y1 = sorted((side * inner_m * 0.86, side * inner_m))
                builder.brush((0.7, 0.7, 0.68), lamp=int(Lamp.REVERSE)).box((x0, y0, low_m), (x1, y1, high_m))


def plate(builder: ShapeBuilder, x: float, direction: float, z: float) -> None:
    """A number plate."""
    face = x + 0.02 * direction
    builder.brush(WHITE).box((min(x, face), -0.26, z - 0.055), (max(x, face), 0.26, z + 0.055))
