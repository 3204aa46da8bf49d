"""Which process runs on which cores, and what makes unequal nodes unequal.

The thesis' four servers were as fast as 7, 2, 1 and not quite 1 camera at ten frames a second. Here the first of unequal nodes
has four cores and draws with four threads, the second two, the third one, and the fourth a core that it shares with a process
that is always busy. Where there are too few cores for that nobody is pinned, and unequal nodes are slowed down: they rest after
every tick. The result says which it was.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bench.thesis.plan import NodeSet

UNEQUAL_CORES: Final = (4, 2, 1, 1)
SHARED: Final = 3  # the node, counted from 0, whose core is shared; those beyond it share theirs, too
UNEQUAL_HANDICAPS: Final = (1.0, 2.0, 4.0, 8.0)
MAIN_CORES: Final = 2  # its world has a thread of its own beside the one that talks to clients
# Beside main server and nodes: who drives, two who listen, one who measures latencies.
CLIENT_CORES: Final = 3
EIGHT_CLIENT_CORES: Final = 3
LISTENERS: Final = 2


@dataclass(frozen=True)
class NodePlace:
    """A node: its cores (none: wherever there is room), its threads, how many times slower it is made by resting."""

    cores: frozenset[int] = frozenset()
    threads: int = 1
    handicap: float = 1.0
    is_shared: bool = False  # with a process that is always busy
    renderer: str = "software"


@dataclass(frozen=True)
class Layout:
    """Where everybody runs; no cores: wherever there is room. ``words`` say it for the result."""

    main: frozenset[int]
    clients: frozenset[int]
    nodes: tuple[NodePlace, ...]
    words: str

    @property
    def is_pinned(self) -> bool:
        return bool(self.main)


def layout(node_set: NodeSet, cores: Sequence[int]) -> Layout:
    """Where the processes of a cluster run, given the cores there are, physical ones first."""
    if node_set.kind == "card":
        alike = layout(NodeSet("equal", node_set.nodes), cores)
        nodes = (replace(alike.nodes[0], renderer="cuda"), *alike.nodes[1:])
        return replace(alike, nodes=nodes, words=f"{alike.words}; the first node draws with the card")
    count = node_set.nodes
    is_equal = node_set.kind == "equal"
    wanted = [1] * count if is_equal else [UNEQUAL_CORES[min(k, len(UNEQUAL_CORES) - 1)] for k in range(count)]
    # The clients have the same cores for every cluster of a run, those that the largest leaves.
    most = MAIN_CORES + max(sum(wanted), sum(UNEQUAL_CORES))
    if len(cores) >= most + CLIENT_CORES:
        return _pinned(cores, wanted, most, is_equal=is_equal)
    if is_equal and len(cores) >= MAIN_CORES + count + CLIENT_CORES:
        return _pinned(cores, wanted, MAIN_CORES + count, is_equal=True)
    if is_equal:
        return Layout(frozenset(), frozenset(), (NodePlace(),) * count, f"nobody pinned: {len(cores)} cores for all processes")
    handicaps = [UNEQUAL_HANDICAPS[min(k, len(UNEQUAL_HANDICAPS) - 1)] for k in range(count)]
    words = ", ".join(f"{handicap:g}" for handicap in handicaps)
    return Layout(
        frozenset(), frozenset(), tuple(NodePlace(handicap=handicap) for handicap in handicaps),
        f"nobody pinned: {len(cores)} cores for all processes; nodes rest after each tick and are slower by {words}",
    )  # fmt: skip


def eight_layout(cores: Sequence[int]) -> Layout:
    """Where everybody runs when as many nodes as possible draw: one core each, and what the clients need."""
    nodes = len(cores) - MAIN_CORES - EIGHT_CLIENT_CORES
    if nodes < 1:
        count = max(len(cores), 1)
        words = f"nobody pinned: {len(cores)} cores for {count} nodes and everybody else"
        return Layout(frozenset(), frozenset(), (NodePlace(),) * count, words)
    return _pinned(cores, [1] * nodes, MAIN_CORES + nodes, is_equal=True)


def _pinned(cores: Sequence[int], wanted: Sequence[int], before_clients: int, *, is_equal: bool) -> Layout:
    places, at = [], MAIN_CORES
    for number, count in enumerate(wanted):
        is_shared = not is_equal and number >= SHARED
        places.append(NodePlace(frozenset(cores[at : at + count]), count, is_shared=is_shared))
        at += count
    clients = frozenset(cores[before_clients:])
    sizes = ", ".join(f"{len(place.cores)}{' shared with a busy process' if place.is_shared else ''}" for place in places)
    words = f"pinned: main server {MAIN_CORES} cores, nodes {sizes}, clients {len(clients)}"
    return Layout(frozenset(cores[:MAIN_CORES]), clients, tuple(places), words)


def usable_cores() -> tuple[int, ...]:
    """The cores of this process, one of each physical core first: the second thread of a core is not a core."""

    def sibling(core: int) -> int:
        path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        try:
            words = path.read_text(encoding="ascii").strip().replace("-", ",").split(",")
            return sorted(map(int, words)).index(core)
        except (OSError, ValueError):
            return 0

    return tuple(sorted(os.sched_getaffinity(0), key=lambda core: (sibling(core), core)))


def pin(pid: int, cores: frozenset[int]) -> None:
    """Keep all threads of a process on these cores, if there are any; threads it starts later stay with them."""
    if not cores:
        return
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            os.sched_setaffinity(int(task.name), cores)
        except ProcessLookupError:
            continue  # it has ended meanwhile


_SPIN: Final = (
    "import os, sys\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(3_000_000):\n        pass\n"
)


class BusyProcesses:
    """Processes that are always busy, one on each of some cores; they end with this one."""

    def __init__(self, cores: Sequence[frozenset[int]]) -> None:
        self._processes = [subprocess.Popen([sys.executable, "-c", _SPIN]) for _ in cores]
        for process, own in zip(self._processes, cores, strict=True):
            pin(process.pid, own)

    def close(self) -> None:
        """End them."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait(10.0)
