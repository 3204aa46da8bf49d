"""How a cluster stands: plain frozen records that the main server publishes and everybody else only reads.

What is not known yet is None (the time of a tick before the first one), never a zero that looks like a measurement. Times
are seconds; when something happened is said in ticks, so that two runs of one script tell the same story.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from samepath.core.errors import InputError, printable

if TYPE_CHECKING:
    from pydantic import TypeAdapter


Mode = Literal["lockstep", "real time"]
NodeState = Literal["joining", "working", "draining", "fenced", "gone"]


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many values fell where: ``counts[i]`` of them at most ``bounds_s[i]``, the last count is of those beyond all."""

    bounds_s: tuple[float, ...] = ()
    counts: tuple[int, ...] = (0,)
    sum_s: float = 0.0

    def __post_init__(self) -> None:
        if len(self.counts) != len(self.bounds_s) + 1:
            raise InputError(f"a histogram of {len(self.bounds_s)} bounds has one count more, but {len(self.counts)} came")


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A rendering node as the main server sees it."""

    name: str
    ordinal: int
    host: str
    pid: int
    state: NodeState
    address: str  # host:port for clients
    clients: int = 0
    sensors: int = 0
    speed: float | None = None  # relative to the fastest node
    busy: float = 0.0  # part of the time that it draws, 0 to 1
    frames: int = 0
    frames_per_s: float = 0.0
    step_s: float | None = None  # from render requests to the last frame of the last tick it drew for
    late_frames: int = 0
    dropped_frames: int = 0
    compared: int = 0  # digests of its state held against the main server's
    desynchronised: int = 0  # of them, how many differed
    restarts: int = 0
    silent_s: float = 0.0  # since its last message
    steps: int = 0  # ticks it drew for
    steps_s: float = 0.0  # all of them, each from requests to the last frame
    busy_s: float = 0.0  # of that, how long it drew


@dataclass(frozen=True, slots=True)
class SensorStatus:
    """A seeing sensor: what it is, who draws it, and through which nodes it is listened to."""

    id: int
    type: str
    node: str | None  # None: nobody, as when nobody listens
    width: int = 0  # 0 for what is no picture
    height: int = 0
    cost_s: float | None = None  # of one frame, measured
    frames: int = 0
    homes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandRecord:
    """A control command and its way: ``latency_s`` from the node's receipt to the tick that felt it."""

    id: str  # node.client.number
    actor: int
    method: str
    frame: int  # the tick of effect
    latency_s: float
    winner: bool  # False: a later or higher command for the same actor overruled it within its tick


@dataclass(frozen=True, slots=True)
class CommandStatus:
    """Control commands so far; quantiles are exact over the most recent ones, the maximum over all."""

    count: int = 0
    overruled: int = 0
    latency_s_median: float | None = None
    latency_s_p99: float | None = None
    latency_s_max: float | None = None
    last: tuple[CommandRecord, ...] = ()  # the latest comes last
    latencies: Histogram = Histogram()


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """Everything that can be seen of a cluster from outside, as of one tick."""

    name: str
    version: str
    map_name: str
    episode: int
    frame: int
    mode: Mode
    ticks: int = 0
    tick_s: float | None = None  # the last one, from its start until its last frame
    tick_s_mean: float | None = None  # of the last 100
    ticks_per_s: float = 0.0
    frames_per_s: float = 0.0
    frames: int = 0
    nodes: tuple[NodeStatus, ...] = ()
    sensors: tuple[SensorStatus, ...] = ()
    commands: CommandStatus = CommandStatus()
    late_frames: int = 0
    dropped_frames: int = 0
    worst_lateness_s: float = 0.0
    reissued: int = 0  # frames ordered again because their node failed
    direct_frames: int = 0  # that went from node to node, between hosts
    moved: int = 0  # sensors that changed their node
    compared: int = 0
    desynchronised: int = 0
    waiting_for: tuple[str, ...] = ()  # nodes the present tick waits for
    connect: tuple[str, ...] = ()  # addresses for clients: of the nodes that work, the least loaded first
    problems: tuple[str, ...] = ()  # the latest comes last; each begins with its tick
    recent_tick_s: tuple[float, ...] = ()  # up to 100, the latest comes last
    tick_times: Histogram = Histogram()
    at_s: float = 0.0  # the main server's clock when this was so; it counts from an arbitrary start
    real_time_ratio: float | None = None  # simulated seconds per second of the last 10 s; None in lockstep


class StatusBoard:
    """Where the main server puts its status, and everybody else reads it: an exchange of one reference, no lock.

    A status is worth building a few times a second, not every tick: ask ``due`` first.
    """

    def __init__(self, every_s: float = 0.25) -> None:
        self._every_s = every_s
        self._status: ClusterStatus | None = None
        self._published_s = -math.inf

    def due(self, now_s: float) -> bool:
        return now_s - self._published_s >= self._every_s

    def publish(self, status: ClusterStatus, now_s: float) -> None:
        self._status, self._published_s = status, now_s

    def read(self) -> ClusterStatus | None:
        """The status last published; None before the first."""
        return self._status


def least_loaded(nodes: Iterable[NodeStatus]) -> tuple[NodeStatus, ...]:
    """The nodes that work, in the order in which a new client should take them: few clients, then much time to spare."""
    # Tenths of its time: below that two nodes are alike, and the order should not change from one look to the next.
    working = (node for node in nodes if node.state == "working")
    return tuple(sorted(working, key=lambda node: (node.clients, round(10.0 * node.busy), node.ordinal)))


@cache
def _adapter() -> "TypeAdapter[ClusterStatus]":
    from pydantic import TypeAdapter

    return TypeAdapter(ClusterStatus)


def to_json(status: ClusterStatus) -> bytes:
    """Return the status as one JSON object."""
    return _adapter().dump_json(status)


def from_json(data: bytes) -> ClusterStatus:
    """Read a status; what is missing or of another type is refused in one line."""
    from pydantic import ValidationError

    try:
        return _adapter().validate_json(data, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise InputError(f"a cluster's status was wanted, but {place} is wrong: {first['msg']}") from error


def plain(words: str) -> str:
    """Text from elsewhere, without what moves a terminal's cursor."""
    return printable(words)
