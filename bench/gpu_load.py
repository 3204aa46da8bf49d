"""What the study ``gpu-load`` found on a machine with a card: ``python -m bench gpu-load FOLDER``.

The study runs where the card is (``samepath study gpu-load --out FOLDER``), for some ten minutes. This keeps of its report
what the page about GPUs shows, cell by cell, in ``bench/results/gpu-load.json``. The machine in it is the study's own, out of
the report, not the one that this is run on. Where the study ran without a checkout its report names no commit: ``--code-of``
names a result of the same code then, such as ``bench gpu`` leaves.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from bench.tools import RESULTS, code_measured, show


def main(arguments: list[str]) -> bool:
    """Keep the figures of a study's folder; returns whether lockstep was bit-identical in every cell."""
    parser = argparse.ArgumentParser(prog="python -m bench gpu-load", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--code-of", type=Path, metavar="RESULT", help="a result of the same code, where the study ran without a checkout"
    )
    given = parser.parse_args(arguments)
    path = given.folder / "report.json"
    try:
        report = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise SystemExit(f"bench gpu-load: {path}: the report of a study was wanted: {error}") from None
    cells = [kept(cell) for cell in report["cells"]]
    missing = [{key: cell[key] for key in ("name", "kind", "reason")} for cell in report["missing"]]
    checkout = report["provenance"]["samepath"]["checkout"]
    if checkout is None and given.code_of is None:
        raise SystemExit("bench gpu-load: the report names no commit: say with --code-of which result is of the same code")
    code = code_measured() if given.code_of is None else json.loads(given.code_of.read_text("utf-8"))["code"]
    if checkout is not None and checkout["commit"] != code["commit"]:
        raise SystemExit(
            f"bench gpu-load: the study ran commit {checkout['commit']}, but {code['commit']} is here: check it out"
        )
    figures = {"cells": cells, "missing": missing, "ranks": [rank["words"] for rank in report["effects"]["ranks"]]}
    content = {"figures": figures, "code": code, "provenance": report["provenance"]}
    (RESULTS / "gpu-load.json").write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    rows = [[cell["cell"], str(cell["repeats"]), str(cell["outcomes"]), f"{cell['max_sigma_m']:.4f}"] for cell in cells]
    show("gpu-load", ["cell", "repeats", "outcomes", "max sigma, m"], rows)
    return all(cell["verdict"] == "bit-identical" for cell in cells if cell["variant"].startswith("lockstep"))


def kept(cell: dict[str, Any]) -> dict[str, Any]:
    """Of a cell what the page shows; loads are means of what was read while the repeats ran."""
    measured = {check["name"]: check["measured"] for check in cell["conditions_measured"]}
    times = cell["frame_times"] or {}
    return {
        **{key: cell[key] for key in ("cell", "variant", "condition", "repeats", "outcomes", "divergent_repeats")},
        **{key: cell[key] for key in ("max_sigma_m", "max_deviation_m", "verdict", "time_scale")},
        "before_sigma_m": cell["pre_collision"]["max_sigma_m"],
        "cpu_load": measured.get("cpu_load"),
        "gpu_load": measured.get("gpu_load"),
        "draw_s_median": times.get("draw", {}).get("median_s"),
    }
