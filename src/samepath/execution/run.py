"""Running a plan: every missing repeat of every cell, each stored before the next begins."""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from samepath.base.errors import SimulatorError, StudyError
from samepath.conditions.cpu_load import CpuLoad
from samepath.conditions.sampler import HostSampler
from samepath.execution.pool import run_in_processes
from samepath.simulators import registry
from samepath.simulators.interface import RunRequest, Simulator, SimulatorInfo, check_request
from samepath.study.plan import Plan, PlannedCell
from samepath.traces.recorder import Recorder
from samepath.traces.records import Header, Repeat
from samepath.traces.store import StoredCell, StoreWriter


@dataclass(frozen=True)
class Progress:
    """Where a study stands: told after every repeat."""

    cell: PlannedCell
    done: int
    total_done: int
    total: int


def check_plan(plan: Plan) -> None:
    """Refuse, before the first run, what would fail later: unknown simulators, scenarios and settings."""
    for cell in plan.cells:
        with registry.create(cell.simulator) as simulator:
            check_request(simulator.info(), RunRequest(cell.scenario, 0, plan.seed, cell.settings))


def run_plan(plan: Plan, folder: Path, on_progress: Callable[[Progress], None]) -> None:
    """Run what is missing. Interrupting keeps every finished repeat; calling again continues."""
    check_plan(plan)
    total_done = 0
    for cell in plan.cells:
        with registry.create(cell.simulator) as simulator:
            info = simulator.info()
            with StoreWriter(folder / "cells" / cell.folder, header_of(plan, cell, info)) as writer:
                stored = writer.done()
                surplus = sorted(number for number in stored if number >= cell.repeats)
                if surplus:
                    raise StudyError(
                        f"{writer.folder} holds {len(stored)} repeats already, more than the {cell.repeats} asked for: "
                        "ask for as many, or choose another --out folder"
                    )
                missing = [number for number in range(cell.repeats) if number not in stored]
                done = cell.repeats - len(missing)
                total_done += done
                if done:
                    on_progress(Progress(cell, done, total_done, plan.repeats))
                repeats: Generator[Repeat]
                if plan.processes:
                    repeats = run_in_processes(plan, cell, missing)
                else:
                    repeats = (run_repeat(plan, cell, simulator, number) for number in missing)
                with cpu_load(cell), closing(repeats):
                    for repeat in repeats:
                        writer.write(repeat)
                        done, total_done = done + 1, total_done + 1
                        on_progress(Progress(cell, done, total_done, plan.repeats))


@contextmanager
def cpu_load(cell: PlannedCell) -> Iterator[None]:
    """Hold the machine at the cell's condition ``cpu_load`` while it runs; without the condition, leave it alone."""
    if not cell.condition.get("cpu_load"):
        yield
        return
    with CpuLoad(float(cell.condition["cpu_load"])) as load:
        load.settle()
        yield


def run_repeat(plan: Plan, cell: PlannedCell, simulator: Simulator, number: int) -> Repeat:
    """Run one repeat, watched by a host sampler."""
    info = simulator.info()
    recorder = Recorder(number, info.channels, info.step_s, plan.log_every)
    request = RunRequest(cell.scenario, number, plan.seed, cell.settings)
    try:
        with HostSampler() as sampler:
            simulator.run(request, recorder, sampler.tick)
    except SimulatorError as error:
        raise SimulatorError(f"cell {cell.name!r}, repeat {number}: {error}") from error
    return recorder.finish(sampler.log())


def header_of(plan: Plan, cell: PlannedCell, info: SimulatorInfo) -> Header:
    """Return what all repeats of a cell share."""
    return Header(
        experiment=plan.name,
        cell=cell.name,
        scenario=cell.scenario,
        channels=info.channels,
        step_s=info.step_s,
        simulator=info.name,
        simulator_version=info.version,
        condition=cell.condition,
        settings={**info.settings, **cell.settings, "seed": plan.seed, "log_every": plan.log_every},
        lossless=info.capabilities.lossless,
    )


def stored_cells(plan: Plan, folder: Path) -> list[StoredCell]:
    """Open the cells of a plan that have been run, in the plan's order."""
    paths = [folder / "cells" / cell.folder for cell in plan.cells]
    return [StoredCell(path) for path in paths if (path / "cell.json").exists()]
