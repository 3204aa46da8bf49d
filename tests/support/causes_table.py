"""The table of causes in docs/explain.md, from the benchmark's results: ``python -m tests.support.causes_table``."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explain.md"
RESULTS = ROOT / "bench" / "results" / "causes.json"
BEGIN, END = "<!-- causes: begin -->", "<!-- causes: end -->"


def table():
    """The confusion matrix, and a row for everything that was run."""
    figures = json.loads(RESULTS.read_text("utf-8"))["figures"]
    said = sorted({cell["said"] for cell in figures["matrix"]})
    counts = {(cell["truth"], cell["said"]): cell["count"] for cell in figures["matrix"]}
    lines = [
        f"{figures['right']} of {figures['partings']} right, {figures['unknown']} unknown, "
        f"{figures['partings'] - figures['right'] - figures['unknown']} wrong. Rows are the truth, columns what was said:",
        "",
        f"| | {' | '.join(f'`{name}`' for name in said)} |",
        f"|---|{'---|' * len(said)}",
    ]
    lines += [
        f"| `{truth}` | {' | '.join(str(counts.get((truth, name), '')) for name in said)} |"
        for truth in sorted({cell["truth"] for cell in figures["matrix"]})
    ]
    lines += [
        "",
        "<details><summary>All of them</summary>",
        "",
        "| what | may be said | was said | right |",
        "|---|---|---|---|",
    ]
    lines += [f"| {row['what']} | {row['truth']} | {row['said']} | {row['right']} |" for row in figures["rows"]]
    return "\n".join([*lines, "", "</details>"])


def written():
    """The page with the table of today."""
    text = PAGE.read_text("utf-8")
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return f"{text[:start]}\n{table()}\n{text[end:]}"


if __name__ == "__main__":
    PAGE.write_text(written(), "utf-8")
