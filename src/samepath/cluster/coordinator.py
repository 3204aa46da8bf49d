"""Who is in the cluster and who draws what, as a state machine: ``step(state, event, now_s) -> state, effects``.

No socket, no clock, no thread, no callback. What happened comes in as an event, what is to be done goes out as effects, in the
order in which they are to be done, and the time is an argument. The main server carries the effects out over a real link
(``shell.py``); a simulator of whole clusters carries them out in virtual time (``tests/support/cluster_world.py``).
So whatever a schedule of faults does to this code can be done again, to the bit.

**Members.** A node goes through ``joining`` (it builds the map), ``working``, perhaps ``draining`` (no new work, its clients
may stay), and is then gone (it left or its process ended) or *fenced* (taken out). Fencing is the answer to a node that may be
wrong: one that is silent, hangs, holds another state or sends what cannot be read. Its connection is cut and its name
remembered, so that nothing it sent before or will send later is acted on; only then is its work given to others. A node that
comes back is a new member with a new connection: there is no way back into an old one.

**A tick in lockstep** is over when every due frame exists, whatever happens to nodes meanwhile. Four rules hold:

* *At least once, delivered once.* A request that is late is also given to another node (both draw the same bytes). The first
  result counts, the second is dropped.
* *Only this tick's results count.* A result belongs to an assignment that is still pending; what nobody waits for is ignored,
  and a fenced node has no assignments.
* *A slow frame ends.* Without limits, a frame that takes too long would have all nodes taken out, again and again. A node
  that sends heartbeats is kept until another one has drawn the same frame. Each node that is taken out because it was silent
  doubles the time that others have for that sensor. The last node that can draw is kept until it is silent for
  ``Timeouts.silent_s``. A tick without a new frame for ``Timeouts.frame_s`` fails.
* *State before frames.* Every tick is sent to all nodes, also to those that draw nothing, and its digest comes back: a node
  that holds another state is fenced at the first tick that shows it.

**In real time** a tick is over at once; frames come when they come, what is late or left out is counted.

Membership and drawing are one machine and one file: to fence a member is to give its work away, to let one in changes who may
draw, and a result both proves a member alive and ends a round. Cut in two, the halves would call each other at every turn and
pass the state between them. What can stand alone does: the records (``records.py``) and who gets what (``assignment.py``).

Dictionaries in the state are never changed, only replaced.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from samepath.cluster import messages as m
from samepath.cluster.assignment import (
    Balance,
    NodeShare,
    assign,
    forget_node,
    forget_sensors,
    learn,
    learn_beyond,
    shares_of,
    spread,
)
from samepath.cluster.records import (
    Accepted,
    Assignment,
    ClusterConfig,
    ClusterState,
    Deliver,
    Disconnect,
    DrainWanted,
    DueFrame,
    Effect,
    Event,
    FrameDrawn,
    FramesDropped,
    Introduce,
    LogLine,
    MapFacts,
    Member,
    NewsMade,
    NodeDrained,
    NodeLost,
    NodeMessage,
    NodeMet,
    NodeState,
    Payload,
    PeerFailed,
    PeerHeard,
    PeerLost,
    Problem,
    Reissued,
    Remember,
    RoundOver,
    Send,
    SendsDrained,
    SendTick,
    StateCompared,
    StepMeasured,
    StopWanted,
    SyncOver,
    SyncWanted,
    Tick,
    TickDue,
    TickFailed,
    TickOrder,
    TickOver,
    TimePassed,
)
from samepath.cluster.settings import SLOW_FACTOR, Timeouts
from samepath.simulator.carla.streams import with_gbuffers
from samepath.simulator.server.rendering import RenderRequest, RenderResult, rounds

__all__ = [
    "Accepted",
    "Assignment",
    "Balance",
    "ClusterConfig",
    "ClusterState",
    "Deliver",
    "Disconnect",
    "DrainWanted",
    "DueFrame",
    "Effect",
    "Event",
    "FrameDrawn",
    "FramesDropped",
    "Introduce",
    "LogLine",
    "MapFacts",
    "Member",
    "NewsMade",
    "NodeDrained",
    "NodeLost",
    "NodeMessage",
    "NodeMet",
    "NodeState",
    "Payload",
    "PeerFailed",
    "PeerHeard",
    "PeerLost",
    "Problem",
    "Reissued",
    "Remember",
    "RoundOver",
    "Send",
    "SendTick",
    "SendsDrained",
    "StateCompared",
    "StepMeasured",
    "StopWanted",
    "SyncOver",
    "SyncWanted",
    "Tick",
    "TickDue",
    "TickFailed",
    "TickOrder",
    "TickOver",
    "TimePassed",
    "by_name",
    "by_number",
    "deadline_s",
    "followers",
    "in_order",
    "listens",
    "number_for",
    "renderers",
    "step",
    "waiting_for",
]

_replace: Final = msgspec.structs.replace
# Now and then every request is measured by itself: costs change as the world does.
_TIMED_EVERY: Final = 64
_TIMED_RARELY: Final = 1024  # where that takes many times as long
# Digests and deadlines of so many ticks are kept for nodes that are behind.
_TICKS_KEPT: Final = 64
# A node sends a heartbeat twice a second, also while it draws: with two missed and some slack it is taken for frozen.
_FROZEN_S: Final = 1.2
# A node's patience is doubled at most so often: a thousandfold is longer than any tick lasts.
_DOUBLINGS_MAX: Final = 10
# So many nodes that join during a tick are waited for until they have built the map. A frame that ends the process of each node
# that draws it must not be waited for without end.
_JOINS_MAX: Final = 4
# So many sensors are named when a tick fails.
_NAMED_MAX: Final = 3
# How long a refused node stays connected, so that it can read why.
_REFUSED_S: Final = 2.0
# How long everybody may take to take in a new map or new settings before the caller is answered all the same: building a map
# happens elsewhere, this is only reading it. Nodes that are later are behind for a moment, not wrong.
_SYNC_S: Final = 10.0
_MEMBERS_MOST: Final = 1024
_FENCED_MOST: Final = 4096
# Numbers of nodes that are gone, in case they come again: names are anybody's choice, and must not add up for ever.
_NUMBERS_KEPT: Final = 4096


def step(state: ClusterState, event: Event, now_s: float) -> tuple[ClusterState, tuple[Effect, ...]]:
    """What an event leads to."""
    run = _Step(state, now_s)
    run.on(event)
    return run.state, tuple(run.effects)


def in_order(state: ClusterState) -> list[Member]:
    """All members, by number."""
    return sorted(state.members.values(), key=lambda member: member.number)


def followers(state: ClusterState) -> list[Member]:
    """Those that are sent every tick, by number."""
    return [member for member in in_order(state) if member.follows]


def renderers(state: ClusterState) -> list[Member]:
    """Those that may be given requests, by number."""
    return [member for member in in_order(state) if member.can_render]


def by_number(state: ClusterState, number: int) -> Member | None:
    """The node that follows under a number."""
    return next((member for member in state.members.values() if member.number == number and member.follows), None)


def listens(member: Member, frame: int) -> bool:
    """Can somebody at this node be waiting for a frame of this tick?

    Who listened at a node that is gone is known by the node's number until the tick is over, and a node that joins meanwhile
    may have that number.
    """
    return frame > member.joined_frame


def by_name(state: ClusterState, name: str) -> Member | None:
    return next((member for member in state.members.values() if member.name == name), None)


def waiting_for(state: ClusterState) -> tuple[str, ...]:
    """The nodes that owe something of the tick that is being drawn."""
    if state.tick is None:
        return ()
    return tuple(member.name for member in in_order(state) if _owed(member, state.tick.frame))


def deadline_s(state: ClusterState) -> float | None:
    """When :class:`TimePassed` is wanted at the latest; None: not before something else happens."""
    times, limits = state.config.timeouts, []
    for member in state.members.values():
        limits.append(_silent_at_s(member, times))
        limits += [_hangs_at_s(state, member)] if member.pending else []
        # Once all frames are there nobody is late any more, whatever still waits to be sent; and while nobody can draw a round,
        # nothing of it is owed. A deadline that nothing comes of would be waited for again and again.
        if state.tick is not None and state.tick.due and not state.tick.is_round_over and not member.suspected:
            limits += [_late_at_s(owed, times) for owed in _owed(member, state.tick.frame)]
    limits += state.refused.values()
    if state.tick is not None and not state.tick.is_round_over:
        limits.append(_fails_at_s(state, state.tick))
    if state.sync_until_s is not None:
        limits.append(state.sync_until_s)
    return min(limits, default=None)


def number_for(name: str, taken: Iterable[int]) -> int:
    """A new node's number: the one at the end of its name where that is free, else the next."""
    used = frozenset(taken)
    tail = name.rpartition("-")[2]
    found = int(tail) if tail.isdecimal() and tail.isascii() and len(tail) < 5 else 0
    if found and found not in used:
        return found
    return next(number for number in range(1, len(used) + 2) if number not in used)


def _numbered(state: ClusterState, name: str, number: int) -> dict[str, int]:
    """The numbers of nodes, by name, with one more; of names that were not heard for long the oldest are forgotten."""
    numbers = {known: its for known, its in state.numbers.items() if known != name}
    there = {member.name for member in state.members.values()}
    old = [known for known in numbers if known not in there]
    for known in old[: max(0, len(old) - _NUMBERS_KEPT)]:
        del numbers[known]
    return {**numbers, name: number}


def _owed(member: Member, frame: int) -> list[Assignment]:
    """What a node owes of a tick; one that was slow may owe frames of earlier ones, which others have drawn."""
    return [assignment for assignment in member.pending if assignment.frame == frame]


def _late_at_s(assignment: Assignment, times: Timeouts) -> float:
    return assignment.at_s + times.reissue_s + times.reissue_factor * assignment.expected_s


def _silent_at_s(member: Member, times: Timeouts) -> float:
    """When a node has sent nothing for too long. Drawing a large frame delays heartbeats, too."""
    if member.state == "joining":
        return member.heard_s + times.joining_s
    return member.heard_s + times.silent_s * _doubled(member.pending)


def _hangs_at_s(state: ClusterState, member: Member) -> float:
    """When a node has owed something for too long."""
    return min(_frozen_at_s(state, member), _slow_at_s(state, member))


def _frozen_at_s(state: ClusterState, member: Member) -> float:
    """When a node that owes something and sends no heartbeats counts as frozen.

    The last node that can draw never does, because no other node could take over. :func:`_silent_at_s` applies to it.
    """
    if renderers(state) == [member]:
        return math.inf
    oldest, times = member.pending[0], state.config.timeouts
    factor = _doubled(member.pending[:1])
    frozen_s = member.heard_s + factor * min(_FROZEN_S, times.fence_s)
    return max(oldest.at_s + oldest.expected_s + factor * times.fence_s, frozen_s)


def _slow_at_s(state: ClusterState, member: Member) -> float:
    """When a node has owed something for too long whose heartbeats come."""
    oldest = member.pending[0]
    factor = _doubled(member.pending[:1])
    return oldest.at_s + oldest.expected_s + factor * SLOW_FACTOR * state.config.timeouts.fence_s


def _doubled(pending: Iterable[Assignment]) -> float:
    """How many times as long as usual is waited for a node that owes these."""
    return 2.0 ** max(map(_doublings_of, pending), default=0)


def _doublings_of(owed: Assignment) -> int:
    return max(owed.doublings, owed.asked_again)


def _fails_at_s(state: ClusterState, tick: Tick) -> float:
    """When a tick has gone on for too long without a new frame, or without a node to draw it."""
    times = state.config.timeouts
    expected_s = (owed.expected_s for member in state.members.values() for owed in _owed(member, tick.frame))
    frame_s = tick.progress_s + max(expected_s, default=0.0) + max(times.frame_s, times.no_node_s)
    if tick.no_node_since_s is None:
        return frame_s
    built_s = (
        member.sent_map_s + times.build_s
        for member in state.members.values()
        if member.is_building and (member.state == "working" or tick.joins < _JOINS_MAX)
    )
    return max(min(frame_s, tick.no_node_since_s + times.no_node_s), max(built_s, default=0.0))


def _sensor_name(request: RenderRequest) -> str:
    """A sensor as users see it: its id, its type and what makes it large."""
    given = dict(request.attributes)
    size = f"{given['image_size_x']}x{given['image_size_y']}" if {"image_size_x", "image_size_y"} <= given.keys() else ""
    rays = f"{given['points_per_second']} points per second" if "points_per_second" in given else ""
    return f"sensor {request.sensor} ({', '.join(word for word in (request.type_id, size, rays) if word)})"


class _Step:
    """One step: the state as it becomes, and the effects so far."""

    def __init__(self, state: ClusterState, now_s: float) -> None:
        self.state = state
        self.now_s = now_s
        self.effects: list[Effect] = []
        self._homes: dict[int, tuple[int, ...]] = {}  # of what is due in real time

    def on(self, event: Event) -> None:  # noqa: PLR0912 - one branch per event
        match event:
            case NodeMessage():
                self._on_message(event)
            case PeerLost():
                self._drop(event.peer, event.why)
            case PeerHeard():
                member = self.state.members.get(event.peer)
                if member is not None:
                    self._put(_replace(member, heard_s=self.now_s))
            case PeerFailed():
                self._fail(event.peer, event.why)
            case NewsMade():
                self._on_news(event)
            case SyncWanted():
                self._on_sync_wanted()
            case TickDue():
                self._on_tick_due(event)
            case SendsDrained():
                self._on_drained()
            case TimePassed():
                self._on_time()
            case DrainWanted():
                self._on_drain(event.name)
            case StopWanted():
                for member in in_order(self.state):
                    self._do(Send(member.peer, m.Leave(event.why)))

    def _do(self, effect: Effect) -> None:
        self.effects.append(effect)

    def _set(self, **changes: object) -> None:
        self.state = _replace(self.state, **changes)

    def _put(self, member: Member) -> None:
        self._set(members={**self.state.members, member.peer: member})

    # Coming.

    def _on_message(self, event: NodeMessage) -> None:
        peer, message = event.peer, event.message
        member = self.state.members.get(peer)
        if member is None:
            if peer in self.state.fenced or peer in self.state.refused:
                return
            if isinstance(message, m.Hello):
                self._on_hello(peer, message)
            else:
                self._do(Disconnect(peer))
            return
        member = _replace(member, heard_s=self.now_s)
        match message:
            case m.TickResult():
                self._put(member)
                self._on_result(member, message, event.bulk)
            case m.Synced():
                self._put(_replace(member, synced=max(member.synced, message.number)))
                self._check_synced()
            case m.MapReady():
                self._put(member)
                self._on_map_ready(member, message)
            case m.Hello():
                self._fail(peer, "it sent a message Hello that does not belong here")
            case m.ClientCall():
                self._on_call(member, message, _here(event.bulk))
            case m.ClientGone():
                member = _replace(member, clients=member.clients - {message.client})
                self._put(member)
                self._do(Accepted(member, message, _here(event.bulk)))
                self._let_go(member)
            case _:
                self._put(member)
                self._do(Accepted(member, message, _here(event.bulk)))

    def _on_call(self, member: Member, message: m.ClientCall, bulk: tuple[bytes, ...]) -> None:
        clients = member.clients | {message.client}
        if not bulk:
            self._fail(member.peer, "it sent a client's call without the call")
        elif len(clients) > self.state.config.clients_most:  # a node lets in no more
            self._fail(member.peer, f"it sent a call of a client beyond the {self.state.config.clients_most} that it may have")
        else:
            member = _replace(member, clients=clients)
            self._put(member)
            self._do(Accepted(member, message, bulk))

    def _on_hello(self, peer: bytes, hello: m.Hello) -> None:
        state, config = self.state, self.state.config
        other = by_name(state, hello.name)
        why = ""
        if hello.version != config.version:
            why = f"it runs samepath {hello.version}, the main server {config.version}: install the same version"
        elif hello.fingerprint != config.fingerprint:
            why = (
                f"its fingerprint is {hello.fingerprint}, the main server's {config.fingerprint}: "
                "the code of samepath or the version of numpy, numba, llvmlite or msgpack differs"
            )
        elif other is not None:
            why = f"there is a node called {hello.name} already: choose another --name"
        elif len(state.members) >= _MEMBERS_MOST:
            why = f"there are {_MEMBERS_MOST} nodes already"
        if why:
            self._refuse(peer, hello.name, why)
            return
        number = state.numbers.get(hello.name) or number_for(hello.name, state.numbers.values())
        same_host = bool(config.boot) and hello.boot == config.boot
        membership = state.memberships + 1
        member = Member(peer, number, hello, same_host, self.now_s, membership=membership)
        self._set(numbers=_numbered(state, hello.name, number), memberships=membership)
        self._do(NodeMet(peer, hello.pid if same_host else None))
        self._do(Send(peer, m.Welcome(number, same_host, config.aliases, config.protocol, membership)))
        self._send_map(member)

    def _send_map(self, member: Member) -> None:
        self._put(_replace(member, sent_episode=self.state.map.message.episode, sent_map_s=self.now_s))
        self._do(Send(member.peer, self.state.map.message, (self.state.map.xodr,)))

    def _on_map_ready(self, member: Member, message: m.MapReady) -> None:
        wanted = self.state.map.message
        if member.dismissed:
            return  # it was told to go while it built; its connection will end
        if message.episode != wanted.episode:
            if member.sent_episode != wanted.episode:
                self._send_map(member)  # the map changed while it was building the one before
            return
        known = self.state.config.picture
        picture = known or self.state.first_picture or message.picture_digest
        why = ""
        if message.map_digest != wanted.map_digest:
            why = f"its map {wanted.real} is another one: {message.map_digest}, the main server's {wanted.map_digest}"
        elif message.picture_digest != picture:
            whose = "that of this version" if known else "the first node's"
            why = f"its test picture is another one than {whose}: {message.picture_digest}, not {picture}"
        if why:
            self._refuse(member.peer, member.name, why)
            return
        self._set(first_picture=picture)
        has_joined = member.state != "joining"
        member = _replace(member, built_episode=message.episode)
        if not has_joined:
            # All news are part of its introduction: who waits now for nodes to take them in must not wait for it, too.
            member = _replace(member, state="working", joined_frame=self.state.frame, synced=self.state.syncs)
        self._put(member)
        if not has_joined:
            self._do(Introduce(member.peer, member.name))
        tick = self.state.tick
        if tick is not None:
            is_progress = has_joined or tick.joins < _JOINS_MAX
            progress_s = self.now_s if is_progress else tick.progress_s
            self._set(tick=_replace(tick, joins=tick.joins + (not has_joined), progress_s=progress_s))
        self._go_on()

    # Going.

    def _refuse(self, peer: bytes, name: str, why: str) -> None:
        self._do(Problem(f"node {name} was refused: {why}"))
        self._do(Send(peer, m.Refused(why)))
        # It is cut off a little later, so that it can read why.
        self._set(refused={**self.state.refused, peer: self.now_s + _REFUSED_S})
        member = self._remove(peer)
        if member is not None:
            self._lose(member, failed=False, fenced=False)

    def _fail(self, peer: bytes, why: str) -> None:
        member = self.state.members.get(peer)
        if member is None:
            if peer not in self.state.refused and peer not in self.state.fenced:
                self._do(LogLine(f"a node that has not joined was cut off: {why}"))
            self._cut(peer)
        elif member.state == "draining" and not member.pending:
            self._drop(peer, why)
        else:
            self._fence(member, why)

    def _fence(self, member: Member, why: str) -> None:
        """Take a node out: whatever it still says is not heard, and another one takes its place."""
        self._do(Send(member.peer, m.Leave(f"taken out: {why}")))
        self._take_out(member, f"{member.name} was taken out: {why}", fenced=True)

    def _fence_late(self, member: Member, why: str) -> None:
        """Take out a node that is late, and double the time that others have for the frames that it owes."""
        self._count_eviction(member)
        self._fence(member, why)

    def _count_eviction(self, member: Member) -> None:
        waited_for = {sensor for owed in member.pending for sensor in owed.requests if self._is_waited_for(owed, sensor)}
        if not waited_for:
            return
        evictions = self.state.evictions
        grown = {sensor: min(evictions.get(sensor, 0) + 1, _DOUBLINGS_MAX) for sensor in waited_for}
        self._set(evictions={**evictions, **grown})
        for other in in_order(self.state):
            pending = tuple(
                _replace(owed, doublings=max(owed.doublings, self._doublings(owed.requests))) for owed in other.pending
            )
            if pending != other.pending:
                self._put(_replace(other, pending=pending))

    def _is_waited_for(self, owed: Assignment, sensor: int) -> bool:
        tick = self.state.tick
        if tick is not None and owed.frame == tick.frame:
            return sensor in tick.due and sensor not in tick.done
        return owed.frame in self.state.real_time and sensor not in owed.gone

    def _doublings(self, sensors: Iterable[int]) -> int:
        return max((self.state.evictions.get(sensor, 0) for sensor in sensors), default=0)

    def _drop(self, peer: bytes, why: str) -> None:
        member = self.state.members.get(peer)
        if member is not None:
            self._take_out(member, f"{member.name} is gone: {why}", fenced=False)

    def _take_out(self, member: Member, line: str, *, fenced: bool) -> None:
        line = f"tick {self.state.frame}: {line}"
        was_leaving = member.state == "draining" and not member.pending and not fenced
        self._do(LogLine(line) if was_leaving else Problem(line))
        self._remove(member.peer)
        self._cut(member.peer)
        self._lose(member, failed=True, fenced=fenced)

    def _cut(self, peer: bytes) -> None:
        self._do(Disconnect(peer))
        if peer not in self.state.fenced:
            self._set(fenced=(*self.state.fenced, peer)[-_FENCED_MOST:])

    def _remove(self, peer: bytes) -> Member | None:
        found = self.state.members.get(peer)
        if found is not None:
            self._set(members={other: member for other, member in self.state.members.items() if other != peer})
        return found

    def _lose(self, member: Member, *, failed: bool, fenced: bool) -> None:
        """Its clients are gone with it, and what it owed is given to others, or in real time left out."""
        self._set(balance=forget_node(self.state.balance, member.number))
        self._do(NodeLost(member, failed, fenced))
        tick = self.state.tick
        dropped = sum(
            len(owed.requests)
            for owed in member.pending
            if owed.frame in self.state.real_time and (tick is None or owed.frame != tick.frame)
        )
        if dropped:
            self._do(FramesDropped(dropped))
        self._go_on()
        self._check_synced()

    def _on_drain(self, name: str) -> None:
        member = by_name(self.state, name)
        if member is None:
            return
        if member.state == "joining":
            self._dismiss(member)
        elif member.state == "working":
            member = _replace(member, state="draining")
            self._put(member)
            self._set(balance=forget_node(self.state.balance, member.number))
            self._let_go(member)

    def _let_go(self, member: Member) -> None:
        """Tell a node that is drained to go, once; it is a member until its connection has ended."""
        if member.state == "draining" and not member.pending and not member.clients and not member.dismissed:
            self._dismiss(member)

    def _dismiss(self, member: Member) -> None:
        self._put(_replace(member, dismissed=True))
        self._do(Send(member.peer, m.Leave("it was drained")))
        self._do(NodeDrained(member.name))

    # News.

    def _on_news(self, event: NewsMade) -> None:
        self._set(map=event.map)
        for message, bulk in event.items:
            if isinstance(message, m.NewEpisode):
                self._forget(None)
            elif isinstance(message, m.NewActors) and message.gone:
                self._forget(frozenset(with_gbuffers(message.gone)))
            for member in followers(self.state):
                if isinstance(message, m.NewEpisode):
                    self._put(_replace(member, sent_episode=message.episode, sent_map_s=self.now_s))
                self._do(Send(member.peer, message, (bulk,) if bulk else ()))

    def _forget(self, gone: frozenset[int] | None) -> None:
        """Sensors are gone, or all of them (None): also for nodes that are late with them, or they would be learned anew."""
        state = self.state
        delivered = {} if gone is None else {key: frame for key, frame in state.delivered.items() if key not in gone}
        evictions = {} if gone is None else {key: count for key, count in state.evictions.items() if key not in gone}
        self._set(balance=forget_sensors(state.balance, gone), delivered=delivered, evictions=evictions)
        for member in in_order(self.state):
            pending = tuple(
                _replace(owed, gone=owed.gone | (owed.requests.keys() if gone is None else owed.requests.keys() & gone))
                for owed in member.pending
            )
            if pending:
                self._put(_replace(member, pending=pending))

    def _on_sync_wanted(self) -> None:
        self._set(syncs=self.state.syncs + 1, sync_until_s=self.now_s + _SYNC_S)
        for member in followers(self.state):
            self._do(Send(member.peer, m.Sync(self.state.syncs)))
        self._check_synced()

    def _check_synced(self) -> None:
        until_s = self.state.sync_until_s
        if until_s is None:
            return
        behind = any(member.synced < self.state.syncs for member in self.state.members.values() if member.follows)
        if not behind or self.now_s >= until_s:
            self._set(sync_until_s=None)
            self._do(SyncOver())

    # A tick.

    def _on_tick_due(self, event: TickDue) -> None:
        state = self.state
        kept = {frame: digest for frame, digest in state.digests.items() if frame > event.frame - _TICKS_KEPT}
        self._set(frame=event.frame, ticks=state.ticks + 1, digests={**kept, event.frame: event.digest})
        requests = tuple(due.request for due in event.frames)
        homes = {due.request.sensor: due.homes for due in event.frames}
        if event.lockstep:
            due = tuple(rounds(requests)) or ((),)
            self._set(real_time={}, tick=Tick(event.frame, homes, due, progress_s=self.now_s))
            self._begin_round()
        else:
            self._real_time(event, requests, homes)
            self._do(TickOver(event.frame, ()))

    def _begin_round(self) -> None:
        """Share out the next round; without anybody to draw it, wait for somebody."""
        waiting = len(self._tick().rounds)
        self._fence_hanging()
        tick = self._tick()
        if len(tick.rounds) < waiting:
            return  # taking out who hung has begun it
        part = tick.rounds[0]
        # A node that hangs would make every tick wait: it is left alone until it has answered, if there is another.
        able = renderers(self.state)
        able = [member for member in able if not member.suspected] or able
        if part and not able:
            if not tick.is_sent:
                self._set(tick=_replace(tick, is_sent=True))
                self._send_tick({}, again=False)
            self._wait_for_node()
            return
        shares: tuple[NodeShare, ...] = ()
        if part:
            balance, shares = assign(self.state.balance, part, [member.number for member in able], tick.homes)
            self._set(balance=balance)
        due = {request.sensor: request for request in part}
        self._set(
            tick=_replace(
                tick, rounds=tick.rounds[1:], due=due, done={}, is_sent=True, no_node_since_s=None, progress_s=self.now_s
            )
        )
        self._send_tick({share.node: [share] for share in shares}, again=tick.is_sent)
        self._check_round()

    def _tick(self) -> Tick:
        if self.state.tick is None:
            raise ValueError("no tick is being drawn")
        return self.state.tick

    def _send_tick(self, shares: Mapping[int, Sequence[NodeShare]], *, again: bool, lockstep: bool = True) -> None:
        """Send the tick to all who follow, and each its requests with it; ``again``: all have it, only the requests are new."""
        ticks, costs = self.state.ticks, self.state.balance.costs
        is_turn, is_rare_turn = ticks % _TIMED_EVERY == 1, ticks % _TIMED_RARELY == 1
        orders = []
        for member in followers(self.state):
            parts = [part for share in shares.get(member.number, ()) for part in _parts(share)]
            if not parts and not again:
                orders.append(TickOrder(member.peer))
            for number, share in enumerate(parts):
                timed = number == 0 and costs.wants_each(
                    member.number, share.requests, is_turn=is_turn, is_rare_turn=is_rare_turn
                )
                if timed:
                    expected_s = costs.expected_s(member.number, share.requests, each=True)
                    share = NodeShare(share.node, share.requests, expected_s)  # noqa: PLW2901 - the same, and what it takes
                orders.append(self._order(member.peer, share, timed=timed, again=again or number > 0))
        if orders:
            self._do(SendTick(self.state.frame, lockstep, tuple(orders)))

    def _order(self, peer: bytes, share: NodeShare, *, timed: bool, again: bool) -> TickOrder:
        member = self.state.members[peer]
        requests = {request.sensor: request for request in share.requests}
        owed = Assignment(self.state.frame, requests, self.now_s, share.expected_s, timed, doublings=self._doublings(requests))
        self._put(_replace(member, pending=(*member.pending, owed)))
        return TickOrder(peer, share.requests, self._heard(share.requests), timed, again)

    def _heard(self, requests: Sequence[RenderRequest]) -> tuple[tuple[int, ...], ...]:
        """For each request the nodes at which it is listened to."""
        homes = self.state.tick.homes if self.state.tick is not None else self._homes
        late = {other.number for other in self.state.members.values() if not listens(other, self.state.frame)}
        return tuple(tuple(home for home in homes[request.sensor] if home not in late) for request in requests)

    def _on_result(self, member: Member, message: m.TickResult, bulk: tuple[Payload, ...]) -> None:
        if not self._compare(member, message) or not message.results:
            return
        first = message.results[0].sensor
        owed = next((each for each in _owed(member, message.frame) if first in each.requests), None)
        if owed is None:
            return
        # It answers: it was slow, not frozen.
        pending = tuple(each for each in member.pending if each is not owed)
        was_suspected = member.suspected
        member = _replace(member, pending=pending, suspected=False)
        self._put(member)
        if self.now_s - owed.at_s <= self.state.config.timeouts.fence_s and self._doublings(owed.requests):
            evictions = self.state.evictions
            self._set(evictions={key: count for key, count in evictions.items() if key not in owed.requests})
        self._do(StepMeasured(member.number, self.now_s - owed.at_s, message.busy_s))
        if not owed.gone:
            # It cannot have drawn for longer than it was waited for, whatever its clock says: deadlines follow from this.
            waited_s = self.now_s - owed.at_s
            each_s = {result.sensor: min(result.cost_s, waited_s) for result in message.results} if owed.timed else {}
            busy_s = min(message.busy_s, waited_s)
            costs = learn(self.state.balance.costs, member.number, list(owed.requests.values()), busy_s, each_s)
            costs = learn_beyond(costs, member.number, waited_s - busy_s)
            self._set(balance=_replace(self.state.balance, costs=costs))
        parts = iter(bulk)
        for result in message.results:
            payload = next(parts, b"") if result.has_payload else b""
            memory = b"".join(_here((next(parts, b""),))) if result.has_memory else b""
            request = owed.requests.get(result.sensor)
            if request is not None:
                made = RenderResult(result.sensor, b"", memory, result.error)
                frame = Deliver(request, payload, member.number, result.sent_to, member.membership)
                self._on_frame(member, message.frame, frame, made, is_gone=result.sensor in owed.gone)
        self._let_go(member)
        if was_suspected:
            self._go_on()  # it is free for what only nodes draw that are late
        self._check_round()

    def _compare(self, member: Member, message: m.TickResult) -> bool:
        """Hold a node's state against the main server's; one that holds another is taken out."""
        wanted = self.state.digests.get(message.frame)
        if wanted is None:
            return True  # of a tick that is long over
        is_equal = message.digest == wanted
        self._do(StateCompared(member.number, is_equal))
        if not is_equal:
            self._do(Problem(f"tick {message.frame}: {member.name} holds another state than the main server"))
            self._fence(member, f"its state of tick {message.frame} is another one")
        return is_equal

    def _on_frame(self, member: Member, frame: int, found: Deliver, result: RenderResult, *, is_gone: bool) -> None:
        tick, request = self.state.tick, found.request
        if tick is not None and frame == tick.frame and request.sensor in tick.due:
            if request.sensor in tick.done:
                self._do(Reissued(duplicate=True))
                return
            self._set(tick=_replace(tick, done={**tick.done, request.sensor: result}, progress_s=self.now_s))
            self._do(FrameDrawn(member.number))
        elif frame in self.state.real_time and not is_gone:
            if frame <= self.state.delivered.get(request.sensor, 0):
                self._do(FramesDropped(1, member.number))  # a later one of the same sensor was quicker
                return
            sent_s, step_s = self.state.real_time[frame]
            self._do(FrameDrawn(member.number, max(self.now_s - sent_s - step_s, 0.0)))
            self._do(Remember(request.sensor, result.memory))
            self._set(delivered={**self.state.delivered, request.sensor: frame})
        else:
            return
        if found.payload or found.sent_to:
            self._do(found)

    def _check_round(self) -> None:
        tick = self.state.tick
        if tick is None or tick.is_round_over or not tick.is_sent or tick.no_node_since_s is not None:
            return
        if len(tick.done) == len(tick.due):
            self._set(tick=_replace(tick, is_round_over=True))
            self._do(RoundOver())

    def _on_drained(self) -> None:
        tick = self.state.tick
        if tick is None or not tick.is_round_over:
            return
        results = (*tick.results, *(tick.done[sensor] for sensor in tick.due))
        self._set(tick=_replace(tick, results=results, due={}, done={}, is_round_over=False))
        if tick.rounds:
            self._begin_round()
        else:
            self._set(tick=None)
            self._do(TickOver(tick.frame, results))

    # When something is late or lost.

    def _on_time(self) -> None:
        state, now_s, times = self.state, self.now_s, self.state.config.timeouts
        for peer in [peer for peer, until_s in state.refused.items() if now_s >= until_s]:
            self._set(refused={other: until_s for other, until_s in self.state.refused.items() if other != peer})
            self._cut(peer)
        for member in in_order(state):
            # The very sums of deadline_s: a difference may be rounded to just below what it was at the deadline. Taking out one
            # node may give the others more time.
            if now_s >= _silent_at_s(self.state.members.get(member.peer, member), times):
                self._fence_late(member, f"it has said nothing for {now_s - member.heard_s:.1f} s")
        self._fence_hanging()
        self._go_on()
        self._check_synced()
        tick = self.state.tick
        if tick is None or tick.is_round_over or now_s < _fails_at_s(self.state, tick):
            return
        since_s = tick.no_node_since_s
        if since_s is not None and now_s >= since_s + times.no_node_s:
            frames = len(tick.due) - len(tick.done) + sum(map(len, tick.rounds))
            self._set(tick=None)
            why = f"tick {tick.frame} has {frames} frames to draw and no node to draw them for {now_s - since_s:.0f} s"
            self._do(TickFailed(why, no_node=True))
        else:
            self._fail_tick(tick)

    def _fail_tick(self, tick: Tick) -> None:
        """A tick has gone on for too long without a new frame: name what is missing, and stop."""
        missing = [request for sensor, request in tick.due.items() if sensor not in tick.done]
        missing += [request for part in tick.rounds for request in part]
        asked = ", ".join(member.name for member in in_order(self.state) if _owed(member, tick.frame)) or "no node"
        names = ", ".join(_sensor_name(request) for request in missing[:_NAMED_MAX])
        more = f" and {len(missing) - _NAMED_MAX} more" if len(missing) > _NAMED_MAX else ""
        self._set(tick=None)
        self._do(
            TickFailed(
                f"tick {tick.frame}: no node has drawn {names}{more} within {self.now_s - tick.progress_s:.0f} s "
                f"(asked last: {asked}): choose a smaller sensor or fewer of them, or wait longer with --node-timeout"
            )
        )

    def _fence_hanging(self) -> None:
        # One at a time: taking out one node changes what is true of the others.
        while hanging := [
            member for member in in_order(self.state) if member.pending and self.now_s >= _hangs_at_s(self.state, member)
        ]:
            # The one that was heard last is the one to be kept.
            member = min(hanging, key=lambda member: member.heard_s)
            first = member.pending[0]
            if self.now_s < _frozen_at_s(self.state, member) and self._is_worth_waiting(member, first):
                self._wait_on(member)
            else:
                self._fence_late(member, f"it has not drawn tick {first.frame} for {self.now_s - first.at_s:.1f} s")

    def _is_worth_waiting(self, member: Member, owed: Assignment) -> bool:
        """Is a slow node to be kept? As long as no other one has drawn what it owes, they are as slow as it is.

        In real time no tick waits and none fails: there the last node has as long as a tick would have.
        """
        if self.state.tick is not None and owed.frame == self.state.tick.frame:
            return any(self._is_waited_for(owed, sensor) for sensor in owed.requests)
        given_up_s = owed.at_s + owed.expected_s + self.state.config.timeouts.frame_s
        return renderers(self.state) == [member] and (self.state.tick is not None or self.now_s < given_up_s)

    def _wait_on(self, member: Member) -> None:
        """Give a slow node twice the time, and ask it again: all that is known is that nothing came."""
        while self.now_s >= _slow_at_s(self.state, member):
            first = member.pending[0]
            member = _replace(member, pending=(_replace(first, asked_again=_doublings_of(first) + 1), *member.pending[1:]))
            self._put(member)
        tick = self.state.tick
        if tick is None:
            return
        for owed in _owed(member, tick.frame):
            is_new = owed.at_s == self.now_s  # it was given this just now, by another node that was taken out
            if is_new or not any(self._is_waited_for(owed, sensor) for sensor in owed.requests):
                continue
            # Word for word: a node that has the same request before it draws it only once.
            requests = tuple(owed.requests.values())
            order = TickOrder(member.peer, requests, self._heard(requests), owed.timed, again=True)
            self._do(Reissued(len(requests)))
            self._do(SendTick(tick.frame, True, (order,)))

    def _go_on(self) -> None:
        """See to it that everything due is being drawn by somebody who is not late."""
        tick = self.state.tick
        if tick is None or tick.is_round_over:
            return
        if tick.no_node_since_s is not None and tick.rounds and not tick.due:
            if renderers(self.state):
                self._begin_round()
            return
        times = self.state.config.timeouts
        for member in in_order(self.state):
            late = [owed for owed in _owed(member, tick.frame) if self.now_s >= _late_at_s(owed, times)]
            if late and not member.suspected:
                self._put(_replace(member, suspected=True))
        self._cover()

    def _cover(self) -> None:
        """Give to others what nobody draws, or only nodes that are late."""
        tick = self._tick()
        members = in_order(self.state)
        owing = {
            sensor: member.suspected
            for member in sorted(members, key=lambda member: not member.suspected)  # one that is not late counts
            for owed in _owed(member, tick.frame)
            for sensor in owed.requests
        }
        missing = [request for sensor, request in tick.due.items() if sensor not in tick.done and owing.get(sensor, True)]
        if not missing:
            self._set(tick=_replace(tick, no_node_since_s=None))
            return
        able = [member for member in members if member.can_render]
        fresh = [member for member in able if not member.suspected]
        if not fresh:
            # All are late: they are as slow as any, so only what nobody draws at all is given out.
            missing = [request for request in missing if request.sensor not in owing]
        if not missing:
            self._set(tick=_replace(tick, no_node_since_s=None))
            return
        if not able:
            self._wait_for_node()
            return
        self._set(tick=_replace(tick, no_node_since_s=None))
        self._do(Reissued(len(missing)))
        # Not through the balance: where sensors are drawn in an emergency is not where they are at home.
        nodes = [member.number for member in (fresh or able)]
        costs = self.state.balance.costs
        shares = shares_of(costs, missing, nodes, spread(costs, missing, nodes, tick.homes, {}))
        self._send_tick({share.node: [share] for share in shares}, again=True)

    def _wait_for_node(self) -> None:
        tick = self._tick()
        if tick.no_node_since_s is None:
            self._set(tick=_replace(tick, no_node_since_s=self.now_s))

    # Real time.

    def _real_time(self, event: TickDue, requests: tuple[RenderRequest, ...], homes: dict[int, tuple[int, ...]]) -> None:
        """Give to who is free, leave out the rest."""
        self._homes = homes
        frames = {frame: kept for frame, kept in self.state.real_time.items() if frame > event.frame - _TICKS_KEPT}
        self._set(tick=None, real_time={**frames, event.frame: (self.now_s, event.step_s)})
        self._fence_hanging()
        able = renderers(self.state)
        free = [member.number for member in able if not member.pending]
        where = self.state.balance.where
        # Who is busy misses this tick, with the sensors it holds: moved to a free node for every hiccup, sensors would wander
        # all the time. Those without a place go to who is free.
        own = [request for request in requests if len(free) == len(able) or where.get(request.sensor) in (*free, None)]
        shares: tuple[NodeShare, ...] = ()
        if own and free:
            balance, shares = assign(self.state.balance, own, free, homes)
            self._set(balance=balance)
        taken = {request.sensor for share in shares for request in share.requests}
        for request in requests:
            if request.sensor not in taken:
                self._do(FramesDropped(1, where.get(request.sensor)))
        self._send_tick({share.node: [share] for share in shares}, again=False, lockstep=False)


def _here(bulk: Iterable[Payload]) -> tuple[bytes, ...]:
    """What is not elsewhere."""
    return tuple(part for part in bulk if isinstance(part, bytes))


def _parts(share: NodeShare) -> list[NodeShare]:
    """A share in parts that one message each may bring back."""
    return [NodeShare(share.node, part, share.expected_s) for part in rounds(share.requests)]
