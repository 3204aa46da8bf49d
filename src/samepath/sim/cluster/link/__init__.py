"""The link between a main server and its nodes: ZeroMQ with CURVE keys, and shared memory for bulk on one host."""

from samepath.sim.cluster.link.allocator import hold_memory
from samepath.sim.cluster.link.errors import LinkError, LinkLostError, LinkRefusedError, PeerGoneError, PeerStuckError
from samepath.sim.cluster.link.events import Event, Gone, LinkCounts, Ready, Received, Woken
from samepath.sim.cluster.link.keys import Keys, make_keys, read_keys, read_public, write_keys
from samepath.sim.cluster.link.limits import LinkLimits
from samepath.sim.cluster.link.main_link import MainLink
from samepath.sim.cluster.link.node_link import NodeLink

__all__ = [
    "Event",
    "Gone",
    "Keys",
    "LinkCounts",
    "LinkError",
    "LinkLimits",
    "LinkLostError",
    "LinkRefusedError",
    "MainLink",
    "NodeLink",
    "PeerGoneError",
    "PeerStuckError",
    "Ready",
    "Received",
    "Woken",
    "hold_memory",
    "make_keys",
    "read_keys",
    "read_public",
    "write_keys",
]
