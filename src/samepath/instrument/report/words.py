"""Words and numbers for people, the same in every form of the report."""

import math
import re
from typing import Final

from samepath.core.units import format_length
from samepath.core.verdicts import Verdict
from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.analysis.domains import CounterExample, Domain
from samepath.instrument.analysis.factors import by_variant, joined
from samepath.instrument.analysis.outcomes import Clusters
from samepath.instrument.analysis.phases import PhaseBoundary
from samepath.instrument.analysis.spread import GridKind, LogResolution
from samepath.instrument.analysis.study import StudyAnswer
from samepath.instrument.analysis.verdict import Criterion, RateBounds, largest_outcome_upper
from samepath.instrument.report.document import Document, sample_size

# Everything outside the characters of XML 1.0, and the control characters that it merely discourages.
_ILLEGAL: Final = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

NO_DATA: Final = "no data"
# A sentence names so many ways to run a test; more are for the tables.
_NAMED_MOST: Final = 3
# An upper bound of a rate from here on prints as 100 %.
_NO_BOUND: Final = 0.9995
_RARE: Final = (("1 in 100", "1_percent"), ("1 in 1000", "1_permille"))

VERDICT_NAMES: Final = {
    Verdict.BIT_IDENTICAL: "Bit-identical",
    Verdict.IDENTICAL_AT_RESOLUTION: "Identical at resolution",
    Verdict.WITHIN_TOLERANCE: "Within tolerance",
    Verdict.EXCEEDS_TOLERANCE: "Exceeds tolerance",
}
VERDICT_MEANINGS: Final = {
    Verdict.BIT_IDENTICAL: "every repeat has the same bits, in a log that holds the simulator's own numbers",
    Verdict.IDENTICAL_AT_RESOLUTION: "every repeat has the same log, but it is rounded: smaller differences cannot be seen",
    Verdict.WITHIN_TOLERANCE: "repeats differ, by no more than the tolerance",
    Verdict.EXCEEDS_TOLERANCE: "some repeat differs by more, or in structure: other collisions, another length, actors missing",
}


def clean(text: object) -> str:
    """Return ``text`` without the characters that no XML or HTML may hold."""
    return _ILLEGAL.sub("", str(text))


def shorten(text: str, limit: int) -> str:
    """Fit ``text`` on one line of ``limit`` characters; the middle goes, because names differ at their ends."""
    line = " ".join(clean(text).split())
    if len(line) <= limit:
        return line
    head = (limit - 1) // 2
    return f"{line[:head]}…{line[len(line) - (limit - 1 - head) :]}"


def length(value_m: float | None) -> str:
    """Print a length for people; an exact zero says that it is one."""
    if value_m is None or math.isnan(value_m):
        return NO_DATA
    if value_m == 0:
        return "0 (exact)"
    return format_length(value_m) if math.isfinite(value_m) else "beyond all numbers"


def percent(ratio: float) -> str:
    """Print a ratio to three figures; what is not certain never prints as 0 % or 100 %."""
    text = f"{100 * ratio:.3g}"
    if text == "100" and ratio < 1:
        return "more than 99.9 %"
    return f"{text} %"


def sentence(text: str) -> str:
    """Begin with a capital letter."""
    return f"{text[:1].upper()}{text[1:]}"


def count(number: int, noun: str) -> str:
    """Print a number of things: ``1 repeat``, ``20 repeats``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def headline(document: Document) -> str:
    """Say the verdict of all cells in one plain line."""
    verdict, total = document.verdict, len(document.cells)
    by_sigma = document.cells[0].options.criterion is Criterion.SIGMA
    more = f"by {'a max sigma above' if by_sigma else 'more than'} {format_length(document.tolerance_m)}"
    here = [cell for cell in document.cells if cell.judgement.verdict is verdict]
    differ = "repeats differ" if total == 1 else f"{len(here)} of {total} cells differ{'s' if len(here) == 1 else ''}"
    match verdict:
        case Verdict.BIT_IDENTICAL:
            where = "" if total == 1 else f" of each of the {total} cells"
            text = f"all repeats{where} have the same bits"
        case Verdict.IDENTICAL_AT_RESOLUTION:
            where = "" if total == 1 else f" in {len(here)} of {total} cells"
            text = f"all logs are equal, but{where} rounded: smaller differences cannot be seen"
        case Verdict.WITHIN_TOLERANCE:
            text = f"{differ}, none {more}"
        case Verdict.EXCEEDS_TOLERANCE:
            far = sum(beyond_distance(cell) for cell in here)
            text = f"{differ} {more if far == len(here) else f'{more}, or in structure' if far else 'in structure'}"
    return f"{VERDICT_NAMES[verdict]}: {text}"


def plainly(document: Document) -> str:
    """Say what came out to somebody who does not know what a cell or a sigma is."""
    far_m = max((cell.summary.max_deviation_m or 0.0 for cell in document.cells), default=0.0)
    which, steady = _which_varies(document)
    match document.verdict:
        case Verdict.BIT_IDENTICAL:
            return "The same test gave the same run every time, to the last bit."
        case Verdict.IDENTICAL_AT_RESOLUTION:
            return "The same test gave the same run every time, as far as the logs can tell."
        case Verdict.WITHIN_TOLERANCE:
            close = f"all runs stayed within {length(far_m)} of their mean"
            return f"The same test did not give exactly the same run{which}, but {close}.{steady}"
        case Verdict.EXCEEDS_TOLERANCE:
            apart = f": actors were up to {length(far_m)} from where they are on average" if far_m > 0 else ""
            # Not of the cell that strays farthest: another one may be the one that flips most often.
            others, total = max(map(_other_endings, document.cells), key=lambda found: found[0] / max(found[1], 1))
            came = f"{others} of {total} repeats came to something else: who hits whom, or how it ends. A pass may be luck."
            at_worst = "At worst " if len(document.cells) > 1 else ""
            return f"The same test did not give the same run{which}{apart}.{f' {at_worst}{came}' if others else ''}{steady}"


def _other_endings(cell: CellAnalysis) -> tuple[int, int]:
    """How many repeats came to something else than most of their cell, and of how many."""
    total = sum(len(ending.repeats) for ending in cell.endings)
    return (total - len(cell.endings[0].repeats) if cell.endings else 0), total


def _which_varies(document: Document) -> tuple[str, str]:
    """Name who varies, and who does not: "" and "" where all of them do, where there is one only, or too many to name."""
    groups = by_variant(document.cells)
    worst = {
        name: max((cell.judgement.verdict for cell in cells), key=lambda verdict: verdict.rank)
        for name, cells in groups.items()
    }
    steady = [name for name in worst if worst[name] in (Verdict.BIT_IDENTICAL, Verdict.IDENTICAL_AT_RESOLUTION)]
    varying = [name for name in worst if name not in steady]
    if not steady or not varying or max(len(steady), len(varying)) > _NAMED_MOST:
        return "", ""
    exact = all(worst[name] is Verdict.BIT_IDENTICAL for name in steady)
    how = "to the last bit" if exact else "as far as the logs can tell"
    return f" with {joined(varying)}", f" With {joined(steady)} it gave the same run every time, {how}."


def beyond_distance(cell: CellAnalysis) -> bool:
    """Does the cell exceed the tolerance by distance, structure aside?"""
    limit, summary = cell.options.tolerance_m, cell.summary
    by_deviation = cell.options.criterion is Criterion.DEVIATION and (summary.max_deviation_m or 0.0) > limit
    return (summary.max_sigma_m or 0.0) > limit or by_deviation


def worst_cell(document: Document) -> CellAnalysis:
    """Return the cell that decides the verdict."""
    return max(
        document.cells,
        key=lambda cell: (cell.judgement.verdict.rank, beyond_distance(cell), cell.summary.max_deviation_m or 0.0),
    )


def why(document: Document) -> str:
    """Give the reason of the worst cell as a sentence."""
    worst = worst_cell(document)
    if len(document.cells) == 1 or worst.judgement.verdict is Verdict.BIT_IDENTICAL:
        return f"{sentence(worst.judgement.reason)}."
    return f"Worst cell: {worst.header.cell}: {worst.judgement.reason}."


def exclusion(document: Document) -> str:
    """Return what the smallest sample cannot exclude: of the cells without divergence, or else another divergence."""
    clean = [cell.repeats for cell in document.cells if not cell.divergent]
    fewest = min(clean or [cell.repeats for cell in document.cells])
    bound = f"{100 * largest_outcome_upper(0, fewest, 0.95):.3g} %"
    seen = (
        f"{fewest} repeats without divergence cannot exclude"
        if clean
        else f"{fewest} repeats cannot exclude another divergence with"
    )
    return f"{seen} a rate below {bound} (95 % confidence)"


def answer_words(answer: StudyAnswer) -> tuple[str, str]:
    """Split an answer into what is said first and loud, and the rest of the sentence."""
    if answer.text.startswith(answer.short):
        return sentence(answer.short), answer.text[len(answer.short) :]
    return sentence(answer.short), f": {answer.text}"


def permission_words(domain: Domain) -> tuple[str, str]:
    """Say where the tolerance holds, and in short what that rests on and what is just outside; the table has the rest."""
    limit = format_length(domain.tolerance_m)
    beyond = joined([_outside(example) for example in domain.outside], "or") if domain.outside else ""
    if domain.empty or domain.rate_upper is None or domain.rate_upper_cell is None:
        return "Nowhere", f": {limit} is not held, not even {beyond}" if beyond else f": {limit} is not held"
    sure = f"{percent(domain.confidence)} confidence, selection included"
    text = f": {domain.beyond} of {domain.repeats} repeats beyond {limit}; the true rate is below {percent(domain.rate_upper)}"
    if len(domain.cells) > 1:
        text += f" on average over its {len(domain.cells)} cells"
        text += f", in any one of them below {percent(domain.rate_upper_cell)}"
    text += f" ({sure})"
    if beyond:
        text += f". Not {beyond}"
    if domain.whole_run is not None:
        text += f". Whole runs: {domain.whole_run.region()}"
    if domain.before_split is not None:
        text += f". Also {domain.before_split.region()}"
    return sentence(domain.region()), text


def _outside(example: CounterExample) -> str:
    """Name a counter-example: what it oversteps, and where it was seen if that does not say so."""
    told = example.scenario in example.beyond_what
    far = "" if example.max_deviation_m is None else f"{format_length(example.max_deviation_m)} off"
    note = ", ".join(part for part in ("" if told else example.scenario, far) if part)
    return f"{example.beyond_what} ({note})" if note else example.beyond_what


def resolution_words(resolution: LogResolution) -> tuple[str, str]:
    """Say how fine the log is, and why."""
    match resolution.kind:
        case GridKind.LOSSLESS:
            return "lossless", "holds the simulator's own numbers"
        case GridKind.FLOAT64:
            return "float64", "full numbers, not known to be the simulator's own"
        case GridKind.FLOAT32:
            return format_length(resolution.step_m), "numbers of 32 bits"
        case GridKind.DECIMAL:
            return format_length(resolution.step_m), "rounded decimals"
        case GridKind.RESAMPLED:
            return f"{format_length(resolution.step_m)} at most", "resampled: states lie between the simulator's own frames"


def boundary_words(boundary: PhaseBoundary, step_s: float) -> str:
    """Say when the splitting event happened."""
    name = boundary.split.name
    if boundary.split.tick is not None:
        return f"The runs are split at {name} ({boundary.split.tick * step_s:g} s)."
    if boundary.first_tick is None:
        return f"No repeat has a {name}: there is only one phase."
    known = [(tick, repeats) for tick, repeats in boundary.ticks.items() if tick is not None]
    parts = [f"at {tick * step_s:g} s in {count(repeats, 'repeat')}" for tick, repeats in known[:3]]
    if len(known) > 3:
        rest = sum(repeats for _, repeats in known[3:])
        parts.append(f"later, up to {known[-1][0] * step_s:g} s, in {count(rest, 'repeat')}")
    if None in boundary.ticks:
        parts.append(f"never in {count(boundary.ticks[None], 'repeat')}")
    return f"First {name}: {', '.join(parts)}. The earliest one ends the phase «before»."


def pattern_words(clusters: Clusters) -> str:
    """Say how the outcomes are spread, with the distances that show it."""
    text = sentence(clusters.words())
    if clusters.gap_m is not None and clusters.within_m is not None:
        text += f"; clusters are {length(clusters.gap_m)} apart, neighbours within one at most {length(clusters.within_m)}"
    if clusters.sampled is not None:
        text += f"; from a sample of {count(clusters.sampled, 'outcome')}"
    return f"{text}."


def limits(cell: CellAnalysis) -> tuple[str, ...]:
    """Say what this many repeats can and cannot exclude."""
    bounds, sizes = cell.bounds, sample_size(cell)
    sure, seen = percent(bounds.confidence), f"{bounds.divergent} of {bounds.repeats} repeats diverged"
    if bounds.divergent == 0:
        rate = f"{seen}: the true rate is below {percent(bounds.upper)} ({sure} confidence)."
    else:
        rate = (
            f"{seen} from the largest outcome. The true share of runs that are not of the most frequent "
            f"outcome is {rate_span(bounds)} (each with {sure} confidence, whichever outcome that is)."
        )
    sentences = [rate]
    if len(cell.outcomes) == cell.repeats:
        sentences.append("No two repeats are alike: the size of the spread says more than the rate.")
    else:
        kind = "A divergence" if bounds.divergent == 0 else "Another, rarer divergence"
        sentences += [_chance(kind, words, rare, sizes) for words, rare in _RARE]
    if bounds.anytime_upper <= _NO_BOUND:
        sentences.append(
            f"If you look after every repeat and stop when you like, the bound is {percent(bounds.anytime_upper)} "
            f"({sure} confidence at every moment)."
        )
    if cell.spread.resolution.kind is GridKind.RESAMPLED:
        step = length(cell.spread.resolution.step_m)
        sentences.append(
            f"States were put between the simulator's own frames and may be up to {step} off: a smaller difference may come "
            "from that, and equal rows do not show that the frames were equal."
        )
    elif cell.spread.resolution.kind is GridKind.FLOAT64:
        sentences.append("The logs are not known to hold the simulator's own numbers: equal logs may come from unequal runs.")
    elif cell.spread.resolution.limits_equality:
        step = length(cell.spread.resolution.step_m)
        sentences.append(f"Differences below {step} are not in the log: no number of repeats can show them.")
    sentences.append("All of this holds for the machine, load and settings of these repeats only.")
    return tuple(sentences)


def rate_span(bounds: RateBounds) -> str:
    """Print both bounds of the rate of divergence; a bound that excludes nothing says so."""
    lower = f"above {percent(bounds.lower)}"
    if bounds.upper > _NO_BOUND:
        return f"{lower}, without an upper bound below 100 %"
    return f"{lower} and below {percent(bounds.upper)}"


def _chance(kind: str, words: str, rare: str, sizes: dict[str, float | int]) -> str:
    chance, needed = sizes[f"chance_to_see_{rare}"], sizes[f"repeats_for_{rare}"]
    text = f"{kind} of {words} would have been seen with probability {percent(chance)}"
    return f"{text} only; {needed} repeats would be needed to see it with 95 %." if chance < 0.95 else f"{text}."
