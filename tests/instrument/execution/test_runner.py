"""Repeats in processes: what they share and what not, and what becomes of those that fail, die or hang."""

import inspect
import os
import signal
import sys
import typing

import pytest

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SimulatorError
from samepath.core.processes import describe_exit
from samepath.engines.interface import CommandLog
from samepath.instrument.execution import job
from samepath.instrument.execution.hosts import LocalHost, RepeatFailed, RepeatFinished, real_isolation
from samepath.instrument.study.records import Isolation
from samepath.instrument.traces.records import Repeat
from tests.support.plans import marked_processes, work


@pytest.fixture(scope="module")
def runner():
    with LocalHost("samepath", 0.0) as host:
        yield host


def told(outcomes):
    """Return pid, hash and number of earlier runs of every repeat."""
    assert all(isinstance(outcome, RepeatFinished) for outcome in outcomes), outcomes
    return [tuple(outcome.repeat.values[0].tolist()) for outcome in outcomes]


def test_in_fresh_processes_nothing_is_shared_but_what_the_fork_server_has(runner):
    pids, hashes, before = zip(*told(list(runner.run(work("Telling"), range(4)))), strict=True)
    assert len(set(pids)) == 4
    assert os.getpid() not in pids
    assert set(before) == {0.0}
    assert len(set(hashes)) == 1, "the hash seed is the server's"


def test_a_batch_shares_a_process_and_says_who_came_first(runner):
    outcomes = list(runner.run(work("Telling", Isolation.BATCH, repeats_per_process=3), range(7)))
    pids, _, before = zip(*told(outcomes), strict=True)
    assert len(set(pids)) == 3
    assert before == (0, 1, 2, 0, 1, 2, 0)
    assert [outcome.repeat.host.measured["position"] for outcome in outcomes] == [0, 1, 2, 0, 1, 2, 0]
    assert {outcome.repeat.host.measured["isolation"] for outcome in outcomes} == {"batch"}


def test_a_cold_start_has_an_interpreter_and_a_hash_seed_of_its_own(runner):
    told_cold = told(list(runner.run(work("Telling", Isolation.COLD, processes=2), range(3))))
    assert len({pid for pid, _, _ in told_cold}) == 3
    assert len({word for _, word, _ in told_cold}) > 1
    assert {before for _, _, before in told_cold} == {0.0}


def test_a_condition_that_needs_an_interpreter_gets_one_and_is_read_back(runner):
    condition = {"hash_seed": 5}
    isolation = real_isolation(Isolation.BATCH, condition)
    assert isolation is Isolation.COLD
    outcomes = list(runner.run(work("Telling", isolation, condition=condition), range(2)))
    assert len({word for _, word, _ in told(outcomes)}) == 1
    measured = outcomes[0].repeat.host.measured
    assert (measured["hash_seed"], measured["isolation"]) == (5, "cold")


def test_conditions_of_a_process_are_set_there_and_nowhere_else(runner):
    before = os.sched_getaffinity(0)
    condition = {"nice": 7, "cores": "one"}
    (outcome,) = runner.run(work("Telling", condition=condition), [0])
    assert outcome.repeat.host.measured["nice"] == 7
    assert outcome.repeat.host.measured["cores"] == str(max(before))
    assert os.sched_getaffinity(0) == before
    assert os.nice(0) != 7
    assert real_isolation(Isolation.INLINE, condition) is Isolation.PROCESS


def test_inline_repeats_run_here(runner):
    pids, _, _ = zip(*told(list(runner.run(work("Telling", Isolation.INLINE, repeats_per_process=9), range(3)))), strict=True)
    assert set(pids) == {os.getpid()}


def test_several_run_at_once_only_if_asked(runner):
    settings = {"sleep_s": 0.05}
    outcomes = list(runner.run(work("Telling", settings=settings, processes=3), range(7)))
    assert sorted(outcome.repeat.repeat for outcome in outcomes) == list(range(7))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("error", "engine on fire"),
        ("bug", r"ZeroDivisionError: a bug in two lines \(odd_simulators.py, line \d+\)"),
        ("sys-exit", "SystemExit: good-bye"),
        ("exit", "the simulator's process ended by itself with exit code 7"),
        ("crash", r"the simulator's process was ended by signal 11 \(SIGSEGV\)"),
    ],
)
@pytest.mark.parametrize("isolation", [Isolation.PROCESS, Isolation.BATCH])
def test_a_failed_repeat_is_told_in_one_line_and_the_others_go_on(runner, isolation, fault, words):
    what = work("Faulty", isolation, settings={"fault": fault, "at": 2}, repeats_per_process=5)
    outcomes = list(runner.run(what, [0, 2, 1]))
    assert [type(outcome) for outcome in outcomes] == [RepeatFinished, RepeatFailed, RepeatFinished]
    failed = outcomes[1]
    assert failed.number == 2
    with pytest.raises(SimulatorError, match=words):
        raise SimulatorError(failed.reason)
    assert "\n" not in failed.reason
    assert ("Traceback" in failed.detail) == (fault in ("bug", "sys-exit"))


@pytest.mark.parametrize("isolation", [Isolation.PROCESS, Isolation.COLD])
def test_a_repeat_that_hangs_is_killed_with_all_it_has_started(isolation, tmp_path, monkeypatch):
    mark = tmp_path / "hanging"
    monkeypatch.setenv("SAMEPATH_TEST_MARK", str(mark))
    settings = {"fault": "hang-with-child", "at": 1, "mark": str(mark)}
    with LocalHost("samepath", 0.0) as runner:
        # The good one is held to it, too, and a cold one has to import everything on a busy machine.
        good, bad = runner.run(work("Faulty", isolation, settings=settings, watchdog_s=12.0), [0, 1])
        assert isinstance(good, RepeatFinished)
        assert "took longer than 12 s and was stopped" in bad.reason
        assert mark.exists(), "it was the hanging that took so long"
        assert len(left_after_a_moment(mark, 2)) <= 2, "only the fork server and its branch may be there"
    assert left_after_a_moment(mark, 0) == []


def left_after_a_moment(mark, most):
    """The processes that are left; a busy kernel needs a moment to end what was killed."""
    start_s = SYSTEM_CLOCK.monotonic_s()
    while len(found := marked_processes(str(mark))) > most and SYSTEM_CLOCK.monotonic_s() - start_s < 10:
        SYSTEM_CLOCK.sleep_s(0.01)
    return found


def test_a_broken_simulator_fails_every_repeat_with_its_reason(runner):
    what = work("Nonsense")
    assert all("cannot be loaded" in outcome.reason for outcome in runner.run(what, [0, 1]))


def test_settings_that_are_too_long_for_a_process_are_refused_in_words_and_harm_no_other(runner):
    (failed,) = runner.run(work("Telling", settings={"sleep_s": 0.0, "words": "x" * (1 << 17)}), [0])
    assert failed.reason.startswith("settings and module path are too long for a worker process")
    assert isinstance(next(iter(runner.run(work("Telling"), [0]))), RepeatFinished)


def test_a_fork_server_that_was_killed_is_started_again(runner):
    what = work("Telling")
    list(runner.run(what, [0]))
    os.kill(runner._launcher._process.pid, signal.SIGKILL)
    outcomes = list(runner.run(what, [0, 1, 2]))
    assert isinstance(outcomes[-1], RepeatFinished), outcomes


def test_more_kinds_of_runs_than_branches_are_kept_still_work(monkeypatch):
    monkeypatch.setattr("samepath.instrument.execution.workers.MAX_BRANCHES", 1)
    first, second = work("Telling"), work("Telling", settings={"sleep_s": 0.001})
    with LocalHost("samepath", 0.0) as runner:
        for what in (first, second, first):
            told(list(runner.run(what, [0, 1])))
        assert len(runner._launcher._branches) == 1


def test_other_instances_run_beside_the_measured_one_and_end_with_it(tmp_path, monkeypatch):
    mark = str(tmp_path)
    monkeypatch.setenv("SAMEPATH_TEST_MARK", mark)
    what = work("Telling", condition={"instances": 3}, settings={"sleep_s": 0.01})
    with LocalHost("samepath", 0.0) as runner:
        runner.hold(what)
        (outcome,) = runner.run(what, [0])
        assert outcome.repeat.host.measured["instances"] == 3
        victim = runner._instances._workers[0].pid
        os.kill(victim, signal.SIGKILL)
        while runner._instances.count() == 3:
            pass
        runner.hold(what)
        assert runner._instances.count() == 3, "one that died is replaced"
    assert left_after_a_moment(mark, 0) == []


def test_how_a_process_ended_is_said_in_words():
    assert describe_exit(0) == "ended by itself with exit code 0"
    assert describe_exit(-9) == "was ended by signal 9 (SIGKILL)"
    assert describe_exit(-99) == "was ended by signal 99 (unknown)"


def test_what_goes_between_processes_is_defined_in_no_module_that_is_run_by_itself():
    """A module run with ``-m`` is called ``__main__``: what it defines could not be unpickled at the other end."""
    for record in (*typing.get_args(job.WorkerRequest), *typing.get_args(job.WorkerReply), job.Job, Repeat, CommandLog):
        source = inspect.getsource(sys.modules[record.__module__])
        assert '__name__ == "__main__"' not in source, record
