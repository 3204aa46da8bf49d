"""A rendering node: CARLA's two ports for clients, a studio for the orders of the main server, no physics.

Three threads: the event loop has the clients, the link's thread talks to the main server, the drawing thread draws. Calls that
the node cannot answer itself go to the main server as they came, in the order in which they came.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from samepath import __version__
from samepath.base.clock import SYSTEM_CLOCK
from samepath.base.errors import SamepathError
from samepath.sim.cluster import messages as m
from samepath.sim.cluster.drawing import Built, Drawing, Drawn, Load, Result, Show
from samepath.sim.cluster.identity import boot_id, fingerprint, host_name, map_digest
from samepath.sim.cluster.link.allocator import hold_memory
from samepath.sim.cluster.link.errors import LinkError, LinkLostError, TooLargeError
from samepath.sim.cluster.link.events import Received
from samepath.sim.cluster.link.keys import Keys
from samepath.sim.cluster.link.node_link import NodeLink
from samepath.sim.cluster.mirror import HERE, Mirror, read_actor, scene_sent
from samepath.sim.maps import RoadMap
from samepath.sim.server import records as r
from samepath.sim.server.frames import WORLD_STREAM
from samepath.sim.server.limits import Limits
from samepath.sim.server.methods import methods
from samepath.sim.server.ports import listen
from samepath.sim.server.rpc import Call, Caller, Office
from samepath.sim.server.streams import Hub, Listener

_BEAT_S: Final = 0.5
LEFT, LOST, REFUSED = 0, 1, 2
"""How a node's process ends: it was told to, it lost the main server, it was not let in."""


@dataclass(frozen=True)
class NodeSettings:
    """How a node is started. ``handicap`` above 1 makes it draw slower by that factor, for experiments."""

    name: str
    ordinal: int
    main_endpoint: str
    main_public: str
    public: str
    secret: str = field(repr=False)
    host: str = "127.0.0.1"
    port: int = 0
    threads: int = 1
    handicap: float = 1.0
    shared_memory: bool = True
    limits: Limits = field(default_factory=Limits)


class Node:
    """A node at work, from its greeting to its end."""

    def __init__(self, settings: NodeSettings, log: Callable[[str], None]) -> None:
        self._settings = settings
        self._log = log
        self._outgoing: deque[tuple[m.Message, tuple[bytes, ...]]] = deque()
        self._callers: dict[int, Caller] = {}
        self._numbers: dict[Caller, int] = {}
        self._next_client = 1
        self._shown_frame = 0
        self._delivered: dict[int, int] = {}
        self._number = 0
        self._road_map: RoadMap | None = None
        self._code = LEFT
        self._over = asyncio.Event()
        self._stopping = False

    # -- the event loop ----------------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Work until told to go; returns how it ended."""
        settings = self._settings
        hold_memory()
        self._loop = asyncio.get_running_loop()
        self._hub = Hub(settings.limits, lambda stream: self._post(m.Quiet(stream)), self._log)
        streams = await listen(lambda: Listener(self._hub), settings.host, settings.port + 1 if settings.port else 0)
        table = {name: replace(one, quick=name in HERE or one.handler is None, aside=False) for name, one in methods().items()}
        self._office = Office(table, self._forward, self._answer, self._forward, self._gone, self._log, settings.limits)
        try:
            calls = await listen(lambda: Caller(self._office), settings.host, settings.port)
        except BaseException:
            streams.close()
            raise
        self._rpc_port, self._stream_port = (one.sockets[0].getsockname()[1] for one in (calls, streams))
        self._servers = (calls, streams)
        try:
            self._link = NodeLink(
                settings.main_endpoint,
                Keys(settings.public, settings.secret),
                settings.main_public,
                shared_memory=settings.shared_memory,
                log=self._log,
            )
        except BaseException:
            self._close_ports()
            raise
        talking = threading.Thread(target=self._talk, name="samepath link", daemon=True)
        talking.start()
        beating = asyncio.ensure_future(self._beat())
        await self._over.wait()
        beating.cancel()
        self._stopping = True
        self._link.wake()
        await self._loop.run_in_executor(None, talking.join, 2.0)
        self._close_ports()
        return self._code

    def _close_ports(self) -> None:
        for one in self._servers:
            one.close()
        for caller in tuple(self._office.callers):
            caller.abort()
        self._hub.close()

    async def _beat(self) -> None:
        while True:
            self._post(m.Beat(SYSTEM_CLOCK.monotonic_s(), len(self._office.callers)))
            await asyncio.sleep(_BEAT_S)

    def _end(self, code: int, line: str) -> None:
        """End the node; from any thread."""

        def end() -> None:
            if not self._over.is_set():
                self._code = code
                self._log(line)
                self._over.set()

        self._loop.call_soon_threadsafe(end)

    def stop(self, line: str) -> None:
        """End the node as if it had been told to."""
        self._end(LEFT, line)

    def _answer(self, call: Call) -> bytes | None:
        if call.method.handler is None:
            return call.method.run(None, (), self._log)
        return self._mirror.answer(call) if self._number else None

    def _forward(self, call: Call) -> None:
        caller = call.caller
        if not isinstance(caller, Caller):
            return
        number = self._numbers.get(caller)
        if number is None:
            number = self._numbers[caller] = self._next_client
            self._next_client += 1
            self._callers[number] = caller
        self._post(m.Called(number, SYSTEM_CLOCK.monotonic_s()), call.raw)

    def _gone(self, caller: Caller) -> None:
        number = self._numbers.pop(caller, None)
        if number is not None:
            del self._callers[number]
            self._post(m.Left(number))

    def _post(self, message: m.Message, *bulk: bytes) -> None:
        """Send something to the main server; from any thread."""
        self._outgoing.append((message, bulk))
        self._link.wake()

    # -- the link's thread -------------------------------------------------------------------------------------------

    def _talk(self) -> None:
        settings = self._settings
        hello = m.Hello(
            settings.name, __version__, fingerprint(), host_name(), boot_id(), os.getpid(), settings.host, self._rpc_port,
            self._stream_port, os.cpu_count() or 1,
        )  # fmt: skip
        try:
            self._link.send(m.written(hello))
            while not self._stopping:
                for event in self._link.poll(_BEAT_S):
                    if isinstance(event, Received):
                        self._receive(m.read(event.message), event.bulk)
                while self._outgoing:
                    self._send(*self._outgoing.popleft())
        except LinkError as error:
            lost = isinstance(error, LinkLostError)
            self._end(LOST if lost else REFUSED, str(error))
        except SamepathError as error:
            self._end(LOST, f"the main server sent something that cannot be read: {error}")
        except Exception as error:  # a node that does not listen any more must not stay behind
            self._end(LOST, f"error of ours: {type(error).__name__}: {error}")
        finally:
            if self._number:
                self._drawing.close()
            self._link.close()

    def _send(self, message: m.Message, bulk: tuple[bytes, ...]) -> None:
        try:
            self._link.send(m.written(message), bulk)
        except TooLargeError as error:
            if not isinstance(message, m.Seen):
                raise
            # A picture, or what its sensor remembers, is too large: the main server is told why there is none.
            trouble = f"it is too large for a cluster, choose a smaller picture: {error}"
            made = [[sensor, False, trouble, b"", cost_s] for sensor, _, _, _, cost_s in message.made]
            self._link.send(m.written(message._replace(made=made)))

    def _receive(self, message: m.Message, bulk: tuple[bytes, ...]) -> None:  # noqa: PLR0912 - one branch per message
        if isinstance(message, m.Tick):
            self._tick(message, bulk[0])
        elif isinstance(message, m.Answered):
            self._loop.call_soon_threadsafe(self._answered, message, bulk[0])
        elif isinstance(message, m.Streamed):
            self._loop.call_soon_threadsafe(self._deliver, message.stream, bulk[0], message.frame, message.lossless)
        elif isinstance(message, m.NewActors):
            came = [read_actor(one) for one in message.came]
            self._loop.call_soon_threadsafe(self._mirror.change, came, message.gone, message.spectator)
        elif isinstance(message, m.NewSettings):
            settings, weather = r.settings(message.settings), r.weather(message.weather)
            self._loop.call_soon_threadsafe(self._mirror.settle, settings, weather)
        elif isinstance(message, m.NewEpisode):
            self._new_episode(message, bulk[0])
        elif isinstance(message, m.Told):
            self._loop.call_soon_threadsafe(self._post, m.Heard(message.number))
        elif isinstance(message, m.Prepared):
            self._loop.call_soon_threadsafe(self._hub.prepare, bulk[0])
        elif isinstance(message, m.Expected):
            self._loop.call_soon_threadsafe(self._hub.expect, message.stream)
        elif isinstance(message, m.Forgotten):
            self._loop.call_soon_threadsafe(self._forget, message.stream)
        elif isinstance(message, m.Welcome):
            self._welcome(message)
        elif isinstance(message, m.Joined):
            self._loop.call_soon_threadsafe(self._mirror.begin)
            self._loop.call_soon_threadsafe(self._open)
        elif isinstance(message, m.Refused):
            self._end(REFUSED, f"the main server refused this node: {message.why}")
        elif isinstance(message, m.Leave):
            self._end(LEFT, f"the main server has told this node to go: {message.why}")

    def _welcome(self, message: m.Welcome) -> None:
        settings = self._settings
        self._mirror = Mirror(message.aliases, self._stream_port, settings.limits, self._log)
        self._drawing = Drawing(message.number, settings.threads, settings.handicap, self._drawn, self._hang, self._log)
        self._number = message.number

    def _new_episode(self, message: m.NewEpisode, xodr: bytes) -> None:
        scene = scene_sent(message.shown, message.real, xodr.decode())
        self._road_map = scene.road_map
        self._loop.call_soon_threadsafe(self._mirror.load, message.episode, scene)
        self._drawing.put(Load(message.episode, self._road_map))

    def _tick(self, message: m.Tick, shown: bytes) -> None:
        if not message.again:
            state, _ = m.parts_of(shown)
            self._loop.call_soon_threadsafe(self._state, state, message.frame, message.lossless)
        homes = tuple(tuple(one) for one in message.homes)
        self._drawing.put(Show(message.frame, shown, message.orders, homes, message.timed, message.lossless))

    # -- the drawing thread ------------------------------------------------------------------------------------------

    def _drawn(self, result: Result) -> None:
        if isinstance(result, Built):
            digest = map_digest(self._road_map) if self._road_map is not None else ""
            self._post(m.Ready(result.episode, digest, result.picture))
            return
        self._post(result.seen, *result.bulk)
        if result.own:
            self._loop.call_soon_threadsafe(self._deliver_own, result)

    def _hang(self, error: Exception) -> None:
        self._end(LOST, f"error of ours while drawing: {type(error).__name__}: {error}")

    # -- back in the event loop --------------------------------------------------------------------------------------

    def _open(self) -> None:
        async def open_doors() -> None:
            for one in reversed(self._servers):
                await one.start_serving()
            self._log(f"{self._settings.name} serves clients on {self._settings.host}:{self._rpc_port}")

        self._opening = asyncio.ensure_future(open_doors())

    def _state(self, state: bytes, frame: int, lossless: bool) -> None:
        if frame > self._shown_frame:
            self._shown_frame = frame
            self._hub.send(WORLD_STREAM, state, lossless=lossless)

    def _deliver_own(self, result: Drawn) -> None:
        for stream, payload in result.own:
            self._deliver(stream, payload, result.seen.frame, result.lossless)

    def _deliver(self, stream: int, payload: bytes, frame: int, lossless: bool) -> None:
        """Give a message to listeners; of a sensor that sees each frame once, whoever drew it, and none out of order."""
        if frame:
            if frame <= self._delivered.get(stream, 0):
                return
            self._delivered[stream] = frame
        self._hub.send(stream, payload, lossless=lossless)

    def _forget(self, stream: int) -> None:
        self._delivered.pop(stream, None)
        self._hub.forget(stream)

    def _answered(self, message: m.Answered, result: bytes) -> None:
        caller = self._callers.get(message.client)
        if caller is not None:
            caller.answer(message.id, result)


def run_node(settings: NodeSettings, log: Callable[[str], None]) -> int:
    """Run a node until it is told to go, or loses the main server; returns how it ended. SIGTERM and Ctrl-C end it."""
    import signal

    async def run() -> int:
        node = Node(settings, log)
        loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for one in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(one, node.stop, f"{settings.name} was told to stop")
        return await node.run()

    return asyncio.run(run())
