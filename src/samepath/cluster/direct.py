"""Frames between hosts: those that go from node to node without a detour, and those that come to the main server packed.

A frame goes from the node that draws it to the node where it is listened to. The main server decides all the same: what goes
through it is the word on the bytes::

    drawing node  ── frame ──────────────────────────>  listener's node
         │ TickResult: "sensor 7 went to node 2"             │ FramesHeld: "I have sensor 7 of that tick"
         └───────────────> main server <────────────────────┘
                               │ StreamData, held: "give it to your listeners"
                               └──────────────────────────>  listener's node

Nothing of what a tick promises may depend on that second way. So a node that was sent a frame only holds it; it is given to
listeners when the main server says so, in the order of everything else that it says. And the result of a node counts as having
come only when all its frames are where it sent them (:class:`DirectFrames`): until then it is, to the coordinator, a node that
is late, with all that follows from it. A frame that does not arrive is asked for again, through the main server, and those two
nodes go on through the main server. A node that is taken out has held frames out in vain: nobody says the word on them.

On one host there is a shorter way, see ``link/memory.py``.
"""

from collections.abc import Callable, Container, Mapping, Set
from typing import Final, NamedTuple

from samepath.cluster import messages as m
from samepath.cluster.link.compression import PackedError, PackedPart
from samepath.cluster.link.wire import ArenaPart
from samepath.cluster.records import Member, NodeMessage, Payload
from samepath.simulator.sensors.cameras import CAMERA_KINDS
from samepath.simulator.server.rendering import RenderRequest

# How long frames may be under way between two nodes before the main server asks for them itself. A picture of 8 MB takes that
# long at 64 Mbit/s; the coordinator, which knows how long this node's frames took so far, may have become impatient before.
PATIENCE_S: Final = 1.0
# What nodes say that they hold is kept for ticks that may still be drawn, as the coordinator keeps their digests.
TICKS_KEPT: Final = 64


class _Waiting(NamedTuple):
    """A result that has come, and the frames of it, each by sensor and home, that have not."""

    event: NodeMessage
    frame: int
    sender: int
    missing: frozenset[tuple[int, int]]
    until_s: float


class LateFrames(NamedTuple):
    """Frames of a tick that a node has sent to others and that are not there: it is to send them to the main server."""

    peer: bytes
    frame: int
    homes: tuple[int, ...]


class DirectFrames:
    """Results that wait for their frames. No clock, no link: what has come goes in, what counts now comes out.

    ``sender`` is the number of a member's membership, which is never given out again: what one incarnation of a node has sent
    is not what another one says that it sent.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._waiting: list[_Waiting] = []
        self._held: set[tuple[int, int, int, int]] = set()  # sender, frame, sensor, home

    @property
    def held(self) -> int:
        """How many frames nodes have said that they hold."""
        return len(self._held)

    def on_result(self, member: Member, event: NodeMessage, homes: Container[int], now_s: float) -> list[NodeMessage]:
        """A result has come; it counts now, or waits. ``homes`` are the nodes that are there."""
        message = event.message
        if not isinstance(message, m.TickResult):
            return [event]
        wanted = {(result.sensor, home) for result in message.results for home in result.sent_to if home in homes}
        missing = frozenset(key for key in wanted if (member.membership, message.frame, *key) not in self._held)
        if not missing:
            return [event]
        # What lies in a node's memory can be read only now.
        bulk: tuple[Payload, ...] = tuple(part.read() if isinstance(part, ArenaPart) else part for part in event.bulk)
        kept = NodeMessage(event.peer, message, bulk)
        self._waiting.append(_Waiting(kept, message.frame, member.membership, missing, now_s + self._patience_s))
        return []

    def on_held(self, home: int, message: m.FramesHeld) -> list[NodeMessage]:
        """A node says what it holds; returns the results that count now."""
        self._held.update((message.sender, message.frame, sensor, home) for sensor in message.sensors)
        came = {(sensor, home) for sensor in message.sensors}
        return self._less(
            lambda waiting: came if (waiting.sender, waiting.frame) == (message.sender, message.frame) else frozenset()
        )

    def on_lost(self, member: Member) -> list[NodeMessage]:
        """A node is gone: nobody listens there any more, and what it has sent nobody waits for."""
        self._waiting = [waiting for waiting in self._waiting if waiting.event.peer != member.peer]
        self._held = {key for key in self._held if key[0] != member.membership and key[3] != member.number}
        return self._less(lambda waiting: {key for key in waiting.missing if key[1] == member.number})

    def _less(self, arrived: Callable[[_Waiting], Set[tuple[int, int]]]) -> list[NodeMessage]:
        """Take off what has arrived, or need not; returns the results that nothing is missing of."""
        left = [waiting._replace(missing=waiting.missing - arrived(waiting)) for waiting in self._waiting]
        self._waiting = [waiting for waiting in left if waiting.missing]
        return [waiting.event for waiting in left if not waiting.missing]

    def on_tick(self, frame: int) -> None:
        """Another tick: of those of long ago nothing is kept."""
        if self._held:
            self._held = {key for key in self._held if key[1] > frame - TICKS_KEPT}
        self._waiting = [waiting for waiting in self._waiting if waiting.frame > frame - TICKS_KEPT]

    def deadline_s(self) -> float | None:
        """When :meth:`overdue` is wanted at the latest."""
        return min((waiting.until_s for waiting in self._waiting), default=None)

    def overdue(self, now_s: float) -> list[LateFrames]:
        """What has been under way for too long; it is not waited for any more, whoever sent it is to send it again."""
        late = [waiting for waiting in self._waiting if now_s >= waiting.until_s]
        self._waiting = [waiting for waiting in self._waiting if now_s < waiting.until_s]
        return [
            LateFrames(waiting.event.peer, waiting.frame, tuple(sorted({home for _, home in waiting.missing})))
            for waiting in late
        ]


def endpoint_of(host: str, port: int) -> str:
    """Where a node's door is, as the link wants it."""
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def unpacked(
    message: m.FromNode,
    bulk: tuple[Payload, ...],
    owed: Mapping[int, RenderRequest],
    measurement_bytes: int,
    passes_on: Callable[[RenderRequest], bool],
) -> tuple[Payload, ...]:
    """The bulk of a node's message as the main server goes on with it; a PackedError for what nobody asked it for.

    A frame that only nodes on other hosts listen to is passed on as it came. One that is wanted here, or by a node of this host
    through shared memory, is unpacked, and so is what a sensor remembers. It is done before anything is decided about the
    frame: what cannot be unpacked, or is longer than what its sensor can send, was never drawn.

    ``owed`` are the requests of the message's tick that the node has not answered, by sensor; ``passes_on`` says whether a
    frame goes on to other hosts alone.
    """
    if not any(isinstance(part, PackedPart) for part in bulk):
        return bulk
    if not isinstance(message, m.TickResult):
        raise PackedError("a packed part in a message that brings no frames")
    parts, found = iter(bulk), list[Payload]()
    for result in message.results:
        request = owed.get(result.sensor)
        left_bytes = 0 if request is None else _most_bytes(request, measurement_bytes)
        for is_payload in [True] * result.has_payload + [False] * result.has_memory:
            part = next(parts, b"")
            if isinstance(part, PackedPart):
                if request is None:
                    part = b""  # nobody waits for it, so nobody unpacks it
                elif len(part) > left_bytes:
                    raise PackedError(f"{len(part)} bytes of sensor {result.sensor}, which sends {left_bytes} at most")
                elif not is_payload or not passes_on(request):
                    part = part.read()
            left_bytes -= len(part)
            found.append(part)
    return tuple(found)


def owed_by(member: Member | None, message: m.FromNode) -> dict[int, RenderRequest]:
    """The requests that a node has not answered, of the tick that a message is about."""
    if member is None or not isinstance(message, m.TickResult):
        return {}
    return {
        sensor: request
        for assignment in member.pending
        if assignment.frame == message.frame
        for sensor, request in assignment.requests.items()
    }


def _most_bytes(request: RenderRequest, measurement_bytes: int) -> int:
    """How long what comes of a request may be: a picture's size is known, of all else what the server allows at all."""
    return request.size_bytes if request.type_id in CAMERA_KINDS else max(request.size_bytes, 2 * measurement_bytes)
