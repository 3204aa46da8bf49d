"""The status of a cluster, put together from what the main server knows."""

from samepath.cluster.membership import JOINING, Member, Roster
from samepath.cluster.monitor.status import ClusterStatus, NodeStatus, SensorStatus
from samepath.cluster.scheduler import Conductor
from samepath.cluster.settings import Numbers
from samepath.simulator.carla.records import Description
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.sensors import Eye, SensorEntry
from samepath.simulator.server.streams import HERE


def status_of(
    name: str, version: str, episode: Episode, roster: Roster, conductor: Conductor, numbers: Numbers, now_s: float
) -> ClusterStatus:
    """How everything stands now."""
    members = roster.all()
    ticks = numbers.ticks
    return ClusterStatus(
        name=name,
        version=version,
        map_name=episode.scene.name,
        episode=episode.id,
        frame=episode.frame,
        mode="lockstep" if episode.settings.synchronous_mode else "real time",
        ticks=ticks.ticks,
        tick_s=ticks.recent.last,
        tick_s_mean=ticks.recent.mean,
        ticks_per_s=ticks.per_s(now_s),
        frames_per_s=numbers.frames.per_s(now_s),
        frames=numbers.frames.total,
        nodes=tuple(_node(one, roster, conductor, now_s) for one in members),
        sensors=_sensors(episode, roster, conductor, numbers),
        commands=numbers.commands.recent.status(),
        late_frames=numbers.lateness.late_frames,
        dropped_frames=numbers.lateness.dropped_frames,
        worst_lateness_s=numbers.lateness.worst_s,
        reissued=numbers.reissued,
        moved=conductor.balance.moved,
        compared=numbers.compared,
        desynchronised=numbers.desynchronised,
        waiting_for=conductor.waiting_for,
        problems=numbers.problems.lines,
        recent_tick_s=ticks.recent.values,
        tick_times=ticks.buckets.histogram(),
        at_s=now_s,
    )


def _node(member: Member, roster: Roster, conductor: Conductor, now_s: float) -> NodeStatus:
    slowness = [conductor.balance.costs.slowness(one.number) for one in roster.all()]
    return NodeStatus(
        name=member.name,
        ordinal=member.number,
        host=member.hello.host,
        pid=member.hello.pid,
        state=member.state,
        address=member.address,
        clients=member.connected,
        sensors=sum(1 for one in conductor.balance.placed().values() if one == member.number),
        speed=min(slowness) / conductor.balance.costs.slowness(member.number) if member.drew.total else None,
        busy=min(member.drawn.per_s(now_s) / 1e6, 1.0),
        frames=member.drew.total,
        frames_per_s=member.drew.per_s(now_s),
        step_s=member.step_s,
        late_frames=member.late_frames,
        dropped_frames=member.dropped_frames,
        compared=member.compared,
        desynchronised=member.desynchronised,
        restarts=roster.restarts.get(member.name, 0),
        silent_s=max(now_s - member.heard_s, 0.0) if member.state != JOINING else 0.0,
        steps=member.steps,
        steps_s=member.steps_s,
        busy_s=member.busy_s,
    )


def _sensors(episode: Episode, roster: Roster, conductor: Conductor, numbers: Numbers) -> tuple[SensorStatus, ...]:
    names = {one.number: one.name for one in roster.all()} | {HERE: "main"}
    placed, costs = conductor.balance.placed(), conductor.balance.costs
    return tuple(
        SensorStatus(
            id=entry.id,
            type=entry.type_id,
            node=names.get(placed.get(entry.id, -1)),
            width=_pixels(entry.record.description, "image_size_x"),
            height=_pixels(entry.record.description, "image_size_y"),
            cost_s=costs.known_s(entry.id),
            frames=numbers.sensor_frames.get(entry.id, 0),
            homes=tuple(names[home] for home in episode.listened.homes(entry.stream_id) if home in names),
        )
        for entry in episode.actors.all(SensorEntry)
        if isinstance(entry.instrument, Eye)
    )


def _pixels(description: Description, name: str) -> int:
    text = description.get(name, "0")
    return int(text) if text.isdecimal() and len(text) < 6 else 0
