"""What an episode gave, as plain frozen records that are kept as JSON."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from samepath.base.errors import InputError
from samepath.sim.cluster.measuring.plan import LEAST_FRAMES_PER_S, Cell, Resolution


@dataclass(frozen=True)
class Latency:
    """How long something took, over all times it was measured; None where it never was."""

    count: int = 0
    mean_s: float | None = None
    median_s: float | None = None
    p99_s: float | None = None
    max_s: float | None = None

    @classmethod
    def of(cls, values_s: Sequence[float]) -> "Latency":
        """Sum up samples; the quantiles are samples themselves."""
        if not values_s:
            return cls()
        order = sorted(values_s)

        def quantile(part: float) -> float:
            return order[max(math.ceil(part * len(order)) - 1, 0)]

        return cls(len(order), math.fsum(order) / len(order), quantile(0.5), quantile(0.99), order[-1])


@dataclass(frozen=True)
class ServerFigures:
    """A node, or the main server: what it drew, how long a step took it, how fast it answers.

    ``step_s`` is from orders to the last frame, ``busy_s`` the part of it in which it drew; the main server draws nothing.
    """

    name: str
    images: int = 0
    images_per_s: float = 0.0
    frames_per_s: float | None = None  # steps a second if it were alone
    step_s: float | None = None
    busy_s: float | None = None
    late_frames: int = 0
    dropped_frames: int = 0
    answers_itself: Latency = Latency()
    asks_main: Latency = Latency()


@dataclass(frozen=True)
class Episode:
    """An episode. ``step_s`` is the main server's own: from the start of a tick to its last frame, without the client's part.

    ``images_per_s`` is over the steps in lockstep, where the client decides between them, and over the wall clock in real
    time. ``driving_s`` is what deciding took per tick and is in no other figure; ``frames_per_s`` is per camera.
    """

    cell: Cell
    ticks: int
    wall_s: float
    step_s: float
    images: int
    images_per_s: float
    frames_per_s: float
    received: int
    skipped: int
    late_frames: int
    dropped_frames: int
    worst_lateness_s: float
    moved: int
    desynchronised: int
    driving_s: float
    commands: Latency
    servers: tuple[ServerFigures, ...]

    @property
    def reaches_limit(self) -> bool:
        """Were there at least ten frames a second?"""
        return self.frames_per_s >= LEAST_FRAMES_PER_S

    @property
    def nodes(self) -> tuple[ServerFigures, ...]:
        """Those that draw."""
        return self.servers[1:]

    def plain(self) -> dict[str, Any]:
        """The episode as JSON data."""
        return asdict(self) | {"cell": self.cell._asdict() | {"resolution": str(self.cell.resolution)}}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Episode":
        """The episode of :meth:`plain`."""
        try:
            given = dict(plain)
            cell = given.pop("cell")
            where = Cell(cell["mode"], cell["nodes"], Resolution.of(cell["resolution"]), cell["vehicles"])
            servers = tuple(_server(one) for one in given.pop("servers"))
            return cls(cell=where, servers=servers, commands=Latency(**given.pop("commands")), **given)
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"an episode of samepath bench cluster was wanted, but {error} is wrong with what came") from error


def _server(plain: Mapping[str, Any]) -> ServerFigures:
    given = dict(plain)
    itself, main = (Latency(**given.pop(name)) for name in ("answers_itself", "asks_main"))
    return ServerFigures(**given, answers_itself=itself, asks_main=main)
