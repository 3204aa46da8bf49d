"""Props: a few families of shapes in the sizes of the catalogue's boxes."""

from collections.abc import Callable
from typing import Final

from samepath.core.catalogue import PropType
from samepath.simulator.sensors.labels import Label
from samepath.simulator.sensors.meshes.builder import BLACK, WHITE, Colour, MeshModel, MeshShape, ShapeBuilder, circle, grey
from samepath.simulator.sensors.renderer import Material

_ORANGE: Final[Colour] = (0.70, 0.14, 0.015)
_WOOD: Final[Colour] = (0.26, 0.14, 0.06)
_GREEN: Final[Colour] = (0.06, 0.15, 0.04)
_CARDBOARD: Final[Colour] = (0.38, 0.25, 0.13)

Build = Callable[[ShapeBuilder, PropType], None]


def prop(kind: PropType) -> MeshModel:
    """Something that stands about; its origin is the middle of its foot."""
    builder = ShapeBuilder(Label.DYNAMIC if kind.mass_kg else Label.STATIC)
    # What a scenario calls a barrier is a box of any size, not CARLA's.
    name = kind.name.removeprefix("static.prop.") if kind.name.startswith("static.prop.") else ""
    build = next((family for words, family in _FAMILIES if any(word in name for word in words)), _boxed)
    build(builder, kind)
    return MeshModel((builder.shape(),), shadow=_shadow(kind))


def _shadow(kind: PropType) -> MeshShape:
    builder = ShapeBuilder()
    _block(builder, kind, 0.0, kind.height_m, 0.9)
    return builder.shape()


def _block(builder: ShapeBuilder, kind: PropType, low_m: float, high_m: float, part: float = 1.0) -> None:
    x, y = 0.5 * part * kind.length_m, 0.5 * part * kind.width_m
    builder.box((-x, -y, low_m), (x, y, high_m))


def _boxed(builder: ShapeBuilder, kind: PropType) -> None:
    tone = 0.16 + 0.5 * ((sum(kind.name.encode()) % 97) / 97.0)
    builder.brush((0.7 * tone, 0.62 * tone, 0.5 * tone))
    _block(builder, kind, 0.0, kind.height_m)


def _cone(builder: ShapeBuilder, kind: PropType) -> None:
    radius = 0.5 * min(kind.length_m, kind.width_m)
    builder.brush(_ORANGE)
    _block(builder, kind, 0.0, 0.05 * kind.height_m)
    rings = [
        circle(0.0, 0.0, z * kind.height_m, part * radius, 10)
        for z, part in ((0.05, 0.72), (0.40, 0.48), (0.66, 0.31), (1.0, 0.1))
    ]
    for k in range(3):
        builder.brush(WHITE if k == 1 else _ORANGE).loft(rings[k : k + 2], start=False, end=k == 2)


def _barrel(builder: ShapeBuilder, kind: PropType) -> None:
    radius = 0.5 * min(kind.length_m, kind.width_m)
    heights = [0.0, 0.3, 0.45, 0.7, 0.85, 1.0]
    for k in range(5):
        rings = [circle(0.0, 0.0, z * kind.height_m, radius, 12) for z in heights[k : k + 2]]
        builder.brush(WHITE if k in {1, 3} else _ORANGE).loft(rings, start=False, end=k == 4)


def _round(builder: ShapeBuilder, kind: PropType) -> None:
    builder.brush(grey(0.20))
    builder.pole(
        (0.0, 0.0, 0.0), 0.44 * min(kind.length_m, kind.width_m), 0.5 * min(kind.length_m, kind.width_m), kind.height_m, 12
    )


def _barrier(builder: ShapeBuilder, kind: PropType) -> None:
    x, y, h = 0.5 * kind.length_m, 0.5 * kind.width_m, kind.height_m
    builder.brush(grey(0.3))
    post = min(0.03, 0.15 * x)
    for side in (-0.85 * x, 0.85 * x):
        builder.box((side - post, -y, 0.0), (side + post, y, 0.06))
        builder.box((side - post, -0.03, 0.0), (side + post, 0.03, 0.85 * h))
    for k in range(6):
        builder.brush(WHITE if k % 2 else (0.55, 0.02, 0.02))
        builder.box((-x + k * x / 3, -0.02, 0.62 * h), (-x + (k + 1) * x / 3, 0.02, h))


def _bench(builder: ShapeBuilder, kind: PropType) -> None:
    x, y, h = 0.5 * kind.length_m, 0.5 * kind.width_m, kind.height_m
    builder.brush(grey(0.08))
    for side in (-0.8 * x, 0.8 * x):
        builder.box((side - 0.04, -0.9 * y, 0.0), (side + 0.04, 0.9 * y, 0.46 * h))
    builder.brush(_WOOD)
    builder.box((-x, -y, 0.46 * h), (x, 0.8 * y, 0.52 * h))
    builder.box((-x, 0.75 * y, 0.60 * h), (x, y, h))


def _shelter(builder: ShapeBuilder, kind: PropType) -> None:
    x, y, h = 0.5 * kind.length_m, 0.5 * kind.width_m, kind.height_m
    builder.brush(grey(0.15)).box((-x, -y, 0.94 * h), (x, y, h))
    for sx in (-x + 0.05, x - 0.05):
        for sy in (-y + 0.05, y - 0.05):
            builder.box((sx - 0.04, sy - 0.04, 0.0), (sx + 0.04, sy + 0.04, 0.94 * h))
    builder.brush((0.05, 0.07, 0.08), Material.GLASS).box((-x + 0.1, y - 0.08, 0.15 * h), (x - 0.1, y - 0.05, 0.9 * h))
    builder.brush(_WOOD).box((-0.6 * x, 0.3 * y, 0.16 * h), (0.6 * x, 0.75 * y, 0.19 * h))


def _plant(builder: ShapeBuilder, kind: PropType) -> None:
    radius = 0.5 * min(kind.length_m, kind.width_m)
    builder.brush((0.30, 0.12, 0.07)).pole((0.0, 0.0, 0.0), 0.6 * radius, 0.8 * radius, 0.45 * kind.height_m, 10)
    builder.brush(_GREEN, Material.FOLIAGE)
    builder.ball((0.0, 0.0, 0.68 * kind.height_m), (radius, radius, 0.32 * kind.height_m), 3, 8)


def _table(builder: ShapeBuilder, kind: PropType) -> None:
    x, y, h = 0.5 * kind.length_m, 0.5 * kind.width_m, kind.height_m
    builder.brush(WHITE)
    leg = min(0.03, 0.15 * x, 0.15 * y)
    for sx in (-0.85 * x, 0.85 * x):
        for sy in (-0.85 * y, 0.85 * y):
            builder.box((sx - leg, sy - leg, 0.0), (sx + leg, sy + leg, 0.93 * h))
    builder.box((-x, -y, 0.93 * h), (x, y, h))


def _container(builder: ShapeBuilder, kind: PropType) -> None:
    x, y = 0.5 * kind.length_m, 0.5 * kind.width_m - 0.02
    builder.brush((0.05, 0.16, 0.22))
    builder.box((-x, -y, 0.0), (x, y, kind.height_m))
    builder.brush((0.035, 0.12, 0.17))
    count = max(2, round(kind.length_m / 0.5))
    for k in range(count):
        at = -x + (k + 0.5) * kind.length_m / count
        for y0, y1 in ((-y - 0.02, -y), (y, y + 0.02)):
            builder.box((at - 0.08, y0, 0.05), (at + 0.08, y1, kind.height_m - 0.05))


def _carton(builder: ShapeBuilder, kind: PropType) -> None:
    builder.brush(_CARDBOARD)
    _block(builder, kind, 0.0, kind.height_m)


def _board(builder: ShapeBuilder, kind: PropType) -> None:
    x, y, h = 0.5 * kind.length_m, 0.5 * kind.width_m, kind.height_m
    builder.brush(grey(0.25)).box((-0.04, -0.04, 0.0), (0.04, 0.04, 0.6 * h))
    builder.brush(BLACK).box((-x, -0.5 * y, 0.35 * h), (x, 0.5 * y, h))
    builder.brush((0.55, 0.45, 0.15)).box((-0.92 * x, -0.5 * y - 0.01, 0.40 * h), (0.92 * x, -0.5 * y, 0.95 * h))


_FAMILIES: Final[tuple[tuple[tuple[str, ...], Build], ...]] = (
    (("cone",), _cone),
    (("barrel",), _barrel),
    (("barrier", "warningconstruction", "warningaccident"), _barrier),
    (("bench", "couch"), _bench),
    (("busstop", "pergola", "kiosk", "foodcart"), _shelter),
    (("plantpot", "haybale"), _plant),
    (("table", "chair", "maptable"), _table),
    (("clothcontainer", "glasscontainer", "container"), _container),
    (("trashcan", "bin", "fountain", "mailbox", "can", "trampoline"), _round),
    (("box", "case", "garbage", "bag"), _carton),
    (("advertisement", "streetsign", "vendingmachine", "atm"), _board),
)
