"""A rendering node: CARLA's two ports for clients, a renderer for the requests of the main server, no physics.

Three threads: the event loop has the clients, the link's thread talks to the main server, the render thread draws. None of them
waits for another: a node that draws still answers its clients, and its heartbeats go on, so that the main server can tell a
slow node from a frozen one. They hand work over by ``call_soon_threadsafe``, the render thread's queue, and ``_send_soon``.

Calls that the node cannot answer itself go to the main server as they came, in the order in which they came. A node keeps
nothing that matters: when it loses the main server it ends, and another one is started.
"""

import asyncio
import os
import queue
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple

from samepath import __version__
from samepath.cluster import messages as m
from samepath.cluster.identity import boot_id, digest_of, fingerprint, map_digest, understood_digest
from samepath.cluster.link.compression import Mode
from samepath.cluster.link.keys import Keys
from samepath.cluster.link.memory import hold_memory
from samepath.cluster.link.neighbours import NeighbourFrame, Neighbours
from samepath.cluster.link.node_link import NodeLink
from samepath.cluster.link.wire import LinkError, LinkLostError, Received, TooLargeError
from samepath.cluster.placement.records import keep_to_cores
from samepath.cluster.replica import ANSWERED_HERE, Replica, map_sent, read_actor, read_settings
from samepath.cluster.settings import link_limits
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SamepathError
from samepath.core.network import Listener, PortTakenError, listen
from samepath.core.states import Pose, Vector
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.carla.streams import WORLD_STREAM
from samepath.simulator.maps import RoadMap, load_map
from samepath.simulator.sensors.building import build_code
from samepath.simulator.sensors.labels import ActorAppearance
from samepath.simulator.sensors.weather import SceneWeather
from samepath.simulator.server.dialects import Dialect, dialect_of
from samepath.simulator.server.memory import process_budget
from samepath.simulator.server.methods import methods
from samepath.simulator.server.rendering import LocalRenderer, RenderRequest, RenderResult, SceneView, unpack_requests
from samepath.simulator.server.rpc import Call, Connection, RpcServer, Sender
from samepath.simulator.server.server import fitted
from samepath.simulator.server.streams import StreamConnection, StreamHub

_HEARTBEAT_S: Final = 0.5
# How often a node looks whether its ports are free that were counted up from the main server's.
_PORT_RETRY_S: Final = 0.5
# Results are asked for again within a second or so: of a tick there may be several, one for each round.
_SENT_KEPT: Final = 16
LEFT, LOST, REFUSED = 0, 1, 2
"""How a node's process ends: it was told to, it lost the main server, it was not let in."""
_TEST_MAP: Final = "t-junction"
_TEST_SENSORS: Final = (
    ("sensor.camera.rgb", (("image_size_x", "96"), ("image_size_y", "64"))),
    ("sensor.camera.depth", (("image_size_x", "96"), ("image_size_y", "64"))),
    ("sensor.lidar.ray_cast_semantic", (("points_per_second", "20000"),)),
)


@dataclass(frozen=True)
class NodeSettings:
    """How a node is started. ``handicap`` above 1 makes it draw slower by that factor, for experiments.

    ``compress``: whether frames for other hosts may go compressed. ``cores`` are those that it may use; none: all. ``renderer``
    is software, cuda or auto: a cluster draws the same bytes everywhere, so no other one is taken. ``waits_for_port``: the
    port was not chosen by a user, so the node waits until it is free, instead of ending.
    """

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
    compress: Mode = "auto"
    cores: tuple[int, ...] = ()
    limits: ServerLimits = field(default_factory=ServerLimits)
    renderer: str = "software"
    waits_for_port: bool = False


def run_node(settings: NodeSettings, log: Callable[[str], None]) -> int:
    """Run a node until it is told to go, or loses the main server; returns how it ended. SIGTERM and Ctrl-C end it."""
    import signal

    if settings.cores:
        keep_to_cores(settings.cores)  # before any thread is started: they stay where their process is
    # Before it joins: from then on a tick may wait for it.
    build_code(log)

    async def run() -> int:
        node = Node(settings, log)
        loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, node.stop, f"{settings.name} was told to stop")
        return await node.run()

    return asyncio.run(run())


class BuildMap(NamedTuple):
    """For the render thread: build what a map needs."""

    episode: int
    road_map: RoadMap


class RenderTick(NamedTuple):
    """For the render thread: look at a tick, and draw what is due."""

    frame: int
    data: bytes
    requests: bytes
    memories: tuple[bytes, ...]
    listeners: tuple[tuple[int, ...], ...]
    timed: bool
    lossless: bool


class MapBuilt(NamedTuple):
    """From the render thread: a map is ready; ``picture`` is the digest of a picture that every node draws alike."""

    episode: int
    picture: str


class TickRendered(NamedTuple):
    """From the render thread: the answer for the main server and its bulk, and what this node's own listeners get.

    ``own`` has for each frame its stream, its head and what was measured.
    ``direct`` goes to nodes of other hosts, by their numbers; ``made`` is all that was drawn, in case it does not arrive there.
    """

    result: m.TickResult
    bulk: tuple[bytes, ...]
    own: tuple[tuple[int, bytes, bytes], ...]
    lossless: bool
    direct: tuple[tuple[int, NeighbourFrame], ...] = ()
    made: tuple[RenderResult, ...] = ()


RenderOutput = MapBuilt | TickRendered


class Node:
    """A node at work, from its greeting to its end."""

    def __init__(self, settings: NodeSettings, log: Callable[[str], None]) -> None:
        self._settings = settings
        self._log = log
        self._outgoing: deque[tuple[m.FromNode, tuple[bytes, ...]]] = deque()
        self._for_loop: deque[Callable[[], object]] = deque()
        self._servers: tuple[Listener, ...] = ()
        self._clients: dict[int, Connection] = {}
        self._client_numbers: dict[Connection, int] = {}
        self._next_client = 1
        self._sent_frame = 0
        self._delivered: dict[int, int] = {}
        self._number = 0
        self._road_map: RoadMap | None = None
        self._code = LEFT
        self._over = asyncio.Event()
        self._stopping = False
        self._membership = 0
        self._neighbours: Neighbours | None = None
        self._sent: deque[TickRendered] = deque(maxlen=_SENT_KEPT)  # that went to other nodes directly

    # In the event loop.

    async def run(self) -> int:
        """Work until told to go; returns how it ended."""
        settings = self._settings
        hold_memory()
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._on_loop_error)
        # Ports are bound now, because Hello names them, and opened to clients when the node has joined (``_open``).
        limits = fitted(settings.limits, self._log)
        memory = process_budget(limits.memory_bytes, self._log)
        self._hub = StreamHub(limits, self._unheard, self._log, memory)
        # Whatever this node does not answer itself is forwarded as it came: nothing may be answered aside, out of order.
        table = {
            name: replace(method, quick=name in ANSWERED_HERE or method.handler is None, aside=False)
            for name, method in methods().items()
        }
        self._rpc = RpcServer(table, self._forward, self._answer, self._forward, self._gone, self._log, limits, memory)
        self._hub.is_too_old = self._rpc.has_older
        self._servers = await self._take_ports()
        if not self._servers:
            self._close_ports()
            return self._code  # it was stopped before its ports were free
        self._rpc_port, self._stream_port = (server.port for server in self._servers)
        try:
            self._link = NodeLink(
                settings.main_endpoint,
                Keys(settings.public, settings.secret),
                settings.main_public,
                shared_memory=settings.shared_memory,
                limits=link_limits(settings.limits),
                log=self._log,
                compress=settings.compress,
            )
        except BaseException:
            self._close_ports()
            raise
        talking = threading.Thread(target=self._talk, name="samepath link", daemon=True)
        talking.start()
        heartbeat = asyncio.ensure_future(self._send_heartbeats())
        await self._over.wait()
        heartbeat.cancel()
        self._stopping = True
        self._link.wake()
        # The link's thread may be inside a send to a main server that does not read; the process ends without it then.
        await self._loop.run_in_executor(None, talking.join, 2.0)
        self._close_ports()
        return self._code

    async def _take_ports(self) -> tuple[Listener, ...]:
        """Take the ports for calls and streams; nothing if the node is stopped before they are free."""
        settings, has_logged = self._settings, False
        while not self._over.is_set():
            calls = None
            try:
                calls = await listen(lambda: Connection(self._rpc), settings.host, settings.port, self._log)
                stream_port = settings.port + 1 if settings.port else 0
                return calls, await listen(lambda: StreamConnection(self._hub), settings.host, stream_port, self._log)
            except BaseException as error:
                if calls is not None:
                    calls.close()
                if not isinstance(error, PortTakenError) or not settings.waits_for_port:
                    raise
                if not has_logged:
                    has_logged = True
                    ports = f"{settings.host}:{settings.port} or {settings.port + 1}"
                    self._log(f"{ports} is taken by another program: {settings.name} starts when both are free")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), _PORT_RETRY_S)
        return ()

    def _close_ports(self) -> None:
        for server in self._servers:
            server.close()
        self._rpc.close()
        self._hub.close()

    async def _send_heartbeats(self) -> None:
        while True:
            self._send_soon(m.Heartbeat(len(self._rpc.connections)))
            await asyncio.sleep(_HEARTBEAT_S)

    def _end(self, code: int, line: str) -> None:
        """End the node; from any thread."""

        def end() -> None:
            if not self._over.is_set():
                self._code = code
                self._log(line)
                self._over.set()

        self._loop.call_soon_threadsafe(end)

    def _on_loop_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An error of ours in the event loop costs the connection it was in; anywhere else the node ends, and is replaced."""
        transport = context.get("transport")
        words = f"error of ours in the event loop: {context.get('message')}: {context.get('exception')!r}"
        if isinstance(transport, asyncio.Transport):
            self._log(words)
            transport.abort()
        else:
            self._end(LOST, words)

    def stop(self, line: str) -> None:
        """End the node as if it had been told to."""
        self._end(LEFT, line)

    def _answer(self, call: Call) -> bytes | None:
        if call.method.handler is None:
            return call.method.run(None, Sender(call.caller, call.caller.home), (), self._log)
        return self._replica.answer(call) if self._number else None

    def _forward(self, call: Call) -> None:
        caller = call.caller
        if not isinstance(caller, Connection):
            return
        number = self._client_numbers.get(caller)
        if number is None:  # numbers are never used again: a late answer must not reach another client
            number = self._client_numbers[caller] = self._next_client
            self._next_client += 1
            self._clients[number] = caller
        self._send_soon(m.ClientCall(number, SYSTEM_CLOCK.monotonic_s()), call.raw)

    def _gone(self, caller: Connection) -> None:
        number = self._client_numbers.pop(caller, None)
        if number is not None:
            del self._clients[number]
            caller.await_nothing()
            self._send_soon(m.ClientGone(number))

    def _unheard(self, stream: int) -> None:
        self._delivered.pop(stream, None)
        self._send_soon(m.StreamUnused(stream))

    def _send_soon(self, message: m.FromNode, *bulk: bytes) -> None:
        """Send something to the main server; from any thread.

        On the main server's host whoever has something writes it to the pipe. What cannot be sent so, and whatever comes while
        such a thing waits, is left to the link's thread: the order stays that in which it was handed over here.
        """
        if not self._outgoing and self._try_send(message, bulk):
            return
        self._outgoing.append((message, bulk))
        self._link.wake()

    def _try_send(self, message: m.FromNode, bulk: tuple[bytes, ...]) -> bool:
        try:
            return self._link.try_send(m.encode(message), bulk)
        except TooLargeError:
            return False  # the link's thread says why

    # In the link's thread.

    def _talk(self) -> None:
        settings = self._settings
        hello = m.Hello(
            settings.name, __version__, fingerprint(), socket.gethostname(), boot_id(), os.getpid(), settings.host,
            self._rpc_port, self._stream_port, os.cpu_count() or 1,
        )  # fmt: skip
        try:
            self._link.send(m.encode(hello))
            while not self._stopping:
                # One thread owns the link, so others leave messages in a queue and wake it.
                for event in self._link.poll(_HEARTBEAT_S):
                    if isinstance(event, Received):
                        self._receive(m.from_main(event.message), event.bulk)
                while self._outgoing:
                    # It stays in front until it is sent: what comes meanwhile must not overtake it.
                    self._send(*self._outgoing[0])
                    self._outgoing.popleft()
        except LinkError as error:
            lost = isinstance(error, LinkLostError)
            self._end(LOST if lost else REFUSED, str(error))
        except SamepathError as error:
            self._end(LOST, f"the main server sent something that cannot be read: {error}")
        except BaseException as error:  # a node that does not listen any more must not stay behind
            self._end(LOST, f"error of ours: {type(error).__name__}: {error}")
        finally:
            if self._number:
                self._render_thread.close()
            if self._neighbours is not None:
                self._neighbours.close()
            self._link.close()

    def _send(self, message: m.FromNode, bulk: tuple[bytes, ...]) -> None:
        try:
            self._link.send(m.encode(message), bulk, pack=isinstance(message, m.TickResult))
        except TooLargeError as error:
            if not isinstance(message, m.TickResult):
                raise
            # A picture, or what its sensor remembers, is too large: the main server is told why there is none. The renderer
            # refuses such ones, so this is for a main server whose limits are other ones.
            why = f"it is too large for a cluster, choose a smaller picture: {error}"
            results = tuple(m.SensorResult(result.sensor, False, why, False, result.cost_s) for result in message.results)
            self._link.send(m.encode(m.TickResult(message.frame, message.digest, message.busy_s, results)))

    def _receive(self, message: m.FromMain, bulk: tuple[bytes, ...]) -> None:  # noqa: PLR0912 - one branch per message
        in_loop = self._in_loop
        match message:
            case m.TickMessage():
                self._tick(message, bulk[0], bulk[1:])
            case m.CallResult():
                in_loop(self._answer_client, message, bulk[0])
            case m.StreamData():
                found = self._held(message) if message.held else b"".join(bulk)
                if found is not None:
                    in_loop(self._deliver, message.stream, found, message.frame, message.lossless)
            case m.NewActors():
                in_loop(self._replica.change, [read_actor(actor) for actor in message.came], message.gone, message.spectator)
            case m.NewSettings():
                in_loop(self._replica.settle, *read_settings(message))
            case m.NewEpisode():
                self._new_episode(message, bulk[0])
            case m.Sync():
                in_loop(self._send_soon, m.Synced(message.number))  # behind all that was handed to the loop before
            case m.LatestState():
                in_loop(self._rpc.managers.prepare, partial(self._hub.prepare, bulk[0]))
            case m.ExpectListener():
                in_loop(self._expect, message.stream, message.frame)
            case m.StreamClosed():
                in_loop(self._forget, message.stream)
            case m.Welcome():
                self._welcome(message)
            case m.Joined():
                in_loop(self._replica.begin)
                in_loop(self._open)
            case m.DoorWanted():
                self._open_door()
            case m.Neighbour():
                if self._neighbours is None:
                    self._open_door()
                if self._neighbours is not None:
                    self._neighbours.meet(message.number, message.membership, message.endpoint, message.public)
            case m.NeighbourGone():
                if self._neighbours is not None:
                    self._neighbours.part(message.number)
            case m.Resend():
                self._resend(message.frame)
            case m.Refused():
                self._end(REFUSED, f"the main server refused this node: {message.why}")
            case m.Leave():
                self._end(LEFT, f"the main server has told this node to go: {message.why}")

    def _welcome(self, message: m.Welcome) -> None:
        settings = self._settings
        # Before the first state comes and the ports are opened.
        self._in_loop(self._speak, dialect_of(message.protocol))
        self._replica = Replica(message.aliases, self._stream_port, settings.limits, self._log)
        self._render_thread = RenderThread(
            message.number,
            LocalRenderer(
                settings.threads or len(os.sched_getaffinity(0)),
                # A node that was to draw on a card and cannot goes on in software: its pictures are the same, only later.
                "auto" if settings.renderer == "cuda" else settings.renderer,
                settings.limits.measurement_bytes,
                said=self._log,
            ),
            settings.handicap,
            self._rendered,
            self._render_failed,
            self._log,
            self._reaches,
        )
        self._membership = message.membership
        self._number = message.number

    # Frames from node to node, see ``direct.py``; in the link's thread.

    def _open_door(self) -> None:
        """Let other nodes send frames here, and say where."""
        settings = self._settings
        if self._neighbours is None:
            keys = Keys(settings.public, settings.secret)
            limits = link_limits(settings.limits)
            try:
                self._neighbours = Neighbours(settings.host, keys, limits, settings.compress, self._on_held, self._log)
            except SamepathError as error:
                self._log(f"frames of other nodes come through the main server: {error}")
                return
        self._send_soon(m.Reachable(self._neighbours.port, settings.public))

    def _reaches(self, number: int) -> bool:
        """Can frames go to that node directly? From any thread."""
        return self._neighbours is not None and self._neighbours.reaches(number)

    def _on_held(self, sender: int, frame: int, sensors: tuple[int, ...]) -> None:
        self._send_soon(m.FramesHeld(sender, frame, sensors))

    def _held(self, message: m.StreamData) -> bytes | None:
        found = None if self._neighbours is None else self._neighbours.take(message.held, message.frame, message.stream)
        if found is None:
            self._log(f"tick {message.frame}: a frame of stream {message.stream} is not here any more")
        return found

    def _resend(self, frame: int) -> None:
        """What went to other nodes has not arrived there: now it goes through the main server."""
        for output in tuple(self._sent):
            if output.result.frame == frame:
                results, bulk = list[m.SensorResult](), list[bytes]()
                for result, made in zip(output.result.results, output.made, strict=True):
                    has_payload = result.has_payload or bool(result.sent_to)
                    bulk += [made.payload] if has_payload else []
                    bulk += [made.memory] if made.memory else []
                    results.append(m.SensorResult(result.sensor, has_payload, result.error, result.has_memory, result.cost_s))
                told = output.result
                self._send_soon(m.TickResult(told.frame, told.digest, told.busy_s, tuple(results)), *bulk)

    def _new_episode(self, message: m.NewEpisode, xodr: bytes) -> None:
        served = map_sent(message.shown, message.real, xodr.decode())
        self._road_map = served.road_map
        self._in_loop(self._replica.load, message.episode, served)
        self._render_thread.put(BuildMap(message.episode, self._road_map))

    def _tick(self, message: m.TickMessage, data: bytes, memories: tuple[bytes, ...]) -> None:
        if not message.again:
            # Clients get the state before the frames of the same tick, as from a single server. It is in front of them in the
            # queue; the event loop is woken behind the render thread, which everybody waits for.
            state, _ = m.split_tick(data)
            if self._neighbours is not None:
                self._neighbours.forget(message.frame, lossless=message.lossless)
            self._for_loop.append(partial(self._state, state, message.frame, message.lossless))
        self._render_thread.put(
            RenderTick(message.frame, data, message.requests, memories, message.listeners, message.timed, message.lossless)
        )
        self._loop.call_soon_threadsafe(self._work_off)

    # In the render thread.

    def _rendered(self, output: RenderOutput) -> None:
        if isinstance(output, MapBuilt):
            digest = map_digest(self._road_map) if self._road_map is not None else ""
            self._send_soon(m.MapReady(output.episode, digest, output.picture))
            return
        # Own clients first: once the main server has the result, the next tick's state may be here before their frames. They
        # are first in the queue; the event loop is woken behind the answer, which everybody waits for.
        if output.own:
            self._for_loop.append(partial(self._deliver_own, output))
        if output.direct and self._neighbours is not None:
            self._sent.append(output)
            for home in sorted({home for home, _ in output.direct}):
                frames = [found for to, found in output.direct if to == home]
                self._neighbours.send(home, self._membership, output.result.frame, frames)
        self._send_soon(output.result, *output.bulk)
        if output.own:
            self._loop.call_soon_threadsafe(self._work_off)

    def _render_failed(self, error: BaseException) -> None:
        self._end(LOST, f"error of ours while drawing: {type(error).__name__}: {error}")

    def _in_loop(self, call: Callable[..., object], *arguments: object) -> None:
        """Have something done in the event loop, behind what was asked for before; from any thread."""
        self._for_loop.append(partial(call, *arguments))
        self._loop.call_soon_threadsafe(self._work_off)

    # Back in the event loop.

    def _work_off(self) -> None:
        while self._for_loop:
            self._for_loop.popleft()()

    def _speak(self, dialect: Dialect | None) -> None:
        """Serve the version of CARLA's client that the main server serves."""
        self._rpc.dialect = self._hub.dialect = dialect

    def _open(self) -> None:
        for server in reversed(self._servers):
            server.start_serving()
        self._log(f"{self._settings.name} serves clients on {self._settings.host}:{self._rpc_port}")

    def _state(self, state: bytes, frame: int, lossless: bool) -> None:
        if frame > self._sent_frame:
            self._sent_frame = frame
            self._rpc.managers.state(state, partial(self._hub.send, WORLD_STREAM, state, lossless=lossless))

    def _deliver_own(self, output: TickRendered) -> None:
        for stream, head, payload in output.own:
            self._deliver(stream, payload, output.result.frame, output.lossless, head)

    def _deliver(self, stream: int, payload: bytes, frame: int, lossless: bool, head: bytes = b"") -> None:
        """Give a message to listeners; of a sensor that sees each frame once, whoever drew it, and none out of order."""
        if frame:
            if frame <= self._delivered.get(stream, 0) or not self._hub.is_heard(stream):
                return  # of a stream that is over, or that nobody wants any more, nothing is noted either
            self._delivered[stream] = frame
        send = partial(self._hub.send, stream, payload, lossless=lossless, head=head)
        self._rpc.managers.in_order(send, len(payload))

    def _expect(self, stream: int, frame: int) -> None:
        """Somebody begins to listen: of the ticks up to now they get nothing, also not what this node is late with."""
        self._delivered[stream] = max(frame, self._delivered.get(stream, 0))
        self._rpc.managers.in_order(partial(self._hub.expect, stream))

    def _forget(self, stream: int) -> None:
        self._delivered.pop(stream, None)
        self._rpc.managers.in_order(partial(self._hub.forget, stream))

    def _answer_client(self, message: m.CallResult, result: bytes) -> None:
        client = self._clients.get(message.client)
        if client is not None:
            client.answer(message.id, result)


class RenderThread:
    """Draws in a thread of its own, one tick after the other.

    ``handicap`` above 1 makes it slower by that factor: it rests after every tick.
    """

    def __init__(
        self,
        number: int,
        renderer: LocalRenderer,
        handicap: float,
        done: Callable[[RenderOutput], None],
        failed: Callable[[BaseException], None],
        log: Callable[[str], None],
        reaches: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self._reaches = reaches
        self._number = number
        self._handicap = handicap
        self._done = done
        self._failed = failed
        self._log = log
        self._renderer = renderer
        self._inbox: queue.SimpleQueue[BuildMap | RenderTick | None] = queue.SimpleQueue()
        self._waiting: set[tuple[int, bytes]] = set()  # frames and requests that are not drawn yet
        self._picture = ""
        self._thread = threading.Thread(target=self._run, name="samepath render", daemon=True)
        self._thread.start()

    def put(self, work: BuildMap | RenderTick) -> None:
        """Add something to do, once; from any thread."""
        if isinstance(work, RenderTick) and work.requests:
            # The main server asks again when a frame takes long. While the request waits here, that needs no second drawing.
            key = (work.frame, work.requests)
            if key in self._waiting:
                return
            self._waiting.add(key)
        self._inbox.put(work)

    def close(self) -> None:
        """End, after what is being drawn now."""
        self._inbox.put(None)

    def _run(self) -> None:
        while (work := self._inbox.get()) is not None:
            try:
                self._done(self._build(work) if isinstance(work, BuildMap) else self._render(work))
            except SamepathError as error:
                self._log(f"something could not be drawn: {error}")
            except BaseException as error:  # a node that cannot draw must not stay
                self._failed(error)
                break
        self._renderer.close()

    def _build(self, work: BuildMap) -> MapBuilt:
        if not self._picture:
            self._picture = reference_picture(self._renderer)
        self._renderer.prepare(work.road_map)
        return MapBuilt(work.episode, self._picture)

    def _render(self, work: RenderTick) -> TickRendered:
        try:
            return self._draw(work)
        finally:
            self._waiting.discard((work.frame, work.requests))

    def _draw(self, work: RenderTick) -> TickRendered:
        state, packed = m.split_tick(work.data)
        view = SceneView.unpack(packed)
        digest = understood_digest(state, view)
        requests = unpack_requests(work.requests, work.memories) if work.requests else ()
        # What is measured is drawing alone: reading and checking the tick cost the same wherever it is drawn.
        start_s = SYSTEM_CLOCK.monotonic_s()
        found = self._renderer.render(view, requests, timed=work.timed)
        busy_s = SYSTEM_CLOCK.monotonic_s() - start_s
        if self._handicap > 1.0 and requests:
            SYSTEM_CLOCK.sleep_s((self._handicap - 1.0) * busy_s)
            busy_s = SYSTEM_CLOCK.monotonic_s() - start_s
        return self._split(work, digest, busy_s, tuple(zip(requests, found, work.listeners, strict=True)))

    def _split(
        self,
        work: RenderTick,
        digest: bytes,
        busy_s: float,
        found: tuple[tuple[RenderRequest, RenderResult, tuple[int, ...]], ...],
    ) -> TickRendered:
        """Tell what goes to the main server from what own clients, and nodes that are reached directly, get without it."""
        results, bulk, own, direct = [], [], [], []
        for request, made, homes in found:
            others = tuple(home for home in homes if home != self._number) if made.payload else ()
            sent_to = tuple(home for home in others if home and self._reaches(home))
            frame = NeighbourFrame(request.sensor, request.stream, request.head, made.payload)
            direct += [(home, frame) for home in sent_to]
            has_payload = len(sent_to) < len(others)
            if has_payload:
                bulk.append(made.payload)
            if made.payload and self._number in homes:
                own.append((request.stream, request.head, made.payload))
            if made.memory:
                bulk.append(made.memory)
            error = made.error[: m.LINE_MOST]
            results.append(m.SensorResult(made.sensor, has_payload, error, bool(made.memory), made.cost_s, sent_to))
        result = m.TickResult(work.frame, digest, busy_s, tuple(results))
        kept = tuple(made for _, made, _ in found) if direct else ()
        return TickRendered(result, tuple(bulk), tuple(own), work.lossless, tuple(direct), kept)


def reference_picture(renderer: LocalRenderer) -> str:
    """The digest of a scene that every node must see alike: a picture, its depths and a scan."""
    renderer.prepare(load_map(_TEST_MAP))
    looks = tuple(
        ActorAppearance(number, kind, Pose(4.0 * number, 1.5 * number, 0.4, 0.0, 0.0, 25.0 * number))
        for number, kind in enumerate(("vehicle.tesla.model3", "vehicle.gazelle.omafiets", "walker.pedestrian.0001"), start=1)
    )
    view = SceneView(0, 1, 1, looks, tuple(Vector() for _ in looks), SceneWeather(cloudiness=20.0, fog_density=5.0))
    pose = Pose(-8.0, 0.0, 2.4, 0.0, -5.0, 10.0)
    requests = [
        RenderRequest(number, number, type_id, attributes, b"", pose, None, number, 1, 0.0, 0.05)
        for number, (type_id, attributes) in enumerate(_TEST_SENSORS, start=10)
    ]
    return digest_of(*(made.payload for made in renderer.render(view, requests)))
