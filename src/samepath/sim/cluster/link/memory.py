"""Main's shared memory: one board that all nodes of this host read, and an arena for each of them to write to."""

from collections.abc import Callable, Iterable

from samepath.sim.cluster.link.account import Piece
from samepath.sim.cluster.link.limits import LinkLimits
from samepath.sim.cluster.link.peer import Arena, Peer
from samepath.sim.cluster.link.segments import Segment
from samepath.sim.cluster.link.store import Store
from samepath.sim.cluster.link.wire import ARENA, BOARD, Answer, Buffer, Offer, Place


class Memory:
    """Makes, replaces and frees segments. Where memory cannot be had, bulk goes over the wire, and that is said once."""

    def __init__(self, limits: LinkLimits, peers: Callable[[], Iterable[Peer]], log: Callable[[str], None]) -> None:
        self._limits = limits
        self._peers = peers
        self._log = log
        self._said = False
        self._floor = 0
        self._short_of = 0
        self._arenas = 0
        segment = self._make(limits.board_bytes, nodes_write=False)
        self._board = Store(segment, 0) if segment is not None else None

    def offer_board(self, peer: Peer) -> Offer | None:
        """Where a node finds the board; what it should read there is kept to compare."""
        if self._board is None:
            return None
        peer.proof = (self._board.generation, self._board.segment.nonce)
        return self._board.segment.offer(BOARD, self._board.generation)

    def offer_arena(self, peer: Peer, size: int = 0) -> Offer | None:
        """Make an arena for a node, larger than the last one; None if it is as large as may be or there is no memory."""
        last = peer.arenas[-1].segment.size if peer.arenas else 0
        size = power_of_two(max(size, 2 * last, self._limits.arena_bytes), self._limits.arena_bytes_max)
        if size <= last or len(peer.arenas) > 1:
            return None
        segment = self._make(size, nodes_write=True)
        if segment is None:
            return None
        self._arenas += 1
        peer.arenas = (*peer.arenas, Arena(segment, self._arenas))
        return segment.offer(ARENA, self._arenas)

    def accept(self, peer: Peer, answer: Answer) -> Offer | None:
        """A node says what it read in a segment: proof or not. Returns what to offer it next."""
        if answer.which == ARENA:
            if not answer.opened:
                peer.drop_arena(answer.generation)
            elif peer.arena(answer.generation) is not None:
                peer.drop_arenas_before(answer.generation)
            return None
        if self._board is not None and peer.proof[0] != self._board.generation:
            return self.offer_board(peer)  # it was replaced while the node was looking for it
        if answer.generation != peer.proof[0]:
            return None  # about an older one
        if answer.opened and answer.nonce == peer.proof[1]:
            peer.board = answer.generation
            return None if peer.arenas else self.offer_arena(peer)
        self._say(f"node {peer.identity.hex()[-8:]} is on another host or may not read this one's memory")
        return None

    def begin(self) -> None:
        """A letter is being written: what is put on the board from now on must stay, though no node is known to need it yet."""
        self._floor = self._board.ring.head if self._board is not None else 0

    def reads_board(self, peer: Peer) -> bool:
        """Has this node proved that it can read the board as it is now?"""
        return self._board is not None and peer.board == self._board.generation

    def put(self, data: Buffer, length: int) -> tuple[Place, Piece] | None:
        """Put a part of the bulk on the board; None if there is no room."""
        board = self._board
        if board is None:
            return None
        found = board.put(data, length)
        if found is None:
            starts = (peer.account.oldest(board.generation) for peer in self._peers())
            board.ring.release(min((self._floor, *(start for start in starts if start is not None))))
            found = board.put(data, length)
        if found is None:
            self._short_of = max(self._short_of, length)
        return found

    def grown(self) -> bool:
        """Make the board larger if there was no room on it; the nodes must be shown the new one before it is used for them.

        The old one is let go of at once: nodes that may have to read it have it open.
        """
        board, wanted = self._board, self._short_of
        self._short_of = 0
        if board is None or not wanted:
            return False
        size = power_of_two(max(2 * board.segment.size, 2 * wanted), self._limits.board_bytes_max)
        if size <= board.segment.size:
            return False
        segment = self._make(size, nodes_write=False)
        if segment is None:
            return False
        board.segment.close()
        self._board = Store(segment, board.generation + 1)
        return True

    def close(self) -> None:
        """Free the board; the arenas go with their nodes."""
        if self._board is not None:
            self._board.segment.close()
            self._board = None

    def _make(self, size: int, *, nodes_write: bool) -> Segment | None:
        try:
            return Segment.make(size, nodes_write=nodes_write)
        except OSError as error:
            self._say(f"{size} bytes of shared memory are not to be had ({error.strerror or error})")
            return None

    def _say(self, reason: str) -> None:
        if not self._said:
            self._said = True
            self._log(f"{reason}: images travel over the wire instead, which is slower")


def power_of_two(size: int, most: int) -> int:
    """The next power of two, bounded."""
    return min(1 << max(size - 1, 1).bit_length(), most)
