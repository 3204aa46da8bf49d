"""Small plans and work, built from the records directly."""

import os
import sys
from pathlib import Path

from samepath.instrument.execution.hosts import Work
from samepath.instrument.execution.job import Job
from samepath.instrument.study.plan import draw_slots
from samepath.instrument.study.records import Execution, Isolation, Order, Plan, PlannedCell


def cell(simulator, name=None, *, scenario="s", repeats=4, settings=None, condition=None):
    simulator = f"tests.support.odd_simulators:{simulator}" if simulator in ("Telling", "Faulty", "Wavering") else simulator
    scenario = "crossing" if simulator.startswith("control-") else scenario
    name = name or simulator
    folder = name.replace(" ", "-").replace(":", "-")
    return PlannedCell(name, folder, simulator, scenario, settings or {}, condition or {}, repeats)


def plan(*cells, isolation=Isolation.INLINE, blocks=1, order=Order.LISTED, duration_s=None, **execution):
    settled = {"settle_s": 0.0, "load_tool": "samepath", **execution}
    run = Execution(isolation=isolation, order=order, blocks=blocks, **settled)
    slots = draw_slots(cells, order, blocks, 1)
    return Plan("small", "", 0.01, 1, 1, tuple(cells), duration_s=duration_s, execution=run, slots=slots)


def work(simulator, isolation=Isolation.PROCESS, *, settings=None, condition=None, **how):
    job = Job(f"tests.support.odd_simulators:{simulator}", "s", settings or {}, condition or {}, path=tuple(sys.path))
    return Work(job, isolation, **how)


def marked_processes(mark):
    """Return the processes in whose environment ``mark`` stands: all that a marked one has started, and their children."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes() and int(folder.name) != os.getpid():
                found.append(int(folder.name))
        except OSError:
            continue
    return found
