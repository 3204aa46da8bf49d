"""Helpers that end with the process that started them, however it ends: no load is left behind by a killed study."""

import ctypes
import os
import signal
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def die_with_parent(parent: int, sign: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send ``sign`` to this process as soon as ``parent``, which started it, is gone. Survives ``exec``.

    The kernel watches the *thread* that started this process: start workers from a thread that lives as long as they should.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, sign, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"the kernel will not watch the parent ({os.strerror(code)})")
    # The parent may have ended before the kernel began to watch: then there is another one by now.
    if os.getppid() != parent:
        os._exit(1)
