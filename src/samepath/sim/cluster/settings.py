"""How a main server is started, and how patient it is."""

from dataclasses import dataclass, field
from pathlib import Path

from samepath.sim.server.server import ServerSettings


@dataclass(frozen=True)
class Patience:
    """When the main server does something about a node.

    ``again_s``: how long it waits beyond what a node's orders should take (times ``again_factor``) before it gives them to
    another node as well; ``fence_s``: how long before it takes the node out, ten times as long if the node still speaks.
    ``silent_s``: how long a node may say nothing at all, ``joining_s`` while it joins and may have to compile. ``empty_s``: how
    long a tick may wait while there is no node to draw, before the run stops.
    """

    again_s: float = 0.25
    again_factor: float = 4.0
    fence_s: float = 2.0
    silent_s: float = 5.0
    joining_s: float = 60.0
    empty_s: float = 60.0


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
    patience: Patience = field(default_factory=Patience)
    run_folder: Path | None = None
    page_host: str = "127.0.0.1"
    page_port: int | None = None
