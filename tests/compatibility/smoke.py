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
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.tools import code_measured, save
from tests.compatibility.serving import serving

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
    parser.add_argument("--version", default="", help="which version FOLDER is, for the results")
    parser.add_argument("--save", action="store_true", help="write the results to bench/results, too")
    arguments = parser.parse_args()
    code_measured()  # now: what is changed while this runs is not measured
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
    if arguments.save:
        figures: dict[str, object] = {
            "version": arguments.version,
            "passed": passed,
            "tests": results,
            "maps": MAPS,
            "pauses_cut": not arguments.real_pauses,
        }
        save("smoke", figures, ["python", "-m", "tests.compatibility.smoke", "FOLDER"])
    return 0 if passed == len(results) else 1


def run(folder: Path, modules: list[str], *, cut: bool) -> dict[str, str]:
    """Every test by name with what became of it; a module whose process ended early is a row of its own."""
    aliases = [word for name, ours in MAPS.items() for word in ("--alias", f"{name}={ours}")]
    results: dict[str, str] = {}
    with tempfile.TemporaryFile("w+") as log, serving(PORT, ["--map", TOWN, *aliases]):
        for module in modules:
            print(f"{module} ...", file=sys.stderr, flush=True)
            words = [sys.executable, "-c", SCRIPT, f"smoke.{module}", "cut" if cut else "real", str(PAUSE_S)]
            done = subprocess.run(
                words, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True, timeout=LONGEST_S, check=False
            )
            last = done.stdout.strip().rpartition("\n")[2]
            named = (
                json.loads(last) if done.returncode == 0 and last.startswith("{") else {module: f"ended with {done.returncode}"}
            )
            results |= {name.removeprefix("smoke."): result for name, result in named.items()}
        if any(result != "passed" for result in results.values()):
            log.seek(0)
            sys.stderr.write(log.read()[-8000:])
    return results


if __name__ == "__main__":
    sys.exit(main())
