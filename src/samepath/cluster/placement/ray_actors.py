"""Nodes as Ray actors, as seen from the driver (``ray_driver``): placed, watched and restarted by Ray.

Ray notices a killed process in one or two seconds. That is for starting the node again only: the main server notices by itself,
and has the frames drawn elsewhere long before.

The node is a child process of its actor, not the actor itself: it gets the priority and the environment that Ray has changed
back, and neither can hold up the other. It ends with the actor, whatever ends that.
"""

import ipaddress
import logging
import os
import queue
import secrets
import select
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import psutil

from samepath import __version__
from samepath.cluster.placement import ray_cleanup
from samepath.cluster.placement.processes import NODE_MODULE, NodeProcess
from samepath.cluster.placement.records import (
    GRACE_S,
    MOST_RESTARTS,
    RAY_NOT_INSTALLED,
    REFUSED,
    NodeExit,
    NodeKeys,
    NodeSpec,
    starts_again,
)
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import ClusterError
from samepath.core.network import is_loopback
from samepath.core.processes import describe_exit, this_machine
from samepath.core.ray_cluster import (
    KEEP_LOOPBACK,
    NAMESPACE,
    NodeProbe,
    Ray,
    RayNode,
    connect,
    first_line,
    import_ray,
    nodes_of,
    overheard,
    own_signals,
    probe_nodes,
    undo_environment,
    undo_priority,
)

# A node that prints faster than anybody reads loses its oldest lines.
_MOST_LINES: Final = 1000
# output, stop, and one to spare.
_CALLS_AT_ONCE: Final = 3
# After so long without a sign of a new node, the log says what it waits for.
_WAIT_S: Final = 10.0
_LOOPBACK: Final = "127.0.0.1"
# Only settings and log lines go through Ray; its smallest store is enough.
_STORE_BYTES: Final = 80 << 20
_NEEDED: Final = ("gcs_server", "raylet")
# Set before Ray is imported, for it and for all that it starts.
_SETTINGS: Final = {KEEP_LOOPBACK: "0", "RAY_AUTH_MODE": "token", "RAY_worker_niceness": "0"}


@dataclass(frozen=True)
class NodeOutput:
    """What the node printed, its process's number, and its exit code once it has ended.

    ``actor`` tells incarnations of the actor apart.
    """

    actor: str
    lines: tuple[str, ...]
    code: int | None
    pid: int | None


@dataclass
class _Placed:
    """A node through all its incarnations. ``heard``: this one gave a sign; ``past``: the one before, which may still talk.

    ``pid`` is the number of this one's process, once it has printed something.
    """

    spec: NodeSpec
    actor: Ray
    begun_s: float
    incarnation: int = 1
    heard: bool = False
    past: str = ""
    current: str = ""
    stopping: bool = False
    killed: bool = False
    waited: bool = False
    pid: int | None = None


class ActorPlacement:
    """One Ray actor per node. ``log`` gets what nodes print, with their names.

    ``address`` is that of an existing cluster, None asks for a Ray of our own. ``link_is_loopback``: the main server's link
    listens on loopback only, so nodes on other hosts could not reach it. ``main`` is the process that nodes on this machine
    must not outlive. ``broken`` is called when a Ray of our own has failed. To be made in the main thread.
    """

    def __init__(
        self,
        log: Callable[[str], None],
        broken: Callable[[], None],
        main: int,
        *,
        address: str | None = None,
        link_is_loopback: bool = True,
        module: str = NODE_MODULE,
    ) -> None:
        self._log, self._main, self._module = log, main, module
        self._machine = this_machine()
        self._private = PrivateRay() if address is None else None
        self._ray = self._private.ray if self._private is not None else connect(address or "auto", RAY_NOT_INSTALLED)
        self._lock = threading.Lock()
        self._nodes: dict[str, _Placed] = {}
        self._leaving: list[_Placed] = []
        self._ended: deque[NodeExit] = deque()
        self._outputs: queue.SimpleQueue[tuple[_Placed, NodeOutput | None, Exception | None] | None] = queue.SimpleQueue()
        if address is not None:
            try:
                self._look(link_is_loopback=link_is_loopback)
            except BaseException:
                self._end_ray()
                raise
        if self._private is not None:
            self._private.watch(broken)
        self._thread = threading.Thread(target=self._watch, name="hears from nodes under Ray", daemon=True)
        self._thread.start()

    @property
    def folder(self) -> str:
        """Where a Ray of our own has its files."""
        return self._private.folder if self._private is not None else ""

    def _look(self, *, link_is_loopback: bool) -> None:
        nodes = nodes_of(self._ray)
        if nodes:
            check_hosts(probe_nodes(self._ray, nodes, self._log), link_is_loopback=link_is_loopback)
        else:
            self._log("the Ray cluster has no host with cores yet")

    def start(self, spec: NodeSpec, keys: NodeKeys) -> None:
        """Start a node; on an existing cluster it takes as many of a host's cores as it has threads, spread over the hosts."""
        self.stop(spec.name)
        actor = self._ray.remote(NodeActor).options(
            # In a Ray of our own all nodes are on this host, whatever they take; elsewhere Ray must count to spread them.
            num_cpus=0 if self._private is not None else spec.threads,
            max_restarts=MOST_RESTARTS,
            max_task_retries=0,  # a call that was lost with its actor must fail here: that is how we learn of the loss
            max_concurrency=_CALLS_AT_ONCE,
            scheduling_strategy="SPREAD",
        )
        made = actor.remote(spec, keys, __version__, self._machine, self._main, self._module)
        placed = _Placed(spec, made, SYSTEM_CLOCK.monotonic_s())
        with self._lock:
            self._nodes[spec.name] = placed
        self._ask_for_output(placed)

    def restart(self, name: str, pid: int) -> None:
        """Kill a node's process and start it again, if it still is the one with this number."""
        with self._lock:
            placed = self._nodes.get(name)
            if placed is None or placed.killed or not placed.heard or placed.pid not in (None, pid):
                return  # it is being started anyway, or has been
            placed.killed = True
        self._ray.kill(placed.actor, no_restart=False)

    def stop(self, name: str) -> None:
        """End a node for good."""
        with self._lock:
            placed = self._nodes.pop(name, None)
            if placed is None:
                return
            placed.stopping = True
            self._leaving.append(placed)
        if placed.heard:
            placed.actor.stop.remote(GRACE_S)
        else:  # it has no place yet, or none again
            self._ray.kill(placed.actor)

    def ended(self) -> list[NodeExit]:
        """The processes that have ended since the last call."""
        return [self._ended.popleft() for _ in range(len(self._ended))]

    def close(self) -> None:
        """End all nodes, and Ray if it is our own."""
        for name in list(self._nodes):
            self.stop(name)
        until_s = SYSTEM_CLOCK.monotonic_s() + 2.0 * GRACE_S
        while self._leaving and SYSTEM_CLOCK.monotonic_s() < until_s:
            SYSTEM_CLOCK.sleep_s(0.02)
        for placed in list(self._leaving):
            self._ray.kill(placed.actor)
        self._outputs.put(None)
        self._thread.join()
        self._end_ray()

    def _end_ray(self) -> None:
        if self._private is not None:
            self._private.close()
        else:
            self._ray.shutdown()

    def _ask_for_output(self, placed: _Placed) -> None:
        """Ask for the next output; it comes to our own thread."""

        def came(future: Any) -> None:  # noqa: ANN401 - Ray's
            error = future.exception()
            self._outputs.put((placed, None if error is not None else future.result(), error))

        placed.actor.output.remote().future().add_done_callback(came)

    def _watch(self) -> None:
        while True:
            try:
                heard = self._outputs.get(timeout=_WAIT_S)
            except queue.Empty:
                self._log_waiting()
                continue
            if heard is None:
                return
            placed, output, error = heard
            if output is not None:
                self._on_output(placed, output)
            elif error is not None:
                self._on_actor_lost(placed, error)

    def _on_output(self, placed: _Placed, output: NodeOutput) -> None:
        if output.actor != placed.past:
            placed.heard, placed.current, placed.pid = True, output.actor, output.pid or placed.pid
        for line in output.lines:
            self._log(f"{placed.spec.name}: {line}")
        if output.code is None or output.actor == placed.past:
            self._ask_for_output(placed)
            return
        # The node's process has ended, its actor lives: have Ray start both again, or let them go.
        killed = placed.killed
        again = not placed.stopping and (killed or starts_again(output.code, placed.incarnation - 1))
        self._add_exit(placed, describe_exit(output.code), again=again)
        if not (again and killed):  # where it was killed to be restarted, Ray is at it already
            self._ray.kill(placed.actor, no_restart=not again)
        if again:
            self._ask_for_output(placed)

    def _on_actor_lost(self, placed: _Placed, error: Exception) -> None:
        """The actor was lost. Ray starts it again by itself, unless it says that it is dead."""
        dead = isinstance(error, self._ray.exceptions.ActorDiedError)
        if placed.stopping and not dead:
            self._ray.kill(placed.actor)
            dead = True
        if placed.stopping:
            why = "was stopped"
        elif dead:
            why = f"was given up by Ray ({first_line(error)})"
        else:
            why = "was killed to be started again" if placed.killed else "was lost with its process of Ray's"
        if placed.heard or dead:
            self._add_exit(placed, why, again=not dead)
        if not dead:
            self._ask_for_output(placed)

    def _add_exit(self, placed: _Placed, why: str, *, again: bool) -> None:
        self._ended.append(NodeExit(placed.spec.name, placed.incarnation, why, again))
        with self._lock:
            if again:
                placed.incarnation += 1
                placed.past, placed.heard, placed.killed, placed.waited = placed.current, False, False, False
                placed.pid = None
                placed.begun_s = SYSTEM_CLOCK.monotonic_s()
                return
            if placed in self._leaving:
                self._leaving.remove(placed)
            if self._nodes.get(placed.spec.name) is placed:
                del self._nodes[placed.spec.name]

    def _log_waiting(self) -> None:
        """Say once which nodes have no place yet."""
        late_s = SYSTEM_CLOCK.monotonic_s() - _WAIT_S
        with self._lock:
            waiting = [node for node in self._nodes.values() if not node.heard and not node.waited and node.begun_s < late_s]
            for node in waiting:
                node.waited = True
        for node in waiting:
            cores = "a core" if node.spec.threads == 1 else f"{node.spec.threads} cores"
            self._log(f"{node.spec.name} waits for a host of the Ray cluster that has {cores} free")


class NodeActor:
    """One incarnation of a node under Ray. When Ray starts the actor again, that is the next."""

    def __init__(self, spec: NodeSpec, keys: NodeKeys, version: str, machine: str, main: int, module: str) -> None:
        self._changed = threading.Condition()
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self._code: int | None = None
        self._end_told = False
        self._id = secrets.token_hex(8)
        self._process: NodeProcess | None = None
        self._line(f"placed on {socket.gethostname()}")
        if version != __version__:
            self._line(f"samepath {version} was wanted, but {__version__} is on this host: install the same everywhere")
            self._end(REFUSED)
            return
        here = this_machine() == machine
        if not here and is_loopback(spec.main_endpoint.removeprefix("tcp://").rpartition(":")[0]):
            self._line(f"{spec.main_endpoint} is not reached from this host: give the main server another --link-host")
            self._end(REFUSED)
            return
        undo_environment()
        wanted, found = undo_priority()
        if found != wanted:
            self._line(f"draws at nice {found}, Ray's choice; start Ray there with RAY_worker_niceness=0 for {wanted}")
        self._process = NodeProcess(
            spec if here else replace(spec, shared_memory=False),
            keys,
            self._line,
            self._end,
            module=module,
            watched=main if here else None,
            environment={name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
        )

    def output(self) -> NodeOutput:
        """Wait for lines that the node printed or for its end.

        The end is told once: whoever asks again waits for the next incarnation.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._lines or (self._code is not None and not self._end_told))
            lines = tuple(self._lines)
            self._lines.clear()
            self._end_told = self._code is not None
            code = self._code
        # Without the lock: the process's thread prints lines, and takes the two in the other order.
        return NodeOutput(self._id, lines, code, None if self._process is None else self._process.pid)

    def stop(self, grace_s: float) -> None:
        """Ask the node to end."""
        if self._process is not None:
            self._process.stop(grace_s)

    def _line(self, line: str) -> None:
        with self._changed:
            self._lines.append(line)
            self._changed.notify_all()

    def _end(self, code: int) -> None:
        with self._changed:
            self._code = code
            self._changed.notify_all()


def check_hosts(looks: dict[RayNode, NodeProbe], *, link_is_loopback: bool) -> None:
    """Refuse hosts with another samepath, and hosts that could not reach the main server."""
    for node, look in looks.items():
        if look.samepath != __version__:
            found = f"samepath {look.samepath} is" if look.samepath else f"no samepath is ({look.problem})"
            raise ClusterError(
                f"Ray node {node.hostname} ({node.address}): samepath {__version__} was wanted, but {found} installed there: "
                "install the same version on every node, into the Python that Ray is started with"
            )
    elsewhere = others([look.boot for look in looks.values()])
    if elsewhere and link_is_loopback:
        raise ClusterError(
            f"{elsewhere} of the Ray cluster's {len(looks)} nodes are on other machines and could not reach the main server, "
            "which listens on loopback only: give an address of this machine that they reach with --link-host"
        )


def others(boots: Sequence[str]) -> int:
    """Count the hosts that run under another kernel than this process."""
    here = this_machine().partition("/")[0]
    return sum(boot != here for boot in boots)


class PrivateRay:
    """A running Ray that belongs to this process alone. To be started from the main thread, which must outlive it."""

    def __init__(self) -> None:
        os.environ.update(_SETTINGS)
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        self.ray: Ray = import_ray(RAY_NOT_INSTALLED)
        if self.ray.is_initialized():
            raise ClusterError("this process has a Ray already: end that one, or place nodes with --placement processes")
        # Ray's sockets want a short path.
        self.folder = tempfile.mkdtemp(prefix="samepath-ray-")
        self._cleaner = subprocess.Popen(  # noqa: S603 - our own interpreter
            [sys.executable, "-m", ray_cleanup.__name__, self.folder],
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
        os.environ[ray_cleanup.MARK] = self.folder
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
                del os.environ[ray_cleanup.MARK]  # for Ray's processes only

    def _check(self, before: set[tuple[str, int]]) -> None:
        """Look whether Ray has kept to loopback; never let it stand open."""
        for pid in (os.getpid(), *ray_cleanup.belonging(self.folder, os.getpid())):
            for address, port in listening(pid) - before:
                if not ipaddress.ip_address(address.removeprefix("::ffff:")).is_loopback:
                    raise ClusterError(
                        f"Ray listens on {address}:{port}, beyond loopback, and was ended: run samepath in a process alone"
                    )

    def watch(self, broken: Callable[[], None]) -> None:
        """Call ``broken``, from a thread, as soon as one of the two processes that Ray cannot do without has ended."""
        needed = [child.pid for child in psutil.Process().children() if child.name() in _NEEDED]
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
        if self._cleaner.stdin is not None:
            with suppress(BrokenPipeError):
                self._cleaner.stdin.close()
        self._cleaner.wait()


def listening(pid: int) -> set[tuple[str, int]]:
    """Return addresses and ports on which a process listens for TCP connections."""
    try:
        found = psutil.Process(pid).net_connections(kind="tcp")
    except psutil.Error:
        return set()
    return {(link.laddr.ip, link.laddr.port) for link in found if link.status == psutil.CONN_LISTEN}
