"""The script of the paper's authors (TSL-UOB/CAV-Determinism), all six tests, on their own map, against ``samepath serve``.

``python -m tests.compatibility.paper_script FOLDER --python PYTHON``, where FOLDER holds the checkouts ``CAV-Determinism`` and
``carla`` (for ``PythonAPI/carla/agents`` of 0.9.6, of which the script imports an agent), and PYTHON is an interpreter with
``carla`` 0.9.14 to 0.9.16, numpy below 1.24, pandas below 2, matplotlib 3.1, pygame and networkx. The script was written for
0.9.6, from which CARLA has renamed a few things: they are put back under their old names before it starts. Walkers of 0.9.6
went over roads, which clients since 0.9.7 let them do only on a server with ``--walk-anywhere``. And the script tells every
walker at every tick where to go: since 0.9.7 that begins its way anew, so that it never gets past a corner; here it is told so
when the place is another, or near, since who has arrived is sent anywhere by the client. Nothing else is changed.

What is told: whether each test ran to its end, who was in it, and how many different repeats there were. All repeats of a test
are one session with one server, as the script has it: the actors of a repeat are destroyed, and others spawned.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.tools import code_measured, save
from tests.compatibility.serving import serving

PORT = 3860
LONGEST_S = 1800.0
TRIES = 5
TESTS = [(number, crash) for number in (1, 2, 3) for crash in (False, True)]

# Runs in the other interpreter: names of 0.9.6 and its walkers, then the script as it is.
SHIM = """
import runpy, sys, carla
renamed = {"cloudyness": "cloudiness", "precipitation_dep": "precipitation_deposits"}
made = carla.WeatherParameters
carla.WeatherParameters = lambda **given: made(**{renamed.get(name, name): value for name, value in given.items()})
if not hasattr(carla.Timestamp, "frame_count"):
    carla.Timestamp.frame_count = property(lambda moment: moment.frame)
go, bound_for = carla.WalkerAIController.go_to_location, {}
def go_to_location(mind, place):
    if bound_for.get(mind.id) != (place.x, place.y, place.z) or mind.get_location().distance(place) < 1.5:
        bound_for[mind.id] = (place.x, place.y, place.z)
        go(mind, place)
carla.WalkerAIController.go_to_location = go_to_location
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a folder with the checkouts CAV-Determinism and carla")
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of tests: 1 cars, 2 cars and people, 3 people")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--keep", type=Path, help="a folder for results, from which a run that was interrupted goes on")
    parser.add_argument("--save", action="store_true", help="write the results to bench/results, too")
    arguments = parser.parse_args()
    code_measured()  # now: what is changed while this runs is not measured
    guide = arguments.folder.absolute() / "CAV-Determinism" / "CARLA_Tests_setup_guide"
    if not (guide / "Running_tests").is_dir():
        parser.error(f"{arguments.folder}: a folder with a checkout of CAV-Determinism in it was wanted")
    table, results = Table("test", "crash", "result", "actors", "rows", "simulated s", "repeats", "distinct", box=None), []
    for number, crash in TESTS:
        if arguments.only and number not in arguments.only:
            continue
        found = kept(arguments, guide, number, crash=crash)
        results.append({"test": number, "crash": crash, **found})
        print(json.dumps(results[-1]), file=sys.stderr, flush=True)
        told = (str(found.get(name, "")) for name in ("result", "actors", "rows", "seconds", "repeats", "distinct"))
        table.add_row(str(number), "yes" if crash else "no", *told)
    Console(width=140).print(table)
    if arguments.save:
        figures = {"carla": _version(arguments.python), "asked": arguments.repeats, "tests": results}
        save("paper-script", figures, ["python", "-m", "tests.compatibility.paper_script", "FOLDER"])
    return 0 if all(found["result"] == "ran" for found in results) else 1


def _version(python: Path) -> str:
    asked = "import carla; print(carla.Client('127.0.0.1', 1).get_client_version())"
    done = subprocess.run([str(python), "-c", asked], check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.strip()


def kept(arguments: argparse.Namespace, guide: Path, number: int, *, crash: bool) -> dict[str, object]:
    """What one test came to, now or before; tried again where a busy machine was too slow for the script's time-out of 2 s."""
    name = f"{number}-{int(crash)}-{arguments.repeats}-{code_measured()['digest']}.json"
    path = None if arguments.keep is None else arguments.keep / name
    if path is not None and path.exists():
        before: dict[str, object] = json.loads(path.read_text("utf-8"))
        return before
    for _ in range(TRIES):
        found = run(arguments, guide, number, crash=crash)
        if "time-out" not in str(found["result"]):
            break
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found), "utf-8")
    return found


def run(arguments: argparse.Namespace, guide: Path, number: int, *, crash: bool) -> dict[str, object]:
    """One test, on a fresh server."""
    script, road = guide / "Running_tests" / "ROBOPILOT_Determinisim_V1.py", guide / "Import_map" / "Map" / "loop_geo_RHD.xodr"
    agents = arguments.folder.absolute() / "carla" / "PythonAPI" / "carla"
    theirs = {**os.environ, "PYTHONPATH": os.pathsep.join([str(agents), str(script.parent)]), "MPLBACKEND": "Agg"}
    served = ["--map", str(road.absolute()), "--protocol", _version(arguments.python), "--walk-anywhere"]
    name = f"samepath_{number}_{int(crash)}.txt"
    words = [
        str(arguments.python), "-c", SHIM, str(script), "-p", str(arguments.port), "-n", str(arguments.repeats),
        "-TestID", str(number), "-crash" if crash else "-nocrash", "-OF", name, "-no_rendering",
    ]  # fmt: skip
    log = script.parent / "ExperimentResutls" / name
    log.unlink(missing_ok=True)  # of a run before: it must not be taken for this one's
    try:
        with serving(arguments.port, served):
            done = subprocess.run(
                words, env=theirs, cwd=script.parent, capture_output=True, text=True, check=False, timeout=LONGEST_S
            )
    except subprocess.TimeoutExpired:
        return {"result": f"took more than {LONGEST_S:g} s"}
    if not log.is_file():
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        late = [line for line in lines if "time-out" in line]
        return {"result": f"ended with {done.returncode}: {(late or lines or [''])[-1][:150]}"}
    found = _compared(log)
    late = "time-out" in done.stderr
    if late or found["repeats"] != arguments.repeats:
        why = ", then a time-out" if late else ""
        return {"result": f"{found['repeats']} of {arguments.repeats} repeats came{why}", **found}
    return {"result": "ran", **found}


def _compared(log: Path) -> dict[str, object]:
    """Who was there, rows and seconds of each repeat, and how many different repeats there are, to the log's 1 mm.

    Ids of actors and frames a second are left out: ids go on from repeat to repeat, as CARLA's do.
    """
    with log.open(newline="") as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file)]
    head, body = rows[0], rows[1:]
    kept = [column for column, title in enumerate(head) if title in ("agentNo", "agentType", "time", "x", "y", "z", "yaw")]
    runs: dict[str, list[tuple[str, ...]]] = {}
    for row in body:
        runs.setdefault(row[0], []).append(tuple(row[column] for column in kept))
    agents = {row[head.index("agentNo")]: row[head.index("agentType")] for row in body}
    people = sum(kind.startswith("walker.") for kind in agents.values())
    return {
        "actors": f"{len(agents) - people} cars, {people} people",
        "rows": sorted({len(run) for run in runs.values()}),
        "seconds": sorted({run[-1][kept.index(head.index("time"))] for run in runs.values()}),
        "repeats": len(runs),
        "distinct": len({tuple(run) for run in runs.values()}),
    }


if __name__ == "__main__":
    sys.exit(main())
