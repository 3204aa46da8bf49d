"""One measurement that is due, as plain data, and what came of it."""

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from samepath.sim.server.codec import WireError
from samepath.sim.server.viewing.packing import packed, unpacked
from samepath.sim.world.records import Pose, Vector

_AT_REST: Final = Vector()
_TIME: Final = struct.Struct("<d")
_KEPT: Final = 1024


@dataclass(frozen=True, slots=True)
class Order:
    """A picture, a scan or an echo that is due.

    ``attributes`` are the sensor's as text; ``head`` is what a client is sent before the measurement; ``ordinal`` and ``count``
    name the sensor's chance; ``age_s`` is the time since its first tick, ``delta_s`` the last step; ``own_mps`` how fast it
    moves. ``memory`` is what the sensor kept from the measurement before, if it is one that remembers.
    """

    sensor: int
    stream: int
    type_id: str
    attributes: tuple[tuple[str, str], ...]
    head: bytes
    pose: Pose
    was: Pose | None
    ordinal: int
    count: int
    age_s: float
    delta_s: float
    own_mps: Vector = _AT_REST
    memory: bytes = b""

    @property
    def frame(self) -> int:
        """The tick after which it is due, as its head says it."""
        return int.from_bytes(self.head[8:16], "little")

    @property
    def time_s(self) -> float:
        """The simulated time after that tick, as its head says it."""
        (found,) = _TIME.unpack_from(self.head, 16)
        return float(found)

    def plain(self) -> list[Any]:
        """The order as plain data."""
        was = None if self.was is None else list(self.was)
        return [
            self.sensor, self.stream, self.type_id, _written(self.attributes), self.head, list(self.pose), was,
            self.ordinal, self.count, self.age_s, self.delta_s, list(self.own_mps), self.memory,
        ]  # fmt: skip

    @classmethod
    def of(cls, data: list[Any]) -> "Order":
        """The order of :meth:`plain`."""
        try:
            sensor, stream, type_id, attributes, head, pose, was, ordinal, count, age_s, delta_s, own_mps, memory = data
            return cls(
                sensor, stream, type_id, _attributes(attributes), head, Pose(*pose),
                None if was is None else Pose(*was), ordinal, count, age_s, delta_s, Vector(*own_mps), memory,
            )  # fmt: skip
        except (TypeError, ValueError) as error:
            raise WireError(f"an order was wanted, but what came has another shape ({type(error).__name__})") from error


@dataclass(frozen=True, slots=True)
class Made:
    """What came of an order: the payload after the head, what the sensor is to remember, the time it took.

    ``trouble`` says why there is nothing; ``cost_s`` is 0 where it was not measured by itself.
    """

    sensor: int
    payload: bytes
    memory: bytes = b""
    trouble: str = ""
    cost_s: float = 0.0


@lru_cache(_KEPT)
def _written(attributes: tuple[tuple[str, str], ...]) -> bytes:
    """Attributes as bytes: they are the same in every tick of a sensor, so that they need be written only once."""
    return packed(attributes)


@lru_cache(_KEPT)
def _attributes(data: bytes) -> tuple[tuple[str, str], ...]:
    """The attributes of :func:`_written`."""
    return tuple((name, value) for name, value in unpacked(data, "attributes"))


def pack_orders(orders: tuple[Order, ...]) -> bytes:
    """Orders as bytes."""
    return packed([one.plain() for one in orders])


def unpack_orders(data: bytes | memoryview) -> tuple[Order, ...]:
    """The orders of :func:`pack_orders`."""
    found = unpacked(data, "orders")
    if not isinstance(found, list):
        raise WireError("a list of orders was wanted")
    return tuple(Order.of(one) for one in found)
