"""Frames between nodes of different hosts: a door where a node is sent frames, and a way to every other node's door.

Both are the link itself (``main_link.py``, ``node_link.py``) with other words: keys, flow control, compression and bounds are
the same, and nothing is shared but the wire. What the main server has not named is not believed: a door lets in the keys of
neighbours only, and a frame counts only for the membership that this key belongs to.

Nothing here waits for anybody. A way that is not open (:meth:`Neighbours.reaches`) is not taken; frames on a way that breaks
are lost, and the main server, which hears from whoever should have got them, asks for them again.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Final, NamedTuple

from samepath.cluster.link import compression
from samepath.cluster.link.keys import Keys
from samepath.cluster.link.main_link import MainLink
from samepath.cluster.link.node_link import NodeLink
from samepath.cluster.link.wire import LinkLimits, MalformedError, Received, msgspec, read_parts
from samepath.core.errors import SamepathError

_POLL_S: Final = 0.5
# How soon it is tried again to reach a node.
_AGAIN_S: Final = 0.5
# How long frames of ticks in real time are held for the word that they are to be given out.
_TICKS_KEPT: Final = 64
_ITEMS_MOST: Final = 5000
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class NeighbourFrame(NamedTuple):
    """A frame for a node: what was measured, and what stands before it in the sensor's stream."""

    sensor: int
    stream: int
    head: bytes
    payload: bytes


class _Frames(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Frames of a tick: for each its sensor and its stream; the bulk has a head and a payload for each."""

    sender: _Number
    frame: _Number
    items: Annotated[tuple[tuple[_Number, _Number], ...], msgspec.Meta(max_length=_ITEMS_MOST)]


_decoder: Final[msgspec.msgpack.Decoder[_Frames]] = msgspec.msgpack.Decoder(_Frames)
Held = Callable[[int, int, tuple[int, ...]], None]


class Neighbours:
    """A node's door and its ways to others. ``held`` is told of frames that came: membership, tick, sensors. Any thread."""

    def __init__(
        self, host: str, keys: Keys, limits: LinkLimits, compress: compression.Mode, held: Held, log: Callable[[str], None]
    ) -> None:
        self._keys, self._limits, self._compress = keys, limits, compress
        self._tell, self._log = held, log
        self._lock = threading.Lock()
        self._members: dict[int, str] = {}  # keys by membership
        self._ways: dict[int, _Way] = {}  # by number
        self._numbers: dict[int, int] = {}  # memberships by number
        self._held: dict[tuple[int, int, int], bytes] = {}
        self._held_bytes = 0
        self._stopping = False
        self._door = MainLink(host, 0, keys, self._lets_in, shared_memory=False, limits=limits, log=log, compress=compress)
        self.port = self._door.port
        self._thread = threading.Thread(target=self._attend, name="samepath door", daemon=True)
        self._thread.start()

    def meet(self, number: int, membership: int, endpoint: str, public: str) -> None:
        """Frames may go to this node, and come from it."""
        self.part(number)
        with self._lock:
            self._members[membership] = public
            self._numbers[number] = membership
            self._ways[number] = _Way(partial(self._connected, endpoint, public), endpoint, self._limits, self._log)

    def _connected(self, endpoint: str, public: str) -> NodeLink:
        return NodeLink(
            endpoint, self._keys, public, shared_memory=False, limits=self._limits, log=self._log, compress=self._compress,
            other="node",
        )  # fmt: skip

    def part(self, number: int) -> None:
        """Nothing more goes there; what came from there is not given out any more."""
        with self._lock:
            way = self._ways.pop(number, None)
            self._members.pop(self._numbers.pop(number, -1), None)
        if way is not None:
            way.close()

    def reaches(self, number: int) -> bool:
        """Can frames be sent to this node now?"""
        with self._lock:
            way = self._ways.get(number)
        return way is not None and way.is_open

    def send(self, number: int, sender: int, frame: int, frames: Sequence[NeighbourFrame]) -> None:
        """Send frames of a tick to a node, as this membership; what cannot be sent is lost."""
        with self._lock:
            way = self._ways.get(number)
        if way is not None:
            message = _Frames(sender, frame, tuple((each.sensor, each.stream) for each in frames))
            way.put(msgspec.msgpack.encode(message), tuple(part for each in frames for part in (each.head, each.payload)))

    def take(self, sender: int, frame: int, stream: int) -> bytes | None:
        """What is held of a stream, once."""
        with self._lock:
            found = self._held.pop((sender, frame, stream), None)
            self._held_bytes -= 0 if found is None else len(found)
        return found

    def forget(self, frame: int, *, lossless: bool) -> None:
        """A tick has come: in lockstep nobody will ask for frames of those before it, in real time for those of long ago."""
        first = frame if lossless else frame - _TICKS_KEPT
        with self._lock:
            for key in [key for key in self._held if key[1] < first]:
                self._held_bytes -= len(self._held.pop(key))

    def close(self) -> None:
        """End; the threads end by themselves, a moment later."""
        self._stopping = True
        with self._lock:
            ways, self._ways = list(self._ways.values()), {}
        for way in ways:
            way.close()
        self._door.wake()
        self._thread.join(_POLL_S)

    def _lets_in(self, public: str) -> bool:
        with self._lock:
            return public in self._members.values()

    def _attend(self) -> None:
        door = self._door
        try:
            while not self._stopping:
                for event in door.poll(_POLL_S):
                    if isinstance(event, Received):
                        self._on_frames(event.peer, event.message, event.bulk)
        except SamepathError as error:
            self._log(f"no frames come from other nodes any more: {error}")
        finally:
            door.close()

    def _on_frames(self, peer: bytes, data: bytes, bulk: Sequence[bytes | compression.PackedPart]) -> None:
        # Packed parts are as long as what they hold: nothing is unpacked that could not be held.
        if sum(map(len, bulk)) > self._limits.waiting_bytes:
            return
        try:
            message = _decoder.decode(data)
            parts = read_parts(bulk)
        except (ValueError, MalformedError) as error:
            self._log(f"a node that sent what are no frames was cut off: {str(error)[:200]!a}")
            self._door.disconnect(peer)
            return
        with self._lock:
            is_known = self._members.get(message.sender) == self._door.key_of(peer)
            found = list(zip(message.items, parts[::2], parts[1::2], strict=False))
            size = sum(len(head) + len(payload) for _, head, payload in found)
            if not is_known or len(parts) != 2 * len(message.items) or self._held_bytes + size > self._limits.waiting_bytes:
                return
            for (_, stream), head, payload in found:
                before = self._held.pop((message.sender, message.frame, stream), b"")
                self._held[message.sender, message.frame, stream] = head + payload
                self._held_bytes += len(head) + len(payload) - len(before)
        self._tell(message.sender, message.frame, tuple(sensor for sensor, _ in message.items))


class _Way:
    """A connection to another node's door, with a thread of its own. Where it cannot be made or breaks it is made again.

    Two nodes hear of each other at different moments: the first knocks at a door that does not know its key yet.
    """

    def __init__(self, connect: Callable[[], NodeLink], endpoint: str, limits: LinkLimits, log: Callable[[str], None]) -> None:
        self._connect, self._endpoint, self._limits, self._log = connect, endpoint, limits, log
        self._queue: deque[tuple[bytes, tuple[bytes, ...]]] = deque()
        self._queued_bytes = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._link: NodeLink | None = None
        self._is_connected = False
        threading.Thread(target=self._run, name="samepath neighbour", daemon=True).start()

    @property
    def is_open(self) -> bool:
        """Is there a connection, and has what was sent before left?"""
        return self._is_connected and self._queued_bytes <= self._limits.waiting_bytes

    def put(self, message: bytes, bulk: tuple[bytes, ...]) -> None:
        with self._lock:
            self._queue.append((message, bulk))
            self._queued_bytes += sum(map(len, bulk))
            if self._link is not None:
                self._link.wake()

    def close(self) -> None:
        with self._lock:
            self._stopping.set()
            if self._link is not None:
                self._link.wake()

    def _run(self) -> None:
        is_said = False
        while not self._stopping.is_set():
            try:
                self._hold_open()
            except SamepathError as error:
                if not is_said and not self._stopping.is_set():
                    is_said = True
                    self._log(f"frames for the node at {self._endpoint} go through the main server for now: {error}")
            self._stopping.wait(_AGAIN_S)

    def _hold_open(self) -> None:
        link = self._connect()
        with self._lock:
            self._link = link
        try:
            while not self._stopping.is_set():
                link.poll(_POLL_S)
                self._is_connected = link.is_connected
                while (found := self._next()) is not None:
                    link.send(*found, pack=True)
        finally:
            self._is_connected = False
            with self._lock:
                self._link = None
                self._queue.clear()
                self._queued_bytes = 0
            link.close()

    def _next(self) -> tuple[bytes, tuple[bytes, ...]] | None:
        with self._lock:
            if not self._queue:
                return None
            found = self._queue.popleft()
            self._queued_bytes -= sum(map(len, found[1]))
            return found
