"""What sensors measured in a run: a digest of every frame, and the whole content of some.

A frame is an array: an image u8[height, width, channels], points f32[n, 4], numbers f64[n]. Its digest covers type, shape and
every bit. Contents are kept as samples, so that it can be told by how much frames differ; equal ones are stored once.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samepath.base.digests import LINK_BYTES

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sample:
    """The content of a frame: numpy's name of its type in little-endian order, shape and bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @property
    def array(self) -> NDArray[Any]:
        """The frame as an array, read-only."""
        return np.frombuffer(self.data, self.dtype).reshape(self.shape)


@dataclass(frozen=True, slots=True)
class SensorFrame:
    """One measurement of one sensor; ``sample`` None: only its digest was kept."""

    tick: int
    sensor: str
    kind: str
    digest: bytes
    sample: Sample | None = None


def frame_of(tick: int, sensor: str, kind: str, values: NDArray[Any], *, keep: bool) -> SensorFrame:
    """Make a record of a measurement."""
    content = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    sample = Sample(content.dtype.str, content.shape, content.tobytes())
    digest = hashlib.blake2b(f"{sample.dtype}\x1f{sample.shape}\x1f".encode() + sample.data, digest_size=LINK_BYTES)
    return SensorFrame(tick, sensor, kind, digest.digest(), sample if keep else None)


@dataclass(frozen=True)
class FrameTable:
    """The frames of one sensor over many repeats, by repeat and tick; ``digest`` u64[row, 2]."""

    sensor: str
    kind: str
    repeat: Ints
    tick: Ints
    digest: NDArray[np.uint64]

    @cached_property
    def by_repeat(self) -> dict[int, slice]:
        """Where the rows of each repeat are."""
        numbers, starts = np.unique(self.repeat, return_index=True)
        ends = [*starts[1:].tolist(), len(self.repeat)]
        return {number: slice(a, b) for number, a, b in zip(numbers.tolist(), starts.tolist(), ends, strict=True)}


def tables_of(rows: Iterable[tuple[int, SensorFrame]]) -> tuple[FrameTable, ...]:
    """Sort frames, each with its repeat, into one table per sensor, by name."""
    found: dict[tuple[str, str], list[tuple[int, int, bytes]]] = {}
    for repeat, frame in rows:
        found.setdefault((frame.sensor, frame.kind), []).append((repeat, frame.tick, frame.digest))
    return tuple(_table(sensor, kind, rows) for (sensor, kind), rows in sorted(found.items()))


def _table(sensor: str, kind: str, rows: list[tuple[int, int, bytes]]) -> FrameTable:
    rows = sorted(rows)
    digest = np.frombuffer(b"".join(one[2] for one in rows), np.uint64).reshape(-1, 2)
    repeat, tick = np.array([one[0] for one in rows], np.int64), np.array([one[1] for one in rows], np.int64)
    return FrameTable(sensor, kind, repeat, tick, digest)


def samples_of(frames: Iterable[SensorFrame]) -> Iterator[tuple[bytes, Sample]]:
    """The contents among some frames, by digest."""
    for frame in frames:
        if frame.sample is not None:
            yield frame.digest, frame.sample
