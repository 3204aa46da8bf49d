"""SIGINT and SIGTERM for programs that serve: the first asks them to end, the second ends them, whatever they are doing.

Python runs signal handlers in the main thread, between two steps of its own code. A main thread that sits in compiled code runs
none, and asyncio's handlers wait for the event loop besides. The C part of Python, however, writes the number of every signal
to a pipe the moment it arrives. A thread reads that pipe, and needs the main thread for nothing.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

ENDING: Final = (signal.SIGINT, signal.SIGTERM)
_OVER: Final = 0  # no signal has this number


class Ending:
    """What becomes of the signals; :meth:`ask` says what the first one leads to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: Callable[[], object] | None = None
        self.is_wanted = False

    def ask(self, begin: Callable[[], object]) -> None:
        """Have this called, in another thread, when the first signal comes, or at once if it has come."""
        with self._lock:
            self._asked = begin
            wanted = self.is_wanted
        if wanted:
            begin()

    def _first(self) -> None:
        with self._lock:
            self.is_wanted = True
            begin = self._asked
        if begin is not None:
            begin()

    def _watch(self, pipe: int) -> None:
        while numbers := os.read(pipe, 64):
            for number in numbers:
                if number == _OVER:
                    return
                if number not in ENDING:
                    continue
                if self.is_wanted:
                    os._exit(128 + number)  # nothing is tidied up: whoever asks twice wants just that
                self._first()


@contextmanager
def ending() -> Iterator[Ending]:
    """Take the signals over, in the main thread. Once one has come the next ends the process, also after this is left."""
    found = Ending()
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    watcher = threading.Thread(target=found._watch, args=(read_end,), name="samepath signals", daemon=True)
    watcher.start()
    wakeup = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    # Without a handler of Python's own the pipe hears nothing.
    before = {one: signal.signal(one, lambda *_: None) for one in ENDING}
    try:
        yield found
    finally:
        for one, handler in before.items():
            signal.signal(one, signal.SIG_DFL if found.is_wanted else handler)
        signal.set_wakeup_fd(wakeup)
        os.write(write_end, bytes([_OVER]))
        watcher.join()
        for end in (read_end, write_end):
            os.close(end)
