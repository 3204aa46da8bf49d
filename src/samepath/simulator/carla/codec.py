"""MessagePack to typed values and back.

A reader takes what MessagePack gave (lists, numbers, text, bytes) and returns a value of the wanted type, or raises
:class:`WireError`: nothing from outside gets further unchecked. Records are named tuples whose fields stand in the order of
CARLA's structs, so that writing needs no code: MessagePack writes a tuple as an array.

Objects follow one another without lengths. A scanner that builds nothing (:class:`Framer`) finds where each ends, so that its
size is known before anything is made of it; the server reads calls this way, and a proxy calls and answers.
"""

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgpack

from samepath.core.errors import SamepathError
from samepath.simulator.carla.limits import ServerLimits

T = TypeVar("T")
Reader = Callable[[object], T]

_NUMBER_MAX: Final = ServerLimits().number
_NAME_MAX: Final = ServerLimits().name_characters
_LARGE_MAX: Final = 1e15
_TOKEN: Final = struct.Struct("<IHBB16s")
_TCP, _ADDRESS_NOT_SET = 1, 0


class WireError(SamepathError):
    """What came over the wire does not have the wanted shape."""


class Raw(bytes):
    """A value that is packed already."""

    __slots__ = ()


def came(value: object) -> str:
    """Say in a few words what came, for messages; never the whole of it."""
    text = repr(value) if isinstance(value, bool | int | float | None) else type(value).__name__
    return text if len(text) <= 40 else text[:37] + "..."


def number(value: object) -> float:
    """Read a finite number of sensible size."""
    if type(value) is float:
        if -_NUMBER_MAX <= value <= _NUMBER_MAX:  # also false for no number
            return value
    elif type(value) is int and -_NUMBER_MAX <= value <= _NUMBER_MAX:
        return float(value)
    raise WireError(f"a number between -{_NUMBER_MAX:g} and {_NUMBER_MAX:g} was wanted, but {came(value)} came")


def large(value: object) -> float:
    """Read a finite number in units in which sensible values are large."""
    if (type(value) is float or type(value) is int) and -_LARGE_MAX <= value <= _LARGE_MAX:
        return float(value)
    raise WireError(f"a number between -{_LARGE_MAX:g} and {_LARGE_MAX:g} was wanted, but {came(value)} came")


def whole(low: int, high: int) -> Reader[int]:
    """Make a reader of whole numbers in a range, ends included."""

    def read(value: object) -> int:
        if type(value) is int and low <= value <= high:
            return value
        raise WireError(f"a whole number between {low} and {high} was wanted, but {came(value)} came")

    return read


u8: Final = whole(0, 0xFF)
u16: Final = whole(0, 0xFFFF)
u32: Final = whole(0, 0xFFFF_FFFF)
u64: Final = whole(0, 0xFFFF_FFFF_FFFF_FFFF)
i32: Final = whole(-(1 << 31), (1 << 31) - 1)


def flag(value: object) -> bool:
    """Read true or false."""
    if type(value) is bool:
        return value
    raise WireError(f"true or false was wanted, but {came(value)} came")


def text(value: object) -> str:
    """Read a name or another short text."""
    if type(value) is str and len(value) <= _NAME_MAX:
        return value
    raise WireError(f"a text of at most {_NAME_MAX} characters was wanted, but {came(value)} came")


def long_text(value: object) -> str:
    """Read a text of any length; the message it came in was bounded."""
    if type(value) is str:
        return value
    raise WireError(f"a text was wanted, but {came(value)} came")


def array_of(reader: Reader[T], most: int = 100_000) -> Reader[tuple[T, ...]]:
    """Make a reader of arrays."""

    def read(value: object) -> tuple[T, ...]:
        if type(value) is not list or len(value) > most:
            raise WireError(f"an array of at most {most} was wanted, but {came(value)} came")
        return tuple([reader(item) for item in value])

    return read


def struct_of(build: Callable[..., T], *readers: Reader[Any]) -> Reader[T]:
    """Make a reader of a struct: an array with exactly these fields."""
    count = len(readers)

    def read(value: object) -> T:
        if type(value) is not list or len(value) != count:
            size = f" of {len(value)}" if type(value) is list else ""
            raise WireError(f"an array of {count} was wanted, but {came(value)}{size} came")
        return build(*[reader(item) for reader, item in zip(readers, value, strict=True)])

    return read


def optional(reader: Reader[T]) -> Reader[T | None]:
    """Make a reader of CARLA's optional: ``[false]`` or ``[true, value]``."""

    def read(value: object) -> T | None:
        if type(value) is list and value and type(value[0]) is bool and len(value) == 1 + value[0]:
            return reader(value[1]) if value[0] else None
        raise WireError(f"[false] or [true, value] was wanted, but {came(value)} came")

    return read


def variant(readers: Sequence[Reader[Any]]) -> Reader[tuple[int, Any]]:
    """Make a reader of CARLA's variant ``[index, value]``; gives the index and the value."""

    def read(value: object) -> tuple[int, Any]:
        if type(value) is list and len(value) == 2 and type(value[0]) is int and 0 <= value[0] < len(readers):
            return value[0], readers[value[0]](value[1])
        raise WireError(f"a variant of {len(readers)} was wanted, but {came(value)} came")

    return read


def write_optional(value: object | None) -> tuple[object, ...]:
    """Write CARLA's optional."""
    return (False,) if value is None else (True, value)


def pack(value: object) -> bytes:
    """Pack a value; records and tuples become arrays, bytes become bin."""
    if isinstance(value, Raw):
        return bytes(value)
    packed: bytes = msgpack.packb(value, use_bin_type=True)
    return packed


def answer(call_id: int, result: bytes) -> bytes:
    """The answer to a call; ``result`` is packed."""
    return b"\x94\x01" + pack(call_id) + b"\xc0" + result


def refusal(call_id: int, message: str) -> bytes:
    """The answer to a call that could not be made: wrong name, wrong arguments."""
    return b"\x94\x01" + pack(call_id) + pack(message) + b"\xc0"


def value_result(value: object) -> bytes:
    """``Response<T>`` with a value."""
    return b"\x91\x92\x01" + pack(value)


def void_result() -> bytes:
    """``Response<void>`` of a call that worked."""
    return b"\x91\x91\xc2"


def value_error(message: str) -> bytes:
    """``Response<T>`` with an error."""
    return pack(((0, (message,)),))


def void_error(message: str) -> bytes:
    """``Response<void>`` with an error."""
    return pack(((True, (message,)),))


def token(stream_id: int, port: int) -> bytes:
    """CARLA's token of a stream: 24 bytes; the client connects to the host it already knows."""
    return _TOKEN.pack(stream_id, port, _TCP, _ADDRESS_NOT_SET, bytes(16))


def stream_of(given: bytes) -> int:
    """The stream that a token of ours is for."""
    stream_id: int = _TOKEN.unpack(given)[0]
    return stream_id


def finite(values: Sequence[float]) -> bool:
    """Are all of these numbers?"""
    return all(math.isfinite(value) for value in values)


# How the text begins that a client is told when it asks for something we do not have.
NOT_SUPPORTED: Final = "not supported by samepath"


class CallError(SamepathError):
    """A call that cannot be done; the text goes to the client."""


# The buffers of a connection that has nothing half-sent are let go if they grew beyond this.
_KEPT_BYTES: Final = 1 << 16


class Framer:
    """Cuts a stream of bytes into whole MessagePack objects; what is none, or too long, is raised as the ``error`` given."""

    def __init__(self, most_bytes: int, error: type[Exception]) -> None:
        self._most = most_bytes
        self._error = error
        self.messages = 0  # that came whole
        self.clear()

    def clear(self) -> None:
        """Begin anew; what has come of a message is dropped."""
        self._scanner = msgpack.Unpacker(max_buffer_size=self._most)
        self._buffer = bytearray()
        self._start = 0
        self._largest_bytes = 0

    @property
    def size_bytes(self) -> int:
        """What has come of a message that is not whole."""
        return len(self._buffer)

    @property
    def memory_bytes(self) -> int:
        """What that takes: the scanner has a buffer of its own, which it doubles when it is full."""
        return 3 * len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes; return every object that is complete."""
        held: bytes | bytearray = data
        if self._buffer:
            self._buffer += data
            held = self._buffer
        self._largest_bytes = max(self._largest_bytes, len(held))
        if len(held) > self._most + len(data):
            raise self._error(f"a message of more than {self._most} bytes")
        at, found = 0, []
        try:
            self._scanner.feed(data)
            while True:
                self._scanner.skip()
                end = self._scanner.tell()
                size = end - self._start
                self._start = end
                self.messages += 1
                if size == len(data) <= _KEPT_BYTES and held is data:
                    # Nearly always a message comes whole and alone: then it is passed on as it came, and nothing is copied.
                    # The scanner is not asked for a further one: it says by an error that there is none, and that costs more
                    # than all else that is done here.
                    return [data]
                found.append(bytes(held[at : at + size]))
                at += size
        except msgpack.OutOfData:
            pass
        except msgpack.BufferFull:
            raise self._error(f"a message of more than {self._most} bytes") from None
        except (ValueError, msgpack.UnpackException) as error:
            raise self._error(f"no MessagePack ({type(error).__name__})") from None
        if held is self._buffer:
            del self._buffer[:at]
        elif at < len(data):
            self._buffer += data[at:]
        if len(self._buffer) > self._most:
            raise self._error(f"a message of more than {self._most} bytes")
        if self._largest_bytes > _KEPT_BYTES and not self._buffer:
            self.clear()  # a scanner never gives memory back: 64 MiB for one map that was sent hours ago
        return found
