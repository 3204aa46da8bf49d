"""The thread that carries calls: it keeps one connection, and after every loss asks again for what is unanswered, in order.

Numbers make this safe: a server does a number once and in its turn, and answers a second request for it from its ledger. So
the only thing to be done about a lost, silent or broken connection is to make another one, to whoever can be reached.
"""

import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgpack

from samepath.base.clock import Clock
from samepath.base.errors import InputError
from samepath.sim.cluster.client.line import Address, Line, LineLostError, Reply, Request
from samepath.sim.cluster.client.ticket import CallFailedError, Ticket, TicketLostError
from samepath.sim.server.tickets import Outcome, Status

T = TypeVar("T")

# Requests on their way at once; fewer than the outcomes that a server keeps of a client.
WINDOW: Final = 256
_PENDING_MAX: Final = 100_000
_OUTGOING_BYTES: Final = 1 << 18
_FIRST_PAUSE_S: Final = 0.01


@dataclass(frozen=True)
class Patience:
    """How long to wait for what.

    ``connect_s`` for a connection; ``silence_s`` for an answer before another connection is tried; ``give_up_s`` for any answer
    at all before all pending calls are lost; ``pause_s`` at most between two attempts to connect.
    """

    connect_s: float = 5.0
    silence_s: float = 10.0
    give_up_s: float = 120.0
    pause_s: float = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0.0 < value < float("inf"):
                raise InputError(f"{name}: a number of seconds above 0 was wanted, but {value} came")


class Carrier:
    """Carries calls to one of several addresses."""

    def __init__(self, client: str, addresses: tuple[Address, ...], patience: Patience, clock: Clock) -> None:
        self._client = client
        self._addresses = addresses
        self._patience = patience
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: deque[Request] = deque()  # to be sent, in order
        self._tickets: dict[int, Ticket[Any]] = {}  # pending, in order
        self._last = 0
        self._since_s = 0.0  # nothing has been answered
        self._over = ""
        self._window = WINDOW
        self._at = 0
        self._pause_s = 0.0
        self._trouble = ""
        self._first: Line | None = None
        self._bell, self._ringer = socket.socketpair()
        self._rung = False
        self._thread = threading.Thread(target=self._run, name="samepath tickets", daemon=True)

    def start(self) -> None:
        """Connect, and begin; raises if nobody can be reached."""
        self._first = self._dial_all(greeting=True)
        if self._first is None:
            self._close_bell()
            raise InputError(f"no server can be reached ({self._trouble}): start one with samepath serve")
        self._thread.start()

    def submit(self, method: str, arguments: bytes, read: Callable[[Any], T]) -> Ticket[T]:
        """Make a call; from any thread."""
        with self._changed:
            if self._over:
                raise TicketLostError(f"{method}: {self._over}")
            if len(self._tickets) >= _PENDING_MAX:
                raise InputError(f"{method}: {_PENDING_MAX} calls are pending already: wait for some of them")
            now_s = self._clock.monotonic_s()
            if not self._tickets:
                self._since_s = now_s
            self._last += 1
            ticket = Ticket(self._client, self._last, method, read, now_s)
            ticket.carried_by(self._thread)
            self._tickets[ticket.number] = ticket
            self._waiting.append(Request.of(self._client, ticket.number, method, arguments))
            self._ring()
        return ticket

    def settled(self, timeout_s: float) -> bool:
        """Wait until nothing is pending."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._tickets, timeout_s)

    def end(self, why: str) -> None:
        """Stop; what is pending is lost."""
        with self._changed:
            self._over = self._over or why
            self._ring()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _ring(self) -> None:
        self._changed.notify_all()
        if not self._rung:
            self._rung = True
            self._ringer.send(b"\0")

    def _run(self) -> None:
        line = self._first
        try:
            while line is not None:
                try:
                    self._carry(line)
                except LineLostError as error:
                    self._trouble = str(error)
                self._take_back(line)
                line = self._redial(line)
        except Exception as error:  # whatever it is, nobody is left waiting
            self._over = f"internal error of samepath: {type(error).__name__}: {error}"
        with self._changed:
            self._over = self._over or "the connection has ended"
            lost = list(self._tickets.values())
        for ticket in lost:
            words = f"{ticket.method}: {self._over}; whether it was done is not known"
            ticket.fail(TicketLostError(words), None, self._clock.monotonic_s())
        with self._changed:
            self._tickets.clear()
            self._changed.notify_all()
        self._close_bell()

    def _close_bell(self) -> None:
        with self._changed:
            self._rung = True  # nobody rings any more
            self._bell.close()
            self._ringer.close()

    def _carry(self, line: Line) -> None:
        """Send and receive until this is over or the line is lost."""
        line.ready()
        with selectors.DefaultSelector() as selector:
            selector.register(self._bell, selectors.EVENT_READ)
            selector.register(line.socket, selectors.EVENT_READ)
            while self._load(line):
                line.send()
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if line.outgoing else 0)
                selector.modify(line.socket, wanted)
                selector.select(self._wait_s(line))
                for reply in line.receive(self._clock.monotonic_s()):
                    self._settle(reply)
                self._check_silence(line)

    def _load(self, line: Line) -> bool:
        """Give the line what it can take; False: it is over."""
        with self._changed:
            if self._rung and not self._over:
                self._bell.recv(16)
                self._rung = False
            while self._waiting and len(line.unanswered) < self._window and len(line.outgoing) < _OUTGOING_BYTES:
                line.put(self._waiting.popleft(), self._clock.monotonic_s())
            return not self._over

    def _wait_s(self, line: Line) -> float | None:
        if not line.unanswered:
            return None
        now_s = self._clock.monotonic_s()
        return max(0.0, min(line.heard_s + self._patience.silence_s, self._since_s + self._patience.give_up_s) - now_s)

    def _check_silence(self, line: Line) -> None:
        now_s = self._clock.monotonic_s()
        self._check_patience(now_s)
        if line.unanswered and now_s - line.heard_s >= self._patience.silence_s:
            line.answers = 0  # it may have been good once
            raise LineLostError(f"{line.address}: no answer within {self._patience.silence_s:g} s")

    def _check_patience(self, now_s: float) -> None:
        with self._changed:
            if self._tickets and not self._over and now_s - self._since_s >= self._patience.give_up_s:
                trouble = f" ({self._trouble})" if self._trouble else ""
                self._over = (
                    f"nothing was answered for {self._patience.give_up_s:g} s{trouble}, so this connection was given up"
                )

    def _settle(self, reply: Reply) -> None:
        ticket, now_s = self._tickets[reply.number], self._clock.monotonic_s()
        self._window = min(self._window + 1, WINDOW)
        if reply.outcome is None:
            ticket.fail(TicketLostError(f"{ticket.method}: {reply.refusal}"), None, now_s)
        elif reply.outcome.status is Status.SUCCESS:
            _succeed(ticket, reply.outcome, now_s)
        else:
            ticket.fail(CallFailedError(reply.outcome.error), reply.outcome.frame, now_s)
        with self._changed:
            del self._tickets[reply.number]
            self._since_s = now_s
            if not self._tickets:
                self._changed.notify_all()

    def _take_back(self, line: Line) -> None:
        """What a lost line has not answered is to be sent again, before all else."""
        line.close()
        with self._changed:
            self._waiting.extendleft(reversed(line.unanswered.values()))

    def _redial(self, lost: Line) -> Line | None:
        """Connect again when there is something to ask; a line that gave no answer is tried last, and gently."""
        self._pause_s = 0.0 if lost.answers else self._longer_s()
        if not lost.answers:
            self._window, self._at = 1, self._at + 1
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._over or self._tickets)
                self._changed.wait_for(lambda: self._over, self._pause_s)
            self._check_patience(self._clock.monotonic_s())
            if self._over:
                return None
            line = self._dial_all(greeting=False)
            if line is not None:
                return line
            self._pause_s = self._longer_s()

    def _longer_s(self) -> float:
        return min(max(2.0 * self._pause_s, _FIRST_PAUSE_S), self._patience.pause_s)

    def _dial_all(self, *, greeting: bool) -> Line | None:
        """Try each address once, the current one first."""
        troubles = []
        for step in range(len(self._addresses)):
            at = (self._at + step) % len(self._addresses)
            try:
                line = Line(self._addresses[at], self._patience.connect_s, self._clock.monotonic_s())
                if greeting:
                    line.greet(self._client, self._patience.silence_s)
            except LineLostError as error:
                troubles.append(str(error))
            else:
                self._at = at
                return line
        self._trouble = ", ".join(troubles)
        return None


def _succeed(ticket: Ticket[Any], outcome: Outcome, now_s: float) -> None:
    try:
        value = msgpack.unpackb(outcome.result, raw=False, strict_map_key=True)
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        words = f"{ticket.method} was done, but its answer is no MessagePack ({type(error).__name__})"
        ticket.fail(TicketLostError(words), outcome.frame, now_s)
    else:
        ticket.succeed(value, outcome.frame, now_s)
