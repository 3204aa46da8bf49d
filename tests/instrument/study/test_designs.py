"""Combinations of levels, held against what the textbooks promise of them."""

import itertools

import numpy as np
import pytest
from pydoe import fracfact_aliasing

from samepath.core.errors import StudyError
from samepath.instrument.study.plan import MAX_ROWS, aliases, combine
from samepath.instrument.study.records import Combination, Factor

FULL, SINGLE = Combination.FULL, Combination.ONE_AT_A_TIME
FRACTION, SCREEN = Combination.FRACTIONAL, Combination.PLACKETT_BURMAN


def factors(*sizes):
    return tuple(Factor(chr(ord("a") + place), "condition", tuple(range(size))) for place, size in enumerate(sizes))


def signs(design):
    return np.array(design.rows) * 2 - 1


@pytest.mark.parametrize("combination", list(Combination))
@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 7])
def test_the_base_is_the_first_row_of_every_design_and_no_row_is_there_twice(combination, count):
    rows = combine(factors(*[2] * count), combination).rows
    assert rows[0] == (0,) * count
    assert len(set(rows)) == len(rows)
    assert {len(row) for row in rows} == {count}
    if count:
        assert {level for row in rows for level in row} == {0, 1}


def test_a_full_factorial_has_every_combination():
    assert combine(factors(2, 3, 4), FULL).rows == tuple(itertools.product(range(2), range(3), range(4)))


def test_one_at_a_time_changes_one_factor_in_each_row():
    design = combine(factors(2, 3, 4), SINGLE)
    assert design.rows == ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 2, 0), (0, 0, 1), (0, 0, 2), (0, 0, 3))
    assert design.notes == ("one at a time: what two factors do together cannot be seen",)


@pytest.mark.parametrize("count", range(2, 41))
def test_screening_designs_are_balanced_and_orthogonal_whatever_the_number_of_factors(count):
    matrix = signs(combine(factors(*[2] * count), SCREEN))
    rows = len(matrix)
    assert count < rows <= 2 * count + 8
    assert rows % 4 == 0
    assert not matrix.sum(axis=0).any(), "each level as often as the other"
    assert (matrix.T @ matrix == rows * np.eye(count)).all(), "no two factors are mixed"


@pytest.mark.parametrize(("count", "resolution"), [(n, r) for n in range(2, 12) for r in (3, 4, 5)])
def test_fractions_are_orthogonal_and_keep_apart_what_their_resolution_promises(count, resolution):
    matrix = signs(combine(factors(*[2] * count), FRACTION, resolution)).astype(int)
    # Resolution R: the product of fewer than R columns is never constant (Box & Hunter 1961).
    for size in range(1, resolution):
        for columns in itertools.combinations(range(count), size):
            assert matrix[:, columns].prod(axis=1).sum() == 0, columns


@pytest.mark.parametrize(
    ("count", "resolution", "rows"), [(3, 3, 4), (7, 3, 8), (15, 3, 16), (4, 4, 8), (8, 4, 16), (5, 5, 16)]
)
def test_fractions_are_as_small_as_the_known_ones(count, resolution, rows):
    assert len(combine(factors(*[2] * count), FRACTION, resolution).rows) == rows


def test_without_a_word_main_effects_are_kept_clear_of_interactions_of_two():
    assert combine(factors(*[2] * 6), FRACTION) == combine(factors(*[2] * 6), FRACTION, 4)


@pytest.mark.parametrize(("count", "resolution"), [(3, 3), (6, 3), (7, 3), (4, 4), (6, 4)])
def test_what_is_said_to_be_aliased_is_what_an_independent_search_finds(count, resolution):
    matrix = signs(combine(factors(*[2] * count), FRACTION, resolution))
    found, _ = fracfact_aliasing(-matrix.astype(float))  # the way round in which all signs of aliases are the same
    expected = set()
    for group in found:
        short = [" x ".join(term) for term in group.split(" = ") if len(term) <= 2]
        if len(short) > 1:
            alone = [term for term in short if " x " not in term]
            expected |= {f"the effect of {effect} cannot be told from that of {', '.join(short[1:])}" for effect in alone}
            if not alone:
                expected.add(f"these cannot be told apart: {', '.join(short)}")
    names = [factor.name for factor in factors(*[2] * count)]
    said = set(aliases(names, matrix.astype(np.int8))) - {"effects of one factor are clear of those of two"}
    assert said == expected
    assert said


def test_a_screening_design_of_twelve_rows_mixes_every_effect_in_part():
    design = combine(factors(*[2] * 9), SCREEN)
    assert design.notes == (
        "plackett-burman: 12 of 512 combinations are run",
        "each effect of one factor is mixed in part (0.33) with those of pairs of the other factors",
    )


def test_where_no_fraction_is_smaller_all_combinations_are_run_and_that_is_said():
    design = combine(factors(2, 2, 2), FRACTION, 5)
    assert len(design.rows) == 8
    assert design.notes == ("fractional-factorial: no smaller design does it, all 8 combinations are run",)
    assert combine(factors(*[2] * 5), FRACTION, 5).notes[1:] == ("effects of one factor are clear of those of two",)


@pytest.mark.parametrize("combination", [FRACTION, SCREEN])
def test_two_level_designs_name_the_factor_that_has_more(combination):
    with pytest.raises(StudyError, match=r"two levels of every factor, but the condition b has 3: .*one-at-a-time"):
        combine(factors(2, 3), combination)


def test_more_combinations_than_anybody_could_run_are_refused_before_they_are_listed():
    with pytest.raises(StudyError, match="10000000000, more than 10000"):
        combine(factors(*[10] * 10), FULL)
    assert len(combine(factors(*[10] * 4), FULL).rows) == MAX_ROWS
