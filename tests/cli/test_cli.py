"""The command line as a stranger meets it: real processes, real files, exit codes and one-line errors."""

import json
import os
import re
import signal
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from samepath.cli.app import VERBS
from samepath.core.clock import SYSTEM_CLOCK
from samepath.instrument.execution.folder import locked
from samepath.instrument.study.plan import built_in_studies
from tests.support import SUPPORT

REPEATS = 10


def samepath(*arguments, cwd=None):
    command = [sys.executable, "-W", "error", "-m", "samepath", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def study_text(*cells, repeats=5, isolation="inline"):
    lines = "".join(f"    - {cell}\n" for cell in cells)
    return f"name: x\ndesign:\n  repeats: {repeats}\n  cells:\n{lines}execution: {{isolation: {isolation}}}\n"


@pytest.fixture(scope="module")
def study_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "out"
    # Repeat 7 is the first that ends early; how sure one is with so many is no question here.
    result = samepath("study", "controls", "--repeats", REPEATS, "--out", folder, "--json")
    assert result.returncode == 0, result.stderr
    return folder, json.loads(result.stdout)


def test_a_rounded_log_is_reported_as_identical_at_its_resolution(authors_log, quick):
    result = quick("analyse", authors_log, "--json")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["verdict"] == "identical-at-resolution"
    assert document["tolerance_m"] == 0.01
    (cell,) = document["cells"]
    assert (cell["repeats"], cell["actors"]) == (12, 2)
    assert cell["max_sigma_m"] == 0
    assert cell["log_resolution_m"] == 0.001
    assert cell["divergence_rate_upper"] == pytest.approx(1 - 0.05 ** (1 / 12))


def test_the_json_object_has_every_promised_key(study_folder):
    document = study_folder[1]
    assert {"tolerance_m", "verdict", "cells"} <= set(document)
    promised = "scenario condition repeats actors max_sigma_m psi_m2 mean_sigma_m max_deviation_m outcomes divergent_repeats"
    promised += " divergence_rate_upper log_resolution_m verdict first_divergence pre_collision post_collision"
    for cell in document["cells"]:
        assert set(promised.split()) <= set(cell)
        for phase in ("pre_collision", "post_collision"):
            assert {"max_sigma_m", "psi_m2", "mean_sigma_m", "max_deviation_m", "verdict"} <= set(cell[phase])


def test_the_controls_are_told_apart_end_to_end(study_folder):
    verdicts = {cell["cell"]: cell["verdict"] for cell in study_folder[1]["cells"]}
    assert verdicts["exact"] == verdicts["actor destroyed"] == "bit-identical"
    assert verdicts["noise below the log's resolution"] == "identical-at-resolution"
    assert verdicts["gaussian 1 mm"] == "within-tolerance"
    for name in ("gaussian 2 cm", "two outcomes", "late bystander", "one run in 50 ends early"):
        assert verdicts[name] == "exceeds-tolerance"


def test_a_study_leaves_reports_for_people_and_machines(study_folder):
    folder, document = study_folder
    assert json.loads((folder / "report.json").read_text()) == document
    assert ElementTree.parse(folder / "junit.xml").getroot() is not None
    assert "<html" in (folder / "report.html").read_text()
    provenance = document["provenance"]
    assert {"cpu", "memory", "python", "libraries", "command", "seed"} <= set(provenance)


def test_a_finished_study_can_be_run_again_reported_and_checked(study_folder, tmp_path, quick):
    folder, document = study_folder
    again = quick("study", "controls", "--repeats", REPEATS, "--out", folder, "--json")
    assert json.loads(again.stdout)["cells"] == document["cells"]
    assert quick("report", folder).stdout.strip() == str(folder / "report.html")
    assert quick("check", folder, "--tolerance", "1cm").returncode == 1
    junit = tmp_path / "junit.xml"
    assert quick("check", folder / "cells" / "exact", "--tolerance", "0", "--junit", junit).returncode == 0
    assert ElementTree.parse(junit).getroot().find(".//failure") is None


def test_the_gate_exits_0_within_and_1_beyond_the_tolerance(study_folder, quick):
    noisy = study_folder[0] / "cells" / "gaussian-1-mm"
    assert quick("check", noisy, "--tolerance", "1cm").returncode == 0
    result = quick("check", noisy, "--tolerance", "2 mm")
    assert result.returncode == 1
    assert "exceeds-tolerance" in result.stdout
    assert quick("check", noisy, "--tolerance", "2 mm", "--criterion", "sigma").returncode == 0


def test_a_study_that_finds_something_else_than_it_expects_fails(tmp_path, quick):
    (tmp_path / "x.yaml").write_text(study_text("{simulator: control-gaussian, scenario: crossing, expect: bit-identical}"))
    result = quick("study", "x.yaml", cwd=tmp_path)
    assert result.returncode == 1
    assert "bit-identical was expected, but it is within-tolerance" in result.stderr
    assert (tmp_path / "runs" / "x" / "report.html").exists()


def test_an_interrupted_study_keeps_what_it_has_and_goes_on(tmp_path, quick):
    (tmp_path / "x.yaml").write_text(study_text("{simulator: control-exact, scenario: crossing, name: exact}", repeats=3000))
    command = [sys.executable, "-m", "samepath", "study", "x.yaml", "--out", "out"]
    # A test run in the background of a script inherits an ignored SIGINT; a person at a terminal does not.
    heed = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **heed)
    spool = tmp_path / "out" / "cells" / "exact" / "spool"
    while process.poll() is None and not (spool.exists() and len(list(spool.glob("*.arrow"))) > 5):
        SYSTEM_CLOCK.sleep_s(0.01)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate()
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert "Interrupted" in stdout
    assert "Interrupted" in (tmp_path / "out" / "report.html").read_text()
    done = json.loads((tmp_path / "out" / "report.json").read_text())["cells"][0]["repeats"]
    assert done >= 5
    resumed = quick("study", "x.yaml", "--out", "out", "--repeats", done + 3, "--json", cwd=tmp_path)
    assert json.loads(resumed.stdout)["cells"][0]["repeats"] == done + 3


def test_a_study_goes_on_from_its_folder_alone_and_says_when_there_is_nothing_to_do(tmp_path, quick):
    faulty = "{simulator: 'odd_simulators:Faulty', scenario: s, name: shaky, settings: {fault: until-mark, at: 3, mark: mark}}"
    broken = "{simulator: 'odd_simulators:Faulty', scenario: s, name: broken, settings: {fault: bug, at: 1}}"
    away = "{simulator: control-exact, scenario: crossing, name: far, condition: {cores: 4095}}"
    good = "{simulator: control-exact, scenario: crossing, name: exact, expect: bit-identical}"
    (tmp_path / "x.yaml").write_text(study_text(good, faulty, broken, away, isolation="process"))
    odd = tmp_path / "odd_simulators.py"
    odd.write_text((SUPPORT / "odd_simulators.py").read_text())
    first = samepath("study", "x.yaml", "--out", "out", "--json", cwd=tmp_path)
    assert first.returncode == 1, first.stderr
    document = json.loads(first.stdout)
    assert {cell["cell"]: cell["repeats"] for cell in document["cells"]} == {"exact": 5, "shaky": 3}
    missing = {absent["name"]: (absent["kind"], absent["reason"]) for absent in document["missing"]}
    assert missing["broken"][0] == "failed"
    assert "given up after 3 failures in a row: ZeroDivisionError" in missing["broken"][1]
    assert missing["far"][0] == "not applicable"
    assert "4095" in missing["far"][1]
    assert "cell 'shaky', repeat 3: not yet" in first.stderr
    assert "samepath resume out tries those repeats again" in first.stderr
    (tmp_path / "mark").touch()
    (tmp_path / "x.yaml").unlink()
    odd.write_text(odd.read_text().replace("raise ZeroDivisionError", "return"))
    second = quick("resume", "out", "--json", cwd=tmp_path)
    assert second.returncode == 0, second.stderr
    assert {cell["cell"]: cell["repeats"] for cell in json.loads(second.stdout)["cells"]} == {
        "exact": 5,
        "shaky": 5,
        "broken": 5,
    }
    third = quick("resume", "out", "--json", cwd=tmp_path)
    assert third.returncode == 0
    assert "nothing to do: all 15 repeats are in out" in third.stderr
    assert json.loads(third.stdout) == json.loads(second.stdout)
    analysed = json.loads(quick("analyse", "out", "--json", cwd=tmp_path).stdout)
    same = ("cells", "missing", "verdict", "title", "command")
    assert {key: analysed[key] for key in same} == {key: json.loads(third.stdout)[key] for key in same}
    record = json.loads((tmp_path / "out" / "study.json").read_text())
    assert [line.split()[1] for line in record["commands"]] == ["study", "resume", "resume"]


def test_a_dry_run_says_what_would_be_done_and_leaves_nothing(tmp_path, quick):
    quiet = "{simulator: control-exact, scenario: crossing, name: quiet}"
    shared = "{simulator: control-exact, scenario: crossing, name: shared, condition: {isolation: batch}}"
    away = "{simulator: control-exact, scenario: crossing, name: far, condition: {cores: 4095}}"
    (tmp_path / "x.yaml").write_text(study_text(quiet, shared, away, isolation="process"))
    result = quick("study", "x.yaml", "--dry-run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    for words in (
        "quiet",
        "2 cells, 10 repeats to run",
        "estimated time:",
        "estimated disk:",
        "it fits",
        "order: random, 1 block",
    ):
        assert words in result.stdout
    assert "batch of 50" in result.stdout
    assert "not applicable here: far: " in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["x.yaml"]


def test_a_second_study_on_a_folder_in_use_is_refused(tmp_path, refused):
    (tmp_path / "x.yaml").write_text(study_text("{simulator: control-exact, scenario: crossing}"))
    with locked(tmp_path / "out"):
        words = f"in use by another samepath (process {os.getpid()})"
        assert words in refused("study", "x.yaml", "--out", "out", cwd=tmp_path)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("{simulator: control-exact, scenario: crosing}", "did you mean 'crossing'"),
        ("{simulator: control-exact, scenario: crossing, condition: {cpu_load: 1.3}}", "0% to 100%"),
        ("{simulator: control-exact, scenario: crossing, condition: {cpu_laod: 0.3}}", "did you mean 'cpu_load'"),
        ("{simulator: control-exact, scenario: crossing, condition: {controller: replayed}}", "cannot replay commands"),
        ("{simulator: 'odd_simulators:Faulty', scenario: s, settings: {fault: error, at: 0}}", "failed: engine on fire"),
        ("{simulator: control-exact, scenario: crossing, repeats: 1000000}", "are free there: make room"),
    ],
)
def test_what_cannot_be_run_is_refused_before_the_first_run(tmp_path, cell, words, refused):
    odd = (SUPPORT / "odd_simulators.py").read_text()
    (tmp_path / "odd_simulators.py").write_text(odd)
    (tmp_path / "x.yaml").write_text(study_text(cell))
    assert words in refused("study", "x.yaml", "--out", "out", cwd=tmp_path)
    assert not (tmp_path / "out").exists()


def test_logs_can_be_imported_and_analysed_again(authors_log, tmp_path, refused, quick):
    result = quick("import", authors_log, "--out", tmp_path / "traces")
    assert result.returncode == 0, result.stderr
    a = json.loads(quick("analyse", tmp_path / "traces", "--json").stdout)["cells"]
    b = json.loads(quick("analyse", authors_log, "--json").stdout)["cells"]
    assert a == b
    assert "not an empty folder" in refused("import", authors_log, "--out", tmp_path / "traces")


def test_columns_units_and_alignment_reach_the_importer(tmp_path, quick):
    rows = ["run_id;t;east;north"] + [f"{r};{t};{100 * t + r};0" for r in range(3) for t in range(4)]
    (tmp_path / "log.csv").write_text("\n".join(rows))
    result = quick("analyse", tmp_path / "log.csv", "--map", "x=east[cm]", "--map", "y=north[cm]", "--json")
    assert json.loads(result.stdout)["cells"][0]["max_sigma_m"] == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["analyse", "nowhere.csv"], "does not exist"),
        (["analyse", "empty.csv"], "is empty"),
        (["check", "log.csv", "--tolerance", "1 kg"], "use one of km, m"),
        (["check", "log.csv", "--tolerance", "-1cm"], "at least 0"),
        (["analyse", "log.csv", "--map", "x"], "KEY=COLUMN"),
        (["analyse", "log.csv", "--split-at", "at=3"], "tick=120"),
        (["analyse", "log.csv", "--structure", "maybe"], "fail or report"),
        (["analyse", "log.csv", "--restrict", "cpu<=1"], "unknown condition"),
        (["analyse", "folder.csv"], "holds no traces"),
        (["analyse", "log.csv", "--format", "tls"], "did you mean 'tsl'"),
        (["study", "contrls"], "did you mean 'controls'"),
        (["study", "missing.yaml"], "cannot be read"),
        (["study", "controls", "--repeats", "1"], "one run cannot be compared"),
        (["study", "controls", "--out", "log.csv"], "log.csv is not a folder"),
        (["study", "controls", "--out", "/proc/nowhere"], "/proc/nowhere"),
        (["study", "controls", "--full"], "no key 'full'"),
        (["resume", "nowhere"], "a study folder was wanted"),
        (["report", "nowhere"], "does not exist"),
        (["conformance", "control-exat"], "did you mean 'control-exact'"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_2(tmp_path, arguments, words, refused):
    (tmp_path / "empty.csv").write_text("")
    content = "repeat,time,x,y\n0,0,1,1\n0,1,2,1\n1,0,1,1\n1,1,2,1\n"
    (tmp_path / "log.csv").write_text(content)
    (tmp_path / "folder.csv").mkdir()
    assert words in refused(*arguments, cwd=tmp_path)
    assert (tmp_path / "log.csv").read_text() == content, "nothing was overwritten"


def test_an_unreadable_file_is_one_clear_line(tmp_path, refused):
    path = tmp_path / "log.csv"
    path.symlink_to(path)
    assert "log.csv" in refused("analyse", path)


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_verb_can_be_loaded_and_has_help(verb, quick):
    result = quick(verb, "--help")
    assert result.returncode == 0, result.stderr
    assert f"Usage: samepath {verb}" in result.stdout


def test_the_help_lists_every_verb_with_what_it_does_in_one_line():
    lines = samepath("--help").stdout.splitlines()
    for verb, (_, words) in VERBS.items():
        assert any(line.split(maxsplit=1) == [verb, words] for line in lines), verb


def test_an_unknown_verb_is_answered_with_the_nearest(quick):
    result = quick("stdy", "controls")
    assert result.returncode == 2
    assert "Did you mean 'study'?" in result.stderr


def test_the_studies_that_come_with_samepath_are_listed_with_their_time(quick):
    result = quick("studies")
    assert result.returncode == 0, result.stderr
    for name in built_in_studies():
        assert re.search(rf"^{name} +\d+ +about \d+ ", result.stdout, re.MULTILINE), name
    assert "samepath studies" in quick("study", "--help").stdout


def test_simulators_are_listed_and_held_to_the_contract(quick):
    assert "control-two-outcomes" in quick("simulators").stdout
    result = quick("conformance", "control-exact")
    assert result.returncode == 0
    assert "FAIL" not in result.stdout


def test_the_version_is_printed():
    assert samepath("--version").stdout.startswith("samepath 0.")
