"""A cell as the analysis sees it: repeats of one scenario under one condition, read in bounded blocks.

Columns of a block are (tick, actor) pairs, tick-major over the *union* of all repeats' ticks and actors; a pair a repeat
does not have is marked absent, never filled.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from samepath.core.inputs import InputLog
from samepath.instrument.traces.records import (
    Actor,
    Event,
    FrameTable,
    Header,
    HostLog,
    Repeat,
    RunEnd,
    Sample,
    log_digest,
    samples_of,
    tables_of,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class RunInfo:
    """What is known of a repeat without reading its rows."""

    repeat: int
    digest: str
    actors: tuple[Actor, ...]
    events: tuple[Event, ...]
    end: RunEnd
    rows: int


@dataclass(frozen=True)
class Block:
    """Some repeats, dense: ``values[channel][repeat, column]``, ``present`` None when every pair exists.

    ``digests[repeat, column]`` are 128 bits per pair as two whole numbers, zero where absent; None unless asked for.
    """

    repeats: tuple[int, ...]
    values: dict[str, Floats]
    present: Bools | None
    digests: NDArray[np.uint64] | None = None


class CellTrace(ABC):
    """Repeats of one cell."""

    header: Header

    def __repr__(self) -> str:
        # Of the header alone: to show a cell at the end of a notebook's input must not read its files.
        told = self.header
        return f"<{type(self).__name__} {told.cell!r} of {told.experiment!r}: {told.simulator}, {told.scenario}>"

    @property
    @abstractmethod
    def runs(self) -> tuple[RunInfo, ...]:
        """All repeats, in order."""

    @property
    @abstractmethod
    def ticks(self) -> Ints:
        """Every tick that any repeat logged, ascending."""

    @abstractmethod
    def blocks(self, channels: Sequence[str], *, digests: bool = False) -> Iterator[Block]:
        """Read all repeats in order, a bounded number at a time."""

    @abstractmethod
    def load(self, repeat: int) -> Repeat:
        """Read one repeat whole."""

    @abstractmethod
    def host_logs(self) -> Iterator[tuple[int, HostLog]]:
        """Read the host logs of all repeats."""

    def sensor_tables(self) -> tuple[FrameTable, ...]:
        """The frames of all sensors of all repeats; none where nothing was sensed."""
        return ()

    def sensor_samples(self, digests: frozenset[bytes]) -> dict[bytes, Sample]:
        """The contents that were kept of some frames, by digest."""
        return {}

    def input_digests(self) -> dict[int, str]:
        """Which repeats had the same inputs to the bit, by digest; without those of which nobody took down what went in."""
        return {}

    def inputs(self, repeat: int) -> InputLog | None:
        """What went into one repeat; None where nobody took it down."""
        return None

    @cached_property
    def actors(self) -> tuple[Actor, ...]:
        """Every actor of any repeat, by id (an id that changes its type between repeats stands there twice)."""
        return tuple(sorted({actor for run in self.runs for actor in run.actors}))

    @cached_property
    def actor_ids(self) -> Ints:
        """The distinct actor ids, ascending."""
        return np.unique(np.array([actor.id for actor in self.actors], np.int64))

    @property
    def columns(self) -> int:
        """How many (tick, actor) pairs there are."""
        return len(self.ticks) * len(self.actor_ids)

    def time_s(self, tick: int) -> float:
        """Simulated time of a tick."""
        return float(tick * self.header.step_s)


class MemoryCell(CellTrace):
    """A cell whose repeats are in memory: imported logs and tests."""

    def __init__(self, header: Header, repeats: Iterable[Repeat], block_values: int = 1 << 22) -> None:
        self.header = header
        self.repeats = tuple(sorted(repeats, key=lambda repeat: repeat.repeat))
        self._block_values = block_values

    @cached_property
    def runs(self) -> tuple[RunInfo, ...]:
        return tuple(info_of(repeat) for repeat in self.repeats)

    @cached_property
    def ticks(self) -> Ints:
        return np.unique(np.concatenate([np.unique(repeat.tick) for repeat in self.repeats] or [np.empty(0, np.int64)]))

    def blocks(self, channels: Sequence[str], *, digests: bool = False) -> Iterator[Block]:
        size = max(1, self._block_values // max(1, self.columns * max(1, len(channels))))
        for start in range(0, len(self.repeats), size):
            yield dense_block(self, self.repeats[start : start + size], channels, digests=digests)

    def load(self, repeat: int) -> Repeat:
        return next(known for known in self.repeats if known.repeat == repeat)

    def host_logs(self) -> Iterator[tuple[int, HostLog]]:
        for repeat in self.repeats:
            yield repeat.repeat, repeat.host

    def sensor_tables(self) -> tuple[FrameTable, ...]:
        return tables_of((repeat.repeat, frame) for repeat in self.repeats for frame in repeat.sensors)

    def sensor_samples(self, digests: frozenset[bytes]) -> dict[bytes, Sample]:
        kept = samples_of(frame for repeat in self.repeats for frame in repeat.sensors)
        return {digest: sample for digest, sample in kept if digest in digests}

    def input_digests(self) -> dict[int, str]:
        return {repeat.repeat: log_digest(repeat.inputs) for repeat in self.repeats if repeat.inputs is not None}

    def inputs(self, repeat: int) -> InputLog | None:
        return self.load(repeat).inputs


def info_of(repeat: Repeat) -> RunInfo:
    """Summarise a repeat."""
    return RunInfo(repeat.repeat, repeat.digest, repeat.actors, repeat.events, repeat.end, len(repeat.tick))


def dense_block(cell: CellTrace, repeats: Sequence[Repeat], channels: Sequence[str], *, digests: bool) -> Block:
    """Lay repeats out over the cell's columns."""
    tick_rows, actor_rows = [repeat.tick for repeat in repeats], [repeat.actor for repeat in repeats]
    counts = [len(rows) for rows in tick_rows]
    row_repeat = np.repeat(np.arange(len(repeats)), counts)
    positions, present = place(cell, np.concatenate(tick_rows), np.concatenate(actor_rows), row_repeat, len(repeats))
    values = {}
    for channel in channels:
        index = cell.header.channels.index(channel)
        values[channel] = scatter(np.concatenate([repeat.values[:, index] for repeat in repeats]), positions, present)
    raw = None
    if digests:
        raw = scatter_digests(np.concatenate([repeat.digests for repeat in repeats]), positions, present)
    return Block(tuple(repeat.repeat for repeat in repeats), values, None if present.all() else present, raw)


def place(cell: CellTrace, tick: Ints, actor: Ints, row_repeat: NDArray[np.integer], repeats: int) -> tuple[Ints | None, Bools]:
    """Say where each row goes in a dense (repeat, column) block; None when the rows are dense as they stand."""
    actors = len(cell.actor_ids)
    present = np.zeros((repeats, cell.columns), np.bool_)
    column = np.searchsorted(cell.ticks, tick) * actors + np.searchsorted(cell.actor_ids, actor)
    position = row_repeat * cell.columns + column
    present.reshape(-1)[position] = True
    if len(position) == present.size and bool(np.all(position == np.arange(present.size))):
        return None, present
    return position.astype(np.int64), present


def scatter(rows: Floats, positions: Ints | None, present: Bools) -> Floats:
    """Put row values at their places; absent ones hold NaN and are never to be read."""
    if positions is None:
        return rows.reshape(present.shape)
    result = np.full(present.size, np.nan)
    result[positions] = rows
    return result.reshape(present.shape)


def scatter_digests(rows: NDArray[np.uint8], positions: Ints | None, present: Bools) -> NDArray[np.uint64]:
    """Put row digests at their places, each as two 64-bit numbers; absent ones are zero."""
    raw = np.ascontiguousarray(rows).view(np.uint64).reshape(-1, 2)
    if positions is None:
        return raw.reshape(*present.shape, 2)
    result = np.zeros((present.size, 2), np.uint64)
    result[positions] = raw
    return result.reshape(*present.shape, 2)
