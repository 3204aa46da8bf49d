"""The streaming port: who listens to which stream, and what waits for listeners that are on their way.

A client opens one connection per stream and says the stream's id; nothing else ever comes from it. In synchronous mode every
message is delivered, because a script that ticks waits for each sensor's frame, up to a bound after which a listener that does
not read is cut off: memory is the server's, and one client must not take it from the others. In asynchronous mode a listener
that still has an older message to fetch misses the newer ones, as in CARLA.

A client first asks for a stream's token (a call) and then connects here: what is sent in between would be lost, and a script
that ticks at once would wait for its first frame for ever. So messages are kept from the call on, for each client that asked.

:class:`StreamHub` and :class:`StreamConnection` live in the event loop. :class:`Subscriptions` is the episode's own record of
who listens, kept by calls and by what the hub reports through the inbox; it lives in the episode's thread, so that what is
measured depends on the order of calls, not on sockets.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.carla.streams import WORLD_STREAM, framed

MAIN_SERVER: Final = 0
"""The home of clients that are connected to this server itself; those of a node have the node's number."""
_ID_BYTES: Final = 4


class StreamHub:
    """All streams of a server or a node."""

    def __init__(self, limits: ServerLimits, unheard: Callable[[int], None], log: Callable[[str], None]) -> None:
        self.limits = limits
        self.log = log
        self._unheard = unheard
        self._listeners: dict[int, set[StreamConnection]] = {}
        # For everybody who is on their way to a stream, in the order in which they asked, what was sent since.
        self._early: dict[int, deque[deque[bytes]]] = {}
        self._latest_state = b""
        self._count = 0

    def expect(self, stream_id: int) -> None:
        """Somebody asked for this stream: keep its messages until they connect, whoever else connects before."""
        if stream_id != WORLD_STREAM:
            coming = self._early.setdefault(stream_id, deque(maxlen=self.limits.subscriptions))
            coming.append(deque())

    def prepare(self, payload: bytes) -> None:
        """Keep a state for those who will connect, without a word to those who are connected.

        A client that loads a map drops its old stream as soon as the answer comes, and crashes if a message comes with it.
        """
        self._latest_state = framed(payload)

    def send(self, stream_id: int, payload: bytes, *, lossless: bool) -> None:
        """Send a message to all who listen; keep it for those on their way."""
        message = framed(payload)
        if stream_id == WORLD_STREAM:
            self._latest_state = message
        for listener in tuple(self._listeners.get(stream_id, ())):
            listener.send(message, lossless=lossless)
        coming = self._early.get(stream_id)
        if coming is None:
            return
        for early in coming:
            early.append(message)
        while coming and self._is_too_much(coming[0]):
            coming.popleft()
        if not coming:
            del self._early[stream_id]
            if not self._listeners.get(stream_id):
                self._unheard(stream_id)

    def _is_too_much(self, early: deque[bytes]) -> bool:
        return len(early) > self.limits.early_messages or sum(map(len, early)) > self.limits.early_bytes

    def is_heard(self, stream_id: int) -> bool:
        """Does somebody listen, or is somebody on their way?"""
        return stream_id in self._listeners or stream_id in self._early

    def forget(self, stream_id: int) -> None:
        """The sensor is gone. Its listeners stay connected, in silence: they would only connect again."""
        self._early.pop(stream_id, None)

    def admit(self) -> bool:
        """Is there room for one more connection?"""
        if self._count >= self.limits.subscriptions:
            return False
        self._count += 1
        return True

    def leave(self) -> None:
        """One connection fewer."""
        self._count -= 1

    def join(self, stream_id: int, listener: "StreamConnection") -> None:
        """A listener has said what it wants."""
        self._listeners.setdefault(stream_id, set()).add(listener)
        if stream_id == WORLD_STREAM:
            if self._latest_state:
                listener.send(self._latest_state, lossless=True)
            return
        coming = self._early.get(stream_id)
        if coming is not None:
            for message in coming.popleft():
                listener.send(message, lossless=True)
            if not coming:
                del self._early[stream_id]

    def part(self, stream_id: int, listener: "StreamConnection") -> None:
        """A listener has gone."""
        listeners = self._listeners.get(stream_id, set())
        listeners.discard(listener)
        if not listeners:
            self._listeners.pop(stream_id, None)
            if stream_id not in self._early:
                self._unheard(stream_id)

    def close(self) -> None:
        """Disconnect everybody."""
        for listeners in tuple(self._listeners.values()):
            for listener in tuple(listeners):
                listener.abort()


class StreamConnection(asyncio.Protocol):
    """One connection of the streaming port."""

    def __init__(self, hub: StreamHub) -> None:
        self._hub = hub
        self._hello = bytearray()
        self._stream_id: int | None = None
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._admitted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the id of the stream."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("a stream transport was wanted")
        self._transport = transport
        self._admitted = self._hub.admit()
        if not self._admitted:
            self._hub.log(f"a stream was refused: {self._hub.limits.subscriptions} are listened to already")
            transport.abort()
            return
        self._deadline = asyncio.get_running_loop().call_later(self._hub.limits.idle_hello_s, self.abort)

    def data_received(self, data: bytes) -> None:
        """Take the id; there is nothing to read after it."""
        if self._stream_id is not None or self._transport is None:
            return
        self._hello += data[:_ID_BYTES]
        if len(self._hello) < _ID_BYTES:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self._stream_id = int.from_bytes(self._hello[:_ID_BYTES], "little")
        self._hub.join(self._stream_id, self)

    def connection_lost(self, _: Exception | None) -> None:
        """Leave the stream."""
        self._transport = None
        if self._deadline is not None:
            self._deadline.cancel()
        if self._admitted:
            self._hub.leave()
        if self._stream_id is not None:
            self._hub.part(self._stream_id, self)

    def send(self, message: bytes, *, lossless: bool) -> None:
        """Send a message, or leave it out, or cut off a listener that does not read."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        waiting = transport.get_write_buffer_size()
        # In real time the newest is what counts, and who is slow would only fall further behind.
        if not lossless and waiting:
            return
        # A single message may be larger than the bound, or its listener could never have it.
        if waiting + len(message) > max(self._hub.limits.backlog_bytes, len(message)):
            self._hub.log(f"a listener of stream {self._stream_id} was cut off: it had {waiting} bytes to fetch")
            transport.abort()
            return
        transport.write(message)

    def abort(self) -> None:
        """Disconnect."""
        if self._transport is not None:
            self._transport.abort()


class Subscriptions:
    """For every stream the homes of its listeners, by the number of the node they are connected to."""

    def __init__(self) -> None:
        self._homes: dict[int, set[int]] = {}

    def __contains__(self, stream_id: int) -> bool:
        return stream_id in self._homes

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._homes))

    def add(self, stream_id: int, home: int = MAIN_SERVER) -> None:
        """Somebody will listen."""
        self._homes.setdefault(stream_id, set()).add(home)

    def discard(self, stream_id: int, home: int = MAIN_SERVER) -> None:
        """Nobody listens there any more."""
        homes = self._homes.get(stream_id)
        if homes is not None:
            homes.discard(home)
            if not homes:
                del self._homes[stream_id]

    def end(self, stream_id: int) -> None:
        """The stream is over."""
        self._homes.pop(stream_id, None)

    def leave(self, home: int) -> None:
        """A node is gone, and its clients with it."""
        for stream_id in list(self._homes):
            self.discard(stream_id, home)

    def homes(self, stream_id: int) -> tuple[int, ...]:
        """Where the listeners of a stream are."""
        return tuple(sorted(self._homes.get(stream_id, ())))
