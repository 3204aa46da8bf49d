"""Timing, memory, tables and results shared by the benchmarks."""

import json
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from samepath.core.clock import SYSTEM_CLOCK
from samepath.instrument.host.provenance import collect_provenance

RESULTS = Path(__file__).parent / "results"


def best_s(work: Callable[[], object], rounds: int = 5) -> float:
    """Return the fastest of some rounds: the one least disturbed by other work on the machine."""
    times = []
    for _ in range(rounds):
        start = SYSTEM_CLOCK.monotonic_s()
        work()
        times.append(SYSTEM_CLOCK.monotonic_s() - start)
    return min(times)


def peak_bytes(work: Callable[[], object]) -> int:
    """Return the most memory that ``work`` allocated at once, beyond what was there before (NumPy and Python)."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def show(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """Print a table."""
    table = Table(*columns, title=title, title_justify="left", box=None, header_style="bold")
    for row in rows:
        table.add_row(*row)
    Console(width=140).print(table)


def save(name: str, figures: dict[str, object]) -> None:
    """Write figures with the machine they were measured on."""
    RESULTS.mkdir(exist_ok=True)
    command = ["python", "-m", "bench", *sys.argv[1:]]
    content = {"figures": figures, "provenance": collect_provenance(command, None).as_dict()}
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def verdict(*, met: bool) -> str:
    """Say whether an aim was met."""
    return "met" if met else "MISSED"
