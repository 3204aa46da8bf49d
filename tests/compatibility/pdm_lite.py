"""PDM-Lite, the expert of carla_garage, unmodified, on routes of Bench2Drive, against ``samepath serve`` with real towns.

``python -m tests.compatibility.pdm_lite FOLDER --routes FILE --maps TOWNS --python PYTHON``, where FOLDER is a checkout of
carla_garage's branch ``leaderboard_2`` with a folder ``carla`` in it (for ``PythonAPI/carla/agents``, of the version that
PYTHON has). FILE, TOWNS, PYTHON and the results are those of :mod:`tests.compatibility.leaderboard`. PYTHON also needs
PyTorch, SciPy, ``ujson``, ``webcolors`` and ``rdp``, and NumPy before 1.24: the planner uses ``np.float``.

The command is the one of the repository's ``start_expert_local.sh``, with the agent ``autopilot.py`` that its comment names for
the expert alone. The expert reads positions, speeds and boxes of all actors from the server, so wrong positions cost it points.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.table import Table

from bench.tools import code_measured, save
from tests.compatibility.leaderboard import LONGEST_S, judged, python_version, version
from tests.compatibility.repeats import FreshServers, repeated

PORT = 3860


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a checkout of carla_garage, branch leaderboard_2, with a folder carla")
    parser.add_argument("--routes", type=Path, required=True, help="a file of routes")
    parser.add_argument("--maps", type=Path, required=True, help="a folder with the towns' *.xodr files")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="with carla and the requirements")
    parser.add_argument("--only", nargs="*", help="ids of routes")
    parser.add_argument("--repeats", type=int, default=3, help="how often each route is driven")
    parser.add_argument("--keep", type=Path, help="a folder for recordings and output of the runs")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--save", action="store_true", help="write the results to bench/results, too")
    arguments = parser.parse_args()
    if not (arguments.folder / "team_code" / "autopilot.py").is_file():
        parser.error(f"{arguments.folder}: expected a checkout of carla_garage with team_code/autopilot.py")
    code_measured()  # now: what is changed while this runs is not measured
    towns = {path.stem for path in arguments.maps.glob("*.xodr")}
    found = {}
    for route in ET.parse(arguments.routes).getroot().iter("route"):
        number, town = route.get("id", ""), route.get("town", "")
        if town.removesuffix("_Opt") not in towns or (arguments.only and number not in arguments.only):
            continue
        kinds = [scenario.get("type", "") for scenario in route.iter("scenario")]
        found[number] = {"town": town, "scenario": ", ".join(kinds), **run(arguments, number)}
        print(f"{number}: {json.dumps(found[number])[:500]}", file=sys.stderr, flush=True)
    if not found:
        parser.error(f"{arguments.routes}: expected a route in one of {', '.join(sorted(towns))}, got none")
    columns = ("town", "scenario", "result", "score", "completed", "infractions", "same", "motion")
    table = Table("route", *columns, box=None)
    for number, row in found.items():
        table.add_row(number, *(row[column] for column in columns))
    Console(width=200).print(table)
    if arguments.save:
        figures: dict[str, object] = {
            "carla": version(arguments.python),
            "python": python_version(arguments.python),
            "repeats": arguments.repeats,
            "routes": found,
        }
        save("pdm-lite", figures, ["python", "-m", "tests.compatibility.pdm_lite", "FOLDER"])
    return 0 if all(row["result"] == "judged" and row["same"] in ("", "the same") for row in found.values()) else 1


def run(arguments: argparse.Namespace, route: str) -> dict[str, str]:
    """Drive a route as often as asked."""
    folder, routes = arguments.folder.absolute(), str(arguments.routes.absolute())
    board, runner, team = folder / "leaderboard", folder / "scenario_runner", folder / "team_code"
    agents = folder / "carla" / "PythonAPI" / "carla"
    environment = {
        "PYTHONPATH": os.pathsep.join(map(str, (agents, runner, board, team))),
        "SCENARIO_RUNNER_ROOT": str(runner),
        "LEADERBOARD_ROOT": str(board),
        "ROUTES": routes,
        "DATAGEN": "0",
        "DEBUG_CHALLENGE": "0",
    }
    words = [
        str(arguments.python.absolute()), "leaderboard/leaderboard/leaderboard_evaluator_local.py", "--port=$CARLA_PORT",
        "--traffic-manager-port=$((CARLA_PORT + 7))", f"--routes={routes}", f"--routes-subset={route}", "--repetitions=1",
        "--track=MAP", "--checkpoint=$RESULT", f"--agent={team / 'autopilot.py'}", f"--agent-config={routes}", "--debug=0",
        "--resume=0", "--timeout=2000", "--traffic-manager-seed=0",
    ]  # fmt: skip
    servers = FreshServers(arguments.maps, arguments.port, version(arguments.python), LONGEST_S)
    with tempfile.TemporaryDirectory(prefix="pdm-lite-") as place:
        keep = (arguments.keep or Path(place)) / route
        return judged(repeated(words, environment, folder, arguments.repeats, servers, keep))


if __name__ == "__main__":
    sys.exit(main())
