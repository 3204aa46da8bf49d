"""How packets lie on disk: one table for those of fixed records, a little code for the rest."""

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from samepath.base.errors import InputError
from samepath.traces.carla_log import records as rec

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
    Layout(4, "parents", rec.Parent, "II"),
    Layout(5, "hits", rec.Hit, "III??"),
    Layout(23, "doors", rec.Door, "IB?"),
)
STATES: Final = (
    Layout(6, "placed", rec.Placed, "I6f", (1, 2, 3)),
    Layout(7, "signal_lights", rec.SignalLight, "I?fB"),
    Layout(8, "vehicles", rec.VehicleInput, "I3f?i"),
    Layout(9, "walkers", rec.WalkerInput, "If"),
    Layout(10, "vehicle_lights", rec.VehicleLights, "II"),
)
# These are left out of a frame that has none.
OPTIONAL: Final = (
    Layout(11, "lamps", rec.StreetLamp, "i5f?B"),
    Layout(12, "kinematics", rec.Kinematics, "I6f"),
    Layout(13, "boxes", rec.Box, "I6f", (1, 2, 3, 4, 5, 6)),
    Layout(17, "triggers", rec.Box, "I6f", (1, 2, 3, 4, 5, 6)),
    Layout(16, "light_times", rec.LightTimes, "I3f"),
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


def pack_added(added: Sequence[rec.AddedActor]) -> bytes:
    """The packet of actors that appear."""
    _check_count("actors", added)
    parts = [COUNT.pack(len(added))]
    for one in added:
        place = [value * _CM_PER_M for value in (one.x_m, one.y_m, one.z_m)]
        try:
            head = _ADDED_HEAD.pack(one.actor, one.kind, *place, one.roll_deg, one.pitch_deg, one.yaw_deg, one.uid)
        except (struct.error, OverflowError) as error:
            raise InputError(f"a recording cannot hold actor {one.actor}: {error}") from error
        _check_count("attributes", one.attributes)
        parts += [head, string(one.type), COUNT.pack(len(one.attributes))]
        parts += [bytes([kind]) + string(name) + string(value) for kind, name, value in one.attributes]
    return packet(ADDED, b"".join(parts))


def unpack_added(data: bytes, where: str) -> tuple[rec.AddedActor, ...]:
    """The actors that appear."""
    cursor = Cursor(data, f"{where}: actors")
    found = []
    for _ in range(cursor.count()):
        actor, kind, x, y, z, roll, pitch, yaw, uid = cursor.take(_ADDED_HEAD)
        name = cursor.string()
        attributes = tuple(rec.Attribute(cursor.byte(), cursor.string(), cursor.string()) for _ in range(cursor.count()))
        place = (x / _CM_PER_M, y / _CM_PER_M, z / _CM_PER_M)
        found.append(rec.AddedActor(actor, kind, *place, roll, pitch, yaw, uid, name, attributes))
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


def content_packets(content: rec.Content) -> Iterable[bytes]:
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
