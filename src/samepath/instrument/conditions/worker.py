"""The worker's side of a load: ``python -m samepath.instrument.conditions.worker ORDERS``, busy for a share of every period.

Periods differ a little from each other, in a fixed order, so that workers neither march in step with each other nor with the
kernel's ticks, by which utilisation is counted.
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
from samepath.instrument.conditions.workers import SHARE, SchedulingState, SharedNumbers, done_at, ready_at

PERIOD_S: Final = 0.02
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


def serve(board: SharedNumbers, worker: int, unit: Unit, parent: int) -> None:
    """Be busy for the board's share of every period until the parent is gone."""
    phase, done = worker * _GOLDEN % 1, 0.0
    now_s = SYSTEM_CLOCK.monotonic_s
    while os.getppid() == parent:
        phase = (phase + _GOLDEN) % 1
        period_s = PERIOD_S * (0.75 + 0.5 * phase)
        start_s = now_s()
        end_s = start_s + board[SHARE] * period_s
        while now_s() < end_s:
            done += unit()
        board[done_at(worker)] = done
        rest_s = start_s + period_s - now_s()
        if rest_s > 0:
            SYSTEM_CLOCK.sleep_s(rest_s)


def main(orders: Mapping[str, Any]) -> None:
    """Do what the orders say; ends with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(orders["parent"])
    footing, settings = orders["footing"], orders["settings"]
    try:
        SchedulingState(tuple(footing["cores"]), footing["nice"], footing["policy"]).take()
    except OSError as error:
        raise RuntimeError(f"the cores and priority of load workers cannot be restored ({error.strerror})") from error
    if orders["kind"] == "command":
        tool = settings["argv"][0]
        os.execv(shutil.which(tool) or tool, settings["argv"])  # noqa: S606 - our own words
    unit, answer = KINDS[orders["kind"]](settings)
    board = SharedNumbers(settings["workers"], settings["handle"])
    board[ready_at(settings["index"])] = answer
    serve(board, settings["index"], unit, orders["parent"])


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except Exception as problem:  # one line for the owner, who shows the last
        sys.exit(" ".join(str(problem).split()) or type(problem).__name__)
