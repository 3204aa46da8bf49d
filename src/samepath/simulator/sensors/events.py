"""The event camera (``sensor.camera.dvs``): where brightness changed, in which direction and when, between two pictures.

A pixel fires each time the logarithm of its brightness has moved by a threshold since it last fired; the moment is found on the
straight line between two pictures.
"""

import struct
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import InputError
from samepath.core.states import Pose
from samepath.core.streams import stream
from samepath.core.trig_arrays import log
from samepath.simulator.sensors.cameras import FILM, IMAGE_HEADER, image_header, shape_of
from samepath.simulator.sensors.images import colour_image
from samepath.simulator.sensors.renderer import Camera, CameraFrame, Channel
from samepath.simulator.sensors.sensor import (
    AttributeTable,
    FlagAttribute,
    GivenAttributes,
    NumberAttribute,
    normals,
    read_attributes,
)

KIND: Final = "sensor.camera.dvs"
EVENT: Final = np.dtype([("x", "<u2"), ("y", "<u2"), ("t", "<i8"), ("pol", "u1")])
"""One event as CARLA sends it: column, row, nanoseconds of simulated time, 1 for brighter and 0 for darker."""
_OWN: Final[AttributeTable] = MappingProxyType(
    {
        "positive_threshold": NumberAttribute(0.3, 0.0, 100.0, above=True),
        "negative_threshold": NumberAttribute(0.3, 0.0, 100.0, above=True),
        "sigma_positive_threshold": NumberAttribute(0.0, 0.0, 1.0),
        "sigma_negative_threshold": NumberAttribute(0.0, 0.0, 1.0),
        "refractory_period_ns": NumberAttribute(0, 0, 1e18, "ns", whole=True),
        "use_log": FlagAttribute(default=True),
        "log_eps": NumberAttribute(0.001, 0.0, 1.0, above=True),
    }
)
ATTRIBUTES: Final[AttributeTable] = MappingProxyType({**FILM, **_OWN})
# Brightness is counted in quarters of the 255 levels; the weights are CARLA's.
_STEPS: Final = 4
_WEIGHTS: Final = (1140, 5870, 2989)
_LEAST_THRESHOLD: Final = 0.01
_NS: Final = 1_000_000_000
_NEVER_NS: Final = -(1 << 62)
_NO_PIXELS: Final = (0, 0)
EVENTS_MOST: Final = 1 << 24
"""More events than this between two pictures are refused, by name."""


def nanoseconds(time_s: float) -> int:
    """Simulated time as events carry it, rounded from its exact value."""
    above, below = time_s.as_integer_ratio()
    return (2 * _NS * above + below) // (2 * below)


def whole_nanoseconds(duration_s: float) -> int:
    """How many whole nanoseconds a time lasts, exactly: never more than lie between the rounded times of its two ends."""
    above, below = duration_s.as_integer_ratio()
    return _NS * above // below


@dataclass(eq=False)
class EventCamera:
    """An event camera. It remembers at what brightness and when every pixel last fired; ``number`` names its chance."""

    width: int
    height: int
    fov_deg: float
    period_s: float
    vignette: float
    values: dict[str, float]
    number: int = 0
    _table: NDArray[np.float64] = field(init=False)
    _level: NDArray[np.uint16] | None = field(init=False, default=None)
    _fired_at: NDArray[np.float32] = field(init=False)
    _fired_ns: NDArray[np.int64] = field(init=False)
    _before_ns: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        levels = np.arange(255 * _STEPS + 1) / (255.0 * _STEPS)
        self._table = log(self.values["log_eps"] + levels) if self.values["use_log"] else levels
        self.forget()

    def forget(self) -> None:
        """Begin anew; until its next picture it holds nothing of the size of a picture."""
        self._level, self._before_ns = None, 0
        self._fired_at, self._fired_ns = np.empty(_NO_PIXELS, np.float32), np.empty(_NO_PIXELS, np.int64)

    @classmethod
    def from_attributes(cls, given: GivenAttributes, *, strict: bool = False, number: int = 0) -> Self:
        """Build one from CARLA's attributes."""
        shape = shape_of(KIND, given, ATTRIBUTES, strict=strict)
        return cls(**shape, values=read_attributes(KIND, given, _OWN), number=number)

    def at(self, pose: Pose, was: Pose | None = None) -> Camera:
        """The camera at a pose."""
        return Camera(pose, self.width, self.height, self.fov_deg, Channel.COLOUR, was, 1, self.vignette)

    def _levels(self, frame: CameraFrame) -> NDArray[np.uint16]:
        image = colour_image(frame)
        grey = sum(weight * image[..., k].astype(np.int64) for k, weight in enumerate(_WEIGHTS))
        return np.minimum((grey * _STEPS + 5000) // 10000, 255 * _STEPS).astype(np.uint16)

    def events(self, frame: CameraFrame, time_ns: int, draw: int | None = None) -> NDArray[Any]:
        """The events since the picture before, by time, then row and column; none from the first picture.

        ``time_ns`` is the time on the camera's own clock, which may start anywhere; ``draw`` names the chance of this picture,
        by default its time.
        """
        level, was, before_ns = self._levels(frame), self._level, self._before_ns
        self._level, self._before_ns = level, time_ns
        now = self._table[level]
        if was is None:
            self._fired_at = now.astype(np.float32)
            self._fired_ns = np.full(now.shape, _NEVER_NS, np.int64)
            return np.empty(0, EVENT)
        before = self._table[was]
        found, count = [], 0
        rising = now - before
        # Rising and falling apart; a pixel does only one of them between two pictures.
        for up, sign in ((1, 1.0), (0, -1.0)):
            side = self._threshold("positive" if up else "negative", time_ns if draw is None else draw)
            threshold = np.broadcast_to(side, now.shape)
            due = sign * (now - (self._fired_at.astype(np.float64) + sign * threshold)) >= 0.0
            rows, columns = np.nonzero(due & (sign * rising > 0.0))
            while len(rows):
                goal = self._fired_at[rows, columns].astype(np.float64) + sign * threshold[rows, columns]
                part = np.clip((goal - before[rows, columns]) / rising[rows, columns], 0.0, 1.0)
                moment = before_ns + np.floor(part * (time_ns - before_ns) + 0.5).astype(np.int64)
                self._fired_at[rows, columns] = goal
                rested = moment - self._fired_ns[rows, columns] >= int(self.values["refractory_period_ns"])
                self._fired_ns[rows[rested], columns[rested]] = moment[rested]
                events = np.zeros(int(rested.sum()), EVENT)
                events["x"], events["y"] = columns[rested], rows[rested]
                events["t"], events["pol"] = moment[rested], up
                found.append(events)
                count += len(events)
                if count > EVENTS_MOST:
                    wanted = f"at most {EVENTS_MOST} events between two pictures were wanted"
                    raise InputError(f"{KIND}: {wanted}, but more came: raise the thresholds, or choose a smaller picture")
                again = sign * (now[rows, columns] - (goal + sign * threshold[rows, columns])) >= 0.0
                rows, columns = rows[again], columns[again]
        events = np.concatenate(found) if found else np.empty(0, EVENT)
        # By time, then row and column, so that the order does not tell how they were found.
        return events[np.lexsort((events["x"], events["y"], events["t"]))]

    def _threshold(self, side: str, draw: int) -> NDArray[np.float64] | float:
        mean, sigma = self.values[f"{side}_threshold"], self.values[f"sigma_{side}_threshold"]
        if not sigma:
            return max(mean, _LEAST_THRESHOLD)
        noise = normals(stream(0, "dvs", side, self.number, draw), self.height * self.width).reshape(self.height, self.width)
        return np.maximum(mean + sigma * noise, _LEAST_THRESHOLD)

    @property
    def time_ns(self) -> int:
        """When its last picture was taken, on its own clock."""
        return self._before_ns

    @property
    def payload_bytes(self) -> int:
        """How long a payload is in which every pixel fires once; more are possible, up to ``EVENTS_MOST``."""
        return IMAGE_HEADER.size + self.width * self.height * EVENT.itemsize

    @property
    def memory_bytes(self) -> int:
        """How long what :meth:`memory` gives is, after the first picture."""
        return 8 + (14 if self._rests else 6) * self.width * self.height

    def memory(self) -> bytes:
        """What the next picture's events depend on, as bytes."""
        if self._level is None:
            return b""
        kept = [self._level.astype("<u2", copy=False).data, self._fired_at.astype("<f4", copy=False).data]
        kept += [self._fired_ns.astype("<i8", copy=False).data] if self._rests else []
        # Copied once: no other thread of this process runs meanwhile, a rendering node's heartbeats among them.
        return b"".join((struct.pack("<q", self._before_ns), *kept))

    def recall(self, memory: bytes) -> None:
        """Take up what :meth:`memory` gave; without any, begin anew."""
        self.forget()
        if not memory:
            return
        count, shape = self.width * self.height, (self.height, self.width)
        if len(memory) != self.memory_bytes:
            raise InputError(f"{KIND}: a memory of {count} pixels was wanted, but {len(memory)} bytes came")
        (self._before_ns,) = struct.unpack_from("<q", memory)
        self._level = np.frombuffer(memory, "<u2", count, 8).reshape(shape)
        self._fired_at = np.frombuffer(memory, "<f4", count, 8 + 2 * count).reshape(shape).copy()
        if int(self._level.max()) > 255 * _STEPS:
            raise InputError(f"{KIND}: levels up to {255 * _STEPS} were wanted, but {int(self._level.max())} came")
        self._fired_ns = (
            np.frombuffer(memory, "<i8", count, 8 + 6 * count).reshape(shape).copy()
            if self._rests
            else np.full(shape, _NEVER_NS, np.int64)
        )

    @property
    def _rests(self) -> bool:
        """Does a pixel rest after it has fired? Only then it matters when that was."""
        return self.values["refractory_period_ns"] > 0

    def payload(self, events: NDArray[Any]) -> bytes:
        """What a client is sent after the header."""
        return image_header(self.width, self.height, self.fov_deg) + events.tobytes()
