"""Timing, memory, tables and results shared by the benchmarks."""

import hashlib
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from rich.console import Console
from rich.table import Table

from samepath.core.clock import SYSTEM_CLOCK
from samepath.instrument.host.provenance import collect_provenance

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results"


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


def save(name: str, figures: dict[str, object], command: Sequence[str] | None = None, *, out: Path | None = None) -> None:
    """Write figures with the machine and the code they were measured on, and the command that makes them anew.

    ``out`` is a file elsewhere: on a machine that is given back, say, from where it may be put among the results.
    """
    made_by = [*settings(os.environ), "python", "-m", "bench", *sys.argv[1:]] if command is None else list(command)
    provenance = collect_provenance(made_by, None).as_dict()
    content = {"figures": figures, "code": code_measured(), "provenance": provenance}
    path = RESULTS / f"{name}.json" if out is None else out
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def settings(environment: Mapping[str, str]) -> list[str]:
    """What a benchmark was told besides its words, as one writes it before a command; not the folder where it keeps things."""
    told = {name: text for name, text in environment.items() if name.startswith("SAMEPATH_BENCH_")}
    return [f"{name}={told[name]}" for name in sorted(told) if not name.endswith("_KEEP")]


@cache
def code_measured() -> dict[str, object]:
    """Which code is measured: the commit, what differs from it, and a digest of all sources.

    Asked once, before anything is measured: what a benchmark writes under ``bench/results`` changes nothing that is measured,
    and is left out. Where there is no checkout (a copy on another machine), ``SAMEPATH_COMMIT`` names the commit, and the
    digest lets anybody check that: ``python -m bench --code`` prints the same in a checkout of it.
    """
    git = ["git", "-C", str(ROOT)]
    found = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        commit, changed, checkout = os.environ.get("SAMEPATH_COMMIT", ""), [], False
    else:
        asked = [*git, "status", "--porcelain", "--", ".", ":(exclude)bench/results"]
        status = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        commit, changed, checkout = found.stdout.strip(), status.splitlines(), True
    return {
        "commit": commit,
        "clean": bool(commit) and not changed,
        "changed": changed,
        "checkout": checkout,
        "digest": _digest(),
    }


def _digest() -> str:
    digest = hashlib.blake2b(digest_size=16)
    for folder in ("src", "bench", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def verdict(*, met: bool) -> str:
    """Say whether an aim was met."""
    return "met" if met else "MISSED"
