"""TORCS's process: found, asked where its parts are, started with a race and with our module before its physics."""

import hashlib
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from samepath.base.errors import SimulatorError
from samepath.base.suggest import nearest
from samepath.simulators.processes import EngineProcess, find_program
from samepath.simulators.processes.telling import Project
from samepath.simulators.torcs.scene import MODULE, engine_xml, race_xml
from samepath.simulators.torcs.settings import TorcsSettings

NAME: Final = "TORCS"
SOURCE: Final = Path(__file__).with_name("project") / f"{MODULE}.cpp"
VARIABLE: Final = "SAMEPATH_TORCS"
HOW_TO: Final = f"apt-get install --no-install-recommends torcs g++, or name it in {VARIABLE} or the setting program"
WANTED: Final = "1.3.7"
_COMPILER: Final = "g++"
# No -march and no -ffast-math: the module only reads numbers.
_FLAGS: Final = ("-std=c++17", "-O2", "-shared", "-fPIC")
_PLACES: Final = ("/usr/games/torcs", "/usr/local/bin/torcs")
_PARTS: Final = re.compile(r"r -l .* -L (\S.*) -D (\S.*?)\s*")
_VERSION: Final = re.compile(rb"(?<![0-9A-Za-z_.])1\.\d+\.\d+(?![0-9.])")
_END_S: Final = 20.0
_BUILD_S: Final = 120.0


@dataclass(frozen=True)
class Installation:
    """Where a TORCS has its programs and modules, and where its tracks, cars and drivers' files."""

    libraries: Path
    data: Path

    @property
    def binary(self) -> Path:
        """The game itself; what is on the search path is a script that starts it."""
        return self.libraries / "torcs-bin"

    @property
    def physics(self) -> Path:
        """The module that TORCS calls its simulation."""
        return self.libraries / "modules" / "simu" / "simuv2.so"


def find_torcs(program: str) -> str:
    """Return the path of TORCS: the one that is named, else the one in the environment, else where systems put it."""
    named = program or os.environ.get(VARIABLE, "")
    if not named:
        # Games are not always on the search path.
        named = next((place for place in _PLACES if shutil.which("torcs") is None and Path(place).exists()), "torcs")
    return find_program(named, NAME, HOW_TO)


def installation(program: str) -> Installation:
    """Ask a TORCS where its parts are, and nobody twice."""
    path = find_torcs(program)
    there = Path(path).stat()
    return _asked(path, there.st_mtime_ns, there.st_size)


@lru_cache(maxsize=16)
def _asked(path: str, _mtime_ns: int, _size: int) -> Installation:
    """Its option -e prints how a debugger would start it. It makes a folder in HOME, which is not the user's here."""
    home = Path(tempfile.mkdtemp(prefix="samepath-torcs-"))
    try:
        with EngineProcess(NAME, [path, "-e"], environment={"HOME": str(home)}, scratch=home) as process:
            process.end_of_input()
            lines: list[str] = []
            while (line := process.line(_END_S)) is not None and len(lines) < 1000:
                lines.append(line.decode("utf-8", "replace"))
            process.wait(_END_S)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    found = next((match for match in map(_PARTS.fullmatch, lines) if match is not None), None)
    if found is None:
        raise SimulatorError(f"{NAME} {WANTED} was wanted, but {path} does not say where its parts are: {HOW_TO}")
    parts = Installation(Path(found[1]), Path(found[2]))
    for part in (parts.binary, parts.physics, parts.data / "tracks"):
        if not part.exists():
            raise SimulatorError(f"{NAME} is not installed ({part} was not found): {HOW_TO}")
    return parts


def version_of(parts: Installation) -> str:
    """Return the version that is written in a TORCS, and a digest of its programs and modules."""
    files = sorted(path for path in (parts.binary, *parts.libraries.rglob("*.so")) if path.is_file())
    return _digested(str(parts.libraries), tuple((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in files))


@lru_cache(maxsize=16)
def _digested(libraries: str, files: tuple[tuple[str, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for path, _, _ in files:
        digest.update(f"{os.path.relpath(path, libraries)}\n".encode())
        digest.update(hashlib.sha256(Path(path).read_bytes()).digest())
    client = Path(libraries) / "lib" / "libclient.so"
    found = _VERSION.search(client.read_bytes()) if client.exists() else None
    return f"{found[0].decode() if found else 'unknown'} {digest.hexdigest()[:12]}"


def why_not(settings: TorcsSettings) -> str:
    """Say why no race is possible with these settings; nothing where one is."""
    try:
        parts = installation(settings.program)
        version = version_of(parts).split()[0]
        if version != WANTED:
            return f"{NAME} {WANTED} was wanted, but {version} came: {HOW_TO}"
        category_of(parts, settings.track)
        check_drivers(parts, settings)
        if not module_path().exists():
            _compiler()
    except SimulatorError as error:
        return str(error)
    return ""


def category_of(parts: Installation, track: str) -> str:
    """Return the folder of tracks in which one is."""
    found = {path.stem: path.parent.parent.name for path in sorted((parts.data / "tracks").glob("*/*/*.xml"))}
    if track not in found:
        near = nearest(track, tuple(found))
        raise SimulatorError(f"{NAME} has no track {track}{f': did you mean {near}?' if near else ''}")
    return found[track]


def check_drivers(parts: Installation, settings: TorcsSettings) -> None:
    """Refuse robots that are not there; whether one has a driver of that number, TORCS finds out."""
    known = tuple(sorted(path.stem for path in (parts.libraries / "drivers").glob("*/*.so")))
    for driver in settings.drivers:
        if driver.module not in known:
            near = nearest(driver.module, known)
            raise SimulatorError(f"{NAME} has no robot {driver.module}{f': did you mean {near}?' if near else ''}")


def module_path() -> Path:
    """Return where our module is, or will be once it is built: in the user's cache, by the digest of what it is built from."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    built_from = " ".join((*_FLAGS, platform.machine(), "\n")).encode() + SOURCE.read_bytes()
    return Path(base).expanduser() / "samepath" / "torcs" / hashlib.sha256(built_from).hexdigest()[:16] / f"{MODULE}.so"


def build() -> Path:
    """Return our module, built if it is not yet there."""
    path = module_path()
    if path.exists():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="build-", dir=path.parent) as folder:
            made = Path(folder) / path.name
            command = [_compiler(), *_FLAGS, "-o", str(made), str(SOURCE), "-ldl"]
            with EngineProcess("the C++ compiler", command, talks=False) as process:
                process.finish(_BUILD_S)
            made.replace(path)  # whole or not at all, if two build at once
    except OSError as error:
        where = f"in {path.parent}: {error.strerror}"
        raise SimulatorError(f"{NAME}'s module cannot be built {where}: set XDG_CACHE_HOME to a folder of yours") from error
    return path


def _compiler() -> str:
    named = os.environ.get("CXX", "").strip() or _COMPILER
    return find_program(named, f"{NAME}'s C++ compiler", "apt-get install g++, or name one in CXX")


@contextmanager
def race(settings: TorcsSettings, ticks: int) -> Iterator[Project]:
    """Start a race in a TORCS of its own, which has said its first line; nothing of it is left afterwards."""
    parts = installation(settings.program)
    with ExitStack() as stack:
        scratch = Path(tempfile.mkdtemp(prefix="samepath-torcs-"))
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        command = prepare(scratch, parts, settings)
        environment = {
            "HOME": str(scratch),
            "LC_ALL": "C",
            "LD_LIBRARY_PATH": str(parts.libraries / "lib"),
            "SAMEPATH_SIMUV2": str(parts.physics),
            "SAMEPATH_TICKS": str(ticks),
            "SAMEPATH_CARS": str(len(settings.drivers)),
        }
        project = Project(NAME, command, settings.timeout_s, folder=parts.data, environment=environment, scratch=scratch)
        yield stack.enter_context(project)


def prepare(scratch: Path, parts: Installation, settings: TorcsSettings) -> list[str]:
    """Fill a folder with all that this race has of its own, and return the command that starts it."""
    own, libraries = scratch / "own", scratch / "libraries"
    (own / "config").mkdir(parents=True)
    (own / "config" / "raceengine.xml").write_bytes(engine_xml())
    modules = libraries / "modules"
    (modules / "simu").mkdir(parents=True)
    (modules / "simu" / f"{MODULE}.so").symlink_to(build())
    for name in ("track", "graphic"):
        (modules / name).symlink_to(parts.libraries / "modules" / name)
    (libraries / "drivers").symlink_to(parts.libraries / "drivers")
    file = scratch / "race.xml"
    file.write_bytes(race_xml(settings, category_of(parts, settings.track)))
    return [str(parts.binary), "-l", str(own), "-L", str(libraries), "-D", str(parts.data), "-r", str(file)]
