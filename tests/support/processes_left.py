"""Is anything left of a program?"""

from pathlib import Path

import psutil
import pytest

from samepath.core.clock import SYSTEM_CLOCK


def is_there(pid):
    """Zombies count, because nobody would ever have reaped them; but those of the system's first process, who reaps, do not."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return False
    return (state, parent) != ("Z", "1")


def wait_until_gone(pids):
    """Give what was killed a moment: whoever lost samepath itself ends by itself."""
    until_s = SYSTEM_CLOCK.monotonic_s() + 20.0
    while any(map(is_there, pids)) and SYSTEM_CLOCK.monotonic_s() < until_s:
        SYSTEM_CLOCK.sleep_s(0.005)
    assert not [pid for pid in pids if is_there(pid)]


def children():
    """What this process has started, and what that has started."""
    return psutil.Process().children(recursive=True)


def broken_off(run):
    """Break a run off at its fifth tick; return the processes that it had started by then.

    Other tests of this process may have children of their own: what was there before the run is not its own.
    """
    before, seen = set(children()), []

    def on_tick(tick):
        if tick == 5:
            seen.extend(child for child in children() if child not in before)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(on_tick)
    return seen
