"""CARLA's labels of what stands about, and the names it has for them."""

from typing import Final

NONE, ROADS, SIDEWALKS, BUILDINGS, WALLS = 0, 1, 2, 3, 4
POLES, TRAFFIC_LIGHT, TRAFFIC_SIGNS, VEGETATION = 6, 7, 8, 9
STATIC, OTHER, ROAD_LINES, GROUND, GUARD_RAIL = 20, 22, 24, 25, 28
ANY: Final = 255

# Our meshes' labels as CARLA's.
OF_MESH: Final = {
    "road": ROADS,
    "sidewalk": SIDEWALKS,
    "kerb": SIDEWALKS,
    "ground": GROUND,
    "building": BUILDINGS,
    "pole": POLES,
    "vegetation": VEGETATION,
    "barrier": WALLS,
    "sign": TRAFFIC_SIGNS,
    "traffic-light": TRAFFIC_LIGHT,
    "lane-marking": ROAD_LINES,
    "crosswalk": ROAD_LINES,
    "prop": STATIC,
}
# What CARLA calls scenery that an actor bumps into.
WORDS: Final = {
    ROADS: "road",
    SIDEWALKS: "sidewalk",
    BUILDINGS: "building",
    WALLS: "wall",
    POLES: "pole",
    TRAFFIC_LIGHT: "traffic_light",
    TRAFFIC_SIGNS: "traffic_sign",
    VEGETATION: "vegetation",
    GROUND: "ground",
    GUARD_RAIL: "guardrail",
    STATIC: "static",
}
# Which labels a map layer holds, by its bit.
LAYERS: Final = {1: BUILDINGS, 4: VEGETATION, 64: STATIC, 128: POLES, 256: WALLS}
ALL_LAYERS: Final = 0xFFFF


def label_of(mesh_label: str) -> int:
    """CARLA's label of a mesh."""
    return OF_MESH.get(mesh_label, OTHER)


def word_of(label: int) -> str:
    """CARLA's id of a piece of scenery, as its events name it."""
    return f"static.{WORDS.get(label, 'unlabeled')}"
