"""The link between a main server and its nodes: ZeroMQ with CURVE keys, and shared memory for bulk on one host."""

from samepath.cluster.link.keys import Keys, make_keys, read_keys, read_public, write_keys
from samepath.cluster.link.main_link import MainLink
from samepath.cluster.link.memory import hold_memory
from samepath.cluster.link.node_link import NodeLink
from samepath.cluster.link.wire import (
    ArenaPart,
    Disconnected,
    LinkCounts,
    LinkError,
    LinkEvent,
    LinkLimits,
    LinkLostError,
    LinkRefusedError,
    PeerGoneError,
    PeerStuckError,
    Readable,
    Received,
    ReceivedInPlace,
    Woken,
)

__all__ = [
    "ArenaPart",
    "Disconnected",
    "Keys",
    "LinkCounts",
    "LinkError",
    "LinkEvent",
    "LinkLimits",
    "LinkLostError",
    "LinkRefusedError",
    "MainLink",
    "NodeLink",
    "PeerGoneError",
    "PeerStuckError",
    "Readable",
    "Received",
    "ReceivedInPlace",
    "Woken",
    "hold_memory",
    "make_keys",
    "read_keys",
    "read_public",
    "write_keys",
]
