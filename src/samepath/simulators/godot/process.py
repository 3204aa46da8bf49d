"""Godot's process: found, asked for its version, started with a run, and with it the process of the external controllers."""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final

from samepath.base.errors import SimulatorError
from samepath.simulators.godot.scene import run_json
from samepath.simulators.godot.screen import SIZE, display_of, find_screen, screen_environment, start_screen
from samepath.simulators.godot.settings import EXTERNAL, NAME, STEPS_PER_S, GodotSettings
from samepath.simulators.processes import EngineProcess, find_program
from samepath.simulators.processes.telling import Project
from samepath.simulators.scripts import Script

PROJECT: Final = Path(__file__).with_name("project")
VARIABLE: Final = "SAMEPATH_GODOT"
NAMES: Final = ("godot3-server", "godot3-headless", "godot3")
NAMES_DRAWN: Final = ("godot3-runner", "godot3")
_OR_NAMED: Final = f"or name it in {VARIABLE} or the setting program"
HOW_TO: Final = f"apt-get install --no-install-recommends godot3-server, {_OR_NAMED}"
HOW_TO_DRAWN: Final = f"apt-get install --no-install-recommends godot3-runner xvfb libgl1-mesa-dri, {_OR_NAMED}"
# The first with the physics interface that the project uses, and the first that has another language.
_OLDEST, _TOO_NEW = (3, 2), (4, 0)
_START_S: Final = 60.0
_END_S: Final = 20.0


def find_godot(program: str, *, drawn: bool = False) -> str:
    """Return the path of Godot: the one that is named, else the one in the environment, else the first of the usual names."""
    named, how_to = program or os.environ.get(VARIABLE, ""), HOW_TO_DRAWN if drawn else HOW_TO
    if named:
        return find_program(named, NAME, how_to)
    *names, last = NAMES_DRAWN if drawn else NAMES
    for name in names:
        try:
            return find_program(name, NAME, how_to)
        except SimulatorError:
            continue
    return find_program(last, NAME, how_to)


def version_of(path: str) -> str:
    """Ask a Godot for its version, and nobody twice."""
    there = Path(path).stat()
    return _asked(path, there.st_mtime_ns, there.st_size)


@lru_cache(maxsize=16)
def _asked(path: str, _mtime_ns: int, _size: int) -> str:
    """Read the first line; Godot 3 ends with exit code 255 after telling its version."""
    with EngineProcess(NAME, [path, "--version"]) as process:
        process.end_of_input()
        line = process.line(_END_S)
        process.wait(_END_S)
    return (line or b"").decode("utf-8", "replace").strip()


def why_not(settings: GodotSettings) -> str:
    """Say why no run is possible under these settings; nothing where one is."""
    how_to = HOW_TO_DRAWN if settings.drawn else HOW_TO
    try:
        version = version_of(find_godot(settings.program, drawn=settings.drawn))
        if settings.drawn:
            find_screen()
    except SimulatorError as error:
        return str(error)
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None:
        named = settings.program or "the program"
        return f"Godot 3.2 or a later 3.x was wanted, but {named} says {version[:60]!r} for a version: {how_to}"
    if not _OLDEST <= (int(found[1]), int(found[2])) < _TOO_NEW:
        return f"Godot 3.2 or a later 3.x was wanted, but {version} came: {how_to}"
    return ""


@contextmanager
def playing(scenario: str, script: Script, settings: GodotSettings, last_tick: int | None) -> Iterator[Project]:
    """Start a run in a Godot of its own, which has said its first line; nothing of it is left afterwards.

    Whoever drives from outside, and the screen, are there as long as it is.
    """
    with ExitStack() as stack:
        scratch = Path(tempfile.mkdtemp(prefix="samepath-godot-"))
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        driver = stack.enter_context(_controllers(scenario)) if settings.controller == EXTERNAL else None
        port = 0 if driver is None else _port_of(driver)
        screen = stack.enter_context(start_screen()) if settings.drawn else None
        display = "" if screen is None else display_of(screen)
        run = scratch / "run.json"
        run.write_text(run_json(script, settings, last_tick, port), "utf-8")
        yield stack.enter_context(
            Project(
                NAME,
                arguments(find_godot(settings.program, drawn=settings.drawn), settings),
                settings.timeout_s,
                environment=environment(run, display),
                scratch=scratch,
                helpers=[one for one in (driver, screen) if one is not None],
            )
        )


def arguments(path: str, settings: GodotSettings) -> list[str]:
    """Return the command line of a run."""
    found = [path, "--path", str(PROJECT), "--language", "en", "--disable-crash-handler"]
    if settings.drawn:
        found += ["--video-driver", settings.rendering.upper(), "--audio-driver", "Dummy", "--resolution", SIZE]
    return [*found, "--fixed-fps", str(STEPS_PER_S)] if settings.synchronous else found


def environment(run: Path, display: str = "") -> dict[str, str]:
    """Return where the run is told and drawn, and folders of its own for what Godot would leave in the user's."""
    folders = {name: str(run.parent) for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
    return {"SAMEPATH_RUN": str(run), **folders, **screen_environment(display)}


def _controllers(scenario: str) -> EngineProcess:
    """Start the process that drives all cars from outside."""
    command = [sys.executable, "-P", "-m", "samepath.simulators.godot.external", scenario]
    return EngineProcess("the external controller", command)


def _port_of(process: EngineProcess) -> int:
    line = process.line(_START_S) or b""
    if not line.isdigit():
        raise process.trouble(f"said {line[:60]!r} where its port was wanted", 2.0)
    return int(line)
