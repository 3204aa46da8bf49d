"""Conditions of a process: set in a real one, read back from its kernel, refused where they did not come about."""

import json
import os
import subprocess
import sys

import pytest

from samepath.core.errors import StudyError
from samepath.instrument.conditions import layout, process
from samepath.instrument.conditions.applicable import attempt
from samepath.instrument.host.facts import format_cores

ALLOWED = os.sched_getaffinity(0)
PR_CAPBSET_DROP, CAP_SYS_NICE = 24, 23


def run(condition, code, check=True):
    """Run code in a new interpreter that was started under a condition."""
    return subprocess.run(
        process.command(condition, [sys.executable, "-c", code]),
        env={**os.environ, **process.environment(condition)},
        capture_output=True,
        text=True,
        check=check,
    )


def applied(condition):
    """Apply a condition in a process of its own and return what was read back, or the error."""
    code = (
        "import sys, json; from samepath.instrument.conditions.process import apply;"
        "print(json.dumps(apply(json.loads(sys.argv[1]))))"
    )
    argv = process.command(condition, [sys.executable, "-c", code, json.dumps(condition)])
    environment = {**os.environ, **process.environment(condition)}
    return json.loads(subprocess.run(argv, env=environment, stdout=subprocess.PIPE, check=True).stdout)


def test_nice_scheduler_and_cores_are_set_and_read_back_from_the_kernel():
    found = applied({"nice": 5, "scheduler": "batch", "cores": "one"})
    assert (found["nice"], found["scheduler"], found["cores"]) == (5, "batch", str(max(ALLOWED)))


def test_another_reader_sees_the_same_and_children_inherit_it():
    code = (
        "import os, subprocess, sys; from samepath.instrument.conditions.process import apply;"
        "apply({'nice': 7, 'cores': 'one'});"
        "subprocess.run([sys.executable, '-c', 'print(open(\"/proc/self/stat\").read(), open(\"/proc/self/status\").read())'])"
    )
    text = run({}, code).stdout
    assert text[text.index(")") :].split()[17] == "7"  # field 19 of stat
    assert f"Cpus_allowed_list:\t{max(ALLOWED)}\n" in text


def test_threads_that_are_there_already_are_changed_too():
    code = """
import os, threading
from samepath.instrument.conditions.process import apply
hold, ready = threading.Event(), threading.Event()
ids = []
def wait():
    ids.append(threading.get_native_id()); ready.set(); hold.wait()
thread = threading.Thread(target=wait); thread.start(); ready.wait()
apply({"nice": 3, "scheduler": "batch", "cores": "one"})
print(os.getpriority(os.PRIO_PROCESS, ids[0]), os.sched_getscheduler(ids[0]), sorted(os.sched_getaffinity(ids[0])))
hold.set(); thread.join()
"""
    assert run({}, code).stdout.split() == ["3", str(os.SCHED_BATCH), f"[{max(ALLOWED)}]"]


def test_without_a_condition_everything_is_read_and_nothing_changed():
    before = process.read_back()
    assert process.apply({}) == before == process.read_back()
    assert before["nice"] == os.getpriority(os.PRIO_PROCESS, 0)
    assert before["cores"] == format_cores(ALLOWED)
    assert {"nice", "scheduler", "cores", "hash_seed", "threads"} <= set(before)


@pytest.mark.parametrize(("level", "cores"), [("all", {2, 3, 7}), ("one", {7}), ("3", {3}), ("2-3", {2, 3}), ("7,2", {2, 7})])
def test_levels_of_cores(level, cores):
    assert process.chosen_cores(level, {2, 3, 7}) == cores


@pytest.mark.parametrize("level", ["0", "2-4"])
def test_cores_that_may_not_be_used_are_refused_and_named(level):
    with pytest.raises(StudyError, match=r"there is no [04] to use: this process may use 2-3,7"):
        process.chosen_cores(level, {2, 3, 7})


@pytest.mark.parametrize(("seed", "environment"), [(0, {}), (5, {}), ("random", {"PYTHONHASHSEED": "5"})])
def test_the_hash_seed_is_read_as_the_interpreter_has_it(seed, environment, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert applied({"hash_seed": seed})["hash_seed"] == seed


def test_hashes_repeat_under_a_seed_and_differ_without():
    texts = {
        level: [run({"hash_seed": level}, "print(hash('samepath'))").stdout for _ in range(2)] for level in (1, 2, "random")
    }
    assert texts[1][0] == texts[1][1] != texts[2][0] == texts[2][1]
    assert texts["random"][0] != texts["random"][1]


def test_a_variable_set_too_late_does_not_count():
    code = (
        f"import os; os.environ['PYTHONHASHSEED'] = '5'; os.environ.update(dict.fromkeys({process.THREAD_VARIABLES!r}, '3'));"
        "from samepath.instrument.conditions.process import read_back;"
        "found = read_back(); print(found['hash_seed'], found['threads'])"
    )
    environment = {key: value for key, value in os.environ.items() if key not in (*process.THREAD_VARIABLES, "PYTHONHASHSEED")}
    answer = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
    assert answer.split() == ["random", "unset"]


def test_thread_counts_reach_every_library_that_asks_the_environment():
    assert applied({"threads": 2})["threads"] == 2
    assert set(process.environment({"threads": 2}).values()) == {"2"}
    code = "import numpy as np, os; a = np.ones((300, 300)); a @ a; print(len(os.listdir('/proc/self/task')))"
    assert run({"threads": 1}, code).stdout.strip() == "1"


ADDRESSES = "print([line.split()[0] for line in open('/proc/self/maps') if '[stack]' in line or 'libc' in line])"


def test_without_address_randomisation_stack_and_libraries_lie_where_they_lay():
    reason = attempt("aslr", False)
    if reason is not None:
        pytest.skip(reason)
    fixed = {run({"aslr": False}, ADDRESSES).stdout for _ in range(2)}
    assert len(fixed) == 1
    assert applied({"aslr": False})["aslr"] is False


def test_with_address_randomisation_they_move_even_where_the_caller_has_it_off():
    reason = attempt("aslr", True) or attempt("aslr", False)
    if reason is not None:
        pytest.skip(reason)
    inside = process.command({"aslr": True}, [sys.executable, "-c", ADDRESSES])
    argv = process.command({"aslr": False}, inside)
    moving = {subprocess.run(argv, capture_output=True, text=True, check=True).stdout for _ in range(4)}
    assert len(moving) > 1


def test_the_personality_of_this_process_can_be_asked_for_without_changing_it():
    assert layout.personality() == layout.personality()


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ({"hash_seed": 123456}, "hash_seed 123456 was asked for, but .* is there: start a new interpreter"),
        ({"threads": 1023}, "threads 1023 was asked for, but .* is there: start a new interpreter"),
        ({"numa": "node999"}, "numa node999 was asked for, but .* is there: start the interpreter under numactl"),
        ({"cores": "4000"}, "there is no 4000 to use"),
    ],
)
def test_what_did_not_come_about_is_an_error_in_one_line(condition, words):
    with pytest.raises(StudyError, match=words) as caught:
        process.apply(condition)
    assert "\n" not in str(caught.value)


def test_a_kernel_that_refuses_is_quoted():
    """Negative nice without the right to it; the right is dropped where this test's user has it."""
    code = f"""
import ctypes, os, resource, sys
resource.setrlimit(resource.RLIMIT_NICE, (0, 0))
ctypes.CDLL(None).prctl({PR_CAPBSET_DROP}, {CAP_SYS_NICE}, 0, 0, 0)
code = "from samepath.instrument.conditions.process import apply; apply({{'nice': -5}})"
os.execv(sys.executable, [sys.executable, "-c", code])
"""
    done = run({}, code, check=False)
    if done.returncode == 0:
        pytest.skip("the right to negative nice levels cannot be dropped here")
    assert "nice -5 was asked for, but the kernel refused (Permission denied): it takes root" in done.stderr


def test_conditions_that_only_a_new_interpreter_can_have():
    assert not process.needs_new_interpreter({"nice": 5, "cores": "one", "scheduler": "fifo", "cpu_load": 0.5})
    for name, level in {"hash_seed": 0, "aslr": True, "threads": 1, "numa": "default"}.items():
        assert process.needs_new_interpreter({name: level})


def test_commands_are_prefixed_only_where_needed():
    argv = ["python", "run.py"]
    assert process.command({"nice": 5, "numa": "default"}, argv) == argv
    assert process.command({"numa": "node1"}, argv) == ["numactl", "--cpunodebind=1", "--membind=1", *argv]
    assert process.command({"numa": "local"}, argv)[:2] == ["numactl", "--localalloc"]
    assert process.command({"numa": "interleave"}, argv)[:2] == ["numactl", "--interleave=all"]
    both = process.command({"numa": "local", "aslr": False}, argv)
    assert both[0] == "numactl"
    assert both[-3:] == ["off", *argv]
    assert process.environment({"nice": 5}) == {}


def test_the_memory_policy_of_numactl_is_read_back():
    if attempt("numa", "local") is not None:
        pytest.skip("numactl is not installed or the kernel refuses")
    for level in ("local", "interleave", "node0"):
        assert applied({"numa": level})["numa"] == level
