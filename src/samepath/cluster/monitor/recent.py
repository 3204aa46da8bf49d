"""What a main server remembers of the recent past: rates, means, quantiles, lateness. Bounded memory, no clock of its own.

Everything here belongs to one thread and takes the time as an argument; adding a value costs a microsecond or two, so it may
stand inside a tick.
"""

import bisect
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from samepath.cluster.monitor.status import ClusterStatus, CommandRecord, CommandStatus, Histogram, NodeStatus, plain
from samepath.core.errors import SamepathError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import HistogramMetricFamily
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector


MEAN_TICKS: Final = 100
QUANTILE_VALUES: Final = 1000
LAST_COMMANDS: Final = 20
LAST_PROBLEMS: Final = 20
_PROBLEM_CHARACTERS: Final = 300
_SLOTS: Final = 50
# From a tick of an empty world to one that nobody waits for.
TICK_BOUNDS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
LATENCY_BOUNDS_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class Meter:
    """How often something happens per second, over a sliding window that is kept as slots of equal length."""

    def __init__(self, began_s: float, window_s: float = 5.0) -> None:
        self.total = 0
        self._began_s = began_s
        self._slot_s = window_s / _SLOTS
        self._slots: deque[list[int]] = deque()  # [number of the slot, count in it]

    def add(self, now_s: float, count: int = 1) -> None:
        """Count what happened now."""
        self.total += count
        number = self._number(now_s)
        if not self._slots or self._slots[-1][0] < number:
            self._slots.append([number, 0])
            self._forget(number)
        self._slots[-1][1] += count

    def per_s(self, now_s: float) -> float:
        """The rate over the window, or since the beginning where that is shorter."""
        number = self._number(now_s)
        self._forget(number)
        since_s = max((number - _SLOTS) * self._slot_s, 0.0)
        # A first moment says nothing of a rate: at least one slot must have passed.
        covered_s = max(now_s - self._began_s - since_s, self._slot_s)
        return sum(count for _, count in self._slots) / covered_s

    def _number(self, now_s: float) -> int:
        return max(math.floor((now_s - self._began_s) / self._slot_s), 0)

    def _forget(self, number: int) -> None:
        while self._slots and self._slots[0][0] < number - _SLOTS:
            self._slots.popleft()


class Recent:
    """The last values, and their mean."""

    def __init__(self, size: int = MEAN_TICKS) -> None:
        self._values: deque[float] = deque(maxlen=size)

    def add(self, value: float) -> None:
        """Remember a value; the oldest is forgotten."""
        self._values.append(value)

    @property
    def last(self) -> float | None:
        """The latest value."""
        return self._values[-1] if self._values else None

    @property
    def mean(self) -> float | None:
        """The mean of those remembered."""
        return math.fsum(self._values) / len(self._values) if self._values else None

    @property
    def values(self) -> tuple[float, ...]:
        """Those remembered; the latest comes last."""
        return tuple(self._values)


class Quantiles:
    """Exact quantiles of the last values; the maximum is that of all values there ever were."""

    def __init__(self, size: int = QUANTILE_VALUES) -> None:
        self.count = 0
        self.max: float | None = None
        self._size = size
        self._order: deque[float] = deque()
        self._sorted: list[float] = []

    def add(self, value: float) -> None:
        """Remember a value; the oldest is forgotten."""
        if not math.isfinite(value):
            raise ValueError(f"a finite number was wanted, but {value} came")  # it would spoil the order for good
        self.count += 1
        self.max = value if self.max is None else max(self.max, value)
        if len(self._order) == self._size:
            del self._sorted[bisect.bisect_left(self._sorted, self._order.popleft())]
        self._order.append(value)
        bisect.insort(self._sorted, value)

    def quantile(self, part: float) -> float | None:
        """The smallest remembered value that at least this part of them does not exceed; None without any."""
        if not self._sorted:
            return None
        return self._sorted[max(math.ceil(part * len(self._sorted)) - 1, 0)]


class Buckets:
    """Counts of values between fixed bounds, for as long as it lives."""

    def __init__(self, bounds_s: Sequence[float]) -> None:
        self._bounds_s = tuple(bounds_s)
        self._counts = [0] * (len(self._bounds_s) + 1)
        self._sum_s = 0.0

    def add(self, value_s: float) -> None:
        """Count a value where it belongs: a bound belongs to what lies below it."""
        self._counts[bisect.bisect_left(self._bounds_s, value_s)] += 1
        self._sum_s += value_s

    def histogram(self) -> Histogram:
        """The counts so far."""
        return Histogram(self._bounds_s, tuple(self._counts), self._sum_s)


class TickTimes:
    """How long ticks took: the last, the mean of the last hundred, how many a second, and the counts of all."""

    def __init__(self, began_s: float) -> None:
        self._meter = Meter(began_s)
        self.recent = Recent()
        self.buckets = Buckets(TICK_BOUNDS_S)

    def add(self, tick_s: float, now_s: float) -> None:
        """Remember a tick that ended now."""
        self._meter.add(now_s)
        self.recent.add(tick_s)
        self.buckets.add(tick_s)

    @property
    def ticks(self) -> int:
        """How many there were."""
        return self._meter.total

    def per_s(self, now_s: float) -> float:
        """How many a second."""
        return self._meter.per_s(now_s)


class Lateness:
    """Frames that came late or not at all. In lockstep both stay 0: there a frame that is missing stops the run."""

    def __init__(self) -> None:
        self.late_frames = 0
        self.dropped_frames = 0
        self.worst_s = 0.0

    def late(self, lateness_s: float) -> None:
        """Count a frame that was delivered ``lateness_s`` after it was due; on time or early is not late."""
        if lateness_s > 0:
            self.late_frames += 1
            self.worst_s = max(self.worst_s, lateness_s)

    def drop(self, frames: int = 1) -> None:
        """Count frames that nobody will get."""
        self.dropped_frames += frames


class Commands:
    """Control commands that took effect, with their latencies."""

    def __init__(self) -> None:
        self._overruled = 0
        self._latencies = Quantiles()
        self._buckets = Buckets(LATENCY_BOUNDS_S)
        self._last: deque[CommandRecord] = deque(maxlen=LAST_COMMANDS)

    def add(self, command: CommandRecord) -> None:
        """Count a command at the tick of its effect, or at the tick in which another overruled it."""
        self._latencies.add(command.latency_s)
        self._buckets.add(command.latency_s)
        self._overruled += not command.winner
        self._last.append(command)

    def status(self) -> CommandStatus:
        """What is known of them now."""
        found = self._latencies
        return CommandStatus(
            count=found.count,
            overruled=self._overruled,
            latency_s_median=found.quantile(0.5),
            latency_s_p99=found.quantile(0.99),
            latency_s_max=found.max,
            last=tuple(self._last),
            latencies=self._buckets.histogram(),
        )


class Problems:
    """The last lines worth reading, each with the tick it belongs to."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LAST_PROBLEMS)

    def add(self, frame: int, words: str) -> None:
        """Remember a line; nothing in it moves a terminal's cursor, and it is not longer than a reader bears."""
        self._lines.append(f"tick {frame}: {plain(words[:_PROBLEM_CHARACTERS])}")

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines; the latest comes last."""
        return tuple(self._lines)


class Board:
    """Where the main server puts its status, and everybody else reads it: an exchange of one reference, no lock.

    A status is worth building a few times a second, not every tick: ask ``due`` first.
    """

    def __init__(self, every_s: float = 0.25) -> None:
        self._every_s = every_s
        self._status: ClusterStatus | None = None
        self._published_s = -math.inf

    def due(self, now_s: float) -> bool:
        """Whether it is time for another status."""
        return now_s - self._published_s >= self._every_s

    def publish(self, status: ClusterStatus, now_s: float) -> None:
        """Show this status from now on."""
        self._status, self._published_s = status, now_s

    def read(self) -> ClusterStatus | None:
        """The status last published; None before the first."""
        return self._status


# The status in the words of Prometheus: names end in their unit, counters in ``_total``. Needs ``prometheus_client``.

Source = Callable[[], ClusterStatus | None]
_PREFIX: Final = "samepath_cluster"
# Of the whole cluster; what has no value yet is left out.
_COUNTERS: Final[Sequence[tuple[str, str, Callable[[ClusterStatus], int]]]] = (
    ("ticks", "Ticks of the world.", lambda one: one.ticks),
    ("frames", "Frames delivered, all nodes together.", lambda one: one.frames),
    ("late_frames", "Frames delivered after they were due.", lambda one: one.late_frames),
    ("dropped_frames", "Frames that nobody got.", lambda one: one.dropped_frames),
    ("reissued_frames", "Frames ordered again because their node failed.", lambda one: one.reissued),
    ("moved_sensors", "Sensors that changed their node.", lambda one: one.moved),
    ("compared_digests", "Digests of nodes' states held against the main server's.", lambda one: one.compared),
    ("desynchronised_digests", "Digests that differed from the main server's.", lambda one: one.desynchronised),
    ("commands", "Control commands that reached their tick.", lambda one: one.commands.count),
    ("commands_overruled", "Control commands that another overruled within a tick.", lambda one: one.commands.overruled),
)
_GAUGES: Final[Sequence[tuple[str, str, Callable[[ClusterStatus], float | None]]]] = (
    ("episode", "The episode, counted by the main server.", lambda one: one.episode),
    ("frame", "The number of the latest tick.", lambda one: one.frame),
    ("ticks_per_second", "Ticks a second, recently.", lambda one: one.ticks_per_s),
    ("frames_per_second", "Frames a second, recently, all nodes together.", lambda one: one.frames_per_s),
    ("worst_lateness_seconds", "The longest a frame was late.", lambda one: one.worst_lateness_s),
    ("sensors", "Sensors that see.", lambda one: len(one.sensors)),
    ("waiting_nodes", "Nodes the present tick waits for.", lambda one: len(one.waiting_for)),
)
_NODE_COUNTERS: Final[Sequence[tuple[str, str, Callable[[NodeStatus], int]]]] = (
    ("frames", "Frames drawn by this node.", lambda one: one.frames),
    ("late_frames", "Frames of this node delivered after they were due.", lambda one: one.late_frames),
    ("dropped_frames", "Frames of this node that nobody got.", lambda one: one.dropped_frames),
    ("compared_digests", "Digests of this node's state held against the main server's.", lambda one: one.compared),
    ("desynchronised_digests", "Digests of this node that differed.", lambda one: one.desynchronised),
    ("restarts", "How often this node was started again.", lambda one: one.restarts),
)
_NODE_GAUGES: Final[Sequence[tuple[str, str, Callable[[NodeStatus], float | None]]]] = (
    ("working", "1 where the node takes orders, else 0.", lambda one: one.state == "working"),
    ("busy_ratio", "Part of the time that the node draws.", lambda one: one.busy),
    ("speed_ratio", "Its speed, relative to the fastest node.", lambda one: one.speed),
    ("frames_per_second", "Frames a second, recently.", lambda one: one.frames_per_s),
    ("step_seconds", "From orders to the last frame, latest tick.", lambda one: one.step_s),
    ("silent_seconds", "Since its last message.", lambda one: one.silent_s),
    ("clients", "Clients connected to this node.", lambda one: one.clients),
    ("sensors", "Sensors this node draws.", lambda one: one.sensors),
)


class MissingLibraryError(SamepathError):
    """The library for metrics is not installed."""


def make_registry(source: Source) -> "CollectorRegistry":
    """Return a registry of our own whose figures are read from ``source`` when somebody asks."""
    try:
        from prometheus_client import CollectorRegistry
    except ImportError as error:
        raise MissingLibraryError("metrics need prometheus_client: pip install 'samepath[cluster]'") from error
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_collector(source))
    return registry


def exposition(registry: "CollectorRegistry") -> tuple[bytes, str]:
    """Return the figures and their content type."""
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    return generate_latest(registry), CONTENT_TYPE_LATEST


def _collector(source: Source) -> "Collector":
    from prometheus_client.registry import Collector

    class FromStatus(Collector):
        """Reads the published status; there is nothing to count here."""

        def collect(self) -> "Iterator[Metric]":
            status = source()
            if status is not None:
                yield from _families(status)

    return FromStatus()


def _families(status: ClusterStatus) -> "Iterator[Metric]":
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

    about = {"name": status.name, "version": status.version, "map": status.map_name, "mode": status.mode}
    yield InfoMetricFamily(_PREFIX, "Which cluster this is.", value=about)
    for name, words, count in _COUNTERS:
        yield CounterMetricFamily(f"{_PREFIX}_{name}", words, value=count(status))
    for name, words, gauge in _GAUGES:
        value = gauge(status)
        if value is not None:
            yield GaugeMetricFamily(f"{_PREFIX}_{name}", words, value=value)
    yield _histogram("tick_seconds", "How long ticks took, until their last frame.", status.tick_times)
    yield _histogram("command_latency_seconds", "From a node's receipt of a command to its effect.", status.commands.latencies)
    states = GaugeMetricFamily(f"{_PREFIX}_nodes", "Nodes by their state.", labels=["state"])
    for state in sorted({node.state for node in status.nodes}):
        states.add_metric([state], sum(node.state == state for node in status.nodes))
    yield states
    for name, words, node_count in _NODE_COUNTERS:
        counter = CounterMetricFamily(f"{_PREFIX}_node_{name}", words, labels=["node"])
        for node in status.nodes:
            counter.add_metric([node.name], node_count(node))
        yield counter
    for name, words, node_gauge in _NODE_GAUGES:
        family = GaugeMetricFamily(f"{_PREFIX}_node_{name}", words, labels=["node"])
        for node in status.nodes:
            value = node_gauge(node)
            if value is not None:
                family.add_metric([node.name], value)
        yield family


def _histogram(name: str, words: str, found: Histogram) -> "HistogramMetricFamily":
    from prometheus_client.core import HistogramMetricFamily

    bounds = [*(f"{bound_s:g}" for bound_s in found.bounds_s), "+Inf"]
    buckets = list(zip(bounds, map(float, accumulate(found.counts)), strict=True))
    return HistogramMetricFamily(f"{_PREFIX}_{name}", words, buckets=buckets, sum_value=found.sum_s)
