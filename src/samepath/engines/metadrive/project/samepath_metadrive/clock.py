"""The wall clock, for a game loop; nothing else in the project looks at it."""

import time


def now_s() -> float:
    """Return seconds since some moment."""
    return time.monotonic()


def sleep_s(duration_s: float) -> None:
    """Wait."""
    time.sleep(duration_s)
