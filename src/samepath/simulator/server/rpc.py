"""The RPC port: one client's bytes in, checked calls out, answers back.

MessagePack objects follow one another without lengths. They are cut apart before anything is built from them, so that size and
shape are known first: a client must not make the server allocate more than :class:`ServerLimits` allow, whatever it sends.
What is no MessagePack, too long or no call closes that connection, with one line in the log; a call with wrong arguments is
answered with an error and the connection goes on.

Everything here runs in the event loop, but for reading large messages, which a thread beside it does, one after the other: a
batch of 20,000 commands takes a tenth of a second to read, and all clients would wait for it. Three things keep a client from
holding up the others or filling the memory: at most ``calls_waiting`` of its calls wait for the world, it is read no further
while more of its messages wait here, and it is read no further while it does not fetch its answers. All three stop reading from
its socket, so that TCP tells the client to wait. What waits nevertheless counts in the :class:`MemoryBudget` of all clients. A
connection may be silent for hours, as those of CARLA's clients are; but a message that has begun must end within ``message_s``.
"""

import asyncio
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from enum import IntEnum
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, NamedTuple, Protocol

import msgpack

from samepath.simulator.carla import codec
from samepath.simulator.carla.codec import Framer
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.carla.streams import WORLD_STREAM
from samepath.simulator.server.dialects import NEWEST, TOO_OLD, Dialect
from samepath.simulator.server.memory import GRAIN_BYTES, MemoryBudget
from samepath.simulator.server.methods.table import Method
from samepath.simulator.server.sending import SendQueue
from samepath.simulator.server.traffic_managers import ASKS, TrafficManagers

_REQUEST, _NOTIFICATION = 0, 2
# What CARLA's client calls between the token of the state's stream and its first state. A client of another version ends when
# it reads that state, so any other call shows that the client has the right version. Only a synchronous world leaves this
# open: there the client goes on without a state, and a client of another version may make a few calls before it ends.
_BEFORE_FIRST_STATE: Final = frozenset({"get_episode_settings", "get_required_files", "request_file"})
_NAME_MAX: Final = 256
# What the arguments of a call take as Python objects, for each byte of the message and for each item of a list. Measured, a
# batch of controls takes 8 bytes for a byte, ids take 13, spawns 19; commands that cannot be read 145, which is their items'.
_MEMORY_PER_BYTE: Final = 20
_MEMORY_PER_ITEM: Final = 150
# What reading a message takes, by its bytes: a text with one wide character takes 4 bytes for each of its characters.
_READING_FACTOR: Final = 4
# What a message takes beside its bytes, which counts where many short ones wait.
_MESSAGE_BYTES: Final = 64
# The number of messages of one client after which the event loop serves others: a few milliseconds.
_MESSAGES_PER_TURN: Final = 64
# A client is read again when this share of the answers is left at which it was read no further.
_READ_AGAIN_SHARE: Final = 4
# Shorter ones are not worth the reckoning: 64 that wait take less than what is counted in one step, see GRAIN_BYTES.
_SHORT_BYTES: Final = 256


class Caller(Protocol):
    """Who makes a call: a client of this server, or of a rendering node.

    ``home`` is the number of the node it is connected to, 0 for this server; ``stream_port`` is where that client fetches
    streams, None: at this server's port.
    """

    home: int
    stream_port: int | None

    def answer(self, call_id: int | None, result: bytes) -> None:
        """Send the answer to a call."""
        ...


class Sender(NamedTuple):
    """Whom a call counts for: who made it, and the rank that its commands have among those of one tick.

    The rank is the number of the node it came through, unless it came by ticket: a client that moves to another node between
    two commands of one tick must not be overruled by its own former ones.
    """

    caller: Caller
    rank: int

    @property
    def home(self) -> int:
        return self.caller.home


class Call(NamedTuple):
    """A call whose arguments are checked. ``raw`` is the message as it came: the journal keeps it, nodes pass it on."""

    caller: Caller
    id: int | None
    method: Method
    arguments: tuple[Any, ...]
    raw: bytes = b""


class RefusedRequest(NamedTuple):
    """A request that is no call: the id to answer with, and what is wrong."""

    id: int | None
    why: str


class RpcServer:
    """What the connections of one server, or of one rendering node, share.

    A call goes one of three ways: ``answer_now`` at once, in the event loop, if its method is ``quick`` (None: not here after
    all); ``answer_aside`` if it may take long but needs no world; ``submit`` to wait for the world. ``gone`` is told of clients
    that disconnect. ``memory`` is shared with the streams of the same server.
    """

    def __init__(
        self,
        methods: Mapping[str, Method],
        submit: Callable[[Call], None],
        answer_now: Callable[[Call], bytes | None],
        answer_aside: Callable[[Call], None],
        gone: Callable[["Connection"], None],
        log: Callable[[str], None],
        limits: ServerLimits,
        memory: MemoryBudget | None = None,
        dialect: Dialect | None = None,
    ) -> None:
        self.methods = methods
        self.dialect = dialect
        self.submit = submit
        self.answer_now = answer_now
        self.answer_aside = answer_aside
        self.gone = gone
        self.log = log
        self.limits = limits
        self.memory = memory or MemoryBudget(limits.memory_bytes, log)
        self.reader = MessageReader()
        self.connections: set[Connection] = set()
        self.tokens: Counter[str] = Counter()  # of the state's stream, by host, which nobody has come with yet
        self.managers = TrafficManagers(log)

    def has_older(self, host: str) -> bool:
        """Does somebody fetch the state's stream from this host as a client does that is too old: without its token?

        Asked once for every such connection: each takes one of the tokens that clients of this host have asked for.
        """
        if self.tokens[host]:
            self.tokens[host] -= 1
            return False
        return any(connection.host == host and connection.handshake is Handshake.EPISODE for connection in self.connections)

    def close(self) -> None:
        """Disconnect everybody."""
        for connection in tuple(self.connections):
            connection.cut_off()  # what it has sent and nobody has looked at is not read any more
        self.reader.shutdown()


class MessageReader(Executor):
    """Reads large messages in one thread, one after the other.

    A process that ends does not wait for it, as it does for the threads of ``concurrent.futures``: on a
    busy machine the message that is being read takes seconds.
    """

    def __init__(self) -> None:
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._is_closed = False
        threading.Thread(target=self._run, name="samepath messages", daemon=True).start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":  # noqa: ANN401 - as its base
        """Have something done."""
        future: Future[Any] = Future()
        self._work.put((future, partial(fn, *args, **kwargs)))
        return future

    def _run(self) -> None:
        while (item := self._work.get()) is not None and not self._is_closed:
            future, work = item
            if not future.set_running_or_notify_cancel():
                continue
            result, error = None, None
            try:
                result = work()
            except BaseException as raised:  # the event loop gets it
                error = raised
            if self._is_closed:
                return  # so is the event loop, perhaps
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Begin nothing more; what is under way is left to itself."""
        self._is_closed = True
        while not self._work.empty():
            if (item := self._work.get()) is not None:
                item[0].cancel()
        self._work.put(None)


class Handshake(IntEnum):
    """How far a client of CARLA's has come into a world; others need not go this way."""

    NONE = 0
    VERSION = 1
    EPISODE = 2
    TOKEN = 3


class Connection(asyncio.Protocol):
    """One client's connection; it is the :class:`Caller` of the calls that come over it."""

    def __init__(self, server: RpcServer) -> None:
        self._server = server
        self._framer = Framer(server.limits.message_bytes, MalformedCallError)
        self._messages: deque[bytes] = deque()  # whole ones that have not been looked at
        self._next_turn: asyncio.Handle | None = None  # other clients are served before the rest is
        self._messages_bytes = 0
        self._reading_bytes = 0  # of a large one that is being read; the next ones wait for it
        self._has_left = False
        self._transport: asyncio.Transport | None = None
        self._waiting = 0  # calls that have not been answered
        self._waiting_sizes: deque[int] = deque()  # the bytes that each of them takes, in the order of the calls; and the sum
        self._waiting_bytes = 0
        self._noted: dict[int | None, str] = {}  # of those that wait, the ones that matter to traffic managers
        self._translated: dict[int | None, str] = {}  # of those that wait, the ones whose answer is another one in our dialect
        self.handshake = Handshake.NONE
        self._awaits_state = False  # the first one: only calls of _BEFORE_FIRST_STATE came since the handshake
        self._answers: SendQueue | None = None
        self._unread = False  # the client does not fetch its answers
        self._heeded = True  # a traffic manager is being woken: its calls wait
        self._paused = False
        self._is_cut_off = False  # by us
        self._deadline: asyncio.TimerHandle | None = None  # of a message that has begun
        self.held_bytes = 0
        self.name = "somebody"
        self.host = ""
        self.home = 0
        self.stream_port: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a client in, unless there are too many."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("a stream transport was wanted")
        peer = transport.get_extra_info("peername") or ("?", 0)
        self.host, self.name = str(peer[0]), f"{peer[0]}:{peer[1]}"
        server = self._server
        if len(server.connections) >= server.limits.connections:
            server.log(f"{self.name} was turned away: {server.limits.connections} clients are connected already")
            transport.abort()
            return
        if server.memory.is_spent:
            server.log(f"{self.name} was turned away: the memory for clients is spent")
            transport.abort()
            return
        self._transport = transport
        self._answers = SendQueue(transport)
        server.connections.add(self)
        server.memory.join(self)

    def connection_lost(self, _: Exception | None) -> None:
        self._let_go()
        if self in self._server.connections:  # not if it was turned away
            self._server.connections.discard(self)
            self._server.managers.gone(self)
            if self._awaits_state and not self._is_cut_off:
                served = NEWEST if self._server.dialect is None else self._server.dialect.version
                self._server.log(
                    f"{self.name} disconnected at its first state of the world: expected version {served} of CARLA's client; "
                    "for another version start the server with --protocol VERSION"
                )
            self._has_left = True
            if not self._reading_bytes:  # else that call comes first
                self._server.gone(self)
            self._update_memory()

    def _let_go(self) -> None:
        """Nothing more is sent or read; calls that wait for the world are done all the same."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        if self._answers is not None:
            self._answers.clear()
        self._messages.clear()
        self._messages_bytes = 0
        self._framer.clear()
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def data_received(self, data: bytes) -> None:
        """Take bytes; calls that are complete are made, as many at once as a client may have waiting."""
        if self._transport is None:
            return
        if self._cut_messages(data):
            if self._framer.size_bytes and self._deadline is None:
                self._await_rest()
            self._make_calls()

    def _cut_messages(self, data: bytes) -> bool:
        """Cut messages out of what has come; what is none ends the connection."""
        try:
            for message in self._framer.feed(data, _MESSAGES_PER_TURN):
                self._messages.append(message)
                self._messages_bytes += len(message) + _MESSAGE_BYTES
        except (MalformedCallError, MemoryError) as error:
            self._close(str(error) if isinstance(error, MalformedCallError) else "a message for which there is no memory")
            self._update_memory()
            return False
        return True

    def _await_rest(self) -> None:
        """Give what is left of a message that has begun its time, unless it is us who do not read."""
        before = self._framer.messages

        def end() -> None:
            self._deadline = None
            if self._transport is None or not self._framer.size_bytes:
                return
            if self._framer.messages != before or self._paused:
                self._await_rest()
            else:
                self._close(f"the beginning of a message and not the rest of it within {self._server.limits.message_s:g} s")

        self._deadline = asyncio.get_running_loop().call_later(self._server.limits.message_s, end)

    def hold_bytes(self) -> int:
        """What the server keeps for this client: see :class:`MemoryBudget`."""
        unsent_bytes = self._answers.size_bytes if self._answers is not None and self._transport is not None else 0
        unread_bytes = self._messages_bytes + _READING_FACTOR * self._reading_bytes + self._framer.memory_bytes
        return unsent_bytes + unread_bytes + self._waiting_bytes

    def _update_memory(self) -> None:
        if self._transport is None and not self._waiting and not self._reading_bytes:
            self._server.memory.leave(self)
            return
        size_bytes = self.hold_bytes()
        if not -GRAIN_BYTES < size_bytes - self.held_bytes < GRAIN_BYTES:
            self._server.memory.update(self, size_bytes)

    def cut_off(self) -> None:
        """The memory is needed elsewhere."""
        self._is_cut_off = True
        self._let_go()

    def _close(self, why: str) -> None:
        self._server.log(f"{self.name} was disconnected: it sent {why}")
        self._is_cut_off = True
        self._let_go()

    def _make_calls(self) -> None:
        """Make calls of the messages that came, as many at once as a client may have waiting."""
        if not self._messages and self._framer.has_more and not self._cut_messages(b""):
            return
        limits = self._server.limits
        ready: list[Call] = []
        taken = 0
        try:
            while self._messages and taken < _MESSAGES_PER_TURN and self._may_read_on:
                taken += 1
                message = self._messages.popleft()
                self._messages_bytes -= len(message) + _MESSAGE_BYTES
                if len(message) < limits.message_aside_bytes:
                    self._take(self._read(message), ready)
                else:
                    self._reading_bytes = len(message)
                    reading = asyncio.get_running_loop().run_in_executor(self._server.reader, self._read, message)
                    reading.add_done_callback(self._was_read)
        except MalformedCallError as error:
            self._close(str(error))
        if self._has_messages and self._may_read_on and self._next_turn is None:
            self._next_turn = asyncio.get_running_loop().call_soon(self._take_turn)
        self._throttle()
        self._update_memory()
        # Last of all: this wakes the episode's thread, which would then wait for the interpreter until we are done.
        for call in ready:
            (self._server.answer_aside if call.method.aside else self._server.submit)(call)

    @property
    def _has_messages(self) -> bool:
        return bool(self._messages) or self._framer.has_more

    @property
    def _may_read_on(self) -> bool:
        """Return True if nothing of this client has to be done or fetched before its next message."""
        limits = self._server.limits
        return (
            not self._unread
            and not self._reading_bytes
            and self._waiting < limits.calls_waiting
            and self._waiting_bytes < limits.calls_waiting_bytes
        )

    def _take_turn(self) -> None:
        self._next_turn = None
        self._make_calls()

    def _read(self, message: bytes) -> "Call | RefusedRequest":
        """Make a call of a message; in any thread."""
        if self._server.dialect is not None:
            message = self._server.dialect.request(message, self._server.limits.structured_bytes)
        request = parse(message, self._server.limits)
        try:
            return checked_call(self._server.methods, request, self, message)
        except codec.WireError as error:
            return RefusedRequest(request.id, str(error))

    def _was_read(self, reading: "asyncio.Future[Call | RefusedRequest]") -> None:
        self._reading_bytes = 0
        if reading.cancelled():
            return
        try:
            # Of a client that has gone by itself meanwhile the call is done all the same, as if it had been read at once.
            found = reading.result()
            if not self._is_cut_off:
                ready: list[Call] = []
                self._take(found, ready)
                for call in ready:
                    (self._server.answer_aside if call.method.aside else self._server.submit)(call)
        except MalformedCallError as error:
            self._close(str(error))
        if self._has_left:
            self._server.gone(self)
        self._make_calls()
        self._update_memory()

    def _throttle(self) -> None:
        """Read on only when what came before has been taken up."""
        hold = self._has_messages or bool(self._reading_bytes) or self._unread or not self._heeded
        if self._transport is None or hold == self._paused:
            return
        self._paused = hold
        if hold:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _take(self, call: "Call | RefusedRequest", ready: list[Call]) -> None:
        """Answer a call, or say why it cannot be done; what must wait for the world goes to ``ready``."""
        if isinstance(call, RefusedRequest):
            if call.id is not None:
                self._send(codec.refusal(call.id, call.why))
            return
        server, method = self._server, call.method
        name = method.name
        if self.handshake is not Handshake.TOKEN or self._awaits_state:
            self._shake_hands(name)
        if name == "get_sensor_token" and call.arguments == (WORLD_STREAM,):
            # Bounded: who asks and never comes must not let an old client through for ever.
            server.tokens[self.host] = min(server.tokens[self.host] + 1, server.limits.connections)
        if self.handshake is Handshake.EPISODE and name == "get_episode_settings":
            server.log(f"{self.name} was refused: {TOO_OLD}")
            if call.id is not None:
                self._send(codec.answer(call.id, method.error(TOO_OLD)))
            return
        noted = server.managers.called(self, name, call.arguments)
        result = server.answer_now(call) if method.quick and self._may_overtake(name) else None
        if result is None:
            self._waiting += 1
            size_bytes = _memory_bytes(call, server.limits)
            self._waiting_sizes.append(size_bytes)
            self._waiting_bytes += size_bytes
            if noted:
                self._noted[call.id] = noted
            if server.dialect is not None and server.dialect.changes(name):
                self._translated[call.id] = name
            ready.append(call)
            return
        if call.id is None:
            return
        message = codec.answer(call.id, result if server.dialect is None else server.dialect.answer(name, result))
        if name == ASKS:
            server.managers.tell_settings(self, partial(self._send, message))
        else:
            self._send(message)

    def _shake_hands(self, name: str) -> None:
        """Follow a client into its first world: version, episode, token of the state's stream, connection, all the rest."""
        if self.handshake is Handshake.TOKEN:
            self._awaits_state = name in _BEFORE_FIRST_STATE
        elif name == "version":
            self.handshake = Handshake.VERSION
        elif name == "get_episode_info" and self.handshake is Handshake.VERSION:
            self.handshake = Handshake.EPISODE
        elif name == "get_sensor_token":
            self._awaits_state = self.handshake is Handshake.EPISODE
            self.handshake = Handshake.TOKEN

    def _may_overtake(self, name: str) -> bool:
        """May a quick call be answered before those that wait?

        A client's calls are answered in their order. Settings are the exception: they are the same before a tick and after it,
        and a traffic manager must have them before the tick is answered, see ``traffic_managers.py``.
        """
        if self._server.managers.is_loading(self):
            return False
        return not self._waiting or (name == ASKS and self._waiting == list(self._noted.values()).count("tick_cue"))

    def answer(self, call_id: int | None, result: bytes) -> None:
        """Send the answer to a call that was submitted; it may have to wait for traffic managers."""
        self._server.managers.answer(self, self._noted.get(call_id, ""), lambda: self._answer(call_id, result))

    def _answer(self, call_id: int | None, result: bytes) -> None:
        self._waiting -= 1
        # Of a call that was answered beside the world, before an older one, it is the older one's size that is taken off: ids
        # are the client's and may repeat, and when nothing waits any more nothing is counted.
        self._waiting_bytes -= self._waiting_sizes.popleft()
        self._noted.pop(call_id, None)
        translated = self._translated.pop(call_id, "")
        if translated and self._server.dialect is not None:
            result = self._server.dialect.answer(translated, result)
        if self._transport is not None:
            if call_id is not None:
                self._send(codec.answer(call_id, result))
            if self._has_messages:
                self._make_calls()
        self._update_memory()

    def await_nothing(self) -> None:
        """Calls of a client that has gone will not be answered to us any more: nothing is kept for them.

        Where answers come from elsewhere, as on a rendering node, they are not passed on to who has gone. Without this its
        calls would wait for ever, and everything that was kept for the client with them.
        """
        self._waiting = self._waiting_bytes = 0
        self._waiting_sizes.clear()
        self._noted.clear()
        self._update_memory()

    def _send(self, data: bytes) -> None:
        if self._transport is not None and self._answers is not None and not self._transport.is_closing():
            self._answers.write(data)
            if not self._unread and self._answers.size_bytes > self._server.limits.unread_answer_bytes:
                self._unread = True  # it is read no further
                self._throttle()

    def abort(self) -> None:
        """Disconnect at once."""
        if self._transport is not None:
            self._transport.abort()

    def heed(self, on: bool) -> None:
        """Take the calls that come, or let them wait."""
        self._heeded = on
        self._throttle()

    def pause_writing(self) -> None:
        """Let answers wait here: the socket takes no more."""
        if self._answers is not None:
            self._answers.pause()

    def resume_writing(self) -> None:
        """Send on; a client that has fetched most of its answers is read again."""
        if self._answers is None:
            return
        self._answers.resume()
        if self._unread and self._answers.size_bytes <= self._server.limits.unread_answer_bytes // _READ_AGAIN_SHARE:
            self._unread = False
            if self._has_messages:
                self._make_calls()
            self._throttle()
        self._update_memory()


def _memory_bytes(call: Call, limits: ServerLimits) -> int:
    """What a call takes while it waits, rather too much than too little; the text of a map is not multiplied."""
    size_bytes = len(call.raw)
    if size_bytes < _SHORT_BYTES:
        return size_bytes
    items = sum([len(argument) for argument in call.arguments if type(argument) is tuple])
    runs = [argument for argument in call.arguments if type(argument) in (str, bytes)]
    structured_bytes = min(max(size_bytes - sum(map(len, runs)), 0), limits.structured_bytes)
    memory_bytes = size_bytes + sum(map(sys.getsizeof, runs))
    return memory_bytes + _MEMORY_PER_BYTE * structured_bytes + _MEMORY_PER_ITEM * items


def checked_call(methods: Mapping[str, Method], request: "RpcRequest", caller: Caller, raw: bytes) -> Call:
    """The call that a request is; its arguments are read only where there is a handler for them.

    Every call is made here, wherever it comes from: this server's port, a node, a ticket, a journal.
    """
    method = methods.get(request.name)
    if method is None:
        raise codec.WireError(f"samepath has no method {request.name[:100]!r}")
    if method.handler is None:
        return Call(caller, request.id, method, (), raw)
    return Call(caller, request.id, method, method.read(request.arguments), raw)


class MalformedCallError(Exception):
    """Bytes that end a connection."""


class RpcRequest(NamedTuple):
    """A call as it came: the id to answer with (None: no answer is wanted), the name, and the arguments after the first.

    The arguments of a large message are unpacked while they are read: a method may refuse them before.
    """

    id: int | None
    name: str
    arguments: list[Any] | codec.LargeArguments


def parse(message: bytes, limits: ServerLimits) -> RpcRequest:
    """Read one message. The first argument of every call is CARLA's metadata and left out.

    A map or a file is one text and costs what its bytes cost. Lists and numbers take many times their bytes once they are
    Python objects: of those only ``structured_bytes`` are unpacked, and not before a method asks for them.
    """
    arguments: list[Any] | codec.LargeArguments
    try:
        if len(message) > min(limits.structured_bytes, codec.PIECE_BYTES):
            head, arguments = codec.large_call(message, limits.structured_bytes)
        else:
            value = codec.unpack(message)
            if type(value) is not list or not value or type(value[-1]) is not list:
                raise MalformedCallError("no call")
            head, arguments = value[:-1], value[-1][1:]
    except codec.WireError:
        raise MalformedCallError("no call") from None
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        raise MalformedCallError(f"no MessagePack ({type(error).__name__})") from None
    kind, *ids, name = head if 2 <= len(head) <= 3 else (None, None)
    has_id = all(type(call_id) is int and 0 <= call_id <= 0xFFFF_FFFF for call_id in ids)
    if type(kind) is not int or kind != (_REQUEST if ids else _NOTIFICATION) or not has_id:
        raise MalformedCallError("no call")
    if type(name) is not str or len(name) > _NAME_MAX:
        raise MalformedCallError("no call")
    return RpcRequest(ids[0] if ids else None, name, arguments)
