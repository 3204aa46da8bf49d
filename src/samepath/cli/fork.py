"""``samepath fork``: change a command of a recorded run, and compare the futures."""

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samepath.cli.common import Json, stdout_console
from samepath.cli.replay import Cell, Rec, RepeatNumber
from samepath.core.errors import InputError
from samepath.core.units import format_length
from samepath.instrument import replaying

if TYPE_CHECKING:
    from samepath.simulator.replay.fork import Fork, Future


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
        _print(found)
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


def _print(found: "Fork") -> None:
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
