"""How verbs of the cluster talk, and where they find a running one."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samepath.core.errors import printable

if TYPE_CHECKING:
    from samepath.cluster.monitor.site import Site


RunFolder = Annotated[
    Path | None, typer.Option("--run", help="The run folder of the cluster. [default: cluster-run]", show_default=False)
]


def logger(name: str) -> Callable[[str], None]:
    """Return a log that writes on stderr; names in its lines may come from clients, so nothing moves a terminal's cursor."""

    def log(line: str) -> None:
        plain = printable(line)
        sys.stderr.write(f"{name}: {plain}\n")
        sys.stderr.flush()

    return log


def running(folder: Path | None) -> "Site":
    """Find the cluster that runs in a folder."""
    from samepath.cluster.monitor.site import RUN_FOLDER, find_site

    return find_site(folder or RUN_FOLDER)
