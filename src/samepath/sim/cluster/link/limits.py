"""Bounds of the link. Everything a peer can make grow is held by one of these numbers."""

from dataclasses import dataclass
from typing import Final

_MIB: Final = 1 << 20


@dataclass(frozen=True)
class LinkLimits:
    """How large messages may be, and how much may wait for a peer that does not read."""

    message_bytes: int = 16 * _MIB  # one message, its bulk not counted
    bulk_bytes: int = 64 * _MIB + (1 << 16)  # one part of the bulk: the largest picture that a server draws, and its head
    bulk_parts: int = 4096  # of one message
    embedded_bytes: int = 2048  # bulk up to this size travels within the message itself
    waiting_messages: int = 16_384  # sent and not known to be read
    waiting_bytes: int = 256 * _MIB  # the same in bytes, those in shared memory included
    board_bytes: int = 1 * _MIB  # of shared memory for all nodes at first
    board_bytes_max: int = 64 * _MIB  # then bulk travels over the wire
    arena_bytes: int = 4 * _MIB  # of shared memory for one node's results at first
    arena_bytes_max: int = 256 * _MIB
    messages_per_poll: int = 1024
    report_messages: int = 256  # say what has been read after so many messages at the latest
    connect_s: float = 30.0  # for a node to find its main server
    stuck_s: float = 60.0  # for a node to wait until its main server reads

    @property
    def frame_bytes(self) -> int:
        """The longest frame: a part of the bulk, or a message with all its small parts."""
        return max(self.bulk_bytes, self.message_bytes + self.bulk_parts * (self.embedded_bytes + 32) + 64)
