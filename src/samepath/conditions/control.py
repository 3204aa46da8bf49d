"""A control loop: a thread that owns its workers and steers them, and the law by which it does."""

import threading
from collections.abc import Callable

from samepath.base.errors import StudyError


def corrected(share: float, target: float, measured: float, gain: float) -> float:
    """Return the next share of a worker's time: moved against the error, never below 0 or above 1."""
    return min(1.0, max(0.0, share + gain * (target - measured)))


class ControlLoop:
    """Runs ``begin`` once, ``step`` every ``period_s`` and ``end`` at last, all in one thread of its own.

    The thread starts the workers because the kernel ends them with the thread that started them: they live exactly as long as
    they are steered. What goes wrong in a step ends the loop and is raised by the next :meth:`check`.
    """

    def __init__(self, period_s: float, begin: Callable[[], None], step: Callable[[], None], end: Callable[[], None]) -> None:
        self._period_s = period_s
        self._begin, self._step, self._end = begin, step, end
        self._begun = threading.Event()
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="samepath-load-control", daemon=True)

    def start(self) -> None:
        """Start the thread and wait until ``begin`` is done; raises what it raised."""
        self._thread.start()
        self._begun.wait()
        self.check()

    def _run(self) -> None:
        try:
            self._begin()
            self._begun.set()
            while not self._stop.wait(self._period_s):
                self._step()
        except Exception as error:  # handed to whoever asks next
            self._error = error
        finally:
            self._end()
            self._begun.set()

    def check(self) -> None:
        """Raise what ended the loop, if something did."""
        if self._error is not None:
            raise self._error if isinstance(self._error, StudyError) else StudyError(f"a load ended: {self._error}")

    def close(self) -> None:
        """Stop the loop and wait until ``end`` is done."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
