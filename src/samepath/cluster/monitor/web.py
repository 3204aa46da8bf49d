"""The main server's window to the outside: the live page, the status, metrics, thumbnails, and three guarded requests.

It runs in threads of its own and only reads what was published: a tick never waits for it, they only share the processor. It
listens on loopback unless told otherwise. Pages of other sites cannot read it (the host a browser asks for must be this one,
by address or as localhost) nor change anything (that takes a token that only the owner of the run folder can read).
"""

import contextlib
import hmac
import io
import ipaddress
import math
import re
import socket
import struct
import sys
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from urllib.parse import parse_qs, urlsplit

import numpy as np
from numpy.typing import NDArray

from samepath.cluster.monitor.client import TOKEN_HEADER
from samepath.cluster.monitor.page import live_page
from samepath.cluster.monitor.prometheus import MissingLibraryError, StatusSource, exposition, make_registry
from samepath.cluster.monitor.status import ClusterStatus, to_json
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import InputError, SamepathError
from samepath.core.probes import PATH as PROBE_PATH

if TYPE_CHECKING:
    from PIL.Image import Image


Thumbnail = Callable[[int], bytes | None]
MOST_NODES: Final = 1024
_CONNECTIONS: Final = 32
# For a request to come whole, and then for its answer to be fetched; a client that trickles has no longer than a silent one.
_REQUEST_S: Final = 5.0
# How often connections are looked at for that.
_LOOK_S: Final = 0.2
_MOST_BODY_BYTES: Final = 1 << 16
_PICTURE: Final = re.compile(r"/thumbnails/([0-9]{1,10})\.png")
_DRAIN: Final = re.compile(r"/nodes/([A-Za-z0-9._-]{1,64})/drain")
_NODES: Final = re.compile(r"[0-9]{1,4}")
_TEXT: Final = "text/plain; charset=utf-8"


class MonitorActions(Protocol):
    """What may be asked for from outside. Each returns one line, or raises a SamepathError that says why not.

    They are called from threads of the web server: they leave a wish for the main server's own thread and return at once.
    """

    def drain(self, node: str) -> str:
        """Give this node nothing more."""
        ...

    def scale(self, nodes: int) -> str:
        """Have so many nodes."""
        ...

    def stop(self) -> str:
        """End the cluster."""
        ...


class HttpAnswer(NamedTuple):
    """What goes back."""

    status: HTTPStatus
    body: bytes
    content_type: str = _TEXT
    headers: tuple[tuple[str, str], ...] = ()


def _line(status: HTTPStatus, words: str, *headers: tuple[str, str]) -> HttpAnswer:
    return HttpAnswer(status, f"{words}\n".encode(), _TEXT, headers)


class MonitorServer:
    """The web server. ``names`` are host names beside localhost and plain addresses under which it may be asked for.

    ``complaint`` says what is wrong with the main server, or nothing, for probes. It must look at the server itself: the status
    is published by the episode's thread, and stays as it was when that hangs or has ended.
    """

    def __init__(
        self,
        source: StatusSource,
        thumbnail: Thumbnail,
        actions: MonitorActions,
        token: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        names: Collection[str] = (),
        log: Callable[[str], None] = lambda line: None,
        complaint: Callable[[], str] = lambda: "",
    ) -> None:
        self._complaint = complaint
        self._source, self._thumbnail, self._actions, self._token, self.log = source, thumbnail, actions, token, log
        self._names = {"localhost", *(name.lower() for name in names)}
        self._encoded: tuple[ClusterStatus | None, bytes] = (None, b"")
        try:
            self._server = _Server((host, port), self)
        except OSError as error:
            reason = error.strerror or error
            raise InputError(f"the live page cannot be served on {host}:{port} ({reason}): choose another port") from error
        self.host, self.port = host, int(self._server.server_address[1])
        _get_ready()
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_LOOK_S,), name="samepath monitor", daemon=True
        )

    @property
    def url(self) -> str:
        """Where the live page is."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/"

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def answer(self, method: str, target: str, header: Callable[[str], str]) -> HttpAnswer:
        """Answer one request; whatever goes wrong is an answer too."""
        if not self._is_ours(header("Host")):
            return _line(
                HTTPStatus.MISDIRECTED_REQUEST, "this server is asked for by address or as localhost, not by another name"
            )
        try:
            parts = urlsplit(target)
        except ValueError:
            return _line(HTTPStatus.BAD_REQUEST, "this is no address")
        try:
            if method == "POST":
                return self._change(parts.path, parts.query, header(TOKEN_HEADER))
            return self._show(parts.path)
        except Exception as error:
            # A bug here must not end the thread without a word.
            self.log(f"{method} {target!r}: {type(error).__name__}: {error}")
            return _line(HTTPStatus.INTERNAL_SERVER_ERROR, "this could not be answered; the main server's log says why")

    def _is_ours(self, host: str) -> bool:
        """A browser led here by somebody else's host name says that name; an address or localhost cannot be borrowed."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            return name in self._names or bool(ipaddress.ip_address(name))
        except ValueError:
            return False

    def _show(self, path: str) -> HttpAnswer:  # noqa: PLR0911 - one return per address
        if path == "/":
            page = live_page()
            return HttpAnswer(HTTPStatus.OK, page.html, "text/html; charset=utf-8", (("Content-Security-Policy", page.policy),))
        if path == "/status.json":
            body = self._status_json()
            return HttpAnswer(HTTPStatus.OK, body, "application/json") if body else _not_yet()
        if path == PROBE_PATH:
            wrong = self._complaint()
            return _line(HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK, wrong or "ok")
        if path == "/metrics":
            return self._metrics()
        if picture := _PICTURE.fullmatch(path):
            png = self._picture(int(picture[1]))
            return (
                HttpAnswer(HTTPStatus.OK, png, "image/png") if png else _line(HTTPStatus.NOT_FOUND, "there is no such picture")
            )
        if path in ("/stop", "/scale") or _DRAIN.fullmatch(path):
            return _line(HTTPStatus.METHOD_NOT_ALLOWED, "this takes a POST with the token", ("Allow", "POST"))
        return _line(HTTPStatus.NOT_FOUND, "there are /, /status.json, /healthz, /metrics and /thumbnails/ID.png")

    def _picture(self, sensor: int) -> bytes | None:
        """The main server is bothered only with sensors that there are."""
        status = self._source()
        if status is None or all(known.id != sensor for known in status.sensors):
            return None
        return self._thumbnail(sensor)

    def _status_json(self) -> bytes:
        """The status as JSON, written once however many look at it."""
        status = self._source()
        if status is None:
            return b""
        known, body = self._encoded
        if known is not status:
            body = to_json(status)
            self._encoded = (status, body)
        return body

    def _metrics(self) -> HttpAnswer:
        try:
            registry = make_registry(self._source)
        except MissingLibraryError as error:
            return _line(HTTPStatus.NOT_IMPLEMENTED, str(error))
        body, content_type = exposition(registry)
        return HttpAnswer(HTTPStatus.OK, body, content_type)

    def _change(self, path: str, query: str, token: str) -> HttpAnswer:
        node = _DRAIN.fullmatch(path)
        if not (node or path in ("/stop", "/scale")):
            return _line(HTTPStatus.NOT_FOUND, "there are /nodes/NAME/drain, /scale?nodes=N and /stop")
        if not self._token or not hmac.compare_digest(token.encode(), self._token.encode()):
            return _line(HTTPStatus.FORBIDDEN, f"the header {TOKEN_HEADER} must hold the run folder's token")
        try:
            if node:
                return self._drain(node[1])
            return self._scale(query) if path == "/scale" else _line(HTTPStatus.OK, self._actions.stop())
        except SamepathError as error:
            return _line(HTTPStatus.CONFLICT, str(error))

    def _scale(self, query: str) -> HttpAnswer:
        asked = parse_qs(query).get("nodes", [])
        if len(asked) != 1 or not _NODES.fullmatch(asked[0]) or not 1 <= int(asked[0]) <= MOST_NODES:
            return _line(HTTPStatus.BAD_REQUEST, f"nodes=N was wanted, with N from 1 to {MOST_NODES}")
        return _line(HTTPStatus.OK, self._actions.scale(int(asked[0])))

    def _drain(self, name: str) -> HttpAnswer:
        status = self._source()
        if status is None:
            return _not_yet()
        there = [node.name for node in status.nodes if node.state != "gone"]
        if name not in there:
            return _line(HTTPStatus.NOT_FOUND, f"there is no node {name}; there are: {', '.join(there) or 'none'}")
        return _line(HTTPStatus.OK, self._actions.drain(name))


def _get_ready() -> None:
    """Import and build now what the first answer needs: done in the middle of a tick it would hold that tick up."""
    live_page()
    to_json(ClusterStatus("", "", "", 0, 0, "lockstep"))
    with contextlib.suppress(MissingLibraryError):
        exposition(make_registry(lambda: None))


def _not_yet() -> HttpAnswer:
    return _line(HTTPStatus.SERVICE_UNAVAILABLE, "the cluster has just begun; ask again")


@dataclass
class _Visit:
    """A connection: since when, and whether it is the client's turn, to send its request or to fetch the answer."""

    request: socket.socket
    since_s: float
    is_clients_turn: bool = True


class _Server(ThreadingHTTPServer):
    """One short-lived thread a request, and not too many at once.

    Where there are too many, whoever has been at it for longest gives way, unless it is we who let it wait: a page must stay
    within reach however many connections somebody opens and leaves half-said.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], monitor: MonitorServer) -> None:
        self.monitor = monitor
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

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as above
        """Begin a thread; where there are too many, one that waits for its client ends first, or this one is closed at once."""
        with self._lock:
            has_room = len(self._visits) < _CONNECTIONS or self._end_one()
            if has_room:
                self._visits[id(request)] = _Visit(request, SYSTEM_CLOCK.monotonic_s())
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
                if visit.is_clients_turn and now_s - visit.since_s > _REQUEST_S:
                    _break_off(visit.request)

    def turn(self, request: socket.socket, *, is_clients: bool) -> None:
        """From now on a client's connection waits for the client, who has _REQUEST_S again; or for us."""
        with self._lock:
            visit = self._visits.get(id(request))
            if visit is not None:
                visit.is_clients_turn, visit.since_s = is_clients, SYSTEM_CLOCK.monotonic_s()

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as above
        """Close a connection; called at the end of each, however it ended."""
        with self._lock:  # so that it is not broken off when its number belongs to another already
            self._visits.pop(id(request), None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as above
        """A connection that broke while it was served is nobody's problem but its own; anything else is said."""
        error = sys.exception()
        if not isinstance(error, OSError):
            self.monitor.log(f"a request could not be read: {type(error).__name__}: {error}")


def _break_off(request: socket.socket) -> None:
    """End a connection; its thread, which may be waiting for it, sees its end and closes it."""
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """Reads a request, writes an answer, closes."""

    server: _Server
    timeout = _REQUEST_S
    server_version = "samepath"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        # Nothing is expected in a body, but a client that sent one would not hear the answer if it were left unread.
        length = self.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdigit() and int(length) <= _MOST_BODY_BYTES):
            self._send(_line(HTTPStatus.BAD_REQUEST, "no body was wanted"))
            return
        self.rfile.read(int(length))
        self._answer()

    def _answer(self) -> None:
        self.server.turn(self.connection, is_clients=False)
        answer = self.server.monitor.answer(self.command, self.path, lambda name: self.headers.get(name, "") or "")
        self.server.turn(self.connection, is_clients=True)
        self._send(answer)

    def _send(self, answer: HttpAnswer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
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
        self._send(_line(status, status.phrase.lower()))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: ANN401 - http.server's signature
        """Say nothing: the page asks every second."""


# Small pictures of what cameras saw, for people's eyes.

WIDTH_PX: Final = 240
_BLOCK: Final = struct.Struct("<IIf")  # width, height, field of view: before the pixels of CARLA's pictures
_NEAREST_M: Final = 0.5
_FARTHEST_M: Final = 1000.0
_GOLDEN: Final = 0.618033988749895  # steps of this part of a circle keep neighbours far apart


def thumbnail_png(kind: str, payload: bytes) -> bytes | None:
    """Return a camera's payload (behind the header that all measurements have) as a PNG; None for what is no picture."""
    if not kind.startswith("sensor.camera.") or len(payload) < _BLOCK.size:
        return None
    width, height, _ = _BLOCK.unpack_from(payload)
    pixel_bytes = 8 if kind == "sensor.camera.optical_flow" else 4
    if not width or not height or len(payload) != _BLOCK.size + width * height * pixel_bytes:
        return None
    step = math.ceil(width / WIDTH_PX)
    picture = _small(kind, np.frombuffer(payload, np.uint8, offset=_BLOCK.size).reshape(height, width, pixel_bytes), step)
    sink = io.BytesIO()
    picture.save(sink, "PNG", compress_level=1)
    return sink.getvalue()


def _small(kind: str, pixels: NDArray[np.uint8], step: int) -> "Image":
    from PIL import Image

    if kind in ("sensor.camera.rgb", "sensor.camera.normals"):
        height, width, _ = pixels.shape
        return Image.frombuffer("RGB", (width, height), pixels, "raw", "BGRX", 0, 1).reduce(step)
    # Numbers cannot be averaged: one pixel in so many stands for its neighbours.
    few = np.ascontiguousarray(pixels[::step, ::step])
    if kind == "sensor.camera.depth":
        return Image.fromarray(_depth(few))
    coloured = _flow(few.view("<f4")) if kind == "sensor.camera.optical_flow" else _labels(few)
    return Image.frombytes("HSV", (coloured.shape[1], coloured.shape[0]), coloured.tobytes()).convert("RGB")


def _depth(bgra: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Grey by the logarithm of the distance: near is dark."""
    blue, green, red = (bgra[..., channel].astype(np.float64) for channel in range(3))
    depth_m = 1000.0 * (red + 256.0 * green + 65536.0 * blue) / (2**24 - 1)
    part = np.log(np.clip(depth_m, _NEAREST_M, _FARTHEST_M) / _NEAREST_M) / math.log(_FARTHEST_M / _NEAREST_M)
    return (255.0 * part).astype(np.uint8)


def _labels(bgra: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A hue for every label, and another shade for every instance, where there are any; nothing is black."""
    label = bgra[..., 2].astype(np.float64)
    shade = 160 + (bgra[..., 0].astype(np.int64) * 31 + bgra[..., 1] * 57) % 96
    value = np.where(label == 0, 0, shade)
    return _hsv(label * _GOLDEN % 1.0, np.full(label.shape, 150), value)


def _flow(flow: NDArray[Any]) -> NDArray[np.uint8]:
    """The direction as hue, the size as brightness."""
    safe = np.nan_to_num(flow.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    hue = np.arctan2(safe[..., 1], safe[..., 0]) / (2 * math.pi) % 1.0
    size = np.hypot(safe[..., 0], safe[..., 1])
    return _hsv(hue, np.full(hue.shape, 200), 255.0 * np.sqrt(size / max(float(size.max()), 1e-9)))


def _hsv(hue: NDArray[Any], saturation: NDArray[Any], value: NDArray[Any]) -> NDArray[np.uint8]:
    return np.stack([hue * 255, saturation, value], axis=-1).astype(np.uint8)
