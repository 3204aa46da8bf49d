"""``python -m bench thesis``: the thesis' measurements of a cluster, on this machine."""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table

from samepath.cli.common import command_line, stdout_console
from samepath.core.errors import InputError, SamepathError
from samepath.core.files import write_text_atomically
from samepath.instrument.progress import progress_bar, stderr_console

if TYPE_CHECKING:
    from bench.thesis.plan import Cell, Plan
    from bench.thesis.records import EightTrial, Episode, Store
    from bench.thesis.results import Result


Nodes = Annotated[str | None, typer.Option("--nodes", help="Numbers of nodes. [default: 1,2,3,4]")]
Kinds = Annotated[
    str | None, typer.Option("--kinds", help="Kinds of nodes, of equal,unequal,by-turns,card. [default: the first three]")
]
Vehicles = Annotated[str | None, typer.Option("--vehicles", help="Rising numbers of vehicles, such as 4,8,16.")]
Resolutions = Annotated[str | None, typer.Option("--resolutions", help="Sizes of pictures, such as 180x120,1440x960.")]
ModeOption = Annotated[
    Literal["all", "lockstep", "real-time", "eight"],
    typer.Option("--mode", help="Ticks as fast as they can, in real time, vehicles with eight cameras, or all of it."),
]
Map = Annotated[str | None, typer.Option("--map", help="A map on which one can drive in circles: town or oval.")]
TrafficOption = Annotated[
    Literal["carla", "pursuit"] | None,
    typer.Option("--traffic", help="Who drives. [default: CARLA's traffic manager where its client is installed]"),
]
Repeats = Annotated[
    int | None, typer.Option("--repeats", min=1, max=100, help="How often everything is measured. [default: 3]")
]
EpisodeS = Annotated[float | None, typer.Option("--episode", help="Seconds that an episode lasts, at most.")]
SettleS = Annotated[float | None, typer.Option("--settle", help="Seconds before each episode in which nothing is logged.")]
Ticks = Annotated[int | None, typer.Option("--ticks", min=1, help="Ticks that an episode lasts, at most.")]
BudgetS = Annotated[
    float | None, typer.Option("--budget-s", min=10.0, help="Do all of it in about so many seconds: episodes become shorter.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Few vehicles and short episodes, once: about two minutes.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Out = Annotated[Path, typer.Option("--out", help="Folder of the results; a second start with the same options goes on there.")]
WritePage = Annotated[
    bool, typer.Option("--write-page", help="Only write the pages in docs/ and their pictures from the kept results.")
]
Keep = Annotated[
    bool,
    typer.Option(
        "--keep",
        help="Keep the result in bench/results/thesis.json also if it is not the whole experiment, or if repeats are missing.",
    ),
]
KeepAs = Annotated[str | None, typer.Option("--keep-as", help="Keep it under another name than thesis, such as thesis-card.")]
OUT = Path("runs/thesis")


def thesis(
    nodes: Nodes = None,
    kinds: Kinds = None,
    vehicles: Vehicles = None,
    resolutions: Resolutions = None,
    mode: ModeOption = "all",
    map_name: Map = None,
    traffic: TrafficOption = None,
    repeats: Repeats = None,
    episode: EpisodeS = None,
    settle: SettleS = None,
    ticks: Ticks = None,
    budget_s: BudgetS = None,
    quick: Quick = False,
    as_json: Json = False,
    out: Out = OUT,
    keep: Keep = False,
    keep_as: KeepAs = None,
    write_page: WritePage = False,
) -> None:
    """Measure step times, image throughput and latencies of clusters of rising size, as the thesis does in chapter 8.

    Each episode has more vehicles on autopilot than the one before, each with one camera. Ctrl-C ends it, a kill too; started
    again it goes on. A whole run from a clean commit is kept in bench/results/thesis.json.
    """
    if write_page:
        from bench.thesis.page import write

        write()
        return
    from bench.tools import code_measured

    code_measured()  # what is measured is the code as it is now
    given: dict[str, object] = {
        "nodes": _numbers("--nodes", nodes) if nodes else None,
        "kinds": _kinds(kinds) if kinds else None,
        "vehicles": _numbers("--vehicles", vehicles) if vehicles else None,
        "resolutions": _sizes(resolutions) if resolutions else None,
        "modes": {"lockstep": ("lockstep",), "real-time": ("real time",), "eight": (), "all": None}[mode],
        "eight": None if mode == "all" else mode == "eight",
        "map_name": map_name,
        "repeats": repeats,
        "episode_s": episode,
        "settle_s": settle,
        "ticks": ticks,
    }
    plan = planned({name: value for name, value in given.items() if value is not None}, traffic, quick=quick, budget_s=budget_s)
    is_standard = not quick and not any(value is not None for name, value in given.items() if name not in ("repeats",))
    keep_name = keep_as or ("thesis" if is_standard or keep else "")
    _measure(plan, out, as_json=as_json, keep_name=keep_name, needs_all=not keep)


def planned(given: dict[str, object], traffic: str | None, *, quick: bool, budget_s: float | None) -> "Plan":
    """The experiment that these options ask for."""
    from bench.thesis import plan as planning
    from bench.thesis.traffic import best_kind

    plan = planning.Plan(traffic=traffic or best_kind())
    if quick:
        plan = planning.quick(plan)
    plan = replace(plan, **given)  # type: ignore[arg-type]
    return plan if budget_s is None else plan.within(budget_s)


def _measure(plan: "Plan", out: Path, *, as_json: bool, keep_name: str, needs_all: bool) -> None:
    from bench.thesis.experiment import BudgetSpentError
    from bench.thesis.placing import eight_layout, layout, usable_cores
    from bench.thesis.records import Store
    from bench.thesis.results import result_of
    from bench.thesis.traffic import version
    from bench.tools import code_measured, save
    from samepath.instrument.host.provenance import collect_provenance

    who, cores = version(plan.traffic), usable_cores()
    layouts = {str(node_set): layout(node_set, cores).words for node_set in plan.node_sets()} if plan.modes else {}
    if plan.eight:
        layouts["eight cameras per vehicle"] = eight_layout(cores).words
    provenance = collect_provenance(command_line().split(), None).as_dict()
    store = Store(out, plan, provenance)
    spent = ""
    try:
        _run(plan, store, out)
    except BudgetSpentError as error:
        spent = str(error)
    finally:  # what an interrupted experiment has found can be looked at, too
        result = result_of(plan, store, len(cores), layouts, who)
        page = write_results(out, result, store)
    if as_json:
        print(json.dumps(result.plain()))
    else:
        console = stdout_console()
        console.print(summary(result))
        console.print(f"report: {page}", soft_wrap=True, markup=False, highlight=False)
    is_whole = result.episodes == result.episodes_wanted
    if not is_whole:
        print(spent or "some episodes are missing: start it again", file=sys.stderr)
    is_enough = (is_whole or (result.covers_the_plan and not needs_all)) and (
        not plan.eight or set(store.eight) >= set(plan.eight_sizes)
    )
    if not is_enough:
        return
    if keep_name and code_measured()["clean"]:
        save(keep_name, result.plain())
        print(f"kept in bench/results/{keep_name}.json", file=sys.stderr)
        if keep_name == "thesis":
            print("python -m bench thesis --write-page shows it in the docs", file=sys.stderr)
    elif keep_name:
        print("the result is not kept: figures belong to a commit, and there are changes that no commit holds", file=sys.stderr)


def _numbers(option: str, text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in words):
        raise InputError(f"{option}: numbers such as 1,2,4 were wanted, but {text!r} came")
    return tuple(int(word) for word in words)


def _kinds(text: str) -> tuple[str, ...]:
    from bench.thesis.plan import KINDS

    words = [word.strip().replace("-", " ") for word in text.split(",")]
    if not all(word in KINDS for word in words):
        raise InputError(f"--kinds: some of equal,unequal,by-turns,card were wanted, but {text!r} came")
    return tuple(kind for kind in KINDS if kind in words)


def _sizes(text: str) -> tuple[object, ...]:
    from bench.thesis.plan import Resolution

    return tuple(Resolution.of(size.strip()) for size in text.split(","))


def _run(plan: "Plan", store: "Store", out: Path) -> None:
    """Run what is missing, and show how far it is."""
    from bench.thesis.experiment import run

    total, console = len(plan.cells()), stderr_console()

    def say(words: str) -> None:
        console.print(f"samepath: {words}", soft_wrap=True, highlight=False, markup=False)

    if plan.left_out:
        say(f"within {plan.budget_s:g} s there is no time for {', '.join(map(str, plan.left_out))} vehicles")
    if store.was:
        say(f"{store.was} of {total} episodes are there already; going on in {out}")
    with progress_bar("measuring", total) as advance:
        if store.was:
            advance("", store.was)

        def tell(cell: "Cell", episode: "Episode | None") -> None:
            if episode is None:
                advance(str(cell), len(store.episodes))
            elif not console.is_terminal:
                say(f"{len(store.episodes)} of {total}: {line(episode)}")

        def tell_eight(trial: "EightTrial") -> None:
            part = 100.0 * trial.received / max(trial.due, 1)
            held = "holds" if trial.holds else "does not hold"
            say(
                f"{trial.vehicles} vehicles with eight cameras at {trial.resolution}: {part:.0f} % came, {trial.late} late, "
                f"which {held}"
            )

        run(plan, store, out / "cluster.log", tell, tell_eight)


def line(episode: "Episode") -> str:
    """An episode in one line."""
    return (
        f"{episode.cell}: step {1e3 * episode.step_s:.1f} ms, {episode.images_per_s:.0f} images/s, "
        f"{episode.frames_per_s:.1f} frames/s per camera, {episode.ticks} ticks"
    )


def write_results(out: Path, result: "Result", store: "Store") -> Path:
    """Write ``results.json`` and ``report.html``; return the page's path."""
    from bench.thesis.report import render

    data = {"provenance": store.provenance, "figures": result.plain()}
    write_text_atomically(out / "results.json", json.dumps(data, indent=1) + "\n")
    write_text_atomically(out / "report.html", render(result, store.provenance[-1]))
    return out / "report.html"


def summary(result: "Result") -> Table:
    """For every setting the most images a second, where it is saturated, and up to where there are ten frames a second."""
    table = Table(
        "mode", "nodes", "resolution", "images/s, best", "saturated at vehicles", "10 frames/s up to vehicles",
        box=None, title=f"map {result.plan['map_name']}, one camera per vehicle", title_justify="left", header_style="bold",
    )  # fmt: skip
    for series in result.series:
        limit = str(series.limit) if series.limit is not None else "none"
        best = f"{median(series.best_images_per_s):.0f}"
        table.add_row(series.mode, str(series.node_set), str(series.resolution), best, str(series.saturation), limit)
    for size in sorted({trial.resolution for trial in result.eight}):
        held = result.eight_vehicles(size)
        words = f"{held.vehicles if held else 'no'} vehicles with eight cameras"
        table.add_row("real time", f"{result.eight[0].nodes} nodes", str(size), words, "", "")
    return table


def main(arguments: Sequence[str] = ()) -> bool:
    """Run the experiment with these options; whatever is wrong with them is said in one line."""
    app = typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
    app.command("thesis")(thesis)
    try:
        app(list(arguments), prog_name="python -m bench thesis", standalone_mode=False)
    except SamepathError as error:
        raise SystemExit(f"bench thesis: {error}") from None
    return True
