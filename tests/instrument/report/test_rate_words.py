"""Sentences about the rate of divergence say what the bounds say."""

from samepath.instrument.analysis.cell import analyse_cell
from samepath.instrument.analysis.verdict import rate_bounds
from samepath.instrument.report.words import limits, rate_span
from tests.conftest import cell_of, straight_run


def test_repeats_that_all_differ_have_no_upper_bound():
    runs = [straight_run(n, shift=lambda tick, actor, n=n: 0.01 * n) for n in range(10)]
    first, *rest = limits(analyse_cell(cell_of(runs)))
    assert first == (
        "9 of 10 repeats diverged from the largest outcome. The true share of runs that are not of the most frequent "
        "outcome is above 60.6 %, without an upper bound below 100 % (each with 95 % confidence, whichever outcome that is)."
    )
    assert not any("look after every repeat" in sentence for sentence in rest)


def test_both_bounds_are_printed_where_there_are_two():
    assert rate_span(rate_bounds(3, 10)) == "above 8.73 % and below 67.8 %"
