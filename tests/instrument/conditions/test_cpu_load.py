"""CPU load: the controller's arithmetic, the choice of tool, and real workers that never outlive their parent."""

import subprocess
import sys
import textwrap
from contextlib import suppress

import psutil
import pytest

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import StudyError
from samepath.instrument.conditions import cpu_load
from samepath.instrument.conditions.cpu_load import (
    GAIN,
    REST_LEAST,
    REST_MOST,
    CpuLoad,
    bulk_of,
    busy_ratio,
    chosen_tool,
    suits,
)
from samepath.instrument.conditions.worker_pool import ControlLoop, SchedulingState, WorkerPool, corrected
from samepath.instrument.host.sampler import CoreTimes, read_core_times

NO_STRESS_NG = pytest.mark.skipif(not cpu_load.has_stress_ng(), reason="stress-ng is not installed")
TOOLS = ["samepath", pytest.param("stress-ng", marks=NO_STRESS_NG)]


@pytest.mark.parametrize("target", [-0.1, 1.3, 95])
def test_an_impossible_load_is_refused(target):
    with pytest.raises(StudyError, match=r"0.95 is 95 %"):
        CpuLoad(target)


def test_utilisation_is_the_busy_share_of_all_cores():
    before = (CoreTimes(10.0, 10.0), CoreTimes(0.0, 0.0))
    now = (CoreTimes(11.0, 10.0), CoreTimes(0.5, 0.5))
    assert busy_ratio(before, now) == pytest.approx(0.75)
    assert busy_ratio(now, now) is None
    assert busy_ratio(before, now[:1]) is None


def test_the_controller_finds_the_share_that_gives_the_target():
    """A machine on which something else always takes 30 %: the share settles where both together meet the target."""
    share = 0.75
    for _ in range(60):
        share = corrected(share, 0.75, min(1.0, 0.3 + 0.7 * share), GAIN)
    assert 0.3 + 0.7 * share == pytest.approx(0.75, abs=1e-6)
    assert corrected(0.0, 0.25, 0.9, GAIN) == 0.0
    assert corrected(1.0, 0.95, 0.2, GAIN) == 1.0


@pytest.mark.parametrize("demand", [0.0, 0.05, 0.1, 0.14, 0.3, 0.6, 0.9, 1.0])
def test_what_stress_ng_leaves_can_be_corrected_in_both_directions(demand):
    bulk = bulk_of(demand)
    assert suits(demand, bulk)
    assert bulk == 0 or REST_LEAST <= demand - bulk <= REST_MOST
    if bulk:
        assert not suits(bulk, bulk)
        assert not suits(bulk + 0.3, bulk)


def test_a_tool_is_chosen_or_refused(monkeypatch):
    assert chosen_tool("samepath") == "samepath"
    monkeypatch.setattr(cpu_load, "has_stress_ng", lambda: True)
    assert chosen_tool("auto") == chosen_tool("stress-ng") == "stress-ng"
    monkeypatch.setattr(cpu_load, "has_stress_ng", lambda: False)
    assert chosen_tool("auto") == "samepath"
    with pytest.raises(StudyError, match="stress-ng was asked for, but it is not installed: install it"):
        chosen_tool("stress-ng")


def test_a_load_of_zero_starts_nothing():
    with CpuLoad(0.0) as load:
        assert load.settle() == 0.0
        assert load.pids == ()


def family(pids):
    """Return these processes and all they started; one that stress-ng's restart has ended meanwhile is left out."""
    found = []
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            found += [process, *process.children(recursive=True)]
    return found


def alive_after(processes):
    """Give killed processes a moment to be gone; one that nobody has waited for yet is gone all the same."""
    _, left = psutil.wait_procs(processes, timeout=60)
    return [process for process in left if process.status() != psutil.STATUS_ZOMBIE]


def taken(processes):
    total_s = 0.0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            total_s += process.cpu_times().user
    return total_s


@pytest.mark.parametrize("tool", TOOLS)
def test_a_load_takes_time_and_is_gone_afterwards(tool):
    with CpuLoad(1.0, tool=tool) as load:
        taken_s, busy = 0.0, []
        while taken_s < 0.2 or len(busy) < len(load.pids) + 2 * (tool == "stress-ng"):
            load.check()
            SYSTEM_CLOCK.sleep_s(0.02)
            busy = family(load.pids)
            taken_s = taken(busy)
        assert load.measured() > 0
        assert {psutil.Process(pid).nice() for pid in load.pids} == {psutil.Process().nice()}
    assert load.pids == ()
    assert not alive_after(busy)


SCRIPT = textwrap.dedent("""
    import sys, psutil
    from samepath.instrument.conditions.cpu_load import CpuLoad
    from samepath.core.clock import SYSTEM_CLOCK
    if __name__ == "__main__":
        # All of it: a machine that others keep busy is loaded enough by them, and stress-ng is not even begun.
        with CpuLoad(1.0, tool=sys.argv[1]) as load:
            while sys.argv[1] == "stress-ng" and not psutil.Process(load.pids[-1]).children():
                SYSTEM_CLOCK.sleep_s(0.01)  # it starts its own children a moment later
            print(*[one.pid for one in psutil.Process().children(recursive=True)], flush=True)
            sys.stdin.readline()
""")


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("how", ["clean exit", "kill -9"])
def test_no_worker_outlives_its_parent(tmp_path, how, tool):
    script = tmp_path / "load.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen([sys.executable, script, tool], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    workers = [psutil.Process(int(number)) for number in process.stdout.readline().split()]
    assert len(workers) >= 1 + 2 * (tool == "stress-ng")
    if how == "clean exit":
        process.communicate("\n")
    else:
        process.kill()
        process.communicate()
    assert not alive_after(workers)


def test_workers_get_the_cores_and_priority_they_are_given_not_those_of_the_moment():
    """A process that has been pinned and made nice since: its workers are neither, or it is told so."""
    code = textwrap.dedent("""
        import os, sys
        from samepath.core.errors import StudyError
        from samepath.instrument.conditions.cpu_load import CpuLoad
        from samepath.instrument.conditions.worker_pool import SchedulingState
        from samepath.instrument.conditions.process import apply
        given = SchedulingState.of_this_process()
        apply({"nice": 4, "cores": "one", "scheduler": "batch"})
        try:
            with CpuLoad(0.1, tool="samepath", scheduling=given) as load:
                for pid in load.pids:
                    cores = tuple(sorted(os.sched_getaffinity(pid)))
                    print(SchedulingState(cores, os.getpriority(os.PRIO_PROCESS, pid), os.sched_getscheduler(pid)) == given)
        except StudyError as error:
            print("cannot be restored" in str(error))
    """)
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert set(answer.split()) == {"True"}


def test_a_worker_that_dies_is_noticed():
    with CpuLoad(0.1, tool="samepath") as load:
        psutil.Process(load.pids[0]).kill()
        with pytest.raises(StudyError, match="a worker of the CPU load ended: it was killed by signal 9"):
            for _ in range(200):
                load.check()
                SYSTEM_CLOCK.sleep_s(0.05)


def test_a_worker_that_cannot_start_says_why():
    with pytest.raises(StudyError, match="cannot be restored"):
        WorkerPool("CPU", 1, SchedulingState((4000,), 0, 0))


def test_a_control_loop_hands_on_what_went_wrong_and_always_ends():
    calls = []

    def fail():
        calls.append("step")
        raise ValueError("broken")

    loop = ControlLoop(0.001, lambda: calls.append("begin"), fail, lambda: calls.append("end"))
    with pytest.raises(StudyError, match="broken"):
        loop.start()
        loop._thread.join()
        loop.check()
    loop.close()
    assert calls == ["begin", "step", "end"]


def test_a_control_loop_that_cannot_begin_says_so_at_once():
    calls = []

    def fail():
        raise StudyError("no")

    loop = ControlLoop(0.001, fail, fail, lambda: calls.append("end"))
    with pytest.raises(StudyError, match="no"):
        loop.start()
    loop.close()
    assert calls == ["end"]


def test_the_kernel_counts_what_this_test_takes():
    before = read_core_times()
    SYSTEM_CLOCK.sleep_s(0.05)
    assert busy_ratio(before, read_core_times()) is not None
