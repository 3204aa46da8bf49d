"""Other people's programs for CARLA, unmodified, three times each, against ``samepath serve`` with real towns.

``python -m tests.compatibility.programs FOLDER --maps TOWNS --environments ENVIRONMENTS``, where FOLDER has a checkout of each
program under the name in the table below, of ``carla`` (for ``PythonAPI`` and ``Co-Simulation``) and of ``carla-0.9.13`` (its
``PythonAPI``), and ``carla-home/CARLA_0.9.15`` (``PythonAPI``, and ``CarlaUE4.sh``, a script that only sleeps). TOWNS also
holds SafeBench's own ``Town_Safebench_Light.xodr``, which its repository has. ENVIRONMENTS has a virtual environment for each
program, under the same name, with the ``carla`` package and what the program asks for.

Many of the programs call port 2000 and no other, so that port must be free. Programs without an end, or with one that is hours
away, get Ctrl-C, always in the same tick of the world, so that runs can be compared. A program that was written for an older
CARLA is run as it is, and then with the names that the client has lost put back (``restored``), as a row of its own.

All runs are compared to the bit, and positions in them with velocities (:mod:`tests.compatibility.motion`).
"""

import argparse
import json
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.tools import RESULTS, code_measured, save
from samepath.core.errors import SamepathError
from tests.compatibility.leaderboard import version
from tests.compatibility.motion import motion_words
from tests.compatibility.repeats import FreshServers, RepeatedRuns, repeated

PORT = 2000
LONGEST_S = 600.0

# Found by every interpreter of the run. Sends Ctrl-C when the program asks for one tick more than ``STOP_AFTER_TICKS``.
CTRL_C = """
import os
try:
    import carla
except ImportError:
    carla = None
if carla is not None and os.environ.get("STOP_AFTER_TICKS"):
    left, tick = int(os.environ["STOP_AFTER_TICKS"]), carla.World.tick
    def counted(*arguments, **named):
        global left
        if left == 0:
            left = -1
            raise KeyboardInterrupt
        left -= 1
        return tick(*arguments, **named)
    carla.World.tick = counted
"""
_FAULT = re.compile(r"^(?!KeyboardInterrupt)\w*(?:\.\w+)*(?:Error|Exception|Exit)\b.*$|^Segmentation fault.*$", re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """How a program is run. ``proof`` is a pattern in what it prints; the last match shows how far it came.

    ``{folder}`` in words, paths and variables is the program's checkout, ``{carla}`` the one of CARLA. ``town`` is the map that
    the server begins with. ``ticks`` is after how many ticks of the world it gets Ctrl-C; 0: it ends by itself. ``restored`` is
    Python that puts back what the client has lost since the program was written, ``restored_words`` says what that is.
    """

    name: str
    words: tuple[str, ...]
    folder: str = ""
    where: str = "."
    town: str = "Town01"
    paths: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    ticks: int = 0
    proof: str = ""
    restored: str = ""
    restored_words: str = ""

    def __str__(self) -> str:
        return f"{self.name}, with {self.restored_words}" if self.restored else self.name


_AGENTS = "{carla}/PythonAPI/carla"
_AGENTS_13 = "{carla}-0.9.13/PythonAPI/carla"
_ROACH = (
    "-u", "benchmark.py", "resume=false", "log_video=false", "wb_project=x", "agent=roaming", "actors.hero.agent=roaming",
    "+agent/roaming/obs_configs=birdview", "+wb_sub_group=x", "test_suites=eu_test_tt", "seed=2021", "no_rendering=true",
    "carla_sh_path=/bin/true", "kill_running=false",
)  # fmt: skip
_LOST = """
if carla is not None:
    carla.CityObjectLabel.Vehicles = carla.CityObjectLabel.Car
    carla.Map.name = property(lambda self, name=carla.Map.name.fget: name(self).rpartition("/")[2])
"""
PROGRAMS = (
    Program("2DBBox", ("collectData.py",), ticks=200, proof=r"Created \d+ npc vehicles"),
    Program("KITTI-CARLA", ("KITTI_data_generator.py",), ticks=2300, proof=r"Map Town\d+|KITTI stopped|St\w+ record"),
    Program("carla-roach", _ROACH, variables=(("WANDB_MODE", "offline"),), ticks=250, proof=r"Start Benchmarking \w+"),
    Program(
        "carla-roach", _ROACH, variables=(("WANDB_MODE", "offline"),), ticks=250, proof=r"Start Benchmarking \w+",
        restored=_LOST, restored_words="`CityObjectLabel.Vehicles` and map names without a path put back",
    ),
    Program(
        "SafeBench",
        ("scripts/run.py", "--agent_cfg", "behavior.yaml", "--scenario_cfg", "standard.yaml", "--output_dir", "$RESULT"),
        paths=("{folder}", _AGENTS_13, f"{_AGENTS_13}/agents"), ticks=100, proof=r"Loading scenario data id: \d+",
    ),
    Program(
        "CARLA's SUMO co-simulation",
        ("run_synchronization.py", "examples/Town01.sumocfg", "--tls-manager", "carla"),
        folder="carla", where="Co-Simulation/Sumo", ticks=300, proof=r"Step #[\d.]+",
    ),
    Program("LunaticAI", ("examples/minimal.py",), town="Town04", paths=("{folder}",), ticks=100),
    # It looks for a CarlaUE4.sh there and starts it, before it takes the server that answers.
    Program(
        "commonroad-carla-interface", ("minimal_example.py",), where="tutorials", paths=("{folder}",),
        variables=(("HOME", "{carla}-home"),),
    ),
    Program("carla_dataset_tools", ("data_recorder.py",), town="Town02", paths=(_AGENTS,), ticks=60, proof=r"FrameID: \d+"),
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a folder with the checkouts of the programs, and of carla")
    parser.add_argument("--maps", type=Path, required=True, help="a folder with the towns' *.xodr files")
    parser.add_argument("--environments", type=Path, required=True, help="a folder with their virtual environments")
    parser.add_argument("--only", default="", help="run only programs in whose name this occurs")
    parser.add_argument("--repeats", type=int, default=3, help="how often each program is run")
    parser.add_argument("--keep", type=Path, help="a folder for recordings and output of the runs")
    parser.add_argument("--save", action="store_true", help="add the results to bench/results, too")
    arguments = parser.parse_args()
    code_measured()  # now: what is changed while this runs is not measured
    found: dict[str, dict[str, str]] = {}
    for program in PROGRAMS:
        if arguments.only not in program.name:
            continue
        folder = arguments.folder / (program.folder or program.name)
        python = arguments.environments / program.name / "bin" / "python"
        if not folder.is_dir() or not python.exists():
            print(f"{program}: not run: expected {folder} and {python}", file=sys.stderr)
            continue
        told = run(program, folder.absolute(), python.absolute(), arguments)
        # Where the checkout lies is no result.
        found[str(program)] = {key: text.replace(str(folder.resolve()), "FOLDER") for key, text in told.items()}
        print(f"{program}: {json.dumps(found[str(program)])}", file=sys.stderr, flush=True)
    columns = ("carla", "result", "proof", "same", "motion")
    table = Table("program", *columns, box=None)
    for name, row in found.items():
        table.add_row(name, *(row[column] for column in columns))
    Console(width=200).print(table)
    if arguments.save:
        kept = RESULTS / "programs.json"
        before = json.loads(kept.read_text("utf-8"))["figures"]["programs"] if kept.exists() and arguments.only else {}
        before = {name: row for name, row in before.items() if name in map(str, PROGRAMS)}
        figures: dict[str, object] = {"repeats": arguments.repeats, "programs": {**before, **found}}
        save("programs", figures, ["python", "-m", "tests.compatibility.programs", "FOLDER"])
    return 0


def run(program: Program, folder: Path, python: Path, arguments: argparse.Namespace) -> dict[str, str]:
    """Run a program as often as asked."""
    carla = version(python)
    with tempfile.TemporaryDirectory(prefix="programs-") as place:
        (Path(place) / "sitecustomize.py").write_text(CTRL_C + program.restored)

        def filled(text: str) -> str:
            return text.replace("{folder}", str(folder)).replace("{carla}", str((arguments.folder / "carla").absolute()))

        environment = {
            "PYTHONPATH": os.pathsep.join([place, *map(filled, program.paths)]),
            "PYTHONUNBUFFERED": "1",
            "PYTHONHASHSEED": "0",
            "STOP_AFTER_TICKS": str(program.ticks or ""),
            "SDL_VIDEODRIVER": "dummy",
            "SDL_AUDIODRIVER": "dummy",
            "MPLBACKEND": "Agg",
            **{name: filled(value) for name, value in program.variables},
        }
        servers = FreshServers(arguments.maps, PORT, carla, LONGEST_S, program.town)
        keep = (arguments.keep or Path(place)) / re.sub(r"\W+", "-", str(program))
        words = [str(python), *map(filled, program.words)]
        try:
            runs = repeated(words, environment, folder / program.where, arguments.repeats, servers, keep)
        except SamepathError as error:
            output = keep / "run-1" / "output.log"
            said = output.read_text("utf-8", errors="replace") if output.exists() else ""
            why = fault(said) or str(error)
            return {"carla": carla, "result": f"stops by itself: `{why}`", "proof": "", "same": "", "motion": ""}
        said = runs.outputs[0].read_text("utf-8", errors="replace")
        proofs = re.findall(program.proof, said) if program.proof else []
        return {
            "carla": carla,
            "result": ended(program, runs, said),
            "proof": proofs[-1].strip() if proofs else "",
            "same": runs.words.partition(" Note:")[0],
            "motion": motion_words(runs.sessions),
        }


def ended(program: Program, runs: RepeatedRuns, said: str) -> str:
    """How the first run ended."""
    codes = runs.report.exit_codes if runs.report is not None else (0,)
    why = fault(said)
    if program.ticks and "KeyboardInterrupt" in said and not why:
        return f"ran; Ctrl-C after {program.ticks} ticks"
    if why:
        return f"stops: `{why}`"
    return "ran" if codes[0] == 0 else f"ran for {LONGEST_S:g} s" if codes[0] is None else f"ended with {codes[0]}"


def fault(said: str) -> str:
    """Return the first error in a program's output, which caused those that follow, or nothing."""
    errors = _FAULT.findall(said)
    return errors[0].strip()[:200] if errors else ""


if __name__ == "__main__":
    sys.exit(main())
