"""Whether this host permits a condition, and if not, why: tried, where trying is the only way to know."""

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from samepath.core.errors import StudyError
from samepath.instrument.conditions import cpu_load, process
from samepath.instrument.conditions.machine import array_bytes, read_room_bytes, usable_backends, worker_count
from samepath.instrument.host.facts import read_cpu, read_limits
from samepath.instrument.host.gpu import NONE_FOUND, GpuMeter, read_gpus
from samepath.instrument.host.probe import Probe, Unknown

Scalar = str | float | int | bool

TRIED: Final = ("nice", "scheduler", "cores", "numa", "hash_seed", "threads", "aslr")
"""Conditions of one process: setting them in another one, which nobody needs, shows whether it can be done."""
TRY_LIMIT_S: Final = 30.0
UNMARKED: Final = 0.05
"""A load that misses its target by more is marked; one that must miss it by more is not worth running."""


@dataclass(frozen=True)
class HostAbilities:
    """The facts that decide. A test presents its own; :func:`this_host` reads them here.

    ``cores_counted`` are those of the whole machine, ``cores_usable`` as many as this process may keep busy, quota considered.
    ``gpu`` says why a GPU cannot be loaded and read, or is None where it can. ``attempt`` tries a level of one of the ``TRIED``
    and returns the kernel's objection.
    """

    cores_counted: int
    cores_usable: float
    numa_nodes: tuple[str, ...]
    numactl: bool
    gpu: str | None
    memory: str | None
    attempt: Callable[[str, Scalar], str | None]


def why_not(condition: Mapping[str, Scalar], host: HostAbilities | None = None) -> str | None:
    """Return why this host does not permit a condition, in plain words; None if it does."""
    host = host or this_host()
    checks = {
        "cpu_load": _cpu_load,
        "gpu_load": lambda level, host: host.gpu if level > 0 else None,
        "memory_load": lambda level, host: host.memory if level > 0 else None,
        "numa": _numa,
    }
    for name, level in condition.items():
        reason = checks[name](level, host) if name in checks else None
        if reason is None and name in TRIED:
            reason = host.attempt(name, level)
        if reason is not None:
            return reason
    return None


def missing_tool(tool: str) -> str | None:
    """Return why a load tool that was asked for by name cannot be used; None if it can."""
    if tool == cpu_load.STRESS_NG and not cpu_load.has_stress_ng():
        return f"{tool} was asked for, but it is not installed: {cpu_load.INSTALL_STRESS_NG}"
    return None


def _cpu_load(level: Scalar, host: HostAbilities) -> str | None:
    # In a container, or with some cores only, the whole machine cannot be filled from here: such a cell would be marked as
    # missed in every repeat, and is better not run.
    reachable = host.cores_usable / host.cores_counted
    if float(level) <= reachable + UNMARKED:
        return None
    usable = f"{host.cores_usable:g} of its {host.cores_counted} cores"
    return f"a CPU load of {float(level):.0%} of the whole machine cannot be made from here: this process may use {usable}"


def _numa(level: Scalar, host: HostAbilities) -> str | None:
    name = str(level)
    if name == "default":
        return None
    # numactl would accept a policy there and change nothing: a cell that seems to show that policies do not matter.
    if len(host.numa_nodes) < 2:
        return "the machine has one NUMA node only: there is nothing to choose"
    if name.startswith("node") and name not in host.numa_nodes:
        return f"there is no {name}: the machine has {', '.join(host.numa_nodes)}"
    return None if host.numactl else "numactl is not installed (apt-get install numactl)"


@functools.cache
def this_host() -> HostAbilities:
    """Return the facts of this host, read once."""
    probe = Probe()
    cpu, quota = read_cpu(probe), read_limits(probe).cpu_quota_cores
    allowed = len(os.sched_getaffinity(0))
    nodes = cpu.numa_nodes
    return HostAbilities(
        cores_counted=allowed if isinstance(cpu.cores_logical, Unknown) else cpu.cores_logical,
        cores_usable=min(allowed, quota) if isinstance(quota, int | float) else allowed,
        numa_nodes=() if isinstance(nodes, Unknown) else tuple(node.name for node in nodes),
        numactl=_found("numactl"),
        gpu=_gpu(probe),
        memory=_memory(probe, allowed),
        attempt=attempt,
    )


def _found(tool: str) -> bool:
    return shutil.which(tool) is not None


def _gpu(probe: Probe, meter: GpuMeter | None = None) -> str | None:
    gpus = read_gpus(probe)
    if isinstance(gpus, Unknown) or gpus in (NONE_FOUND, ()):
        return "no GPU was found"
    # Read first, load second: a load that cannot be read back is a wish, and its cell would say nothing.
    meter = meter or GpuMeter()
    meter.open()
    try:
        if meter.ratio() is None:
            return "the GPU's utilisation cannot be read: install nvidia-ml-py (samepath[gpu]) and NVIDIA's driver"
    finally:
        meter.close()
    return None if usable_backends() else "there is nothing to load the GPU with: install PyTorch, CuPy or NVIDIA's driver"


def _memory(probe: Probe, cores: int) -> str | None:
    try:
        array_bytes(probe, worker_count(cores), read_room_bytes(probe))
    except StudyError as error:
        return str(error)
    return None


@functools.cache
def attempt(name: str, level: Scalar) -> str | None:
    """Set one condition in a process that nobody needs and read it back; return what stood against it. Tried once."""
    condition = {name: level}
    try:
        # Tried, not worked out: whether capabilities, limits and the control group together permit it only the kernel knows.
        # -P: a module in the user's folder that is called like one of ours must not be run.
        argv = [sys.executable, "-P", "-m", "samepath.instrument.conditions.process", json.dumps(condition)]
        done = subprocess.run(  # noqa: S603 - our own interpreter and module
            process.command(condition, argv),
            env={**os.environ, **process.environment(condition)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TRY_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{name} {level} could not be tried: {error}"
    if done.returncode == 0:
        return None
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return said[0] if said else f"{name} {level} could not be set: the attempt ended with status {done.returncode}"
