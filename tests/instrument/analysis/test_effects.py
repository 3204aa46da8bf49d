"""Which factor matters: planted effects are found, absent ones are not, and too few repeats are said to be too few."""

import numpy as np
import pytest

from samepath.instrument.analysis.effects import find_effects
from samepath.instrument.analysis.factors import find_factors
from tests.support.study_cells import cell, elsewhere, noisy, run


def levels(sizes_m, name="cpu_load", repeats=20, seed=1, **fields):
    """A cell for each level, with noise of that size."""
    return [
        noisy(size_m, repeats=repeats, seed=seed + index, condition={name: level}, **fields)
        for index, (level, size_m) in enumerate(sizes_m.items())
    ]


def test_a_factor_that_moves_repeats_apart_matters_and_its_size_is_told():
    found = find_effects(levels({0.0: 0.001, 0.5: 0.003, 0.95: 0.03}))
    (effect,) = found.effects
    assert (effect.factor, effect.low, effect.high, effect.matched) == ("cpu_load", 0.0, 0.95, True)
    assert effect.size.superiority > 0.95
    assert 10 < effect.size.ratio < 90
    assert effect.size.evidence.shown
    assert not effect.diverging.evidence.shown, "no two repeats are alike at any level: only the size differs"
    assert effect.beyond.low == 0.0
    assert effect.beyond.high > 0.5
    assert effect.beyond.evidence.shown
    assert effect.words().startswith(
        "sim, s: cpu_load matters: at 95 % two repeats are farther apart than at 0 % with probability "
    )
    assert found.words() == "3 p-values corrected by Benjamini and Hochberg's procedure; an effect is shown below 0.05"


def test_the_spread_is_said_to_rise_with_an_ordered_factor():
    (effect,) = find_effects(levels({0.95: 0.03, 0.0: 0.001, 0.5: 0.003})).growth()
    assert effect.grows
    assert effect.levels == (0.0, 0.5, 0.95)
    assert effect.growth_words().startswith("sim, s: max sigma rises with cpu_load: 930 µm at 0 %, 3.52 mm at 50 %")
    (falls,) = find_effects(levels({-20: 0.03, 0: 0.003, 19: 0.001}, "nice")).growth()
    assert falls.shown
    assert not falls.grows
    assert "nearer to each other than at -20" in falls.words()


def test_a_factor_that_does_nothing_is_not_said_to_matter():
    found = find_effects(levels({-20: 0.01, 0: 0.01, 19: 0.01}, "nice"))
    assert [rank.matters for rank in found.ranks] == [False]
    assert "sim, s: nice does not show an effect (corrected p = " in found.ranks[0].words()
    assert "does not clearly rise with nice" in found.effects[0].growth_words()


def test_no_spread_at_all_is_said_plainly():
    still = cell([run(n) for n in range(20)])
    found = find_effects([elsewhere(still, condition={"cpu_load": load}) for load in (0.0, 0.95)])
    assert found.tests == 0
    assert found.effects[0].growth_words() == "sim, s: no spread at any cpu_load (0 %, 95 %)."
    assert found.ranks[0].words() == (
        "sim, s: cpu_load does not show an effect: no repeat differs at any level (20 and 20 repeats)"
    )


def test_too_few_repeats_cannot_tell():
    found = find_effects(levels({0.0: 0.001, 0.95: 1.0}, repeats=4))
    assert found.ranks[0].matters is None
    assert found.ranks[0].words() == (
        "sim, s: cpu_load cannot be told to matter or not: 4 and 4 repeats are too few to show any effect"
    )
    assert "cannot be told to rise or not" in found.effects[0].growth_words()


def test_how_often_and_how_far_are_told_apart():
    rare = cell([run(n, 0.002 if n % 2 else 0.0) for n in range(20)], condition={"cpu_load": 0.95})
    never = cell([run(n) for n in range(20)], condition={"cpu_load": 0.0})
    (effect,) = find_effects([never, rare]).effects
    assert (effect.diverging.low, effect.diverging.high) == (0.0, 0.5)
    assert effect.diverging.evidence.shown
    assert effect.diverging.difference == 0.5
    assert "50 % of the repeats diverge instead of 0 %" in effect.words()
    assert (effect.beyond.low, effect.beyond.high) == (0.0, 0.0)
    assert effect.beyond.evidence.p_value is None


def test_an_effect_before_the_collision_is_seen_though_everything_is_far_apart_after_it():
    cells = [
        noisy(early_m, 0.5, repeats=20, seed=3 + n, condition={"cpu_load": load})
        for n, (load, early_m) in enumerate({0.0: 1e-4, 0.95: 5e-3}.items())
    ]
    whole, before = find_effects(cells).effects
    assert (whole.phase, before.phase) == ("whole run", "before collision")
    assert before.grows
    assert not whole.grows
    assert before.growth_words().startswith("sim, s, before the first collision: max sigma rises with cpu_load")


def test_one_odd_repeat_does_not_make_every_repeat_of_its_cell_stray():
    """From the mean path all 20 repeats are 10 cm off because of one; of the pairs, one is apart."""
    odd = cell([run(n, 2.0 if n == 7 else 0.0) for n in range(20)], condition={"cpu_load": 0.95})
    assert odd.beyond_tolerance == 20
    (effect,) = find_effects([cell([run(n) for n in range(20)], condition={"cpu_load": 0.0}), odd]).effects
    assert effect.beyond.high == pytest.approx(0.1)
    assert not effect.shown


def test_scenarios_are_put_together_and_those_that_never_vary_are_told():
    cells = []
    for n, scenario in enumerate("abcd"):
        size_m = 0.0 if scenario == "d" else 0.001
        cells += levels({0.0: size_m, 0.95: 4 * size_m}, repeats=12, seed=10 * n, scenario=scenario)
    together, *single = find_effects(cells).effects
    assert (together.scenario, together.strata, together.still) == (None, 4, 1)
    assert [effect.scenario for effect in single] == ["a", "b", "c", "d"]
    assert together.shown
    assert "nothing is apart in 1 of 4 comparisons" in together.words()
    assert together.size.evidence.p_value < min(effect.size.evidence.p_value for effect in single[:3])


def test_all_else_is_held_equal_where_the_design_allows_it():
    """``nice`` of -20 takes most of the noise away, load multiplies it: only within a load is that seen."""
    cells = [
        noisy(
            size_m * (0.3 if nice else 1.0), repeats=24, seed=int(100 * load) - nice, condition={"cpu_load": load, "nice": nice}
        )
        for load, size_m in ((0.0, 1e-4), (0.5, 1e-2), (0.95, 1.0))
        for nice in (0, -20)
    ]
    found = find_effects(cells)
    nice = next(effect for effect in found.effects if effect.factor == "nice")
    assert (nice.strata, nice.matched) == (3, True)
    assert nice.shown
    assert [(rank.rank, rank.factor) for rank in found.ranks] == [(1, "cpu_load"), (2, "nice")]


def test_where_nothing_else_is_equal_levels_are_compared_all_the_same_and_it_is_said():
    design = [(0.0, 0, 0.001), (0.0, 19, 0.001), (0.95, 5, 0.02), (0.95, -20, 0.02)]
    cells = [noisy(size_m, seed=n, condition={"cpu_load": a, "nice": b}) for n, (a, b, size_m) in enumerate(design)]
    load = next(effect for effect in find_effects(cells).effects if effect.factor == "cpu_load")
    assert not load.matched
    assert load.shown
    assert load.words().endswith("; other factors are not equal between the levels compared")


def test_levels_without_an_order_are_each_held_against_the_base():
    cells = levels({"none": 0.001, "hash-order": 0.001, "bit-flip": 0.02}, "sources")
    found = find_effects(cells)
    assert [(effect.low, effect.high, effect.shown) for effect in found.effects] == [
        ("none", "hash-order", False),
        ("none", "bit-flip", True),
    ]
    assert "at bit-flip two repeats are farther apart than at none" in found.ranks[0].words()


def test_a_setting_of_the_simulator_is_a_factor_like_any_condition():
    cells = [noisy(size_m, seed=n, settings={"substeps": 2**n, "seed": 1}) for n, size_m in enumerate((0.02, 0.001))]
    (factor,) = find_factors(cells)
    assert (factor.name, factor.kind, factor.levels, factor.ordered, factor.load) == (
        "substeps",
        "setting",
        (1, 2),
        True,
        False,
    )
    assert find_effects(cells).ranks[0].matters


def test_a_cell_that_names_no_load_has_none():
    cells = [*levels({0.95: 0.02}), noisy(0.001, cell="idle")]
    (factor,) = find_factors(cells)
    assert factor.levels == (0.0, 0.95)


def test_studies_of_nothing_rarely_show_anything():
    """Of 60 whole studies without any effect, each of 12 p-values or so, about 3 may show one; 9 have a chance of 1 in 300."""
    shown = 0
    for study in range(60):
        random = np.random.default_rng(study)
        cells = []
        for scenario in "ab":
            for load in (0.0, 0.5, 0.95):
                sides = 0.5 * (random.random(12) < 0.3) + random.normal(0, 0.002, 12)
                cells.append(
                    cell([run(n, off) for n, off in enumerate(sides)], scenario=scenario, condition={"cpu_load": load})
                )
        shown += any(effect.shown for effect in find_effects(cells).effects)
    assert shown < 9
