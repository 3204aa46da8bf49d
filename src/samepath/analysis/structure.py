"""Structure: differences that no distance can express.

Runs of unequal length, actors that are missing, gaps in the log, collisions that happen in some repeats only, runs cut off.
Each is a finding of its own; nothing is cut to the shortest run to make it go away.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from samepath.analysis.endings import collided_pairs, pair_words
from samepath.analysis.spread import CellSpread
from samepath.traces.cell import CellTrace, RunInfo
from samepath.traces.records import Actor

Bools = NDArray[np.bool_]
Key = TypeVar("Key", bound=Hashable)


class FindingKind(StrEnum):
    """What differs."""

    LENGTH = "length"
    MISSING_ACTOR = "missing-actor"
    ACTOR_LENGTH = "actor-length"
    MISSING_TICKS = "missing-ticks"
    END = "end"
    INCOMPLETE = "incomplete"
    COLLISIONS = "collisions"
    ACTOR_TYPE = "actor-type"


@dataclass(frozen=True)
class Finding:
    """A structural difference: which repeats depart from the rest, and how."""

    kind: FindingKind
    repeats: tuple[int, ...]
    message: str


def find_differences(cell: CellTrace, spread: CellSpread) -> tuple[Finding, ...]:
    """List every structural difference between the repeats, most telling first."""
    findings = [*_presence(cell, spread)]
    findings += _by_value(cell, FindingKind.END, "ended by", lambda run: (run.end.reason, run.end.tick), _end_words)
    cut_off = tuple(run.repeat for run in cell.runs if not run.end.completed)
    if cut_off:
        reasons = sorted({run.end.reason for run in cell.runs if not run.end.completed})
        text = f"{_count(cut_off, cell)} cut off ({', '.join(reasons)}): {_named(cut_off)}"
        findings.append(Finding(FindingKind.INCOMPLETE, cut_off, text))
    findings += _by_value(cell, FindingKind.COLLISIONS, "collided as", collided_pairs, pair_words)
    findings += _type_conflicts(cell)
    return tuple(findings)


def _presence(cell: CellTrace, spread: CellSpread) -> list[Finding]:
    if len(spread.presence) < 2:
        return []
    groups = sorted(spread.presence.items(), key=lambda item: (-len(item[1]), item[1][0]))
    usual = _mask(groups[0][0], spread)
    findings = []
    for packed, repeats in groups[1:]:
        found = _mask(packed, spread)
        findings += _presence_findings(cell, spread, usual, found, repeats)
    return findings


def _mask(packed: bytes, spread: CellSpread) -> Bools:
    ticks, actors = spread.shape
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=ticks * actors).astype(np.bool_).reshape(ticks, actors)


def _presence_findings(
    cell: CellTrace,
    spread: CellSpread,
    usual: Bools,
    found: Bools,
    repeats: tuple[int, ...],
) -> list[Finding]:
    findings = []
    who, named = _count(repeats, cell), _named(repeats)
    last_usual, last_found = _last(usual, spread), _last(found, spread)
    if not found.any():
        return [Finding(FindingKind.LENGTH, repeats, f"{who} have no states at all: {named}")]
    if last_usual != last_found:
        word = "end early" if last_found < last_usual else "go on longer"
        text = f"{who} {word}, at tick {last_found} instead of {last_usual}: {named}"
        findings.append(Finding(FindingKind.LENGTH, repeats, text))
    shared = spread.ticks <= min(last_usual, last_found)
    for index, actor in enumerate(spread.actor_ids.tolist()):
        a, b = usual[shared, index], found[shared, index]
        if bool(np.all(a == b)):
            continue
        ticks = spread.ticks[shared]
        if a.any() != b.any():
            word = "lack" if a.any() else "have an extra"
            text = f"{who} {word} actor {actor}: {named}"
            findings.append(Finding(FindingKind.MISSING_ACTOR, repeats, text))
        elif int(ticks[a].max()) != int(ticks[b].max()):
            text = f"{who} log actor {actor} until tick {int(ticks[b].max())} instead of {int(ticks[a].max())}: {named}"
            findings.append(Finding(FindingKind.ACTOR_LENGTH, repeats, text))
        else:
            first = int(ticks[a != b][0])
            text = f"{who} differ in {int((a != b).sum())} logged ticks of actor {actor}, first at tick {first}: {named}"
            findings.append(Finding(FindingKind.MISSING_TICKS, repeats, text))
    return findings


def _last(mask: Bools, spread: CellSpread) -> int:
    """The last tick at which any actor was logged; -1 if none was."""
    rows = np.flatnonzero(mask.any(axis=1))
    return int(spread.ticks[rows[-1]]) if rows.size else -1


def _by_value(
    cell: CellTrace,
    kind: FindingKind,
    verb: str,
    key: Callable[[RunInfo], Key],
    words: Callable[[Key], str],
) -> list[Finding]:
    """Group repeats by a property and report every group but the largest."""
    groups: dict[Key, list[int]] = {}
    for run in cell.runs:
        groups.setdefault(key(run), []).append(run.repeat)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[1][0]))
    usual = ordered[0][0]
    findings = []
    for value, repeats in ordered[1:]:
        text = f"{_count(repeats, cell)} {verb} {words(value)}, the others {words(usual)}: {_named(repeats)}"
        findings.append(Finding(kind, tuple(repeats), text))
    return findings


def _type_conflicts(cell: CellTrace) -> list[Finding]:
    """Report ids that stand for different types of actor in different repeats."""
    by_id: dict[int, list[Actor]] = {}
    for actor in cell.actors:
        by_id.setdefault(actor.id, []).append(actor)
    findings = []
    for actor_id, versions in by_id.items():
        if len(versions) > 1:
            types = " and ".join(actor.type for actor in versions)
            affected = tuple(run.repeat for run in cell.runs if versions[1] in run.actors)
            text = f"actor {actor_id} is a {types} in different repeats: {_named(affected)} differ"
            findings.append(Finding(FindingKind.ACTOR_TYPE, affected, text))
    return findings


def _end_words(end: tuple[str, int]) -> str:
    return f"{end[0]!r} at tick {end[1]}"


def _count(repeats: Sequence[int], cell: CellTrace) -> str:
    return f"{len(repeats)} of {len(cell.runs)} repeats"


def _named(repeats: Sequence[int]) -> str:
    shown = ", ".join(str(one) for one in repeats[:8])
    return f"repeat{'s' if len(repeats) > 1 else ''} {shown}" + (", ..." if len(repeats) > 8 else "")
