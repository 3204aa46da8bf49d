"""Scenarios: all of them repeat to the bit, those that should collide do, bad files are refused."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from samepath.core.catalogue import actor_type
from samepath.core.errors import SamepathError
from samepath.core.states import VehicleCommand
from samepath.engines import conformance, registry
from samepath.scenarios.model import build_scenario, load_scenario, parse_scenario
from samepath.scenarios.scripts import script_names
from samepath.simulator.simulation import Simulation, SimulationSettings, check_on_map

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())
# Those that follow a script; the traffic of a town has tests of its own (tests/simulator/traffic).
NAMES = sorted(script_names())
# Which pair collides, and at which tick.
COLLISIONS = {
    "table1-test2": (216, 1, 2),
    "glancing": (185, 1, 2),
    "table1-test4": (139, 1, 3),
    "table1-test6": (139, 1, 2),
    "draft-test2": (165, 1, 2),
    "draft-test4": (89, 1, 3),
    "draft-test6": (168, 1, 2),
    "scenery": (171, 1, None),
    "far-0km": (53, 1, 2),
    "far-1km": (53, 1, 2),
    "far-10km": (53, 1, 2),
    "far-100km": (52, 1, 2),
    "meet-bicycle": (80, 1, 2),
    "meet-bus": (46, 1, 2),
    "meet-car": (53, 1, 2),
    "meet-motorcycle": (50, 1, 2),
    "meet-truck": (49, 1, 2),
    "meet-walker": (84, 1, 2),
}
# How near the centres of two actors come where nothing collides, metres.
CLEARANCES = {
    "table1-test1": 8.0,
    "table1-test3": 4.2,
    "table1-test5": 8.9,
    "draft-test1": 7.0,
    "draft-test3": 6.3,
    "draft-test5": 8.9,
    "draft-test7": 1.2,
    "draft-test8": 1.2,
}


def run(name, **changes):
    simulation = Simulation(load_scenario(name), SimulationSettings(**changes))
    results = [simulation.step()]
    while results[-1].ended is None:
        results.append(simulation.step())
    return simulation, results


def test_there_are_twenty_six():
    assert len(NAMES) == 26
    assert set(NAMES) == set(COLLISIONS) | set(CLEARANCES) == set(GOLDEN["digests"])


@pytest.mark.parametrize("name", NAMES)
def test_repeats_have_the_pinned_digest(name):
    """The digests are pinned: a change of any bit of any state or event needs a reason in golden.json."""
    with registry.create("samepath") as simulator:
        # In this process, which may remember: what a run leaves behind the second and the third would find. Every one a
        # thousand times, in processes of their own: ``python -m bench repeats``.
        digests = {conformance.run_once(simulator, name, number).digest for number in range(3)}
    assert digests == {GOLDEN["digests"][name]}


SCRIPT = """
import sys
from samepath.engines import conformance, registry
with registry.create("samepath") as simulator:
    print([conformance.run_once(simulator, name).digest for name in sys.argv[1:]])
"""


@pytest.mark.parametrize(
    "environment",
    [
        # Several at once: the pinned bits are wanted of each process, so that a change that is seen is any one's doing.
        {"PYTHONHASHSEED": "1", "RAYON_NUM_THREADS": "1"},
        {"PYTHONHASHSEED": "random", "OMP_NUM_THREADS": "1", "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX"},
        {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-FMA4"},
    ],
    ids=" ".join,
)
def test_a_fresh_process_with_another_environment_gives_the_same_bits(environment):
    command = [sys.executable, "-c", SCRIPT, *NAMES]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment}).stdout
    assert found.strip() == str([GOLDEN["digests"][name] for name in NAMES])


@pytest.mark.parametrize("name", ["table1-test2", "table1-test4", "draft-test6"])
@pytest.mark.parametrize("threads", [1, 2])
def test_physics_threads_change_no_bit(name, threads):
    assert run(name, physics_threads=threads)[0].world.digest == run(name)[0].world.digest


@pytest.mark.parametrize(("name", "expected"), sorted(COLLISIONS.items()))
def test_those_that_should_collide_do_at_their_tick_and_leave_their_course(name, expected):
    _, results = run(name)
    found = [(result.tick, collision.actor, collision.other) for result in results for collision in result.collisions]
    assert found[0] == expected
    first = next(collision for result in results for collision in result.collisions)
    assert math.hypot(first.impulse_ns.x, first.impulse_ns.y) > 50


def test_the_cars_of_test_2_visibly_change_course():
    """Without the other car each would have ended elsewhere; the struck one is turned round."""
    _, results = run("table1-test2")
    hit = next(result.tick for result in results if result.collisions)
    alone = build_scenario({**load_scenario("table1-test2").model_dump(mode="json")}, "alone")
    undisturbed = Simulation(alone)
    undisturbed.world.destroy(1)
    for _ in range(hit + 40):
        undisturbed.step()
    disturbed = Simulation(alone)
    for _ in range(hit + 40):
        disturbed.step()
    a, b = disturbed.world.state(2).pose, undisturbed.world.state(2).pose
    assert math.hypot(a.x_m - b.x_m, a.y_m - b.y_m) > 1.0
    assert abs(a.yaw_deg - b.yaw_deg) > 20


def test_the_pedestrian_of_test_4_is_removed_when_hit():
    simulation, results = run("table1-test4")
    (removed,) = [result for result in results if result.destroyed]
    assert removed.tick == 139
    assert [actor.id for actor in simulation.world.actors] == [1, 2]


@pytest.mark.parametrize(("name", "clearance"), sorted(CLEARANCES.items()))
def test_those_that_should_not_collide_keep_their_distance(name, clearance):
    simulation = Simulation(load_scenario(name))
    nearest, ended = math.inf, None
    while ended is None:
        result = simulation.step()
        assert not result.collisions
        poses = [simulation.world.state(actor.id).pose for actor in simulation.world.actors]
        for index, a in enumerate(poses):
            nearest = min([nearest, *(math.hypot(a.x_m - b.x_m, a.y_m - b.y_m) for b in poses[index + 1 :])])
        ended = result.ended
    assert nearest > clearance


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(("far-", "meet-"))])
def test_actors_of_the_papers_tests_stay_within_what_it_says(name):
    """Vehicles travel up to 70 m and pedestrians up to 25 m, in 10 to 20 s; a little more is allowed for bends."""
    _, results = run(name)
    assert 10.0 <= results[-1].tick * 0.05 <= 20.0
    for actor in load_scenario(name).actors:
        length = sum(math.dist(a, b) for a, b in zip(actor.path, actor.path[1:], strict=False))
        limit = 95.0 if actor_type(actor.type).kind == "car" else 25.0
        assert length <= limit


@pytest.mark.parametrize("name", ["table1-test2", "table1-test4", "draft-test6"])
@pytest.mark.parametrize("at", [1, 100, 140, 170, 217])
def test_a_snapshot_of_a_running_scenario_goes_on_bit_for_bit(name, at):
    simulation = Simulation(load_scenario(name))
    for _ in range(at):
        simulation.step()
    restored = Simulation.restore(simulation.snapshot())
    for _ in range(60):
        a, b = simulation.step(), restored.step()
        assert a == b
    assert simulation.world.digest == restored.world.digest


# The way-points of two pedestrians in the authors' own input for the tests in which they collide.
AUTHORS_WAY = [[-20.34, -20.84], [-0.34, -17.27], [8.06, -22.00]]


@pytest.mark.parametrize(("look_ahead_m", "nearest_m"), [(0.4, None), (2.0, 1.6), (20.0, 1.8)])
def test_the_drafts_pedestrians_collide_only_if_they_look_no_farther_than_they_are_wide(look_ahead_m, nearest_m):
    """Tests 6 to 8 of the drafts with the authors' coordinates: who looks 2 or 20 m ahead plans around the other."""
    kind = {"type": "walker.pedestrian.0001", "speed": "1 m/s", "look_ahead": look_ahead_m}
    actors = [{"id": 1, **kind, "path": AUTHORS_WAY}, {"id": 2, **kind, "path": AUTHORS_WAY[::-1]}]
    simulation = Simulation(build_scenario({"name": "authors", "duration": 20, "end": "duration", "actors": actors}, "authors"))
    nearest, collided, ended = math.inf, False, None
    while ended is None:
        result = simulation.step()
        a, b = (simulation.world.state(number).pose for number in (1, 2))
        nearest, collided, ended = (
            min(nearest, math.hypot(a.x_m - b.x_m, a.y_m - b.y_m)),
            collided or bool(result.collisions),
            result.ended,
        )
    assert collided == (nearest_m is None)
    assert nearest_m is None or nearest == pytest.approx(nearest_m, abs=0.05)


def test_the_authors_own_inputs_can_be_read(tmp_path):
    text = "AgentNo,AgentType,X,Y,V,Colour\n"
    text += "1,vehicle.mercedes-benz.coupe,  -61.5, -22.6, 4,red\n1,vehicle.mercedes-benz.coupe, -20, -10, 4,red\n"
    text += "2,walker.pedestrian.0001, 6.1, -3.1, 4,red\n2,walker.pedestrian.0001, -8.9, -9.1, 4,red\n\n"
    (tmp_path / "Test.txt").write_text(text)
    scenario = load_scenario(str(tmp_path / "Test.txt"))
    assert [actor.type for actor in scenario.actors] == ["vehicle.mercedes-benz.coupe", "walker.pedestrian.0001"]
    simulation = Simulation(scenario)
    start = simulation.world.state(1).pose.x_m
    for _ in range(100):
        simulation.step()
    assert simulation.world.state(1).pose.x_m > start + 5
    (tmp_path / "Bad.txt").write_text("No,Type\n1,x\n")
    with pytest.raises(SamepathError, match="the header AgentNo"):
        load_scenario(str(tmp_path / "Bad.txt"))


def full_throttle(view, actor_id):
    """A controller of the user's own."""
    return VehicleCommand(throttle=1.0)


def broken(view, actor_id):
    raise RuntimeError("out of coffee")


ONE = """
name: one
duration: 2 s
end: duration
actors:
  - {id: 1, type: vehicle.tesla.model3, path: [[0, 0], [40, 0]]}
"""


def changed(old, new):
    return parse_scenario(ONE.replace(old, new), "one.yaml")


def test_a_users_own_function_can_drive():
    scenario = changed("path: [[0, 0], [40, 0]]", f"path: [[0, 0]], controller: '{__name__}:full_throttle'")
    simulation = Simulation(scenario)
    for _ in range(40):
        simulation.step()
    assert simulation.world.state(1).velocity_mps.x > 7
    with pytest.raises(SamepathError, match="out of coffee"):
        Simulation(changed("path: [[0, 0], [40, 0]]", f"path: [[0, 0]], controller: '{__name__}:broken'")).step()


def test_a_users_own_process_can_drive(tmp_path):
    program = tmp_path / "driver.py"
    program.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    view = json.loads(line)\n"
        "    fast = view['states']['1']['velocity_mps']['x'] > 5\n"
        "    print(json.dumps({'throttle': 0.0 if fast else 0.8, 'brake': 0.0}), flush=True)\n"
    )
    command = json.dumps([sys.executable, str(program)])
    simulation = Simulation(changed("path: [[0, 0], [40, 0]]", f"path: [[0, 0]], process: {command}"))
    try:
        for _ in range(60):
            simulation.step()
        assert 4 < simulation.world.state(1).velocity_mps.x < 7
    finally:
        simulation.close()
    assert simulation.agents[1]._process.poll() is not None, "no process is left behind"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("vehicle.tesla.model3", "vehicle.tesla.model4", "did you mean 'vehicle.tesla.model3'"),
        ("duration: 2 s", "duraton: 2 s", "did you mean 'duration'"),
        ("id: 1, type", "id: 1, sped: 3, type", "did you mean 'speed'"),
        ("id: 1, type", "id: 1, speed: -3, type", r"actors\[0\].speed"),
        ("id: 1, type", "id: 1, speed: fast, type", "8 m/s"),
        ("[40, 0]", "[.nan, 0]", r"actors\[0\].path\[1\]"),
        ("[40, 0]", "[40]", r"actors\[0\].path\[1\]"),
        ("[[0, 0], [40, 0]]", "[[0, 0]]", "at least two points"),
        ("id: 1", "id: 7", "1, 2, 3"),
        ("duration: 2 s", "duration: 2.01 s", "no whole number of steps"),
        ("duration: 2 s", "duration: 2 kg", "use one of h, min, s"),
        ("end: duration", "end: never", "last-waypoint"),
        ("name: one", "name: [", "not valid YAML"),
    ],
)
def test_a_bad_file_is_refused_by_key_before_anything_runs(old, new, words):
    with pytest.raises(SamepathError, match=words) as caught:
        changed(old, new)
    assert str(caught.value).startswith("one.yaml")
    assert "\n" not in str(caught.value)


def test_overlapping_actors_are_refused_by_name():
    text = ONE + "  - {id: 2, type: vehicle.tesla.model3, path: [[1, 0], [40, 5]]}\n"
    with pytest.raises(SamepathError, match=r"actors\[1\].*actor 1 stands there"):
        Simulation(parse_scenario(text, "one.yaml"))


def test_a_waypoint_off_the_map_is_refused_with_the_nearest_lane():
    data = load_scenario("table1-test1").model_dump(mode="json")
    data["actors"][0]["path"][3] = [-47.0, -60.0]
    with pytest.raises(SamepathError, match=r"actors\[0\].path\[3\].*off the road; the nearest lane"):
        check_on_map(build_scenario(data, "x"))
    data["actors"][0]["path"][3] = [900.0, 0.0]
    with pytest.raises(SamepathError, match="off the map t-junction"):
        check_on_map(build_scenario(data, "x"))


def test_an_unknown_map_or_scenario_gets_the_nearest_name():
    with pytest.raises(SamepathError, match="did you mean 't-junction'"):
        Simulation(parse_scenario(ONE.replace("name: one", "name: one\nmap: t-juncton"), "one.yaml"))
    with pytest.raises(SamepathError, match="did you mean 'table1-test1'"):
        load_scenario("table-test1")


def test_far_from_the_origin_the_path_is_that_at_home_as_far_as_the_grid_of_numbers_allows():
    """Until they touch; a contact makes more of any difference. Positions have 32 bits: 8 mm are the grid at 100 km."""
    homes = {km: 99940 if km == 100 else 1000 * km for km in (0, 1, 10, 100)}
    paths = {}
    for km, home in homes.items():
        simulation = Simulation(load_scenario(f"far-{km}km"))
        xs = []
        for _ in range(45):
            assert not simulation.step().collisions
            xs.append([simulation.world.state(number).pose.x_m - home for number in (1, 2, 3)])
        paths[km] = xs
    for km, allowed_m in ((1, 0.02), (10, 0.1), (100, 3.0)):
        off_m = max(
            abs(a - b) for ours, theirs in zip(paths[0], paths[km], strict=True) for a, b in zip(ours, theirs, strict=True)
        )
        assert 0 < off_m < allowed_m, km
