"""MetaDrive's process: its interpreter found, asked for versions, started with a run.

MetaDrive 0.3 needs older packages than samepath, so that it has an environment of its own, and a project of ours runs in its
interpreter. The cars are MetaDrive's own, in its own size, weight and power; from the script they have start, track and law of
driving.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final

from samepath.core.errors import SimulatorError
from samepath.engines.metadrive.simulator import NAME, STEP_S, STEPS_PER_TICK, TICK_S, MetaDriveSettings
from samepath.engines.subprocess import ask, find_program, user_folder
from samepath.engines.subprocess.project import ProjectProcess
from samepath.scenarios.scripts import Script, document


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
    places = (Path(path), *sorted(folders))
    return _asked(path, tuple(place.stat().st_mtime_ns for place in places))


@lru_cache(maxsize=16)
def _asked(path: str, _mtimes_ns: tuple[int, ...]) -> str:
    return ask(f"{NAME}'s python", [path, "-E", "-s", "-c", _QUESTION], folder=PROJECT)


def missing(python: str) -> str:
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
