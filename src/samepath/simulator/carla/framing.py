"""Bytes of CARLA's calls and answers, cut into messages.

MessagePack objects follow one another without lengths. A scanner that builds nothing finds where each ends, so that its size is
known before anything is made of it; the server reads calls this way, and a proxy calls and answers.
"""

from typing import Final

import msgpack

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
