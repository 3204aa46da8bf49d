"""Pages whose tables and pictures are made from a kept result: written by a command, held to the result by a test."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.thesis.report import Figure, svg
from bench.tools import RESULTS, ROOT

DOCS = ROOT / "docs"


def kept(name: str) -> dict[str, Any]:
    """A kept result: its figures, the code and the machine."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return found


def made_part(page: str, name: str, command: str | None = None) -> str:
    """The part of a page that is made, without its marks; ``command`` is the benchmark that makes it, if not ``name``."""
    begin, end = _marks(name, command)
    return page[page.index(begin) + len(begin) : page.index(end)]


def with_made_part(page: str, name: str, made: str, command: str | None = None) -> str:
    """The page with another made part."""
    begin, end = _marks(name, command)
    return page[: page.index(begin) + len(begin)] + made + page[page.index(end) :]


def _marks(name: str, command: str | None) -> tuple[str, str]:
    return f"<!-- {name}: begin, made by python -m bench {command or name} --write-page -->\n", f"<!-- {name}: end -->"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([*lines, ""])


def picture_path(name: str, figure: Figure) -> Path:
    """Where a figure of a page lies."""
    return DOCS / f"{name}-{figure.name}.svg"


def write_pictures(name: str, figures: Sequence[Figure]) -> None:
    """Write all figures of a page, and remove those that it no longer has."""
    wanted = {picture_path(name, figure) for figure in figures}
    for path in DOCS.glob(f"{name}-fig-*.svg"):
        if path not in wanted:
            path.unlink()
    for figure in figures:
        head, tag, body = svg(figure).partition(">")
        # White behind it: a page may be shown on black, and text here is dark.
        content = f'{head}{tag}<rect width="100%" height="100%" fill="#ffffff"/>{body}'
        picture_path(name, figure).write_text(f"{content}\n<!-- shows {figure.digest} -->\n", encoding="utf-8")


def measured_on(result: dict[str, Any]) -> str:
    """Where and when, in a sentence."""
    provenance = result["provenance"]
    cpu, date = provenance["cpu"], str(provenance["date_utc"])[:10]
    model = cpu.get("model") or "an unknown processor"
    cores = cpu.get("cores_usable") or cpu.get("cores_logical")
    python, commit = provenance["python"]["version"], result["code"]["commit"][:7]
    load = float(provenance["load_average"]["tasks_15_min"])
    busy = f"; other work wanted those cores too (load average {load:.0f})" if load > 2.0 * float(cores) else ""
    return f"Measured {date} on {cores} cores ({model}), Python {python}, commit {commit}{busy}."
