"""Whole clusters in one process, on virtual time: main server, nodes, clients and a disk, and everything that may befall them.

``run_schedule(seed)`` draws a cluster and its troubles from one seed, plays them, and checks at every step what a cluster
promises. There is no thread, no socket and no clock: a heap of timed events is all there is, so an hour of waiting costs
nothing, and a seed that fails once fails again, to the bit.

**What is real.** Every decision is :func:`samepath.cluster.coordinator.step`. Calls go through the real
:class:`~samepath.simulator.server.tickets.TicketStore` and are journalled by the real
:mod:`~samepath.simulator.server.journal_files` on the simulated disk of :mod:`tests.support.disk`. What stands in for the rest
follows the code it stands for, function by function: :class:`VirtualMain` is ``shell.py`` and the outbox of ``main.py``,
:class:`VirtualNode` is ``node.py``, :class:`Episode` is a world whose measurements are digests of all they depend on.

**What may go wrong** (the fault model):

* A node's process *ends*; the main server sees that within milliseconds, before or after what the node had sent last.
* A node *freezes* (SIGSTOP), says nothing, and perhaps *thaws*: what it was sent meanwhile it then does.
* A connection *breaks* in both directions; what was under way is lost. Each side notices sooner or later, the main server
  perhaps never. The node's process ends, and another incarnation comes, perhaps before its predecessor's end was noticed.
* A frame is *heavy*: every node takes seconds for it, or for ever, perhaps without a heartbeat meanwhile.
* A node is *slow*, by 2 to 50 times, for a while or for ever. Messages are delayed, now and then by a second.
* A node *lies*: it holds another state, and says so or nothing at all of it, built another map, draws another test picture,
  runs other code; or it is *confused* and greets twice. The first node to join may be the liar: what a test picture must be is
  known.
* Frames go from node to node between hosts, each at its own pace: before or after the main server hears of them. Those of a way
  that breaks are lost, and nobody is told; those of a liar or of an earlier incarnation arrive, and must not be given out.
* What a node writes for another node of its host lies in its memory until that one has read it, and not a moment longer.
* A link is *lossy*, which the real one never is: results are lost, doubled or overtake each other on their way to the main
  server, ticks are lost on their way to a node. Whatever is lost, no frame may be. Everything else keeps the link's contract:
  messages of a connection arrive in order, all of them, until it breaks.
* The main server *pauses*, *dies* or loses *power* at any moment, also in the middle of writing to its disk, which then keeps
  any part of what was not synced. It goes on from its journal; nodes come anew, clients send again what was not answered.

Nodes are drained, added and started again all the time, clients come, move, listen, change settings, actors and maps.

**What must hold** is checked where it happens and raises :class:`Violation`; see ``_check`` and its callers.
"""

import heapq
from collections import deque
from hashlib import blake2b
from typing import NamedTuple

from tests.support.disk import SimulatedDisk
from tests.support.virtual_episode import MAIN, NEVER_S, Chance, Violation
from tests.support.virtual_main import RunStopped, VirtualMain
from tests.support.virtual_node import Client, VirtualNode

# Beyond this a schedule hangs: no wait of the coordinator's is longer than a minute.
LONGEST_S = 900.0


class Outcome(NamedTuple):
    """What came of a schedule. ``violation``: the first promise that was broken; ``digest``: of everything that happened."""

    seed: int
    events: int
    ticks: int
    virtual_s: float
    violation: str | None
    digest: str
    log: tuple[str, ...]


class MainDied(BaseException):
    """The main server's process ends here, in the middle of whatever it was doing."""

    def __init__(self, *, power):
        super().__init__()
        self.power = power


def run_schedule(seed, **options):
    """Draw a cluster and its troubles from a seed, and play them. ``options`` fix what would be drawn, see :func:`drawn`."""
    world = World(seed, drawn(seed, **options))
    violation = None
    try:
        world.run()
    except RunStopped:
        world.note("the run stops")
    except Violation as found:
        violation = str(found)
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        violation = f"error of ours: {type(error).__name__}: {error}"
    log = tuple(world.log)
    digest = blake2b("\n".join(log).encode(), digest_size=16).hexdigest()
    return Outcome(seed, world.events, world.ticks, world.now_s, violation, digest, log)


class Plan(NamedTuple):
    """A schedule, as drawn: how large, how long, and which troubles, each ``(tick, seconds into it, kind)``."""

    nodes: int
    clients: int
    ticks: int
    sensors: int
    troubles: tuple[tuple[int, float, str], ...]
    policy: str
    lossy: float  # of results and ticks, on links that are
    lies: float  # of nodes that are started
    lag_s: float
    spikes: float  # of messages that take up to a second
    pauses: float  # of ticks in which the main server pauses
    journal: bool
    durable: bool
    same_host: float
    real_time: bool
    builds_s: float
    lost_ways: float  # of frames that go from node to node
    heavy_tick: int  # in which a frame takes ``heavy_s`` longer, on every node
    heavy_s: float
    deaf: bool  # no heartbeats while that frame is drawn
    slow_map_s: float  # how much longer a node builds a map that a client has loaded


KINDS = (
    ("crash", 5), ("freeze", 4), ("partition", 3), ("slow", 5), ("lossy", 5), ("confused", 1), ("desync", 2), ("drain", 2),
    ("scale", 2), ("map", 1), ("unlisten", 1), ("main_crash", 1), ("power_cut", 2), ("disk_cut", 2),
)  # fmt: skip
_WEIGHTED = tuple(kind for kind, weight in KINDS for _ in range(weight))
_STORM = ("freeze", "slow", "slow", "lossy", "lossy", "crash")


def drawn(seed, **options):
    """The plan of a seed; ``options`` replace what was drawn, and move nothing else."""
    chance = Chance(seed, "plan")
    large = chance.happens(0.01)
    storm = not large and chance.happens(0.15)  # few nodes, and something is wrong with most of them most of the time
    nodes = 40 if large else 2 + chance.below(2) if storm else chance.pick((1, 2, 2, 2, 3, 3, 4, 5, 6, 8))
    ticks = 6 if large else 80 if chance.happens(0.02) else 6 + chance.below(18)
    calm = chance.happens(0.1)
    count = 6 + chance.below(8) if storm else 0 if calm else 1 + chance.below(6)
    kinds = _STORM if storm else _WEIGHTED
    troubles = sorted((1 + chance.below(ticks), chance.between(0.0, 0.06), chance.pick(kinds)) for _ in range(count))
    plan = Plan(
        nodes=nodes,
        clients=1 + chance.below(3),
        ticks=ticks,
        sensors=1 + chance.below(9),
        troubles=tuple(troubles),
        policy=chance.pick(("measured", "measured", "measured", "round-robin", "random")),
        lossy=0.0 if not storm and chance.happens(0.7) else chance.between(0.02, 0.3),
        lies=0.0 if chance.happens(0.6) else chance.between(0.05, 0.5),
        lag_s=chance.pick((0.0001, 0.001, 0.005, 0.05)),
        spikes=0.0 if chance.happens(0.6) else chance.between(0.001, 0.03),
        pauses=0.0 if chance.happens(0.6) else chance.between(0.02, 0.2),
        journal=chance.happens(0.6),
        durable=chance.happens(0.5),
        same_host=chance.pick((0.0, 0.5, 1.0)),
        real_time=chance.happens(0.25),
        builds_s=chance.pick((0.02, 0.2, 3.0)),
        lost_ways=chance.pick((0.0, 0.0, 0.0, 0.05, 0.5, 1.0)),
        heavy_tick=1 + chance.below(ticks),
        heavy_s=chance.pick((3.0, 10.0, 25.0, 45.0, NEVER_S)) if chance.happens(0.12) else 0.0,
        deaf=chance.happens(0.5),
        slow_map_s=chance.pick((30.0, 100.0)) if chance.happens(0.1) else 0.0,
    )
    if plan.deaf and plan.heavy_s < NEVER_S:  # a node that is silent for longer is not told from a frozen one in time
        plan = plan._replace(heavy_s=min(plan.heavy_s, 12.0))
    return plan._replace(**options)


class World:
    """Time, chance, whoever is there, and what is known of what must come."""

    def __init__(self, seed, plan):
        self.seed, self.plan = seed, plan
        self.now_s, self.events, self.ticks = 0.0, 0, 0
        self.log = []
        self._heap, self._order = [], 0
        self.chance = {
            name: Chance(seed, name) for name in ("links", "nodes", "clients", "troubles", "main", "disk", "launches", "ways")
        }
        self.main = None
        self.running = {}  # by name, the node's process
        self.peers = {}  # by connection, the node behind it, also if it is gone
        self.placed = {}  # names of the nodes that should be there
        self.incarnations = 0
        self.disk = SimulatedDisk()
        self.disk.before_each = self.before_disk
        self.cut_in = None  # so many operations of the disk until power is cut
        self.answered = {}  # by ticket, what a client was told, and when
        self.lost_power_s = []  # when
        self.clients = []
        self.last_trouble_s = 0.0
        self.troubles = deque(plan.troubles)

    # Time.

    def at(self, delay_s, call, *arguments):
        """Have something done later."""
        self.at_time(self.now_s + delay_s, call, *arguments)

    def at_time(self, time_s, call, *arguments):
        """The same, at a moment; what is to happen at one moment happens in the order in which it was asked for."""
        self._order += 1
        heapq.heappush(self._heap, (time_s, self._order, call, arguments))

    def next_event(self):
        """Let time pass up to the next thing that happens."""
        if not self._heap:
            raise Violation("nothing will ever happen any more")
        self.now_s, _, call, arguments = heapq.heappop(self._heap)
        self.events += 1
        if self.now_s > LONGEST_S:
            raise Violation(f"after {LONGEST_S:.0f} s only {self.ticks} of {self.plan.ticks} ticks are done")
        call(*arguments)

    def note(self, *words):
        self.log.append(" ".join((f"{self.now_s:.6f}", *map(str, words))))

    def run(self):
        """Play the schedule up to its last tick, and let everything come to rest."""
        self.start_main()
        for number in range(1, self.plan.nodes + 1):
            self.placed[f"node-{number}"] = None
            self.launch(f"node-{number}")
        for number in range(self.plan.clients):
            client = Client(self, number)
            self.clients.append(client)
            self.at(0.01 * number, client.connect)
        end_s, ticks = None, 0
        while True:
            try:
                if not self.is_done():
                    end_s = None
                elif end_s is None or self.ticks != ticks:
                    # What is under way arrives. A tick that was still asked for (a whole one within one step) begins this anew.
                    end_s, ticks = self.now_s + 3.0, self.ticks
                elif self.now_s >= end_s:
                    break
                self.next_event()
                self.main.work_off()
            except MainDied as death:
                self._bury_main(death)
        self.main.at_rest()

    def is_done(self):
        return self.ticks >= self.plan.ticks and self.main.alive and not self.main.is_busy

    # The main server and its disk.

    def start_main(self):
        self.main = VirtualMain(self)
        try:
            self.main.begin()
        except MainDied as death:
            self._bury_main(death)

    def before_disk(self):
        if self.cut_in is not None and self.main is not None and self.main.alive:
            self.cut_in -= 1
            if self.cut_in <= 0:
                self.cut_in = None
                raise MainDied(power=True)

    def _bury_main(self, death):
        """The main server has died: its nodes end with it, clients lose it, and it is started again."""
        self.note("main died", death.power)
        self.main.alive = False
        for node in tuple(self.running.values()):
            node.end("the main server is gone")
        if death.power:
            self.lost_power_s.append(self.now_s)
            self.disk = self.disk.after_power_cut(self.chance["disk"])
        else:
            self.disk = after_crash(self.disk)
        self.disk.before_each = self.before_disk
        self.cut_in = None
        for client in self.clients:
            if client.home is MAIN:
                client.lose()
        self.at(self.chance["main"].between(0.2, 2.0), self.start_main)

    # Nodes.

    def launch(self, name):
        """Start a node's process, if it is wanted and not there."""
        if name not in self.placed or name in self.running:
            return
        if not self.main.alive:
            self.at(0.3, self.launch, name)
            return
        self.incarnations += 1
        node = VirtualNode(self, name, self.incarnations)
        self.running[name] = node
        node.start()

    def relaunch(self, name):
        self.at(self.chance["launches"].between(0.1, 2.0), self.launch, name)

    # Troubles.

    def on_tick(self):
        """A tick begins: what was drawn for it happens a moment later."""
        while self.troubles and self.troubles[0][0] <= self.ticks + 1:
            _, offset_s, kind = self.troubles.popleft()
            self.at(offset_s, self._trouble, kind)
        if self.chance["main"].happens(self.plan.pauses):
            self.main.pause(self.chance["main"].pick((0.02, 0.2, 1.5)))

    def _trouble(self, kind):
        if not self.main.alive:
            return
        self.last_trouble_s = self.now_s
        chance = self.chance["troubles"]
        names = sorted(self.running)
        self.note("trouble", kind)
        if kind in ("main_crash", "power_cut", "disk_cut"):
            if self.plan.journal and kind == "disk_cut":
                self.cut_in = 1 + chance.below(12)
            elif self.plan.journal:
                raise MainDied(power=kind == "power_cut")
        elif kind == "scale":
            name = f"node-{len(self.placed) + 1 + chance.below(3)}"
            self.placed[name] = None
            self.launch(name)
            if chance.happens(0.3):  # and at once down again, perhaps before it has joined
                self.at(chance.between(0.0, 2.0 * self.plan.builds_s), self.drain, name)
        elif kind == "map":
            self.clients[0].wishes.append(("map", None))
        elif kind == "unlisten":
            for node in self.running.values():
                node.unlisten(chance)
        elif kind == "drain":
            self.drain(chance.pick(sorted(self.placed)))
        elif names:
            self.running[chance.pick(names)].suffer(kind, chance)

    def drain(self, name):
        if self.main.alive and name in self.placed and len(self.placed) > 1:
            del self.placed[name]
            self.main.drain(name)


def after_crash(disk):
    """The disk as the next process finds it: everything that was handed to the kernel is there."""
    disk._handles.clear()
    return disk
