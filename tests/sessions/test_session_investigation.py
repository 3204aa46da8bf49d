"""The experiment behind a cause, with runs made by hand whose truth is known; and what runs inside a script's interpreter."""

import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from samepath.sessions import investigation, script_runs
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


def investigate(tmp_path, throttle_of, seen=None, first=0.1, second=0.2, manager=False, tries=3, **changes):
    """Investigate a script whose throttle is a function of what is pinned; returns findings, labels of runs, and notes.

    What is not pinned is another value in every run, as the operating system gives it.
    """
    tmp_path.mkdir(exist_ok=True)
    runs = [made_run(tmp_path / f"run-{number}", value, None, manager=manager) for number, value in ((1, first), (2, second))]
    comparison = compare_timelines(runs[0].timeline, runs[1].timeline)
    labels = []

    def run(label, pins):
        labels.append(label)
        return made_run(tmp_path / label, throttle_of(pins, len(labels)), seen or witness(), manager=manager, **changes)

    made = Investigation(run, runs[0], comparison, lambda _: None, tries=tries)
    return made.findings(), labels, made.notes


def free(pins, count, name):
    """A pinned value, or one that no other run has."""
    value = getattr(pins, name)
    return 0.01 * count + 0.005 if value is None or value is False else float(value) / 10


DRAW = Place("/home/me/drive.py", 9)
UNUSED = Place("/home/me/drive.py", 5)


def test_an_input_that_brings_the_difference_back_and_removes_it_is_the_cause(tmp_path):
    seen = witness(draws=[("random.random", DRAW)])
    (found,), labels, _ = investigate(tmp_path, lambda pins, count: free(pins, count, "random"), seen)
    assert found.cause.name == "random without seed"
    assert str(found.caller.place) == "drive.py:12"
    assert labels[:5] == ["pinned-1", "pinned-2", "pinned-3", "random-1", "random-1-drive-9"]
    assert [label.rstrip("0123456789") for label in labels[5:]] == ["random-test-"] * 8 + ["random-alone-test-"] * 8
    assert "4 of 4 runs" in found.evidence[1]
    assert "0 of 4 fresh controls (exact test: p = 0.014" in found.evidence[1]


def test_the_line_is_the_one_whose_value_reaches_the_call(tmp_path):
    """The first line that draws acts on nothing."""
    seen = witness(draws=[("random.choice", UNUSED), ("random.random", DRAW)])

    def throttle(pins, count):
        if pins.line == (DRAW.file, DRAW.line):
            return pins.line_random / 10
        return free(pins, count, "random")

    (found,), labels, _ = investigate(tmp_path, throttle, seen)
    assert str(found.place) == "drive.py:9"
    assert {"random-1-drive-5", "random-1-drive-9"} <= set(labels)


def test_no_line_is_named_where_none_alone_is_enough(tmp_path):
    (found,), _, _ = investigate(
        tmp_path, lambda pins, count: free(pins, count, "random"), witness(draws=[("random.choice", UNUSED)])
    )
    assert (found.cause.name, found.place) == ("random without seed", None)


def test_what_is_seen_and_changes_nothing_is_innocent(tmp_path):
    """The clock is read, but the order of hashes decides."""
    seen = witness(clocks=[("time.time", HERE)], draws=[("random.random", HERE)])
    (found,), labels, _ = investigate(tmp_path, lambda pins, count: free(pins, count, "hash_seed"), seen)
    assert found.cause.name.startswith("hash order (sets")
    assert [label for label in labels if label.startswith(("random", "clock"))] == [
        *[f"random-{number}" for number in (1, 2, 3)], *[f"clock-{number}" for number in (1, 2, 3)],
    ]  # fmt: skip


def test_addresses_are_told_from_hashes(tmp_path):
    (found,), _, _ = investigate(tmp_path, lambda pins, count: free(pins, count, "addresses"))
    assert "memory addresses" in found.cause.name


def test_a_traffic_manager_is_tried_first_where_there_is_one(tmp_path):
    (found,), labels, _ = investigate(tmp_path, lambda pins, count: free(pins, count, "manager_synchronous"), manager=True)
    assert found.cause.name == "unsynchronised traffic manager"
    assert labels[3] == "manager-mode-1"


def test_a_traffic_manager_without_a_seed_is_another_cause(tmp_path):
    (found,), _, _ = investigate(tmp_path, lambda pins, count: free(pins, count, "manager_seed"), manager=True)
    assert found.cause.name == "traffic manager without seed"


def two_threads():
    seen = witness(threads=[("idle", Place("/home/me/drive.py", 3)), ("driver", Place("/home/me/drive.py", 30))])
    seen.calls.append(WatchedCall("World.tick", None, "driver", HERE, 0.0))
    return seen


def test_threads_are_the_cause_if_holding_the_order_of_their_calls_removes_the_difference(tmp_path):
    (found,), labels, _ = investigate(tmp_path, lambda pins, count: 0.5 if pins.order else 0.01 * count, two_threads())
    assert (found.cause.name, str(found.place)) == ("thread", "drive.py:30")
    assert labels[:6] == ["pinned-1", "pinned-2", "ordered-1", "ordered-2", "ordered-3", "order-1"]


def test_threads_are_not_blamed_for_what_differs_in_any_order(tmp_path):
    """As a process id does."""
    (found,), _, _ = investigate(tmp_path, lambda _, count: 0.01 * count, two_threads())
    assert found.cause.name == "unknown"
    assert any("the order of their calls was held too" in line for line in found.evidence)


@pytest.mark.parametrize("name", ["Sensor.listen", "thread", "process"])
def test_what_runs_beside_the_script_is_not_blamed_for_what_is_left(tmp_path, name):
    """A listening sensor, an idle thread, another process: all are there in most scripts, and none was tested."""
    seen = witness(processes={1, 2} if name == "process" else {1})
    if name == "thread":
        seen.threads.append(("idle", HERE))
    else:
        seen.calls.append(WatchedCall(name, 9, "MainThread", Place("/home/me/drive.py", 40), 0.0))
    (found,), _, _ = investigate(tmp_path, lambda _, count: 0.01 * count, seen)
    assert (found.cause.name, found.place) == ("unknown", None)
    assert found.cause.advice


def test_two_causes_of_one_value_are_unknown_and_both_are_said(tmp_path):
    seen = witness(clocks=[("time.time", HERE)], draws=[("random.random", DRAW)])

    def throttle(pins, count):
        clock = 0.003 * count + 0.5 if pins.clock is None else pins.clock[1] / 10
        return free(pins, count, "random") + clock

    (found,), _, _ = investigate(tmp_path, throttle, seen)
    assert found.cause.name == "unknown"
    told = " ".join(found.evidence)
    assert "changing the random numbers matters" in told
    assert "two causes" in found.cause.advice


@pytest.mark.parametrize("every", [3, 5])
def test_a_difference_of_every_nth_run_is_not_blamed_on_what_happened_to_vary(tmp_path, every):
    """As a file does that a script leaves behind: the run that finds it may be the one that tries a hash seed."""
    seen = witness(draws=[("random.random", DRAW)], clocks=[("time.time", HERE)])
    (found,), _, _ = investigate(tmp_path, lambda _, count: 0.9 if count % every == 0 else 0.5, seen)
    assert found.cause.name == "unknown"


def test_a_rare_cause_is_found_with_more_tries(tmp_path):
    """One number in eight brakes; which one is found by trying, and then it is tested like any other."""
    seen = witness(draws=[("random.random", DRAW)])
    rare = lambda pins, count: 0.9 if (count if pins.random is None else pins.random) % 8 == 7 else 0.5  # noqa: E731
    assert investigate(tmp_path / "few", rare, seen)[0][0].cause.name == "unknown"
    assert investigate(tmp_path / "many", rare, seen, tries=8)[0][0].cause.name == "random without seed"


def test_a_difference_that_does_not_come_again_is_said_to_be_rare(tmp_path):
    (found,), labels, _ = investigate(tmp_path, lambda *_: 0.5)
    assert found.cause.name == "unknown"
    assert "--tries" in found.cause.advice
    assert len([label for label in labels if label.startswith("hash")]) == 6


def test_a_script_that_breaks_when_it_is_pinned_is_unknown_and_that_is_said(tmp_path):
    (found,), labels, notes = investigate(tmp_path, lambda *_: 0.5, exit_code=1)
    assert found.cause.name == "unknown"
    assert labels == ["pinned-1"]
    assert "no experiment can be made" in notes[0]


@pytest.mark.parametrize("share", [1 / 20, 1 / 8, 1 / 3, 1 / 2, 0.9, 1.0])
def test_a_cause_that_is_no_input_is_blamed_on_an_input_in_at_most_one_case_of_twenty(tmp_path, share):
    """Of 150 investigations of a difference that nothing pinned decides, 5 % and three standard errors may name a cause."""
    runs = [made_run(tmp_path / name, value, two_threads()) for name, value in (("a", 0.1), ("b", 0.2))]
    comparison = compare_timelines(runs[0].timeline, runs[1].timeline)
    for run in runs:
        run.witness.draws.append(("random.random", DRAW))
        run.witness.clocks.append(("time.time", HERE))
    known = {}

    def compared(ours, theirs):
        key = id(ours), id(theirs)
        if key not in known:
            known[key] = compare_timelines(ours, theirs)
        return known[key]

    chance, cases, named = random.Random(1), 150, 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(investigation, "compare_timelines", compared)
        for _ in range(cases):
            found = Investigation(
                lambda *_: runs[chance.random() < share], runs[0], comparison, lambda _: None, shuffle=chance.shuffle
            ).findings()
            named += found[0].cause.name != "unknown"
    assert named <= cases * 0.05 + 3 * (cases * 0.05 * 0.95) ** 0.5


def test_pins_vary_one_at_a_time():
    pins = replace(all_pinned(addresses=True, manager=True), order=("MainThread", "driver"))
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


CLOCKS = """
import datetime, time
class Mine(datetime.datetime):
    pass
print(time.strftime("%H%M%S"), time.localtime()[:6], time.gmtime()[:6], time.ctime(), time.asctime())
print(time.clock_gettime(time.CLOCK_REALTIME), time.clock_gettime_ns(time.CLOCK_REALTIME), datetime.date.today())
print([datetime.datetime.now().microsecond % 4 for _ in range(20)], [time.time_ns() % 3 for _ in range(20)])
print(isinstance(datetime.datetime.now(), datetime.date), isinstance(datetime.datetime.now(), Mine))
"""


def outside(tmp_path, name, pins, program):
    """Run a program with our sitecustomize in its interpreter; returns the lines that it printed."""
    script, folder = tmp_path / "outside.py", tmp_path / name
    script.write_text(program)
    folder.mkdir()
    environment = {**os.environ, **script_runs._watching(folder, pins, dict(os.environ))}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_every_way_to_read_the_clock_is_pinned_and_varies(tmp_path):
    pins = all_pinned(addresses=False, manager=False)
    first = outside(tmp_path, "first", pins, CLOCKS)
    assert outside(tmp_path, "again", pins, CLOCKS) == first
    other = outside(tmp_path, "other", varied(pins, ScriptFactor.CLOCK, 1), CLOCKS)
    assert all(a != b for a, b in zip(first[:3], other[:3], strict=True))
    assert len({*json.loads(first[2].split("] [")[0] + "]")}) == 4, "the last digits vary as those of a real clock"
    assert first[3] == "True False"


DRAWS = """
import random, time
print(random.random())
print(random.random(), random.Random().random())
print(time.time())
print(time.time())
"""


@pytest.mark.parametrize(("line", "changed"), [(3, [0]), (4, [1]), (5, [2]), (6, [3]), (99, [])])
def test_the_values_of_one_line_change_and_those_of_no_other(tmp_path, line, changed):
    pins = all_pinned(addresses=False, manager=False)
    place = (str(tmp_path / "outside.py"), line)
    first = outside(tmp_path, "first", pins, DRAWS)
    other = outside(tmp_path, "other", replace(pins, line=place, line_random=2, line_clock=(1.6e9, 0.02)), DRAWS)
    assert [number for number, (a, b) in enumerate(zip(first, other, strict=True)) if a != b] == changed


# A module with CARLA's name and two of its classes: what is tested is the order in which threads get through.
TURNS = """
import sys, threading, types
carla = types.ModuleType("carla")
class Vehicle:
    id = 7
    def apply_control(self, name):
        print(name + chr(10), end="", flush=True)
class World:
    pass
carla.Vehicle, carla.World = Vehicle, World
class Finder:
    def find_spec(self, name, path=None, target=None):
        import importlib.machinery
        class Loader:
            def create_module(self, spec): return carla
            def exec_module(self, module): pass
        return importlib.machinery.ModuleSpec(name, Loader()) if name == "carla" else None
sys.meta_path.insert(1, Finder())
import carla
def work(name, times):
    for _ in range(times):
        carla.Vehicle().apply_control(name)
threads = [threading.Thread(target=work, args=(name, 3), name=name) for name in "ab"]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_threads_call_in_the_order_that_is_pinned(tmp_path):
    for name in ("abbaba", "bbbaaa", "ababab"):
        lines = outside(tmp_path, name, Pins(order=tuple(name)), TURNS)
        assert "".join(lines) == name


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
