"""Whose is the variance: the sensors', the ego's or the world's?"""

import json

import numpy as np
import pytest

from samepath.instrument.analysis.sources import find_shares
from tests.support.study_cells import cell, noisy, run


def three(whole_m, seen_m, world_m, repeats=40):
    """Cells whose repeats are off by normal noise of these sigmas, in x alone."""
    sizes = {"in-loop": whole_m, "sees-replayed": seen_m, "ego-replayed": world_m}
    found = []
    for seed, (level, size_m) in enumerate(sizes.items()):
        fields = {"condition": {"controller": level}, "cell": level}
        same = [run(n) for n in range(repeats)]
        found.append(noisy(size_m, repeats=repeats, seed=seed, **fields) if size_m else cell(same, **fields))
    return found


def variance_of(analysis):
    """Worked out from the positions themselves: off is the same at every tick and for both actors."""
    repeats = analysis.repeats
    draws = np.random.default_rng({"in-loop": 0, "sees-replayed": 1, "ego-replayed": 2}[analysis.header.cell]).normal(
        0.0, 1.0, (repeats, 2)
    )
    return float(np.var(draws[:, 0], ddof=1))


def test_shares_are_what_the_variances_of_the_three_cells_say():
    cells = three(0.2, 0.1, 0.05)
    (found,) = find_shares(cells)
    whole, seen, world = (variance_of(analysis) * size**2 for analysis, size in zip(cells, (0.2, 0.1, 0.05), strict=True))
    assert found.variance_m2 == pytest.approx((whole, seen, world), rel=1e-9)
    assert (found.sensors, found.ego, found.world) == pytest.approx(
        ((whole - seen) / whole, (seen - world) / whole, world / whole)
    )
    assert found.sensors + found.ego + found.world == pytest.approx(1.0)
    assert found.columns == 8
    assert found.p_sensors < 0.05
    words = found.words()
    assert f"{100 * found.sensors:.3g} % from what the ego sees (p = " in words
    assert "\n" not in words
    json.dumps(found.variance_m2)


def test_where_nothing_is_seen_to_differ_that_is_said():
    (found,) = find_shares(three(0.1, 0.1, 0.1))
    assert "not shown to be more than chance" in found.words()
    assert min(found.sensors, found.ego, found.world) >= 0.0


def test_a_part_that_varies_more_when_held_has_no_share_below_zero():
    (found,) = find_shares(three(0.1, 0.4, 0.05))
    assert found.sensors == 0.0
    assert found.ego + found.world == pytest.approx(1.0)


def test_the_ego_alone_may_be_the_source():
    (found,) = find_shares(three(0.1, 0.1, None))
    assert found.world == 0.0
    assert found.p_ego < 1e-6


def test_without_variance_there_is_nothing_to_share():
    (found,) = find_shares(three(None, None, None))
    assert (found.sensors, found.ego, found.world) == (None, None, None)
    assert "nothing varies with the ego in the loop" in found.words()


def test_all_three_levels_are_needed():
    assert find_shares(three(0.1, 0.1, 0.1)[:2]) == ()
