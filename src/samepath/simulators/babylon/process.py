"""Node's process: Node and the modules found and asked for their versions, started with a run."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from samepath.base.errors import SimulatorError
from samepath.simulators.babylon.scene import run_json
from samepath.simulators.babylon.settings import BabylonSettings
from samepath.simulators.processes import ask, find_program, user_folder
from samepath.simulators.processes.telling import Project
from samepath.simulators.scripts import Script

PROJECT: Final = Path(__file__).with_name("project")
VARIABLE: Final = "SAMEPATH_BABYLON"
NAME: Final = "Babylon.js"
NODE_NAMES: Final = ("node", "nodejs")
NODE_HOW_TO: Final = "apt-get install nodejs npm, or name it in the setting program"
PACKAGES: Final = {"@babylonjs/core": "Babylon.js", "@babylonjs/havok": "Havok"}
# The first Node whose modules the project is written in.
_OLDEST_NODE: Final = 18
_END_S: Final = 20.0


def find_node(program: str) -> str:
    """Return the path of Node: the one that is named, else the first of the usual names."""
    if not program:
        for name in NODE_NAMES[:-1]:
            try:
                return find_program(name, "Node.js", NODE_HOW_TO)
            except SimulatorError:
                continue
    return find_program(program or NODE_NAMES[-1], "Node.js", NODE_HOW_TO)


def modules_folder(modules: str) -> Path:
    """Return where node_modules is: the folder that is named, else the one in the environment, else one in the user's data."""
    named = modules or os.environ.get(VARIABLE, "")
    if named:
        return Path(named).expanduser().absolute()
    return user_folder("babylon")


def pinned() -> dict[str, str]:
    """Return the versions that the project is written for and tried with."""
    found: dict[str, str] = json.loads((PROJECT / "package.json").read_text("utf-8"))["dependencies"]
    return found


def how_to(folder: Path) -> str:
    """Say how to get the modules."""
    packages = " ".join(f"{name}@{version}" for name, version in pinned().items())
    return f"npm install --prefix {folder} {packages}, or name another folder in {VARIABLE} or the setting modules"


def versions_of(settings: BabylonSettings) -> dict[str, str]:
    """Return the versions of Node, Babylon.js and Havok; raises where one of them is missing."""
    node = find_node(settings.program)
    there = Path(node).stat()
    folder = modules_folder(settings.modules)
    found = {"Node.js": _asked(node, there.st_mtime_ns, there.st_size)}
    for package, name in PACKAGES.items():
        found[name] = _version_in(folder, package, name)
    return found


@lru_cache(maxsize=16)
def _asked(path: str, _mtime_ns: int, _size: int) -> str:
    """Ask a Node for its version, and nobody twice."""
    return ask("Node.js", [path, "--version"], _END_S).removeprefix("v")


def _version_in(folder: Path, package: str, name: str) -> str:
    path = folder / "node_modules" / package / "package.json"
    try:
        told: Any = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise SimulatorError(f"{name} is not installed (no {package} in {folder}): {how_to(folder)}") from None
    except (OSError, ValueError) as error:
        raise SimulatorError(f"{name}: {path} cannot be read ({error}): {how_to(folder)}") from None
    return str(told.get("version", "")) if isinstance(told, dict) else ""


def version_words(settings: BabylonSettings) -> str:
    """Say which engine this is; raises where there is none."""
    found = versions_of(settings)
    return f"{found['Babylon.js']} (Havok {found['Havok']}, Node.js {found['Node.js']})"


def why_not(settings: BabylonSettings) -> str:
    """Say why no run is possible; nothing where one is."""
    try:
        found = versions_of(settings)
    except SimulatorError as error:
        return str(error)
    node = re.match(r"\d+", found["Node.js"])
    if node is None or int(node[0]) < _OLDEST_NODE:
        return f"Node.js {_OLDEST_NODE} or newer was wanted, but {found['Node.js'][:60]!r} came: {NODE_HOW_TO}"
    # Babylon.js keeps what it promises within a major version; Havok's interface to it moves with the minor one.
    for (package, name), places in zip(PACKAGES.items(), (1, 2), strict=True):
        wanted = pinned()[package].split(".")[:places]
        if found[name].split(".")[:places] != wanted:
            how = how_to(modules_folder(settings.modules))
            return f"{name} {'.'.join(wanted)} was wanted, but {found[name][:60]!r} came: {how}"
    return ""


@contextmanager
def playing(script: Script, settings: BabylonSettings, last_tick: int | None) -> Iterator[Project]:
    """Start a run in a Node of its own, which has said its first line; nothing of it is left afterwards."""
    with ExitStack() as stack:
        scratch = Path(tempfile.mkdtemp(prefix="samepath-babylon-"))
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        run = scratch / "run.json"
        run.write_text(run_json(script, settings, last_tick), "utf-8")
        project = Project(NAME, arguments(settings, run), settings.timeout_s, environment=ENVIRONMENT, scratch=scratch)
        yield stack.enter_context(project)


# No option of yours reaches it.
ENVIRONMENT: Final = {"NODE_OPTIONS": ""}


def arguments(settings: BabylonSettings, run: Path) -> list[str]:
    """Return the command line of a run."""
    return [find_node(settings.program), str(PROJECT / "main.js"), str(run), str(modules_folder(settings.modules))]
