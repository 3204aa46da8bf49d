"""CARLA's own smoke tests against ``samepath serve``, as they are in CARLA's repository.

``python -m tests.compatibility.smoke FOLDER``, where FOLDER is CARLA's ``PythonAPI/test`` (branch ``ue4/0.9.16``), with
the folder ``smoke`` in it. Not a file of it is changed. Two things are said of the run, and no more:

- **Maps.** The tests load CARLA's towns by name. ``MAPS`` says which map of ours stands for each (``samepath serve --alias``).
- **Pauses.** The tests sleep for 5 s after loading a world, so that Unreal Engine can free memory. Those pauses, and only
  those, are cut to ``PAUSE_S``; ``--real-pauses`` leaves them.

Each module runs in a process of its own, all against one server: CARLA's client may end its process when something goes wrong.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.support import ROOT

TOWN, OVAL = "town", "oval"
MAPS = dict.fromkeys(("Town01", "Town02", "Town03", "Town04", "Town10HD"), TOWN) | {"Town05": OVAL}
MAPS |= {f"{name}_Opt": ours for name, ours in MAPS.items()}
PORT = 3654  # written into the tests
PAUSE_S = 0.05
LONGEST_S = 1200.0

# Runs in a process of its own, in FOLDER: one module of tests, its results as JSON in the last line.
SCRIPT = """
import json, sys, time, unittest
module, cut, pause_s = sys.argv[1], sys.argv[2] == "cut", float(sys.argv[3])
sleep = time.sleep
if cut:
    time.sleep = lambda seconds: sleep(pause_s if seconds == 5 else seconds)
class Result(unittest.TextTestResult):
    def startTest(self, test):
        super().startTest(test)
        self.named = getattr(self, "named", {})
        self.named[test.id()] = "passed"
    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.named[test.id()] = "failed"
    def addError(self, test, error):
        super().addError(test, error)
        self.named[test.id()] = "error"
    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.named[test.id()] = "skipped"
suite = unittest.defaultTestLoader.loadTestsFromName(module)
found = unittest.TextTestRunner(resultclass=Result, stream=sys.stderr, verbosity=2).run(suite)
print("\\n" + json.dumps(getattr(found, "named", {})), flush=True)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="CARLA's PythonAPI/test, with the folder smoke in it")
    parser.add_argument("--real-pauses", action="store_true", help="keep the pauses of 5 s after loading a world")
    parser.add_argument("--json", type=Path, help="write the results there, too")
    arguments = parser.parse_args()
    modules = sorted(path.stem for path in (arguments.folder / "smoke").glob("test_*.py"))
    if not modules:
        parser.error(f"{arguments.folder}: a folder with smoke/test_*.py in it was wanted: CARLA's PythonAPI/test")
    results = run(arguments.folder, modules, cut=not arguments.real_pauses)
    table = Table(
        "test", "result", box=None, title="CARLA's smoke tests, unmodified", title_justify="left", header_style="bold"
    )
    for name, result in results.items():
        table.add_row(name, result)
    console = Console(width=140)
    console.print(table)
    passed = sum(result == "passed" for result in results.values())
    console.print(f"{passed} of {len(results)} passed; maps: " + ", ".join(f"{name} -> {ours}" for name, ours in MAPS.items()))
    console.print("pauses as they are" if arguments.real_pauses else f"pauses of 5 s after loading cut to {PAUSE_S:g} s")
    if arguments.json:
        figures = {"passed": passed, "tests": results, "maps": MAPS, "pauses_cut": not arguments.real_pauses}
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    return 0 if passed == len(results) else 1


def run(folder: Path, modules: list[str], *, cut: bool) -> dict[str, str]:
    """Every test by name with what became of it; a module whose process ended early is a row of its own."""
    aliases = [word for name, ours in MAPS.items() for word in ("--alias", f"{name}={ours}")]
    command = [sys.executable, "-m", "samepath", "serve", "--port", str(PORT), "--map", TOWN, *aliases]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    results: dict[str, str] = {}
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as server,
    ):
        try:
            assert server.stderr is not None
            first = server.stderr.readline()
            if "serving map" not in first:
                sys.exit(f"the server did not start: {first.strip()}")
            for module in modules:
                print(f"{module} ...", file=sys.stderr, flush=True)
                words = [sys.executable, "-c", SCRIPT, f"smoke.{module}", "cut" if cut else "real", str(PAUSE_S)]
                done = subprocess.run(
                    words, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True, timeout=LONGEST_S, check=False
                )
                last = done.stdout.strip().rpartition("\n")[2]
                named = (
                    json.loads(last)
                    if done.returncode == 0 and last.startswith("{")
                    else {module: f"ended with {done.returncode}"}
                )
                results |= {name.removeprefix("smoke."): result for name, result in named.items()}
        finally:
            server.terminate()
        if any(result != "passed" for result in results.values()):
            log.seek(0)
            sys.stderr.write(log.read()[-8000:])
    return results


if __name__ == "__main__":
    sys.exit(main())
