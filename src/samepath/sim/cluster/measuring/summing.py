"""From two statuses of a cluster, and what the measuring client saw between them, to the figures of an episode."""

from samepath.base.errors import ClusterError
from samepath.sim.cluster.measuring.pinging import Pings
from samepath.sim.cluster.measuring.plan import Cell
from samepath.sim.cluster.measuring.records import Episode, Latency, ServerFigures
from samepath.sim.cluster.measuring.wire import Heard
from samepath.sim.cluster.watching.recent import QUANTILE_VALUES
from samepath.sim.cluster.watching.status import ClusterStatus, NodeStatus

MAIN = "main"


def summed(cell: Cell, before: ClusterStatus, after: ClusterStatus, pings: Pings, driving_s: float, heard: Heard) -> Episode:
    """The figures of an episode."""
    ticks, images = after.ticks - before.ticks, after.frames - before.frames
    if ticks <= 0:
        raise ClusterError(f"{cell}: ticks were wanted, but none came")
    steps_s, wall_s = after.tick_times.sum_s - before.tick_times.sum_s, after.at_s - before.at_s
    lockstep = cell.mode == "lockstep"
    # In lockstep the client decides between steps: that time is its own, not the cluster's.
    over_s = steps_s if lockstep else wall_s
    earlier = {one.name: one for one in before.nodes}
    nodes = [_node(one, earlier.get(one.name), over_s, pings) for one in after.nodes]
    return Episode(
        cell=cell,
        ticks=ticks,
        wall_s=wall_s,
        step_s=steps_s / ticks,
        images=images,
        images_per_s=images / over_s,
        frames_per_s=images / over_s / cell.vehicles,
        received=heard.images,
        skipped=heard.skipped,
        late_frames=after.late_frames - before.late_frames,
        dropped_frames=after.dropped_frames - before.dropped_frames,
        worst_lateness_s=after.worst_lateness_s if after.late_frames > before.late_frames else 0.0,
        moved=after.moved - before.moved,
        desynchronised=after.desynchronised - before.desynchronised,
        driving_s=driving_s,
        commands=_commands(before, after),
        servers=(_main(pings), *nodes),
    )


def _main(pings: Pings) -> ServerFigures:
    return ServerFigures(
        name=MAIN, answers_itself=Latency.of(pings.here_s.get(MAIN, [])), asks_main=Latency.of(pings.at_main_s.get(MAIN, []))
    )


def _node(now: NodeStatus, then: NodeStatus | None, over_s: float, pings: Pings) -> ServerFigures:
    if then is None or now.frames < then.frames:
        raise ClusterError(f"{now.name} was started anew while it was measured: run the command again, it goes on from here")
    images, steps = now.frames - then.frames, now.steps - then.steps
    step_s = (now.steps_s - then.steps_s) / steps if steps else None
    return ServerFigures(
        name=now.name,
        images=images,
        images_per_s=images / over_s,
        frames_per_s=1.0 / step_s if step_s else None,
        step_s=step_s,
        busy_s=(now.busy_s - then.busy_s) / steps if steps else None,
        late_frames=now.late_frames - then.late_frames,
        dropped_frames=now.dropped_frames - then.dropped_frames,
        answers_itself=Latency.of(pings.here_s.get(now.name, [])),
        asks_main=Latency.of(pings.at_main_s.get(now.name, [])),
    )


def _commands(before: ClusterStatus, after: ClusterStatus) -> Latency:
    """Of control commands: count and mean; quantiles are over the latest thousand, and there where all are of the episode."""
    count = after.commands.count - before.commands.count
    if not count:
        return Latency()
    mean_s = (after.commands.latencies.sum_s - before.commands.latencies.sum_s) / count
    if count < QUANTILE_VALUES:
        return Latency(count, mean_s)
    return Latency(count, mean_s, after.commands.latency_s_median, after.commands.latency_s_p99)
