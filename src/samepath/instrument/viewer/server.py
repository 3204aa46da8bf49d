"""Serves the viewer on loopback: the page, a block of bytes for each cell and map, pictures, and the state of a running world.

Blocks and pictures are made when the page asks for them. Whoever shows a running world may let it be steered from the page:
that takes a token, which the page has from its own address and nobody else can guess. Without one there is nothing to steer.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from samepath.core.errors import InputError, SamepathError
from samepath.core.processes import ShutdownSignals
from samepath.core.web import HTML, JSON, TEXT, TOKEN_HEADER, HttpAnswer, HttpRequest, WebServer, knows_token, line
from samepath.instrument.viewer.page import policy

_BLOCK: Final = re.compile(r"/(cell|ground)-([0-9]{1,6})\.bin")
_SENSOR: Final = re.compile(r"/sensor-([0-9]{1,10})\.png")
# A block of poses has up to 200 MB, and a browser that draws on the processor is slow to take it.
_FETCH_S: Final = 120.0
LIVE: Final = "/live.json"
PICTURE: Final = "/picture.jpg"
STEER: Final = "/steer"
_THERE: Final = "there are /, /cell-N.bin, /ground-N.bin and /picture.jpg"


@dataclass(frozen=True)
class ViewSource:
    """What is served: the page's text, and what makes a block of a cell or a map. A number beyond the last is a KeyError.

    ``picture`` draws what a camera sees, as JPEG, from the fields of a query; ``live`` gives the newest state of a running
    world as JSON, ``sensor`` what a client's sensor sees in it as PNG, and ``steer`` does what the page asks for and says so in
    a line. None: there is no such thing. ``token`` is what whoever steers must know.
    """

    page: Callable[[], str]
    cell: Callable[[int], bytes]
    ground: Callable[[int], bytes]
    picture: Callable[[Mapping[str, str]], bytes] | None = None
    live: Callable[[], bytes] | None = None
    sensor: Callable[[int], bytes] | None = None
    steer: Callable[[Mapping[str, str]], str] | None = None
    token: str = ""


class ViewServer:
    """The web server; it answers from ``start`` to ``stop``, in threads of its own."""

    def __init__(self, source: ViewSource, port: int = 0, log: Callable[[str], None] = lambda words: None) -> None:
        self._source = source
        instead = "choose another --port"
        self._web = WebServer(self._answer, what="the viewer", port=port, log=log, fetch_s=_FETCH_S, instead=instead)
        self.url, self.port, self.listens_on = self._web.url, self._web.port, self._web.listens_on

    def start(self) -> None:
        self._web.start()

    def wait(self, end: ShutdownSignals) -> None:
        """Serve until SIGINT or SIGTERM comes.

        Take the signals over before anybody is told the address. Python's own way would not do: shells let SIGINT be ignored
        in what they start behind ``&``, and Python then leaves it so.
        """
        end.call_on_first(self._web.end)
        self._web.join()

    def stop(self) -> None:
        self._web.stop()

    def _answer(self, request: HttpRequest) -> HttpAnswer:
        try:
            found = self._steer(request) if request.method == "POST" else self._found(request)
        except (KeyError, IndexError):
            found = line(HTTPStatus.NOT_FOUND, "there is no such block")
        except SamepathError as error:
            if request.path == LIVE:
                found = HttpAnswer(HTTPStatus.SERVICE_UNAVAILABLE, json.dumps({"trouble": str(error)}).encode(), JSON)
            else:
                found = line(HTTPStatus.CONFLICT, str(error))
        return found._replace(headers=(("Content-Security-Policy", policy(connect=True)),))

    def _found(self, request: HttpRequest) -> HttpAnswer:
        source, path = self._source, request.path
        if path == "/":
            return HttpAnswer(HTTPStatus.OK, source.page().encode(), HTML)
        if path == LIVE and source.live is not None:
            return HttpAnswer(HTTPStatus.OK, source.live(), JSON)
        if path == PICTURE and source.picture is not None:
            return HttpAnswer(HTTPStatus.OK, source.picture(request.fields()), "image/jpeg")
        if (sensor := _SENSOR.fullmatch(path)) and source.sensor is not None:
            return HttpAnswer(HTTPStatus.OK, source.sensor(int(sensor[1])), "image/png")
        if block := _BLOCK.fullmatch(path):
            make = source.cell if block[1] == "cell" else source.ground
            return HttpAnswer(HTTPStatus.OK, make(int(block[2])), "application/octet-stream")
        return line(HTTPStatus.NOT_FOUND, _THERE)

    def _steer(self, request: HttpRequest) -> HttpAnswer:
        if request.path != STEER or self._source.steer is None:
            return line(HTTPStatus.METHOD_NOT_ALLOWED, "nothing can be changed from here", ("Allow", "GET, HEAD"))
        if not knows_token(request, self._source.token):
            words = f"this view only looks: to steer, the header {TOKEN_HEADER} must hold the token of --view-token"
            return line(HTTPStatus.FORBIDDEN, words)
        return HttpAnswer(HTTPStatus.OK, f"{self._source.steer(request.fields())}\n".encode(), TEXT)


def number_in(fields: Mapping[str, str], name: str, least: float, most: float, otherwise: float | None = None) -> float:
    """Read a number of a query, within bounds."""
    text = fields.get(name)
    if text is None and otherwise is not None:
        return otherwise
    try:
        found = float(text or "")
    except ValueError:
        found = float("nan")
    if not least <= found <= most:
        raise InputError(f"{name}: a number from {least:g} to {most:g} was wanted, but {(text or 'nothing')[:40]!r} came")
    return found
