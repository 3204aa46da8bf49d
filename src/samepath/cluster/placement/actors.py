"""Nodes as Ray actors, in a process that is connected to Ray: placed, watched and restarted by it.

Ray notices a killed process in one or two seconds. That is for starting the node again only: the main server notices by itself,
and has the frames drawn elsewhere long before.
"""

import os
import queue
import secrets
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from samepath import __version__
from samepath.cluster.placement.processes import NODE_MODULE, Kept
from samepath.cluster.placement.rays import NOT_INSTALLED, PrivateRay
from samepath.cluster.placement.records import GRACE_S, MOST_RESTARTS, REFUSED, Ended, NodeKeys, NodeOrder, starts_again
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import ClusterError
from samepath.core.network import is_loopback
from samepath.core.processes import how_it_ended, this_machine
from samepath.core.ray_cluster import Look, Node, Ray, connect, first_line, look_at, nodes_of, undo_environment, undo_priority

# What runs in Ray's process for one node: an actor that keeps the node's own process and passes on what that says.
#
# The node is a child, not the actor itself: it gets the priority and the environment that Ray has changed back, and
# neither can hold up the other. It ends with the actor, whatever ends that.

# A node that prints faster than anybody reads loses its oldest lines.
_MOST_LINES = 1000


@dataclass(frozen=True)
class News:
    """Which life it is, what the node printed, and its exit code once it has ended."""

    life: str
    lines: tuple[str, ...]
    code: int | None


class NodeActor:
    """One life of a node under Ray. When Ray starts the actor again, that is the next life."""

    def __init__(self, order: NodeOrder, keys: NodeKeys, version: str, machine: str, main: int, module: str) -> None:
        self._changed = threading.Condition()
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self._code: int | None = None
        self._told = False
        self._id = secrets.token_hex(8)
        self._life: Kept | None = None
        self._line(f"placed on {socket.gethostname()}")
        if version != __version__:
            self._line(f"samepath {version} was wanted, but {__version__} is on this host: install the same everywhere")
            self._end(REFUSED)
            return
        here = this_machine() == machine
        if not here and is_loopback(order.main_endpoint.removeprefix("tcp://").rpartition(":")[0]):
            self._line(f"{order.main_endpoint} is not reached from this host: give the main server another --link-host")
            self._end(REFUSED)
            return
        undo_environment()
        wanted, found = undo_priority()
        if found != wanted:
            self._line(f"draws at nice {found}, Ray's choice; start Ray there with RAY_worker_niceness=0 for {wanted}")
        self._life = Kept(
            order if here else replace(order, shared_memory=False),
            keys,
            self._line,
            self._end,
            module=module,
            watched=main if here else None,
            environment={name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
        )

    def news(self) -> News:
        """Wait for lines that the node printed or for its end. The end is told once: who asks again waits for the next life."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines or (self._code is not None and not self._told))
            lines = tuple(self._lines)
            self._lines.clear()
            self._told = self._code is not None
            return News(self._id, lines, self._code)

    def stop(self, grace_s: float) -> None:
        """Ask the node to end."""
        if self._life is not None:
            self._life.stop(grace_s)

    def _line(self, line: str) -> None:
        with self._changed:
            self._lines.append(line)
            self._changed.notify_all()

    def _end(self, code: int) -> None:
        with self._changed:
            self._code = code
            self._changed.notify_all()


# news, stop, and one to spare.
_CALLS_AT_ONCE: Final = 3
# After so long without a sign of a new node, the log says what it waits for.
_PATIENCE_S: Final = 10.0


@dataclass
class _Placed:
    """A node through all its lives. ``heard``: the present one gave a sign; ``past``: the last one, which may still talk."""

    order: NodeOrder
    actor: Ray
    begun_s: float
    incarnation: int = 1
    heard: bool = False
    past: str = ""
    life: str = ""
    stopping: bool = False
    killed: bool = False
    waited: bool = False


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
        self._ray = self._private.ray if self._private is not None else connect(address or "auto", NOT_INSTALLED)
        self._lock = threading.Lock()
        self._nodes: dict[str, _Placed] = {}
        self._leaving: list[_Placed] = []
        self._ended: deque[Ended] = deque()
        self._heard: queue.SimpleQueue[tuple[_Placed, News | None, Exception | None] | None] = queue.SimpleQueue()
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
            check_hosts(look_at(self._ray, nodes, self._log), link_is_loopback=link_is_loopback)
        else:
            self._log("the Ray cluster has no host with cores yet")

    def start(self, order: NodeOrder, keys: NodeKeys) -> None:
        """Start a node; on an existing cluster it takes as many of a host's cores as it has threads, spread over the hosts."""
        self.stop(order.name)
        actor = self._ray.remote(NodeActor).options(
            num_cpus=0 if self._private is not None else order.threads,
            max_restarts=MOST_RESTARTS,
            max_task_retries=0,
            max_concurrency=_CALLS_AT_ONCE,
            scheduling_strategy="SPREAD",
        )
        made = actor.remote(order, keys, __version__, self._machine, self._main, self._module)
        placed = _Placed(order, made, SYSTEM_CLOCK.monotonic_s())
        with self._lock:
            self._nodes[order.name] = placed
        self._listen(placed)

    def restart(self, name: str) -> None:
        """Kill a node and start it again."""
        with self._lock:
            placed = self._nodes.get(name)
            if placed is None or placed.killed or not placed.heard:
                return  # it is being started anyway
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

    def ended(self) -> list[Ended]:
        """Return the lives that have ended since the last call."""
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
        self._heard.put(None)
        self._thread.join()
        self._end_ray()

    def _end_ray(self) -> None:
        if self._private is not None:
            self._private.close()
        else:
            self._ray.shutdown()

    def _listen(self, placed: _Placed) -> None:
        """Ask for the next news; they come to our own thread."""

        def came(future: Any) -> None:  # noqa: ANN401 - Ray's
            error = future.exception()
            self._heard.put((placed, None if error is not None else future.result(), error))

        placed.actor.news.remote().future().add_done_callback(came)

    def _watch(self) -> None:
        while True:
            try:
                heard = self._heard.get(timeout=_PATIENCE_S)
            except queue.Empty:
                self._complain()
                continue
            if heard is None:
                return
            placed, news, error = heard
            if news is not None:
                self._hear(placed, news)
            elif error is not None:
                self._lose(placed, error)

    def _hear(self, placed: _Placed, news: News) -> None:
        if news.life != placed.past:
            placed.heard, placed.life = True, news.life
        for line in news.lines:
            self._log(f"{placed.order.name}: {line}")
        if news.code is None or news.life == placed.past:
            self._listen(placed)
            return
        # The node's process has ended, its actor lives: have Ray start both again, or let them go.
        killed = placed.killed
        again = not placed.stopping and (killed or starts_again(news.code, placed.incarnation - 1))
        self._tell(placed, how_it_ended(news.code), again=again)
        if not (again and killed):
            self._ray.kill(placed.actor, no_restart=not again)
        if again:
            self._listen(placed)

    def _lose(self, placed: _Placed, error: Exception) -> None:
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
            self._tell(placed, why, again=not dead)
        if not dead:
            self._listen(placed)

    def _tell(self, placed: _Placed, why: str, *, again: bool) -> None:
        self._ended.append(Ended(placed.order.name, placed.incarnation, why, again))
        with self._lock:
            if again:
                placed.incarnation += 1
                placed.past, placed.heard, placed.killed, placed.waited = placed.life, False, False, False
                placed.begun_s = SYSTEM_CLOCK.monotonic_s()
                return
            if placed in self._leaving:
                self._leaving.remove(placed)
            if self._nodes.get(placed.order.name) is placed:
                del self._nodes[placed.order.name]

    def _complain(self) -> None:
        """Say once which nodes have no place yet."""
        late_s = SYSTEM_CLOCK.monotonic_s() - _PATIENCE_S
        with self._lock:
            waiting = [one for one in self._nodes.values() if not one.heard and not one.waited and one.begun_s < late_s]
            for one in waiting:
                one.waited = True
        for one in waiting:
            cores = "a core" if one.order.threads == 1 else f"{one.order.threads} cores"
            self._log(f"{one.order.name} waits for a host of the Ray cluster that has {cores} free")


def check_hosts(looks: dict[Node, Look], *, link_is_loopback: bool) -> None:
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
