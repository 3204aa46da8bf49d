"""What a link reports when it is polled."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Received:
    """A message. The bulk was copied out of shared memory or off the wire: it may be kept as long as one likes."""

    peer: bytes
    message: bytes
    bulk: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Woken:
    """Another thread has called ``wake``, once or more often."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A watched file descriptor can be read."""

    key: object


@dataclass(frozen=True, slots=True)
class Gone:
    """The connection to a peer has ended. It comes after the last message of that peer, once, and the peer is forgotten."""

    peer: bytes


@dataclass(slots=True)
class LinkCounts:
    """What has gone over a main server's link so far; for status and metrics."""

    sent: int = 0
    received: int = 0
    shared_bytes: int = 0  # bulk of nodes that came through shared memory
    wire_bytes: int = 0  # everything of nodes that came over the wire
    dropped: int = 0  # messages of forgotten or unknown peers
    malformed: int = 0


Event = Received | Woken | Ready | Gone
