"""Stands between samepath and an engine, so that nothing of the engine outlives its run.

Run as a file by an interpreter of its own: it imports nothing of samepath, so that it is there in milliseconds. It starts one
program, is the reaper of all that this program ever starts (what detaches itself comes back to the supervisor, not to the
system's first process), keeps the last of what it says on stderr, and kills everything when the program has ended, when
samepath says so or when samepath is gone. It sleeps otherwise: what is measured is not disturbed.

    supervisor.py COMMANDS STATUS PARENT together|apart SCRATCH PROGRAM ARGUMENTS...

COMMANDS and STATUS are file descriptors. On COMMANDS a «t» asks the program to end, anything else or its end kills. STATUS gets
lines of JSON: ``{"pid": 7}`` or ``{"error": 2}`` (errno), and at last ``{"ended": 0, "left": ["name"], "said": "words"}``.
``together`` keeps stdout with stderr; otherwise it goes to whoever reads the supervisor's. SCRATCH, if not empty, is a folder
to be removed at last, when samepath has read what is in it or is gone.
"""

import ctypes
import json
import os
import resource
import select
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_TAIL_BYTES = 4096
# How long what the program has started may take to end after it, and how long killing is tried.
_GRACE_MS = 500
_KILLING_MS = 10_000
_ROUND_MS = 10
_QUICK_ROUNDS = 50
_FAILED_EXEC = 127


class Supervisor:
    """Keeps one program."""

    def __init__(self, commands: int, status: int, parent: int, argv: list[str], *, together: bool) -> None:
        self._commands, self._status = commands, status
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._wake, wake_end = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake_end, False)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        for sign in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(sign, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is samepath's to handle
        self._parent = os.pidfd_open(parent)
        self._said = bytearray()
        self._errors, end = os.pipe()
        os.set_blocking(self._errors, False)
        self._code: int | None = None
        self._pid = self._start(argv, end, together)
        os.close(end)
        for handle in (0, 1):
            os.dup2(os.open(os.devnull, os.O_RDWR), handle)  # the program's own, whose end is to be noticed

    def _start(self, argv: list[str], errors: int, together: bool) -> int:
        told, tell = os.pipe()
        supervisor = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                os.dup2(errors, 2)
                if together:
                    os.dup2(errors, 1)
                self._become(argv, supervisor)
            except OSError as error:
                os.write(tell, str(error.errno or 0).encode())
            finally:
                os._exit(_FAILED_EXEC)
        os.close(tell)
        failed = os.read(told, 16)
        os.close(told)
        self._tell({"error": int(failed)} if failed else {"pid": pid})
        return pid

    def _become(self, argv: list[str], supervisor: int) -> None:
        os.setsid()
        self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != supervisor:
            os._exit(_FAILED_EXEC)
        for sign in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):  # which Python, or the supervisor, ignores
            signal.signal(sign, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.execvp(argv[0], argv)  # noqa: S606 - what samepath was asked to run

    def keep(self) -> bool:
        """Wait for the program's end, or for the word to end it; return when nothing of it is left whether that word came."""
        poll = select.poll()
        for handle in (self._commands, self._parent, self._errors, self._wake):
            poll.register(handle, select.POLLIN)
        wanted = False
        while self._code is None and not wanted:
            for handle, _ in poll.poll():
                if handle == self._wake:
                    signs = os.read(self._wake, 4096)
                    wanted |= signal.SIGTERM in signs or signal.SIGHUP in signs
                    self._reap()
                elif handle == self._errors:
                    if not self._hear():
                        poll.unregister(self._errors)
                elif handle == self._parent or os.read(self._commands, 1) != b"t":
                    wanted = True
                else:
                    self._signal([self._pid], signal.SIGTERM)
        left = [] if wanted else self._left()
        self._kill_all()
        self._hear()
        said = self._said.decode("utf-8", "replace")
        self._tell({"ended": self._code, "left": left, "said": said})
        return wanted

    def wait_for_the_reader(self) -> None:
        """Wait until samepath lets go, or is gone."""
        poll = select.poll()
        for handle in (self._commands, self._parent):
            poll.register(handle, select.POLLIN)
        while all(handle == self._commands and os.read(handle, 1) == b"t" for handle, _ in poll.poll()):
            pass

    def _left(self) -> list[str]:
        """Return the names of what is still alive a moment after the program has ended."""
        for _ in range(_GRACE_MS // _ROUND_MS):
            if not self._reap():
                return []
            self._pause()
        return sorted(descendants().values()) or ["unknown"]

    def _kill_all(self) -> None:
        """Kill until nobody is left. Who forks and ends all the time is caught by being quicker, without a pause in between."""
        self._signal(descendants(), signal.SIGKILL)
        for _ in range(_KILLING_MS // _ROUND_MS):
            for _ in range(_QUICK_ROUNDS):
                if not self._reap():
                    return
                self._signal(children(), signal.SIGKILL)
            self._pause()

    def _pause(self) -> None:
        """Wait a moment, or for the next child's end."""
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        if poll.poll(_ROUND_MS):
            os.read(self._wake, 4096)
        self._reap()
        self._hear()

    def _reap(self) -> bool:
        """Collect who has ended; False when nobody is left: whatever the program starts is, in the end, a child of ours."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self._pid:
                    self._code = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            return False

    def _hear(self) -> bool:
        """Take in what was said on stderr; False at its end."""
        with suppress(BlockingIOError):
            for _ in range(16):
                data = os.read(self._errors, 1 << 16)
                if not data:
                    return False
                self._said += data
                del self._said[:-_TAIL_BYTES]
        return True

    def _tell(self, news: dict[str, object]) -> None:
        with suppress(OSError):  # samepath is gone
            os.write(self._status, json.dumps(news).encode() + b"\n")

    @staticmethod
    def _signal(pids: Iterable[int], sign: signal.Signals) -> None:
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, sign)


def children() -> list[int]:
    """Return the children of this process, as quickly as can be."""
    try:
        with open("/proc/thread-self/children", "rb") as file:  # noqa: PTH123
            return [int(word) for word in file.read().split()]
    except OSError:  # a kernel that does not tell
        return list(descendants())


def descendants() -> dict[int, str]:
    """Return what this process has started, directly or not, and is alive: number and name."""
    children: dict[int, list[tuple[int, str, bool]]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib takes long to import
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                head, _, rest = file.read().rpartition(b")")
                state, parent = rest.split()[:2]
                word = head.partition(b"(")[2].decode("utf-8", "replace")
                children.setdefault(int(parent), []).append((int(name), word, state not in (b"Z", b"X")))
    found: dict[int, str] = {}
    front = [os.getpid()]
    while front:
        for pid, word, alive in children.get(front.pop(), ()):
            front.append(pid)
            if alive:
                found[pid] = word
    return found


def remove(folder: str) -> None:
    """Remove a folder and all that is in it, links as links, as far as that is permitted."""
    with suppress(OSError):
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    remove(entry.path)
                else:
                    with suppress(OSError):
                        os.unlink(entry.path)  # noqa: PTH108 - pathlib takes long to import
        os.rmdir(folder)  # noqa: PTH106


def main() -> None:
    """Keep the program on the command line."""
    commands, status, parent = (int(word) for word in sys.argv[1:4])
    for handle in (commands, status):
        os.set_inheritable(handle, False)
    scratch = sys.argv[5]
    supervisor = Supervisor(commands, status, parent, sys.argv[6:], together=sys.argv[4] == "together")
    let_go = supervisor.keep()
    if scratch:
        if not let_go:
            supervisor.wait_for_the_reader()
        remove(scratch)


if __name__ == "__main__":
    main()
