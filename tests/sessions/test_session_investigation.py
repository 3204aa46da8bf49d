"""The experiment behind a cause, with runs made by hand whose truth is known; and what runs inside a script's interpreter."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from samepath.sessions import script_runs
from samepath.sessions.causes import Place, ScriptFactor, WatchedCall, Witness, caller_of, read_witness, same_per_thread
from samepath.sessions.compare import compare_timelines
from samepath.sessions.investigation import Investigation, all_pinned, varied
from samepath.sessions.recording import read_session
from samepath.sessions.script_runs import Pins, ScriptRun
from tests.support.sessions import MadeSession, row

CAR = 7
HERE = Place("/home/me/drive.py", 12)


def made_run(path, throttle, witness, exit_code=0, order=("drive", "tick"), manager=False):
    made = MadeSession(path).connect().state(row(3)).synchronous()
    if manager:
        made.call("add_traffic_manager_running", ["127.0.0.1", 8000])
    made.tick(row(3)).spawn(CAR)
    for _ in range(2):
        for step in order:
            made.drive(CAR, throttle) if step == "drive" else made.tick(row(3), row(CAR))
    made.done()
    return ScriptRun(path.name, path, exit_code, 0.1, "", witness)


def witness(**changes):
    found = Witness(began=True, watches_carla=True, processes={1})
    found.calls = [WatchedCall("Vehicle.apply_control", CAR, "MainThread", HERE, 0.0)]
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def investigate(tmp_path, throttle_of, seen=None, first=0.1, second=0.2, manager=False, **changes):
    """Investigate a script whose throttle is a function of what is pinned; returns findings, labels of runs, and notes."""
    runs = [made_run(tmp_path / f"run-{number}", value, None, manager=manager) for number, value in ((1, first), (2, second))]
    comparison = compare_timelines(runs[0].timeline, runs[1].timeline)
    labels = []

    def run(label, pins):
        labels.append(label)
        return made_run(tmp_path / label, throttle_of(pins, len(labels)), seen or witness(), manager=manager, **changes)

    investigation = Investigation(run, runs[0], comparison, lambda _: None)
    return investigation.findings(), labels, investigation.notes


def test_what_varies_alone_and_parts_is_the_cause(tmp_path):
    seen = witness(draws=[("random.random", Place("/home/me/drive.py", 9))])
    (found,), labels, _ = investigate(tmp_path, lambda pins, _: pins.random / 10, seen)
    assert found.cause.name == "random without seed"
    assert str(found.place) == "drive.py:9"
    assert str(found.caller.place) == "drive.py:12"
    assert labels == ["pinned-1", "pinned-2", "pinned-3", "random-1"]


def test_what_is_seen_and_changes_nothing_is_innocent(tmp_path):
    """The clock is read, but the order of hashes decides."""
    seen = witness(clocks=[("time.time", HERE)], draws=[("random.random", HERE)])
    (found,), labels, _ = investigate(tmp_path, lambda pins, _: pins.hash_seed / 10, seen)
    assert found.cause.name.startswith("hash order (sets")
    assert [label for label in labels if label.startswith(("random", "clock"))] == [
        *[f"random-{number}" for number in (1, 2, 3)], *[f"clock-{number}" for number in (1, 2, 3)],
    ]  # fmt: skip


def test_addresses_are_told_from_hashes(tmp_path):
    (found,), _, _ = investigate(tmp_path, lambda pins, count: 0.5 if pins.addresses else 0.01 * count)
    assert "memory addresses" in found.cause.name


def test_a_traffic_manager_is_tried_first_where_there_is_one(tmp_path):
    (found,), labels, _ = investigate(
        tmp_path, lambda pins, count: 0.5 if pins.manager_synchronous else 0.01 * count, manager=True
    )
    assert found.cause.name == "unsynchronised traffic manager"
    assert labels[-1] == "manager-mode-1"


def test_a_traffic_manager_without_a_seed_is_another_cause(tmp_path):
    (found,), _, _ = investigate(tmp_path, lambda pins, _: pins.manager_seed / 10, manager=True)
    assert found.cause.name == "traffic manager without seed"


def test_what_parts_although_all_is_pinned_is_a_thread_where_several_call(tmp_path):
    seen = witness(threads=[("driver", Place("/home/me/drive.py", 30))])
    seen.calls.append(WatchedCall("World.tick", None, "driver", HERE, 0.0))
    (found,), labels, _ = investigate(tmp_path, lambda _, count: 0.01 * count, seen)
    assert found.cause.name == "thread"
    assert str(found.place) == "drive.py:30"
    assert "each thread, taken for itself, makes the same calls in both runs: only their order differs" in found.evidence
    assert labels == ["pinned-1", "pinned-2"]


def test_callbacks_of_sensors_are_threads_too(tmp_path):
    seen = witness()
    seen.calls.append(WatchedCall("Sensor.listen", 9, "MainThread", Place("/home/me/drive.py", 40), 0.0))
    (found,), _, _ = investigate(tmp_path, lambda _, count: 0.01 * count, seen)
    assert (found.cause.name, str(found.place)) == ("thread", "drive.py:40")


def test_several_processes_are_several_clients(tmp_path):
    (found,), _, _ = investigate(tmp_path, lambda _, count: 0.01 * count, witness(processes={1, 2}))
    assert found.cause.name == "several clients without an order"


def test_nothing_is_guessed_where_nothing_is_left(tmp_path):
    (found,), _, _ = investigate(tmp_path, lambda _, count: 0.01 * count)
    assert found.cause.name == "unknown"
    assert any("is not known" in line for line in found.evidence)


def test_a_difference_that_does_not_come_again_is_said_to_be_rare(tmp_path):
    (found,), labels, _ = investigate(tmp_path, lambda *_: 0.5)
    assert found.cause.name == "unknown"
    assert "run it more often" in found.evidence[0]
    assert len([label for label in labels if label.startswith("hash")]) == 6


def test_a_script_that_breaks_when_it_is_pinned_is_told_from_its_calls_and_that_is_said(tmp_path):
    (found,), labels, notes = investigate(tmp_path, lambda *_: 0.5, exit_code=1)
    assert found.cause.name == "unknown"
    assert labels == ["pinned-1"]
    assert "no experiment can be made" in notes[0]


def test_pins_vary_one_at_a_time():
    pins = all_pinned(addresses=True, manager=True)
    for factor in ScriptFactor:
        changed = varied(pins, factor, 1)
        fields = [name for name in vars(pins) if getattr(pins, name) != getattr(changed, name)]
        assert len(fields) == 1, factor


def test_the_line_of_a_call_is_the_last_that_could_have_sent_it(tmp_path):
    made = MadeSession(tmp_path / "s").connect().drive(CAR, 0.1).drive(8, 0.2).tick(row(3))
    made.done()
    calls = [
        WatchedCall("Vehicle.apply_control", CAR, "MainThread", Place("a.py", 1), 0.0005),
        WatchedCall("Vehicle.apply_control", 8, "MainThread", Place("a.py", 2), 0.0006),
        WatchedCall("World.tick", None, "MainThread", Place("a.py", 3), 0.0007),
        WatchedCall("Vehicle.apply_control", CAR, "MainThread", Place("a.py", 9), 5.0),
    ]
    seen = Witness(calls=calls)
    recording = read_session(tmp_path / "s")
    assert [caller_of(recording, number, actor, seen).place.line for number, actor in ((1, CAR), (2, 8), (3, None))] == [
        1,
        2,
        3,
    ]
    assert caller_of(recording, 99, None, seen) is None


def test_threads_that_do_other_things_are_not_merely_interleaved():
    ours = Witness(calls=[WatchedCall("World.tick", None, "a", HERE, 0.0), WatchedCall("World.tick", None, "b", HERE, 0.0)])
    theirs = Witness(calls=[WatchedCall("World.tick", None, "b", HERE, 0.0), WatchedCall("World.tick", None, "a", HERE, 0.0)])
    assert same_per_thread(ours, theirs)
    theirs.calls[0] = WatchedCall("World.set_weather", None, "b", HERE, 0.0)
    assert not same_per_thread(ours, theirs)


def test_a_report_that_breaks_off_is_read_up_to_there(tmp_path):
    path = tmp_path / "witness.jsonl"
    whole = (
        json.dumps({"kind": "begin", "pid": 7})
        + "\n"
        + json.dumps({"kind": "clock", "pid": 7, "name": "time.time", "file": "a", "line": 3})
    )
    path.write_text(whole + '\n{"kind": "call", "na')
    found = read_witness(path)
    assert found.began
    assert found.clocks == [("time.time", Place("a", 3))]
    assert not read_witness(tmp_path / "none").began


INSIDE = """
import sys, time, random, threading, uuid, datetime, queue
before = time.time()
time.sleep(0.25)
print(round(before, 3), round(time.time() - before, 3), datetime.datetime.now(datetime.timezone.utc).year)
print(random.random(), random.Random().random(), uuid.uuid4(), isinstance(datetime.datetime.now(), datetime.datetime))
try:
    import numpy
    print(numpy.random.rand(), numpy.random.default_rng().random())
except ImportError:
    pass
worker = threading.Thread(target=lambda: None, name="worker")
worker.start()
worker.join()
try:
    queue.Queue().get(timeout=0.01)
except queue.Empty:
    print("queues keep the real clock")
print("".join({"a", "b", "c", "d", "e"}))
"""


def inside(tmp_path, name, pins):
    """Run a script with our sitecustomize in its interpreter; returns what it printed, and what was seen."""
    script, folder = tmp_path / "inside.py", tmp_path / name
    script.write_text(INSIDE)
    folder.mkdir()
    environment = {**os.environ, **script_runs._watching(folder, pins, dict(os.environ))}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout, read_witness(folder / "witness.jsonl")


def test_inside_a_script_everything_that_is_pinned_repeats_and_everything_else_does_not(tmp_path):
    pinned = all_pinned(addresses=False, manager=False)
    first, seen = inside(tmp_path, "first", pinned)
    assert first == inside(tmp_path, "second", pinned)[0]
    assert first.startswith("1700000000.0 0.26 2023")
    assert "queues keep the real clock" in first
    assert first != inside(tmp_path, "other", varied(pinned, ScriptFactor.RANDOM, 1))[0]
    free, seen_free = inside(tmp_path, "free", Pins())
    assert free != first
    for found in (seen, seen_free):
        assert found.began
        assert not found.problems
        lines = {(name, place.line) for name, place in (*found.draws, *found.clocks, *found.threads)}
        assert {("time.time", 3), ("random.random", 6), ("worker", 13)} <= lines
        assert not [place for _, place in (*found.draws, *found.clocks) if Path(place.file).name != "inside.py"]


def test_the_users_own_sitecustomize_still_runs(tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "sitecustomize.py").write_text("print('theirs')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "theirs")}
    environment |= script_runs._watching(tmp_path, Pins(), environment)
    done = subprocess.run(
        [sys.executable, "-c", "print('script')"], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["theirs", "script"]


@pytest.mark.parametrize("program", ["import random; random.seed(3); print(random.random())"])
def test_a_seed_of_the_scripts_own_is_kept(tmp_path, program):
    plain = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    environment = {**os.environ, **script_runs._watching(tmp_path, Pins(random=5), dict(os.environ))}
    watched = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert watched == plain
