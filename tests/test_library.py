"""``import samepath`` as a script or a notebook uses it: light to import, the same answers as the command line."""

import ast
import doctest
import html
import json
import subprocess
import sys
from pathlib import Path

import pytest

import samepath
from samepath.instrument import evaluation, study_run

HEAVY = {"numpy", "pyarrow", "pydantic", "scipy", "matplotlib", "jinja2", "rapier3d", "numba", "yaml", "psutil", "ray", "carla"}
LOG = "repeat,time,x,y\n0,0,1,1\n0,1,2,1\n1,0,1,1\n1,1,2.5,1\n"


def loaded_by(*command):
    script = f"import runpy, sys\nsys.argv = {list(command)!r}\n"
    script += "try:\n    runpy.run_module('samepath', run_name='__main__')\nexcept SystemExit:\n    pass\n" if command else ""
    script += "import samepath\nprint('\\n' + ' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}


@pytest.mark.parametrize("command", [(), ("samepath", "--version"), ("samepath", "--help")])
def test_neither_the_import_nor_the_version_nor_the_help_loads_anything_heavy(command):
    assert not loaded_by(*command) & HEAVY


def test_names_are_loaded_from_where_the_type_checker_is_told_they_are():
    tree = ast.parse(Path(samepath.__file__).read_text("utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    told = {alias.asname: node.module for node in block.body for alias in node.names}
    assert told == samepath._HOMES
    for name in told:
        assert getattr(samepath, name) is not None
        assert name in dir(samepath)
    with pytest.raises(AttributeError, match="no attribute 'analyze'"):
        samepath.analyze  # noqa: B018


@pytest.mark.parametrize("module", [evaluation, study_run], ids=lambda module: module.__name__.rpartition(".")[2])
def test_the_examples_in_the_documentation_of_functions_are_true(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tried = doctest.testmod(module)
    assert tried.attempted >= 3
    assert tried.failed == 0


def test_cells_that_were_loaded_can_be_analysed_without_their_files(tmp_path):
    (tmp_path / "log.csv").write_text(LOG)
    cells = samepath.load(tmp_path / "log.csv")
    (tmp_path / "log.csv").unlink()
    report = samepath.analyse(*cells, tolerance=0.4)
    assert (report.verdict, report.passes, report.tolerance_m) == ("within-tolerance", True, 0.4)
    assert not samepath.check(*cells, tolerance="1 cm", progress=False).passes
    with pytest.raises(samepath.SamepathError, match="deviation or sigma was wanted, but 'sigm' came"):
        samepath.analyse(*cells, criterion="sigm")


def test_a_report_shows_itself_in_a_notebook_with_its_figures_and_is_short_in_a_prompt(tmp_path):
    (tmp_path / "log.csv").write_text(LOG)
    report = samepath.analyse(tmp_path / "log.csv")
    shown = report._repr_html_()
    assert shown.startswith("<iframe ")
    assert "<svg" in html.unescape(shown)
    assert html.unescape(shown).count("<html") == 1
    assert repr(report) == "<Report 'log.csv': exceeds-tolerance, 1 cells, 2 repeats, tolerance 1 cm>"
    assert json.loads(report.to_json())["command"] == f"samepath analyse {tmp_path / 'log.csv'}"


def test_what_is_at_the_end_of_a_cell_of_a_notebook_is_short(tmp_path):
    (tmp_path / "log.csv").write_text(LOG)
    (cell,) = samepath.load(tmp_path / "log.csv")
    assert repr(cell) == "<MemoryCell 'log' of 'log': imported log, log>"
    (folder,) = samepath.store([cell], tmp_path / "traces")
    assert repr(samepath.load(folder)) == "[<StoredCell 'log' of 'log': imported log, log>]"
    result = samepath.analyse(cell).cells[0]
    assert repr(result) == (
        "<CellAnalysis 'log' of 'log': exceeds-tolerance, 2 repeats, max sigma 35.4 cm, max deviation 25 cm, tolerance 1 cm>"
    )


STUDY = {
    "name": "tiny",
    "design": {
        "cells": [
            {"simulator": "control-exact", "scenario": "crossing", "name": "exact", "expect": "bit-identical"},
            {"simulator": "control-gaussian", "scenario": "crossing", "name": "noisy", "expect": "bit-identical"},
        ],
        "repeats": 3,
    },
    "execution": {"isolation": "inline", "order": "listed"},
}


def test_a_study_can_be_run_watched_interrupted_and_resumed(tmp_path):
    def stop(progress):
        if progress.total_done == 5:
            raise KeyboardInterrupt

    with pytest.raises(samepath.StudyInterrupted) as interrupted:
        samepath.run_study(STUDY, tmp_path / "s", progress=stop)
    partial = interrupted.value.result
    assert partial.interrupted
    kept = f"5 of 6 repeats are kept in {tmp_path / 's'}: go on with samepath.resume_study({str(tmp_path / 's')!r})"
    assert str(interrupted.value) == kept
    assert repr(partial) == f"<StudyResult 'tiny' in {tmp_path / 's'}: within-tolerance, 0 problems, interrupted>"
    assert [cell.repeats for cell in partial.report.cells] == [3, 2]
    assert "Continue with: samepath resume" in partial.report.partial
    seen = []
    result = samepath.resume_study(tmp_path / "s", progress=seen.append)
    assert [progress.total_done for progress in seen][-1] == 6
    assert [cell.repeats for cell in result.report.cells] == [3, 3]
    assert (result.ok, result.failures) == (False, ())
    assert result.problems == ("cell 'noisy': bit-identical was expected, but it is within-tolerance",)
    assert repr(result) == f"<StudyResult 'tiny' in {tmp_path / 's'}: within-tolerance, 1 problems>"
    assert result.page.read_text("utf-8").count("<html") == 1
    assert "<svg" in html.unescape(result._repr_html_())
    again = samepath.analyse(tmp_path / "s", tolerance="1 m")
    assert [cell.options.tolerance_m for cell in again.cells] == [1.0, 1.0]


def test_a_preview_says_what_a_study_takes_and_keeps_nothing(tmp_path):
    preview = samepath.preview_study(STUDY, tmp_path / "s", progress=False)
    assert preview.fits
    assert preview.estimate.repeats == 6
    assert repr(preview).startswith(f"<StudyPreview 'tiny' in {tmp_path / 's'}: 6 repeats to run, about ")
    assert repr(preview).endswith(" free, 0 cells not applicable>")
    assert not (tmp_path / "s").exists()


def test_every_built_in_study_is_listed_with_what_it_asks_and_a_guess_of_its_time():
    for study in samepath.studies():
        assert study.description, study.name
        assert study.repeats >= 2 * study.cells
        assert 5 < study.about_s < 4 * 3600, study.name
