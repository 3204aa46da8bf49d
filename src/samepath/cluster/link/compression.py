"""Bulk that goes over a wire between hosts, made smaller without loss where that saves time.

Pictures of a rasteriser are flat areas and repeated rows: measured on our own frames, LZ4 leaves 1 to 40 % of them (of optical
flow 55 %) at about 1000 MB/s on a core, Zstandard at level 3 a half to two thirds of that at half the speed, for optical flow
at a tenth (``python -m bench compression``). The frame before as a reference saves little more and would make nodes remember.

Whether it pays depends on the link: at 10 Gbit/s it never does, at 1 Gbit/s LZ4 does, below some 200 Mbit/s Zstandard. A sender
therefore compares, for each message, the time it would take as it is and with either codec: packing, sending and unpacking, one
after the other. The link's rate is the kernel's own estimate for the connection (``TCP_INFO``), what the codecs do is measured
on what was sent before; now and then the one that was not chosen is tried, because the world changes.

**What may come.** A packed part says how long it was; that, not its packed size, is what a receiver has to allocate. The link
lets a part through whose length is within its limits and unpacks nothing by itself: :meth:`PackedPart.read` allocates exactly
that length, and whoever calls it has compared it with what was asked for (a node that owes a frame of 1 MiB cannot make the
main server allocate two). What unpacks to anything but its length is refused.
"""

import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from samepath.core.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    import pyarrow

Mode = Literal["auto", "on", "off"]
# Smaller parts travel in a packet or two: there is nothing to be saved.
LEAST_BYTES: Final = 16 << 10
# As they are named on the wire.
LZ4: Final = 1
ZSTANDARD: Final = 2
CODECS: Final = (LZ4, ZSTANDARD)
_LEVEL: Final = 3  # of Zstandard; where it is chosen at all, up to about 200 Mbit/s, level 1 takes longer in all
# What does not become smaller by this part is sent as it is.
_WORTH_RATIO: Final = 0.95
_LEARN_RATIO: Final = 0.2
# A codec that is not chosen is tried again after so many messages.
_TRY_EVERY: Final = 64
# Unpacking is so many times as fast as packing: less was never measured with either codec.
_UNPACK_FACTOR: Final = 2.5
# Links of 10 Gbit/s and more, and those within a machine: no codec pays there.
_FAST_RATE_B_S: Final = 1.25e9
# Before anything was sent: 100 Mbit/s.
_FIRST_RATE_B_S: Final = 12.5e6
_TCP_INFO_BYTES: Final = 192
_BYTES_RECEIVED_AT: Final = 128  # ``tcpi_bytes_received``, in Linux since 4.1
_DELIVERY_RATE_AT: Final = 160  # of ``struct tcp_info`` since Linux 4.9


class PackedError(Exception):
    """Bytes that are not what they are said to be."""


class PackedPart:
    """A part of the bulk, packed. ``len`` is that of its content; ``data`` is what travels."""

    __slots__ = ("codec", "data", "length")

    def __init__(self, data: bytes, codec: int, length: int) -> None:
        self.data, self.codec, self.length = data, codec, length

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        """The content; a PackedError for anything that does not unpack to exactly its length."""
        if self.codec not in CODECS:
            raise PackedError(f"there is no codec {self.codec}")
        try:
            found = _unpack(self.codec, self.data, self.length)
        except (OSError, ValueError, OverflowError) as error:
            raise PackedError(f"what was packed cannot be unpacked: {error}") from None
        if len(found) != self.length:
            raise PackedError(f"what was packed is not {self.length} bytes long")
        return found


def _unpack(codec: int, data: bytes, length: int) -> bytes:
    if codec == LZ4:
        import lz4.block

        # It writes no more than this, and returns no more than it wrote. (pyarrow has LZ4 too, but returns the whole buffer:
        # what a short part left unwritten is whatever was in that memory before, such as another client's picture.)
        try:
            return bytes(lz4.block.decompress(data, uncompressed_size=length))
        except lz4.block.LZ4BlockError as error:
            raise ValueError(str(error)) from None
    return bytes(_zstandard().decompress(data, length, asbytes=True))


@cache
def _zstandard() -> "pyarrow.Codec":
    import pyarrow

    return pyarrow.Codec("zstd", compression_level=_LEVEL)


def packed(data: bytes | memoryview, codec: int) -> PackedPart:
    """A part, packed."""
    if codec == LZ4:
        import lz4.block

        return PackedPart(bytes(lz4.block.compress(data, store_size=False)), codec, _size(data))
    return PackedPart(bytes(_zstandard().compress(data, asbytes=True)), codec, _size(data))


class Learned(NamedTuple):
    """What a codec does to what this sender sends."""

    s_per_byte: float
    ratio: float


@dataclass(frozen=True)
class Choice:
    """What is known; ``messages`` counts those with something to pack. Dictionaries are never changed, only replaced."""

    learned: dict[int, Learned]
    messages: int = 0


def choose(choice: Choice, rate_b_s: float | None, mode: Mode) -> int:
    """The codec for the next message, 0 for none."""
    if mode == "off" or (mode == "auto" and (rate_b_s or 0.0) >= _FAST_RATE_B_S):
        return 0
    for codec in CODECS:
        if codec not in choice.learned:
            return codec
    if choice.messages % _TRY_EVERY == 0:
        return CODECS[choice.messages // _TRY_EVERY % len(CODECS)]
    rate = rate_b_s or _FIRST_RATE_B_S
    took_s = {
        codec: known.s_per_byte * (1.0 + 1.0 / _UNPACK_FACTOR) + known.ratio / rate for codec, known in choice.learned.items()
    }
    if mode == "auto":
        took_s[0] = 1.0 / rate
    return min(took_s, key=lambda codec: (took_s[codec], codec))


def learn(choice: Choice, codec: int, size: int, packed_size: int, took_s: float) -> Choice:
    """Take in what packing a message came to."""
    new = Learned(took_s / size, packed_size / size)
    old = choice.learned.get(codec)
    if old is not None:
        new = Learned(*(before + _LEARN_RATIO * (now - before) for before, now in zip(old, new, strict=True)))
    return Choice({**choice.learned, codec: new}, choice.messages)


class Packer:
    """One sender's side of a connection between hosts. ``rate`` tells how fast it is, in bytes a second, if that is known."""

    def __init__(self, mode: Mode, rate: Callable[[], float | None]) -> None:
        self.mode: Mode = mode
        self._rate = rate
        self._choice = Choice({})
        self.packed_bytes = 0
        self.content_bytes = 0

    def pack(self, bulk: Sequence[bytes | memoryview | PackedPart]) -> list[bytes | memoryview | PackedPart]:
        """The same bulk, large parts packed where that pays; those that are packed already stay as they are."""
        large = [
            number for number, part in enumerate(bulk) if isinstance(part, bytes | memoryview) and _size(part) >= LEAST_BYTES
        ]
        found = list(bulk)
        if not large or self.mode == "off":
            return found
        codec = choose(self._choice, self._rate(), self.mode)
        self._choice = Choice(self._choice.learned, self._choice.messages + 1)
        if codec:
            start_s = SYSTEM_CLOCK.monotonic_s()
            made = [packed(part, codec) for number in large if isinstance(part := bulk[number], bytes | memoryview)]
            took_s = SYSTEM_CLOCK.monotonic_s() - start_s
            size, packed_size = sum(map(len, made)), sum(len(part.data) for part in made)
            self._choice = learn(self._choice, codec, size, packed_size, took_s)
            for number, part in zip(large, made, strict=True):
                if len(part.data) < _WORTH_RATIO * len(part):
                    found[number] = part
                    self.content_bytes += len(part)
                    self.packed_bytes += len(part.data)
        return found


def _size(part: bytes | memoryview) -> int:
    return part.nbytes if isinstance(part, memoryview) else len(part)


def delivery_rate_b_s(connection: socket.socket | None) -> float | None:
    """How many bytes a second the kernel has seen a connection deliver; None where it does not say."""
    return float(_tcp_info(connection, _DELIVERY_RATE_AT) or 0) or None


def received_bytes(connection: socket.socket) -> int | None:
    """How many bytes the kernel has received over a connection so far; None where it does not say."""
    return _tcp_info(connection, _BYTES_RECEIVED_AT)


def _tcp_info(connection: socket.socket | None, at: int) -> int | None:
    if connection is None:
        return None
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    except OSError:
        return None  # the connection has ended, or is none of TCP's
    if len(info) < at + 8:
        return None
    (found,) = struct.unpack_from("<Q", info, at)
    return int(found)
