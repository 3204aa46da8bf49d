"""``samepath cluster status``: a table, JSON, one line when nobody answers."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from samepath.cli import cluster as verb
from samepath.cluster.monitor.client import MonitorAddress, publish_address
from samepath.cluster.monitor.status import ClusterStatus, from_json
from samepath.core.errors import SamepathError
from tests.support.watched_clusters import desynchronised, node, one_fenced, working
from tests.support.watched_web import watched


def run(*arguments):
    return CliRunner().invoke(verb.app, ["status", *map(str, arguments)])


def printed(status, width=120) -> str:
    console = Console(width=width, file=io.StringIO())
    console.print(verb.view(status, "http://127.0.0.1:8200/", wide=width >= 110))
    return console.file.getvalue()


def test_a_table_of_nodes_from_the_run_folder(tmp_path):
    with watched(one_fenced) as web:
        publish_address(tmp_path, web.url, "")
        found = run("--run", tmp_path)
    assert found.exit_code == 0
    rows = [line.split() for line in found.output.splitlines()]
    assert ["node-1", "working", "87%", "140", "21.6", "ms", "0", "0", "0", "6", "1", "1.00", "127.0.0.1:2010"] in rows
    assert any(row[:5] == ["node-2", "fenced,", "silent", "4", "s"] for row in rows)
    for words in (
        "crossing: real time, map town, episode 1, tick 2345",
        "desynchronised 0 of 9380 state digests",
        "late 12 (at worst 31 ms), dropped 2, ordered again 6",
        "latency 1.9 ms (median), 2.7 ms (99 %), 2.7 ms (longest)",
        "this tick waits for node-3",
        "tick 2343: node-2 is fenced; another node is being started",
        f"live page: {web.url}",
    ):
        assert words in found.output


def test_the_default_is_the_folder_a_cluster_is_started_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with watched(working) as web:
        publish_address(tmp_path / "cluster-run", web.url, "")
        assert "crossing: lockstep" in run().output


def test_json_is_the_status_itself():
    with watched(working) as web:
        found = run("--url", web.url, "--json")
    assert from_json(found.output.encode()) == working()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--url", "http://127.0.0.1:1"], "no cluster answers at http://127.0.0.1:1 (Connection refused)"),
        (["--run", "/no/such/folder"], "/no/such/folder is no folder"),
        (["--url", "127.0.0.1"], "an address such as"),
        (["--run", ".", "--url", "http://127.0.0.1:1"], "but both came"),
        ([], "cluster-run is no folder"),
    ],
)
def test_when_nobody_answers_one_line_says_so(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = run(*arguments)
    assert isinstance(found.exception, SamepathError)
    assert words in str(found.exception)
    assert "\n" not in str(found.exception)


def test_a_difference_is_seen_in_the_table():
    text = printed(desynchronised())
    assert "desynchronised 2 of 9380 state digests" in text
    (row,) = [line for line in text.splitlines() if line.startswith("node-4")]
    assert row.split()[7:9] == ["0", "2"]


def test_a_cluster_that_has_just_begun_claims_nothing():
    text = printed(ClusterStatus("new", "1", "town", 1, 0, "lockstep"))
    assert "nothing compared yet" in text
    assert "tick time -, mean -; 0.0 ticks/s" in text
    assert "latency" not in text


def test_a_narrow_terminal_gets_fewer_columns_and_no_line_is_cut():
    text = printed(one_fenced(), width=80)
    assert "address" not in text
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_names_from_outside_cannot_move_the_cursor():
    status = replace(
        working(), name="a\x1b[2Jb", map_name="m\rm", problems=("tick 1: \x1b]0;x\x07",), nodes=(node(1, name="n\x1b[1A"),)
    )
    for text in (printed(status), verb.line(status)):
        assert "\x1b" not in text
        assert "\r" not in text
        assert "\x07" not in text


class EnoughError(Exception):
    """The end of a test that would watch for ever."""


class Steps:
    """A clock that calls something at each sleep and takes no time."""

    def __init__(self, *steps):
        self.now_s, self._steps = 0.0, list(steps)

    def monotonic_s(self):
        return self.now_s

    def utc_iso(self):
        return ""

    def sleep_s(self, seconds):
        self.now_s += seconds
        if not self._steps:
            raise EnoughError
        self._steps.pop(0)()


def test_watching_goes_on_while_nobody_answers_and_says_for_how_long():
    shown, said, frames = [], [], iter([7, 8])
    with watched(lambda: working(frame=next(frames))) as web, watched(lambda: working(frame=100)) as other:
        site = MonitorAddress(web.url)

        def come_back():
            object.__setattr__(site, "url", other.url)

        clock = Steps(lambda: None, web.stop, lambda: None, come_back)
        with pytest.raises(EnoughError):
            verb._repeat(site, working(frame=6), lambda status: shown.append(status.frame), said.append, clock)
    assert shown == [6, 7, 100]
    assert [words.partition(" for ")[2] for words in said] == ["1 s", "2 s"]


def test_ctrl_c_ends_watching_without_a_word(monkeypatch):
    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(verb.SYSTEM_CLOCK), "sleep_s", lambda self, seconds: interrupted(seconds))
    with watched(working) as web:
        found = run("--url", web.url, "--watch")
        as_json = run("--url", web.url, "--watch", "--json")
    assert found.exit_code == 0
    assert found.output.strip() == verb.line(working())
    assert json.loads(as_json.output)["frame"] == 2345


@pytest.mark.parametrize(
    ("value_s", "words"),
    [(None, "-"), (0.0, "0"), (8.5e-4, "850 µs"), (0.0009999, "1 ms"), (0.0216, "21.6 ms"), (1.25, "1.25 s"), (120.0, "2 min")],
)
def test_times_are_written_for_people(value_s, words):
    assert verb.seconds(value_s) == words
