"""Recorder files in CARLA's format: every packet the reader knows, with extreme and contradictory content.

A file is made from ``(seed, number)`` alone. Most are plausible, with an odd value here and there; some have counts, lengths or
an order of packets that do not fit; a few are cut off, or have bytes changed.
"""

import math
import struct
from typing import Final

import numpy as np

from samepath.core.streams import stream
from samepath.simulator.carla.recorder_file import ADDED, BY_ID, MAGIC, NO_ACTOR, PLATFORM_TIME, REMOVED, VISUAL_TIME

ODD_SHARES: Final = (0.0, 0.0, 0.003, 0.02, 0.2)
ODD_FLOATS: Final = (0.0, -0.0, 1e-45, -1e-30, 1e9, -1e9, 1.1e11, 3.4e38, math.inf, -math.inf, math.nan, 0.1)
ODD_TIMES: Final = (0.0, -1.0, 1e-300, 1e9, 1e300, 1.7e308, math.inf, math.nan, -0.0)
ODD_WHOLES: Final = (0, 1, 255, 65535, 2**31 - 1, 2**31, NO_ACTOR, NO_ACTOR - 1)
TYPES: Final = (
    "vehicle.tesla.model3", "vehicle.audi.tt", "walker.pedestrian.0001", "static.prop.box01", "traffic.traffic_light",
    "spectator", "sensor.camera.rgb", "controller.ai.walker", "vehicle.nobody.knows", "", "walker.", "vehicle.\n\x1b[2J",
    "x" * 3000, "\u9053",
)  # fmt: skip
ATTRIBUTES: Final = (
    "role_name",
    "color",
    "number_of_wheels",
    "speed",
    "is_invincible",
    "generation",
    "",
    "base_type",
    "\u202e",
)
VALUES: Final = ("hero", "autopilot", "255,0,0", "4", "true", "nan", "", "x" * 500, "-1", "1e999", "a,b,c")
MAPS: Final = ("Carla/Maps/t-junction", "t-junction", "t-junction", "t-junction")
ODD_MAPS: Final = ("", "Town03", "../../etc/passwd", "x" * 60_000, "\0", "/", "Carla/Maps/")


class RecorderGrammar:
    """Makes one file."""

    def __init__(self, chance: np.random.Generator) -> None:
        self._chance = chance
        self._share = float(chance.choice(ODD_SHARES))
        self._ids = [int(number) for number in chance.permutation(60)[: 1 + int(chance.integers(6))] + 1]

    def _below(self, count: int) -> int:
        return int(self._chance.integers(count))

    def _odd(self, times: float = 1.0) -> bool:
        return bool(self._chance.random() < self._share * times)

    def _id(self) -> int:
        return ODD_WHOLES[self._below(len(ODD_WHOLES))] if self._odd() else self._ids[self._below(len(self._ids))]

    def _text(self, usual: tuple[str, ...]) -> bytes:
        data = usual[self._below(len(usual))].encode()
        if self._odd():
            data = self._chance.bytes(self._below(40))
        size = self._below(65536) if self._odd(0.3) else len(data)
        return struct.pack("<H", size) + data

    def _value(self, kind: str) -> object:
        if kind == "f":
            return ODD_FLOATS[self._below(len(ODD_FLOATS))] if self._odd() else float(self._chance.normal(0.0, 2000.0))
        if kind == "?":
            return bool(self._below(2))
        if kind == "i":
            return self._below(7) - 2 if not self._odd() else self._below(2**32) - 2**31
        return self._below(256) if kind == "B" else self._id()

    def _records(self, layout: str) -> bytes:
        """A count and that many records, or another count."""
        shape = "".join(letter * int(times or 1) for times, letter in _letters(layout))
        rows = 0 if self._below(3) == 0 else 1 + self._below(len(self._ids))
        actors = list(self._chance.permutation(self._ids))  # each once: a second state at a moment is refused before the rest
        data = b""
        for actor in actors[:rows]:
            first = self._value(shape[0]) if self._odd() or shape[0] != "I" else int(actor)
            data += struct.pack("<" + shape, first, *map(self._value, shape[1:]))
        if self._odd(0.3):
            rows = ODD_WHOLES[self._below(4)]
        return struct.pack("<H", rows) + data

    def _added(self) -> bytes:
        rows, parts = self._below(4), []
        for _ in range(rows):
            head = struct.pack("<IB", self._id(), self._below(5))
            parts.append(head + struct.pack("<6fI", *(self._value("f") for _ in range(6)), self._below(300)))
            parts.append(self._text(TYPES))
            attributes = self._below(4)
            parts.append(struct.pack("<H", attributes if not self._odd(0.3) else 65535))
            parts += [bytes([self._below(8)]) + self._text(ATTRIBUTES) + self._text(VALUES) for _ in range(attributes)]
        return struct.pack("<H", rows if not self._odd(0.3) else self._below(65536)) + b"".join(parts)

    def _content(self, kind: int) -> bytes:
        if kind == ADDED:
            return self._added()
        if kind == REMOVED:
            return self._records("I")
        if kind in (VISUAL_TIME, PLATFORM_TIME):
            return struct.pack("<d", ODD_TIMES[self._below(len(ODD_TIMES))])
        return self._records(BY_ID[kind].format) if kind in BY_ID else self._chance.bytes(self._below(30))

    def _packet(self, kind: int, data: bytes) -> bytes:
        size = (0, 1, len(data) + 1, 1 << 24, 2**32 - 1)[self._below(5)] if self._odd(0.2) else len(data)
        whole = struct.pack("<BI", kind, size) + data
        return whole * self._below(3000) if self._odd(0.05) else whole

    def _frame(self, number: int, step_s: float) -> bytes:
        times = [step_s, step_s * (number - 1)]
        if self._odd():
            times[self._below(2)] = ODD_TIMES[self._below(len(ODD_TIMES))]
        kinds = [ADDED] * (number == 1) + [
            kind for kind in (ADDED, REMOVED, *BY_ID, VISUAL_TIME, PLATFORM_TIME) if self._below(3)
        ]
        if self._odd():
            kinds = [self._below(256) for _ in kinds]
        start = self._packet(0, struct.pack("<Qdd", number if not self._odd() else self._below(2**63), *times))
        parts = [start, *(self._packet(kind, self._content(kind)) for kind in kinds), self._packet(1, b"")]
        if self._odd():
            del parts[self._below(len(parts))]
        return b"".join(parts)

    def document(self) -> bytes:
        """The whole file."""
        step_s = (0.05, 0.1, 1.0, 1e-9)[self._below(4)]
        version = 2 if not self._odd() else self._below(5)
        magic = struct.pack("<HH", version, len(MAGIC)) + MAGIC.encode()
        started = struct.pack("<q", 1_700_000_000 if not self._odd() else self._below(2**63) * (-1) ** self._below(2))
        head = magic + started + self._text(ODD_MAPS if self._odd() else MAPS)
        data = bytearray(head + b"".join(self._frame(number, step_s) for number in range(1, 1 + self._below(12))))
        if self._odd(2.0):
            del data[self._below(len(data)) :]
        for _ in range(self._below(4) if self._odd(2.0) and data else 0):
            data[self._below(len(data))] = self._below(256)
        return bytes(data)


def _letters(layout: str) -> list[tuple[str, str]]:
    """``I6f`` as its parts: how often, and what."""
    found, times = [], ""
    for letter in layout:
        if letter.isdigit():
            times += letter
        else:
            found.append((times, letter))
            times = ""
    return found


def recorder_document(seed: int, number: int) -> bytes:
    """The file of this number under this seed."""
    return RecorderGrammar(stream(seed, "recorder", number)).document()
