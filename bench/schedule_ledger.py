"""What has been played of many schedules, in a file: a run that is killed goes on, and several machines share one.

A line of JSON per chunk of schedules and per deliberate bug that was looked for, written when it is done. Ledgers lie in a
folder named by the digest of the code: what other code has played counts for nothing. A run reads all ledgers of that folder,
also those that other shards have written, and appends to its own.
"""

import fcntl
import json
import os
from pathlib import Path
from typing import Any, NamedTuple, Self, TextIO

from samepath.core.errors import InputError
from samepath.core.files import make_folder

# What a process is given at a time: two seconds of work. A run that is killed loses so much per process.
CHUNK = 250


class Played(NamedTuple):
    """What came of some schedules, the first of which has the seed ``first``.

    ``violations`` are seeds and what was broken. ``wall_s`` is how long it took one process; ``rss_bytes`` the memory of that
    process when it was done, and ``worker`` which one it was: what grows from chunk to chunk would show.
    """

    first: int
    schedules: int
    events: int
    ticks: int
    violations: tuple[tuple[int, str], ...] = ()
    wall_s: float = 0.0
    worker: str = ""
    rss_bytes: int = 0


class Found(NamedTuple):
    """A deliberate bug that was looked for from a first seed on; ``schedules`` is None where it stayed hidden."""

    mutation: str
    first: int
    schedules: int | None
    words: str


class Shard(NamedTuple):
    """One part of several into which the chunks of a run are dealt, by turns; parts are counted from 1."""

    number: int = 1
    of: int = 1

    @classmethod
    def read(cls, text: str) -> Self:
        """Read ``2/4``."""
        number, _, of = text.partition("/")
        if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of) <= 10_000):
            raise InputError(f"a shard such as 2/4 was wanted, but {text!r} came")
        return cls(int(number), int(of))

    def has(self, chunk: int) -> bool:
        """Is the chunk of this number its own?"""
        return chunk % self.of == self.number - 1


def chunks_of(seeds: range) -> list[range]:
    """The chunks of a run; they end at whole multiples, so that a longer run finds those of a shorter one."""
    ends = [*range((seeds.start // CHUNK + 1) * CHUNK, seeds.stop, CHUNK), seeds.stop]
    return [range(begin, end) for begin, end in zip([seeds.start, *ends], ends, strict=False) if end > begin]


class Ledger:
    """What is known to have been played. Without a folder it is kept in memory only."""

    def __init__(self, folder: Path | None = None, shard: Shard = Shard()) -> None:  # noqa: B008 - frozen
        self.played: dict[tuple[int, int], Played] = {}
        self.found: dict[tuple[str, int], Found] = {}
        self._file: TextIO | None = None
        self.path: Path | None = None
        if folder is None:
            return
        self.path = make_folder(folder) / f"shard-{shard.number}-of-{shard.of}.jsonl"
        self._file = self.path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise InputError(f"another run writes {self.path}: wait for it, or give each a --shard of its own") from None
        try:
            for path in sorted(folder.glob("*.jsonl")):
                self._read(path)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, entry: Played | Found) -> None:
        """Keep what has been done, before anything else happens."""
        self._take(entry)
        if self._file is not None:
            kind = "played" if isinstance(entry, Played) else "found"
            self._file.write(json.dumps({kind: entry}) + "\n")
            self._file.flush()

    def missing(self, seeds: range, shard: Shard = Shard()) -> list[range]:  # noqa: B008 - frozen
        """The chunks that nobody has played yet, of those that are the shard's own."""
        return [
            chunk
            for number, chunk in enumerate(chunks_of(seeds))
            if shard.has(number) and (chunk.start, len(chunk)) not in self.played
        ]

    def of(self, seeds: range) -> list[Played]:
        """What has been played of these schedules, each once."""
        keys = ((chunk.start, len(chunk)) for chunk in chunks_of(seeds))
        return [self.played[key] for key in keys if key in self.played]

    def _take(self, entry: Played | Found) -> None:
        if isinstance(entry, Played):
            self.played[entry.first, entry.schedules] = entry
        else:
            self.found[entry.mutation, entry.first] = entry

    def _read(self, path: Path) -> None:
        """Take up what is there; a last line that was cut off by a kill is ended, and left out."""
        data = path.read_bytes()
        for number, line in enumerate(data.splitlines(keepends=True), start=1):
            if not line.endswith(b"\n"):
                if path == self.path and self._file is not None:
                    self._file.truncate(len(data) - len(line))
                return
            try:
                self._take(_entry(json.loads(line)))
            except (ValueError, TypeError, KeyError) as error:
                raise InputError(f"{path}:{number} is no line of a ledger of schedules ({error}): remove the file") from None


def _entry(found: Any) -> Played | Found:  # noqa: ANN401 - whatever a file has
    if "played" in found:
        fields = Played(*found["played"])
        return fields._replace(violations=tuple((int(seed), str(words)) for seed, words in fields.violations))
    return Found(*found["found"])


def rss_bytes() -> int:
    """The memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
