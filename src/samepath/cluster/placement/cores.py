"""Which cores a node may use: ``0,2-3`` on the command line, the kernel's affinity in its process.

Nodes of different size are what real clusters consist of; the balance learns how fast each is. A node that is kept to its own
cores also measures its drawing without what its neighbours do to it.
"""

import os
from collections.abc import Sequence
from typing import Final

from samepath.core.errors import InputError

_CORE_MOST: Final = 4095


def read_cores(text: str) -> tuple[int, ...]:
    """The cores of ``0,2-3``, sorted; each must be one that this process may use."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or max(len(first), len(last)) > 4:
            raise InputError(f"--cores: numbers and ranges such as 0,2-3 were wanted, but {text[:80]!r} came")
        begin, end = int(first), int(last or first)
        if not begin <= end <= _CORE_MOST:
            raise InputError(f"--cores: a range from a lower to a higher core was wanted, but {part.strip()!r} came")
        found.update(range(begin, end + 1))
    missing = sorted(found - os.sched_getaffinity(0))
    if missing:
        there = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
        raise InputError(f"--cores: this process may use the cores {there}, but {missing[0]} was wanted as well")
    return tuple(sorted(found))


def read_core_sets(text: str) -> tuple[tuple[int, ...], ...]:
    """The cores of each node in turn: ``0;1;2-3``."""
    return tuple(read_cores(part) for part in text.split(";")) if text else ()


def keep_to_cores(cores: Sequence[int]) -> None:
    """Keep this process, and the threads it will start, on these cores."""
    try:
        os.sched_setaffinity(0, cores)
    except OSError as error:
        names = ", ".join(map(str, cores))
        raise InputError(f"--cores: the cores {names} cannot be used here ({error.strerror or error})") from error
