"""What a sensor is given in a tick, and what it gives back."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from samepath.sim.server.errors import CallError
from samepath.sim.server.outlook import Outlook
from samepath.sim.server.records import Actor, Description
from samepath.sim.server.scene import Scene
from samepath.sim.world.records import Collision, Pose
from samepath.sim.world.world import World


@dataclass(frozen=True)
class Sight:
    """What a sensor can see: the world after a tick, itself, whom it is attached to, and the body that carries it."""

    world: World
    scene: Scene
    outlook: Outlook
    collisions: tuple[Collision, ...]
    gravity_mps2: float
    delta_s: float
    this: Actor
    parent: Actor | None
    pose: Pose
    bearer: int | None
    actor: Callable[[int], Actor]
    scenery: Callable[[str], Actor]


class Instrument(Protocol):
    """A sensor's inside."""

    def feel(self, sight: Sight) -> None:
        """Follow the world through a tick, whether or not anybody listens."""
        ...

    def measure(self, sight: Sight) -> list[bytes]:
        """Return the payloads of a tick in which a measurement is due: one, or one per event."""
        ...

    def state(self) -> list[Any]:
        """Everything the future depends on, as plain data."""
        ...

    def restore(self, data: list[Any]) -> None:
        """Take up what :meth:`state` gave."""
        ...


class Silent:
    """A sensor that never sends anything."""

    def __init__(self, description: Description, ordinal: int) -> None:
        pass

    def feel(self, sight: Sight) -> None:
        """Feel nothing."""

    def measure(self, sight: Sight) -> list[bytes]:
        """Say nothing."""
        return []

    def state(self) -> list[Any]:
        """Nothing is carried from tick to tick."""
        return []

    def restore(self, data: list[Any]) -> None:
        """Take up nothing."""


def given(description: Description) -> dict[str, object]:
    """A sensor's attributes by name."""
    return {one.id: one.value for one in description.attributes}


def real(description: Description, name: str, default: float) -> float:
    """Read a number from an actor's attributes."""
    text = description.get(name, str(default))
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) <= 1e9:
        raise CallError(f"{description.id}: {name}: a number was wanted, but {text[:40]!r} came")
    return value
