"""The main server's window to the outside: the live page, the status, metrics, thumbnails, and three guarded requests.

It runs in threads of its own and only reads what was published: a tick never waits for it, they only share the processor. It
listens on loopback unless told otherwise. Pages of other sites cannot read it (the host a browser asks for must be this one,
by address or as localhost) nor change anything (that takes a token that only the owner of the run folder can read).
"""

import contextlib
import re
from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Final, Protocol
from urllib.parse import parse_qs

from samepath.cluster.monitor.page import live_page
from samepath.cluster.monitor.prometheus import MissingLibraryError, StatusSource, exposition, make_registry
from samepath.cluster.monitor.status import ClusterStatus, to_json
from samepath.core.errors import SamepathError
from samepath.core.service import PATH as PROBE_PATH
from samepath.core.service import probe_words
from samepath.core.web import HTML, JSON, TOKEN_HEADER, HttpAnswer, HttpRequest, WebServer, knows_token, line

Thumbnail = Callable[[int], bytes | None]
MOST_NODES: Final = 1024
_PICTURE: Final = re.compile(r"/thumbnails/([0-9]{1,10})\.png")
_DRAIN: Final = re.compile(r"/nodes/([A-Za-z0-9._-]{1,64})/drain")
_NODES: Final = re.compile(r"[0-9]{1,4}")


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
        notes: Callable[[], str] = lambda: "",
    ) -> None:
        self._complaint, self._notes = complaint, notes
        self._source, self._thumbnail, self._actions, self._token = source, thumbnail, actions, token
        self._encoded: tuple[ClusterStatus | None, bytes] = (None, b"")
        self._web = WebServer(self._answer, what="the live page", host=host, port=port, names=names, log=log)
        self.url, self.port, self.listens_on = self._web.url, self._web.port, self._web.listens_on
        _get_ready()

    def start(self) -> None:
        """Answer from now on."""
        self._web.start()

    def stop(self) -> None:
        """Answer no more."""
        self._web.stop()

    def _answer(self, request: HttpRequest) -> HttpAnswer:
        return self._change(request) if request.method == "POST" else self._show(request.path)

    def _show(self, path: str) -> HttpAnswer:  # noqa: PLR0911 - one return per address
        if path == "/":
            page = live_page()
            return HttpAnswer(HTTPStatus.OK, page.html, HTML, (("Content-Security-Policy", page.policy),))
        if path == "/status.json":
            body = self._status_json()
            return HttpAnswer(HTTPStatus.OK, body, JSON) if body else _not_yet()
        if path == PROBE_PATH:
            wrong = self._complaint()
            return line(HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK, probe_words(wrong, self._notes()))
        if path == "/metrics":
            return self._metrics()
        if picture := _PICTURE.fullmatch(path):
            png = self._picture(int(picture[1]))
            return (
                HttpAnswer(HTTPStatus.OK, png, "image/png") if png else line(HTTPStatus.NOT_FOUND, "there is no such picture")
            )
        if path in ("/stop", "/scale") or _DRAIN.fullmatch(path):
            return line(HTTPStatus.METHOD_NOT_ALLOWED, "this takes a POST with the token", ("Allow", "POST"))
        return line(HTTPStatus.NOT_FOUND, "there are /, /status.json, /healthz, /metrics and /thumbnails/ID.png")

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
            return line(HTTPStatus.NOT_IMPLEMENTED, str(error))
        body, content_type = exposition(registry)
        return HttpAnswer(HTTPStatus.OK, body, content_type)

    def _change(self, request: HttpRequest) -> HttpAnswer:
        path = request.path
        node = _DRAIN.fullmatch(path)
        if not (node or path in ("/stop", "/scale")):
            return line(HTTPStatus.NOT_FOUND, "there are /nodes/NAME/drain, /scale?nodes=N and /stop")
        if not knows_token(request, self._token):
            return line(HTTPStatus.FORBIDDEN, f"the header {TOKEN_HEADER} must hold the run folder's token")
        try:
            if node:
                return self._drain(node[1])
            return self._scale(request.query) if path == "/scale" else line(HTTPStatus.OK, self._actions.stop())
        except SamepathError as error:
            return line(HTTPStatus.CONFLICT, str(error))

    def _scale(self, query: str) -> HttpAnswer:
        asked = parse_qs(query).get("nodes", [])
        if len(asked) != 1 or not _NODES.fullmatch(asked[0]) or not 1 <= int(asked[0]) <= MOST_NODES:
            return line(HTTPStatus.BAD_REQUEST, f"nodes=N was wanted, with N from 1 to {MOST_NODES}")
        return line(HTTPStatus.OK, self._actions.scale(int(asked[0])))

    def _drain(self, name: str) -> HttpAnswer:
        status = self._source()
        if status is None:
            return _not_yet()
        there = [node.name for node in status.nodes if node.state != "gone"]
        if name not in there:
            return line(HTTPStatus.NOT_FOUND, f"there is no node {name}; there are: {', '.join(there) or 'none'}")
        return line(HTTPStatus.OK, self._actions.drain(name))


def _get_ready() -> None:
    """Import and build now what the first answer needs: done in the middle of a tick it would hold that tick up."""
    live_page()
    to_json(ClusterStatus("", "", "", 0, 0, "lockstep"))
    with contextlib.suppress(MissingLibraryError):
        exposition(make_registry(lambda: None))


def _not_yet() -> HttpAnswer:
    return line(HTTPStatus.SERVICE_UNAVAILABLE, "the cluster has just begun; ask again")
