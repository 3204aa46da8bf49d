"""A client of our own, without CARLA's: calls return a ticket at once, and are never made twice.

What a user sees is :func:`connect` and :class:`TicketClient`; how calls get to a server, over whatever connection can be had,
is in ``connection.py``.
"""

import secrets
from collections.abc import Callable, Iterable
from concurrent.futures import wait as wait_for_futures
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgpack

from samepath.core.clock import SYSTEM_CLOCK, Clock
from samepath.core.errors import InputError
from samepath.simulator.carla import records as r
from samepath.simulator.carla.codec import Reader, WireError, array_of, came, flag, struct_of, text, u32, u64
from samepath.simulator.carla.connection import (
    CallFailedError,
    RetryPolicy,
    Ticket,
    TicketError,
    TicketLostError,
    TicketTimeoutError,
    TicketTransport,
    address_of,
)
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.carla.tickets import client_id as read_client_id
from samepath.simulator.carla.tickets import packed

T = TypeVar("T")

_HEAD_BYTES: Final = 4096  # of a message, beside the arguments
_RIGID: Final = 0
_ALL_LAYERS: Final = 0xFFFF

_actor: Final[Reader[r.Actor]] = struct_of(r.Actor, u32, u32, r.description, r.bounding_box, packed, packed)
_map: Final[Reader[tuple[r.Transform, ...]]] = struct_of(lambda _, points: points, text, array_of(r.transform))


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever the method answers
    return value


def _nothing(value: object) -> None:
    if value is not None:
        raise WireError(f"nothing was wanted, but {came(value)} came")


def connect(
    *addresses: str, client_id: str | None = None, retry: RetryPolicy | None = None, clock: Clock = SYSTEM_CLOCK
) -> "TicketClient":
    """Connect to a server, or to any of the nodes of a cluster.

    Further addresses are those to turn to when the first cannot be reached. ``client_id``, 32 hexadecimal digits, is made
    by chance unless it is given; one id is one client's, once.
    """
    if not addresses:
        raise InputError("connect: an address was wanted, such as 127.0.0.1:2000, but none came")
    try:
        client = secrets.token_hex(16) if client_id is None else read_client_id(client_id)
    except WireError:
        raise InputError(f"client_id: 32 hexadecimal digits were wanted, but {client_id!r} came") from None
    transport = TicketTransport(client, tuple(address_of(address) for address in addresses), retry or RetryPolicy(), clock)
    transport.start()
    return TicketClient(client, transport)


class TicketClient:
    """A world elsewhere. Every call returns a ticket at once; calls are done in the order in which they were made."""

    def __init__(self, client: str, transport: TicketTransport) -> None:
        self.client = client
        self._transport = transport

    def call(self, method: str, *arguments: object) -> Ticket[Any]:
        """Call any method of the server by its name; arguments and result are plain MessagePack values."""
        return self._call(method, arguments, _plain)

    def _call(self, method: str, arguments: tuple[object, ...], read: Callable[[Any], T]) -> Ticket[T]:
        try:
            content: bytes = msgpack.packb(((False,), *arguments), use_bin_type=True)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{method}: plain values were wanted as arguments, but they cannot be packed: {error}") from None
        most = ServerLimits().message_bytes - _HEAD_BYTES
        if len(content) > most:
            raise InputError(f"{method}: arguments of at most {most} bytes were wanted, but {len(content)} came")
        return self._transport.submit(method, content, read)

    def spawn(self, blueprint: str, at: r.Transform, parent: int | None = None, **attributes: object) -> Ticket[r.Actor]:
        """Put an actor into the world; with a parent ``at`` is relative to it."""
        description = _described(blueprint, attributes)
        if parent is None:
            return self._call("spawn_actor", (description, at), _actor)
        return self._call("spawn_actor_with_parent", (description, at, parent, _RIGID, ""), _actor)

    def destroy(self, actor_id: int) -> Ticket[bool]:
        """Take an actor out of the world."""
        return self._call("destroy_actor", (actor_id,), flag)

    def control(self, actor_id: int, control: r.VehicleControl) -> Ticket[None]:
        """Take a vehicle's pedals."""
        return self._call("apply_control_to_vehicle", (actor_id, control), _nothing)

    def last_control(self, actor_id: int) -> Ticket[r.VehicleControl]:
        """A vehicle's pedals as they were last set."""
        return self._call("samepath_control", (actor_id,), r.vehicle_control)

    def walk(self, actor_id: int, control: r.WalkerControl) -> Ticket[None]:
        """Let a walker walk."""
        return self._call("apply_control_to_walker", (actor_id, control), _nothing)

    def tick(self) -> Ticket[int]:
        """Tick; gives the frame. In real time ticks come by themselves."""
        return self._call("tick_cue", (), u64)

    def settings(self) -> Ticket[r.Settings]:
        """The settings of the episode."""
        return self._call("get_episode_settings", (), r.settings)

    def apply_settings(self, settings: r.Settings) -> Ticket[int]:
        """Change them from the next tick on; gives the frame."""
        return self._call("set_episode_settings", (r.write_settings(settings),), u64)

    def spawn_points(self) -> Ticket[tuple[r.Transform, ...]]:
        """Where the map recommends to spawn vehicles."""
        return self._call("get_map_info", (), _map)

    def load(self, map_name: str = "", *, reset_settings: bool = True) -> Ticket[None]:
        """Load a map; without a name the same one again."""
        return self._call("load_new_episode", (map_name, reset_settings, _ALL_LAYERS), _nothing)

    def wait(self, tickets: Iterable[Ticket[Any]], timeout_s: float | None = None) -> None:
        """Wait until none of these tickets is pending; it does not matter whether they failed."""
        given = list(tickets)
        pending = len(wait_for_futures([ticket.future for ticket in given], timeout_s).not_done)
        if pending:
            raise TicketTimeoutError(f"{pending} of {len(given)} tickets are still pending after {timeout_s:g} s")

    def close(self, wait_s: float = 10.0) -> None:
        """Wait a while for what is pending, then hang up; what is pending then is lost."""
        self._transport.settled(wait_s)
        self._transport.end("the connection was closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        self.close() if kind is None else self.close(0.0)


def _described(blueprint_id: str, attributes: dict[str, object]) -> r.Description:
    """A description as the blueprint library would make it; an unknown name is refused with the nearest known one."""
    from samepath.core.errors import unknown
    from samepath.simulator.carla import blueprints

    blueprint = blueprints.find(blueprint_id)
    known = {attribute.id: attribute for attribute in blueprint.attributes}
    for name in attributes:
        if name not in known:
            raise unknown(f"attribute of {blueprint_id}", name, known)
    values = tuple(r.AttributeValue(name, int(known[name].type), _written(value)) for name, value in attributes.items())
    return r.Description(blueprint.uid, blueprint.id, values)


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


__all__ = [
    "CallFailedError",
    "RetryPolicy",
    "Ticket",
    "TicketClient",
    "TicketError",
    "TicketLostError",
    "TicketTimeoutError",
    "connect",
]
