"""Work that stands for rendering, so that a frame takes wall time (``wall-clock-step``, Sections III and IV-E).

It is computed, not slept: whoever competes for the core makes it longer, as with rendering.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np

from samepath.base.clock import SYSTEM_CLOCK

_TRIALS: Final = 50


def frame_work(cost_s: float) -> Callable[[], None]:
    """Return work that takes ``cost_s`` on an idle core: as many passes of :func:`_shade` as fit."""
    passes = round(cost_s / _pass_s()) if cost_s > 0 else 0

    def work() -> None:
        for _ in range(passes):
            _shade()

    return work


_RAYS: Final = np.linspace(0.1, 1.0, 4096)
_PIXELS: Final = np.zeros_like(_RAYS)


def _shade() -> None:
    """Light 4096 pixels: a few dozen microseconds of arithmetic during which other threads may run, as while rendering."""
    np.multiply(_RAYS, _RAYS, out=_PIXELS)
    np.add(_PIXELS, 1.0, out=_PIXELS)
    np.sqrt(_PIXELS, out=_PIXELS)
    np.divide(_RAYS, _PIXELS, out=_PIXELS)


@lru_cache(maxsize=1)
def _pass_s() -> float:
    """Seconds of one pass: the least of many, so that a busy machine gets the same amount of work as an idle one."""
    times_s = []
    for _ in range(_TRIALS):
        start_s = SYSTEM_CLOCK.monotonic_s()
        _shade()
        times_s.append(SYSTEM_CLOCK.monotonic_s() - start_s)
    return max(min(times_s), 1e-7)
