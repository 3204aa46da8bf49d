"""The main server: a server that never draws. It owns the world, and has the nodes draw what is due."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from samepath import __version__
from samepath.cluster import messages as m
from samepath.cluster.link.keys import Keys, make_keys
from samepath.cluster.link.main_link import MainLink
from samepath.cluster.link.memory import hold_memory
from samepath.cluster.membership import JOINING, Member, RemoteCaller, Roster
from samepath.cluster.monitor.recent import Board
from samepath.cluster.monitor.reporting import status_of
from samepath.cluster.monitor.status import ClusterStatus
from samepath.cluster.monitor.web import thumbnail_png
from samepath.cluster.placement.records import NodeKeys, NodeOrder, Placement
from samepath.cluster.scheduler import Conductor, NodeMissingError
from samepath.cluster.settings import MainSettings, Numbers
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import InputError
from samepath.simulator.carla.streams import WORLD_STREAM
from samepath.simulator.server.episode import Place
from samepath.simulator.server.maps import Atlas
from samepath.simulator.server.rendering import Order
from samepath.simulator.server.resume import open_episode
from samepath.simulator.server.rpc import Call
from samepath.simulator.server.runner import Answer, Done, Expect, Forget, Mail, Message, Post, Prepared, Runner, Work
from samepath.simulator.server.server import Server
from samepath.simulator.server.streams import HERE
from samepath.simulator.server.ticking import step_of

# The main server's way in and out: one inbox for its own clients and those of nodes, one mail to both.

_POLL_S: Final = 0.1


class LinkInbox:
    """What the episode's thread is to do: this server's own calls, and what comes over the link."""

    def __init__(self, roster: Roster, conductor: Conductor, attend: Callable[[], None]) -> None:
        self._roster = roster
        self._conductor = conductor
        self._attend = attend
        self._own: deque[tuple[Work, float]] = deque()

    def put(self, work: Work) -> None:
        """Add something; from any thread."""
        self._own.append((work, SYSTEM_CLOCK.monotonic_s()))
        self._roster.link.wake()

    def get(self, timeout_s: float | None) -> Work | None:
        """Wait for something; meanwhile nodes come, go and answer."""
        found = self._get(timeout_s)
        self._conductor.began_s = SYSTEM_CLOCK.monotonic_s()
        return found

    def _get(self, timeout_s: float | None) -> Work | None:
        clock = SYSTEM_CLOCK
        deadline_s = None if timeout_s is None else clock.monotonic_s() + timeout_s
        while True:
            self._attend()
            found = self._next()
            if found is not None:
                return found
            left_s = None if deadline_s is None else deadline_s - clock.monotonic_s()
            if left_s is not None and left_s <= 0.0:
                self._roster.attend(0.0)
                return self._next()
            self._roster.attend(_POLL_S if left_s is None else min(left_s, _POLL_S))

    def _next(self) -> Work | None:
        queues = [one for one in (self._own, self._roster.work) if one]
        if not queues:
            return None
        work, at_s = min(queues, key=_came_s).popleft()
        if isinstance(work, Call):
            self._roster.commands.begin(work, at_s)
        return work

    def empty(self) -> bool:
        """Is there nothing to do right now?"""
        return not self._own and not self._roster.work


def _came_s(queue: deque[tuple[Work, float]]) -> float:
    return queue[0][1]


class ClusterMail(Mail):
    """Sends to this server's own clients through the event loop, to those of nodes over the link."""

    def __init__(self, deliver: Callable[[list[Post]], None], roster: Roster, conductor: Conductor) -> None:
        super().__init__(deliver)
        self._here = deliver
        self._deliver = self._parted
        self._roster = roster
        self._conductor = conductor
        self._delivered: dict[int, int] = {}
        conductor.flush = self.post
        conductor.deliver = self.frame

    def publish(self, stream_id: int, payload: bytes) -> None:
        """Send a message to all who listen to a stream; nodes are shown the state with the tick."""
        if stream_id == WORLD_STREAM:
            self._conductor.state = self._roster.last_state = payload
        super().publish(stream_id, payload)

    def prepare(self, payload: bytes) -> None:
        """Keep a state for those who will listen."""
        self._roster.last_state = payload
        super().prepare(payload)

    def post(self) -> None:
        """Hand everything over, news first: an answer must not name what a node does not know yet."""
        if self._roster.publish_news():
            self._roster.await_hearing()
        super().post()

    def frame(self, order: Order, payload: bytes, drawn_by: int) -> None:
        """Send a frame to where it is listened to; a node that drew it for its own listeners has given it to them."""
        message, frame = order.head + payload, order.frame
        homes = self._roster.episode.listened.homes(order.stream)
        if homes:
            if frame <= self._delivered.get(order.stream, 0):
                self._conductor.overtaken()
                return
            self._delivered[order.stream] = frame
        for home in homes:
            if home == HERE:
                self._here([Message(order.stream, message, self.lossless)])
            elif home != drawn_by:
                member = self._roster.by_number(home)
                if member is not None:
                    self._roster.tell(member, m.Streamed(order.stream, frame, self.lossless), message)
        self._conductor.keep(order, payload)

    def _parted(self, posts: list[Post]) -> None:
        here: list[Post] = []
        for post in posts:
            if isinstance(post, Answer) and isinstance(post.caller, RemoteCaller):
                post.caller.answer(post.id, post.result)
            elif isinstance(post, Message) and post.stream_id != WORLD_STREAM:
                self._stream(post, here)
            elif isinstance(post, Expect) and post.home != HERE:
                member = self._roster.by_number(post.home)
                if member is not None:
                    self._roster.tell(member, m.Expected(post.stream_id))
            else:
                here.append(post)
                if isinstance(post, Forget):
                    self._delivered.pop(post.stream_id, None)
                    for member in self._roster.listening():
                        self._roster.tell(member, m.Forgotten(post.stream_id))
                elif isinstance(post, Prepared):
                    for member in self._roster.listening():
                        self._roster.tell(member, m.Prepared(self._roster.episode.frame), post.payload)
        if here:
            self._here(here)

    def _stream(self, post: Message, here: list[Post]) -> None:
        """An event or a measurement that was made here."""
        homes = self._roster.episode.listened.homes(post.stream_id)
        for home in homes:
            member = self._roster.by_number(home) if home != HERE else None
            if member is not None:
                self._roster.tell(member, m.Streamed(post.stream_id, 0, post.lossless), post.payload)
        if HERE in homes or not homes:
            here.append(post)


_FAREWELL_S: Final = 0.1


class Main(Server):
    """A main server. ``placement`` starts nodes; without one they are started by hand.

    ``failed`` is called, in the episode's thread, when a tick cannot be finished because nodes are missing.
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
        super().__init__(settings.server, log)
        self.main_settings = settings
        self.keys = keys or make_keys()
        self._placement = placement
        self._known = known or (lambda _: False)
        self._failed = failed
        self._placed: dict[str, NodeOrder] = {}
        self._allowed: dict[str, str] = {}  # the public keys of nodes that were placed, by name
        self._wishes: list[Callable[[], None]] = []
        self._has_link = False
        self.board = Board()
        self.numbers = Numbers(SYSTEM_CLOCK.monotonic_s())

    # -- starting ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen for clients and for nodes."""
        hold_memory()
        try:
            await super().start()
        except BaseException:
            if self._has_link:
                self.link.close()
            raise

    def _make_runner(self) -> Runner:
        loop, settings = asyncio.get_running_loop(), self.settings
        main = self.main_settings

        def log(line: str) -> None:
            loop.call_soon_threadsafe(self._log, line)

        def deliver(posts: list[Post]) -> None:
            if not self._closing:
                loop.call_soon_threadsafe(self._send, posts)

        self.link = MainLink(
            main.link_host, main.link_port, self.keys, self._lets_in, shared_memory=main.shared_memory, log=log
        )
        self._has_link = True
        self.roster = Roster(self.link, self.numbers, main.patience, settings.aliases, settings.limits, log)
        self.conductor = Conductor(self.roster, self.numbers, main.patience, main.policy)
        mail = ClusterMail(deliver, self.roster, self.conductor)
        atlas = Atlas(settings.aliases, log, settings.limits)
        place = Place(
            atlas, mail, settings.data_folder, self.stream_port, settings.limits, log, settings.draw_debug,
            workshop=self.conductor,
        )  # fmt: skip
        episode, journal = open_episode(place, settings.map_name, settings.keeping)
        runner = Runner(lambda: episode, mail, place, LinkInbox(self.roster, self.conductor, self._attend))
        if journal is not None:
            runner.keep(journal)
        self._wire(runner)
        return runner

    def _wire(self, runner: Runner) -> None:
        episode = runner.episode
        roster, conductor = self.roster, self.conductor
        roster.episode = episode
        episode.on_command = self.numbers.commands.commanded
        roster.on_seen = conductor.seen
        roster.on_lost = conductor.lost
        roster.on_leave = runner.leave
        roster.on_forgotten = conductor.forget
        roster.on_failed = self._replace
        roster.answer_aside = self._aside
        roster.wanted = lambda: tuple(self._placed)
        conductor.audience = lambda: episode.listened
        conductor.is_lockstep = lambda: episode.settings.synchronous_mode
        conductor.step_s = lambda: step_of(episode)
        conductor.remember = self._remember
        conductor.failed = self._stop_run
        conductor.while_waiting = self._publish

    def _remember(self, sensor: int, memory: bytes) -> None:
        from samepath.simulator.server.sensors import Eye, SensorEntry

        entry = self._runner.episode.actors.find(sensor)
        if isinstance(entry, SensorEntry) and isinstance(entry.instrument, Eye):
            entry.instrument.memory = memory

    def _stop_run(self, error: NodeMissingError) -> None:
        self._failed(str(error))

    def _aside(self, call: Call) -> None:
        def work() -> None:
            self._runner.submit(Done(call.caller, call.id, self._runner.answer_now(call)))

        self._readers.submit(work)

    def _lets_in(self, public: str) -> bool:
        return public in tuple(self._allowed.values()) or self._known(public)

    def compile_early(self) -> None:
        """Nothing is drawn here, so nothing is compiled."""

    async def stop(self) -> None:
        """Tell all nodes to go, close the ports, end the episode."""
        self.conductor.over = True
        await super().stop()
        self.roster.dismiss_all("the main server stops")
        self.link.poll(_FAREWELL_S)
        self.link.close()
        if self._placement is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._placement.close)

    # -- nodes -------------------------------------------------------------------------------------------------------

    def place(self, order: NodeOrder) -> None:
        """Have a node started, with a key of its own; from any thread."""
        if self._placement is None:
            raise InputError("this main server starts no nodes by itself: start one with samepath cluster node")
        keys = make_keys()
        self._allowed[order.name] = keys.public
        self._placed[order.name] = order
        self._placement.start(order, NodeKeys(self.keys.public, keys.public, keys.secret))

    def drain(self, name: str) -> str:
        """Give a node nothing more; it goes when it owes nothing and has no clients. From any thread."""
        if name not in {one.name for one in self.roster.all()}:
            raise InputError(f"there is no node {name}: there are {', '.join(one.name for one in self.roster.all()) or 'none'}")
        self._wishes.append(partial(self._drain, name))
        self.link.wake()
        return f"{name} will be given nothing more"

    def _drain(self, name: str) -> None:
        placed = self._placed.pop(name, None)
        self._allowed.pop(name, None)
        member = self.roster.by_name(name)
        if member is not None and member.state != JOINING:
            self.conductor.drain(member)
            return
        if member is not None:
            self.conductor.dismiss(member, "it was drained")
        if placed is not None and self._placement is not None:
            self._placement.stop(name)  # it does not draw yet

    def scale(self, nodes: int) -> str:
        """Have so many nodes; from any thread."""
        if self._placement is None:
            raise InputError("this main server starts no nodes by itself: start one with samepath cluster node")
        names = list(self._placed)
        for name in names[nodes:]:
            self._wishes.append(partial(self._drain, name))
        if len(names) < nodes:
            pattern = next(iter(self._placed.values()), NodeOrder("node-1", 1, self.link.endpoint))
            taken = {one.ordinal for one in tuple(self._placed.values())}
            free = (number for number in range(1, nodes + len(taken) + 1) if number not in taken)
            for _ in range(nodes - len(names)):
                number = next(free)
                self.place(pattern.another(number))
        self.link.wake()
        return f"{nodes} nodes wanted, {len(names)} before"

    def _replace(self, member: Member, why: str) -> None:
        """A node has failed: have its process ended and another one started in its place."""
        self.roster.restarts[member.name] = self.roster.restarts.get(member.name, 0) + 1
        if self._placement is not None and member.name in self._placed:
            self._placement.restart(member.name)

    def _attend(self) -> None:
        """What has to be looked after between calls; in the episode's thread."""
        while self._wishes:
            self._wishes.pop(0)()
        for member in self.roster.all():
            if member.state == "draining" and not member.issued and not member.clients:
                self.conductor.dismiss(member, "it was drained")
                if self._placement is not None and member.name not in self._placed:
                    self._placement.stop(member.name)
        if self._placement is not None:
            for ended in self._placement.ended():
                if not ended.restarts:
                    self._placed.pop(ended.name, None)
        self._publish()

    def _publish(self) -> None:
        now_s = SYSTEM_CLOCK.monotonic_s()
        if self.board.due(now_s):
            self.board.publish(self._status(now_s), now_s)

    # -- looking on --------------------------------------------------------------------------------------------------

    def _status(self, now_s: float) -> ClusterStatus:
        return status_of(
            self.main_settings.name, __version__, self._runner.episode, self.roster, self.conductor, self.numbers, now_s
        )

    def look(self) -> ClusterStatus:
        """How the cluster stands right now; for whoever knows that no tick is under way."""
        return self._status(SYSTEM_CLOCK.monotonic_s())

    def status(self) -> ClusterStatus | None:
        """How the cluster stands; from any thread."""
        return self.board.read()

    def thumbnail(self, sensor: int) -> bytes | None:
        """A small picture of what a camera saw last, as PNG; from any thread. The first time it is only asked for."""
        self.conductor.wanted_here.add(sensor)
        kept = self.conductor.kept.get(sensor)
        return None if kept is None else thumbnail_png(kept[0].type_id, kept[1])

    def joined(self) -> int:
        """How many nodes draw."""
        return sum(1 for one in self.roster.all() if one.state != JOINING)
