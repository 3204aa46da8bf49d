"""Road networks: OpenDRIVE in; lanes, surfaces, meshes, crossings and signals out, in CARLA's frame and to the bit.

``load_map(name)`` gives a map of ours, ``parse_map(text, name)`` one of somebody else's.
"""

from functools import cache
from importlib import resources
from typing import Final

from samepath.core.errors import unknown
from samepath.simulator.maps.lanes import LaneLine, Waypoint
from samepath.simulator.maps.network import RoadMap, check_work
from samepath.simulator.maps.opendrive import read_opendrive
from samepath.simulator.maps.scenery import Signal
from samepath.simulator.maps.surfaces import Mesh, Polygon

__all__ = ["LaneLine", "Mesh", "Polygon", "RoadMap", "Signal", "Waypoint", "available_maps", "load_map", "parse_map"]

_MAPS: Final = ("double-mini-roundabout", "oval", "t-junction", "town")


def available_maps() -> tuple[str, ...]:
    """The names of our maps."""
    return _MAPS


@cache
def load_map(name: str) -> RoadMap:
    """Load one of our maps; read once per process."""
    if name not in _MAPS:
        raise unknown("map", name, _MAPS)
    return parse_map((resources.files(__package__) / "data" / f"{name}.xodr").read_text(encoding="utf-8"), name)


def parse_map(text: str, name: str) -> RoadMap:
    """Read OpenDRIVE text; whatever is wrong with it is an :class:`~samepath.core.errors.InputError` of one line."""
    document = read_opendrive(text, name)
    check_work(document, name)
    return RoadMap(name=name, xodr=text, document=document)
