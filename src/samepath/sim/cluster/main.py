"""The main server: a server that never draws. It owns the world, and has the nodes draw what is due."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from samepath import __version__
from samepath.base.clock import SYSTEM_CLOCK
from samepath.base.errors import InputError
from samepath.sim.cluster.conductor import Conductor, NodeMissingError
from samepath.sim.cluster.link.allocator import hold_memory
from samepath.sim.cluster.link.keys import Keys, make_keys
from samepath.sim.cluster.link.main_link import MainLink
from samepath.sim.cluster.members import JOINING, Member
from samepath.sim.cluster.numbers import Numbers
from samepath.sim.cluster.placement.records import NodeKeys, NodeOrder, Placement
from samepath.sim.cluster.post import ClusterMail, LinkInbox
from samepath.sim.cluster.reporting import status_of
from samepath.sim.cluster.roster import Roster
from samepath.sim.cluster.settings import MainSettings
from samepath.sim.cluster.watching.recent import Board
from samepath.sim.cluster.watching.status import ClusterStatus
from samepath.sim.cluster.watching.thumbnails import thumbnail_png
from samepath.sim.server.atlas import Atlas
from samepath.sim.server.episode import Place
from samepath.sim.server.resuming import open_episode
from samepath.sim.server.rpc import Call
from samepath.sim.server.runner import Done, Post, Runner
from samepath.sim.server.server import Server
from samepath.sim.server.ticking import step_of

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
        from samepath.sim.server.sensing import SensorEntry
        from samepath.sim.server.sensors.seeing import Eye

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
