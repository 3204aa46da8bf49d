"""``samepath replay``: go through a recorded run, check it, stop in it, look at it.

``samepath fork``: change a command of a recorded run, and compare the futures.
"""

import code
import json as json_text
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samepath.cli.common import Json, stdout_console
from samepath.core.errors import InputError
from samepath.core.units import format_length
from samepath.instrument import replaying
from samepath.instrument.progress import progress_bar

if TYPE_CHECKING:
    from samepath.simulator.replay.fork import Fork, Future
    from samepath.simulator.replay.replay import Replay

Rec = Annotated[
    Path, typer.Argument(metavar="REC", help="A recording, or a study's folder with --cell and --repeat.", show_default=False)
]
Cell = Annotated[str | None, typer.Option("--cell", help="The cell of a study; not needed where there is one.")]
RepeatNumber = Annotated[int | None, typer.Option("--repeat", help="Which repeat of the cell.", show_default=False)]


def replay(
    rec: Rec,
    until: Annotated[int | None, typer.Option("--until", metavar="TICK", help="Stop at this tick (0.05 s each).")] = None,
    cell: Cell = None,
    repeat: RepeatNumber = None,
    shell: Annotated[bool, typer.Option("--shell", help="Open Python there: replay, world, step(), back(), actor().")] = False,
    view: Annotated[bool, typer.Option("--view", help="Draw the scene there from above and from a camera, see --out.")] = False,
    follow: Annotated[int | None, typer.Option("--actor", help="Whom the camera follows; default the first vehicle.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Where --view draws: *.html or *.png.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Hold sensors and events against the recording too.")] = False,
    repeats: Annotated[
        int | None, typer.Option("--repeats", min=1, max=10000, help="Play it so often: does the simulator alone repeat?")
    ] = None,
    save: Annotated[Path | None, typer.Option("--save", help="Write the repeat of a study to a recording.")] = None,
    json: Json = False,
) -> None:
    """Play a recorded run again, to the bit. Every step is held against its digest: exit 0 as recorded, 1 differs, 2 bad input.

    In the shell: replay.step(n), replay.back(n), replay.until(tick), replay.actor(id), replay.camera(id or pose, path="a.png").
    """
    _check_options(shell=shell, view=view, check=check, repeats=repeats, save=save, until=until, out=out)
    if repeats is not None:
        _open_loop(rec, cell, repeat, repeats, json=json)
        return
    if save is not None:
        name = replaying.read_recording(rec, cell=cell, repeat=repeat).write(save)
        typer.echo(json_text.dumps({"recording": str(save), "name": name}) if json else f"{save}: recording {name}")
        return
    if check:
        _check(rec, cell, repeat, json=json)
        return
    with replaying.replay(rec, cell=cell, repeat=repeat) as opened:
        _go(opened, until)
        if view or out is not None:
            drawn = opened.draw(out or Path(f"{Path(opened.name).stem}-tick-{opened.tick}.html"), follow)
            typer.echo(f"drawn: {drawn}", err=json)
        if json:
            typer.echo(json_text.dumps({**opened.facts, "ended": opened.ended, "actors": _plain_actors(opened)}))
        else:
            _print(opened)
        if shell:
            _shell(opened)


def _check_options(**given: Any) -> None:  # noqa: ANN401 - options of many types, only whether they were given counts
    alone = [name for name in ("check", "repeats", "save") if given[name]]
    with_them = [name for name in ("shell", "view", "until", "out") if given[name]]
    if len(alone) > 1 or (alone and with_them):
        raise InputError(f"--{alone[0]} is for itself: leave out {', '.join(f'--{name}' for name in [*alone[1:], *with_them])}")


def _go(opened: "Replay", until: int | None) -> None:
    """Go to the tick, or to the end; long ways are shown."""
    with progress_bar("replaying", opened.steps) as advance:

        def tell(now: "Replay") -> None:
            if now.position % 100 == 0:
                advance(f"tick {now.tick}", now.position)

        if until is None:
            opened.play(tell)
        else:
            opened.until(until)


def _plain_actors(opened: "Replay") -> list[dict[str, Any]]:
    found = []
    for actor in opened.actors:
        state = actor.state
        found.append(
            {
                "id": actor.id,
                "type": actor.type,
                **state.pose._asdict(),
                "velocity_mps": list(state.velocity_mps),
                "command": None if actor.command is None else dict(actor.command.__dict__),
            }
        )
    return found


def _print(opened: "Replay") -> None:
    from rich.table import Table

    from samepath.simulator.replay.picture import ACTOR_COLUMNS, actor_rows

    where = f"the end: {opened.ended}" if opened.position == opened.steps else f"of {opened.steps}"
    typer.echo(f"{opened.name}: step {opened.position} ({where}), tick {opened.tick}, {opened.time_s:.3f} s")
    typer.echo(f"all {opened.position} steps as recorded, to the bit; digest {opened.world.digest}")
    table = Table(box=None, pad_edge=False)
    for name in ACTOR_COLUMNS:
        table.add_column(name, justify="left" if name in ("type", "command") else "right", overflow="fold")
    for row in actor_rows(opened):
        table.add_row(*row)
    stdout_console().print(table)


def _check(rec: Path, cell: str | None, repeat: int | None, *, json: bool) -> None:
    found = replaying.checked(rec, cell=cell, repeat=repeat)
    if json:
        typer.echo(json_text.dumps({"same": True, **found}))
    else:
        frames = f" and {found['frames']} sensor frames" if found["frames"] else ""
        typer.echo(f"{rec}: as recorded, to the bit: {found['steps']} steps{frames}, every state and event")


def _open_loop(rec: Path, cell: str | None, repeat: int | None, repeats: int, *, json: bool) -> None:
    with progress_bar("replaying", repeats) as advance:
        found = replaying.open_loop(
            rec, repeats, cell=cell, repeat=repeat, on_repeat=lambda done: advance(f"replay {done}", done)
        )
    typer.echo(json_text.dumps(found.as_dict()) if json else found.words())
    if not found.same:
        raise typer.Exit(1)


def _shell(opened: "Replay") -> None:
    """Open Python with the world in it; what is typed there can do what the user can."""
    names = {
        "replay": opened,
        "step": opened.step,
        "back": opened.back,
        "until": opened.until,
        "actor": opened.actor,
        "camera": opened.camera,
        "draw": opened.draw,
    }

    class _World:
        """Whatever the world is now: to go back makes another one."""

        def __getattr__(self, name: str) -> object:
            return getattr(opened.world, name)

    banner = f"{opened.name}, tick {opened.tick}: replay, world, step(), back(), until(), actor(id), camera(id), draw(path)"
    sys.ps1, sys.ps2 = "replay> ", "...     "
    code.interact(banner, local={**names, "world": _World()}, exitmsg="")


def fork(
    rec: Rec,
    more: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE", help="More of the command of --set.", show_default=False)
    ] = None,
    at: Annotated[int, typer.Option("--at", metavar="TICK", help="From which tick on (0.05 s each).")] = 0,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="'actor=N NAME=VALUE ...'", help="What to change, such as actor=2 throttle=0."),
    ] = None,
    closed_loop: Annotated[
        bool, typer.Option("--closed-loop", help="Let the scenario's drivers react; else all commands are as recorded.")
    ] = False,
    until: Annotated[int | None, typer.Option("--until", metavar="TICK", help="Compare up to this tick.")] = None,
    figure: Annotated[Path | None, typer.Option("--figure", help="Draw the distances over time: *.png, *.svg.")] = None,
    save: Annotated[Path | None, typer.Option("--save", help="Write the fork as a recording of its own.")] = None,
    cell: Cell = None,
    repeat: RepeatNumber = None,
    json: Json = False,
) -> None:
    """Change a command from a tick on, go on, and say who parts from the recorded run when, and how far.

    Exit 0: nobody parts; 1: somebody does; 2: bad input. Several changes: --set 'actor=1 brake=1' --set 'actor=2 throttle=0'.
    """
    from samepath.simulator.replay.fork import CommandChange
    from samepath.simulator.replay.fork import fork as fork_run

    recording = replaying.read_recording(rec, cell=cell, repeat=repeat)
    changes = [CommandChange.of_words(words, recording) for words in _changes(change or [], more or [])]
    found = fork_run(recording, at, changes, closed_loop=closed_loop, until_tick=until, name=str(rec))
    if figure is not None:
        found.figure(figure)
    if save is not None:
        found.recording.write(save)
    if json:
        typer.echo(json_text.dumps(found.as_dict(), allow_nan=False))
    else:
        _print_fork(found)
    if not found.same:
        raise typer.Exit(1)


def _changes(given: list[str], more: list[str]) -> list[list[str]]:
    """Sort words to changes: what stands free belongs to the one ``--set`` there is."""
    words = [text.replace(",", " ").split() for text in given]
    if not words:
        raise InputError("--set: what to change was wanted, such as --set actor=2 throttle=0, but nothing came")
    if more and len(words) > 1:
        raise InputError("--set: with several changes each needs quotes, such as --set 'actor=2 throttle=0'")
    words[0] += more
    return words


def _print_fork(found: "Fork") -> None:
    from rich.table import Table

    told = "; ".join(
        f"actor {change.actor}: {', '.join(f'{name} {value}' for name, value in change.fields.items())}"
        for change in found.changes
    )
    typer.echo(f"fork at tick {found.at_tick} (step {found.at_step}), {found.loop}: {told}")
    if found.same:
        typer.echo("nobody parts from the recorded run: the change changes no bit")
        return
    table = Table(box=None, pad_edge=False)
    for name in ("actor", "type", "parts at tick", "after s", "first in", "farthest", "at tick", "at the end"):
        table.add_column(name, justify="left" if name in ("type", "first in") else "right")
    start_s = float(found.times_s[0])
    for actor in found.actors:
        if actor.parts_step is None or actor.parts_s is None:
            table.add_row(str(actor.id), actor.type, "never", *[""] * 5)
            continue
        gone = f" (only in {actor.only_in})" if actor.only_in else ""
        table.add_row(
            str(actor.id),
            actor.type,
            str(actor.parts_tick),
            f"{actor.parts_s - start_s:.2f}",
            actor.parts_field,
            format_length(actor.farthest_m),
            str(actor.farthest_tick),
            format_length(actor.last_m) + gone,
        )
    stdout_console().print(table)
    for name, future in (("recorded", found.recorded), ("fork", found.forked)):
        typer.echo(f"{name}: {_hits(future)}; {future.ended or 'compared up to here'}")


def _hits(future: "Future") -> str:
    if not future.collisions:
        return "no collision"
    told = [
        f"{actor} and {'scenery' if other is None else other} at tick {tick}" for tick, actor, other in future.collisions[:5]
    ]
    more = f" and {len(future.collisions) - 5} more" if len(future.collisions) > 5 else ""
    return f"collision of {', '.join(told)}{more}"
