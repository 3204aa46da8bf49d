"""``samepath plan``: how many repeats does a question need?"""

import json as json_module
from dataclasses import asdict
from typing import Annotated

import typer

from samepath.cli.common import Json
from samepath.core.errors import InputError
from samepath.core.units import parse_quantity
from samepath.instrument.analysis.stopping import plan_size


def plan(
    rate: Annotated[str, typer.Option("--rate", help="The rate of divergence that matters: 1%, 0.001.")] = "1%",
    power: Annotated[str, typer.Option("--power", help="With which probability it is to be seen: 95%.")] = "95%",
    confidence: Annotated[str, typer.Option("--confidence", help="Of bounds: 95%.")] = "95%",
    json: Json = False,
) -> None:
    """Say how many repeats show a rate of divergence, or show that it is smaller."""
    size = plan_size(_share("--rate", rate), _share("--power", power), _share("--confidence", confidence))
    typer.echo(json_module.dumps(asdict(size), indent=1) if json else "\n".join(size.words()))


def _share(option: str, text: str) -> float:
    value = parse_quantity(text, {"%": 0.01}, "share", "1% or 0.01")
    if not 1e-6 <= value <= 1 - 1e-6:
        raise InputError(f"{option}: a share from 0.0001% to 99.9999% was wanted, but {text!r} came")
    return value
