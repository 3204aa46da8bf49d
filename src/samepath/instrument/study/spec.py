"""The shape of a study file: five stages, as in Fig. 9 of the paper, each a key of its own.

What one value must look like is checked by the models; what values must be together (execution that fits the cells, filters
that name a condition of this study) by :func:`check_together`, which needs the finished plan. A key in the wrong stage is
answered with the right one (:func:`check_places`) before the models see it.

Repeats may grow until enough is known, ``repeats: {until: "rate < 1 %", max: 3000}``; :func:`parse_until` reads that.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, WithJsonSchema

from samepath.core.channels import read_limits
from samepath.core.errors import InputError, SamepathError, unknown
from samepath.core.units import parse_duration_s, parse_tolerance_m
from samepath.core.verdicts import Verdict
from samepath.instrument.study.levels import CONDITIONS, PROCESS_CONDITIONS, START_CONDITIONS, read_level
from samepath.instrument.study.records import MAX_REPEATS, Combination, Isolation, Order, Plan, PlannedCell

_SHARE_TEXT: Final = r"(\d+(?:\.\d*)?|\.\d+)\s*(%?)"
_RATE: Final = re.compile(rf"\s*rate\s*<\s*{_SHARE_TEXT}\s*")
_SIGMA: Final = re.compile(rf"\s*sigma\s+known\s+within\s+{_SHARE_TEXT}\s*")


@dataclass(frozen=True)
class Until:
    """When to stop: the rate of divergence is shown to be below or above ``share``, or sigma is known within it."""

    what: str  # "rate" or "sigma"
    share: float


def parse_until(text: str) -> Until:
    """Read ``rate < 1 %`` or ``sigma known within 10 %``."""
    for what, pattern in (("rate", _RATE), ("sigma", _SIGMA)):
        match = pattern.fullmatch(text)
        if match is not None:
            share = float(match[1]) / 100 if match[2] else float(match[1])
            if not 0 < share < 1:
                raise InputError(f"a share between 0 and 1, or 0 % and 100 %, was wanted, but {text!r} came")
            return Until(what, share)
    raise InputError(f"'rate < 1 %' or 'sigma known within 10 %' was wanted, but {text!r} came")


LOAD_TOOLS: Final = ("auto", "stress-ng", "samepath")
CRITERIA: Final = ("deviation", "sigma")
STRUCTURES: Final = ("fail", "report")
_NAME: Final = r"^[^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?$"
# The name of a study is also that of its folder.
_STUDY_NAME: Final = r"^[^\s./\\\x00-\x1f\x7f]([^/\\\x00-\x1f\x7f]*[^\s/\\\x00-\x1f\x7f])?$"
_SPLIT: Final = re.compile(r"[A-Za-z][\w-]*|tick=\d+")
_SETTING: Final = {"type": ["number", "string", "boolean"]}
_SHARE: Final = {
    "anyOf": [
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        {"type": "string", "pattern": r"^\s*\d+(\.\d*)?\s*%\s*$"},
    ]
}
_QUANTITY: Final = {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": r"^\s*\+?(\d|\.\d)"}]}


def levels_schema(level: Mapping[str, object]) -> dict[str, object]:
    """One level, or a list of at least two."""
    return {"anyOf": [level, {"type": "array", "items": level, "minItems": 2, "uniqueItems": True}]}


def conditions_schema(*, lists: bool) -> dict[str, object]:
    """Return what the conditions of a study look like to an editor; a cell has no lists of them."""
    properties = {
        condition.name: {
            "description": f"{condition.meaning}. For example {condition.example}",
            **(levels_schema(condition.schema) if lists else condition.schema),
        }
        for condition in CONDITIONS.values()
    }
    return {"type": ["object", "null"], "properties": properties, "additionalProperties": False}


def _name(pattern: str, wanted: str) -> AfterValidator:
    def read(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"{wanted} was wanted, but {value!r} came")
        return value

    return AfterValidator(read)


def _quantity(parse: Callable[[str], float], *, zero: bool) -> BeforeValidator:
    """A number with a unit, from zero on or above it."""

    def read(value: object) -> float:
        try:
            number = parse(str(value))
        except InputError as error:
            raise ValueError(str(error)) from error
        if number < 0 or (number == 0 and not zero):
            raise ValueError(f"{'at least' if zero else 'more than'} 0 was wanted, but {value!r} came")
        return number

    return BeforeValidator(read)


def _word(known: Sequence[str] | type[StrEnum], what: str) -> BeforeValidator:
    """One of some words; any other is answered with the nearest."""

    def read(value: object) -> object:
        words = [str(word) for word in known]
        if value not in words:
            raise ValueError(str(unknown(what, str(value), words)))
        return known(str(value)) if isinstance(known, type) else value

    return BeforeValidator(read)


def _share(value: object) -> object:
    """Read 95% as 0.95."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*%\s*", value) if isinstance(value, str) else None
    return float(match[1]) / 100 if match else value


def _nothing_is_empty(value: object) -> object:
    """A stage whose lines are all comments is None in YAML, and means an empty one."""
    return {} if value is None else value


def _one_or_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _variants(value: object) -> object:
    entries = _one_or_list(value)
    if not isinstance(entries, list):
        return entries
    return [{"simulator": entry} if isinstance(entry, str) else entry for entry in entries]


def _split(value: object) -> object:
    if isinstance(value, str) and value.startswith("t="):
        try:
            parse_duration_s(value.removeprefix("t="))
        except InputError as error:
            raise ValueError(str(error)) from error
    elif not isinstance(value, str) or not _SPLIT.fullmatch(value):
        raise ValueError(f"an event such as collision, or tick=120, or t=6s was wanted, but {value!r} came")
    return value


def _limits(given: dict[str, Any]) -> dict[str, Any]:
    try:
        read_limits(given)
    except SamepathError as error:
        raise ValueError(str(error)) from error
    return given


def _until(text: str) -> str:
    try:
        parse_until(text)
    except InputError as error:
        raise ValueError(str(error)) from error
    return text


Name = Annotated[
    str, _name(_NAME, "a name in one line"), Field(min_length=1, max_length=100, json_schema_extra={"pattern": _NAME})
]
# A module or a path may be longer.
Reference = Annotated[str, _name(_NAME, "a name in one line"), Field(min_length=1, json_schema_extra={"pattern": _NAME})]
StudyName = Annotated[
    str,
    _name(_STUDY_NAME, "a name that can be a folder's, without / and \\,"),
    Field(min_length=1, max_length=100, json_schema_extra={"pattern": _STUDY_NAME}),
]


class GrowingSpec(BaseModel):
    """Repeats that go on until enough is known."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    until: Annotated[str, AfterValidator(_until)] = Field(
        description="When to stop: rate < 1 % (of repeats that diverge), or sigma known within 10 %.",
        examples=["rate < 1 %", "sigma known within 10 %"],
    )
    max: int = Field(ge=2, le=MAX_REPEATS, description="Repeats at most.")


# Chosen by what came, so that an error is about that one and not about both.
Repeats = Annotated[
    Annotated[int, Field(ge=2, le=MAX_REPEATS), Tag("int")] | Annotated[GrowingSpec, Tag("dict")],
    Discriminator(lambda value: "dict" if isinstance(value, dict | GrowingSpec) else "int"),
]
Expect = Annotated[Verdict, _word(Verdict, "verdict")]
Tolerance = Annotated[float, _quantity(parse_tolerance_m, zero=True), WithJsonSchema({**_QUANTITY, "examples": ["1 cm"]})]
Duration = Annotated[float, _quantity(parse_duration_s, zero=False), WithJsonSchema({**_QUANTITY, "examples": ["20 s"]})]
Pause = Annotated[float, _quantity(parse_duration_s, zero=True), WithJsonSchema({**_QUANTITY, "examples": ["6 s"]})]
# Levels are read where their place in the file is known to the index (``levels.py``).
SettingLevels = Annotated[
    dict[str, Any],
    BeforeValidator(_nothing_is_empty),
    WithJsonSchema({"type": ["object", "null"], "additionalProperties": levels_schema(_SETTING)}),
]
ConditionLevels = Annotated[dict[str, Any], BeforeValidator(_nothing_is_empty), WithJsonSchema(conditions_schema(lists=True))]
OneSetting = Annotated[
    dict[str, Any],
    BeforeValidator(_nothing_is_empty),
    WithJsonSchema({"type": ["object", "null"], "additionalProperties": _SETTING}),
]
OneCondition = Annotated[dict[str, Any], BeforeValidator(_nothing_is_empty), WithJsonSchema(conditions_schema(lists=False))]


class Section(BaseModel):
    """A part of a study file. Unknown keys are refused, nothing is converted in silence."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class VariantSpec(Section):
    """A simulator, used in one way: on every scenario, under every combination of levels."""

    simulator: Reference = Field(description="A simulator's name (see `samepath simulators`) or MODULE:CLASS.")
    as_: Name | None = Field(default=None, alias="as", description="What to call it in names of cells and in the report.")
    settings: SettingLevels = Field(
        default_factory=dict, description="Its own settings, instead of the stage's of that name; a list makes a factor."
    )
    conditions: ConditionLevels = Field(
        default_factory=dict, description="Its own conditions, instead of the stage's of that name; a list makes a factor."
    )
    repeats: Repeats | None = Field(default=None, description="Repeats of its cells, instead of the design's number.")
    expect: Expect | None = Field(
        default=None, description="What must be found in each of its cells; the study fails otherwise."
    )
    optional: bool = Field(
        default=False,
        description="Where it is not installed, true leaves its cells out and says how to; otherwise the study is refused.",
    )


class CellSpec(Section):
    """A single cell, besides or instead of simulators and scenarios."""

    simulator: Reference = Field(description="A simulator's name (see `samepath simulators`) or MODULE:CLASS.")
    scenario: Reference = Field(description="A scenario of that simulator.")
    name: Name | None = Field(default=None, description="What to call the cell.")
    as_: Name | None = Field(default=None, alias="as", description="What to call this way of using the simulator.")
    settings: OneSetting = Field(default_factory=dict, description="Settings of this cell; they come before the stage's.")
    condition: OneCondition = Field(
        default_factory=dict, description="Conditions of this cell; one that is given here is not varied in it."
    )
    repeats: Repeats | None = Field(default=None, description="Repeats of this cell, instead of the design's number.")
    expect: Expect | None = Field(default=None, description="What must be found; the study fails otherwise.")
    optional: bool = Field(
        default=False,
        description="Where its simulator is not installed, true leaves it out and says how to; otherwise the study is refused.",
    )


class DesignSpec(Section):
    """Stage 1: what is asked."""

    simulators: Annotated[
        list[VariantSpec], BeforeValidator(_variants, json_schema_input_type=Reference | list[Reference | VariantSpec])
    ] = Field(default_factory=list, description="One simulator, or a list of names or of {simulator, as, settings, ...}.")
    scenarios: Annotated[list[Reference], BeforeValidator(_one_or_list, json_schema_input_type=Reference | list[Reference])] = (
        Field(default_factory=list, description="One scenario or a list: each is run on each of the simulators.")
    )
    cells: list[CellSpec] = Field(default_factory=list, description="Single cells, besides simulators x scenarios or instead.")
    tolerance: Tolerance = Field(default=0.01, description="Permissible variance, such as 1 cm. Default 1 cm.")
    repeats: Repeats = Field(
        default=100,
        description="Repeats of every cell; or {until: rate < 1 %, max: 3000}, to stop when enough is known. Default 100.",
    )
    duration: Duration | None = Field(
        default=None, description="Longest simulated time, such as 20 s; without it, a scenario's own end."
    )
    log_every: int = Field(default=1, ge=1, le=10**9, description="Keep every n-th tick of the simulator. Default 1.")
    seed: int = Field(
        default=0, ge=0, lt=2**63, description="Equal in all repeats; the order of the cells is drawn from it too. Default 0."
    )
    combination: Annotated[Combination, _word(Combination, "combination")] = Field(
        default=Combination.FULL, description="How levels of several factors are combined. Default full-factorial."
    )
    resolution: Literal[3, 4, 5] | None = Field(
        default=None,
        description="Of a fractional factorial. 3: main effects mix with interactions of two factors; 4 (the default): "
        "only such interactions mix with each other; 5: neither.",
    )


class ExecutionSpec(Section):
    """Stage 4: how it is run."""

    isolation: Annotated[Isolation, _word(Isolation, "isolation")] = Field(
        default=Isolation.PROCESS,
        description="What the repeats of a cell share. Default process, or cold where a condition needs a new interpreter.",
    )
    repeats_per_process: int = Field(default=50, ge=1, le=MAX_REPEATS, description="Size of a batch. Default 50.")
    processes: int = Field(
        default=1,
        ge=1,
        le=256,
        description="Measured repeats at once on one host; more than one disturb each other. Default 1.",
    )
    watchdog: Duration | None = Field(
        default=None, description="A repeat that takes longer is ended. Default: 20 times the rehearsal, at least 60 s."
    )
    order: Annotated[Order, _word(Order, "order")] = Field(
        default=Order.RANDOM, description="Order of the cells. Default random."
    )
    blocks: int = Field(default=1, ge=1, le=MAX_REPEATS, description="Rounds; each runs a share of every cell. Default 1.")
    settle: Pause = Field(
        default=6.0, description="How long a load may take to come near its level before repeats begin. Default 6 s."
    )
    load_tool: Annotated[Literal["auto", "stress-ng", "samepath"], _word(LOAD_TOOLS, "load tool")] = Field(
        default="auto", description="Who makes the CPU load. Default auto: stress-ng if it is installed, else samepath's own."
    )


class AnalysisSpec(Section):
    """Stage 5: how it is judged."""

    criterion: Annotated[Literal["deviation", "sigma"], _word(CRITERIA, "criterion")] = Field(
        default="deviation",
        description="deviation: no repeat may stray farther than the tolerance; sigma: max sigma alone, as in the paper.",
    )
    split_at: Annotated[str, BeforeValidator(_split)] = Field(
        default="collision", description="Where phases part: an event's kind, tick=120 or t=6s. Default collision."
    )
    structure: Annotated[Literal["fail", "report"], _word(STRUCTURES, "way to judge structure")] = Field(
        default="fail",
        description="fail: unequal lengths, actors or collisions exceed any tolerance; report: only report them.",
    )
    restrict: Annotated[list[str], BeforeValidator(_one_or_list, json_schema_input_type=str | list[str])] = Field(
        default_factory=list,
        description="Filters of Table I's restricted column, such as cpu_load<=75% and phase=before.",
        examples=[["cpu_load<=0.75", "phase=before"]],
    )
    confidence: Annotated[float, BeforeValidator(_share), WithJsonSchema(_SHARE)] = Field(
        default=0.95, gt=0, lt=1, description="Of intervals and bounds. Default 0.95."
    )
    limits: Annotated[dict[str, Any], AfterValidator(_limits)] = Field(
        default_factory=dict,
        description="How far other quantities than positions may stray, and positions of some actors: speed: 0.1 m/s, "
        "walkers position: 5 cm, orientation, acceleration, commands, event-time: 50 ms, sensors: same.",
        examples=[{"speed": "0.1 m/s", "walkers position": "5 cm"}],
    )
    monitors: dict[str, Any] | list[Any] = Field(
        default_factory=dict,
        description="Assertions that each repeat is judged by: what a monitor file holds, or only its list of monitors.",
        examples=[["ttc(ego, others) > 1.5"]],
    )


class Head(Section):
    """What a study is called."""

    name: StudyName = Field(description="Of the study, and of its folder under runs/.")
    description: str = Field(default="", description="What is asked, in a line.")


class Stages(Section):
    """The five stages."""

    design: Annotated[DesignSpec, BeforeValidator(_nothing_is_empty, json_schema_input_type=DesignSpec | None)] = Field(
        default_factory=DesignSpec, description="1. What is asked: simulators, scenarios, tolerance, repeats."
    )
    settings: SettingLevels = Field(
        default_factory=dict,
        description="2. Settings of the simulator, held equal in all repeats; a list of levels makes a setting a factor.",
    )
    conditions: ConditionLevels = Field(
        default_factory=dict,
        description="3. Conditions of the host, set, held and measured; a list of levels makes a condition a factor.",
    )
    execution: Annotated[ExecutionSpec, BeforeValidator(_nothing_is_empty, json_schema_input_type=ExecutionSpec | None)] = (
        Field(default_factory=ExecutionSpec, description="4. How it is run: isolation, order, blocks, watchdog.")
    )
    analysis: Annotated[AnalysisSpec, BeforeValidator(_nothing_is_empty, json_schema_input_type=AnalysisSpec | None)] = Field(
        default_factory=AnalysisSpec, description="5. How it is judged."
    )


class FullSpec(Stages):
    """What ``--full`` replaces: mappings are merged key by key, anything else takes the other's place."""


class StudySpec(Stages, Head):
    """A study file."""

    full: FullSpec | None = Field(default=None, description="What --full replaces in any of the five stages.")


_MODELS: Final[Mapping[str, type[Section]]] = {"design": DesignSpec, "execution": ExecutionSpec, "analysis": AnalysisSpec}


def keys_of(model: type[BaseModel]) -> list[str]:
    """Return the keys of a section as a file has them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def model_at(location: list[str | int]) -> type[BaseModel]:
    """Return the section whose keys are valid at a place, the last part of which is the key itself."""
    parts = location[1:] if location[0] == "full" else location
    if len(parts) == 1:
        return FullSpec if location[0] == "full" else StudySpec
    if len(parts) > 2 and parts[-2] == "repeats":
        return GrowingSpec
    if parts[0] == "design" and len(parts) > 2:
        return VariantSpec if parts[1] == "simulators" else CellSpec
    return _MODELS.get(str(parts[0]), StudySpec)


def stage_of(key: object) -> str | None:
    """Return the stage a key belongs to, if it is one's."""
    found = next((stage for stage, model in _MODELS.items() if key in keys_of(model)), None)
    return found or ("conditions" if key in CONDITIONS else None)


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
    settings = {factor.name for factor in plan.factors if factor.kind == "setting"}
    for factor in plan.factors:
        if factor.kind == "condition" and factor.name in settings:
            raise InputError(
                f"{where}: {factor.name} is varied as a setting and as a condition, two factors of one name: hold one of them"
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
