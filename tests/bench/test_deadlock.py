"""The soak with a traffic manager: what is told of sessions that were ended, hung, or ended by themselves."""

import json
from dataclasses import asdict, replace

import pytest

from bench import deadlock
from bench.deadlock import EACH, Part, Soak, result_name, together


def test_sessions_add_up_and_the_longest_is_told():
    soak = Soak().after([700, 0, 0, 10], 2.0).after([300, 1, 4, 9], 3.0)
    figures = soak.figures()
    assert figures["ticks"] == 1000
    assert figures["ticks_in_one_go"] == 700
    assert figures["sessions"] == [700, 300]
    assert (figures["woken"], figures["respawned"], figures["fewest_vehicles"]) == (1, 4, 9)
    assert figures["ticks_per_s"] == pytest.approx(200.0)


def test_parts_of_one_number_of_vehicles_are_told_as_one():
    hung = replace(Soak().after([50, 0, 1, 99], 1.0), ticks_until_hang=[50])
    aborted = replace(Soak().after([20, 0, 2, 100], 1.0), ticks_until_abort=[20])
    both = together([hung, aborted, Soak()])
    assert both.ticks == 70
    assert (both.ticks_until_hang, both.ticks_until_abort) == ([50], [20])
    assert (both.respawned, both.fewest) == (3, 99)


def test_what_is_kept_is_read_again_as_it_was():
    soak = replace(Soak().after([50, 0, 1, 99], 1.0), ticks_until_abort=[50])
    assert Soak(**json.loads(json.dumps(asdict(soak)))) == soak


def test_shares_make_the_whole(monkeypatch):
    monkeypatch.setattr(deadlock, "TICKS", 1_000_003)
    monkeypatch.setattr(deadlock, "SHARES", 7)
    assert sum(Part(10, number).ticks for number in range(7)) == 1_000_003
    assert str(Part(10, 6)) == "10 vehicles, part 7 of 7"


def test_some_numbers_of_vehicles_do_not_take_the_place_of_all():
    assert result_name(EACH) == "deadlock"
    assert result_name((100,)) == "deadlock-100"
    assert result_name((0, 10)) == "deadlock-0-10"


def test_a_client_that_ends_by_itself_is_no_hang(monkeypatch, capsys):
    # The client is a process that makes some ticks and then does what is asked for; nothing of CARLA is needed.
    def client(end):
        code = (
            "import os, sys, time, numpy as np\n"
            "made = np.memmap(sys.argv[1], np.int64, 'r+')\n"
            "made[deadlock_made] = 40\n"
            f"{end}\n"
        ).replace("deadlock_made", str(deadlock.MADE))
        real = deadlock.subprocess.Popen
        monkeypatch.setattr(
            deadlock.subprocess, "Popen", lambda command, **options: real([command[0], "-c", code, command[-2]], **options)
        )
        try:
            return deadlock._watch(0, Part(3, 0), Soak(), lambda _: None)
        finally:
            monkeypatch.setattr(deadlock.subprocess, "Popen", real)

    monkeypatch.setattr(deadlock, "HUNG_S", 1.0)
    assert client("os.abort()").ticks_until_abort == [40]
    assert client("time.sleep(600)").ticks_until_hang == [40]
    ended = client("pass")
    assert (ended.sessions, ended.ticks_until_hang, ended.ticks_until_abort) == ([40], [], [])
    with pytest.raises(SystemExit, match="ended with 3 after 40 ticks"):
        client("sys.exit(3)")
    assert "the client ended with -6 after 40 ticks" in capsys.readouterr().out
