"""How two runs come apart: the stated rule finds the growth that was put in."""

import math

import numpy as np
import pytest

from samepath.core.streams import stream
from samepath.instrument.analysis.partings import GrowthKind, find_growth, find_parting
from samepath.instrument.traces.records import Event
from tests.conftest import STEP_S, straight_run

TICKS, AT = 200, 20


def growth(distance_m, events_a=(), events_b=(), ticks=TICKS):
    a = straight_run(0, ticks=ticks, actors=2)
    b = straight_run(1, ticks=ticks, actors=2, shift=lambda tick, actor: distance_m(tick) if actor == 2 and tick >= AT else 0.0)
    return find_growth(find_parting(a, b, STEP_S), tuple(events_a), tuple(events_b), STEP_S)


@pytest.mark.parametrize("rate_per_s", [1.0, 2.5])
def test_exponential_growth_has_its_rate_and_the_time_in_which_it_doubles(rate_per_s):
    noise = stream(1, "growth").normal(0.0, 0.3, TICKS + 1)
    found = growth(lambda tick: 1e-7 * math.exp(rate_per_s * (tick - AT) * STEP_S + noise[tick]))
    assert found.kind is GrowthKind.EXPONENTIAL
    assert found.rate_per_s == pytest.approx(rate_per_s, rel=0.05)
    assert found.doubling_s == pytest.approx(math.log(2) / rate_per_s, rel=0.05)
    assert "chaos" in found.words()


def test_exponential_growth_that_saturates_is_measured_before_it_does():
    found = growth(lambda tick: min(2.0, 1e-6 * math.exp(3.0 * (tick - AT) * STEP_S)))
    assert found.kind is GrowthKind.EXPONENTIAL
    assert found.rate_per_s == pytest.approx(3.0, rel=0.05)


@pytest.mark.parametrize(("power", "words"), [(1.0, "as time passes"), (2.0, "to the power 2")])
def test_a_difference_of_timing_grows_with_time_and_is_not_called_chaos(power, words):
    found = growth(lambda tick: 0.01 * (tick - AT + 1) ** power)
    assert found.kind is GrowthKind.LINEAR
    assert found.power == pytest.approx(power, rel=0.05)
    assert words in found.words()


def test_a_jump_is_a_step_named_by_the_event_that_only_one_run_has():
    common = Event(99, "note")
    hit = Event(100, "collision", 1, 2, (1.0, 0.0, 0.0))
    found = growth(lambda tick: 1e-6 if tick < 100 else 0.5, [common], [common, hit])
    assert (found.kind, found.jump_tick) == (GrowthKind.STEP, 100)
    assert "collision of actor 1 with actor 2" in found.words()


def test_a_jump_without_an_event_says_so():
    found = growth(lambda tick: 0.1)
    assert (found.kind, found.jump_tick, found.event) == (GrowthKind.STEP, AT, "")
    assert "no event was reported" in found.words()


def test_noise_is_bounded_and_does_not_grow():
    noise = np.abs(stream(2, "growth").normal(1.0, 0.25, TICKS + 1)) * 1e-3
    assert growth(lambda tick: float(noise[tick])).kind is GrowthKind.BOUNDED


def test_a_few_ticks_tell_nothing():
    assert growth(lambda tick: 1e-3 * (tick - AT + 1), ticks=AT + 3).kind is GrowthKind.UNDECIDED


def test_growth_of_a_hundred_times_may_be_anything():
    """Over two decades a curve and its opposite fit alike: it is not called chaos."""
    found = growth(lambda tick: 1e-3 * math.exp(0.25 * (tick - AT) * STEP_S))
    assert found.kind is not GrowthKind.EXPONENTIAL


def test_runs_whose_positions_never_differ_do_not_grow():
    a, b = straight_run(0), straight_run(1, end="broke off")
    assert find_growth(find_parting(a, b, STEP_S), (), (), STEP_S).kind is GrowthKind.NONE
