"""CARLA's calls by hand: MessagePack-RPC over a socket, nothing of ours in between. Tests and benchmarks share this client."""

import socket
from typing import Any

import msgpack


class RawRpc:
    """One connection; calls may be sent ahead of their answers, which come in the order of the calls."""

    def __init__(self, host: str, port: int, timeout_s: float = 60.0) -> None:
        self.socket = socket.create_connection((host, port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unpacker = msgpack.Unpacker(strict_map_key=False, max_buffer_size=64 << 20)
        self._id = 0

    def __enter__(self) -> "RawRpc":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, name: str, *arguments: object, asynchronous: bool = False) -> int:
        """Make a call; return its number, which the answer carries."""
        self._id = (self._id + 1) & 0xFFFF_FFFF
        self.socket.sendall(msgpack.packb([0, self._id, name, [[asynchronous], *arguments]]))
        return self._id

    def receive(self) -> Any:
        """The next answer: [number, error, result]; None when the server has closed the connection."""
        while True:
            for answer in self._unpacker:
                assert answer[0] == 1
                return answer[1:]
            try:
                data = self.socket.recv(1 << 18)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._unpacker.feed(data)

    def ask(self, name: str, *arguments: object) -> tuple[Any, Any]:
        """Call and return (error, result)."""
        number = self.send(name, *arguments)
        answer = self.receive()
        assert answer is not None
        assert answer[0] == number
        return answer[1], answer[2]

    def value(self, name: str, *arguments: object) -> Any:
        """Call a method that answers with a value, and return it."""
        error, result = self.ask(name, *arguments)
        assert error is None, error
        assert result[0][0] == 1, result
        return result[0][1]

    def is_closed(self) -> bool:
        return self.receive() is None
