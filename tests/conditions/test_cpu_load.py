"""CPU load: the controller's arithmetic, and real workers that never outlive their parent."""

import subprocess
import sys
import textwrap

import psutil
import pytest

from samepath.base.errors import StudyError
from samepath.conditions.cpu_load import CpuLoad, busy_ratio, corrected
from samepath.conditions.sampler import CoreTimes


@pytest.mark.parametrize("target", [-0.1, 1.3, 95])
def test_an_impossible_load_is_refused(target):
    with pytest.raises(StudyError, match=r"0.95 is 95 %"):
        CpuLoad(target)


def test_utilisation_is_the_busy_share_of_all_cores():
    before = (CoreTimes(10.0, 10.0), CoreTimes(0.0, 0.0))
    now = (CoreTimes(11.0, 10.0), CoreTimes(0.5, 0.5))
    assert busy_ratio(before, now) == pytest.approx(0.75)
    assert busy_ratio(now, now) is None


def test_the_controller_finds_the_share_that_gives_the_target():
    """A machine on which something else always takes 30 %: the share settles where both together meet the target."""
    share = 0.75
    for _ in range(60):
        share = corrected(share, 0.75, min(1.0, 0.3 + 0.7 * share))
    assert 0.3 + 0.7 * share == pytest.approx(0.75, abs=1e-6)
    assert corrected(0.0, 0.25, 0.9) == 0.0
    assert corrected(1.0, 0.95, 0.2) == 1.0


def test_a_load_of_zero_starts_nothing():
    with CpuLoad(0.0) as load:
        assert psutil.Process().children() == [] or load._workers == []


SCRIPT = textwrap.dedent("""
    import os, signal, sys
    from samepath.conditions.cpu_load import CpuLoad
    if __name__ == "__main__":
        with CpuLoad(0.3) as load:
            print(*[worker.pid for worker in load._workers], flush=True)
            sys.stdin.readline()
""")


@pytest.mark.parametrize("how", ["clean exit", "kill -9"])
def test_no_worker_outlives_its_parent(tmp_path, how):
    script = tmp_path / "load.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    workers = [psutil.Process(int(number)) for number in process.stdout.readline().split()]
    assert workers
    if how == "clean exit":
        process.communicate("\n")
    else:
        process.kill()
        process.communicate()
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive
