"""Bicycles and motorcycles, each with somebody on it: the machine and the rider carry CARLA's two labels."""

from typing import Final

from samepath.base.trig import sincos_deg
from samepath.sim.sensors.labels import OF_KIND, Label
from samepath.sim.sensors.meshes.bank import Model
from samepath.sim.sensors.meshes.builder import BLACK, Colour, Point, Shape, ShapeBuilder, grey
from samepath.sim.sensors.meshes.parts import HEAD, TAIL
from samepath.sim.sensors.meshes.people import Limbs, person
from samepath.sim.sensors.scene import Material
from samepath.sim.world.catalogue import VehicleType

_FULL: Final[Colour] = (1.0, 1.0, 1.0)
_RIDER_M: Final = 1.72
_HELMET: Final[Colour] = (0.05, 0.05, 0.055)


def cycle(kind: VehicleType) -> Model:
    """A two-wheeler with its rider."""
    motor = kind.kind == "motorcycle"
    levels = tuple(_cycle(kind, level, motor=motor) for level in range(3))
    return Model(levels, shadow=_cycle(kind, 2, motor=motor))


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


def _cycle(kind: VehicleType, level: int, *, motor: bool) -> Shape:
    builder = ShapeBuilder(OF_KIND[kind.kind])
    r, half = kind.wheel_radius_m, 0.5 * kind.wheel_base_m
    sides = (16, 10, 6)[level]
    tyre = 0.13 if motor else 0.045
    for x in (half, -half):
        _ring_wheel(builder, x, r, tyre, sides, spokes=level == 0)
    seat = (-0.28 * half, 0.0, 0.82 if motor else 0.98)
    grip_x, grip_z, grip_y = (0.55 * half, 1.02, 0.33) if motor else (0.68 * half, 1.08, 0.27)
    head = (grip_x + 0.05, 0.0, grip_z - 0.1)
    count = (6, 4, 3)[level]
    if level == 2:
        builder.brush(_FULL, Material.BODY)
        low = 0.3 if motor else 0.45
        builder.box((-0.6 * half, -0.06, low), (head[0], 0.06, low + (0.5 if motor else 0.25)))
        _rider(builder, seat, (grip_x, grip_y, grip_z), half, level, motor=motor)
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
    _rider(builder, seat, (grip_x, grip_y, grip_z), half, level, motor=motor)
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


def _rider(builder: ShapeBuilder, seat: Point, grip: Point, half: float, level: int, *, motor: bool) -> None:
    """Somebody sitting with hands on the handlebar and feet on the pedals, one up, one down."""
    h = _RIDER_M
    shoulder_x, shoulder_z = seat[0] + (0.24 if motor else 0.30), seat[2] + (0.50 if motor else 0.46)
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
