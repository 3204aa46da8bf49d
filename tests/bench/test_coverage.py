"""The ledger of statements in small: none is wrong more often than it says, beyond the error of the simulation."""

import numpy as np
import pytest

from bench.coverage import (
    Decisions,
    all_rows,
    domain_row,
    draw_outcomes,
    one_and_rest,
    power_rows,
    until_stops,
)
from samepath.instrument.analysis.stopping import RateRule


def test_no_statement_is_wrong_more_often_than_it_says():
    rows = list(all_rows(40, climbs=1, quick=True))
    assert {row.statement for row in rows} == {"domain", "rate", "all alike", "any time", "until", "clusters"}
    assert [row for row in rows if not row.met] == []


def test_a_domain_of_clean_cells_was_too_good_to_be_true():
    """The simulation can see the fault: without the correction four of five such studies are wrong."""
    row = domain_row("10 % in each cell", np.full((12, 1), 0.1), 10, 150)
    assert row.before > 0.7
    assert row.share < 0.1


def test_clusters_far_apart_are_still_found():
    found = {row.world: row.share for row in power_rows(20)}
    assert found["50 % in the second cluster, 50 sigma apart, 20 repeats"] >= 0.9
    assert found["50 % in the second cluster, 20 sigma apart, 50 repeats"] >= 0.9


@pytest.mark.parametrize("rate", [0.02, 0.2, 0.5])
def test_the_tabulated_decisions_are_those_of_the_rule(rate):
    decisions = Decisions(0.2, 120)
    drawn = draw_outcomes(one_and_rest(rate, 3), 12, 120, f"rule {rate}")
    stops = until_stops(decisions, drawn)
    for study, outcomes in enumerate(drawn):
        rule, reason = RateRule(0.2), ""
        for outcome in outcomes:
            reason = rule.add_digest(str(outcome))
            if reason:
                break
        assert ("below" in reason, "above" in reason) == (stops.accepted[study], stops.rejected[study])
        assert not reason or rule.repeats == stops.runs[study]


def test_draws_have_the_stated_rates():
    drawn = draw_outcomes(one_and_rest(0.3, 3), 200, 200, "check")
    share = np.bincount(drawn.ravel(), minlength=4) / drawn.size
    assert share == pytest.approx([0.7, 0.1, 0.1, 0.1], abs=0.01)
