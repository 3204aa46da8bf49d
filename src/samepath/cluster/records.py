"""What the coordinator works on: the state of a cluster, what may happen to it, and what is then to be done.

Frozen records. Dictionaries in them are never changed, only replaced. What leads to what is said in
:mod:`samepath.cluster.coordinator`.
"""

from typing import Literal

import msgspec

from samepath.cluster import messages as m
from samepath.cluster.assignment import Balance
from samepath.cluster.link.compression import PackedPart
from samepath.cluster.link.wire import ArenaPart
from samepath.cluster.settings import Timeouts
from samepath.core.network import is_everywhere
from samepath.simulator.server.dialects import NEWEST
from samepath.simulator.server.rendering import RenderRequest, RenderResult

NodeState = Literal["joining", "working", "draining"]
# What a frame holds, or where that lies in the memory of the node that drew it: here it is only passed on.
Payload = bytes | ArenaPart | PackedPart


class Assignment(msgspec.Struct, frozen=True):
    """Render requests of a tick that a node was sent and has not answered."""

    frame: int
    requests: dict[int, RenderRequest]
    at_s: float
    expected_s: float
    timed: bool = False
    gone: frozenset[int] = frozenset()  # sensors that are there no more: what comes of them is forgotten, not learned
    doublings: int = 0  # how often the time that the node has for it was doubled, because others were taken out over it
    asked_again: int = 0  # how often the node was asked again, because no other one has drawn it either


class Member(msgspec.Struct, frozen=True):
    """A node, from its Hello to its end. ``number`` is fixed by its name; another incarnation is another member."""

    peer: bytes
    number: int
    hello: m.Hello
    same_host: bool
    heard_s: float
    state: NodeState = "joining"
    clients: frozenset[int] = frozenset()
    pending: tuple[Assignment, ...] = ()
    sent_episode: int = -1  # whose map it was sent last
    sent_map_s: float = 0.0  # and when
    built_episode: int = -1  # whose map it has built
    joined_frame: int = 0  # the tick during or after which it joined: nobody listened there before
    synced: int = 0  # the last Sync that it has answered
    suspected: bool = False  # it is late, and its requests were given to others as well
    dismissed: bool = False  # it was told to go
    membership: int = 0  # no other member has the same, ever

    @property
    def name(self) -> str:
        return self.hello.name

    @property
    def address(self) -> str:
        """Where clients reach it: a node that listens on all addresses is reached by its host's name."""
        host = self.hello.host if is_everywhere(self.hello.rpc_host) else self.hello.rpc_host
        return f"{host}:{self.hello.rpc_port}"

    @property
    def can_render(self) -> bool:
        """May it be given requests? While it builds another map it may not: that takes as long as it takes."""
        return self.state == "working" and self.built_episode == self.sent_episode

    @property
    def is_building(self) -> bool:
        """Whether it builds a map, and can then be given requests."""
        return self.state != "draining" and not self.dismissed and self.built_episode != self.sent_episode

    @property
    def follows(self) -> bool:
        """Is it sent every tick?"""
        return self.state != "joining"


class MapFacts(msgspec.Struct, frozen=True):
    """The map that is played, as nodes are told."""

    message: m.NewEpisode
    xodr: bytes


class DueFrame(msgspec.Struct, frozen=True):
    """A frame that is due, and the nodes at which it is listened to (0: the main server itself)."""

    request: RenderRequest
    homes: tuple[int, ...]


class Tick(msgspec.Struct, frozen=True):
    """A tick in lockstep that is being drawn.

    What is due at once is nearly always one round. Where it is more than the memory of nodes and of this server is meant for,
    the next round begins when the frames of the last one have left (:class:`SendsDrained`).
    """

    frame: int
    homes: dict[int, tuple[int, ...]]
    rounds: tuple[tuple[RenderRequest, ...], ...]  # that have not begun
    due: dict[int, RenderRequest] = {}
    done: dict[int, RenderResult] = {}  # of this round, without payloads: those are delivered at once
    results: tuple[RenderResult, ...] = ()  # of the rounds before
    is_sent: bool = False  # to all who follow
    is_round_over: bool = False
    no_node_since_s: float | None = None
    progress_s: float = 0.0  # when the round began, or the last new frame of it came, or a node has built the map
    joins: int = 0  # nodes that have joined since it began


class ClusterConfig(msgspec.Struct, frozen=True):
    """What a main server is and holds its nodes to."""

    version: str
    fingerprint: str
    boot: str
    aliases: dict[str, str] = {}
    timeouts: Timeouts = Timeouts()
    clients_most: int = 128  # of one node
    picture: str = ""  # what every node's test picture must be; empty: what the first node's is
    protocol: str = NEWEST  # the version of CARLA's client that main server and nodes serve


class ClusterState(msgspec.Struct, frozen=True):
    """Everything that decides what happens next."""

    config: ClusterConfig
    map: MapFacts
    balance: Balance = Balance()
    members: dict[bytes, Member] = {}
    memberships: int = 0  # that were given out
    numbers: dict[str, int] = {}  # by name; a node that comes again has the number it had
    refused: dict[bytes, float] = {}  # and until when they may read why
    fenced: tuple[bytes, ...] = ()
    first_picture: str = ""
    frame: int = 0
    ticks: int = 0
    digests: dict[int, bytes] = {}
    tick: Tick | None = None
    real_time: dict[int, tuple[float, float]] = {}  # ticks that may still get frames: when they were sent, and the step
    delivered: dict[int, int] = {}  # in real time by sensor the last frame: none is delivered after a later one
    evictions: dict[int, int] = {}  # by sensor, nodes that were taken out over its frames since one came in time
    syncs: int = 0
    sync_until_s: float | None = None


# Events.


class NodeMessage(msgspec.Struct, frozen=True):
    """A node has said something; what it said has been read and is well formed.

    Of the bulk only payloads of frames may be elsewhere than here: whoever they are for reads them there.
    """

    peer: bytes
    message: m.FromNode
    bulk: tuple[Payload, ...] = ()


class PeerLost(msgspec.Struct, frozen=True):
    """A node's connection or process has ended; everything it had sent was reported before."""

    peer: bytes
    why: str


class PeerHeard(msgspec.Struct, frozen=True):
    """Part of a node's message has come. Over a slow link a large one takes longer than a node may be silent."""

    peer: bytes


class PeerFailed(msgspec.Struct, frozen=True):
    """Something is wrong with a node: it cannot be sent to, or sent what cannot be read."""

    peer: bytes
    why: str


class NewsMade(msgspec.Struct, frozen=True):
    """The episode has changed: messages for all who follow, each with its bulk; ``map`` is the one that is played now."""

    items: tuple[tuple[m.FromMain, bytes], ...]
    map: MapFacts


class SyncWanted(msgspec.Struct, frozen=True):
    """Somebody waits until all nodes have taken in what they were sent."""


class TickDue(msgspec.Struct, frozen=True):
    """The world has ticked: what is due, and the digest of what every node must hold."""

    frame: int
    digest: bytes
    frames: tuple[DueFrame, ...]
    lockstep: bool
    step_s: float


class SendsDrained(msgspec.Struct, frozen=True):
    """What a round of frames led to has left for the nodes."""


class TimePassed(msgspec.Struct, frozen=True):
    """Nothing has happened, but it is later. Comes after everything that had arrived by then."""


class DrainWanted(msgspec.Struct, frozen=True):
    """A node is to be given nothing more; it goes when it owes nothing and has no clients."""

    name: str


class StopWanted(msgspec.Struct, frozen=True):
    """All nodes are to go."""

    why: str


Event = (
    NodeMessage
    | PeerLost
    | PeerHeard
    | PeerFailed
    | NewsMade
    | SyncWanted
    | TickDue
    | SendsDrained
    | TimePassed
    | DrainWanted
    | StopWanted
)


# Effects.


class Send(msgspec.Struct, frozen=True):
    """Send a node a message."""

    peer: bytes
    message: m.FromMain
    bulk: tuple[bytes, ...] = ()


class TickOrder(msgspec.Struct, frozen=True):
    """What one node gets of a tick; ``again``: it has the tick, and only the requests are new."""

    peer: bytes
    requests: tuple[RenderRequest, ...] = ()
    homes: tuple[tuple[int, ...], ...] = ()
    timed: bool = False
    again: bool = False


class SendTick(msgspec.Struct, frozen=True):
    """Send nodes the tick of this frame, whose bytes are the same for all."""

    frame: int
    lockstep: bool
    orders: tuple[TickOrder, ...]


class Disconnect(msgspec.Struct, frozen=True):
    """Cut a connection; nothing more is heard from it."""

    peer: bytes


class NodeMet(msgspec.Struct, frozen=True):
    """A node is a member from now on. ``pid``: the end of this process of this host is to be reported as :class:`PeerLost`."""

    peer: bytes
    pid: int | None


class Introduce(msgspec.Struct, frozen=True):
    """A node has joined: send it settings, actors and the latest state, then that it has joined."""

    peer: bytes
    name: str


class Accepted(msgspec.Struct, frozen=True):
    """A member has said something that is no matter of this machine's: a client's call or end, a stream that nobody hears."""

    member: Member
    message: m.FromNode
    bulk: tuple[bytes, ...]


class Deliver(msgspec.Struct, frozen=True):
    """Send a frame to where it is listened to; the node that drew it has given it to its own clients.

    The nodes in ``sent_to`` hold it, from who has the membership ``sender``: they are only told to go on with it.
    """

    request: RenderRequest
    payload: Payload
    drawn_by: int
    sent_to: tuple[int, ...] = ()
    sender: int = 0


class Remember(msgspec.Struct, frozen=True):
    """Keep what a sensor is to know at its next request; in lockstep that comes with the tick's results."""

    sensor: int
    memory: bytes


class RoundOver(msgspec.Struct, frozen=True):
    """All frames of a round are there: :class:`SendsDrained` is wanted when what they led to has left."""


class TickOver(msgspec.Struct, frozen=True):
    """Everything that was due exists, in the order in which it was asked for."""

    frame: int
    results: tuple[RenderResult, ...]


class TickFailed(msgspec.Struct, frozen=True):
    """Frames of a tick cannot be drawn, and the run stops. ``no_node``: there is no node to draw them."""

    why: str
    no_node: bool = False


class SyncOver(msgspec.Struct, frozen=True):
    """All nodes have taken in what they were sent, or have had time enough."""


class NodeLost(msgspec.Struct, frozen=True):
    """A node is no longer a member. ``failed``: it was let in and should be replaced; ``fenced``: we have taken it out."""

    member: Member
    failed: bool
    fenced: bool


class NodeDrained(msgspec.Struct, frozen=True):
    """A node that was to be drained has been told to go: it is not to be started again."""

    name: str


class Problem(msgspec.Struct, frozen=True):
    """A line for the log and for whoever watches the cluster."""

    line: str


class LogLine(msgspec.Struct, frozen=True):
    """A line for the log."""

    line: str


class FrameDrawn(msgspec.Struct, frozen=True):
    """A frame came; ``late_s`` is counted from the end of its step, in real time."""

    node: int
    late_s: float = 0.0


class FramesDropped(msgspec.Struct, frozen=True):
    """Nobody will get these frames; ``node`` is where they should have been drawn, if that is known."""

    count: int
    node: int | None = None


class Reissued(msgspec.Struct, frozen=True):
    """Requests were given to another node as well; ``duplicate``: a frame that is there came a second time."""

    count: int = 0
    duplicate: bool = False


class StepMeasured(msgspec.Struct, frozen=True):
    """How long a node took for its share of a tick, and how long of that it drew."""

    node: int
    step_s: float
    busy_s: float


class StateCompared(msgspec.Struct, frozen=True):
    """A node's state was held against the main server's."""

    node: int
    is_equal: bool


Effect = (
    Send | SendTick | Disconnect | NodeMet | NodeDrained | NodeLost | Introduce | Accepted | Deliver | Remember | RoundOver
    | TickOver | TickFailed | SyncOver | Problem | LogLine | FrameDrawn | FramesDropped | Reissued | StepMeasured
    | StateCompared
)  # fmt: skip
