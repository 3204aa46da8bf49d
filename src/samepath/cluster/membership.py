"""Who is in the cluster: the nodes behind the link, and what each of their messages leads to.

A node goes through ``joining`` (it builds the map), ``working``, perhaps ``draining`` (no new work, its clients may stay), and
is then ``gone`` (it left or its process ended) or ``fenced`` (taken out).

**Fencing** is the answer to a node that may be wrong: one that is silent, hangs, holds another state or sends what cannot be
read. Its connection is cut first and its name at the link remembered, so that nothing it sent before or will send later is ever
acted on; only then is its work given to others. So no frame can come from a node that was taken out, even if it was only slow.
A node that comes back is a new member with a new connection: there is no way back into an old one.

A node's end is noticed in three ways, the fastest first: its process descriptor (milliseconds, on this host), its connection,
its silence (:class:`~samepath.cluster.settings.Timeouts`).

Everything here belongs to the episode's thread, and with it the link: no lock is needed between a message and what it changes.
What clients of nodes ask for becomes work in the same queue as the calls of this server's own clients, in order of arrival.
"""

import os
import select
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

from samepath.cluster import messages as m
from samepath.cluster.identity import boot_id, map_digest, reason_to_refuse, reason_to_refuse_map
from samepath.cluster.link.main_link import MainLink
from samepath.cluster.link.wire import Disconnected, LinkError, LinkEvent, Readable, Received, TooLargeError
from samepath.cluster.monitor.counters import Counters, Meter
from samepath.cluster.monitor.status import NodeState
from samepath.cluster.replica import ReplicaFeed, map_message
from samepath.cluster.settings import Timeouts
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SamepathError
from samepath.simulator.carla import codec
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.server.commands import CallerGone, StreamUnheard
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.methods import methods
from samepath.simulator.server.rendering import RenderRequest
from samepath.simulator.server.rpc import Call, MalformedCallError, checked_call, parse
from samepath.simulator.server.runner import InboxEvent

JOINING: Final = "joining"
WORKING: Final = "working"
DRAINING: Final = "draining"
FENCED: Final = "fenced"
GONE: Final = "gone"

_MEMBERS_MOST: Final = 1024
# What may wait here for a node that reads more slowly than it is sent to; one that lets more come together is taken out.
_UNSENT_BYTES: Final = 1 << 30
# How long a refused node stays connected, so that it can read why.
_REFUSED_S: Final = 2.0
# How long everybody may take to take in a new map or new settings before the caller is answered all the same: building a map
# happens elsewhere, this is only reading it. Nodes that are later are behind for a moment, not wrong.
_SYNC_S: Final = 10.0
_SYNC_POLL_S: Final = 0.02


class NodeClient:
    """A client that is connected to a node, as the episode sees it: where its answers go, and where it fetches streams."""

    def __init__(self, member: "Member", client: int, reply: Callable[["NodeClient", int | None, bytes], None]) -> None:
        self._reply = reply
        self.member = member
        self.client = client
        self.home = member.number
        self.stream_port: int | None = member.hello.stream_port
        self.name = f"client {client} of {member.name}"

    def answer(self, call_id: int | None, result: bytes) -> None:
        """Send the answer to a call, through the node."""
        self._reply(self, call_id, result)


@dataclass
class Assignment:
    """Render requests of a tick that a node was sent and has not answered."""

    frame: int
    requests: dict[int, RenderRequest]
    at_s: float
    expected_s: float
    timed: bool = False


@dataclass(eq=False)
class Member:
    """A node, from its Hello to its end. ``number`` is fixed by its name; another incarnation is another member."""

    peer: bytes
    number: int
    name: str
    hello: m.Hello
    state: NodeState
    heard_s: float
    same_host: bool
    busy_us: Meter
    frames: Meter
    pidfd: int = -1
    unsent: deque[tuple[bytes, tuple[bytes, ...]]] = field(default_factory=deque)  # until it has read what it was sent before
    unsent_bytes: int = 0
    read_on_s: float = 0.0  # when the first of it began to wait, or when it last became less
    connected: int = 0
    clients: dict[int, NodeClient] = field(default_factory=dict)
    pending: list[Assignment] = field(default_factory=list)
    sent_episode: int = -1  # whose map it was sent last
    built_episode: int = -1  # whose map it has built
    calls: int = 0  # of its clients, forwarded
    synced: int = 0  # the last Sync that it has answered
    suspected: bool = False  # it is late, and its requests were given to others as well
    busy_s: float = 0.0
    step_s: float | None = None
    steps: int = 0
    steps_s: float = 0.0
    late_frames: int = 0
    dropped_frames: int = 0
    compared: int = 0
    desynchronised: int = 0

    @property
    def can_render(self) -> bool:
        """May it be given requests? While it builds another map it may not: that takes as long as it takes."""
        return self.state == WORKING and self.built_episode == self.sent_episode

    @property
    def follows(self) -> bool:
        """Is it sent every tick?"""
        return self.state in (WORKING, DRAINING)

    @property
    def address(self) -> str:
        """Where clients reach it."""
        return f"{self.hello.rpc_host}:{self.hello.rpc_port}"


class MembershipHost(Protocol):
    """What membership needs of the main server, and what it tells it; all in the episode's thread."""

    @property
    def episode(self) -> Episode: ...

    def expected_nodes(self) -> tuple[str, ...]:
        """The names of the nodes that should be there."""
        ...

    def on_tick_result(self, member: Member, result: m.TickResult, bulk: tuple[bytes, ...], now_s: float) -> None:
        """A node has answered a tick."""
        ...

    def on_sensors_gone(self, sensors: tuple[int, ...] | None) -> None:
        """Actors are gone, or with another map all of them (None)."""
        ...

    def on_node_lost(self, member: Member, *, failed: bool) -> None:
        """A node is no longer a member. ``failed``: it was let in and should be replaced."""
        ...

    def answer_aside(self, call: Call) -> None:
        """Answer a call that takes long in another thread."""
        ...


class Membership:
    """The nodes. ``log`` takes lines for the user."""

    def __init__(
        self,
        host: MembershipHost,
        link: MainLink,
        counters: Counters,
        timeouts: Timeouts,
        aliases: Mapping[str, str],
        limits: ServerLimits,
        log: Callable[[str], None],
    ) -> None:
        self.link = link
        self.work: deque[tuple[InboxEvent, float]] = deque()
        self.restarts: dict[str, int] = {}
        self.last_state = b""
        self._host = host
        self._counters = counters
        self._timeouts = timeouts
        self._aliases = dict(aliases)
        self._limits = limits
        self._log = log
        self._members: dict[bytes, Member] = {}
        self._in_order: list[Member] = []
        self._numbers_by_name: dict[str, int] = {}
        self._first_picture = ""
        self._refused: dict[bytes, float] = {}
        self._syncs = 0
        self._feed = ReplicaFeed()
        self._methods = methods()

    # Who is there.

    def all(self) -> list[Member]:
        """All nodes that are connected, by number. The list is never changed, so other threads may read it too."""
        return self._in_order

    def renderers(self) -> list[Member]:
        """Those that may be given requests."""
        return [member for member in self._in_order if member.can_render]

    def followers(self) -> list[Member]:
        """Those that are sent every tick."""
        return [member for member in self._in_order if member.follows]

    def missing(self) -> tuple[str, ...]:
        """Nodes that should be there and are not."""
        there = {member.name for member in self.renderers()}
        return tuple(name for name in self._host.expected_nodes() if name not in there)

    def by_number(self, number: int) -> Member | None:
        return next((member for member in self._members.values() if member.number == number and member.follows), None)

    def by_name(self, name: str) -> Member | None:
        return next((member for member in self._members.values() if member.name == name), None)

    # Sending.

    def send(self, member: Member, message: m.FromMain, *bulk: bytes) -> None:
        """Send something to a node; one that cannot be reached is fenced. What the link does not take is left out."""
        try:
            self._send(member, m.encode(message), bulk)
        except TooLargeError as error:  # that is no fault of the node's
            self._report(f"{type(message).__name__} for {member.name} was left out: {error}")

    def _send(self, member: Member, data: bytes, bulk: tuple[bytes, ...]) -> None:
        """Send at once, or as soon as the node has read enough of what it was sent before; a TooLargeError, or nothing.

        A node that draws and serves many clients reads in bursts: what one tick brings it may be more than the link lets wait.
        """
        self.link.check(data, bulk)
        if not self._is_behind(member):
            try:
                self.link.send(member.peer, data, bulk)
            except LinkError as error:
                self.fail(member.peer, str(error))
            return
        size_bytes = len(data) + sum(map(len, bulk))
        if member.unsent_bytes + size_bytes > _UNSENT_BYTES:
            self.fail(
                member.peer, f"it does not read: {len(member.unsent)} messages, {member.unsent_bytes} bytes wait here for it"
            )
            return
        if not member.unsent:
            member.read_on_s = SYSTEM_CLOCK.monotonic_s()
        member.unsent.append((data, bulk))
        member.unsent_bytes += size_bytes

    def _is_behind(self, member: Member) -> bool:
        return bool(member.unsent) or not self.link.has_room(member.peer)

    def _send_unsent(self) -> None:
        """Send what waits here to those who have read on, in its order."""
        for member in self._in_order:
            while member.unsent and self.link.has_room(member.peer):
                member.read_on_s = SYSTEM_CLOCK.monotonic_s()
                data, bulk = member.unsent.popleft()
                member.unsent_bytes -= len(data) + sum(map(len, bulk))
                try:
                    self.link.send(member.peer, data, bulk)
                except LinkError as error:
                    self.fail(member.peer, str(error))
                    break

    def has_unsent(self) -> bool:
        """Does something wait here because a node has not read on?"""
        return any(member.unsent for member in self._in_order)

    def broadcast(
        self, messages: dict[bytes, bytes], bulk: bytes, own: Mapping[bytes, tuple[bytes, ...]]
    ) -> dict[bytes, LinkError]:
        """Send every node its message, all the same bulk, and each its own behind it."""
        behind = [member for member in self._in_order if member.peer in messages and self._is_behind(member)]
        failed: dict[bytes, LinkError] = {}
        for member in behind:
            try:
                self._send(member, messages[member.peer], (bulk, *own.get(member.peer, ())))
            except TooLargeError as error:
                failed[member.peer] = error
        there = {member.peer for member in behind}
        now = {peer: message for peer, message in messages.items() if peer not in there}
        return failed | (self.link.broadcast(now, bulk, own) if now else {})

    def publish_changes(self) -> bool:
        """Tell all nodes what has changed in the episode; returns whether :meth:`sync` must follow before anybody is answered.

        A call that changed map, settings or weather is answered only when all nodes have taken that in: a client that then asks
        another node must not be told what was before. Who came and went needs no such wait: a node that does not know an actor
        asks the main server.
        """
        must_sync = False
        for message, bulk in self._feed.news(self._host.episode):
            if isinstance(message, m.NewEpisode):
                self._host.on_sensors_gone(None)
            elif isinstance(message, m.NewActors):
                self._host.on_sensors_gone(message.gone)
            for member in self.followers():
                if isinstance(message, m.NewEpisode):
                    member.sent_episode = message.episode
                self.send(member, message, *((bulk,) if bulk else ()))
            must_sync = must_sync or not isinstance(message, m.NewActors)
        return must_sync

    def sync(self) -> None:
        """Wait until all nodes have taken in what they were sent."""
        self._syncs += 1
        number, end_s = self._syncs, SYSTEM_CLOCK.monotonic_s() + _SYNC_S
        for member in self.followers():
            self.send(member, m.Sync(number))
        while any(member.synced < number for member in self.followers()) and SYSTEM_CLOCK.monotonic_s() < end_s:
            self.attend(_SYNC_POLL_S)

    # Receiving.

    def attend(self, timeout_s: float | None) -> None:
        """Wait for messages and do what they ask for."""
        for event in self.link.poll(timeout_s):
            self._on_event(event)
        self._send_unsent()
        self._check_silence()

    def _on_event(self, event: LinkEvent) -> None:
        if isinstance(event, Received):
            try:
                self._on_message(event, m.from_node(event.message))
            except (SamepathError, MalformedCallError) as error:
                self.fail(event.peer, f"it sent something that cannot be read: {error}")
        elif isinstance(event, Disconnected):
            self._drop(event.peer, "its connection ended")
        elif isinstance(event, Readable) and isinstance(event.key, bytes):
            self._drop(event.key, "its process ended")

    def _on_message(self, event: Received, message: m.FromNode) -> None:
        now_s = SYSTEM_CLOCK.monotonic_s()
        member = self._members.get(event.peer)
        if member is None:
            if isinstance(message, m.Hello):
                self._on_hello(event.peer, message, now_s)
            elif event.peer not in self._refused:
                self.link.disconnect(event.peer)
            return
        member.heard_s = now_s
        match message:
            case m.TickResult():
                self._host.on_tick_result(member, message, event.bulk, now_s)
            case m.ClientCall() if event.bulk:
                self._on_call(member, message, event.bulk[0], now_s)
            case m.ClientGone():
                client = member.clients.pop(message.client, None)
                if client is not None:
                    self.work.append((CallerGone(client), now_s))
            case m.Synced():
                member.synced = max(member.synced, message.number)
            case m.StreamUnused():
                self.work.append((StreamUnheard(message.stream, member.number), now_s))
            case m.MapReady():
                self._on_map_ready(member, message)
            case m.Heartbeat():
                member.connected = message.clients
            case _:
                self.fail(event.peer, f"it sent a message {type(message).__name__} that does not belong here")

    def _on_call(self, member: Member, message: m.ClientCall, raw: bytes, now_s: float) -> None:
        member.calls += 1
        request = parse(raw, self._limits)
        client = member.clients.get(message.client)
        if client is None:
            if len(member.clients) >= self._limits.connections:  # a node lets in no more
                raise codec.WireError(f"a call of a client beyond the {self._limits.connections} that a node may have")
            client = member.clients[message.client] = NodeClient(member, message.client, self._reply)
        try:
            call = checked_call(self._methods, request, client, raw)
        except codec.WireError as error:
            # Its node has checked the very same call, so this is no call of a client of CARLA's: any shape of error will do.
            self._reply(client, request.id, codec.value_error(str(error)))
            return
        if call.method.aside:
            self._host.answer_aside(call)
        else:
            # On one host both read the same clock; from elsewhere the time counts from the arrival here.
            self.work.append((call, message.at_s if member.same_host else now_s))

    def _reply(self, client: NodeClient, call_id: int | None, result: bytes) -> None:
        if self._members.get(client.member.peer) is not client.member:
            return
        answer = m.CallResult(client.client, call_id)
        try:
            self._send(client.member, m.encode(answer), (result,))
        except TooLargeError as error:
            # Whoever asked must not wait in vain. Only answers with a value can be so large, so the error has their shape.
            self._report(f"an answer to {client.name} was refused: {error}")
            self.send(client.member, answer, codec.value_error(f"the answer is too large to be sent through a node: {error}"))

    def _report(self, line: str) -> None:
        self._counters.problems.add(self._host.episode.frame, line)
        self._log(line)

    # Coming.

    def _on_hello(self, peer: bytes, hello: m.Hello, now_s: float) -> None:
        why = reason_to_refuse(hello)
        other = self.by_name(hello.name)
        if not why and other is not None and other.peer != peer:
            # A node that was killed and started again may be here before its predecessor's end was read.
            if _has_ended(other.pidfd):
                self._drop(other.peer, "its process ended")
            else:
                why = f"there is a node called {hello.name} already: choose another --name"
        if not why and len(self._members) >= _MEMBERS_MOST:
            why = f"there are {_MEMBERS_MOST} nodes already"
        if why:
            self._refuse(peer, hello.name, why)
            return
        same_host = bool(boot_id()) and hello.boot == boot_id()
        member = Member(
            peer=peer,
            number=self._number(hello.name),
            name=hello.name,
            hello=hello,
            state=JOINING,
            heard_s=now_s,
            same_host=same_host,
            busy_us=Meter(now_s),
            frames=Meter(now_s),
        )
        if same_host:
            with suppress(OSError):
                member.pidfd = os.pidfd_open(hello.pid)
                self.link.watch(member.pidfd, peer)
        self._members[peer] = member
        self._sort()
        self.send(member, m.Welcome(member.number, same_host, self._aliases))
        self._send_map(member)

    def _number(self, name: str) -> int:
        if name not in self._numbers_by_name:
            self._numbers_by_name[name] = number_for(name, set(self._numbers_by_name.values()))
        return self._numbers_by_name[name]

    def _sort(self) -> None:
        self._in_order = sorted(self._members.values(), key=lambda member: member.number)

    def _send_map(self, member: Member) -> None:
        message, xodr = map_message(self._host.episode)
        member.sent_episode = message.episode
        self.send(member, message, xodr)

    def _on_map_ready(self, member: Member, message: m.MapReady) -> None:
        episode = self._host.episode
        if message.episode != episode.id:
            if member.sent_episode != episode.id:
                self._send_map(member)  # the map changed while it was building the one before
            return
        road_map = episode.scene.road_map
        picture = self._first_picture or message.picture_digest
        why = reason_to_refuse_map(message, road_map.name, map_digest(road_map), picture)
        if why:
            self._refuse(member.peer, member.name, why)
            return
        self._first_picture = picture
        member.built_episode = message.episode
        if member.state != JOINING:
            return
        member.state = WORKING
        # News of this moment first, for everybody: what this node is then told is the same state that all others have.
        self.publish_changes()
        for news, bulk in self._feed.everything(episode):
            self.send(member, news, *((bulk,) if bulk else ()))
        if self.last_state:
            self.send(member, m.LatestState(episode.frame), self.last_state)
        self.send(member, m.Joined(episode.frame))
        self._log(f"{member.name} has joined at tick {episode.frame}: clients reach it at {member.address}")

    # Going.

    def _refuse(self, peer: bytes, name: str, why: str) -> None:
        self._report(f"node {name} was refused: {why}")
        with suppress(LinkError):
            self.link.send(peer, m.encode(m.Refused(why)), ())
        # It is cut off a little later, so that it can read why.
        self._refused[peer] = SYSTEM_CLOCK.monotonic_s() + _REFUSED_S
        member = self._remove(peer)
        if member is not None:
            self._lose(member, failed=False)

    def fail(self, peer: bytes, why: str) -> None:
        """Something is wrong with a node: it is taken out."""
        member = self._members.get(peer)
        if member is None:
            if peer not in self._refused:
                self._log(f"a node that has not joined was cut off: {why}")
            self.link.disconnect(peer)
        elif member.state == DRAINING and not member.pending:
            self._drop(peer, why)
        else:
            self.fence(member, why)

    def fence(self, member: Member, why: str) -> None:
        """Take a node out: whatever it still says is not heard, and another one takes its place."""
        if self._members.get(member.peer) is not member:
            return
        with suppress(LinkError):
            self.link.send(member.peer, m.encode(m.Leave(f"taken out: {why}")), ())
        member.state = FENCED
        self._counters.fenced += 1
        self._take_out(member, f"{member.name} was taken out: {why}")

    def _drop(self, peer: bytes, why: str) -> None:
        member = self._members.get(peer)
        if member is not None:
            was_leaving = member.state == DRAINING and not member.pending
            member.state = GONE
            self._take_out(member, f"{member.name} is gone: {why}", quiet=was_leaving)

    def _take_out(self, member: Member, line: str, *, quiet: bool = False) -> None:
        frame = self._host.episode.frame
        if not quiet:
            self._counters.problems.add(frame, line)
        self._log(f"tick {frame}: {line}")
        self._remove(member.peer)
        self.link.disconnect(member.peer)
        self._lose(member, failed=True)

    def _lose(self, member: Member, *, failed: bool) -> None:
        """Its clients are gone with it, and what it owed is lost."""
        self.work.extend((CallerGone(client), 0.0) for client in member.clients.values())
        self._host.on_node_lost(member, failed=failed)

    def _remove(self, peer: bytes) -> Member | None:
        member = self._members.pop(peer, None)
        self._sort()
        if member is not None and member.pidfd >= 0:
            self.link.unwatch(member.pidfd)
            os.close(member.pidfd)
            member.pidfd = -1
        return member

    def _check_silence(self) -> None:
        now_s = SYSTEM_CLOCK.monotonic_s()
        for peer in [peer for peer, until_s in self._refused.items() if now_s > until_s]:
            del self._refused[peer]
            self.link.disconnect(peer)
        for member in list(self._members.values()):
            if member.unsent and now_s - member.read_on_s > self._timeouts.silent_s:
                self.fence(member, f"it has read nothing for {now_s - member.read_on_s:.1f} s")
                continue
            silent_s = now_s - member.heard_s
            if silent_s > (self._timeouts.joining_s if member.state == JOINING else self._timeouts.silent_s):
                self.fence(member, f"it has said nothing for {silent_s:.1f} s")

    def dismiss(self, member: Member, why: str) -> None:
        """Tell a node to go; it is a member until its connection has ended."""
        with suppress(LinkError):
            self.link.send(member.peer, m.encode(m.Leave(why)), ())

    def dismiss_all(self, why: str) -> None:
        """The end: tell everybody to go."""
        for member in list(self._members.values()):
            self.dismiss(member, why)


def number_for(name: str, taken: set[int]) -> int:
    """A new node's number: the one at the end of its name where that is free, else the next."""
    tail = name.rpartition("-")[2]
    found = int(tail) if tail.isdecimal() and tail.isascii() and len(tail) < 5 else 0
    if found and found not in taken:
        return found
    return next(number for number in range(1, len(taken) + 2) if number not in taken)


def _has_ended(pidfd: int) -> bool:
    if pidfd < 0:
        return False
    watch = select.poll()
    watch.register(pidfd, select.POLLIN)
    return bool(watch.poll(0))
