"""The part of ``docs/cluster-measuring.md`` that is made from the kept result, and its pictures."""

from typing import Any

from bench.pages import DOCS, kept, measured_on, picture_path, with_made_part, write_pictures
from bench.thesis.report import Figure, figures, how
from bench.thesis.results import Result
from bench.thesis.tables import markdown, sentence, tables

NAME = "thesis"
PAGE = DOCS / "cluster-measuring.md"
# Those that the page shows; the report of a run has all of them.
_SHOWN = ("8.2", "8.3", "8.4", "8.7", "8.2, equal nodes", "8.4, equal nodes")


def shown(result: Result) -> list[Figure]:
    """The figures on the page."""
    return [figure for figure in figures(result) if figure.number in _SHOWN or figure.slug == "eight"]


def made(content: dict[str, Any]) -> str:
    """The made part of the page."""
    result = Result.read(content["figures"])
    broken = (
        f"Frames lost in lockstep: {result.lost}; states of nodes that were not the main server's: {result.desynchronised}."
    )
    parts = [
        f"{measured_on(content)} {how(result)} {sentence(result.traffic)} {broken}\n",
        *(markdown(table) for table in tables(result)),
        *(f"![{figure.caption}]({picture_path(NAME, figure).name})\n" for figure in shown(result)),
    ]
    return "\n".join(["", *parts, ""])


def write() -> None:
    """Write the page and its pictures."""
    content = kept(NAME)
    PAGE.write_text(with_made_part(PAGE.read_text("utf-8"), NAME, made(content)), encoding="utf-8")
    write_pictures(NAME, shown(Result.read(content["figures"])))
