"""Deliberate bugs, by name: a simulation that does not find these would not find real ones either.

Each is a patch of one decision of the coordinator, or of one thing that the stand-ins of main server and node do for it, as
somebody might write it on a bad day. The last five are bugs that were really there until the simulation found them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace as changed
from typing import Any, Final

from msgspec.structs import replace

from samepath.cluster import coordinator as c
from samepath.cluster import messages as m
from samepath.cluster.assignment import Costs, NodeShare
from samepath.cluster.direct import DirectFrames
from samepath.simulator.server.rendering import RenderRequest
from tests.support.virtual_main import VirtualMain
from tests.support.virtual_node import Connection, VirtualNode

_Step = c._Step
Patch = tuple[object, str, object]


def _late_frame_accepted() -> Patch:
    """A result of an earlier tick counts for this one."""
    real = _Step._on_frame

    def on_frame(self: c._Step, member: c.Member, frame: int, *rest: object, **options: bool) -> None:
        tick = self.state.tick
        real(self, member, frame if tick is None else tick.frame, *rest, **options)

    return _Step, "_on_frame", on_frame


def _fence_forgotten() -> Patch:
    """A node that is taken out is cut off, but stays a member."""

    def take_out(self: c._Step, member: c.Member, line: str, *, fenced: bool) -> None:
        self._do(c.Problem(line))
        self._do(c.Disconnect(member.peer))

    return _Step, "_take_out", take_out


def _reissue_without_dedup() -> Patch:
    """The second result of a request that was given to two nodes is delivered, too."""
    real = _Step._on_frame

    def on_frame(self: c._Step, member: c.Member, frame: int, found: c.Deliver, *rest: object, **options: bool) -> None:
        tick, sensor = self.state.tick, found.request.sensor
        if tick is not None and sensor in tick.done:
            self._set(tick=replace(tick, done={key: made for key, made in tick.done.items() if key != sensor}))
        real(self, member, frame, found, *rest, **options)

    return _Step, "_on_frame", on_frame


def _barrier_early() -> Patch:
    """A tick is over when all frames but one are there."""
    real = _Step._check_round

    def check_round(self: c._Step) -> None:
        tick = self.state.tick
        if tick is not None and tick.is_sent and len(tick.done) == len(tick.due) - 1:
            self._set(tick=replace(tick, due={key: due for key, due in tick.due.items() if key in tick.done}))
        real(self)

    return _Step, "_check_round", check_round


def _lost_work_not_reissued() -> Patch:
    """What a lost node owed is left to the next deadline, which may never come."""
    real = _Step._lose

    def lose(self: c._Step, member: c.Member, **how: bool) -> None:
        self._go_on = lambda: None
        real(self, member, **how)
        del self._go_on

    return _Step, "_lose", lose


def _digest_not_compared() -> Patch:
    """Whatever state a node holds is as good."""
    return _Step, "_compare", lambda self, member, message: True


def _work_before_the_map() -> Patch:
    """A node that builds another map is given work."""
    return c.Member, "can_render", property(lambda self: self.state == "working")


def _memory_not_carried() -> Patch:
    """A request that is given to another node goes without what its sensor remembers."""
    real = c.shares_of

    def shares_of(costs: Costs, requests: list[RenderRequest], *rest: object) -> tuple[NodeShare, ...]:
        return real(costs, [changed(request, memory=b"") for request in requests], *rest)

    return c, "shares_of", shares_of


def _tick_only_to_who_draws() -> Patch:
    """Nodes that draw nothing are not sent the tick."""
    real = _Step._send_tick

    def send_tick(self: c._Step, shares: object, **how: bool) -> None:
        real(self, shares, **how)
        if self.effects and isinstance(self.effects[-1], c.SendTick):
            sent = self.effects[-1]
            self.effects[-1] = replace(sent, orders=tuple(order for order in sent.orders if order.requests))

    return _Step, "_send_tick", send_tick


def _sync_not_waited_for() -> Patch:
    """Whoever changed settings is answered before nodes know."""

    def check_synced(self: c._Step) -> None:
        if self.state.sync_until_s is not None:
            self._set(sync_until_s=None)
            self._do(c.SyncOver())

    return _Step, "_check_synced", check_synced


def _fenced_hello_accepted() -> Patch:
    """A node that was taken out may greet again on its old connection."""
    real = _Step._on_message

    def on_message(self: c._Step, event: c.NodeMessage) -> None:
        if isinstance(event.message, m.Hello):
            self._set(fenced=tuple(peer for peer in self.state.fenced if peer != event.peer))
        real(self, event)

    return _Step, "_on_message", on_message


def _suspected_never_covered() -> Patch:
    """What a late node owes is given to nobody else before the node is taken out."""
    real = _Step._cover

    def cover(self: c._Step) -> None:
        suspected = [peer for peer, member in self.state.members.items() if member.suspected]
        for peer in suspected:
            self._put(replace(self.state.members[peer], suspected=False))
        real(self)
        for peer in suspected:
            self._put(replace(self.state.members[peer], suspected=True))

    return _Step, "_cover", cover


def _never_to_main() -> Patch:
    """Frames do not reach listeners at the main server itself."""
    return VirtualMain, "hear", lambda self, request, payload: None


def _only_to_the_first_home() -> Patch:
    """Of the places at which a sensor is heard only the first gets its frame."""
    real = VirtualMain.deliver

    def deliver(self: VirtualMain, found: c.Deliver) -> None:
        stream = found.request.stream
        homes = self.homes.get(stream, set())
        self.homes[stream] = set(sorted(homes)[:1])
        real(self, found)
        self.homes[stream] = homes

    return VirtualMain, "deliver", deliver


def _node_does_not_dedup() -> Patch:
    """A node gives its listeners a frame that it drew itself and one that came from elsewhere."""
    real = VirtualNode.deliver

    def deliver(self: VirtualNode, sensor: int, payload: bytes, frame: int) -> None:
        self.delivered.pop(sensor, None)
        real(self, sensor, payload, frame)

    return VirtualNode, "deliver", deliver


def _own_frames_after_the_result() -> Patch:
    """A node tells the main server first, and its own clients a moment later."""

    def hand_out(
        self: VirtualNode, answer: m.TickResult, bulk: tuple[bytes, ...], own: list[tuple[int, bytes]], direct: dict[int, Any]
    ) -> None:
        for home, frames in direct.items():
            self._send_over(home, answer.frame, frames)
        self.connection.to_main(answer, bulk)
        for sensor, payload in own:
            self.world.at(0.01, self.deliver, sensor, payload, answer.frame)

    return VirtualNode, "hand_out", hand_out


def _ticket_not_journalled() -> Patch:
    """Calls that spawn something are not written to the journal."""
    real = VirtualMain.journal

    def journal(self: VirtualMain, raw: bytes, call: list[object]) -> None:
        if call[2] != "spawn":
            real(self, raw, call)

    return VirtualMain, "journal", journal


def _answer_before_the_disk() -> Patch:
    """A durable journal answers before what it says is on disk."""
    return VirtualMain, "is_durable", property(lambda self: False)


def _late_joiner_waited_for() -> Patch:
    """Who waits for nodes to take in news waits for one that joined meanwhile, too, and that was never asked."""
    real = _Step._on_map_ready

    def on_map_ready(self: c._Step, member: c.Member, message: m.MapReady) -> None:
        real(self, member, message)
        now = self.state.members.get(member.peer)
        if now is not None and member.state == "joining" and now.state == "working":
            self._put(replace(now, synced=0))

    return _Step, "_on_map_ready", on_map_ready


def _gone_sensor_learned() -> Patch:
    """What a late node says of a sensor that is gone is kept for ever."""
    real = _Step._on_result

    def on_result(self: c._Step, member: c.Member, message: m.TickResult, bulk: tuple[bytes, ...]) -> None:
        known = replace(member, pending=tuple(replace(owed, gone=frozenset()) for owed in member.pending))
        self._put(known)
        real(self, known, message, bulk)

    return _Step, "_on_result", on_result


def _free_node_not_asked() -> Patch:
    """A node that was late and has answered is not given what only others draw that are late."""
    real = _Step._on_result

    def on_result(self: c._Step, member: c.Member, message: m.TickResult, bulk: tuple[bytes, ...]) -> None:
        answers = replace(member, suspected=member.suspected and not message.results)
        self._put(answers)
        real(self, answers, message, bulk)

    return _Step, "_on_result", on_result


def _deadline_without_end() -> Patch:
    """A deadline that has passed and of which nothing comes is waited for again, at once and for ever."""
    real = c.deadline_s

    def deadline_s(state: c.ClusterState) -> float | None:
        tick = state.tick
        frame = tick.frame if tick is not None else 0
        late = [
            c._late_at_s(owed, state.config.timeouts)
            for member in state.members.values()
            if tick is not None and not member.suspected
            for owed in c._owed(member, frame)
        ]
        return min((limit_s for limit_s in (real(state), *late) if limit_s is not None), default=None)

    return c, "deadline_s", deadline_s


def _dismissed_is_given_work() -> Patch:
    """A node that was told to go while it built the map joins all the same."""
    real = _Step._on_map_ready

    def on_map_ready(self: c._Step, member: c.Member, message: m.MapReady) -> None:
        real(self, replace(member, dismissed=False), message)
        if member.dismissed and member.peer in self.state.members:
            self._put(replace(self.state.members[member.peer], dismissed=True))

    return _Step, "_on_map_ready", on_map_ready


def _lease_not_held() -> Patch:
    """A frame that lies in a node's memory is passed on to another node, and its place is given free at once."""
    return Connection, "lend", lambda _self, _part: None


def _empty_digest_believed() -> Patch:
    """A node that says nothing of its state is believed to hold the right one."""
    real = _Step._compare

    def compare(self: c._Step, member: c.Member, message: m.TickResult) -> bool:
        return not message.digest or real(self, member, message)

    return _Step, "_compare", compare


def _frames_on_their_way_not_awaited() -> Patch:
    """A result counts at once, also if its frames have not reached the nodes that they were sent to."""
    return DirectFrames, "on_result", lambda _self, _member, event, _homes, _now_s: [event]


def _held_frames_given_out_unasked() -> Patch:
    """A node gives frames of other nodes to its clients as they come."""
    real = VirtualNode.hold

    def hold(self: VirtualNode, sender: int, frame: int, frames: list[tuple[int, int, bytes]]) -> None:
        real(self, sender, frame, frames)
        for _, stream, payload in frames if self.alive and not self.frozen else ():
            self.deliver(stream, payload, frame)

    return VirtualNode, "hold", hold


def _frames_of_another_sender_counted() -> Patch:
    """What a node says that it holds counts for whoever says that it has sent it."""
    real = DirectFrames.on_result

    def on_result(
        self: DirectFrames, member: c.Member, event: c.NodeMessage, homes: set[int], now_s: float
    ) -> list[c.NodeMessage]:
        self._held |= {(member.membership, *key[1:]) for key in self._held}
        return real(self, member, event, homes, now_s)

    return DirectFrames, "on_result", on_result


def _patience_not_doubled() -> Patch:
    """However many nodes a frame has cost, the next one has no longer for it."""
    return _Step, "_count_eviction", lambda _self, _member: None


def _last_node_taken_out() -> Patch:
    """The last node that can draw counts as frozen as soon as any other would."""
    real = c._frozen_at_s

    def frozen_at_s(state: c.ClusterState, member: c.Member) -> float:
        return real(replace(state, members={}), member)

    return c, "_frozen_at_s", frozen_at_s


def _slow_node_taken_out() -> Patch:
    """A slow node is taken out though no other one has drawn its frame."""
    return _Step, "_is_worth_waiting", lambda _self, _member, _owed: False


def _slow_node_not_asked_again() -> Patch:
    """A node that is waited for is not asked again."""
    real = _Step._wait_on

    def wait_on(self: c._Step, member: c.Member) -> None:
        before = len(self.effects)
        real(self, member)
        self.effects[before:] = [effect for effect in self.effects[before:] if not isinstance(effect, c.SendTick)]

    return _Step, "_wait_on", wait_on


def _tick_never_fails() -> Patch:
    """A tick waits for ever for a frame that no node can draw."""
    return c, "_fails_at_s", lambda _state, _tick: 1e9


def _builders_not_awaited() -> Patch:
    """A tick waits no longer for nodes that build the map that was loaded."""
    return c.Member, "is_building", property(lambda _self: False)


MUTATIONS: Final[dict[str, Callable[[], Patch]]] = {
    "late-frame-accepted": _late_frame_accepted,
    "fence-forgotten": _fence_forgotten,
    "reissue-without-dedup": _reissue_without_dedup,
    "barrier-early": _barrier_early,
    "lost-work-not-reissued": _lost_work_not_reissued,
    "digest-not-compared": _digest_not_compared,
    "work-before-the-map": _work_before_the_map,
    "memory-not-carried": _memory_not_carried,
    "tick-only-to-who-draws": _tick_only_to_who_draws,
    "sync-not-waited-for": _sync_not_waited_for,
    "fenced-hello-accepted": _fenced_hello_accepted,
    "suspected-never-covered": _suspected_never_covered,
    "never-to-main": _never_to_main,
    "only-to-the-first-home": _only_to_the_first_home,
    "node-does-not-dedup": _node_does_not_dedup,
    "own-frames-after-the-result": _own_frames_after_the_result,
    "ticket-not-journalled": _ticket_not_journalled,
    "answer-before-the-disk": _answer_before_the_disk,
    "late-joiner-waited-for": _late_joiner_waited_for,
    "gone-sensor-learned": _gone_sensor_learned,
    "free-node-not-asked": _free_node_not_asked,
    "deadline-without-end": _deadline_without_end,
    "dismissed-is-given-work": _dismissed_is_given_work,
    "lease-not-held": _lease_not_held,
    "empty-digest-believed": _empty_digest_believed,
    "frames-on-their-way-not-awaited": _frames_on_their_way_not_awaited,
    "held-frames-given-out-unasked": _held_frames_given_out_unasked,
    "frames-of-another-sender-counted": _frames_of_another_sender_counted,
    "patience-not-doubled": _patience_not_doubled,
    "last-node-taken-out": _last_node_taken_out,
    "slow-node-taken-out": _slow_node_taken_out,
    "slow-node-not-asked-again": _slow_node_not_asked_again,
    "tick-never-fails": _tick_never_fails,
    "builders-not-awaited": _builders_not_awaited,
}


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Let a bug be there for a while; no name: none."""
    if not name:
        yield
        return
    owner, attribute, replacement = MUTATIONS[name]()
    real = owner.__dict__[attribute]
    setattr(owner, attribute, replacement)
    try:
        yield
    finally:
        setattr(owner, attribute, real)
