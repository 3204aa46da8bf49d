"""What adapters of programs that are reached over a socket share: looks become ticks, and nobody's absence goes unnoticed."""

import pytest

from samepath.core.errors import SimulatorError
from samepath.engines.remote import ActorSample, ExactTicks, ResampledTicks, find_server
from samepath.engines.resampling import RESAMPLING
from samepath.scenarios.scripts import PlanarState


def look(number, time_s, speed_mps=10.0):
    state = {"x_m": speed_mps * time_s, "y_m": float(number), "z_m": 0.0}
    return ActorSample(number, time_s, state, PlanarState(state["x_m"], state["y_m"], 0.0, speed_mps, 0.0))


def test_everybody_is_resampled_by_the_moments_they_were_seen_at():
    ticks = ResampledTicks([look(1, 0.0), look(2, 0.004)])
    found = []
    for step in range(1, 12):
        found += ticks.take([look(1, 0.03 * step), look(2, 0.03 * step + 0.004, 20.0)])
    assert [tick for tick, _ in found] == [1, 2, 3, 4, 5, 6]
    for tick, states in found[1:]:
        assert list(states) == [1, 2]
        assert states[1]["x_m"] == pytest.approx(10.0 * 0.05 * tick)
        assert states[2]["x_m"] == pytest.approx(20.0 * 0.05 * tick)
        assert states[1][RESAMPLING] == pytest.approx(0.0, abs=1e-12), "steady motion is on the line"
    assert "longest gap between frames 0.03 s" in ticks.note


def test_a_tick_is_complete_when_everybody_has_it_and_a_moment_seen_again_adds_nothing():
    ticks = ResampledTicks([look(1, 0.0), look(2, 0.0)])
    assert ticks.take([look(1, 0.05), look(2, 0.0)]) == []
    assert ticks.take([look(1, 0.10), look(2, 0.0)]) == [], "the second has not moved on"
    ticks.take([look(1, 0.10), look(2, 0.05)])
    ((tick, states),) = ticks.take([look(1, 0.15), look(2, 0.10)])
    assert (tick, states[1]["x_m"], states[2]["x_m"]) == (1, 0.5, 0.5)


def test_a_tick_has_the_commands_of_the_sample_that_reaches_it():
    def sample(time_s, throttle):
        return look(1, time_s)._replace(told={"throttle_ratio": throttle})

    ticks = ResampledTicks([look(1, 0.0)])
    found = [made for step in range(1, 6) for made in ticks.take([sample(0.04 * step, 0.1 * step)])]
    assert [(tick, states[1]["throttle_ratio"]) for tick, states in found] == [(1, 0.2), (2, 0.1 * 3), (3, 0.4)]
    assert ExactTicks().take([sample(0.05, 0.7)])[0][1][1]["throttle_ratio"] == 0.7


def test_time_that_goes_back_is_told_of():
    ticks = ResampledTicks([look(1, 0.1)])
    with pytest.raises(SimulatorError, match="time must rise"):
        ticks.take([look(1, 0.05)])


def test_exact_ticks_are_taken_as_they_are_and_others_refused():
    ticks = ExactTicks()
    assert ticks.take([look(1, 0.05)]) == [(1, {1: look(1, 0.05).state})]
    with pytest.raises(SimulatorError, match=r"actor 1 was seen at 0\.15 s where tick 2 was wanted"):
        ticks.take([look(1, 0.15)])


def test_nobody_at_an_address_is_told_in_one_line():
    with pytest.raises(SimulatorError, match=r"^Elsewhere does not answer at 127\.0\.0\.1:1 \(Connection refused\): start it$"):
        find_server("Elsewhere", "127.0.0.1", 1, "start it")
