"""A node's process and the thread that keeps it: it starts the process, passes on what that prints, and learns how it ended.

The kernel ends a process with the *thread* that started it; this thread lives exactly as long as the process.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from samepath.base.words import printable
from samepath.sim.cluster.placement.records import GRACE_S, NodeKeys, NodeOrder, packed

NODE_MODULE: Final = "samepath.sim.cluster.placement.child"
_LONGEST_LINE: Final = 2000
_NOT_STARTED: Final = 127


class Kept:
    """One life of a node. ``line`` and ``end`` are called from its own thread, ``end`` last and once."""

    def __init__(
        self,
        order: NodeOrder,
        keys: NodeKeys,
        line: Callable[[str], None],
        end: Callable[[int], None],
        *,
        module: str = NODE_MODULE,
        watched: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._line, self._end = line, end
        self._command = [sys.executable, "-m", module, str(os.getpid())]
        self._first = packed(order, keys, watched)
        self._environment = None if environment is None else dict(environment)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._wanted = True
        self._timer: threading.Timer | None = None
        self._thread = threading.Thread(target=self._keep, name=f"keeps {order.name}", daemon=True)
        self._thread.start()

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Ask the process to end; kill it if that takes longer than ``grace_s``. Does not wait."""
        with self._lock:
            self._wanted = False
            if self._process is None or self._timer is not None:
                return
            self._process.terminate()
            self._timer = threading.Timer(grace_s, self.kill)
            self._timer.daemon = True
            self._timer.start()

    def kill(self) -> None:
        """Kill the process at once; a frozen one ends too."""
        with self._lock:
            self._wanted = False
            if self._process is not None:
                self._process.kill()

    def wait(self) -> None:
        """Wait until the process has ended and its end was told."""
        self._thread.join()

    def _keep(self) -> None:
        code = _NOT_STARTED
        try:
            code = self._live()
        finally:
            self._end(code)

    def _live(self) -> int:
        with self._lock:
            if not self._wanted:
                return -signal.SIGTERM
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=self._environment,
                    process_group=0,  # a terminal's Ctrl-C is for the main server alone
                )
            except OSError as error:
                self._line(f"{self._command[0]} cannot be started: {error.strerror or error}")
                return _NOT_STARTED
            process = self._process
        with process:
            if process.stdin is None or process.stdout is None:
                raise RuntimeError("pipes were asked for")
            with suppress(BrokenPipeError):  # it has ended already: its exit code tells
                process.stdin.write(self._first)
                process.stdin.close()
            while said := process.stdout.readline(_LONGEST_LINE):
                self._line(plain(said))
            code = process.wait()
        with self._lock:
            self._process = None
            if self._timer is not None:
                self._timer.cancel()
        return code


def plain(line: bytes) -> str:
    """Return what a process printed as text that moves no terminal's cursor."""
    return printable(line.decode(errors="replace").rstrip())
