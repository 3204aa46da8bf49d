"""The viewer's page: served, or as one file that holds everything; either way it needs no network, and no script but its own.

The policy in the page names the digest of the one script and the one sheet of styles: a name from a trace that found a way into
the markup could still run nothing, load nothing and send nothing. The script puts names into the page as text only.

It reads one index of plain data, and for every cell and every map a block of bytes. A block is a line ``samepath view 2``, the
length of a JSON head in 4 bytes, the head, and the arrays that it lists, each at a multiple of 8 bytes from the start of the
block: typed arrays of JavaScript are then laid over the bytes without a copy. Everything is little-endian, as every browser
that runs is.

It is served on loopback alone: the page, the blocks, pictures, and the state of a running world. Blocks and pictures are made
when the page asks for them. Whoever shows a running world may let it be steered from the page: that takes a token, which the
page has from its own address and nobody else can guess. Without one there is nothing to steer.
"""

import base64
import gzip
import hashlib
import json
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from http import HTTPStatus
from importlib import resources
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import InputError, SamepathError
from samepath.core.processes import ShutdownSignals
from samepath.core.web import HTML, JSON, TEXT, TOKEN_HEADER, HttpAnswer, HttpRequest, WebServer, knows_token, line
from samepath.instrument.viewer.scene import DrawnCell, Ground

MAGIC: Final = b"samepath view 2\n"
_ALIGN: Final = 8


def cell_block(view: DrawnCell) -> bytes:
    """Return a cell as bytes."""
    head = {
        "name": view.name,
        "scenario": view.scenario,
        "simulator": view.simulator,
        "condition": view.condition,
        "step_s": view.step_s,
        "lossless": view.lossless,
        "repeats": view.repeats,
        "actors": [asdict(actor) for actor in view.actors],
        "outcomes": [asdict(outcome) for outcome in view.outcomes],
        "endings": list(view.endings),
        "marks": [asdict(mark) for mark in view.marks],
        "marks_left_out": view.marks_left_out,
        "every": view.every,
        "origin_m": list(view.origin_m),
        "parting_tick": view.parting_tick,
        "monitors": [
            {
                "name": monitor.name,
                "source": monitor.source,
                "unit": monitor.unit,
                "passes": monitor.passes,
                "fails": monitor.fails,
                "verdicts": monitor.verdicts,
                "worst_tick": monitor.worst_tick,
                "worst_margin": monitor.worst_margin,
                "why_not": monitor.why_not,
            }
            for monitor in view.monitors
        ],
        "monitors_left_out": view.monitors_left_out,
    }
    arrays: dict[str, NDArray[Any]] = {
        "ticks": view.ticks.astype("<f8"),
        "reference": view.reference.astype("<f4"),
        # By tick first: what is drawn at once then lies together, and a page that draws on the processor is limited by that.
        "offsets": view.offsets.astype("<f2").view("<u2").transpose(2, 0, 1, 3),
        "spread_m": view.spread_m.astype("<f4"),
    }
    for number, monitor in enumerate(view.monitors):
        arrays[f"low{number}"], arrays[f"high{number}"] = monitor.low.astype("<f4"), monitor.high.astype("<f4")
    return _packed(head, arrays)


def ground_block(ground: Ground) -> bytes:
    """Return a map as bytes."""
    head = {"name": ground.name, "labels": [surface.label for surface in ground.surfaces]}
    arrays: dict[str, NDArray[Any]] = {}
    for number, surface in enumerate(ground.surfaces):
        arrays[f"vertices{number}"] = surface.vertices.astype("<f4")
        arrays[f"triangles{number}"] = surface.triangles.astype("<u4")
    return _packed(head, arrays)


class IndexRow(NamedTuple):
    """What the page knows of a cell before it has read it; ``ground`` is the number of its map."""

    name: str
    repeats: int
    outcomes: int
    parting_tick: int | None
    max_spread_m: float
    ground: int | None


def index_row(view: DrawnCell, ground: int | None) -> IndexRow:
    """Summarise a cell."""
    far_m = float(np.max(view.spread_m, initial=0.0))
    return IndexRow(view.name, view.repeats, len(view.outcomes), view.parting_tick, far_m, ground)


def index_of(
    title: str, version: str, rows: Sequence[IndexRow], grounds: Sequence[str], mounts: Sequence[str] = ()
) -> dict[str, Any]:
    """Say what there is to see: the page shows this before it has read any block.

    ``mounts`` are the places on an actor from which the server draws pictures; none: it draws no pictures.
    """
    cells = [row._asdict() for row in rows]
    return {"title": title, "version": version, "cells": cells, "grounds": list(grounds), "mounts": list(mounts)}


def json_text(data: object) -> str:
    """Return JSON that may stand in a page: no text in it can end the element that holds it, whatever a name says."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _packed(head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    listed, at, parts = {}, 0, []
    for name, array in arrays.items():
        data = np.ascontiguousarray(array).tobytes()
        listed[name] = {"at": at, "count": array.size, "kind": array.dtype.str[1:]}
        parts.append(data + bytes(-len(data) % _ALIGN))
        at += len(parts[-1])
    words = json.dumps({**head, "arrays": listed}, ensure_ascii=True, allow_nan=False).encode()
    words += b" " * (-(len(MAGIC) + 4 + len(words)) % _ALIGN)
    return b"".join([MAGIC, struct.pack("<I", len(words)), words, *parts])


SCRIPT: Final = "viewer.js"
STYLE: Final = "viewer.css"
_MARKUP: Final = "viewer.html"


@cache
def part(name: str) -> str:
    """Return a built file of the page."""
    return (resources.files("samepath.instrument.viewer") / "page" / name).read_text("utf-8")


def policy(*, connect: bool) -> str:
    """The page's content security policy; ``connect``: it may ask the server that it came from for blocks."""
    script, style = (_digest(part(name)) for name in (SCRIPT, STYLE))
    ways = "'self'" if connect else "'none'"
    return (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data: blob:{' ' + ways if connect else ''}; "
        f"connect-src {ways}; base-uri 'none'; form-action 'none'"
    )


def served_page(index: Mapping[str, Any]) -> str:
    """Return the page that fetches its blocks from where it came from."""
    return _filled(index, "", connect=True)


def whole_page(index: Mapping[str, Any], cells: Sequence[bytes], grounds: Sequence[bytes]) -> str:
    """Return the page with all its blocks in it, packed."""
    blocks = [(f"cell-{number}", block) for number, block in enumerate(cells)]
    blocks += [(f"ground-{number}", block) for number, block in enumerate(grounds)]
    texts = [f'<script type="application/octet-stream" id="{name}">{_base64(block)}</script>' for name, block in blocks]
    return _filled(index, "\n".join(texts), connect=False)


def _base64(block: bytes) -> str:
    # Without a time stamp: equal traces give equal files.
    return base64.b64encode(gzip.compress(block, 6, mtime=0)).decode()


def _filled(index: Mapping[str, Any], blocks: str, *, connect: bool) -> str:
    # Parts are put in one after the other, never into each other: what a trace says cannot name a place to be filled.
    places = {
        "<!--policy-->": f'<meta http-equiv="Content-Security-Policy" content="{policy(connect=connect)}">',
        "<!--style-->": f"<style>{part(STYLE)}</style>",
        "<!--index-->": f'<script type="application/json" id="index">{json_text(dict(index))}</script>\n{blocks}',
        "<!--script-->": f"<script>{part(SCRIPT)}</script>",
    }
    rest, made = part(_MARKUP), []
    for place, text in places.items():
        before, found, rest = rest.partition(place)
        if not found:
            raise RuntimeError(f"the viewer's page was built without {place}: run web/viewer/build.mjs")
        made += [before, text]
    return "".join([*made, rest])


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


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
