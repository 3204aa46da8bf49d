"""Rules that stop: wired as they are tested in ``bench growing``, here on few repeats and on paper."""

import numpy as np
import pytest
from scipy import stats

from samepath.core.errors import SamepathError
from samepath.core.streams import stream
from samepath.instrument.analysis.stopping import LEAST, RateRule, SigmaRule, plan_size, repeats_for_power, sigma_factors
from samepath.instrument.analysis.verdict import clopper_pearson, repeats_until_stop
from samepath.instrument.study.plan import make_plan
from samepath.instrument.study.spec import parse_until
from samepath.instrument.study_run import run_study
from tests.conftest import straight_run


def test_without_divergence_it_stops_when_the_bound_is_below_the_target():
    rule = RateRule(0.05)
    stops = [bool(rule.add_digest("a")) for _ in range(200)]
    assert stops.index(True) + 1 == repeats_until_stop(0.05)


def test_many_that_differ_stop_it_too_but_not_before_there_is_something_to_measure():
    rule = RateRule(0.01)
    stops = [rule.add_digest(str(number)) for number in range(30)]
    first = next(index for index, reason in enumerate(stops) if reason)
    assert first == LEAST - 1
    assert "above the target" in stops[first]


def test_a_rare_first_repeat_is_not_taken_for_divergence_of_all_others():
    """The first run is the odd one: the rate of divergence is about 1 in 100, not 99 in 100."""
    rule = RateRule(0.2)
    reasons = [rule.add_digest("odd" if number == 0 else "usual") for number in range(60)]
    reason = next(reason for reason in reasons if reason)
    assert "below the target" in reason


def test_two_equal_outcomes_are_above_a_target_of_20_percent():
    rule = RateRule(0.2)
    reasons = [rule.add_digest("ab"[number % 2]) for number in range(100)]
    assert "above the target" in next(reason for reason in reasons if reason)


def test_false_acceptance_at_the_target_is_rare():
    """Few studies, as a smoke alarm; the count over 10,000 is in ``bench/results/growing.json``."""
    accepted = 0
    for study in range(40):
        rule = RateRule(0.2)
        for odd in stream(5, "alarm", study).random(150) < 0.2:
            reason = rule.add_digest("b" if odd else "a")
            if reason:
                accepted += "below" in reason
                break
    assert accepted <= stats.binom.ppf(0.9999, 40, 0.05)


def test_sigma_is_known_when_chi_square_says_so():
    rule, draws = SigmaRule(0.3), stream(6, "sigma").normal(0.0, 0.02, 400)
    for number, value in enumerate(draws):
        reason = rule.add(straight_run(number, ticks=3, shift=lambda tick, actor, v=value: v * tick if actor == 1 else 0.0))
        if reason:
            break
    assert 40 < number < 300
    assert "if repeats are normally distributed" in reason


def test_the_interval_of_sigma_is_that_of_the_textbook():
    low, high = sigma_factors(101, 0.05)
    assert low == pytest.approx(np.sqrt(100 / stats.chi2.ppf(0.975, 100)))
    assert high == pytest.approx(np.sqrt(100 / stats.chi2.ppf(0.025, 100)))


def test_identical_repeats_never_make_sigma_known():
    rule = SigmaRule(0.5)
    assert not any(rule.add(straight_run(number, ticks=3)) for number in range(60))


def test_the_plan_is_the_smallest_number_that_does_it():
    size = plan_size(0.1, 0.9)
    assert (1 - 0.1) ** size.to_see <= 0.1 < (1 - 0.1) ** (size.to_see - 1)
    assert clopper_pearson(0, size.to_accept, 0.95)[1] <= 0.1 < clopper_pearson(0, size.to_accept - 1, 0.95)[1]


@pytest.mark.parametrize(("rate", "above", "power"), [(0.0, 0.05, 0.9), (0.02, 0.1, 0.8), (0.05, 0.1, 0.9)])
def test_power_is_that_of_the_exact_test(rate, above, power):
    repeats = repeats_for_power(rate, above, power)

    def strength(count):
        accepts = [k for k in range(count + 1) if clopper_pearson(k, count, 0.95)[1] <= above]
        return float(stats.binom.cdf(max(accepts), count, rate)) if accepts else 0.0

    assert strength(repeats) >= power
    assert all(strength(count) < power for count in range(max(2, repeats - 8), repeats))


@pytest.mark.parametrize("text", ["rate < 1", "rate > 1 %", "sigma", "sigma known within 0 %", "rate < 0 %", ""])
def test_what_cannot_be_meant_is_refused_in_a_line(text):
    with pytest.raises(SamepathError) as error:
        parse_until(text)
    assert "\n" not in str(error.value)


STUDY = {
    "name": "grow",
    "design": {
        "simulators": ["control-exact", "control-gaussian"],
        "scenarios": "crossing",
        "repeats": {"until": "rate < 10 %", "max": 90},
    },
    "execution": {"isolation": "inline"},
}


def test_a_study_stops_its_cells_and_goes_on_from_what_it_has(tmp_path):
    result = run_study(STUDY, tmp_path / "grow", progress=False)
    found = {cell.header.cell: cell.repeats for cell in result.report.cells}
    assert found == {"control-exact": repeats_until_stop(0.1), "control-gaussian": LEAST}
    assert set(result.stopped) == set(found)
    assert result.ok
    again = run_study(STUDY, tmp_path / "grow", progress=False)
    assert {cell.header.cell: cell.repeats for cell in again.report.cells} == found
    assert set(again.stopped) == set(found)


def test_a_number_on_the_command_line_stands_in_place_of_the_rule():
    plan = make_plan(
        "name: s\ndesign: {simulators: control-exact, scenarios: crossing, repeats: {until: rate < 1 %, max: 9}}\n", "here"
    )
    assert [(cell.repeats, cell.until) for cell in plan.cells] == [(9, "rate < 1 %")]
    text = "name: s\ndesign: {simulators: control-exact, scenarios: crossing, repeats: {until: rate < 1 %, max: 9}}\n"
    assert [(cell.repeats, cell.until) for cell in make_plan(text, "here", repeats=5).cells] == [(5, "")]


@pytest.mark.parametrize(
    "repeats", ["{until: rate < 1 %}", "{until: often, max: 9}", "{max: 9}", "{until: rate < 1 %, max: 1}"]
)
def test_a_bad_rule_in_a_study_is_one_line(repeats):
    with pytest.raises(SamepathError) as error:
        make_plan(f"name: s\ndesign: {{simulators: control-exact, scenarios: crossing, repeats: {repeats}}}\n", "here")
    assert "\n" not in str(error.value)
    assert "repeats" in str(error.value)


def test_a_plan_says_that_a_few_more_repeats_may_have_less_power():
    from scipy import stats

    size = plan_size(0.1, 0.9)

    def strength(repeats):
        allowed = [c for c in range(repeats) if stats.binom.cdf(c, repeats, 0.1) <= 0.05]
        return stats.binom.cdf(max(allowed), repeats, 0.05)

    assert strength(size.to_accept_half) >= 0.9 > min(strength(size.to_accept_half + more) for more in range(1, 12))
    assert f"Run exactly {size.to_accept_half} for that: power rises in saw-teeth" in size.words()[-1]
