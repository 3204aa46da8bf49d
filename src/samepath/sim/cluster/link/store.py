"""How bulk gets into a letter and out of it: within it, as frames behind it, or through shared memory."""

from collections.abc import Callable, Sequence

from samepath.sim.cluster.link.account import Piece
from samepath.sim.cluster.link.errors import MalformedError, TooLargeError
from samepath.sim.cluster.link.limits import LinkLimits
from samepath.sim.cluster.link.ring import Ring
from samepath.sim.cluster.link.segments import Segment
from samepath.sim.cluster.link.wire import DATA, EMBEDDED, FRAME, SHARED, Buffer, Letter, Place, pack

_LINE_BYTES = 64  # no two pieces share a cache line


class Store:
    """A segment that this side writes to. A new generation replaces it when it is too small."""

    def __init__(self, segment: Segment, generation: int) -> None:
        self.segment = segment
        self.generation = generation
        self.ring = Ring(segment.size)

    def put(self, data: Buffer, length: int) -> tuple[Place, Piece] | None:
        """Copy a part of the bulk in; None if there is no room for it now."""
        start = self.ring.reserve(-(-length // _LINE_BYTES) * _LINE_BYTES)
        if start is None:
            return None
        offset = start % self.ring.capacity
        self.segment.write(offset, data, length)
        return Place(SHARED, self.generation, offset, length), Piece(self.generation, start, self.ring.head)


Put = Callable[[Buffer, int], tuple[Place, Piece] | None]


def compose(
    read: int, message: bytes, bulk: Sequence[Buffer], put: Put | None, limits: LinkLimits
) -> tuple[list[Buffer], int, Piece | None]:
    """The frames of a letter with bulk, its size in all, and the shared memory it refers to."""
    if len(message) > limits.message_bytes or len(bulk) > limits.bulk_parts:
        raise TooLargeError(
            f"a message of {len(message)} bytes with {len(bulk)} parts is beyond the limits of the link, "
            f"{limits.message_bytes} bytes and {limits.bulk_parts} parts"
        )
    # Looked at before anything is put into shared memory: what is refused leaves nothing behind.
    sizes = [len(part) if isinstance(part, bytes) else part.nbytes for part in bulk]
    if max(sizes, default=0) > limits.bulk_bytes:
        raise TooLargeError(f"a part of {max(sizes)} bytes is beyond the limit of the link, {limits.bulk_bytes} bytes")
    places: list[Place] = []
    embedded: list[Buffer] = []
    frames: list[Buffer] = []
    start, end, generation, size = -1, -1, 0, 0
    for part, length in zip(bulk, sizes, strict=True):
        size += length
        if length <= limits.embedded_bytes:
            places.append(Place(EMBEDDED, 0, 0, length))
            embedded.append(part)
            continue
        stored = put(part, length) if put is not None else None
        if stored is None:
            places.append(Place(FRAME, 0, 0, length))
            frames.append(part)
            continue
        place, piece = stored
        places.append(place)
        start, end, generation = piece.start if start < 0 else start, piece.end, piece.generation
    letter = pack(DATA, read, message, places, embedded)
    return [letter, *frames], size + len(letter), Piece(generation, start, end) if start >= 0 else None


def gather(letter: Letter, after: Sequence[bytes], find: Callable[[int], Segment | None]) -> tuple[tuple[bytes, ...], int]:
    """The bulk of a letter, copied out of the memory of its generation where it lies there; and how much lay there."""
    bulk: list[bytes] = []
    frames, embedded, shared_bytes = iter(after), iter(letter.embedded), 0
    for place in letter.places:
        if place.how == SHARED:
            segment = find(place.generation)
            if segment is None or place.offset + place.length > segment.size:
                raise MalformedError(f"memory that is not there: {place}")
            bulk.append(segment.read(place.offset, place.length))
            shared_bytes += place.length
            continue
        part = next(frames if place.how == FRAME else embedded)
        if len(part) != place.length:
            raise MalformedError(f"a part of {len(part)} bytes instead of {place.length}")
        bulk.append(part)
    return tuple(bulk), shared_bytes
