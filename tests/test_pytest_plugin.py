"""The pytest plugin as a stranger's test suite meets it: marks, fixture, options, JUnit, xdist."""

import ast
import itertools
import json
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import samepath.pytest_plugin as plugin
from samepath.core.errors import InputError
from samepath.instrument.golden import write_golden
from samepath.instrument.repeated_calls import call_repeatedly, compare_values, explained
from tests.conftest import cell_of, straight_run

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[1]

DRIVE = """
import itertools, pytest
from samepath.instrument.traces.recorder import Recorder

COUNT = itertools.count()

def drive(shift=0.0):
    recorder = Recorder(0, ("x_m", "y_m", "z_m"), 0.1)
    recorder.actor(1, "car")
    for tick in range(1, 30):
        recorder.state(tick, 1, {"x_m": 0.7 * tick, "y_m": shift if tick > 10 else 0.0, "z_m": 0.0})
    recorder.end(29, "done")
    return recorder.finish()
"""


@pytest.fixture(scope="module", autouse=True)
def loaded(tmp_path_factory):
    """Load what tests inside of tests use: pytester forgets modules that they import, and numpy's cannot be loaded twice."""
    parting = [straight_run(0), straight_run(1, shift=lambda tick, actor: 1.0)]
    found = compare_values(parting, "1cm")
    explained(found)
    found.keep(tmp_path_factory.mktemp("loaded") / "traces")
    import samepath.engines.reference
    import samepath.instrument.golden
    import samepath.instrument.subjects  # noqa: F401


@pytest.fixture
def suite(pytester, monkeypatch):
    """Run tests of a file as somebody else's suite; returns the result and the properties of each test in JUnit XML."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    # Where samepath is installed, pytest finds the plugin by its entry point; in a mere checkout it is named.
    named = (
        []
        if any(entry_point.name == "samepath" for entry_point in entry_points(group="pytest11"))
        else ["-p", "samepath.pytest_plugin"]
    )

    def run(text, *options, workers=0, ini=""):
        pytester.makepyfile(test_of_a_user=DRIVE + text)
        pytester.makeini(f"[pytest]\n{ini}")
        words = [*named, "--junitxml=junit.xml", "-p", "no:cacheprovider", *options]
        result = pytester.runpytest_subprocess("-n", str(workers), *words) if workers else pytester.runpytest_inprocess(*words)
        cases = ElementTree.parse(pytester.path / "junit.xml").getroot().iter("testcase")
        figures = {
            case.get("name"): {figure.get("name"): figure.get("value") for figure in case.iter("property")} for case in cases
        }
        return result, figures

    return run


MIXED = """
@pytest.mark.repeatable(repeats=5)
def test_same():
    next(COUNT)
    return drive()

@pytest.mark.repeatable(repeats=4, tolerance="1cm")
def test_parts():
    return drive(float(next(COUNT) % 2))

@pytest.mark.repeatable(repeats=4, tolerance="2m")
def test_near():
    return drive(float(next(COUNT) % 2))

def test_of_everybody_else():
    pass
"""


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_tests_are_run_n_times_and_their_figures_are_in_junit(suite, workers):
    result, figures = suite(MIXED, workers=workers)
    result.assert_outcomes(passed=3, failed=1)
    assert figures["test_same"]["repeats"] == "5"
    assert (figures["test_same"]["outcomes"], figures["test_same"]["verdict"]) == ("1", "bit-identical")
    assert float(figures["test_same"]["max_deviation_m"]) == float(figures["test_same"]["max_sigma_m"]) == 0
    assert len(figures["test_same"]["digest"]) == 32
    parts = figures["test_parts"]
    assert (parts["outcomes"], parts["verdict"], parts["tolerance_m"]) == ("2", "exceeds-tolerance", "0.01")
    assert float(parts["max_deviation_m"]) == 0.5
    assert float(parts["max_sigma_m"]) == pytest.approx((1 / 3) ** 0.5)
    assert parts["cause"] == "unknown"  # nobody noted what went into these runs
    assert figures["test_near"]["verdict"] == "within-tolerance"
    assert figures["test_of_everybody_else"] == {}
    output = result.stdout.str()
    assert "test_parts does not repeat itself" in output
    assert "exceeds-tolerance: 2 different outcomes in 4 runs, tolerance 1 cm" in output
    assert "parts from repeat 0 at tick 11 (1.1 s)" in output
    assert "The runs share this process" in output
    assert "samepath: 1 bit-identical, 1 exceeds-tolerance, 1 within-tolerance" in output


def test_options_and_ini_say_how_often_and_how_near(suite):
    text = """
@pytest.mark.repeatable
def test_one():
    return drive()

@pytest.mark.repeatable(repeats=3)
def test_two():
    return drive(0.001 * next(COUNT))
"""
    _, figures = suite(text, ini="samepath_repeats = 6\nsamepath_tolerance = 1cm\n")
    assert (figures["test_one"]["repeats"], figures["test_two"]["repeats"]) == ("6", "3")
    assert figures["test_two"]["verdict"] == "within-tolerance"
    result, figures = suite(text, "--samepath-repeats", "4")
    assert (figures["test_one"]["repeats"], figures["test_two"]["repeats"]) == ("4", "4")
    result.assert_outcomes(passed=1, failed=1)
    result, _ = suite(text, "--samepath-repeats", "1")
    result.assert_outcomes(failed=2)
    assert "2 to 100000 repeats were wanted, but 1 came" in result.stdout.str()


def test_traces_of_a_test_that_parts_are_kept_for_explain(suite, pytester):
    suite(MIXED, "--samepath-keep", "kept", "-k", "parts")
    (folder,) = (pytester.path / "kept").iterdir()
    assert folder.name == "test_of_a_user.py-test_parts"
    import samepath

    explanation = samepath.explain(folder)
    assert (explanation.repeats, explanation.partings[0].parting.tick) == (4, 11)


def test_what_would_silently_be_run_once_is_refused(suite):
    result, _ = suite("""
import unittest

class TestOld(unittest.TestCase):
    @pytest.mark.repeatable
    def test_case(self):
        pass

@pytest.mark.repeatable
async def test_coroutine():
    pass

@pytest.mark.repeatable(tolerence="1cm")
def test_misspelt():
    return 1

@pytest.mark.repeatable(repeats=3)
def test_nothing():
    next(COUNT)

@pytest.mark.repeatable(repeats=3)
def test_object():
    return {"a": object()}

@pytest.mark.repeatable(repeats=3, tolerance="1 parsec")
def test_unit():
    return 1

@pytest.mark.repeatable(repeats=float("inf"))
def test_for_ever():
    return 1

@pytest.mark.repeatable(repeats=4)
def test_raises():
    if next(COUNT) > 4:
        raise RuntimeError("engine on fire")
    return 1

class TestPlain:
    @pytest.mark.repeatable(repeats=3)
    def test_method(self, tmp_path):
        return len(str(tmp_path))
""")
    result.assert_outcomes(passed=1, failed=7, errors=1)
    output = result.stdout.str()
    for line in (
        "is for test functions and methods of plain classes: test_case is neither",
        "cannot call a coroutine: run it inside test_coroutine and return its result",
        "takes repeats and tolerance, but tolerence came on test_misspelt",
        "samepath: test_nothing returned nothing to compare: return a trace",
        "samepath: test_object returned a object at result['a'], which cannot be compared exactly",
        "a length like 1cm, 5 mm or 0.01 was wanted, but '1 parsec' came",
        "samepath: 2 to 100000 repeats were wanted, but inf came",
        "RuntimeError: engine on fire",
        "samepath: this was run 3 of 4; those before it ended well",
    ):
        assert line in output, line
    assert "During handling" not in output


def test_the_fixture_runs_functions_scenarios_logs_and_golden_files(suite, pytester):
    golden = pytester.path / "drive.golden"
    write_golden(golden, cell_of([straight_run(0)]), progress=False)
    log = "repeat,time,x,y\\n0,0,1,1\\n0,1,2,1\\n1,0,1,1\\n1,1,2.5,1\\n"
    (pytester.path / "log.csv").write_text(log.replace("\\n", "\n"))
    result, figures = suite("""
def test_function(samepath_runs):
    found = samepath_runs(lambda gain: [gain, 0.5], 3, repeats=4)
    assert (found.repeats, found.outcomes) == (4, 1)

def test_numbers(repeatable):
    repeatable(lambda: {"speed": next(COUNT)}, repeats=3)

def test_logs(samepath_runs):
    samepath_runs.logs("log.csv", tolerance="1 m")

def test_logs_that_part(samepath_runs):
    samepath_runs.logs("log.csv")

def test_golden(samepath_runs):
    samepath_runs.golden("drive.golden", "log.csv")

def test_scenario(samepath_runs):
    assert samepath_runs.scenario("crossing", simulator="control-exact", repeats=2).outcomes == 1

def test_scenario_that_is_not_there(samepath_runs):
    samepath_runs.scenario("crosing", simulator="control-exact", repeats=2)
""")
    result.assert_outcomes(passed=3, failed=4)
    assert figures["test_logs"]["verdict"] == "within-tolerance"
    assert figures["test_scenario"]["verdict"] == "bit-identical"
    assert figures["test_golden"]["verdict"] == "exceeds-tolerance"
    output = result.stdout.str()
    assert "run 1 parts from run 0: result['speed'] is 1.0 instead of 0.0" in output
    assert "repeat 1 parts from repeat 0 at tick 1 (1 s): x_m of actor 0 (actor) is 2.5 instead of 2.0" in output
    assert "Other actors" in output
    assert "did you mean 'crossing'?" in output


def test_a_script_is_run_twice_and_what_twice_says_is_the_failure(suite, pytester, monkeypatch):
    """``samepath twice`` itself has tests of its own: here a stand-in answers as its contract says."""
    answers = {
        "same.py": {"same": True, "runs": 2, "source": "none", "cause": "", "first_difference": None},
        "odd.py": {"same": False, "runs": 2, "source": "script", "cause": "wall clock", "first_difference": {"tick": 7}},
    }

    def answer(command, **how):
        assert command[1:8] == ["-m", "samepath", "twice", "-n", "2", "--json", "--map"]
        name = command[-1]
        if name not in answers:
            return subprocess.CompletedProcess(command, 2, "", "samepath: no server\n")
        return subprocess.CompletedProcess(command, 0, json.dumps(answers[name]), "")

    monkeypatch.setattr(plugin.subprocess, "run", answer)
    result, figures = suite("""
@pytest.mark.parametrize("name", ["same.py", "odd.py", "none.py"])
def test_script(samepath_runs, name):
    assert samepath_runs.script("python", name, options=("--map", "town"))["same"]
""")
    result.assert_outcomes(passed=1, failed=2)
    assert figures["test_script[odd.py]"]["cause"] == "wall clock"
    output = result.stdout.str()
    assert "2 runs of python odd.py are not the same: script, wall clock" in output
    assert '{"tick": 7}' in output
    assert "samepath twice: samepath: no server" in output


def test_the_plugin_is_an_entry_point_and_imports_nothing_before_it_is_used():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"samepath": plugin.__name__}
    script = "import sys, pytest; before = set(sys.modules); import samepath.pytest_plugin; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    ours = {name for name in done.stdout.split() if name.startswith("samepath")}
    assert ours == {"samepath", "samepath.pytest_plugin"}
    assert "numpy" not in done.stdout.split()
    top = [node for node in ast.parse(Path(plugin.__file__).read_text("utf-8")).body if isinstance(node, ast.ImportFrom)]
    assert not [node.module for node in top if node.module.startswith("samepath")]


def test_plain_values_are_compared_by_their_bits():
    def outcomes(*values, **how):
        return compare_values(values, **how).outcomes

    assert outcomes(1.0, 1.0) == 1
    assert outcomes(0.0, -0.0) == 2
    assert outcomes(float("nan"), float("nan")) == 1
    assert outcomes(1, 1.0) == 2
    assert outcomes(1, True) == 2
    assert outcomes(np.float32(1), np.float64(1)) == 2
    assert outcomes(np.arange(4), np.arange(4).reshape(2, 2)) == 2
    assert outcomes(np.array([np.nan, 0.0]), np.array([-np.nan, 0.0])) == 1
    assert outcomes({"a": 1, "b": 2}, {"b": 2, "a": 1}) == 2  # a program that iterates over it does something else
    assert outcomes({1, 2, 3}, {3, 2, 1}) == 1
    assert outcomes([1, 2], [1, 2, 3]) == 2
    assert outcomes("a", b"a") == 2
    assert outcomes(10**5000, 10**5000) == 1  # longer than Python writes in decimal digits
    assert outcomes(10**5000, 10**5000 + 1) == 2
    with pytest.raises(InputError, match="at least 2 runs were wanted to compare, but 1 came"):
        compare_values([1])


def test_the_first_difference_in_plain_values_is_named():
    found = compare_values([{"a": [1, 2.5]}, {"a": [1, 2.5]}, {"a": [1, 2.0]}])
    assert found.lines == ("run 2 parts from run 0: result['a'][1] is 2.0 instead of 2.5",)
    assert found.max_deviation_m == pytest.approx(1 / 3)
    arrays = compare_values([np.zeros((2, 3)), np.array([[0, 0, 0], [0, -0.0, 4.0]])])
    assert arrays.lines == ("run 1 parts from run 0: result is -0.0 at [1, 1] instead of 0.0 at [1, 1]",)
    assert compare_values([np.zeros(3), np.full(3, 0.001)], "1 mm").verdict == "within-tolerance"
    assert compare_values([[0.0, "x"], [0.001, "y"]], "1 mm").verdict == "exceeds-tolerance"
    assert not compare_values([0.0, 0.001]).passes
    lengths = compare_values([[1], [1, 2]])
    assert lengths.lines == ("run 1 parts from run 0: result is a sequence of 2 instead of result, a sequence of 1",)


def test_traces_reports_and_paths_are_compared_as_what_they_are(tmp_path):
    import samepath

    same = compare_values([cell_of([straight_run(0)]), cell_of([straight_run(5)])])
    assert (same.outcomes, same.verdict, same.repeats) == (1, "bit-identical", 2)
    longer = compare_values([straight_run(0), straight_run(0, ticks=19)], "9 m")
    assert (longer.passes, longer.outcomes) == (False, 2)
    two = compare_values([[straight_run(0), straight_run(0, ticks=9)]] * 3)
    assert (two.outcomes, len(two.cells)) == (1, 2)
    samepath.store([cell_of([straight_run(0)])], tmp_path / "a")
    samepath.store([cell_of([straight_run(0, shift=lambda tick, actor: 1.0)])], tmp_path / "b")
    assert compare_values([str(tmp_path / "a"), tmp_path / "a"]).outcomes == 1
    assert compare_values([tmp_path / "a", tmp_path / "b"]).max_deviation_m == 0.5
    report = samepath.analyse(cell_of([straight_run(0), straight_run(1)]), progress=False)
    odd = samepath.analyse(cell_of([straight_run(0), straight_run(1, shift=lambda tick, actor: 1.0)]), progress=False)
    assert compare_values([report, report]).passes
    assert not compare_values([odd, odd]).passes  # equal, but beyond its own tolerance
    assert compare_values([report, odd]).outcomes == 2
    with pytest.raises(InputError, match="does not exist"):
        compare_values([tmp_path / "none", tmp_path / "none"])


RUN_LOG = "time,actor,x,y\n0,1,0,0\n0.1,1,0.7,{y}\n0.2,1,1.4,0\n"


def test_a_result_that_each_call_changes_in_place_is_copied_after_every_call():
    reused_list, reused_array, reused_dict = [0.0], np.zeros(3), {"x_m": [0.0]}
    reused_run = straight_run(0)
    reused_run = replace(reused_run, values=reused_run.values.copy())

    def of_list():
        reused_list[0] += 0.002
        return reused_list

    def of_array():
        reused_array[1] += 0.002
        return reused_array

    def of_view():
        reused_array[1] += 0.002
        return {"path": reused_array[1:]}

    def of_dict():
        reused_dict["x_m"].append(1.0)
        return reused_dict

    def of_run():
        reused_run.values[-1, 0] += 0.002
        return reused_run

    def of_cell():
        reused_run.values[-1, 0] += 0.002
        return cell_of([reused_run])

    for function in (of_list, of_array, of_view, of_dict, of_run, of_cell):
        found = call_repeatedly(function, 4)
        assert (found.outcomes, found.passes) == (4, False), function.__name__
    assert call_repeatedly(lambda: reused_list, 4).passes
    assert call_repeatedly(lambda: reused_run, 4).passes
    assert call_repeatedly(of_array, 3, "1cm").verdict == "within-tolerance"


def test_a_log_that_each_call_overwrites_is_read_after_every_call(tmp_path):
    import samepath

    log, stored, numbers = tmp_path / "run.csv", tmp_path / "stored", itertools.count()

    def overwrite(y=None):
        log.write_text(RUN_LOG.format(y=0.002 * next(numbers) if y is None else y))
        return log

    def store_again():
        shutil.rmtree(stored, ignore_errors=True)
        samepath.store([cell_of([straight_run(0, shift=lambda tick, actor: 0.002 * next(numbers))])], stored)
        return stored

    ways = (
        overwrite,
        lambda: str(overwrite()),
        lambda: [overwrite()],
        lambda: {"log": overwrite()},
        lambda: {"log": str(overwrite())},
        lambda: samepath.load(store_again()),
        store_again,
    )
    for way in ways:
        found = call_repeatedly(way, 3)
        assert (found.outcomes, found.passes) == (3, False)
    assert call_repeatedly(overwrite, 3).max_deviation_m == pytest.approx(0.002)
    for way in (lambda: overwrite(0.5), lambda: {"log": overwrite(0.5)}, lambda: {"log": str(overwrite(0.5))}):
        assert call_repeatedly(way, 3).passes


def test_equal_runs_are_equal_whatever_their_files_are_called(tmp_path):
    import samepath

    numbers = itertools.count()

    def written(y, folder=False, repeats=False):
        place = (
            tmp_path / f"folder.{next(numbers)}" / f"log-{next(numbers)}.csv" if folder else tmp_path / f"{next(numbers)}.csv"
        )
        place.parent.mkdir(exist_ok=True)
        text = RUN_LOG.format(y=y)
        if repeats:
            head, *rows = text.splitlines()
            text = "\n".join([f"repeat,{head}", *(f"{repeat},{row}" for repeat in (0, 1) for row in rows)])
        place.write_text(text)
        return place.parent if folder else place

    for options in ({}, {"folder": True}, {"repeats": True}, {"folder": True, "repeats": True}):
        found = call_repeatedly(lambda: written(0.5, **options), 3)  # noqa: B023 - called at once
        assert (found.outcomes, found.passes) == (1, True), (options, found.lines)
        assert call_repeatedly(lambda: written(0.001 * next(numbers), **options), 3).outcomes == 3  # noqa: B023
    assert call_repeatedly(lambda: samepath.load(written(0.5, repeats=True)), 3).outcomes == 1
    assert call_repeatedly(lambda: samepath.analyse(written(0.5, repeats=True), progress=False), 3).outcomes == 1
    assert call_repeatedly(lambda: [written(0.5), written(0.6)], 3).outcomes == 1
    assert call_repeatedly(lambda: {"log": written(0.5)}, 3).outcomes == 1
    # Names that stand in the log are its content.
    named = tmp_path / "named.csv"

    def with_cell():
        town = f"town{next(numbers)}"
        named.write_text(f"cell,repeat,time,x,y\n{town},0,0,1,1\n{town},0,1,2,1\n")
        return named

    assert call_repeatedly(with_cell, 2).outcomes == 2


def test_results_of_two_kinds_are_two_outcomes(tmp_path):
    results = iter([straight_run(0), [1.0], None])
    found = call_repeatedly(lambda: next(results), 3, "1m")
    assert (found.passes, found.outcomes) == (False, 2)
    assert found.lines == ("run 1 returned plain data, run 0 returned traces or logs",)
    with pytest.raises(InputError, match="MaskedArray"):
        call_repeatedly(lambda: np.ma.masked_array([1.0, 2.0], [True, False]), 2)


def test_logs_of_one_run_are_compared_and_kept_as_golden_files(suite, pytester):
    for name, y in (("a/log.csv", 0.5), ("b/log.csv", 0.5), ("c.csv", 0.6)):
        (pytester.path / name).parent.mkdir(exist_ok=True)
        (pytester.path / name).write_text(RUN_LOG.format(y=y))
    golden = pytester.path / "one.golden"
    assert write_golden(golden, pytester.path / "a" / "log.csv", progress=False).written
    result, figures = suite("""
def test_logs(samepath_runs):
    samepath_runs.logs("a/log.csv", "b/log.csv")

def test_logs_that_part(samepath_runs):
    samepath_runs.logs("a/log.csv", "c.csv")

def test_golden(samepath_runs):
    samepath_runs.golden("one.golden", "b/log.csv")

def test_golden_of_another(samepath_runs):
    samepath_runs.golden("one.golden", "c.csv")
""")
    result.assert_outcomes(passed=2, failed=2)
    assert (figures["test_logs"]["outcomes"], figures["test_logs_that_part"]["outcomes"]) == ("1", "2")
