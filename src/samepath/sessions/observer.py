"""An observer: one more client of a CARLA server, ours or CARLA's own, that only listens.

It asks for the map once, and for who an actor is when it first sees it; then it reads the stream of the world's state, which
the server sends to every client anyway. It commands nothing unless it is told to, so that a world is the same with it and
without. What it holds is the newest state alone: a page that looks rarely skips states, and the server never waits for it.

It must cost little, because it shares the processor with what it watches. So it does not wake up for every state: it empties
its socket some 30 times a second, in one go, and looks at the last whole message in it alone.
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
from samepath.sessions.wire import HEADER_BYTES, SessionWireError
from samepath.simulator.carla.streams import ACTOR_STATE, WORLD_OBSERVER

_CONNECT_S: Final = 10.0
_ANSWER_S: Final = 60.0
_READ_BYTES: Final = 1 << 20
_LOOK_S: Final = 1 / 30
_STATE_BYTES_MOST: Final = 32 << 20
_PICTURE_BYTES_MOST: Final = 64 << 20
# For a sensor's next measurement to come: a world that stands measures nothing.
_PICTURE_S: Final = 3.0
_ANSWER_BYTES: Final = 256 << 20
_ACTORS_MOST: Final = 2000
_RATE_STATES: Final = 40
_TOKEN: Final = struct.Struct("<IH18x")  # the stream, its port, and an address that is not looked at
_HEADER: Final = struct.Struct("<QQd")
_EPISODE: Final = struct.Struct("<QdfiiiI")
# Before 0.9.16 the stream of the world's state had the number that a camera has since.
_OBSERVERS: Final = (WORLD_OBSERVER, WORLD_OBSERVER - 1)
_LIGHT: Final = "traffic.traffic_light"
# An event camera remembers what it saw last, which depends on who listens: it is left alone.
_UNSEEN: Final = "sensor.camera.dvs"
_NAME_MOST: Final = 100


@dataclass(frozen=True)
class SeenActor:
    """Who somebody is: the type, its box in metres (0 where the server tells none), and what its script calls it."""

    id: int
    type: str
    length_m: float
    width_m: float
    height_m: float
    role: str = ""


@dataclass(frozen=True)
class SeenPose:
    """Where somebody is."""

    actor: SeenActor
    x_m: float
    y_m: float
    z_m: float
    roll_deg: float
    pitch_deg: float
    yaw_deg: float
    speed_mps: float


@dataclass(frozen=True)
class SeenLight:
    """A traffic light: where its pole stands, and CARLA's number of what it shows (red, yellow, green, off, unknown)."""

    id: int
    x_m: float
    y_m: float
    z_m: float
    shows: int


@dataclass(frozen=True)
class SeenSensor:
    """A sensor, the actor that carries it (0: none), and its stream."""

    id: int
    type: str
    parent: int
    stream: int


@dataclass(frozen=True)
class SeenClients:
    """Who else is connected, and how time passes: by clients' ticks, or by itself at this ``pace``.

    ``heard`` are the streams that somebody listens to.
    """

    synchronous: bool
    pace: float
    names: tuple[str, ...]
    heard: frozenset[int]


@dataclass(frozen=True)
class SeenWorld:
    """The newest state; ``ticks_per_s`` by the clock on the wall, over the last states."""

    episode: int
    frame: int
    time_s: float
    ticks_per_s: float
    poses: tuple[SeenPose, ...] = ()
    left_out: int = 0
    lights: tuple[SeenLight, ...] = ()
    sensors: tuple[SeenSensor, ...] = ()


@dataclass(frozen=True)
class _State:
    """A state as it was sent."""

    episode: int
    frame: int
    time_s: float
    rows: bytes


class _LastMessage:
    """Cuts a stream into messages and keeps the last whole one; those before it are passed over unread."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._held = bytearray()

    def feed(self, data: bytes) -> bytes | None:
        """Add bytes; returns the last message that they complete, header first, or nothing."""
        held = self._held
        held += data
        at, last = 0, None
        while len(held) - at >= 4:
            size = int.from_bytes(held[at : at + 4], "little")
            if not HEADER_BYTES <= size <= self._most_bytes:
                raise SessionWireError(f"a stream's message of {size} bytes, which cannot be")
            if len(held) - at - 4 < size:
                break
            last = (at + 4, at + 4 + size)
            at += 4 + size
        found = None if last is None else bytes(held[last[0] : last[1]])
        del held[:at]
        return found


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
        self._lock = threading.Lock()  # of the state
        self._asking = threading.Lock()  # one call after the other, whoever makes it
        self._state: _State | None = None
        self._known: dict[int, SeenActor | SeenSensor | str | None] = {}  # a text is the type of a sign
        self._rate, self._ticks_per_s = _Rate(), 0.0
        self._over = threading.Event()
        self._is_ours = True  # until the server says that it does not know our own calls
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
        ids = rows["id"].tolist()
        self._learn(ids)
        poses, lights, sensors = [], [], []
        motions = rows["motion"].astype(float)
        is_finite = np.isfinite(motions).all(axis=1).tolist()
        for row, (number, motion) in enumerate(zip(ids, motions.tolist(), strict=True)):
            actor = self._known.get(number)
            if isinstance(actor, SeenSensor):
                sensors.append(actor)
            elif actor is not None and is_finite[row]:
                x, y, z, pitch, yaw, roll, *velocity = motion
                if isinstance(actor, SeenActor):
                    poses.append(SeenPose(actor, x, y, z, roll, pitch, yaw, math.hypot(*velocity[:3])))
                elif actor == _LIGHT:
                    lights.append(SeenLight(number, x, y, z, int(rows["colour"][row])))
        shown = poses[:_ACTORS_MOST]
        return SeenWorld(
            state.episode,
            state.frame,
            state.time_s,
            rate,
            tuple(shown),
            len(poses) - len(shown),
            tuple(lights[:_ACTORS_MOST]),
            tuple(sensors[:_ACTORS_MOST]),
        )

    def clients(self) -> SeenClients | None:
        """Who else is connected; None: the server does not tell."""
        if not self._is_ours:
            return None
        try:
            synchronous, pace, names, heard = self._ask("samepath_watch")
            return SeenClients(
                bool(synchronous), float(pace), tuple(str(name)[:_NAME_MOST] for name in names), frozenset(map(int, heard))
            )
        except (SimulatorError, TypeError, ValueError):
            self._is_ours = False
            return None

    def set_pace(self, pace: float, steps: int = 0) -> None:
        """Let time pass so much slower where the server ticks by itself; at 0 it stands, and makes so many steps.

        This is the one thing that an observer commands, and only when it is called.
        """
        self._ask("samepath_pace", pace, steps)

    def measurement(self, sensor: SeenSensor) -> bytes:
        """The next measurement of a sensor, without its header: one message is fetched, and the line is closed again."""
        if sensor.type == _UNSEEN:
            raise SimulatorError(f"{sensor.type} {sensor.id}: it remembers what it saw last, so it is left to its own client")
        token = self._ask("get_sensor_token", sensor.stream)
        try:
            stream, port = _TOKEN.unpack_from(bytes(token[0] if isinstance(token, list) else token))
            with socket.create_connection((self._host, port), _CONNECT_S) as line:
                line.sendall(stream.to_bytes(4, "little"))
                line.settimeout(_PICTURE_S)
                cut = _LastMessage(_PICTURE_BYTES_MOST)
                while data := line.recv(_READ_BYTES):
                    if (message := cut.feed(data)) is not None:
                        return message[HEADER_BYTES:]
        except TimeoutError:
            raise SimulatorError(f"{sensor.type} {sensor.id} measured nothing within {_PICTURE_S:g} s") from None
        except (OSError, TypeError, LookupError, struct.error) as error:
            raise SimulatorError(f"{sensor.type} {sensor.id} cannot be listened to ({error})") from error
        raise SimulatorError(f"{self.address} hung up on the stream of sensor {sensor.id}")

    def close(self) -> None:
        """Hang up."""
        self._over.set()
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
        cut = _LastMessage(_STATE_BYTES_MOST)
        try:
            while data := self._stream.recv(_READ_BYTES):
                message = cut.feed(data)
                if message is not None and (state := _read_state(message)) is not None:
                    rate = self._rate.add(state.frame)
                    with self._lock:
                        self._state, self._ticks_per_s = state, rate
                if len(data) < _READ_BYTES and self._over.wait(_LOOK_S):
                    return
            self.trouble = f"{self.address} has hung up"
        except (OSError, SessionWireError) as error:
            self.trouble = "" if self._over.is_set() else f"{self.address} is lost: {error}"

    def _learn(self, ids: list[int]) -> None:
        """Ask who those are that were not seen before; what has no body and shows nothing is left out."""
        new = [number for number in ids if number not in self._known]
        if not new:
            return
        for found in self._ask("get_actors_by_id", new):
            number, kind, extent = int(found[0]), str(found[2][1])[:_NAME_MOST], found[3][1]
            sizes = [2.0 * float(half) if math.isfinite(float(half)) else 0.0 for half in extent]
            if kind.startswith(("vehicle.", "walker.", "static.prop")) and "controller" not in kind:
                self._known[number] = SeenActor(number, kind, sizes[0], sizes[1], sizes[2], _role_in(found[2]))
            elif kind.startswith("sensor.") and len(token := bytes(found[5])) == _TOKEN.size:
                self._known[number] = SeenSensor(number, kind, int(found[1]), int(_TOKEN.unpack(token)[0]))
            elif kind == _LIGHT:
                self._known[number] = kind
        for number in new:
            self._known.setdefault(number, None)
        gone = set(self._known) - set(ids)
        for number in gone if len(self._known) > 4 * _ACTORS_MOST else ():
            del self._known[number]

    def _ask(self, method: str, *arguments: object) -> Any:  # noqa: ANN401 - whatever the method answers
        """Make a call and wait for its answer; errors of the server are one line."""
        with self._asking:
            return self._asked(method, *arguments)

    def _asked(self, method: str, *arguments: object) -> Any:  # noqa: ANN401 - as above
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
            if content == [[False]]:  # of a method without a value: no error
                return None
            if isinstance(content, list) and len(content) == 1 and isinstance(content[0], list):
                # CARLA wraps what it answers: [[1, value]] is one, [[0, [words]]] an error.
                kind, value = content[0]
                if kind == 1 and kind is not True:
                    return value
                failed, content = 1, value
        except (TypeError, ValueError) as broken:
            raise SimulatorError(f"{self.address} answered {method} with something that is no answer") from broken
        if failed:
            raise SimulatorError(f"{self.address} refused {method}: {str(content)[:200]}")
        return content


def _role_in(description: Any) -> str:  # noqa: ANN401 - as it came from the server
    """Return what a script calls an actor, such as hero; a server that describes actors otherwise tells none."""
    found = [attribute[2] for attribute in description[2] if attribute[0] == "role_name"] if len(description) > 2 else []
    return str(found[0])[:_NAME_MOST] if found else ""


def _read_state(message: bytes) -> _State | None:
    """Read the state of all actors; None: another message. Who is no whole number of actors is no state."""
    kind, frame, time_s = _HEADER.unpack_from(message)
    if kind not in _OBSERVERS:
        return None
    rows = message[HEADER_BYTES + _EPISODE.size :]
    if len(message) < HEADER_BYTES + _EPISODE.size or len(rows) % ACTOR_STATE.itemsize:
        raise SessionWireError(f"a state of {len(message)} bytes, which is no whole number of actors")
    return _State(_EPISODE.unpack_from(message, HEADER_BYTES)[0], frame, time_s, rows)


def address_of(text: str) -> tuple[str, int]:
    """Read ``HOST:PORT``; without a host it is this machine."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise InputError(f"an address such as localhost:2000 was wanted, but {text!r} came")
    return host or "127.0.0.1", int(port)
