"""What a node is started with, its cores among it, how it ended, and what every placement can do.

A placement starts processes and starts them again; it never decides whether a node works. That is the main server's: it sees a
node fail within milliseconds (:mod:`samepath.cluster.coordinator`) and asks for a restart, while Ray alone would take seconds
for a killed process and a minute for a frozen one.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final, Literal, Protocol

from samepath.core.errors import InputError

# A node that has ended so often will not get better by itself: it is given up, and the log says so.
MOST_RESTARTS: Final = 100
# How long a node may take to end by itself once it is asked to: long enough to finish the tick it draws, and short enough that
# whoever presses Ctrl-C does not press it again.
GRACE_S: Final = 2.0
# Exit codes after which a node is not started again: it has left, or it was refused and would be again.
LEFT: Final = 0
REFUSED: Final = 2


RAY_NOT_INSTALLED: Final = (
    "Ray places the nodes and is not installed: pip install 'samepath[cluster]', or do without it: --placement processes"
)


@dataclass(frozen=True)
class NodeSpec:
    """What a node is started with.

    ``host`` is the address on which its two CARLA ports listen, ``port`` the first of them (0: any two), ``handicap`` the
    factor by which it draws slower than it could, ``main_endpoint`` where the main server's link listens. ``port_step`` is how
    far ports of one node and the next are apart; 0: all have the same, each on a host of its own. ``core_sets`` are the cores
    of one node after the other, in turn; none: each may use all. ``compress`` is for frames that go to another host,
    ``renderer`` who draws.
    """

    name: str
    ordinal: int
    main_endpoint: str
    host: str = "127.0.0.1"
    port: int = 0
    threads: int = 1
    handicap: float = 1.0
    shared_memory: bool = True
    port_step: int = 2
    core_sets: tuple[tuple[int, ...], ...] = ()
    compress: Literal["auto", "on", "off"] = "auto"
    renderer: str = "software"

    @property
    def cores(self) -> tuple[int, ...]:
        """The cores that this node may use; none: all."""
        return tuple(self.core_sets[(self.ordinal - 1) % len(self.core_sets)]) if self.core_sets else ()

    @property
    def port_is_fixed(self) -> bool:
        """Whether a user chose the port (``--node-port``), and it was not counted up from the main server's."""
        return self.port > 0 and not self.port_step

    def another(self, ordinal: int) -> "NodeSpec":
        """The same for another node of this kind."""
        port = self.port and self.port + self.port_step * (ordinal - self.ordinal)
        return replace(self, name=f"node-{ordinal}", ordinal=ordinal, port=port)


@dataclass(frozen=True)
class NodeKeys:
    """A node's own pair of keys, and the main server's public one. They never stand on a command line or in a log."""

    main_public: str
    public: str
    secret: str = field(repr=False)


@dataclass(frozen=True)
class NodeExit:
    """A node's process has ended. ``restarts``: its placement starts it again, as the next incarnation."""

    name: str
    incarnation: int
    why: str
    restarts: bool


class Placement(Protocol):
    """Starts nodes and keeps them going. No method but ``close`` waits for anything; any thread may call them."""

    def start(self, spec: NodeSpec, keys: NodeKeys) -> None:
        """Start a node. One that ends without having been asked to is started again, with the same spec and keys."""
        ...

    def restart(self, name: str, pid: int) -> None:
        """Kill a node's process, frozen or not, and start it again; nothing is done where that is under way already.

        ``pid`` is the number that the failed process had on its host. By the time that its failure is noticed it may have been
        replaced, and its successor is not to blame.
        """
        ...

    def stop(self, name: str) -> None:
        """End a node for good: it is asked to, and killed if it takes longer than ``GRACE_S``."""
        ...

    def ended(self) -> list[NodeExit]:
        """The processes that have ended since the last call, in the order in which that was noticed."""
        ...

    def close(self) -> None:
        """End all nodes and whatever started them; nothing is left when this returns."""
        ...


def encode_start_line(spec: NodeSpec, keys: NodeKeys, watched: int | None) -> bytes:
    """What a node's process reads first, as one line; ``watched`` is a process that it must not outlive.

    Keys go through a pipe: a command line or an environment can be read by others.
    """
    return json.dumps({"spec": asdict(spec), "keys": asdict(keys), "watched": watched}).encode() + b"\n"


def decode_start_line(line: bytes) -> tuple[NodeSpec, NodeKeys, int | None]:
    try:
        said = json.loads(line)
        # JSON knows no tuples.
        said["spec"]["core_sets"] = tuple(tuple(cores) for cores in said["spec"]["core_sets"])
        return NodeSpec(**said["spec"]), NodeKeys(**said["keys"]), said["watched"]
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            "a rendering node's process reads its settings from whoever started it, and something else came: "
            "start one by hand with samepath cluster node"
        ) from error


def starts_again(code: int, earlier: int) -> bool:
    """Is a node that ended with this exit code (negative: signal) started again, after so many earlier restarts?"""
    return code not in (LEFT, REFUSED) and earlier < MOST_RESTARTS


_CORE_MOST: Final = 4095


def read_cores(text: str) -> tuple[int, ...]:
    """The cores of ``0,2-3``, sorted; each must be one that this process may use.

    Nodes of different size are what real clusters consist of; the balance learns how fast each is. A node that is kept to its
    own cores also measures its drawing without what its neighbours do to it.
    """
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or max(len(first), len(last)) > 4:
            raise InputError(f"--cores: numbers and ranges such as 0,2-3 were wanted, but {text[:80]!r} came")
        begin, end = int(first), int(last or first)
        if not begin <= end <= _CORE_MOST:
            raise InputError(f"--cores: a range from a lower to a higher core was wanted, but {part.strip()!r} came")
        found.update(range(begin, end + 1))
    missing = sorted(found - os.sched_getaffinity(0))
    if missing:
        there = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
        raise InputError(f"--cores: this process may use the cores {there}, but {missing[0]} was wanted as well")
    return tuple(sorted(found))


def read_core_sets(text: str) -> tuple[tuple[int, ...], ...]:
    """The cores of each node in turn: ``0;1;2-3``."""
    return tuple(read_cores(part) for part in text.split(";")) if text else ()


def keep_to_cores(cores: Sequence[int]) -> None:
    """Keep this process, and the threads it will start, on these cores."""
    try:
        os.sched_setaffinity(0, cores)
    except OSError as error:
        names = ", ".join(map(str, cores))
        raise InputError(f"--cores: the cores {names} cannot be used here ({error.strerror or error})") from error
