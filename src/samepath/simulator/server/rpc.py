"""The RPC port: one client's bytes in, calls out, answers back.

MessagePack objects follow one another without lengths. They are cut apart before anything is built from them, so that size
and shape are known first; what is no MessagePack, too long or no call closes that connection, with one line in the log.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

import msgpack

from samepath.simulator.carla import codec
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.server.methods.table import Method
from samepath.simulator.server.traffic_managers import ASKS, CUES, NOTED, TrafficManagers

_REQUEST, _NOTIFICATION = 0, 2
_UNPACK: Final = {"raw": False, "strict_map_key": True, "use_list": True}


class MalformedCallError(Exception):
    """Bytes that end a connection."""


class Framer:
    """Cuts a stream of bytes into whole MessagePack objects."""

    def __init__(self, limits: ServerLimits) -> None:
        self._most = limits.message_bytes
        self._scanner = msgpack.Unpacker(max_buffer_size=self._most)
        self._held = bytearray()
        self._start = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add bytes; yield every object that is complete."""
        self._held += data
        if len(self._held) > self._most + len(data):
            raise MalformedCallError(f"a message of more than {self._most} bytes")
        try:
            self._scanner.feed(data)
            while True:
                self._scanner.skip()
                end = self._scanner.tell()
                size = end - self._start
                message = bytes(self._held[:size])
                del self._held[:size]
                self._start = end
                yield message
        except msgpack.OutOfData:
            pass
        except msgpack.BufferFull:
            raise MalformedCallError(f"a message of more than {self._most} bytes") from None
        except (ValueError, msgpack.UnpackException) as error:
            raise MalformedCallError(f"no MessagePack ({type(error).__name__})") from None
        if len(self._held) > self._most:
            raise MalformedCallError(f"a message of more than {self._most} bytes")


class RpcRequest(NamedTuple):
    """A call as it came: the id to answer with (None: no answer is wanted), the name, and the arguments after the first.

    ``oversize`` says what is wrong with a message that was too large to be unpacked; then there are no arguments.
    """

    id: int | None
    name: str
    arguments: list[Any]
    oversize: str = ""


def parse(message: bytes, limits: ServerLimits) -> RpcRequest:
    """Read one message. The first argument of every call is CARLA's metadata and left out."""
    if len(message) > limits.structured_bytes:
        return _parse_large(message, limits)
    try:
        value = msgpack.unpackb(message, **_UNPACK)
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        raise MalformedCallError(f"no MessagePack ({type(error).__name__})") from None
    if type(value) is not list or len(value) not in (3, 4) or value[0] != (_REQUEST if len(value) == 4 else _NOTIFICATION):
        raise MalformedCallError("no call")
    name: Any
    name, arguments = value[-2:]
    call_id = value[1] if len(value) == 4 else None
    if not _is_head(call_id, name, whole=len(value) == 4) or type(arguments) is not list:
        raise MalformedCallError("no call")
    return RpcRequest(call_id, name, arguments[1:])


def _is_head(call_id: object, name: object, *, whole: bool) -> bool:
    fits = type(call_id) is int and 0 <= call_id <= 0xFFFF_FFFF
    return type(name) is str and len(name) <= 256 and (fits or not whole)


def _parse_large(message: bytes, limits: ServerLimits) -> RpcRequest:
    """Read a large message piece by piece: only one text or one run of bytes may be what makes it large."""
    try:
        unpacker = msgpack.Unpacker(max_buffer_size=len(message), **_UNPACK)
        unpacker.feed(message)
        if unpacker.read_array_header() != 4 or unpacker.unpack() != _REQUEST:
            raise MalformedCallError("no call")
        call_id = unpacker.unpack() if unpacker.tell() < len(message) else None
        name = _small(unpacker, message)
        if not _is_head(call_id, name, whole=True):
            raise MalformedCallError("no call")
        count = unpacker.read_array_header()
        sizes, start = [], unpacker.tell()
        for _ in range(count):
            unpacker.skip()
            sizes.append((start, unpacker.tell()))
            start = unpacker.tell()
        plain = sum(end - at for at, end in sizes if not _is_run(message[at]))
        if plain > limits.structured_bytes:
            return RpcRequest(call_id, name, [], f"its arguments have more than {limits.structured_bytes} bytes")
        return RpcRequest(call_id, name, [msgpack.unpackb(message[at:end], **_UNPACK) for at, end in sizes][1:])
    except (ValueError, msgpack.UnpackException, msgpack.OutOfData) as error:
        raise MalformedCallError(f"no MessagePack ({type(error).__name__})") from None


def _small(unpacker: Any, message: bytes) -> Any:  # noqa: ANN401 - MessagePack's unpacker
    """Unpack the next object if it is a short text."""
    lead = message[unpacker.tell()]
    if not (0xA0 <= lead <= 0xBF or lead == 0xD9):
        raise MalformedCallError("no call")
    return unpacker.unpack()


def _is_run(lead: int) -> bool:
    """Does an object that starts with this byte hold one text or one run of bytes?"""
    return 0xC4 <= lead <= 0xC6 or 0xD9 <= lead <= 0xDB or 0xA0 <= lead <= 0xBF


class Caller(Protocol):
    """Who makes a call: a client of this server, or of a rendering node.

    ``home`` is the number of the node, 0 here; ``stream_port`` where that client fetches streams, None: at this server's.
    """

    home: int
    stream_port: int | None

    def answer(self, call_id: int | None, result: bytes) -> None:
        """Send the answer to a call."""
        ...


class Call(NamedTuple):
    """A call whose arguments are checked; ``raw`` is the message as it came."""

    caller: Caller
    id: int | None
    method: Method
    arguments: tuple[Any, ...]
    raw: bytes = b""


class RpcServer:
    """What the connections of one server share."""

    def __init__(
        self,
        methods: Mapping[str, Method],
        submit: Callable[[Call], None],
        answer_now: Callable[[Call], bytes | None],
        answer_aside: Callable[[Call], None],
        gone: Callable[["Connection"], None],
        log: Callable[[str], None],
        limits: ServerLimits,
    ) -> None:
        self.methods = methods
        self.submit = submit
        self.answer_now = answer_now
        self.answer_aside = answer_aside
        self.gone = gone
        self.log = log
        self.limits = limits
        self.callers: set[Connection] = set()
        self.managers = TrafficManagers(log)


class Connection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, office: RpcServer) -> None:
        self._office = office
        self._framer = Framer(office.limits)
        self._queue: deque[bytes] = deque()
        self._transport: asyncio.Transport | None = None
        self._waiting = 0
        self._noted: dict[int | None, str] = {}  # of the calls that wait those that matter to traffic managers
        self._unread = False
        self._paused = False
        self._heeded = True
        self.name = "somebody"
        self.host = ""
        self.home = 0
        self.stream_port: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet a client, unless there are too many."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("a stream transport was wanted")
        peer = transport.get_extra_info("peername") or ("?", 0)
        self.host, self.name = str(peer[0]), f"{peer[0]}:{peer[1]}"
        office = self._office
        if len(office.callers) >= office.limits.connections:
            office.log(f"{self.name} was turned away: {office.limits.connections} clients are connected already")
            transport.abort()
            return
        transport.set_write_buffer_limits(high=office.limits.unread_answer_bytes)
        self._transport = transport
        office.callers.add(self)

    def connection_lost(self, _: Exception | None) -> None:
        """Forget a client."""
        self._transport = None
        self._queue.clear()
        if self in self._office.callers:
            self._office.callers.discard(self)
            self._office.managers.gone(self)
            self._office.gone(self)

    def data_received(self, data: bytes) -> None:
        """Take bytes; calls that are complete are made, as many at once as a client may have waiting."""
        if self._transport is None:
            return
        try:
            self._queue.extend(self._framer.feed(data))
            self._work()
        except MalformedCallError as error:
            self._close(str(error))

    def _close(self, why: str) -> None:
        self._office.log(f"{self.name} was disconnected: it sent {why}")
        self._queue.clear()
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def _work(self) -> None:
        limits = self._office.limits
        while self._queue and self._waiting < limits.calls_waiting and not self._unread:
            raw = self._queue.popleft()
            self._call(parse(raw, limits), raw)
        self._throttle()

    def _throttle(self) -> None:
        """Read on only when what came before has been taken up."""
        held = bool(self._queue) or self._unread or not self._heeded
        if self._transport is None or held == self._paused:
            return
        self._paused = held
        if held:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _call(self, request: RpcRequest, raw: bytes) -> None:
        method = self._office.methods.get(request.name)
        if method is None:
            self._refuse(request.id, f"samepath has no method {request.name!r}")
            return
        if request.oversize and method.handler is not None:
            self._refuse(request.id, f"{request.name}: {request.oversize}")
            return
        try:
            arguments = method.read(request.arguments) if method.handler is not None else ()
        except codec.WireError as error:
            self._refuse(request.id, str(error))
            return
        call = Call(self, request.id, method, arguments, raw)
        self._office.managers.called(self, request.name, arguments)
        result = self._office.answer_now(call) if method.quick and self._may_be_first(request.name) else None
        if result is not None:
            self._write(request.id, result)
            if request.name == ASKS:
                self._office.managers.settled(self)
        else:
            self._waiting += 1
            if request.name in NOTED:
                self._noted[request.id] = request.name
            (self._office.answer_aside if method.aside else self._office.submit)(call)

    def _may_be_first(self, name: str) -> bool:
        """May a quick call be answered before those that wait? Settings are the same before a tick and after it."""
        return not self._waiting or (name == ASKS and self._waiting == list(self._noted.values()).count("tick_cue"))

    def _refuse(self, call_id: int | None, message: str) -> None:
        if call_id is not None:
            self._send(codec.refusal(call_id, message))

    def _write(self, call_id: int | None, result: bytes) -> None:
        if call_id is not None:
            self._send(codec.answer(call_id, result))

    def _send(self, data: bytes) -> None:
        """Write to a client that is still there."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def answer(self, call_id: int | None, result: bytes) -> None:
        """Send the answer to a call that was submitted; that to a tick may have to wait for traffic managers."""
        if self._noted.get(call_id) in CUES:
            self._office.managers.hold(self, lambda: self._answer(call_id, result))
        else:
            self._answer(call_id, result)

    def _answer(self, call_id: int | None, result: bytes) -> None:
        self._waiting -= 1
        noted = self._noted.pop(call_id, None)
        if self._transport is None:
            return
        self._write(call_id, result)
        if noted == ASKS:
            self._office.managers.settled(self)
        if self._queue:
            try:
                self._work()
            except MalformedCallError as error:
                self._close(str(error))

    def abort(self) -> None:
        """Disconnect."""
        if self._transport is not None:
            self._transport.abort()

    def heed(self, on: bool) -> None:
        """Take the calls that come, or let them wait."""
        self._heeded = on
        self._throttle()

    def pause_writing(self) -> None:
        """The client does not fetch its answers: stop reading from it."""
        self._unread = True
        self._throttle()

    def resume_writing(self) -> None:
        """The client has fetched its answers."""
        self._unread = False
        if self._queue:
            try:
                self._work()
            except MalformedCallError as error:
                self._close(str(error))
        self._throttle()
