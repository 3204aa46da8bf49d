"""Who listens to the cameras, in processes of their own: every byte is taken, none is kept.

How many pictures have come stands in memory that all share: who ticks waits there for those of the tick, as a synchronous
client does that takes one picture from each queue. A node with a card would otherwise draw faster than anybody fetches, until
it cuts a listener off; and what was drawn and never fetched is no throughput.
"""

import selectors
import socket
import struct
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from bench.thesis.child import Child, orders, reply
from bench.thesis.wire import ID, TIMEOUT_S
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import ClusterError

_HEAD: Final = struct.Struct("<IQQ")  # length of the message, type of sensor, frame
_SCRATCH_BYTES: Final = 1 << 20
_LOOK_EVERY_S: Final = 50e-6
PATIENCE_S: Final = 60.0


class ReceivedCounts(NamedTuple):
    """What came: pictures, their bytes, and how many frames were left out between two that came."""

    images: int = 0
    bytes: int = 0
    skipped: int = 0

    def since(self, earlier: "ReceivedCounts") -> "ReceivedCounts":
        """What came after that."""
        return ReceivedCounts(*(now - then for now, then in zip(self, earlier, strict=True)))


class FetchedCounter:
    """How many pictures the listeners of a folder have fetched, for any process."""

    def __init__(self, path: str) -> None:
        self._counts = np.memmap(path, np.int64, "r")

    def total(self) -> int:
        """All so far."""
        return int(self._counts.sum())

    def wait(self, wanted: int) -> float:
        """Wait until so many have come; gives the seconds that took."""
        start_s = SYSTEM_CLOCK.monotonic_s()
        while (missing := wanted - self.total()) > 0:
            if SYSTEM_CLOCK.monotonic_s() - start_s > PATIENCE_S:
                raise ClusterError(f"all frames were wanted, but {missing} had not come after {PATIENCE_S:.0f} s")
            SYSTEM_CLOCK.sleep_s(_LOOK_EVERY_S)
        return SYSTEM_CLOCK.monotonic_s() - start_s


class CameraListeners:
    """Some processes that share the streams of all cameras by turns; ``counts`` names the file where they count."""

    def __init__(self, processes: int = 1, cores: frozenset[int] = frozenset()) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="samepath-bench-listeners-")
        self.counts = str(Path(self._folder.name) / "counts")
        np.zeros(processes, np.int64).tofile(self.counts)
        self._children = [Child("a process that listens to cameras", __name__, cores=cores) for _ in range(processes)]
        for number, child in enumerate(self._children):
            child.ask(count=[self.counts, number])
        self._count = 0

    def listen(self, host: str, port: int, stream: int) -> None:
        """Listen to one more stream; it is heard when this returns."""
        child = self._children[self._count % len(self._children)]
        self._count += 1
        child.ask(listen=[host, port, stream])

    def heard(self) -> ReceivedCounts:
        """All that has come so far."""
        for child in self._children:
            child.say(heard=True)
        return ReceivedCounts(*map(sum, zip(*(child.answer() for child in self._children), strict=True)))

    def forget(self) -> None:
        """Hang up on all streams; what came of them is still counted."""
        for child in self._children:
            child.say(forget=True)
        for child in self._children:
            child.answer()
        self._count = 0

    def close(self) -> None:
        """End the processes."""
        for child in self._children:
            child.close()
        self._folder.cleanup()


# In the process.


class _CameraStream:
    """One stream: a length, a head with the frame, then what is not looked at."""

    def __init__(self, host: str, port: int, stream: int) -> None:
        self.socket = socket.create_connection((host, port), timeout=TIMEOUT_S)
        self.socket.sendall(ID.pack(stream))
        self.socket.setblocking(False)
        self.images, self.bytes, self.skipped = 0, 0, 0
        self._head = bytearray()
        self._left = 0
        self._last = 0

    def read(self, scratch: memoryview) -> bool:
        """Take what there is, at most once around; returns whether the stream goes on."""
        if self._left:
            got = self.socket.recv_into(scratch, min(self._left, len(scratch)))
            self._left -= got
            self.bytes += got
            self.images += self._left == 0
            return got > 0
        found = self.socket.recv(_HEAD.size - len(self._head))
        self._head += found
        if len(self._head) == _HEAD.size:
            size, _, frame = _HEAD.unpack(self._head)
            self._left = size + ID.size - _HEAD.size
            self.bytes += _HEAD.size
            self.skipped += max(frame - self._last - 1, 0) if self._last else 0
            self._last = frame
            self._head.clear()
        return bool(found)


class _Listener:
    """Listens in a thread of its own."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._streams: list[_CameraStream] = []
        self._before = ReceivedCounts()
        self._counts: np.memmap | None = None
        self._number = 0
        threading.Thread(target=self._run, name="listens to cameras", daemon=True).start()

    def count_in(self, path: str, number: int) -> None:
        self._counts, self._number = np.memmap(path, np.int64, "r+"), number

    def listen(self, host: str, port: int, stream: int) -> None:
        camera = _CameraStream(host, port, stream)
        with self._lock:
            self._streams.append(camera)
            self._selector.register(camera.socket, selectors.EVENT_READ, camera)

    def heard(self) -> ReceivedCounts:
        with self._lock:
            return self._heard()

    def _heard(self) -> ReceivedCounts:
        now = (sum(getattr(stream, name) for stream in self._streams) for name in ReceivedCounts._fields)
        return ReceivedCounts(*(before + here for before, here in zip(self._before, now, strict=True)))

    def forget(self) -> None:
        with self._lock:
            self._before = self._heard()
            for stream in self._streams:
                with suppress(KeyError):
                    self._selector.unregister(stream.socket)
                stream.socket.close()
            self._streams.clear()

    def _run(self) -> None:
        scratch = memoryview(bytearray(_SCRATCH_BYTES))
        while True:
            for key, _ in self._selector.select(0.05):
                with self._lock, suppress(OSError, ValueError):
                    if key.fileobj.fileno() < 0:  # type: ignore[union-attr]
                        continue
                    before = key.data.images
                    if not key.data.read(scratch):
                        self._selector.unregister(key.fileobj)
                    if self._counts is not None:
                        self._counts[self._number] += key.data.images - before


def main() -> None:
    """Take orders until there are no more."""
    listener = _Listener()
    for order in orders():
        if "listen" in order:
            host, port, stream = order["listen"]
            try:
                listener.listen(host, port, stream)
                reply([])
            except OSError as error:
                reply({"error": f"stream {stream} at {host}:{port} cannot be had: {error}"})
        elif "count" in order:
            listener.count_in(*order["count"])
            reply([])
        elif "forget" in order:
            listener.forget()
            reply([])
        else:
            reply(listener.heard())


if __name__ == "__main__":
    main()
