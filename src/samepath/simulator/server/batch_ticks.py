"""Ticks of CARLA's ``apply_batch_sync(commands, True)``: what sensors send waits until the client has left that call.

The call applies a batch, ticks, and waits until a thread of the client has read the state of that tick. It holds Python's lock
all the time. Callbacks of sensors want that lock, and run in the threads that read streams, of which a client has as many as
cores. As soon as each of them has taken a message of a sensor, none is left to read the state: the client spins until its own
time-out, for minutes in an evaluation, and the server has nothing to do. On two cores two sensors are enough.

On the wire such a tick is a ``tick_cue`` right behind an ``apply_batch`` of the same client. From then on what sensors send is
kept here, in its order, while states and answers go out. It is let go when the client makes a tick of another kind, in which
it does not hold that lock; or when it has left the call and makes no further one for a while. A client has left the call when
it has read the state and its traffic manager has ended its cycle (``is_outside``). On a busy machine that takes long, and so
does the way to the next call: the while is as long as the client took to leave, and at least ``_QUIET_S``. A client that makes
no such calls one right after the other waits less and less, down to ``_SHORT_S``. What a client has not read of the tick before
when it begins the call cannot be called back.

Lives in the event loop.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol

_BATCH: Final = "apply_batch"
_TICK: Final = "tick_cue"
WAITED_FOR: Final = frozenset({_BATCH, _TICK})
_LOOK_S: Final = 0.002
_QUIET_S: Final = 0.1
_SHORT_S: Final = 0.01
# How long a client may take to leave the call: it may have been stopped, or what can be seen of it is wrong.
_LEAVE_S: Final = 1.0
_MAX_KEPT_BYTES: Final = 64 << 20


class Ticker(Protocol):
    """The connection of a client that ticks."""

    name: str


class BatchTicks:
    """The clients that are inside such a call, and what sensors have sent meanwhile."""

    def __init__(self, is_outside: Callable[[Any], bool]) -> None:
        self._is_outside = is_outside
        self._last: dict[Ticker, str] = {}  # the name of each client's last call, if it was a batch
        self._open: dict[Ticker, int] = {}  # batches and ticks of clients inside that are not answered
        self._timers: dict[Ticker, asyncio.TimerHandle] = {}
        self._quiet_s: dict[Ticker, float] = {}  # where it is not _QUIET_S
        self._repeats: set[Ticker] = set()  # clients that have made such calls one right after the other
        self._kept: list[Callable[[], None]] = []
        self._kept_bytes = 0

    def called(self, client: Ticker, name: str) -> None:
        """Take note of a call that came."""
        follows_batch = self._last.pop(client, "") == _BATCH
        if name == _BATCH:
            self._last[client] = name
            if client in self._open:
                self._repeats.add(client)
        if name == _TICK and follows_batch and client not in self._open:
            self._open[client] = 0
        elif name == _TICK and not follows_batch:
            self._leave(client)
        if client in self._open and name in WAITED_FOR:
            self._open[client] += 1
            self._stop_timer(client)

    def answering(self, client: Ticker, send: Callable[[], None]) -> Callable[[], None]:
        """Send the answer to a batch or a tick with what is returned here."""

        def answer() -> None:
            send()
            self._answered(client)

        return answer if client in self._open else send

    def _answered(self, client: Ticker) -> None:
        if client not in self._open:
            return
        self._open[client] = max(0, self._open[client] - 1)
        if not self._open[client]:
            now_s = asyncio.get_running_loop().time()
            self._await_look(client, now_s, now_s)

    def _await_look(self, client: Ticker, answered_s: float, inside_s: float) -> None:
        self._stop_timer(client)
        loop = asyncio.get_running_loop()
        self._timers[client] = loop.call_later(_LOOK_S, self._look, client, answered_s, inside_s)

    def _look(self, client: Ticker, answered_s: float, inside_s: float) -> None:
        """See whether a client, which was inside at ``inside_s``, has been outside for long enough."""
        now_s = asyncio.get_running_loop().time()
        if not self._is_outside(client):
            inside_s = now_s
        quiet_s = _QUIET_S if client in self._repeats else self._quiet_s.get(client, _QUIET_S)
        if now_s - inside_s >= max(quiet_s, inside_s - answered_s) or now_s - answered_s > _LEAVE_S:
            self._quiet_s[client] = max(_SHORT_S, quiet_s / 2.0)
            self._leave(client)
        else:
            self._await_look(client, answered_s, inside_s)

    def gone(self, client: Ticker) -> None:
        """A client has disconnected."""
        self._quiet_s.pop(client, None)
        self._repeats.discard(client)
        self._leave(client)

    def _leave(self, client: Ticker) -> None:
        self._last.pop(client, None)
        self._stop_timer(client)
        if self._open.pop(client, None) is not None and not self._open:
            self._let_go()

    def keep(self, send: Callable[[], None], size_bytes: int) -> bool:
        """Keep what a sensor sends for as long as a client is inside; False: none is, so it is sent now."""
        if not self._open:
            return False
        self._kept.append(send)
        self._kept_bytes += size_bytes
        if self._kept_bytes > _MAX_KEPT_BYTES:
            self._let_go()
        return True

    def _stop_timer(self, client: Ticker) -> None:
        timer = self._timers.pop(client, None)
        if timer is not None:
            timer.cancel()

    def _let_go(self) -> None:
        kept, self._kept, self._kept_bytes = self._kept, [], 0
        for send in kept:
            send()
