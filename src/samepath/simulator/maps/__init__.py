"""Road networks: OpenDRIVE in; lanes, surfaces, meshes, crossings and signals out, in CARLA's frame and to the bit.

``load_map(name)`` gives a map of ours, or of the user's own (``files.py``); ``parse_map(text, name)`` one of somebody else's.
"""

import re
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Final

from samepath.core.errors import unknown
from samepath.simulator.maps import files
from samepath.simulator.maps.designs import straight
from samepath.simulator.maps.lanes import LaneLine, Waypoint
from samepath.simulator.maps.network import RoadMap, check_work
from samepath.simulator.maps.opendrive import read_opendrive
from samepath.simulator.maps.scenery import Signal
from samepath.simulator.maps.surfaces import Mesh, Polygon

__all__ = [
    "LaneLine",
    "Mesh",
    "Polygon",
    "RoadMap",
    "Signal",
    "Waypoint",
    "available_maps",
    "load_file",
    "load_map",
    "parse_map",
]

_MAPS: Final = ("double-mini-roundabout", "oval", "t-junction", "town")
# A straight road that begins at any whole number of metres along x: how a simulator keeps its bits far from the origin. Not in
# the list of maps, since there is one for every metre.
_STRAIGHT: Final = re.compile(r"straight@(-?\d{1,6})")


def available_maps() -> tuple[str, ...]:
    """The names of our maps."""
    return _MAPS


def load_map(name: str) -> RoadMap:
    """Load a map: one of ours, a file (``NAME.xodr``), or one by its name in ``SAMEPATH_MAPS``; read once per process.

    ``straight@1000`` is a straight road of 160 m that begins at x = 1000 m.
    """
    if name in _MAPS:
        return _ours(name)
    placed = _STRAIGHT.fullmatch(name)
    if placed:
        return _parsed(straight(int(placed[1])), name)
    path = files.asked_file(name)
    if path is None:
        known = files.known_files(_MAPS)
        path = known.get(name) or known.get(files.without_opt(name))
        if path is None:
            raise unknown("map", name, (*_MAPS, *known))
    return load_file(path)


@cache
def _ours(name: str) -> RoadMap:
    return parse_map((resources.files(__package__) / "data" / f"{name}.xodr").read_text(encoding="utf-8"), name)


def load_file(path: Path) -> RoadMap:
    """Load an OpenDRIVE file; its name without the ending is the map's."""
    text = files.read_file(path)
    return _parsed(text, files.name_of(path))


@lru_cache(maxsize=4)
def _parsed(text: str, name: str) -> RoadMap:
    # By content: a file that was changed is another map.
    return parse_map(text, name)


def parse_map(text: str, name: str) -> RoadMap:
    """Read OpenDRIVE text; whatever is wrong with it is an :class:`~samepath.core.errors.InputError` of one line."""
    document = read_opendrive(text, name)
    check_work(document, name)
    return RoadMap(name=name, xodr=text, document=document)
