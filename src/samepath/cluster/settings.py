"""How a main server is started, and how long it waits for nodes."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from samepath.cluster.link.compression import Mode
from samepath.cluster.link.memory import power_of_two
from samepath.cluster.link.wire import LinkLimits
from samepath.core.errors import InputError
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.server.rendering import ROUND_BYTES
from samepath.simulator.server.server import ServerSettings

# What stands before a measurement or around an answer: a header, a wrapping, a name.
_AROUND_BYTES: Final = 1 << 16
# The state and the view of an actor in a tick, and a debug shape without its text; a test holds the numbers to the records.
_ACTOR_BYTES: Final = 512
_SHAPE_BYTES: Final = 256
_CHARACTER_BYTES: Final = 4  # of UTF-8, at most
# A node sends a heartbeat twice a second: below the first one that is a little late would cost it its place. Beyond the second
# whoever waits for the world has left.
FENCE_LEAST_S: Final = 1.0
FENCE_MOST_S: Final = 600.0
# How much longer a node may take for a frame while its heartbeats come: it is slow, not frozen, and others may be as slow.
SLOW_FACTOR: Final = 10.0


def tick_bytes(server: ServerLimits) -> int:
    """The most that a tick's state and view take: every actor there may be, and every shape a client may draw."""
    shapes = server.debug_shapes * _SHAPE_BYTES + server.debug_text_characters * _CHARACTER_BYTES
    # What is hidden is named: all of a map's scenery at most, which was made of its OpenDRIVE.
    return server.actors * _ACTOR_BYTES + shapes + server.opendrive_bytes


def link_limits(server: ServerLimits) -> LinkLimits:
    """The link of a cluster, as large as what its server allows: whatever a client may ask for can be carried.

    A part of the bulk is a measurement or what its sensor remembers, a call, an answer, a map or a tick.
    """
    largest_bytes = max(
        server.measurement_bytes, server.answer_bytes, server.message_bytes, server.opendrive_bytes, tick_bytes(server)
    )
    bulk_bytes = largest_bytes + _AROUND_BYTES
    return LinkLimits(
        bulk_bytes=bulk_bytes,
        # A round of frames and one more: a peer that has all of them before it is busy, not stuck.
        waiting_bytes=ROUND_BYTES + 2 * bulk_bytes,
        broadcast_bytes_max=power_of_two(bulk_bytes, 1 << 30),
        arena_bytes_max=power_of_two(max(bulk_bytes, ROUND_BYTES), 1 << 30),
    )


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
    # The same while a node builds the map that was loaded. The main server reads a map within 60 s of processor time, a node
    # builds its meshes in a similar time, and a busy machine takes ten times as long.
    build_s: float = 600.0
    # How long beyond the expected time a tick may go on without a new frame, before the run stops. A slow node has its
    # patience doubled twice by then, so a tick fails only for a frame that no node can draw.
    frame_s: float = 120.0

    @classmethod
    def with_patience(cls, fence_s: float) -> Self:
        """With another time after which a silent node is taken out. What it owes is drawn elsewhere as soon as ever."""
        if not FENCE_LEAST_S <= fence_s <= FENCE_MOST_S:
            raise InputError(f"--node-timeout: {FENCE_LEAST_S:g} to {FENCE_MOST_S:g} seconds were wanted, but {fence_s:g} came")
        return cls(
            fence_s=fence_s,
            silent_s=max(cls.silent_s, fence_s),
            frame_s=max(cls.frame_s, 2.0 * SLOW_FACTOR * fence_s),
        )


@dataclass(frozen=True)
class MainSettings:
    """A main server: what it serves, where nodes find it, how they are treated.

    ``policy`` is how sensors are shared out: ``measured`` or ``round-robin`` or ``random``. ``compress``: whether large things
    for nodes of other hosts may go compressed, ``auto`` where that takes less time.
    """

    server: ServerSettings = field(default_factory=ServerSettings)
    name: str = "samepath"
    link_host: str = "127.0.0.1"
    link_port: int = 0
    shared_memory: bool = True
    compress: Mode = "auto"
    policy: str = "measured"
    timeouts: Timeouts = field(default_factory=Timeouts)
    run_folder: Path | None = None
    page_host: str = "127.0.0.1"
    page_port: int | None = None
