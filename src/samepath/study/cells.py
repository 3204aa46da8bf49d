"""From the stages of a study file to its cells: who is run on what, times the combinations of levels; names and folders."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from samepath.base.digests import link
from samepath.base.errors import InputError, StudyError
from samepath.base.verdicts import Verdict
from samepath.study.designs import MAX_ROWS, Design, combine
from samepath.study.factors import Levels, read_conditions, read_settings
from samepath.study.levels import level_text
from samepath.study.records import Combination, Factor, PlannedCell
from samepath.study.spec import CellSpec, DesignSpec, StudySpec, VariantSpec

_SLUG: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_FOLDER: Final = 100
BASE: Final = "base"


@dataclass(frozen=True)
class Target:
    """Something to be run under every combination of its levels: a simulator, used in one way, on one scenario.

    A setting or condition with one level is held, with several it is a factor of this target. ``words`` begin the names of
    its cells.
    """

    place: str
    words: tuple[str, ...]
    variant: str
    simulator: str
    scenario: str
    settings: dict[str, Levels]
    conditions: dict[str, Levels]
    repeats: int
    expect: Verdict | None
    optional: bool

    @property
    def factors(self) -> tuple[Factor, ...]:
        """What is varied, settings first."""
        kinds = (("setting", self.settings), ("condition", self.conditions))
        return tuple(Factor(name, kind, levels) for kind, group in kinds for name, levels in group.items() if len(levels) > 1)


@dataclass(frozen=True)
class Expansion:
    """The cells of a study, what is varied in any of them, and what the design cannot tell."""

    cells: tuple[PlannedCell, ...]
    factors: tuple[Factor, ...]
    notes: tuple[str, ...]


def targets_of(spec: StudySpec, where: str) -> list[Target]:
    """Put the stages together: simulators x scenarios, then the single cells."""
    _check_asked(spec, where)
    settings = read_settings(spec.settings, f"{where}: settings")
    conditions = read_conditions(spec.conditions, f"{where}: conditions")
    return [*_crossed(spec.design, settings, conditions, where), *_single(spec.design, settings, conditions, where)]


def _crossed(design: DesignSpec, settings: dict[str, Levels], conditions: dict[str, Levels], where: str) -> Iterator[Target]:
    # A name says what differs: the only simulator or scenario of a study need not be in it.
    name_variants, name_scenarios = (len(each) > 1 or bool(design.cells) for each in (design.simulators, design.scenarios))
    for index, variant in enumerate(design.simulators):
        place = f"{where}: design.simulators[{index}]"
        name = variant.as_ or variant.simulator
        own_settings = settings | read_settings(variant.settings, f"{place}.settings")
        own_conditions = conditions | read_conditions(variant.conditions, f"{place}.conditions")
        for scenario in design.scenarios:
            yield Target(
                place=place,
                words=(*((name,) if name_variants else ()), *((scenario,) if name_scenarios else ())),
                variant=name,
                simulator=variant.simulator,
                scenario=scenario,
                settings=own_settings,
                conditions=own_conditions,
                repeats=variant.repeats or design.repeats,
                expect=variant.expect,
                optional=variant.optional,
            )


def _single(design: DesignSpec, settings: dict[str, Levels], conditions: dict[str, Levels], where: str) -> Iterator[Target]:
    variants = _variants_of_cells(design.cells, design.simulators)
    for index, (cell, variant) in enumerate(zip(design.cells, variants, strict=True)):
        place = f"{where}: design.cells[{index}]"
        held = read_conditions(cell.condition, f"{place}.condition", lists=False)
        stated = (f"{name} {level_text(name, level)}" for name, (level,) in held.items())
        yield Target(
            place=place,
            words=(cell.name,) if cell.name else (cell.as_ or cell.simulator, cell.scenario, *stated),
            variant=variant,
            simulator=cell.simulator,
            scenario=cell.scenario,
            settings=settings | read_settings(cell.settings, f"{place}.settings", lists=False),
            conditions=conditions | held,
            repeats=cell.repeats or design.repeats,
            expect=cell.expect,
            optional=cell.optional,
        )


def _check_asked(spec: StudySpec, where: str) -> None:
    """Is there anything to run, and is each thing asked for once?"""
    design = spec.design
    if design.simulators and not design.scenarios:
        raise InputError(f"{where}: design.scenarios: at least one scenario was wanted for the simulators to run")
    if design.scenarios and not design.simulators:
        raise InputError(f"{where}: design.simulators: at least one simulator was wanted to run the scenarios")
    if not design.simulators and not design.cells:
        raise InputError(f"{where}: design: simulators and scenarios, or cells, were wanted: there is nothing to run")
    for index, scenario in enumerate(design.scenarios):
        if scenario in design.scenarios[:index]:
            raise InputError(f"{where}: design.scenarios[{index}]: {scenario} is listed already")
    names = [one.as_ or one.simulator for one in design.simulators]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InputError(f"{where}: design.simulators[{index}]: the name {name!r} is taken: tell the two apart with 'as'")


def _variants_of_cells(cells: Sequence[CellSpec], simulators: Sequence[VariantSpec]) -> list[str]:
    """Cells of one simulator that differ in settings are different ways of using it, and are called by their own names."""
    ways: dict[str, list[object]] = {}
    uses = [*((one.simulator, one.settings) for one in simulators), *((one.simulator, one.settings) for one in cells)]
    for simulator, settings in uses:
        found = ways.setdefault(simulator, [])
        if settings not in found:
            found.append(settings)
    return [cell.as_ or (cell.name if len(ways[cell.simulator]) > 1 else None) or cell.simulator for cell in cells]


def expand(
    targets: Iterable[Target], combination: Combination, resolution: int | None, where: str, repeats: int | None
) -> Expansion:
    """Cross every target with the combinations of its levels; ``repeats`` overrides every number."""
    cells: dict[str, PlannedCell] = {}
    designs: dict[tuple[Factor, ...], tuple[Design, list[str]]] = {}
    for target in targets:
        factors = target.factors
        if factors not in designs:
            try:
                designs[factors] = combine(factors, combination, resolution), []
            except StudyError as error:
                raise StudyError(f"{where}: design.combination: {error}") from error
        design, users = designs[factors]
        users.append(target.variant)
        for row in design.rows:
            cell = _cell(target, factors, row, combination, repeats)
            if cell.name in cells:
                raise StudyError(f"{target.place}: the name {cell.name!r} is taken: give each cell a name of its own")
            cells[cell.name] = cell
            if len(cells) > MAX_ROWS:
                raise StudyError(f"{where}: more than {MAX_ROWS} cells came together: ask for fewer levels or scenarios")
    several = sum(bool(design.notes) for design, _ in designs.values()) > 1
    notes = [
        f"{', '.join(dict.fromkeys(users))}: {note}" if several else note
        for design, users in designs.values()
        for note in design.notes
    ]
    placed = tuple(replace(cell, folder=folder) for cell, folder in zip(cells.values(), _folders(list(cells)), strict=True))
    return Expansion(placed, _union(designs), tuple(dict.fromkeys(notes)))


def _cell(
    target: Target, factors: Sequence[Factor], row: Sequence[int], combination: Combination, repeats: int | None
) -> PlannedCell:
    chosen = {(one.kind, one.name): one.levels[index] for one, index in zip(factors, row, strict=True)}
    asked = repeats or target.repeats
    return PlannedCell(
        name=", ".join(_words(target, factors, row, combination)),
        folder="",
        simulator=target.simulator,
        scenario=target.scenario,
        settings={name: chosen.get(("setting", name), levels[0]) for name, levels in target.settings.items()},
        condition={name: chosen.get(("condition", name), levels[0]) for name, levels in target.conditions.items()},
        repeats=asked,
        expect=target.expect if asked >= target.repeats else None,
        variant=target.variant,
        optional=target.optional,
    )


def _words(target: Target, factors: Sequence[Factor], row: Sequence[int], combination: Combination) -> tuple[str, ...]:
    """Name a cell by what tells it from the others: all its levels, or where most are the base's, those that are not."""
    shown = [
        f"{one.name} {level_text(one.name if one.kind == 'condition' else '', one.levels[index])}"
        for one, index in zip(factors, row, strict=True)
        if index or combination is Combination.FULL
    ]
    if factors and not shown:
        shown = [BASE]
    return (*target.words, *shown) or (target.variant, target.scenario)


def _folders(names: Sequence[str]) -> list[str]:
    """Return a folder for each name: readable, and unlike every other even where case does not count."""
    taken: dict[str, int] = {}
    folders = []
    for name in names:
        folder = _SLUG.sub("-", name).strip("-.") or "cell"
        if len(folder) > _LONGEST_FOLDER:
            folder = f"{folder[:_LONGEST_FOLDER]}-{link(b'', name.encode()).hex()[:8]}"
        candidate = folder
        while candidate.lower() in taken:
            taken[folder.lower()] += 1
            candidate = f"{folder}-{taken[folder.lower()]}"
        taken[candidate.lower()] = 1
        folders.append(candidate)
    return folders


def _union(designs: Iterable[tuple[Factor, ...]]) -> tuple[Factor, ...]:
    """Gather the factors of all targets; one that has other levels in another target has them all, the longest list first."""
    found: dict[tuple[str, str], list[Levels]] = {}
    for factors in designs:
        for one in factors:
            found.setdefault((one.name, one.kind), []).append(one.levels)
    return tuple(
        Factor(name, kind, tuple(dict.fromkeys(level for levels in sorted(lists, key=len, reverse=True) for level in levels)))
        for (name, kind), lists in found.items()
    )
