"""What stands along a street: lamps, posts, signs, traffic lights, walls."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from samepath.base.trig import sincos_deg
from samepath.sim.sensors.labels import Label
from samepath.sim.sensors.meshes.bank import Model
from samepath.sim.sensors.meshes.builder import BLACK, FOOT_M, WHITE, Colour, Point, Shape, ShapeBuilder, circle, grey
from samepath.sim.sensors.scene import Lamp

LAMP_POOL_M: Final = 9.0
_STEEL: Final[Colour] = (0.23, 0.24, 0.25)
_STONE: Final[Colour] = (0.36, 0.34, 0.31)
_RED: Final[Colour] = (0.52, 0.012, 0.015)
# Which bars of a seven-part figure make a digit: top, upper right, lower right, bottom, lower left, upper left, middle.
_DIGITS: Final = ("012345", "12", "01346", "01236", "1256", "02356", "023456", "012", "0123456", "012356")
_LIGHTS: Final = (((0.75, 0.02, 0.015), Lamp.RED), ((0.75, 0.38, 0.01), Lamp.YELLOW), ((0.02, 0.60, 0.20), Lamp.GREEN))


def street_lamp(height_m: float, radius_m: float) -> Model:
    """A lamp post whose arm reaches along +x over the street."""

    def build(level: int) -> Shape:
        builder = ShapeBuilder(Label.POLES).brush(_STEEL)
        builder.pole((0.0, 0.0, FOOT_M), radius_m, 0.6 * radius_m, height_m - FOOT_M, (8, 6, 3)[level])
        reach = 0.28 * height_m
        builder.tube((0.0, 0.0, height_m - 0.15), (reach, 0.0, height_m + 0.12), 0.05, 0.035, (6, 4, 3)[level])
        if level < 2:
            builder.box((reach - 0.05, -0.13, height_m + 0.06), (reach + 0.62, 0.13, height_m + 0.17))
            builder.brush((1.0, 0.86, 0.62), lamp=int(Lamp.STREET))
            builder.box((reach + 0.02, -0.10, height_m + 0.03), (reach + 0.56, 0.10, height_m + 0.062))
        return builder.shape()

    return Model(tuple(build(level) for level in range(3)), shadow=build(2))


def post(height_m: float, radius_m: float) -> Model:
    """A plain pole."""

    def build(sides: int) -> Shape:
        builder = ShapeBuilder(Label.POLES).brush(_STEEL)
        builder.pole((0.0, 0.0, FOOT_M), radius_m, radius_m, height_m - FOOT_M, sides)
        return builder.shape()

    return Model((build(8), build(4)), shadow=build(4))


def _post(builder: ShapeBuilder, height_m: float, level: int) -> None:
    builder.brush(grey(0.34), label=Label.POLES).pole((0.0, 0.0, FOOT_M), 0.04, 0.04, height_m - FOOT_M, (8, 4, 3)[level])


def _plate(builder: ShapeBuilder, ring: Sequence[tuple[float, float]], x: float, thick_m: float) -> None:
    """A flat plate across x that looks along -x; the ring holds y and z, clockwise for somebody who looks at its face."""
    face = [(x - thick_m, y, z) for y, z in ring]
    back = [(x, y, z) for y, z in ring]
    builder.loft([back[::-1], face[::-1]])


def _ring(count: int, radius_m: float, z: float, turn_deg: float) -> list[tuple[float, float]]:
    found = []
    for k in range(count):
        s, c = sincos_deg(turn_deg + 360.0 * k / count)
        found.append((radius_m * s, z + radius_m * c))
    return found


def _figure(builder: ShapeBuilder, digit: int, y: float, z: float, size_m: float, x: float) -> None:
    """A digit of bars; +y is to the right of somebody who looks along +x at it."""
    half, thick = 0.5 * size_m, 0.2 * size_m
    wide = 0.52 * size_m
    bars = (
        (-wide, half - thick, wide, half), (wide - thick, 0.0, wide, half), (wide - thick, -half, wide, 0.0),
        (-wide, -half, wide, -half + thick), (-wide, -half, -wide + thick, 0.0), (-wide, 0.0, -wide + thick, half),
        (-wide, -0.5 * thick, wide, 0.5 * thick),
    )  # fmt: skip
    for bar in _DIGITS[digit]:
        y0, z0, y1, z1 = bars[int(bar)]
        builder.quad(
            (x, y + 0.62 * y0, z + z0), (x, y + 0.62 * y0, z + z1), (x, y + 0.62 * y1, z + z1), (x, y + 0.62 * y1, z + z0)
        )


def sign(kind: str, value: float | None, low_m: float, size_m: float, width_m: float) -> Model:
    """A traffic sign on its post: OpenDRIVE's types 205 (give way), 206 (stop), 274 (speed limit); others are blank."""

    def build(level: int) -> Shape:
        builder = ShapeBuilder(Label.TRAFFIC_SIGNS)
        radius, middle = 0.5 * size_m, low_m + 0.5 * size_m
        _post(builder, middle + 0.2 * size_m, level)
        x = -0.045
        if kind == "206":
            builder.brush(WHITE)
            _plate(builder, _ring(8, 1.06 * radius, middle, 22.5), x, 0.02)
            builder.brush(_RED)
            _plate(builder, _ring(8, 0.96 * radius, middle, 22.5), x - 0.02, 0.005)
            builder.brush(WHITE)
            if level == 0:
                _word_stop(builder, middle, 0.30 * size_m, x - 0.028)
            elif level == 1:
                _bar(builder, middle, 0.33 * size_m, 0.10 * size_m, x - 0.028)
        elif kind == "205":
            builder.brush(_RED)
            _plate(builder, _ring(3, 1.1 * radius, middle, 180.0), x, 0.02)
            builder.brush(WHITE)
            _plate(builder, _ring(3, 0.66 * radius, middle, 180.0), x - 0.02, 0.005)
        elif kind == "274":
            builder.brush(_RED)
            _plate(builder, _ring((20, 10, 6)[level], radius, middle, 0.0), x, 0.02)
            builder.brush(WHITE)
            _plate(builder, _ring((20, 10, 6)[level], 0.78 * radius, middle, 0.0), x - 0.02, 0.005)
            if level == 0 and value is not None:
                builder.brush(BLACK)
                digits = f"{value:.0f}"
                for k, one in enumerate(digits):
                    y = (k - 0.5 * (len(digits) - 1)) * 0.32 * size_m
                    _figure(builder, int(one), y, middle, 0.40 * size_m, x - 0.028)
        else:
            builder.brush((0.06, 0.12, 0.42))
            half = 0.5 * width_m
            _plate(builder, [(-half, low_m + size_m), (half, low_m + size_m), (half, low_m), (-half, low_m)], x, 0.02)
        return builder.shape()

    return Model(tuple(build(level) for level in range(3)), shadow=build(2))


def _bar(builder: ShapeBuilder, z: float, half_m: float, thick_m: float, x: float) -> None:
    builder.quad((x, -half_m, z - thick_m), (x, -half_m, z + thick_m), (x, half_m, z + thick_m), (x, half_m, z - thick_m))


def _word_stop(builder: ShapeBuilder, z: float, size_m: float, x: float) -> None:
    """The word STOP out of bars: S and O are figures, T and P have their own."""
    step = 0.75 * size_m
    _figure(builder, 5, -1.5 * step, z, size_m, x)
    _figure(builder, 0, 0.5 * step, z, size_m, x)
    half, thin = 0.5 * size_m, 0.10 * size_m
    for y, z0, z1, wide in ((-0.5 * step, half - 2 * thin, half, 0.3 * size_m), (-0.5 * step, -half, half, thin)):
        builder.quad((x, y - wide, z + z0), (x, y - wide, z + z1), (x, y + wide, z + z1), (x, y + wide, z + z0))
    y = 1.5 * step
    for y0, y1, z0, z1 in (
        (-3.0, -1.0, -half, half),
        (-3.0, 3.0, half - 2 * thin, half),
        (-3.0, 3.0, -thin, thin),
        (1.0, 3.0, 0.0, half),
    ):
        a, b = y + y0 * thin, y + y1 * thin
        builder.quad((x, a, z + z0), (x, a, z + z1), (x, b, z + z1), (x, b, z + z0))


def traffic_light(low_m: float, size_m: float, width_m: float) -> Model:
    """A traffic light that looks along -x, towards those it speaks to."""

    def build(level: int) -> Shape:
        builder = ShapeBuilder(Label.TRAFFIC_LIGHT)
        builder.brush(grey(0.30), label=Label.POLES).pole(
            (0.06, 0.0, FOOT_M), 0.06, 0.05, low_m + 0.8 * size_m - FOOT_M, (8, 5, 3)[level]
        )
        half, deep = 0.5 * width_m, 0.22
        builder.brush((0.03, 0.035, 0.03))
        builder.box((-deep, -half, low_m), (0.0, half, low_m + size_m))
        if level < 2:
            builder.box((-0.02, -half - 0.07, low_m - 0.07), (0.005, half + 0.07, low_m + size_m + 0.07))
        radius = min(0.38 * width_m, 0.15 * size_m)
        for k, (colour, lamp) in enumerate(_LIGHTS):
            z = low_m + size_m * (5 - 2 * k) / 6
            builder.brush(colour, lamp=int(lamp))
            builder.fan([(-deep - 0.006, y, at) for y, at in _ring((14, 8, 4)[level], radius, z, 0.0)])
            if level == 0:
                builder.brush((0.02, 0.022, 0.02))
                _visor(builder, -deep, z, radius + 0.02)
        return builder.shape()

    return Model(tuple(build(level) for level in range(3)), shadow=build(2))


def _visor(builder: ShapeBuilder, x: float, z: float, radius_m: float) -> None:
    """A half-open hood over a lamp, seen from outside and inside."""
    arc: list[tuple[float, float]] = []
    for k in range(7):
        s, c = sincos_deg(-100.0 + 200.0 * k / 6)
        arc.append((radius_m * s, z + radius_m * c))
    for (y0, z0), (y1, z1) in pairwise(arc):
        near: tuple[Point, Point] = ((x, y0, z0), (x, y1, z1))
        far: tuple[Point, Point] = ((x - 0.16, y0, z0), (x - 0.16, y1, z1))
        builder.quad(near[0], near[1], far[1], far[0])
        builder.quad(far[0], far[1], near[1], near[0])


def wall(outline: Sequence[tuple[float, float]], height_m: float, look: int) -> Model:
    """A wall or barrier over an outline; hedges in between."""
    colours: tuple[Colour, ...] = (_STONE, (0.30, 0.13, 0.09), (0.42, 0.40, 0.36))
    builder = ShapeBuilder(Label.WALLS).brush(colours[look % 3])
    base = [(x, y, FOOT_M) for x, y in outline]
    builder.prism(base, height_m - FOOT_M)
    return Model((builder.shape(),), shadow=builder.shape())


def drum(radius_m: float, height_m: float, sides: int, label: Label, colour: Colour) -> Model:
    """A round thing that stands about."""
    builder = ShapeBuilder(label).brush(colour)
    builder.prism(circle(0.0, 0.0, FOOT_M, radius_m, sides), height_m - FOOT_M)
    return Model((builder.shape(),), shadow=builder.shape())


def block(outline: Sequence[tuple[float, float]], height_m: float, label: Label, colour: Colour) -> Model:
    """A plain thing over an outline."""
    builder = ShapeBuilder(label).brush(colour)
    builder.prism([(x, y, FOOT_M) for x, y in outline], height_m - FOOT_M)
    return Model((builder.shape(),), shadow=builder.shape())
