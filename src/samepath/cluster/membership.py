"""Who is in the cluster: the link, the nodes behind it, and what each of their messages leads to.

It belongs to the episode's thread. What clients of nodes ask for becomes work in the same queue as the calls of this server's
own clients, in the order in which it arrived.
"""

import os
import select
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from samepath import __version__
from samepath.cluster import messages as m
from samepath.cluster.link.main_link import MainLink
from samepath.cluster.link.wire import Event, LinkError, Received, TooLargeError
from samepath.cluster.link.wire import Gone as PeerGone
from samepath.cluster.link.wire import Ready as PeerReady
from samepath.cluster.messages import Hello, Ready
from samepath.cluster.mirror import Bulletin, boot_id, fingerprint, map_digest
from samepath.cluster.monitor.recent import Meter
from samepath.cluster.monitor.status import NodeState
from samepath.cluster.settings import CommandLog, Numbers, Patience
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SamepathError
from samepath.simulator.carla import codec
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.limits import Limits
from samepath.simulator.server.methods import methods
from samepath.simulator.server.rendering import Order
from samepath.simulator.server.rpc import Call, MalformedError, parse
from samepath.simulator.server.runner import Gone, Unheard, Work

# The nodes as the main server knows them.

JOINING: Final = "joining"
WORKING: Final = "working"
DRAINING: Final = "draining"
FENCED: Final = "fenced"
GONE: Final = "gone"
_DRAWING: Final = (WORKING,)


class RemoteCaller:
    """A client of a node, for the episode: where its answers go, and where it fetches streams."""

    def __init__(self, member: "Member", client: int, reply: Callable[["RemoteCaller", int | None, bytes], None]) -> None:
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
class Issue:
    """Orders of a tick that a node has been given and not yet answered."""

    frame: int
    orders: dict[int, Order]
    at_s: float
    expected_s: float
    timed: bool = False


@dataclass(eq=False)
class Member:
    """A node, from its greeting to its end. ``number`` is fixed by its name; another incarnation is another member."""

    peer: bytes
    number: int
    name: str
    hello: Hello
    state: NodeState
    heard_s: float
    same_host: bool
    drawn: Meter
    drew: Meter
    pidfd: int = -1
    connected: int = 0
    clients: dict[int, RemoteCaller] = field(default_factory=dict)
    issued: list[Issue] = field(default_factory=list)
    known_episode: int = -1  # whose map it was sent last
    built_episode: int = -1  # whose map it has built
    calls: int = 0  # of its clients, forwarded
    heard: int = 0  # the last mark behind news that it has taken in
    doubted: bool = False  # its orders were given to others as well
    busy_s: float = 0.0
    step_s: float | None = None
    steps: int = 0
    steps_s: float = 0.0
    late_frames: int = 0
    dropped_frames: int = 0
    compared: int = 0
    desynchronised: int = 0
    digests: dict[int, bytes] = field(default_factory=dict)

    @property
    def draws(self) -> bool:
        """May it be given orders? While it builds another map it may not: that takes as long as it takes."""
        return self.state in _DRAWING and self.built_episode == self.known_episode

    @property
    def listens(self) -> bool:
        """Is it told of every tick?"""
        return self.state in (WORKING, DRAINING)

    @property
    def address(self) -> str:
        """Where clients reach it."""
        return f"{self.hello.rpc_host}:{self.hello.rpc_port}"


# Who is let in: a node that is another one than it should be is refused, with the reason by name.

_MADE: Final = (int, bool, str, bytes, float)


def refusal(hello: Hello) -> str:
    """Why a node may not join; empty: it may."""
    if hello.version != __version__:
        return f"it runs samepath {hello.version}, the main server {__version__}: install the same version"
    if hello.fingerprint != fingerprint():
        return (
            f"its fingerprint is {hello.fingerprint}, the main server's {fingerprint()}: "
            "the code of samepath or the version of numpy, numba, llvmlite or msgpack differs"
        )
    return ""


def map_refusal(ready: Ready, map_name: str, wanted_digest: str, pictures: dict[str, str]) -> str:
    """Why what a node has built is not what it should have; empty: it is. ``pictures`` holds the one of the first node."""
    if ready.map_digest != wanted_digest:
        return f"its map {map_name} is another one: {ready.map_digest}, the main server's {wanted_digest}"
    first = pictures.setdefault("", ready.picture_digest)
    if ready.picture_digest != first:
        return f"its test picture is another one than the first node's: {ready.picture_digest}, not {first}"
    return ""


def is_made(row: object) -> bool:
    """Is this what a node says of one order: sensor, whether its payload came along, trouble, memory, cost?"""
    return isinstance(row, list) and tuple(type(one) for one in row) == _MADE


def has_ended(pidfd: int) -> bool:
    """Has a process ended that is watched through a descriptor?"""
    if pidfd < 0:
        return False
    watch = select.poll()
    watch.register(pidfd, select.POLLIN)
    return bool(watch.poll(0))


def is_same_host(hello: Hello) -> bool:
    """Does a node share clock and process numbers with this process?"""
    return bool(boot_id()) and hello.boot == boot_id()


def number_for(name: str, taken: set[int]) -> int:
    """A new node's number: the one at the end of its name where that is free, else the next."""
    tail = name.rpartition("-")[2]
    found = int(tail) if tail.isdecimal() and tail.isascii() and len(tail) < 5 else 0
    if found and found not in taken:
        return found
    return next(one for one in range(1, len(taken) + 2) if one not in taken)


_MEMBERS_MOST: Final = 1024
_READ_S: Final = 2.0
_HEARING_S: Final = 10.0
_HEARING_POLL_S: Final = 0.02


class Roster:
    """The nodes. ``log`` takes lines for the user."""

    def __init__(
        self,
        link: MainLink,
        numbers: Numbers,
        patience: Patience,
        aliases: Mapping[str, str],
        limits: Limits,
        log: Callable[[str], None],
    ) -> None:
        self.link = link
        self.work: deque[tuple[Work, float]] = deque()
        self.restarts: dict[str, int] = {}
        self._numbers = numbers
        self._patience = patience
        self._aliases = dict(aliases)
        self._limits = limits
        self._log = log
        self._members: dict[bytes, Member] = {}
        self._in_order: list[Member] = []
        self._numbers_by_name: dict[str, int] = {}
        self._pictures: dict[str, str] = {}
        self._refused: dict[bytes, float] = {}
        self._told = 0
        self._bulletin = Bulletin()
        self._methods = methods()
        self.episode: Episode
        self.last_state = b""
        self.on_seen: Callable[[Member, m.Seen, tuple[bytes, ...], float], None]
        self.on_lost: Callable[[Member], None]
        self.on_forgotten: Callable[[list[int] | None], None] = lambda _: None
        self.on_leave: Callable[[int], None]
        self.on_failed: Callable[[Member, str], None] = lambda _member, _why: None
        self.answer_aside: Callable[[Call], None]
        self.wanted: Callable[[], tuple[str, ...]] = tuple

    @property
    def commands(self) -> CommandLog:
        """The log of control commands."""
        return self._numbers.commands

    # -- who is there ------------------------------------------------------------------------------------------------

    def all(self) -> list[Member]:
        """All nodes that are connected, by number."""
        return self._in_order  # never changed: who comes or goes makes another list

    def _order(self) -> None:
        self._in_order = sorted(self._members.values(), key=lambda one: one.number)

    def drawing(self) -> list[Member]:
        """Those that may be given orders."""
        return [one for one in self.all() if one.draws]

    def listening(self) -> list[Member]:
        """Those that are told of every tick."""
        return [one for one in self.all() if one.listens]

    def missing(self) -> tuple[str, ...]:
        """Nodes that should be there and are not."""
        there = {one.name for one in self.all() if one.draws}
        return tuple(name for name in self.wanted() if name not in there)

    def by_number(self, number: int) -> Member | None:
        """The node of this number, if it is there."""
        return next((one for one in self._members.values() if one.number == number and one.listens), None)

    def by_name(self, name: str) -> Member | None:
        """The node of this name, if it is there."""
        return next((one for one in self._members.values() if one.name == name), None)

    # -- sending -----------------------------------------------------------------------------------------------------

    def send(self, member: Member, message: bytes, *bulk: bytes) -> None:
        """Send something to a node."""
        self.link.send(member.peer, message, bulk)

    def tell(self, member: Member, message: m.Message, *bulk: bytes) -> None:
        """Send something to a node; one that cannot be reached is taken out. What the link does not take is left out."""
        try:
            self.link.send(member.peer, m.written(message), bulk)
        except TooLargeError as error:  # that is no fault of the node's
            self._left_out(f"{type(message).__name__} for {member.name} was left out: {error}")
        except LinkError as error:
            self.fail(member.peer, str(error))

    def broadcast(self, messages: dict[bytes, bytes], bulk: bytes) -> dict[bytes, LinkError]:
        """Send every node its message, and all the same bulk."""
        return self.link.broadcast(messages, bulk) if messages else {}

    def publish_news(self) -> bool:
        """Tell all nodes what has changed since the last time; returns whether it was more than who came and went."""
        large = False
        for message, bulk in self._bulletin.news(self.episode):
            if isinstance(message, m.NewEpisode):
                self.on_forgotten(None)
            elif isinstance(message, m.NewActors):
                self.on_forgotten(message.gone)
            for member in self.listening():
                if isinstance(message, m.NewEpisode):
                    member.known_episode = message.episode
                self.tell(member, message, *((bulk,) if bulk else ()))
            large = large or not isinstance(message, m.NewActors)
        return large

    def await_hearing(self) -> None:
        """Wait until all nodes have taken in the news, so that nobody who hears of it finds another node behind."""
        self._told += 1
        number, end_s = self._told, SYSTEM_CLOCK.monotonic_s() + _HEARING_S
        for member in self.listening():
            self.tell(member, m.Told(number))
        while any(one.heard < number for one in self.listening()) and SYSTEM_CLOCK.monotonic_s() < end_s:
            self.attend(_HEARING_POLL_S)

    # -- receiving ---------------------------------------------------------------------------------------------------

    def attend(self, timeout_s: float | None) -> None:
        """Wait for messages and do what they ask for."""
        for event in self.link.poll(timeout_s):
            self._handle(event)
        self._look_after()

    def _handle(self, event: Event) -> None:
        if isinstance(event, Received):
            try:
                self._receive(event, m.read(event.message))
            except (SamepathError, MalformedError) as error:
                self.fail(event.peer, f"it sent something that cannot be read: {error}")
        elif isinstance(event, PeerGone):
            self._drop(event.peer, "its connection ended")
        elif isinstance(event, PeerReady) and isinstance(event.key, bytes):
            self._drop(event.key, "its process ended")

    def _receive(self, event: Received, message: m.Message) -> None:
        now_s = SYSTEM_CLOCK.monotonic_s()
        if isinstance(message, m.Hello) and event.peer not in self._members:
            self._greet(event.peer, message, now_s)
            return
        member = self._members.get(event.peer)
        if member is None:
            if event.peer not in self._refused:
                self.link.forget(event.peer)
            return
        member.heard_s = now_s
        if isinstance(message, m.Seen) and all(is_made(one) for one in message.made):
            self.on_seen(member, message, event.bulk, now_s)
        elif isinstance(message, m.Called) and event.bulk:
            self._call(member, message, event.bulk, now_s)
        elif isinstance(message, m.Left):
            caller = member.clients.pop(message.client, None)
            if caller is not None:
                self.work.append((Gone(caller), now_s))
        elif isinstance(message, m.Heard):
            member.heard = max(member.heard, message.number)
        elif isinstance(message, m.Quiet):
            self.work.append((Unheard(message.stream, member.number), now_s))
        elif isinstance(message, m.Ready):
            self._ready(member, message)
        elif isinstance(message, m.Beat):
            member.connected = message.clients
        else:
            self.fail(event.peer, f"it sent a message {type(message).__name__} that does not belong here")

    def _call(self, member: Member, message: m.Called, bulk: tuple[bytes, ...], now_s: float) -> None:
        member.calls += 1
        request = parse(bulk[0], self._limits)
        method = self._methods.get(request.name)
        caller = member.clients.get(message.client)
        if caller is None:
            caller = member.clients[message.client] = RemoteCaller(member, message.client, self._reply)
        if method is None:
            self._reply(caller, request.id, codec.value_error(f"samepath has no method {request.name!r}"))
            return
        try:
            arguments = method.read(request.arguments) if method.handler is not None else ()
        except codec.WireError as error:
            self._reply(caller, request.id, method.error(str(error)))
            return
        call = Call(caller, request.id, method, arguments, bulk[0])
        if method.aside:
            self.answer_aside(call)
        else:
            # On one host both read the same clock; from elsewhere the time counts from the arrival here.
            self.work.append((call, message.at_s if member.same_host else now_s))

    def _reply(self, caller: RemoteCaller, call_id: int | None, result: bytes) -> None:
        if self._members.get(caller.member.peer) is not caller.member:
            return
        answered = m.Answered(caller.client, call_id)
        try:
            self.link.send(caller.member.peer, m.written(answered), (result,))
        except TooLargeError as error:
            # Whoever asked must not wait in vain. Only answers with a value can be so large, so the error has their shape.
            self._left_out(f"an answer to {caller.name} was refused: {error}")
            self.tell(caller.member, answered, codec.value_error(f"the answer is too large to be sent through a node: {error}"))
        except LinkError as error:
            self.fail(caller.member.peer, str(error))

    def _left_out(self, line: str) -> None:
        self._numbers.problems.add(self.episode.frame, line)
        self._log(line)

    # -- coming and going --------------------------------------------------------------------------------------------

    def _greet(self, peer: bytes, hello: m.Hello, now_s: float) -> None:
        why = refusal(hello)
        other = self.by_name(hello.name)
        if not why and other is not None and other.peer != peer:
            if has_ended(other.pidfd):
                self._drop(other.peer, "its process ended")
            else:
                why = f"there is a node called {hello.name} already: choose another --name"
        if not why and len(self._members) >= _MEMBERS_MOST:
            why = f"there are {_MEMBERS_MOST} nodes already"
        if why:
            self._refuse(peer, hello.name, why)
            return
        same_host = is_same_host(hello)
        member = Member(
            peer=peer,
            number=self._number(hello.name),
            name=hello.name,
            hello=hello,
            state=JOINING,
            heard_s=now_s,
            same_host=same_host,
            drawn=Meter(now_s),
            drew=Meter(now_s),
        )
        if same_host:
            with suppress(OSError):
                member.pidfd = os.pidfd_open(hello.pid)
                self.link.watch(member.pidfd, peer)
        self._members[peer] = member
        self._order()
        self.tell(member, m.Welcome(member.number, same_host, self._aliases))
        self._send_map(member)

    def _number(self, name: str) -> int:
        if name not in self._numbers_by_name:
            self._numbers_by_name[name] = number_for(name, set(self._numbers_by_name.values()))
        return self._numbers_by_name[name]

    def _send_map(self, member: Member) -> None:
        message, xodr = self._bulletin.map_of(self.episode)
        member.known_episode = self.episode.id
        self.tell(member, message, xodr)

    def _ready(self, member: Member, message: m.Ready) -> None:
        if message.episode != self.episode.id:
            if member.known_episode != self.episode.id:
                self._send_map(member)  # the map changed while it was building the one before
            return
        road_map = self.episode.scene.road_map
        why = map_refusal(message, road_map.name, map_digest(road_map), self._pictures)
        if why:
            self._refuse(member.peer, member.name, why)
            return
        member.built_episode = message.episode
        if member.state != JOINING:
            return
        member.state = WORKING
        self.publish_news()
        for news, bulk in self._bulletin.everything(self.episode):
            self.tell(member, news, *((bulk,) if bulk else ()))
        if self.last_state:
            self.tell(member, m.Prepared(self.episode.frame), self.last_state)
        self.tell(member, m.Joined(self.episode.frame))
        self._log(f"{member.name} has joined at tick {self.episode.frame}: clients reach it at {member.address}")

    def _refuse(self, peer: bytes, name: str, why: str) -> None:
        self._log(f"node {name} was refused: {why}")
        self._numbers.problems.add(self.episode.frame, f"node {name} was refused: {why}")
        with suppress(LinkError):
            self.link.send(peer, m.written(m.Refused(why)), ())
        # It is cut off a little later, so that it can read why.
        self._refused[peer] = SYSTEM_CLOCK.monotonic_s() + _READ_S
        member = self._members.get(peer)
        self._remove(peer)
        if member is not None:
            self._bereave(member)

    def fail(self, peer: bytes, why: str) -> None:
        """Something is wrong with a node: it is taken out."""
        member = self._members.get(peer)
        if member is None:
            self.link.forget(peer)
        elif member.state == DRAINING and not member.issued:
            self._drop(peer, why)
        else:
            self.fence(member, why)

    def fence(self, member: Member, why: str) -> None:
        """Take a node out: whatever it still says is not heard, and another one takes its place."""
        if self._members.get(member.peer) is not member:
            return
        with suppress(LinkError):
            self.link.send(member.peer, m.written(m.Leave(f"taken out: {why}")), ())
        member.state = FENCED
        self._numbers.fenced += 1
        self._out(member, f"{member.name} was taken out: {why}")

    def _drop(self, peer: bytes, why: str) -> None:
        member = self._members.get(peer)
        if member is not None:
            was_leaving = member.state == DRAINING and not member.issued
            member.state = GONE
            self._out(member, f"{member.name} is gone: {why}", quiet=was_leaving)

    def _out(self, member: Member, line: str, *, quiet: bool = False) -> None:
        if not quiet:
            self._numbers.problems.add(self.episode.frame, line)
        self._log(f"tick {self.episode.frame}: {line}")
        self._remove(member.peer)
        self.link.forget(member.peer)
        self._bereave(member)
        self.on_failed(member, line)

    def _bereave(self, member: Member) -> None:
        """Whoever counted on a node that is gone is told: its clients are gone too, what it owed is lost."""
        self.on_leave(member.number)
        for caller in member.clients.values():
            self.work.append((Gone(caller), 0.0))
        self.on_lost(member)

    def _remove(self, peer: bytes) -> None:
        member = self._members.pop(peer, None)
        self._order()
        if member is not None and member.pidfd >= 0:
            self.link.unwatch(member.pidfd)
            os.close(member.pidfd)
            member.pidfd = -1

    def _look_after(self) -> None:
        """Take out who has been silent for too long."""
        now_s = SYSTEM_CLOCK.monotonic_s()
        for peer in [peer for peer, until_s in self._refused.items() if now_s > until_s]:
            del self._refused[peer]
            self.link.forget(peer)
        for member in list(self._members.values()):
            silent_s = now_s - member.heard_s
            if silent_s > (self._patience.joining_s if member.state == JOINING else self._patience.silent_s):
                self.fence(member, f"it has said nothing for {silent_s:.1f} s")

    def dismiss_all(self, why: str) -> None:
        """The end: tell everybody to go."""
        for member in list(self._members.values()):
            with suppress(LinkError):
                self.link.send(member.peer, m.written(m.Leave(why)), ())
