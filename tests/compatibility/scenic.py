"""Scenic's examples for CARLA, unmodified, against ``samepath serve`` with the towns of Scenic's repository.

``python -m tests.compatibility.scenic FOLDER --python PYTHON``, with FOLDER a checkout of Scenic 3 and PYTHON an interpreter
with ``scenic`` and the ``carla`` wheel. Every example whose town is in ``assets/maps/CARLA`` is sampled once and simulated for
``--steps`` steps, in CARLA's model of the world, as each of them says; towns that are not there (some are stored apart) are
said to be missing. All examples share one server. Some need ``verifai``, too.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.tools import code_measured, save
from tests.compatibility.serving import serving

PORT = 3840
LONGEST_S = 300.0
MODEL = "scenic.simulators.carla.model"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a checkout of Scenic")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="an interpreter with scenic and carla")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--only", default="", help="only examples whose path holds this")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--version", default="", help="which version FOLDER is, for the results")
    parser.add_argument("--save", action="store_true", help="write the results to bench/results, too")
    arguments = parser.parse_args()
    code_measured()  # now: what is changed while this runs is not measured
    examples = sorted((arguments.folder / "examples" / "carla").rglob("*.scenic"))
    maps = arguments.folder.absolute() / "assets" / "maps" / "CARLA"
    if not examples or not maps.is_dir():
        parser.error(f"{arguments.folder}: a checkout of Scenic with examples/carla and assets/maps/CARLA was wanted")
    towns = {path.stem for path in maps.glob("*.xodr")}
    results = {}
    with serving(arguments.port, ["--map", "oval", "--maps", str(maps)]):
        for path in examples:
            name = str(path.relative_to(arguments.folder))
            if arguments.only not in name:
                continue
            town = re.search(r"CARLA/(\w+)\.xodr", path.read_text("utf-8"))
            if town is None or town[1] not in towns:
                results[name] = {"result": "not run", "why": f"there is no {town[1] if town else 'town in it'}"}
                continue
            results[name] = run(arguments, path)
            print(f"{name}: {json.dumps(results[name])[:300]}", file=sys.stderr, flush=True)
    table = Table("example", "result", "", box=None)
    for name, found in results.items():
        table.add_row(name, found["result"], found["why"][:100])
    Console(width=180).print(table)
    if arguments.save:
        figures: dict[str, object] = {"version": arguments.version, "steps": arguments.steps, "examples": results}
        save("scenic", figures, ["python", "-m", "tests.compatibility.scenic", "FOLDER", "--python", "PYTHON"])
    return 0 if all(found["result"] in ("simulated", "not run") for found in results.values()) else 1


def run(arguments: argparse.Namespace, path: Path) -> dict[str, str]:
    """What became of one example."""
    command = [
        str(arguments.python), "-m", "scenic", str(path.absolute()), "--2d", "--model", MODEL,
        "--simulate", "--count", "1", "--seed", "7", "--time", str(arguments.steps),
        "-p", "port", str(arguments.port), "-p", "render", "0", "-p", "timeout", "120",
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONGEST_S, cwd=arguments.folder)
    except subprocess.TimeoutExpired:
        return {"result": "took too long", "why": f"more than {LONGEST_S:g} s"}
    said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    if done.returncode == 0:
        return {"result": "simulated", "why": next((line for line in said if "Generated" in line), "")}
    return {"result": f"ended with {done.returncode}", "why": said[-1] if said else ""}


if __name__ == "__main__":
    sys.exit(main())
