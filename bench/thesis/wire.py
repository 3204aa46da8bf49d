"""The measuring client's connections: calls as CARLA's client makes them, the world's stream, and a stream for every camera."""

import json
import selectors
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import cycle
from typing import Any, Final, NamedTuple

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import ClusterError
from samepath.simulator.carla.streams import WORLD_STREAM
from tests.support.rpc import RawRpc

_TIMEOUT_S: Final = 120.0
_ID: Final = struct.Struct("<I")
_TOKEN: Final = struct.Struct("<IH")
_HEAD: Final = struct.Struct("<IQQ")  # length of the message, type of sensor, frame
_SCRATCH_BYTES: Final = 1 << 20


class ServerAddress(NamedTuple):
    """Where a server or a node takes calls."""

    name: str
    host: str
    port: int


class RpcConnection:
    """A connection for calls, one at a time or several on their way. What goes wrong is an error that names the server."""

    def __init__(self, address: ServerAddress) -> None:
        self.address = address
        try:
            self._rpc = RawRpc(address.host, address.port, _TIMEOUT_S)
        except OSError as error:
            raise ClusterError(
                f"{address.name} cannot be reached at {address.host}:{address.port}: {error.strerror or error}"
            ) from None

    def send(self, method: str, *arguments: object) -> None:
        """Make a call; its answer is to be received."""
        try:
            self._rpc.send(method, *arguments)
        except OSError as error:
            raise ClusterError(f"{self.address.name} does not answer: {error.strerror or error}") from error

    def receive(self) -> Any:  # noqa: ANN401 - plain values
        """The answer to the call whose turn it is."""
        try:
            answer = self._rpc.receive()
        except OSError as error:
            raise ClusterError(f"{self.address.name} does not answer: {error.strerror or error}") from error
        if answer is None:
            raise ClusterError(f"{self.address.name} has closed the connection")
        return answer[2]

    def value(self, method: str, *arguments: object) -> Any:  # noqa: ANN401 - plain values
        """Call a method that answers with a value."""
        self.send(method, *arguments)
        return self.read(method)

    def read(self, method: str) -> Any:  # noqa: ANN401 - plain values
        """The value that the call whose turn it is answers with."""
        answer = self.receive()
        worked, content = answer[0]
        if not worked:
            raise ClusterError(f"{self.address.name}: {method}: {content[0]}")
        return content

    def stream_port(self) -> int:
        """The port of its streams."""
        token = self.value("get_episode_info")[1][0]
        return int(_TOKEN.unpack_from(token)[1])

    def close(self) -> None:
        """Hang up."""
        self._rpc.close()


class WorldStream:
    """The state of all actors, tick by tick."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=_TIMEOUT_S)
        self._socket.sendall(_ID.pack(WORLD_STREAM))
        self._buffer = bytearray()

    def message(self) -> bytes:
        """Wait for the next state."""
        while not (found := self._whole()):
            self._read()
        return found

    def latest(self) -> bytes:
        """Wait for a state and skip all but the latest."""
        found = self.message()
        while True:
            while later := self._whole():
                found = later
            self._socket.setblocking(False)
            try:
                self._read()
            except BlockingIOError:
                return found
            finally:
                self._socket.settimeout(_TIMEOUT_S)

    def _read(self) -> None:
        data = self._socket.recv(1 << 18)
        if not data:
            raise ClusterError("the main server has closed the stream of its state")
        self._buffer += data

    def _whole(self) -> bytes:
        if len(self._buffer) < _ID.size:
            return b""
        (size,) = _ID.unpack_from(self._buffer)
        if len(self._buffer) < _ID.size + size:
            return b""
        message = bytes(self._buffer[_ID.size : _ID.size + size])
        del self._buffer[: _ID.size + size]
        return message

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


class ReceivedCounts(NamedTuple):
    """What came: pictures, their bytes, and how many frames were left out between two that came."""

    images: int
    bytes: int
    skipped: int

    def since(self, earlier: "ReceivedCounts") -> "ReceivedCounts":
        """What came after that."""
        return ReceivedCounts(*(now - then for now, then in zip(self, earlier, strict=True)))


class CameraListener:
    """Listens to all cameras in a thread of its own: takes every byte, keeps none."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._streams: list[_CameraStream] = []
        self._over = False
        self._thread = threading.Thread(target=self._run, name="listens to cameras", daemon=True)
        self._thread.start()

    def listen(self, host: str, port: int, stream: int) -> None:
        """Listen to one more stream."""
        camera = _CameraStream(host, port, stream)
        with self._lock:
            self._streams.append(camera)
            self._selector.register(camera.socket, selectors.EVENT_READ, camera)

    def heard(self) -> ReceivedCounts:
        """All that has come so far."""
        with self._lock:
            return ReceivedCounts(
                *(sum(getattr(stream, name) for stream in self._streams) for name in ("images", "bytes", "skipped"))
            )

    def forget(self) -> None:
        """Hang up on all streams."""
        with self._lock:
            for stream in self._streams:
                self._selector.unregister(stream.socket)
                stream.socket.close()
            self._streams.clear()

    def close(self) -> None:
        """Stop listening."""
        self._over = True
        self._thread.join(10.0)
        self.forget()
        self._selector.close()

    def _run(self) -> None:
        scratch = memoryview(bytearray(_SCRATCH_BYTES))
        while not self._over:
            for key, _ in self._selector.select(0.05):
                with self._lock, suppress(OSError, ValueError):
                    if key.fileobj.fileno() >= 0:  # type: ignore[union-attr]
                        key.data.read(scratch)


class _CameraStream:
    """One stream: a length, a head with the frame, then what is not looked at."""

    def __init__(self, host: str, port: int, stream: int) -> None:
        self.socket = socket.create_connection((host, port), timeout=_TIMEOUT_S)
        self.socket.sendall(_ID.pack(stream))
        self.socket.setblocking(False)
        self.images, self.bytes, self.skipped = 0, 0, 0
        self._head = bytearray()
        self._left = 0
        self._last = 0

    def read(self, scratch: memoryview) -> None:
        """Take what there is, at most once around."""
        if self._left:
            got = self.socket.recv_into(scratch, min(self._left, len(scratch)))
            self._left -= got
            self.bytes += got
            self.images += self._left == 0
            return
        self._head += self.socket.recv(_HEAD.size - len(self._head))
        if len(self._head) == _HEAD.size:
            size, _, frame = _HEAD.unpack(self._head)
            self._left = size + _ID.size - _HEAD.size
            self.bytes += _HEAD.size
            self.skipped += max(frame - self._last - 1, 0) if self._last else 0
            self._last = frame
            self._head.clear()


@contextmanager
def connected(addresses: list[ServerAddress]) -> Iterator[list[RpcConnection]]:
    """One connection to each of several addresses."""
    made: list[RpcConnection] = []
    try:
        for address in addresses:
            made.append(RpcConnection(address))  # noqa: PERF401 - those before the one that fails are closed
        yield made
    finally:
        for caller in made:
            caller.close()


# How long calls take: a process of its own asks every server in turn, whatever its clients do meanwhile.
#
# Two calls: ``version``, which whoever is asked answers itself, and a vehicle's last control, which only the main
# server knows. In a process of its own nothing that the measuring client computes is counted as latency.

_PAUSE_S: Final = 0.005


class CallLatencies(NamedTuple):
    """Latencies by server: of what it answers itself, and of what the main server answers."""

    here_s: dict[str, list[float]]
    at_main_s: dict[str, list[float]]


class LatencyProbe:
    """Asks in turn, from begin to end."""

    def __init__(self, addresses: list[ServerAddress]) -> None:
        command = [sys.executable, "-m", __name__, str(len(addresses))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)
        self._say({"addresses": addresses})
        self._heard()

    def begin(self, vehicle: int) -> None:
        """Ask from now on, for the control of this vehicle."""
        self._say({"vehicle": vehicle})

    def end(self) -> CallLatencies:
        """Stop asking; return what came since the beginning."""
        self._say({"vehicle": None})
        return CallLatencies(*self._heard())

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process.wait(20.0)

    def _say(self, words: dict[str, Any]) -> None:
        if self._process.stdin is None:
            raise RuntimeError("a pipe was asked for")
        self._process.stdin.write(json.dumps(words).encode() + b"\n")
        self._process.stdin.flush()

    def _heard(self) -> Any:  # noqa: ANN401 - its own words
        if self._process.stdout is None:
            raise RuntimeError("a pipe was asked for")
        line = self._process.stdout.readline()
        if not line:
            raise ClusterError("the process that measures latencies has ended: look at what it printed above")
        return json.loads(line)


def ask_in_turn(callers: list[RpcConnection], vehicle: int, over: threading.Event) -> CallLatencies:
    """Ask until it is over, everybody at least once."""
    here: dict[str, list[float]] = {caller.address.name: [] for caller in callers}
    at_main: dict[str, list[float]] = {caller.address.name: [] for caller in callers}
    turns: list[tuple[RpcConnection, dict[str, list[float]], str, tuple[int, ...]]] = [
        *((caller, here, "version", ()) for caller in callers),
        *((caller, at_main, "samepath_control", (vehicle,)) for caller in callers),
    ]
    for number, (caller, kept, method, arguments) in enumerate(cycle(turns)):
        if over.wait(_PAUSE_S) and number >= len(turns):
            break
        start_s = SYSTEM_CLOCK.monotonic_s()
        caller.value(method, *arguments)
        kept[caller.address.name].append(SYSTEM_CLOCK.monotonic_s() - start_s)
    return CallLatencies(here, at_main)


def main() -> None:
    """Take orders, one a line, until there are no more."""
    first = json.loads(sys.stdin.buffer.readline())
    callers = [RpcConnection(ServerAddress(*address)) for address in first["addresses"]]
    print("[]", flush=True)
    over, found = threading.Event(), []
    asking: threading.Thread | None = None

    def ask(vehicle: int) -> None:
        found.append(ask_in_turn(callers, vehicle, over))

    for line in sys.stdin.buffer:
        vehicle = json.loads(line)["vehicle"]
        if vehicle is not None:
            over.clear()
            asking = threading.Thread(target=ask, args=(vehicle,), daemon=True)
            asking.start()
        elif asking is not None:
            over.set()
            asking.join()
            print(json.dumps(found.pop() if found else [{}, {}]), flush=True)


if __name__ == "__main__":
    main()
