"""People: upright, walking in poses by phase, or riding. Limbs are tapered tubes between joints."""

import math
from dataclasses import dataclass
from typing import Final

from samepath.core.trig import PI, sin, sincos_deg
from samepath.simulator.sensors.labels import Label
from samepath.simulator.sensors.meshes.builder import Colour, MeshModel, MeshShape, Point, ShapeBuilder
from samepath.simulator.sensors.renderer import Material

PHASES: Final = 12
"""Poses in one double step; the standing pose comes after them."""
STANDING: Final = PHASES
DOUBLE_STEP: Final = 0.83
"""Length of a double step, as part of the height."""
_SKINS: Final[tuple[Colour, ...]] = ((0.60, 0.36, 0.25), (0.42, 0.23, 0.14), (0.66, 0.43, 0.31), (0.20, 0.10, 0.06))
_TROUSERS: Final[tuple[Colour, ...]] = (
    (0.03, 0.045, 0.10), (0.035, 0.035, 0.04), (0.16, 0.12, 0.08), (0.08, 0.09, 0.11), (0.05, 0.03, 0.03), (0.10, 0.13, 0.20),
)  # fmt: skip
_HAIR: Final[tuple[Colour, ...]] = ((0.02, 0.014, 0.01), (0.09, 0.05, 0.02), (0.25, 0.16, 0.07), (0.18, 0.18, 0.18))
_SHOES: Final[Colour] = (0.02, 0.018, 0.016)
_FULL: Final[Colour] = (1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Limbs:
    """Joints on one side, in metres: hip, knee, ankle, shoulder, elbow, hand; ``toe`` is where the foot points."""

    hip: Point
    knee: Point
    ankle: Point
    toe: Point
    shoulder: Point
    elbow: Point
    hand: Point


def phase_of(walked_m: float, height_m: float) -> int:
    """The pose of somebody who has walked so far."""
    part = walked_m / (DOUBLE_STEP * height_m)
    return int((part - math.floor(part)) * PHASES) % PHASES


def limbs_of(height_m: float, walked_m: float | None) -> tuple[Limbs, Limbs]:
    """The joints, on the right and on the left, of somebody who has walked so far; None: who stands. Feet are at height 0."""
    phase, swing = (0, 0.0) if walked_m is None else (phase_of(walked_m, height_m), 1.0)
    right, left = (_walking(height_m, side, (phase / PHASES + shift) % 1.0, swing) for side, shift in ((1.0, 0.0), (-1.0, 0.5)))
    return right, left


def walker(height_m: float, look: int) -> tuple[MeshModel, ...]:
    """Somebody of a height in all poses: walking ones by phase, then standing. The origin is the middle of the body."""
    return tuple(_posed(height_m, look, phase) for phase in range(PHASES + 1))


def _posed(height_m: float, look: int, phase: int) -> MeshModel:
    def figure(level: int) -> MeshShape:
        builder = ShapeBuilder(Label.PEDESTRIANS)
        swing = 0.0 if phase == STANDING else 1.0
        sides = [_walking(height_m, side, (phase / PHASES + (0.5 if side < 0.0 else 0.0)) % 1.0, swing) for side in (1.0, -1.0)]
        bob = 0.0 if phase == STANDING else 0.012 * height_m * sin(4.0 * PI * phase / PHASES + 0.6)
        person(builder, height_m, look, sides, lean_m=0.02 * height_m * swing, lift_m=bob, level=level)
        return _lowered(builder.shape(), 0.5 * height_m)

    return MeshModel(tuple(figure(level) for level in range(3)), shadow=figure(2))


def _lowered(shape: MeshShape, by_m: float) -> MeshShape:
    vertices = shape.vertices.copy()
    vertices[:, 2] -= vertices.dtype.type(by_m)
    return MeshShape(
        vertices,
        shape.faces,
        shape.normals,
        shape.colours,
        shape.labels,
        shape.materials,
        shape.lamps,
        shape.mappings,
        shape.mapping,
    )


def _walking(height_m: float, side: float, phase: float, swing: float) -> Limbs:
    """A leg and the arm on the same side; the arm swings against the leg."""
    h = height_m
    turn = sin(2.0 * PI * phase)
    thigh_deg = swing * 24.0 * turn
    # The knee bends while the leg swings forward.
    lift = max(0.0, sin(2.0 * PI * phase + 0.5 * PI + 0.4))
    knee_deg = swing * (6.0 + 46.0 * lift * lift)
    hip = (0.0, side * 0.052 * h, 0.52 * h)
    s, c = sincos_deg(thigh_deg)
    knee = (hip[0] + 0.245 * h * s, hip[1], hip[2] - 0.245 * h * c)
    s, c = sincos_deg(thigh_deg - knee_deg)
    ankle = (knee[0] + 0.235 * h * s, hip[1], max(knee[2] - 0.235 * h * c, 0.04 * h))
    toe_s, toe_c = sincos_deg(90.0 + 0.5 * (thigh_deg - knee_deg))
    toe = (ankle[0] + 0.10 * h * toe_s, hip[1], max(ankle[2] - 0.10 * h * toe_c - 0.02 * h, 0.012 * h))
    shoulder = (0.012 * h * swing, side * 0.122 * h, 0.815 * h)
    s, c = sincos_deg(-swing * 22.0 * turn)
    elbow = (shoulder[0] + 0.165 * h * s, side * 0.138 * h, shoulder[2] - 0.165 * h * c)
    s, c = sincos_deg(-swing * 22.0 * turn + 8.0 + 22.0 * swing)
    hand = (elbow[0] + 0.155 * h * s, side * 0.132 * h, elbow[2] - 0.155 * h * c)
    return Limbs(hip, knee, ankle, toe, shoulder, elbow, hand)


def person(
    builder: ShapeBuilder, height_m: float, look: int, sides: list[Limbs], lean_m: float, lift_m: float, level: int,
    label: Label | None = None, hip_x_m: float = 0.0,
) -> None:  # fmt: skip
    """A body with its limbs; the shirt takes the paint of the instance."""
    h, label = height_m, label if label is not None else Label.PEDESTRIANS
    skin, trousers, hair = _SKINS[look % len(_SKINS)], _TROUSERS[look % len(_TROUSERS)], _HAIR[look % len(_HAIR)]
    count = (6, 4, 3)[level]

    def up(point: Point) -> Point:
        return point[0], point[1], point[2] + lift_m

    for limbs in sides:
        builder.brush(trousers, label=label)
        builder.tube(up(limbs.knee), up(limbs.hip), 0.038 * h, 0.056 * h, count, start=False)
        builder.tube(limbs.ankle, up(limbs.knee), 0.027 * h, 0.038 * h, count, start=False)
        if level < 2:
            builder.brush(_SHOES, label=label)
            heel = (limbs.ankle[0] - 0.03 * h, limbs.ankle[1], max(limbs.ankle[2] - 0.02 * h, 0.02 * h))
            builder.tube(heel, limbs.toe, 0.026 * h, 0.017 * h, 4)
        builder.brush(_FULL, Material.BODY, label)
        builder.tube(up(limbs.elbow), up(limbs.shoulder), 0.025 * h, 0.030 * h, count, start=False)
        builder.tube(up(limbs.hand), up(limbs.elbow), 0.019 * h, 0.025 * h, count, start=False)
        if level == 0:
            builder.brush(skin, label=label).ball(up(limbs.hand), (0.022 * h, 0.018 * h, 0.030 * h), 2, 5)
    if level < 2:
        hip = sides[0].hip
        builder.brush(trousers, label=label).ball(
            (hip_x_m, 0.0, hip[2] + lift_m), (0.066 * h, 0.102 * h, 0.062 * h), 2, (8, 6)[level]
        )
    builder.brush(_FULL, Material.BODY, label)
    shoulder = sides[0].shoulder
    sections = ((0.0, 0.086, 0.064), (0.28, 0.074, 0.056), (0.70, 0.106, 0.066), (0.93, 0.112, 0.058), (1.06, 0.050, 0.040))
    low_z, high_z = sides[0].hip[2] + 0.01 * h, shoulder[2]
    rings = []
    for part, wide, deep in sections if level < 2 else (sections[0], sections[3]):
        x = hip_x_m + (shoulder[0] + lean_m - hip_x_m) * part
        z = low_z + (high_z - low_z) * part + lift_m
        slices = (8, 6, 4)[level]
        ring = []
        for k in range(slices):
            s, c = sincos_deg(360.0 * (k + 0.5) / slices)
            ring.append((x + deep * h * c, wide * h * s, z))
        rings.append(ring)
    builder.loft(rings)
    head_x = shoulder[0] + lean_m + 0.012 * h
    head_z = shoulder[2] + 0.115 * h + lift_m
    builder.brush(skin, label=label)
    if level < 2:
        builder.tube(
            (head_x - 0.01 * h, 0.0, shoulder[2] + lift_m), (head_x, 0.0, head_z), 0.028 * h, 0.028 * h, 5, start=False
        )
    builder.ball((head_x, 0.0, head_z), (0.052 * h, 0.043 * h, 0.066 * h), (4, 3, 1)[level], (8, 6, 4)[level])
    if level < 2:
        builder.brush(hair, label=label)
        builder.ball(
            (head_x - 0.010 * h, 0.0, head_z + 0.018 * h), (0.054 * h, 0.048 * h, 0.056 * h), (3, 2)[level], (8, 6)[level]
        )
