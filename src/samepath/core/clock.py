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
