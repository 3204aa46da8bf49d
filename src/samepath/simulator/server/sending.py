"""From the episode's thread to a client's socket, with a limit on what waits at each step.

A transport of asyncio copies everything that does not fit into its socket into a buffer, which grows
and shrinks by copying too. For many clients with many megabytes each that takes twice the memory. So a
transport gets little at a time, and the rest waits here as it was made.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

# A transport gets pieces of this size, and no further one while it has more than this to send.
_PIECE_BYTES: Final = 1 << 17


class SendQueue:
    """The answers to one client that its transport has not taken. Lives in the event loop."""

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport
        self._waiting: deque[memoryview] = deque()
        self._waiting_bytes = 0
        self._is_paused = False
        transport.set_write_buffer_limits(high=_PIECE_BYTES)

    @property
    def size_bytes(self) -> int:
        """What the client has not fetched."""
        return self._waiting_bytes + self._transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Send after all that waits."""
        if not self._waiting and not self._is_paused and len(data) <= _PIECE_BYTES:
            self._transport.write(data)
            return
        self._waiting.append(memoryview(data))
        self._waiting_bytes += len(data)
        self._pump()

    def pause(self) -> None:
        """Give the transport nothing more."""
        self._is_paused = True

    def resume(self) -> None:
        """Give the transport what waits."""
        self._is_paused = False
        self._pump()

    def clear(self) -> None:
        """Drop what waits."""
        self._waiting.clear()
        self._waiting_bytes = 0

    def _pump(self) -> None:
        while self._waiting and not self._is_paused and not self._transport.is_closing():
            piece = self._waiting[0][:_PIECE_BYTES]
            if len(piece) == len(self._waiting[0]):
                self._waiting.popleft()
            else:
                self._waiting[0] = self._waiting[0][_PIECE_BYTES:]
            self._waiting_bytes -= len(piece)
            self._transport.write(piece)  # may pause this queue before it returns


class HandOver:
    """Lets the episode's thread wait while the event loop has not taken what was handed over before.

    An episode makes answers faster than the event loop sends them. Without a limit all calls that clients
    have waiting are answered at the same time, and what is on its way counts for no client.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._is_open = True
        self._taken = threading.Condition()

    def put(self, size_bytes: int, hand_over: Callable[[], object]) -> None:
        """Wait until there is room, then hand over; one thing may be larger than the limit."""
        with self._taken:
            self._taken.wait_for(lambda: self._size_bytes <= self._max_bytes or not self._is_open)
            self._size_bytes += size_bytes
        hand_over()

    def take(self, size_bytes: int) -> None:
        """Make room again."""
        with self._taken:
            self._size_bytes -= size_bytes
            self._taken.notify_all()

    def close(self) -> None:
        """Let nothing wait any more."""
        with self._taken:
            self._is_open = False
            self._taken.notify_all()
