"""Which tolerance? From a study's own data and assertions, the largest variance at which no verdict flips (paper, VII-A3).

Repeats of all cells of a scenario are laid out by how far they stray from their cell's mean path. A repeat *flips* an assertion
if its verdict is not the usual one of its cell, or if its cell's usual one is not that of the calm cells. A tolerance is good
as far as the repeats within it do not flip; what so many repeats cannot exclude is bounded exactly (Clopper-Pearson).

The tolerances that are tried are fixed beforehand, 1-2-5 from a micrometre to a hundred metres, and the confidence is shared
out among those that have any repeat (Bonferroni): a tolerance picked because it looked good would not keep its word.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from samepath.core.errors import InputError
from samepath.core.units import format_length
from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.analysis.verdict import clopper_pearson
from samepath.instrument.evaluation import Monitors, Source, analyse

LADDER_M: Final = tuple(float(f"{digit}e{power}") for power in range(-6, 3) for digit in (1, 2, 5))[:-2]


@dataclass(frozen=True)
class ToleranceStep:
    """A tolerance that was tried: repeats that stay within it, how many of them flip, and the bound of their rate."""

    tolerance_m: float
    repeats: int
    flips: int
    rate_upper: float


@dataclass(frozen=True)
class ScenarioTolerance:
    """The answer for one scenario. ``tolerance_m`` None: verdicts flip even among the calmest repeats, or nothing strays.

    ``first_flip_m`` is the smallest deviation of a repeat that flips, ``largest_m`` the largest of any repeat. Where no repeat
    flips, the tolerance is a lower bound: nothing is known of repeats that stray farther than any did. ``judged``: is any
    assertion about this scenario?
    """

    scenario: str
    tolerance_m: float | None
    step: ToleranceStep | None
    steps: tuple[ToleranceStep, ...]
    first_flip_m: float | None
    first_flip: str
    largest_m: float
    repeats: int
    confidence: float
    judged: bool = True

    @property
    def flips(self) -> bool:
        """Does a verdict flip in any repeat?"""
        return self.first_flip_m is not None

    def words(self) -> str:
        """Say it in one line."""
        if not self.judged:
            return f"{self.scenario}: no assertion is judged there"
        if self.largest_m == 0:
            return f"{self.scenario}: nothing strays in {self.repeats} repeats: there is no variance to judge by"
        if self.step is None:
            first = format_length(self.first_flip_m or 0.0)
            return f"{self.scenario}: no tolerance: a verdict flips at {first} ({self.first_flip})"
        step = self.step
        least = "" if self.flips else "at least "
        text = (
            f"{self.scenario}: {least}{format_length(step.tolerance_m)}: 0 of {step.repeats} repeats within it flip a verdict, "
            f"the true rate is below {100 * step.rate_upper:.3g} % ({100 * self.confidence:.4g} % confidence)"
        )
        if self.first_flip_m is None:
            return f"{text}; no repeat flips, and none strays farther than {format_length(self.largest_m)}"
        return f"{text}; the first flip is at {format_length(self.first_flip_m)} ({self.first_flip})"


@dataclass(frozen=True)
class ToleranceResult:
    """The answers, one for each scenario, and the assertions they are about."""

    scenarios: tuple[ScenarioTolerance, ...]
    assertions: tuple[str, ...]

    @property
    def tolerance_m(self) -> float | None:
        """The smallest of all scenarios in which a verdict flips: what a study of all of them needs; None where one has none.

        Where none flips, the smallest of what was shown. A calm scenario beside one that flips limits nothing: its repeats only
        never strayed so far.
        """
        found = [scenario.tolerance_m for scenario in self._deciding]
        known = [value for value in found if value is not None]
        return min(known) if known and len(known) == len(found) else None

    @property
    def _deciding(self) -> list[ScenarioTolerance]:
        judged = [scenario for scenario in self.scenarios if scenario.judged and scenario.largest_m > 0]
        return [scenario for scenario in judged if scenario.flips] or judged

    def words(self) -> tuple[str, ...]:
        """Say it in lines."""
        whole, flips = self.tolerance_m, any(scenario.flips for scenario in self._deciding)
        least = "at least " if whole is not None and not flips else ""
        head = f"Largest variance at which no assertion flips: {least}{'none found' if whole is None else format_length(whole)}"
        if least:
            head += ", as far as repeats strayed in the calmest scenario; no repeat flips anywhere"
        return head, *(f"  {scenario.words()}" for scenario in self.scenarios), f"Assertions: {'; '.join(self.assertions)}"

    def to_json(self) -> str:
        """Return one JSON object."""
        return json.dumps({"tolerance_m": self.tolerance_m, **asdict(self), "words": self.words()}, indent=1)


def tolerance(
    *sources: Source,
    monitors: Monitors | None = None,
    columns: Mapping[str, str] | None = None,
    confidence: float = 0.95,
    progress: bool = True,
) -> ToleranceResult:
    """Find the largest variance at which no assertion flips, from traces and monitors; a study brings its own monitors."""
    report = analyse(*sources, monitors=monitors, columns=columns, progress=progress)
    return tolerances(report.cells, confidence)


def tolerances(cells: Sequence[CellAnalysis], confidence: float = 0.95) -> ToleranceResult:
    """The same, from analysed cells."""
    names = dict.fromkeys(assertion.name for cell in cells if cell.assertions for assertion in cell.assertions.assertions)
    if not names:
        raise InputError("assertions were wanted to hold variance against, but there are none: give --monitors FILE")
    scenarios = dict.fromkeys(cell.header.scenario for cell in cells)
    found = [_scenario([cell for cell in cells if cell.header.scenario == name], name, confidence) for name in scenarios]
    return ToleranceResult(tuple(found), tuple(names))


def _scenario(cells: Sequence[CellAnalysis], scenario: str, confidence: float) -> ScenarioTolerance:
    usual = _usual(cells)
    strays: list[tuple[float, str]] = []  # deviation, and the assertion that flips, if one does
    for cell in cells:
        for place, deviation in enumerate(cell.deviations):
            strays.append((deviation.max_deviation_m, _flip(cell, place, usual)))
    strays.sort()
    flips = [stray for stray in strays if stray[1]]
    tried = [limit_m for limit_m in LADDER_M if any(stray[0] <= limit_m for stray in strays)]
    sure = 1 - (1 - confidence) / max(1, len(tried))
    steps = []
    for limit_m in tried:
        within = [stray for stray in strays if stray[0] <= limit_m]
        wrong = sum(bool(stray[1]) for stray in within)
        steps.append(ToleranceStep(limit_m, len(within), wrong, clopper_pearson(wrong, len(within), sure)[1]))
    clean = [step for step in steps if step.flips == 0]
    largest = strays[-1][0] if strays else 0.0
    # Beyond the first step that holds everything a larger tolerance says nothing more.
    wide = [step for step in clean if step.repeats < len(strays)]
    whole = [step for step in clean if step.repeats == len(strays)]
    best = whole[0] if whole else wide[-1] if wide else None
    return ScenarioTolerance(
        scenario=scenario,
        tolerance_m=None if best is None or largest == 0 else best.tolerance_m,
        step=best,
        steps=tuple(steps),
        first_flip_m=flips[0][0] if flips else None,
        first_flip=flips[0][1] if flips else "",
        largest_m=largest,
        repeats=len(strays),
        confidence=confidence,
        judged=bool(usual),
    )


def _usual(cells: Sequence[CellAnalysis]) -> dict[str, bool]:
    """The verdict of each assertion where there is least variance: what the test says of the scenario itself."""
    usual: dict[str, bool] = {}
    for cell in sorted(cells, key=lambda cell: cell.summary.max_deviation_m or 0.0):
        for assertion in () if cell.assertions is None else cell.assertions.assertions:
            if assertion.judged:
                usual.setdefault(assertion.name, assertion.passes >= assertion.fails)
    return usual


def _flip(cell: CellAnalysis, place: int, usual: Mapping[str, bool]) -> str:
    for assertion in () if cell.assertions is None else cell.assertions.assertions:
        passes = assertion.verdicts[place] if place < len(assertion.verdicts) else None
        if passes is not None and passes != usual[assertion.name]:
            return f"{assertion.name}, {cell.header.cell}"
    return ""
