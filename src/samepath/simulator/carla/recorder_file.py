"""CARLA's recorder files, read and written: a header, then frames of packets, little-endian.

The layout is CARLA's documented one (version 2, as of 0.9.16; version 1 is read too). On disk places are 32-bit floats in
centimetres and angles are roll, pitch, yaw; here they are metres, and poses have our order and names. Packets this module
has no use for are read past, as the format intends.

Reading and writing go frame by frame, so that a recording of hours needs no memory. A frame is bounded in bytes and in packets,
and reading takes time in proportion to the file, whoever wrote it. Whatever does not fit is an InputError of one line with the
place in the file. A file that ends within a frame is one whose simulator died while it wrote: what is before
that frame is read (``Log.is_cut``).

Records are in metres, degrees and seconds, in CARLA's frame; ``actor`` is the id at the time of recording.
"""

import errno
import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Protocol

from samepath.core.errors import InputError
from samepath.core.files import regular

MAGIC: Final = "CARLA_RECORDER"
VERSION: Final = 2
NO_ACTOR: Final = 0xFFFFFFFF  # in a collision: scenery


class ActorKind(IntEnum):
    """What an added actor is to the recorder."""

    OTHER = 0
    VEHICLE = 1
    WALKER = 2
    TRAFFIC_LIGHT = 3
    INVALID = 4


@dataclass(frozen=True)
class LogHeader:
    """What a file says of itself."""

    map_name: str
    started_unix_s: int
    version: int = VERSION


class LogAttribute(NamedTuple):
    """An attribute of an added actor, as text; ``type`` is CARLA's number."""

    type: int
    id: str
    value: str


class AddedActor(NamedTuple):
    """An actor that appeared in a frame."""

    actor: int
    kind: int
    x_m: float
    y_m: float
    z_m: float
    roll_deg: float
    pitch_deg: float
    yaw_deg: float
    uid: int
    type: str
    attributes: tuple[LogAttribute, ...] = ()

    @property
    def role(self) -> str:
        """The role name, empty where there is none."""
        return next((attribute.value for attribute in self.attributes if attribute.id == "role_name"), "")


class Parent(NamedTuple):
    """An actor that was attached to another in a frame."""

    actor: int
    parent: int


class LogCollision(NamedTuple):
    """Two actors that touch in a frame; NO_ACTOR is scenery. ``number`` counts collisions."""

    number: int
    actor: int
    other: int
    actor_is_hero: bool = False
    other_is_hero: bool = False


class LogPose(NamedTuple):
    """Where an actor is."""

    actor: int
    x_m: float
    y_m: float
    z_m: float
    roll_deg: float
    pitch_deg: float
    yaw_deg: float


class SignalLight(NamedTuple):
    """What a traffic light shows, and for how long its controller has been in this state."""

    actor: int
    frozen: bool
    elapsed_s: float
    shows: int


class VehicleInput(NamedTuple):
    """How a vehicle is driven."""

    actor: int
    steer: float
    throttle: float
    brake: float
    hand_brake: bool
    gear: int


class WalkerInput(NamedTuple):
    """How fast a walker wants to walk."""

    actor: int
    speed_mps: float


class VehicleLights(NamedTuple):
    """Which of a vehicle's lights are on, as CARLA's flags."""

    actor: int
    flags: int


class Door(NamedTuple):
    """A door that was opened or closed in a frame."""

    actor: int
    door: int
    is_open: bool


class StreetLamp(NamedTuple):
    """A street light that changed in a frame; the colour is linear, 0..1."""

    number: int
    intensity: float
    red: float
    green: float
    blue: float
    alpha: float
    is_on: bool
    group: int


class Kinematics(NamedTuple):
    """Velocities of an actor (additional data)."""

    actor: int
    vx_mps: float
    vy_mps: float
    vz_mps: float
    wx_degps: float
    wy_degps: float
    wz_degps: float


class LogBox(NamedTuple):
    """A bounding box or trigger volume: middle and half size (additional data)."""

    actor: int
    x_m: float
    y_m: float
    z_m: float
    half_x_m: float
    half_y_m: float
    half_z_m: float


class LightTimes(NamedTuple):
    """The times of a traffic light that were set in a frame (additional data)."""

    actor: int
    green_s: float
    yellow_s: float
    red_s: float


@dataclass(frozen=True)
class Content:
    """Everything in a frame. ``visual_s`` and ``platform_s`` are clocks of the server."""

    added: tuple[AddedActor, ...] = ()
    removed: tuple[int, ...] = ()
    parents: tuple[Parent, ...] = ()
    hits: tuple[LogCollision, ...] = ()
    doors: tuple[Door, ...] = ()
    placed: tuple[LogPose, ...] = ()
    signal_lights: tuple[SignalLight, ...] = ()
    vehicles: tuple[VehicleInput, ...] = ()
    walkers: tuple[WalkerInput, ...] = ()
    vehicle_lights: tuple[VehicleLights, ...] = ()
    lamps: tuple[StreetLamp, ...] = ()
    kinematics: tuple[Kinematics, ...] = ()
    boxes: tuple[LogBox, ...] = ()
    triggers: tuple[LogBox, ...] = ()
    light_times: tuple[LightTimes, ...] = ()
    visual_s: float | None = None
    platform_s: float | None = None


@dataclass(frozen=True)
class LogFrame:
    """A frame: its number from 1, when it began, how long it lasted (-1: the recording ended before that was known)."""

    number: int
    elapsed_s: float
    duration_s: float
    content: Content


FRAME_START, FRAME_END, ADDED, REMOVED = 0, 1, 2, 3
VISUAL_TIME, PLATFORM_TIME = 20, 14
HEAD: Final = struct.Struct("<BI")
FRAME: Final = struct.Struct("<Qdd")
DURATION_AT: Final = 8  # within a frame's start
CLOCK: Final = struct.Struct("<d")
COUNT: Final = struct.Struct("<H")
COUNT_MAX: Final = 0xFFFF
_ADDED_HEAD: Final = struct.Struct("<IB6fI")
_BYTE: Final = struct.Struct("<B")
_CM_PER_M: Final = 100.0


class Layout(NamedTuple):
    """A packet of records: its id, the field of ``Content``, the record, its format, which fields are centimetres on disk."""

    id: int
    field: str
    record: Any
    format: str
    centimetres: tuple[int, ...] = ()


# In the order in which a frame is written.
EVENTS: Final = (
    Layout(4, "parents", Parent, "II"),
    Layout(5, "hits", LogCollision, "III??"),
    Layout(23, "doors", Door, "IB?"),
)
STATES: Final = (
    Layout(6, "placed", LogPose, "I6f", (1, 2, 3)),
    Layout(7, "signal_lights", SignalLight, "I?fB"),
    Layout(8, "vehicles", VehicleInput, "I3f?i"),
    Layout(9, "walkers", WalkerInput, "If"),
    Layout(10, "vehicle_lights", VehicleLights, "II"),
)
# These are left out of a frame that has none.
OPTIONAL: Final = (
    Layout(11, "lamps", StreetLamp, "i5f?B"),
    Layout(12, "kinematics", Kinematics, "I6f"),
    Layout(13, "boxes", LogBox, "I6f", (1, 2, 3, 4, 5, 6)),
    Layout(17, "triggers", LogBox, "I6f", (1, 2, 3, 4, 5, 6)),
    Layout(16, "light_times", LightTimes, "I3f"),
)
BY_ID: Final = {layout.id: layout for layout in (*EVENTS, *STATES, *OPTIONAL)}


def string(text: str) -> bytes:
    """A text: its length in bytes, then UTF-8."""
    data = text.encode("utf-8")
    if len(data) > COUNT_MAX:
        raise InputError(f"a text of at most {COUNT_MAX} bytes was wanted in a recording, but {len(data)} came")
    return COUNT.pack(len(data)) + data


def packet(number: int, data: bytes) -> bytes:
    """A packet with its head."""
    return HEAD.pack(number, len(data)) + data


def pack(layout: Layout, rows: Sequence[Sequence[Any]]) -> bytes:
    """A packet of fixed records."""
    _check_count(layout.field, rows)
    values = (_to_disk(layout, row) for row in rows) if layout.centimetres else rows
    flat = [value for row in values for value in row]
    try:
        return packet(layout.id, struct.pack("<H" + layout.format * len(rows), len(rows), *flat))
    except (struct.error, OverflowError) as error:
        raise InputError(f"a recording cannot hold these {layout.field}: {error}") from error


def _to_disk(layout: Layout, row: Sequence[Any]) -> list[Any]:
    return [value * _CM_PER_M if index in layout.centimetres else value for index, value in enumerate(row)]


def unpack(layout: Layout, data: bytes, where: str) -> tuple[Any, ...]:
    """The records of a packet; one whose size does not fit its count is an error."""
    size = struct.calcsize("<" + layout.format)
    count = COUNT.unpack_from(data)[0] if len(data) >= COUNT.size else -1
    if len(data) != COUNT.size + count * size:
        raise InputError(f"{where}: {layout.field}: {count} records of {size} bytes do not fit a packet of {len(data)} bytes")
    rows = struct.iter_unpack("<" + layout.format, data[COUNT.size :])
    if not layout.centimetres:
        return tuple(layout.record(*row) for row in rows)
    return tuple(
        layout.record(*(value / _CM_PER_M if index in layout.centimetres else value for index, value in enumerate(row)))
        for row in rows
    )


def pack_added(added: Sequence[AddedActor]) -> bytes:
    """The packet of actors that appear."""
    _check_count("actors", added)
    parts = [COUNT.pack(len(added))]
    for actor in added:
        place = [value * _CM_PER_M for value in (actor.x_m, actor.y_m, actor.z_m)]
        try:
            head = _ADDED_HEAD.pack(actor.actor, actor.kind, *place, actor.roll_deg, actor.pitch_deg, actor.yaw_deg, actor.uid)
        except (struct.error, OverflowError) as error:
            raise InputError(f"a recording cannot hold actor {actor.actor}: {error}") from error
        _check_count("attributes", actor.attributes)
        parts += [head, string(actor.type), COUNT.pack(len(actor.attributes))]
        parts += [bytes([kind]) + string(name) + string(value) for kind, name, value in actor.attributes]
    return packet(ADDED, b"".join(parts))


def unpack_added(data: bytes, where: str) -> tuple[AddedActor, ...]:
    """The actors that appear."""
    cursor = Cursor(data, f"{where}: actors")
    found = []
    for _ in range(cursor.count()):
        actor, kind, x, y, z, roll, pitch, yaw, uid = cursor.take(_ADDED_HEAD)
        name = cursor.string()
        attributes = tuple(LogAttribute(cursor.byte(), cursor.string(), cursor.string()) for _ in range(cursor.count()))
        place = (x / _CM_PER_M, y / _CM_PER_M, z / _CM_PER_M)
        found.append(AddedActor(actor, kind, *place, roll, pitch, yaw, uid, name, attributes))
    cursor.finish()
    return tuple(found)


def pack_removed(removed: Sequence[int]) -> bytes:
    """The packet of actors that disappear."""
    _check_count("actors", removed)
    return packet(REMOVED, struct.pack(f"<H{len(removed)}I", len(removed), *removed))


def unpack_removed(data: bytes, where: str) -> tuple[int, ...]:
    """The actors that disappear."""
    return unpack(Layout(REMOVED, "removed", int, "I"), data, where)


def _check_count(what: str, rows: Sequence[Any]) -> None:
    if len(rows) > COUNT_MAX:
        raise InputError(f"a frame of a recording holds at most {COUNT_MAX} {what}, but {len(rows)} came")


class Cursor:
    """Reads a packet from front to back and never past its end."""

    def __init__(self, data: bytes, where: str) -> None:
        self._data = data
        self._at = 0
        self._where = where

    def take(self, shape: struct.Struct) -> tuple[Any, ...]:
        """The next numbers."""
        if self._at + shape.size > len(self._data):
            raise InputError(f"{self._where}: {shape.size} bytes were wanted, but {len(self._data) - self._at} are left")
        values = shape.unpack_from(self._data, self._at)
        self._at += shape.size
        return values

    def count(self) -> int:
        """The next count."""
        return int(self.take(COUNT)[0])

    def byte(self) -> int:
        """The next byte."""
        return int(self.take(_BYTE)[0])

    def string(self) -> str:
        """The next text."""
        size = self.count()
        data = self._data[self._at : self._at + size]
        if len(data) != size:
            raise InputError(f"{self._where}: a text of {size} bytes was wanted, but {len(data)} are left")
        self._at += size
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{self._where}: a text in UTF-8 was wanted ({error.reason})") from error

    def finish(self) -> None:
        """Nothing may be left."""
        if self._at != len(self._data):
            raise InputError(f"{self._where}: {len(self._data) - self._at} bytes are left over")


def content_packets(content: Content) -> Iterable[bytes]:
    """All packets of a frame, in CARLA's order."""
    if content.visual_s is not None:
        yield packet(VISUAL_TIME, CLOCK.pack(content.visual_s))
    yield pack_added(content.added)
    yield pack_removed(content.removed)
    for layout in (*EVENTS, *STATES):
        yield pack(layout, getattr(content, layout.field))
    for layout in OPTIONAL:
        rows = getattr(content, layout.field)
        if rows:
            yield pack(layout, rows)
    if content.platform_s is not None:
        yield packet(PLATFORM_TIME, CLOCK.pack(content.platform_s))


# No frame of a world that our limits allow comes near; a larger number is damage. Read, a frame takes some 15 times as much.
FRAME_MAX_BYTES: Final = 16 * 1024 * 1024
# CARLA writes each kind of packet once a frame, and there are some twenty kinds.
FRAME_MAX_PACKETS: Final = 1024
_HEADER_MAX_BYTES: Final = 4 * 65536
_STARTED_BYTES: Final = 8
# Where one frame ends and the next, whose number follows, begins: a last packet that seems too long and holds this is damage.
_NEXT_FRAME: Final = HEAD.pack(FRAME_END, 0) + HEAD.pack(FRAME_START, FRAME.size)


def is_log(head: bytes) -> bool:
    """Does a file with this beginning claim to be a recording?"""
    return head[2:4] == len(MAGIC).to_bytes(2, "little") and head[4 : 4 + len(MAGIC)] == MAGIC.encode()


def open_log(path: Path) -> "Log":
    """Open a recording and read its header."""
    try:
        with regular(path).open("rb") as file:
            head = file.read(_HEADER_MAX_BYTES)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    if not is_log(head):
        raise InputError(f"{path} is not a CARLA recorder file: it does not begin with {MAGIC}")
    version = int.from_bytes(head[:2], "little")
    if not 1 <= version <= VERSION:
        raise InputError(f"{path}: a recording of version 1 or {VERSION} was wanted, but {version} came")
    started_at = 4 + len(MAGIC)
    cursor = Cursor(head[started_at + _STARTED_BYTES :], f"{path}: header")
    map_name = cursor.string()
    started = int.from_bytes(head[started_at : started_at + _STARTED_BYTES], "little", signed=True)
    size = started_at + _STARTED_BYTES + COUNT.size + len(map_name.encode("utf-8"))
    return Log(path, LogHeader(map_name, started, version), size)


@dataclass(frozen=True)
class Log:
    """A recording on disk; frames are read when they are asked for, a packet at a time."""

    path: Path
    header: LogHeader
    first_byte: int

    @property
    def is_cut(self) -> bool:
        """Does the file end within a frame, which is left out?"""
        return self._whole[2]

    def frames(self) -> Iterator[LogFrame]:
        """All whole frames, in order."""
        start: tuple[int, float, float] | None = None
        fields: dict[str, list[Any]] = {}
        for number, at, data in self._packets(skip=False):
            where = f"{self.path}, byte {at}"
            if number == FRAME_START:
                if start is not None:
                    raise InputError(f"{where}: the end of frame {start[0]} was wanted, but another frame begins")
                start, fields = _start(data, where), {}
            elif start is None:
                raise InputError(f"{where}: the start of a frame was wanted, but packet {number} came")
            elif number == FRAME_END:
                frame, duration_s, elapsed_s = start
                clocks: dict[str, Any] = {name: fields.pop(name)[-1] for name in _CLOCKS.values() if name in fields}
                rows: dict[str, Any] = {name: tuple(found) for name, found in fields.items()}
                yield LogFrame(frame, elapsed_s, duration_s, Content(**rows, **clocks))
                start = None
            else:
                _read_into(fields, number, data, where)

    @property
    def extent(self) -> tuple[int, float]:
        """The number of the last frame and when it began; 0, 0.0 without frames. Reads no more than the heads of packets."""
        return self._whole[:2]

    @cached_property
    def _whole(self) -> tuple[int, float, bool]:
        """The number of the last whole frame, when it began, and whether anything follows it."""
        last, this, end = (0, 0.0), (0, 0.0), self.first_byte
        try:
            size = self.path.stat().st_size
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error.strerror or error}") from error
        for number, at, data in self._packets(skip=True):
            if number == FRAME_START:
                frame, _, elapsed_s = _start(data, f"{self.path}, byte {at}")
                this = (frame, elapsed_s)
            elif number == FRAME_END:
                last, end = this, at + HEAD.size
        return *last, end < size

    def _packets(self, *, skip: bool) -> Iterator[tuple[int, int, bytes]]:
        """Packet id, place, content; with ``skip`` only the content of frame starts."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(self.first_byte)
                yield from self._from_file(file, size, skip=skip)
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error.strerror or error}") from error

    def _from_file(self, file: BinaryIO, size: int, *, skip: bool) -> Iterator[tuple[int, int, bytes]]:
        at, frame = self.first_byte, 0
        begun_at, packets = at, 0  # of this frame
        while at < size:
            head = file.read(HEAD.size)
            if len(head) < HEAD.size:
                return
            number, length = HEAD.unpack(head)
            left = size - at - HEAD.size
            # Its own search is the last thing that is done with a file, so that it costs no more than reading it once.
            if length > FRAME_MAX_BYTES or (length > left and _beginning_after(frame) in file.read(left)):
                raise InputError(f"{self.path}, byte {at}: packet {number} claims {length} bytes, but {left} are left")
            if length > left:
                return
            begun_at, packets = (at, 0) if number == FRAME_START else (begun_at, packets + 1)
            if packets > FRAME_MAX_PACKETS or at - begun_at + length > FRAME_MAX_BYTES:
                bound = f"{FRAME_MAX_PACKETS} packets and {FRAME_MAX_BYTES >> 20} MiB"
                raise InputError(f"{self.path}, byte {at}: a frame of at most {bound} was wanted, but frame {frame} has more")
            if skip and number != FRAME_START:
                file.seek(length, 1)
                yield number, at, b""
            else:
                data = file.read(length)
                frame = int.from_bytes(data[:8], "little") if number == FRAME_START else frame
                yield number, at, data
            at += HEAD.size + length


def _beginning_after(frame: int) -> bytes:
    """How the frame after this one begins."""
    return _NEXT_FRAME + ((frame + 1) % (1 << 64)).to_bytes(8, "little")


def _start(data: bytes, where: str) -> tuple[int, float, float]:
    if len(data) != FRAME.size:
        raise InputError(f"{where}: a frame's start of {FRAME.size} bytes was wanted, but {len(data)} came")
    number, duration_s, elapsed_s = FRAME.unpack(data)
    if not (math.isfinite(duration_s) and 0.0 <= elapsed_s < math.inf):
        raise InputError(f"{where}: frame {number} has no proper time: {elapsed_s} s, {duration_s} s long")
    return int(number), float(duration_s), float(elapsed_s)


_CLOCKS: Final = {VISUAL_TIME: "visual_s", PLATFORM_TIME: "platform_s"}


def _read_into(fields: dict[str, list[Any]], number: int, data: bytes, where: str) -> None:
    """Add a packet's records to a frame; packets that are not known are read past."""
    if number == ADDED:
        fields.setdefault("added", []).extend(unpack_added(data, where))
    elif number == REMOVED:
        fields.setdefault("removed", []).extend(unpack_removed(data, where))
    elif number in _CLOCKS:
        cursor = Cursor(data, f"{where}: clock")
        fields.setdefault(_CLOCKS[number], []).append(float(cursor.take(CLOCK)[0]))
        cursor.finish()
    elif number in BY_ID:
        layout = BY_ID[number]
        fields.setdefault(layout.field, []).extend(unpack(layout, data, where))


_UNKNOWN_S: Final = -1.0


class Sink(Protocol):
    """A file that is open for writing and can seek."""

    def write(self, data: bytes, /) -> int | None:
        """Write, or as much of it as fits."""
        ...

    def seek(self, place: int, /) -> int:
        """Go to a place."""
        ...


class WriterState(NamedTuple):
    """How far a writer has come: frames, their time, where the last one's duration is to be written, bytes."""

    frames: int
    elapsed_s: float
    duration_at: int | None
    size: int


class LogWriter:
    """Writes to a file that can seek: how long a frame lasted is known when the next one begins.

    A frame is handed over in one piece, so that a file without a buffer of its own never ends within a frame for long.
    """

    def __init__(self, file: Sink, header: LogHeader) -> None:
        self._file = file
        self._state = WriterState(0, 0.0, None, 0)
        started = header.started_unix_s.to_bytes(8, "little", signed=True)
        self._add(COUNT.pack(header.version) + string(MAGIC) + started + string(header.map_name))

    @classmethod
    def go_on(cls, file: Sink, state: WriterState) -> "LogWriter":
        """Go on with a file that another writer began and that has been cut to the size it had then."""
        made = cls.__new__(cls)
        made._file, made._state = file, state
        if state.duration_at is not None:
            file.seek(state.duration_at)
            made._put(CLOCK.pack(_UNKNOWN_S))
        file.seek(state.size)
        return made

    @property
    def state(self) -> WriterState:
        """How far it has come."""
        return self._state

    @property
    def frames(self) -> int:
        """How many frames have been written."""
        return self._state.frames

    def _put(self, data: bytes) -> None:
        if self._file.write(data) != len(data):
            raise OSError(errno.ENOSPC, "the disk is full")

    def _add(self, data: bytes) -> None:
        self._put(data)
        self._state = self._state._replace(size=self._state.size + len(data))

    def frame(self, content: Content, step_s: float) -> None:
        """Write a frame ``step_s`` after the one before; time begins with the first."""
        if not step_s > 0.0:
            raise InputError(f"frames of a recording lie some time apart, but a step of {step_s} s came")
        packets = b"".join(content_packets(content))
        before = self._state
        elapsed_s = before.elapsed_s + step_s if before.frames else 0.0
        start = packet(FRAME_START, FRAME.pack(before.frames + 1, _UNKNOWN_S, elapsed_s))
        self._add(start + packets + packet(FRAME_END, b""))
        if before.duration_at is not None:
            self._file.seek(before.duration_at)
            self._put(CLOCK.pack(step_s))
            self._file.seek(self._state.size)
        duration_at = before.size + HEAD.size + DURATION_AT
        self._state = WriterState(before.frames + 1, elapsed_s, duration_at, self._state.size)


__all__ = [
    "ActorKind",
    "AddedActor",
    "Content",
    "Door",
    "Kinematics",
    "LightTimes",
    "Log",
    "LogAttribute",
    "LogBox",
    "LogCollision",
    "LogFrame",
    "LogHeader",
    "LogPose",
    "LogWriter",
    "Parent",
    "SignalLight",
    "StreetLamp",
    "VehicleInput",
    "VehicleLights",
    "WalkerInput",
    "open_log",
]
