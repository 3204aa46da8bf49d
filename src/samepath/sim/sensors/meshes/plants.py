"""Trees: a trunk and a crown of lumps, inside the cones that physics and rays know of."""

from typing import Final

from samepath.base.trig import sincos_deg
from samepath.sim.sensors.labels import Label
from samepath.sim.sensors.meshes.bank import Model
from samepath.sim.sensors.meshes.builder import FOOT_M, Colour, Point, Shape, ShapeBuilder
from samepath.sim.sensors.scene import Material

LOOKS: Final = 5
_GREENS: Final[tuple[Colour, ...]] = (
    (0.060, 0.135, 0.030), (0.085, 0.150, 0.030), (0.045, 0.110, 0.035), (0.120, 0.140, 0.030), (0.070, 0.120, 0.025),
)  # fmt: skip
_BARK: Final[Colour] = (0.11, 0.075, 0.05)


def tree(height_m: float, radius_m: float, look: int) -> Model:
    """A tree; ``look`` picks its colour and its lumps."""
    return Model(tuple(_tree(height_m, radius_m, look, level) for level in range(3)), shadow=_tree(height_m, radius_m, look, 2))


def _uneven(j: int, k: int, look: int) -> float:
    """A number in 0.8..1.1 for each lump of a crown."""
    mixed = (j * 7349 + k * 3571 + look * 9973 + 17) * 2654435761 & 0xFFFFFFFF
    return 0.8 + 0.3 * (mixed >> 20) / 4095.0


def _lump(
    builder: ShapeBuilder, middle: Point, radius_m: float, half_height_m: float, look: int, rounds: int, slices: int
) -> None:
    """A ball with dents."""
    x, y, z = middle
    rings = []
    for j in range(1, rounds + 1):
        s, c = sincos_deg(180.0 * j / (rounds + 1))
        ring = []
        for k in range(slices):
            sine, cosine = sincos_deg(360.0 * (k + 0.5 * (j & 1)) / slices)
            part = _uneven(j, k, look)
            ring.append((x + radius_m * s * part * cosine, y + radius_m * s * part * sine, z - half_height_m * c * part))
        rings.append(ring)
    builder.loft(rings, start=False, end=False)
    low, high = (x, y, z - half_height_m), (x, y, z + half_height_m)
    for k in range(slices):
        j = (k + 1) % slices
        builder.triangle(low, rings[0][j], rings[0][k])
        builder.triangle(high, rings[-1][k], rings[-1][j])


def _tree(height_m: float, radius_m: float, look: int, level: int) -> Shape:
    builder = ShapeBuilder(Label.VEGETATION)
    builder.brush(_BARK, label=Label.VEGETATION)
    builder.pole((0.0, 0.0, FOOT_M), 0.15, 0.11, 0.5 * height_m - FOOT_M, (7, 5, 3)[level])
    red, green, blue = _GREENS[look % LOOKS]
    middle, half = 0.67 * height_m, 0.33 * height_m
    if level == 2:
        builder.brush((red, green, blue), Material.FOLIAGE)
        _lump(builder, (0.0, 0.0, middle), radius_m, half, look, 2, 6)
        return builder.shape()
    rounds, slices = ((5, 9), (3, 6))[level]
    builder.brush((red, green, blue), Material.FOLIAGE)
    _lump(builder, (0.0, 0.0, middle + 0.04 * height_m), 0.82 * radius_m, 0.9 * half, look, rounds, slices)
    for k in range(4 if level == 0 else 2):
        sine, cosine = sincos_deg(90.0 * k + 40.0 * look if level == 0 else 180.0 * k + 40.0 * look)
        shade = 0.86 + 0.09 * k
        builder.brush((red * shade, green * shade, blue * shade), Material.FOLIAGE)
        place = (0.48 * radius_m * cosine, 0.48 * radius_m * sine, middle - (0.10 + 0.05 * (k & 1)) * height_m)
        _lump(builder, place, 0.56 * radius_m, 0.55 * half, look + k + 1, max(rounds - 2, 2), max(slices - 2, 5))
    return builder.shape()
