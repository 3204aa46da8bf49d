"""The measuring client's connections: calls as CARLA's client makes them, and the stream of the world's state."""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from samepath.core.errors import ClusterError
from samepath.simulator.carla.streams import WORLD_STREAM
from tests.support.rpc import RawRpc

TIMEOUT_S: Final = 120.0
ID: Final = struct.Struct("<I")
_TOKEN: Final = struct.Struct("<IH")


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
            self._rpc = RawRpc(address.host, address.port, TIMEOUT_S)
        except OSError as error:
            raise ClusterError(
                f"{address.name} cannot be reached at {address.host}:{address.port}: {error.strerror or error}"
            ) from None

    def send(self, method: str, *arguments: object, asynchronous: bool = False) -> None:
        """Make a call; its answer is to be received, unless none was asked for."""
        try:
            self._rpc.send(method, *arguments, asynchronous=asynchronous)
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
        self._socket = socket.create_connection((host, port), timeout=TIMEOUT_S)
        self._socket.sendall(ID.pack(WORLD_STREAM))
        self._buffer = bytearray()

    def message(self) -> bytes:
        """Wait for the next state."""
        while not (found := self._whole()):
            self._read()
        return found

    def latest(self) -> bytes:
        """Wait for a state and skip all but the latest."""
        found = self.message()
        while later := self._ready():
            found = later
        return found

    def skip(self) -> None:
        """Skip what has come."""
        while self._ready():
            pass

    def _ready(self) -> bytes:
        """The next state if it has come, else nothing."""
        while not (found := self._whole()):
            self._socket.setblocking(False)
            try:
                self._read()
            except BlockingIOError:
                return b""
            finally:
                self._socket.settimeout(TIMEOUT_S)
        return found

    def _read(self) -> None:
        data = self._socket.recv(1 << 18)
        if not data:
            raise ClusterError("a server has closed the stream of its state")
        self._buffer += data

    def _whole(self) -> bytes:
        if len(self._buffer) < ID.size:
            return b""
        (size,) = ID.unpack_from(self._buffer)
        if len(self._buffer) < ID.size + size:
            return b""
        message = bytes(self._buffer[ID.size : ID.size + size])
        del self._buffer[: ID.size + size]
        return message

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


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
