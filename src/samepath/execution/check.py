"""What can be known before the first run: what would fail later, and which cells this host does not permit."""

from collections.abc import Iterator
from pathlib import Path

from samepath.base.digests import fingerprint
from samepath.base.errors import SamepathError, StudyError
from samepath.conditions.applicable import missing_tool, why_not
from samepath.simulators import registry
from samepath.simulators.interface import RunRequest, SimulatorInfo, check_request
from samepath.study.records import Isolation, Plan, PlannedCell
from samepath.traces.records import Header


def check_plan(plan: Plan, *, here: bool = True) -> None:
    """Refuse unknown simulators, scenarios and settings, what a simulator cannot do, and what is not installed.

    A cell that is optional may miss its simulator. Where the plan is not run ``here``, other hosts say what they have.
    """
    for cell, info in _described(plan):
        scenario = cell.scenario
        if scenario not in info.scenarios and Path(scenario).is_file():
            scenario = info.scenarios[0]  # a scenario of the user's own; whether it is a good one, the rehearsal tells
        try:
            check_request(info, RunRequest(scenario, 0, plan.seed, cell.settings, plan.duration_s))
        except SamepathError as error:
            raise StudyError(f"cell {cell.name!r}: {error}") from error
        if cell.condition.get("controller") == "replayed" and not info.capabilities.replays:
            raise StudyError(f"cell {cell.name!r}: {info.name} cannot replay commands: leave out controller=replayed")
    missing = _unavailable(plan) if here else {}
    for cell in plan.cells:
        if cell.name in missing and not cell.optional:
            raise StudyError(f"cell {cell.name!r}: {missing[cell.name]}")
    reason = missing_tool(plan.execution.load_tool) if here else None
    if reason is not None and any(cell.condition.get("cpu_load") for cell in plan.cells):
        raise StudyError(f"execution.load_tool: {reason}")


def not_applicable(plan: Plan) -> dict[str, str]:
    """Return the cells that this host does not permit, or whose simulator it does not have, by name, and why not."""
    missing = _unavailable(plan)
    reasons = {cell.name: why_not(cell.condition) or missing.get(cell.name) for cell in plan.cells}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _unavailable(plan: Plan) -> dict[str, str]:
    """Return the cells whose simulator cannot run on this host, by name, and what to do."""
    asked: dict[str, str] = {}
    for cell in plan.cells:
        if _way(cell) not in asked:
            with registry.create(cell.simulator) as simulator:
                asked[_way(cell)] = simulator.unavailable(cell.settings)
    return {cell.name: reason for cell in plan.cells if (reason := asked[_way(cell)])}


def header_of(plan: Plan, cell: PlannedCell, info: SimulatorInfo) -> Header:
    """Return what all repeats of a cell share."""
    held: dict[str, str | float | int | bool] = {"seed": plan.seed, "log_every": plan.log_every}
    if plan.duration_s is not None:
        held["duration_s"] = plan.duration_s
    if "isolation" not in cell.condition:
        held["isolation"] = plan.execution.isolation.value
    if plan.isolation_of(cell) is Isolation.BATCH:
        held["repeats_per_process"] = plan.execution.repeats_per_process
    return Header(
        experiment=plan.name,
        cell=cell.name,
        scenario=cell.scenario,
        channels=info.channels,
        step_s=info.step_s,
        simulator=info.name,
        simulator_version=info.version,
        condition=cell.condition,
        settings={**info.settings, **cell.settings, **held},
        lossless=info.capabilities.lossless,
        variant=cell.variant,
    )


def simulators_of(plan: Plan) -> dict[str, SimulatorInfo]:
    """Return what the simulators of a plan say of themselves; under other settings one may say something else."""
    infos: dict[str, SimulatorInfo] = {}
    asked: set[str] = set()
    for cell, info in _described(plan):
        way = _way(cell)
        if way not in asked:
            infos[cell.simulator if cell.simulator not in infos else f"{cell.simulator} of cell {cell.name!r}"] = info
            asked.add(way)
    return infos


def _way(cell: PlannedCell) -> str:
    """Name a simulator under its settings."""
    return f"{cell.simulator} {fingerprint(cell.settings)}"


def _described(plan: Plan) -> Iterator[tuple[PlannedCell, SimulatorInfo]]:
    """Ask what the simulator of every cell says of itself under the cell's settings, and nobody twice."""
    known: dict[str, SimulatorInfo] = {}
    for cell in plan.cells:
        asked = _way(cell)
        if asked not in known:
            with registry.create(cell.simulator) as simulator:
                try:
                    known[asked] = simulator.described(cell.settings)
                except SamepathError as error:
                    raise StudyError(f"cell {cell.name!r}: {error}") from error
        yield cell, known[asked]
