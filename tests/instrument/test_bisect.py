"""Bisect: the setting, the settings or the commit that changes the outcome, where the answer is known."""

import json
import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.core.errors import InputError, SamepathError, StoreError, StudyError
from samepath.engines import registry
from samepath.instrument import bisect as module
from samepath.instrument.bisect import bisect
from samepath.instrument.search import first_change, minimal, shortest
from tests.conftest import straight_run
from tests.support.search_simulators import InterruptedRuns

SIMULATOR = "threshold"


@given(st.integers(1, 300), st.data())
def test_a_change_is_found_in_as_few_questions_as_can_be(last, data):
    change = data.draw(st.integers(1, last))
    asked = []

    def same(index):
        asked.append(index)
        return index < change

    assert first_change(last, same) == change
    assert len(asked) <= math.ceil(math.log2(last)) if last > 1 else not asked
    assert len(set(asked)) == len(asked)


@given(st.integers(1, 12), st.data())
def test_delta_debugging_finds_just_what_is_needed(count, data):
    needed = data.draw(st.sets(st.integers(0, count - 1), min_size=1))
    for search in (minimal, shortest):
        found = search(tuple(range(count)), lambda some: needed <= set(some))
        assert set(found) == needed
        assert list(found) == sorted(found)


@given(st.lists(st.sets(st.integers(0, 7), min_size=1), min_size=1, max_size=4))
def test_of_several_reasons_one_is_found_and_nothing_can_be_left_out(reasons):
    """Any of several sets is enough: what comes back holds, and does not without any one of its items."""

    def holds(some):
        return any(reason <= set(some) for reason in reasons)

    if holds(tuple(range(8))):
        for search in (minimal, shortest):
            found = search(tuple(range(8)), holds)
            assert holds(found)
            assert not any(holds(tuple(item for item in found if item != left)) for left in found)


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(registry.BUILT_IN, SIMULATOR, "tests.support.search_simulators:Threshold")  # found without a search
    text = {
        "name": "small",
        "design": {"simulators": SIMULATOR, "scenarios": "s", "repeats": 2},
        "execution": {"isolation": "inline"},
    }
    (tmp_path / "s.yaml").write_text(json.dumps(text))
    return "s.yaml"


def looked_at(result):
    return {point.name: point.same for point in result.points}


def test_the_value_of_a_setting_is_found_to_its_step(study):
    result = bisect(study, setting="level=0..1", steps=1000, progress=False)
    assert (result.found, result.last_same, result.changed) == (True, "level=0.374", ("level=0.375",))
    assert len(result.points) <= 2 + 10
    assert result.parting.startswith("at tick 6 (0.6 s) y_m of actor 1 (car) part: 1.0 instead of 0.0, 1 m apart; ")
    assert result.parting.endswith("last common event: spawn of actor 1 at tick 0")
    assert looked_at(result)["level=0.5"] is False
    document = json.loads(result.to_json())
    assert document["changed"] == ["level=0.375"]
    assert [point["runs"] for point in document["points"]] == [2] * len(result.points)


def test_it_goes_in_either_direction_and_in_whole_numbers(study):
    back = bisect(study, setting="level=1..0", steps=8, progress=False)
    assert (back.last_same, back.changed) == ("level=0.375", ("level=0.25",))
    whole = bisect(study, setting="flaky_from=9..0", by="digest", fixed={"level": 3}, progress=False)
    assert (whole.last_same, whole.changed) == ("flaky_from=4", ("flaky_from=3",))
    (point,) = (point for point in whole.points if point.name == "flaky_from=3")
    assert len(point.outcomes) == 2  # it only stopped to repeat itself: that is a change, too


def test_ends_that_are_alike_are_nothing_to_find(study):
    result = bisect(study, setting="harmless=0..8", progress=False)
    assert (result.found, result.changed) == (False, ())
    assert result.words()[1] == "Nothing to find: harmless=0 and harmless=8 have the same outcome."
    assert bisect(study, setting="level=0.4..0.9", steps=4, scan=True, progress=False).notes == (
        "All 5 values have the same outcome.",
    )


def test_a_scan_finds_the_first_of_several_changes(study, monkeypatch):
    values = [0.0, 0.5, 0.0, 0.5]
    monkeypatch.setattr(module._Grid, "read", classmethod(lambda cls, text, steps: cls("level", tuple(values))))
    monkeypatch.setattr(module._Grid, "label", lambda self, index: f"point {index}")
    result = bisect(study, setting="level=0..1", scan=True, progress=False)
    assert result.changed == ("point 1",)


def test_endings_and_tolerances_are_other_yardsticks(study):
    assert not bisect(study, setting="level=0..1", by="ending", progress=False).found
    assert not bisect(study, setting="level=0..1", tolerance="2 m", progress=False).found
    assert bisect(study, setting="level=0..1", tolerance="10 cm", progress=False).found
    ending = bisect(study, setting="left=0..1", by="ending", fixed={"right": 1}, progress=False)
    assert ending.changed == ("left=1",)
    assert ending.points[-1].outcomes == ("collisions none, ended by 'crash'",)
    # Another end is no matter of distance.
    assert bisect(study, setting="left=0..1", tolerance="9 m", fixed={"right": 1}, progress=False).found


def test_a_reference_that_does_not_repeat_itself_is_refused(study):
    with pytest.raises(StudyError, match=r"level=0 does not repeat itself: its 2 runs are not alike \(by digest\)"):
        bisect(study, setting="level=0..1", fixed={"flaky_from": -1}, progress=False)


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"setting": "level"}, "NAME=A..B with two numbers was wanted"),
        ({"setting": "level=a..b"}, "NAME=A..B with two numbers was wanted"),
        ({"setting": "level=1..1"}, "two different numbers was wanted"),
        ({"setting": "=1..2"}, "two different numbers was wanted"),
        ({"setting": "level=0..inf"}, "two different numbers was wanted"),
        ({"setting": "level=0..1", "steps": 0}, "1 to 1000000 steps were wanted, but 0 came"),
        ({"setting": "level=0..1", "repeats": 0}, "1 to 10000 repeats were wanted, but 0 came"),
        ({"setting": "level=0..1", "by": "feel"}, "digest or ending was wanted, but 'feel' came"),
        ({"setting": "level=0..1", "by": "ending", "tolerance": "1cm"}, "leave out --by ending"),
        ({"setting": "levle=0..1"}, "did you mean 'level'"),
        ({"setting": "broken=0..1"}, "broken=1: .*broken: 0 was wanted, but 1 came"),
        ({"setting": "level=0..1", "commits": "a..b"}, "one of --setting NAME=A..B, --settings .* was wanted"),
        ({}, "one of --setting NAME=A..B, --settings .* was wanted"),
        ({"commits": "a..b"}, "--controller-repo DIR, the repository of the commits, was wanted"),
        ({"commits": "a..b", "controller_repo": "none"}, "none is not a folder"),
        ({"setting": "level=0..1", "command": ["true"]}, "a command is run in commits"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(study, asked, line):
    with pytest.raises(SamepathError, match=line) as refused:
        bisect(study, **asked, progress=False)
    assert "\n" not in str(refused.value)


def test_the_settings_that_matter_are_found_among_those_that_differ(study, tmp_path):
    (tmp_path / "a.yaml").write_text("harmless: 0\nleft: 0\nright: 0\nlevel: 0.1\n")
    (tmp_path / "b.yaml").write_text("settings: {harmless: 1, left: 1, right: 1, level: 0.1}\n")
    result = bisect(study, settings=("a.yaml", "b.yaml"), progress=False)
    assert result.changed == ("left 1 instead of 0", "right 1 instead of 0")
    assert "None of them alone is enough." in result.notes
    with pytest.raises(InputError, match="hold the same settings"):
        bisect(study, settings=("a.yaml", "a.yaml"), progress=False)
    (tmp_path / "c.yaml").write_text("left: [1, 2]\n")
    with pytest.raises(InputError, match=r"a setting with one value was wanted, but 'left': \[1, 2\] came"):
        bisect(study, settings=("a.yaml", "c.yaml"), progress=False)


def test_an_interrupted_search_goes_on_and_a_finished_one_begins_anew(study, monkeypatch):
    made = InterruptedRuns(monkeypatch, most=3)
    with pytest.raises(KeyboardInterrupt):
        bisect(study, setting="level=0..1", steps=16, progress=False)
    assert len(made.repeats) == 3
    made.most = 1000
    result = bisect(study, setting="level=0..1", steps=16, progress=False)
    whole = sum(point.runs for point in result.points)
    assert len(made.repeats) == whole  # none of them twice
    assert result.changed == ("level=0.375",)
    assert bisect(study, setting="level=0..1", steps=16, progress=False).points == result.points
    assert len(made.repeats) == 2 * whole


def test_a_folder_of_something_else_is_refused(study, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(StoreError, match="is not an empty folder and holds no search: choose another --out"):
        bisect(study, setting="level=0..1", out="mine", progress=False)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "x"


def git(folder, *words):
    command = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false", *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path):
    """Nine commits; the number in it changes at the sixth, the fourth cannot be run."""
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    for number in range(9):
        gain = 1 if number >= 5 else 0
        broken = "raise SystemExit(125)\n" if number == 3 else ""
        (folder / "pilot.py").write_text(f"{broken}GAIN = {gain}\nprint('gain', GAIN)\n# {number}\n")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", f"Change {number}")
    return folder


def test_the_commit_is_found_and_the_repository_is_not_touched(repository, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (repository / "uncommitted.txt").write_text("mine")
    before = {path: path.read_bytes() for path in sorted(repository.rglob("*")) if path.is_file()}
    asked = {"commits": "main~8..main", "controller_repo": repository, "command": (sys.executable, "pilot.py")}
    result = bisect(None, **asked, progress=False)
    assert (result.changed, result.last_same) == (
        (f"{git(repository, 'rev-parse', 'main~3')[:12]} «Change 5»",),
        f"{git(repository, 'rev-parse', 'main~4')[:12]} «Change 4»",
    )
    assert {path: path.read_bytes() for path in sorted(repository.rglob("*")) if path.is_file()} == before
    assert git(repository, "worktree", "list").count("\n") == 0


def test_commits_that_cannot_be_run_may_hide_the_first(repository, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in (9, 10, 11):
        broken = "raise SystemExit(125)\n" if number == 10 else ""
        (repository / "pilot.py").write_text(f"{broken}GAIN = {2 if number > 9 else 1}\nprint('gain', GAIN)\n# {number}\n")
        git(repository, "commit", "--quiet", "-am", f"Change {number}")
    asked = {"controller_repo": repository, "command": (sys.executable, "pilot.py")}
    result = bisect(None, commits="main~2..main", **asked, progress=False)
    assert "«Change 11»" in result.changed[0]
    assert "One of these, too, may be the first" in result.notes[0]
    assert "«Change 10»" in result.notes[0]
    (skipped,) = (point for point in result.points if point.same is None)
    assert "ended with 125" in skipped.words()


def test_merges_are_followed_to_the_commit_that_did_it(repository, tmp_path, monkeypatch):
    """A branch from before the change is merged after it: its commits are all like the first one."""
    monkeypatch.chdir(tmp_path)
    git(repository, "checkout", "--quiet", "-b", "side", "main~6")
    for number in range(3):
        (repository / f"side-{number}.txt").write_text("x")
        git(repository, "add", ".")
        git(repository, "commit", "--quiet", "-m", f"Side {number}")
    git(repository, "checkout", "--quiet", "main")
    git(repository, "merge", "--quiet", "--no-edit", "side")
    asked = {"commits": "main~9..main", "controller_repo": repository, "command": (sys.executable, "pilot.py")}
    assert "«Change 5»" in bisect(None, **asked, progress=False).changed[0]


def test_a_command_that_writes_a_log_is_compared_by_its_runs(repository, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = "import os, pilot; rows = [f'0,{t},{t * 0.7},{pilot.GAIN if t > 4 else 0}' for t in range(9)]\n"
    script += "open(os.environ['SAMEPATH_OUT'] + '/log.csv', 'w').write('repeat,time,x,y\\n' + '\\n'.join(rows))"
    command = (sys.executable, "-c", script)
    result = bisect(None, commits="main~4..main", controller_repo=repository, command=command, progress=False)
    assert "«Change 5»" in result.changed[0]
    assert result.parting.startswith("at tick 5 (5 s) y_m of actor ")
    assert "1.0 instead of 0.0, 1 m apart" in result.parting


def test_commits_that_are_not_there_or_in_the_wrong_order_are_refused(repository, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for commits, line in {
        "v9..main": "has no commit called 'v9'",
        "main": r"commits like v1.0..main were wanted",
        "main..main": "are the same commit",
        "main..main~3": "give the older one first",
        "--all..main": "has no commit called '--all'",
    }.items():
        with pytest.raises(InputError, match=line):
            bisect(None, commits=commits, controller_repo=repository, command=["true"], progress=False)
    with pytest.raises(InputError, match="git failed in"):
        bisect(None, commits="a..b", controller_repo=tmp_path, command=["true"], progress=False)
    with pytest.raises(InputError, match="no-such-program cannot be run in"):
        bisect(None, commits="main~1..main", controller_repo=repository, command=["no-such-program"], progress=False)


@pytest.mark.slow
def test_the_controller_of_a_scenario_is_taken_from_each_commit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "repo"
    (folder / "src").mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    for number, gain in enumerate((0.5, 0.5, 0.75, 0.75)):
        text = f"from samepath.core.states import VehicleCommand\n# {number}\n"
        text += f"def drive(view, actor):\n    return VehicleCommand(throttle={gain})\n"
        (folder / "src" / "samepath_test_pilot.py").write_text(text)
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", f"Change {number}")
    actor = {"id": 1, "type": "vehicle.mercedes.coupe", "path": [[0, 0]], "controller": "samepath_test_pilot:drive"}
    (tmp_path / "own.yaml").write_text(json.dumps({"name": "own", "duration": 0.5, "actors": [actor]}))
    result = bisect("own.yaml", commits="main~3..main", controller_repo=folder, repeats=1, progress=False)
    assert "«Change 2»" in result.changed[0]
    assert "throttle_ratio" in result.parting  # the field that the commit changed, before what follows from it


def test_a_distance_needs_the_same_rows_and_the_same_end():
    from samepath.instrument.search import farthest_m, parting_words
    from tests.conftest import header

    a = straight_run(0)
    assert farthest_m(a, straight_run(1, shift=lambda tick, actor: 0.25 * (tick == 7))) == 0.25
    assert farthest_m(a, straight_run(1, ticks=19)) is None
    assert farthest_m(a, straight_run(1, end="tired")) is None
    assert parting_words(header(), a, straight_run(1)) == ""
    assert parting_words(header(), a, straight_run(1, end="tired")).startswith("at tick 20 (2 s) end of the run part")
