"""A log that nobody can flood.

What a server says of its clients is one line for each of them, and a client that connects, is refused and connects again does
so thousands of times a second: the disk that is full then is the journal's, too. So lines of one kind, which are those that
differ in numbers and quoted words alone, are written a few times in a while; the rest is counted, and the count is written.
"""

import re
import threading
from collections.abc import Callable
from typing import Final

from samepath.core.clock import SYSTEM_CLOCK, Clock

KIND_MOST: Final = 20
WINDOW_S: Final = 10.0
# Kinds that are remembered; the words of a line are ours, so there are not many.
_KINDS_MOST: Final = 256
_VARIES: Final = re.compile(r"'[^']*'|\"[^\"]*\"|[0-9]+")


class LineLimiter:
    """Passes lines on to ``write``, of each kind at most :data:`KIND_MOST` in :data:`WINDOW_S`; from any thread."""

    def __init__(self, write: Callable[[str], None], clock: Clock = SYSTEM_CLOCK) -> None:
        self._write = write
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._samples: dict[str, str] = {}  # the last line of a kind that was left out
        self._until_s = 0.0

    def __call__(self, line: str) -> None:
        kind = _VARIES.sub("#", line)
        with self._lock:
            if self._clock.monotonic_s() >= self._until_s:
                self._tell()
                self._until_s = self._clock.monotonic_s() + WINDOW_S
            if kind not in self._counts and len(self._counts) >= _KINDS_MOST:
                self._tell()
            count = self._counts[kind] = self._counts.get(kind, 0) + 1
            if count <= KIND_MOST:
                self._write(line)
            else:
                self._samples[kind] = line

    def _tell(self) -> None:
        """Say what was left out, and begin to count anew."""
        for kind, line in self._samples.items():
            self._write(f"{self._counts[kind] - KIND_MOST} more lines like the last one were left out: {line}")
        self._counts.clear()
        self._samples.clear()
