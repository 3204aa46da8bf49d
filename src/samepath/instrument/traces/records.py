"""The records of a trace, frozen and typed: a :class:`Header` per cell and a :class:`Repeat` per run of it.

Digests make «bit-identical» cheap to decide and impossible to get wrong by rounding. Every (tick, actor) row has one, chained
over all that the actor did until then (:func:`row_digests`): two repeats are equal up to a tick exactly if their digests at
that tick are, so that the first difference is found by looking at digests alone. A run's digest covers rows, events and end;
it leaves out what the host did, what sensors saw and what went in, which are compared on their own.

Sensors: a frame is an array (an image u8[height, width, channels], points f32[n, 4], numbers f64[n]). Its digest covers type,
shape and every bit. Whole contents are kept of some frames only, as samples, to tell by how much frames differ; equal ones are
stored once.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samepath.core.digests import LINK_BYTES, array_digest, first_link, link
from samepath.core.inputs import InputLog

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Digests = NDArray[np.uint8]
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Header:
    """What all repeats of a cell share.

    ``lossless`` says that the log holds the simulator's own numbers, bit for bit; where it is False the log is a rounded
    copy and equal logs only show equality at its resolution. ``condition`` is what was varied on purpose, ``settings``
    what was held equal; ``variant`` tells apart the ways in which a study uses one simulator. ``time_scale`` is simulated
    seconds per second where the wall clock drove the runs, None where none did or nobody noted it; ``frame_work_s`` is
    arithmetic in every frame that stood for rendering.
    """

    experiment: str
    cell: str
    scenario: str
    channels: tuple[str, ...]
    step_s: float
    simulator: str = ""
    simulator_version: str = ""
    condition: dict[str, str | float | int | bool] = field(default_factory=dict)
    settings: dict[str, str | float | int | bool] = field(default_factory=dict)
    lossless: bool = True
    source: str = ""
    variant: str = ""
    time_scale: float | None = None
    frame_work_s: float = 0.0
    schema_version: int = SCHEMA_VERSION


class EventKind(StrEnum):
    """Events every simulator may report; any other word is an event of the user's own."""

    COLLISION = "collision"
    SPAWN = "spawn"
    DESTROY = "destroy"
    END = "end"


@dataclass(frozen=True, order=True)
class Actor:
    """A dynamic element of a scene. Ids are the same in every repeat of a cell and never reused within one."""

    id: int
    type: str


@dataclass(frozen=True)
class Event:
    """Something that happened at a tick. A collision names both actors (``other`` None: static scenery) and the impulse."""

    tick: int
    kind: str
    actor: int | None = None
    other: int | None = None
    impulse_ns: tuple[float, float, float] | None = None
    detail: str = ""

    def to_bytes(self) -> bytes:
        """Return the event's exact content, for digests."""
        impulse = b"" if self.impulse_ns is None else np.asarray(self.impulse_ns, "<f8").tobytes()
        words = (self.tick, self.kind, self.actor, self.other, self.detail)
        return "\x1f".join(str(word) for word in words).encode() + b"\x1f" + impulse


@dataclass(frozen=True)
class RunEnd:
    """How a run ended: after which tick, why, and whether that is a completed run or one cut off."""

    tick: int
    reason: str
    completed: bool = True


@dataclass(frozen=True)
class HostSample:
    """What the host did at a moment of the run; ``gpu_ratio`` is None where there is no GPU to read."""

    tick: int
    wall_s: float
    cpu_ratio: float
    core_ratios: tuple[float, ...]
    gpu_ratio: float | None = None


@dataclass(frozen=True)
class HostLog:
    """Host samples and the wall time each tick took. Varies from run to run by nature: never part of a digest.

    ``frame_s``, ``game_s`` and ``draw_s`` are those of every frame of an engine that tells them, ``frame_ticks`` the tick that
    each had reached: a whole frame until the next began, the work in it but for drawing, and drawing (Unreal's ``stat unit``).
    ``measured`` is what was read back of the conditions that were asked for, by the same names, and how the repeat was run:
    ``cpu_load`` 0.74, ``nice`` 0, ``cores`` "0-1", ``isolation`` "batch", ``position`` 3 (the fourth repeat of its process),
    ``renderer`` "cuda" (who has really drawn the run's cameras, where it has any).
    """

    samples: tuple[HostSample, ...] = ()
    latency_ticks: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    latency_s: Floats = field(default_factory=lambda: np.empty(0, np.float64))
    measured: dict[str, str | float | int | bool] = field(default_factory=dict)
    frame_ticks: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    frame_s: Floats = field(default_factory=lambda: np.empty(0, np.float64))
    game_s: Floats = field(default_factory=lambda: np.empty(0, np.float64))
    draw_s: Floats = field(default_factory=lambda: np.empty(0, np.float64))


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


@dataclass(frozen=True)
class Repeat:
    """One run: rows sorted by tick, then actor id; ``values[row, channel]``; NaN means the channel does not apply.

    ``inputs`` is what went in, which tells why two runs part; None where nobody took it down.
    """

    repeat: int
    actors: tuple[Actor, ...]
    channels: tuple[str, ...]
    tick: Ints
    actor: Ints
    time_s: Floats
    values: Floats
    events: tuple[Event, ...]
    end: RunEnd
    digests: Digests
    host: HostLog = field(default_factory=HostLog)
    sensors: tuple[SensorFrame, ...] = ()
    inputs: InputLog | None = None

    @property
    def digest(self) -> str:
        """Name of the whole run: states, events and end, without host samples, sensors and inputs; 32 hex digits."""
        chain = link(first_link("run", *self.channels), self.digests.tobytes())
        for event in self.events:
            chain = link(chain, event.to_bytes())
        return link(chain, f"{self.end.tick}\x1f{self.end.reason}\x1f{self.end.completed}".encode()).hex()


def row_digests(
    actors: tuple[Actor, ...], channels: tuple[str, ...], tick: Ints, actor: Ints, time_s: Floats, values: Floats
) -> Digests:
    """Chain the exact bits of each actor's rows: the digest of (tick, actor) covers all that actor did until then."""
    packed = np.empty((len(tick), values.shape[1] + 2), "<f8")
    packed[:, 0].view("<i8")[:] = tick
    packed[:, 1] = time_s
    packed[:, 2:] = values
    # «Does not apply» has one bit pattern: NaNs of other origin have other bits, and equal rows would differ.
    packed[:, 2:][np.isnan(values)] = np.nan
    rows = packed.tobytes()
    width = packed.shape[1] * 8
    chains = {actor.id: first_link("actor", actor.id, actor.type, *channels) for actor in actors}
    digests = bytearray(LINK_BYTES * len(tick))
    for row, actor_id in enumerate(actor.tolist()):
        chain = link(chains[actor_id], rows[row * width : (row + 1) * width])
        chains[actor_id] = chain
        digests[row * LINK_BYTES : (row + 1) * LINK_BYTES] = chain
    return np.frombuffer(bytes(digests), np.uint8).reshape(-1, LINK_BYTES)


def log_digest(log: InputLog) -> str:
    """Name a log: what is in it, and what it covers. Two that cover other kinds do not say the same."""
    return link(first_link("log", str(log.step_s), *sorted(log.covers)), log.digest.encode()).hex()


def frame_of(tick: int, sensor: str, kind: str, values: NDArray[Any], *, keep: bool) -> SensorFrame:
    """Make a record of a measurement."""
    content = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    sample = Sample(content.dtype.str, content.shape, content.tobytes())
    digest = array_digest(sample.dtype, sample.shape, sample.data)
    return SensorFrame(tick, sensor, kind, digest, sample if keep else None)


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
    digest = np.frombuffer(b"".join(row[2] for row in rows), np.uint64).reshape(-1, 2)
    repeat, tick = np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], np.int64)
    return FrameTable(sensor, kind, repeat, tick, digest)


def samples_of(frames: Iterable[SensorFrame]) -> Iterator[tuple[bytes, Sample]]:
    """The contents among some frames, by digest."""
    for frame in frames:
        if frame.sample is not None:
            yield frame.digest, frame.sample
