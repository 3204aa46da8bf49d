"""How a main server is started, and how long it waits for nodes."""

from dataclasses import dataclass, field
from pathlib import Path

from samepath.simulator.server.server import ServerSettings


@dataclass(frozen=True)
class Timeouts:
    """When the main server does something about a node.

    A lockstep tick waits for its slowest frame, so these numbers are how long a whole world stands still when a node fails.
    Giving work to another node costs only time (frames are the same wherever they are drawn), taking a node out costs its
    clients their connection: so the first happens early and the second late. A node sends a heartbeat twice a second, also
    while it draws; that tells a slow node from a frozen one.
    """

    # How long beyond what its requests should take (times the factor) before they are given to another node as well. Costs are
    # learned means: a tick of four times the mean does happen, a quarter of a second absorbs what the kernel's scheduler does.
    reissue_s: float = 0.25
    reissue_factor: float = 4.0
    # How long beyond it before a silent node is taken out; ten times as long for one whose heartbeats still come: it is slow,
    # and another one may be as slow.
    fence_s: float = 2.0
    # How long a node may say nothing at all: ten heartbeats.
    silent_s: float = 5.0
    # The same while it joins: it compiles its renderer where that was never done before, which takes up to half a minute.
    joining_s: float = 60.0
    # How long a tick may wait while there is no node to draw, before the run stops: as long as one may take to join.
    no_node_s: float = 60.0


@dataclass(frozen=True)
class MainSettings:
    """A main server: what it serves, where nodes find it, how they are treated.

    ``policy`` is how sensors are shared out: ``measured`` or ``round-robin`` or ``random``.
    """

    server: ServerSettings = field(default_factory=ServerSettings)
    name: str = "samepath"
    link_host: str = "127.0.0.1"
    link_port: int = 0
    shared_memory: bool = True
    policy: str = "measured"
    timeouts: Timeouts = field(default_factory=Timeouts)
    run_folder: Path | None = None
    page_host: str = "127.0.0.1"
    page_port: int | None = None
