"""``samepath explain``: where runs part, and why."""

import json as json_text
from pathlib import Path
from typing import Annotated

import typer

from samepath.cli import options as opt
from samepath.cli.common import Json
from samepath.core.errors import InputError
from samepath.core.files import write_text_atomically
from samepath.instrument import explaining
from samepath.instrument.analysis.explain import Explanation, explain_cell, explain_pair, pair_of
from samepath.instrument.traces.importers import LOG_MIB, Align


def explain(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR", help="A trace or study folder, a log, a recording (of a run or a session); two are compared."
        ),
    ],
    cell: Annotated[str | None, typer.Option("--cell", help="The cell to explain; default every one that parts.")] = None,
    repeat: Annotated[
        list[int] | None,
        typer.Option("--repeat", metavar="N", help="Compare these two repeats; to be given twice.", show_default=False),
    ] = None,
    json: Json = False,
    figure: Annotated[
        Path | None, typer.Option("--figure", help="Also draw the distance over time of the first parting, as SVG.")
    ] = None,
    columns: opt.Map = None,
    align: opt.AlignOption = Align.TIME,
    lossless: opt.Lossless = False,
    file_format: opt.Format = None,
    log_mib: opt.LogMib = LOG_MIB,
) -> None:
    """Say where runs part, in what, why (by evidence), how it grows, who follows and what the host did then."""
    if _are_sessions(paths):
        _explain_sessions(paths, json=json)
        return
    if len(paths) > 2:
        raise InputError(f"one trace or two were wanted, but {len(paths)} came")
    if repeat is not None and len(repeat) != 2:
        raise InputError(f"--repeat: two repeats were wanted, such as --repeat 0 --repeat 3, but {len(repeat)} came")
    opened = [
        explaining.cells_of(
            path,
            cell,
            columns=opt.read_columns(columns),
            align=align,
            lossless=lossless,
            file_format=file_format,
            log_mib=log_mib,
        )
        for path in paths
    ]
    if len(opened) == 2:
        if repeat is not None:
            raise InputError(
                "--repeat is of one trace: name one folder, or leave it out to compare the largest outcomes of two"
            )
        explained = [explain_cell(pair_of(*(explaining.only_cell(*place) for place in zip(opened, paths, strict=True))))]
    elif repeat is not None:
        explained = [explain_pair(explaining.only_cell(opened[0], paths[0]), repeat[0], repeat[1])]
    else:
        explained = explaining.explain_all(opened[0])
    parted = [explanation for explanation in explained if explanation.cause != "none"]
    if figure is not None:
        _draw(figure, parted)
    if json:
        plain = (parted or explained)[0].to_json()
        typer.echo(json_text.dumps({**plain, "cells": [explanation.to_json() for explanation in explained]}, allow_nan=False))
        return
    same = [explanation for explanation in explained if explanation.cause == "none"]
    typer.echo("\n\n".join(explanation.words() for explanation in parted or same[:1]))
    if parted and same:
        typer.echo(f"\n{len(same)} other cell{'s' if len(same) > 1 else ''}: the same to the bit.")


def _are_sessions(paths: list[Path]) -> bool:
    """Are these recordings of ``samepath proxy``? Among other things they cannot be compared."""
    files = [path for path in paths if path.is_file()]
    if not files:
        return False
    from samepath.sessions.recording import is_session

    found = [path for path in files if is_session(path)]
    if found and len(found) != len(paths):
        odd = next(path for path in paths if path not in found)
        raise InputError(f"{found[0]} records a session with a CARLA server, and {odd} does not: name two that do")
    return bool(found)


def _explain_sessions(paths: list[Path], *, json: bool) -> None:
    """Compare what clients and servers said to each other: the script or the simulator?"""
    from samepath.sessions.twice import compare_recorded

    if len(paths) < 2:
        raise InputError(f"two recordings of sessions were wanted, but {paths[0]} came alone: name a second one")
    report = compare_recorded(*paths)
    if json:
        typer.echo(
            json_text.dumps({**json_text.loads(report.to_json()), "cause": report.kind_of_cause, "reason": report.cause})
        )
        return
    typer.echo(report.words())


def _draw(path: Path, parted: list[Explanation]) -> None:
    if not parted or not parted[0].partings:
        raise InputError("--figure: runs whose states part were wanted, but these do not: nothing to draw")
    from samepath.instrument.report import figures

    write_text_atomically(path, figures.parting(parted[0].partings[0], parted[0].header.cell, parted[0].header.step_s))
