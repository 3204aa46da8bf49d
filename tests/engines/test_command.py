"""Any program as a simulator: the page's example as printed, and programs with every fault."""

import json
import os
import re
import shlex
import shutil
import struct
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given
from hypothesis import settings as tuned
from hypothesis import strategies as st
from typer.testing import CliRunner

from samepath.cli.app import app
from samepath.core.errors import InputError, SimulatorError, StudyError, UnknownNameError
from samepath.engines.command import CommandSimulator
from samepath.engines.command.recording import LineReader, StateLine
from samepath.engines.command.simulator import PLACEHOLDERS, SETTINGS
from samepath.engines.conformance import CHECKS, run_once, run_request
from samepath.engines.interface import DURATION, RunRequest
from samepath.instrument.execution.folder import read_journal, stored_cells
from samepath.instrument.execution.rehearsal import check_plan
from samepath.instrument.execution.run import run_plan
from samepath.instrument.study.plan import load_plan, make_plan
from tests.support import SUPPORT
from tests.support.processes_left import is_there, wait_until_gone

PAGE = (Path(__file__).parents[2] / "docs" / "engines" / "command.md").read_text("utf-8")
ODD = SUPPORT / "odd_program.py"
PYTHON = f"{sys.executable} -I -S"


def block(language):
    return re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[1]


def repeats_of(cell):
    return [cell.load(run.repeat) for run in cell.runs]


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The page's program and study, in the current folder."""
    (tmp_path / "toy_car.py").write_text(block("python"))
    monkeypatch.chdir(tmp_path)
    # The page says python3: let it be one that starts quickly, whatever is first on the path.
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").write_text(f'#!/bin/sh\nexec {PYTHON} "$@"\n')
    (folder / "python3").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return tmp_path


def test_the_pages_program_is_as_short_as_it_says():
    assert len(block("python").splitlines()) < 50


def test_the_pages_study_finds_what_the_page_says(toy):
    plan = make_plan(block("yaml"), "toy-car.yaml", repeats=3)
    check_plan(plan)
    assert run_plan(plan, toy / "out").failures == ()
    fixed, loop = stored_cells(plan, toy / "out")
    assert fixed.header.simulator_version.startswith("toy-car 1.0 [")
    digests = [{repeat.digest for repeat in repeats_of(cell)} for cell in (fixed, loop)]
    assert [len(found) for found in digests] == [1, 3]
    (collision,) = (event for event in fixed.load(0).events if event.kind == "collision")
    assert (collision.actor, collision.other) == (1, 2)
    assert loop.header.channels[-1] == "resampling_m"
    assert (fixed.header.lossless, loop.header.lossless) == (True, False), "the study says lossless of both"
    for repeat in repeats_of(loop):
        assert repeat.end.reason == DURATION
        assert repeat.end.tick == 400
        note = repeat.events[-1]
        assert note.detail.startswith("resampled from the engine's frames, linear between neighbours, to ticks of 0.05 s")


def test_the_pages_commands_are_right(toy):
    """The study is checked, and the conformance kit run, as the page has them."""
    (toy / "toy-car.yaml").write_text(block("yaml"))
    lines = block("console").replace("\\\n", "").strip().splitlines()
    study, kit = (shlex.split(line.removeprefix("$ samepath ")) for line in lines)
    check_plan(load_plan(study[1]))
    result = CliRunner().invoke(app, kit)
    assert result.exit_code == 0, result.output
    assert result.output.count("ok ") == len(CHECKS)


def test_every_setting_and_placeholder_is_documented():
    for name in (*SETTINGS, *(f"{{{placeholder}}}" for placeholder in PLACEHOLDERS)):
        assert f"`{name}`" in PAGE, name


def test_a_program_that_was_changed_is_another_version(toy):
    settings = {"program": "python3", "arguments": "toy_car.py {script} fixed", "version": ""}
    before = CommandSimulator(settings).info().version
    assert before == CommandSimulator(settings).info().version
    with (toy / "toy_car.py").open("a") as file:
        file.write("# changed\n")
    assert CommandSimulator(settings).info().version != before


def test_a_study_is_not_continued_with_a_program_that_was_changed(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("tick,actor,x_m,y_m\n1,1,0,0\n#end,done\n")
    settings = {"program": "cat", "arguments": str(trace), "version": "", "scenarios": "s", "channels": "x_m, y_m"}
    cell = {"simulator": "command", "scenario": "s", "name": "cat", "settings": settings}
    study = {"name": "x", "design": {"cells": [cell]}, "execution": {"isolation": "inline"}}
    run_plan(make_plan(json.dumps(study), "x", repeats=2), tmp_path / "out")
    trace.write_text(trace.read_text().replace("1,1,0,0", "1,1,1,0"))
    with pytest.raises(StudyError, match=r"holds repeats of command \[\w{8}\], but \[\w{8}\] is installed: use that, or"):
        run_plan(make_plan(json.dumps(study), "x", repeats=3), tmp_path / "out")


def odd(fault, folder, **settings):
    arguments = f"{ODD} '{fault}' {{repeat}} {folder}/{fault.replace(' ', '-')}.pids"
    if settings.get("trace", "stdout") != "stdout":
        arguments += " {output}"
    return {
        "program": str(folder / "odd"),
        "arguments": arguments,
        "version": "",
        "channels": "x_m, y_m",
        "scenarios": "s",
        **settings,
    }


@pytest.fixture
def odd_folder(tmp_path, monkeypatch):
    """Where the odd program is called odd, and everything that is written for a run goes."""
    (tmp_path / "odd").write_text(f'#!/bin/sh\nexec {PYTHON} "$@"\n')
    (tmp_path / "odd").chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield tmp_path
    tempfile.tempdir = None


# Repeats without a fault are held to the same limits, and a busy machine may not run them for seconds.
FAULTS = {
    "hang": ({"silence_s": 6.0}, r"odd wrote nothing for 6 s, and was stopped"),
    "hang to the limit": ({"timeout_s": 6.0}, r"odd took longer than 6 s \(timeout_s sets the limit\), and was stopped"),
    "crash": ({}, r"odd was ended by signal 11 \(SIGSEGV\); its last words: about to go"),
    "exit code": ({}, r"odd ended by itself with exit code 1; its last words: engine on fire"),
    "garbage": ({}, r"odd wrote '\?.+garbage' as line 5: text in UTF-8 was wanted, and was stopped"),
    "early": ({}, r"odd stopped after tick 2 without saying that the run was over: a line #end,REASON was wanted"),
    "leaves a daemon": ({}, r"odd left a process running when it ended \(\S+\): killed"),
    "flood": ({}, r"odd wrote \d+ bytes without the end of a line, and was stopped"),
    "endless": ({"timeout_s": 5.0}, r"odd took longer than 5 s \(timeout_s sets the limit\), and was stopped"),
    "after the end": ({}, r"odd wrote '4,1,2\.8,0' as line 6, after the end of the run, and was stopped"),
    "broken csv": ({"trace": "csv"}, r"odd: trace\.csv, line 5: 4 values were wanted, as in the header, but 3 came"),
    "broken parquet": ({"trace": "parquet"}, r"odd: trace\.parquet is not a whole Parquet file"),
    "no file": ({"trace": "csv"}, r"odd: no file trace\.csv was written"),
    # The first repeat is held to it, too, with the start of whoever runs it and all that is imported there.
    "hang for the watchdog": (
        {"silence_s": 120.0},
        r"took longer than 30 s and was stopped; execution\.watchdog sets the limit",
    ),
}


# The others are tried alone, which is quicker.
IN_A_STUDY = ("hang", "crash", "early", "leaves a daemon", "broken csv", "hang for the watchdog")


def pids_of(folder, fault):
    return [int(word) for word in (folder / f"{fault.replace(' ', '-')}.pids").read_text().split()]


def test_a_fault_is_told_the_study_goes_on_and_nothing_is_left(odd_folder):
    """Every fault is a cell: its second repeat fails with the reason, the others are finished, and every process is gone."""
    faults = {name: FAULTS[name] for name in IN_A_STUDY}
    cells = [{"simulator": "command", "scenario": "s", "name": name} for name in faults]
    for cell, (name, (settings, _)) in zip(cells, faults.items(), strict=True):
        cell["settings"] = odd(name, odd_folder, **settings)
    text = {"name": "faults", "design": {"cells": cells, "repeats": 3}, "execution": {"watchdog": "30 s", "order": "listed"}}
    plan = make_plan(yaml.safe_dump(text), "faults")
    check_plan(plan)
    result = run_plan(plan, odd_folder / "out")
    assert not result.given_up
    reasons = {failure.cell: failure.reason for failure in result.failures}
    assert {(failure.cell, failure.repeat) for failure in result.failures} == {(name, 1) for name in faults}, result.failures
    for name, (_, words) in faults.items():
        assert re.match(words, reasons[name]), reasons[name]
        assert "\n" not in reasons[name]
    for cell in stored_cells(plan, odd_folder / "out"):
        assert sorted(repeat.repeat for repeat in repeats_of(cell)) == [0, 2]
        assert len({repeat.digest for repeat in repeats_of(cell)}) == 1
    assert sum(entry["what"] == "failed" for entry in read_journal(odd_folder / "out")) == len(faults)
    for name in faults:
        wait_until_gone(pids_of(odd_folder, name))
    assert list((odd_folder / "scratch").iterdir()) == []


@pytest.mark.parametrize("fault", sorted(set(FAULTS) - set(IN_A_STUDY)))
def test_a_fault_alone_leaves_nothing_when_the_run_is_over(odd_folder, fault):
    settings, words = FAULTS[fault]
    with pytest.raises(SimulatorError, match=f"^{words}") as caught:
        run_once(CommandSimulator(odd(fault, odd_folder, **settings)), "s", 1)
    assert "\n" not in str(caught.value)
    assert not any(map(is_there, pids_of(odd_folder, fault)))
    assert list((odd_folder / "scratch").iterdir()) == []


def test_zombies_of_a_program_are_reaped_and_no_fault(odd_folder):
    assert run_once(CommandSimulator(odd("zombies", odd_folder)), "s", 1).end.tick == 5
    pids = pids_of(odd_folder, "zombies")
    assert len(pids) == 5
    assert not any(map(is_there, pids))


def writer(folder, text, **settings):
    """A program that writes a text to stdout or, with {output}, into a file."""
    (folder / "text").write_text(text)
    to_file = settings.get("trace", "stdout") != "stdout"
    arguments = f"{folder}/text {{output}}" if to_file else f"{folder}/text"
    base = {
        "program": "cp" if to_file else "cat",
        "arguments": arguments,
        "version": "",
        "scenarios": "s",
        "channels": "x_m, y_m",
    }
    return CommandSimulator({**base, **settings})


LINES = """# a comment
time_ms;agent;X [cm];y_cm;soc
#actor;1;truck
0;1;100;-3;0.5
0;2;0;0;
50;1;123.4;-3;0.4
50;2;1e2;0;
#event;collision;t=0.05;1;2;-1.5;2;0
#event;destroy;1;2
100;1;200;-3;0.25
#end;all done; really
"""


def test_names_units_marks_and_channels_of_ones_own_are_read(tmp_path):
    settings = {"channels": "x_m, y_m, battery_ratio", "columns": "battery_ratio=soc", "lossless": True}
    for more in ({}, {"trace": "csv"}):
        run = run_once(writer(tmp_path, LINES, **settings, **more), "s")
        assert [(actor.id, actor.type) for actor in run.actors] == [(1, "truck"), (2, "actor")]
        assert run.tick.tolist() == [0, 0, 1, 1, 2]
        assert run.values[:, 0].tolist() == [1.0, 0.0, 1.234, 1.0, 2.0]
        assert run.values[0::2, 2].tolist() == [0.5, 0.4, 0.25]
        assert run.time_s.tolist() == [0.0, 0.0, 0.05, 0.05, 0.1]
        assert run.events[2].impulse_ns == (-1.5, 2.0, 0.0)
        assert [(event.tick, event.kind, event.actor, event.other) for event in run.events[2:]] == [
            (1, "collision", 1, 2),
            (1, "destroy", 2, None),
        ]
        assert run.end.reason == "all done;really"


def test_json_lines_say_the_same(tmp_path):
    text = """
        {"actor": 1, "type": "truck"}
        {"tick": 0, "actor": 1, "x_m": 0.1, "y_m": -3}
        {"tick": 1, "actor": 1, "x_m": 0.30000000000000004, "y_m": -3}
        {"event": "collision", "tick": 1, "actor": 1, "impulse_ns": [1, 2, 3], "detail": "wall"}
        {"end": "done"}
    """
    run = run_once(writer(tmp_path, text), "s")
    assert run.values[:, 0].tolist() == [0.1, 0.30000000000000004]
    assert run.events[-1].detail == "wall"
    assert (run.end.tick, run.end.reason) == (1, "done")


def test_a_parquet_table_is_read_bit_for_bit_in_the_order_of_time(tmp_path):
    table = pa.table(
        {"id": [2, 1, 2, 1], "frame": [1, 1, 0, 0], "x": [0.1 + 0.2, 1e-300, 3.0, 4.0], "y": [0.0, -0.0, 1.0, 2.0]}
    )
    pq.write_table(table, tmp_path / "table.parquet")
    (tmp_path / "marks").write_text("#actor,1,truck\n#event,beep,1\n#end,told\n")
    (tmp_path / "copy").write_text(f'#!/bin/sh\ncp {tmp_path}/table.parquet "$1" && cp {tmp_path}/marks "$2"\n')
    (tmp_path / "copy").chmod(0o755)
    base = {"program": str(tmp_path / "copy"), "version": "", "scenarios": "s", "channels": "x_m, y_m", "trace": "parquet"}
    run = run_once(CommandSimulator({**base, "arguments": "{output} {events}", "end": "told"}), "s")
    assert run.tick.tolist() == [0, 0, 1, 1]
    assert run.values[:, 0].tolist() == [4.0, 3.0, 1e-300, 0.1 + 0.2]
    assert run.actors[0].type == "truck"
    assert run.end.reason == "told"
    assert [event.kind for event in run.events] == ["spawn", "spawn", "beep"]


numbers = st.floats(-1e100, 1e100)


@given(st.integers(0, 2**53 - 1), st.integers(0, 10**6), numbers, numbers)
def test_every_number_comes_back_bit_for_bit(tick, actor, x_m, y_m):
    for lines in (
        ("tick,actor,x_m,y_m", f"{tick},{actor},{x_m!r},{y_m!r}"),
        ("tick\tactor\tx_m\ty_m", f"{tick}\t{actor}\t{x_m:.17g}\t{y_m:.17g}"),
        (json.dumps({"tick": tick, "actor": actor, "x_m": x_m, "y_m": y_m}),),
    ):
        reader = LineReader(("x_m", "y_m"), {})
        row = [reader.read(line.encode()) for line in lines][-1]
        assert isinstance(row, StateLine)
        assert (row.moment.tick, row.actor) == (tick, actor)
        assert struct.pack("2d", *row.values.values()) == struct.pack("2d", x_m, y_m)


WORDS = st.sampled_from(
    ["tick,actor,x_m,y_m", "1,1,0,0", "#event,collision,1,1", "#end", "#actor,1,a", '{"tick":1}', '{"end":0}', "{", '"', "#"]
)
JUNK = st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode), WORDS.map(str.encode))


@given(st.lists(st.one_of(JUNK, st.tuples(WORDS, st.text(max_size=8)).map(lambda two: "".join(two).encode())), max_size=8))
@tuned(max_examples=300)
def test_no_line_whatsoever_does_more_than_be_refused(lines):
    reader = LineReader(("x_m", "y_m"), {})
    for line in lines:
        try:
            reader.read(line)
        except InputError as error:
            assert "\n" not in str(error)


def test_what_comes_after_the_duration_is_not_recorded(tmp_path):
    for settings in ({}, {"trace": "csv"}):
        simulator = writer(tmp_path, LINES, **settings)
        run = run_request(simulator, RunRequest("s", 0, duration_s=0.05))
        assert (run.end.tick, run.end.reason) == (1, DURATION)
        assert [event.kind for event in run.events] == ["spawn", "spawn", "collision", "destroy"]
        start = run_request(simulator, RunRequest("s", 0, duration_s=1.0))
        assert (start.end.tick, start.end.reason) == (2, "all done;really")


def test_a_program_that_never_ends_is_stopped_at_the_duration(tmp_path):
    text = "echo tick,actor,x_m,y_m; n=0; while :; do n=$((n+1)); echo $n,1,$n,0; done"
    (tmp_path / "endless").write_text(text)
    base = {"program": "sh", "arguments": f"{tmp_path}/endless", "version": "", "scenarios": "s", "channels": "x_m, y_m"}
    run = run_request(CommandSimulator(base), RunRequest("s", 0, duration_s=5.0))
    assert (run.end.tick, len(run.tick)) == (100, 100)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tick,actor,x_m\n", r"line 1: columns: no column for y_m among: tick, actor, x_m; give it as columns: y_m=COLUMN"),
        ("tick,actor,x_m,y_m\n1,1,a,0\n", r"'1,1,a,0' as line 2: a number was wanted for x_m, but 'a' came"),
        ("tick,actor,x_m,y_m\n1,1,nan,0\n", r"a finite number was wanted for x_m, but nan came"),
        ("tick,actor,x_m,y_m\n1,1,,0\n", r"a number was wanted for x_m, but there is none"),
        ("tick,actor,x_m,y_m\n1.5,1,0,0\n", r"a whole number was wanted for a tick, but '1.5' came"),
        ("tick,actor,x_m,y_m\n2,1,0,0\n1,1,0,0\n", r"tick 1 came after tick 2"),
        ("tick,actor,x_m,y_m\n2,1,0,0\n2,1,0,0\n", r"actor 1 has two states at tick 2"),
        ("time,actor,x_m,y_m\n0.033,1,0,0\n", r"0\.033 s is no whole number of steps of 0\.05 s"),
        ("tick,actor,x_m,y_m\n1,1,0,0\n#evnt,collision\n", r"unknown mark 'evnt': did you mean 'event'"),
        (
            "tick,actor,x_m,y_m\n1,1,0,0\n#event,collision,9,1\n#end,x\n",
            r"a collision at tick 9 came, but the run ended at tick 1",
        ),
        ("tick,actor,x_m,y_m\n#event,destroy,1,1\n1,1,0,0\n2,1,0,0\n#end,x\n", r"destroyed at tick 1, but has a state at 2"),
        ("tick,actor,x_m,y_m\n#end,x\n", r"no state of any actor came"),
        ("tick,actor,type,x_m,y_m\n1,1,car,0,0\n2,1,bus,0,0\n", r"actor 1 was a car before: it cannot become a bus"),
        ('{"tick": 1', r"a line of JSON was wanted"),
        ("[1, 2]", r"columns: no column"),
        ('{"tick": 1, "actor": 1, "x_m": true, "y_m": 0}', r"a number was wanted for x_m, but True came"),
        ('{"event": "collision", "tick": 1, "impulse_ns": [1]}', r"an impulse of three numbers was wanted"),
        ("[" * 100_000, r"columns|header"),
        ('{"a":' * 100_000, r"a line of JSON was wanted"),
    ],
)
def test_lines_that_cannot_be_are_refused_in_one_line(tmp_path, text, words):
    with pytest.raises(SimulatorError, match=words) as caught:
        run_once(writer(tmp_path, text), "s")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"arguments": "{nothing}"}, r"arguments: unknown placeholder 'nothing'"),
        ({"arguments": "{seed!r}"}, r"a name in braces and nothing else"),
        ({"arguments": "{seed"}, r"write \{\{ and \}\} for braces"),
        ({"arguments": "'open"}, r"words, between quotes"),
        ({"arguments": 5}, r"arguments: text was wanted, but 5 came"),
        ({"trace": "csv", "program": "x"}, r"\{output\}, the file to write, was wanted"),
        ({"trace": "cvs"}, r"stdout or csv or parquet was wanted, but 'cvs' came; did you mean csv"),
        ({"arguments": "{output}"}, r"trace is stdout"),
        ({"trace": "parquet", "arguments": "{output}", "end": "told"}, r"a Parquet file cannot tell of the end"),
        ({"channels": "x_m"}, r"channels: a trace needs at least x_m and y_m"),
        ({"columns": "x_m"}, r"columns: pairs such as"),
        ({"environment": "1A=b"}, r"environment: the name of a variable"),
        ({"step_s": 0}, r"step_s: a number from"),
        ({"lossless": "yes"}, r"lossless: true or false"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, words):
    with pytest.raises(InputError, match=words) as caught:
        CommandSimulator().described(settings)
    assert "\n" not in str(caught.value)


def test_no_shell_reads_the_arguments_and_values_stay_in_their_word(tmp_path):
    text = "printf '%s\\n' 'tick,actor,x_m,y_m' '1,1,0,0' \"#end,$#|$1|$2|$MY_WORD|$PWD\""
    (tmp_path / "print").write_text(text)
    base = {
        "program": "sh",
        "version": "",
        "scenarios": "a b; touch x $(touch y)",
        "channels": "x_m, y_m",
        "folder": str(tmp_path),
    }
    arguments = "print '{scenario}' 'seed {seed} {{}} $HOME'"
    simulator = CommandSimulator({**base, "arguments": arguments, "environment": "MY_WORD='a b'"})
    run = run_request(simulator, RunRequest("a b; touch x $(touch y)", 0, 7))
    assert run.end.reason == f"2|a b; touch x $(touch y)|seed 7 {{}} $HOME|a b|{tmp_path}"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["print"]


def test_what_is_missing_is_refused_before_a_study(tmp_path):
    def study(**settings):
        cell = {"simulator": "command", "scenario": "table1-test2", "settings": settings}
        return make_plan(json.dumps({"name": "x", "design": {"cells": [cell], "repeats": 2}}), "x")

    for settings, words in (
        ({}, "program: the program to run was wanted"),
        ({"program": "no-such-program"}, r"no-such-program is not installed \(no-such-program was not found\): install it"),
        ({"program": "false", "version": "x"}, "false ended by itself with exit code 1"),
        ({"program": "sh", "folder": str(tmp_path / "none")}, "none is not there"),
    ):
        with pytest.raises(StudyError, match=words):
            check_plan(study(**settings))
    with pytest.raises(StudyError, match="unknown setting of command 'progam': did you mean 'program'"):
        check_plan(study(progam="sh"))
    assert CommandSimulator({"program": "no-such-program"}).info().version == "not installed"
    with pytest.raises(UnknownNameError, match="unknown scenario of command"):
        run_once(CommandSimulator({"program": "sh", "version": ""}), "no such")


def test_a_scenario_file_of_the_users_own_is_passed_on(toy):
    scenario = toy / "mine.yaml"
    path = "[[0, 0], [20, 0]]"
    two = "\n".join(f"  - {{id: {n}, type: vehicle.tesla.model3, path: {path.replace('0]', f'{n * 9}]')}}}" for n in (1, 2))
    scenario.write_text(f"name: mine\nduration: 3 s\nactors:\n{two}\n")
    settings = {"program": "python3", "arguments": "toy_car.py {script} fixed", "channels": "x_m, y_m", "version": ""}
    run = run_once(CommandSimulator(settings), str(scenario))
    assert run.end.tick == 60
    assert shutil.which("python3").startswith(str(toy))
