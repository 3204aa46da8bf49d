"""Benchmarks measure a commit, and results say which."""

import json
import subprocess

import pytest

from bench import __main__ as bench
from bench import tools
from tests.support import ROOT

RESULTS = sorted((ROOT / "bench" / "results").glob("*.json"))


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A small checkout that stands for the project."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@t"]
    for place in ("src/a.py", "bench/results/old.json"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text("1\n")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *command], check=True)
    monkeypatch.setattr(tools, "ROOT", tmp_path)
    tools.code_measured.cache_clear()
    yield tmp_path
    tools.code_measured.cache_clear()


def test_a_clean_tree_is_its_commit(tree):
    code = tools.code_measured()
    assert code["clean"]
    assert len(code["commit"]) == 40


def test_results_that_are_written_do_not_make_a_tree_dirty(tree):
    (tree / "bench" / "results" / "old.json").write_text("2\n")
    (tree / "bench" / "results" / "new.json").write_text("3\n")
    assert tools.code_measured()["clean"]


@pytest.mark.parametrize("place", ["src/a.py", "src/new.py"])
def test_a_change_is_refused_and_can_be_owned_to(tree, place, monkeypatch):
    (tree / place).write_text("2\n")
    assert "1 changes are in no commit" in str(bench.main(["spread"]))
    ran = []
    monkeypatch.setattr(
        bench, "import_module", lambda name: ran.append(name) or type("M", (), {"main": staticmethod(lambda: True)})
    )
    assert bench.main(["spread", "--dirty"]) == 0
    assert ran == ["bench.spread"]
    assert not tools.code_measured()["clean"]


def test_a_copy_without_a_checkout_needs_the_name_of_its_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(tools, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    tools.code_measured.cache_clear()
    try:
        assert "SAMEPATH_COMMIT" in str(bench.main(["spread"]))
        tools.code_measured.cache_clear()
        monkeypatch.setenv("SAMEPATH_COMMIT", "f" * 40)
        assert tools.code_measured()["clean"]
        assert not tools.code_measured()["checkout"]
    finally:
        tools.code_measured.cache_clear()


def test_every_result_names_the_clean_commit_it_was_made_from():
    for path in RESULTS:
        code = json.loads(path.read_text("utf-8"))["code"]
        assert code["clean"], f"{path.name}: {code['changed']}"
        assert len(code["commit"]) == 40, path.name
        assert len(code["digest"]) == 32, path.name


def test_a_result_tells_what_a_benchmark_was_told_and_no_folder():
    environment = {
        "SAMEPATH_BENCH_DEADLOCK_VEHICLES": "100",
        "SAMEPATH_BENCH_DEADLOCK_KEEP": "/somewhere",
        "HOME": "/home",
        "SAMEPATH_BENCH_DEADLOCK_JOBS": "1",
    }
    assert tools.settings(environment) == ["SAMEPATH_BENCH_DEADLOCK_JOBS=1", "SAMEPATH_BENCH_DEADLOCK_VEHICLES=100"]
    assert tools.settings({}) == []
