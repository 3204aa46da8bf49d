"""How much waits for a peer. Pure.

Each side counts the letters it has sent, and every letter that comes back says how many of them were read. So both know what is
under way, however the wire buffers it, and when a piece of shared memory may be used again.
"""

from collections import deque
from typing import NamedTuple

from samepath.sim.cluster.link.errors import MalformedError
from samepath.sim.cluster.link.limits import LinkLimits


class Piece(NamedTuple):
    """Shared memory that a letter refers to, from the first position to behind the last."""

    generation: int
    start: int
    end: int


class Account:
    """Letters sent to one peer and not known to be read, and letters of that peer not reported as read."""

    def __init__(self, limits: LinkLimits) -> None:
        self._limits = limits
        self._sizes: deque[int] = deque()
        self._pieces: deque[tuple[int, Piece]] = deque()
        self.waiting_bytes = 0
        self.sent = 0
        self.received = 0
        self._reported = 0
        self._unreported_bytes = 0

    @property
    def waiting(self) -> int:
        """Letters that were sent and not known to be read."""
        return len(self._sizes)

    def is_full(self) -> bool:
        """Is so much waiting that nothing more should be sent?"""
        return self.waiting >= self._limits.waiting_messages or self.waiting_bytes >= self._limits.waiting_bytes

    def post(self, size: int, piece: Piece | None) -> None:
        """A letter was sent; it also says how much was read here."""
        self.sent += 1
        self.waiting_bytes += size
        self._sizes.append(size)
        if piece is not None:
            self._pieces.append((self.sent, piece))
        self._reported, self._unreported_bytes = self.received, 0

    def settle(self, read: int) -> Piece | None:
        """The peer has read so many letters in all; returns the last piece of memory that this sets free."""
        before = self.sent - len(self._sizes)
        if not before <= read <= self.sent:
            raise MalformedError(f"{read} letters read of {self.sent}, after {before}")
        for _ in range(read - before):
            self.waiting_bytes -= self._sizes.popleft()
        freed = None
        while self._pieces and self._pieces[0][0] <= read:
            freed = self._pieces.popleft()[1]
        return freed

    def oldest(self, generation: int) -> int | None:
        """Where the oldest memory of a generation begins that this peer may still read."""
        for _, piece in self._pieces:
            if piece.generation == generation:
                return piece.start
        return None

    def take(self, size: int) -> None:
        """A letter of the peer has been read."""
        self.received += 1
        self._unreported_bytes += size

    def owes_report(self, memory_bytes: int) -> bool:
        """Has so much been read, and nothing sent since, that the peer should be told?"""
        if self.received - self._reported >= self._limits.report_messages:
            return True
        return self._unreported_bytes >= max(memory_bytes, self._limits.board_bytes) // 4
