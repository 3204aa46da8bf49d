"""The main server's side of a tick: requests go out, frames come in, and whoever fails is replaced without a frame being lost.

For the episode the scheduler is a renderer like any other (:class:`~samepath.simulator.server.rendering.SensorRenderer`). In
**lockstep** a tick is over when every due frame exists, whatever happens to nodes meanwhile; only when there is no node left
for a minute does the run stop, with the reason. In **real time** a tick is over at once; frames come when they come, and what
is late or left out is counted.

Three rules keep frames exact:

* *At least once, delivered once.* A request that is late is also given to another node (both draw the same bytes). The first
  result counts, the second is dropped.
* *Only this tick's results count.* A result belongs to an assignment that is still pending; what nobody waits for is ignored,
  and a fenced node has no assignments.
* *State before frames.* Every tick is sent to all nodes, also to those that draw nothing, and its digest comes back: a node
  that holds another state is fenced at the first tick that shows it.

It belongs to the episode's thread, and with it the link: between a result and the barrier that waits for it there is no other
thread, and no lock.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from samepath.cluster.balance import CostModel, LoadBalancer, NodeShare
from samepath.cluster.identity import tick_digest
from samepath.cluster.link.wire import TooLargeError
from samepath.cluster.membership import DRAINING, WORKING, Assignment, Member, Membership
from samepath.cluster.messages import TickMessage, TickResult, encode, join_tick
from samepath.cluster.monitor.counters import Counters
from samepath.cluster.settings import Timeouts
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SamepathError
from samepath.simulator.maps import RoadMap
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.rendering import RenderRequest, RenderResult, SceneView, pack_requests, rounds
from samepath.simulator.server.streams import MAIN_SERVER
from samepath.simulator.server.ticking import TickAbandonedError, step_of

# In every so-many-th tick nodes measure each request by itself, which draws cameras one by one and is slower.
_TIMED_EVERY: Final = 64
# How long to wait for messages at a time: a stop, a missing node or the status are looked at so often.
_POLL_S: Final = 0.05
# Digests and deadlines of so many ticks are kept for nodes that are behind.
_TICKS_KEPT: Final = 64
# A tick that takes longer than this publishes the status while it waits.
_LONG_S: Final = 0.5
# A node sends a heartbeat twice a second, also while it draws: with two missed and some slack it is taken for frozen.
_FROZEN_S: Final = 1.2
_SLOW_FACTOR: Final = 10.0
# Payloads that are kept for the page of the monitor; beyond that the oldest is forgotten, and asked for again.
_THUMBNAILS_BYTES: Final = 256 << 20


class NodeMissingError(SamepathError):
    """A frame cannot be made because a node is missing; the run stops."""


class StoppedError(TickAbandonedError):
    """The cluster stops before a tick has been drawn."""


class SchedulerHost(Protocol):
    """What the scheduler needs of the main server; all in the episode's thread."""

    @property
    def episode(self) -> Episode: ...

    def flush(self) -> None:
        """Send what waits for clients and nodes; before a tick, so that nodes know all that the tick refers to."""
        ...

    def deliver(self, request: RenderRequest, payload: bytes, drawn_by: int) -> None:
        """A frame has come: send it to where it is listened to."""
        ...

    def remember(self, sensor: int, memory: bytes) -> None:
        """Keep what a sensor is to know at its next request."""
        ...

    def on_tick_failed(self, error: NodeMissingError) -> None:
        """There is no node to draw, and the run stops."""
        ...

    def while_waiting(self) -> None:
        """A tick takes long."""
        ...


class Scheduler:
    """Has the nodes draw what is due."""

    wants_every_tick = True

    def __init__(
        self, host: SchedulerHost, membership: Membership, counters: Counters, timeouts: Timeouts, policy: str
    ) -> None:
        self.balancer = LoadBalancer(CostModel(), policy)
        self._host = host
        self._membership = membership
        self._counters = counters
        self._timeouts = timeouts
        self._ticks = 0
        self.stopping = False
        """Whether the cluster stops, and nobody is to wait any more; set by any thread."""
        self.state = b""
        self.frame = 0
        self.began_s = SYSTEM_CLOCK.monotonic_s()
        self._tick_bytes = b""
        self._due: dict[int, RenderRequest] = {}
        self._done: dict[int, RenderResult] = {}
        self._real_time_ticks: dict[int, tuple[float, float]] = {}  # those that may still get frames: when sent, and the step
        self.waiting_for: tuple[str, ...] = ()
        self.thumbnails_wanted: set[int] = set()
        """Sensors of which the main server itself wants the next payload; filled by any thread."""
        self.thumbnails: dict[int, tuple[RenderRequest, bytes]] = {}

    def prepare(self, road_map: RoadMap) -> None:
        """Nothing is drawn here, so nothing has to be built."""

    def idle(self) -> None:
        """Nodes are shown every tick, so there is no idle one."""

    def close(self) -> None:
        """Nothing is held."""

    def render(self, view: SceneView, requests: Sequence[RenderRequest]) -> Sequence[RenderResult]:
        """Send a tick to all nodes and have drawn what is due."""
        self._host.flush()  # nodes must know every actor and setting that this tick refers to
        now_s = SYSTEM_CLOCK.monotonic_s()
        self._counters.commands.on_tick(view.frame, now_s)
        packed = view.pack()
        self.frame, self._tick_bytes = view.frame, join_tick(self.state, packed)
        self._counters.digests[view.frame] = tick_digest(self.state, packed)
        self._counters.digests.pop(view.frame - _TICKS_KEPT, None)
        self._ticks += 1
        self._counters.count_requests(requests)
        try:
            results = self._lockstep(requests) if self._is_lockstep() else self._real_time(requests, now_s)
        except NodeMissingError as error:
            self._host.on_tick_failed(error)
            raise
        end_s = SYSTEM_CLOCK.monotonic_s()
        self._counters.ticks.add(end_s - self.began_s, end_s)
        return results

    def _is_lockstep(self) -> bool:
        return self._host.episode.settings.synchronous_mode

    def _homes(self, request: RenderRequest) -> tuple[int, ...]:
        """The nodes at which a sensor is listened to."""
        homes = self._host.episode.connections.subscriptions.homes(request.stream)
        return (MAIN_SERVER, *homes) if request.sensor in self.thumbnails_wanted and MAIN_SERVER not in homes else homes

    # Lockstep: send, wait, send again.

    def _lockstep(self, requests: Sequence[RenderRequest]) -> list[RenderResult]:
        results: list[RenderResult] = []
        try:
            # What is due at once is nearly always one round. Where it is more than the memory of nodes and of this server is
            # meant for, the next round begins when the frames of the last one are where they are listened to.
            for number, part in enumerate(rounds(requests) or [()]):
                self._due = {request.sensor: request for request in part}
                self._done = {}
                self._send_tick(self._assign(part), again=number > 0)
                while len(self._done) < len(self._due):
                    self._wait()
                while self._membership.has_unsent():
                    self._membership.attend(_POLL_S)
                    self._go_on_waiting()
                results += [self._done[request.sensor] for request in part]
            return results
        finally:
            self._due, self.waiting_for = {}, ()

    def _assign(self, requests: Sequence[RenderRequest]) -> tuple[NodeShare, ...]:
        if not requests:
            return ()
        self._fence_hanging(SYSTEM_CLOCK.monotonic_s())
        found = self._renderers()
        # A node that hangs would make every tick wait: it is left alone until it has answered, if there is another.
        nodes = [member for member in found if not member.suspected] or found
        homes = {request.sensor: self._homes(request) for request in requests}
        return self.balancer.assign(requests, [member.number for member in nodes], homes)

    def _renderers(self) -> list[Member]:
        """The nodes that can draw; waits for one while there is none."""
        start_s = SYSTEM_CLOCK.monotonic_s()
        while True:
            found = self._membership.renderers()
            if found:
                return found
            missing = self._membership.missing()
            self.waiting_for = missing
            waited_s = SYSTEM_CLOCK.monotonic_s() - start_s
            if waited_s > self._timeouts.no_node_s:
                names = ", ".join(missing) or "every node"
                raise NodeMissingError(
                    f"tick {self.frame} has {len(self._due)} frames to draw and no node to draw them for {waited_s:.0f} s: "
                    f"missing is {names}: look at its log, or start another one (samepath cluster node)"
                )
            self._go_on_waiting()
            self._membership.attend(_POLL_S)

    def _go_on_waiting(self) -> None:
        if self.stopping:
            raise StoppedError(f"tick {self.frame} was not drawn: the cluster stops")
        if SYSTEM_CLOCK.monotonic_s() - self.began_s > _LONG_S:
            self._host.while_waiting()

    def _send_tick(self, shares: Sequence[NodeShare], *, again: bool = False) -> None:
        """Send a tick to all nodes, and each its requests with it; ``again``: all have it, and only the requests are new."""
        by_node = {share.node: share for share in shares}
        timed = self._ticks % _TIMED_EVERY == 1
        messages: dict[Member, bytes] = {}
        memories: dict[Member, tuple[bytes, ...]] = {}
        rest: list[tuple[Member, NodeShare]] = []
        for member in self._membership.followers():
            share = by_node.get(member.number)
            if share is None:
                if not again:
                    messages[member] = encode(TickMessage(self.frame, self._is_lockstep(), b"", (), False, False))
                continue
            # In real time a share may be more than one message is meant to bring back: each part is answered by itself.
            first, *others = rounds(share.requests)
            rest += [(member, NodeShare(share.node, part, share.expected_s)) for part in others]
            is_new = any(not self.balancer.costs.is_measured(new.sensor) for new in first)
            own = NodeShare(share.node, first, share.expected_s)
            messages[member], memories[member] = self._tick(member, own, again=again, timed=timed or is_new)
        self._broadcast(messages, memories)
        for member, share in rest:
            self._send_again(member, share)

    def _send_again(self, member: Member, share: NodeShare) -> None:
        """Give a node that has the tick requests of it."""
        message, memories = self._tick(member, share, again=True, timed=False)
        self._broadcast({member: message}, {member: memories})

    def _tick(self, member: Member, share: NodeShare, *, again: bool, timed: bool) -> tuple[bytes, tuple[bytes, ...]]:
        """The message of a tick with requests, and what their sensors remember; the node owes them from now on."""
        now_s = SYSTEM_CLOCK.monotonic_s()
        requests = {request.sensor: request for request in share.requests}
        member.pending.append(Assignment(self.frame, requests, now_s, share.expected_s, timed))
        homes = tuple(self._homes(request) for request in share.requests)
        packed, memories = pack_requests(share.requests)
        return encode(TickMessage(self.frame, self._is_lockstep(), packed, homes, timed, again)), memories

    def _broadcast(self, to: dict[Member, bytes], own: dict[Member, tuple[bytes, ...]]) -> None:
        messages = {member.peer: message for member, message in to.items()}
        memories = {member.peer: parts for member, parts in own.items()}
        for peer, error in self._membership.broadcast(messages, self._tick_bytes, memories).items():
            if isinstance(error, TooLargeError):  # no node is to blame: whoever asked for the tick is told, and nobody owes it
                for member in self._membership.all():
                    member.pending = [assignment for assignment in member.pending if assignment.frame != self.frame]
                raise TooLargeError(f"tick {self.frame} cannot be shown to nodes: {error}")
            self._membership.fail(peer, str(error))

    def _wait(self) -> None:
        """Wait for frames; give again to others what takes too long, and fence who takes far too long."""
        self._membership.attend(self._timeout_s())
        if len(self._done) == len(self._due):
            return
        now_s = SYSTEM_CLOCK.monotonic_s()
        out = {sensor for member in self._membership.renderers() for owed in self._owed(member) for sensor in owed.requests}
        lost = [request for sensor, request in self._due.items() if sensor not in self._done and sensor not in out]
        if lost:  # their node is gone: nobody draws them, so there is nothing to wait for
            self._reissue(lost, exclude=())
            return
        self._fence_hanging(now_s)
        for member in self._membership.all():
            late = [] if member.suspected else self._late_requests(member, now_s)
            if late:
                member.suspected = True
                self._reissue(late, exclude=(member.number,))
        self.waiting_for = tuple(member.name for member in self._membership.all() if member.pending)
        self._go_on_waiting()

    def _timeout_s(self) -> float:
        """How long to wait for messages before somebody's requests may have to be given again."""
        now_s = SYSTEM_CLOCK.monotonic_s()
        deadlines = [
            self._deadline_s(owed)
            for member in self._membership.renderers()
            for owed in self._owed(member)
            if not member.suspected
        ]
        return min(min((deadline for deadline in deadlines if deadline > now_s), default=now_s + _POLL_S) - now_s, _POLL_S)

    def _deadline_s(self, assignment: Assignment) -> float:
        return assignment.at_s + self._timeouts.reissue_s + self._timeouts.reissue_factor * assignment.expected_s

    def _owed(self, member: Member) -> list[Assignment]:
        """What a node owes of this tick; one that was slow may owe frames of earlier ones, which others have drawn."""
        return [assignment for assignment in member.pending if assignment.frame == self.frame]

    def _late_requests(self, member: Member, now_s: float) -> list[RenderRequest]:
        return [
            request
            for assignment in self._owed(member)
            if now_s > self._deadline_s(assignment)
            for request in assignment.requests.values()
            if request.sensor in self._due and request.sensor not in self._done
        ]

    def _reissue(self, requests: Sequence[RenderRequest], exclude: Sequence[int]) -> None:
        """Give requests of this tick to other nodes than they were given to."""
        others = [member for member in self._renderers() if member.number not in exclude]
        if not others:
            return
        self._counters.reissued += len(requests)
        # A balancer of its own: where sensors are drawn in an emergency is not where they are at home.
        shares = LoadBalancer(self.balancer.costs).assign(requests, [member.number for member in others])
        by_number = {member.number: member for member in others}
        for share in shares:
            for part in rounds(share.requests):
                self._send_again(by_number[share.node], NodeShare(share.node, part, share.expected_s))

    def _fence_hanging(self, now_s: float) -> None:
        """Fence who owes something for far too long; what has come in the meantime is looked at first."""
        if any(self._hangs(member, now_s) for member in self._membership.all()):
            self._membership.attend(0.0)
        for member in self._membership.all():
            if self._hangs(member, now_s):
                first = member.pending[0]
                self._membership.fence(member, f"it has not drawn tick {first.frame} for {now_s - first.at_s:.1f} s")

    def _hangs(self, member: Member, now_s: float) -> bool:
        """Who still sends heartbeats is slow rather than frozen, and is given longer: another one may be as slow."""
        fence_s = self._timeouts.fence_s
        fence_s *= 1.0 if now_s - member.heard_s > min(_FROZEN_S, fence_s) else _SLOW_FACTOR
        return any(now_s - oldest.at_s > oldest.expected_s + fence_s for oldest in member.pending[:1])

    # Real time: give to who is free, leave out the rest.

    def _real_time(self, requests: Sequence[RenderRequest], now_s: float) -> list[RenderResult]:
        self._real_time_ticks[self.frame] = (now_s, step_of(self._host.episode))
        for frame in [frame for frame in self._real_time_ticks if frame < self.frame - _TICKS_KEPT]:
            del self._real_time_ticks[frame]
        self._fence_hanging(now_s)
        renderers = self._membership.renderers()
        free = [member for member in renderers if not member.pending]
        shares: tuple[NodeShare, ...] = ()
        if requests and free:
            numbers = [member.number for member in free]
            # Who is busy misses this tick, with the sensors it holds: moved to a free node for every hiccup, sensors would
            # wander all the time. Those without a place go to who is free.
            own = (
                requests
                if len(free) == len(renderers)
                else [request for request in requests if self.balancer.where(request.sensor) in (*numbers, None)]
            )
            if own:
                shares = self.balancer.assign(own, numbers, {request.sensor: self._homes(request) for request in requests})
        taken = {request.sensor for share in shares for request in share.requests}
        for request in requests:
            if request.sensor not in taken:
                self._count_dropped(request)
        self._send_tick(shares)
        return []

    def _count_dropped(self, request: RenderRequest) -> None:
        self._counters.lateness.drop()
        number = self.balancer.where(request.sensor)
        for member in self._membership.all():
            if member.number == number:
                member.dropped_frames += 1

    # What comes back.

    def on_tick_result(self, member: Member, message: TickResult, bulk: tuple[bytes, ...], now_s: float) -> None:
        """A node has answered a tick."""
        self._compare(member, message)
        if not message.results:
            return
        first = message.results[0].sensor
        found = (owed for owed in member.pending if owed.frame == message.frame and first in owed.requests)
        assignment = next(found, None)
        if assignment is None:
            return
        member.pending.remove(assignment)
        member.suspected = False  # it was slow, not frozen
        self._learn(member, assignment, message, now_s)
        parts = iter(bulk)
        for result in message.results:
            payload = next(parts, b"") if result.has_payload else b""
            memory = next(parts, b"") if result.has_memory else b""
            request = assignment.requests.get(result.sensor)
            if request is not None:
                made = RenderResult(result.sensor, payload, memory, result.error)
                self._on_result(member, request, made, message.frame, now_s)

    def _on_result(self, member: Member, request: RenderRequest, result: RenderResult, frame: int, now_s: float) -> None:
        if frame == self.frame and request.sensor in self._due:
            if request.sensor in self._done:
                self._counters.duplicates += 1
                return
            # Without its payload: that is delivered at once, while other nodes still draw.
            self._done[request.sensor] = RenderResult(result.sensor, b"", result.memory, result.error)
        elif frame in self._real_time_ticks:
            sent_s, step_s = self._real_time_ticks[frame]
            late_s = now_s - sent_s - step_s
            if late_s > 0.0:
                member.late_frames += 1
            self._counters.lateness.late(late_s)
        else:
            return
        member.frames.add(now_s)
        self._counters.frames.add(now_s)
        self._host.remember(request.sensor, result.memory)
        if result.payload:
            self._host.deliver(request, result.payload, member.number)

    def _learn(self, member: Member, assignment: Assignment, message: TickResult, now_s: float) -> None:
        member.busy_s += message.busy_s
        member.busy_us.add(now_s, int(message.busy_s * 1e6))
        member.step_s = now_s - assignment.at_s
        member.steps += 1
        member.steps_s += member.step_s
        each_s = {result.sensor: result.cost_s for result in message.results} if assignment.timed else {}
        self.balancer.costs.learn(member.number, list(assignment.requests.values()), message.busy_s, each_s)

    def _compare(self, member: Member, message: TickResult) -> None:
        """Hold a node's state against the main server's."""
        wanted = self._counters.digests.get(message.frame)
        if wanted is None or not message.digest:
            return
        member.compared += 1
        self._counters.compared += 1
        if message.digest != wanted:
            member.desynchronised += 1
            self._counters.desynchronised += 1
            self._counters.problems.add(message.frame, f"{member.name} holds another state than the main server")
            self._membership.fence(member, f"its state of tick {message.frame} is another one")

    def on_node_lost(self, member: Member) -> None:
        """A node is gone. In lockstep what it owed is given to others; in real time it is left out."""
        self.balancer.forget_node(member.number)
        for assignment in member.pending:
            for sensor in assignment.requests:
                if sensor not in self._due and assignment.frame in self._real_time_ticks:
                    self._counters.lateness.drop()
        member.pending.clear()

    def on_overtaken(self) -> None:
        """A frame came after a later one of the same sensor: nobody will get it."""
        self._counters.lateness.drop()

    def on_sensors_gone(self, sensors: Iterable[int] | None) -> None:
        """Sensors are gone, or all of them; nothing is kept of them."""
        frames = self._counters.sensor_frames
        for sensor in (*frames, *self.thumbnails_wanted) if sensors is None else sensors:
            self.thumbnails_wanted.discard(sensor)
            self.thumbnails.pop(sensor, None)
            frames.pop(sensor, None)
        self.balancer.forget_sensors(sensors)

    def keep_thumbnail(self, request: RenderRequest, payload: bytes) -> None:
        """Keep a payload that the main server itself asked for."""
        if request.sensor in self.thumbnails_wanted:
            self.thumbnails_wanted.discard(request.sensor)
            self.thumbnails.pop(request.sensor, None)
            self.thumbnails[request.sensor] = (replace(request, memory=b""), payload)
            kept_bytes = sum(len(kept) for _, kept in self.thumbnails.values())
            for oldest in tuple(self.thumbnails):
                if kept_bytes <= _THUMBNAILS_BYTES:
                    break
                kept_bytes -= len(self.thumbnails.pop(oldest)[1])

    def drain(self, member: Member) -> None:
        """Give a node nothing more; its clients may stay."""
        if member.state == WORKING:
            member.state = DRAINING
            self.balancer.forget_node(member.number)
