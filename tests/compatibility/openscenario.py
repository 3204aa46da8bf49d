"""Other people's OpenSCENARIO files: which are played, and which are refused for what.

``python -m tests.compatibility.openscenario FOLDER --maps TOWNS``, where FOLDER holds checkouts such as ScenarioRunner's and
esmini's, and TOWNS the ``*.xodr`` files that they name without a path (``Town01``), such as those of a CARLA installation. Each
file is read and played in a process of its own, with a limit of time and memory: a file that hangs is a row as well. With
``--drive`` what can be played is also driven by the simulator samepath, twice, and the two runs are held against each other.
Catalogues are no scenarios and are left out.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.tools import code_measured, save
from tests.compatibility.serving import OUR_CODE

LONGEST_S = 300.0
MEMORY_BYTES = 4 << 30

# Runs in a process of its own; JSON in its last line.
SCRIPT = """
import json, sys
from pathlib import Path
from samepath.core.errors import SamepathError
from samepath.openscenario import plan_file
path, drives = Path(sys.argv[1]), sys.argv[2] == "drive"
try:
    file, plan = plan_file(path)
    found = {"result": "played", "entities": len(file.entities), "seconds": plan.ticks * 0.05, "ended": plan.ended,
             "left_out": list(file.left_out)}
    if drives:
        from samepath.scenarios.model import load_scenario
        from samepath.simulator.simulation import Simulation
        scenario, digests, collisions = load_scenario(str(path)), [], 0
        for _ in range(2):
            simulation, ended = Simulation(scenario), None
            while ended is None:
                step = simulation.step()
                collisions, ended = collisions + len(step.collisions), step.ended
            digests.append(str(simulation.world.digest))
        found |= {"driven": "the same bits twice" if digests[0] == digests[1] else "DIFFERENT", "collisions": collisions // 2}
except SamepathError as error:
    found = {"result": "refused", "why": str(error)} if "found" not in dir() else found | {"driven": str(error)}
print(json.dumps(found))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a folder with *.xosc files, at any depth")
    parser.add_argument("--maps", type=Path, help="a folder with the *.xodr files of towns")
    parser.add_argument("--only", default="", help="only files whose path holds this")
    parser.add_argument("--drive", action="store_true", help="also drive, twice, what is played")
    parser.add_argument("--version", default="", help="which version FOLDER is, for the results")
    parser.add_argument("--save", action="store_true", help="write the results to bench/results, too")
    arguments = parser.parse_args()
    code_measured()  # now: what is changed while this runs is not measured
    files = sorted(path for path in arguments.folder.rglob("*.xosc") if arguments.only in str(path) and not _is_catalogue(path))
    if not files:
        parser.error(f"{arguments.folder}: a folder with *.xosc files was wanted")
    results = {}
    for path in files:
        name = str(path.relative_to(arguments.folder))
        results[name] = run(path, arguments.maps, drives=arguments.drive)
        print(f"{name}: {json.dumps(results[name])[:300]}", file=sys.stderr, flush=True)
    table = Table("file", "result", "", box=None)
    for name, found in results.items():
        words = f"{found['seconds']:.1f} s, {found['ended']}" if found["result"] == "played" else found.get("why", "")
        table.add_row(name, found["result"], " ".join([words, *([found["driven"]] if "driven" in found else [])])[:110])
    console = Console(width=190)
    console.print(table)
    for word, count in Counter(found["result"] for found in results.values()).most_common():
        console.print(f"{word}: {count} of {len(results)}")
    if arguments.save:
        figures: dict[str, object] = {"version": arguments.version, "files": results}
        named = ["FOLDER", "--maps", "TOWNS", *(["--drive"] if arguments.drive else [])]
        save("openscenario", figures, ["python", "-m", "tests.compatibility.openscenario", *named])
    # A refusal is an answer; a crash, a hang or two runs that differ are not.
    good = all(found["result"] in ("played", "refused") and found.get("driven") != "DIFFERENT" for found in results.values())
    return 0 if good else 1


def _is_catalogue(path: Path) -> bool:
    return "<Catalog " in path.read_text("utf-8", errors="replace")


def run(path: Path, maps: Path | None, *, drives: bool) -> dict[str, object]:
    """What became of one file."""
    environment = {**os.environ, **OUR_CODE}
    if maps is not None:
        environment["SAMEPATH_MAPS"] = str(maps.absolute())
    command = [sys.executable, "-c", SCRIPT, str(path), "drive" if drives else "plan"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=LONGEST_S, env=environment,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES)),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"result": f"took more than {LONGEST_S:g} s"}
    if done.returncode:
        last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "")
        return {"result": f"ended with {done.returncode}", "why": last}
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    sys.exit(main())
