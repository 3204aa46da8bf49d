"""Scenic's examples for CARLA, unmodified, against ``samepath serve`` with the towns of Scenic's repository.

``python -m tests.compatibility.scenic FOLDER --python PYTHON``, with FOLDER a checkout of Scenic 3 and PYTHON an interpreter
with ``scenic`` and the ``carla`` wheel. Every example whose town is in ``assets/maps/CARLA`` is sampled once and simulated for
``--steps`` steps; towns that are not there (some are stored apart) are said to be missing. All examples share one server.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.support import ROOT

PORT = 3840
LONGEST_S = 300.0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a checkout of Scenic")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="an interpreter with scenic and carla")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--only", default="", help="only examples whose path holds this")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--json", type=Path, help="write the results there, too")
    arguments = parser.parse_args()
    examples = sorted((arguments.folder / "examples" / "carla").rglob("*.scenic"))
    maps = arguments.folder.absolute() / "assets" / "maps" / "CARLA"
    if not examples or not maps.is_dir():
        parser.error(f"{arguments.folder}: a checkout of Scenic with examples/carla and assets/maps/CARLA was wanted")
    towns = {path.stem for path in maps.glob("*.xodr")}
    serve = [sys.executable, "-m", "samepath", "serve", "--port", str(arguments.port), "--map", "oval", "--maps", str(maps)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    results = {}
    with (
        tempfile.TemporaryDirectory() as place,
        subprocess.Popen(serve, stderr=subprocess.PIPE, text=True, env=environment, cwd=place) as server,
    ):
        try:
            assert server.stderr is not None
            first = server.stderr.readline()
            if "serving map" not in first:
                sys.exit(f"the server did not start: {first.strip()}")
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
        finally:
            server.terminate()
    table = Table("example", "result", "", box=None)
    for name, found in results.items():
        table.add_row(name, found["result"], found["why"][:100])
    Console(width=180).print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    return 0 if all(found["result"] in ("simulated", "not run") for found in results.values()) else 1


def run(arguments: argparse.Namespace, path: Path) -> dict[str, str]:
    """What became of one example."""
    command = [
        str(arguments.python), "-m", "scenic", str(path.absolute()), "--2d", "--simulate", "--count", "1", "--seed", "7",
        "--time", str(arguments.steps), "-p", "port", str(arguments.port), "-p", "render", "0", "-p", "timeout", "120",
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
