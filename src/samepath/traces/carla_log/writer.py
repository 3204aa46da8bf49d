"""Write a recorder file frame by frame, as the world ticks."""

from typing import BinaryIO, Final

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


class LogWriter:
    """Writes to a file that is open for writing and can seek: how long a frame lasted is known when the next one begins."""

    def __init__(self, file: BinaryIO, header: LogHeader) -> None:
        self._file = file
        self._frames = 0
        self._elapsed_s = 0.0
        self._duration_at: int | None = None
        started = header.started_unix_s.to_bytes(8, "little", signed=True)
        file.write(COUNT.pack(header.version) + string(MAGIC) + started + string(header.map_name))

    @property
    def frames(self) -> int:
        """How many frames have been written."""
        return self._frames

    def frame(self, content: Content, step_s: float) -> None:
        """Write a frame ``step_s`` after the one before; time begins with the first."""
        if not step_s > 0.0:
            raise InputError(f"frames of a recording lie some time apart, but a step of {step_s} s came")
        packets = b"".join(content_packets(content))
        if self._frames:
            self._elapsed_s += step_s
        self._frames += 1
        place = self._file.tell()
        start = packet(FRAME_START, FRAME.pack(self._frames, _UNKNOWN_S, self._elapsed_s))
        self._file.write(start + packets + packet(FRAME_END, b""))
        if self._duration_at is not None:
            end = self._file.tell()
            self._file.seek(self._duration_at)
            self._file.write(CLOCK.pack(step_s))
            self._file.seek(end)
        self._duration_at = place + HEAD.size + DURATION_AT
