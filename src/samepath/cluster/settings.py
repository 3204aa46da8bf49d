"""How a main server is started, and how patient it is."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from samepath.cluster.monitor.recent import Commands, Lateness, Meter, Problems, TickTimes
from samepath.cluster.monitor.status import CommandRecord
from samepath.simulator.server.rendering import Order
from samepath.simulator.server.rpc import Call
from samepath.simulator.server.server import ServerSettings


@dataclass(frozen=True)
class Patience:
    """When the main server does something about a node.

    ``again_s``: how long it waits beyond what a node's orders should take (times ``again_factor``) before it gives them to
    another node as well; ``fence_s``: how long before it takes the node out, ten times as long if the node still speaks.
    ``silent_s``: how long a node may say nothing at all, ``joining_s`` while it joins and may have to compile. ``empty_s``: how
    long a tick may wait while there is no node to draw, before the run stops.
    """

    again_s: float = 0.25
    again_factor: float = 4.0
    fence_s: float = 2.0
    silent_s: float = 5.0
    joining_s: float = 60.0
    empty_s: float = 60.0


@dataclass(frozen=True)
class MainSettings:
    """A main server: what it serves, where nodes find it, how they are treated.

    ``policy`` is how sensors are shared out: ``measured`` or ``round-robin`` or ``random``.
    """

    server: ServerSettings = field(default_factory=ServerSettings)
    name: str = "samepath"
    link_host: str = "127.0.0.1"
    link_port: int = 0
    shared_memory: bool = True
    policy: str = "measured"
    patience: Patience = field(default_factory=Patience)
    run_folder: Path | None = None
    page_host: str = "127.0.0.1"
    page_port: int | None = None


# Control commands and their way from a client to the tick that felt them.

# Of more commands than this between two ticks the first are not listed; they count for the world all the same.
_WAITING_MOST: Final = 100_000


class Given(NamedTuple):
    """A command: its id, for whom, by which method, through which node, when it came."""

    id: str
    actor: int
    method: str
    home: int
    at_s: float


class CommandLog:
    """Gives every command an id, and says after the next tick which of them counted and how long that took."""

    def __init__(self) -> None:
        self.recent = Commands()
        self._number = 0
        self._call: Call | None = None
        self._at_s = 0.0
        self._waiting: deque[Given] = deque(maxlen=_WAITING_MOST)

    def begin(self, call: Call, at_s: float) -> None:
        """A call that came at a time is about to be made: what commands it holds, the episode tells."""
        self._call, self._at_s = call, at_s

    def commanded(self, actor: int, home: int) -> None:
        """The call that is being made holds a command for an actor."""
        if self._call is None:
            return
        self._number += 1
        method, client = self._call.method.name, str(getattr(self._call.caller, "client", 0))
        number = str(self._number)
        if method == "samepath_call":
            client, number, method = (str(one) for one in self._call.arguments[:3])
        self._waiting.append(Given(f"{self._call.caller.home}.{client}.{number}", actor, method, home, self._at_s))

    def felt(self, frame: int, now_s: float) -> None:
        """A tick has felt all that came: of each actor's commands the last one of the node with the highest number."""
        waiting = tuple(self._waiting)
        self._waiting.clear()
        winners: dict[int, Given] = {}
        for one in waiting:
            if one.actor not in winners or one.home >= winners[one.actor].home:
                winners[one.actor] = one
        for one in waiting:
            latency_s = max(now_s - one.at_s, 0.0)
            self.recent.add(CommandRecord(one.id, one.actor, one.method, frame, latency_s, winners[one.actor] is one))


# What the main server counts.


@dataclass
class Numbers:
    """Counters of a cluster; they belong to the episode's thread."""

    began_s: float
    reissued: int = 0
    doubled: int = 0  # frames that two nodes drew, of which the second was dropped
    fenced: int = 0
    compared: int = 0  # digests of nodes' states held against the main server's
    desynchronised: int = 0  # of them, how many differed
    commands: CommandLog = field(default_factory=CommandLog)
    lateness: Lateness = field(default_factory=Lateness)
    problems: Problems = field(default_factory=Problems)
    digests: dict[int, bytes] = field(default_factory=dict)
    sensor_frames: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.frames = Meter(self.began_s)
        self.ticks = TickTimes(self.began_s)

    def count_orders(self, orders: Sequence[Order]) -> None:
        """Count what is due, by sensor."""
        for one in orders:
            self.sensor_frames[one.sensor] = self.sensor_frames.get(one.sensor, 0) + 1
