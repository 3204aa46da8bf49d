"""The status in the words of Prometheus: names end in their unit, counters in ``_total``. Needs ``prometheus_client``."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from samepath.base.errors import SamepathError
from samepath.sim.cluster.watching.status import ClusterStatus, Histogram, NodeStatus

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import HistogramMetricFamily
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector

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
