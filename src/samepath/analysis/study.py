"""The analysis of a whole study: all cells together, and the answers to the questions a study is run for."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from samepath.analysis.cell import CellAnalysis
from samepath.analysis.controllers import ControllerSource, find_controllers
from samepath.analysis.domain_search import find_domains
from samepath.analysis.domains import Domain
from samepath.analysis.effect_search import find_effects
from samepath.analysis.effects import Effects
from samepath.analysis.factors import MissingCell, StudyFactor, by_variant, find_factors, joined, settings_of
from samepath.analysis.inference import clopper_pearson
from samepath.analysis.leaks import Leak, find_leaks
from samepath.analysis.side_by_side import SideBySide
from samepath.analysis.side_search import find_side_by_side
from samepath.analysis.verdict import worst
from samepath.base.units import format_length
from samepath.base.verdicts import Verdict

__all__ = ["DETERMINISTIC", "PERMISSIBLE", "Answer", "MissingCell", "StudyAnalysis", "analyse_study"]

DETERMINISTIC: Final = "Is it deterministic?"
PERMISSIBLE: Final = "Under which conditions is its variance permissible?"


@dataclass(frozen=True)
class Answer:
    """An answer to one of the paper's two research questions, for one variant.

    ``short`` is "yes", "no" or "not seen to vary" (a rounded log shows no more); for the second question "everywhere",
    "in a domain" or "nowhere".
    """

    question: str
    variant: str
    simulator: str
    short: str
    text: str

    def words(self) -> str:
        """Say it in one line."""
        return f"{self.variant}: {self.text}" if self.variant else self.text


@dataclass(frozen=True)
class StudyAnalysis:
    """Everything a study shows beyond its single cells.

    ``domains`` has per variant the one over all scenarios first; ``side_by_side`` is None where there is one variant only.
    """

    cells: tuple[CellAnalysis, ...]
    missing: tuple[MissingCell, ...]
    factors: tuple[StudyFactor, ...]
    domains: tuple[Domain, ...]
    effects: Effects
    leaks: tuple[Leak, ...]
    controllers: tuple[ControllerSource, ...]
    answers: tuple[Answer, ...]
    side_by_side: SideBySide | None


def analyse_study(
    cells: Sequence[CellAnalysis], missing: Sequence[MissingCell] = (), confidence: float = 0.95
) -> StudyAnalysis:
    """Analyse the cells of a study together."""
    domains = find_domains(cells, confidence)
    groups = by_variant(cells)
    firsts = {one.variant: one for one in reversed(domains)}
    answers = [_deterministic(variant, members, confidence) for variant, members in groups.items()]
    repeatable = {one.variant: one.short for one in answers}
    answers += [_permissible(firsts[variant]) for variant in groups]
    factors = find_factors(cells)
    return StudyAnalysis(
        cells=tuple(cells),
        missing=tuple(missing),
        factors=factors,
        domains=domains,
        effects=find_effects(cells, confidence),
        leaks=find_leaks(cells, confidence),
        controllers=find_controllers(cells, confidence),
        answers=tuple(answers),
        side_by_side=find_side_by_side(cells, missing, factors, firsts, repeatable),
    )


def _deterministic(variant: str, cells: Sequence[CellAnalysis], confidence: float) -> Answer:
    """Answer from the bits: every repeat of a cell alike, and cells alike that differ only in conditions of the host."""
    repeats, divergent = sum(cell.repeats for cell in cells), sum(cell.divergent for cell in cells)
    verdict = worst([cell.judgement.verdict for cell in cells])
    varying = [cell for cell in cells if len(cell.outcomes) > 1]
    count = f"{repeats} repeats of {len(cells)} cell{'s' if len(cells) > 1 else ''}"
    below = f"true rate of divergence below {100 * clopper_pearson(0, repeats, confidence)[1]:.3g} %"
    if varying:
        short = "no"
        far = max(varying, key=lambda cell: cell.summary.max_deviation_m or 0.0)
        most = format_length(far.summary.max_deviation_m or 0.0)
        alike = [cell.header.cell for cell in cells if len(cell.outcomes) == 1]
        some = f"; every repeat the same only in {_named(alike)}" if alike else ""
        text = (
            f"no: {len(varying)} of {len(cells)} cells vary; {divergent} of {repeats} repeats diverge from the largest outcome "
            f"of their cell, by up to {most} from the mean ({far.header.cell}){some}"
        )
    elif sensed := [(cell, one) for cell in cells for one in cell.sensors if not one.identical]:
        short = "no"
        cell, one = sensed[0]
        many = len({id(other) for other, _ in sensed})
        text = (
            f"no: every path repeats itself to the bit, but in {many} of {len(cells)} cells sensors saw something else "
            f"({cell.header.cell}: {one.words(cell.header.step_s)})"
        )
    elif apart := _conditions_apart(cells):
        short = "no"
        what, *names = apart
        text = (
            f"no: each cell repeats itself, but {joined(names)} differ in {what}, and otherwise in conditions of the host only"
        )
    elif verdict is Verdict.IDENTICAL_AT_RESOLUTION:
        short = "not seen to vary"
        text = (
            f"not seen to vary: the logs of all {count} are equal within each cell, but rounded ({below}, {_sure(confidence)})"
        )
    else:
        short = "yes"
        seen = ", what sensors saw included" if any(cell.sensors for cell in cells) else ""
        same = f"bit-identical within every cell{seen}{_across(cells)}"
        text = f"yes, as far as {count} show: {same} ({below}, {_sure(confidence)})"
    return Answer(DETERMINISTIC, variant, cells[0].header.simulator, short, text)


def _conditions_apart(cells: Sequence[CellAnalysis]) -> tuple[str, str, str] | None:
    """In what two cells of equal scenario and settings, of one outcome each, differ under different conditions, and which."""
    for group in _same_runs(cells):
        for other in group[1:]:
            names = group[0].header.cell, other.header.cell
            if other.outcomes[0].digest != group[0].outcomes[0].digest:
                return "bits", *names
            for ours, theirs in zip_longest(group[0].sensors, other.sensors):
                if ours is None or theirs is None or (ours.sensor, ours.digest) != (theirs.sensor, theirs.digest):
                    return f"what sensor {(ours or theirs).sensor} saw", *names
    return None


def _across(cells: Sequence[CellAnalysis]) -> str:
    return ", and the same bits under all conditions of the host" if any(len(one) > 1 for one in _same_runs(cells)) else ""


def _same_runs(cells: Sequence[CellAnalysis]) -> list[list[CellAnalysis]]:
    """Group cells in which a deterministic simulator does the same."""
    groups: dict[object, list[CellAnalysis]] = {}
    for cell in cells:
        groups.setdefault((cell.header.scenario, tuple(sorted(settings_of(cell.header).items()))), []).append(cell)
    return list(groups.values())


def _permissible(domain: Domain) -> Answer:
    short = "nowhere" if domain.empty else "everywhere" if domain.everything else "in a domain"
    return Answer(PERMISSIBLE, domain.variant, domain.simulator, short, domain.words())


def _named(names: Sequence[str]) -> str:
    return joined(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def _sure(confidence: float) -> str:
    return f"{100 * confidence:.3g} % confidence"
