"""Domains of permissible variance: the largest region in which the tolerance holds, and the words for it."""

from dataclasses import replace
from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samepath.core.verdicts import Verdict
from samepath.instrument.analysis.cell import AnalysisOptions
from samepath.instrument.analysis.conditions import ConditionCheck
from samepath.instrument.analysis.domains import find_domains
from samepath.instrument.analysis.verdict import (
    Criterion,
    clean_cells_upper,
    clopper_pearson,
    confidence_sequence,
    each_cell_upper,
)
from tests.support.study_cells import cell, elsewhere, noisy, run

LOADS = (0.0, 0.5, 0.75, 0.95)


@cache
def kinds():
    """Cells of every kind, once: by whether the whole run and the phase before the collision are within tolerance."""
    return {
        "still": cell([run(n) for n in range(10)]),
        "good": noisy(0.001, repeats=10),
        "bad": noisy(0.05, repeats=10),
        "good then bad": noisy(0.001, 0.2, repeats=10),
        "good then good": noisy(0.001, 0.002, repeats=10),
        "bad then bad": noisy(0.05, 0.2, repeats=10),
    }


def grid(table, name="cpu_load", levels=LOADS, **fields):
    """Cells from a table: scenario -> the kind of cell at each level."""
    return [
        elsewhere(
            kinds()[kind], scenario=scenario, condition={name: level}, cell=f"{scenario} at {level:g}", variant="v", **fields
        )
        for scenario, row in table.items()
        for level, kind in zip(levels, row, strict=True)
    ]


PAPER = {
    "test1": ("good", "good", "good", "bad"),
    "test2": ("good then bad", "good then bad", "good then bad", "bad then bad"),
    "test5": ("still", "still", "still", "still"),
}


def test_the_papers_domain_is_before_the_collision_and_up_to_75_percent():
    overall, domain_of_one, two, five = find_domains(grid(PAPER))
    assert overall.title == "v, all scenarios"
    assert overall.phase == "before collision"
    assert overall.scenarios == ("test1", "test2", "test5")
    assert [(limit.factor, limit.lowest, limit.highest) for limit in overall.limits] == [("cpu_load", 0.0, 0.75)]
    assert (len(overall.cells), overall.repeats, overall.beyond) == (9, 90, 0)
    # Ten of 12 cells are clean before the collision, and 9 of them are in the region.
    assert (overall.rate_upper, overall.rate_upper_cell) == clean_cells_upper(10, 12, [10] * 9, 0.975)
    assert overall.rate_upper > clopper_pearson(0, 90, 0.95)[1]
    assert overall.verdict is Verdict.WITHIN_TOLERANCE
    assert overall.region() == "before the first collision and up to 75 % CPU load"
    assert overall.words().startswith(
        "before the first collision and up to 75 % CPU load: permissible (0 of 90 repeats beyond 1 cm; the true rate is below "
        "7.09 % on average over its 9 cells, below 46 % in any one of them, 95 % confidence, selection included; largest "
        "deviation "
    )
    assert "; not at 95 % CPU load (test" in overall.words()
    assert " or after the first collision (test2 at " in overall.words()
    assert overall.words().endswith("; whole runs: in all scenarios but test2, up to 75 % CPU load")
    assert [domain.region() for domain in (domain_of_one, two, five)] == [
        "up to 75 % CPU load",
        "before the first collision and up to 75 % CPU load",
        "everywhere (CPU load 0 % to 95 %)",
    ]


def test_the_nearest_counter_example_has_its_figures():
    example, *_ = find_domains(grid({"test1": PAPER["test1"]}))[0].outside
    bad = kinds()["bad"]
    assert (example.cell, example.phase, example.repeats) == ("test1 at 0.95", "whole run", 10)
    assert (example.max_sigma_m, example.max_deviation_m) == (bad.summary.max_sigma_m, bad.summary.max_deviation_m)
    assert example.beyond == bad.beyond_tolerance > 0
    assert example.words() == f"at 95 % CPU load (test1 at 0.95: {bad.judgement.reason})"


def test_everything_permissible_reads_well():
    (domain,) = find_domains(grid({"test5": PAPER["test5"]}))
    assert domain.everything
    assert domain.words() == (
        "everywhere (CPU load 0 % to 95 %): permissible (every repeat bit-identical, 0 of 40 repeats beyond 1 cm; the true "
        "rate is below 7.22 % on average over its 4 cells, below 25.9 % in any one of them, 95 % confidence, selection "
        "included)"
    )
    (single,) = find_domains([elsewhere(kinds()["good"], cell="only")])
    assert single.everything
    assert single.words().startswith(
        "everywhere: permissible (0 of 10 repeats beyond 1 cm; the true rate is below 25.9 %, 95 %"
    )


def test_no_domain_at_all_reads_well():
    (domain,) = find_domains(grid({"test2": ("bad then bad",) * 4}))
    assert domain.empty
    assert domain.rate_upper is None
    assert domain.words().startswith(
        "no domain of permissible variance: 1 cm is not held even before the first collision (test2 at 0: max sigma "
    )
    (whole,) = find_domains([elsewhere(kinds()["bad"], cell="only")])
    assert "not held even in whole runs (only: max sigma" in whole.words()


def test_whole_runs_are_preferred_where_a_phase_admits_no_more():
    overall, *_ = find_domains(grid({"a": ("good",) * 4, "b": ("bad then bad",) * 4}))
    assert overall.region() == "in a (measured: CPU load 0 % to 95 %)"
    assert overall.outside[0].words().startswith("in b (b at ")


def test_a_load_is_limited_from_above_only():
    (domain,) = find_domains(grid({"a": ("bad", "good", "good", "good")}))
    assert domain.empty, "whoever fails without load has no domain, whatever happens under load"


def test_a_priority_may_be_limited_from_either_side():
    cells = grid({"a": ("bad", "good", "still", "bad")}, "nice", (-20, -5, 0, 19))
    (domain,) = find_domains(cells)
    assert domain.region() == "nice -5 to 0"
    assert [example.beyond_what for example in domain.outside] == ["with nice 19", "with nice -20"]
    (upper,) = find_domains(grid({"a": ("good", "good", "good", "bad")}, "nice", (-20, -5, 0, 19)))
    assert upper.region() == "nice up to 0"
    (lower,) = find_domains(grid({"a": ("bad", "good", "good", "good")}, "nice", (-20, -5, 0, 19)))
    assert lower.region() == "nice from -5"


def test_a_condition_without_an_order_has_a_set_of_levels():
    levels = ("other", "fifo", "rr", "batch")
    cells = [
        elsewhere(kinds()[kind], condition={"scheduler": level}, cell=level)
        for level, kind in zip(levels, ("good", "bad", "good", "still"), strict=True)
    ]
    (domain,) = find_domains(cells)
    assert domain.region() == "scheduler other, rr or batch"
    assert domain.outside[0].words().startswith("with scheduler fifo (fifo: ")


def test_a_setting_that_only_tells_scenarios_apart_is_no_limit():
    cells = grid({"a": ("good",) * 4}, settings={"lookahead_m": 1.0})
    cells += grid({"b": ("good",) * 4}, settings={"lookahead_m": 2.0})
    assert [limit.factor for limit in find_domains(cells)[0].limits] == ["cpu_load"]


def test_a_load_that_missed_its_target_counts_where_it_was_measured_and_is_marked():
    cells = grid({"a": ("good", "good", "good", "good"), "b": ("good", "good", "good", "bad")})
    missed = ConditionCheck("cpu_load", 0.95, 0.83, 0.8, 0.85, missed=True)
    cells[3] = replace(cells[3], conditions=(missed,))
    overall, a, b = find_domains(cells)
    assert overall.limits[0].highest == a.limits[0].highest == 0.83
    assert overall.missed == a.missed == ("a at 0.95",)
    assert overall.words().endswith("; counted with the load measured, not the one asked: a at 0.95")
    assert (b.limits[0].highest, b.missed) == (0.75, ())


def test_a_difference_in_structure_is_beyond_every_tolerance():
    runs = [run(n, collides=n != 3) for n in range(10)]
    cells = [elsewhere(kinds()["still"], condition={"cpu_load": 0.0}), cell(runs, condition={"cpu_load": 0.5})]
    (domain,) = find_domains(cells)
    assert domain.region() == "before the first collision (measured: CPU load 0 % to 50 %)"
    assert domain.outside[0].beyond == 1
    assert "collided as none" in domain.words()


def test_the_verdicts_own_criterion_decides():
    runs = [run(n, 0.03 if n == 7 else 0.0) for n in range(100)]
    by_deviation, by_sigma = (
        find_domains([cell(runs, AnalysisOptions(criterion=criterion))])[0]
        for criterion in (Criterion.DEVIATION, Criterion.SIGMA)
    )
    assert by_deviation.empty
    assert (by_sigma.everything, by_sigma.beyond, by_sigma.repeats) == (True, 1, 100)
    assert by_sigma.rate_upper == pytest.approx(clopper_pearson(1, 100, 0.95)[1])


def test_cells_whose_number_of_repeats_grew_have_bounds_that_hold_at_any_stop():
    cells = [replace(c, grown=True) for c in grid({"a": ("good",) * 4})]
    (domain,) = find_domains(cells)
    assert domain.rate_upper_cell == confidence_sequence(0, 10, 0.95 ** (1 / 4))[1]
    assert domain.rate_upper_cell > each_cell_upper([(0, 10)] * 4, 4, 0.95)[1]


def test_combinations_that_were_not_measured_are_counted():
    loads = [({"cpu_load": load, "nice": 0}, f"load {load}") for load in LOADS]
    nices = [({"cpu_load": 0.0, "nice": nice}, f"nice {nice}") for nice in (-20, 19)]
    (domain,) = find_domains(
        [elsewhere(kinds()["good"], condition=condition, cell=name) for condition, name in (*loads, *nices)]
    )
    assert domain.unmeasured == 4 * 3 - 6
    assert domain.words().endswith("; 6 combinations of these levels were not measured")


def test_variants_have_domains_of_their_own():
    cells = grid({"a": ("bad",) * 4}) + [replace(c, header=replace(c.header, variant="w")) for c in grid({"a": ("good",) * 4})]
    assert [(domain.variant, domain.empty) for domain in find_domains(cells)] == [("v", True), ("w", False)]


KINDS = ("still", "good", "bad", "good then bad", "good then good", "bad then bad")


@given(st.lists(st.sampled_from(KINDS), min_size=12, max_size=12))
@settings(max_examples=60, deadline=None)
def test_a_domain_admits_only_what_passes_and_cannot_be_widened(chosen):
    scenarios, loads = ("a", "b", "c"), LOADS
    names = dict(zip(product(scenarios, loads), chosen, strict=True))
    cells = grid({scenario: [names[scenario, load] for load in loads] for scenario in scenarios})
    domain = find_domains(cells)[0]
    before_only = domain.phase != "whole run"

    def holds(key):
        early, _, late = names[key].partition(" then ")
        return early != "bad" and (before_only or late != "bad")

    top = domain.limits[0].highest if domain.limits else -1.0
    inside = {key for key in names if key[0] in domain.scenarios and key[1] <= top}
    assert all(holds(key) for key in inside)
    assert len(domain.cells) == len(inside)
    for more_scenarios in product(*[(True,) if scenario in domain.scenarios else (False, True) for scenario in scenarios]):
        for higher in [load for load in loads if load >= top]:
            admitted = [scenario for scenario, chosen in zip(scenarios, more_scenarios, strict=True) if chosen]
            wider = {key for key in names if key[0] in admitted and key[1] <= higher}
            assert not (wider > inside and all(holds(key) for key in wider))


def test_a_domain_does_not_depend_on_the_order_of_cells():
    cells = grid(PAPER)
    forward, backward = find_domains(cells)[0], find_domains(cells[::-1])[0]
    assert set(forward.cells) == set(backward.cells)
    assert forward.region() == backward.region()


@pytest.mark.parametrize("split", ["collision", "tick"])
def test_phases_are_called_by_what_splits_them(split):
    from samepath.instrument.analysis.phases import Split

    options = AnalysisOptions(split=Split() if split == "collision" else Split("tick", 3))
    runs = [run(n, 0.0, 0.2 * n, collides=True) for n in range(6)]
    (domain,) = find_domains([cell(runs, options)])
    assert domain.region() == ("before the first collision" if split == "collision" else "before tick 3")
