"""The table of limits in docs/security.md, from the limits themselves: ``python -m tests.support.limits_table``."""

import dataclasses
import inspect
import re
from pathlib import Path

from samepath.simulator.carla.limits import ServerLimits

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
BEGIN, END = "<!-- limits: begin -->", "<!-- limits: end -->"
_MIB = 1 << 20


def table():
    """One row for each limit: its name, its value as people say it, and the reason that stands beside it in the source."""
    lines = inspect.getsource(ServerLimits).splitlines()
    rows = ["| limit | | |", "|---|---|---|"]
    for field in dataclasses.fields(ServerLimits):
        line = next(line for line in lines if re.match(rf"\s+{field.name}: ", line))
        _, _, reason = line.partition("  # ")
        rows.append(f"| `{field.name}` | {_shown(field.name, field.default)} | {reason.strip()} |")
    return "\n".join(rows)


def _shown(name, value):
    if name.endswith("_bytes") and value % _MIB == 0:
        return f"{value // _MIB:,} MiB"
    if name.endswith("_s"):
        return f"{value:g} s"
    if name.endswith("_m"):
        return f"{value / 1000:g} km"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def written():
    """The page with the table of today."""
    text = PAGE.read_text("utf-8")
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return f"{text[:start]}\n{table()}\n{text[end:]}"


if __name__ == "__main__":
    PAGE.write_text(written(), "utf-8")
