"""MessagePack to typed values and back.

A reader takes what MessagePack gave (lists, numbers, text, bytes) and returns a value of the wanted type, or raises
:class:`WireError`: nothing from outside gets further unchecked. Records are named tuples whose fields stand in the order of
CARLA's structs, so that writing needs no code: MessagePack writes a tuple as an array.

Objects follow one another without lengths. A scanner that builds nothing (:class:`Framer`) finds where each ends, so that its
size is known before anything is made of it; the server reads calls this way, and a proxy calls and answers.

A large message is not unpacked at once. A few bytes can become a hundred times as many in memory, and
the interpreter's lock is held until the last of them is there. Its arrays are :class:`LargeArray`,
which readers take like lists. Items are unpacked while a reader asks for them, so nothing is unpacked
after the first item that a reader refuses.
"""

import codecs
import gc
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
PIECE_BYTES: Final = 1 << 15
"""The most bytes that are unpacked in one step.

The worst of them take 3 ms and 3 MB. The longest name, 4096 characters of 4 bytes, fits with what is around it.
"""
# The scanner only looks for ends. It is so much faster that its steps may be longer: 0.3 ms each.
_SCAN_BYTES: Final = 1 << 18
# What comes before the arguments of a call is short.
_HEAD_BYTES: Final = 2048
# The number of items that are unpacked together if they are small enough.
_ITEMS_TOGETHER: Final = 512
# From here on the garbage collector is switched off while bytes are unpacked.
_COLLECT_BYTES: Final = 1 << 14
# The first bytes of texts and of runs of bytes, and of how many bytes their lengths are.
_BYTES: Final = {0xC4: 1, 0xC5: 2, 0xC6: 4}
_RUN_HEADS: Final = {**_BYTES, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_UNPACK: Final = {"raw": False, "strict_map_key": True, "use_list": True}


class WireError(SamepathError):
    """What came over the wire does not have the wanted shape."""


class Raw(bytes):
    """A value that is packed already."""

    __slots__ = ()


def unpack(data: bytes | memoryview) -> Any:  # noqa: ANN401 - anything that MessagePack can express
    """Unpack an object, a large one with the garbage collector off.

    The collector runs after every so many new lists and each time looks at all that were made before:
    that took six sevenths of the time of a batch of 20,000 commands. It would find nothing. The
    interpreter's lock is held throughout, so no other thread runs without a collector.
    """
    if len(data) < _COLLECT_BYTES:
        return msgpack.unpackb(data, **_UNPACK)
    with _no_collector():
        return msgpack.unpackb(data, **_UNPACK)


@contextmanager
def _no_collector() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class LargeRun:
    """A text or a run of bytes, not unpacked; readers get those that are too large for one step."""

    def __init__(self, data: memoryview, at: int, end: int, *, is_text: bool) -> None:
        self._content = data[at:end]
        self.end = end
        self.is_text = is_text

    def __len__(self) -> int:
        return len(self._content)

    def text(self) -> str:
        """Return the text. It is decoded in steps: in one, 30 MB can hold the interpreter's lock for 0.1 s."""
        decoder = codecs.getincrementaldecoder("utf-8")()
        steps = range(0, len(self._content), _SCAN_BYTES)
        try:
            found = [decoder.decode(self._content[at : at + _SCAN_BYTES]) for at in steps]
            return "".join([*found, decoder.decode(b"", final=True)])
        except UnicodeDecodeError as error:
            raise WireError(f"expected a text in UTF-8, got bytes that cannot be decoded ({error.reason})") from None

    def content(self) -> bytes:
        """Return the bytes."""
        return bytes(self._content)


class LargeArray:
    """An array that is unpacked in steps of at most ``PIECE_BYTES`` while it is iterated.

    Larger items are given as :class:`LargeArray` or :class:`LargeRun`.
    """

    def __init__(self, data: memoryview, at: int) -> None:
        self._data = data
        self._count, self._at = _array_head(data, at)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        at, left, together = self._at, self._count, _ITEMS_TOGETHER
        while left:
            together = min(together, left)
            found, size_bytes = self._unpack(at, together)
            if size_bytes:
                yield from found
                left -= together
                at += size_bytes
                together = min(2 * together, _ITEMS_TOGETHER)
            elif together > 1:
                together //= 4
                together = max(together, 1)
            else:
                item, at = _large_item(self._data, at, len(self._data))
                yield item
                left -= 1

    def _unpack(self, at: int, count: int) -> tuple[list[Any], int]:
        """Unpack so many items and return their size in bytes; 0: they are larger than a piece."""
        unpacker = msgpack.Unpacker(**_UNPACK, read_size=2 * PIECE_BYTES, ext_hook=_refuse_extension)
        head = b"\xdc" + count.to_bytes(2, "big")
        unpacker.feed(head)
        unpacker.feed(self._data[at : at + PIECE_BYTES])
        try:
            with _no_collector():
                found: list[Any] = unpacker.unpack()
        except msgpack.OutOfData:
            if count == 1 and at + PIECE_BYTES >= len(self._data):
                raise WireError("expected whole MessagePack, got only its beginning") from None
            return [], 0
        except (ValueError, msgpack.UnpackException, RecursionError) as error:
            raise WireError(f"expected MessagePack, got bytes that cannot be read ({type(error).__name__})") from None
        return found, unpacker.tell() - len(head)


ARRAYS: Final = (list, LargeArray)


class LargeArguments:
    """The arguments of a call in a large message, unpacked while they are iterated; the first, CARLA's metadata, is left out.

    ``max_bytes`` is the limit for all together that are neither a text nor a run of bytes.
    """

    def __init__(self, data: memoryview, at: int, max_bytes: int) -> None:
        self._data = data
        self._count, self._at = _array_head(data, at)
        self._max_bytes = max_bytes

    def __len__(self) -> int:
        return max(self._count - 1, 0)

    def __iter__(self) -> Iterator[Any]:
        at, left_bytes = self._at, self._max_bytes
        for index in range(self._count):
            start = at
            item, at = _large_item(self._data, at, left_bytes)
            if not isinstance(item, LargeRun):
                left_bytes -= at - start
            if left_bytes < 0:
                raise WireError(f"its arguments have more than {self._max_bytes} bytes")
            if index:
                is_small = at - start <= PIECE_BYTES
                yield _unpack_small(self._data[start:at]) if is_small else item


def large_call(message: bytes, max_bytes: int) -> tuple[list[Any], LargeArguments]:
    """Return what comes before the arguments of a call in a large message, and its arguments."""
    unpacker = msgpack.Unpacker(raw=False, max_array_len=4, max_map_len=0, max_ext_len=0)
    unpacker.feed(message[:_HEAD_BYTES])
    head = [unpacker.unpack() for _ in range(unpacker.read_array_header() - 1)]
    return head, LargeArguments(memoryview(message), unpacker.tell(), max_bytes)


def plain(value: object) -> Any:  # noqa: ANN401 - anything that MessagePack can express
    """Return a value with every large array in it as a list."""
    if isinstance(value, LargeArray):
        return [plain(item) for item in value]
    if isinstance(value, LargeRun):
        return value.text() if value.is_text else value.content()
    return value


def _refuse_extension(code: int, data: bytes) -> None:
    raise ValueError(f"an extension of MessagePack ({code}, {len(data)} bytes) means nothing here")


def _large_item(data: memoryview, at: int, max_bytes: int) -> tuple[LargeArray | LargeRun | None, int]:
    """The object that begins at ``at``, not unpacked, and where it ends; None: a small one that is no array, text or bytes.

    Of a larger one than ``max_bytes`` only the beginning is scanned. A text and bytes may have any size.
    """
    run = _run(data, at)
    if run is not None:
        return run, run.end
    end = _end(data, at, max_bytes)
    try:
        return LargeArray(data, at), end
    except WireError:
        if end - at > PIECE_BYTES:
            raise WireError(f"expected an array, a text or bytes, got something else of {end - at} bytes") from None
        return None, end


def _unpack_small(data: memoryview) -> Any:  # noqa: ANN401 - anything that MessagePack can express
    try:
        return unpack(data)
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        raise WireError(f"expected MessagePack, got bytes that cannot be read ({type(error).__name__})") from None


def _end(data: memoryview, at: int, max_bytes: int) -> int:
    """Return where an object ends, building none of it; of a larger one than ``max_bytes`` some place further on."""
    unpacker = msgpack.Unpacker(max_buffer_size=len(data) + _SCAN_BYTES, read_size=_SCAN_BYTES)
    fed = at
    while True:
        try:
            unpacker.skip()
        except msgpack.OutOfData:
            if fed - at > max_bytes:
                return fed
            if fed >= len(data):
                raise WireError("expected whole MessagePack, got only its beginning") from None
            unpacker.feed(data[fed : fed + _SCAN_BYTES])
            fed = min(fed + _SCAN_BYTES, len(data))
        except (ValueError, msgpack.UnpackException) as error:
            raise WireError(f"expected MessagePack, got bytes that cannot be read ({type(error).__name__})") from None
        else:
            return at + int(unpacker.tell())


def _array_head(data: memoryview, at: int) -> tuple[int, int]:
    """Return the number of items of an array, and where they begin."""
    lead = data[at] if at < len(data) else 0
    if 0x90 <= lead <= 0x9F:
        return lead & 0x0F, at + 1
    size = {0xDC: 2, 0xDD: 4}.get(lead, 0)
    if not size or at + 1 + size > len(data):
        raise WireError("expected an array, got something else")
    return int.from_bytes(data[at + 1 : at + 1 + size], "big"), at + 1 + size


def _run(data: memoryview, at: int) -> LargeRun | None:
    """The text or the bytes that begin here, if they are whole."""
    lead = data[at] if at < len(data) else 0
    if 0xA0 <= lead <= 0xBF:
        start, size = at + 1, lead & 0x1F
    elif lead in _RUN_HEADS:
        start = at + 1 + _RUN_HEADS[lead]
        size = int.from_bytes(data[at + 1 : start], "big")
    else:
        return None
    return LargeRun(data, start, start + size, is_text=lead not in _BYTES) if start + size <= len(data) else None


def came(value: object) -> str:
    """Say in a few words what came, for messages; never the whole of it."""
    if isinstance(value, LargeArray):
        return list.__name__
    if isinstance(value, LargeRun):
        return str.__name__ if value.is_text else bytes.__name__
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
    if isinstance(value, LargeRun) and value.is_text:
        return value.text()
    raise WireError(f"a text was wanted, but {came(value)} came")


def text_of(max_bytes: int) -> Reader[str]:
    """Make a reader of long texts; one of more bytes is refused before it is decoded."""

    def read(value: object) -> str:
        if isinstance(value, LargeRun) and len(value) > max_bytes:
            raise WireError(f"expected a text of at most {max_bytes} bytes, got {len(value)} bytes")
        return long_text(value)

    return read


def array_of(reader: Reader[T], most: int = 100_000) -> Reader[tuple[T, ...]]:
    """Make a reader of arrays."""

    def read(value: object) -> tuple[T, ...]:
        if not isinstance(value, ARRAYS) or len(value) > most:
            raise WireError(f"an array of at most {most} was wanted, but {came(value)} came")
        return tuple([reader(item) for item in value])

    return read


def struct_of(build: Callable[..., T], *readers: Reader[Any]) -> Reader[T]:
    """Make a reader of a struct: an array with exactly these fields."""
    count = len(readers)

    def read(value: object) -> T:
        if not isinstance(value, ARRAYS) or len(value) != count:
            size = f" of {len(value)}" if isinstance(value, ARRAYS) else ""
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
        self.has_more = False  # messages may be whole that were not returned
        self.clear()

    def clear(self) -> None:
        """Begin anew; what has come of a message is dropped."""
        self._scanner = self._new_scanner()
        self._scanner_at = 0  # how many bytes had come when it began; likewise:
        self._start = 0  # where a message begins
        self._scanned = 0  # what the scanner has got
        # What has come of a message that is not whole. It is put together once, in the end: a buffer that
        # grows is copied again and again, and leaves holes in memory.
        self._parts: list[bytearray] = []
        self._parts_bytes = 0
        self._rest = b""  # whole messages, perhaps, that were not returned
        self.has_more = False

    def _new_scanner(self) -> Any:  # noqa: ANN401 - MessagePack's unpacker
        # It has a buffer of its own for every connection, so that begins small.
        return msgpack.Unpacker(max_buffer_size=self._most, read_size=min(_KEPT_BYTES, self._most))

    @property
    def size_bytes(self) -> int:
        """What has come of a message that is not whole."""
        return self._parts_bytes + len(self._rest)

    @property
    def memory_bytes(self) -> int:
        """What that takes at most: the scanner copies a long text into a new buffer of twice the size when one is full."""
        return 5 * self.size_bytes

    def feed(self, data: bytes, max_messages: int | None = None) -> list[bytes]:
        """Add bytes; return every object that is complete, or the first ``max_messages`` of them.

        A few hundred thousand objects fit into what a socket gives at once. To return all of them takes
        0.1 s, so where other clients wait the caller takes some, and the rest later with no new bytes.
        """
        held = self._rest + data if self._rest else data
        first = self._start + self._parts_bytes  # of all bytes that came, the number of the first one that is held
        at = 0
        found: list[bytes] = []
        self.has_more = False
        try:
            if self._scanned == first:
                self._scan_more(held, first)
            while not self.has_more and self._skip(held, first):
                end = self._scanner_at + self._scanner.tell()
                size, self._start = end - self._start, end
                self.messages += 1
                if size == len(data) <= _KEPT_BYTES and held is data:
                    # Nearly always a message comes whole and alone: then it is passed on as it came, and nothing is copied.
                    # The scanner is not asked for a further one: it says by an error that there is none, and that costs more
                    # than all else that is done here.
                    return [data]
                self._check_size(size)
                if size > _KEPT_BYTES:
                    # A scanner never gives memory back: twice the bytes of a long text, and before it is copied.
                    self._scanner = None
                    self._scanner, self._scanner_at, self._scanned = self._new_scanner(), end, end
                found.append(b"".join([*self._parts, memoryview(held)[at : end - first]]))
                self._parts, self._parts_bytes, at = [], 0, end - first
                self.has_more = len(found) == max_messages
        except (ValueError, msgpack.UnpackException) as error:
            if isinstance(error, msgpack.BufferFull):
                raise self._error(f"a message of more than {self._most} bytes") from None
            raise self._error(f"no MessagePack ({type(error).__name__})") from None
        if self.has_more:
            self._rest = held[at:]
        else:
            self._rest = b""
            self._keep(held[at:])
        return found

    def _keep(self, part: bytes) -> None:
        """Keep a part of a message that is not whole; short parts are put together, as each takes memory of its own."""
        self._check_size(self._parts_bytes + len(part))
        if self._parts and len(self._parts[-1]) < _KEPT_BYTES:
            self._parts[-1] += part
        elif part:
            self._parts.append(bytearray(part))
        self._parts_bytes += len(part)

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > self._most:
            raise self._error(f"a message of more than {self._most} bytes")

    def _skip(self, held: bytes, first: int) -> bool:
        """Go to the end of the next object; False: it has not come whole."""
        while True:
            try:
                self._scanner.skip()
            except msgpack.OutOfData:
                if not self._scan_more(held, first):
                    return False
            else:
                return True

    def _scan_more(self, held: bytes, first: int) -> bool:
        """Give the scanner a piece of what it has not got of ``held``, which begins at ``first``; False: it has all."""
        at = self._scanned - first
        if at >= len(held):
            return False
        piece_bytes = min(_KEPT_BYTES, self._most)
        piece = held if at == 0 and len(held) <= piece_bytes else held[at : at + piece_bytes]
        self._scanner.feed(piece)
        self._scanned += len(piece)
        return True
