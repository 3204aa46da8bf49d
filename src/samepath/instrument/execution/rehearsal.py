"""What is known before the first run: what would fail, which cells this host does not permit, how long it all takes.

Checks ask the simulators and the host, and run nothing. The rehearsal runs one trial repeat of every distinct simulator,
scenario and settings, under no load, and keeps nothing: it finds what is broken before a night is spent on it. The estimate of
time and disk is a sum over what is missing, from what the rehearsal took.
"""

import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from samepath.core.errors import SamepathError, SimulatorError, StudyError
from samepath.engines.interface import RunRequest, SimulatorInfo, check_request
from samepath.instrument.conditions.applicable import missing_tool, why_not
from samepath.instrument.conditions.packages import contents_of
from samepath.instrument.conditions.process import needs_new_interpreter
from samepath.instrument.execution.hosts import LocalHost, RepeatFailed, RepeatFinished, Work, real_isolation
from samepath.instrument.execution.installed import installed, way_of
from samepath.instrument.execution.job import job_of
from samepath.instrument.study.records import Isolation, Plan, PlannedCell, Scalar, Slot
from samepath.instrument.traces.records import Header
from samepath.instrument.traces.store import StoreWriter

# Nothing is known yet of how long a run takes; a study whose runs take longer says so.
LONGEST_S: Final = 600.0
PACKAGES: Final = "packages"
LOADS: Final = ("cpu_load", "gpu_load", "memory_load")
# Finished repeats wait unpacked until their cell is complete, or until all that wait are larger than this.
SPOOL_BYTES: Final = 1 << 30
# Reading, comparing and drawing a row (one actor at one tick) takes about this long on one core.
_ANALYSIS_S_PER_ROW: Final = 2e-6
_ANALYSIS_S_PER_CELL: Final = 0.5
# Storing a finished repeat and asking for the next.
_STORE_S: Final = 0.005
_SPARE: Final = 1.1
# What starting and running a repeat takes on an idle desktop, by the beginning of the simulator's name: measured once, to guess
# by. Other people's engines run Table I's tests at about four times real time, as the studies ask of them.
_GUESS_S: Final = {"control-": (0.02, 0.01), "samepath-game-loop": (0.1, 0.8), "samepath": (0.05, 0.15)}
_ENGINE_GUESS_S: Final = (0.5, 2.2)
# The figure of the game loop above is for this many times real time, its default.
_SCALED, _GUESSED_SCALE = "samepath-game-loop", 20.0
_COLD_START_S: Final = 0.8
_GUESS_ROWS: Final = 800


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
        replays = cell.condition.get("controller", "in-loop")
        if replays != "in-loop" and not info.capabilities.replays:
            raise StudyError(f"cell {cell.name!r}: {info.name} cannot replay commands: leave out controller={replays}")
        if replays not in ("in-loop", "replayed") and not info.capabilities.egos:
            raise StudyError(f"cell {cell.name!r}: {info.name} cannot replay for an ego alone: leave out controller={replays}")
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
        if way_of(cell) not in asked:
            try:
                asked[way_of(cell)] = installed(cell).unavailable
            except StudyError as error:
                asked[way_of(cell)] = str(error)  # an installation that is not there, or says nothing
    return {cell.name: reason for cell in plan.cells if (reason := asked[way_of(cell)])}


def header_of(plan: Plan, cell: PlannedCell, info: SimulatorInfo) -> Header:
    """Return what all repeats of a cell share."""
    held: dict[str, str | float | int | bool] = {"seed": plan.seed, "log_every": plan.log_every}
    if plan.duration_s is not None:
        held["duration_s"] = plan.duration_s
    if "isolation" not in cell.condition:
        held["isolation"] = plan.execution.isolation.value
    if PACKAGES in cell.condition:
        # The condition is a path; this is what lay there. Two traces are of one version only if both are the same.
        held[PACKAGES] = contents_of(str(cell.condition[PACKAGES]))
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
        time_scale=info.time_scale,
        frame_work_s=info.frame_work_s,
    )


def simulators_of(plan: Plan) -> dict[str, SimulatorInfo]:
    """Return what the simulators of a plan say of themselves; under other settings one may say something else."""
    infos: dict[str, SimulatorInfo] = {}
    asked: set[str] = set()
    for cell, info in _described(plan):
        way = way_of(cell)
        if way not in asked:
            infos[cell.simulator if cell.simulator not in infos else f"{cell.simulator} of cell {cell.name!r}"] = info
            asked.add(way)
    return infos


def _described(plan: Plan) -> Iterator[tuple[PlannedCell, SimulatorInfo]]:
    """Ask what the simulator of every cell says of itself under the cell's settings, and nobody twice."""
    known: dict[str, SimulatorInfo] = {}
    for cell in plan.cells:
        asked = way_of(cell)
        if asked not in known:
            try:
                known[asked] = installed(cell).info
            except SamepathError as error:
                if cell.optional and PACKAGES in cell.condition:
                    continue  # an installation that is not there, of which nothing can be asked: the cell is left out
                raise StudyError(f"cell {cell.name!r}: {error}") from error
        yield cell, known[asked]


@dataclass(frozen=True)
class Rehearsal:
    """What one trial repeat took: ``cost_s`` with its process, ``spool_bytes`` when just finished, ``stored_bytes`` packed."""

    simulator: str
    scenario: str
    settings: dict[str, Scalar]
    cost_s: float
    run_s: float
    rows: int
    spool_bytes: int
    stored_bytes: int
    packages: str = ""

    def is_of(self, cell: PlannedCell) -> bool:
        return (self.simulator, self.scenario, self.settings, self.packages) == _tried(cell)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def _tried(cell: PlannedCell) -> tuple[str, str, dict[str, Scalar], str]:
    """What one trial stands for; of the conditions only the installation, since another version is another program."""
    return cell.simulator, cell.scenario, cell.settings, str(cell.condition.get(PACKAGES, ""))


def find(rehearsals: Iterable[Rehearsal], cell: PlannedCell) -> Rehearsal | None:
    return next((rehearsal for rehearsal in rehearsals if rehearsal.is_of(cell)), None)


def not_rehearsed(cells: Iterable[PlannedCell], known: Sequence[Rehearsal]) -> list[PlannedCell]:
    """Return one cell of each kind that has not been tried."""
    chosen: list[PlannedCell] = []
    for cell in cells:
        if find(known, cell) is None and not any(_tried(cell) == _tried(other) for other in chosen):
            chosen.append(cell)
    return chosen


def rehearse(
    plan: Plan, cells: Sequence[PlannedCell], known: Sequence[Rehearsal], on_progress: Callable[[str], None] = lambda name: None
) -> tuple[Rehearsal, ...]:
    """Try what ``cells`` run and is not ``known`` yet; return all that is known then. Raises SimulatorError where one fails."""
    found = list(known)
    missing = not_rehearsed(cells, known)
    with LocalHost() as host:
        for cell in missing:
            found.append(_try(plan, cell, host))
            on_progress(cell.name)
    return tuple(found)


def _try(plan: Plan, cell: PlannedCell, host: LocalHost) -> Rehearsal:
    asked = plan.isolation_of(cell)
    # Never in samepath's own process: the first measured repeat there is to find nothing that a trial left behind.
    isolation = Isolation.COLD if real_isolation(asked, cell.condition) is Isolation.COLD else Isolation.PROCESS
    job = job_of(plan, cell, condition={name: level for name, level in cell.condition.items() if name == PACKAGES})
    work = Work(job, isolation, watchdog_s=plan.execution.watchdog_s or LONGEST_S)
    (outcome,) = host.run(work, [0])
    if isinstance(outcome, RepeatFailed):
        raise SimulatorError(f"cell {cell.name!r} was tried before the study and failed: {outcome.reason}")
    spool_bytes, stored_bytes = _sizes(plan, cell, outcome)
    return Rehearsal(
        simulator=cell.simulator,
        scenario=cell.scenario,
        settings=dict(cell.settings),
        cost_s=outcome.cost_s,
        run_s=outcome.seconds,
        rows=len(outcome.repeat.tick),
        spool_bytes=spool_bytes,
        stored_bytes=stored_bytes,
        packages=str(cell.condition.get(PACKAGES, "")),
    )


def _sizes(plan: Plan, cell: PlannedCell, outcome: RepeatFinished) -> tuple[int, int]:
    """Store a repeat somewhere else and weigh it."""
    header = header_of(plan, cell, installed(cell).info)
    with tempfile.TemporaryDirectory(prefix="samepath-") as name:
        with StoreWriter(Path(name) / "cell", header) as writer:
            writer.write(outcome.repeat)
            spool_bytes = sum(path.stat().st_size for path in writer.folder.glob("spool/*"))
        return spool_bytes, sum(path.stat().st_size for path in writer.folder.glob("*.parquet"))


@dataclass(frozen=True)
class Estimate:
    """Times and sizes of what is still to be run. ``spool_bytes`` is the most that waits unpacked at once."""

    repeats: int
    run_s: float
    settle_s: float
    analysis_s: float
    spool_bytes: int
    stored_bytes: int

    @property
    def total_s(self) -> float:
        return self.run_s + self.settle_s + self.analysis_s

    @property
    def needed_bytes(self) -> int:
        """The disk space to have, a tenth to spare."""
        return int((self.spool_bytes + self.stored_bytes) * _SPARE)


def estimate(
    plan: Plan,
    rehearsals: Sequence[Rehearsal],
    done: Mapping[str, Collection[int]] | None = None,
    left_out: Collection[str] = (),
) -> Estimate:
    """Add up what is missing; ``done`` has the finished repeats by the cell's name, ``left_out`` cells that are not run."""
    done = done or {}
    cells = [cell for cell in plan.cells if cell.name not in left_out]
    left = {cell.name: cell.repeats - len(done.get(cell.name, ())) for cell in cells}
    figures = {cell.name: found for cell in cells if (found := find(rehearsals, cell)) is not None}
    run_s = sum(left[name] * repeat_s(plan, cell, figures[name]) for cell in cells if (name := cell.name) in figures)
    rows = sum(cell.repeats * figures[cell.name].rows for cell in cells if cell.name in figures)
    spool = [left[name] * rehearsal.spool_bytes for name, rehearsal in figures.items()]
    stored = sum(left[name] * rehearsal.stored_bytes for name, rehearsal in figures.items())
    return Estimate(
        repeats=sum(left.values()),
        run_s=run_s,
        settle_s=settle_time_s(plan, plan.slots, left_out),
        analysis_s=len(cells) * _ANALYSIS_S_PER_CELL + rows * _ANALYSIS_S_PER_ROW,
        spool_bytes=min(sum(spool), SPOOL_BYTES + max(spool, default=0)),
        stored_bytes=stored,
    )


def repeat_s(plan: Plan, cell: PlannedCell, rehearsal: Rehearsal) -> float:
    """Guess what a repeat of a cell takes: the rehearsal's time, longer where it must share the machine."""
    isolation = plan.isolation_of(cell)
    shared = isolation in (Isolation.BATCH, Isolation.INLINE) and not needs_new_interpreter(cell.condition)
    alone_s = (rehearsal.run_s if shared else rehearsal.cost_s) + _STORE_S
    load = float(cell.condition.get("cpu_load", 0.0))
    crowd = max(1.0, int(cell.condition.get("instances", 1)) / (os.cpu_count() or 1))
    return alone_s * (1 + load / 2) * crowd / max(1, plan.execution.processes)


def guess_study_s(plan: Plan) -> float:
    """Guess what a study takes without running anything: the order of magnitude, for a list of studies.

    :func:`estimate` does it from a rehearsal, which knows the machine and what is installed.
    """
    guesses = []
    for cell in plan.cells:
        start_s, run_s = next((cost for name, cost in _GUESS_S.items() if cell.simulator.startswith(name)), _ENGINE_GUESS_S)
        if cell.simulator == _SCALED:  # a loop that hurries less takes longer in proportion
            run_s *= _GUESSED_SCALE / float(cell.settings.get("time_scale", _GUESSED_SCALE))
        cost_s = run_s + (_COLD_START_S if plan.isolation_of(cell) is Isolation.COLD else start_s)
        guesses.append(
            Rehearsal(cell.simulator, cell.scenario, cell.settings, cost_s, run_s, _GUESS_ROWS, 0, 0, _tried(cell)[-1])
        )
    return estimate(plan, guesses).total_s


def settle_time_s(plan: Plan, slots: Iterable[Slot], left_out: Collection[str] = ()) -> float:
    """Return how long settling takes at most: once for each change to another load."""
    changes, held = 0, dict[str, Scalar]()
    for slot in slots:
        cell = plan.cells[slot.cell]
        if cell.name in left_out:
            continue
        wanted = {name: cell.condition[name] for name in LOADS if cell.condition.get(name)}
        changes += bool(wanted) and wanted != held
        held = wanted
    return changes * plan.execution.settle_s
