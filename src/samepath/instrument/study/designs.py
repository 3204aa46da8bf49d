"""Combinations of levels: which of all possible ones a study runs, and what that choice cannot tell.

A design is a set of rows with a level's index per factor. The base, the first level of every factor, is in each of them: the
others are read against it. Two-level designs come from pydoe; its columns are turned over, because they hold all second
levels where we want all first ones. That changes signs of aliases, not which effects are aliased.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import StudyError
from samepath.instrument.study.records import Combination, Factor

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
