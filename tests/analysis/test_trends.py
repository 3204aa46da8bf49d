"""Trends over a condition are found without being asked for."""

from dataclasses import replace

import numpy as np

from conftest import cell_of, straight_run
from samepath.analysis.cell import analyse_cell
from samepath.analysis.trends import find_trends


def cells(noise_by_load):
    found = []
    for load, noise_m in noise_by_load.items():
        noise = np.random.default_rng(int(load * 100)).normal(0, noise_m, (30, 25, 3)) if noise_m else np.zeros((30, 25, 3))
        repeats = [straight_run(n, shift=lambda tick, actor, n=n, noise=noise: noise[n, tick, actor]) for n in range(30)]
        found.append(analyse_cell(cell_of(repeats, condition={"cpu_load": load}, cell=f"load {load}", simulator="sim")))
    return found


def test_a_spread_that_grows_with_load_is_said_to_grow():
    (trend,) = find_trends(cells({0.95: 0.02, 0.0: 0.001, 0.5: 0.004}))
    assert trend.levels == (0.0, 0.5, 0.95)
    assert trend.grows
    assert trend.words().startswith("sim, s: max sigma grows with cpu_load: ")


def test_equal_noise_is_not_said_to_grow():
    (trend,) = find_trends(cells({0.0: 0.005, 0.95: 0.005}))
    assert not trend.grows
    assert "does not clearly grow" in trend.words()


def test_no_spread_at_all_is_said_plainly():
    (trend,) = find_trends(cells({0.0: 0.0, 0.95: 0.0}))
    assert trend.p_value is None
    assert trend.words() == "sim, s: no spread at any cpu_load (0, 0.95)."


def test_cells_without_a_varied_number_have_no_trend():
    assert find_trends(cells({0.0: 0.001})) == ()


def test_growth_before_a_collision_is_seen_though_everything_is_far_apart_after_it():
    from test_analysis import cell, colliding_run

    found = []
    for load, noise_m in ((0.0, 0.0), (0.95, 0.02)):
        noise = np.random.default_rng(3).normal(0, 1, 40)
        repeats = []
        for n in range(0, 40, 2):
            run = colliding_run(n, jitter=float(noise[n]))
            values = run.values.copy()
            values[run.tick < 10, 0] += noise_m * noise[n + 1]
            repeats.append(replace(run, values=values))
        found.append(analyse_cell(cell(repeats, condition={"cpu_load": load}, cell=f"load {load}", simulator="sim")))
    before, whole = find_trends(found)
    assert before.phase == "before collision"
    assert before.grows
    assert not whole.grows
