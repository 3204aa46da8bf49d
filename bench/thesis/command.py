"""``python -m bench thesis``: the thesis' measurements of a cluster, on this machine."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table

from samepath.cli.common import command_line, stdout_console
from samepath.core.errors import InputError, SamepathError
from samepath.core.files import write_text_atomically
from samepath.instrument.progress import progress_bar, stderr_console

if TYPE_CHECKING:
    from bench.thesis.plan import Cell, Plan
    from bench.thesis.records import Episode, Store


Nodes = Annotated[
    str | None, typer.Option("--nodes", help="Numbers of nodes, such as 1,2,4. [default: 1 to as many as there are cores]")
]
Vehicles = Annotated[str | None, typer.Option("--vehicles", help="Rising numbers of vehicles, such as 4,8,16.")]
Resolutions = Annotated[str | None, typer.Option("--resolutions", help="Sizes of pictures, such as 180x120,1440x960.")]
ModeOption = Annotated[
    Literal["both", "lockstep", "real-time"], typer.Option("--mode", help="Ticks as fast as they can, in real time, or both.")
]
Map = Annotated[str | None, typer.Option("--map", help="A map on which one can drive in circles: town or oval.")]
EpisodeS = Annotated[float | None, typer.Option("--episode", help="Seconds that an episode lasts, at most.")]
SettleS = Annotated[float | None, typer.Option("--settle", help="Seconds before each episode in which nothing is logged.")]
Ticks = Annotated[int | None, typer.Option("--ticks", min=1, help="Ticks that an episode lasts, at most.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, max=256, help="Threads that each node draws with.")]
Quick = Annotated[bool, typer.Option("--quick", help="Few vehicles and short episodes: about two minutes.")]
Out = Annotated[Path, typer.Option("--out", help="Folder of the results; a second start with the same options goes on there.")]
OUT = Path("cluster-bench")


def thesis(
    nodes: Nodes = None,
    vehicles: Vehicles = None,
    resolutions: Resolutions = None,
    mode: ModeOption = "both",
    map_name: Map = None,
    episode: EpisodeS = None,
    settle: SettleS = None,
    ticks: Ticks = None,
    threads: Threads = None,
    quick: Quick = False,
    out: Out = OUT,
) -> None:
    """Measure step times, image throughput and latencies of clusters of rising size, as the thesis does in chapter 8.

    Each episode has more moving vehicles than the one before, each with one camera. Ctrl-C ends it; started again it goes on.
    """
    from bench.thesis import plan as planning
    from bench.thesis.records import Store
    from samepath.cluster.running import cores
    from samepath.instrument.host.provenance import collect_provenance

    counts = _numbers("--nodes", nodes) if nodes else default_nodes(cores())
    plan = planning.quick(counts) if quick else planning.Plan(counts)
    given: dict[str, object] = {
        "nodes": counts if nodes else None,
        "vehicles": _numbers("--vehicles", vehicles) if vehicles else None,
        "resolutions": tuple(planning.Resolution.of(size.strip()) for size in resolutions.split(",")) if resolutions else None,
        "modes": {"lockstep": ("lockstep",), "real-time": ("real time",), "both": None}[mode],
        "map_name": map_name,
        "episode_s": episode,
        "settle_s": settle,
        "ticks": ticks,
        "threads": threads,
    }
    plan = replace(plan, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    provenance = collect_provenance(command_line().split(), None).as_dict()
    store = Store(out, plan, provenance)
    try:
        _run(plan, store, out)
    finally:  # what an interrupted experiment has found can be looked at, too
        page = write_results(out, plan, store)
    console = stdout_console()
    console.print(summary(plan, store.episodes))
    console.print(f"report: {page}", soft_wrap=True, markup=False, highlight=False)


def default_nodes(cores: int) -> tuple[int, ...]:
    """1, 2, 4, ... up to the number of cores, and that."""
    powers = [1 << k for k in range(cores.bit_length())]
    return tuple(sorted({*(power for power in powers if power <= cores), cores}))


def _numbers(option: str, text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in words):
        raise InputError(f"{option}: numbers such as 1,2,4 were wanted, but {text!r} came")
    return tuple(int(word) for word in words)


def _run(plan: "Plan", store: "Store", out: Path) -> None:
    """Run what is missing, and show how far it is."""
    from bench.thesis.experiment import run

    total, console = len(plan.cells()), stderr_console()
    if store.was:
        console.print(f"samepath: {store.was} of {total} episodes are there already; going on in {out}", highlight=False)
    with progress_bar("measuring", total) as advance:
        if store.was:
            advance("", store.was)

        def tell(cell: "Cell", episode: "Episode | None") -> None:
            if episode is None:
                advance(str(cell), len(store.episodes))
            elif not console.is_terminal:
                console.print(f"samepath: {len(store.episodes)} of {total}: {line(episode)}", soft_wrap=True, highlight=False)

        run(plan, store, out / "cluster.log", tell)


def line(episode: "Episode") -> str:
    """An episode in one line."""
    return (
        f"{episode.cell}: step {1e3 * episode.step_s:.1f} ms, {episode.images_per_s:.0f} images/s, "
        f"{episode.frames_per_s:.1f} frames/s per camera"
    )


def write_results(out: Path, plan: "Plan", store: "Store") -> Path:
    """Write ``results.json`` and ``report.html``; return the page's path."""
    from bench.thesis.report import render

    data = {"provenance": store.provenance, "episodes": [episode.plain() for episode in store.episodes]}
    write_text_atomically(out / "results.json", json.dumps(data, indent=1) + "\n")
    write_text_atomically(out / "report.html", render(plan, store.episodes, store.provenance[-1]))
    return out / "report.html"


def summary(plan: "Plan", episodes: "tuple[Episode, ...]") -> Table:
    """For every setting the most images a second, and the last episode with at least ten frames a second."""
    from bench.thesis.report import limits

    table = Table(
        "mode", "nodes", "resolution", "images/s, best", "at vehicles", "10 frames/s up to vehicles", "images/s there",
        box=None, title=f"map {plan.map_name}, one camera per vehicle", title_justify="left", header_style="bold",
    )  # fmt: skip
    for row in limits(episodes):
        table.add_row(*row.words())
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
