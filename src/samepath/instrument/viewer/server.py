"""Serves the viewer on loopback: the page, and a block of bytes for each cell and map, made when the page asks for it.

Only this machine can ask, and only under an address or as localhost: a page of another site that leads a browser here by a name
of its own is refused. Nothing can be changed from outside, so there is nothing to guard but reading.
"""

import contextlib
import ipaddress
import json
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import urlsplit

from samepath.core.errors import InputError, SamepathError
from samepath.core.processes import ShutdownSignals
from samepath.instrument.viewer.page import policy

_BLOCK: Final = re.compile(r"/(cell|ground)-([0-9]{1,6})\.bin")
_CONNECTIONS: Final = 16
_REQUEST_S: Final = 20.0
_TEXT: Final = "text/plain; charset=utf-8"
_JSON: Final = "application/json"
LIVE: Final = "/live.json"


@dataclass(frozen=True)
class ViewSource:
    """What is served: the page's text, and what makes a block of a cell or a map. A number beyond the last is a KeyError.

    ``live`` gives the newest state of a running world as JSON; None where there is none.
    """

    page: Callable[[], str]
    cell: Callable[[int], bytes]
    ground: Callable[[int], bytes]
    live: Callable[[], bytes] | None = None


class ViewServer:
    """The web server; it answers from ``start`` to ``stop``, in threads of its own."""

    def __init__(self, source: ViewSource, port: int = 0) -> None:
        self._source = source
        self._room = threading.BoundedSemaphore(_CONNECTIONS)
        try:
            self._server = _Server(("127.0.0.1", port), self)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"the viewer cannot be served on 127.0.0.1:{port} ({reason}): choose another --port") from error
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="samepath view", daemon=True)

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        self._thread.start()

    def wait(self, end: ShutdownSignals) -> None:
        """Serve until SIGINT or SIGTERM comes.

        Take the signals over before anybody is told the address. Python's own way would not do: shells let SIGINT be ignored
        in what they start behind ``&``, and Python then leaves it so.
        """
        end.call_on_first(self._server.shutdown)
        while self._thread.is_alive():
            self._thread.join(0.5)

    def stop(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def answer(self, target: str, host: str) -> tuple[HTTPStatus, bytes, str]:
        """Answer a GET."""
        if not _is_ours(host):
            return HTTPStatus.MISDIRECTED_REQUEST, b"this server is asked for as localhost or by address\n", _TEXT
        path = target.split("?", 1)[0]
        try:
            return self._found(path)
        except (KeyError, IndexError):
            return HTTPStatus.NOT_FOUND, b"there is no such block\n", _TEXT
        except SamepathError as error:
            if path == LIVE:
                return HTTPStatus.SERVICE_UNAVAILABLE, json.dumps({"trouble": str(error)}).encode(), _JSON
            return HTTPStatus.CONFLICT, f"{error}\n".encode(), _TEXT

    def _found(self, path: str) -> tuple[HTTPStatus, bytes, str]:
        if path == "/":
            return HTTPStatus.OK, self._source.page().encode(), "text/html; charset=utf-8"
        if path == LIVE and self._source.live is not None:
            return HTTPStatus.OK, self._source.live(), _JSON
        found = _BLOCK.fullmatch(path)
        if found is None:
            return HTTPStatus.NOT_FOUND, b"there are /, /cell-N.bin and /ground-N.bin\n", _TEXT
        make = self._source.cell if found[1] == "cell" else self._source.ground
        return HTTPStatus.OK, make(int(found[2])), "application/octet-stream"

    def room(self) -> threading.BoundedSemaphore:
        """How many more connections there may be."""
        return self._room


def _is_ours(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], view: ViewServer) -> None:
        self.view = view
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # Without asking a name server who we are.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _REQUEST_S
    server_version = "samepath"
    sys_version = ""

    def do_GET(self) -> None:
        view = self.server.view
        if not view.room().acquire(blocking=False):
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        try:
            status, body, kind = view.answer(self.path, self.headers.get("Host", ""))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("X-Frame-Options", "DENY")
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Security-Policy", policy(connect=True))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)
        finally:
            view.room().release()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: who looks at a page wants to look."""
