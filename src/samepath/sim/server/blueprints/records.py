"""What a blueprint is: CARLA's name for something that can be spawned, and the attributes a client may set on it."""

from dataclasses import dataclass
from enum import IntEnum

Triple = tuple[float, float, float]


class AttributeType(IntEnum):
    """CARLA's types of attribute; every value travels as text, a colour as ``r,g,b``."""

    BOOL = 1
    INT = 2
    FLOAT = 3
    STRING = 4
    COLOUR = 5


@dataclass(frozen=True)
class Attribute:
    """One attribute: its default, what CARLA recommends, whether a client may change it and only to what is recommended."""

    id: str
    type: AttributeType
    value: str
    recommended: tuple[str, ...] = ()
    modifiable: bool = False
    restricted: bool = False


@dataclass(frozen=True)
class Blueprint:
    """Something that can be spawned.

    ``body`` is the type of our world's catalogue that moves for it; empty for what has none (sensors, controllers, triggers).
    The box is CARLA's bounding box: its middle in the actor's frame and half its size. ``label`` is CARLA's CityObjectLabel.
    """

    uid: int
    id: str
    tags: str
    attributes: tuple[Attribute, ...]
    body: str = ""
    box_centre_m: Triple = (0.0, 0.0, 0.0)
    box_half_m: Triple = (0.0, 0.0, 0.0)
    label: int = 0

    def attribute(self, name: str) -> Attribute | None:
        """The attribute called ``name``."""
        return next((one for one in self.attributes if one.id == name), None)
