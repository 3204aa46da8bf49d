"""The doctor: right about good hosts and bad ones, honest where a host is silent, never changing anything."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from typer.testing import CliRunner

from samepath.cli.app import app
from samepath.core.errors import SamepathError
from samepath.instrument.host.doctor import TOPICS, BusyProcess, Diagnosis, check_memory, examine, read_host, read_soft_limit
from samepath.instrument.host.gpu import GpuInfo
from samepath.instrument.host.locked import HERE, locked_versions
from samepath.instrument.host.probe import Probe, Unknown

CPU = "sys/devices/system/cpu"
NOT_RUN = Unknown.because("not run")

QUIET = {
    "proc/cpuinfo": "model name\t: Example\nflags\t\t: fpu sse2\n",
    "proc/meminfo": "MemTotal: 16384 kB\nSwapTotal: 2048 kB\nSwapFree: 2048 kB\n",
    "proc/loadavg": "0.10 0.20 0.30 1/200 4242\n",
    "proc/self/status": "Cpus_allowed_list:\t0-3\nCapEff:\t0000000000800000\n",
    "proc/self/uid_map": "         0          0 4294967295\n",
    "proc/self/cgroup": "0::/\n",
    "proc/sys/kernel/randomize_va_space": "0\n",
    "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/devices/system/node/node0/cpulist": "0-3\n",
    "sys/devices/system/edac/mc/mc0/dimm0/dimm_edac_mode": "SECDED\n",
    f"{CPU}/online": "0-3\n",
    f"{CPU}/isolated": "2-3\n",
    f"{CPU}/smt/active": "0\n",
    f"{CPU}/intel_pstate/no_turbo": "1\n",
    **{f"{CPU}/cpu{core}/cpufreq/scaling_governor": "performance\n" for core in range(4)},
}

# What makes a host bad in one topic: the files that change, the status and a part of the finding.
BAD = {
    "ECC": ({"sys/devices/system/edac/mc/mc0/dimm0/dimm_edac_mode": "None\n"}, "note", "none"),
    "CPU governor": ({f"{CPU}/cpu3/cpufreq/scaling_governor": "powersave\n"}, "warning", "powersave on cores 3"),
    "turbo": ({f"{CPU}/intel_pstate/no_turbo": "0\n"}, "note", "on"),
    "SMT": ({f"{CPU}/smt/active": "1\n"}, "note", "on"),
    "isolated cores": ({f"{CPU}/isolated": "\n"}, "note", "none"),
    "CPU quota": ({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "150000 100000\n"}, "warning", "1.5 cores"),
    "memory limit": ({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/memory.max": "1073741824\n"}, "note", "1 GiB"),
    "swap": ({"proc/meminfo": "SwapTotal: 4096 kB\nSwapFree: 1024 kB\n"}, "warning", "3 MiB in use"),
    "clock source": ({"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n"}, "warning", "hpet"),
    "load": ({"proc/loadavg": "3.10 0.20 0.30 1/200 4242\n"}, "warning", "3.1 runnable tasks on 4 cores"),
    "virtualisation": ({"proc/cpuinfo": "flags\t\t: fpu hypervisor\n"}, "warning", "hypervisor"),
    "NUMA": ({"sys/devices/system/node/node1/cpulist": "2-3\n"}, "note", "2 nodes"),
    "priority": ({"proc/self/status": "CapEff:\t0000000000000000\n"}, "note", "negative nice not allowed"),
    "ASLR": ({"proc/sys/kernel/randomize_va_space": "2\n"}, "note", "on (mode 2)"),
}


class StillClock:
    def __init__(self):
        self.slept_s = []

    def monotonic_s(self):
        return 0.0

    def utc_iso(self):
        return "2020-01-01T00:00:00+00:00"

    def sleep_s(self, seconds):
        self.slept_s.append(seconds)


class FakeProcess:
    """Answers 0 the first time, as psutil does, then its share; or raises what it was given."""

    def __init__(self, pid, name, percent):
        self.pid, self._name, self._percents = pid, name, [0.0, percent]

    def name(self):
        return self._name

    def cpu_percent(self, interval):
        assert interval is None
        percent = self._percents.pop(0)
        if isinstance(percent, Exception):
            raise percent
        return percent


def bare_metal(command, limit_s):
    """Answer as a host without hypervisor and container, and without any other tool."""
    if command[0] == "systemd-detect-virt":
        return subprocess.CompletedProcess(list(command), 1, "none\n", "")
    raise FileNotFoundError(command[0])


def no_tools(command, limit_s):
    raise FileNotFoundError(command[0])


as_locked = locked_versions()[HERE].get


def host_of(root, files, run=bare_metal, clock=None, processes=(), limits=0, tools=(), nvml=lambda: None, installed=as_locked):
    for path, text in files.items():
        target = Path(root) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return read_host(
        Probe(Path(root), run),
        clock or StillClock(),
        nvml=nvml,
        processes=lambda: iter(processes),
        soft_limit=lambda name: limits,
        find_tool=lambda tool: f"/usr/bin/{tool}" if tool in tools else None,
        installed=installed,
    )


def by_topic(host, memory_test=NOT_RUN):
    return {diagnosis.topic: diagnosis for diagnosis in examine(host, memory_test)}


ALL_TOOLS = ("stress-ng", "numactl", "memtester")


def test_a_quiet_host_is_good_in_every_topic(tmp_path):
    found = examine(host_of(tmp_path, QUIET, tools=ALL_TOOLS), check_memory(4096))
    assert {diagnosis.topic: diagnosis.finding for diagnosis in found if diagnosis.status != "good"} == {}
    assert len(found) == len(TOPICS) + 2


def test_libraries_that_differ_from_the_lock_are_a_note_with_both_versions(tmp_path):
    locked = locked_versions()[HERE]
    there = {**locked, "numpy": "1.99"}
    found = by_topic(host_of(tmp_path, QUIET, tools=ALL_TOOLS, installed=there.get))["libraries"]
    assert (found.status, found.finding) == ("note", f"numpy 1.99 (lock: {locked['numpy']})")
    assert "pip install" in found.advice


@pytest.mark.parametrize("topic", sorted(BAD))
def test_a_host_that_is_bad_in_one_topic_is_told_so_in_that_topic_only(tmp_path, topic):
    files, status, finding = BAD[topic]
    found = by_topic(host_of(tmp_path, QUIET | files, tools=ALL_TOOLS), check_memory(4096))
    assert found[topic].status == status
    assert finding in found[topic].finding
    assert found[topic].advice not in ("", "Nothing.")
    assert [diagnosis.topic for diagnosis in found.values() if diagnosis.status != "good" and diagnosis.topic != topic] == []


def test_a_silent_host_is_unknown_with_reasons_and_no_exception(tmp_path):
    silent = host_of(tmp_path, {}, run=no_tools, limits=Unknown.because("no such limit"))
    found = by_topic(silent)
    for topic in ("memory test", *BAD):
        assert found[topic].status == "unknown", topic
        assert "unknown: " in found[topic].finding, topic
    assert found["ASLR"].finding == "unknown: /proc/sys/kernel/randomize_va_space: No such file or directory"


def test_every_diagnosis_has_one_sentence_of_meaning_and_some_advice(tmp_path):
    for files in (QUIET, {}):
        for diagnosis in examine(host_of(tmp_path / str(len(files)), files), NOT_RUN):
            assert isinstance(diagnosis, Diagnosis)
            assert diagnosis.meaning.endswith(".")
            assert diagnosis.meaning.count(". ") == 0
            assert diagnosis.advice.endswith(".")
            assert diagnosis.finding


def test_a_wrong_bit_in_memory_is_a_warning_with_its_place(tmp_path):
    def spoil(name, words):
        if name == "0x00":
            words[3] = 4

    found = by_topic(host_of(tmp_path, QUIET), check_memory(4096, before_reading=spoil))["memory test"]
    assert found.status == "warning"
    assert "word 3, bits 2 (0x00: wrote 0x0000000000000000, read 0x0000000000000004)" in found.finding


def test_a_clean_memory_test_does_not_pretend_to_be_more_and_offers_memtester_where_it_is(tmp_path):
    without = by_topic(host_of(tmp_path, QUIET), check_memory(4096))["memory test"]
    assert without.status == "good"
    assert "is no memtest86" in without.meaning
    assert "memtest86" in without.advice
    assert "memtester" not in without.advice
    with_it = by_topic(host_of(tmp_path, QUIET, tools=["memtester"]), check_memory(4096))["memory test"]
    assert "memtester" in with_it.advice


def test_the_three_busiest_others_are_named_and_this_process_is_not(tmp_path):
    processes = [
        FakeProcess(os.getpid(), "myself", 99.0),
        FakeProcess(-1, "idle", 4.9),
        FakeProcess(-2, "third", 6.0),
        FakeProcess(-3, "first", 180.0),
        FakeProcess(-4, "fourth", 5.5),
        FakeProcess(-5, "second\x1b[red]", 50.0),
    ]
    clock = StillClock()
    host = host_of(tmp_path, QUIET, processes=processes, clock=clock)
    assert host.busy == (BusyProcess("first", 1.8), BusyProcess("second?[red]", 0.5), BusyProcess("third", 0.06))
    assert len(clock.slept_s) == 1
    found = by_topic(host)["busy processes"]
    assert (found.status, found.finding.split(" (")[0]) == ("warning", "first")


def test_processes_that_end_or_refuse_are_left_out_and_a_list_that_fails_is_unknown(tmp_path):
    ended = FakeProcess(-1, "ended", psutil.NoSuchProcess(1))
    assert host_of(tmp_path, QUIET, processes=[ended]).busy == ()

    def fail():
        raise psutil.AccessDenied(1)
        yield

    found = by_topic(host_of(tmp_path, QUIET, processes=fail()))["busy processes"]
    assert (found.status, found.finding) == ("unknown", "unknown: the processes cannot be listed: AccessDenied")


@pytest.mark.parametrize(("load", "status"), [("1.00", "good"), ("1.01", "note"), ("3.00", "note"), ("3.01", "warning")])
def test_load_is_judged_against_the_cores(tmp_path, load, status):
    host = host_of(tmp_path, QUIET | {"proc/loadavg": f"{load} 0.20 0.30 1/200 4242\n"})
    assert by_topic(host)["load"].status == status


@pytest.mark.parametrize(
    ("modes", "status"),
    [(["S4ECD4ED"], "good"), (["SECDED", "None"], "note"), (["PARITY"], "note"), (["EC"], "note"), (["Unknown"], "unknown")],
)
def test_only_memory_that_corrects_errors_counts_as_ecc(tmp_path, modes, status):
    files = {f"sys/devices/system/edac/mc/mc0/dimm{n}/dimm_edac_mode": mode for n, mode in enumerate(modes)}
    assert by_topic(host_of(tmp_path, QUIET | files))["ECC"].status == status


@pytest.mark.parametrize(
    ("limit", "nice", "real_time"), [(0, False, False), (1, False, True), (20, False, True), (21, True, True), (-1, True, True)]
)
def test_limits_grant_priority_without_capabilities(tmp_path, limit, nice, real_time):
    powerless = QUIET | {"proc/self/status": "CapEff:\t0000000000000000\n"}
    host = host_of(tmp_path, powerless, limits=limit)
    assert host.rights == {"negative nice": nice, "real-time scheduling": real_time}


def test_the_capability_of_a_user_namespace_grants_nothing(tmp_path):
    rootless = host_of(tmp_path, QUIET | {"proc/self/uid_map": "0 1000 1\n"})
    assert by_topic(rootless)["priority"].finding == "negative nice not allowed, real-time scheduling not allowed"


def test_unlimited_limits_grant_priority_even_where_capabilities_are_unknown(tmp_path):
    assert by_topic(host_of(tmp_path, QUIET | {"proc/self/status": "Name: x\n"}, limits=-1))["priority"].status == "good"


def test_looking_at_the_priority_changes_no_priority():
    before = os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)
    assert isinstance(read_soft_limit("RLIMIT_NICE"), int)
    assert read_soft_limit("RLIMIT_NONSENSE") == "unknown: the system has no RLIMIT_NONSENSE"
    assert (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)) == before


def test_a_container_is_a_note_and_a_virtual_machine_a_warning(tmp_path):
    def answers(machine, container):
        def run(command, limit_s):
            if command[0] != "systemd-detect-virt":
                raise FileNotFoundError(command[0])
            return subprocess.CompletedProcess(list(command), 0, machine if "--vm" in command else container, "")

        return by_topic(host_of(tmp_path, QUIET, run=run))["virtualisation"]

    assert (answers("none", "podman").status, answers("none", "podman").finding) == ("note", "container (podman)")
    both = answers("kvm", "docker")
    assert (both.status, both.finding) == ("warning", "virtual machine (kvm), container (docker)")


def test_governors_that_cannot_be_read_are_unknown_unless_another_is_bad(tmp_path):
    path = tmp_path / CPU / "cpu1/cpufreq/scaling_governor"
    files = {name: text for name, text in QUIET.items() if "cpu1/" not in name}
    path.mkdir(parents=True)  # reading a folder fails
    assert by_topic(host_of(tmp_path, files))["CPU governor"].status == "unknown"
    worse = files | {f"{CPU}/cpu0/cpufreq/scaling_governor": "ondemand\n"}
    assert by_topic(host_of(tmp_path, worse))["CPU governor"].status == "warning"


def test_the_clock_of_a_guest_is_a_note(tmp_path):
    files = {"sys/devices/system/clocksource/clocksource0/current_clocksource": "kvm-clock\n"}
    assert by_topic(host_of(tmp_path, QUIET | files))["clock source"].status == "note"


def test_tools_are_listed_as_found_or_not(tmp_path):
    found = by_topic(host_of(tmp_path, QUIET, tools=["numactl"]))["tools"]
    assert (found.status, found.finding) == ("note", "found: numactl; not found: stress-ng, memtester")


def test_each_gpu_is_told_with_its_memory_and_ecc(tmp_path):
    host = host_of(tmp_path, QUIET)
    silent = Unknown.because("NVML does not report it")
    gpus = (GpuInfo("Big", "1", 8 * 2**30, True), GpuInfo("Small", "1", 2**30, False), GpuInfo("Odd", "1", silent, silent))
    found = by_topic(dataclasses.replace(host, facts=dataclasses.replace(host.facts, gpus=gpus)))
    assert [found[f"GPU {number}"].status for number in range(3)] == ["good", "note", "unknown"]
    assert found["GPU 0"].finding == "Big, 8 GiB, ECC on"
    assert "cuda_memtest" in found["GPU 1"].advice


def test_no_gpu_is_good_and_a_driver_that_fails_is_unknown(tmp_path):
    assert by_topic(host_of(tmp_path, QUIET))["GPU"].status == "good"

    def broken(command, limit_s):
        return subprocess.CompletedProcess(list(command), 9, "", "")

    assert by_topic(host_of(tmp_path, QUIET, run=broken))["GPU"].status == "unknown"


def doctor(*arguments):
    command = [sys.executable, "-W", "error", "-m", "samepath", "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_verb_gives_one_json_object_with_the_warnings_first():
    result = doctor("--memory", "8MiB", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert set(document) == {"findings", "warnings"}
    statuses = [finding["status"] for finding in document["findings"]]
    assert statuses == sorted(statuses, key=["warning", "note", "unknown", "good"].index)
    assert document["warnings"] == statuses.count("warning")
    assert all(set(finding) == {"topic", "status", "finding", "meaning", "advice"} for finding in document["findings"])
    assert {"memory test", *(topic.name for topic in TOPICS)} <= {finding["topic"] for finding in document["findings"]}


def test_the_verb_prints_a_table_and_skips_the_memory_test_on_request():
    result = doctor("--memory", "0")
    assert (result.returncode, result.stderr) == (0, "")
    for word in ("topic", "finding", "what it means", "what to do", "not tested", "--memory 0", "ASLR"):
        assert word in result.stdout


@pytest.mark.parametrize("size", ["lots", "256", "-1GiB", "1KiB", "5 mm"])
def test_the_verb_refuses_a_bad_size_in_one_line(size):
    result = CliRunner().invoke(app, ["doctor", f"--memory={size}"])
    assert isinstance(result.exception, SamepathError)
    assert (result.exception.exit_code, result.output) == (2, "")
    (line,) = str(result.exception).splitlines()
    assert repr(size) in line


def test_memory_that_cannot_be_had_is_unknown_and_no_failure(monkeypatch):
    from samepath.cli import doctor as verb

    unlimited = SimpleNamespace(memory_limit_bytes=None)

    def refuse(*_, **__):
        raise MemoryError

    monkeypatch.setattr(verb, "check_memory", refuse)
    assert verb._test_memory(2**20, unlimited) == "unknown: the memory for a test could not be had"
    tight = SimpleNamespace(memory_limit_bytes=2**20)
    assert verb._test_memory(2**20, tight) == "unknown: too little memory is available for a test"
