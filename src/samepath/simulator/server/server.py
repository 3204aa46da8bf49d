"""A server: two listening ports, an event loop and the episode's thread, started and stopped as one.

The path of one ``world.tick()`` of a CARLA client, each hop with its reason:

1. ``Connection.data_received`` (event loop): bytes into whole messages, a message into a checked :class:`Call`;
2. ``EpisodeRunner.submit``: into the inbox, because the world belongs to the episode's thread;
3. ``EpisodeRunner._call`` (episode's thread): ``Method.run`` calls the handler ``tick_cue``, which calls ``ticking.tick``;
4. ``ticking.tick``: the world advances; the state and what sensors measured go to the outbox, and behind them the answer;
5. ``Outbox.post``: the journal is flushed, then the event loop woken, once for everything that is in the outbox;
6. ``SimulatorServer._send`` (event loop): messages to ``StreamHub.send``, which writes them to the listeners' sockets, the
   answer to ``Connection.answer``, which may hold it back for a traffic manager and writes it to the client's.
"""

import asyncio
import queue
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import InputError
from samepath.core.network import allow_descriptors, listen
from samepath.core.processes import ends_process_if_it_fails
from samepath.core.states import Collision
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.carla.streams import WORLD_STREAM
from samepath.simulator.sensors.building import build_code
from samepath.simulator.sensors.renderer import check_renderer
from samepath.simulator.sensors.sensor import require_sensors
from samepath.simulator.server.commands import CallerGone, StreamUnheard
from samepath.simulator.server.consistency import ConsistencyCheck
from samepath.simulator.server.dialects import NEWEST, dialect_of
from samepath.simulator.server.episode import Episode, EpisodeContext, Publisher, no_check
from samepath.simulator.server.maps import MapLibrary
from samepath.simulator.server.memory import process_budget
from samepath.simulator.server.methods import methods
from samepath.simulator.server.rendering import LocalRenderer, SensorRenderer
from samepath.simulator.server.resume import JournalConfig, open_episode
from samepath.simulator.server.rpc import Call, Connection, RpcServer
from samepath.simulator.server.runner import (
    TIME_SCALES,
    AnswerEvent,
    EpisodeFailure,
    EpisodeHealth,
    EpisodeRunner,
    Inbox,
    ListenerExpected,
    Outbox,
    OutboxEvent,
    StatePrepared,
    StreamMessage,
)
from samepath.simulator.server.sending import HandOver
from samepath.simulator.server.streams import StreamConnection, StreamHub
from samepath.simulator.traffic.traffic import TrafficSettings
from samepath.simulator.world.world import World

_READERS: Final = 2
# The most bytes on their way from the episode's thread to the event loop before the episode waits.
_HANDED_OVER_BYTES: Final = 16 << 20
# How often the event loop says that it runs.
_LOOP_BEAT_S: Final = 0.5


@dataclass(frozen=True)
class ServerSettings:
    """How a server is started. Port 0 takes a free one; the streams' port is the next one unless it is given."""

    host: str = "127.0.0.1"
    port: int = 2000
    stream_port: int | None = None
    map_name: str = "t-junction"
    aliases: Mapping[str, str] = field(default_factory=dict)
    map_files: Mapping[str, Path] = field(default_factory=dict)
    data_folder: Path = Path("serve-data")
    limits: ServerLimits = field(default_factory=ServerLimits)
    draw_debug: bool = False
    journal: JournalConfig | None = None
    renderer: str = "software"
    sources: tuple[str, ...] = ()
    protocol: str = NEWEST
    traffic: TrafficSettings | None = None
    weather_felt: bool = False
    """Tyres and LiDARs feel the weather, which in CARLA is only seen."""
    time_scale: float = 1.0
    """World seconds per wall second in asynchronous mode."""
    walk_anywhere: bool = False
    """Clients may send their walkers onto roads, too. What they are told of the map depends on it, the world does not."""
    check: bool = False
    """Compare everything the server reports about actors after every tick, see ``consistency.py``."""

    def __post_init__(self) -> None:
        least, most = TIME_SCALES
        if not least <= self.time_scale <= most:
            raise InputError(
                f"--time-scale: world seconds per second from {least:g} to {most:g} were wanted, but {self.time_scale:g} came"
            )
        dialect_of(self.protocol)  # refuses a version that nobody speaks

    @property
    def map_names(self) -> dict[str, str]:
        """What clients may call maps beside the names of ours: aliases, and the user's files, which stand for themselves."""
        return {**self.aliases, **{name: name for name in self.map_files}}


class EpisodeParts(NamedTuple):
    """What an episode works with that is different in a single server and in the main server of a cluster."""

    outbox: Outbox
    renderer: SensorRenderer
    inbox: Inbox | None = None
    on_command: Callable[[int, int], None] = lambda _actor, _rank: None


def fitted(limits: ServerLimits, log: Callable[[str], None]) -> ServerLimits:
    """The limits of a process with as many descriptors as the system lets it have; says so where these are fewer."""
    found = limits.within(allow_descriptors(limits.descriptors))
    if found is not limits:
        log(
            f"this process may open few files (ulimit -n): {found.connections} clients and {found.subscriptions} streams at "
            f"once instead of {limits.connections} and {limits.subscriptions}; {limits.descriptors} files would be enough"
        )
    return found


class SimulatorServer:
    """Serves one world to any number of clients.

    ``failed`` is told, in any thread, when the world has ended by an error of ours and the server is to be stopped: it would
    still take connections, but nobody would ever be answered.
    """

    def __init__(
        self, settings: ServerSettings, log: Callable[[str], None], failed: Callable[[str], None] = lambda _: None
    ) -> None:
        self.settings = settings
        self._log = log
        self._failed = failed
        self._closing = False
        self._has_ended = True  # the episode's thread, when the server has been stopped
        self._loop_beat_s = SYSTEM_CLOCK.monotonic_s()
        self._readers = _Readers()
        self._hand_over = HandOver(_HANDED_OVER_BYTES)
        self._warning = ""  # about the names of maps
        self._check: ConsistencyCheck | None = None
        self.port = 0
        self.stream_port = 0

    async def start(self) -> None:
        """Listen; returns when clients can connect.

        The streams' port is opened first because actors carry it in their tokens, so that the episode must know it. Both are
        open before the map is built, which may take seconds: CARLA's client tries to connect once. If it is refused, it waits
        for its whole time-out and does not try again. Until the episode is there, clients wait in the kernel's queue.
        """
        settings = self.settings
        wanted_port = settings.stream_port
        if wanted_port is None:
            wanted_port = settings.port + 1 if settings.port else 0
        # The episode's own limits stay as they were asked for: what it does must not depend on the machine.
        limits = fitted(settings.limits, self._log)
        memory = process_budget(limits.memory_bytes, self._log)
        dialect = dialect_of(settings.protocol)
        self._hub = StreamHub(
            limits, lambda stream_id: self._runner.submit(StreamUnheard(stream_id)), self._log, memory, dialect
        )
        self._streams = await listen(lambda: StreamConnection(self._hub), settings.host, wanted_port, self._log)
        try:
            self.stream_port = self._streams.port
            self._calls = await listen(lambda: Connection(self._rpc), settings.host, settings.port, self._log)
        except BaseException:
            self._streams.close()
            raise
        try:
            self._runner = self._make_runner()
            # Lines that this has logged, such as from where a journal goes on, come before the one that says it serves.
            await asyncio.sleep(0)
            # Every client asks for it in its first call. A map that has nothing to walk on has none.
            with suppress(InputError):
                _ = self._runner.episode.map.navigation
            self._rpc = RpcServer(
                methods(),
                self._runner.submit,
                self._runner.answer_now,
                self._answer_aside,
                lambda caller: self._runner.submit(CallerGone(caller)),
                self._log,
                limits,
                memory,
                dialect,
            )
            self._hub.is_too_old = self._rpc.has_older
        except BaseException:
            self._calls.close()
            self._streams.close()
            raise
        self.port = self._calls.port
        self._runner.start()
        self._beat()
        self._streams.start_serving()
        self._calls.start_serving()
        if self._warning:
            # After the line that says where the server listens: programs that start one wait for that.
            asyncio.get_running_loop().call_soon(self._log, self._warning)

    async def build_code(self) -> None:
        """Build or load the code of visual sensors, before the server starts: no call of a client is to wait for it.

        In a thread, so that the loop goes on. If the server is told to end meanwhile, the thread ends with the process.
        """
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def log(line: str) -> None:
            loop.call_soon_threadsafe(self._log, line)

        def work() -> None:
            with suppress(RuntimeError):  # the loop is closed: the server has been told to end
                try:
                    build_code(log)
                except Exception as error:  # too little memory, or a broken installation: a world without cameras is served
                    log(f"the code of cameras, LiDARs and radars cannot be built: {type(error).__name__}: {error}")
                loop.call_soon_threadsafe(done.set)

        threading.Thread(target=work, name="samepath compiler", daemon=True).start()
        await done.wait()

    def _make_runner(self) -> EpisodeRunner:
        loop, settings = asyncio.get_running_loop(), self.settings
        loop.set_exception_handler(self._on_loop_error)

        def log(line: str) -> None:
            try:
                loop.call_soon_threadsafe(self._log, line)
            except RuntimeError:  # the loop is closed: this thread was too busy to hear that the server has stopped
                self._log(line)

        def deliver(events: list[OutboxEvent]) -> None:
            size_bytes = sum(map(_size_bytes, events))
            if not self._closing:  # after that the loop may be closed, and nobody is left to send to
                self._hand_over.put(size_bytes, lambda: loop.call_soon_threadsafe(self._take, events, size_bytes))

        maps = MapLibrary(settings.aliases, log, settings.limits, settings.map_files, walk_anywhere=settings.walk_anywhere)
        self._warning = maps.misleading()
        parts = self._episode_parts(log, deliver)
        outbox: Publisher = parts.outbox
        after_tick: Callable[[Episode, tuple[Collision, ...]], None] = no_check
        if settings.check:
            require_sensors()
            self._check = ConsistencyCheck(parts.outbox)
            outbox, after_tick = self._check, self._check.after_tick
        context = EpisodeContext(
            maps,
            outbox,
            settings.data_folder,
            self.stream_port,
            settings.limits,
            log,
            settings.draw_debug,
            renderer=parts.renderer,
            on_command=parts.on_command,
            before_step=self._disturbance(),
            traffic=settings.traffic,
            weather_felt=settings.weather_felt,
            after_tick=after_tick,
        )
        episode, journal = open_episode(context, settings.map_name, settings.journal)
        return EpisodeRunner(
            episode, parts.outbox, self._on_episode_failed, parts.inbox, journal, time_scale=settings.time_scale
        )

    def _disturbance(self) -> Callable[[World], None]:
        if not self.settings.sources:
            return lambda _world: None
        from samepath.simulator.sources import served_disturbance

        if self.settings.journal is not None:
            raise InputError(
                "--source: a world that does not repeat itself has no journal to go on from: leave one of them out"
            )
        self._log(f"this world does not repeat itself, on purpose: {', '.join(self.settings.sources)}")
        return served_disturbance(self.settings.sources)

    def _episode_parts(self, _log: Callable[[str], None], deliver: Callable[[list[OutboxEvent]], None]) -> EpisodeParts:
        return EpisodeParts(Outbox(deliver), LocalRenderer(renderer=check_renderer(self.settings.renderer)))

    def health(self) -> EpisodeHealth:
        """How the episode stands, and the event loop; from any thread."""
        return self._runner.health()._replace(loop_age_s=SYSTEM_CLOCK.monotonic_s() - self._loop_beat_s)

    def _beat(self) -> None:
        self._loop_beat_s = SYSTEM_CLOCK.monotonic_s()
        if not self._closing:
            asyncio.get_running_loop().call_later(_LOOP_BEAT_S, self._beat)

    def _on_episode_failed(self, failure: EpisodeFailure) -> None:
        self._failed(failure.words)

    def _on_loop_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An error of ours in the event loop. In one client's connection it costs that connection; elsewhere it is the end.

        Outside a connection it was on the way to somebody, and to whom cannot be known: a client would wait for it for ever.
        """
        with ends_process_if_it_fails():  # asyncio would go on
            error, transport = context.get("exception"), context.get("transport")
            words = f"error of ours in the event loop: {context.get('message')}: {error!r}"
            self._log(words)
            if isinstance(error, BaseException):
                for line in "".join(traceback.format_exception(error)).splitlines():
                    self._log(line)
            if isinstance(transport, asyncio.Transport):
                transport.abort()
            elif not self._closing:
                self._failed(words)

    def _answer_aside(self, call: Call) -> None:
        """Answer from files, or build a map, in a thread beside the world's: both may take seconds. From any thread."""
        self._readers.submit(self._runner.answer_aside, call)

    def _take(self, events: list[OutboxEvent], size_bytes: int) -> None:
        try:
            self._send(events)
        finally:
            self._hand_over.take(size_bytes)

    def _send(self, events: list[OutboxEvent]) -> None:
        """Send what the episode's thread made, in its order."""
        managers = self._rpc.managers
        for event in events:
            if isinstance(event, AnswerEvent):
                event.caller.answer(event.id, event.result)
            elif isinstance(event, StreamMessage):
                send = partial(self._hub.send, event.stream_id, event.payload, lossless=event.lossless)
                if event.stream_id == WORLD_STREAM:
                    managers.state(event.payload, send)
                else:
                    managers.in_order(send, len(event.payload))
            elif isinstance(event, StatePrepared):
                managers.prepare(partial(self._hub.prepare, event.payload))
            elif isinstance(event, ListenerExpected):
                managers.in_order(partial(self._hub.expect, event.stream_id))
            else:
                managers.in_order(partial(self._hub.forget, event.stream_id))

    async def stop(self) -> None:
        """Close the ports, end the episode, disconnect everybody."""
        self._closing = True
        self._hand_over.close()
        self._runner.episode.context.maps.close()  # before the episode is waited for, which may be waiting for a map
        self._calls.close()
        self._streams.close()
        # In another thread: the loop must go on while the episode finishes what it has.
        self._has_ended = await asyncio.get_running_loop().run_in_executor(None, self._runner.stop)
        self._rpc.close()
        self._hub.close()
        self._readers.close()
        if self._check is not None and self._has_ended:
            self._log(self._check.summary())
            self._check.close()


def _size_bytes(event: OutboxEvent) -> int:
    if isinstance(event, AnswerEvent):
        return len(event.result)
    return len(event.payload) if isinstance(event, StreamMessage | StatePrepared) else 0


class _Readers:
    """A few threads that do what may take long and needs no world.

    They are nobody's to wait for: a map that takes a minute to build must not keep a process that was told to end from ending,
    which the threads of ``concurrent.futures`` do.
    """

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Callable[[Call], None], Call] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, work: Callable[[Call], None], call: Call) -> None:
        """Have a call answered; from any thread."""
        with self._lock:
            if len(self._threads) < _READERS:
                self._threads.append(threading.Thread(target=self._run, name="samepath reader", daemon=True))
                self._threads[-1].start()
        self._work.put((work, call))

    def _run(self) -> None:
        while (item := self._work.get()) is not None and not self._closed:
            work, call = item
            work(call)

    def close(self) -> None:
        """What is under way is left to itself, what waits is not begun."""
        self._closed = True
        for _ in range(_READERS):
            self._work.put(None)
