"""TORCS's process: found, asked where its parts are, started with a race and with our module before its physics.

TORCS is given a race file, and an engine file that names our module instead of TORCS's physics; the module calls the physics
and tells what came of it. Nothing that it tells is rounded on the way: TORCS's numbers have 32 bits; they are widened. A car is
where the middle of its mass is. TORCS's frame is right-handed with z up: its y is the other way round than ours, and so are
turns about z. Its pitch is positive with the nose down, ours with the nose up.
"""

import hashlib
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import SimulatorError, nearest
from samepath.core.trig import to_degrees
from samepath.engines.subprocess import EngineProcess, find_program
from samepath.engines.subprocess.project import ProjectProcess, SubprocessContact
from samepath.engines.torcs.simulator import NAME, RaceDriver, TorcsSettings

MODULE: Final = "telling"
# The starting grid that TORCS's own quick race has.
_GRID: Final[Mapping[str, float]] = {
    "rows": 2.0,
    "distance to start": 25.0,
    "distance between columns": 20.0,
    "offset within a column": 10.0,
    "initial speed": 0.0,
    "initial height": 0.2,
}
_NAME: Final = "Quick Race"


def race_xml(settings: TorcsSettings, category: str) -> bytes:
    """Return the race: who starts where, on which track, for how many laps. ``category`` is the folder the track is in."""
    race = Element("params", name=_NAME, type="param", mode="mw")
    _fill(_section(race, "Header"), {"name": _NAME, "description": _NAME, "priority": 10.0})
    tracks = _fill(_section(race, "Tracks"), {"maximum number": 1.0})
    _fill(_section(tracks, "1"), {"name": settings.track, "category": category})
    _fill(_section(_section(race, "Races"), "1"), {"name": _NAME})
    rules = _fill(
        _section(race, _NAME),
        {"distance": 0.0, "type": "race", "starting order": "drivers list", "restart": "no", "laps": float(settings.laps)},
    )
    _fill(_section(rules, "Starting Grid"), _GRID)
    first = settings.drivers[0]
    drivers = _fill(
        _section(race, "Drivers"),
        {"maximum number": 40.0, "focused module": first.module, "focused idx": float(first.index)},
    )
    for place, driver in enumerate(settings.drivers, 1):
        _fill(_section(drivers, str(place)), {"idx": float(driver.index), "module": driver.module})
    return _bytes(race)


def engine_xml() -> bytes:
    """Return which modules TORCS loads: ours stands before its physics."""
    engine = Element("params", name="", type="template", mode="mw")
    _fill(_section(engine, "Modules"), {"track": "track", "simu": MODULE, "graphic": "ssggraph"})
    return _bytes(engine)


def actor_type(driver: RaceDriver) -> str:
    """Return what a trace calls a car: the robot that drives it, and as which of its drivers."""
    return f"torcs.{driver.module}.{driver.index}"


def _bytes(params: Element) -> bytes:
    text: bytes = tostring(params, encoding="UTF-8", xml_declaration=True)
    return text


def _section(parent: Element, name: str) -> Element:
    return SubElement(parent, "section", name=name)


def _fill(section: Element, values: Mapping[str, str | float]) -> Element:
    for name, value in values.items():
        if isinstance(value, str):
            SubElement(section, "attstr", name=name, val=value)
        else:
            SubElement(section, "attnum", name=name, val=f"{value:g}")
    return section


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


def missing(settings: TorcsSettings) -> str:
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
def race(settings: TorcsSettings, ticks: int) -> Iterator[ProjectProcess]:
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
        project = ProjectProcess(NAME, command, settings.timeout_s, folder=parts.data, environment=environment, scratch=scratch)
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


# What is told of a car: place, angles, velocity, how fast it turns, steering, pedals, gear.
CAR: Final = np.dtype([("real", "<f4", 14)])
_DEG_PER_RAD: Final = to_degrees(1.0)


def rows(cars: NDArray[Any]) -> NDArray[np.float64]:
    """Return states as float64[tick, car, channel], in the order of the channels."""
    real = np.moveaxis(cars["real"].astype(np.float64), -1, 0)
    x, y, z, roll, pitch, yaw, vx, vy, vz, turn, steer, throttle, brake, gear = real
    yaw_deg = (180.0 - yaw * _DEG_PER_RAD) % 360.0 - 180.0
    angles = (roll * _DEG_PER_RAD, -pitch * _DEG_PER_RAD, yaw_deg)
    return np.stack((x, -y, z, *angles, vx, -vy, vz, -turn * _DEG_PER_RAD, throttle, -steer, brake, gear), axis=-1)


def in_our_frame(contact: SubprocessContact) -> SubprocessContact:
    """Return a contact with its impulse along our axes."""
    x, y, z = contact.impulse_ns
    return SubprocessContact(contact.tick, contact.actor, contact.other, (x, -y, z))
