"""A ticket: a call that was made, and what became of it."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from samepath.base.errors import SamepathError
from samepath.sim.server.tickets import Status

T = TypeVar("T")


class TicketError(SamepathError):
    """A call by ticket that gave no result."""


class CallFailedError(TicketError):
    """The server did not do the call, and says why."""


class TicketLostError(TicketError):
    """The result will not come; whether the call was done is not known."""


class TicketTimeoutError(TicketError):
    """The result has not come yet; the ticket is still pending."""


class Ticket(Generic[T]):
    """A call: ``client`` and ``number`` name it once and for all.

    ``latency_s`` is the time from the call to its answer; ``frame`` the world's when it had been done, so that a command takes
    effect in the next one. Both are None while it is pending, ``frame`` also if nobody knows it.
    """

    def __init__(self, client: str, number: int, method: str, read: Callable[[Any], T], made_s: float) -> None:
        self.client = client
        self.number = number
        self.method = method
        self.latency_s: float | None = None
        self.frame: int | None = None
        self._read = read
        self._made_s = made_s
        self._future: Future[T] = Future()
        self._future.set_running_or_notify_cancel()  # nobody can take a call back
        self._carried_by: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<ticket {self.number} of client {self.client}: {self.method}, {self.status}>"

    @property
    def status(self) -> Status:
        """Pending, failed or success."""
        if not self._future.done():
            return Status.PENDING
        return Status.SUCCESS if self._future.exception() is None else Status.FAILED

    @property
    def error(self) -> str | None:
        """Why it failed; None if it did not, or is pending."""
        found = self._future.exception() if self._future.done() else None
        return None if found is None else str(found)

    @property
    def future(self) -> "Future[T]":
        """The same as a future of the standard library, for its ``wait`` and ``as_completed``."""
        return self._future

    def result(self, timeout_s: float | None = None) -> T:
        """Wait for the result, if need be for ever, and return it; raises :class:`TicketError` if there is none."""
        if self._carried_by is threading.current_thread() and not self._future.done():
            raise TicketError(f"{self.method}: a callback cannot wait for a result, it would wait for itself")
        try:
            return self._future.result(timeout_s)
        except TimeoutError:
            raise TicketTimeoutError(
                f"{self.method}: no answer within {timeout_s:g} s; ticket {self.number} is still pending"
            ) from None

    def when_done(self, callback: Callable[["Ticket[T]"], object]) -> None:
        """Call back when the answer is there; from the thread that carries calls, or at once if it is there already."""
        self._future.add_done_callback(lambda _: callback(self))

    def carried_by(self, thread: threading.Thread) -> None:
        """Say who will settle this ticket."""
        self._carried_by = thread

    def succeed(self, value: object, frame: int, now_s: float) -> None:
        """The call was done."""
        try:
            result = self._read(value)
        except SamepathError as error:
            self._end(frame, now_s)
            self._future.set_exception(TicketError(f"{self.method} was done, but its answer cannot be read: {error}"))
            return
        self._end(frame, now_s)
        self._future.set_result(result)

    def fail(self, error: TicketError, frame: int | None, now_s: float) -> None:
        """The call gave no result."""
        self._end(frame, now_s)
        self._future.set_exception(error)

    def _end(self, frame: int | None, now_s: float) -> None:
        self.frame, self.latency_s = frame, now_s - self._made_s
