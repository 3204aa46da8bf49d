"""Nodes placed by Ray: on this machine through a Ray of our own, or on the hosts of an existing cluster.

Ray is in a process of its own (``placer``), so that its failure cannot end the main server: then that process is started again,
and all nodes with it.
"""

import importlib.util
import ipaddress
import json
import logging
import os
import queue
import secrets
import select
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import IO, Any, Final

import psutil

from samepath.cluster.placement import sweeper
from samepath.cluster.placement.processes import NODE_MODULE, plain
from samepath.cluster.placement.records import Ended, NodeKeys, NodeOrder
from samepath.core.errors import ClusterError
from samepath.core.processes import how_it_ended
from samepath.core.ray_cluster import KEEP_LOOPBACK, NAMESPACE, Ray, first_line, import_ray, overheard, own_signals

# A Ray of our own on this machine: on loopback only, with a token, without dashboard or statistics, gone when we are
# gone.

NOT_INSTALLED: Final = (
    "Ray places the nodes and is not installed: pip install 'samepath[cluster]', or do without it: --placement processes"
)
_LOOPBACK: Final = "127.0.0.1"
# Only orders and log lines go through Ray; its smallest store is enough.
_STORE_BYTES: Final = 80 << 20
_NEEDED: Final = ("gcs_server", "raylet")
# Set before Ray is imported, for it and for all that it starts.
_SETTINGS: Final = {KEEP_LOOPBACK: "0", "RAY_AUTH_MODE": "token", "RAY_worker_niceness": "0"}


class PrivateRay:
    """A running Ray that belongs to this process alone. To be started from the main thread, which must outlive it."""

    def __init__(self) -> None:
        os.environ.update(_SETTINGS)
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        self.ray: Ray = import_ray(NOT_INSTALLED)
        if self.ray.is_initialized():
            raise ClusterError("this process has a Ray already: end that one, or place nodes with --placement processes")
        # Ray's sockets want a short path.
        self.folder = tempfile.mkdtemp(prefix="samepath-ray-")
        self._sweeper = subprocess.Popen(  # noqa: S603 - our own interpreter
            [sys.executable, "-m", sweeper.__name__, self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._closing = False
        before = listening(os.getpid())
        try:
            self._start()
            self._check(before)
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        os.environ[sweeper.MARK] = self.folder
        with overheard() as said, own_signals():
            try:
                self.ray.init(
                    address="local",
                    _node_ip_address=_LOOPBACK,
                    _temp_dir=self.folder,
                    namespace=NAMESPACE,
                    num_cpus=os.cpu_count(),  # for starting so many processes at a time; nodes take none of them
                    num_gpus=0,
                    object_store_memory=_STORE_BYTES,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.CRITICAL,
                )
            except (RuntimeError, ValueError, AssertionError, OSError, self.ray.exceptions.RayError) as error:
                said.seek(0)
                words = first_line(error) or said.read().decode(errors="replace").strip().rpartition("\n")[2]
                raise ClusterError(f"Ray did not start on this machine ({words}): try --placement processes") from error
            finally:
                del os.environ[sweeper.MARK]  # for Ray's processes only

    def _check(self, before: set[tuple[str, int]]) -> None:
        """Look whether Ray has kept to loopback; never let it stand open."""
        for pid in (os.getpid(), *sweeper.belonging(self.folder, os.getpid())):
            for address, port in listening(pid) - before:
                if not ipaddress.ip_address(address.removeprefix("::ffff:")).is_loopback:
                    raise ClusterError(
                        f"Ray listens on {address}:{port}, beyond loopback, and was ended: run samepath in a process alone"
                    )

    def watch(self, broken: Callable[[], None]) -> None:
        """Call ``broken``, from a thread, as soon as one of the two processes that Ray cannot do without has ended."""
        needed = [one.pid for one in psutil.Process().children() if one.name() in _NEEDED]
        handles = [os.pidfd_open(pid) for pid in needed]

        def wait() -> None:
            select.select(handles, [], [])  # a process's handle can be read once it has ended
            if not self._closing:
                broken()

        threading.Thread(target=wait, name="watches Ray", daemon=True).start()

    def close(self) -> None:
        """End Ray and wait until nothing of it is left."""
        self._closing = True
        self.ray.shutdown()
        if self._sweeper.stdin is not None:
            with suppress(BrokenPipeError):
                self._sweeper.stdin.close()
        self._sweeper.wait()


def listening(pid: int) -> set[tuple[str, int]]:
    """Return addresses and ports on which a process listens for TCP connections."""
    try:
        found = psutil.Process(pid).net_connections(kind="tcp")
    except psutil.Error:
        return set()
    return {(one.laddr.ip, one.laddr.port) for one in found if one.status == psutil.CONN_LISTEN}


_PLACER: Final = "samepath.cluster.placement.placer"
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
            raise ClusterError(NOT_INSTALLED)
        self._log = log
        self._settings = {"address": address, "link_is_loopback": link_is_loopback, "module": module}
        self._lock = threading.Lock()
        self._nodes: dict[str, tuple[NodeOrder, NodeKeys]] = {}
        self._lives: dict[str, int] = {}
        self._ended: deque[Ended] = deque()
        self._opened: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._over = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._is_open = self._was_open = False
        self.folder = ""
        self._thread = threading.Thread(target=self._keep, name="keeps Ray", daemon=True)

    def open(self) -> None:
        """Start Ray or join the cluster, which takes some seconds; says why that fails. To be called once, before ``start``."""
        self._thread.start()
        refused = self._opened.get()
        if refused:
            self._thread.join()
            raise ClusterError(refused)

    def start(self, order: NodeOrder, keys: NodeKeys) -> None:
        """Start a node; on an existing cluster it takes as many of a host's cores as it has threads, spread over the hosts."""
        with self._lock:
            self._nodes[order.name] = (order, keys)
            self._ask(do="start", order=asdict(order), keys=asdict(keys))

    def restart(self, name: str) -> None:
        """Kill a node and start it again."""
        with self._lock:
            self._ask(do="restart", name=name)

    def stop(self, name: str) -> None:
        """End a node for good."""
        with self._lock:
            self._nodes.pop(name, None)
            self._ask(do="stop", name=name)

    def ended(self) -> list[Ended]:
        """Return the lives that have ended since the last call."""
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

    def _ask(self, **what: Any) -> None:  # noqa: ANN401 - JSON
        """Tell the placer, if it is there; one that is being started is told everything by its keeper."""
        if self._is_open and self._process is not None and self._process.stdin is not None:
            with suppress(OSError, ValueError):  # it is just ending: its keeper sees that
                self._process.stdin.write(json.dumps(what) + "\n")
                self._process.stdin.flush()

    # -- the keeper's thread: the kernel ends the placer with it -------------------------------------------------------

    def _keep(self) -> None:
        pause_s = _PAUSE_S
        while not self._over.is_set():
            with tempfile.TemporaryFile() as said:
                code, refused, was_open = self._run_placer(said)
                words = _last_line(said) if code > 0 else ""
                why = refused or f"Ray has failed: its process {how_it_ended(code)}{words}"
            if not self._was_open:
                self._opened.put(why)
                return
            if self._over.is_set():
                return
            if was_open:
                self._lose_all()
            pause_s = _PAUSE_S if was_open else min(2.0 * pause_s, _LONGEST_PAUSE_S)
            self._log(f"{why}; trying again in {pause_s:g} s")
            self._over.wait(pause_s)

    def _run_placer(self, said: IO[bytes]) -> tuple[int, str, bool]:
        """Run the placer once; return how it ended, why it was not let into the cluster, and whether it was."""
        with self._lock:
            if self._over.is_set():
                return 0, "", False
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, "-m", _PLACER, str(os.getpid())],
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
                refused = self._hear(json.loads(line)) or refused
        finally:
            with self._lock:
                was_open, self._is_open, self._process = self._is_open, False, None
                with suppress(OSError):
                    process.stdin.close()
            process.stdout.close()
            code = process.wait()
        return code, refused, was_open

    def _hear(self, news: dict[str, Any]) -> str:
        if "line" in news:
            self._log(news["line"])
        elif "ended" in news:
            self._tell(Ended(**news["ended"]))
        elif "folder" in news:
            self._begin(news["folder"])
        return str(news.get("refused", ""))

    def _begin(self, folder: str) -> None:
        """The placer is connected: it is told of all nodes that there should be."""
        with self._lock:
            self.folder, self._is_open = folder, True
            for order, keys in self._nodes.values():
                self._ask(do="start", order=asdict(order), keys=asdict(keys))
        if not self._was_open:
            self._was_open = True
            self._opened.put("")

    def _tell(self, ended: Ended) -> None:
        """Count lives here: a placer that is started again knows only its own."""
        life = self._lives.get(ended.name, 0) + 1
        self._lives[ended.name] = life
        self._ended.append(Ended(ended.name, life, ended.why, ended.restarts))
        if not ended.restarts:
            with self._lock:
                self._nodes.pop(ended.name, None)

    def _lose_all(self) -> None:
        with self._lock:
            names = list(self._nodes)
        for name in names:
            self._tell(Ended(name, 0, "was lost with Ray", restarts=True))


def _last_line(said: IO[bytes]) -> str:
    """What a process wrote on stderr last, in brackets."""
    said.seek(0)
    lines = [one for one in said.read().splitlines() if one.strip()]
    return f" ({plain(lines[-1][:300])})" if lines else ""
