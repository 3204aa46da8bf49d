"""The loads of a machine together: held, measured, kept where they may stay, and all gone at the end."""

import json
import subprocess
import sys
import textwrap
from contextlib import suppress

import psutil
import pytest

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import StudyError
from samepath.instrument.conditions import machine
from samepath.instrument.conditions.machine import LEAST_BYTES, MachineLoads, MemoryLoad, array_bytes, last_level_cache_bytes
from samepath.instrument.conditions.worker_pool import SchedulingState
from samepath.instrument.host.gpu import GpuMeter
from samepath.instrument.host.probe import Probe


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(machine, "CALIBRATION_S", 0.2)


def no_gpu():
    return GpuMeter(lambda: None)


def gone(pids):
    return all(not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE for pid in pids)


def test_what_nobody_asked_for_is_measured_too():
    with MachineLoads(meter=no_gpu()) as loads:
        loads.hold({"nice": 5, "cores": "one"})
        assert loads.pids == ()
        loads.mark()
        found = loads.measured()
        assert set(found) == {"cpu_load"}
        assert 0 <= found["cpu_load"] <= 1


def test_loads_are_held_kept_changed_and_stopped():
    with MachineLoads(tool="samepath", settle_s=0.0, meter=no_gpu()) as loads:
        loads.hold({"cpu_load": 0.3})
        cpu = loads.pids
        assert cpu
        loads.hold({"cpu_load": 0.3})
        assert loads.pids == cpu
        loads.hold({"cpu_load": 0.6})
        assert loads.pids == cpu
        loads.mark()
        SYSTEM_CLOCK.sleep_s(0.1)
        assert loads.measured()["cpu_load"] > 0
        loads.hold({"memory_load": 0.4, "cpu_load": 0.0})
        assert gone(cpu)
        memory, full_bps = loads.pids, loads.full_bps
        while not loads.measured()["memory_load"] > 0:
            SYSTEM_CLOCK.sleep_s(0.02)
        loads.hold({"memory_load": 0.2, "cpu_load": 0.5})
        assert set(memory) < set(loads.pids)
        assert loads.full_bps == full_bps
        everything = loads.pids
        loads.hold({})
        assert loads.pids == ()
        assert "memory_load" not in loads.measured()
    loads.close()
    assert gone(everything)


def test_the_full_speed_of_memory_is_measured_without_a_load_beside_it():
    with MachineLoads(tool="samepath", settle_s=0.0, meter=no_gpu()) as loads:
        loads.hold({"cpu_load": 0.9})
        cpu = loads.pids
        loads.hold({"cpu_load": 0.9, "memory_load": 0.1})
        assert gone(cpu)
        assert len(loads.pids) == 2 * len(cpu)


def test_memory_workers_move_bytes():
    load = MemoryLoad(0.5, SchedulingState.of_this_process())
    load.start()
    try:
        assert load.full_bps > 1e6
        load.mark()
        while not load.measured() > 0:
            load.check()
            SYSTEM_CLOCK.sleep_s(0.02)
    finally:
        load.close()
    assert load.pids == ()


@pytest.mark.parametrize("wanted", [{"cpu_load": 1.3}, {"gpu_load": -0.1}, {"memory_load": "75%"}, {"cpu_load": True}])
def test_a_level_that_is_no_share_is_refused(wanted):
    with MachineLoads(meter=no_gpu()) as loads, pytest.raises(StudyError, match="a share from 0 to 1 was wanted"):
        loads.hold(wanted)


def test_a_gpu_load_that_could_not_be_verified_is_refused():
    with MachineLoads(meter=no_gpu()) as loads:
        with pytest.raises(StudyError, match="no GPU's utilisation can be read"):
            loads.hold({"gpu_load": 0.5})
        assert loads.pids == ()


def test_arrays_are_larger_than_the_last_cache_and_leave_memory_free(tmp_path):
    for index, size in enumerate(("48K", "2048K", "32M", "x")):
        folder = tmp_path / f"sys/devices/system/cpu/cpu0/cache/index{index}"
        folder.mkdir(parents=True)
        (folder / "size").write_text(f"{size}\n")
    probe = Probe(tmp_path)
    assert last_level_cache_bytes(probe) == 32 * 2**20
    assert array_bytes(probe, 4, 64 * 2**30) == 2 * 32 * 2**20
    assert array_bytes(Probe(tmp_path / "none"), 4, 64 * 2**30) == LEAST_BYTES
    with pytest.raises(StudyError, match="needs 512 MiB for its arrays, but a quarter of the free memory is only 256 MiB"):
        array_bytes(probe, 4, 2**30)


SCRIPT = textwrap.dedent("""
    import json, sys, psutil
    from samepath.instrument.conditions import machine
    from samepath.instrument.conditions.machine import MachineLoads
    machine.CALIBRATION_S = 0.1
    with MachineLoads(settle_s=0.0) as loads:
        loads.hold({"cpu_load": 0.2, "memory_load": 0.1})
        print(json.dumps([one.pid for one in psutil.Process().children(recursive=True)]), flush=True)
        sys.stdin.readline()
""")


def test_nothing_is_left_of_a_killed_study():
    process = subprocess.Popen([sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    workers = []
    for pid in json.loads(process.stdout.readline()):
        with suppress(psutil.NoSuchProcess):  # on a busy machine stress-ng is ended again within a second
            workers.append(psutil.Process(pid))
    assert len(workers) >= 2
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
