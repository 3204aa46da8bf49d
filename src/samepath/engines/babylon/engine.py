"""Node's process: Node and the modules found and asked for their versions, started with a run, and what the project tells.

The project builds its world from a JSON document, the script with what Babylon.js needs besides. Nothing that it tells is
rounded on the way: Havok's numbers have 32 bits; they are widened. The project writes them in the order of our axes. A car is
where the middle of its mass is, on the ground: ``x_m`` and ``y_m`` are the engine's own, ``z_m`` is less by the height that the
middle has in a car at rest.
"""

import binascii
import json
import math
import os
import re
import shutil
import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import SimulatorError
from samepath.core.trig import to_degrees
from samepath.core.trig_arrays import atan2
from samepath.engines.babylon.simulator import NAME, STATE, STEPS_PER_S, STEPS_PER_TICK, TICK_S, BabylonSettings
from samepath.engines.resampling import EngineFrame, Resampler
from samepath.engines.subprocess import ask, find_program, user_folder
from samepath.engines.subprocess.project import (
    REASONS,
    FrameStats,
    ProjectEnd,
    ProjectProcess,
    ReceivedStates,
    SubprocessContact,
)
from samepath.scenarios.scripts import Role, Script, document

# Where the middle of the mass is, as a part of the height: low, as in a car.
_CENTRE_OF_MASS: Final = 0.38


def centre_of_mass_m(role: Role) -> float:
    """How high above the ground the middle of a car's mass is, which is where Havok has the car."""
    return _CENTRE_OF_MASS * role.body.height_m


def run_json(script: Script, settings: BabylonSettings, last_tick: int | None) -> str:
    """Return everything a run needs, as text."""
    plain = document(script)
    for actor, role in zip(plain["actors"], script.roles, strict=True):
        actor["centre_of_mass_m"] = centre_of_mass_m(role)
    plain |= {
        "steps_per_s": STEPS_PER_S,
        "steps_per_tick": STEPS_PER_TICK,
        "ticks": round(script.duration_s / TICK_S),
        "last_tick": last_tick or 0,
        "settle_steps": settings.settle_steps,
        "mode": settings.mode,
        "controller": settings.controller,
        "time_scale": settings.time_scale,
        "states_at_once": settings.states_at_once,
    }
    return json.dumps(plain, allow_nan=False)


PROJECT: Final = Path(__file__).with_name("project")
VARIABLE: Final = "SAMEPATH_BABYLON"
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


def missing(settings: BabylonSettings) -> str:
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
def playing(script: Script, settings: BabylonSettings, last_tick: int | None) -> Iterator[ProjectProcess]:
    """Start a run in a Node of its own, which has said its first line; nothing of it is left afterwards."""
    with ExitStack() as stack:
        scratch = Path(tempfile.mkdtemp(prefix="samepath-babylon-"))
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        run = scratch / "run.json"
        run.write_text(run_json(script, settings, last_tick), "utf-8")
        project = ProjectProcess(NAME, arguments(settings, run), settings.timeout_s, environment=ENVIRONMENT, scratch=scratch)
        yield stack.enter_context(project)


# No option of yours reaches it.
ENVIRONMENT: Final = {"NODE_OPTIONS": ""}


def arguments(settings: BabylonSettings, run: Path) -> list[str]:
    """Return the command line of a run."""
    return [find_node(settings.program), str(PROJECT / "main.js"), str(run), str(modules_folder(settings.modules))]


Floats = NDArray[np.float64]
# Place, quaternion (x, y, z, w), velocity, spin and command of a car.
_VALUES: Final = 16
_CONTACT: Final = struct.Struct("<7d")
_LONGEST_TOLD: Final = 60
_DEG_PER_RAD: Final = to_degrees(1.0)
# A frame this near to a tick, as a part of it, is on it; the project counts in the same way.
_ROUNDING: Final = 1e-9


class BabylonReader:
    """Reads the lines of a run with these cars; ``variable_step`` is one whose steps are as long as frames took.

    Of states only the bytes are kept as they come, so that reading takes no time from a run; :meth:`values` reads them.
    """

    def __init__(self, roles: Sequence[Role], *, variable_step: bool) -> None:
        self._heights_m = np.array([centre_of_mass_m(role) for role in roles])
        self._numbers = [role.number for role in roles]
        self._variable_step = variable_step
        self._record = np.dtype([("steps", "<f8"), ("time_s", "<f8"), ("cars", "<f8", (len(roles), _VALUES))])
        self._kept: list[bytes] = []
        self._tick = 0
        self._time_s = -1.0
        self.note = ""

    def read(self, line: bytes) -> ReceivedStates | SubprocessContact | FrameStats | ProjectEnd:
        """Return what a line says; any other line is an error."""
        mark, _, rest = line.partition(b" ")
        try:
            if mark == b"S":
                return self._states(binascii.a2b_base64(rest, strict_mode=True))
            if mark == b"C":
                return self._contact(_CONTACT.unpack(binascii.a2b_base64(rest, strict_mode=True)))
            if mark == b"F":
                count, most = rest.split()
                return FrameStats(int(count), int(most))
            if mark == b"E":
                reason, tick = rest.decode().split()
                return ProjectEnd(REASONS[reason], int(tick))
        except (binascii.Error, struct.error, ValueError, KeyError):
            pass
        raise SimulatorError(f"Babylon.js wrote {line[:_LONGEST_TOLD]!r} where a state, a contact or the end was wanted")

    def _states(self, data: bytes) -> ReceivedStates:
        """Return the ticks that these states reach; of frames of variable length some reach none, some more than one."""
        first = self._tick + 1
        records = np.frombuffer(data, self._record)
        for steps, time_s in zip(records["steps"].tolist(), records["time_s"].tolist(), strict=True):
            if self._variable_step:
                if not self._time_s < time_s < math.inf:
                    raise SimulatorError(f"Babylon.js wrote a state at {time_s!r} s after one at {self._time_s!r} s")
                self._time_s = time_s
                self._tick = math.floor(time_s / TICK_S + _ROUNDING)
            elif steps != (self._tick + 1) * STEPS_PER_TICK:
                wanted = f"step {(self._tick + 1) * STEPS_PER_TICK}, which is tick {self._tick + 1}, was wanted"
                raise SimulatorError(f"Babylon.js wrote a state of step {steps:g} where {wanted}")
            else:
                self._tick += 1
        self._kept.append(data)
        return ReceivedStates(tuple(range(first, self._tick + 1)))

    def _contact(self, values: tuple[float, ...]) -> SubprocessContact:
        steps, time_s, actor, other, x, y, z = values
        if actor not in self._numbers or other not in (-1, *self._numbers):
            raise ValueError(actor)
        tick = math.ceil(time_s / TICK_S - _ROUNDING) if self._variable_step else -(-int(steps) // STEPS_PER_TICK)
        return SubprocessContact(max(tick, 1), int(actor), None if other < 0 else int(other), (x, y, z))

    def values(self) -> Floats:
        """Return what was told, float64[tick, car, channel] from tick 1 on; resampled where it must be."""
        records = np.frombuffer(b"".join(self._kept), self._record)
        broken = ~np.isfinite(records["cars"]).all(axis=(1, 2))
        if broken.any():
            time_s = records["time_s"][np.argmax(broken)]
            raise SimulatorError(f"Babylon.js wrote a state at {time_s:.3f} s that is not a number")
        rows = self._rows(records["cars"])
        return self._resampled(records["time_s"].tolist(), rows) if self._variable_step else rows

    def _rows(self, cars: Floats) -> Floats:
        """Return float64[state, car, channel], in the order of :data:`CHANNELS`."""
        x, y, z, qx, qy, qz, qw, vx, vy, vz, wx, wy, wz, *controls = np.moveaxis(cars, -1, 0)
        forward = (1 - 2 * (qy * qy + qz * qz), 2 * (qx * qy + qw * qz), 2 * (qx * qz - qw * qy))
        right_z, up_z = 2 * (qy * qz + qw * qx), 1 - 2 * (qx * qx + qy * qy)
        flat = np.sqrt(forward[0] * forward[0] + forward[1] * forward[1])
        angles = (atan2(-right_z, up_z), atan2(forward[2], flat), atan2(forward[1], forward[0]), wx, wy, wz)
        roll, pitch, yaw, *spin = (np.asarray(angle) * _DEG_PER_RAD for angle in angles)
        yaw = np.where(yaw < 180.0, yaw, yaw - 360.0)
        return np.stack((x, y, z - self._heights_m, roll, pitch, yaw, vx, vy, vz, *spin, *controls), axis=-1)

    def _resampled(self, times_s: list[float], rows: Floats) -> Floats:
        """States lie on the line between two frames; commands are those of the frame that reaches the tick."""
        frames = []
        for time_s, cars in zip(times_s, rows.tolist(), strict=True):
            there = {number: dict(zip(STATE, car, strict=False)) for number, car in zip(self._numbers, cars, strict=True)}
            frames.append(EngineFrame(time_s, there))
        resampler = Resampler(TICK_S, frames[0])
        resampler.rest()  # the start itself is no tick of a trace
        ticks = [tick for frame in frames[1:] for tick in resampler.take(frame)] + resampler.rest()
        self.note = resampler.note
        reached = np.searchsorted(times_s, [(tick.tick - _ROUNDING) * TICK_S for tick in ticks])
        states = np.array([[list(tick.states[number].values()) for number in self._numbers] for tick in ticks])
        return np.concatenate([states, rows[reached, :, len(STATE) :]], axis=-1)
