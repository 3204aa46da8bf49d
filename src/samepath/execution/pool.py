"""Repeats in fresh processes: groups of repeats, each group in a process that has run nothing before it.

Processes come from a fork server that has imported the code and nothing else, so that starting one costs milliseconds and
shares no simulator state with any other.
"""

import multiprocessing
import signal
from collections.abc import Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

from samepath.base.errors import SimulatorError
from samepath.study.plan import Plan, PlannedCell
from samepath.traces.records import Repeat

_PRELOADED = ["samepath.execution.run", "samepath.sim.scenarios.simulation", "samepath.simulators.samepath"]


def run_in_processes(plan: Plan, cell: PlannedCell, numbers: Sequence[int]) -> Generator[Repeat]:
    """Run repeats in ``plan.processes`` processes at once and yield them as their groups finish."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    size = plan.repeats_per_process
    groups = iter([numbers[start : start + size] for start in range(0, len(numbers), size)])
    with ProcessPoolExecutor(plan.processes, context, _leave_interrupts_to_the_parent, max_tasks_per_child=1) as pool:
        running: set[Future[list[Repeat]]] = set()
        try:
            while True:
                for group in groups:
                    running.add(pool.submit(_run_group, plan, cell, group))
                    if len(running) >= 2 * plan.processes:
                        break
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield from future.result()
        except BrokenProcessPool as error:
            raise SimulatorError(f"cell {cell.name!r}: a process of the simulator died; what was finished is kept") from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run_group(plan: Plan, cell: PlannedCell, numbers: Sequence[int]) -> list[Repeat]:
    from samepath.execution.run import run_repeat
    from samepath.simulators import registry

    with registry.create(cell.simulator) as simulator:
        return [run_repeat(plan, cell, simulator, number) for number in numbers]
