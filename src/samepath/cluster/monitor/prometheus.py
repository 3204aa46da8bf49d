"""The status in the words of Prometheus: names end in their unit, counters in ``_total``. Needs ``prometheus_client``."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from samepath.cluster.monitor.status import ClusterStatus, Histogram, NodeStatus
from samepath.core.errors import SamepathError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import HistogramMetricFamily
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector

StatusSource = Callable[[], ClusterStatus | None]
_PREFIX: Final = "samepath_cluster"
# Of the whole cluster; what has no value yet is left out.
_COUNTERS: Final[Sequence[tuple[str, str, Callable[[ClusterStatus], int]]]] = (
    ("ticks", "Ticks of the world.", lambda status: status.ticks),
    ("frames", "Frames delivered, all nodes together.", lambda status: status.frames),
    ("late_frames", "Frames delivered after they were due.", lambda status: status.late_frames),
    ("dropped_frames", "Frames that nobody got.", lambda status: status.dropped_frames),
    ("reissued_frames", "Frames ordered again because their node failed.", lambda status: status.reissued),
    ("direct_frames", "Frames that went from node to node, between hosts.", lambda status: status.direct_frames),
    ("moved_sensors", "Sensors that changed their node.", lambda status: status.moved),
    ("compared_digests", "Digests of nodes' states held against the main server's.", lambda status: status.compared),
    ("desynchronised_digests", "Digests that differed from the main server's.", lambda status: status.desynchronised),
    ("commands", "Control commands that reached their tick.", lambda status: status.commands.count),
    ("commands_overruled", "Control commands that another overruled within a tick.", lambda status: status.commands.overruled),
)
_GAUGES: Final[Sequence[tuple[str, str, Callable[[ClusterStatus], float | None]]]] = (
    ("episode", "The episode, counted by the main server.", lambda status: status.episode),
    ("frame", "The number of the latest tick.", lambda status: status.frame),
    ("ticks_per_second", "Ticks a second, recently.", lambda status: status.ticks_per_s),
    ("frames_per_second", "Frames a second, recently, all nodes together.", lambda status: status.frames_per_s),
    ("worst_lateness_seconds", "The longest a frame was late.", lambda status: status.worst_lateness_s),
    ("real_time_ratio", "Simulated seconds per second of real time, recently.", lambda status: status.real_time_ratio),
    ("sensors", "Sensors that see.", lambda status: len(status.sensors)),
    ("waiting_nodes", "Nodes the present tick waits for.", lambda status: len(status.waiting_for)),
)
_NODE_COUNTERS: Final[Sequence[tuple[str, str, Callable[[NodeStatus], int]]]] = (
    ("frames", "Frames drawn by this node.", lambda node: node.frames),
    ("late_frames", "Frames of this node delivered after they were due.", lambda node: node.late_frames),
    ("dropped_frames", "Frames of this node that nobody got.", lambda node: node.dropped_frames),
    ("compared_digests", "Digests of this node's state held against the main server's.", lambda node: node.compared),
    ("desynchronised_digests", "Digests of this node that differed.", lambda node: node.desynchronised),
    ("restarts", "How often this node was started again.", lambda node: node.restarts),
)
_NODE_GAUGES: Final[Sequence[tuple[str, str, Callable[[NodeStatus], float | None]]]] = (
    ("working", "1 where the node takes render requests, else 0.", lambda node: node.state == "working"),
    ("busy_ratio", "Part of the time that the node draws.", lambda node: node.busy),
    ("speed_ratio", "Its speed, relative to the fastest node.", lambda node: node.speed),
    ("frames_per_second", "Frames a second, recently.", lambda node: node.frames_per_s),
    ("step_seconds", "From render requests to the last frame, latest tick.", lambda node: node.step_s),
    ("silent_seconds", "Since its last message.", lambda node: node.silent_s),
    ("clients", "Clients connected to this node.", lambda node: node.clients),
    ("sensors", "Sensors this node draws.", lambda node: node.sensors),
)


class MissingLibraryError(SamepathError):
    """The library for metrics is not installed."""


def make_registry(source: StatusSource) -> "CollectorRegistry":
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


def _collector(source: StatusSource) -> "Collector":
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
