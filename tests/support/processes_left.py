"""Is anything left of a program?"""

from pathlib import Path

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
