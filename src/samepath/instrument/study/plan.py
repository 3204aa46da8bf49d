"""Study files into plans: read, checked whole, spelled out cell by cell and put in order. Nothing is run here.

A file becomes *targets* (a simulator, used in one way, on one scenario), each target is crossed with the combinations of its
levels into cells, and the cells are put into the order in which they are run. All of it is a pure function of the file's text:
the same file gives the same plan, order included, on every machine.

Combinations of levels: which of all possible ones a study runs, and what that choice cannot tell.

A design is a set of rows with a level's index per factor. The base, the first level of every factor, is in each of them: the
others are read against it. Two-level designs come from pydoe; its columns are turned over, because they hold all second
levels where we want all first ones. That changes signs of aliases, not which effects are aliased.
"""

import itertools
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.digests import link
from samepath.core.documents import read_yaml, validate
from samepath.core.errors import InputError, StudyError, unknown
from samepath.core.files import regular
from samepath.core.streams import stream
from samepath.core.verdicts import Verdict
from samepath.instrument.monitors.file import read_monitors
from samepath.instrument.study.levels import (
    MACHINE_LOADS,
    START_CONDITIONS,
    TOGETHER,
    Levels,
    level_text,
    read_conditions,
    read_settings,
)
from samepath.instrument.study.records import (
    MAX_REPEATS,
    Combination,
    Execution,
    Factor,
    Isolation,
    Judging,
    Order,
    Plan,
    PlannedCell,
    Scalar,
    Slot,
)
from samepath.instrument.study.spec import (
    CellSpec,
    DesignSpec,
    GrowingSpec,
    StudySpec,
    VariantSpec,
    check_places,
    check_together,
    model_at,
)

MAX_ROWS: Final = 10_000
DEFAULT_RESOLUTION: Final = 4
# pydoe knows no Plackett-Burman design of some sizes (28, 36, 44, ... rows): then the next larger one is cut down.
_MORE_COLUMNS: Final = 64

Rows = tuple[tuple[int, ...], ...]
Signs = NDArray[np.int8]


@dataclass(frozen=True)
class Design:
    """Rows of level indices, the base first; ``notes`` say which effects it cannot tell apart."""

    rows: Rows
    notes: tuple[str, ...] = ()


def combine(factors: Sequence[Factor], combination: Combination, resolution: int | None = None) -> Design:
    """Choose combinations of the factors' levels; raises StudyError where the factors do not suit the design."""
    if combination is Combination.FULL:
        return _full(factors)
    if combination is Combination.ONE_AT_A_TIME:
        return _one_at_a_time(factors)
    _check_two_levels(factors, combination)
    if len(factors) < 2:
        return _full(factors)
    if combination is Combination.FRACTIONAL:
        return _of_signs(factors, _fraction(len(factors), resolution or DEFAULT_RESOLUTION), combination)
    return _of_signs(factors, _plackett_burman(len(factors)), combination)


def _full(factors: Sequence[Factor]) -> Design:
    size = math.prod(len(factor.levels) for factor in factors)
    if size > MAX_ROWS:
        raise StudyError(
            f"all combinations of {len(factors)} factors would be {size}, more than {MAX_ROWS}: use fewer levels, or combine "
            "them by one-at-a-time, fractional-factorial or plackett-burman"
        )
    return Design(tuple(itertools.product(*(range(len(factor.levels)) for factor in factors))))


def _one_at_a_time(factors: Sequence[Factor]) -> Design:
    base = (0,) * len(factors)
    rows = [base]
    for place, factor in enumerate(factors):
        rows += [(*base[:place], level, *base[place + 1 :]) for level in range(1, len(factor.levels))]
    if len(factors) < 2:
        return Design(tuple(rows))
    return Design(tuple(rows), ("one at a time: what two factors do together cannot be seen",))


def _check_two_levels(factors: Sequence[Factor], combination: Combination) -> None:
    for factor in factors:
        if len(factor.levels) != 2:
            raise StudyError(
                f"{combination.value} takes two levels of every factor, but the {factor.kind} {factor.name} has "
                f"{len(factor.levels)}: name two, or use one-at-a-time or full-factorial, which take any number"
            )


def _fraction(count: int, resolution: int) -> Signs:
    from pydoe import fracfact_by_res

    try:
        return _signs(fracfact_by_res(count, resolution))
    except ValueError as error:
        raise StudyError(f"no fraction of resolution {resolution} of {count} factors was found: {error}") from error


def _plackett_burman(count: int) -> Signs:
    from pydoe import pbdesign

    for columns in range(count, count + _MORE_COLUMNS):
        try:
            return _signs(pbdesign(columns))[:, :count]
        except ValueError:
            continue
    raise StudyError(f"no Plackett-Burman design of {count} factors is known: vary fewer at once")


def _signs(matrix: NDArray[np.float64]) -> Signs:
    """Return a design in -1 (first level) and 1 (second), turned so that the base is a row of it."""
    signs = np.rint(matrix).astype(np.int8)
    return -signs if (signs == 1).all(axis=1).any() else signs


def _of_signs(factors: Sequence[Factor], signs: Signs, combination: Combination) -> Design:
    rows = sorted({tuple((row > 0).astype(int).tolist()) for row in signs})
    if len(rows) > MAX_ROWS:
        raise StudyError(
            f"{combination.value} of {len(factors)} factors would be {len(rows)} combinations, more than {MAX_ROWS}"
        )
    total = 2 ** len(factors)
    if len(rows) == total:
        return Design(tuple(rows), (f"{combination.value}: no smaller design does it, all {total} combinations are run",))
    names = [factor.name for factor in factors]
    return Design(tuple(rows), (f"{combination.value}: {len(rows)} of {total} combinations are run", *aliases(names, signs)))


def aliases(names: Sequence[str], signs: Signs) -> tuple[str, ...]:
    """Say which effects of one or two factors a two-level design cannot tell apart; interactions of three are left out."""
    columns = signs.astype(np.int64)
    pairs = list(itertools.combinations(range(len(names)), 2))
    products = np.stack([columns[:, a] * columns[:, b] for a, b in pairs], axis=1)
    overlap = np.abs(columns.T @ products) / len(columns)  # 1: the same effect, 0: apart, between: mixed in part
    texts = [f"{names[a]} x {names[b]}" for a, b in pairs]
    lines = []
    for name, row in zip(names, overlap, strict=True):
        if same := [text for text, share in zip(texts, row, strict=True) if share == 1]:
            lines.append(f"the effect of {name} cannot be told from that of {', '.join(same)}")
    partly = overlap[(overlap > 0) & (overlap < 1)]
    if len(partly):
        share = f"{partly.max():.2g}"
        lines.append(f"each effect of one factor is mixed in part ({share}) with those of pairs of the other factors")
    clear = () if lines else ("effects of one factor are clear of those of two",)
    apart = overlap.max(axis=0) == 0
    return (*clear, *lines, *_aliased_pairs(list(itertools.compress(texts, apart)), products[:, apart]))


def _aliased_pairs(texts: Sequence[str], products: NDArray[np.int64]) -> tuple[str, ...]:
    groups: dict[bytes, list[str]] = {}
    for text, column in zip(texts, products.T, strict=True):
        groups.setdefault((column * column[0]).tobytes(), []).append(text)
    return tuple(f"these cannot be told apart: {', '.join(group)}" for group in groups.values() if len(group) > 1)


_SLUG: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_FOLDER: Final = 100
BASE: Final = "base"
# The setting by which a simulator is run faster than real time, in every simulator that can be.
TIME_SCALE: Final = "time_scale"


def built_in_studies() -> dict[str, str]:
    """Return the studies that come with samepath: name -> YAML text."""
    folder = resources.files("samepath.instrument.study") / "studies"
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
        text = regular(path).read_text("utf-8")
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


def _merged(base: Mapping[str, Any], change: Mapping[str, Any] | None) -> dict[str, Any]:
    """Mappings are merged key by key, anything else takes the other's place; None (only comments) changes nothing."""
    merged = dict(base)
    for key, value in (change or {}).items():
        old = base.get(key)
        merged[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict | None) else value
    return merged


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
            monitors=_monitors(judge.monitors, where),
            limits=judge.limits,
        ),
        notes=found.notes,
    )
    check_together(plan, spec, where)
    return replace(plan, slots=draw_slots(plan.cells, run.order, run.blocks, plan.seed))


def _monitors(given: dict[str, Any] | list[Any], where: str) -> dict[str, Any]:
    """Check the monitors of a study, all but the map: what is wrong with them must not be found after a night of runs."""
    data = {"monitors": given} if isinstance(given, list) else given
    if not data:
        return {}
    here = f"{where}: analysis.monitors"
    found = read_monitors({key: value for key, value in data.items() if key != "map"}, here)
    if any(monitor.function is not None for monitor in found.monitors):
        raise InputError(f"{here}: a study is run elsewhere too: functions belong into a file for samepath analyse --monitors")
    return data


def _isolation(spec: StudySpec, cells: Sequence[PlannedCell]) -> Isolation:
    """Return the isolation of all cells that state none: the file's, or else process, or cold where a condition needs it."""
    if "isolation" in spec.execution.model_fields_set:
        return spec.execution.isolation
    stated = [cell.condition for cell in cells if "isolation" not in cell.condition]
    needs_start = any(name in condition for condition in stated for name in START_CONDITIONS)
    return Isolation.COLD if needs_start else Isolation.PROCESS


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
    until: str = ""

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
                repeats=_most(variant.repeats or design.repeats),
                until=_until(variant.repeats or design.repeats),
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
            repeats=_most(cell.repeats or design.repeats),
            until=_until(cell.repeats or design.repeats),
            expect=cell.expect,
            optional=cell.optional,
        )


def _most(repeats: int | GrowingSpec) -> int:
    return repeats.max if isinstance(repeats, GrowingSpec) else repeats


def _until(repeats: int | GrowingSpec) -> str:
    return repeats.until if isinstance(repeats, GrowingSpec) else ""


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
    names = [variant.as_ or variant.simulator for variant in design.simulators]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InputError(f"{where}: design.simulators[{index}]: the name {name!r} is taken: tell the two apart with 'as'")


def _variants_of_cells(cells: Sequence[CellSpec], simulators: Sequence[VariantSpec]) -> list[str]:
    """Cells of one simulator that differ in settings are different ways of using it, and are called by their own names."""
    ways: dict[str, list[object]] = {}
    uses: tuple[VariantSpec | CellSpec, ...] = (*simulators, *cells)
    for use in uses:
        found = ways.setdefault(use.simulator, [])
        if use.settings not in found:
            found.append(use.settings)
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
    chosen = {(factor.kind, factor.name): factor.levels[index] for factor, index in zip(factors, row, strict=True)}
    asked = repeats or target.repeats
    return PlannedCell(
        name=", ".join(_words(target, factors, row, combination)),
        folder="",
        simulator=target.simulator,
        scenario=target.scenario,
        settings={name: chosen.get(("setting", name), levels[0]) for name, levels in target.settings.items()},
        condition=_both(
            {name: chosen.get(("condition", name), levels[0]) for name, levels in target.conditions.items()}, target
        ),
        repeats=asked,
        expect=target.expect if asked >= target.repeats else None,
        variant=target.variant,
        optional=target.optional,
        until="" if repeats else target.until,
    )


def _both(condition: dict[str, Scalar], target: Target) -> dict[str, Scalar]:
    """Spell out a load of CPU and GPU together: the host knows the two, and nothing of both."""
    if TOGETHER not in condition:
        return condition
    for name in ("cpu_load", "gpu_load"):
        if name in condition:
            raise StudyError(f"{target.place}: {TOGETHER} is {name} and another: give it, or the two by themselves")
    level = condition[TOGETHER]
    return {"cpu_load": level, "gpu_load": level, **{name: value for name, value in condition.items() if name != TOGETHER}}


def _words(target: Target, factors: Sequence[Factor], row: Sequence[int], combination: Combination) -> tuple[str, ...]:
    """Name a cell by what tells it from the others: all its levels, or where most are the base's, those that are not."""
    shown = [
        f"{factor.name} {level_text(factor.name if factor.kind == 'condition' else '', factor.levels[index])}"
        for factor, index in zip(factors, row, strict=True)
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
        for factor in factors:
            found.setdefault((factor.name, factor.kind), []).append(factor.levels)
    return tuple(
        Factor(name, kind, tuple(dict.fromkeys(level for levels in sorted(lists, key=len, reverse=True) for level in levels)))
        for (name, kind), lists in found.items()
    )


def in_real_time(plan: Plan, scaled: Collection[str]) -> Plan:
    """Return the same study with every game loop at real time; ``scaled`` are the simulators that know ``time_scale``.

    Studies hurry their loops so that they end in minutes; this is how to see what they show when nobody hurries. Modes that go
    by no clock are not changed by it. A study that varies the scale itself is refused: there would be nothing left to vary.
    """
    if any(factor.name == TIME_SCALE for factor in plan.factors):
        raise StudyError(f"{plan.name}: the study varies {TIME_SCALE} itself: leave out --real-time")
    cells = tuple(
        replace(cell, settings={**cell.settings, TIME_SCALE: 1}) if cell.simulator in scaled else cell for cell in plan.cells
    )
    # Another name, because it is another study: its folder must not be taken for the hurried one's.
    return replace(plan, name=f"{plan.name}-real-time", description=f"{plan.description}, in real time", cells=cells)


def draw_slots(cells: Sequence[PlannedCell], order: Order, blocks: int, seed: int) -> tuple[Slot, ...]:
    """Return every repeat of every cell once; each block holds an even share of every cell.

    The order is drawn from the seed. Each cell has a lot of its own in every block, keyed by its folder, so that one cell more
    in a study leaves the order of the others.
    """
    slots = []
    for block in range(blocks):
        for index in _sequence(cells, order, block, seed):
            first, stop = share(cells[index].repeats, block, blocks)
            if first < stop:
                slots.append(Slot(block, index, first, stop))
    return tuple(slots)


def share(repeats: int, block: int, blocks: int) -> tuple[int, int]:
    """Return which repeats belong to a block: first and stop. Shares differ by one at most."""
    return repeats * block // blocks, repeats * (block + 1) // blocks


def loads_of(cell: PlannedCell) -> tuple[tuple[str, Scalar], ...]:
    """Return the loads of the whole machine that a cell asks for: slow to change, so that order may group by them."""
    return tuple((name, cell.condition[name]) for name in MACHINE_LOADS if name in cell.condition)


def _sequence(cells: Sequence[PlannedCell], order: Order, block: int, seed: int) -> list[int]:
    listed = list(range(len(cells)))
    if order is Order.LISTED:
        return listed

    def lot(purpose: str, name: str) -> bytes:
        return stream(seed, "order", purpose, block, name).bytes(16)

    lots = {index: lot("cell", cells[index].folder) for index in listed}
    if order is Order.RANDOM:
        return sorted(listed, key=lambda index: (lots[index], index))
    loads = {index: loads_of(cells[index]) for index in listed}
    load_lots = {load: (lot("load", repr(load)), repr(load)) for load in loads.values()}
    return sorted(listed, key=lambda index: (load_lots[loads[index]], lots[index], index))
