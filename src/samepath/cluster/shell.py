"""Carries out what the coordinator decides: link, clock and process handles in, messages, frames and calls out.

:mod:`samepath.cluster.coordinator` holds every decision; here is no ``if`` about who draws, who is late or who is let in. What
the link brings becomes an event, each effect is done in its order, and what goes wrong while doing it is the next event.

For the episode this is a renderer like any other (:class:`~samepath.simulator.server.rendering.SensorRenderer`). It belongs to
the episode's thread, and with it the link: no lock lies between a result and the tick that waits for it. What clients of nodes
ask for becomes work in the same queue as the calls of this server's own clients.

**Nodes that read slowly.** A node that draws and serves many clients reads in bursts: what one tick brings it may be more than
the link lets wait. The rest waits here, in its order, up to a bound; a node that reads nothing for as long as it may be silent,
or lets more come together, has failed.
"""

import os
import select
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from samepath.cluster import coordinator as c
from samepath.cluster import messages as m
from samepath.cluster.assignment import Balance
from samepath.cluster.direct import PATIENCE_S, TICKS_KEPT, DirectFrames, LateFrames, endpoint_of, owed_by, unpacked
from samepath.cluster.identity import tick_digest
from samepath.cluster.link.compression import PackedError, PackedPart
from samepath.cluster.link.main_link import MainLink
from samepath.cluster.link.wire import (
    ArenaPart,
    Disconnected,
    LinkError,
    LinkEvent,
    Readable,
    Received,
    ReceivedInPlace,
    TooLargeError,
)
from samepath.cluster.monitor.counters import Counters, Meter
from samepath.cluster.replica import ReplicaFeed
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SamepathError
from samepath.core.network import is_everywhere, is_loopback
from samepath.simulator.carla import codec
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.carla.streams import with_gbuffers
from samepath.simulator.maps import RoadMap
from samepath.simulator.server.commands import CallerGone, StreamUnheard
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.methods import methods
from samepath.simulator.server.rendering import RenderRequest, RenderResult, SceneView, pack_requests
from samepath.simulator.server.rpc import Call, MalformedCallError, checked_call, parse
from samepath.simulator.server.runner import InboxEvent
from samepath.simulator.server.sensors import SensorEntry, VisualSensor
from samepath.simulator.server.streams import MAIN_SERVER
from samepath.simulator.server.ticking import TickAbandonedError, step_of

# How long to wait for messages at a time: a stop or the status are looked at so often.
_POLL_S: Final = 0.05
# How often it is looked whether part of a message has come from a node that owes something.
_PARTS_LOOK_S: Final = 0.25
# A tick that takes longer than this publishes the status while it waits.
_LONG_S: Final = 0.5
# What may wait here for a node that reads more slowly than it is sent to; one that lets more come together is taken out.
_UNSENT_BYTES: Final = 1 << 30
# What the clients of one node may want while the episode's thread is busy with a tick: a node reads no further than
# ``calls_waiting`` of each, and twice that is nobody's. Of everything else that it may say for them there is less.
_CALLS_FACTOR: Final = 2
_QUEUED_MOST: Final = 1 << 16
# What nodes may say that they hold of others' frames: far more than sensors there are, and little memory.
_HELD_MOST: Final = 1 << 18
# Payloads that are kept for the page of the monitor; beyond that the oldest is forgotten, and asked for again.
_THUMBNAILS_BYTES: Final = 256 << 20


class FrameMissingError(SamepathError):
    """A frame cannot be drawn, because nodes are missing or too slow; the run stops."""


class StoppedError(TickAbandonedError):
    """The cluster stops before a tick has been drawn."""


class NodeClient:
    """A client that is connected to a node, as the episode sees it: where its answers go, and where it fetches streams."""

    def __init__(self, member: c.Member, client: int, reply: Callable[["NodeClient", int | None, bytes], None]) -> None:
        self._reply = reply
        self.peer = member.peer
        self.client = client
        self.waiting = 0  # calls that are not answered
        self.home = member.number
        self.stream_port: int | None = member.hello.stream_port
        self.name = f"client {client} of {member.name}"

    def answer(self, call_id: int | None, result: bytes) -> None:
        """Send the answer to a call, through the node."""
        self.waiting -= 1
        self._reply(self, call_id, result)


@dataclass
class NodeHandle:
    """What the shell holds of a connection: the process's descriptor, what waits to be sent, clients, and figures."""

    busy_us: Meter
    frames: Meter
    pidfd: int = -1
    clients: dict[int, NodeClient] = field(default_factory=dict)
    unsent: deque[tuple[bytes, tuple[bytes | PackedPart, ...]]] = field(default_factory=deque)
    unsent_bytes: int = 0
    read_on_s: float = 0.0  # when the first of it began to wait, or when it last became less
    received_bytes: int | None = None  # over its connection, when that was looked at last
    connected: int = 0
    calls: int = 0
    reachable: m.Reachable | None = None
    queued: int = 0  # since the episode's thread last looked for work
    busy_s: float = 0.0
    step_s: float | None = None
    steps: int = 0
    steps_s: float = 0.0
    late_frames: int = 0
    dropped_frames: int = 0
    compared: int = 0
    desynchronised: int = 0


class ShellHost(Protocol):
    """What the shell needs of the main server; all in the episode's thread."""

    @property
    def episode(self) -> Episode: ...

    def expected_nodes(self) -> tuple[str, ...]:
        """The names of the nodes that should be there."""
        ...

    def flush(self) -> None:
        """Send what waits for clients and nodes; before a tick, so that nodes know all that the tick refers to."""
        ...

    def deliver(self, frame: c.Deliver) -> None:
        """A frame has come: send it to where it is listened to."""
        ...

    def on_node_lost(self, member: c.Member, *, failed: bool) -> None:
        """A node is no longer a member. ``failed``: it was let in and should be replaced."""
        ...

    def on_node_drained(self, name: str) -> None:
        """A node has been told to go, and is not to be started again."""
        ...

    def answer_aside(self, call: Call) -> None:
        """Answer a call that takes long in another thread."""
        ...

    def while_waiting(self) -> None:
        """A tick takes long."""
        ...


class ClusterShell:
    """The main server's side of the cluster. ``log`` takes lines for the user."""

    wants_every_tick = True

    def __init__(
        self,
        host: ShellHost,
        link: MainLink,
        counters: Counters,
        config: c.ClusterConfig,
        policy: str,
        limits: ServerLimits,
        log: Callable[[str], None],
    ) -> None:
        self.link = link
        self.work: deque[tuple[InboxEvent, float]] = deque()
        self.restarts: dict[str, int] = {}
        self.last_state = b""  # of the world, as clients get it
        self.stopping = False
        """Whether the cluster stops, and nobody is to wait any more; set by any thread."""
        self.began_s = SYSTEM_CLOCK.monotonic_s()
        self._looked_s = self.began_s  # for parts of messages
        self.thumbnails_wanted: set[int] = set()
        """Sensors of which the main server itself wants the next payload; filled by any thread."""
        self.thumbnails: dict[int, tuple[RenderRequest, bytes]] = {}
        nothing = c.MapFacts(m.NewEpisode(0, "", "", ""), b"")  # news of the first map come before anybody joins
        self.state = c.ClusterState(config, nothing, Balance(policy))
        self.handles: dict[bytes, NodeHandle] = {}
        self._host = host
        self._counters = counters
        self._limits = limits
        self._log = log
        self._feed = ReplicaFeed()
        self._methods = methods()
        self._events: deque[c.Event] = deque()
        self._is_stepping = False
        self._tick_bytes = b""
        self._over: c.TickOver | None = None
        self._failure = ""
        self._is_synced = True
        self._direct = DirectFrames()
        self._neighbours: set[tuple[bytes, bytes]] = set()  # who may send to whom

    # Who is there; the list is made anew with every change, so other threads may read it too.

    def members(self) -> list[c.Member]:
        return c.in_order(self.state)

    def by_number(self, number: int) -> c.Member | None:
        return c.by_number(self.state, number)

    def handle(self, member: c.Member) -> NodeHandle:
        return self.handles[member.peer]

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """The nodes that a tick waits for: those that owe something, or those that should be there and are not."""
        tick = self.state.tick
        return self._missing() if tick is not None and tick.no_node_since_s is not None else c.waiting_for(self.state)

    def _missing(self) -> tuple[str, ...]:
        there = {member.name for member in c.renderers(self.state)}
        return tuple(name for name in self._host.expected_nodes() if name not in there)

    # Events in, effects out.

    def feed(self, event: c.Event) -> None:
        """Let something happen, and do what it leads to; what goes wrong on the way happens next."""
        self._events.append(event)
        if self._is_stepping:
            return
        self._is_stepping = True
        try:
            while self._events:
                self.state, effects = c.step(self.state, self._events.popleft(), SYSTEM_CLOCK.monotonic_s())
                for effect in effects:
                    self._carry_out(effect)
        finally:
            self._is_stepping = False

    def _carry_out(self, effect: c.Effect) -> None:  # noqa: PLR0912 - one branch per effect
        match effect:
            case c.Send():
                self._send_message(effect.peer, effect.message, effect.bulk)
            case c.SendTick():
                self._send_tick(effect)
            case c.Deliver():
                self._host.deliver(effect)
            case c.Accepted():
                self._on_accepted(effect.member, effect.message, effect.bulk)
            case c.Remember():
                self._remember(effect.sensor, effect.memory)
            case c.RoundOver():
                pass  # render() says when what it led to has left
            case c.TickOver():
                self._over = effect
            case c.TickFailed():
                names = ", ".join(self._missing()) or "every node"
                self._failure = effect.why
                if effect.no_node:
                    self._failure += f": missing is {names}: look at its log, or start another one (samepath cluster node)"
            case c.SyncOver():
                self._is_synced = True
            case c.Introduce():
                self._introduce(effect.peer, effect.name)
            case c.NodeMet():
                self._on_met(effect.peer, effect.pid)
            case c.NodeDrained():
                self._host.on_node_drained(effect.name)
            case c.Disconnect():
                self.link.disconnect(effect.peer)
            case c.NodeLost():
                self._on_lost(effect)
            case c.Problem():
                self._report(effect.line)
            case c.LogLine():
                self._log(effect.line)
            case _:
                self._count(effect)

    def attend(self, timeout_s: float | None) -> None:
        """Wait for messages, and for the coordinator's next deadline, and do what they lead to."""
        deadline_s = c.deadline_s(self.state)
        for limit_s in (deadline_s, self._direct.deadline_s()):
            if limit_s is not None:
                left_s = max(limit_s - SYSTEM_CLOCK.monotonic_s(), 0.0)
                timeout_s = left_s if timeout_s is None else min(left_s, timeout_s)
        for event in self.link.poll(timeout_s, in_place=True):
            self._on_link_event(event)
        self._send_unsent()
        self._look_for_parts()
        for late in self._direct.overdue(SYSTEM_CLOCK.monotonic_s()):
            self._fetch_late(late)
        if deadline_s is not None and SYSTEM_CLOCK.monotonic_s() >= deadline_s:
            self.feed(c.TimePassed())

    def _look_for_parts(self) -> None:
        """Look who is sending a large message: a node that is silent, while bytes of it come, is not frozen."""
        now_s = SYSTEM_CLOCK.monotonic_s()
        looked_s = self._looked_s
        if now_s - looked_s < _PARTS_LOOK_S:
            return
        self._looked_s = now_s
        for member in self.members():
            handle, before = self.handles[member.peer], self.handles[member.peer].received_bytes
            with suppress(LinkError):  # its connection may have ended
                handle.received_bytes = None if self.link.is_local(member.peer) else self.link.received_bytes(member.peer)
            # What came as whole messages was heard when it came, and must not be heard again now.
            if member.heard_s < looked_s and before is not None and (handle.received_bytes or 0) > before:
                self.feed(c.PeerHeard(member.peer))

    def _on_link_event(self, event: LinkEvent) -> None:
        if isinstance(event, Received | ReceivedInPlace):
            try:
                message = m.from_node(event.message)
            except SamepathError as error:
                self.feed(c.PeerFailed(event.peer, f"it sent something that cannot be read: {error}"))
                return
            if isinstance(message, m.Hello):
                # A node that was killed and started again may be here before its predecessor's end was read.
                self._look_for_ended()
            if isinstance(message, m.Hello | m.MapReady):
                # News of this moment first, for everybody: what a node is told then is the state that all others have.
                self.publish_changes()
            try:
                owed = owed_by(self.state.members.get(event.peer), message)
                bulk = unpacked(message, event.bulk, owed, self._limits.measurement_bytes, self._passes_on)
            except PackedError as error:
                self.feed(c.PeerFailed(event.peer, f"it sent something that cannot be read: {error}"))
                return
            self._on_node_message(c.NodeMessage(event.peer, message, _copied(message, bulk)))
        elif isinstance(event, Disconnected):
            self.feed(c.PeerLost(event.peer, "its connection ended"))
        elif isinstance(event, Readable) and isinstance(event.key, bytes):
            self.feed(c.PeerLost(event.key, "its process ended"))

    def _on_node_message(self, event: c.NodeMessage) -> None:
        """Let a message happen; a result whose frames are under way to other nodes counts when they have arrived."""
        member = self.state.members.get(event.peer)
        if member is None:
            self.feed(event)
            return
        homes = {other.number for other in c.followers(self.state)}
        for counted in self._direct.on_result(member, event, homes, SYSTEM_CLOCK.monotonic_s()):
            self.feed(counted)

    def _passes_on(self, request: RenderRequest) -> bool:
        """Is a frame wanted only by nodes of other hosts? Then it goes on as it came, packed if it is."""
        homes = self._homes(request)
        there = [self.by_number(home) for home in homes]
        return MAIN_SERVER not in homes and not any(member is not None and self.link.is_local(member.peer) for member in there)

    def _look_for_ended(self) -> None:
        for peer, handle in tuple(self.handles.items()):
            if _has_ended(handle.pidfd):
                self.feed(c.PeerLost(peer, "its process ended"))

    # Sending.

    def send(self, member: c.Member, message: m.FromMain, *bulk: c.Payload) -> None:
        """Send something to a node. What the link does not take is left out: that is no fault of the node's."""
        self._send_message(member.peer, message, bulk)

    def _send_message(self, peer: bytes, message: m.FromMain, bulk: tuple[c.Payload, ...]) -> None:
        try:
            self._send(peer, m.encode(message), bulk)
        except TooLargeError as error:
            self._report(f"{type(message).__name__} for a node was left out: {error}")

    def _send(self, peer: bytes, data: bytes, bulk: tuple[c.Payload, ...]) -> None:
        """Send at once, or as soon as the node has read enough of what it was sent before; a TooLargeError, or nothing."""
        self.link.check(data, bulk)
        handle = self.handles.get(peer)
        if handle is None or not self._is_behind(peer, handle):
            try:
                self.link.send(peer, data, bulk)
            except LinkError as error:
                if handle is not None:
                    self.feed(c.PeerFailed(peer, str(error)))
            return
        size_bytes = len(data) + sum(map(len, bulk))
        if handle.unsent_bytes + size_bytes > _UNSENT_BYTES:
            why = f"it does not read: {len(handle.unsent)} messages, {handle.unsent_bytes} bytes wait here for it"
            self.feed(c.PeerFailed(peer, why))
            return
        if not handle.unsent:
            handle.read_on_s = SYSTEM_CLOCK.monotonic_s()
        # What waits is copied: where it lies it can be read only now, and its writer needs the room.
        handle.unsent.append((data, tuple(part.read() if isinstance(part, ArenaPart) else part for part in bulk)))
        handle.unsent_bytes += size_bytes

    def _is_behind(self, peer: bytes, handle: NodeHandle) -> bool:
        return bool(handle.unsent) or not self.link.has_room(peer)

    def _send_unsent(self) -> None:
        """Send what waits here to those who have read on, in its order."""
        for peer, handle in tuple(self.handles.items()):
            while handle.unsent and self.link.has_room(peer):
                handle.read_on_s = SYSTEM_CLOCK.monotonic_s()
                data, bulk = handle.unsent.popleft()
                handle.unsent_bytes -= len(data) + sum(map(len, bulk))
                try:
                    self.link.send(peer, data, bulk)
                except LinkError as error:
                    self.feed(c.PeerFailed(peer, str(error)))
                    break
            waited_s = SYSTEM_CLOCK.monotonic_s() - handle.read_on_s
            if handle.unsent and waited_s > self.state.config.timeouts.silent_s:
                self.feed(c.PeerFailed(peer, f"it has read nothing for {waited_s:.1f} s"))

    def on_work_taken(self) -> None:
        """What clients of nodes want has been taken out of ``work``."""
        for handle in self.handles.values():
            handle.queued = 0

    def has_unsent(self, member: c.Member) -> bool:
        """Does something wait here because this node has not read on?"""
        return bool(self.handles[member.peer].unsent)

    def _send_tick(self, effect: c.SendTick) -> None:
        """Send nodes a tick; to those on this host its bytes go through memory that they share, written once."""
        messages: dict[bytes, bytes] = {}
        own: dict[bytes, tuple[bytes, ...]] = {}
        later: list[tuple[bytes, bytes, tuple[bytes, ...]]] = []
        for order in effect.orders:
            packed, memories = pack_requests(order.requests) if order.requests else (b"", ())
            message = m.encode(m.TickMessage(effect.frame, effect.lockstep, packed, order.homes, order.timed, order.again))
            handle = self.handles.get(order.peer)
            if order.peer in messages or (handle is not None and self._is_behind(order.peer, handle)):
                later.append((order.peer, message, memories))
            else:
                messages[order.peer], own[order.peer] = message, memories
        failed = self.link.broadcast(messages, self._tick_bytes, own) if messages else {}
        for peer, error in failed.items():
            if isinstance(error, TooLargeError):  # no node is to blame, and nobody could be shown this world
                raise TooLargeError(f"tick {effect.frame} cannot be shown to nodes: {error}")
            self.feed(c.PeerFailed(peer, str(error)))
        for peer, message, memories in later:
            self._send(peer, message, (self._tick_bytes, *memories))

    # The episode's renderer.

    def prepare(self, road_map: RoadMap) -> None:
        """Nothing is drawn here, so nothing has to be built."""

    def idle(self) -> None:
        """Nodes are shown every tick, so there is no idle one."""

    def close(self) -> None:
        """Nothing is held."""

    def render(self, view: SceneView, requests: Sequence[RenderRequest]) -> Sequence[RenderResult]:
        """Send a tick to all nodes and have drawn what is due."""
        self._host.flush()  # nodes must know every actor and setting that this tick refers to
        episode, counters = self._host.episode, self._counters
        counters.commands.on_tick(view.frame, SYSTEM_CLOCK.monotonic_s())
        counters.count_requests(requests)
        packed = view.pack()
        self._tick_bytes = m.join_tick(self.last_state, packed)
        self._over, self._failure = None, ""
        self._direct.on_tick(view.frame)
        frames = tuple(c.DueFrame(request, self._homes(request)) for request in requests)
        digest = tick_digest(self.last_state, packed)
        self.feed(c.TickDue(view.frame, digest, frames, episode.settings.synchronous_mode, step_of(episode)))
        over = self._wait_for_tick(view.frame)
        end_s = SYSTEM_CLOCK.monotonic_s()
        counters.ticks.add(end_s - self.began_s, end_s)
        return over.results

    def _wait_for_tick(self, frame: int) -> c.TickOver:
        while self._over is None:
            tick = self.state.tick
            if tick is not None and tick.is_round_over and not any(handle.unsent for handle in self.handles.values()):
                self.feed(c.SendsDrained())
                continue
            if self._failure:
                raise FrameMissingError(self._failure)
            if self.stopping:
                raise StoppedError(f"tick {frame} was not drawn: the cluster stops")
            self.attend(_POLL_S)
            if SYSTEM_CLOCK.monotonic_s() - self.began_s > _LONG_S:
                self._host.while_waiting()
        return self._over

    def _homes(self, request: RenderRequest) -> tuple[int, ...]:
        """The nodes at which a sensor is listened to."""
        homes = self._host.episode.connections.subscriptions.homes(request.stream)
        return (MAIN_SERVER, *homes) if request.sensor in self.thumbnails_wanted and MAIN_SERVER not in homes else homes

    def _remember(self, sensor: int, memory: bytes) -> None:
        entry = self._host.episode.actors.find(sensor)
        if isinstance(entry, SensorEntry) and isinstance(entry.model, VisualSensor):
            entry.model.memory = memory

    # What nodes know of the episode.

    def publish_changes(self) -> bool:
        """Tell all nodes what has changed in the episode; returns whether :meth:`sync` must follow before anybody is answered.

        A call that changed map, settings or weather is answered only when all nodes have taken that in: a client that then asks
        another node must not be told what was before. Who came and went needs no such wait: a node that does not know an actor
        asks the main server.
        """
        episode = self._host.episode
        items = tuple(self._feed.news(episode))
        if not items:
            return False
        facts = self.state.map
        for message, bulk in items:
            if isinstance(message, m.NewEpisode):
                facts = c.MapFacts(message, bulk)
                self._forget_sensors(None)
            elif isinstance(message, m.NewActors):
                self._forget_sensors(message.gone)
        self.feed(c.NewsMade(items, facts))
        return any(not isinstance(message, m.NewActors) for message, _ in items)

    def sync(self) -> None:
        """Wait until all nodes have taken in what they were sent."""
        self._is_synced = False
        self.feed(c.SyncWanted())
        while not self._is_synced:
            self.attend(_POLL_S)

    def _introduce(self, peer: bytes, name: str) -> None:
        episode, member = self._host.episode, self.state.members[peer]
        for news, bulk in self._feed.everything(episode):
            self._send_message(peer, news, (bulk,) if bulk else ())
        if self.last_state:
            self._send_message(peer, m.LatestState(episode.frame), (self.last_state,))
        self._send_message(peer, m.Joined(episode.frame), ())
        self._acquaint(member)
        self._log(f"{name} has joined at tick {episode.frame}: clients reach it at {member.address}")

    # What clients of nodes ask for.

    def _on_accepted(self, member: c.Member, message: m.FromNode, bulk: tuple[bytes, ...]) -> None:
        handle, now_s = self.handles[member.peer], SYSTEM_CLOCK.monotonic_s()
        handle.queued += 1
        if handle.queued > _QUEUED_MOST:
            self.feed(c.PeerFailed(member.peer, f"it has sent {handle.queued} messages of its clients during one tick"))
            return
        match message:
            case m.ClientCall():
                self._on_call(member, handle, message, bulk[0], now_s)
            case m.ClientGone():
                client = handle.clients.pop(message.client, None)
                if client is not None:
                    self.work.append((CallerGone(client), now_s))
            case m.StreamUnused():
                self.work.append((StreamUnheard(message.stream, member.number), now_s))
            case m.Heartbeat():
                handle.connected = message.clients
            case m.Reachable():
                handle.reachable = message
                if member.follows:
                    self._acquaint(member)
            case m.FramesHeld():
                self._on_frames_held(member, message)

    # Frames that go from node to node.

    def _on_frames_held(self, member: c.Member, message: m.FramesHeld) -> None:
        is_known = any(other.membership == message.sender for other in self.state.members.values())
        if is_known and self.state.frame - TICKS_KEPT < message.frame <= self.state.frame:
            for counted in self._direct.on_held(member.number, message):
                self.feed(counted)
            if self._direct.held > _HELD_MOST:
                self.feed(c.PeerFailed(member.peer, f"it says that it holds more than {_HELD_MOST} frames of others"))

    def _fetch_late(self, late: LateFrames) -> None:
        """Have frames that did not arrive sent here; those nodes go on through this server."""
        member = self.state.members.get(late.peer)
        if member is None:
            return
        for home in late.homes:
            other = self.by_number(home)
            if other is not None:
                self._report(
                    f"tick {late.frame}: frames of {member.name} have not reached {other.name} for {PATIENCE_S:g} s: they go "
                    "through the main server from now on"
                )
                self._part(member.peer, other)
        self.send(member, m.Resend(late.frame))

    def _acquaint(self, member: c.Member) -> None:
        """Tell a node that has joined, and the others, of each other, where bytes between them would go over the wire anyway.

        On this server's host frames lie in memory that nodes share, which is quicker. Such a node opens its door when it first
        hears of somebody elsewhere, and then says so.
        """
        for other in c.followers(self.state):
            near = self.link.is_local(member.peer) and self.link.is_local(other.peer)
            if other.peer == member.peer or near:
                continue
            for here, there in ((member, other), (other, member)):
                reachable, host = self.handles[there.peer].reachable, there.hello.rpc_host
                # A node that listens on all its addresses has told us none that others could go to.
                away = is_everywhere(host) or (is_loopback(host) and here.hello.boot != there.hello.boot)
                if (here.peer, there.peer) not in self._neighbours and not away:
                    if reachable is None:
                        self.send(there, m.DoorWanted())
                        continue
                    self._neighbours.add((here.peer, there.peer))
                    endpoint = endpoint_of(host, reachable.port)
                    self.send(here, m.Neighbour(there.number, there.membership, endpoint, reachable.public))

    def _part(self, peer: bytes, other: c.Member) -> None:
        """A node is to send nothing more to another one."""
        member = self.state.members.get(peer)
        if (peer, other.peer) in self._neighbours:
            self._neighbours.discard((peer, other.peer))
            if member is not None:
                self.send(member, m.NeighbourGone(other.number))

    def _on_call(self, member: c.Member, handle: NodeHandle, message: m.ClientCall, raw: bytes, now_s: float) -> None:
        handle.calls += 1
        client = handle.clients.get(message.client)
        if client is None:
            client = handle.clients[message.client] = NodeClient(member, message.client, self._reply)
        client.waiting += 1
        if client.waiting > _CALLS_FACTOR * self._limits.calls_waiting:
            why = f"a client of it has {client.waiting} calls waiting: a node lets through {self._limits.calls_waiting}"
            self.feed(c.PeerFailed(member.peer, why))
            return
        try:
            request = parse(raw, self._limits)
        except MalformedCallError as error:
            self.feed(c.PeerFailed(member.peer, f"it sent something that cannot be read: {error}"))
            return
        try:
            call = checked_call(self._methods, request, client, raw)
        except codec.WireError as error:
            # Its node has checked the very same call, so this is no call of a client of CARLA's: any shape of error will do.
            client.answer(request.id, codec.value_error(str(error)))
            return
        if call.method.aside:
            self._host.answer_aside(call)
        else:
            # On one host both read the same clock; from elsewhere the time counts from the arrival here.
            self.work.append((call, message.at_s if member.same_host else now_s))

    def _reply(self, client: NodeClient, call_id: int | None, result: bytes) -> None:
        if client.peer not in self.state.members:
            return
        answer = m.encode(m.CallResult(client.client, call_id))
        try:
            self._send(client.peer, answer, (result,))
        except TooLargeError as error:
            # Whoever asked must not wait in vain. Only answers with a value can be so large, so the error has their shape.
            self._report(f"an answer to {client.name} was refused: {error}")
            words = f"the answer is too large to be sent through a node: {error}"
            self._send(client.peer, answer, (codec.value_error(words),))

    # Coming and going.

    def _on_met(self, peer: bytes, pid: int | None) -> None:
        now_s = SYSTEM_CLOCK.monotonic_s()
        handle = self.handles[peer] = NodeHandle(Meter(now_s), Meter(now_s))
        if pid is not None:
            with suppress(OSError):
                handle.pidfd = os.pidfd_open(pid)
                self.link.watch(handle.pidfd, peer)

    def _on_lost(self, effect: c.NodeLost) -> None:
        lost = effect.member
        for peer, other in sorted(self._neighbours):
            if other == lost.peer:
                self._part(peer, lost)
        self._neighbours = {pair for pair in self._neighbours if lost.peer not in pair}
        for counted in self._direct.on_lost(lost):
            self.feed(counted)
        handle = self.handles.pop(lost.peer, None)
        if handle is not None:
            if handle.pidfd >= 0:
                self.link.unwatch(handle.pidfd)
                os.close(handle.pidfd)
            self.work.extend((CallerGone(client), 0.0) for client in handle.clients.values())
        self._counters.fenced += effect.fenced
        if effect.failed:
            self.restarts[effect.member.name] = self.restarts.get(effect.member.name, 0) + 1
        self._host.on_node_lost(effect.member, failed=effect.failed)

    # Figures.

    def _count(self, effect: c.Effect) -> None:
        counters, now_s = self._counters, SYSTEM_CLOCK.monotonic_s()
        match effect:
            case c.FrameDrawn():
                counters.frames.add(now_s)
                counters.lateness.late(effect.late_s)
                for handle in self._of(effect.node):
                    handle.frames.add(now_s)
                    handle.late_frames += effect.late_s > 0.0
            case c.FramesDropped():
                counters.lateness.drop(effect.count)
                for handle in self._of(effect.node):
                    handle.dropped_frames += effect.count
            case c.Reissued():
                counters.reissued += effect.count
                counters.duplicates += effect.duplicate
            case c.StepMeasured():
                for handle in self._of(effect.node):
                    handle.busy_s += effect.busy_s
                    handle.busy_us.add(now_s, int(effect.busy_s * 1e6))
                    handle.step_s = effect.step_s
                    handle.steps += 1
                    handle.steps_s += effect.step_s
            case c.StateCompared():
                counters.compared += 1
                counters.desynchronised += not effect.is_equal
                for handle in self._of(effect.node):
                    handle.compared += 1
                    handle.desynchronised += not effect.is_equal

    def _of(self, number: int | None) -> Iterable[NodeHandle]:
        return [self.handles[peer] for peer, member in self.state.members.items() if member.number == number]

    def _report(self, line: str) -> None:
        self._counters.problems.add(self._host.episode.frame, line)
        self._log(line)

    def _forget_sensors(self, sensors: Sequence[int] | None) -> None:
        frames = self._counters.sensor_frames
        for sensor in (*frames, *self.thumbnails_wanted) if sensors is None else with_gbuffers(sensors):
            self.thumbnails_wanted.discard(sensor)
            self.thumbnails.pop(sensor, None)
            frames.pop(sensor, None)

    def keep_thumbnail(self, request: RenderRequest, payload: c.Payload) -> None:
        """Keep a payload that the main server itself asked for."""
        if request.sensor in self.thumbnails_wanted:
            self.thumbnails_wanted.discard(request.sensor)
            self.thumbnails.pop(request.sensor, None)
            kept = payload if isinstance(payload, bytes) else payload.read()
            self.thumbnails[request.sensor] = (replace(request, memory=b""), kept)
            kept_bytes = sum(len(kept) for _, kept in self.thumbnails.values())
            for oldest in tuple(self.thumbnails):
                if kept_bytes <= _THUMBNAILS_BYTES:
                    break
                kept_bytes -= len(self.thumbnails.pop(oldest)[1])


def _copied(message: m.FromNode, bulk: tuple[c.Payload, ...]) -> tuple[c.Payload, ...]:
    """The bulk of a message, copied out of the node's memory but for payloads, which other nodes may be meant to read there."""
    if not isinstance(message, m.TickResult):
        return tuple(part.read() if isinstance(part, ArenaPart) else part for part in bulk)
    parts, kept = iter(bulk), []
    for result in message.results:
        kept += [part for part in (next(parts, None),) if part is not None] if result.has_payload else []
        memory = next(parts, None) if result.has_memory else None
        if memory is not None:
            kept.append(memory.read() if isinstance(memory, ArenaPart) else memory)
    return tuple(kept)


def _has_ended(pidfd: int) -> bool:
    if pidfd < 0:
        return False
    watch = select.poll()
    watch.register(pidfd, select.POLLIN)
    return bool(watch.poll(0))
