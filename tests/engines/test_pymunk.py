"""pymunk, where it is installed."""

import numpy as np
import pytest

from samepath.engines.conformance import CHECKS, run_once, run_request
from samepath.engines.interface import Preset, RunRequest
from samepath.engines.pymunk import Pymunk
from tests.support.frame_clock import FrameClock
from tests.support.shared_runs import share_runs

pytest.importorskip("pymunk", reason="pymunk is not installed: pip install 'samepath[pymunk]'")
RUNS = {}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_pymunk_conforms(check, monkeypatch):
    share_runs(monkeypatch, RUNS, "pymunk")
    check(lambda: Preset(Pymunk(), {}, ["table1-test2"]))


def test_the_first_car_is_held_back_by_the_second():
    repeat = run_once(Pymunk(), "table1-test2")
    (hit,) = [event for event in repeat.events if event.kind == "collision"]
    assert (hit.actor, hit.other) == (1, 2)
    columns = [repeat.channels.index(name) for name in ("vx_mps", "vy_mps")]
    before, after = (
        repeat.values[(repeat.actor == 1) & (repeat.tick == tick)][0, columns] for tick in (hit.tick - 1, hit.tick)
    )
    assert 1600.0 * (after - before) == pytest.approx(hit.impulse_ns[:2], rel=0.5)


def test_tyres_hold_a_car_on_its_path_and_brakes_stop_it():
    repeat = run_once(Pymunk(), "table1-test1")
    assert repeat.end.reason == "every actor reached its last waypoint"
    last = repeat.values[repeat.tick == repeat.end.tick]
    assert last[:, :2] == pytest.approx(np.array([[8.6, 4.33], [-6.78, -1.83]]), abs=0.7)
    assert np.abs(last[:, 3:5]).max() < 0.2


def test_crates_are_scenery_that_can_be_hit():
    repeat = run_once(Preset(Pymunk(), {"crates": 36}), "table1-test2")
    hits = [(event.actor, event.other) for event in repeat.events if event.kind == "collision"]
    assert (1, 2) in hits
    assert (2, None) in hits


def test_two_threads_run_the_same_scene():
    """Where they race, bits differ; that the cars meet does not."""
    settings = {"threads": 2, "crates": 36}
    alone, two = (run_once(Preset(Pymunk(), {**settings, "threads": count}), "table1-test2") for count in (1, 2))
    first = [next(event.tick for event in repeat.events if event.kind == "collision") for repeat in (alone, two)]
    assert abs(first[0] - first[1]) <= 1


def test_a_game_loop_is_as_repeatable_as_its_clock():
    def digest(*late_s):
        simulator = Pymunk({"mode": "game-loop"}, FrameClock(*late_s))
        return run_request(simulator, RunRequest("table1-test2", 0, duration_s=3.0)).digest

    assert digest(0.0, 0.004) == digest(0.0, 0.004)
    assert digest(0.0, 0.004) != digest(0.0, 0.0043)
