"""CARLA's labels of what stands about, and the names it has for them in events and map layers."""

from typing import Final

from samepath.simulator.sensors.labels import OF_SURFACE, Label

ANY: Final = 255
NONE, ROADS, BUILDINGS, GROUND, OTHER = Label.NONE, Label.ROADS, Label.BUILDINGS, Label.GROUND, Label.OTHER
TRAFFIC_LIGHT, TRAFFIC_SIGNS = Label.TRAFFIC_LIGHT, Label.TRAFFIC_SIGNS

# What CARLA calls scenery that an actor bumps into.
_WORDS: Final = {
    Label.ROADS: "road",
    Label.SIDEWALKS: "sidewalk",
    Label.BUILDINGS: "building",
    Label.WALLS: "wall",
    Label.POLES: "pole",
    Label.TRAFFIC_LIGHT: "traffic_light",
    Label.TRAFFIC_SIGNS: "traffic_sign",
    Label.VEGETATION: "vegetation",
    Label.GROUND: "ground",
    Label.GUARD_RAIL: "guardrail",
    Label.STATIC: "static",
}
# Which labels a map layer holds, by its bit.
LAYERS: Final = {1: Label.BUILDINGS, 4: Label.VEGETATION, 64: Label.STATIC, 128: Label.POLES, 256: Label.WALLS}
ALL_LAYERS: Final = 0xFFFF


def label_of(mesh_label: str) -> int:
    """CARLA's label of a mesh."""
    return int(OF_SURFACE.get(mesh_label, Label.OTHER))


def word_of(label: int) -> str:
    """CARLA's id of a piece of scenery, as its events name it."""
    return f"static.{_WORDS.get(Label(label), 'unlabeled')}"
