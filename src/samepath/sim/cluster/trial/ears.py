"""Listening to many streams at once, and naming everything that comes by a digest."""

import hashlib
import selectors
import socket
import threading
from dataclasses import dataclass, field
from typing import Final

from samepath.base.clock import SYSTEM_CLOCK
from samepath.base.errors import ClusterError

_HEAD_BYTES: Final = 48
_READ_BYTES: Final = 1 << 20
_POLL_S: Final = 0.2


@dataclass
class Heard:
    """What came over one stream: for each frame, in the order of arrival, its number and the digest of its content."""

    frames: list[int] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    total_bytes: int = 0


class _Line:
    def __init__(self, key: int, host: str, port: int, stream: int) -> None:
        self.key = key
        self.heard = Heard()
        self._data = bytearray()
        self.socket = socket.create_connection((host, port), timeout=30.0)
        self.socket.sendall(stream.to_bytes(4, "little"))
        self.socket.setblocking(False)

    def read(self) -> bool:
        """Take what has come; False: the other side has closed."""
        try:
            data = self.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._data += data
        while len(self._data) >= 4:
            size = int.from_bytes(self._data[:4], "little")
            if len(self._data) < 4 + size:
                break
            message = bytes(self._data[4 : 4 + size])
            del self._data[: 4 + size]
            self.heard.frames.append(int.from_bytes(message[8:16], "little"))
            self.heard.digests.append(hashlib.blake2b(message[_HEAD_BYTES:], digest_size=16).digest())
            self.heard.total_bytes += size
        return bool(data)


class Ears:
    """Listens in a thread of its own."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._lines: dict[int, _Line] = {}
        self._lock = threading.Lock()
        self._over = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="samepath ears", daemon=True)
        self._thread.start()

    def listen(self, key: int, host: str, port: int, stream: int) -> None:
        """Listen to one more stream, under a key of one's own."""
        line = _Line(key, host, port, stream)
        with self._lock:
            self._lines[key] = line
            self._selector.register(line.socket, selectors.EVENT_READ, line)

    def _run(self) -> None:
        while not self._over:
            for found, _ in self._selector.select(_POLL_S):
                line: _Line = found.data
                if not line.read():
                    self._selector.unregister(line.socket)
                    line.socket.close()
            with self._changed:
                self._changed.notify_all()

    def wait(self, count: int, timeout_s: float) -> None:
        """Wait until every stream has brought so many messages."""
        end_s = SYSTEM_CLOCK.monotonic_s() + timeout_s
        while True:
            behind = [key for key, line in self._lines.items() if len(line.heard.frames) < count]
            if not behind:
                return
            if SYSTEM_CLOCK.monotonic_s() > end_s:
                have = len(self._lines[behind[0]].heard.frames)
                raise ClusterError(f"{count} frames of sensor {behind[0]} were wanted, but {have} came within {timeout_s:g} s")
            with self._changed:
                self._changed.wait(_POLL_S)

    def heard(self) -> dict[int, Heard]:
        """Everything so far, by key."""
        return {key: line.heard for key, line in sorted(self._lines.items())}

    def close(self) -> None:
        """Stop listening."""
        self._over = True
        self._thread.join()
        for line in self._lines.values():
            line.socket.close()
        self._selector.close()
