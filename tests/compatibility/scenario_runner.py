"""ScenarioRunner, unmodified, against ``samepath serve`` with real towns: its own configurations and OpenSCENARIO files.

``python -m tests.compatibility.scenario_runner FOLDER --maps TOWNS --python PYTHON``, where FOLDER holds the checkouts
``scenario_runner`` and ``carla`` (for ``PythonAPI/carla/agents``), TOWNS the towns' ``*.xodr`` files, and PYTHON is an
interpreter with the ``carla`` wheel and ScenarioRunner's requirements. Of every configuration file in ``srunner/examples`` the
first scenario whose town is there is run, and every OpenSCENARIO file whose town is there. Each run has a fresh server.

ScenarioRunner waits for somebody to drive the hero. Here that is CARLA's traffic manager: a second client of ours looks for the
hero and sets its autopilot. Whether a scenario then succeeds says as much of that driver as of the server; that it is played to
its end, and judged, says that the server did what ScenarioRunner needs. Those without an end are played for a while. With
``--keep FOLDER`` results and what ScenarioRunner said are kept, and a run that was interrupted goes on, as long as the code is
the same.

``--route FILE --only ID --repeats 20`` drives a route of a file with ScenarioRunner's own NPC agent instead, which needs no
second client, so often, and compares the runs: the verdicts, and every call, answer, state and sensor frame.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.table import Table

from bench.tools import code_measured, save
from tests.compatibility.repeats import FreshServers, repeated
from tests.compatibility.serving import serving

PORT = 3820
LONGEST_S = 900.0
# These have no end of their own, or one after 20 km: they are stopped after so many seconds, and must be running by then.
ENDLESS_S = 120.0
ENDLESS = ("FreeRide_1", "ChangingWeather.xosc", "LaneOffsetActionExample.xosc", "OscControllerExample.xosc")

# Runs beside ScenarioRunner: gives the hero to its traffic manager as soon as both are there, and ends with it. A world that
# ScenarioRunner ticks may go thirty times as fast as time: who waits for a second here has missed half of the scenario.
DRIVER = """
import sys, time, carla, psutil
port, manager = int(sys.argv[1]), int(sys.argv[2])
client = carla.Client("127.0.0.1", port)
client.set_timeout(60.0)
hero, deadline = None, time.monotonic() + 300.0
while hero is None and time.monotonic() < deadline:
    heroes = [one for one in client.get_world().get_actors().filter("vehicle.*") if one.attributes.get("role_name") == "hero"]
    listens = any(one.laddr.port == manager and one.status == "LISTEN" for one in psutil.net_connections("tcp"))
    hero = heroes[0] if heroes and listens else None
    time.sleep(0.01)
if hero is not None:
    hero.set_autopilot(True, manager)
    while hero.is_alive:
        time.sleep(0.5)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a folder with the checkouts scenario_runner and carla")
    parser.add_argument("--maps", type=Path, required=True, help="a folder with the towns' *.xodr files")
    parser.add_argument(
        "--python", type=Path, default=Path(sys.executable), help="with carla and ScenarioRunner's requirements"
    )
    parser.add_argument("--only", default="", help="only names that hold this")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--route", type=Path, help="a file of routes, of which --only is driven by the NPC agent")
    parser.add_argument("--repeats", type=int, default=2, help="how often that route is driven")
    parser.add_argument("--keep", type=Path, help="a folder for recordings and output; there it goes on, too")
    parser.add_argument("--save", action="store_true", help="write the results to bench/results, too")
    arguments = parser.parse_args()
    code_measured()  # now: what is changed while this runs is not measured
    examples = arguments.folder / "scenario_runner" / "srunner" / "examples"
    if not examples.is_dir():
        parser.error(f"{arguments.folder}: a folder with a checkout of scenario_runner in it was wanted")
    command = ["python", "-m", "tests.compatibility.scenario_runner", "FOLDER"]
    if arguments.route:
        found = drive(arguments)
        print(json.dumps(found, indent=1))
        if arguments.save:
            save("scenario-runner-repeats", found, [*command, "--route", "FILE", "--only", arguments.only])
        return 0 if found["same"] else 1
    towns = {path.stem for path in arguments.maps.glob("*.xodr")}
    results = {}
    for name, words, town in [*_configurations(examples), *_files(examples)]:
        if arguments.only not in name:
            continue
        known = town.removesuffix("_Opt") in towns
        results[name] = kept(arguments, name, words) if known else {"result": "not run", "why": f"there is no {town}"}
        print(f"{name}: {json.dumps(results[name])[:300]}", file=sys.stderr, flush=True)
    table = Table("configuration", "result", "", box=None)
    for name, found in results.items():
        table.add_row(name, found["result"], f"{found['why'][:100]} {found.get('failed', '')}")
    Console(width=180).print(table)
    if arguments.save:
        save("scenario-runner", {"configurations": results}, command)
    return 0 if all(found["result"] in ("judged", "played", "not run") for found in results.values()) else 1


def _configurations(examples: Path) -> list[tuple[str, list[str], str]]:
    """The first scenario of each file, or the first that is in a small town: those load sooner."""
    found = []
    for path in sorted(examples.glob("*.xml")):
        scenarios = [
            (scenario.get("name", ""), scenario.get("town", "")) for scenario in ET.parse(path).getroot().iter("scenario")
        ]
        name, town = min(
            scenarios, key=lambda scenario: (scenario[1] not in ("Town01", "Town02"), scenario[1] in ("Town03", "Town05"))
        )
        found.append((name, ["--scenario", name], town))
    return found


def _files(examples: Path) -> list[tuple[str, list[str], str]]:
    found = []
    for path in sorted(examples.glob("*.xosc")):
        match = re.search(r'LogicFile filepath="([^"]*)"', path.read_text("utf-8"))
        found.append((path.name, ["--openscenario", str(path.absolute())], match[1] if match else "no map"))
    return found


def _environment(folder: Path) -> dict[str, str]:
    return {
        "PYTHONPATH": os.pathsep.join([str(folder / "carla" / "PythonAPI" / "carla"), str(folder / "scenario_runner")]),
        "SCENARIO_RUNNER_ROOT": str(folder / "scenario_runner"),
    }


def drive(arguments: argparse.Namespace) -> dict[str, object]:
    """A route, driven by ScenarioRunner's own agent, as often as asked."""
    folder = arguments.folder.absolute()
    words = [
        str(arguments.python.absolute()), "scenario_runner.py", "--port", "$CARLA_PORT", "--trafficManagerPort",
        "$((CARLA_PORT + 7))", "--sync", "--output", "--timeout", "120", "--route", str(arguments.route.absolute()),
        "--route-id", arguments.only, "--agent", str(folder / "scenario_runner" / "srunner" / "autoagents" / "npc_agent.py"),
    ]  # fmt: skip
    servers = FreshServers(arguments.maps, arguments.port, timeout_s=LONGEST_S)
    with tempfile.TemporaryDirectory(prefix="scenario-runner-") as place:
        keep = arguments.keep or Path(place) / "runs"
        runs = repeated(words, _environment(folder), folder / "scenario_runner", arguments.repeats, servers, keep)
        verdicts = [_verdict(output.read_text("utf-8", errors="replace"))["why"] for output in runs.outputs]
    report = runs.report
    return {
        "route": arguments.only,
        "repeats": arguments.repeats,
        "verdicts": verdicts,
        "same": report is not None and report.same and len(set(verdicts)) == 1,
        "words": runs.words,
        "compared": "" if report is None else f"{report.calls} calls, {report.ticks} ticks",
    }


def kept(arguments: argparse.Namespace, name: str, words: list[str]) -> dict[str, str]:
    """What one configuration came to, now or before."""
    folder = arguments.keep
    path = None if folder is None else folder / f"{name}-{code_measured()['digest']}.json"
    if path is not None and path.exists():
        before: dict[str, str] = json.loads(path.read_text("utf-8"))
        return before
    found, said = run(arguments, words, ENDLESS_S if name in ENDLESS else None)
    if path is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.log").write_text(said, "utf-8")
        path.write_text(json.dumps(found), "utf-8")
    return found


def run(arguments: argparse.Namespace, words: list[str], stopped_s: float | None) -> tuple[dict[str, str], str]:
    """What one configuration came to, and all that ScenarioRunner said; ``stopped_s``: it has no end of its own."""
    folder, port = arguments.folder.absolute(), arguments.port
    theirs = {**os.environ, **_environment(folder), "PYTHONUNBUFFERED": "1"}  # what was said before it is stopped comes, too
    command = [
        str(arguments.python), "scenario_runner.py", "--port", str(port), "--trafficManagerPort", str(port + 7), "--sync",
        "--reloadWorld", "--output", "--timeout", "300", *words,
    ]  # fmt: skip
    with serving(port, ["--map", "oval", "--maps", str(arguments.maps.absolute())]):
        driver = subprocess.Popen([str(arguments.python), "-c", DRIVER, str(port), str(port + 7)], stderr=subprocess.DEVNULL)
        try:
            done = subprocess.run(
                command,
                cwd=folder / "scenario_runner",
                env=theirs,
                capture_output=True,
                text=True,
                check=False,
                timeout=stopped_s or LONGEST_S,
            )
        except subprocess.TimeoutExpired as late:
            said = (late.stdout or b"").decode("utf-8", errors="replace")
            if stopped_s and "Running scenario" in said and "Traceback" not in said:
                return {"result": "played", "why": f"it has no end; stopped after {stopped_s:g} s"}, said
            return {"result": "took too long", "why": f"more than {LONGEST_S:g} s"}, said
        finally:
            driver.kill()
            driver.wait()
    said = done.stdout + done.stderr
    found = _verdict(said)
    return (found if found["result"] == "judged" else {**found, "result": f"ended with {done.returncode}"}), said


def _verdict(said: str) -> dict[str, str]:
    verdict = re.search(r"Test result[^A-Z]*([A-Z]+)|Results of Scenario:[^\n]*?-+ ([A-Z]+)", said)
    if verdict:
        # Rows of its table of criteria: actor, criterion, result, what was measured, what was wanted.
        cells = [[cell.strip() for cell in row.split("│")] for row in said.splitlines() if row.count("│") == 6]
        rows = [row for row in cells if row[3] == "FAILURE" and row[2] != "GLOBAL RESULT"]
        failed = [f"{row[2].removesuffix(' (Req.)')} {row[4]}" for row in rows]
        played = re.search(r"Game Time\s*│\s*([\d.]+)s", said)
        return {
            "result": "judged",
            "why": verdict[1] or verdict[2],
            "failed": ", ".join(failed),
            "game_s": played[1] if played else "",
        }
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception): ", line)]
    return {"result": "ended", "why": (errors or lines or [""])[-1][:300]}


if __name__ == "__main__":
    sys.exit(main())
