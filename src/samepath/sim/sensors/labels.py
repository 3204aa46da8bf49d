"""CARLA's labels (CityObjectLabel) of everything a sensor can see."""

from enum import IntEnum
from types import MappingProxyType
from typing import Final


class Label(IntEnum):
    """What a pixel or a point belongs to, in CARLA 0.9.16's numbers."""

    NONE = 0
    ROADS = 1
    SIDEWALKS = 2
    BUILDINGS = 3
    WALLS = 4
    FENCES = 5
    POLES = 6
    TRAFFIC_LIGHT = 7
    TRAFFIC_SIGNS = 8
    VEGETATION = 9
    TERRAIN = 10
    SKY = 11
    PEDESTRIANS = 12
    RIDER = 13
    CAR = 14
    TRUCK = 15
    BUS = 16
    TRAIN = 17
    MOTORCYCLE = 18
    BICYCLE = 19
    STATIC = 20
    DYNAMIC = 21
    OTHER = 22
    WATER = 23
    ROAD_LINES = 24
    GROUND = 25
    BRIDGE = 26
    RAIL_TRACK = 27
    GUARD_RAIL = 28


# The labels of a map's meshes.
OF_SURFACE: Final = MappingProxyType(
    {
        "road": Label.ROADS,
        "sidewalk": Label.SIDEWALKS,
        "kerb": Label.SIDEWALKS,
        "ground": Label.GROUND,
        "building": Label.BUILDINGS,
        "pole": Label.POLES,
        "vegetation": Label.VEGETATION,
        "barrier": Label.WALLS,
        "sign": Label.TRAFFIC_SIGNS,
        "traffic-light": Label.TRAFFIC_LIGHT,
        "lane-marking": Label.ROAD_LINES,
        "crosswalk": Label.ROAD_LINES,
        "prop": Label.STATIC,
    }
)
# The labels of actors by the kind of their type.
OF_KIND: Final = MappingProxyType(
    {
        "car": Label.CAR,
        "van": Label.CAR,
        "truck": Label.TRUCK,
        "bus": Label.BUS,
        "motorcycle": Label.MOTORCYCLE,
        "bicycle": Label.BICYCLE,
        "walker": Label.PEDESTRIANS,
    }
)
