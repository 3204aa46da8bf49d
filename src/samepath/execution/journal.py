"""The journal of a study: one JSON object per line, only ever added to.

It says what happened when; what is finished is said by the trace stores alone.

    begun, resumed   command, version and process of samepath
    slot             a stretch of repeats begins: loads asked for and measured after settling; its host, where there are several
    repeat           finished: digest, seconds, what was measured
    failed           a repeat came to nothing, and why; ``detail`` may hold a traceback
    given up         the rest of a cell is left out, and why
    host lost        a host of a cluster is gone, the cell it had and how that was noticed
    interrupted, finished
"""

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from samepath.base.clock import SYSTEM_CLOCK, Clock
from samepath.base.errors import StoreError

JOURNAL_FILE: Final = "journal.jsonl"


class Journal:
    """Adds lines to a journal; each is in the hands of the kernel before the next step is taken."""

    def __init__(self, folder: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        self._path = folder / JOURNAL_FILE
        self._clock = clock
        try:
            self._handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            end = os.lseek(self._handle, 0, os.SEEK_END)
            if end and os.pread(self._handle, 1, end - 1) != b"\n":
                os.write(self._handle, b"\n")  # the last line was torn; the next one must not be
        except OSError as error:
            raise StoreError(f"{self._path} cannot be written: {error.strerror or error}") from error

    def add(self, what: str, **fields: object) -> None:
        """Write one line."""
        line = json.dumps({"what": what, "time_utc": self._clock.utc_iso(), **fields}, default=str)
        data = line.encode() + b"\n"
        try:
            written = os.write(self._handle, data)
        except OSError as error:
            raise StoreError(f"{self._path} could not be written: {error.strerror or error}") from error
        if written != len(data):
            raise StoreError(f"{self._path} could not be written: the disk is full")

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def read_journal(folder: Path) -> list[dict[str, Any]]:
    """Return the journal's lines; torn ones are left out, no journal is an empty one."""
    try:
        text = (folder / JOURNAL_FILE).read_text("utf-8", errors="replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"{folder / JOURNAL_FILE} cannot be read: {error.strerror or error}") from error
    entries = []
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and "what" in entry:
            entries.append(entry)
    return entries
