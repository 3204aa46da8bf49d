"""The main server: a server that never draws. It owns the world, and has the nodes draw what is due.

It is the server of :mod:`samepath.simulator.server` with three parts exchanged: the renderer is the :class:`ClusterShell`, the
inbox also waits for the link, and the outbox sends to clients of nodes as well. All three run in the episode's thread, and so
does the link. Other threads (clients' event loop, the monitor's web server) only read what is published, or leave a request
that the episode's thread carries out between two ticks.

The way of one camera frame: the episode's tick calls ``ClusterShell.render``, which sends the tick to all nodes (one hop,
through shared memory on one host). The node that draws a frame gives it to its own clients at once. If it is listened to
elsewhere, it comes back over the link, becomes an event of the coordinator's, and goes on by ``ClusterOutbox.send_frame``.
"""

import asyncio
import platform
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Final

from samepath import __version__
from samepath.cluster import coordinator as c
from samepath.cluster import messages as m
from samepath.cluster.identity import REFERENCE_PICTURES, boot_id, fingerprint
from samepath.cluster.link.keys import Keys, make_keys
from samepath.cluster.link.main_link import MainLink
from samepath.cluster.link.memory import hold_memory
from samepath.cluster.monitor.counters import Counters
from samepath.cluster.monitor.reporting import status_of
from samepath.cluster.monitor.status import ClusterStatus, StatusBoard
from samepath.cluster.monitor.thumbnails import thumbnail_png
from samepath.cluster.placement.records import NodeKeys, NodeSpec, Placement
from samepath.cluster.settings import MainSettings, link_limits
from samepath.cluster.shell import ClusterShell, NodeClient
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import InputError
from samepath.simulator.carla.streams import WORLD_STREAM
from samepath.simulator.server.commands import NodeLeft
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.rpc import Call, Caller
from samepath.simulator.server.runner import (
    AnswerEvent,
    FairQueue,
    InboxEvent,
    ListenerExpected,
    Outbox,
    OutboxEvent,
    StatePrepared,
    StreamEnded,
    StreamMessage,
)
from samepath.simulator.server.server import EpisodeParts, SimulatorServer
from samepath.simulator.server.streams import MAIN_SERVER

# How long the episode's thread waits for the link at a time: requests of other threads wake it, this is for timeouts of nodes.
_POLL_S: Final = 0.1
# For the last messages to leave.
_FAREWELL_S: Final = 0.1
# How long somebody waits who wants to know how the cluster stands: longer than a tick waits for a node.
_LOOK_S: Final = 120.0


class MainServer(SimulatorServer):
    """A main server. ``placement`` starts nodes; without one they are started by hand.

    ``known`` says which public keys besides those of placed nodes are let in. ``failed`` is called, in the episode's thread,
    when a tick cannot be finished because nodes are missing.
    """

    def __init__(
        self,
        settings: MainSettings,
        log: Callable[[str], None],
        placement: Placement | None = None,
        *,
        keys: Keys | None = None,
        known: Callable[[str], bool] | None = None,
        failed: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__(settings.server, log, failed)
        self.main_settings = settings
        self.keys = keys or make_keys()
        self.board = StatusBoard()
        self.counters = Counters(SYSTEM_CLOCK.monotonic_s())
        self._placement = placement
        self._known = known or (lambda _: False)
        self._placed: dict[str, NodeSpec] = {}
        self._allowed: dict[str, str] = {}  # the public keys of nodes that were placed, by name
        self._requests: list[Callable[[], None]] = []  # of other threads, for the episode's
        self._has_link = False

    async def start(self) -> None:
        """Listen for clients and for nodes."""
        hold_memory()
        try:
            await super().start()
        except BaseException:
            if self._has_link:
                self.link.close()
            raise

    def _episode_parts(self, log: Callable[[str], None], deliver: Callable[[list[OutboxEvent]], None]) -> EpisodeParts:
        settings, main = self.settings, self.main_settings
        self.link = MainLink(
            main.link_host,
            main.link_port,
            self.keys,
            self._lets_in,
            shared_memory=main.shared_memory,
            limits=link_limits(settings.limits),
            log=log,
            compress=main.compress,
        )
        self._has_link = True
        config = c.ClusterConfig(
            __version__,
            fingerprint(),
            boot_id(),
            settings.map_names,
            main.timeouts,
            settings.limits.connections,
            REFERENCE_PICTURES.get(platform.machine(), ""),
            settings.protocol,
        )
        self.shell = ClusterShell(self, self.link, self.counters, config, main.policy, settings.limits, log)
        self._outbox = ClusterOutbox(deliver, self.shell, self.counters, lambda: self.episode)
        inbox = ClusterInbox(self.shell, self.counters, self._between_calls)
        return EpisodeParts(self._outbox, self.shell, inbox, self.counters.commands.on_command)

    def _lets_in(self, public: str) -> bool:
        return public in tuple(self._allowed.values()) or self._known(public)

    async def stop(self) -> None:
        """Tell all nodes to go, close the ports, end the episode."""
        self.shell.stopping = True
        await super().stop()
        if self._has_ended:  # then the link is this thread's now; else nodes see it end with the process
            self.shell.feed(c.StopWanted("the main server stops"))
            self.link.poll(_FAREWELL_S)
            self.link.close()
        if self._placement is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._placement.close)

    # What the shell needs of this server (ShellHost). All of it runs in the episode's thread.

    @property
    def episode(self) -> Episode:
        return self._runner.episode

    def expected_nodes(self) -> tuple[str, ...]:
        return tuple(self._placed)

    def on_node_lost(self, member: c.Member, *, failed: bool) -> None:
        # In its turn, behind a tick that is under way: a resumed server plays it there too.
        self._runner.submit(NodeLeft(member.number))
        if failed and self._placement is not None and member.name in self._placed:
            self._placement.restart(member.name, member.hello.pid)

    def on_node_drained(self, name: str) -> None:
        if self._placement is not None and name not in self._placed:
            self._placement.stop(name)

    def answer_aside(self, call: Call) -> None:
        self._answer_aside(call)

    def flush(self) -> None:
        self._outbox.post()

    def deliver(self, frame: c.Deliver) -> None:
        self._outbox.send_frame(frame)

    def while_waiting(self) -> None:
        # The coordinator ends a tick that waits for too long (Timeouts.frame_s), so waiting is no reason for probes to fail.
        self._runner.keep_busy()
        self._publish_if_due()

    def _publish_if_due(self) -> None:
        now_s = SYSTEM_CLOCK.monotonic_s()
        if self.board.due(now_s):
            self.board.publish(self._status(now_s), now_s)

    def _between_calls(self) -> None:
        """Carry out requests of other threads, publish the status."""
        while self._requests:
            self._requests.pop(0)()
        if self._placement is not None:
            for ended in self._placement.ended():
                if not ended.restarts and self._placed.pop(ended.name, None) is not None:
                    left = len(self._placed)
                    self._log(f"{ended.name} {ended.why} and is not started again: {left} nodes are left")
        self._publish_if_due()

    # Nodes, as whoever runs the cluster wants them; from any thread.

    def place(self, spec: NodeSpec) -> None:
        """Have a node started, with a key of its own."""
        if self._placement is None:
            raise InputError("this main server starts no nodes by itself: start one with samepath cluster node")
        keys = make_keys()
        # Known before the node is started: it may connect before ``start`` returns.
        self._allowed[spec.name] = keys.public
        self._placed[spec.name] = spec
        self._placement.start(spec, NodeKeys(self.keys.public, keys.public, keys.secret))

    def drain(self, name: str) -> str:
        """Give a node nothing more; it goes when it owes nothing and has no clients."""
        names = [member.name for member in self.shell.members()]
        if name not in names:
            raise InputError(f"there is no node {name}: there are {', '.join(names) or 'none'}")
        self._requests.append(partial(self._drain, name))
        self.link.wake()
        return f"{name} will be given nothing more"

    def _drain(self, name: str) -> None:
        placed = self._placed.pop(name, None)
        self._allowed.pop(name, None)
        if c.by_name(self.shell.state, name) is not None:
            self.shell.feed(c.DrainWanted(name))
        elif placed is not None and self._placement is not None:
            self._placement.stop(name)  # it has not even come

    def scale(self, nodes: int) -> str:
        """Have so many nodes."""
        if self._placement is None:
            raise InputError("this main server starts no nodes by itself: start one with samepath cluster node")
        names = list(self._placed)
        for name in names[nodes:]:
            self._requests.append(partial(self._drain, name))
        if len(names) < nodes:
            pattern = next(iter(self._placed.values()), NodeSpec("node-1", 1, self.link.endpoint))
            # A node that is being drained may still have clients: another under its name would take it from them.
            taken = {spec.ordinal for spec in tuple(self._placed.values())} | {member.number for member in self.shell.members()}
            free = (number for number in range(1, nodes + len(taken) + 1) if number not in taken)
            for _ in range(nodes - len(names)):
                self.place(pattern.another(next(free)))
        self.link.wake()
        return f"{nodes} nodes wanted, {len(names)} before"

    # Looking on.

    def _status(self, now_s: float) -> ClusterStatus:
        found = status_of(self.main_settings.name, __version__, self.episode, self.shell, self.counters, now_s)
        pace = self._runner.health().pace
        return found if pace is None else replace(found, real_time_ratio=pace.ratio)

    def look(self) -> ClusterStatus:
        """How the cluster stands right now; from any thread but the episode's.

        That one looks, between two calls or ticks: a node may be lost at any moment, and nothing may be half done.
        """
        found: Future[ClusterStatus] = Future()
        self._requests.append(lambda: found.set_result(self._status(SYSTEM_CLOCK.monotonic_s())))
        self.link.wake()
        return found.result(_LOOK_S)

    def status(self) -> ClusterStatus | None:
        """How the cluster stands; from any thread."""
        return self.board.read()

    def thumbnail(self, sensor: int) -> bytes | None:
        """A small picture of what a camera saw last, as PNG; from any thread. The first time it is only asked for."""
        self.shell.thumbnails_wanted.add(sensor)
        kept = self.shell.thumbnails.get(sensor)
        return None if kept is None else thumbnail_png(kept[0].type_id, kept[1])

    def joined(self) -> int:
        """How many nodes draw."""
        return len(c.followers(self.shell.state))


class ClusterInbox:
    """What the episode's thread is to do: calls of this server's own clients, and of those of nodes, who take turns alike."""

    def __init__(self, shell: ClusterShell, counters: Counters, between_calls: Callable[[], None]) -> None:
        self._shell = shell
        self._counters = counters
        self._between_calls = between_calls
        self._own: deque[tuple[InboxEvent, float]] = deque()
        self._fair = FairQueue()

    def put(self, event: InboxEvent) -> None:
        """Add something; from any thread."""
        self._own.append((event, SYSTEM_CLOCK.monotonic_s()))
        self._shell.link.wake()

    def get(self, timeout_s: float | None) -> InboxEvent | None:
        """Wait for something; meanwhile nodes come, go and answer."""
        found = self._get(timeout_s)
        self._shell.began_s = SYSTEM_CLOCK.monotonic_s()  # a tick's time counts from its call, not from the wait for it
        return found

    def _get(self, timeout_s: float | None) -> InboxEvent | None:
        clock = SYSTEM_CLOCK
        deadline_s = None if timeout_s is None else clock.monotonic_s() + timeout_s
        while True:
            self._between_calls()
            found = self._next()
            if found is not None:
                return found
            left_s = None if deadline_s is None else deadline_s - clock.monotonic_s()
            if left_s is not None and left_s <= 0.0:
                self._shell.attend(0.0)
                return self._next()
            self._shell.attend(_POLL_S if left_s is None else min(left_s, _POLL_S))

    def _next(self) -> InboxEvent | None:
        while queues := [queue for queue in (self._own, self._shell.work) if queue]:
            self._fair.add(*min(queues, key=lambda queue: queue[0][1]).popleft())
        self._shell.on_work_taken()
        found = self._fair.pop()
        if found is None:
            return None
        event, at_s = found
        if isinstance(event, Call):
            self._counters.commands.begin(event, at_s)
        return event

    def empty(self) -> bool:
        return not self._own and not self._shell.work and not self._fair

    def has_more(self, caller: Caller) -> bool:
        return caller in self._fair


class ClusterOutbox(Outbox):
    """Sends to this server's own clients through the event loop, to those of nodes over the link."""

    def __init__(
        self,
        to_own_clients: Callable[[list[OutboxEvent]], None],
        shell: ClusterShell,
        counters: Counters,
        episode: Callable[[], Episode],
    ) -> None:
        super().__init__(self._dispatch)
        self._to_own_clients = to_own_clients
        self._shell = shell
        self._counters = counters
        self._episode = episode

    def publish(self, stream_id: int, payload: bytes) -> None:
        """Send a message to all who listen to a stream; nodes get the state with the tick."""
        if stream_id == WORLD_STREAM:
            self._shell.last_state = payload
        super().publish(stream_id, payload)

    def prepare(self, payload: bytes) -> None:
        self._shell.last_state = payload
        super().prepare(payload)

    def expect(self, stream_id: int, home: int) -> None:
        # Noted now: it may be handed over as the next tick begins, whose frame is for this listener.
        self._events.append(ListenerExpected(stream_id, home, self._episode().frame))

    def post(self) -> None:
        """Hand everything over, changes first: an answer must not name what a node does not know yet."""
        if self._shell.publish_changes():
            self._shell.sync()
        super().post()

    def send_frame(self, found: c.Deliver) -> None:
        """Send a frame to where it is listened to; a node that drew it for its own listeners has given it to them.

        Another node of the same host is told where the frame lies in the memory of the one that drew it, one on another host
        that it holds the frame: the decision is made here, in the order of everything else that nodes are told, and the bytes
        go from node to node.
        """
        request, payload = found.request, found.payload
        frame = request.frame
        for home in self._episode().connections.subscriptions.homes(request.stream):
            if home == MAIN_SERVER and payload:
                message = request.head + (payload if isinstance(payload, bytes) else payload.read())
                self._to_own_clients([StreamMessage(request.stream, message, self.lossless)])
            elif home not in (MAIN_SERVER, found.drawn_by):
                member = self._shell.by_number(home)
                if member is not None and not c.listens(member, frame):
                    continue
                if member is not None and self._shell.has_unsent(member) and not self.lossless:
                    self._counters.lateness.drop()  # it cannot keep up: in real time it misses frames, and is not held up more
                elif member is not None and home in found.sent_to:
                    self._counters.direct_frames += 1
                    self._shell.send(member, m.StreamData(request.stream, frame, self.lossless, found.sender))
                elif member is not None and payload:
                    self._shell.send(member, m.StreamData(request.stream, frame, self.lossless), request.head, payload)
        if payload:
            self._shell.keep_thumbnail(request, payload)

    def _dispatch(self, events: list[OutboxEvent]) -> None:
        here: list[OutboxEvent] = []
        for event in events:
            if isinstance(event, AnswerEvent) and isinstance(event.caller, NodeClient):
                event.caller.answer(event.id, event.result)
            elif isinstance(event, StreamMessage) and event.stream_id != WORLD_STREAM:
                self._send_stream(event, here)
            elif isinstance(event, ListenerExpected) and event.home != MAIN_SERVER:
                member = self._shell.by_number(event.home)
                if member is not None:
                    self._shell.send(member, m.ExpectListener(event.stream_id, event.frame))
            else:
                here.append(event)
                if isinstance(event, StreamEnded):
                    for member in c.followers(self._shell.state):
                        self._shell.send(member, m.StreamClosed(event.stream_id))
                elif isinstance(event, StatePrepared):
                    for member in c.followers(self._shell.state):
                        self._shell.send(member, m.LatestState(self._episode().frame), event.payload)
        if here:
            self._to_own_clients(here)

    def _send_stream(self, event: StreamMessage, here: list[OutboxEvent]) -> None:
        """An event or a measurement that was made here."""
        homes = self._episode().connections.subscriptions.homes(event.stream_id)
        for home in homes:
            member = self._shell.by_number(home) if home != MAIN_SERVER else None
            if member is not None:
                self._shell.send(member, m.StreamData(event.stream_id, 0, event.lossless), event.payload)
        if MAIN_SERVER in homes or not homes:
            here.append(event)
