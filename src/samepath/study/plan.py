"""Study files and plans.

A study file is YAML: a tolerance, a number of repeats, and cells that name a simulator, a scenario and its settings. It is
checked whole before anything runs, and an unknown key is an error that names the nearest known one.
"""

import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from samepath.base.digests import fingerprint
from samepath.base.documents import read_yaml, validate
from samepath.base.errors import InputError, StudyError
from samepath.base.suggest import unknown
from samepath.base.units import parse_tolerance_m
from samepath.base.verdicts import Verdict

_SLUG: Final = re.compile(r"[^A-Za-z0-9._-]+")
Scalar = str | float | int | bool
MAX_REPEATS: Final = 1_000_000


def _tolerance(value: object) -> float:
    try:
        return parse_tolerance_m(str(value))
    except InputError as error:
        raise ValueError(str(error)) from error


class CellSpec(BaseModel):
    """One cell of a study file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    simulator: str
    scenario: str
    name: str | None = None
    settings: dict[str, Scalar] = Field(default_factory=dict)
    condition: dict[str, Scalar] = Field(default_factory=dict)
    repeats: int | None = Field(default=None, ge=2, le=MAX_REPEATS)
    expect: str | None = None


class StudySpec(BaseModel):
    """A study file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str
    description: str = ""
    tolerance: Annotated[float, BeforeValidator(_tolerance)] = 0.01
    repeats: int = Field(default=100, ge=2, le=MAX_REPEATS)
    seed: int = Field(default=0, ge=0)
    log_every: int = Field(default=1, ge=1)
    processes: int = Field(default=0, ge=0, le=256)
    repeats_per_process: int = Field(default=50, ge=1)
    cells: list[CellSpec] = Field(min_length=1)


@dataclass(frozen=True)
class PlannedCell:
    """A cell to be run: ``folder`` is its place in the study's folder.

    ``expect`` is what must be found; None where nothing is said, or where fewer repeats are run than the file stated.
    """

    name: str
    folder: str
    simulator: str
    scenario: str
    settings: dict[str, Scalar]
    condition: dict[str, Scalar]
    repeats: int
    expect: Verdict | None


@dataclass(frozen=True)
class Plan:
    """A study, checked and spelled out.

    ``processes`` 0 runs every repeat in this process; more run groups of ``repeats_per_process`` in so many fresh ones at once.
    """

    name: str
    description: str
    tolerance_m: float
    seed: int
    log_every: int
    cells: tuple[PlannedCell, ...]
    processes: int = 0
    repeats_per_process: int = 50

    @property
    def fingerprint(self) -> str:
        """Name of everything held equal: a folder begun under one plan is only continued under the same.

        The number of repeats is not part of it, so that a study can be extended.
        """
        varying = ("repeats", "expect")
        cells = [{key: value for key, value in cell.__dict__.items() if key not in varying} for cell in self.cells]
        return fingerprint({"name": self.name, "seed": self.seed, "log_every": self.log_every, "cells": cells})

    @property
    def repeats(self) -> int:
        """How many runs that is."""
        return sum(cell.repeats for cell in self.cells)


def built_in_studies() -> dict[str, str]:
    """Return the studies that come with samepath: name -> YAML text."""
    folder = resources.files("samepath.study") / "studies"
    texts = {
        entry.name.removesuffix(".yaml"): entry.read_text("utf-8") for entry in folder.iterdir() if entry.name.endswith(".yaml")
    }
    return dict(sorted(texts.items()))


def load_plan(name_or_path: str, repeats: int | None = None) -> Plan:
    """Read a built-in study or a file; ``repeats`` overrides every number in it."""
    studies = built_in_studies()
    if name_or_path in studies:
        return make_plan(studies[name_or_path], f"study {name_or_path}", repeats)
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml") and not path.exists():
        raise unknown("study", name_or_path, studies)
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StudyError(
            f"{path} cannot be read: {reason}; a YAML study file or one of {', '.join(studies)} was wanted"
        ) from error
    return make_plan(text, str(path), repeats)


def make_plan(text: str, where: str, repeats: int | None = None) -> Plan:
    """Check a study file's text and spell it out."""
    spec = validate(StudySpec, read_yaml(text, where, "study", StudySpec.model_fields), where, _model_at)
    if repeats is not None and not 2 <= repeats <= MAX_REPEATS:
        raise StudyError(f"2 to {MAX_REPEATS} repeats were wanted, but {repeats} came: one run cannot be compared")
    cells: list[PlannedCell] = []
    for index, cell in enumerate(spec.cells):
        _check_condition(cell.condition, f"{where}: cells[{index}].condition")
        stated = cell.repeats or spec.repeats
        expect = _verdict(cell.expect, f"{where}: cells[{index}].expect")
        name = cell.name or " ".join([cell.simulator, cell.scenario, *(f"{k}={v}" for k, v in cell.condition.items())])
        folder = _SLUG.sub("-", name).strip("-.") or f"cell-{index}"
        if any(folder == other.folder for other in cells):
            raise StudyError(f"{where}: cells[{index}]: the name {name!r} is taken: give each cell a name of its own")
        cells.append(
            PlannedCell(
                name=name,
                folder=folder,
                simulator=cell.simulator,
                scenario=cell.scenario,
                settings=cell.settings,
                condition=cell.condition,
                repeats=repeats or stated,
                expect=expect if (repeats or stated) >= stated else None,
            )
        )
    return Plan(
        name=spec.name,
        description=spec.description,
        tolerance_m=spec.tolerance,
        seed=spec.seed,
        log_every=spec.log_every,
        cells=tuple(cells),
        processes=spec.processes,
        repeats_per_process=spec.repeats_per_process,
    )


def _model_at(location: list[str | int]) -> type[BaseModel]:
    return CellSpec if location[0] == "cells" and len(location) > 1 else StudySpec


def _check_condition(condition: dict[str, Scalar], where: str) -> None:
    """Conditions that samepath sets itself must be possible; any other is a label."""
    load = condition.get("cpu_load", 0.0)
    if isinstance(load, bool | str) or not 0 <= load <= 1:
        raise StudyError(f"{where}.cpu_load: a number from 0 to 1 was wanted (0.95 is 95 %), but {load!r} came")


def _verdict(word: str | None, where: str) -> Verdict | None:
    if word is None:
        return None
    known = [one.value for one in Verdict]
    if word not in known:
        raise StudyError(f"{where}: {unknown('verdict', word, known)}")
    return Verdict(word)
