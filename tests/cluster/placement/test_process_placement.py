"""Nodes as plain processes: what they are told, when they are started again, and that none is ever left behind."""

import os
import signal
import threading
from pathlib import Path

import pytest

from samepath.cluster.placement.processes import NodeProcess, plain
from samepath.cluster.placement.records import (
    MOST_RESTARTS,
    NodeKeys,
    NodeSpec,
    decode_start_line,
    encode_start_line,
    starts_again,
)
from samepath.core.errors import InputError
from tests.support import ROOT
from tests.support.placed import SECRET, Placed, alive, wait_until

ORDER = NodeSpec("node-1", 1, "tcp://127.0.0.1:9")
KEYS = NodeKeys("M" * 40, "P" * 40, SECRET)


@pytest.fixture(scope="module")
def placed():
    started = Placed("processes")
    yield started
    assert started.close() == (0, "")
    pids = [pid for name in ("calm", "crashes", "frozen", "tells", "stubborn") for pid in started.pids(name)]
    assert pids
    assert not any(map(alive, pids))


def test_a_node_has_its_order_and_its_keys_but_shows_no_key_to_others(placed):
    placed.tell("start", "calm")
    pid = placed.wait_for_life("calm", 1)
    assert placed.lines("calm")[-1] == f"ready {pid} 3 True {SECRET}"
    for file in ("cmdline", "environ"):
        assert SECRET.encode() not in Path(f"/proc/{pid}/{file}").read_bytes()
    assert os.getpgid(pid) == pid  # a terminal's Ctrl-C reaches the main server alone


def test_what_a_node_prints_moves_no_cursor(placed):
    placed.tell("start", "tells")
    placed.wait(lambda: len(placed.lines("tells")) == 2, "two lines")
    assert placed.lines("tells")[1].endswith("?[2J")
    assert plain(b"a\x1b\xffb\r\n") == "a?�b"


def test_one_that_leaves_or_is_refused_is_not_started_again(placed):
    for name in ("leaves", "refused"):
        placed.tell("start", name)
    placed.wait(lambda: placed.ends("leaves") and placed.ends("refused"), "both ends")
    assert placed.ends("leaves") == [(1, "ended by itself with exit code 0", False)]
    assert placed.ends("refused") == [(1, "ended by itself with exit code 2", False)]
    assert placed.lines("refused")[-1] == "another map was wanted"


def test_one_that_crashes_is_started_again_and_counted(placed):
    placed.tell("start", "crashes")
    placed.wait_for_life("crashes", 3)
    placed.wait(lambda: len(placed.ends("crashes")) >= 2, "two ends")
    assert placed.ends("crashes")[:2] == [(number, "ended by itself with exit code 7", True) for number in (1, 2)]
    placed.tell("stop", "crashes")
    lives = len(placed.pids("crashes"))
    placed.tell("start", "calm")  # takes the place of the calm one
    placed.wait_for_life("calm", 2)
    placed.wait(lambda: placed.ends("calm"), "the end of the first")
    assert placed.ends("calm") == [(1, "was ended by signal 15 (SIGTERM)", False)]
    assert len(placed.pids("crashes")) <= lives + 1


def test_one_that_is_killed_or_frozen_comes_back(placed):
    placed.tell("start", "frozen")
    first = placed.wait_for_life("frozen", 1)
    os.kill(first, signal.SIGKILL)
    second = placed.wait_for_life("frozen", 2)
    os.kill(second, signal.SIGSTOP)
    placed.tell("restart", "frozen", str(first))  # whoever notices late that the first has failed does not mean its successor
    placed.tell("restart", "frozen", str(second))
    third = placed.wait_for_life("frozen", 3)
    placed.wait(lambda: len(placed.ends("frozen")) >= 2, "two ends")
    assert placed.ends("frozen") == [(number, "was ended by signal 9 (SIGKILL)", True) for number in (1, 2)]
    assert not alive(second)
    for failed in (first, second):
        placed.tell("restart", "frozen", str(failed))
    lives = len(placed.pids("calm"))
    placed.tell("start", "calm")  # behind that, and it takes an interpreter's start
    placed.wait_for_life("calm", lives + 1)
    assert alive(third)
    assert len(placed.pids("frozen")) == 3


def test_nodes_end_with_a_main_server_that_is_killed():
    killed = Placed("processes")
    pids = []
    for name in ("calm", "stubborn"):
        killed.tell("start", name)
        pids.append(killed.wait_for_life(name, 1))
    killed.process.kill()
    wait_until(lambda: not any(map(alive, pids)), "the nodes' end")
    killed.close()


def test_one_that_does_not_end_when_asked_is_killed(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    lines, codes, ready = [], [], threading.Event()

    def line(words):
        lines.append(words)
        ready.set()

    life = NodeProcess(NodeSpec("stubborn", 1, ""), KEYS, line, codes.append, module="tests.support.stand_in_node")
    assert ready.wait(30)
    life.stop(0.05)
    life.stop(0.05)
    life.wait()
    assert codes == [-signal.SIGKILL]


def test_a_node_that_is_stopped_before_it_began_is_never_started(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    codes = []
    life = NodeProcess(ORDER, KEYS, lambda words: None, codes.append, module="no_such_module_at_all")
    life.kill()
    life.wait()
    assert len(codes) == 1
    assert codes[0] != 0


def test_an_order_travels_as_it_is_and_anything_else_is_refused():
    assert decode_start_line(encode_start_line(ORDER, KEYS, 17)) == (ORDER, KEYS, 17)
    assert SECRET not in repr(KEYS)
    for line in (b"", b"hello\n", b"[]\n", b'{"order": {"name": "x"}, "keys": {}, "watched": null}\n'):
        with pytest.raises(InputError, match="samepath cluster node"):
            decode_start_line(line)


@pytest.mark.parametrize(
    ("code", "earlier", "again"),
    [(0, 0, False), (2, 0, False), (1, 0, True), (-9, MOST_RESTARTS - 1, True), (-9, MOST_RESTARTS, False)],
)
def test_who_is_started_again(code, earlier, again):
    assert starts_again(code, earlier) is again
