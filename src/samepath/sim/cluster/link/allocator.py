"""Keeping the memory of images that come and go with every tick."""

import ctypes
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_MIB: Final = 1 << 20


def hold_memory(kept_bytes: int = 1024 * _MIB) -> bool:
    """Let this process keep up to so much freed memory for itself; for the start of a main server or a node.

    The C library gives large blocks back to the kernel as soon as they are freed and gets them again, page by page, at the next
    tick. With eight images of 1440x960 a tick that takes several times as long as the copying. Returns whether the C library
    knows the setting; without it everything is the same, but slower.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, 32 * _MIB) and mallopt(_M_TRIM_THRESHOLD, kept_bytes))
