"""Flip rates and margins: exact bounds by summing the binomial, Wilks by its formula, controls whose margins are known."""

import json

import numpy as np
import pytest
from scipy import stats

from samepath.core.streams import stream
from samepath.instrument.analysis.assertions import flip_upper, sigma_of, wilks_share
from samepath.instrument.analysis.verdict import clopper_pearson
from samepath.instrument.evaluation import analyse
from tests.conftest import cell_of, straight_run


@pytest.mark.parametrize("repeats", [1, 2, 5, 10, 37, 100])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_the_bound_of_the_flip_rate_holds_at_every_rate(repeats, confidence):
    """P(bound < the true rate of the rarer verdict), summed over all outcomes: never more than was promised."""
    bounds = np.array([flip_upper(min(fails, repeats - fails), repeats, confidence) for fails in range(repeats + 1)])
    for rate in np.linspace(0.0, 1.0, 401):
        rarer = min(rate, 1 - rate)
        missed = stats.binom.pmf(np.arange(repeats + 1), repeats, rate)[bounds < rarer - 1e-12].sum()
        assert missed <= 1 - confidence + 1e-9, (rate, missed)


def test_a_bound_without_that_care_would_fail_near_one_half():
    """What the care is for: Clopper-Pearson of the rarer verdict misses in up to twice as many cases."""
    bounds = np.array([clopper_pearson(min(k, 100 - k), 100, 0.95)[1] for k in range(101)])
    assert stats.binom.pmf(np.arange(101), 100, 0.5)[bounds < 0.5].sum() > 0.06


@pytest.mark.parametrize("repeats", [2, 10, 100, 1000])
def test_the_share_that_a_range_holds_is_wilks(repeats):
    share = wilks_share(repeats, 0.95)
    assert 1 - repeats * share ** (repeats - 1) + (repeats - 1) * share**repeats == pytest.approx(0.95, abs=1e-9)


def test_equal_margins_have_a_sigma_of_exactly_zero():
    assert sigma_of(np.full(7, 0.1 + 0.2)) == 0.0
    assert sigma_of(np.array([1.0, 2.0, 4.0])) == pytest.approx(np.std([1, 2, 4], ddof=1))
    assert sigma_of(np.array([1.0])) is None


def known(count, sigma_m, threshold_m):
    """Repeats whose smallest distance is normal around 3.3 m; the assertion wants more than ``threshold_m``."""
    draw = stream(3, "margins", count).normal(0.0, sigma_m, count)
    runs = [straight_run(number, shift=lambda tick, actor, d=draw[number]: d if actor == 2 else 0.0) for number in range(count)]
    data = {"monitors": [{"name": "apart", "expression": f"distance(1, 2) > {threshold_m}"}]}
    return draw, analyse(cell_of(runs), monitors=data, progress=False)


def test_a_control_with_known_margins_is_judged_as_on_paper():
    draw, report = known(60, 0.05, 3.25)
    (found,) = report.cells[0].assertions.assertions
    fails = int((3.3 + draw <= 3.25).sum())
    assert 0 < fails < 30
    assert (found.passes, found.fails) == (60 - fails, fails)
    assert found.flip_rate == fails / 60
    assert found.flip_rate_upper == pytest.approx(clopper_pearson(fails, 60, 0.95)[1], abs=1e-6)
    assert found.margin_min == pytest.approx(0.05 + draw.min())
    assert found.margin_needed == pytest.approx(np.ptp(draw))
    assert found.margin_sigma == pytest.approx(np.std(draw, ddof=1))
    assert not report.passes
    assert f"apart passes in {60 - fails} of 60; keep" in found.words()


def test_the_json_keeps_the_contract():
    _, report = known(12, 0.002, 3.0)
    (cell,) = json.loads(report.to_json())["cells"]
    (found,) = cell["monitors"]
    assert found["name"] == "apart"
    assert found["verdicts"] == {"pass": 12, "fail": 0}
    assert found["flip_rate"] == 0.0
    assert found["flip_rate_upper"] == pytest.approx(1 - 0.05 ** (1 / 12))
    assert found["margin_min"] > 0.25
    assert 0 < found["margin_sigma"] < 0.006
    assert report.passes


def test_an_unbounded_margin_is_null_in_the_json_and_left_out_of_sigma():
    # Who drives in step has no way to each other: but for rounding, which positions that are whole numbers do not have.
    runs = [straight_run(number, shift=lambda tick, actor: float(tick) if actor == 2 else 0.0) for number in range(3)]
    report = analyse(cell_of(runs), monitors={"monitors": ["ttc(1, 2) > 1.5"], "sizes": {"car": 1}}, progress=False)
    (found,) = json.loads(report.to_json())["cells"][0]["monitors"]
    assert found["margin_min"] is None
    assert found["margin_sigma"] is None
    assert found["margins_unbounded"] == 3
    assert found["verdicts"] == {"pass": 3, "fail": 0}


def test_a_flip_closes_the_gate_in_junit_too():
    import xml.etree.ElementTree as ET

    from samepath.instrument.report.junit import render_junit

    runs = [straight_run(number, shift=lambda tick, actor, d=number * 1e-4: d if actor == 2 else 0.0) for number in range(10)]
    data = {"monitors": [{"name": "apart", "expression": "distance(1, 2) > 3.3005"}]}
    report = analyse(cell_of(runs), monitors=data, progress=False)
    assert report.verdict.passes
    assert not report.passes
    (failure,) = ET.fromstring(render_junit(report)).iter("failure")
    assert failure.get("type") == "assertion-flips"
    assert "apart passes in 4 of 10" in failure.get("message")
