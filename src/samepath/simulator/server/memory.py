"""What a server holds in memory for its clients, one number for all of them, and who must go when that is too much.

Every single thing a client can leave behind is bounded (:class:`ServerLimits`), but there are many clients, and bounds of many
megabytes each add up to more than a machine has. So everything that waits because a client is slow is counted here: messages
that have not come whole, messages and calls that wait to be done, answers that are not fetched, messages of streams whose
listeners are slow or have not connected yet. When all of it together is beyond the budget, whoever holds most is cut off,
among equals whoever came first, until the rest fits; everybody else goes on.

Counting must cost nothing next to a call. A holder says what it holds when that has changed by more than a few pages; what its
socket has taken since then it need not say. The sum is therefore never too small (but for those pages), and may be too large:
before anybody is cut off, all are counted anew. Lives in the event loop.
"""

from collections.abc import Callable
from typing import Final, Protocol

_MIB: Final = 1 << 20
GRAIN_BYTES: Final = 1 << 14
"""Changes smaller than this are not told: a call with its answer changes nothing in the sum."""
_WORTH_BYTES: Final = _MIB
_RESERVED_BYTES: Final = 96 * _MIB


class Holder(Protocol):
    """Something of one client that takes memory: a connection, or the messages of a stream that wait for their listener."""

    name: str
    held_bytes: int  # as they are counted in the budget; written by the budget alone

    def hold_bytes(self) -> int:
        """What it holds right now."""
        ...

    def cut_off(self) -> None:
        """Let go of all that can be let go of."""
        ...


def process_budget(memory_bytes: int, log: Callable[[str], None]) -> "MemoryBudget":
    """The budget of a server or a node, of all the memory that its clients may take.

    Answers between two threads, a message that is being read and freed memory that the system has not
    got back yet take up to 80 MB that no client is counted for.
    """
    return MemoryBudget(memory_bytes, log, min(_RESERVED_BYTES, memory_bytes // 3))


class MemoryBudget:
    """The sum over all holders. ``log`` takes a line for each that is cut off.

    ``reserved_bytes`` are kept for memory that belongs to no client yet or any more.
    """

    def __init__(self, most_bytes: int, log: Callable[[str], None], reserved_bytes: int = 0) -> None:
        self.most_bytes = most_bytes - reserved_bytes
        self._reserved_bytes = reserved_bytes
        self.held_bytes = 0
        self._log = log
        self._holders: dict[Holder, bool] = {}  # in the order in which they came; False: it was cut off

    def join(self, holder: Holder) -> None:
        self._holders[holder] = True

    def leave(self, holder: Holder) -> None:
        """It is gone, and all that it held."""
        if self._holders.pop(holder, None) is not None:
            self.held_bytes -= holder.held_bytes
            holder.held_bytes = 0

    def update(self, holder: Holder, size_bytes: int) -> None:
        """A holder's share has changed, by more than is worth nothing."""
        if holder in self._holders:
            self._note(holder, size_bytes)
            if self.held_bytes > self.most_bytes:
                self._make_room()

    def _note(self, holder: Holder, size_bytes: int) -> None:
        self.held_bytes += size_bytes - holder.held_bytes
        holder.held_bytes = size_bytes

    @property
    def is_spent(self) -> bool:
        """Is there no room for anybody new? So it is while calls wait to be done of clients that were cut off."""
        return self.held_bytes > self.most_bytes

    def _make_room(self) -> None:
        for holder in self._holders:
            self._note(holder, holder.hold_bytes())
        while self.held_bytes > self.most_bytes:
            here = [holder for holder, is_here in self._holders.items() if is_here]
            worst = max(here, key=lambda holder: holder.held_bytes, default=None)  # the first of several that hold as much
            # Calls of a client that was cut off are done as those of one that has gone, and count until then. Nobody is cut off
            # to make up for that who could not.
            fits = sum(holder.held_bytes for holder in here) <= self.most_bytes
            if worst is None or (fits and worst.held_bytes < _WORTH_BYTES):
                return
            reserved = f", beside {self._reserved_bytes / _MIB:.4g} for what is on its way" if self._reserved_bytes else ""
            self._log(
                f"{worst.name} was cut off: {self.held_bytes / _MIB:.1f} MiB wait for clients, "
                f"{self.most_bytes / _MIB:.4g} are allowed (--memory-mib{reserved}), "
                f"and it has most of them, {worst.held_bytes / _MIB:.1f}"
            )
            self._holders[worst] = False
            worst.cut_off()
            if worst in self._holders:
                self._note(worst, worst.hold_bytes())
