"""``samepath conformance``: does an adapter keep the simulators' contract?"""

from typing import Annotated

import typer

from samepath.simulators import registry
from samepath.simulators.conformance import check_all


def conformance(
    simulator: Annotated[
        str, typer.Argument(metavar="NAME", help="A registered simulator, or MODULE:CLASS.", show_default=False)
    ],
) -> None:
    """Run the conformance kit on a simulator; exit 1 if a check fails."""
    registry.create(simulator).close()
    failed = 0
    for result in check_all(lambda: registry.create(simulator)):
        failed += bool(result.problem)
        typer.echo(f"{'FAIL' if result.problem else 'ok  '}  {result.name}" + (f": {result.problem}" if result.problem else ""))
    raise typer.Exit(1 if failed else 0)
