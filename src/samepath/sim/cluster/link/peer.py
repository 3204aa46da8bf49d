"""A node as its main server sees it: the connection, what waits for it, and the memory it writes its results to."""

import os
import socket
from contextlib import suppress
from dataclasses import dataclass

from samepath.sim.cluster.link.account import Account
from samepath.sim.cluster.link.segments import Segment


@dataclass(slots=True)
class Arena:
    """Shared memory that one node writes to and main reads."""

    segment: Segment
    generation: int


@dataclass(slots=True)
class Peer:
    """One connection of a node."""

    identity: bytes
    key: str
    fd: int
    line: socket.socket  # a second handle of the connection, to cut it
    account: Account
    wants_memory: bool
    proof: tuple[int, bytes] = (-1, b"")  # of the board last offered: generation and nonce
    board: int = -1  # generation of the board it is proved to read
    arenas: tuple[Arena, ...] = ()  # the last one, and the one before until the node has gone over
    malformed: int = 0

    def arena(self, generation: int) -> Segment | None:
        """The arena of that generation."""
        for one in self.arenas:
            if one.generation == generation:
                return one.segment
        return None

    def drop_arenas_before(self, generation: int) -> None:
        """Free what the node no longer writes to."""
        for one in self.arenas:
            if one.generation < generation:
                self.drop_arena(one.generation)

    def drop_arena(self, generation: int) -> None:
        """Free one that the node does not write to."""
        for one in self.arenas:
            if one.generation == generation:
                one.segment.close()
        self.arenas = tuple(one for one in self.arenas if one.generation != generation)

    def cut(self) -> None:
        """End the connection, for both sides, and free its memory."""
        with suppress(OSError):
            self.line.shutdown(socket.SHUT_RDWR)
        self.line.close()
        for one in self.arenas:
            one.segment.close()
        self.arenas = ()


def second_handle(fd: int) -> socket.socket:
    """Another handle of a connection whose first one belongs to ZeroMQ."""
    double = os.dup(fd)
    try:
        return socket.socket(fileno=double)
    except OSError:
        os.close(double)
        raise
