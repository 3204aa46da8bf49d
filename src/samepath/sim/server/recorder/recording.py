"""A recording in progress."""

import os
from pathlib import Path

from samepath.base.errors import InputError
from samepath.traces.carla_log import Content, LogHeader, LogWriter


class Recording:
    """An open recorder file; feed it once a tick, close it in the end. It never follows a link."""

    def __init__(self, path: Path, map_name: str, started_unix_s: int) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_CREAT | os.O_TRUNC | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
            self._file = os.fdopen(os.open(path, flags, 0o644), "r+b")
        except OSError as error:
            raise InputError(f"{path.name} cannot be written: {error.strerror or error}") from error
        self._writer = LogWriter(self._file, LogHeader(map_name, started_unix_s))

    @property
    def frames(self) -> int:
        """How many frames have been written."""
        return self._writer.frames

    def frame(self, content: Content, step_s: float) -> None:
        """Write one tick."""
        try:
            self._writer.frame(content, step_s)
        except OSError as error:
            raise InputError(f"{self.path.name} cannot be written: {error.strerror or error}") from error

    def close(self) -> None:
        """Finish the file."""
        self._file.close()
