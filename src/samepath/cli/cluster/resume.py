"""``samepath cluster resume``: go on with the world of a cluster whose main server died."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from samepath.cli.cluster.start import RUN, Run, begin

JournalFolder = Annotated[
    Path, typer.Argument(metavar="JOURNAL", help="The folder that was given as --journal.", show_default=False)
]
Nodes = Annotated[
    int | None, typer.Option("--nodes", min=0, max=1024, help="How many nodes now. [default: as before]", show_default=False)
]
PlacementOption = Annotated[
    Literal["ray", "processes"] | None,
    typer.Option("--placement", help="Who starts nodes now. [default: as before]", show_default=False),
]


def resume(journal: JournalFolder, nodes: Nodes = None, placement: PlacementOption = None, run: Run = RUN) -> None:
    """Go on from the last snapshot and what the journal has since, with nodes, ports and settings as before."""
    from samepath.cluster.running import resumed_plan

    plan = resumed_plan(journal, run)
    if nodes is not None:
        plan = replace(plan, nodes=nodes)
    if placement is not None:
        plan = replace(plan, placement=placement, ray=plan.ray if placement == "ray" else None)
    begin(plan)
