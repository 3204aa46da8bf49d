"""Noise of sensors: normal, named, and independent of the machine."""

import numpy as np
import pytest
from scipy import stats

from samepath.simulator.sensors.sensor import NoiseKey, normals


def test_normals_are_normal():
    drawn = normals(NoiseKey(1, 2, 3).stream("test"), 40_001)
    assert len(drawn) == 40_001
    assert stats.kstest(drawn, "norm").pvalue > 1e-3
    # The two halves come from the same uniform numbers, but are independent.
    assert abs(np.corrcoef(drawn[:20_000], drawn[20_001:])[0, 1]) < 0.03
    assert 3.8 < np.abs(drawn).max() < 6.0


def test_normals_agree_with_the_textbook():
    uniform = NoiseKey(5).stream("test").random(8)
    radius = np.sqrt(-2 * np.log(1 - uniform[:4]))
    expected = np.concatenate([radius * np.cos(2 * np.pi * uniform[4:]), radius * np.sin(2 * np.pi * uniform[4:])])
    np.testing.assert_allclose(normals(NoiseKey(5).stream("test"), 8), expected, rtol=1e-12)


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_as_many_are_drawn_as_asked_for(count):
    assert len(normals(NoiseKey().stream("test"), count)) == count


def test_streams_differ_by_every_part_of_their_name():
    names = [(seed, sensor, tick, purpose) for seed in (0, 1) for sensor in (0, 1) for tick in (0, 1) for purpose in ("a", "b")]
    first = {NoiseKey(seed, sensor, tick).stream(purpose).random() for seed, sensor, tick, purpose in names}
    assert len(first) == 16


def test_the_lidars_own_functions_are_right_to_thirteen_digits():
    from samepath.simulator.sensors.rays.kernels import cos_of_turn, exp_below_one, log_of

    for x in np.concatenate([np.linspace(-700, 0, 57), np.linspace(-1, 0, 57)]):
        assert exp_below_one(x) == pytest.approx(np.exp(x), rel=1e-13)
    for x in np.concatenate([np.geomspace(1e-16, 1.0, 57), [0.3, 0.7071067811865476]]):
        assert log_of(x) == pytest.approx(np.log(x), rel=1e-13, abs=1e-16)
    for turn in np.linspace(0.0, 1.0, 97):
        assert cos_of_turn(turn) == pytest.approx(np.cos(2 * np.pi * turn), abs=1e-14)
