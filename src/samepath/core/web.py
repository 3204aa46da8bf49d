"""A small web server for pages of our own: the viewer's, and the cluster's live page.

It runs in threads beside whatever it shows, one short-lived thread for a request and not too many at once. It listens on
loopback unless told otherwise. Pages of other sites cannot read it: the host that a browser asks for must be an address, or
localhost, or a name that was given; a page that leads a browser here by a name of its own is refused. Whoever lets it change
something asks for a token besides, see :func:`knows_token`.
"""

import contextlib
import hmac
import ipaddress
import os
import re
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import InputError
from samepath.core.files import regular

TOKEN_HEADER: Final = "X-Samepath-Token"  # noqa: S105 - a name
TEXT: Final = "text/plain; charset=utf-8"
HTML: Final = "text/html; charset=utf-8"
JSON: Final = "application/json"
_CONNECTIONS: Final = 32
# For a request to come whole; a client that trickles has no longer than a silent one.
_REQUEST_S: Final = 5.0
# How often connections are looked at for that.
_LOOK_S: Final = 0.2
_MOST_BODY_BYTES: Final = 1 << 16
_MOST_QUERY_FIELDS: Final = 32
_TOKEN_LENGTHS: Final = (16, 200)
_TOKEN: Final = re.compile(rb"[A-Za-z0-9_-]+")


class HttpAnswer(NamedTuple):
    """What goes back."""

    status: HTTPStatus
    body: bytes
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class HttpRequest:
    """What was asked for; ``header`` gives a header by its name, or nothing."""

    method: str
    path: str
    query: str
    header: Callable[[str], str]

    def fields(self) -> dict[str, str]:
        """The query's fields; one that comes twice, or too many of them, are no request of ours."""
        try:
            found = parse_qs(self.query, keep_blank_values=True, max_num_fields=_MOST_QUERY_FIELDS)
        except ValueError as error:
            raise InputError(f"at most {_MOST_QUERY_FIELDS} fields were wanted") from error
        twice = [name for name, values in found.items() if len(values) > 1]
        if twice:
            raise InputError(f"{twice[0]!r} came more than once")
        return {name: values[0] for name, values in found.items()}


def line(status: HTTPStatus, words: str, *headers: tuple[str, str]) -> HttpAnswer:
    """Answer with one line."""
    return HttpAnswer(status, f"{words}\n".encode(), TEXT, headers)


def knows_token(request: HttpRequest, token: str) -> bool:
    """Does the request bring this token? An empty one lets nobody in."""
    return bool(token) and hmac.compare_digest(request.header(TOKEN_HEADER).encode(), token.encode())


def token_in(path: Path) -> str:
    """Read the token of a file; one that is not there is made, for its owner's eyes only."""
    try:
        # Narrow from its first moment: nobody can have opened it before.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
    except FileExistsError:
        pass
    except OSError as error:
        raise InputError(f"the token {path} cannot be made: {error.strerror or error}") from error
    try:
        with regular(path).open("rb") as file:
            token = file.read(_TOKEN_LENGTHS[1] + 2).strip()
    except OSError as error:
        raise InputError(f"the token {path} cannot be read: {error.strerror or error}") from error
    least, most = _TOKEN_LENGTHS
    if not (least <= len(token) <= most and _TOKEN.fullmatch(token)):
        raise InputError(
            f"{path}: a token of {least} to {most} letters, digits, - and _ was wanted; remove it, and one is made"
        )
    return token.decode()


class WebServer:
    """Answers requests from ``start`` to ``stop``, with what ``answer`` gives; whatever that raises is said in the log.

    ``what`` is what is served and ``instead`` what to do, for the words where it cannot be. ``names`` are host names beside
    localhost and plain addresses under which it may be asked for. ``fetch_s`` is how long a client may take to fetch an
    answer: pages are small, blocks of poses are not.
    """

    def __init__(
        self,
        answer: Callable[[HttpRequest], HttpAnswer],
        *,
        what: str,
        host: str = "127.0.0.1",
        port: int = 0,
        names: Collection[str] = (),
        log: Callable[[str], None] = lambda words: None,
        fetch_s: float | None = None,
        instead: str = "choose another port",
    ) -> None:
        self._answer_one, self._log, self.fetch_s = answer, log, fetch_s
        self._names = {"localhost", *(name.lower() for name in names)}
        try:
            self._server = _Server((host, port), self)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"{what} cannot be served on {host}:{port} ({reason}): {instead}") from error
        self.host, self.port = host, int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_LOOK_S,), name=f"samepath {what}", daemon=True
        )

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/"

    @property
    def listens_on(self) -> str:
        """The address that the socket is bound to."""
        return str(self._server.socket.getsockname()[0])

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def end(self) -> None:
        """Begin to end, from any thread but the server's own; ``join`` waits for it."""
        self._server.shutdown()

    def join(self) -> None:
        """Wait until it has ended. In short turns, so that signals are heard meanwhile."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def stop(self) -> None:
        """Answer no more."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def answer(self, method: str, target: str, header: Callable[[str], str]) -> HttpAnswer:
        """Answer one request; whatever goes wrong is an answer too."""
        if not self._is_ours(header("Host")):
            return line(
                HTTPStatus.MISDIRECTED_REQUEST, "this server is asked for by address or as localhost, not by another name"
            )
        try:
            parts = urlsplit(target)
        except ValueError:
            return line(HTTPStatus.BAD_REQUEST, "this is no address")
        try:
            return self._answer_one(HttpRequest(method, parts.path, parts.query, header))
        except Exception as error:
            # A bug here must not end the thread without a word.
            self._log(f"{method} {target!r}: {type(error).__name__}: {error}")
            return line(HTTPStatus.INTERNAL_SERVER_ERROR, "this could not be answered; the server's log says why")

    def say(self, words: str) -> None:
        """Write a line to the log."""
        self._log(words)

    def _is_ours(self, host: str) -> bool:
        """A browser led here by somebody else's host name says that name; an address or localhost cannot be borrowed."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            return name in self._names or bool(ipaddress.ip_address(name))
        except ValueError:
            return False


@dataclass
class _Visit:
    """A connection: until when it must be done with what it is at, and whether it is the client's turn.

    A client's turn is to send its request, and then to fetch the answer; ours is to find the answer, which takes as it takes.
    """

    request: socket.socket
    until_s: float
    is_clients_turn: bool = True


class _Server(ThreadingHTTPServer):
    """One short-lived thread a request, and not too many at once.

    Where there are too many, whoever has been at it for longest gives way, unless it is we who let it wait: a page must stay
    within reach however many connections somebody opens and leaves half-said.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], web: WebServer) -> None:
        self.web = web
        self._lock = threading.Lock()
        self._visits: dict[int, _Visit] = {}  # by the identity of their sockets, in the order in which they came
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Bind without asking a name server who we are."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - socketserver's signature
        """Begin a thread; where there are too many, one that waits for its client ends first, or this one is closed at once."""
        with self._lock:
            has_room = len(self._visits) < _CONNECTIONS or self._end_one()
            if has_room:
                self._visits[id(request)] = _Visit(request, SYSTEM_CLOCK.monotonic_s() + _REQUEST_S)
        if not has_room:
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no further thread
            self.shutdown_request(request)

    def _end_one(self) -> bool:
        for key, visit in self._visits.items():
            if visit.is_clients_turn:
                _break_off(visit.request)
                del self._visits[key]
                return True
        return False

    def service_actions(self) -> None:
        """End what takes too long; called by the thread that accepts, every _LOOK_S."""
        with self._lock:
            now_s = SYSTEM_CLOCK.monotonic_s()
            for visit in self._visits.values():
                if visit.is_clients_turn and now_s > visit.until_s:
                    _break_off(visit.request)

    def turn(self, request: socket.socket, *, is_clients: bool) -> None:
        """From now on a connection waits for us; or again for the client, who fetches the answer."""
        with self._lock:
            visit = self._visits.get(id(request))
            if visit is not None:
                lasts_s = _REQUEST_S if self.web.fetch_s is None else self.web.fetch_s
                visit.is_clients_turn, visit.until_s = is_clients, SYSTEM_CLOCK.monotonic_s() + lasts_s

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as above
        """Close a connection; called at the end of each, however it ended."""
        with self._lock:  # so that it is not broken off when its number belongs to another already
            self._visits.pop(id(request), None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as above
        """A connection that broke while it was served is nobody's problem but its own; anything else is said."""
        error = sys.exception()
        if not isinstance(error, OSError):
            self.web.say(f"a request could not be read: {type(error).__name__}: {error}")


def _break_off(request: socket.socket) -> None:
    """End a connection; its thread, which may be waiting for it, sees its end and closes it."""
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """Reads a request, writes an answer, closes."""

    server: _Server
    server_version = "samepath"
    sys_version = ""

    def setup(self) -> None:
        """Hold a silent client to its time, also between two looks at all connections."""
        super().setup()
        self.connection.settimeout(max(_REQUEST_S, self.server.web.fetch_s or 0.0))

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        # Nothing is expected in a body, but a client that sent one would not hear the answer if it were left unread.
        length = self.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdigit() and int(length) <= _MOST_BODY_BYTES):
            self._send(line(HTTPStatus.BAD_REQUEST, "no body was wanted"))
            return
        self.rfile.read(int(length))
        self._answer()

    def _answer(self) -> None:
        self.server.turn(self.connection, is_clients=False)
        answer = self.server.web.answer(self.command, self.path, lambda name: self.headers.get(name, "") or "")
        self.server.turn(self.connection, is_clients=True)
        self._send(answer)

    def _send(self, answer: HttpAnswer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        for name, value in answer.headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what cannot be read, in one line."""
        self.close_connection = True
        status = HTTPStatus(code)
        self.command = getattr(self, "command", None) or ""
        self._send(line(status, status.phrase.lower()))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: ANN401 - http.server's signature
        """Say nothing: a page asks every second."""
