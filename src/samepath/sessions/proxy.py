"""A proxy between CARLA's clients and a CARLA server: everything passes, everything is recorded, nothing is made up.

Two ports, as the server has: calls, and streams on the next one. Each client's connection gets a connection of its own to the
server, and what comes on one side goes out on the other, whole message by whole message for calls, piece by piece for streams.
CARLA's third port, which is for secondary servers that draw, is not used by clients and not passed on.

*No byte is changed*, but for the token in the answer to ``get_sensor_token``: it leads clients to the streams' port, and must
lead them here (``wire.py``). How many bytes that were is counted and stands in the recording.

*What a recording's order means.* A call is written down when it is handed to the server, a state or an answer before its last
byte is handed to a client. One event loop does all of it, so a client cannot react to something that is not written down yet,
and calls of one connection reach the server in the order that is recorded. Two connections are two sockets, and a server may
read them in either order. In synchronous mode that would matter for one thing: whether a call came before a tick. So a tick
waits until the calls of other connections have been answered, and they wait until the tick is (``_may_pass``). This delays,
and changes nothing else; asynchronous worlds, and sessions with one client, are never delayed.

A client that does not read is not read for: what waits on one side stops reading on the other, as if they were connected.
"""

import asyncio
import socket
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from samepath import __version__
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import InputError
from samepath.core.network import Listener, listen
from samepath.sessions.methods import ACTOR_ANSWERS, is_read, value_of
from samepath.sessions.recording import (
    RECORDING_BYTES_MOST,
    VERSION,
    SessionAnswer,
    SessionCall,
    SessionConnection,
    SessionContent,
    SessionFrame,
    SessionHeader,
    SessionRows,
    SessionState,
    SessionWriter,
)
from samepath.sessions.wire import (
    ANSWER_BYTES_MOST,
    CALL_BYTES_MOST,
    TOKEN_METHODS,
    CallHead,
    SessionWireError,
    StreamCutter,
    StreamedState,
    StreamToken,
    observer_in,
    read_answer,
    read_call,
    redirected,
    unpacked,
)
from samepath.simulator.carla.codec import Framer
from samepath.simulator.carla.streams import WORLD_STREAM

ARGUMENTS_WHOLE_BYTES: Final = 256 << 10
ANSWER_WHOLE_BYTES: Final = 16 << 10
ACTOR_ANSWER_WHOLE_BYTES: Final = 1 << 20
_CLIENTS_MOST: Final = 256
_LISTENERS_MOST: Final = 2048
_UNREAD_BYTES: Final = 8 << 20
_FLUSH_S: Final = 0.2
_CONNECT_S: Final = 10.0
_REASON_MOST: Final = 120
_ID_BYTES: Final = 4
_TICK: Final = "tick_cue"
_FRAME_ANSWERS: Final = frozenset({_TICK, "set_episode_settings"})


@dataclass(frozen=True)
class ProxySettings:
    """Between which ports: the server's, and our own (0: any two; else the streams' port is the next one)."""

    server_host: str
    server_port: int
    host: str = "127.0.0.1"
    port: int = 2000
    facts: dict[str, str] = field(default_factory=dict)
    most_bytes: int = RECORDING_BYTES_MOST


def read_address(text: str, option: str = "--server") -> tuple[str, int]:
    """Read HOST:PORT; the port is 2000 if it is left out."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, "2000"
    if not host.strip("[]") or not (port.isascii() and port.isdecimal()) or not 1 <= int(port) <= 65534:
        raise InputError(f"{option}: HOST:PORT was wanted, such as 127.0.0.1:2000, but {text!r} came")
    return host.strip("[]"), int(port)


def reason(error: OSError | UnicodeError) -> str:
    """Why something could not be reached, in a few words on one line.

    Where a name stands for many addresses, asyncio's text holds a part for each of them: as long as whoever answers for that
    name likes, and it would be written for every client that tries.
    """
    said = getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error) or "no answer"
    line = "".join(sign if sign.isprintable() else " " for sign in str(said))
    return line if len(line) <= _REASON_MOST else f"{line[: _REASON_MOST - 3]}..."


class SessionProxy:
    """Passes on and records; one recording for all clients. Lives in one event loop."""

    def __init__(self, settings: ProxySettings, path: Path, log: Callable[[str], None]) -> None:
        self.settings = settings
        self.log = log
        self._path = path
        self.clients: set[_ClientSide] = set()
        self.listeners: set[_ListenerSide] = set()
        self.port = self.stream_port = 0
        self.frame = 0  # the newest that was seen
        self.calls = self.states = self.connections = self.rewritten_bytes = 0
        self.observers = {WORLD_STREAM}  # streams with states
        self.tokens: dict[int, StreamToken] = {}  # where each stream is fetched, as the server said
        self.leaders: dict[int, _ListenerSide] = {}  # of each stream the listener whose messages are written down
        self._synchronous = False
        self._episode = self._state_frame = -1
        self._table = SessionRows()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flusher: asyncio.TimerHandle | None = None
        self._has_complained = False

    async def start(self) -> None:
        """Take both ports, begin the recording and let clients in; what cannot be had leaves no file behind."""
        settings = self.settings
        self._streams: Listener = await listen(
            lambda: _ListenerSide(self), settings.host, settings.port + 1 if settings.port else 0, self.log
        )
        try:
            self._calls: Listener = await listen(lambda: _ClientSide(self), settings.host, settings.port, self.log)
            try:
                facts = {"server": f"{settings.server_host}:{settings.server_port}", **settings.facts}
                self.writer = SessionWriter(self._path, SessionHeader(VERSION, __version__, facts), settings.most_bytes)
            except BaseException:
                self._calls.close()
                raise
        except BaseException:
            self._streams.close()
            raise
        self.port, self.stream_port = self._calls.port, self._streams.port
        self._streams.start_serving()
        self._calls.start_serving()
        self._flush()

    async def stop(self, why: str) -> None:
        """Let nobody in any more, disconnect everybody and end the recording."""
        self._calls.close()
        self._streams.close()
        for side in (*self.clients, *self.listeners):
            side.close()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))
        await asyncio.sleep(0)  # connections that were closed are told so now, and write that down
        if self._flusher is not None:
            self._flusher.cancel()
        self.writer.close(why, self.rewritten_bytes)
        self._check_writer()

    def _flush(self) -> None:
        self.writer.flush()
        self._check_writer()
        self._flusher = asyncio.get_running_loop().call_later(_FLUSH_S, self._flush)

    def _check_writer(self) -> None:
        if self.writer.problem and not self._has_complained:
            self._has_complained = True
            self.log(f"the recording ends here: {self.writer.problem}; clients are served on")

    def beside(self, work: Coroutine[None, None, None]) -> None:
        """Run something beside; it ends with the proxy."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def note_connection(self, number: int | None, stream: int | None) -> int:
        """Write down that a client has come (``number`` None: it gets one) or gone."""
        opened = number is None
        if number is None:
            self.connections += 1
            number = self.connections
        self.writer.add(SessionConnection(number, stream, opened, SYSTEM_CLOCK.monotonic_s()))
        return number

    def note_call(self, connection: int, call: CallHead) -> int:
        """Write a call down as it goes to the server; returns its number."""
        self.calls += 1
        arguments = SessionContent.of(call.arguments, ARGUMENTS_WHOLE_BYTES)
        now_s = SYSTEM_CLOCK.monotonic_s()
        self.writer.add(SessionCall(self.calls, connection, call.method, arguments, self.frame, now_s))
        return self.calls

    def note_answer(self, sent: "_SentCall", *, refused: bool, result: bytes) -> None:
        """Write an answer down before it goes to its client."""
        if not refused and sent.method in _FRAME_ANSWERS:
            value = value_of(unpacked(result))
            self.frame = max(self.frame, value) if type(value) is int else self.frame
        if sent.method == "get_episode_info" and (observer := observer_in(result)) is not None:
            self.observers.add(observer)
        if sent.method == "set_episode_settings":
            self._synchronous = sent.synchronous
        elif sent.method == "load_new_episode":
            self._synchronous = self._synchronous and not sent.synchronous
        most = ACTOR_ANSWER_WHOLE_BYTES if sent.method in ACTOR_ANSWERS else ANSWER_WHOLE_BYTES
        self.writer.add(SessionAnswer(sent.number, refused, SessionContent.of(result, most), self.frame))

    def note_state(self, state: StreamedState) -> None:
        """Write a state down, once however many clients get it."""
        if state.frame <= self._state_frame and state.episode == self._episode:
            return
        self._episode, self._state_frame = state.episode, state.frame
        self.frame = max(self.frame, state.frame)
        self.states += 1
        positions, rows = self._table.changes(state.rows)
        content = (state.flags, len(self._table.rows), state.digest, positions, rows)
        self.writer.add(SessionState(state.frame, state.elapsed_s, state.delta_s, state.episode, *content))

    def may_pass(self, side: "_ClientSide", method: str) -> bool:
        """May this client's next call go to the server now? See the order of a recording, above."""
        if not self._synchronous or len(self.clients) < 2 or is_read(method):
            return True
        others = [other for other in self.clients if other is not side]
        if method == _TICK:
            return not any(other.acts for other in others)
        return not any(other.ticks for other in others)

    def let_pass(self) -> None:
        """An answer has come, or a client has gone: others may have waited for it, also the only one that is left."""
        for side in sorted((side for side in self.clients if side.is_held), key=lambda side: side.held_since):
            side.send_held()


@dataclass
class _SentCall:
    """A call that has not been answered; ``synchronous`` is the flag of the two methods that change the mode."""

    number: int
    method: str
    synchronous: bool = False


class _Half(asyncio.Protocol):
    """The server's half of a connection: hands what comes to its client's half, and stops when told."""

    def __init__(self, received: Callable[[bytes], None], ended: Callable[[], None], unread: Callable[[bool], None]) -> None:
        self._received, self._ended, self._unread = received, ended, unread

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        _prepare(transport)

    def data_received(self, data: bytes) -> None:
        self._received(data)

    def connection_lost(self, _: Exception | None) -> None:
        self._ended()

    def pause_writing(self) -> None:
        self._unread(True)

    def resume_writing(self) -> None:
        self._unread(False)


def _prepare(transport: asyncio.BaseTransport) -> asyncio.Transport:
    if not isinstance(transport, asyncio.Transport):
        raise TypeError("a stream transport was wanted")
    transport.set_write_buffer_limits(high=_UNREAD_BYTES)
    # A short packet must not wait for the one before it (see ``core.network``); on the way to the server it is set here.
    found = transport.get_extra_info("socket")
    if found is not None:
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return transport


class _Pair(asyncio.Protocol, ABC):
    """A client's half of a connection, and what it shares with the server's half."""

    def __init__(self, proxy: SessionProxy) -> None:
        self._proxy = proxy
        self._client: asyncio.Transport | None = None
        self._server: asyncio.Transport | None = None
        self.name = "somebody"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._client = _prepare(transport)
        peer = transport.get_extra_info("peername") or ("?", 0)
        self.name = f"{peer[0]}:{peer[1]}"

    async def _reach(self, host: str, port: int) -> None:
        """Connect to the server; the client is not read before that."""
        loop = asyncio.get_running_loop()
        half = _Half(self._from_server, self.close, self._hold_client)
        try:
            async with asyncio.timeout(_CONNECT_S):
                transport, _ = await loop.create_connection(lambda: half, host, port)
        except (OSError, UnicodeError) as error:  # a name that cannot be one, such as a..b, is a UnicodeError
            self._proxy.log(f"{host}:{port} cannot be reached ({reason(error)}): {self.name} was disconnected")
            self.close()
            return
        if self._client is None:
            transport.abort()
            return
        self._server = transport
        self._reached()

    @abstractmethod
    def _reached(self) -> None:
        """The server is there: what the client sent meanwhile can go."""

    @abstractmethod
    def _from_server(self, data: bytes) -> None:
        """Bytes came from the server."""

    def _hold_client(self, unread: bool) -> None:
        """The server does not read: do not read from the client either."""
        _pause(self._client, unread)

    def pause_writing(self) -> None:
        _pause(self._server, True)

    def resume_writing(self) -> None:
        _pause(self._server, False)

    def connection_lost(self, _: Exception | None) -> None:
        self.close()

    def close(self) -> None:
        """End both halves; what is under way to either is still sent."""
        for transport in (self._client, self._server):
            if transport is not None:
                transport.close()
        self._client = self._server = None


def _pause(transport: asyncio.Transport | None, pause: bool) -> None:
    if transport is not None and not transport.is_closing():
        if pause:
            transport.pause_reading()
        else:
            transport.resume_reading()


class _ClientSide(_Pair):
    """A client that calls."""

    def __init__(self, proxy: SessionProxy) -> None:
        super().__init__(proxy)
        self._requests = Framer(CALL_BYTES_MOST, SessionWireError)
        self._answers = Framer(ANSWER_BYTES_MOST, SessionWireError)
        self._number: int | None = None
        self._unanswered: dict[int, _SentCall] = {}
        self._held: deque[tuple[CallHead, bytes]] = deque()
        self.held_since = 0.0
        self.acts = 0  # calls that are with the server and may change the world
        self.ticks = 0  # of them ticks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self._proxy.clients) >= _CLIENTS_MOST:
            self._proxy.log(f"{self.name} was turned away: {_CLIENTS_MOST} clients are connected already")
            self.close()
            return
        self._proxy.clients.add(self)
        self._number = self._proxy.note_connection(None, None)
        _pause(self._client, True)
        settings = self._proxy.settings
        self._proxy.beside(self._reach(settings.server_host, settings.server_port))

    def _reached(self) -> None:
        _pause(self._client, False)

    def close(self) -> None:
        if self._number is not None:
            self._proxy.note_connection(self._number, None)
            self._number = None
        self._held.clear()
        self.acts = self.ticks = 0
        self._proxy.clients.discard(self)
        super().close()
        self._proxy.let_pass()

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._requests.feed(data):
                call = read_call(message)
                if self._held or not self._proxy.may_pass(self, call.method):
                    if not self._held:
                        self.held_since = SYSTEM_CLOCK.monotonic_s()
                        _pause(self._client, True)
                    self._held.append((call, message))
                else:
                    self._send(call, message)
        except SessionWireError as error:
            self._proxy.log(f"{self.name} was disconnected: it sent {error}")
            self.close()

    @property
    def is_held(self) -> bool:
        return bool(self._held)

    def send_held(self) -> None:
        """Send what had to wait for others, as far as it may go now."""
        was_held = bool(self._held)
        while self._held and self._proxy.may_pass(self, self._held[0][0].method):
            self._send(*self._held.popleft())
        if was_held and not self._held:
            _pause(self._client, False)

    def _send(self, call: CallHead, message: bytes) -> None:
        if self._server is None or self._number is None:
            return
        number = self._proxy.note_call(self._number, call)
        if call.id is not None:
            sent = self._unanswered[call.id] = _SentCall(number, call.method, _mode_in(call))
            if not is_read(sent.method):
                self.acts += 1
                self.ticks += sent.method == _TICK
        self._server.write(message)

    def _from_server(self, data: bytes) -> None:
        try:
            for message in self._answers.feed(data):
                self._pass_answer(message)
        except SessionWireError as error:
            self._proxy.log(f"{self.name} was disconnected: the server sent it {error}")
            self.close()

    def _pass_answer(self, message: bytes) -> None:
        answer = read_answer(message)
        sent = self._unanswered.pop(answer.id, None)
        if sent is not None:
            self._proxy.note_answer(sent, refused=answer.refused, result=answer.result)
            if sent.method in TOKEN_METHODS and not answer.refused:
                message = self._led_here(message, answer.result)
        if self._client is not None:
            self._client.write(message)
        if sent is not None and not is_read(sent.method):
            self.acts -= self.acts > 0
            self.ticks -= sent.method == _TICK and self.ticks > 0
            self._proxy.let_pass()

    def _led_here(self, message: bytes, result: bytes) -> bytes:
        found = redirected(message, result, self._proxy.stream_port)
        if found is None:
            return message
        changed, token = found
        self._proxy.tokens[token.stream] = token
        self._proxy.rewritten_bytes += sum(a != b for a, b in zip(message, changed, strict=True))
        return changed


def _mode_in(call: CallHead) -> bool:
    """The flag of a call that changes the mode: synchronous, or for a new episode that settings are reset."""
    if call.method not in ("set_episode_settings", "load_new_episode"):
        return False
    match unpacked(call.arguments):
        case [_, [bool() as synchronous, *_]] if call.method == "set_episode_settings":
            return synchronous
        case [_, _, bool() as reset, *_] if call.method == "load_new_episode":
            return reset
    return False


class _ListenerSide(_Pair):
    """A client that listens to a stream. It says which one; after that only the server speaks."""

    def __init__(self, proxy: SessionProxy) -> None:
        super().__init__(proxy)
        self._hello = bytearray()
        self._stream = -1
        self._number: int | None = None
        self._cutter: StreamCutter | None = None  # none: nothing is recorded

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self._proxy.listeners) >= _LISTENERS_MOST:
            self._proxy.log(f"a stream was refused: {_LISTENERS_MOST} are listened to already")
            self.close()
            return
        self._proxy.listeners.add(self)

    def data_received(self, data: bytes) -> None:
        if len(self._hello) >= _ID_BYTES:
            if self._server is not None:
                self._server.write(data)  # no client of CARLA's sends anything here
            return
        self._hello += data
        if len(self._hello) < _ID_BYTES:
            return
        self._stream = int.from_bytes(self._hello[:_ID_BYTES], "little")
        self._number = self._proxy.note_connection(None, self._stream)
        self._cutter = StreamCutter(world=self._stream in self._proxy.observers)
        settings, token = self._proxy.settings, self._proxy.tokens.get(self._stream)
        host = token.host if token is not None and token.host is not None else settings.server_host
        self._proxy.beside(self._reach(host, token.port if token is not None else settings.server_port + 1))

    def _reached(self) -> None:
        self._proxy.leaders.setdefault(self._stream, self)
        if self._server is not None:
            self._server.write(bytes(self._hello))

    def _from_server(self, data: bytes) -> None:
        if self._cutter is not None:
            try:
                for found in self._cutter.feed(data):
                    if isinstance(found, StreamedState):
                        self._proxy.note_state(found)
                    elif self._proxy.leaders.get(self._stream) is self:
                        content = (found.sensor_type, found.frame, found.size_bytes, found.digest)
                        self._proxy.writer.add(SessionFrame(self._stream, *content))
            except SessionWireError as error:
                self._cutter = None
                self._proxy.log(f"stream {self._stream} is passed on but not recorded any more: the server sent {error}")
        if self._client is not None:
            self._client.write(data)

    def close(self) -> None:
        if self._number is not None:
            self._proxy.note_connection(self._number, self._stream)
            self._number = None
        self._proxy.listeners.discard(self)
        if self._proxy.leaders.get(self._stream) is self:
            del self._proxy.leaders[self._stream]
            # Whoever else listens to it has had the same messages; from now on theirs are written down.
            others = [other for other in self._proxy.listeners if other._stream == self._stream and other._server is not None]
            if others:
                self._proxy.leaders[self._stream] = min(others, key=lambda other: other._number or 0)
        super().close()
