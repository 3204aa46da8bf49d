"""The one module that owns the clock.

Nothing that must repeat may ask for the time; what may (load, latency, provenance, progress) asks here, so that a test can
hand in a clock of its own.
"""

import datetime
import time
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        ...

    def utc_iso(self) -> str:
        """The date and time in UTC, to the second."""
        ...

    def sleep_s(self, seconds: float) -> None:
        """Wait for at least so long."""
        ...


class SystemClock:
    """The machine's own clock."""

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        return time.perf_counter()

    def utc_iso(self) -> str:
        """The date and time in UTC, to the second."""
        return datetime.datetime.now(datetime.UTC).replace(microsecond=0).isoformat()

    def sleep_s(self, seconds: float) -> None:
        """Wait for at least so long."""
        time.sleep(seconds)


SYSTEM_CLOCK = SystemClock()


class Stopwatch:
    """Adds up the seconds spent within it: ``with stopwatch: ...``. For what is said of the host, never for what repeats."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._since_s = 0.0
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._since_s = self._clock.monotonic_s()

    def __exit__(self, *error: object) -> None:
        self.seconds += self._clock.monotonic_s() - self._since_s
