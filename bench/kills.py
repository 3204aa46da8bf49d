"""Fifty times kill -9: a study that is killed at random moments and resumed ends as if nothing had happened.

No repeat lost or doubled, deterministic cells byte for byte those of an undisturbed study, no process left over. Takes about
six minutes on two cores; SAMEPATH_BENCH_KILLS makes it shorter.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.tools import save, show, verdict
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.streams import stream
from samepath.instrument.execution.folder import read_journal, read_record
from samepath.instrument.traces.store import stored_repeats

KILLS = int(os.environ.get("SAMEPATH_BENCH_KILLS", "50"))
LONGEST_S = 5.0
LEFT_S = 5.0
_EARLY = 5  # one blow in so many comes at any moment
_SAID = "said.txt"  # what the last process wrote to its standard error
DETERMINISTIC = ("lockstep", "lockstep-loaded", "noise-by-number")
STUDY = """
name: kills
design:
  cells:
    - {simulator: samepath, scenario: table1-test1, name: lockstep}
    - {simulator: samepath, scenario: table1-test2, name: lockstep loaded, condition: {cpu_load: 0.5}}
    - {simulator: control-gaussian, scenario: crossing, name: noise by number, condition: {instances: 2}}
    - {simulator: samepath-game-loop, scenario: table1-test1, name: game loop, settings: {mode: variable, time_scale: 200}}
  repeats: 200
  log_every: 2
execution: {isolation: process, blocks: 10, settle: 1 s}
"""


def main() -> bool:
    """Kill, resume, compare."""
    moments_s = stream(1, "bench", "kills").uniform(0.0, LONGEST_S, KILLS).tolist()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "x.yaml").write_text(STUDY, encoding="utf-8")
        _finish(folder, _start(folder, "study", "x.yaml", "--out", "whole"))
        kills, left = 0, 0
        for number, moment_s in enumerate(moments_s):
            begun = (folder / "killed" / "study.json").exists()
            process = _start(folder, *(("resume", "killed") if begun else ("study", "x.yaml", "--out", "killed")))
            # Most blows while repeats are being stored, however long a busy machine takes to begin; some at any moment.
            if number % _EARLY:
                _await_work(folder, process)
            SYSTEM_CLOCK.sleep_s(moment_s)
            kills += process.poll() is None
            process.kill()
            process.wait()
            left += _left_over(folder)
        _finish(folder, _start(folder, "resume", "killed"))
        figures = {"kills": kills, "processes_left": left, **_compare(folder)}
    # A study that was hardly ever resumed shows nothing.
    shown = figures["resumed"] >= KILLS // 4
    good = shown and left == 0 and figures["repeats_right"] and figures["identical_files"] == figures["files"] > 0
    rows = [[str(figures[key]) for key in ("kills", "resumed", "stored", "files", "identical_files", "processes_left")]]
    columns = ["kills", "resumed", "repeats stored", "files of deterministic cells", "of these identical", "processes left"]
    show("kill -9 at random moments", [*columns, "verdict"], [[*rows[0], verdict(met=bool(good))]])
    save("kills", figures)
    return bool(good)


def _start(folder: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "SAMEPATH_BENCH_MARK": str(folder)}
    command = [sys.executable, "-m", "samepath", *arguments]
    with (folder / _SAID).open("wb") as said:
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=said)


def _await_work(folder: Path, process: "subprocess.Popen[bytes]") -> None:
    """Wait until the study has written something to its journal, or has ended."""
    journal = folder / "killed" / "journal.jsonl"
    size = journal.stat().st_size if journal.exists() else 0
    while process.poll() is None and (not journal.exists() or journal.stat().st_size == size):
        SYSTEM_CLOCK.sleep_s(0.01)


def _finish(folder: Path, process: "subprocess.Popen[bytes]") -> None:
    if process.wait() != 0:
        said = (folder / _SAID).read_text("utf-8", errors="replace").strip()[-2000:]
        raise SystemExit(f"{' '.join(map(str, process.args))} ended with {process.returncode}: {said}")


def _left_over(folder: Path) -> int:
    """Return how many processes of a killed study are still there after a moment."""
    start_s = SYSTEM_CLOCK.monotonic_s()
    while (found := _marked(folder)) and SYSTEM_CLOCK.monotonic_s() - start_s < LEFT_S:
        SYSTEM_CLOCK.sleep_s(0.02)
    return found


def _marked(folder: Path) -> int:
    count = 0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            count += f"SAMEPATH_BENCH_MARK={folder}".encode() in (entry / "environ").read_bytes()
        except OSError:
            continue
    return count


def _compare(folder: Path) -> dict[str, object]:
    whole, killed = folder / "whole", folder / "killed"
    plan = read_record(killed).plan
    numbers = [sorted(stored_repeats(killed / "cells" / cell.folder)) for cell in plan.cells]
    names = [
        path.relative_to(whole)
        for cell in DETERMINISTIC
        for kind in ("states", "runs")
        for path in sorted((whole / "cells" / cell).glob(f"part-*.{kind}.parquet"))
    ]
    same = sum((whole / name).read_bytes() == (killed / name).read_bytes() for name in names)
    return {
        "resumed": sum(entry["what"] == "resumed" for entry in read_journal(killed)),
        "stored": sum(map(len, numbers)),
        "repeats_right": numbers == [list(range(cell.repeats)) for cell in plan.cells],
        "files": len(names),
        "identical_files": same,
    }
