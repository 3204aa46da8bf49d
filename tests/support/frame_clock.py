"""A clock for game loops in tests: it takes no time, and its frames are as long as a test says."""

from itertools import cycle


class FrameClock:
    """Every sleep is longer than was asked for by the next of ``late_s``, over and over."""

    def __init__(self, *late_s):
        self._now_s, self._late_s = 100.0, cycle(late_s or (0.0,))

    def monotonic_s(self):
        return self._now_s

    def sleep_s(self, seconds):
        self._now_s += seconds + next(self._late_s)

    def utc_iso(self):
        return "2000-01-01T00:00:00+00:00"
