"""Study files are checked whole before anything runs."""

import pytest

from samepath.base.errors import SamepathError
from samepath.base.verdicts import Verdict
from samepath.execution.run import check_plan
from samepath.study.plan import built_in_studies, load_plan, make_plan

GOOD = """
name: mine
tolerance: 5 mm
repeats: 20
seed: 3
cells:
  - {simulator: control-exact, scenario: crossing}
  - simulator: control-gaussian
    scenario: crossing
    name: noisy
    settings: {sigma_m: 0.002}
    condition: {cpu_load: 0.5}
    repeats: 50
    expect: within-tolerance
"""


def test_a_study_file_becomes_a_plan():
    plan = make_plan(GOOD, "mine.yaml")
    assert plan.tolerance_m == 0.005
    assert [cell.name for cell in plan.cells] == ["control-exact crossing", "noisy"]
    assert [cell.repeats for cell in plan.cells] == [20, 50]
    assert plan.cells[1].expect is Verdict.WITHIN_TOLERANCE
    assert plan.repeats == 70


def test_fewer_repeats_than_stated_lose_the_power_to_expect_anything():
    plan = make_plan(GOOD, "mine.yaml", repeats=30)
    assert [cell.repeats for cell in plan.cells] == [30, 30]
    assert plan.cells[1].expect is None


def test_the_fingerprint_covers_settings_but_lets_a_study_grow():
    plan = make_plan(GOOD, "mine.yaml")
    assert plan.fingerprint == make_plan(GOOD, "elsewhere.yaml", repeats=500).fingerprint
    assert plan.fingerprint != make_plan(GOOD.replace("seed: 3", "seed: 4"), "mine.yaml").fingerprint
    assert plan.fingerprint != make_plan(GOOD.replace("0.002", "0.003"), "mine.yaml").fingerprint


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("tolerance:", "tolerence:"), ["unknown key 'tolerence'", "did you mean 'tolerance'"]),
        (("scenario: crossing\n    name", "scnario: crossing\n    name"), ["cells[1].scenario", "required"]),
        (("settings:", "setings:"), ["unknown key 'cells[1].setings'", "did you mean 'settings'"]),
        (("5 mm", "5 kg"), ["tolerance", "km, m, dm, cm"]),
        (("repeats: 20", "repeats: 1"), ["repeats", "greater than or equal to 2", "1 came"]),
        (("repeats: 20", "repeats: many"), ["repeats", "'many' came"]),
        (("within-tolerance", "inside-tolerance"), ["cells[1].expect", "did you mean 'within-tolerance'"]),
        (("name: noisy", "name: control-exact crossing"), ["is taken"]),
        (("seed: 3", "seed: -3"), ["seed", "greater than or equal to 0"]),
        (("cells:", "cells: ]"), ["line", "not valid YAML"]),
    ],
)
def test_a_bad_study_file_is_refused_by_key_with_the_nearest_valid_choice(change, words):
    with pytest.raises(SamepathError) as caught:
        make_plan(GOOD.replace(*change), "mine.yaml")
    message = str(caught.value)
    assert message.startswith("mine.yaml")
    assert "\n" not in message
    for word in words:
        assert word in message, message


@pytest.mark.parametrize("text", ["", "just words", "- a\n- b"])
def test_something_that_is_no_study_is_refused(text):
    with pytest.raises(SamepathError, match="a study with the keys"):
        make_plan(text, "mine.yaml")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("control-exact", "control-exakt"), "did you mean 'control-exact'"),
        (("scenario: crossing}", "scenario: crosing}"), "did you mean 'crossing'"),
        (("sigma_m", "sigma"), "did you mean 'sigma_m'"),
    ],
)
def test_what_a_simulator_does_not_know_is_refused_before_the_first_run(change, words):
    with pytest.raises(SamepathError, match=words):
        check_plan(make_plan(GOOD.replace(*change), "mine.yaml"))


def test_an_unknown_study_gets_the_list_of_those_there_are():
    with pytest.raises(SamepathError, match="did you mean 'controls'"):
        load_plan("control")


def test_every_built_in_study_can_be_run():
    for name in built_in_studies():
        check_plan(load_plan(name))
