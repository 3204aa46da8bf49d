"""The main server's window to the outside: the live page, the status, metrics, thumbnails, and three guarded requests.

It runs in threads of its own and only reads what was published: a tick never waits for it, they only share the processor. It
listens on loopback unless told otherwise. Pages of other sites cannot read it (the host a browser asks for must be this one,
by address or as localhost) nor change anything (that takes a token that only the owner of the run folder can read).
"""

import contextlib
import io
import math
import re
import struct
from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import parse_qs

import numpy as np
from numpy.typing import NDArray

from samepath.cluster.monitor.page import live_page
from samepath.cluster.monitor.prometheus import MissingLibraryError, StatusSource, exposition, make_registry
from samepath.cluster.monitor.status import ClusterStatus, to_json
from samepath.core.errors import SamepathError
from samepath.core.probes import PATH as PROBE_PATH
from samepath.core.web import HTML, JSON, TOKEN_HEADER, HttpAnswer, HttpRequest, WebServer, knows_token, line

if TYPE_CHECKING:
    from PIL.Image import Image


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
    ) -> None:
        self._complaint = complaint
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
            return line(HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK, wrong or "ok")
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
