"""kill -9 at random moments: a study that is killed again and again and resumed ends as if nothing had happened.

No repeat lost or doubled, deterministic cells byte for byte those of an undisturbed study, no process left over. Takes about
six minutes on two cores. SAMEPATH_BENCH_KILLS is the number of kills (50); SAMEPATH_BENCH_KILLS_S is the longest time from the
first repeat that a process stores to its kill (5). A study that ends before all kills are done is compared, and another one is
begun; SAMEPATH_BENCH_KILLS_REPEATS makes studies smaller.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bench.tools import save, show, verdict
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.streams import stream
from samepath.instrument.execution.folder import read_journal, read_record
from samepath.instrument.traces.store import stored_repeats

KILLS = int(os.environ.get("SAMEPATH_BENCH_KILLS", "50"))
LONGEST_S = float(os.environ.get("SAMEPATH_BENCH_KILLS_S", "5"))
LEFT_S = 5.0
_TELL_EVERY = 20
_EARLY = 5  # one blow in so many comes at any moment
WHOLE, KILLED = "whole", "killed"
_SAID = "said.txt"  # what the last process wrote to its standard error
DETERMINISTIC = ("lockstep", "lockstep-loaded", "noise-by-number")
REPEATS = int(os.environ.get("SAMEPATH_BENCH_KILLS_REPEATS", "200"))
STUDY = f"""
name: kills
design:
  cells:
    - {{simulator: samepath, scenario: table1-test1, name: lockstep}}
    - {{simulator: samepath, scenario: table1-test2, name: lockstep loaded, condition: {{cpu_load: 0.5}}}}
    - {{simulator: control-gaussian, scenario: crossing, name: noise by number, condition: {{instances: 2}}}}
    - {{simulator: samepath-game-loop, scenario: table1-test1, name: game loop, settings: {{mode: variable, time_scale: 200}}}}
  repeats: {REPEATS}
  log_every: 2
execution: {{isolation: process, blocks: 10, settle: 0 s}}
"""


def main() -> bool:
    """Kill, resume, compare."""
    with tempfile.TemporaryDirectory() as name:
        figures = run(Path(name), KILLS, LONGEST_S)
    # A study that was hardly ever resumed shows nothing.
    good = figures.resumed >= KILLS // 4 and figures.is_clean
    columns = ["studies", "kills", "resumed", "repeats stored", "files of deterministic cells", "of these identical"]
    row = [figures.studies, figures.kills, figures.resumed, figures.stored, figures.files, figures.identical_files]
    columns, row = [*columns, "processes left"], [*row, figures.processes_left]
    show("kill -9 at random moments", [*columns, "verdict"], [[*map(str, row), verdict(met=good)]])
    save("kills", asdict(figures))
    return good


@dataclass(frozen=True)
class KillFigures:
    """What came of studies that were killed."""

    studies: int = 0
    kills: int = 0
    processes_left: int = 0
    resumed: int = 0
    stored: int = 0
    repeats_right: bool = True
    files: int = 0
    identical_files: int = 0

    @property
    def is_clean(self) -> bool:
        """Return True if no kill left a trace."""
        return self.processes_left == 0 and self.repeats_right and self.identical_files == self.files > 0

    def __add__(self, other: "KillFigures") -> "KillFigures":
        right = self.repeats_right and other.repeats_right
        sums = {name: value + getattr(other, name) for name, value in asdict(self).items()}
        return KillFigures(**{**sums, "repeats_right": right})


def run(folder: Path, kills: int, longest_s: float, study: str = STUDY) -> KillFigures:
    """Kill processes of studies; then finish each study and compare it with an undisturbed one."""
    chance = stream(1, "bench", "kills")
    (folder / "x.yaml").write_text(study, encoding="utf-8")
    _finish(folder, _start(folder, "study", "x.yaml", "--out", WHOLE))
    figures = KillFigures()
    while figures.kills < kills:
        figures += _kill_one_study(folder, kills - figures.kills, longest_s, chance)
        shutil.rmtree(folder / KILLED)
    return figures


def _kill_one_study(folder: Path, kills: int, longest_s: float, chance: np.random.Generator) -> KillFigures:
    """Kill one study, at most so often, until it ends by itself."""
    number = killed = left = 0
    while killed < kills:
        begun = (folder / KILLED / "study.json").exists()
        process = _start(folder, *(("resume", KILLED) if begun else ("study", "x.yaml", "--out", KILLED)))
        # Most blows while repeats are being stored, however long a busy machine takes to begin; some at any moment.
        if number % _EARLY:
            _await_work(folder, process)
        number += 1
        SYSTEM_CLOCK.sleep_s(float(chance.uniform(0.0, longest_s)))
        if process.poll() is not None:
            break
        process.kill()
        process.wait()
        killed += 1
        left += _left_over(folder)
        if killed % _TELL_EVERY == 0:
            print(f"{killed} kills of this study, {left} processes left", file=sys.stderr, flush=True)
    _finish(folder, _start(folder, "resume", KILLED))
    return _compare(folder, killed, left)


def _start(folder: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "SAMEPATH_BENCH_MARK": str(folder)}
    command = [sys.executable, "-m", "samepath", *arguments]
    with (folder / _SAID).open("wb") as said:
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=said)


def _await_work(folder: Path, process: "subprocess.Popen[bytes]") -> None:
    """Wait until the study has stored a repeat, or has ended."""
    journal = folder / KILLED / "journal.jsonl"
    size = journal.stat().st_size if journal.exists() else 0
    while process.poll() is None and (not journal.exists() or b'"repeat"' not in journal.read_bytes()[size:]):
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


def _compare(folder: Path, kills: int, left: int) -> KillFigures:
    whole, killed = folder / WHOLE, folder / KILLED
    plan = read_record(killed).plan
    numbers = [sorted(stored_repeats(killed / "cells" / cell.folder)) for cell in plan.cells]
    names = [
        path.relative_to(whole)
        for cell in DETERMINISTIC
        for kind in ("states", "runs")
        for path in sorted((whole / "cells" / cell).glob(f"part-*.{kind}.parquet"))
    ]
    return KillFigures(
        studies=1,
        kills=kills,
        processes_left=left,
        resumed=sum(entry["what"] == "resumed" for entry in read_journal(killed)),
        stored=sum(map(len, numbers)),
        repeats_right=numbers == [list(range(cell.repeats)) for cell in plan.cells],
        files=len(names),
        identical_files=sum((whole / name).read_bytes() == (killed / name).read_bytes() for name in names),
    )
