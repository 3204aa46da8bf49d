"""The worker's side of a load: ``python -m samepath.instrument.conditions.worker TASK``, busy for a share of every period.

Periods differ by up to a quarter from each other, in a fixed order, so that workers neither march in step with each other nor
with the kernel's ticks. The kernel may count utilisation by sampling at those ticks: a worker in step with them would be seen
always busy or never, and workers in step with each other would load the machine in bursts that a simulator feels as a rhythm.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.processes import die_with_parent
from samepath.instrument.conditions.worker_pool import SHARE, SchedulingState, SharedNumbers, done_at, ready_at

# Short enough that a simulator with a step of 50 ms sees an even load, long enough that waking up is a small part of it.
PERIOD_S: Final = 0.02
# Multiples of the golden ratio, modulo 1, fill an interval evenly and never repeat: jitter without a random generator.
_GOLDEN: Final = 0.6180339887498949

Unit = Callable[[], float]
"""A short piece of work; returns how much was done."""
Maker = Callable[[Mapping[str, Any]], tuple[Unit, int]]
"""Makes a worker's unit of work from its settings; the number is its answer to the owner, from 1."""


def cpu_unit(settings: Mapping[str, Any]) -> tuple[Unit, int]:
    """Return work for one core: some microseconds of counting."""

    def count() -> float:
        for _ in range(200):
            pass
        return 200.0

    return count, 1


def memory_unit(settings: Mapping[str, Any]) -> tuple[Unit, int]:
    """Return work for the memory: copying parts of an array too large for any cache. What is done counts bytes moved."""
    import numpy as np

    part = 2**20
    parts = max(1, settings["array_bytes"] // part)
    source = np.ones((parts, part // 8))
    target = np.zeros_like(source)
    place = 0

    def copy() -> float:
        nonlocal place
        np.copyto(target[place], source[place])
        place = (place + 1) % parts
        return 2.0 * part  # read once and written once

    return copy, 1


def gpu_unit(settings: Mapping[str, Any]) -> tuple[Unit, int]:
    """Return work for the first GPU, through the first back end that works here."""
    from samepath.instrument.conditions.gpu_kernels import first_kernel, unit_of

    name, kernel = first_kernel(settings["backends"])
    return unit_of(kernel), 1 + settings["backends"].index(name)


KINDS: Final[dict[str, Maker]] = {"CPU": cpu_unit, "memory": memory_unit, "GPU": gpu_unit}


def serve(shared: SharedNumbers, worker: int, unit: Unit, parent: int) -> None:
    """Be busy for the share that the owner set, in every period, until the parent is gone."""
    phase, done = worker * _GOLDEN % 1, 0.0
    now_s = SYSTEM_CLOCK.monotonic_s
    while os.getppid() == parent:
        phase = (phase + _GOLDEN) % 1
        period_s = PERIOD_S * (0.75 + 0.5 * phase)
        start_s = now_s()
        end_s = start_s + shared[SHARE] * period_s
        while now_s() < end_s:
            done += unit()
        shared[done_at(worker)] = done
        rest_s = start_s + period_s - now_s()
        if rest_s > 0:
            SYSTEM_CLOCK.sleep_s(rest_s)


def main(task: Mapping[str, Any]) -> None:
    """Do the task; ends with the parent."""
    # Ctrl-C is for the study, which ends its workers in order; a worker that died of it first would look like a failed load.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(task["parent"])
    scheduling, settings = task["scheduling"], task["settings"]
    try:
        SchedulingState(tuple(scheduling["cores"]), scheduling["nice"], scheduling["policy"]).apply()
    except OSError as error:
        raise RuntimeError(f"the cores and priority of load workers cannot be restored ({error.strerror})") from error
    if task["kind"] == "command":
        tool = settings["argv"][0]
        os.execv(shutil.which(tool) or tool, settings["argv"])  # noqa: S606 - a fixed command
    unit, answer = KINDS[task["kind"]](settings)
    shared = SharedNumbers(settings["workers"], settings["handle"])
    shared[ready_at(settings["index"])] = answer
    serve(shared, settings["index"], unit, task["parent"])


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except Exception as problem:  # one line for the owner, who shows the last
        sys.exit(" ".join(str(problem).split()) or type(problem).__name__)
