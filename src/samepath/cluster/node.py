"""A rendering node: CARLA's two ports for clients, a studio for the orders of the main server, no physics.

Three threads: the event loop has the clients, the link's thread talks to the main server, the drawing thread draws. Calls that
the node cannot answer itself go to the main server as they came, in the order in which they came.
"""

import asyncio
import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from samepath import __version__
from samepath.cluster import messages as m
from samepath.cluster.link.keys import Keys
from samepath.cluster.link.memory import hold_memory
from samepath.cluster.link.node_link import NodeLink
from samepath.cluster.link.wire import LinkError, LinkLostError, Received, TooLargeError
from samepath.cluster.messages import Seen, parts_of
from samepath.cluster.mirror import (
    HERE,
    Mirror,
    boot_id,
    digest_of,
    fingerprint,
    held_digest,
    host_name,
    map_digest,
    read_actor,
    scene_sent,
)
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SamepathError
from samepath.core.network import listen
from samepath.core.states import Pose, Vector
from samepath.simulator.carla import records as r
from samepath.simulator.carla.streams import WORLD_STREAM
from samepath.simulator.maps import RoadMap, load_map
from samepath.simulator.sensors.labels import ActorLook
from samepath.simulator.sensors.weather import Weather
from samepath.simulator.server.limits import Limits
from samepath.simulator.server.methods import methods
from samepath.simulator.server.rendering import Made, Order, Studio, View, unpack_orders
from samepath.simulator.server.rpc import Call, Caller, Office
from samepath.simulator.server.streams import Hub, Listener

# The thread of a node that draws: ticks in, frames out, one after the other.

_TEST_MAP: Final = "t-junction"
_TEST_SENSORS: Final = (
    ("sensor.camera.rgb", (("image_size_x", "96"), ("image_size_y", "64"))),
    ("sensor.camera.depth", (("image_size_x", "96"), ("image_size_y", "64"))),
    ("sensor.lidar.ray_cast_semantic", (("points_per_second", "20000"),)),
)


class Load(NamedTuple):
    """Build what a map needs."""

    episode: int
    road_map: RoadMap


class Show(NamedTuple):
    """Look at a tick, and make what is due."""

    frame: int
    shown: bytes
    orders: bytes
    homes: tuple[tuple[int, ...], ...]
    timed: bool
    lossless: bool


class Built(NamedTuple):
    """A map is ready; ``picture`` is the digest of a picture that every node draws alike."""

    episode: int
    picture: str


class Drawn(NamedTuple):
    """What came of a tick: the answer for the main server and its bulk, and what this node's own listeners get."""

    seen: Seen
    bulk: tuple[bytes, ...]
    own: tuple[tuple[int, bytes], ...]
    lossless: bool


Result = Built | Drawn


class Drawing:
    """Draws in a thread of its own. ``handicap`` above 1 makes it slower by that factor: it rests after every tick."""

    def __init__(
        self,
        number: int,
        threads: int,
        handicap: float,
        done: Callable[[Result], None],
        failed: Callable[[Exception], None],
        log: Callable[[str], None],
    ) -> None:
        self._number = number
        self._handicap = handicap
        self._done = done
        self._failed = failed
        self._log = log
        self._studio = Studio(threads)
        self._inbox: queue.SimpleQueue[Load | Show | None] = queue.SimpleQueue()
        self._picture = ""
        self._thread = threading.Thread(target=self._run, name="samepath drawing", daemon=True)
        self._thread.start()

    def put(self, work: Load | Show) -> None:
        """Add something to do; from any thread."""
        self._inbox.put(work)

    def close(self) -> None:
        """End, after what is being drawn now."""
        self._inbox.put(None)

    def _run(self) -> None:
        while (work := self._inbox.get()) is not None:
            try:
                self._done(self._built(work) if isinstance(work, Load) else self._drawn(work))
            except SamepathError as error:
                self._log(f"something could not be drawn: {error}")
            except Exception as error:  # a node that cannot draw must not stay
                self._failed(error)
                break
        self._studio.close()

    def _built(self, work: Load) -> Built:
        if not self._picture:
            self._picture = test_picture(self._studio)
        self._studio.prepare(work.road_map)
        return Built(work.episode, self._picture)

    def _drawn(self, work: Show) -> Drawn:
        state, packed = parts_of(work.shown)
        view = View.unpack(packed)
        digest = held_digest(state, view)
        orders = unpack_orders(work.orders) if work.orders else ()
        start_s = SYSTEM_CLOCK.monotonic_s()
        found = self._studio.make(view, orders, timed=work.timed)
        busy_s = SYSTEM_CLOCK.monotonic_s() - start_s
        if self._handicap > 1.0 and orders:
            SYSTEM_CLOCK.sleep_s((self._handicap - 1.0) * busy_s)
            busy_s = SYSTEM_CLOCK.monotonic_s() - start_s
        return self._parted(work, digest, busy_s, tuple(zip(orders, found, work.homes, strict=True)))

    def _parted(
        self, work: Show, digest: bytes, busy_s: float, found: tuple[tuple[Order, Made, tuple[int, ...]], ...]
    ) -> Drawn:
        """Part what goes to the main server from what stays here."""
        made, bulk, own = [], [], []
        for order, one, homes in found:
            carried = bool(one.payload) and any(home != self._number for home in homes)
            if carried:
                bulk.append(one.payload)
            if one.payload and self._number in homes:
                own.append((order.stream, order.head + one.payload))
            made.append([one.sensor, carried, one.trouble, one.memory, one.cost_s])
        return Drawn(Seen(work.frame, digest, busy_s, made), tuple(bulk), tuple(own), work.lossless)


def test_picture(studio: Studio) -> str:
    """The digest of a scene that every node must see alike: a picture, its depths and a scan."""
    studio.prepare(load_map(_TEST_MAP))
    looks = tuple(
        ActorLook(number, kind, Pose(4.0 * number, 1.5 * number, 0.4, 0.0, 0.0, 25.0 * number))
        for number, kind in enumerate(("vehicle.tesla.model3", "vehicle.gazelle.omafiets", "walker.pedestrian.0001"), start=1)
    )
    view = View(0, 1, 1, looks, tuple(Vector() for _ in looks), Weather(cloudiness=20.0, fog_density=5.0))
    pose = Pose(-8.0, 0.0, 2.4, 0.0, -5.0, 10.0)
    orders = [
        Order(number, number, type_id, attributes, b"", pose, None, number, 1, 0.0, 0.05)
        for number, (type_id, attributes) in enumerate(_TEST_SENSORS, start=10)
    ]
    return digest_of(*(one.payload for one in studio.make(view, orders)))


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
