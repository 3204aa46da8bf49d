"""The parts of pages that are made from the kept results of chapter 8, and their pictures."""

from pathlib import Path
from typing import Any, Final

from bench.pages import DOCS, kept, measured_on, picture_path, with_made_part, write_pictures
from bench.thesis.report import Figure, figures, how
from bench.thesis.results import Result
from bench.thesis.tables import markdown, sentence, tables

COMMAND: Final = "thesis"
PAGES: Final[dict[str, Path]] = {
    "thesis": DOCS / "cluster-measuring.md",
    "thesis-two-cores": DOCS / "cluster-two-cores.md",
}
"""By the name of the kept result: one machine with cores for everybody, and the whole experiment on two."""
# Those that a page shows; the report of a run has all of them.
_SHOWN: Final = ("8.2", "8.3", "8.4", "8.7", "8.2, equal nodes", "8.4, equal nodes")


def shown(result: Result) -> list[Figure]:
    """The figures on a page."""
    return [figure for figure in figures(result) if figure.number in _SHOWN or figure.slug == "eight"]


def made(name: str, content: dict[str, Any]) -> str:
    """The made part of the page of this result."""
    result = Result.read(content["figures"])
    broken = (
        f"Frames lost in lockstep: {result.lost}; states of nodes that were not the main server's: {result.desynchronised}."
    )
    parts = [
        f"{measured_on(content)} {how(result)} {sentence(result.traffic)} {broken}\n",
        *(markdown(table) for table in tables(result)),
        *(f"![{figure.caption}]({picture_path(name, figure).name})\n" for figure in shown(result)),
    ]
    return "\n".join(["", *parts, ""])


def write() -> None:
    """Write the pages and their pictures."""
    for name, page in PAGES.items():
        content = kept(name)
        page.write_text(with_made_part(page.read_text("utf-8"), name, made(name, content), COMMAND), encoding="utf-8")
        write_pictures(name, shown(Result.read(content["figures"])))
