"""The proof: every scenario a thousand times, one outcome - with and without load, threads, hash seeds, FMA.

Every repeat has a process of its own, so that none can owe its bits to the one before. Two scenarios that take seconds have a
tenth of the repeats. Takes more than an hour on two cores; SAMEPATH_BENCH_REPEATS and SAMEPATH_BENCH_LOADED_REPEATS make it
shorter. A second start with the same code goes on where the first one was interrupted.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.tools import RESULTS, code_measured, save, show, verdict
from samepath.instrument.analysis.cell import analyse_cell
from samepath.instrument.conditions.cpu_load import CpuLoad
from samepath.instrument.execution.folder import stored_cells
from samepath.instrument.execution.run import run_plan
from samepath.instrument.study.plan import make_plan
from samepath.scenarios.model import built_in_scenarios

REPEATS = int(os.environ.get("SAMEPATH_BENCH_REPEATS", "1000"))
LOADED_REPEATS = int(os.environ.get("SAMEPATH_BENCH_LOADED_REPEATS", str(REPEATS)))
SLOW = ("town-camera", "town-traffic")
SO_FAR = RESULTS / "repeats-so-far.json"
VARIANTS = {
    "fresh processes": {},
    "95 % CPU load beside": {"load": 0.95},
    "2 physics threads": {"settings": "{physics_threads: 2}"},
    "hash seed random": {"environment": {"PYTHONHASHSEED": "random"}},
    "FMA paths off": {"environment": {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-FMA4"}},
}


def main() -> bool:
    """Run every scenario under every variant; the first two variants with all repeats, the others with a tenth."""
    rows, figures, digests, good = [], {}, {}, True
    done = _so_far()
    for variant, how in VARIANTS.items():
        repeats = LOADED_REPEATS if "load" in how else REPEATS if not how else max(2, REPEATS // 10)
        found = {}
        counts = {name: max(2, repeats // 10) if name in SLOW else repeats for name in built_in_scenarios()}
        for name, count in counts.items():
            key = f"{variant} | {name} | {count}"
            if key not in done:
                done[key] = sorted(_run(name, how, count))
                SO_FAR.write_text(json.dumps({"code": code_measured()["digest"], "done": done}, indent=1), "utf-8")
                print(f"{variant}: {name}, {count} repeats, {len(done[key])} outcomes", flush=True)
            found[name] = done[key]
        same = all(len(outcomes) == 1 and outcomes == digests.setdefault(name, outcomes) for name, outcomes in found.items())
        good = good and same
        figures[variant] = {"repeats": counts, "same_everywhere": same, "digests": found}
        rows.append(
            [
                variant,
                str(len(found)),
                f"{repeats} (of {len(SLOW)} {repeats // 10})",
                str(max(len(outcomes) for outcomes in found.values())),
                verdict(met=same),
            ]
        )
    show(
        "one outcome in every scenario",
        ["variant", "scenarios", "repeats each", "most outcomes", "same digest everywhere"],
        rows,
    )
    save("repeats", figures)
    SO_FAR.unlink(missing_ok=True)
    return good


def _so_far() -> dict[str, list[str]]:
    """What an interrupted run has left, if the code is still the same."""
    try:
        found = json.loads(SO_FAR.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return dict(found["done"]) if found.get("code") == code_measured()["digest"] else {}


def _run(scenario: str, how: dict, repeats: int) -> set[str]:
    """Run a scenario in a process of its own and return the digests found."""
    with tempfile.TemporaryDirectory() as folder, CpuLoad(how.get("load", 0.0)) as load:
        load.settle()
        settings = how.get("settings", "{}")
        arguments = [sys.executable, "-m", "bench.repeats", folder, scenario, str(repeats), settings]
        subprocess.run(arguments, check=True, env={**os.environ, **how.get("environment", {})})
        (cell,) = stored_cells(_plan(scenario, repeats, settings), Path(folder))
        result = analyse_cell(cell)
        if result.summary.max_sigma_m != 0.0:
            raise SystemExit(f"{cell.header.cell}: max sigma {result.summary.max_sigma_m}")
        return {run.digest for run in cell.runs}


def _plan(scenario: str, repeats: int, settings: str):  # noqa: ANN202
    cell = f"    - {{simulator: samepath, scenario: {scenario}, name: {scenario}, settings: {settings}}}"
    run = f"execution: {{isolation: process, processes: {len(os.sched_getaffinity(0))}}}"
    return make_plan(f"name: repeats\ndesign:\n  repeats: {repeats}\n  log_every: 2\n  cells:\n{cell}\n{run}\n", "bench")


if __name__ == "__main__":
    run_plan(_plan(sys.argv[2], int(sys.argv[3]), sys.argv[4]), Path(sys.argv[1]), lambda progress: None)
