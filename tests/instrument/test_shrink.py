"""Shrink: the smallest scenario that still does it, where the smallest is known; and the statistics that decide."""

import json

import pytest
import yaml

from samepath.core.errors import InputError
from samepath.core.streams import stream
from samepath.engines import registry
from samepath.instrument import shrink as module
from samepath.instrument.shrink import RARER, RateTest, shrink
from samepath.instrument.study.plan import load_plan
from samepath.instrument.subjects import SubjectRunner, with_cell
from samepath.scenarios.model import load_scenario
from tests.support.search_simulators import InterruptedRuns

SIMULATOR = "parting"
CAR, WALKER = "vehicle.mercedes.coupe", "walker.pedestrian.0001"


def actor(number, kind, **more):
    path = [[3.14 * number, 2.72], [10.5, 4.0], [20.25, 5.0], [30.0, 6.0]]
    return {"id": number, "type": kind, "path": path, "speed": 1.5, "start_delay": 0.5, **more}


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Three cars, a walker, a box, on a map, for 6 s; parts by the walker alone, under one of two sources, from 1 s on."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(registry.BUILT_IN, SIMULATOR, "tests.support.search_simulators:Parting")  # found without a search
    actors = [actor(1, CAR), actor(2, CAR), actor(3, WALKER), actor(4, CAR)]
    boxes = [{"name": "wall", "at": [1, 2], "size": [1, 1, 1]}]
    scenario = {"name": "big", "map": "t-junction", "duration": 6.0, "step": 0.1, "actors": actors, "boxes": boxes}
    (tmp_path / "big.yaml").write_text(json.dumps(scenario))
    text = {
        "name": "big",
        "design": {"simulators": SIMULATOR, "scenarios": "big.yaml", "repeats": 2},
        "settings": {"sources": "rain,wind,hail"},
        "conditions": {"controller": "in-loop"},
        "execution": {"isolation": "inline"},
    }
    (tmp_path / "s.yaml").write_text(json.dumps(text))
    return "s.yaml"


def test_what_is_left_is_the_one_reason_and_nothing_else(study, tmp_path):
    result = shrink(study, progress=False)
    small = load_scenario(str(result.scenario_file))
    assert [kept.type for kept in small.actors] == [WALKER]
    (walker,) = small.actors
    assert (len(walker.path), walker.start_delay, walker.speed) == (2, 0.0, 8.0)
    assert all(value == round(value) for point in walker.path for value in point)
    assert (small.map, small.boxes, small.duration) == ("flat", (), 1.0)
    assert result.seen == result.of == 10
    told = " ".join(result.removed)
    for gone in (
        f"actor 1 ({CAR})",
        "rain of setting sources",
        "box wall",
        "duration 6 s -> 1 s",
        "map t-junction",
        "waypoints",
    ):
        assert gone in told
    plan = load_plan(str(result.study_file))
    assert plan.cells[0].settings == {"sources": "wind"}
    again = shrink(str(result.study_file), folder="again", out="again.yaml", progress=False)
    assert again.removed == ()  # nothing can be taken away from the smallest


def test_the_same_search_asks_the_same_and_ends_the_same(study):
    first = shrink(study, folder="a", out="a.yaml", progress=False)
    second = shrink(study, folder="b", out="b.yaml", progress=False)
    assert (first.removed, first.tried, first.runs) == (second.removed, second.tried, second.runs)
    texts = [yaml.safe_load(result.scenario_file.read_text()) for result in (first, second)]
    assert texts[0] == texts[1]


def test_other_questions_keep_other_reasons(study):
    collides = shrink(study, predicate="collides", progress=False)
    small = load_scenario(str(collides.scenario_file))
    assert [kept.type for kept in small.actors] == [CAR, CAR]
    assert small.duration == 0.5
    flips = shrink(study, predicate="verdict-flips", progress=False)
    types = [kept.type for kept in load_scenario(str(flips.scenario_file)).actors]
    assert sorted(types) == [CAR, CAR, CAR, WALKER]


def test_a_scenario_that_does_not_do_it_is_not_shrunk(study, tmp_path):
    result = shrink(study, settings={"sources": "rain"}, progress=False)
    assert (result.found, result.scenario_file, result.study_file) == (False, None, None)
    assert result.words()[0].endswith("parts: in none of 10 pairs of repeats (true rate below 25.9%): nothing to shrink.")
    assert not list(tmp_path.glob("*-small*"))


def test_an_interrupted_search_goes_on_where_it_was(study, monkeypatch):
    made = InterruptedRuns(monkeypatch, most=60)
    with pytest.raises(KeyboardInterrupt):
        shrink(study, progress=False)
    made.most = 100_000
    result = shrink(study, progress=False)
    # The one that was interrupted is run again, and none besides.
    assert result.runs <= len(made.repeats) <= result.runs + module.MOST_RUNS_EACH
    assert len(made.repeats) < result.runs + 20
    assert [kept.type for kept in load_scenario(str(result.scenario_file)).actors] == [WALKER]


def test_a_simulators_own_scenario_is_cut_short_where_it_has_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = {
        "name": "two",
        "design": {"simulators": "control-two-outcomes", "scenarios": "crossing", "repeats": 2},
        "execution": {"isolation": "inline"},
    }
    (tmp_path / "two.yaml").write_text(json.dumps(text))
    result = shrink("two.yaml", repeats=40, progress=False)
    assert result.scenario_file is None
    assert result.removed == ("duration its end -> 4.55 s",)  # they split at tick 91
    assert load_plan(str(result.study_file)).duration_s == 4.55


@pytest.mark.parametrize(("rate", "miss"), [(0.9, 0.05), (0.5, 0.05), (0.2, 0.1)])
def test_mistakes_about_a_candidate_are_as_rare_as_promised(rate, miss):
    def kept(true_rate, number):
        test, chance = RateTest(rate, miss), stream(number, "shrink", str(true_rate))
        while (decided := test.add(seen=bool(chance.random() < true_rate))) is None:
            pass
        return decided

    tries = 1500
    slack = 3 * (miss * (1 - miss) / tries) ** 0.5
    assert sum(not kept(rate, number) for number in range(tries)) / tries <= miss + slack
    assert sum(kept(rate / RARER, number) for number in range(tries)) / tries <= miss + slack
    assert not RateTest(rate, miss).add(seen=False)  # nothing is kept that was never seen to do it


def test_a_rare_candidate_is_not_taken_for_the_original(study, monkeypatch):
    """Without this a search drifts from what parts always to what parts once in a blue moon."""
    real = SubjectRunner.run

    def run(self, subject, numbers):
        # Without its cars the walker makes only one repeat in forty an odd one.
        (cell,) = subject.cells
        alone = len(load_scenario(cell.scenario).actors) == 1
        changed = {**cell.settings, "rarely": 41 if alone else 2}
        yield from real(self, with_cell(subject, settings=changed), numbers)

    monkeypatch.setattr(SubjectRunner, "run", run)
    result = shrink(study, progress=False)
    types = [kept.type for kept in load_scenario(str(result.scenario_file)).actors]
    assert sorted(types) == [CAR, WALKER]


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"predicate": "sleeps"}, "parts, collides, verdict-flips was wanted, but 'sleeps' came"),
        ({"repeats": 1}, "2 to 1000 repeats were wanted, but 1 came"),
        ({"miss": 0.0}, "a chance between 0 and 1 was wanted, but 0.0 came"),
        ({"out": "no/where.yaml"}, "a YAML file in a folder that is there was wanted"),
        ({"out": "small.txt"}, "a YAML file in a folder that is there was wanted"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(study, asked, line):
    with pytest.raises(InputError, match=line):
        shrink(study, **asked, progress=False)
