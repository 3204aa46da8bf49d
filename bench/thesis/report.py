"""The figures of a cluster's measurements, in the order of the thesis' chapter 8, and the page they stand on."""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import samepath
from bench.thesis.plan import LEAST_FRAMES_PER_S, Kind, Mode, Resolution
from bench.thesis.results import Result, Series, ServerSeries
from bench.thesis.tables import Table, sentence, tables
from samepath.instrument.report.svg import INK, MUTED, PALETTE, WIDTH_PX, draw

_LEFT_PX, _RIGHT_PX, _HEAD_PX, _PLOT_PX = 66.0, 14.0, 10.0, 230.0
_ROW_PX: Final = 18.5
_DOTTED: Final = (0, (1, 2))
_DASHED: Final = (0, (5, 3))
_VEHICLES: Final = "vehicles in simulation"
_IMAGES: Final = "images per second"
_DOTS: Final = "Dots: the last episode with at least 10 frames a second."
_BANDS: Final = "Bands: from the least to the most of the repeats."


@dataclass(frozen=True)
class Curve:
    """A line of a figure: (x, y, least, most) by rising x; ``limit`` is the last point with ten frames a second."""

    name: str
    points: tuple[tuple[float, float, float, float], ...]
    limit: tuple[float, float] | None = None
    colour: int = 0
    dashed: bool = False


@dataclass(frozen=True)
class Reference:
    """A figure of the thesis, as a horizontal line: for orientation."""

    name: str
    value: float


@dataclass(frozen=True)
class Figure:
    """A figure with its caption; ``number`` is that of the thesis' figure that it repeats, empty where there is none."""

    number: str
    caption: str
    unit: str
    curves: tuple[Curve, ...]
    line: Reference | None = None
    references: tuple[Reference, ...] = ()
    logarithmic: bool = False
    x_label: str = _VEHICLES
    logarithmic_x: bool = False
    slug: str = ""  # the name of its file, where it has no number

    @property
    def digest(self) -> str:
        """Of everything that it shows: by it a picture in a file is held to the result that it was made from."""
        shown = [self.caption, self.unit, [(curve.name, curve.points, curve.limit) for curve in self.curves]]
        return hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        """What a file of it is called."""
        words = self.number.replace(".", "-").replace(", ", "-").replace(" ", "-") or self.slug
        return f"fig-{words}"


ONE_180: Final = Reference("thesis, GTX 1080 Ti, 180x120: 80", 80.0)
ONE_1440: Final = Reference("thesis, GTX 1080 Ti, 1440x960: 70", 70.0)
FOUR: Final = Reference("thesis, four servers: 150", 150.0)


def figures(result: Result) -> list[Figure]:
    """All figures for which something was measured."""
    made: list[Figure] = []
    for kind in ("equal", "unequal"):
        series = result.of("lockstep", kind)  # type: ignore[arg-type]
        if series:
            made += _lockstep(series, kind)  # type: ignore[arg-type]
    real_time = result.of("real time")
    return made + (_real_time(real_time) if real_time else []) + _eight(result)


def _lockstep(series: Sequence[Series], kind: Kind) -> list[Figure]:
    """The thesis' servers were unequal: its numbers stand with those; with equal nodes figures are beside them."""
    counts, sizes = sorted({curve.node_set.nodes for curve in series}), sorted({curve.resolution for curve in series})
    fewest, most, small, large = counts[0], counts[-1], sizes[0], sizes[-1]
    alone = [curve for curve in series if curve.node_set.nodes == fewest]
    together = [curve for curve in series if curve.node_set.nodes == most]
    who, all_of = str(alone[0].node_set), str(together[0].node_set)
    limit_ms = 1e3 / LEAST_FRAMES_PER_S
    is_theirs = kind == "unequal"

    def number(text: str) -> str:
        return text if is_theirs else f"{text}, equal nodes"

    made = [
        Figure(
            number("8.2"), f"Time of a step with {who}, by resolution. Dotted: 10 steps a second. {_BANDS}", "step (ms)",
            _by(alone, "step_ms", lambda curve: str(curve.resolution)), Reference("10 steps a second", limit_ms),
        ),
        Figure(
            number("8.3"), f"Images of all cameras a second with {who}. {_DOTS} {_BANDS}", _IMAGES,
            _by(alone, "images_per_s", lambda curve: str(curve.resolution)), references=(ONE_180, ONE_1440),
        ),
        Figure(
            number("8.4"), f"Images a second at {small} with rising numbers of nodes. {_DOTS} {_BANDS}", _IMAGES,
            _by(_at(series, small), "images_per_s", lambda curve: str(curve.node_set)), references=(ONE_180, FOUR),
        ),
    ]  # fmt: skip
    for text, size in (("8.5", small), ("8.6", large)):
        words = f"Images a second that each of {all_of} draws at {size}. {_DOTS}"
        made.append(Figure(number(text), words, _IMAGES, _by_server(_at(together, size), "images_per_s")))
    made.append(
        Figure(
            number("8.7"), f"Images of all cameras a second with {all_of}, by resolution. {_DOTS} {_BANDS}", _IMAGES,
            _by(together, "images_per_s", lambda curve: str(curve.resolution)), references=(FOUR,),
        )
    )  # fmt: skip
    for text, size in (("8.8", small), ("8.9", large)):
        words = f"Time of a step on each of {all_of} at {size}, from its requests to its last frame."
        line = Reference("10 a second", limit_ms)
        made.append(Figure(number(text), words, "step (ms)", _by_server(_at(together, size), "step_ms", marked=False), line))
    for text, size in (("8.10", small), ("8.11", large)):
        made.append(_latencies(number(text), f"at {size}, {all_of}, lockstep", _at(together, size)))
    return made


def _real_time(series: Sequence[Series]) -> list[Figure]:
    most, small = max(curve.node_set.nodes for curve in series), min(curve.resolution for curve in series)
    together = [curve for curve in series if curve.node_set.nodes == most]
    all_of = str(together[0].node_set)
    return [
        Figure(
            "", f"Real time, {all_of}: frames a second of each camera, by resolution. Dots: 10. {_BANDS}", "frames per second",
            _by(together, "frames_per_s", lambda curve: str(curve.resolution)),
            Reference("10 frames a second", LEAST_FRAMES_PER_S),
            slug="real-time",
        ),
        _latencies("", f"at {small}, {all_of}, real time", _at(together, small)),
    ]  # fmt: skip


def _eight(result: Result) -> list[Figure]:
    sizes = sorted({trial.resolution for trial in result.eight})
    if not sizes:
        return []
    curves = []
    for colour, size in enumerate(sizes):
        best: dict[int, float] = {}
        for trial in result.eight:
            if trial.resolution == size:
                best[trial.vehicles] = max(
                    best.get(trial.vehicles, 0.0), min(100.0 * trial.received / max(trial.due, 1), 100.0)
                )
        points = tuple((float(count), part, part, part) for count, part in sorted(best.items()))
        held = result.eight_vehicles(size)
        limit = (float(held.vehicles), best[held.vehicles]) if held is not None else None
        curves.append(Curve(str(size), points, limit, colour))
    words = (
        "Eight cameras per vehicle at ten pictures a second: how many of those that were due came. Dots: the last that held."
    )
    return [
        Figure("", words, "pictures that came (%)", tuple(curves), x_label="vehicles with eight cameras each", slug="eight")
    ]


def _at(series: Sequence[Series], size: Resolution) -> list[Series]:
    return [curve for curve in series if curve.resolution == size]


def _by(series: Sequence[Series], name: str, label: Callable[[Series], str]) -> tuple[Curve, ...]:
    curves = []
    for colour, curve in enumerate(series):
        values = getattr(curve, name)
        points = tuple(
            (float(count), median(repeats), min(repeats), max(repeats))
            for count, repeats in zip(curve.vehicles, values, strict=True)
        )
        limit = next(((x, y) for x, y, *_ in points if x == curve.limit), None)
        curves.append(Curve(label(curve), points, limit, colour))
    return tuple(curves)


def _by_server(series: Sequence[Series], name: str, *, main: bool = False, marked: bool = True) -> tuple[Curve, ...]:
    curves = []
    for curve in series:
        for server in curve.servers if main else curve.nodes:
            points = _points(curve, server, name)
            limit = next(((x, y) for x, y, *_ in points if x == curve.limit), None) if marked else None
            curves.append(Curve(server.name, points, limit, len(curves)))
    return tuple(curves)


def _points(series: Series, server: ServerSeries, name: str) -> tuple[tuple[float, float, float, float], ...]:
    values = zip(series.vehicles, getattr(server, name), strict=True)
    return tuple((float(count), value, value, value) for count, value in values if value is not None)


def _latencies(number: str, where: str, series: Sequence[Series]) -> Figure:
    own = _by_server(series, "call_ms", main=True, marked=False)
    asked = _by_server(series, "main_call_ms", main=True, marked=False)
    dashed = tuple(Curve(f"{curve.name}, by main", curve.points, None, curve.colour, dashed=True) for curve in asked)
    words = f"Mean time of a call {where}: lines are answered by the one asked, dashes by the main server between two steps."
    return Figure(number, words, "latency (ms)", (*own, *dashed), logarithmic=True, slug="real-time-latency")


def svg(figure: Figure) -> str:
    """The figure as inline SVG."""
    entries = len(figure.curves) + len(figure.references) + (figure.line is not None)
    foot_px = 50.0 + _ROW_PX * math.ceil(entries / 2)
    height_px = _HEAD_PX + _PLOT_PX + foot_px

    def paint(canvas: Any) -> None:  # noqa: ANN401 - matplotlib's own object
        width, top = WIDTH_PX - _LEFT_PX - _RIGHT_PX, _PLOT_PX / height_px
        axes = canvas.add_axes((_LEFT_PX / WIDTH_PX, foot_px / height_px, width / WIDTH_PX, top))
        for curve in figure.curves:
            _plot(axes, curve)
        for style, reference in zip((_DASHED, _DOTTED), figure.references, strict=False):
            axes.axhline(reference.value, color=MUTED, linestyle=style, linewidth=1.0, label=reference.name)
        if figure.line is not None:
            axes.axhline(figure.line.value, color=INK, linestyle=_DOTTED, linewidth=1.4, label=figure.line.name)
        if figure.logarithmic:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.yaxis.set_minor_formatter(lambda *_: "")
        else:
            axes.set_ylim(bottom=0.0)
        if figure.logarithmic_x:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.xaxis.set_minor_formatter(lambda *_: "")
        else:
            axes.set_xlim(left=0.0)
        axes.grid(visible=True)
        axes.set_xlabel(figure.x_label)
        axes.set_ylabel(figure.unit)
        canvas.legend(loc="lower left", bbox_to_anchor=(_LEFT_PX / 3 / WIDTH_PX, 2 / height_px), ncols=2)

    return draw(f"fig{figure.name}", figure.digest, figure.caption, height_px, paint)


def _plot(axes: Any, curve: Curve) -> None:  # noqa: ANN401 - matplotlib's own object
    colour = PALETTE[curve.colour % len(PALETTE)]
    x, y, low, high = (list(column) for column in zip(*curve.points, strict=True)) if curve.points else ([], [], [], [])
    marker = "." if len(x) < 3 else ""
    axes.plot(x, y, color=colour, linestyle=_DASHED if curve.dashed else "-", marker=marker, label=curve.name)
    if low != high:
        axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
    if curve.limit is not None:
        axes.plot(*curve.limit, "o", color=colour, markersize=7, clip_on=False)


# The page of a cluster's measurements: one HTML file that needs no network and no script.

_SHOWN: Final = ("date_utc", "command", "samepath", "python", "libraries", "operating_system", "cpu", "memory", "load_average")
_SKIPPED: Final = ("checkout", "configure_flags", "compile_flags", "float_flags", "numa_nodes")


def render(result: Result, provenance: Mapping[str, Any]) -> str:
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
    best = max(result.of("lockstep"), key=lambda series: median(series.best_images_per_s), default=None)
    return environment.get_template("cluster.html.j2").render(
        version=samepath.__version__,
        result=result,
        best=best,
        best_images_per_s=median(best.best_images_per_s) if best is not None else 0.0,
        how=f"{how(result)} {sentence(result.traffic)}",
        tables=[_shown(table) for table in tables(result)],
        figures=[(figure.number, figure.caption, Markup(svg(figure))) for figure in figures(result)],
        series=[row for series in result.series for row in _rows_of(series)],
        provenance=list(_rows({name: provenance[name] for name in _SHOWN if name in provenance})),
    )


def how(result: Result) -> str:
    """How long was measured, in a sentence, and what there was no time for."""
    fewest, most = ((end(series.ticks) for series in result.of("lockstep")) for end in (min, max))
    repeats = (
        "once" if result.most_repeats == 1 else f"{result.most_repeats} repeats" if result.least_repeats == result.most_repeats
        else f"{result.least_repeats} to {result.most_repeats} repeats"
    )  # fmt: skip
    of_all = "" if result.episodes == result.episodes_wanted else f" of {result.episodes_wanted}"
    words = f"{result.episodes}{of_all} episodes, {repeats}, map {result.plan['map_name']}"
    if result.of("lockstep"):
        words += f", episodes of {min(fewest)} to {max(most)} ticks in lockstep"
    if result.plan["budget_s"] is not None:
        words += f"; everything within {result.plan['budget_s']:g} s, which decides how many ticks an episode has"
    if result.plan["eight"] and len({trial.resolution for trial in result.eight}) < len(result.plan["resolutions"]):
        words += "; eight cameras at the smallest and the largest resolution only"
    if result.plan["left_out"]:
        words += f"; for {', '.join(map(str, result.plan['left_out']))} vehicles there was no time"
    return words + "."


def _shown(table: Table) -> dict[str, Any]:
    place = f"Figure {table.figure}" if table.figure[0].isdigit() else table.figure.capitalize()
    return {"place": place, "title": table.title, "columns": table.columns, "rows": table.rows, "note": table.note}


def _rows_of(series: Series) -> Iterator[tuple[str, ...]]:
    def words(name: str, at: int, digits: int) -> str:
        values = getattr(series, name)[at]
        return f"{median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"

    mode: Mode = series.mode
    for at, count in enumerate(series.vehicles):
        yield (
            mode, str(series.node_set), str(series.resolution), str(count), str(len(series.step_ms[at])), str(series.ticks[at]),
            words("step_ms", at, 2), words("images_per_s", at, 0), words("frames_per_s", at, 1), f"{series.between_ms[at]:.1f}",
            str(series.late[at]), str(series.dropped[at]),
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
