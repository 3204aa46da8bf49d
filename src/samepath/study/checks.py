"""What the parts of a study must be together: keys in their stages, execution and filters that fit the cells."""

import re
from collections.abc import Mapping
from typing import Any, Final

from samepath.base.errors import InputError
from samepath.base.suggest import unknown
from samepath.study.levels import CONDITIONS, PROCESS_CONDITIONS, START_CONDITIONS, read_level
from samepath.study.records import Combination, Isolation, Plan, PlannedCell
from samepath.study.spec import StudySpec, keys_of, model_at, stage_of

_FILTER: Final = re.compile(r"\s*([A-Za-z][\w-]*)\s*(<=|>=|!=|<|>|=)\s*(.+?)\s*")
MAX_SLOTS: Final = 100_000
_PHASES: Final = ("all", "before", "after")


def check_places(data: Mapping[str, Any], where: str, within: str = "") -> None:
    """A key that is known, but in another stage, is better answered with that stage than with the nearest name."""
    sections: list[tuple[str, Any, list[str]]] = [(within, data, keys_of(StudySpec))]
    sections += [
        (f"{within}{name}.", data.get(name), keys_of(model_at([name, ""]))) for name in ("design", "execution", "analysis")
    ]
    for place, keys, valid in sections:
        for key in keys if isinstance(keys, dict) else ():
            stage = stage_of(key)
            if key not in valid and stage is not None:
                raise InputError(f"{where}: unknown key {f'{place}{key}'!r}; it belongs under {f'{within}{stage}'!r}")
    if isinstance(data.get("full"), dict):
        check_places(data["full"], where, "full.")


def check_together(plan: Plan, spec: StudySpec, where: str) -> None:
    """Hold the parts of a study against each other; ``plan`` is what came of ``spec``."""
    if spec.design.resolution is not None and plan.combination is not Combination.FRACTIONAL:
        raise InputError(f"{where}: design.resolution: it belongs to combination: fractional-factorial; leave it out")
    settings = {one.name for one in plan.factors if one.kind == "setting"}
    for one in plan.factors:
        if one.kind == "condition" and one.name in settings:
            raise InputError(
                f"{where}: {one.name} is varied as a setting and as a condition, two factors of one name: hold one of them"
            )
    _check_execution(plan, spec, where)
    _check_restriction(plan, where)


def _check_execution(plan: Plan, spec: StudySpec, where: str) -> None:
    """Hold the fields of stage four against each other and against the cells."""
    here, given = f"{where}: execution", spec.execution.model_fields_set
    if "isolation" in given and "isolation" in spec.conditions:
        raise InputError(f"{here}.isolation: conditions has isolation too: give it in one of the two places")
    kinds = {plan.isolation_of(cell) for cell in plan.cells}
    if "repeats_per_process" in given and Isolation.BATCH not in kinds:
        raise InputError(f"{here}.repeats_per_process: only isolation batch has several; choose it, or leave this out")
    if kinds == {Isolation.INLINE}:
        for key in ("watchdog", "processes"):
            if key in given:
                raise InputError(
                    f"{here}.{key}: isolation inline has no process to apply it to: choose another, or leave it out"
                )
    if plan.execution.blocks * len(plan.cells) > MAX_SLOTS:
        raise InputError(
            f"{here}.blocks: {plan.execution.blocks} blocks of {len(plan.cells)} cells came: at most {MAX_SLOTS} in all"
        )
    for cell in plan.cells:
        _check_isolation(plan, cell, where)
        if cell.repeats < plan.execution.blocks:
            raise InputError(
                f"{here}.blocks: every block runs every cell, but {plan.execution.blocks} blocks came and cell {cell.name!r} "
                f"has {cell.repeats} repeats"
            )


def _check_isolation(plan: Plan, cell: PlannedCell, where: str) -> None:
    isolation = plan.isolation_of(cell)
    for name in PROCESS_CONDITIONS:
        if name in cell.condition and isolation is Isolation.INLINE:
            raise InputError(
                f"{where}: cell {cell.name!r}: {name} is set on a repeat's own process, and isolation inline has none: "
                "choose process, batch or cold"
            )
    for name in START_CONDITIONS:
        if name in cell.condition and isolation is not Isolation.COLD:
            raise InputError(
                f"{where}: cell {cell.name!r}: {name} can only be given to a new interpreter, but isolation is "
                f"{isolation.value}: choose cold"
            )


def _check_restriction(plan: Plan, where: str) -> None:
    """Each filter must be about a phase, or about a condition of this study at a level that can be."""
    known = list(dict.fromkeys(name for cell in plan.cells for name in cell.condition))
    for index, text in enumerate(plan.judging.restrict):
        here = f"{where}: analysis.restrict[{index}]"
        match = _FILTER.fullmatch(text)
        if match is None:
            raise InputError(f"{here}: a filter like cpu_load<=0.75 or phase=before was wanted, but {text!r} came")
        name, relation, value = match.groups()
        if name == "phase":
            if relation != "=" or value not in _PHASES:
                raise InputError(f"{here}: phase=before, phase=after or phase=all was wanted, but {text!r} came")
        elif name in CONDITIONS and name not in known:
            raise InputError(f"{here}: no cell of this study states {name}: give it under conditions, or leave the filter out")
        elif name not in known:
            raise InputError(f"{here}: {unknown('condition', name, [*known, 'phase'])}")
        else:
            try:
                read_level(name, _number(value))
            except ValueError as error:
                raise InputError(f"{here}: {error}") from error


def _number(text: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
