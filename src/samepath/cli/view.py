"""Looking at runs: ``view`` in a browser, ``export`` for other viewers and tables, ``demo`` to see what samepath is about."""

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from samepath.cli import options as opt
from samepath.cli.live_view import ViewToken
from samepath.core.errors import InputError
from samepath.core.processes import shutdown_signals
from samepath.instrument import viewing
from samepath.instrument.traces.importers import LOG_MIB, Align

_ADDRESS: Final = re.compile(r"[A-Za-z0-9.-]*:[0-9]{1,5}")


def view(
    what: Annotated[
        str,
        typer.Argument(
            metavar="DIR|TRACE|REC|HOST:PORT",
            help="A study or trace folder, a log, a recording of a run or of a server; or a running CARLA server.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.html", help="Write one file that holds everything, and end.")
    ] = None,
    cell: Annotated[list[str] | None, typer.Option("--cell", help="Only this cell; may be repeated.")] = None,
    repeats: Annotated[
        str | None, typer.Option("--repeats", metavar="0-9,12", help="Only these repeats; all by default.", show_default=False)
    ] = None,
    monitors: Annotated[
        Path | None,
        typer.Option("--monitors", metavar="FILE", help="Assertions to show on the timeline (YAML); a study's own by default."),
    ] = None,
    pictures: Annotated[
        int, typer.Option("--pictures", min=0, max=200, help="With --out: keep so many camera pictures of each cell, at most.")
    ] = 0,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one.")] = 0,
    view_token: ViewToken = None,
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser of this desk.")] = True,
    columns: opt.Map = None,
    align: opt.AlignOption = Align.TIME,
    file_format: opt.Format = None,
    log_mib: opt.LogMib = LOG_MIB,
) -> None:
    """Show runs in a browser: repeats overlaid on their map, with a timeline, where they part, and differences magnified.

    The page is served on this machine alone until Ctrl-C. With --out it is one file, to be kept or sent. HOST:PORT shows the
    world of a running server, ours, a node of a cluster or CARLA's own: it listens as one more client and commands nothing,
    unless --view-token lets it.
    """
    path = Path(what)
    if _ADDRESS.fullmatch(what) and not path.exists():
        if out is not None or cell or repeats or monitors or pictures:
            raise InputError(
                "--out, --cell, --repeats, --monitors and --pictures are for what is recorded: a server is shown as it is now"
            )
        from samepath.cli.live_view import watch

        watch(what, port, view_token, show=show)
        return
    if view_token is not None:
        raise InputError("--view-token: HOST:PORT of a running server was wanted: what is recorded cannot be steered")
    if out is not None and out.suffix not in (".html", ".htm"):
        raise InputError(f"--out: a name that ends in .html was wanted, but {out} came")
    opened = viewing.view(
        path,
        cells=cell,
        repeats=None if repeats is None else read_repeats(repeats),
        columns=opt.read_columns(columns),
        align=align,
        file_format=file_format,
        log_mib=log_mib,
        monitors=monitors,
    )
    if out is not None:
        typer.echo(str(opened.write(out, pictures)))
        return
    if pictures:
        raise InputError("--pictures: a file to keep them in was wanted (--out FILE.html); a served page draws them when asked")
    serve_page(opened, port, show=show)


def serve_page(opened: viewing.View, port: int = 0, place: str = "", *, show: bool = True) -> None:
    """Serve a page until the user ends it; ``place`` is where in it to look first."""
    server = opened.serve(port)
    server.start()
    try:
        with shutdown_signals() as end:
            typer.echo(f"{server.url}{place}")
            typer.echo("on this machine alone, until Ctrl-C", err=True)
            if show:
                import webbrowser

                webbrowser.open(f"{server.url}{place}")
            server.wait(end)
    finally:
        server.stop()


def read_repeats(text: str) -> frozenset[int]:
    """Read ``0-9,12``."""
    found: set[int] = set()
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if not (low.isascii() and low.isdigit()) or (dash and not (high.isascii() and high.isdigit())) or len(part) > 20:
            raise InputError(f"--repeats: numbers and ranges were wanted, such as 0-9,12, but {text!r} came")
        first, last = int(low), int(high or low)
        if last < first or last - first > 1_000_000:
            raise InputError(f"--repeats: a range that rises, of at most a million, was wanted, but {part.strip()!r} came")
        found.update(range(first, last + 1))
    return frozenset(found)


def export(
    path: Annotated[
        Path, typer.Argument(metavar="DIR|TRACE|REC", help="A study or trace folder, a log or a recording.", show_default=False)
    ],
    to: Annotated[str, typer.Option("--to", metavar="csv|mcap|rerun", help="What for: a table, Foxglove, or Rerun.")],
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Where; default the cell's place, here.")] = None,
    cell: Annotated[str | None, typer.Option("--cell", help="The cell; not needed where there is one.")] = None,
    repeats: Annotated[
        str | None, typer.Option("--repeats", metavar="0-9,12", help="Only these repeats; all by default.", show_default=False)
    ] = None,
) -> None:
    """Write the repeats of a cell on one timeline into one file that tables, Foxglove or Rerun read."""
    from samepath.instrument import exporting

    chosen = None if repeats is None else sorted(read_repeats(repeats))
    place = out or Path(f"{path.resolve().stem}{exporting.SUFFIXES.get(to, '')}")
    typer.echo(str(exporting.export(path, place, to=to, cell=cell, repeats=chosen)))


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder of its traces and report.")] = Path("runs/demo"),
    show: Annotated[bool, typer.Option("--open/--no-open", help="At the end serve the viewer and open a browser.")] = True,
) -> None:
    """Run one test in two worlds: one repeats, one does not. Say why, and show it in the viewer."""
    from samepath.instrument import demo as demonstration

    found = demonstration.demo(out)
    for line in found.lines():
        typer.echo(line)
    typer.echo(f"report: {found.folder / 'report.html'}")
    if show:
        serve_page(viewing.view(found.folder, progress=False), place=found.place)
    else:
        typer.echo(f"viewer: {found.folder / 'view.html'}{found.place}")
