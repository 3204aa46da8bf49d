"""Conditions of one process: priority, scheduler class, cores, memory placement, hash seed, threads, address layout.

Some can be set from within (:func:`apply`), before the simulator is made; the others only where an interpreter starts
(:func:`environment`, :func:`command`). Either way :func:`apply` reads back what is there, and does not go on without it.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from samepath.core.errors import StudyError
from samepath.instrument.conditions import layout, packages
from samepath.instrument.host.facts import format_cores, parse_cores
from samepath.instrument.host.probe import Unknown

Scalar = str | float | int | bool

AT_START: Final = ("hash_seed", "aslr", "threads", "numa", "packages")
"""Conditions that only a new interpreter can have."""
SCHEDULERS: Final = {
    "other": os.SCHED_OTHER,
    "batch": os.SCHED_BATCH,
    "idle": os.SCHED_IDLE,
    "fifo": os.SCHED_FIFO,
    "rr": os.SCHED_RR,
}
THREAD_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "POLARS_MAX_THREADS",
)
UNSET: Final = "unset"
_ADVICE: Final = {
    "nice": "it takes root, CAP_SYS_NICE or the limit nice in /etc/security/limits.conf",
    "scheduler": "it takes root, CAP_SYS_NICE or the limit rtprio, and a control group with real-time (cpu.rt_runtime_us)",
    "cores": "name cores that this process may use",
    "numa": "start the interpreter under numactl",
    "packages": "start the interpreter of that installation",
}
_START: Final = "start a new interpreter for it (isolation: cold)"


def needs_new_interpreter(condition: Mapping[str, Scalar]) -> bool:
    """Say whether a condition can only be had by starting an interpreter; the same for all levels, so that they compare."""
    return any(name in condition for name in AT_START)


def environment(condition: Mapping[str, Scalar]) -> dict[str, str]:
    """Return the variables to add to a new interpreter's environment."""
    variables = {}
    if "hash_seed" in condition:
        variables["PYTHONHASHSEED"] = str(condition["hash_seed"])
    if "threads" in condition:
        variables |= dict.fromkeys(THREAD_VARIABLES, str(condition["threads"]))
    return variables


def command(condition: Mapping[str, Scalar], argv: list[str]) -> list[str]:
    """Return the command that starts ``argv`` under the conditions which must be there from the start."""
    prefix: list[str] = []
    numa = str(condition.get("numa", "default"))
    if numa != "default":
        node = numa.removeprefix("node")
        placed = {"local": ["--localalloc"], "interleave": ["--interleave=all"]}
        prefix += ["numactl", *placed.get(numa, [f"--cpunodebind={node}", f"--membind={node}"])]
    if "aslr" in condition:
        prefix += [sys.executable, "-I", "-S", str(Path(layout.__file__)), "on" if condition["aslr"] else "off"]
    return [*prefix, *argv]


def apply(condition: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Set what can be set in this process and its threads, and return all its conditions as read back.

    Raises StudyError where what is there is not what was asked for.
    """
    asked = dict(condition)
    if "cores" in asked:
        wanted = chosen_cores(str(asked["cores"]), os.sched_getaffinity(0))
        asked["cores"] = format_cores(wanted)
        _set("cores", condition["cores"], lambda task: os.sched_setaffinity(task, wanted))
    if "nice" in asked:
        level = int(asked["nice"])
        _set("nice", level, lambda task: os.setpriority(os.PRIO_PROCESS, task, level))
    if "scheduler" in asked:
        policy = SCHEDULERS[str(asked["scheduler"])]
        # The lowest real-time priority is above everything else already.
        parameters = os.sched_param(os.sched_get_priority_min(policy))
        _set("scheduler", asked["scheduler"], lambda task: os.sched_setscheduler(task, policy, parameters))
    found = read_back()
    if "packages" in asked:
        found["packages"] = asked["packages"] if packages.in_use(str(asked["packages"])) else packages.OWN
    for name in ("nice", "scheduler", "cores", *AT_START):
        # A kernel without NUMA shows no policy, and has the default one.
        there = found.get(name, "default" if name == "numa" else "unreadable")
        if name in asked and asked[name] != there:
            words = f"{name} {_shown(asked[name])} was asked for, but {_shown(there)} is there"
            raise StudyError(f"{words}: {_ADVICE.get(name, _START)}")
    return found


def _shown(level: Scalar) -> str:
    return str(level) if not isinstance(level, bool) else "on" if level else "off"


def _set(name: str, level: Scalar, change: Callable[[int], None]) -> None:
    """Change all threads of this process: Linux has these conditions per thread, and a library may have started some."""
    try:
        for task in sorted(int(entry.name) for entry in Path("/proc/self/task").iterdir()):
            change(task)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StudyError(f"{name} {level} was asked for, but the kernel refused ({reason}): {_ADVICE[name]}") from error


def chosen_cores(level: str, allowed: set[int]) -> set[int]:
    """Return the cores a level means. One is the last that is allowed: the first takes most interrupts."""
    if level == "all":
        return set(allowed)
    if level == "one":
        return {max(allowed)}
    named = parse_cores(level)
    if isinstance(named, Unknown) or not named:
        raise StudyError(f"cores all, one or such as 0,2-3 were wanted, but {level!r} came")
    missing = sorted(set(named) - allowed)
    if missing:
        usable = f"this process may use {format_cores(allowed)}"
        raise StudyError(f"cores {level} were asked for, but there is no {format_cores(missing)} to use: {usable}")
    return set(named)


def read_back() -> dict[str, Scalar]:
    """Return this process's conditions as the kernel, and the environment it was started with, tell them.

    ``numa`` and ``aslr`` are absent where they cannot be read; ``threads`` is «unset» where libraries choose for themselves.
    """
    policies = {policy: name for name, policy in SCHEDULERS.items()}
    policy = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
    found: dict[str, Scalar] = {
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "scheduler": policies.get(policy, str(policy)),
        "cores": format_cores(os.sched_getaffinity(0)),
        "hash_seed": _hash_seed(),
        "threads": _threads(),
    }
    numa, aslr = _numa(), _aslr()
    return found | ({} if numa is None else {"numa": numa}) | ({} if aslr is None else {"aslr": aslr})


def _started_with(name: str) -> str | None:
    """Return a variable as it was when the interpreter started: setting it later has no effect."""
    try:
        entries = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return os.environ.get(name)
    values = [entry.partition(b"=")[2].decode(errors="replace") for entry in entries if entry.startswith(f"{name}=".encode())]
    return values[0] if values else None


def _hash_seed() -> Scalar:
    if not sys.flags.hash_randomization:
        return 0
    seed = None if sys.flags.ignore_environment else _started_with("PYTHONHASHSEED")
    return int(seed) if seed is not None and seed.isdecimal() else "random"


def _threads() -> Scalar:
    values = {_started_with(name) for name in THREAD_VARIABLES}
    value = values.pop() if len(values) == 1 else _started_with("OMP_NUM_THREADS")
    return int(value) if value is not None and value.isdecimal() else UNSET


def _numa() -> str | None:
    """Return the memory policy of this process, in our words; numa_maps has it as the second word of each line."""
    try:
        lines = Path("/proc/self/numa_maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    heaps = [line.split() for line in lines if "heap" in line or "stack" in line]
    if not heaps:
        return None
    policy = heaps[0][1]
    bound = re.fullmatch(r"bind(?:=\w+)?:(\d+)", policy)
    if bound:
        return f"node{bound[1]}"
    return policy.partition(":")[0].partition("=")[0]


def _aslr() -> bool | None:
    try:
        switched_off = bool(layout.personality() & layout.ADDR_NO_RANDOMIZE)
        mode = Path("/proc/sys/kernel/randomize_va_space").read_text(encoding="ascii").strip()
    except OSError:
        return None
    return mode != "0" and not switched_off


if __name__ == "__main__":
    # Trying a condition in a process that nobody needs (``samepath.instrument.conditions.applicable``).
    try:
        print(json.dumps(apply(json.loads(sys.argv[1]))))
    except StudyError as problem:
        sys.exit(str(problem))
