"""Plans are driven: by our simulator, by an engine in this process, by whatever reads a script; and a study takes the file."""

import math

import pytest

from samepath import run_study
from samepath.core.errors import InputError
from samepath.scenarios.model import build_scenario, load_scenario
from samepath.scenarios.paths import TimedWalk, Timetable, timetable_of
from samepath.scenarios.scripts import read_script, tracks_by_place, with_run_up
from samepath.simulator.simulation import Simulation
from tests.support.xosc import after, at, document, event, init, lane, pedestrian, speed, story, vehicle, world, write

STOP_AND_GO = story(
    "ego", event("stop", speed(0, "linear", 3.0), after(2.0)), event("go", speed(10, "linear", 4.0), after(8.0))
)


@pytest.fixture
def file(tmp_path):
    entities = vehicle("ego") + vehicle("other") + pedestrian("walker")
    actions = init(
        ego=[at(lane(1, -1, 50)), speed(15)],
        other=[at(lane(1, -2, 80)), speed(5)],
        walker=[at(world(20.0, 120.0)), speed(1.4)],
    )
    return write(tmp_path, document(entities, actions, STOP_AND_GO, end_s=14.0))


def farthest_m(simulation, scenario):
    """How far everybody ever was from where the plan had them."""
    walks = {
        actor.id: TimedWalk(actor.path, timetable_of(actor.path, actor.times), 0.05) for actor in scenario.actors if actor.times
    }
    worst = dict.fromkeys(walks, 0.0)
    result = simulation.step()
    while result.ended is None:
        for number, state in simulation.world.states().items():
            x_m, y_m = walks[number].point(walks[number].timetable.arc_m(simulation.world.time_s))
            worst[number] = max(worst[number], math.hypot(state.pose.x_m - x_m, state.pose.y_m - y_m))
        result = simulation.step()
    return worst


def test_our_simulator_drives_the_plan_and_keeps_to_it(file):
    scenario = load_scenario(str(file))
    worst = farthest_m(Simulation(scenario), scenario)
    # A car that stops and goes with an engine and tyres is behind a point that does not; a walker is where it should be.
    assert worst[1] < 1.5
    assert worst[2] < 0.5
    assert worst[3] < 0.1


def test_driving_it_again_gives_the_same_bits_and_so_does_a_snapshot(file):
    scenario = load_scenario(str(file))
    whole, halved = Simulation(scenario), Simulation(scenario)
    for _ in range(120):
        whole.step()
        halved.step()
    assert whole.world.digest == halved.world.digest
    restored = Simulation.restore(halved.snapshot())
    for _ in range(60):
        whole.step()
        restored.step()
    assert whole.world.digest == restored.world.digest


def test_a_study_takes_the_file(file, tmp_path):
    study = tmp_path / "study.yaml"
    study.write_text(
        f"name: xosc\ndesign:\n  cells: [{{simulator: samepath, scenario: {file}, expect: bit-identical}}]\n"
        "  tolerance: 1 cm\n  repeats: 2\n  seed: 1\nexecution: {isolation: process, processes: 1}\n"
    )
    result = run_study(str(study), out=tmp_path / "out")
    assert result.ok


def test_engines_that_start_at_rest_get_a_run_up(file):
    script = with_run_up(read_script(str(file)))
    ego = script.roles[0]
    # 15 m/s at 2 m/s^2: 7.5 s and 56.25 m.
    assert script.duration_s == pytest.approx(read_script(str(file)).duration_s + 7.5)
    assert ego.start_mps == 0.0
    timetable = timetable_of(ego.path, ego.times_s)
    assert timetable.arc_m(7.5) == pytest.approx(56.25, abs=0.01)
    assert timetable.speed_mps(7.55) == pytest.approx(15.0, abs=0.01)
    assert timetable_of(script.roles[2].path, script.roles[2].times_s).arc_m(7.4) == 0.0


def test_drivers_who_go_by_place_cannot_be_told_to_wait_on_the_way(file):
    with pytest.raises(InputError, match="stands on the way"):
        tracks_by_place(with_run_up(read_script(str(file))))


def test_an_engine_in_this_process_drives_it(tmp_path):
    pytest.importorskip("pymunk")
    entities = vehicle("ego") + vehicle("other")
    actions = init(ego=[at(lane(1, -1, 50)), speed(15)], other=[at(lane(1, -2, 80))])
    path = write(tmp_path, document(entities, actions, STOP_AND_GO, end_s=12.0))
    study = tmp_path / "study.yaml"
    study.write_text(
        f"name: xosc\ndesign:\n  cells: [{{simulator: pymunk, scenario: {path}, expect: bit-identical}}]\n"
        "  tolerance: 1 cm\n  repeats: 2\n  seed: 1\nexecution: {isolation: process, processes: 1}\n"
    )
    result = run_study(str(study), out=tmp_path / "out")
    assert result.ok


def test_a_timetable_says_when_to_hurry_and_when_to_stand():
    table = Timetable((0.0, 10.0, 10.0, 30.0), (0.0, 1.0, 5.0, 7.0))
    assert table.arc_m(0.5) == 5.0
    assert table.speed_mps(0.5) == 10.0
    assert table.wanted_mps(3.0, 10.0) == 0.0
    assert table.wanted_mps(0.5, 3.0) == pytest.approx(11.0)
    assert table.wanted_mps(0.5, -1000.0) == pytest.approx(13.0)
    assert table.waits
    assert not Timetable((0.0, 0.0, 5.0), (0.0, 1.0, 2.0)).waits
    assert Timetable((0.0, 0.0, 5.0), (0.0, 1.0, 2.0)).starts_s == 1.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"times": [0.0]}, "one for each of the 2 points"),
        ({"times": [1.0, 2.0]}, "from 0"),
        ({"times": [0.0, 0.0]}, "each later"),
        ({"times": [0.0, 1.0], "start_delay": 1.0}, "start_delay"),
        ({"start_speed": 5.0}, "only vehicles with times"),
    ],
)
def test_times_that_make_no_sense_are_refused(change, words):
    actor = {"id": 1, "type": "vehicle.mini.cooper_s", "path": [[0.0, 0.0], [10.0, 0.0]], **change}
    with pytest.raises(InputError, match=words):
        build_scenario({"name": "n", "actors": [actor]}, "here")
