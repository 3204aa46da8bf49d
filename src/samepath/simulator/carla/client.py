"""A client of our own, without CARLA's: calls return a ticket at once, and are never made twice.

What a user sees is :func:`connect` and :class:`TicketClient`; how calls get to a server is :class:`TicketTransport`: a thread
that keeps one connection, and after every loss asks again, in order.

Numbers make this safe. A server makes the call of a number once and in its turn, and answers a second request for it with what
came of the first. So the only thing to be done about a lost, silent or broken connection is to make another one, to whoever can
be reached, and to send again what is unanswered. Whether a call was made is then known, save where no server answers any more.

That thread owns the connection and settles tickets. Callers only add to its queue, under one condition variable, and wake it
through a pair of sockets, because it waits in ``select`` for the server at the same time. Callbacks of tickets run in it too:
one that waited for a result would wait for itself, and is refused.
"""

import secrets
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_futures
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

import msgpack

from samepath.core.clock import SYSTEM_CLOCK, Clock
from samepath.core.errors import InputError, SamepathError
from samepath.simulator.carla import records as r
from samepath.simulator.carla.codec import (
    Reader,
    WireError,
    array_of,
    came,
    flag,
    long_text,
    pack,
    struct_of,
    text,
    u32,
    u64,
    variant,
)
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.carla.tickets import CallOutcome, Status, outcome, packed
from samepath.simulator.carla.tickets import client_id as read_client_id

_READ_BYTES: Final = 1 << 18
_ANSWER_BYTES: Final = 256 << 20
_METADATA: Final = (False,)  # CARLA's first argument: somebody waits for the answer
_CALL, _TICKET = "samepath_call", "samepath_ticket"

_error: Final[Reader[str]] = struct_of(lambda message: message, long_text)
_response: Final = struct_of(lambda answer: answer, variant([_error, outcome]))


class Address(NamedTuple):
    """Where a server listens for calls."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ConnectionLostError(Exception):
    """A connection is of no more use; the text says why."""


class TicketRequest(NamedTuple):
    """A call by ticket as it goes out, as often as need be."""

    number: int
    arguments: bytes

    @classmethod
    def of(cls, client: str, number: int, method: str, arguments: bytes) -> "TicketRequest":
        """Write the call of a method whose arguments are packed."""
        return cls(number, pack((_METADATA, client, number, method, arguments)))


class TicketReply(NamedTuple):
    """What came back for a request: an outcome, or the words with which the request itself was refused."""

    number: int
    outcome: CallOutcome | None
    refusal: str = ""


class TicketConnection:
    """A connection, and the requests it has not answered yet, by the id they were sent with."""

    def __init__(self, address: Address, timeout_s: float, now_s: float) -> None:
        self.address = address
        self.heard_s = now_s
        self.answers = 0
        self.outgoing = bytearray()
        self.unanswered: dict[int, TicketRequest] = {}
        self._next_id = 1
        self._unpacker = msgpack.Unpacker(max_buffer_size=_ANSWER_BYTES, raw=False, strict_map_key=True)
        try:
            self.socket = socket.create_connection(address, timeout_s)
        except (OSError, OverflowError, UnicodeError) as error:
            raise ConnectionLostError(f"{address}: {getattr(error, 'strerror', None) or error}") from None
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def greet(self, client: str, timeout_s: float) -> None:
        """Ask something harmless and wait for the answer: is this a server that knows tickets?"""
        try:
            self.socket.settimeout(timeout_s)
            self.socket.sendall(_message(0, _TICKET, pack((_METADATA, client, 1))))
            answers = self._take(self.socket.recv(_READ_BYTES))
            while not answers:
                answers = self._take(self.socket.recv(_READ_BYTES))
        except OSError as error:
            self.close()
            raise ConnectionLostError(f"{self.address}: {error.strerror or error}") from None
        except ConnectionLostError:
            self.close()
            raise
        if answers[0][2] is not None:
            self.close()
            raise ConnectionLostError(f"{self.address}: this server has no tickets")

    def ready(self) -> None:
        """From now on nobody waits in here."""
        self.socket.setblocking(False)

    def put(self, request: TicketRequest, now_s: float) -> None:
        """Add a request to what is to be sent."""
        if not self.unanswered:
            self.heard_s = now_s  # silence counts from here
        call_id, self._next_id = self._next_id, self._next_id % 0xFFFF_FFFF + 1
        self.unanswered[call_id] = request
        self.outgoing += _message(call_id, _CALL, request.arguments)

    def send(self) -> None:
        """Send as much as can be sent now."""
        while self.outgoing:
            try:
                del self.outgoing[: self.socket.send(self.outgoing)]
            except BlockingIOError:
                return
            except OSError as error:
                raise ConnectionLostError(f"{self.address}: {error.strerror or error}") from None

    def receive(self, now_s: float) -> Iterator[TicketReply]:
        """Take what has come, one after the other: what follows may be broken."""
        try:
            data = self.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise ConnectionLostError(f"{self.address}: {error.strerror or error}") from None
        self.heard_s = now_s
        for answer in self._take(data):
            yield self._reply(answer)

    def _take(self, data: bytes) -> list[list[Any]]:
        if not data:
            raise ConnectionLostError(f"{self.address}: the connection was closed")
        try:
            self._unpacker.feed(data)
            answers = list(self._unpacker)
        except (ValueError, msgpack.UnpackException, RecursionError) as error:
            raise ConnectionLostError(f"{self.address}: no MessagePack came ({type(error).__name__})") from None
        if not all(type(answer) is list and len(answer) == 4 and answer[0] == 1 for answer in answers):
            raise ConnectionLostError(f"{self.address}: no answer to a call came")
        return answers

    def _reply(self, answer: list[Any]) -> TicketReply:
        _, call_id, refusal, response = answer
        if type(call_id) is not int or call_id not in self.unanswered:
            raise ConnectionLostError(f"{self.address}: an answer came that nobody had asked for")
        found = None
        if refusal is None:
            try:
                worked, content = _response(response)
            except WireError as error:
                raise ConnectionLostError(f"{self.address}: an answer of unknown shape came ({error})") from None
            found, refusal = (content, "") if worked else (None, content)
        self.answers += 1
        return TicketReply(self.unanswered.pop(call_id).number, found, str(refusal))

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


def _message(call_id: int, method: str, arguments: bytes) -> bytes:
    return b"\x94\x00" + pack(call_id) + pack(method) + arguments


def address_of(text: str) -> Address:
    """Read ``host:port``, with an IPv6 host in brackets."""
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not (colon and bare and port.isascii() and port.isdigit() and 0 < int(port) <= 0xFFFF) or (":" in bare and bare == host):
        raise InputError(f"an address such as 127.0.0.1:2000 was wanted, but {text!r} came")
    return Address(bare, int(port))


T = TypeVar("T")


class TicketError(SamepathError):
    """A call by ticket that gave no result."""


class CallFailedError(TicketError):
    """The server did not do the call, and says why."""


class TicketLostError(TicketError):
    """The result will not come; whether the call was done is not known."""


class TicketTimeoutError(TicketError):
    """The result has not come yet; the ticket is still pending."""


class Ticket(Generic[T]):
    """A call: ``client`` and ``number`` name it once and for all.

    ``latency_s`` is the time from the call to its answer; ``frame`` the world's when it had been done, so that a command takes
    effect in the next one. Both are None while it is pending, ``frame`` also if nobody knows it.
    """

    def __init__(self, client: str, number: int, method: str, read: Callable[[Any], T], made_s: float) -> None:
        self.client = client
        self.number = number
        self.method = method
        self.latency_s: float | None = None
        self.frame: int | None = None
        self._read = read
        self._made_s = made_s
        self._future: Future[T] = Future()
        self._future.set_running_or_notify_cancel()  # nobody can take a call back
        self._carried_by: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<ticket {self.number} of client {self.client}: {self.method}, {self.status}>"

    @property
    def status(self) -> Status:
        """Pending, failed or success."""
        if not self._future.done():
            return Status.PENDING
        return Status.SUCCESS if self._future.exception() is None else Status.FAILED

    @property
    def error(self) -> str | None:
        """Why it failed; None if it did not, or is pending."""
        found = self._future.exception() if self._future.done() else None
        return None if found is None else str(found)

    @property
    def future(self) -> "Future[T]":
        """The same as a future of the standard library, for its ``wait`` and ``as_completed``."""
        return self._future

    def result(self, timeout_s: float | None = None) -> T:
        """Wait for the result, if need be for ever, and return it; raises :class:`TicketError` if there is none."""
        if self._carried_by is threading.current_thread() and not self._future.done():
            raise TicketError(f"{self.method}: a callback cannot wait for a result, it would wait for itself")
        try:
            return self._future.result(timeout_s)
        except TimeoutError:
            raise TicketTimeoutError(
                f"{self.method}: no answer within {timeout_s:g} s; ticket {self.number} is still pending"
            ) from None

    def when_done(self, callback: Callable[["Ticket[T]"], object]) -> None:
        """Call back when the answer is there; from the thread that carries calls, or at once if it is there already."""
        self._future.add_done_callback(lambda _: callback(self))

    def carried_by(self, thread: threading.Thread) -> None:
        """Say who will settle this ticket."""
        self._carried_by = thread

    def succeed(self, value: object, frame: int, now_s: float) -> None:
        """The call was done."""
        try:
            result = self._read(value)
        except SamepathError as error:
            self._end(frame, now_s)
            self._future.set_exception(TicketError(f"{self.method} was done, but its answer cannot be read: {error}"))
            return
        self._end(frame, now_s)
        self._future.set_result(result)

    def fail(self, error: TicketError, frame: int | None, now_s: float) -> None:
        """The call gave no result."""
        self._end(frame, now_s)
        self._future.set_exception(error)

    def _end(self, frame: int | None, now_s: float) -> None:
        self.frame, self.latency_s = frame, now_s - self._made_s


# Requests on their way at once; fewer than the outcomes that a server keeps of a client.
WINDOW: Final = 256
_PENDING_MAX: Final = 100_000
_OUTGOING_BYTES: Final = 1 << 18
_FIRST_PAUSE_S: Final = 0.01


@dataclass(frozen=True)
class RetryPolicy:
    """How long to wait for what.

    ``connect_s`` for a connection; ``silence_s`` for an answer before another connection is tried; ``give_up_s`` for any answer
    at all before all pending calls are lost; ``pause_s`` at most between two attempts to connect.
    """

    connect_s: float = 5.0
    silence_s: float = 10.0
    give_up_s: float = 120.0
    pause_s: float = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0.0 < value < float("inf"):
                raise InputError(f"{name}: a number of seconds above 0 was wanted, but {value} came")


class TicketTransport:
    """Carries calls to one of several addresses."""

    def __init__(self, client: str, addresses: tuple[Address, ...], policy: RetryPolicy, clock: Clock) -> None:
        self._client = client
        self._addresses = addresses
        self._policy = policy
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: deque[TicketRequest] = deque()  # to be sent, in order
        self._tickets: dict[int, Ticket[Any]] = {}  # pending, in order
        self._last = 0
        self._since_s = 0.0  # nothing has been answered
        self._over = ""
        self._window = WINDOW
        self._at = 0
        self._pause_s = 0.0
        self._trouble = ""
        self._first: TicketConnection | None = None
        self._bell, self._ringer = socket.socketpair()
        self._rung = False
        self._thread = threading.Thread(target=self._run, name="samepath tickets", daemon=True)

    def start(self) -> None:
        """Connect, and begin; raises if nobody can be reached."""
        self._first = self._dial_all(greeting=True)
        if self._first is None:
            self._close_bell()
            raise InputError(f"no server can be reached ({self._trouble}): start one with samepath serve")
        self._thread.start()

    def submit(self, method: str, arguments: bytes, read: Callable[[Any], T]) -> Ticket[T]:
        """Make a call; from any thread."""
        with self._changed:
            if self._over:
                raise TicketLostError(f"{method}: {self._over}")
            if len(self._tickets) >= _PENDING_MAX:
                raise InputError(f"{method}: {_PENDING_MAX} calls are pending already: wait for some of them")
            now_s = self._clock.monotonic_s()
            if not self._tickets:
                self._since_s = now_s
            self._last += 1
            ticket = Ticket(self._client, self._last, method, read, now_s)
            ticket.carried_by(self._thread)
            self._tickets[ticket.number] = ticket
            self._waiting.append(TicketRequest.of(self._client, ticket.number, method, arguments))
            self._ring()
        return ticket

    def settled(self, timeout_s: float) -> bool:
        """Wait until nothing is pending."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._tickets, timeout_s)

    def end(self, why: str) -> None:
        """Stop; what is pending is lost."""
        with self._changed:
            self._over = self._over or why
            self._ring()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _ring(self) -> None:
        self._changed.notify_all()
        if not self._rung:
            self._rung = True
            self._ringer.send(b"\0")

    def _run(self) -> None:
        connection = self._first
        try:
            while connection is not None:
                try:
                    self._carry(connection)
                except ConnectionLostError as error:
                    self._trouble = str(error)
                self._take_back(connection)
                connection = self._redial(connection)
        except Exception as error:  # whatever it is, nobody is left waiting
            self._over = f"internal error of samepath: {type(error).__name__}: {error}"
        with self._changed:
            self._over = self._over or "the connection has ended"
            lost = list(self._tickets.values())
        for ticket in lost:
            words = f"{ticket.method}: {self._over}; whether it was done is not known"
            ticket.fail(TicketLostError(words), None, self._clock.monotonic_s())
        with self._changed:
            self._tickets.clear()
            self._changed.notify_all()
        self._close_bell()

    def _close_bell(self) -> None:
        with self._changed:
            self._rung = True  # nobody rings any more
            self._bell.close()
            self._ringer.close()

    def _carry(self, connection: TicketConnection) -> None:
        """Send and receive until this is over or the connection is lost."""
        connection.ready()
        with selectors.DefaultSelector() as selector:
            selector.register(self._bell, selectors.EVENT_READ)
            selector.register(connection.socket, selectors.EVENT_READ)
            while self._load(connection):
                connection.send()
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.outgoing else 0)
                selector.modify(connection.socket, wanted)
                selector.select(self._wait_s(connection))
                for reply in connection.receive(self._clock.monotonic_s()):
                    self._settle(reply)
                self._check_silence(connection)

    def _load(self, connection: TicketConnection) -> bool:
        """Give the connection what it can take; False: it is over."""
        with self._changed:
            if self._rung and not self._over:
                self._bell.recv(16)
                self._rung = False
            while self._waiting and len(connection.unanswered) < self._window and len(connection.outgoing) < _OUTGOING_BYTES:
                connection.put(self._waiting.popleft(), self._clock.monotonic_s())
            return not self._over

    def _wait_s(self, connection: TicketConnection) -> float | None:
        if not connection.unanswered:
            return None
        now_s = self._clock.monotonic_s()
        return max(0.0, min(connection.heard_s + self._policy.silence_s, self._since_s + self._policy.give_up_s) - now_s)

    def _check_silence(self, connection: TicketConnection) -> None:
        now_s = self._clock.monotonic_s()
        self._check_patience(now_s)
        if connection.unanswered and now_s - connection.heard_s >= self._policy.silence_s:
            connection.answers = 0  # it may have been good once
            raise ConnectionLostError(f"{connection.address}: no answer within {self._policy.silence_s:g} s")

    def _check_patience(self, now_s: float) -> None:
        with self._changed:
            if self._tickets and not self._over and now_s - self._since_s >= self._policy.give_up_s:
                trouble = f" ({self._trouble})" if self._trouble else ""
                self._over = f"nothing was answered for {self._policy.give_up_s:g} s{trouble}, so this connection was given up"

    def _settle(self, reply: TicketReply) -> None:
        ticket, now_s = self._tickets[reply.number], self._clock.monotonic_s()
        self._window = min(self._window + 1, WINDOW)
        if reply.outcome is None:
            ticket.fail(TicketLostError(f"{ticket.method}: {reply.refusal}"), None, now_s)
        elif reply.outcome.status is Status.SUCCESS:
            _succeed(ticket, reply.outcome, now_s)
        else:
            ticket.fail(CallFailedError(reply.outcome.error), reply.outcome.frame, now_s)
        with self._changed:
            del self._tickets[reply.number]
            self._since_s = now_s
            if not self._tickets:
                self._changed.notify_all()

    def _take_back(self, connection: TicketConnection) -> None:
        """What a lost connection has not answered is to be sent again, before all else."""
        connection.close()
        with self._changed:
            self._waiting.extendleft(reversed(connection.unanswered.values()))

    def _redial(self, lost: TicketConnection) -> TicketConnection | None:
        """Connect again when there is something to ask; a connection that gave no answer is tried last, and gently."""
        self._pause_s = 0.0 if lost.answers else self._longer_s()
        if not lost.answers:
            self._window, self._at = 1, self._at + 1
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._over or self._tickets)
                self._changed.wait_for(lambda: self._over, self._pause_s)
            self._check_patience(self._clock.monotonic_s())
            if self._over:
                return None
            connection = self._dial_all(greeting=False)
            if connection is not None:
                return connection
            self._pause_s = self._longer_s()

    def _longer_s(self) -> float:
        return min(max(2.0 * self._pause_s, _FIRST_PAUSE_S), self._policy.pause_s)

    def _dial_all(self, *, greeting: bool) -> TicketConnection | None:
        """Try each address once, the current one first."""
        troubles = []
        for step in range(len(self._addresses)):
            at = (self._at + step) % len(self._addresses)
            try:
                connection = TicketConnection(self._addresses[at], self._policy.connect_s, self._clock.monotonic_s())
                if greeting:
                    connection.greet(self._client, self._policy.silence_s)
            except ConnectionLostError as error:
                troubles.append(str(error))
            else:
                self._at = at
                return connection
        self._trouble = ", ".join(troubles)
        return None


def _succeed(ticket: Ticket[Any], outcome: CallOutcome, now_s: float) -> None:
    try:
        value = msgpack.unpackb(outcome.result, raw=False, strict_map_key=True)
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        words = f"{ticket.method} was done, but its answer is no MessagePack ({type(error).__name__})"
        ticket.fail(TicketLostError(words), outcome.frame, now_s)
    else:
        ticket.succeed(value, outcome.frame, now_s)


_HEAD_BYTES: Final = 4096  # of a message, beside the arguments
_RIGID: Final = 0
_ALL_LAYERS: Final = 0xFFFF

_actor: Final[Reader[r.Actor]] = struct_of(r.Actor, u32, u32, r.description, r.bounding_box, packed, packed)
_map: Final[Reader[tuple[r.Transform, ...]]] = struct_of(lambda _, points: points, text, array_of(r.transform))


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever the method answers
    return value


def _nothing(value: object) -> None:
    if value is not None:
        raise WireError(f"nothing was wanted, but {came(value)} came")


def connect(
    *addresses: str, client_id: str | None = None, retry: RetryPolicy | None = None, clock: Clock = SYSTEM_CLOCK
) -> "TicketClient":
    """Connect to a server, or to any of the nodes of a cluster.

    Further addresses are those to turn to when the first cannot be reached. ``client_id``, 32 hexadecimal digits, is made
    by chance unless it is given; one id is one client's, once.
    """
    if not addresses:
        raise InputError("connect: an address was wanted, such as 127.0.0.1:2000, but none came")
    try:
        client = secrets.token_hex(16) if client_id is None else read_client_id(client_id)
    except WireError:
        raise InputError(f"client_id: 32 hexadecimal digits were wanted, but {client_id!r} came") from None
    transport = TicketTransport(client, tuple(address_of(address) for address in addresses), retry or RetryPolicy(), clock)
    transport.start()
    return TicketClient(client, transport)


class TicketClient:
    """A world elsewhere. Every call returns a ticket at once; calls are done in the order in which they were made."""

    def __init__(self, client: str, transport: TicketTransport) -> None:
        self.client = client
        self._transport = transport

    def call(self, method: str, *arguments: object) -> Ticket[Any]:
        """Call any method of the server by its name; arguments and result are plain MessagePack values."""
        return self._call(method, arguments, _plain)

    def _call(self, method: str, arguments: tuple[object, ...], read: Callable[[Any], T]) -> Ticket[T]:
        try:
            content: bytes = msgpack.packb(((False,), *arguments), use_bin_type=True)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{method}: plain values were wanted as arguments, but they cannot be packed: {error}") from None
        most = ServerLimits().message_bytes - _HEAD_BYTES
        if len(content) > most:
            raise InputError(f"{method}: arguments of at most {most} bytes were wanted, but {len(content)} came")
        return self._transport.submit(method, content, read)

    def spawn(self, blueprint: str, at: r.Transform, parent: int | None = None, **attributes: object) -> Ticket[r.Actor]:
        """Put an actor into the world; with a parent ``at`` is relative to it."""
        description = _described(blueprint, attributes)
        if parent is None:
            return self._call("spawn_actor", (description, at), _actor)
        return self._call("spawn_actor_with_parent", (description, at, parent, _RIGID, ""), _actor)

    def destroy(self, actor_id: int) -> Ticket[bool]:
        """Take an actor out of the world."""
        return self._call("destroy_actor", (actor_id,), flag)

    def control(self, actor_id: int, control: r.VehicleControl) -> Ticket[None]:
        """Take a vehicle's pedals."""
        return self._call("apply_control_to_vehicle", (actor_id, control), _nothing)

    def last_control(self, actor_id: int) -> Ticket[r.VehicleControl]:
        """A vehicle's pedals as they were last set."""
        return self._call("samepath_control", (actor_id,), r.vehicle_control)

    def walk(self, actor_id: int, control: r.WalkerControl) -> Ticket[None]:
        """Let a walker walk."""
        return self._call("apply_control_to_walker", (actor_id, control), _nothing)

    def tick(self) -> Ticket[int]:
        """Tick; gives the frame. In real time ticks come by themselves."""
        return self._call("tick_cue", (), u64)

    def settings(self) -> Ticket[r.Settings]:
        """The settings of the episode."""
        return self._call("get_episode_settings", (), r.settings)

    def apply_settings(self, settings: r.Settings) -> Ticket[int]:
        """Change them from the next tick on; gives the frame."""
        return self._call("set_episode_settings", (r.write_settings(settings),), u64)

    def spawn_points(self) -> Ticket[tuple[r.Transform, ...]]:
        """Where the map recommends to spawn vehicles."""
        return self._call("get_map_info", (), _map)

    def load(self, map_name: str = "", *, reset_settings: bool = True) -> Ticket[None]:
        """Load a map; without a name the same one again."""
        return self._call("load_new_episode", (map_name, reset_settings, _ALL_LAYERS), _nothing)

    def wait(self, tickets: Iterable[Ticket[Any]], timeout_s: float | None = None) -> None:
        """Wait until none of these tickets is pending; it does not matter whether they failed."""
        given = list(tickets)
        pending = len(wait_for_futures([ticket.future for ticket in given], timeout_s).not_done)
        if pending:
            raise TicketTimeoutError(f"{pending} of {len(given)} tickets are still pending after {timeout_s:g} s")

    def close(self, wait_s: float = 10.0) -> None:
        """Wait a while for what is pending, then hang up; what is pending then is lost."""
        self._transport.settled(wait_s)
        self._transport.end("the connection was closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        self.close() if kind is None else self.close(0.0)


def _described(blueprint_id: str, attributes: dict[str, object]) -> r.Description:
    """A description as the blueprint library would make it; an unknown name is refused with the nearest known one."""
    from samepath.core.errors import unknown
    from samepath.simulator.carla import blueprints

    blueprint = blueprints.find(blueprint_id)
    known = {attribute.id: attribute for attribute in blueprint.attributes}
    for name in attributes:
        if name not in known:
            raise unknown(f"attribute of {blueprint_id}", name, known)
    values = tuple(r.AttributeValue(name, int(known[name].type), _written(value)) for name, value in attributes.items())
    return r.Description(blueprint.uid, blueprint.id, values)


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


__all__ = [
    "CallFailedError",
    "RetryPolicy",
    "Ticket",
    "TicketClient",
    "TicketError",
    "TicketLostError",
    "TicketTimeoutError",
    "connect",
]
