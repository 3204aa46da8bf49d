"""Study files into plans: read, checked whole, spelled out cell by cell and put in order. Nothing is run here."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from samepath.base.documents import read_yaml, validate
from samepath.base.errors import StudyError
from samepath.base.suggest import unknown
from samepath.study.cells import expand, targets_of
from samepath.study.checks import check_places, check_together
from samepath.study.levels import START_CONDITIONS
from samepath.study.order import draw_slots
from samepath.study.records import MAX_REPEATS, Execution, Isolation, Judging, Plan, PlannedCell
from samepath.study.spec import StudySpec, model_at

__all__ = ["Plan", "PlannedCell", "built_in_studies", "load_plan", "make_plan"]


def built_in_studies() -> dict[str, str]:
    """Return the studies that come with samepath: name -> YAML text."""
    folder = resources.files("samepath.study") / "studies"
    texts = {
        entry.name.removesuffix(".yaml"): entry.read_text("utf-8") for entry in folder.iterdir() if entry.name.endswith(".yaml")
    }
    return dict(sorted(texts.items()))


def load_plan(name_or_path: str, repeats: int | None = None, full: bool = False) -> Plan:
    """Read a built-in study or a file; ``repeats`` overrides every number in it, ``full`` takes its full size."""
    studies = built_in_studies()
    if name_or_path in studies:
        return make_plan(studies[name_or_path], f"study {name_or_path}", repeats, full)
    path = Path(name_or_path)
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) and path.suffix not in (".yaml", ".yml"):
            raise unknown("study", name_or_path, studies) from error
        reason = getattr(error, "strerror", None) or error
        raise StudyError(
            f"{path} cannot be read: {reason}; a YAML study file or one of {', '.join(studies)} was wanted"
        ) from error
    return make_plan(text, str(path), repeats, full)


def make_plan(text: str, where: str, repeats: int | None = None, full: bool = False) -> Plan:
    """Check a study file's text and spell it out. Its full size is checked too, whether it is asked for or not."""
    if repeats is not None and not 2 <= repeats <= MAX_REPEATS:
        raise StudyError(f"2 to {MAX_REPEATS} repeats were wanted, but {repeats} came: one run cannot be compared")
    data = read_yaml(text, where, "study", StudySpec.model_fields)
    plan = _plan_of(data, where, repeats)
    if not data.get("full"):
        if full:
            raise StudyError(f"{where}: --full was asked for, but the study has no key 'full' that says what it replaces")
        return plan
    whole = _merged({key: value for key, value in data.items() if key != "full"}, data["full"])
    large = _plan_of(whole, f"{where}: full", repeats)
    return large if full else plan


def _merged(base: Any, change: Any) -> Any:  # noqa: ANN401 - plain data of any depth
    """Mappings are merged key by key; anything else takes the other's place."""
    if not isinstance(base, dict) or not isinstance(change, dict | None):
        return change
    change = change or {}
    return {**base, **{key: _merged(base.get(key), value) for key, value in change.items()}}


def _plan_of(data: Mapping[str, Any], where: str, repeats: int | None) -> Plan:
    check_places(data, where)
    spec = validate(StudySpec, data, where, model_at)
    design, run, judge = spec.design, spec.execution, spec.analysis
    found = expand(targets_of(spec, where), design.combination, design.resolution, where, repeats)
    plan = Plan(
        name=spec.name,
        description=spec.description,
        tolerance_m=design.tolerance,
        seed=design.seed,
        log_every=design.log_every,
        cells=found.cells,
        duration_s=design.duration,
        factors=found.factors,
        combination=design.combination,
        execution=Execution(
            isolation=_isolation(spec, found.cells),
            repeats_per_process=run.repeats_per_process,
            processes=run.processes,
            watchdog_s=run.watchdog,
            order=run.order,
            blocks=run.blocks,
            settle_s=run.settle,
            load_tool=run.load_tool,
        ),
        judging=Judging(
            criterion=judge.criterion,
            split_at=judge.split_at,
            structure=judge.structure,
            restrict=tuple(judge.restrict),
            confidence=judge.confidence,
        ),
        notes=found.notes,
    )
    check_together(plan, spec, where)
    return replace(plan, slots=draw_slots(plan.cells, run.order, run.blocks, plan.seed))


def _isolation(spec: StudySpec, cells: Sequence[PlannedCell]) -> Isolation:
    """Return the isolation of all cells that state none: the file's, or else process, or cold where a condition needs it."""
    if "isolation" in spec.execution.model_fields_set:
        return spec.execution.isolation
    stated = [cell.condition for cell in cells if "isolation" not in cell.condition]
    return Isolation.COLD if any(name in one for one in stated for name in START_CONDITIONS) else Isolation.PROCESS
