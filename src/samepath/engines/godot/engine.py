"""Godot's process: found, asked for its version, started with a run, and what its project tells in our frame and units.

The project builds its world from a JSON document, the script with what Godot needs besides. Nothing that it tells is rounded on
the way: Godot's numbers have 32 bits; they are widened. A car is where the middle of its mass is, on the ground: ``x_m`` and
``y_m`` are the engine's own, ``z_m`` is less by the height that the middle has in a car at rest.

A run may need two more processes, which are there as long as Godot is: external controllers, and an Xvfb to draw on.
"""

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import SimulatorError
from samepath.engines.godot.simulator import EXTERNAL, NAME, STEPS_PER_S, STEPS_PER_TICK, TICK_S, GodotSettings
from samepath.engines.subprocess import EngineProcess, find_program
from samepath.engines.subprocess.project import CAR, REASONS, ProjectProcess, TraceReader, rows
from samepath.scenarios.scripts import Role, Script, document

_GRAVITY_MPS2: Final = 9.81
# A car's springs, which scripts do not tell of. In Bullet's vehicle they count per kilogram of the whole car.
_CENTRE_OF_MASS: Final = 0.38  # of the car's height
_STIFFNESS_PER_S2: Final = 40.0
_COMPRESSION_PER_S: Final = 4.0
_RELAXATION_PER_S: Final = 6.0
_REST_M: Final = 0.25
_TRAVEL_M: Final = 0.2


def centre_of_mass_m(role: Role) -> float:
    """How high above the ground the middle of a car's mass is, which is where Godot has the car."""
    return _CENTRE_OF_MASS * role.body.height_m


def run_json(script: Script, settings: GodotSettings, last_tick: int | None, port: int = 0) -> str:
    """Return everything a run needs, as text; ``port`` is that of the external controller."""
    plain = document(script)
    for actor, role in zip(plain["actors"], script.roles, strict=True):
        actor["suspension"] = _suspension(role)
    plain |= {
        "steps_per_s": STEPS_PER_S,
        "steps_per_tick": STEPS_PER_TICK,
        "ticks": round(script.duration_s / TICK_S),
        "last_tick": last_tick or 0,
        "settle_steps": settings.settle_steps,
        "controller": settings.controller,
        "rendering": settings.rendering,
        "time_scale": settings.time_scale,
        "frame_sleep_us": settings.frame_sleep_us,
        "ticks_at_once": settings.ticks_at_once,
        "port": port,
    }
    return json.dumps(plain, allow_nan=False)


def _suspension(role: Role) -> dict[str, Any]:
    """Return springs on which a car stands with its wheels where the script has them."""
    radius_m = role.wheels.radius_m if role.wheels is not None else 0.0
    sag_m = _GRAVITY_MPS2 / (4 * _STIFFNESS_PER_S2)
    # Godot casts the ray of a wheel from a radius above its mount, but takes its length for that from the mount.
    ray_m = _REST_M + radius_m
    mount_m = (ray_m - sag_m) * (ray_m + radius_m) / ray_m - radius_m
    return {
        "centre_of_mass_m": centre_of_mass_m(role),
        "mount_m": mount_m,
        "rest_m": _REST_M,
        "travel_m": _TRAVEL_M,
        "stiffness_per_s2": _STIFFNESS_PER_S2,
        "compression_per_s": _COMPRESSION_PER_S,
        "relaxation_per_s": _RELAXATION_PER_S,
        "most_n": role.body.mass_kg * _GRAVITY_MPS2 * 2,
    }


HOW_TO_DRAW: Final = "apt-get install --no-install-recommends xvfb libgl1-mesa-dri"
SIZE: Final = "640x360"
_START_S: Final = 60.0


def find_screen() -> str:
    """Return the path of Xvfb, or say how to get it."""
    return find_program("Xvfb", "A screen in memory", HOW_TO_DRAW)


def start_screen() -> EngineProcess:
    """Start an Xvfb, a screen in memory, on the first number that is free; it listens to this machine only."""
    command = [find_screen(), "-displayfd", "1", "-screen", "0", f"{SIZE}x24", "-nolisten", "tcp", "-noreset"]
    return EngineProcess("Xvfb", command)


def display_of(screen: EngineProcess) -> str:
    """Wait until it is there, and return its name."""
    line = screen.line(_START_S) or b""
    if not line.isdigit():
        raise screen.trouble(f"said {line[:60]!r} where the number of its display was wanted", 2.0)
    return f":{int(line)}"


def screen_environment(display: str) -> dict[str, str]:
    """Return what makes OpenGL draw on it, in software whatever graphics card there is."""
    return {"DISPLAY": display, "LIBGL_ALWAYS_SOFTWARE": "1", "WAYLAND_DISPLAY": ""} if display else {}


PROJECT: Final = Path(__file__).with_name("project")
VARIABLE: Final = "SAMEPATH_GODOT"
NAMES: Final = ("godot3-server", "godot3-headless", "godot3")
NAMES_DRAWN: Final = ("godot3-runner", "godot3")
_OR_NAMED: Final = f"or name it in {VARIABLE} or the setting program"
HOW_TO: Final = f"apt-get install --no-install-recommends godot3-server, {_OR_NAMED}"
HOW_TO_DRAWN: Final = f"apt-get install --no-install-recommends godot3-runner xvfb libgl1-mesa-dri, {_OR_NAMED}"
# The first with the physics interface that the project uses, and the first that has another language.
_OLDEST, _TOO_NEW = (3, 2), (4, 0)
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


def missing(settings: GodotSettings) -> str:
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
def playing(scenario: str, script: Script, settings: GodotSettings, last_tick: int | None) -> Iterator[ProjectProcess]:
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
            ProjectProcess(
                NAME,
                arguments(find_godot(settings.program, drawn=settings.drawn), settings),
                settings.timeout_s,
                environment=environment(run, display),
                scratch=scratch,
                helpers=[helper for helper in (driver, screen) if helper is not None],
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
    command = [sys.executable, "-P", "-m", "samepath.engines.godot.external", scenario]
    return EngineProcess("the external controller", command)


def _port_of(process: EngineProcess) -> int:
    line = process.line(_START_S) or b""
    if not line.isdigit():
        raise process.trouble(f"said {line[:60]!r} where its port was wanted", 2.0)
    return int(line)


def reader_of(roles: Sequence[Role]) -> TraceReader:
    """Return who reads the lines of a run with these cars."""
    return TraceReader(NAME, CAR, [role.number for role in roles], STEPS_PER_TICK, REASONS)


def states(reader: TraceReader, roles: Sequence[Role]) -> NDArray[np.float64]:
    """Return what was told: float64[tick, car, channel]."""
    return rows(reader.cars(), np.array([centre_of_mass_m(role) for role in roles]))
