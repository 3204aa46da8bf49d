"""The nodes as the main server knows them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from samepath.sim.cluster.messages import Hello
from samepath.sim.cluster.watching.recent import Meter
from samepath.sim.cluster.watching.status import NodeState
from samepath.sim.server.viewing.order import Order

JOINING: Final = "joining"
WORKING: Final = "working"
DRAINING: Final = "draining"
FENCED: Final = "fenced"
GONE: Final = "gone"
_DRAWING: Final = (WORKING,)


class RemoteCaller:
    """A client of a node, for the episode: where its answers go, and where it fetches streams."""

    def __init__(self, member: "Member", client: int, reply: Callable[["RemoteCaller", int | None, bytes], None]) -> None:
        self._reply = reply
        self.member = member
        self.client = client
        self.home = member.number
        self.stream_port: int | None = member.hello.stream_port
        self.name = f"client {client} of {member.name}"

    def answer(self, call_id: int | None, result: bytes) -> None:
        """Send the answer to a call, through the node."""
        self._reply(self, call_id, result)


@dataclass
class Issue:
    """Orders of a tick that a node has been given and not yet answered."""

    frame: int
    orders: dict[int, Order]
    at_s: float
    expected_s: float
    timed: bool = False


@dataclass(eq=False)
class Member:
    """A node, from its greeting to its end. ``number`` is fixed by its name; another incarnation is another member."""

    peer: bytes
    number: int
    name: str
    hello: Hello
    state: NodeState
    heard_s: float
    same_host: bool
    drawn: Meter
    drew: Meter
    pidfd: int = -1
    connected: int = 0
    clients: dict[int, RemoteCaller] = field(default_factory=dict)
    issued: list[Issue] = field(default_factory=list)
    known_episode: int = -1  # whose map it was sent last
    built_episode: int = -1  # whose map it has built
    calls: int = 0  # of its clients, forwarded
    heard: int = 0  # the last mark behind news that it has taken in
    doubted: bool = False  # its orders were given to others as well
    busy_s: float = 0.0
    step_s: float | None = None
    steps: int = 0
    steps_s: float = 0.0
    late_frames: int = 0
    dropped_frames: int = 0
    compared: int = 0
    desynchronised: int = 0
    digests: dict[int, bytes] = field(default_factory=dict)

    @property
    def draws(self) -> bool:
        """May it be given orders? While it builds another map it may not: that takes as long as it takes."""
        return self.state in _DRAWING and self.built_episode == self.known_episode

    @property
    def listens(self) -> bool:
        """Is it told of every tick?"""
        return self.state in (WORKING, DRAINING)

    @property
    def address(self) -> str:
        """Where clients reach it."""
        return f"{self.hello.rpc_host}:{self.hello.rpc_port}"
