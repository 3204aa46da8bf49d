"""The records of a trace, frozen and typed: one :class:`Repeat` per run of a cell."""

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from samepath.base.digests import LINK_BYTES, first_link, link
from samepath.traces.sensors import SensorFrame

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Digests = NDArray[np.uint8]

SCHEMA_VERSION = 1


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
class End:
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

    ``measured`` is what was read back of the conditions that were asked for, by the same names, and how the repeat was run:
    ``cpu_load`` 0.74, ``nice`` 0, ``cores`` "0-1", ``isolation`` "batch", ``position`` 3 (the fourth repeat of its process).
    """

    samples: tuple[HostSample, ...] = ()
    latency_ticks: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    latency_s: Floats = field(default_factory=lambda: np.empty(0, np.float64))
    measured: dict[str, str | float | int | bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Header:
    """What all repeats of a cell share.

    ``lossless`` says that the log holds the simulator's own numbers, bit for bit; where it is False the log is a rounded
    copy and equal logs only show equality at its resolution. ``condition`` is what was varied on purpose, ``settings``
    what was held equal; ``variant`` tells apart the ways in which a study uses one simulator.
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
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True)
class Repeat:
    """One run: rows sorted by tick, then actor id; ``values[row, channel]``; NaN means the channel does not apply."""

    repeat: int
    actors: tuple[Actor, ...]
    channels: tuple[str, ...]
    tick: Ints
    actor: Ints
    time_s: Floats
    values: Floats
    events: tuple[Event, ...]
    end: End
    digests: Digests
    host: HostLog = field(default_factory=HostLog)
    sensors: tuple[SensorFrame, ...] = ()

    @property
    def digest(self) -> str:
        """Name of the whole run: states, events and end, without host samples and sensors; 32 hex digits."""
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
    packed[:, 2:][np.isnan(values)] = np.nan  # one NaN pattern for «does not apply»
    rows = packed.tobytes()
    width = packed.shape[1] * 8
    chains = {one.id: first_link("actor", one.id, one.type, *channels) for one in actors}
    digests = bytearray(LINK_BYTES * len(tick))
    for row, actor_id in enumerate(actor.tolist()):
        chain = link(chains[actor_id], rows[row * width : (row + 1) * width])
        chains[actor_id] = chain
        digests[row * LINK_BYTES : (row + 1) * LINK_BYTES] = chain
    return np.frombuffer(bytes(digests), np.uint8).reshape(-1, LINK_BYTES)
