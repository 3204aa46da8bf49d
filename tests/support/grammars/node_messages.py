"""What a node may say to the main server and the main server to a node, and what neither may: from the records themselves.

A message is made from ``(seed, number)`` alone, so that a failure names the one to look at. The grammar is read off the records
of ``cluster/messages.py``, so that a new message is in it at once. Most are plausible: one with a single odd field tests what
lies behind the reader, and one of noise only tests its first refusal.
"""

import struct
from typing import Final

import msgpack
import msgspec

from samepath.cluster import messages as m
from samepath.cluster.link import wire
from samepath.core.streams import stream

ODD_SHARES: Final = (0.0, 0.0, 0.02, 0.1, 0.5)
ODD_NUMBERS: Final = (
    0, 1, -1, 2**16, 2**22, 2**22 + 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.0, -0.0,
    0.5, 1e-300, 1e6, 1.0000001e6, 1e12, 1e300, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
ODD_TEXTS: Final = ("", "a", "rogue", "node-1", "../x", "a\nb", "\0", "\u9053\u8def", "x" * 256, "x" * 257, "y" * 70_000)
ODD_BYTES: Final = (b"", b"\x00", b"x" * 64, b"x" * 65, b"\xff" * 40, b"z" * 70_000)
ODD_THINGS: Final = (None, True, False, [], {}, [[]], {"a": 1}, "1", b"1", [None] * 50, [[[[[]]]]])
HEADS: Final = (
    b"\xdb\xff\xff\xff\xff", b"\xc6\x7f\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xdf\x00\xff\xff\xff", b"\x91" * 600,
    b"\xc9\xff\xff\xff\xff\x01", b"\xdc\xff\xff" + b"\x90" * 3000, b"\x9a" * 2000,
)  # fmt: skip
OF_NODES: Final = m.FromNode.__args__
OF_MAIN: Final = m.FromMain.__args__


class _Maker:
    """Values for the fields of records, some of them odd."""

    def __init__(self, seed, number, purpose):
        self._chance = stream(seed, f"node messages: {purpose}", number)
        self._odd = ODD_SHARES[self.pick(len(ODD_SHARES))]

    def pick(self, below):
        return int(self._chance.integers(below))

    def one_of(self, things):
        return things[self.pick(len(things))]

    def noise(self, most):
        return self._chance.bytes(self.pick(most + 1))

    def record(self, kind):
        """An array as the record is written: its name, then its fields."""
        fields = [kind.__name__, *(self.value(field.type) for field in msgspec.inspect.type_info(kind).fields)]
        if self._odd and self.pick(20) == 0:  # one field more or less, or another name
            change = self.pick(3)
            fields = [fields[:-1], [*fields, self.odd()], [self.one_of(("", "Hello ", "TickResult", 7)), *fields[1:]]][change]
        return fields

    def odd(self):
        return self.one_of((*ODD_NUMBERS, *ODD_TEXTS, *ODD_BYTES, *ODD_THINGS))

    def value(self, kind):  # noqa: PLR0911 - one for each type
        if self._chance.random() < self._odd:
            return self.odd()
        match kind:
            case msgspec.inspect.BoolType():
                return bool(self.pick(2))
            case msgspec.inspect.IntType():
                return self._whole(kind)
            case msgspec.inspect.FloatType():
                return float(self._chance.random()) * (kind.le or 1.0) if self.pick(4) == 0 else 0.01
            case msgspec.inspect.StrType():
                return self.one_of(("node-1", "rogue", "127.0.0.1", "", "1.0"))
            case msgspec.inspect.BytesType():
                return self.noise(40)
            case msgspec.inspect.VarTupleType():
                return [self.value(kind.item_type) for _ in range(self.pick(4))]
            case msgspec.inspect.StructType():
                return [self.value(field.type) for field in kind.fields]
            case msgspec.inspect.DictType():
                return {self.one_of(ODD_TEXTS): self.value(kind.value_type) for _ in range(self.pick(3))}
            case msgspec.inspect.UnionType():
                return self.value(self.one_of(kind.types))
            case msgspec.inspect.NoneType():
                return None
        raise LookupError(f"the grammar does not know {kind}")

    def _whole(self, kind):
        if self.pick(3):
            return max(kind.ge or 0, self.pick(4))  # frames, sensors and clients that there may be
        return self.one_of([kind.ge or 0, kind.le or 2**31, self.pick(2**31)])

    def packed(self, kind):
        """A record as bytes, sometimes with some of them changed, or none of it."""
        way = self.pick(12)
        if way == 0:
            return self.noise(200)
        if way == 1:
            return self.one_of(HEADS)
        try:
            content = bytearray(msgpack.packb(self.record(kind)))
        except OverflowError:  # numbers that MessagePack has no room for, and surrogates
            return b""
        if way == 2:
            for _ in range(1 + self.pick(4)):
                content[self.pick(len(content))] = self.pick(256)
        return bytes(content[: self.pick(len(content)) + 1]) if way == 3 else bytes(content)

    def bulk(self):
        """What travels beside a message: calls of clients, payloads, or nothing where something is wanted."""
        calls = [msgpack.packb([0, 1, name, [["", ""]]]) for name in ("version", "get_map_info", "nothing")]
        parts = [b"", *calls, msgpack.packb([2, "version", []]), self.noise(300), *HEADS]
        return tuple(self.one_of(parts) for _ in range(self.pick(4)))


def message_of_node(seed, number):
    """Something that a node might send: a message and its bulk."""
    make = _Maker(seed, number, "node")
    # The other side's messages too, now and then: a node must not be able to play the main server.
    kinds = (*OF_NODES, m.TickResult, m.TickResult, m.ClientCall)  # behind these lies most
    return make.packed(make.one_of(kinds if make.pick(10) else OF_MAIN)), make.bulk()


def message_of_main(seed, number):
    """Something that a main server might send: a message and its bulk."""
    make = _Maker(seed, number, "main")
    return make.packed(make.one_of(OF_MAIN if make.pick(10) else OF_NODES)), make.bulk()


def packet(seed, number):
    """Frames as they might come over the link."""
    make = _Maker(seed, number, "packet")
    kinds = [*wire.PacketKind, 7, 255]
    parts = [
        wire.PartRef(
            make.pick(4), make.one_of((0, 1, 2**32 - 1)), make.one_of((0, 5, 2**64 - 1)), make.one_of((0, 3, 100, 2**63))
        )
        for _ in range(make.pick(4))
    ]
    inline = [bytes(min(part.length, 200)) for part in parts if part.via == wire.Via.INLINE]
    frames = [bytes(min(part.length, 200)) for part in parts if part.via == wire.Via.FRAME]
    first = bytearray(wire.pack(make.one_of(kinds), make.pick(4), make.noise(50), parts, inline))
    if make.pick(3) == 0:
        first[make.pick(len(first))] = make.pick(256)
    if make.pick(10) == 0:
        struct.pack_into("<H", first, 2, 65_535)
    if make.pick(6) == 0:
        frames = frames[1:] if make.pick(2) else [*frames, make.noise(20)]
    return [bytes(first[: make.pick(len(first)) + 1] if make.pick(8) == 0 else first), *frames]
