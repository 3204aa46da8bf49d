"""Nodes placed by Ray: on this machine through a Ray of our own, or on the hosts of an existing cluster.

Ray ends the process that is connected to it (the *driver*) when it fails itself. That must not be the process that owns the
world, so the driver is a process of its own (``ray_driver``), spoken to in lines of JSON. When it ends unasked, it is started
again, and all nodes with it.
"""

import importlib.util
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import IO, Any, Final

from samepath.cluster.placement.processes import NODE_MODULE, plain
from samepath.cluster.placement.records import RAY_NOT_INSTALLED, NodeExit, NodeKeys, NodeSpec
from samepath.core.errors import ClusterError
from samepath.core.processes import describe_exit

_DRIVER: Final = "samepath.cluster.placement.ray_driver"
_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0
# Closing asks every node first and ends Ray last.
_CLOSING_S: Final = 30.0


class RayPlacement:
    """One Ray actor per node. ``log`` gets what nodes print, with their names.

    ``address`` is that of an existing cluster, None asks for a Ray of our own. ``link_is_loopback``: the main server's link
    listens on loopback only, so nodes on other hosts could not reach it.
    """

    def __init__(
        self,
        log: Callable[[str], None],
        *,
        address: str | None = None,
        link_is_loopback: bool = True,
        module: str = NODE_MODULE,
    ) -> None:
        if importlib.util.find_spec("ray") is None:
            raise ClusterError(RAY_NOT_INSTALLED)
        self._log = log
        self._settings = {"address": address, "link_is_loopback": link_is_loopback, "module": module}
        self._lock = threading.Lock()
        self._nodes: dict[str, tuple[NodeSpec, NodeKeys]] = {}
        self._incarnations: dict[str, int] = {}
        self._ended: deque[NodeExit] = deque()
        self._opened: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._over = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._is_open = self._was_open = False
        self.folder = ""
        self._thread = threading.Thread(target=self._keep_driver, name="keeps Ray's driver", daemon=True)

    def open(self) -> None:
        """Start Ray or join the cluster, which takes some seconds; says why that fails. To be called once, before ``start``."""
        self._thread.start()
        refused = self._opened.get()
        if refused:
            self._thread.join()
            raise ClusterError(refused)

    def start(self, spec: NodeSpec, keys: NodeKeys) -> None:
        """Start a node; on an existing cluster it takes as many of a host's cores as it has threads, spread over the hosts."""
        with self._lock:
            self._nodes[spec.name] = (spec, keys)
            self._ask(do="start", spec=asdict(spec), keys=asdict(keys))

    def restart(self, name: str, pid: int) -> None:
        """Kill a node's process and start it again, if it still is the one with this number."""
        with self._lock:
            self._ask(do="restart", name=name, pid=pid)

    def stop(self, name: str) -> None:
        """End a node for good."""
        with self._lock:
            self._nodes.pop(name, None)
            self._ask(do="stop", name=name)

    def ended(self) -> list[NodeExit]:
        """The processes that have ended since the last call."""
        return [self._ended.popleft() for _ in range(len(self._ended))]

    def close(self) -> None:
        """End all nodes, and Ray if it is our own."""
        with self._lock:
            self._over.set()
            if self._process is not None and self._process.stdin is not None:
                with suppress(OSError):
                    self._process.stdin.close()
        if self._thread.is_alive():
            self._thread.join(_CLOSING_S)
            with self._lock:
                if self._process is not None:
                    self._process.kill()  # what clears up after Ray does so after this too
            self._thread.join()

    def _ask(self, **what: object) -> None:
        """Tell the driver, if it is there; one that is being started is told everything by the thread that starts it."""
        if self._is_open and self._process is not None and self._process.stdin is not None:
            with suppress(OSError, ValueError):  # it is just ending: its thread sees that
                self._process.stdin.write(json.dumps(what) + "\n")
                self._process.stdin.flush()

    def _keep_driver(self) -> None:
        """The driver's own thread: the kernel ends the driver with the thread that started it."""
        pause_s = _PAUSE_S
        while not self._over.is_set():
            # Its standard error goes to a file: Ray can write megabytes there, and only the last line is wanted, if it fails.
            with tempfile.TemporaryFile() as said:
                code, refused, was_open = self._run_driver(said)
                words = _last_line(said) if code > 0 else ""
                why = refused or f"Ray has failed: its process {describe_exit(code)}{words}"
            if not self._was_open:
                self._opened.put(why)
                return
            if self._over.is_set():
                return
            if was_open:
                self._lose_all()
            # One that was connected has lost its Ray: try again soon. One that never was will hardly do better: wait longer.
            pause_s = _PAUSE_S if was_open else min(2.0 * pause_s, _LONGEST_PAUSE_S)
            self._log(f"{why}; trying again in {pause_s:g} s")
            self._over.wait(pause_s)

    def _run_driver(self, said: IO[bytes]) -> tuple[int, str, bool]:
        """Run the driver once; return how it ended, why it was not let into the cluster, and whether it was."""
        with self._lock:
            if self._over.is_set():
                return 0, "", False
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, "-m", _DRIVER, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                encoding="utf-8",
                process_group=0,  # a terminal's Ctrl-C is for the main server alone
            )
            process = self._process
            if process.stdin is None or process.stdout is None:
                raise RuntimeError("pipes were asked for")
            process.stdin.write(json.dumps(self._settings) + "\n")
            process.stdin.flush()
        refused = ""
        try:
            for line in process.stdout:
                refused = self._on_message(json.loads(line)) or refused
        finally:
            with self._lock:
                was_open, self._is_open, self._process = self._is_open, False, None
                with suppress(OSError):
                    process.stdin.close()
            process.stdout.close()
            code = process.wait()
        return code, refused, was_open

    def _on_message(self, news: dict[str, Any]) -> str:
        if "line" in news:
            self._log(news["line"])
        elif "ended" in news:
            self._add_exit(NodeExit(**news["ended"]))
        elif "folder" in news:
            self._on_connected(news["folder"])
        return str(news.get("refused", ""))

    def _on_connected(self, folder: str) -> None:
        """The driver is connected: it is told of all nodes that there should be."""
        with self._lock:
            self.folder, self._is_open = folder, True
            for spec, keys in self._nodes.values():
                self._ask(do="start", spec=asdict(spec), keys=asdict(keys))
        if not self._was_open:
            self._was_open = True
            self._opened.put("")

    def _add_exit(self, ended: NodeExit) -> None:
        """Incarnations are counted here: a driver that is started again knows only its own."""
        incarnation = self._incarnations[ended.name] = self._incarnations.get(ended.name, 0) + 1
        self._ended.append(NodeExit(ended.name, incarnation, ended.why, ended.restarts))
        if not ended.restarts:
            with self._lock:
                self._nodes.pop(ended.name, None)

    def _lose_all(self) -> None:
        with self._lock:
            names = list(self._nodes)
        for name in names:
            self._add_exit(NodeExit(name, 0, "was lost with Ray", restarts=True))


def _last_line(said: IO[bytes]) -> str:
    """What a process wrote on stderr last, in brackets."""
    said.seek(0)
    lines = [line for line in said.read().splitlines() if line.strip()]
    return f" ({plain(lines[-1][:300])})" if lines else ""
