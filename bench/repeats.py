"""The proof: every scenario a thousand times, one outcome - with and without load, threads, hash seeds, FMA.

Every repeat has a process of its own, so that none can owe its bits to the one before. Takes about an hour on two
cores; SAMEPATH_BENCH_REPEATS and SAMEPATH_BENCH_LOADED_REPEATS make it shorter.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.tools import save, show, verdict
from samepath.instrument.analysis.cell import analyse_cell
from samepath.instrument.conditions.cpu_load import CpuLoad
from samepath.instrument.execution.folder import stored_cells
from samepath.instrument.execution.run import run_plan
from samepath.instrument.study.plan import make_plan
from samepath.scenarios.model import built_in_scenarios

REPEATS = int(os.environ.get("SAMEPATH_BENCH_REPEATS", "1000"))
LOADED_REPEATS = int(os.environ.get("SAMEPATH_BENCH_LOADED_REPEATS", str(REPEATS)))
VARIANTS = {
    "fresh processes": {},
    "95 % CPU load beside": {"load": 0.95},
    "2 physics threads": {"settings": "{physics_threads: 2}"},
    "hash seed random": {"environment": {"PYTHONHASHSEED": "random"}},
    "FMA paths off": {"environment": {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-FMA4"}},
}


def main() -> bool:
    """Run every scenario under every variant; the first variant with all repeats, the others with a tenth."""
    rows, figures, digests, good = [], {}, {}, True
    for variant, how in VARIANTS.items():
        repeats = LOADED_REPEATS if "load" in how else REPEATS if not how else max(2, REPEATS // 10)
        found = _run(how, repeats)
        same = all(len(one) == 1 and one == digests.setdefault(name, one) for name, one in found.items())
        good = good and same
        figures[variant] = {"repeats": repeats, "outcomes": {name: len(one) for name, one in found.items()}}
        rows.append([variant, str(len(found)), str(repeats), str(max(len(one) for one in found.values())), verdict(met=same)])
    show(
        "one outcome in every scenario",
        ["variant", "scenarios", "repeats each", "most outcomes", "same digest everywhere"],
        rows,
    )
    save("repeats", figures)
    return good


def _run(how: dict, repeats: int) -> dict[str, set[str]]:
    """Run all scenarios in a process of its own and return the digests found."""
    with tempfile.TemporaryDirectory() as folder, CpuLoad(how.get("load", 0.0)) as load:
        load.settle()
        arguments = [sys.executable, "-m", "bench.repeats", folder, str(repeats), how.get("settings", "{}")]
        subprocess.run(arguments, check=True, env={**os.environ, **how.get("environment", {})})
        plan = _plan(repeats, how.get("settings", "{}"))
        cells = stored_cells(plan, Path(folder))
        for cell in cells:
            result = analyse_cell(cell)
            if result.summary.max_sigma_m != 0.0:
                raise SystemExit(f"{cell.header.cell}: max sigma {result.summary.max_sigma_m}")
        return {cell.header.cell: {run.digest for run in cell.runs} for cell in cells}


def _plan(repeats: int, settings: str):  # noqa: ANN202
    cells = "\n".join(
        f"    - {{simulator: samepath, scenario: {name}, name: {name}, settings: {settings}}}" for name in built_in_scenarios()
    )
    run = f"execution: {{isolation: process, processes: {len(os.sched_getaffinity(0))}}}"
    return make_plan(f"name: repeats\ndesign:\n  repeats: {repeats}\n  log_every: 2\n  cells:\n{cells}\n{run}\n", "bench")


if __name__ == "__main__":
    run_plan(_plan(int(sys.argv[2]), sys.argv[3]), Path(sys.argv[1]), lambda progress: None)
