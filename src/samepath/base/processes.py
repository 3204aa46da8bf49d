"""Processes: helpers that end with whoever started them, and how a process ended in words."""

import ctypes
import os
import select
import signal
import threading
from pathlib import Path
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


def die_with(pid: int) -> None:
    """End this process, at once and without a word, as soon as the process ``pid`` is gone; it need not be the parent."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        os._exit(1)

    def watch() -> None:
        select.select([handle], [], [])  # a process's handle can be read once it has ended
        os._exit(1)

    threading.Thread(target=watch, name=f"watches process {pid}", daemon=True).start()


def how_it_ended(code: int) -> str:
    """Say how a process ended, from its exit code or, negative, its signal."""
    if code >= 0:
        return f"ended by itself with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    return f"was ended by signal {-code} ({name})"


def this_machine() -> str:
    """Return what two processes have in common if they share process numbers, loopback and ``/dev/shm``.

    Containers on one kernel share none of them, so the kernel's own identity is not enough.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    spaces = [str(Path(f"/proc/self/ns/{one}").stat().st_ino) for one in ("pid", "net")]
    memory = Path("/dev/shm")  # noqa: S108 - looked at, not written to
    return "/".join([boot, *spaces, str(memory.stat().st_dev if memory.is_dir() else 0)])
