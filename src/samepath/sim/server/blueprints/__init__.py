"""CARLA's blueprint library for the actors of our world: ids, tags, attributes, boxes.

``library()`` gives all of it in a fixed order, ``find(id)`` one. Ids are those of CARLA 0.9.16; two names of older versions,
which the published scripts use, are there too.
"""

from functools import cache

from samepath.base.suggest import unknown
from samepath.sim.server.blueprints.records import Attribute, AttributeType, Blueprint, Triple
from samepath.sim.server.blueprints.tables import everything

__all__ = ["Attribute", "AttributeType", "Blueprint", "Triple", "find", "library"]


@cache
def library() -> tuple[Blueprint, ...]:
    """Every blueprint, in order of uid."""
    return tuple(everything())


@cache
def _by_id() -> dict[str, Blueprint]:
    return {one.id: one for one in library()}


def find(blueprint_id: str) -> Blueprint:
    """The blueprint of this id."""
    found = _by_id().get(blueprint_id)
    if found is None:
        raise unknown("blueprint", blueprint_id, _by_id())
    return found
