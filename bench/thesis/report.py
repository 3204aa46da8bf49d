"""The figures of a cluster's measurements, in the order of the thesis' chapter 8."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import samepath
from bench.thesis.plan import LEAST_FRAMES_PER_S, Mode, Plan, Resolution
from bench.thesis.records import Episode, Latency, ServerFigures
from samepath.instrument.report.svg import INK, MUTED, PALETTE, WIDTH_PX, draw

_LEFT_PX, _RIGHT_PX, _HEAD_PX, _PLOT_PX = 66.0, 14.0, 10.0, 230.0
_ROW_PX: Final = 18.5
_DOTTED: Final = (0, (1, 2))
_DASHED: Final = (0, (5, 3))
_VEHICLES: Final = "vehicles in simulation"
_IMAGES: Final = "images per second"
_MS: Final = 1e3


@dataclass(frozen=True)
class Series:
    """A line of a figure: (x, y) by rising x; ``limit`` is the point of the last episode with ten frames a second."""

    name: str
    points: tuple[tuple[float, float], ...]
    limit: tuple[float, float] | None = None
    colour: int = 0
    dashed: bool = False


@dataclass(frozen=True)
class Figure:
    """A figure with its caption; ``number`` is that of the thesis' figure that it repeats, empty where there is none."""

    number: str
    caption: str
    svg: str


@dataclass(frozen=True)
class Reference:
    """A figure of the thesis, as a horizontal line: for orientation."""

    name: str
    value: float


ONE_180: Final = Reference("thesis, GTX 1080 Ti, 180x120: 80", 80.0)
ONE_1440: Final = Reference("thesis, GTX 1080 Ti, 1440x960: 70", 70.0)
FOUR: Final = Reference("thesis, four servers: 150", 150.0)


@dataclass(frozen=True)
class Limit:
    """A setting: its best episode, and the last one that reached ten frames a second, if any did."""

    mode: Mode
    nodes: int
    resolution: Resolution
    best: Episode
    last: Episode | None

    def words(self) -> tuple[str, ...]:
        """The row of a table."""
        reached = (str(self.last.cell.vehicles), f"{self.last.images_per_s:.0f}") if self.last else ("none", "")
        best = (f"{self.best.images_per_s:.0f}", str(self.best.cell.vehicles))
        return (self.mode, str(self.nodes), str(self.resolution), *best, *reached)


def last_at_limit(episodes: Iterable[Episode]) -> Episode | None:
    """The last episode, by vehicles, that reached ten frames a second."""
    return max(
        (episode for episode in episodes if episode.reaches_limit), key=lambda episode: episode.cell.vehicles, default=None
    )


def limits(episodes: Sequence[Episode]) -> list[Limit]:
    """All settings, in their order."""
    rows = []
    for (mode, nodes, resolution), group in groupby(_ordered(episodes), key=lambda episode: episode.cell[:3]):
        own = list(group)
        rows.append(Limit(mode, nodes, resolution, max(own, key=lambda episode: episode.images_per_s), last_at_limit(own)))
    return rows


def figures(episodes: Sequence[Episode]) -> list[Figure]:
    """All figures for which there are episodes."""
    made: list[Figure] = []
    lockstep = [episode for episode in episodes if episode.cell.mode == "lockstep"]
    if lockstep:
        made += _lockstep(lockstep)
    real_time = [episode for episode in episodes if episode.cell.mode == "real time"]
    if real_time:
        made += _real_time(real_time)
    return made


def _lockstep(episodes: Sequence[Episode]) -> list[Figure]:
    fewest, most = _ends(episode.cell.nodes for episode in episodes)
    small, large = _ends(episode.cell.resolution for episode in episodes)
    alone = [episode for episode in episodes if episode.cell.nodes == fewest]
    together = [episode for episode in episodes if episode.cell.nodes == most]
    who, all_of = _count(fewest), _count(most)
    limit_ms = _MS / LEAST_FRAMES_PER_S
    made = [
        _figure(
            "8.2", f"Time of a step with {who}, by resolution. Dotted: 10 steps a second.", "step (ms)",
            _by_resolution(alone, lambda episode: _MS * episode.step_s), line=Reference("10 steps a second", limit_ms),
        ),
        _figure(
            "8.3", f"Images of all cameras a second with {who}. {_DOTS}", _IMAGES,
            _by_resolution(alone, lambda episode: episode.images_per_s), references=(ONE_180, ONE_1440),
        ),
        _figure(
            "8.4", f"Images a second at {small} with rising numbers of nodes. {_DOTS}", _IMAGES,
            _by_nodes(_at_size(episodes, small), lambda episode: episode.images_per_s),
            references=(ONE_180, FOUR),
        ),
    ]  # fmt: skip
    for number, resolution in (("8.5", small), ("8.6", large)):
        own = _at_size(together, resolution)
        words = f"Images a second that each of {all_of} draws at {resolution}. {_DOTS}"
        made.append(_figure(number, words, _IMAGES, _by_server(own, lambda server: server.images_per_s)))
    made.append(
        _figure(
            "8.7", f"Images of all cameras a second with {all_of}, by resolution. {_DOTS}", _IMAGES,
            _by_resolution(together, lambda episode: episode.images_per_s), references=(FOUR,),
        )
    )  # fmt: skip
    for number, resolution in (("8.8", small), ("8.9", large)):
        own = _at_size(together, resolution)
        words = f"Time of a step on each of {all_of} at {resolution}, from its requests to its last frame."
        made.append(
            _figure(
                number,
                words,
                "step (ms)",
                _by_server(own, lambda server: _scaled(server.step_s)),
                line=Reference("10 a second", limit_ms),
            )
        )
    for number, resolution in (("8.10", small), ("8.11", large)):
        own = _at_size(together, resolution)
        made.append(_latencies(number, f"at {resolution}, {all_of}, lockstep", own))
    words = f"Control commands at {small}: mean time from a node's receipt to the step that feels it, by number of nodes."
    own = _at_size(episodes, small)
    made.append(
        _figure("", words, "latency (ms)", _by_nodes(own, lambda episode: _scaled(episode.commands.mean_s), marked=False))
    )
    return made


def _real_time(episodes: Sequence[Episode]) -> list[Figure]:
    _, most = _ends(episode.cell.nodes for episode in episodes)
    small, _ = _ends(episode.cell.resolution for episode in episodes)
    together = [episode for episode in episodes if episode.cell.nodes == most]
    all_of = _count(most)
    share = f"Real time, {all_of}: share of due frames"
    return [
        _figure(
            "", f"Real time, {all_of}: frames a second of each camera, by resolution. Dotted: 10.", "frames per second",
            _by_resolution(together, lambda episode: episode.frames_per_s),
            line=Reference("10 frames a second", LEAST_FRAMES_PER_S),
        ),
        _figure(
            "", f"{share} that came later than the next step.", "late (%)",
            _by_resolution(together, lambda episode: 100.0 * episode.late_frames / _due(episode), marked=False),
        ),
        _figure(
            "", f"{share} that were left out because their node was busy.", "left out (%)",
            _by_resolution(together, lambda episode: 100.0 * episode.dropped_frames / _due(episode), marked=False),
        ),
        _latencies("", f"at {small}, {all_of}, real time", _at_size(together, small)),
    ]  # fmt: skip


def _at_size(episodes: Iterable[Episode], resolution: Resolution) -> list[Episode]:
    return [episode for episode in episodes if episode.cell.resolution == resolution]


_DOTS: Final = "Dots: the last episode with at least 10 frames a second."


def _due(episode: Episode) -> int:
    return max(episode.ticks * episode.cell.vehicles, 1)


def _latencies(number: str, where: str, episodes: Sequence[Episode]) -> Figure:
    series = _by_server(episodes, lambda server: _median(server.answers_itself), main=True, marked=False)
    asked = _by_server(episodes, lambda server: _median(server.asks_main), main=True, marked=False)
    dashed = [Series(f"{server.name}, by main", server.points, None, server.colour, dashed=True) for server in asked]
    words = f"Median time of a call {where}: lines are answered by the one asked, dashes by the main server between two steps."
    return _figure(number, words, "latency (ms)", [*series, *dashed], logarithmic=True)


def _median(latency: Latency) -> float | None:
    return _scaled(latency.median_s)


def _scaled(value_s: float | None) -> float | None:
    return None if value_s is None else _MS * value_s


def _ends(values: Iterable[Any]) -> tuple[Any, Any]:
    found = sorted(set(values))
    return found[0], found[-1]


def _count(nodes: int) -> str:
    return "1 node" if nodes == 1 else f"{nodes} nodes"


def _ordered(episodes: Iterable[Episode]) -> list[Episode]:
    return sorted(episodes, key=lambda episode: episode.cell)


Value = Callable[[Episode], float | None]


def _series(name: str, colour: int, episodes: Iterable[Episode], value: Value, *, marked: bool = True) -> Series:
    own = [(episode, found) for episode in _ordered(episodes) if (found := value(episode)) is not None]
    points = {episode.cell.vehicles: found for episode, found in own}
    last = last_at_limit(episode for episode, _ in own) if marked else None
    limit = (last.cell.vehicles, points[last.cell.vehicles]) if last is not None else None
    return Series(name, tuple(points.items()), limit, colour)


def _by_resolution(episodes: Sequence[Episode], value: Value, *, marked: bool = True) -> list[Series]:
    sizes = sorted({episode.cell.resolution for episode in episodes})
    return [
        _series(str(size), k, [episode for episode in episodes if episode.cell.resolution == size], value, marked=marked)
        for k, size in enumerate(sizes)
    ]


def _by_nodes(episodes: Sequence[Episode], value: Value, *, marked: bool = True) -> list[Series]:
    counts = sorted({episode.cell.nodes for episode in episodes})
    return [
        _series(_count(count), k, [episode for episode in episodes if episode.cell.nodes == count], value, marked=marked)
        for k, count in enumerate(counts)
    ]


def _by_server(
    episodes: Sequence[Episode], value: Callable[[ServerFigures], float | None], *, main: bool = False, marked: bool = True
) -> list[Series]:
    names = list(dict.fromkeys(server.name for episode in episodes for server in (episode.servers if main else episode.nodes)))

    def of(name: str) -> Value:
        return lambda episode: next((value(server) for server in episode.servers if server.name == name), None)

    return [_series(name, k, episodes, of(name), marked=marked) for k, name in enumerate(names)]


def _figure(
    number: str,
    caption: str,
    unit: str,
    series: Sequence[Series],
    *,
    line: Reference | None = None,
    references: Sequence[Reference] = (),
    logarithmic: bool = False,
) -> Figure:
    entries = len(series) + len(references) + (line is not None)
    foot_px = 50.0 + _ROW_PX * math.ceil(entries / 2)
    height_px = _HEAD_PX + _PLOT_PX + foot_px

    def paint(figure: Any) -> None:  # noqa: ANN401 - matplotlib's own object
        width, top = WIDTH_PX - _LEFT_PX - _RIGHT_PX, _PLOT_PX / height_px
        axes = figure.add_axes((_LEFT_PX / WIDTH_PX, foot_px / height_px, width / WIDTH_PX, top))
        for curve in series:
            colour = PALETTE[curve.colour % len(PALETTE)]
            x, y = [at[0] for at in curve.points], [at[1] for at in curve.points]
            axes.plot(x, y, color=colour, linestyle=_DASHED if curve.dashed else "-", label=curve.name)
            if curve.limit is not None:
                axes.plot(*curve.limit, "o", color=colour, markersize=7, clip_on=False)
        for style, reference in zip((_DASHED, _DOTTED), references, strict=False):
            axes.axhline(reference.value, color=MUTED, linestyle=style, linewidth=1.0, label=reference.name)
        if line is not None:
            axes.axhline(line.value, color=INK, linestyle=_DOTTED, linewidth=1.4, label=line.name)
        if logarithmic:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.yaxis.set_minor_formatter(lambda *_: "")
        else:
            axes.set_ylim(bottom=0.0)
        axes.set_xlim(left=0.0)
        axes.grid(visible=True)
        axes.set_xlabel(_VEHICLES)
        axes.set_ylabel(unit)
        figure.legend(loc="lower left", bbox_to_anchor=(_LEFT_PX / 3 / WIDTH_PX, 2 / height_px), ncols=2)

    return Figure(number, caption, draw(f"fig{number.replace('.', '-')}", caption, caption, height_px, paint))


# The page of a cluster's measurements: one HTML file that needs no network and no script.

_SHOWN: Final = ("date_utc", "command", "samepath", "python", "libraries", "operating_system", "cpu", "memory", "load_average")
_SKIPPED: Final = ("checkout", "configure_flags", "compile_flags", "float_flags", "numa_nodes")


def render(plan: Plan, episodes: Sequence[Episode], provenance: Mapping[str, Any]) -> str:
    """Return the page."""
    environment = Environment(
        loader=ChoiceLoader(
            [PackageLoader("bench.thesis", "templates"), PackageLoader("samepath.instrument.report", "templates")]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("cluster.html.j2").render(
        version=samepath.__version__,
        plan=plan,
        done=len(episodes),
        total=len(plan.cells()),
        rows=[row.words() for row in limits(episodes)],
        best=max(episodes, key=lambda episode: episode.images_per_s, default=None),
        figures=[(figure.number, figure.caption, Markup(figure.svg)) for figure in figures(episodes)],
        episodes=[_words(episode) for episode in sorted(episodes, key=lambda episode: episode.cell)],
        lost=sum(episode.images - episode.received for episode in episodes if episode.cell.mode == "lockstep"),
        desynchronised=sum(episode.desynchronised for episode in episodes),
        provenance=list(_rows({name: provenance[name] for name in _SHOWN if name in provenance})),
    )


def _words(episode: Episode) -> tuple[str, ...]:
    cell = episode.cell
    calls = [node.answers_itself.median_s for node in episode.nodes if node.answers_itself.median_s is not None]
    return (
        cell.mode, str(cell.nodes), str(cell.resolution), str(cell.vehicles), str(episode.ticks), f"{1e3 * episode.step_s:.2f}",
        f"{episode.images_per_s:.1f}", f"{episode.frames_per_s:.1f}", f"{1e3 * episode.driving_s:.2f}",
        f"{1e3 * max(calls):.2f}" if calls else "", f"{1e3 * episode.commands.mean_s:.1f}" if episode.commands.mean_s else "",
        str(episode.late_frames), str(episode.dropped_frames), str(episode.moved),
    )  # fmt: skip


def _rows(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in data.items():
        name = f"{prefix}{key}"
        if key in _SKIPPED:
            continue
        if isinstance(value, Mapping):
            yield from _rows(value, f"{name}.")
        else:
            yield name, " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
