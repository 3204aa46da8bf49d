"""From episodes to the result: plain data by series, every repeat kept, and what can be read off it.

A result is what ``bench/results/thesis.json`` holds and all that tables, figures and pages are made from, so that they can be
made again from that file alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, median
from typing import Any, Final

from bench.thesis.plan import KINDS, LEAST_FRAMES_PER_S, Kind, Mode, NodeSet, Plan, Resolution
from bench.thesis.records import MAIN, EightTrial, Episode, Latency, ServerFigures, Store

# A throughput is as good as the largest from this part of it on: beyond it the curve is flat, and its top a matter of chance.
SATURATED: Final = 0.95

Repeats = tuple[float, ...]
"""A value of every repeat that was measured."""


@dataclass(frozen=True)
class ServerSeries:
    """A server over rising numbers of vehicles; each value is the median over repeats, None where nothing was measured."""

    name: str
    images_per_s: tuple[float | None, ...]
    step_ms: tuple[float | None, ...]
    call_ms: tuple[float | None, ...]  # mean of calls that it answers itself
    call_p99_ms: tuple[float | None, ...]
    main_call_ms: tuple[float | None, ...]  # mean of calls that the main server answers
    command_ms: tuple[float | None, ...]  # median, from a command to the state that shows it
    command_most_ms: tuple[float | None, ...]


@dataclass(frozen=True)
class Series:
    """Episodes that differ in vehicles alone."""

    mode: Mode
    node_set: NodeSet
    resolution: Resolution
    vehicles: tuple[int, ...]
    ticks: tuple[int, ...]  # the fewest of any repeat
    step_ms: tuple[Repeats, ...]
    images_per_s: tuple[Repeats, ...]
    frames_per_s: tuple[Repeats, ...]
    between_ms: tuple[float, ...]
    felt_ms: tuple[float | None, ...]  # drivers' commands: mean from their receipt to the step that feels them
    late: tuple[int, ...]
    dropped: tuple[int, ...]
    servers: tuple[ServerSeries, ...]
    fetched_per_s: tuple[Repeats, ...] = ()  # pictures for one who takes those of a step before the next; of before that, none

    def middle(self, name: str) -> list[float]:
        """The medians over repeats."""
        return [median(values) for values in getattr(self, name)]

    @property
    def limit(self) -> int | None:
        """The last number of vehicles with at least ten frames a second, in the median of repeats."""
        at = [
            count for count, rate in zip(self.vehicles, self.middle("frames_per_s"), strict=True) if rate >= LEAST_FRAMES_PER_S
        ]
        return max(at, default=None)

    @property
    def saturation(self) -> int:
        """The first number of vehicles with (nearly) the largest throughput."""
        rates = self.middle("images_per_s")
        return next(count for count, rate in zip(self.vehicles, rates, strict=True) if rate >= SATURATED * max(rates))

    @property
    def best_images_per_s(self) -> Repeats:
        """The repeats of the number of vehicles whose median is largest."""
        return max(self.images_per_s, key=median)

    @property
    def camera_ms(self) -> Repeats:
        """What each added camera adds to a step: the slope of a straight line through the steps, for every repeat."""
        count = min(map(len, self.step_ms))
        return tuple(slope(self.vehicles, [values[k] for values in self.step_ms]) for k in range(count))

    @property
    def nodes(self) -> tuple[ServerSeries, ...]:
        """Those that draw."""
        return tuple(server for server in self.servers if server.name != MAIN)

    def plain(self) -> dict[str, Any]:
        """The series as JSON data."""
        own = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in ("node_set", "servers")}
        own |= {"resolution": str(self.resolution), "kind": self.node_set.kind, "nodes": self.node_set.nodes}
        return own | {"servers": [vars(server) for server in self.servers]}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Series":
        """The series of :meth:`plain`, also from JSON."""
        given = {
            name: _tuples(value) for name, value in plain.items() if name not in ("kind", "nodes", "servers", "resolution")
        }
        servers = tuple(ServerSeries(**{name: _tuples(value) for name, value in server.items()}) for server in plain["servers"])
        node_set, size = NodeSet(plain["kind"], plain["nodes"]), Resolution.of(plain["resolution"])
        return cls(**given, node_set=node_set, resolution=size, servers=servers)


@dataclass(frozen=True)
class Result:
    """Everything that was measured, and how."""

    plan: dict[str, Any]
    cores: int
    layouts: dict[str, str]
    traffic: str
    series: tuple[Series, ...]
    eight: tuple[EightTrial, ...]
    episodes: int
    episodes_wanted: int
    lost: int  # frames that were drawn in lockstep and never came
    desynchronised: int
    wall_s: float

    def find(self, mode: Mode, kind: Kind, nodes: int, resolution: Resolution) -> Series | None:
        """A series, if it was measured."""
        wanted = (mode, NodeSet(kind, nodes), resolution)
        return next((series for series in self.series if (series.mode, series.node_set, series.resolution) == wanted), None)

    def of(self, mode: Mode, kind: Kind | None = None) -> list[Series]:
        """All series of a mode and a kind of nodes."""
        return [series for series in self.series if series.mode == mode and kind in (None, series.node_set.kind)]

    @property
    def resolutions(self) -> list[Resolution]:
        return sorted({series.resolution for series in self.series})

    @property
    def counts(self) -> list[int]:
        """Numbers of nodes."""
        return sorted({series.node_set.nodes for series in self.series})

    @property
    def most_repeats(self) -> int:
        return max((len(values) for series in self.series for values in series.step_ms), default=0)

    @property
    def least_repeats(self) -> int:
        return min((len(values) for series in self.series for values in series.step_ms), default=0)

    @property
    def covers_the_plan(self) -> bool:
        """Was every setting measured, and all of them twice or more, though perhaps not as often as was planned?"""
        settings = sum(len(series.vehicles) for series in self.series)
        return settings * self.plan["repeats"] == self.episodes_wanted and self.least_repeats >= 2

    def eight_vehicles(self, resolution: Resolution) -> EightTrial | None:
        """The most vehicles with eight cameras that ran in real time."""
        held = [trial for trial in self.eight if trial.resolution == resolution and trial.holds]
        return max(held, key=lambda trial: trial.vehicles, default=None)

    def plain(self) -> dict[str, Any]:
        """The result as JSON data."""
        own = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in ("series", "eight")}
        return own | {"series": [series.plain() for series in self.series], "eight": [trial.plain() for trial in self.eight]}

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> "Result":
        """The result of :meth:`plain`, also from JSON."""
        given = {name: value for name, value in plain.items() if name not in ("series", "eight")}
        series = tuple(Series.of(entry) for entry in plain["series"])
        return cls(**given, series=series, eight=tuple(EightTrial.of(trial) for trial in plain["eight"]))


def result_of(plan: Plan, store: Store, cores: int, layouts: Mapping[str, str], traffic: str) -> Result:
    """Sum up what a store holds."""
    episodes = store.episodes
    return Result(
        plan=plan.plain(),
        cores=cores,
        layouts=dict(layouts),
        traffic=traffic,
        series=tuple(series_of(episodes)),
        eight=tuple(trial for trials in store.eight.values() for trial in trials),
        episodes=len(episodes),
        episodes_wanted=len(plan.cells()),
        lost=sum(episode.images - episode.received for episode in episodes if episode.cell.mode == "lockstep"),
        desynchronised=sum(episode.desynchronised for episode in episodes),
        wall_s=sum(episode.wall_s for episode in episodes),
    )


def series_of(episodes: Iterable[Episode]) -> list[Series]:
    """Episodes as series, in the order of modes, kinds, nodes and resolutions."""

    def setting(episode: Episode) -> tuple[Any, ...]:
        cell = episode.cell
        return (cell.mode, KINDS.index(cell.node_set.kind), cell.node_set.nodes, cell.resolution)

    made = []
    ordered = sorted(episodes, key=lambda episode: (*setting(episode), episode.cell.vehicles, episode.cell.repeat))
    for _, group in groupby(ordered, key=setting):
        own = [list(some) for _, some in groupby(group, key=lambda episode: episode.cell.vehicles)]
        made.append(_series(own))
    return made


def _series(groups: Sequence[Sequence[Episode]]) -> Series:
    first = groups[0][0].cell

    def of(name: str, scale: float = 1.0) -> tuple[Repeats, ...]:
        return tuple(tuple(_short(scale * getattr(episode, name)) for episode in group) for group in groups)

    names = list(dict.fromkeys(server.name for group in groups for episode in group for server in episode.servers))
    felt = [[episode.commands.mean_s for episode in group if episode.commands.mean_s is not None] for group in groups]
    return Series(
        mode=first.mode,
        node_set=first.node_set,
        resolution=first.resolution,
        vehicles=tuple(group[0].cell.vehicles for group in groups),
        ticks=tuple(min(episode.ticks for episode in group) for group in groups),
        step_ms=of("step_s", 1e3),
        images_per_s=of("images_per_s"),
        frames_per_s=of("frames_per_s"),
        between_ms=tuple(median(values) for values in of("between_s", 1e3)),
        felt_ms=tuple(_short(1e3 * median(values)) if values else None for values in felt),
        late=tuple(sum(episode.late_frames for episode in group) for group in groups),
        dropped=tuple(sum(episode.dropped_frames for episode in group) for group in groups),
        servers=tuple(_server(name, groups) for name in names),
        fetched_per_s=of("fetched_per_s"),
    )


def _server(name: str, groups: Sequence[Sequence[Episode]]) -> ServerSeries:
    own = [[server for episode in group for server in episode.servers if server.name == name] for group in groups]

    def of(read: Any, combine: Any = median, scale: float = 1.0) -> tuple[float | None, ...]:  # noqa: ANN401 - functions
        found = [[value for value in map(read, servers) if value is not None] for servers in own]
        return tuple(_short(scale * combine(values)) if values else None for values in found)

    def latency(field: str, part: str) -> Any:  # noqa: ANN401
        def read(server: ServerFigures) -> float | None:
            found: Latency = getattr(server, field)
            value: float | None = getattr(found, part)
            return value

        return read

    return ServerSeries(
        name=name,
        images_per_s=of(lambda server: server.images_per_s if name != MAIN else None),
        step_ms=of(lambda server: server.step_s, scale=1e3),
        call_ms=of(latency("answers_itself", "mean_s"), scale=1e3),
        call_p99_ms=of(latency("answers_itself", "p99_s"), scale=1e3),
        main_call_ms=of(latency("asks_main", "mean_s"), scale=1e3),
        command_ms=of(latency("commanded", "median_s"), scale=1e3),
        command_most_ms=of(latency("commanded", "max_s"), max, scale=1e3),
    )


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The slope of the straight line nearest to some points (least squares); of one point, its value per x."""
    if len(x) < 2:
        return y[0] / x[0]
    mean_x, mean_y = fmean(x), fmean(y)
    across = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return across / sum((a - mean_x) ** 2 for a in x)


def _short(value: float) -> float:
    """Six digits: more than any of these measurements has, and a file that can be read."""
    return float(f"{value:.6g}")


def _tuples(value: Any) -> Any:  # noqa: ANN401 - JSON in, tuples out
    return tuple(_tuples(each) for each in value) if isinstance(value, list | tuple) else value
