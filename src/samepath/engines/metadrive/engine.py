"""MetaDrive's process: its interpreter found, asked for versions, started with a run."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from samepath.core.errors import InputError, SimulatorError
from samepath.engines.interface import Scalar, choice, number, whole
from samepath.engines.subprocess import ask, find_program, user_folder
from samepath.engines.subprocess.project import ProjectProcess
from samepath.scenarios.scripts import Script, document

# What a study may vary about MetaDrive: how time passes.

# MetaDrive steps its physics 5 times for a decision of its agents, and so do we: its own step of 0.02 s would make that 0.1 s.
STEPS_PER_TICK: Final = 5
STEP_S: Final = 0.01
TICK_S: Final = 0.05

SYNCHRONOUS: Final = "synchronous"
GAME_LOOP: Final = "game-loop"
MODES: Final = (SYNCHRONOUS, GAME_LOOP)

_TICKS_AT_ONCE: Final = 20

SETTINGS: Final[Mapping[str, Scalar]] = {
    "python": "",
    "mode": SYNCHRONOUS,
    "time_scale": 1.0,
    "frame_rate_hz": 60.0,
    "max_steps": 10,
    "settle_s": 1.0,
    "timeout_s": 20.0,
}


@dataclass(frozen=True)
class MetaDriveSettings:
    """The same, checked. ``python`` is empty where the environment says whose interpreter to take."""

    python: str
    mode: str
    time_scale: float
    frame_rate_hz: float
    max_steps: int
    settle_s: float
    timeout_s: float

    @property
    def synchronous(self) -> bool:
        """Are drivers asked every tick, whatever the wall clock says?"""
        return self.mode == SYNCHRONOUS

    @property
    def frame_s(self) -> float:
        """How long a frame of the game loop is on the wall clock if nothing delays it."""
        return 1.0 / self.frame_rate_hz

    @property
    def control_s(self) -> float:
        """How often drivers are asked, in simulated time; in the game loop, what they may expect."""
        return TICK_S if self.synchronous else self.frame_s * self.time_scale

    @property
    def settle_steps(self) -> int:
        """Physics steps before the run begins, for cars to come to rest on their springs."""
        return round(self.settle_s / STEP_S)

    @property
    def ticks_at_once(self) -> int:
        """How many ticks of the trace are written together; on the wall clock each as it comes."""
        return _TICKS_AT_ONCE if self.synchronous else 1


def read_settings(values: Mapping[str, Scalar]) -> MetaDriveSettings:
    """Check a study's plain values, each alone and then against each other."""
    read = MetaDriveSettings(
        python=str(values["python"]).strip(),
        mode=choice(values, "mode", MODES),
        time_scale=number(values, "time_scale", 0.01, 100.0),
        frame_rate_hz=number(values, "frame_rate_hz", 1.0, 1000.0),
        max_steps=whole(values, "max_steps", 1, 10_000),
        settle_s=number(values, "settle_s", 0.0, 60.0),
        timeout_s=number(values, "timeout_s", 0.1, 3600.0),
    )
    if read.synchronous and read.time_scale != 1:
        raise InputError("time_scale: synchronous has no wall clock to be faster than: take 1, or mode game-loop")
    return read


# Our scenario for the project that runs in MetaDrive: the script as JSON, and how time is to pass.
#
# The cars are MetaDrive's own, in its own size, weight and power; from the script they have start, track and law of
# driving.


def check_script(script: Script) -> Script:
    """Refuse what the project has no bodies for."""
    for role in script.roles:
        if role.kind != "vehicle":
            raise InputError(
                f"scenario {script.name}: vehicles were wanted, but actor {role.number} is a {role.kind}: "
                "MetaDrive is driven with vehicles only, as in table1-test1 and table1-test2"
            )
    if script.boxes:
        raise InputError(f"scenario {script.name}: an open plain was wanted, but it has boxes: MetaDrive is driven without any")
    return script


def run_json(script: Script, settings: MetaDriveSettings, last_tick: int | None) -> str:
    """Return everything a run needs, as text."""
    plain = document(script) | {
        "mode": settings.mode,
        "step_s": STEP_S,
        "steps_per_tick": STEPS_PER_TICK,
        "ticks": round(script.duration_s / TICK_S),
        "last_tick": last_tick or 0,
        "settle_steps": settings.settle_steps,
        "control_s": settings.control_s,
        "time_scale": settings.time_scale,
        "frame_s": settings.frame_s,
        "max_steps": settings.max_steps,
        "ticks_at_once": settings.ticks_at_once,
    }
    return json.dumps(plain, allow_nan=False)


NAME: Final = "MetaDrive"
PROJECT: Final = Path(__file__).with_name("project")
MODULE: Final = "samepath_metadrive.run"
VARIABLE: Final = "SAMEPATH_METADRIVE"
HOW_TO: Final = (
    "make it an environment of its own, as docs/engines/metadrive.md says, "
    f"and name the python in it in {VARIABLE} or the setting python"
)
ENVIRONMENT: Final = {"PYTHONHASHSEED": "0", "PYTHONPATH": str(PROJECT), "MPLBACKEND": "Agg"}
WANTED: Final = "0.3.0.1"
# Asked of the interpreter: packages tell their versions without being imported.
_QUESTION: Final = """
import platform
from importlib.metadata import PackageNotFoundError, version
try:
    print(version("metadrive-simulator"), "with Panda3D", version("panda3d"), "in Python", platform.python_version())
except PackageNotFoundError as error:
    print("none:", error)
"""


def find_python(python: str) -> str:
    """Return the path of MetaDrive's interpreter: as named, else as in the environment, else the one in the user's data."""
    named = python or os.environ.get(VARIABLE, "") or str(user_folder("metadrive") / "bin" / "python")
    return find_program(named, NAME, HOW_TO)


def version_of(path: str) -> str:
    """Ask an interpreter for its MetaDrive, and nobody twice as long as nothing is installed or removed."""
    folders = Path(path).parent.parent.glob("lib/python3*/site-packages")
    there = (Path(path), *sorted(folders))
    return _asked(path, tuple(one.stat().st_mtime_ns for one in there))


@lru_cache(maxsize=16)
def _asked(path: str, _mtimes_ns: tuple[int, ...]) -> str:
    return ask(f"{NAME}'s python", [path, "-E", "-s", "-c", _QUESTION], folder=PROJECT)


def why_not(python: str) -> str:
    """Say why no run is possible with this interpreter; nothing where one is."""
    try:
        path = find_python(python)
        version = version_of(path)
    except SimulatorError as error:
        return str(error)
    first = version.partition(" ")[0]
    if first == "none:":
        return f"{NAME} is not installed ({path} has no package metadrive-simulator): {HOW_TO}"
    if first != WANTED:
        return f"{NAME} {WANTED} was wanted, but {first[:60] or 'nothing'} came: {HOW_TO}"
    return ""


def arguments(settings: MetaDriveSettings, run: Path) -> list[str]:
    """Return the command line of a run."""
    return [find_python(settings.python), "-s", "-B", "-W", "ignore", "-m", MODULE, str(run)]


@contextmanager
def playing(script: Script, settings: MetaDriveSettings, last_tick: int | None) -> Iterator[ProjectProcess]:
    """Start a run in a MetaDrive of its own, which has said its first line; nothing of it is left afterwards."""
    with ExitStack() as stack:
        scratch = Path(tempfile.mkdtemp(prefix="samepath-metadrive-"))
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        run = scratch / "run.json"
        run.write_text(run_json(script, settings, last_tick), "utf-8")
        # Started where nothing of the user's is: an interpreter imports from its folder before it imports from elsewhere.
        project = ProjectProcess(
            NAME, arguments(settings, run), settings.timeout_s, folder=scratch, environment=ENVIRONMENT, scratch=scratch
        )
        yield stack.enter_context(project)
