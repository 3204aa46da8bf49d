"""Nodes as plain processes of the main server, on its own machine. They end with it, whatever ends it.

The kernel can end a process with the *thread* that started it (``PR_SET_PDEATHSIG``), not with the process that did. So every
process has a thread of its own here that starts it, passes on what it prints, and lives exactly as long as it does.
"""

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from samepath.cluster.placement.records import GRACE_S, NodeExit, NodeKeys, NodeSpec, encode_start_line, starts_again
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import printable
from samepath.core.processes import describe_exit

NODE_MODULE: Final = "samepath.cluster.placement.child"
_LONGEST_LINE: Final = 2000
_NOT_STARTED: Final = 127


class NodeProcess:
    """One process of a node. ``line`` and ``end`` are called from its own thread, ``end`` last and once."""

    def __init__(
        self,
        spec: NodeSpec,
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
        self._first = encode_start_line(spec, keys, watched)
        self._environment = None if environment is None else dict(environment)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._wanted = True
        self._timer: threading.Timer | None = None
        self._thread = threading.Thread(target=self._run, name=f"runs {spec.name}", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int | None:
        """The process's number, while there is one."""
        with self._lock:
            return None if self._process is None else self._process.pid

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Ask the process to end; kill it if that takes longer than ``grace_s``. Does not wait."""
        with self._lock:
            self._wanted = False
            if self._process is None or self._timer is not None:  # not started yet, or asked already
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

    def _run(self) -> None:
        code = _NOT_STARTED
        try:
            code = self._start_and_read()
        finally:
            self._end(code)

    def _start_and_read(self) -> int:
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
            # Read until its end: a pipe that nobody reads would stop the node as soon as it is full.
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


# A node that ran for less than this is started again only after a pause, which doubles up to a longest one: a node that cannot
# start (no memory, a broken installation) must not keep a core busy with trying.
_SHORT_RUN_S: Final = 5.0
_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 8.0


class ProcessPlacement:
    """Nodes as children of this process. ``log`` gets what they print, with their names."""

    def __init__(self, log: Callable[[str], None], *, module: str = NODE_MODULE) -> None:
        self._log, self._module = log, module
        self._nodes: dict[str, _Node] = {}
        self._leaving: list[_Node] = []
        self._ended: deque[NodeExit] = deque()

    def start(self, spec: NodeSpec, keys: NodeKeys) -> None:
        """Start a node."""
        self.stop(spec.name)  # one that has this name is replaced, not doubled
        self._nodes[spec.name] = _Node(spec, keys, self._log, self._ended.append, self._module)

    def restart(self, name: str, pid: int) -> None:
        """Kill a node's process and start it again, if it still is the one with this number."""
        if name in self._nodes:
            self._nodes[name].kill(pid)

    def stop(self, name: str) -> None:
        """End a node for good."""
        node = self._nodes.pop(name, None)
        if node is not None:
            node.stop()
            self._leaving = [leaving for leaving in self._leaving if leaving.alive]
            self._leaving.append(node)

    def ended(self) -> list[NodeExit]:
        """The processes that have ended since the last call."""
        return [self._ended.popleft() for _ in range(len(self._ended))]

    def close(self) -> None:
        """End all nodes and wait until they are gone."""
        for name in list(self._nodes):
            self.stop(name)
        for node in self._leaving:
            node.wait()
        self._leaving.clear()


class _Node:
    """One node through all its processes; a thread of its own goes from one to the next."""

    def __init__(
        self, spec: NodeSpec, keys: NodeKeys, log: Callable[[str], None], tell: Callable[[NodeExit], None], module: str
    ) -> None:
        self._spec, self._keys, self._log, self._tell, self._module = spec, keys, log, tell, module
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._process: NodeProcess | None = None
        self._began_s = 0.0
        self._thread = threading.Thread(target=self._keep_running, name=f"keeps {spec.name} running", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Has it not ended for good?"""
        return self._thread.is_alive()

    def kill(self, pid: int) -> None:
        """End the present process at once, if it has this number."""
        with self._lock:
            if self._process is not None and self._process.pid == pid:
                self._process.kill()

    def stop(self) -> None:
        """End for good."""
        with self._lock:
            self._over.set()
            if self._process is not None:
                self._process.stop()

    def wait(self) -> None:
        """Wait for the end."""
        self._thread.join()

    def _keep_running(self) -> None:
        incarnation, pause_s = 0, 0.0
        while not self._over.wait(pause_s):
            incarnation += 1
            self._began_s = SYSTEM_CLOCK.monotonic_s()
            code = self._run_once()
            again = not self._over.is_set() and starts_again(code, incarnation - 1)
            self._tell(NodeExit(self._spec.name, incarnation, describe_exit(code), again))
            if not again:
                return
            short = SYSTEM_CLOCK.monotonic_s() - self._began_s < _SHORT_RUN_S
            pause_s = min(max(2.0 * pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S) if short else 0.0

    def _run_once(self) -> int:
        codes: list[int] = []
        with self._lock:
            if self._over.is_set():
                return 0
            self._process = NodeProcess(self._spec, self._keys, self._log_line, codes.append, module=self._module)
        self._process.wait()
        with self._lock:
            self._process = None
        return codes[0]

    def _log_line(self, line: str) -> None:
        self._log(f"{self._spec.name}: {line}")
