"""Load control: is the machine really at 25, 50, 75 and 95 % over a minute, alone and beside a simulator?

CPU load with every tool that is installed, memory bandwidth, and the GPU where there is one. Takes about 25 minutes on two
cores; SAMEPATH_BENCH_LOAD_S makes it shorter. A load can only add: what all others (the neighbour, and what else runs on the
machine) took beyond the target is measured in every second, printed, and not held against the controller.
"""

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

import psutil

from bench.tools import save, show, verdict
from samepath.base.clock import SYSTEM_CLOCK
from samepath.conditions import stress_ng
from samepath.conditions.applicable import why_not
from samepath.conditions.cpu_load import busy_ratio
from samepath.conditions.crew import Footing
from samepath.conditions.gpu import GpuMeter
from samepath.conditions.gpu_load import GpuLoad, usable_backends
from samepath.conditions.machine import MachineLoads
from samepath.conditions.sampler import read_core_times

SECONDS = float(os.environ.get("SAMEPATH_BENCH_LOAD_S", "60"))
BACKENDS = os.environ.get("SAMEPATH_BENCH_GPU_BACKENDS", "").split()
TARGETS = (0.25, 0.5, 0.75, 0.95)
AIM = 0.05
# Seconds busy and seconds idle of one thread: a simulator that runs repeats with pauses in between, and one that never pauses.
NEIGHBOURS = {"none": (0.0, 1.0), "bursts": (0.2, 0.3), "steady": (1.0, 0.0)}
Reading = TypeVar("Reading")
NEIGHBOUR = """
import sys, time
busy, idle = map(float, sys.argv[1:])
while True:
    end = time.perf_counter() + busy
    while time.perf_counter() < end:
        pass
    time.sleep(idle)
"""


def main() -> bool:
    """Hold every target with every tool and compare; the aim is 5 points."""
    figures: dict[str, object] = {"seconds": SECONDS, "aim": AIM}
    good = _cpu(figures) & _memory(figures)
    reason = why_not({"gpu_load": 0.5})
    if reason is None:
        good &= _gpu(figures)
    else:
        figures["gpu"] = reason
    save("load", figures)
    return good


def _cpu(figures: dict[str, object]) -> bool:
    rows, found = [], []
    cores = len(read_core_times())
    for tool in ("samepath", *([stress_ng.NAME] if stress_ng.installed() else [])):
        for name, (busy_s, idle_s) in NEIGHBOURS.items():
            for target in TARGETS:
                if target <= busy_s / (busy_s + idle_s) / cores:
                    continue  # the neighbour alone takes as much
                with MachineLoads(tool=tool) as loads:
                    loads.hold({"cpu_load": target})
                    with _neighbour(busy_s, idle_s):
                        SYSTEM_CLOCK.sleep_s(2.0)  # by then the change that a repeat's start makes has been corrected
                        loads.mark()
                        pairs = _every_second(_cpu_reader(loads, cores))
                        mean = float(loads.measured()["cpu_load"])
                seconds, ours = [one[0] for one in pairs], [one[1] for one in pairs]
                others = [max(0.0, one - two) for one, two in pairs]
                excess = statistics.fmean(max(0.0, one - target) for one in others)
                row = {"tool": tool, "neighbour": name, "target": target, "others": statistics.fmean(others), "excess": excess}
                found.append(row | _figures(seconds, mean) | {"ours": [round(one, 3) for one in ours]})
                taken = [f"{row['others']:.1%}", f"{excess:.1%}", _judged(target, mean - excess)]
                rows.append([tool, name, *_words(target, mean, seconds), *taken])
    columns = ["made by", "neighbour", "target", "measured", "worst second", "all others", "beyond target", "within 5 points"]
    show(f"CPU load over {SECONDS:g} s", columns, rows)
    figures["cpu"] = found
    return not any(row[-1] == verdict(met=False) for row in rows)


def _memory(figures: dict[str, object]) -> bool:
    rows, found = [], []
    with MachineLoads() as loads:
        for target in TARGETS[:3]:
            loads.hold({"memory_load": target})
            seconds = _every_second(lambda: _since_mark(loads, "memory_load"))
            mean = statistics.fmean(seconds)
            cpu = float(loads.measured()["cpu_load"])
            found.append({"target": target, "cpu_load": cpu} | _figures(seconds, mean))
            rows.append([*_words(target, mean, seconds), f"{cpu:.0%}", _judged(target, mean)])
        full = loads.full_bps or 0.0
    columns = ["target", "measured", "worst second", "CPU meanwhile", "within 5 points"]
    show(f"memory bandwidth over {SECONDS:g} s, full speed {full / 1e9:.1f} GB/s", columns, rows)
    figures["memory"] = {"full_bps": full, "rows": found}
    return not any(row[-1] == verdict(met=False) for row in rows)


def _gpu(figures: dict[str, object]) -> bool:
    rows, found = [], []
    for backend in BACKENDS or usable_backends()[:1]:
        meter = GpuMeter()
        meter.open()
        load = GpuLoad(TARGETS[0], Footing.here(), meter, (backend,))
        start_s = SYSTEM_CLOCK.monotonic_s()
        load.start()
        started_s = SYSTEM_CLOCK.monotonic_s() - start_s
        try:
            for target in TARGETS:
                load.hold(target)
                SYSTEM_CLOCK.sleep_s(6.0)
                load.mark()
                cores = read_core_times()
                seconds = _every_second(partial(_ratio, meter))
                cpu = busy_ratio(cores, read_core_times())
                mean = load.measured() or 0.0
                row = {"backend": load.backend, "target": target, "started_s": started_s, "cpu_load": cpu}
                found.append(row | _figures(seconds, mean))
                words = _words(target, mean, seconds)
                rows.append([load.backend, *words, f"{cpu:.0%}", f"{started_s:.1f} s", _judged(target, mean)])
        finally:
            load.close()
            meter.close()
    columns = ["through", "target", "measured", "worst second", "CPU meanwhile", "started in", "within 5 points"]
    show(f"GPU utilisation over {SECONDS:g} s", columns, rows)
    figures["gpu"] = found
    return not any(row[-1] == verdict(met=False) for row in rows)


@contextmanager
def _neighbour(busy_s: float, idle_s: float) -> Iterator[None]:
    if busy_s == 0:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", NEIGHBOUR, str(busy_s), str(idle_s)])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _every_second(read: Callable[[], Reading]) -> list[Reading]:
    found = []
    for _ in range(max(2, round(SECONDS))):
        SYSTEM_CLOCK.sleep_s(1.0)
        found.append(read())
    return found


def _cpu_reader(loads: MachineLoads, cores: int) -> Callable[[], tuple[float, float]]:
    """Return a function that reads the utilisation since its last call, and how much of it the load was."""
    before, before_s, ours_s = read_core_times(), SYSTEM_CLOCK.monotonic_s(), _taken_s(loads)

    def read() -> tuple[float, float]:
        nonlocal before, before_s, ours_s
        now, now_s, taken_s = read_core_times(), SYSTEM_CLOCK.monotonic_s(), _taken_s(loads)
        # A stress-ng that was started anew has taken its time along: count what is left.
        ours = sum(max(0.0, taken_s[pid] - ours_s.get(pid, 0.0)) for pid in taken_s) / (now_s - before_s) / cores
        ratio = busy_ratio(before, now) or 0.0
        before, before_s, ours_s = now, now_s, taken_s
        return ratio, ours

    return read


def _taken_s(loads: MachineLoads) -> dict[int, float]:
    """Return the CPU time that each process of the load has taken."""
    taken = {}
    for pid in loads.pids:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            for one in (process, *process.children(recursive=True)):
                times = one.cpu_times()
                taken[one.pid] = times.user + times.system
    return taken


def _since_mark(loads: MachineLoads, name: str) -> float:
    found = float(loads.measured()[name])
    loads.mark()
    return found


def _ratio(meter: GpuMeter) -> float:
    return meter.ratio() or 0.0


def _figures(seconds: list[float], mean: float) -> dict[str, object]:
    return {"measured": mean, "seconds": [round(one, 3) for one in seconds], "deviation_of_seconds": statistics.stdev(seconds)}


def _words(target: float, mean: float, seconds: list[float]) -> list[str]:
    worst = max(seconds, key=lambda one: abs(one - target))
    return [f"{target:.0%}", f"{mean:.1%}", f"{worst:.0%}"]


def _judged(target: float, mean: float) -> str:
    return verdict(met=abs(mean - target) <= AIM)
