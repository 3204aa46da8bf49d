"""An observer: one more client of a CARLA server, ours or CARLA's own, that only listens.

It asks for the map once, and for who an actor is when it first sees it; then it reads the stream of the world's state, which
the server sends to every client anyway. It commands nothing, so that a world is the same with it and without. What it holds is
the newest state alone: a page that looks rarely skips states, and the server never waits for it.
"""

import math
import socket
import struct
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

import msgpack
import numpy as np

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import InputError, SimulatorError
from samepath.sessions.wire import SessionWireError, StreamCutter, StreamedState
from samepath.simulator.carla.streams import ACTOR_STATE

_CONNECT_S: Final = 10.0
_ANSWER_S: Final = 60.0
_READ_BYTES: Final = 1 << 18
_ANSWER_BYTES: Final = 256 << 20
_ACTORS_MOST: Final = 2000
_RATE_STATES: Final = 40
_TOKEN: Final = struct.Struct("<IH18x")  # the stream, its port, and an address that is not looked at
_NAME_MOST: Final = 100


@dataclass(frozen=True)
class SeenActor:
    """Who somebody is: the type, and the size of its box in metres; 0 where the server tells none."""

    id: int
    type: str
    length_m: float
    width_m: float
    height_m: float


@dataclass(frozen=True)
class SeenPose:
    """Where somebody is."""

    actor: SeenActor
    x_m: float
    y_m: float
    z_m: float
    yaw_deg: float
    speed_mps: float


@dataclass(frozen=True)
class SeenWorld:
    """The newest state; ``ticks_per_s`` by the clock on the wall, over the last states."""

    episode: int
    frame: int
    time_s: float
    ticks_per_s: float
    poses: tuple[SeenPose, ...] = ()
    left_out: int = 0


@dataclass
class _Rate:
    """How often states come."""

    seen: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_RATE_STATES))

    def add(self, frame: int) -> float:
        now_s = SYSTEM_CLOCK.monotonic_s()
        if self.seen and frame < self.seen[-1][1]:
            self.seen.clear()
        self.seen.append((now_s, frame))
        (since_s, first), gone_s = self.seen[0], now_s - self.seen[0][0]
        return (frame - first) / gone_s if gone_s > 0 and since_s < now_s else 0.0


class WorldObserver:
    """Listens to a server in a thread of its own; ``world`` is what it saw last, ``trouble`` why it sees no more."""

    def __init__(self, host: str, port: int) -> None:
        self.address = f"{host}:{port}"
        self.trouble = ""
        self._host = host
        try:
            self._calls = socket.create_connection((host, port), _CONNECT_S)
            self._calls.settimeout(_ANSWER_S)
        except OSError as error:
            raise InputError(
                f"{self.address} cannot be reached ({error.strerror or error}): is a CARLA server there?"
            ) from error
        self._number = 0
        self._lock = threading.Lock()
        self._state: StreamedState | None = None
        self._known: dict[int, SeenActor | None] = {}
        self._rate, self._ticks_per_s = _Rate(), 0.0
        self._over = False
        self._stream = self._open_stream()
        self._thread = threading.Thread(target=self._listen, name="samepath observer", daemon=True)
        self._thread.start()

    def map_text(self) -> str:
        """The OpenDRIVE text of the map."""
        return str(self._ask("get_map_data"))

    def map_name(self) -> str:
        """The name of the map, without its folders."""
        return str(self._ask("get_map_info")[0]).rsplit("/", 1)[-1][:_NAME_MOST]

    def world(self) -> SeenWorld | None:
        """What is there now; None before the first state."""
        with self._lock:
            state, rate = self._state, self._ticks_per_s
        if self.trouble:
            raise SimulatorError(self.trouble)
        if state is None:
            return None
        rows = np.frombuffer(state.rows, ACTOR_STATE)
        self._learn(rows["id"].tolist())
        poses = []
        for number, motion in zip(rows["id"].tolist(), rows["motion"].astype(float).tolist(), strict=True):
            actor = self._known.get(number)
            if actor is not None and all(math.isfinite(value) for value in motion):
                x, y, z, _, yaw, _, *velocity = motion
                poses.append(SeenPose(actor, x, y, z, yaw, math.hypot(*velocity[:3])))
        shown = poses[:_ACTORS_MOST]
        return SeenWorld(state.episode, state.frame, state.elapsed_s, rate, tuple(shown), len(poses) - len(shown))

    def close(self) -> None:
        """Hang up."""
        self._over = True
        for line in (self._stream, self._calls):
            line.close()

    def _open_stream(self) -> socket.socket:
        info = self._ask("get_episode_info")
        try:
            stream, port = _TOKEN.unpack_from(bytes(info[1][0]))
            line = socket.create_connection((self._host, port), _CONNECT_S)
            line.sendall(stream.to_bytes(4, "little"))
            line.settimeout(None)
        except (OSError, TypeError, LookupError, struct.error) as error:
            raise InputError(f"{self.address}: the stream of the world's state cannot be listened to ({error})") from error
        return line

    def _listen(self) -> None:
        cutter = StreamCutter(world=True)
        try:
            while data := self._stream.recv(_READ_BYTES):
                for message in cutter.feed(data):
                    if isinstance(message, StreamedState):
                        rate = self._rate.add(message.frame)
                        with self._lock:
                            self._state, self._ticks_per_s = message, rate
            self.trouble = f"{self.address} has hung up"
        except (OSError, SessionWireError) as error:
            self.trouble = "" if self._over else f"{self.address} is lost: {error}"

    def _learn(self, ids: list[int]) -> None:
        """Ask who those are that were not seen before; sensors and signs, which have no body, are left out."""
        new = [number for number in ids if number not in self._known]
        if not new:
            return
        for found in self._ask("get_actors_by_id", new):
            number, kind, extent = int(found[0]), str(found[2][1])[:_NAME_MOST], found[3][1]
            sizes = [2.0 * float(one) if math.isfinite(float(one)) else 0.0 for one in extent]
            bodily = kind.startswith(("vehicle.", "walker.", "static.prop"))
            self._known[number] = SeenActor(number, kind, *sizes) if bodily and "controller" not in kind else None
        for number in new:
            self._known.setdefault(number, None)
        gone = set(self._known) - set(ids)
        for number in gone if len(self._known) > 4 * _ACTORS_MOST else ():
            del self._known[number]

    def _ask(self, method: str, *arguments: object) -> Any:  # noqa: ANN401 - whatever the method answers
        """Make a call and wait for its answer; errors of the server are one line."""
        self._number += 1
        try:
            self._calls.sendall(msgpack.packb([0, self._number, method, [[False], *arguments]]))
            unpacker = msgpack.Unpacker(
                max_buffer_size=_ANSWER_BYTES, raw=False, strict_map_key=False, unicode_errors="replace"
            )
            while data := self._calls.recv(_READ_BYTES):
                unpacker.feed(data)
                for answer in unpacker:
                    return self._result(method, answer)
        except (OSError, ValueError, msgpack.UnpackException) as error:
            raise SimulatorError(f"{self.address} did not answer {method}: {error}") from error
        raise SimulatorError(f"{self.address} hung up at {method}")

    def _result(self, method: str, answer: Any) -> Any:  # noqa: ANN401 - as above
        try:
            _, _, error, result = answer
            failed, content = (1, error) if error is not None else (0, result)
            if isinstance(content, list) and len(content) == 1 and isinstance(content[0], list):
                # CARLA wraps what it answers: [[1, value]] is one, [[0, [words]]] an error.
                kind, value = content[0]
                if kind == 1:
                    return value
                failed, content = 1, value
        except (TypeError, ValueError) as broken:
            raise SimulatorError(f"{self.address} answered {method} with something that is no answer") from broken
        if failed:
            raise SimulatorError(f"{self.address} refused {method}: {str(content)[:200]}")
        return content


def address_of(text: str) -> tuple[str, int]:
    """Read ``HOST:PORT``; without a host it is this machine."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise InputError(f"an address such as localhost:2000 was wanted, but {text!r} came")
    return host or "127.0.0.1", int(port)
