"""``samepath study --dry-run``: what a study would do, how long that takes and how much it writes. Nothing is kept."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from samepath.cli.live import duration
from samepath.instrument.execution.folder import free_bytes, size
from samepath.instrument.execution.hosts import real_isolation
from samepath.instrument.execution.rehearsal import Estimate, Rehearsal, find
from samepath.instrument.study.levels import level_text
from samepath.instrument.study.records import Isolation, Plan, PlannedCell


def print_plan(
    console: Console,
    plan: Plan,
    folder: Path,
    rehearsals: Sequence[Rehearsal],
    not_applicable: dict[str, str],
    figures: Estimate,
) -> bool:
    """Print what would be run, and where; return whether it fits on the disk."""
    console.print(_cells(plan, rehearsals, not_applicable))
    for line in _design(plan):
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    left_out = [cell for cell in plan.cells if cell.name in not_applicable]
    console.print(f"{len(plan.cells) - len(left_out)} cells, {figures.repeats} repeats to run", highlight=False)
    for words in _left_out(left_out, not_applicable):
        console.print(f"not applicable here: {words}", soft_wrap=True, markup=False)
    times = f"running {duration(figures.run_s)}, settling {duration(figures.settle_s)}, analysis {duration(figures.analysis_s)}"
    console.print(f"estimated time: {duration(figures.total_s)} ({times})", highlight=False)
    spool = f"at most {size(figures.stored_bytes)} in the end, {size(figures.spool_bytes)} more while running"
    free = free_bytes(folder)
    fits = figures.needed_bytes <= free
    verdict = "it fits" if fits else "it does NOT fit"
    console.print(f"estimated disk: {spool}; {size(free)} free at {folder}: {verdict}", soft_wrap=True, highlight=False)
    return fits


def _cells(plan: Plan, rehearsals: Sequence[Rehearsal], not_applicable: dict[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("cell", "simulator", "scenario", "repeats", "isolation", "a repeat takes"):
        table.add_column(name, overflow="fold", justify="right" if name in ("repeats", "a repeat takes") else "left")
    for cell in plan.cells:
        found = find(rehearsals, cell)
        takes = "not applicable" if cell.name in not_applicable else "?" if found is None else f"{found.cost_s:.2f} s"
        words = (cell.name, cell.simulator, cell.scenario, str(cell.repeats), _isolation(plan, cell), takes)
        table.add_row(*map(Text, words))
    return table


def _left_out(cells: Sequence[PlannedCell], reasons: dict[str, str]) -> list[str]:
    """Say why cells are left out; those of one variant with the same reason together."""
    groups: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        groups.setdefault((cell.variant, reasons[cell.name]), []).append(cell.name)
    return [
        f"{names[0] if len(names) == 1 else f'{variant} ({len(names)} cells)'}: {reason}"
        for (variant, reason), names in groups.items()
    ]


def _isolation(plan: Plan, cell: PlannedCell) -> str:
    asked = plan.isolation_of(cell)
    real = real_isolation(asked, cell.condition)
    many = f" of {plan.execution.repeats_per_process}" if real is Isolation.BATCH else ""
    return f"{real.value}{many}" + ("" if real is asked else f" (for its conditions; {asked.value} was asked)")


def _design(plan: Plan) -> list[str]:
    run = plan.execution
    lines = [
        f"factor {one.name} ({one.kind}): {', '.join(level_text(one.name, level) for level in one.levels)}"
        for one in plan.factors
    ]
    if plan.factors:
        lines.append(f"combination: {plan.combination.value}")
    at_once = f", {run.processes} repeats at once" if run.processes > 1 else ""
    blocks = f"{run.blocks} block" + ("s" if run.blocks != 1 else "")
    lines.append(f"order: {run.order.value}, {blocks}, drawn from seed {plan.seed}{at_once}")
    return [*lines, *(f"note: {note}" for note in plan.notes)]
