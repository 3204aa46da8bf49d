"""SUMO: the roads that are made from a script, and, where libsumo is installed, what drives on them."""

import math
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("libsumo")

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import InputError, SimulatorError, UnknownNameError
from samepath.engines.conformance import CHECKS, run_once, run_request
from samepath.engines.interface import Preset, RunRequest
from samepath.engines.sumo import Sumo
from samepath.engines.sumo.engine import roads_of, scene_of
from samepath.scenarios.scripts import read_script
from tests.support.driven import collisions
from tests.support.frame_clock import FrameClock
from tests.support.shared_runs import share_runs

GRID = "sumo-grid"
RUNS = {}


@pytest.fixture
def libsumo():
    reason = Sumo().unavailable({})
    if reason:
        pytest.skip(reason)


# What needs no SUMO


def test_roads_are_the_paths_of_the_script_cut_at_a_junction():
    script = read_script("table1-test2")
    roads = roads_of(script)
    for role, into, over in zip(script.roles, roads.into, roads.over, strict=True):
        assert into[-1] == over[0]
        assert over[-1] == roads.out[0]
        way = [*into, *over[1:], *roads.out[1:]]
        for point in role.path:
            assert min(off_m(point, *pair) for pair in pairwise(way)) < 0.1


def off_m(point, a, b):
    """How far from a straight line between b points another a is."""
    length_m = math.dist(a, b)
    x, y = (b[0] - a[0]) / length_m, (b[1] - a[1]) / length_m
    along_m = min(length_m, max(0.0, (point[0] - a[0]) * x + (point[1] - a[1]) * y))
    return math.dist(point, (a[0] + along_m * x, a[1] + along_m * y))


def test_nobody_has_right_of_way_and_all_are_foes():
    net = ElementTree.fromstring(scene_of(read_script("table1-test2")).net)
    requests = net.findall("junction[@id='j']/request")
    assert [(request.get("response"), request.get("foes")) for request in requests] == [("00", "10"), ("00", "01")]


@pytest.mark.parametrize(
    ("roles", "words"),
    [
        (lambda roles: roles[:1], "two vehicles were wanted"),
        (lambda roles: (roles[0], replace(roles[1], path=((0.0, 300.0), (9.0, 300.0)))), "paths that become one were wanted"),
    ],
)
def test_paths_that_do_not_become_one_are_refused(roles, words):
    script = read_script("table1-test2")
    with pytest.raises(InputError, match=words):
        roads_of(replace(script, roles=roles(script.roles)))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"substeps": 3}, "substeps: 1, 2, 5, 10, 25 or 50 was wanted"),
        ({"threads": 0}, "threads"),
        ({"random": "yes"}, "random: true or false was wanted"),
        ({"mode": "variable-step"}, "mode"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, words):
    with pytest.raises(InputError, match=words):
        Sumo().described(settings)


def test_bits_are_promised_where_neither_chance_nor_the_clock_nor_threads_have_a_part():
    assert Sumo().info().capabilities.deterministic
    for settings in ({"random": True}, {"mode": "game-loop"}, {"threads": 2}):
        assert not Sumo().described(settings).capabilities.deterministic


def test_traffic_of_its_own_has_no_game_loop():
    assert GRID in Sumo().info().scenarios
    with pytest.raises(UnknownNameError, match=GRID):
        run_once(Preset(Sumo(), {"mode": "game-loop"}), GRID)


def test_a_missing_sumo_is_told_with_what_to_install(monkeypatch):
    monkeypatch.setattr(Sumo, "package", "no-such-sumo")
    assert Sumo().unavailable({}) == "no-such-sumo is not installed: pip install 'samepath[sumo]'"
    for scenario in ("table1-test2", GRID):
        with pytest.raises(SimulatorError, match="is not installed"):
            run_once(Sumo(), scenario)


# What SUMO does


@pytest.mark.usefixtures("libsumo")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_sumo_conforms(check, monkeypatch):
    share_runs(monkeypatch, RUNS, "sumo")
    check(lambda: Preset(Sumo(), {}, ["table1-test2", GRID]))


@pytest.mark.usefixtures("libsumo")
def test_cars_start_where_the_script_has_them_and_follow_their_paths():
    script, repeat = read_script("table1-test1"), run_once(Sumo(), "table1-test1")
    assert not collisions(repeat)
    assert repeat.end.reason == "every actor reached its last waypoint"
    for role in script.roles:
        rows = repeat.values[repeat.actor == role.number]
        assert rows[0, :3] == pytest.approx([role.start.x_m, role.start.y_m, role.start.yaw_deg], abs=0.05)
        assert rows[-1, :2] == pytest.approx(role.path[-1], abs=0.5)
        # In bends the middle of a car is inside of the line that its bumpers follow.
        assert max(min(off_m(row[:2], *pair) for pair in pairwise(role.path)) for row in rows) < 1.0
        speeds_mps = np.hypot(rows[:, 3], rows[:, 4])
        assert speeds_mps.max() == pytest.approx(role.speed_mps, abs=0.5)


@pytest.mark.usefixtures("libsumo")
def test_two_cars_collide_at_the_junction_and_go_on():
    repeat = run_once(Sumo(), "table1-test2")
    (hit,) = collisions(repeat)
    assert (hit.actor, hit.other, hit.impulse_ns) == (1, 2, (0.0, 0.0, 0.0))
    first, second = repeat.values[repeat.tick == hit.tick]
    assert math.dist(first[:2], second[:2]) < 4.7
    assert repeat.end.reason == "every actor reached its last waypoint"


@pytest.mark.usefixtures("libsumo")
def test_chance_is_the_seed_s():
    def digest(seed):
        return run_request(Sumo(), RunRequest(GRID, 0, seed=seed, duration_s=10.0)).digest

    assert digest(1) == digest(1)
    assert digest(1) != digest(2)


@pytest.mark.usefixtures("libsumo")
def test_random_takes_another_seed_every_second():
    simulator, found = Preset(Sumo(), {"random": True}), set()
    until_s = SYSTEM_CLOCK.monotonic_s() + 20.0
    while len(found) < 2 and SYSTEM_CLOCK.monotonic_s() < until_s:
        found.add(run_request(simulator, RunRequest(GRID, 0, seed=1, duration_s=10.0)).digest)
        SYSTEM_CLOCK.sleep_s(0.3)
    assert len(found) > 1


@pytest.mark.usefixtures("libsumo")
def test_finer_steps_are_another_run_of_the_same_scene():
    coarse, fine = (run_once(Preset(Sumo(), {"substeps": substeps}), "table1-test2") for substeps in (1, 5))
    assert coarse.digest != fine.digest
    assert abs(collisions(coarse)[0].tick - collisions(fine)[0].tick) <= 3


@pytest.mark.usefixtures("libsumo")
def test_a_game_loop_is_as_repeatable_as_its_clock():
    def digest(*late_s):
        simulator = Sumo({"mode": "game-loop"}, FrameClock(*late_s))
        return run_request(simulator, RunRequest("table1-test2", 0, duration_s=6.0)).digest

    assert digest(0.0, 0.004) == digest(0.0, 0.004)
    assert digest(0.0, 0.004) != digest(0.0, 0.043)


@pytest.mark.usefixtures("libsumo")
def test_a_fresh_interpreter_and_this_one_give_the_same_bits():
    code = (
        "from samepath.engines.conformance import run_once\n"
        "from samepath.engines.sumo import Sumo\n"
        f"print(run_once(Sumo(), 'table1-test2').digest, run_once(Sumo(), '{GRID}').digest)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told == f"{run_once(Sumo(), 'table1-test2').digest} {run_once(Sumo(), GRID).digest}\n"


@pytest.mark.usefixtures("libsumo")
def test_what_sumo_refuses_is_told_in_one_line_and_leaves_nothing():
    from samepath.engines.sumo import engine
    from samepath.engines.sumo.simulator import SumoOptions

    before = run_request(Sumo(), RunRequest(GRID, 0, duration_s=2.0)).digest
    with pytest.raises(SimulatorError, match=r"^SUMO cannot be started: Error: invalid document structure") as failed:
        engine.start("no net at all", "<routes/>", 0.05, SumoOptions(1, False, 0))
    assert "\n" not in str(failed.value)
    assert run_request(Sumo(), RunRequest(GRID, 0, duration_s=2.0)).digest == before
