"""What runs in Ray's process for one node: an actor that keeps the node's own process and passes on what that says.

The node is a child, not the actor itself: it gets the priority and the environment that Ray has changed back, and neither can
hold up the other. It ends with the actor, whatever ends that.
"""

import os
import secrets
import socket
import threading
from collections import deque
from dataclasses import dataclass, replace

from samepath import __version__
from samepath.base.addresses import is_loopback
from samepath.base.processes import this_machine
from samepath.base.ray_worker import undo_environment, undo_priority
from samepath.sim.cluster.placement.kept import Kept
from samepath.sim.cluster.placement.records import REFUSED, NodeKeys, NodeOrder

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
