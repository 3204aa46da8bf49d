"""What an episode gave, as plain frozen records that are kept as JSON."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from bench.thesis.listening import ReceivedCounts
from bench.thesis.plan import LEAST_FRAMES_PER_S, Cell, NodeSet, Plan, Resolution
from bench.thesis.probes import CallLatencies
from bench.thesis.traffic import Driven
from samepath.cluster.monitor.counters import QUANTILE_VALUES
from samepath.cluster.monitor.status import ClusterStatus, NodeStatus
from samepath.core.errors import ClusterError, InputError, StoreError
from samepath.core.files import make_folder


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

    ``step_s`` is from requests to the last frame, ``busy_s`` the part of it in which it drew; the main server draws nothing.
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
    commanded: Latency = Latency()  # from a command through it to the state, at a client of its own, that shows it


@dataclass(frozen=True)
class Episode:
    """An episode. ``step_s`` is the main server's own: from the start of a tick to its last frame, without the client's part.

    ``images_per_s`` is over the steps in lockstep, where drivers decide between them, and over the wall clock in real time.
    ``between_s`` is what passed between two steps of lockstep (drivers, calls) and is in no other figure, but for ``waited_s``,
    the part in which pictures were still on their way to their listeners: ``fetched_per_s`` has it in. ``frames_per_s`` is
    per camera. ``commands`` are those of the drivers: from their receipt to the step that feels them.
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
    between_s: float
    commands: Latency
    servers: tuple[ServerFigures, ...]
    waited_s: float = 0.0  # a tick

    @property
    def fetched_per_s(self) -> float:
        """Pictures a second for one who takes those of a step before the next."""
        return self.images_per_s * self.step_s / (self.step_s + self.waited_s)

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
        cell = self.cell._asdict() | {"resolution": str(self.cell.resolution), "node_set": list(self.cell.node_set)}
        return asdict(self) | {"cell": cell}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Episode":
        """The episode of :meth:`plain`."""
        try:
            given = dict(plain)
            cell = given.pop("cell")
            size, nodes = Resolution.of(cell["resolution"]), NodeSet(*cell["node_set"])
            where = Cell(cell["repeat"], cell["mode"], nodes, size, cell["vehicles"])
            servers = tuple(_server(server) for server in given.pop("servers"))
            return cls(cell=where, servers=servers, commands=Latency(**given.pop("commands")), **given)
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"an episode of python -m bench thesis was wanted, but {error} is wrong with what came") from error


def _server(plain: Mapping[str, Any]) -> ServerFigures:
    given = dict(plain)
    latencies = {name: Latency(**given.pop(name)) for name in ("answers_itself", "asks_main", "commanded")}
    return ServerFigures(**given, **latencies)


@dataclass(frozen=True)
class EightTrial:
    """Vehicles with eight cameras each in real time: how many of the frames that were due came, and how many of those late."""

    resolution: Resolution
    nodes: int
    vehicles: int
    steps_per_s: float
    due: int
    received: int
    late: int
    step_s: float

    @property
    def holds(self) -> bool:
        """Did all of them run in real time? A frame in a hundred may be missing or late: the machine does other things."""
        return self.received >= 0.99 * self.due and self.late <= 0.01 * self.due

    def plain(self) -> dict[str, Any]:
        """The trial as JSON data."""
        return asdict(self) | {"resolution": str(self.resolution)}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "EightTrial":
        """The trial of :meth:`plain`."""
        return cls(**{**plain, "resolution": Resolution.of(plain["resolution"])})


# The results of an experiment in a folder: one line of JSON per episode, so that an interrupted one goes on where it
# was.

FILE: Final = "episodes.jsonl"
_FORMAT: Final = 3


class Store:
    """The lines of one experiment; the first says which one it is and where it was measured."""

    def __init__(self, folder: Path, plan: Plan, provenance: Mapping[str, object]) -> None:
        self.path = make_folder(folder) / FILE
        self.provenance: list[Mapping[str, Any]] = []
        self._episodes: dict[Cell, Episode] = {}
        self.eight: dict[Resolution, tuple[EightTrial, ...]] = {}
        self._good_bytes = 0
        if self.path.exists():
            self._read(plan)
        self.was = len(self._episodes)
        self.provenance.append(provenance)
        self._append({"format": _FORMAT, "plan": plan.digest(), "provenance": provenance})

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """All that are there, in the order in which they were measured."""
        return tuple(self._episodes.values())

    def __contains__(self, cell: Cell) -> bool:
        return cell in self._episodes

    def add(self, episode: Episode) -> None:
        """Keep an episode."""
        self._append({"episode": episode.plain()})
        self._episodes[episode.cell] = episode

    def add_eight(self, resolution: Resolution, trials: Sequence[EightTrial]) -> None:
        """Keep all trials of a resolution."""
        self._append({"eight": str(resolution), "trials": [trial.plain() for trial in trials]})
        self.eight[resolution] = tuple(trials)

    def _append(self, line: Mapping[str, Any]) -> None:
        data = json.dumps(line).encode() + b"\n"
        try:
            with self.path.open("r+b" if self.path.exists() else "wb") as file:
                file.seek(self._good_bytes)
                file.write(data)
                file.truncate()
        except OSError as error:
            raise StoreError(f"{self.path} could not be written: {error.strerror or error}; choose another folder") from error
        self._good_bytes += len(data)

    def _read(self, plan: Plan) -> None:
        """Take up what is there; a last line that was cut off is written over."""
        try:
            lines = self.path.read_bytes().splitlines(keepends=True)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read: {error.strerror or error}; choose another folder") from error
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                found = json.loads(line)
                if "plan" in found:
                    if found["format"] != _FORMAT or found["plan"] != plan.digest():
                        raise InputError(f"{self.path} has results of another experiment: choose another --out, or remove it")
                    self.provenance.append(found["provenance"])
                elif "eight" in found:
                    self.eight[Resolution.of(found["eight"])] = tuple(EightTrial.of(trial) for trial in found["trials"])
                else:
                    episode = Episode.of(found["episode"])
                    self._episodes[episode.cell] = episode
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(f"{self.path}:{number} is no line of python -m bench thesis: choose another --out") from error
            self._good_bytes += len(line)


# From two statuses of a cluster, and what the measuring client saw between them, to the figures of an episode.

MAIN = "main"


def summed(
    cell: Cell, before: ClusterStatus, after: ClusterStatus, pings: CallLatencies, driven: Driven, heard: ReceivedCounts
) -> Episode:
    """The figures of an episode."""
    ticks, images = after.ticks - before.ticks, after.frames - before.frames
    if ticks <= 0:
        raise ClusterError(f"{cell}: ticks were wanted, but none came")
    steps_s, wall_s = after.tick_times.sum_s - before.tick_times.sum_s, after.at_s - before.at_s
    lockstep = cell.mode == "lockstep"
    # In lockstep drivers decide between steps: that time is their own, not the cluster's.
    over_s = steps_s if lockstep else wall_s
    earlier = {node.name: node for node in before.nodes}
    nodes = [_node(node, earlier.get(node.name), over_s, pings) for node in after.nodes]
    return Episode(
        cell=cell,
        ticks=ticks,
        wall_s=wall_s,
        step_s=steps_s / ticks,
        images=images,
        images_per_s=images / over_s,
        frames_per_s=images / over_s / cell.vehicles,
        received=heard.images,
        skipped=heard.skipped,
        late_frames=after.late_frames - before.late_frames,
        dropped_frames=after.dropped_frames - before.dropped_frames,
        worst_lateness_s=after.worst_lateness_s if after.late_frames > before.late_frames else 0.0,
        moved=after.moved - before.moved,
        desynchronised=after.desynchronised - before.desynchronised,
        between_s=max(driven.wall_s - steps_s, 0.0) / ticks if lockstep else 0.0,
        waited_s=driven.waited_s / ticks,
        commands=_commands(before, after),
        servers=(_main(pings), *nodes),
    )


def _latencies(name: str, pings: CallLatencies) -> dict[str, Latency]:
    return {
        "answers_itself": Latency.of(pings.here_s.get(name, [])),
        "asks_main": Latency.of(pings.at_main_s.get(name, [])),
        "commanded": Latency.of(pings.commands_s.get(name, [])),
    }


def _main(pings: CallLatencies) -> ServerFigures:
    return ServerFigures(name=MAIN, **_latencies(MAIN, pings))


def _node(now: NodeStatus, then: NodeStatus | None, over_s: float, pings: CallLatencies) -> ServerFigures:
    if then is None or now.frames < then.frames:
        raise ClusterError(f"{now.name} was started anew while it was measured: run the command again, it goes on from here")
    images, steps = now.frames - then.frames, now.steps - then.steps
    step_s = (now.steps_s - then.steps_s) / steps if steps else None
    return ServerFigures(
        name=now.name,
        images=images,
        images_per_s=images / over_s,
        frames_per_s=1.0 / step_s if step_s else None,
        step_s=step_s,
        busy_s=(now.busy_s - then.busy_s) / steps if steps else None,
        late_frames=now.late_frames - then.late_frames,
        dropped_frames=now.dropped_frames - then.dropped_frames,
        **_latencies(now.name, pings),
    )


def _commands(before: ClusterStatus, after: ClusterStatus) -> Latency:
    """Of control commands: count and mean; quantiles are over the latest thousand, and there where all are of the episode."""
    count = after.commands.count - before.commands.count
    if not count:
        return Latency()
    mean_s = (after.commands.latencies.sum_s - before.commands.latencies.sum_s) / count
    if count < QUANTILE_VALUES:
        return Latency(count, mean_s)
    return Latency(count, mean_s, after.commands.latency_s_median, after.commands.latency_s_p99)
