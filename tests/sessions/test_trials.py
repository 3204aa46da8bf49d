"""The exact test of one input, against enumeration and against simulated runs whose truth is known."""

import random
from itertools import combinations, product

import pytest

from samepath.sessions.trials import ERROR, TrialBlock, error_of, p_value, run_trial


def enumerated(blocks):
    """The same p-value by going through all orders of all blocks."""
    seen = sum(block.changed for block in blocks)
    shares = []
    for block in blocks:
        bad = range(block.changed + block.held)
        shares.append([sum(run in bad for run in arm) for arm in combinations(range(2 * block.runs), block.runs)])
    sums = [sum(counts) for counts in product(*shares)]
    return sum(count >= seen for count in sums) / len(sums)


@pytest.mark.parametrize(
    "blocks",
    [[(4, 4, 0)], [(4, 3, 1)], [(3, 3, 3)], [(3, 0, 0)], [(2, 2, 0), (2, 1, 1)], [(4, 3, 0), (4, 4, 1)], [(4, 0, 4)]],
)
def test_the_p_value_is_that_of_all_orders(blocks):
    made = [TrialBlock(*block) for block in blocks]
    assert p_value(made) == pytest.approx(enumerated(made), abs=1e-12)


def test_all_hypotheses_together_share_one_error():
    assert sum(error_of(number) for number in range(1, 60)) <= ERROR


def passed(diverges, cases=2000, runs=4, seed=1):
    chance = random.Random(seed)
    return (
        sum(
            run_trial(lambda is_changed: diverges(chance, is_changed), runs, error_of(1), chance.shuffle).passed
            for _ in range(cases)
        )
        / cases
    )


@pytest.mark.parametrize("runs", [2, 4, 8])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.125, 1 / 3, 0.5, 2 / 3, 0.9, 1.0])
def test_an_input_without_effect_passes_no_more_often_than_it_may(runs, share):
    limit = error_of(1) + 3 * (error_of(1) / 2000) ** 0.5
    assert passed(lambda chance, _: chance.random() < share, runs=runs) <= limit


@pytest.mark.parametrize("every", [2, 3, 5, 8])
def test_what_comes_back_every_nth_run_passes_no_more_often_than_it_may(every):
    """A counter that a script leaves behind: runs depend on each other, and only the random order protects the test."""
    count = [0]

    def diverges(*_):
        count[0] += 1
        return count[0] % every == 0

    assert passed(diverges) <= error_of(1) + 3 * (error_of(1) / 2000) ** 0.5


def test_an_input_that_decides_passes_with_the_first_block():
    asked = []
    result = run_trial(lambda is_changed: asked.append(1) or is_changed, 4, error_of(1), random.Random(1).shuffle)
    assert (result.passed, result.counts, len(asked)) == (True, (4, 0, 4), 8)
    assert result.p == pytest.approx(1 / 70)


def test_an_input_that_decides_most_runs_needs_the_second_block():
    assert passed(lambda chance, is_changed: is_changed and chance.random() < 0.8) > 0.7
