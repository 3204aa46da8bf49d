"""What a test came to: who collided with whom, and why the run ended. Where repeats of one test disagree, its verdict flips."""

from collections.abc import Sequence
from dataclasses import dataclass

from samepath.traces.cell import RunInfo
from samepath.traces.records import EventKind

Pair = tuple[int | None, int | None]


@dataclass(frozen=True)
class Ending:
    """What a test came to in some repeats: which pairs collided (None is scenery) and why the run ended; ticks do not count."""

    collisions: tuple[Pair, ...]
    reason: str
    completed: bool
    repeats: tuple[int, ...]


def collided_pairs(run: RunInfo) -> tuple[Pair, ...]:
    """Return which pairs collided: the outcome of the test, not the tick."""
    pairs = set()
    for event in run.events:
        if event.kind == EventKind.COLLISION:
            a, b = sorted((event.actor, event.other), key=_scenery_first)
            pairs.add((a, b))
    return tuple(sorted(pairs, key=lambda pair: (_scenery_first(pair[0]), _scenery_first(pair[1]))))


def pair_words(pairs: tuple[Pair, ...]) -> str:
    """Print pairs: ``1 with 2, 2 with scenery``."""
    return ", ".join(f"{'scenery' if a is None else a} with {'scenery' if b is None else b}" for a, b in pairs) or "none"


def find_endings(runs: Sequence[RunInfo]) -> tuple[Ending, ...]:
    """Group repeats by what the test came to: the usual one first."""
    groups: dict[tuple[tuple[Pair, ...], str, bool], list[int]] = {}
    for run in runs:
        groups.setdefault((collided_pairs(run), run.end.reason, run.end.completed), []).append(run.repeat)
    endings = [Ending(*key, tuple(repeats)) for key, repeats in groups.items()]
    return tuple(sorted(endings, key=lambda one: (-len(one.repeats), one.repeats[0])))


def collided(endings: Sequence[Ending]) -> int:
    """In how many repeats was there a collision?"""
    return sum(len(one.repeats) for one in endings if one.collisions)


def flip_words(endings: Sequence[Ending]) -> str:
    """Say how the verdict flips between repeats, as a sentence without a subject's name; nothing where all agree."""
    if len(endings) < 2:
        return ""
    total = sum(len(one.repeats) for one in endings)
    hit = collided(endings)
    parts = []
    if 0 < hit < total:
        missed = total - hit
        parts.append(
            f"{_repeats(hit, total)} {_verb(hit, 'collide')}" if hit < missed else f"{_repeats(missed, total)} {_not(missed)}"
        )
    usual = endings[0]
    others = [one for one in endings[1:] if bool(one.collisions) == bool(usual.collisions)]
    if elsewhere := [one for one in others if one.collisions != usual.collisions]:
        few, how = sum(len(one.repeats) for one in elsewhere), pair_words(elsewhere[0].collisions)
        told = f"{how}{', ...' if len({one.collisions for one in elsewhere}) > 1 else ''}"
        parts.append(
            f"{_repeats(few, total)} {_verb(few, 'collide')} otherwise ({told}; usually {pair_words(usual.collisions)})"
        )
    if ends := [one for one in others if one.collisions == usual.collisions]:
        few, how = sum(len(one.repeats) for one in ends), ends[0].reason
        told = f"by {how!r}{' and others' if len({one.reason for one in ends}) > 1 else ''}"
        parts.append(f"{_repeats(few, total)} {_verb(few, 'end')} {told}, the others by {usual.reason!r}")
    return "; ".join(parts)


def _repeats(few: int, total: int) -> str:
    return f"{few} of {total} repeats"


def _verb(few: int, verb: str) -> str:
    return f"{verb}s" if few == 1 else verb


def _not(few: int) -> str:
    return "does not collide" if few == 1 else "do not collide"


def _scenery_first(actor: int | None) -> int:
    return -1 if actor is None else actor
