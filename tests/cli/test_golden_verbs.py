"""``samepath golden``, ``bisect`` and ``shrink`` as commands: exit codes, one-line errors, JSON."""

import json
import shutil
import subprocess
import sys

import pytest

from tests.support import SUPPORT

SIMULATOR = "search_simulators:Parting"


def test_a_golden_file_is_written_checked_and_replaced(quick, refused, tmp_path):
    written = quick("golden", "write", "x.golden", "--", "crossing", "--simulator", "control-exact", cwd=tmp_path)
    assert written.returncode == 2  # after -- everything is a source, and this one has none of its name
    written = quick("golden", "write", "x.golden", "--simulator", "control-exact", "--", "crossing", cwd=tmp_path)
    assert (written.returncode, written.stderr) == (0, "")
    assert written.stdout.splitlines()[1].startswith("crossing on control-exact: digest 812fe7a4048ffeb3fc4ba0652dfbd9a0, ")
    checked = quick("golden", "check", "x.golden", cwd=tmp_path)
    assert (checked.returncode, checked.stdout) == (0, "crossing on control-exact: bit-identical, 1 run now\n")
    assert "is there already" in refused(
        "golden", "write", "x.golden", "crossing", "--simulator", "control-exact", cwd=tmp_path
    )
    short = ("--simulator", "control-exact", "--duration", "2s", "--repeats", "1", "--force")
    replaced = quick("golden", "write", "x.golden", "crossing", *short, cwd=tmp_path)
    assert replaced.returncode == 0
    assert "the run ends by 'duration' at tick 40 instead of" in replaced.stdout
    assert quick("golden", "check", "x.golden", cwd=tmp_path).returncode == 0
    found = quick("golden", "check", "x.golden", "--json", cwd=tmp_path)
    assert json.loads(found.stdout)["same"] is True


def test_a_red_check_explains_itself_and_exits_with_1(quick, refused, tmp_path):
    rows = ["repeat,time,x,y", *(f"0,{tick / 10},{tick},{0}" for tick in range(20))]
    (tmp_path / "log.csv").write_text("\n".join(rows))
    assert quick("golden", "write", "log.golden", "log.csv", cwd=tmp_path).returncode == 0
    rows[8] = "0,0.7,7,0.004"
    (tmp_path / "log.csv").write_text("\n".join(rows))
    red = quick("golden", "check", "log.golden", "--", "log.csv", cwd=tmp_path)
    assert red.returncode == 1
    assert "First difference at tick 7 (0.7 s): actor 0 (actor), in at least y_m, 4 mm apart, equal until tick 6." in red.stdout
    near = quick("golden", "check", "log.golden", "--tolerance", "1cm", "--json", "--", "log.csv", cwd=tmp_path)
    document = json.loads(near.stdout)
    assert (near.returncode, document["same"], document["passes"]) == (0, False, True)
    assert document["runs"][0]["difference"]["actors"][0]["changes_tick"] >= 7
    text = (tmp_path / "log.golden").read_text()
    (tmp_path / "log.golden").write_text(text[: len(text) // 2])
    assert "is cut off after" in refused("golden", "check", "log.golden", cwd=tmp_path)
    assert "is not a golden file" in refused("golden", "check", "log.csv", cwd=tmp_path)
    assert "No such file" in refused("golden", "check", "none.golden", cwd=tmp_path)


def test_runs_that_differ_are_not_written_and_exit_with_1(quick, tmp_path):
    asked = ("--simulator", "control-two-outcomes", "--repeats", "8")
    result = quick("golden", "write", "x.golden", "crossing", *asked, cwd=tmp_path)
    assert result.returncode == 1
    assert "2 different outcomes in 8 runs" in result.stdout
    assert not (tmp_path / "x.golden").exists()
    noisy = quick("golden", "write", "x.golden", "crossing", "--simulator", "control-gaussian", "--json", cwd=tmp_path)
    assert (noisy.returncode, json.loads(noisy.stdout)["written"]) == (1, False)


@pytest.fixture
def study(tmp_path):
    shutil.copy(SUPPORT / "search_simulators.py", tmp_path)  # beside the study, where its commands are run
    actors = [
        {"id": number, "type": kind, "path": [[number, 0], [9, 0], [19, 0]]}
        for number, kind in enumerate(("vehicle.mercedes.coupe", "walker.pedestrian.0001", "vehicle.mercedes.coupe"), 1)
    ]
    (tmp_path / "big.yaml").write_text(json.dumps({"name": "big", "duration": 3.0, "step": 0.1, "actors": actors}))
    design = {"simulators": SIMULATOR, "scenarios": "big.yaml", "repeats": 2}
    text = {"name": "big", "design": design, "settings": {"sources": "wind"}, "execution": {"isolation": "inline"}}
    (tmp_path / "s.yaml").write_text(json.dumps(text))
    return "s.yaml"


def test_shrink_writes_the_smallest_scenario_and_says_what_went(quick, refused, study, tmp_path):
    result = quick("shrink", study, cwd=tmp_path)
    assert result.returncode == 0, result
    assert result.stdout.startswith(f"big.yaml on {SIMULATOR} parts: 10 of 10 pairs of repeats; what is left: 10 of 10.\n")
    assert "  actors: 3 -> 1\n" in result.stdout
    assert (tmp_path / "big-small.yaml").exists()
    assert quick("study", "big-small-study.yaml", "--dry-run", cwd=tmp_path).returncode == 0
    none = quick("shrink", study, "--setting", "sources=rain", "--json", cwd=tmp_path)
    assert (none.returncode, json.loads(none.stdout)["found"]) == (1, False)
    assert "was wanted, but 'sleeps' came" in refused("shrink", study, "--while", "sleeps", cwd=tmp_path)
    assert "unknown scenario or study" in refused("shrink", "table1-test22", cwd=tmp_path)
    assert "choose one with --cell" in refused("shrink", "controls", cwd=tmp_path)


def test_bisect_finds_a_setting_and_a_commit(quick, refused, study, tmp_path):
    design = {"simulators": "search_simulators:Threshold", "scenarios": "s", "repeats": 2}
    (tmp_path / "t.yaml").write_text(json.dumps({"name": "t", "design": design, "execution": {"isolation": "inline"}}))
    found = quick("bisect", "t.yaml", "--setting", "level=0..1", "--steps", "8", "--json", cwd=tmp_path)
    document = json.loads(found.stdout)
    assert (found.returncode, document["found"], document["changed"]) == (0, True, ["level=0.375"])
    same = quick("bisect", "t.yaml", "--setting", "level=4..8", cwd=tmp_path)
    assert same.returncode == 1
    assert "Nothing to find: level=4 and level=8 have the same outcome." in same.stdout
    assert "one of --setting" in refused("bisect", study, cwd=tmp_path)
    assert "a scenario or a study was wanted to run" in refused("bisect", "--setting", "a=1..2", cwd=tmp_path)
    repo = tmp_path / "repo"
    repo.mkdir()
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "init", "--quiet", repo], check=True)
    for number in range(4):
        (repo / "x.py").write_text(f"print({number > 1})  # {number}")
        subprocess.run(["git", "-C", repo, "add", "."], check=True)
        subprocess.run(["git", "-C", repo, *who, "commit", "--quiet", "-m", f"Change {number}"], check=True)
    asked = ("--commits", "HEAD~3..HEAD", "--controller-repo", "repo", "--out", "runs/c", "--", sys.executable, "x.py")
    commit = quick("bisect", *asked, cwd=tmp_path)
    assert commit.returncode == 0, commit
    assert "«Change 2» changes the outcome" in commit.stdout
    assert "one scenario or study was wanted, but a b came" in refused("bisect", "a", "b", "--setting", "a=1..2", cwd=tmp_path)
