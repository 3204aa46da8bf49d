"""``samepath cluster status``: how a running cluster stands."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from samepath.cli.cluster.words import RunFolder, running
from samepath.cli.common import Json, stdout_console
from samepath.core.clock import SYSTEM_CLOCK, Clock
from samepath.core.errors import InputError
from samepath.core.units import format_duration

if TYPE_CHECKING:
    from samepath.cluster.monitor.site import Site
    from samepath.cluster.monitor.status import ClusterStatus, NodeStatus


STYLES = {"working": "green", "joining": "blue", "draining": "yellow", "fenced": "bold red", "gone": "dim"}
_EVERY_S = 1.0
_PROBLEMS = 5
_WIDE_COLUMNS = 110

Url = Annotated[
    str | None, typer.Option("--url", help="Where its live page is, instead of its run folder: http://127.0.0.1:8200.")
]
Watch = Annotated[bool, typer.Option("--watch", help="Ask again every second until Ctrl-C.")]


def status(run: RunFolder = None, url: Url = None, as_json: Json = False, watch: Watch = False) -> None:
    """Say how a running cluster stands: nodes, load, frames a second, lateness, desynchronisation."""
    from samepath.cluster.monitor.site import read_status

    site = _site(run, url)
    found = read_status(site)
    console = stdout_console()
    if not watch:
        if as_json:
            typer.echo(_json(found))
        else:
            console.print(view(found, site.url, wide=console.width >= _WIDE_COLUMNS))
        return
    try:
        if as_json:
            _repeat(site, found, lambda one: typer.echo(_json(one)), lambda words: typer.echo(words, err=True))
        elif console.is_terminal:
            _watch_live(console, site, found)
        else:
            _repeat(site, found, lambda one: typer.echo(line(one)), typer.echo)
    except KeyboardInterrupt:
        pass


def _site(run: Path | None, url: str | None) -> "Site":
    from samepath.cluster.monitor.site import Site

    if run is not None and url is not None:
        raise InputError(f"--run or --url was wanted, but both came: {run} and {url}")
    return running(run) if url is None else Site(url)


def _repeat(
    site: "Site",
    first: "ClusterStatus",
    show: Callable[["ClusterStatus"], None],
    complain: Callable[[str], None],
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """Show the first status and then, every second, the next one, or for how long nobody has answered."""
    from samepath.cluster.monitor.site import SilentError, read_status

    show(first)
    answered_s = clock.monotonic_s()
    while True:
        clock.sleep_s(_EVERY_S)
        try:
            found = read_status(site)
        except SilentError:
            complain(f"no answer from {site.url} for {format_duration(clock.monotonic_s() - answered_s)}")
            continue
        answered_s = clock.monotonic_s()
        show(found)


def _watch_live(console: Console, site: "Site", first: "ClusterStatus") -> None:
    last: RenderableType = ""
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:

        def show(found: "ClusterStatus") -> None:
            nonlocal last
            last = view(found, site.url, wide=console.width >= _WIDE_COLUMNS)
            live.update(last, refresh=True)

        def complain(words: str) -> None:
            live.update(Group(Text(f"{words}; below is how it stood then", style="bold yellow"), last), refresh=True)

        _repeat(site, first, show, complain)


def _json(found: "ClusterStatus") -> str:
    from samepath.cluster.monitor.status import to_json

    return to_json(found).decode()


def line(found: "ClusterStatus") -> str:
    """The status as one line."""
    from samepath.cluster.monitor.status import plain

    working = sum(node.state == "working" for node in found.nodes)
    return plain(
        f"tick {found.frame}: {working} of {len(found.nodes)} nodes working, tick time {seconds(found.tick_s)}, "
        f"{rate(found.frames_per_s)} frames/s, late {found.late_frames}, dropped {found.dropped_frames}, "
        f"desynchronised {found.desynchronised} of {found.compared}"
    )


def view(found: "ClusterStatus", url: str, *, wide: bool = True) -> RenderableType:
    """The status as a few lines and a table of nodes; with fewer columns where a terminal is narrow."""
    from samepath.cluster.monitor.status import plain

    commands = found.commands
    parts: list[RenderableType] = [
        Text(
            plain(f"{found.name}: {found.mode}, map {found.map_name}, episode {found.episode}, tick {found.frame}"),
            style="bold",
        ),
        _verdict(found),
        Text(
            f"tick time {seconds(found.tick_s)}, mean {seconds(found.tick_s_mean)}; {rate(found.ticks_per_s)} ticks/s, "
            f"{rate(found.frames_per_s)} frames/s"
        ),
        Text(
            f"frames {found.frames}, late {found.late_frames}"
            + (f" (at worst {seconds(found.worst_lateness_s)})" if found.late_frames else "")
            + f", dropped {found.dropped_frames}, ordered again {found.reissued}; "
            f"sensors {len(found.sensors)}, moved {found.moved}"
        ),
    ]
    if commands.count:
        parts.append(
            Text(
                f"commands {commands.count}, overruled {commands.overruled}; latency {seconds(commands.latency_s_median)} "
                f"(median), {seconds(commands.latency_s_p99)} (99 %), {seconds(commands.latency_s_max)} (longest)"
            )
        )
    if found.waiting_for:
        parts.append(Text(plain(f"this tick waits for {', '.join(found.waiting_for)}"), style="yellow"))
    parts += ["", node_table(found.nodes, wide=wide)]
    if found.problems:
        parts += ["", *(Text(plain(words)) for words in found.problems[-_PROBLEMS:])]
    return Group(*parts, Text(f"\nlive page: {plain(url)}", style="dim"))


def _verdict(found: "ClusterStatus") -> Text:
    if not found.compared:
        return Text("nothing compared yet: no node has sent a digest of its state")
    words = f"desynchronised {found.desynchronised} of {found.compared} state digests"
    return Text(words, style="bold red" if found.desynchronised else "green")


def node_table(nodes: tuple["NodeStatus", ...], *, wide: bool) -> Table:
    """One row per node."""
    from samepath.cluster.monitor.status import plain

    table = Table(box=None, pad_edge=False, header_style="bold")
    names = ["node", "state", "busy", "frames/s", "step", "late", "dropped", "desync."]
    for name in names + ["sensors", "clients", "speed", "address"] * wide:
        table.add_column(name, justify="left" if name in ("node", "state", "address") else "right", no_wrap=True)
    for node in nodes:
        silent = f", silent {format_duration(node.silent_s)}" if node.silent_s >= 1 and node.state != "gone" else ""
        cells: list[RenderableType] = [
            Text(plain(node.name)),
            Text(node.state + silent, style=STYLES[node.state]),
            f"{node.busy:.0%}",
            rate(node.frames_per_s),
            seconds(node.step_s),
            str(node.late_frames),
            Text(str(node.dropped_frames), style="red" if node.dropped_frames else ""),
            Text(str(node.desynchronised), style="bold red" if node.desynchronised else ""),
        ]
        if wide:
            speed = "-" if node.speed is None else f"{node.speed:.2f}"
            cells += [str(node.sensors), str(node.clients), speed, Text(plain(node.address))]
        table.add_row(*cells)
    return table


def seconds(value_s: float | None) -> str:
    """Write a short time for people: 850 µs, 21.6 ms, 1.25 s."""
    if value_s is None:
        return "-"
    for unit, factor in (("µs", 1e-6), ("ms", 1e-3)):
        if float(f"{value_s / factor:.3g}") < 1000:
            return f"{value_s / factor:.3g} {unit}" if value_s else "0"
    return f"{value_s:.3g} s" if value_s < 90 else format_duration(value_s)


def rate(per_s: float) -> str:
    """Write a rate for people: 39.8, 416."""
    return f"{per_s:.1f}" if per_s < 99.95 else f"{per_s:.0f}"
