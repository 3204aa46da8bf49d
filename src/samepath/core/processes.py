"""Processes: children that end with whoever started them, exit codes in words, memory, and signals that ask one to end.

Signals, for programs that serve: the first SIGINT or SIGTERM asks them to end, the second ends them, whatever they are doing.
Python runs signal handlers in the main thread, between two steps of its own code. A main thread that sits in compiled code runs
none, and asyncio's handlers wait for the event loop besides. The C part of Python, however, writes the number of every signal
to a pipe the moment it arrives (:func:`signal.set_wakeup_fd`). A thread reads that pipe, and needs the main thread for nothing.
"""

import ctypes
import gc
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_SHUTDOWN: Final = (signal.SIGINT, signal.SIGTERM)
_LAST_WORDS: Final = b"samepath: the process ends at once, because not even the reason could be written down (memory?)\n"
_OVER: Final = 0  # no signal has this number: it tells the watching thread to end


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


def describe_exit(code: int) -> str:
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
    spaces = [str(Path(f"/proc/self/ns/{space}").stat().st_ino) for space in ("pid", "net")]
    memory = Path("/dev/shm")  # noqa: S108 - looked at, not written to
    return "/".join([boot, *spaces, str(memory.stat().st_dev if memory.is_dir() else 0)])


# Numbers of glibc's ``mallopt``: what is freed at the end of the heap goes back to the system from so many bytes on, and blocks
# from so many bytes on are the system's own from the beginning. Of the latter glibc takes no more than 32 MiB.
_TRIM_THRESHOLD, _MAP_THRESHOLD = -1, -3
_KEPT_BYTES: Final = 64 << 20
_MAPPED_FROM_BYTES: Final = 32 << 20


def keep_freed_memory() -> None:
    """Keep memory that comes and goes with every tick, up to 64 MiB of it, where the C library can be told so (glibc).

    Else a picture of 1920 x 1080 is given back to the system when it is sent, and asked for again in the next tick. The system
    clears every page of it: that took a quarter of the time of such a tick.
    """
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        tune(_MAP_THRESHOLD, _MAPPED_FROM_BYTES)
        tune(_TRIM_THRESHOLD, _KEPT_BYTES)


def return_freed_memory() -> None:
    """Give memory that nobody uses back to the system, where the C library can (glibc). Takes about as long as a large tick.

    Worlds and maps are objects that refer to each other, which Python finds when it has made very many others; arrays do not
    count as such, however large they are. And the C library keeps what was freed between blocks that are still used, for later.
    Both are fine for what comes and goes in a tick. After something large was replaced, such as a map, they are most of a
    process: a server that had been sent sixty maps held 496 MiB, of which it used 312.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@contextmanager
def ends_process_if_it_fails() -> Iterator[None]:
    """Around what reports the end of everything else: if that fails as well, the process ends at once, with EX_SOFTWARE.

    Else only its thread would end, and whoever talks to this process would wait for ever. Nothing here takes memory.
    """
    try:
        yield
    except BaseException:
        os.write(2, _LAST_WORDS)
        os._exit(os.EX_SOFTWARE)


class ShutdownSignals:
    """What becomes of the signals; :meth:`call_on_first` says what the first one leads to.

    ``received`` and the callback are read and set under one lock: a signal that comes while the callback is being set is either
    seen by the setter or calls it, never neither.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._on_first: Callable[[], object] | None = None
        self.received = False

    def call_on_first(self, begin: Callable[[], object]) -> None:
        """Have this called, in another thread, when the first signal comes, or at once if it has come."""
        with self._lock:
            self._on_first = begin
            received = self.received
        if received:
            begin()

    def _first(self) -> None:
        with self._lock:
            self.received = True
            begin = self._on_first
        if begin is not None:
            begin()

    def _watch(self, pipe: int) -> None:
        while numbers := os.read(pipe, 64):
            for number in numbers:
                if number == _OVER:
                    return
                if number not in _SHUTDOWN:
                    continue
                if self.received:
                    os._exit(128 + number)  # nothing is tidied up: whoever asks twice wants just that
                self._first()


@contextmanager
def shutdown_signals() -> Iterator[ShutdownSignals]:
    """Take the signals over, in the main thread. Once one has come the next ends the process, also after this is left."""
    found = ShutdownSignals()
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    watcher = threading.Thread(target=found._watch, args=(read_end,), name="samepath signals", daemon=True)
    watcher.start()
    wakeup = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    # Without a handler of Python's own the pipe hears nothing.
    before = {number: signal.signal(number, lambda *_: None) for number in _SHUTDOWN}
    try:
        yield found
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if found.received else handler)
        signal.set_wakeup_fd(wakeup)
        os.write(write_end, bytes([_OVER]))
        watcher.join()
        for end in (read_end, write_end):
            os.close(end)
