"""The border of a test, and the variance that it bears: on simulators and traces with known answers."""

import json

import pytest

from samepath.core.errors import SamepathError
from samepath.instrument import border
from samepath.instrument.border import LADDER_M, tolerances
from samepath.instrument.evaluation import analyse
from samepath.scenarios.model import load_scenario
from tests.conftest import cell_of, straight_run


@pytest.mark.slow
def test_glancing_is_found_from_test_2(tmp_path):
    found = border.search("table1-test2", ["1.start_delay=0s..4s"], steps=80, out=tmp_path, progress=False)
    assert found.found
    assert (found.before.verdict, found.after.verdict) == ("pass", "fail")
    just_hit = load_scenario(str(tmp_path / "after.yaml"))
    glancing = load_scenario("glancing")
    assert just_hit.actors[0].start_delay == glancing.actors[0].start_delay
    assert [actor.path for actor in just_hit.actors] == [actor.path for actor in glancing.actors]
    assert load_scenario(str(tmp_path / "before.yaml")).actors[0].start_delay < glancing.actors[0].start_delay
    assert json.loads(found.to_json())["after"]["verdict"] == "fail"


@pytest.mark.slow
def test_several_parameters_flip_between_the_scenario_and_what_was_found():
    asked = ["1.start_delay=1s..3s", "2.speed=5..7"]
    found = border.search("table1-test2", asked, steps=4, evaluations=5, progress=False)
    assert found.found
    assert (found.before.verdict, found.after.verdict) == ("fail", "pass")


class Fake(border._Points):
    """Points whose verdict is known: below 300 passes, above 340 fails, between it depends."""

    def __init__(self, verdicts):
        self.parameters = (border.Parameter("p", None, "p", 0.0, 1.0, "", 1024),)
        self.known, self._verdicts, self._told = {}, verdicts, lambda name: None

    def _run(self, steps, name):
        passes, fails = self._verdicts(steps[0])
        return border.BorderPoint(steps, name, passes, fails, None)


def test_where_repeats_disagree_the_border_is_a_band_and_both_edges_are_found():
    found = border._one(Fake(lambda step: (2, 0) if step < 300 else (0, 2) if step >= 340 else (1, 1)), "?", None)
    assert (found.before.steps, found.after.steps) == ((299,), (340,))
    assert "repeats disagree" in found.notes[0]


def test_a_flip_between_ends_that_are_alike_is_found_by_looking_between():
    found = border._one(Fake(lambda step: (0, 1) if 500 <= step < 700 else (1, 0)), "?", None)
    assert (found.before.steps, found.after.steps) == ((499,), (500,))


def test_nothing_to_find_is_said():
    found = border._one(Fake(lambda step: (1, 0)), "?", None)
    assert not found.found
    assert "No border found" in found.words()[1]


@pytest.mark.parametrize(
    ("vary", "says"),
    [("start_delay", "was wanted"), ("1.colour=0..1", "can be varied"), ("1.speed=1..1", "two different ends"),
     ("1.speed=fast..2", "a number"), ("7.speed=1..2", "no actor 7"), ("1.speed=1 parsec..2", "a number")],
)  # fmt: skip
def test_a_bad_parameter_is_one_line(vary, says):
    with pytest.raises(SamepathError, match=says) as error:
        border.search("table1-test2", [vary], progress=False)
    assert "\n" not in str(error.value)


def test_values_are_decimals():
    parameter = border.read_parameter("1.start_delay=0s..400ms", 4)
    assert [parameter.at(index) for index in range(5)] == [0.0, 0.1, 0.2, 0.3, 0.4]


def cells(*shifts, threshold=3.25):
    """One cell per list of shifts of actor 2; the assertion wants more than ``threshold`` between 1 and 2."""
    data = {"monitors": [{"name": "apart", "expression": f"distance(1, 2) > {threshold}"}]}
    found = []
    for index, row in enumerate(shifts):
        runs = [straight_run(n, shift=lambda tick, actor, d=d: d if actor == 2 else 0.0) for n, d in enumerate(row)]
        found += analyse(cell_of(runs, cell=f"cell {index}"), monitors=data, progress=False).cells
    return found


def test_the_tolerance_is_below_the_first_flip():
    calm, wild = [0.001 * (-1) ** n for n in range(80)], [0.0] * 39 + [-0.2]
    (found,) = tolerances(cells(calm, wild)).scenarios
    assert found.first_flip_m == pytest.approx(0.195)
    assert found.tolerance_m == 0.1
    assert found.step.repeats == 119
    assert "0 of 119 repeats within it flip" in found.words()


def test_the_confidence_is_shared_out_among_the_tolerances_that_were_tried():
    (found,) = tolerances(cells([0.001 * (-1) ** n for n in range(80)])).scenarios
    tried = [limit for limit in LADDER_M if limit >= 0.001 - 1e-12]
    assert len(found.steps) <= len(tried) + 1
    assert found.step.rate_upper == pytest.approx(1 - (0.05 / len(found.steps)) ** (1 / 80))


def test_a_cell_that_always_decides_otherwise_flips_too():
    calm, moved = [0.001 * (-1) ** n for n in range(20)], [-0.5 + 0.01 * (-1) ** n for n in range(20)]
    (found,) = tolerances(cells(calm, moved)).scenarios
    assert found.first_flip_m == pytest.approx(0.01)
    assert found.tolerance_m == 0.005


def test_a_calm_scenario_or_one_that_nobody_asks_about_does_not_limit_the_tolerance():
    calm, wild = [0.001 * (-1) ** n for n in range(80)], [0.0] * 39 + [-0.2]
    about = {"monitors": [{"name": "apart", "expression": "distance(1, 2) > 3.25", "scenarios": ["loud", "calm"]}]}
    found = []
    for scenario, row in (("loud", wild + calm), ("calm", calm), ("unasked", calm)):
        runs = [straight_run(n, shift=lambda tick, actor, d=d: d if actor == 2 else 0.0) for n, d in enumerate(row)]
        found.append(cell_of(runs, cell=scenario, scenario=scenario))
    result = tolerances(analyse(*found, monitors=about, progress=False).cells)
    loud, calm_one, unasked = result.scenarios
    assert result.tolerance_m == loud.tolerance_m == 0.1
    assert calm_one.tolerance_m == 0.002
    assert "calm: at least 2 mm" in calm_one.words()
    assert unasked.words() == "unasked: no assertion is judged there"
    assert result.words()[0] == "Largest variance at which no assertion flips: 10 cm"
    only_calm = tolerances(analyse(found[1], monitors=about, progress=False).cells)
    assert only_calm.words()[0].startswith("Largest variance at which no assertion flips: at least 2 mm, as far as")


def test_without_variance_or_assertions_there_is_nothing_to_say():
    (found,) = tolerances(cells([0.0, 0.0, 0.0])).scenarios
    assert found.tolerance_m is None
    assert "nothing strays" in found.words()
    with pytest.raises(SamepathError, match="--monitors"):
        tolerances(analyse(cell_of([straight_run(0), straight_run(1)]), progress=False).cells)
