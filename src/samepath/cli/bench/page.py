"""The page of a cluster's measurements: one HTML file that needs no network and no script."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import samepath
from samepath.cli.bench.figures import figures, limits
from samepath.sim.cluster.measuring.plan import Plan
from samepath.sim.cluster.measuring.records import Episode

_SHOWN: Final = ("date_utc", "command", "samepath", "python", "libraries", "operating_system", "cpu", "memory", "load_average")
_SKIPPED: Final = ("checkout", "configure_flags", "compile_flags", "float_flags", "numa_nodes")


def render(plan: Plan, episodes: Sequence[Episode], provenance: Mapping[str, Any]) -> str:
    """Return the page."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("samepath.cli.bench", "templates"), PackageLoader("samepath.report", "templates")]),
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
        rows=[one.words() for one in limits(episodes)],
        best=max(episodes, key=lambda one: one.images_per_s, default=None),
        figures=[(one.number, one.caption, Markup(one.svg)) for one in figures(episodes)],  # noqa: S704 - our own drawing
        episodes=[_words(one) for one in sorted(episodes, key=lambda one: one.cell)],
        lost=sum(one.images - one.received for one in episodes if one.cell.mode == "lockstep"),
        desynchronised=sum(one.desynchronised for one in episodes),
        provenance=list(_rows({name: provenance[name] for name in _SHOWN if name in provenance})),
    )


def _words(episode: Episode) -> tuple[str, ...]:
    cell = episode.cell
    calls = [one.answers_itself.median_s for one in episode.nodes if one.answers_itself.median_s is not None]
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
