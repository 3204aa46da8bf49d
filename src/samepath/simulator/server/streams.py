"""The streaming port: who listens to which stream, and what waits for listeners that are on their way.

A client opens one connection per stream and says the stream's id; nothing else ever comes from it. In synchronous mode every
message is delivered, because a script that ticks waits for each sensor's frame, up to a bound after which a listener that does
not read is cut off: memory is the server's, and one client must not take it from the others. In asynchronous mode a listener
that still has an older message to fetch misses the newer ones, as in CARLA.

A client first asks for a stream's token (a call) and then connects here: what is sent in between would be lost, and a script
that ticks at once would wait for its first frame for ever. So messages are kept from the call on, for each client that asked.
A listener says nothing but the stream's id, so the first to connect may be another client than the one that
asked. What was kept is therefore kept for a moment more (``early_again_s``), and every listener that connects gets it.
Both, what is kept for a listener on its way and what a slow one has not fetched, count in the :class:`MemoryBudget` of all.

:class:`StreamHub` and :class:`StreamConnection` live in the event loop. :class:`Subscriptions` is the episode's own record of
who listens, kept by calls and by what the hub reports through the inbox; it lives in the episode's thread, so that what is
measured depends on the order of calls, not on sockets.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.carla.streams import WORLD_STREAM, framed, length_of
from samepath.simulator.server.dialects import Dialect
from samepath.simulator.server.memory import GRAIN_BYTES, MemoryBudget

MAIN_SERVER: Final = 0
"""The home of clients that are connected to this server itself; those of a node have the node's number."""
_ID_BYTES: Final = 4
# After how long a client that may be too old is looked at again.
_LOOK_AGAIN_S: Final = 1.0
# After a listener has come, messages are kept on up to this share of ``early_bytes``.
_SERVED_SHARE: Final = 8
# From this size on copying a message costs more than one more call of the system.
_LARGE_BYTES: Final = 1 << 18


class StreamHub:
    """All streams of a server or a node."""

    def __init__(
        self,
        limits: ServerLimits,
        unheard: Callable[[int], None],
        log: Callable[[str], None],
        memory: MemoryBudget | None = None,
        dialect: Dialect | None = None,
    ) -> None:
        self.limits = limits
        self.dialect = dialect
        self.is_too_old: Callable[[str], bool] = lambda _host: False
        """Would a state end the client that connects from there? Set by whoever sees its calls."""
        self.log = log
        self.memory = memory or MemoryBudget(limits.memory_bytes, log)
        self._unheard = unheard
        self._listeners: dict[int, set[StreamConnection]] = {}
        self._early: dict[int, _EarlyMessages] = {}
        self._latest_state = b""
        self._count = 0

    def expect(self, stream_id: int) -> None:
        """Somebody asked for this stream: keep its messages until they connect, whoever else connects before."""
        if stream_id == WORLD_STREAM:
            return
        if stream_id not in self._early:
            self._early[stream_id] = _EarlyMessages(stream_id, self.limits, self._give_up)
            self.memory.join(self._early[stream_id])
        self._early[stream_id].expect()

    def _give_up(self, stream_id: int) -> None:
        """Nobody came in time for what was kept."""
        self.forget(stream_id)
        if not self._listeners.get(stream_id):
            self._unheard(stream_id)

    def prepare(self, payload: bytes) -> None:
        """Keep a state for those who will connect, without a word to those who are connected.

        A client that loads a map drops its old stream as soon as the answer comes, and crashes if a message comes with it.
        """
        self._latest_state = self._framed(payload)

    def _framed(self, payload: bytes, head: bytes = b"") -> bytes:
        """A message as it is sent; empty where the version of the protocol has no such message."""
        if self.dialect is not None:
            payload, head = self.dialect.stream(head + payload if head else payload), b""
        return framed(payload, head) if payload else b""

    def send(self, stream_id: int, payload: bytes, *, lossless: bool, head: bytes = b"") -> None:
        """Send a message, in one piece or with its head apart, to all who listen; keep it for those on their way."""
        if len(payload) >= _LARGE_BYTES and self.dialect is None and stream_id not in self._early:
            # Its length goes ahead by itself: a picture of 8 MB is not copied to put four bytes before it.
            before = length_of(payload, head) + head
            for listener in tuple(self._listeners.get(stream_id, ())):
                listener.send(payload, lossless=lossless, before=before)
            return
        message = self._framed(payload, head)
        if not message:
            return
        if stream_id == WORLD_STREAM:
            self._latest_state = message
        for listener in tuple(self._listeners.get(stream_id, ())):
            listener.send(message, lossless=lossless)
        early = self._early.get(stream_id)
        if early is not None:
            early.add(message)
            if early.is_expected:
                self.memory.update(early, early.hold_bytes())
            else:
                self._give_up(stream_id)

    def is_heard(self, stream_id: int) -> bool:
        """Does somebody listen, or is somebody on their way?"""
        return stream_id in self._listeners or stream_id in self._early

    def forget(self, stream_id: int) -> None:
        """The sensor is gone. Its listeners stay connected, in silence: they would only connect again."""
        early = self._early.pop(stream_id, None)
        if early is not None:
            self.memory.leave(early)

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
        if stream_id == WORLD_STREAM and self.is_too_old(listener.host):
            # It is told so at its next call. If it was another client that is just on its way in, this one waits a moment.
            asyncio.get_running_loop().call_later(_LOOK_AGAIN_S, self._join_later, listener)
            return
        self._join(stream_id, listener)

    def _join_later(self, listener: "StreamConnection") -> None:
        if listener.is_connected:
            self.join(WORLD_STREAM, listener)

    def _join(self, stream_id: int, listener: "StreamConnection") -> None:
        self._listeners.setdefault(stream_id, set()).add(listener)
        if stream_id == WORLD_STREAM:
            if self._latest_state:
                listener.send(self._latest_state, lossless=True)
            return
        early = self._early.get(stream_id)
        if early is not None:
            messages, served = early.fetch()
            for message in messages:
                listener.send(message, lossless=True)
            if served is not None:
                again_s = self.limits.early_again_s
                asyncio.get_running_loop().call_later(again_s, self._release, stream_id, early, served)

    def _release(self, stream_id: int, early: "_EarlyMessages", served: int) -> None:
        """Keep no messages any more for an ask to which a listener came some time ago."""
        early.release(served)
        if self._early.get(stream_id) is not early:
            return
        if early.is_expected:
            self.memory.update(early, early.hold_bytes())
        else:
            self._give_up(stream_id)

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


class _EarlyMessages:
    """What was sent on a stream since somebody asked for it, kept once however many are on their way."""

    def __init__(self, stream_id: int, limits: ServerLimits, give_up: Callable[[int], None]) -> None:
        self.name = f"who asked for stream {stream_id} and has not connected"
        self.held_bytes = 0
        self._stream_id = stream_id
        self._limits = limits
        self._give_up = give_up
        self._messages: deque[bytes] = deque()
        self._size_bytes = 0
        self._dropped = 0  # messages before those that are kept
        # How many messages there had been when each of those asked who are on their way; the first to ask is the first to come.
        # Both are in ascending order.
        self._asked: deque[int] = deque(maxlen=limits.subscriptions)
        # The same for asks to which a listener came a moment ago, by number: it may not be the client that asked.
        self._served: dict[int, int] = {}
        self._served_count = 0
        self._added_bytes = 0  # since a listener came last

    @property
    def is_expected(self) -> bool:
        return bool(self._asked or self._served)

    def expect(self) -> None:
        self._asked.append(self._dropped + len(self._messages))
        self._trim()  # where too many are on their way the first of them was forgotten

    def add(self, message: bytes) -> None:
        """Keep a message; who has not come for too long is not waited for any more."""
        self._messages.append(message)
        self._size_bytes += len(message)
        self._added_bytes += len(message)
        if self._is_full or self._added_bytes > self._limits.early_bytes // _SERVED_SHARE:
            self._served.clear()
            self._trim()
        while self._asked and self._is_full:
            self._asked.popleft()
            self._trim()

    @property
    def _is_full(self) -> bool:
        return len(self._messages) > self._limits.early_messages or self._size_bytes > self._limits.early_bytes

    def fetch(self) -> tuple[list[bytes], int | None]:
        """Return what was sent since the first client asked that waits, and a number for :meth:`release`.

        A listener that comes when no client waits gets what the last one got; there is no number then.
        """
        if not self._asked:
            first = next(iter(self._served.values()), self._dropped + len(self._messages))
            return list(self._messages)[first - self._dropped :], None
        first = self._asked.popleft()
        self._served_count += 1
        self._served[self._served_count] = first
        self._added_bytes = 0
        return list(self._messages)[first - self._dropped :], self._served_count

    def release(self, served: int) -> None:
        """Keep nothing more for an ask to which a listener came."""
        self._served.pop(served, None)
        self._trim()

    def _trim(self) -> None:
        first = min(next(iter(asks), self._dropped + len(self._messages)) for asks in (self._asked, self._served.values()))
        while self._dropped < first:
            self._size_bytes -= len(self._messages.popleft())
            self._dropped += 1

    def hold_bytes(self) -> int:
        return self._size_bytes

    def cut_off(self) -> None:
        """The memory is needed elsewhere."""
        self._give_up(self._stream_id)


class StreamConnection(asyncio.Protocol):
    """One connection of the streaming port."""

    def __init__(self, hub: StreamHub) -> None:
        self._hub = hub
        self._hello = bytearray()
        self._stream_id: int | None = None
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._admitted = False
        self.name = "a listener"
        self.host = ""
        self.address = ("", 0)
        self.held_bytes = 0

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
        if self._hub.memory.is_spent:
            self._hub.log("a stream was refused: the memory for clients is spent")
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
        peer = self._transport.get_extra_info("peername") or ("?", 0)
        self.host = str(peer[0])
        self.address = (self.host, int(peer[1]))
        self.name = f"{peer[0]}:{peer[1]}, a listener of stream {self._stream_id},"
        self._hub.memory.join(self)
        self._hub.join(self._stream_id, self)

    def connection_lost(self, _: Exception | None) -> None:
        """Leave the stream."""
        self._transport = None
        if self._deadline is not None:
            self._deadline.cancel()
        if self._admitted:
            self._hub.leave()
        if self._stream_id is not None:
            self._hub.memory.leave(self)
            self._hub.part(self._stream_id, self)

    def send(self, message: bytes, *, lossless: bool, before: bytes = b"") -> None:
        """Send a message, with what stands ``before`` it, or leave it out, or cut off a listener that does not read."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        waiting = transport.get_write_buffer_size()
        # In real time the newest is what counts, and who is slow would only fall further behind.
        if not lossless and waiting:
            return
        # A single message may be larger than the bound, or its listener could never have it.
        size_bytes = len(before) + len(message)
        if waiting + size_bytes > max(self._hub.limits.backlog_bytes, size_bytes):
            self._hub.log(f"a listener of stream {self._stream_id} was cut off: it had {waiting} bytes to fetch")
            transport.abort()
            return
        if before:
            transport.write(before)
            # Seen, not sliced: of what does not fit into the socket now, no second copy is made.
            transport.write(memoryview(message))
        else:
            transport.write(message)
        unsent_bytes = transport.get_write_buffer_size()
        if not -GRAIN_BYTES < unsent_bytes - self.held_bytes < GRAIN_BYTES:
            self._hub.memory.update(self, unsent_bytes)

    @property
    def is_connected(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def hold_bytes(self) -> int:
        """What was written and not fetched."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def cut_off(self) -> None:
        """The memory is needed elsewhere."""
        self.abort()

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
