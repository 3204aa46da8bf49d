"""Nodes as plain processes of the main server, on its own machine. They end with it, whatever ends it."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from samepath.base.clock import SYSTEM_CLOCK
from samepath.base.processes import how_it_ended
from samepath.sim.cluster.placement.kept import NODE_MODULE, Kept
from samepath.sim.cluster.placement.records import Ended, NodeKeys, NodeOrder, starts_again

# A node that lived shorter than this is started again only after a pause, which doubles up to a longest one.
_SHORT_LIFE_S: Final = 5.0
_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 8.0
# Who asks for a restart means a life that he has seen fail; one that has just begun is not it.
_JUST_BEGUN_S: Final = 1.0


class ProcessPlacement:
    """Nodes as children of this process. ``log`` gets what they print, with their names."""

    def __init__(self, log: Callable[[str], None], *, module: str = NODE_MODULE) -> None:
        self._log, self._module = log, module
        self._nodes: dict[str, _Node] = {}
        self._leaving: list[_Node] = []
        self._ended: deque[Ended] = deque()

    def start(self, order: NodeOrder, keys: NodeKeys) -> None:
        """Start a node."""
        self.stop(order.name)
        self._nodes[order.name] = _Node(order, keys, self._log, self._ended.append, self._module)

    def restart(self, name: str) -> None:
        """Kill a node and start it again."""
        if name in self._nodes:
            self._nodes[name].kill()

    def stop(self, name: str) -> None:
        """End a node for good."""
        node = self._nodes.pop(name, None)
        if node is not None:
            node.stop()
            self._leaving = [one for one in self._leaving if one.alive]
            self._leaving.append(node)

    def ended(self) -> list[Ended]:
        """Return the lives that have ended since the last call."""
        return [self._ended.popleft() for _ in range(len(self._ended))]

    def close(self) -> None:
        """End all nodes and wait until they are gone."""
        for name in list(self._nodes):
            self.stop(name)
        for node in self._leaving:
            node.wait()
        self._leaving.clear()


class _Node:
    """One node through all its lives; a thread of its own goes from one to the next."""

    def __init__(
        self, order: NodeOrder, keys: NodeKeys, log: Callable[[str], None], tell: Callable[[Ended], None], module: str
    ) -> None:
        self._order, self._keys, self._log, self._tell, self._module = order, keys, log, tell, module
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._life: Kept | None = None
        self._born_s = 0.0
        self._thread = threading.Thread(target=self._live, name=f"keeps {order.name} going", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Has it not ended for good?"""
        return self._thread.is_alive()

    def kill(self) -> None:
        """End the present life at once, unless it has just begun."""
        with self._lock:
            if self._life is not None and SYSTEM_CLOCK.monotonic_s() - self._born_s > _JUST_BEGUN_S:
                self._life.kill()

    def stop(self) -> None:
        """End for good."""
        with self._lock:
            self._over.set()
            if self._life is not None:
                self._life.stop()

    def wait(self) -> None:
        """Wait for the end."""
        self._thread.join()

    def _live(self) -> None:
        incarnation, pause_s = 0, 0.0
        while not self._over.wait(pause_s):
            incarnation += 1
            self._born_s = SYSTEM_CLOCK.monotonic_s()
            code = self._one_life()
            again = not self._over.is_set() and starts_again(code, incarnation - 1)
            self._tell(Ended(self._order.name, incarnation, how_it_ended(code), again))
            if not again:
                return
            short = SYSTEM_CLOCK.monotonic_s() - self._born_s < _SHORT_LIFE_S
            pause_s = min(max(2.0 * pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S) if short else 0.0

    def _one_life(self) -> int:
        codes: list[int] = []
        with self._lock:
            if self._over.is_set():
                return 0
            self._life = Kept(self._order, self._keys, self._say, codes.append, module=self._module)
        self._life.wait()
        with self._lock:
            self._life = None
        return codes[0]

    def _say(self, line: str) -> None:
        self._log(f"{self._order.name}: {line}")
