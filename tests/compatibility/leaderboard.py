"""CARLA's Leaderboard 2, unmodified, with its NPC agent, against ``samepath serve`` with real towns.

``python -m tests.compatibility.leaderboard FOLDER --routes FILE --maps TOWNS --python PYTHON``, where FOLDER holds the
checkouts ``leaderboard`` and ``scenario_runner`` (branch ``leaderboard-2.1`` of each) and ``carla`` (for
``PythonAPI/carla/agents``, of the version that PYTHON has), FILE is a file of routes, TOWNS holds the towns' ``*.xodr`` files,
and PYTHON is an interpreter with the ``carla`` wheel and the requirements of both. The Leaderboard's own routes are in Town12
and Town13, whose files come with CARLA alone; Bench2Drive's ``bench2drive220.xml`` has routes of the same format in the others.

Every route whose town is there is run, each time with a fresh server. With ``--repeats 20`` all runs of a route are compared:
the score, and every call, answer, state and sensor frame.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.table import Table

from bench.tools import code_measured, save
from tests.compatibility.motion import motion_words
from tests.compatibility.repeats import FreshServers, RepeatedRuns, repeated

PORT = 3840
LONGEST_S = 900.0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a folder with the checkouts leaderboard, scenario_runner and carla")
    parser.add_argument("--routes", type=Path, required=True, help="a file of routes")
    parser.add_argument("--maps", type=Path, required=True, help="a folder with the towns' *.xodr files")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="with carla and the requirements of both")
    parser.add_argument("--agent", type=Path, help="another agent than leaderboard/autoagents/npc_agent.py")
    parser.add_argument("--only", nargs="*", help="ids of routes")
    parser.add_argument("--repeats", type=int, default=1, help="how often each route is driven")
    parser.add_argument("--keep", type=Path, help="a folder for recordings and output of the runs")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--save", action="store_true", help="write the results to bench/results, too")
    parser.add_argument("--save-as", default="", help="what the results' name ends with")
    arguments = parser.parse_args()
    if not (arguments.folder / "leaderboard" / "leaderboard" / "leaderboard_evaluator.py").is_file():
        parser.error(f"{arguments.folder}: a folder with a checkout of leaderboard in it was wanted")
    code_measured()  # now: what is changed while this runs is not measured
    towns = {path.stem for path in arguments.maps.glob("*.xodr")}
    found = {}
    for route in ET.parse(arguments.routes).getroot().iter("route"):
        number, town = route.get("id", ""), route.get("town", "")
        if town.removesuffix("_Opt") not in towns or (arguments.only and number not in arguments.only):
            continue
        kinds = [scenario.get("type", "") for scenario in route.iter("scenario")]
        found[number] = {"town": town, "scenario": ", ".join(kinds), **run(arguments, number)}
        print(f"{number}: {json.dumps(found[number])[:400]}", file=sys.stderr, flush=True)
    if not found:
        parser.error(f"{arguments.routes}: no route was in one of {', '.join(sorted(towns))}")
    table = Table("route", "town", "scenario", "result", "driving score", "route", "infractions", "runs", box=None)
    for number, row in found.items():
        table.add_row(
            number, row["town"], row["scenario"], row["result"], row["score"], row["completed"], row["infractions"], row["same"]
        )  # fmt: skip
    Console(width=200).print(table)
    if arguments.save or arguments.save_as:
        carla, python = version(arguments.python), python_version(arguments.python)
        figures: dict[str, object] = {"carla": carla, "python": python, "repeats": arguments.repeats, "routes": found}
        name = f"leaderboard-{carla}-{arguments.save_as}" if arguments.save_as else f"leaderboard-{carla}"
        save(name, figures, ["python", "-m", "tests.compatibility.leaderboard", "FOLDER"])
    return 0 if all(row["result"] == "judged" and row["same"] in ("", "the same") for row in found.values()) else 1


def version(python: Path) -> str:
    asked = "import carla; print(carla.Client('127.0.0.1', 1).get_client_version())"
    done = subprocess.run([str(python), "-c", asked], check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.strip()


def python_version(python: Path) -> str:
    asked = "import platform; print(platform.python_version())"
    return subprocess.run([str(python), "-c", asked], check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def run(arguments: argparse.Namespace, route: str) -> dict[str, str]:
    """A route, as often as asked."""
    folder = arguments.folder.absolute()
    board, runner = folder / "leaderboard", folder / "scenario_runner"
    agents = folder / "carla" / "PythonAPI" / "carla"
    agent = arguments.agent or board / "leaderboard" / "autoagents" / "npc_agent.py"
    environment = {
        "PYTHONPATH": os.pathsep.join(map(str, (agents, runner, board))),
        "SCENARIO_RUNNER_ROOT": str(runner),
        "LEADERBOARD_ROOT": str(board),
    }
    words = [
        str(arguments.python.absolute()), "leaderboard/leaderboard_evaluator.py", "--port=$CARLA_PORT",
        "--traffic-manager-port=$((CARLA_PORT + 7))", f"--routes={arguments.routes.absolute()}", f"--routes-subset={route}",
        f"--agent={agent.absolute()}", "--track=SENSORS", "--checkpoint=$RESULT", "--timeout=120",
    ]  # fmt: skip
    servers = FreshServers(arguments.maps, arguments.port, version(arguments.python), LONGEST_S)
    with tempfile.TemporaryDirectory(prefix="leaderboard-") as place:
        keep = (arguments.keep or Path(place)) / route
        return judged(repeated(words, environment, board, arguments.repeats, servers, keep))


def judged(runs: RepeatedRuns) -> dict[str, str]:
    """How a route ended, in all of its runs."""
    records = []
    for path, output in zip(runs.results, runs.outputs, strict=True):
        try:
            records.append(json.loads(path.read_text("utf-8"))["_checkpoint"]["records"][0])
        except (OSError, ValueError, KeyError, IndexError):
            lines = output.read_text("utf-8", errors="replace").splitlines() if output.exists() else []
            last = next((line for line in reversed(lines) if line.strip()), "it said nothing")
            empty = dict.fromkeys(("score", "completed", "infractions", "same", "motion"), "")
            return {"result": f"ended without a score: {last.strip()[:200]}", **empty}
    scores = [tuple(record["scores"][key] for key in ("score_composed", "score_route", "score_penalty")) for record in records]
    infractions = {key: len(told) for key, told in records[0]["infractions"].items() if told}
    same = ""
    if runs.report is not None:
        marks = Counter(scores)
        same = "the same" if runs.report.same and len(marks) == 1 else f"{len(marks)} scores; {runs.words}"
    return {
        "result": "judged",
        "score": f"{scores[0][0]:g}",
        "completed": f"{scores[0][1]:g} %",
        "infractions": ", ".join(f"{key} {count}" for key, count in infractions.items()) or "none",
        "status": records[0]["status"],
        "seconds": f"{records[0]['meta']['duration_game']:g}",
        "same": same,
        "motion": motion_words(runs.sessions),
        "compared": "" if runs.report is None else f"{runs.report.calls} calls, {runs.report.ticks} ticks",
    }


if __name__ == "__main__":
    sys.exit(main())
