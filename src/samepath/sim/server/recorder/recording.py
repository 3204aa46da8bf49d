"""A recording in progress."""

import contextlib
import os
from io import FileIO
from pathlib import Path
from typing import Final

from samepath.base.errors import InputError
from samepath.traces.carla_log import Content, LogHeader, LogWriter
from samepath.traces.carla_log.reader import is_log
from samepath.traces.carla_log.writer import WriterState

_HEAD_BYTES: Final = 64


class _Nowhere:
    """Takes what is written and forgets it: for a file that holds it already."""

    def write(self, data: bytes, /) -> int:
        return len(data)

    def seek(self, place: int, /) -> int:
        return place

    def close(self) -> None:
        pass


class Recording:
    """An open recorder file; feed it once a tick, close it in the end. It never follows a link.

    Every frame is in the hands of the kernel before the next tick: the death of this process loses none. ``rehearsed`` only
    counts what is written, for ticks that are played again after such a death: the file has them, and :meth:`go_on` goes on.
    """

    def __init__(self, path: Path, map_name: str, started_unix_s: int, *, rehearsed: bool = False) -> None:
        self.path = path
        self._file: FileIO | _Nowhere = _Nowhere() if rehearsed else self._opened(os.O_CREAT | os.O_TRUNC)
        try:
            self._writer = LogWriter(self._file, LogHeader(map_name, started_unix_s))
        except OSError as error:
            self.close()
            raise self._trouble(error) from error

    def _opened(self, flags: int) -> FileIO:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, flags | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o644)
            return FileIO(handle, "r+b")
        except OSError as error:
            raise self._trouble(error) from error

    def _trouble(self, error: OSError) -> InputError:
        return InputError(f"{self.path.name} cannot be written: {error.strerror or error}")

    @classmethod
    def restore(cls, path: Path, state: WriterState) -> "Recording":
        """A rehearsed recording that has come as far as ``state`` says."""
        made = cls.__new__(cls)
        made.path, made._file = path, _Nowhere()
        made._writer = LogWriter.go_on(made._file, state)
        return made

    def go_on(self) -> None:
        """After a rehearsal: take up the file where it was at the last tick, whatever came after."""
        state = self._writer.state
        file = self._opened(0)
        try:
            fits = is_log(os.pread(file.fileno(), _HEAD_BYTES, 0)) and os.fstat(file.fileno()).st_size >= state.size
            if fits:
                file.truncate(state.size)
                self._writer = LogWriter.go_on(file, state)
        except OSError as error:
            file.close()
            raise self._trouble(error) from error
        if not fits:
            file.close()
            raise InputError(f"{self.path.name} does not have the {state.frames} frames that were recorded")
        self._file = file

    @property
    def state(self) -> WriterState:
        """How far it has come."""
        return self._writer.state

    @property
    def frames(self) -> int:
        """How many frames have been written."""
        return self._writer.frames

    def frame(self, content: Content, step_s: float) -> None:
        """Write one tick, or nothing of it."""
        whole = self._writer.state.size
        try:
            self._writer.frame(content, step_s)
        except OSError as error:
            if isinstance(self._file, FileIO):
                with contextlib.suppress(OSError):
                    self._file.truncate(whole)
            raise self._trouble(error) from error

    def close(self) -> None:
        """Finish the file."""
        self._file.close()
