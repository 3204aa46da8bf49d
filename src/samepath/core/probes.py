"""A probe: an address that says whether a server is alive, for Docker, Kubernetes and load balancers.

One question, one line: ``GET /healthz`` gives 200 and ``ok``, or 503 and what is wrong. It is answered by the event loop that
serves the clients, so that a loop which hangs answers no probe either.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from samepath.core.network import Listener, listen

PATH: Final = "/healthz"
# A probe is one short request from a machine: whoever takes longer, or says more, is none.
_REQUEST_S: Final = 2.0
_REQUEST_BYTES: Final = 8192


async def serve_probe(complaint: Callable[[], str], host: str, port: int, log: Callable[[str], None]) -> Listener:
    """Answer probes from now on. ``complaint`` says what is wrong, or nothing."""
    found = await listen(lambda: _Visit(complaint), host, port, log)
    found.start_serving()
    return found


class _Visit(asyncio.Protocol):
    """One connection, for one request."""

    def __init__(self, complaint: Callable[[], str]) -> None:
        self._complaint = complaint
        self._request = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("a stream transport was wanted")
        self._transport = transport
        # Also for the answer to be fetched: nobody holds a descriptor for longer.
        self._deadline = asyncio.get_running_loop().call_later(_REQUEST_S, transport.abort)

    def connection_lost(self, _: Exception | None) -> None:
        self._deadline.cancel()

    def data_received(self, data: bytes) -> None:
        self._request += data
        if b"\r\n\r\n" in self._request:
            self._transport.write(_answer(bytes(self._request).split(b"\r\n", 1)[0], self._complaint))
            self._transport.close()
        elif len(self._request) > _REQUEST_BYTES:
            self._transport.abort()


def _answer(line: bytes, complaint: Callable[[], str]) -> bytes:
    method, _, target = line.partition(b" ")
    if method not in (b"GET", b"HEAD") or target.split(b" ")[0] != PATH.encode():
        status, words = HTTPStatus.NOT_FOUND, f"there is GET {PATH}"
    else:
        words = complaint()
        status = HTTPStatus.SERVICE_UNAVAILABLE if words else HTTPStatus.OK
    body = f"{words or 'ok'}\n".encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == b"HEAD" else body)
