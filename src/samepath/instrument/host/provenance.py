"""Where a measurement comes from: when, with which command and code, on which machine.

What cannot be known says so, as ``unknown: reason``; collecting never fails. Of the environment only a few variables
that change results are kept, and neither host nor user is named.
"""

import dataclasses
import functools
import os
import platform
import re
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import samepath
from samepath.core.clock import SYSTEM_CLOCK, Clock
from samepath.instrument.host.facts import (
    CgroupLimits,
    Cpu,
    LoadAverage,
    MemoryInfo,
    OperatingSystem,
    Virtualisation,
    read_cpu,
    read_limits,
    read_load_average,
    read_memory,
    read_operating_system,
    read_virtualisation,
)
from samepath.instrument.host.gpu import GpuInfo, NvmlLoader, load_nvml, read_gpus
from samepath.instrument.host.locked import Versions, differences_from_lock, installed_version
from samepath.instrument.host.probe import Checkout, Probe, Runner, Unknown, read_checkout, run_command

LIBRARIES = ("numpy", "pyarrow", "scipy")
OPTIONAL_LIBRARIES = ("rapier3d", "numba", "carla")
ENVIRONMENT = (
    "PYTHONHASHSEED",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "GLIBC_TUNABLES",
    "LD_PRELOAD",
)


@dataclass(frozen=True)
class SamepathVersion:
    """The samepath that ran; ``checkout`` is None when it was installed from a package."""

    version: str
    checkout: Checkout | Unknown | None


@dataclass(frozen=True)
class PythonBuild:
    """The interpreter and how it was built."""

    version: str
    implementation: str
    compiler: str
    configure_flags: str
    compile_flags: str


@dataclass(frozen=True)
class Provenance:
    """Everything known about where a measurement comes from. Varies by nature: never part of a digest."""

    date_utc: str
    command: tuple[str, ...]
    seed: int | None
    samepath: SamepathVersion
    working_folder: Checkout | Unknown | None
    python: PythonBuild
    libraries: Mapping[str, str]
    differs_from_lock: tuple[str, ...] | Unknown
    environment: Mapping[str, str]
    operating_system: OperatingSystem
    cpu: Cpu
    limits: CgroupLimits
    virtualisation: Virtualisation
    memory: MemoryInfo
    gpus: tuple[GpuInfo, ...] | str
    load_average: LoadAverage

    def as_dict(self) -> dict[str, object]:
        """Return the record as plain JSON data."""
        return {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}


def collect_provenance(
    command: Sequence[str],
    seed: int | None,
    clock: Clock = SYSTEM_CLOCK,
    *,
    root: Path = Path("/"),
    run: Runner = run_command,
    environment: Mapping[str, str] = os.environ,
    nvml: NvmlLoader = load_nvml,
    installed: Versions = installed_version,
) -> Provenance:
    """Describe this moment on this host; never raises.

    ``root`` stands for ``/``, ``run`` starts commands, ``installed`` returns versions of libraries: tests present their own.
    """
    probe = Probe(root, run)
    load_average = read_load_average(probe)  # first, before the commands below add to it
    return Provenance(
        date_utc=clock.utc_iso(),
        command=tuple(hide_home(word) for word in command),
        seed=seed,
        samepath=SamepathVersion(samepath.__version__, read_checkout(probe, Path(__file__).parent, Path(__file__).name)),
        working_folder=_working_folder(probe),
        python=_read_python(),
        libraries=_library_versions(installed),
        differs_from_lock=differences_from_lock(installed),
        environment={name: hide_home(environment[name]) for name in ENVIRONMENT if name in environment},
        operating_system=read_operating_system(probe),
        cpu=read_cpu(probe),
        limits=read_limits(probe),
        virtualisation=read_virtualisation(probe),
        memory=read_memory(probe),
        gpus=read_gpus(probe, nvml),
        load_average=load_average,
    )


def hide_home(text: str) -> str:
    """Replace the user's home folder, where a path in ``text`` begins with it, by ``~``."""
    pattern = _home_pattern(_homes())
    return text if pattern is None else pattern.sub(r"\1~", text)


def _homes() -> tuple[str, ...]:
    try:
        home = Path.home()
        homes = {str(home), str(home.resolve())}
    except (RuntimeError, OSError):
        return ()
    # A service's home may be «/», which hides nobody.
    return tuple(sorted((home for home in homes if home.strip("/.")), key=len, reverse=True))


@functools.cache
def _home_pattern(homes: tuple[str, ...]) -> re.Pattern[str] | None:
    """Match a home where a path starts: at the start of the text, after a separator or after a flag (-I/home/ann)."""
    if not homes:
        return None
    names = "|".join(map(re.escape, homes))
    return re.compile(rf"(^|[^\w.~-]|(?<![\w.-])-\w)(?:{names})(?![\w.-])")


def _working_folder(probe: Probe) -> Checkout | Unknown | None:
    try:
        folder = Path.cwd()
    except OSError:
        return Unknown.because("the working folder is gone")
    return read_checkout(probe, folder)


def _read_python() -> PythonBuild:
    def built_with(name: str) -> str:
        flags = sysconfig.get_config_var(name)
        return hide_home(str(flags)) if flags else Unknown.because(f"the interpreter's build keeps no {name}")

    return PythonBuild(
        version=sys.version.split()[0],
        implementation=platform.python_implementation(),
        compiler=platform.python_compiler(),
        configure_flags=built_with("CONFIG_ARGS"),
        compile_flags=built_with("PY_CFLAGS"),
    )


def _library_versions(installed: Versions) -> dict[str, str]:
    required = {name: installed(name) or Unknown.because("not installed") for name in LIBRARIES}
    optional = {name: installed(name) for name in OPTIONAL_LIBRARIES}
    return required | {name: version for name, version in optional.items() if version is not None}


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Unknown) else value
