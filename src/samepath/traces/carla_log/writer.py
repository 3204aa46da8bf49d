"""Write a recorder file frame by frame, as the world ticks."""

import errno
from typing import Final, NamedTuple, Protocol

from samepath.base.errors import InputError
from samepath.traces.carla_log.packets import (
    CLOCK,
    COUNT,
    DURATION_AT,
    FRAME,
    FRAME_END,
    FRAME_START,
    HEAD,
    content_packets,
    packet,
    string,
)
from samepath.traces.carla_log.records import MAGIC, Content, LogHeader

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
