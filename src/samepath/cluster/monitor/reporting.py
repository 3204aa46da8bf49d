"""The status of a cluster, put together from what the main server knows."""

from samepath.cluster import coordinator as c
from samepath.cluster.monitor.counters import Counters
from samepath.cluster.monitor.status import ClusterStatus, NodeStatus, SensorStatus, least_loaded
from samepath.cluster.shell import ClusterShell
from samepath.simulator.carla.records import Description
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.sensors import SensorEntry, VisualSensor
from samepath.simulator.server.streams import MAIN_SERVER


def status_of(
    name: str, version: str, episode: Episode, shell: ClusterShell, counters: Counters, now_s: float
) -> ClusterStatus:
    """How everything stands now."""
    members = [member for member in shell.members() if member.peer in shell.handles]
    ticks = counters.ticks
    nodes = tuple(_node(member, shell, now_s) for member in members)
    return ClusterStatus(
        name=name,
        version=version,
        map_name=episode.map.name,
        episode=episode.id,
        frame=episode.frame,
        mode="lockstep" if episode.settings.synchronous_mode else "real time",
        ticks=ticks.ticks,
        tick_s=ticks.recent.last,
        tick_s_mean=ticks.recent.mean,
        ticks_per_s=ticks.per_s(now_s),
        frames_per_s=counters.frames.per_s(now_s),
        frames=counters.frames.total,
        nodes=nodes,
        sensors=_sensors(episode, shell, counters),
        commands=counters.commands.stats.status(),
        late_frames=counters.lateness.late_frames,
        dropped_frames=counters.lateness.dropped_frames,
        worst_lateness_s=counters.lateness.worst_s,
        reissued=counters.reissued,
        direct_frames=counters.direct_frames,
        moved=shell.state.balance.moved,
        compared=counters.compared,
        desynchronised=counters.desynchronised,
        waiting_for=shell.waiting_for,
        connect=tuple(node.address for node in least_loaded(nodes)),
        problems=counters.problems.lines,
        recent_tick_s=ticks.recent.values,
        tick_times=ticks.buckets.histogram(),
        at_s=now_s,
    )


def _node(member: c.Member, shell: ClusterShell, now_s: float) -> NodeStatus:
    costs, handle = shell.state.balance.costs, shell.handle(member)
    slowness = [costs.slowness(other.number) for other in shell.members()]
    return NodeStatus(
        name=member.name,
        ordinal=member.number,
        host=member.hello.host,
        pid=member.hello.pid,
        state=member.state,
        address=member.address,
        clients=handle.connected,
        sensors=sum(node == member.number for node in shell.state.balance.where.values()),
        speed=min(slowness) / costs.slowness(member.number) if handle.frames.total else None,
        busy=min(handle.busy_us.per_s(now_s) / 1e6, 1.0),
        frames=handle.frames.total,
        frames_per_s=handle.frames.per_s(now_s),
        step_s=handle.step_s,
        late_frames=handle.late_frames,
        dropped_frames=handle.dropped_frames,
        compared=handle.compared,
        desynchronised=handle.desynchronised,
        restarts=shell.restarts.get(member.name, 0),
        silent_s=max(now_s - member.heard_s, 0.0) if member.follows else 0.0,
        steps=handle.steps,
        steps_s=handle.steps_s,
        busy_s=handle.busy_s,
    )


def _sensors(episode: Episode, shell: ClusterShell, counters: Counters) -> tuple[SensorStatus, ...]:
    names = {member.number: member.name for member in shell.members()} | {MAIN_SERVER: "main"}
    placed, costs = shell.state.balance.where, shell.state.balance.costs
    return tuple(
        SensorStatus(
            id=entry.id,
            type=entry.type_id,
            node=names.get(placed.get(entry.id, -1)),
            width=_pixels(entry.record.description, "image_size_x"),
            height=_pixels(entry.record.description, "image_size_y"),
            cost_s=costs.sensor_s.get(entry.id),
            frames=counters.sensor_frames.get(entry.id, 0),
            homes=tuple(names[home] for home in episode.connections.subscriptions.homes(entry.stream_id) if home in names),
        )
        for entry in episode.actors.all(SensorEntry)
        if isinstance(entry.model, VisualSensor)
    )


def _pixels(description: Description, name: str) -> int:
    text = description.get(name, "0")
    return int(text) if text.isdecimal() and len(text) < 6 else 0
