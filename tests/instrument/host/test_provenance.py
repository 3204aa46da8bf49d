"""Provenance: complete where the host tells, explicit where it does not, silent about people and machines' names."""

import json
import platform
import re
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from samepath.instrument.host.facts import (
    CgroupLimits,
    CoreSet,
    FloatFlags,
    LoadAverage,
    format_cores,
    parse_cores,
    read_cpu,
    read_limits,
    read_load_average,
    read_memory,
    read_virtualisation,
)
from samepath.instrument.host.gpu import GpuInfo, GpuMeter
from samepath.instrument.host.probe import Checkout, NotInstalled, Probe, Unknown, run_command
from samepath.instrument.host.provenance import collect_provenance, hide_home

CPU = "sys/devices/system/cpu"

CPUINFO = """\
processor\t: {core}
vendor_id\t: GenuineIntel
model name\t: Example CPU @ 3.00GHz
microcode\t: 0x2b
flags\t\t: fpu sse2 avx2 fma
"""

SERVER = {
    "etc/os-release": 'NAME="Example"\nPRETTY_NAME="Example Linux 9"\n',
    "etc/hostname": "unspoken-host\n",
    "proc/sys/kernel/hostname": "unspoken-host\n",
    "proc/version": "Linux version 6.1.0 (builder@unspoken-host)\n",
    "proc/sys/kernel/osrelease": "6.1.0-rt5\n",
    "proc/sys/kernel/version": "#1 SMP PREEMPT_RT\n",
    "proc/cpuinfo": "\n".join(CPUINFO.format(core=core) for core in range(4)),
    "proc/meminfo": "MemTotal:       16384 kB\nMemFree:  1 kB\nSwapTotal:       2048 kB\n",
    "proc/loadavg": "0.50 1.25 2.00 1/200 4242\n",
    "proc/self/status": "Name:\tpython\nCpus_allowed:\t7\nCpus_allowed_list:\t0-2\n",
    "proc/self/cgroup": "0::/system.slice/job\n",
    "proc/1/cgroup": "0::/init.scope\n",
    "sys/class/dmi/id/sys_vendor": "Example Inc.\n",
    "sys/class/dmi/id/product_name": "Server 1\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/devices/system/node/node0/cpulist": "0-1\n",
    "sys/devices/system/node/node1/cpulist": "2-3\n",
    "sys/devices/system/edac/mc/mc0/dimm0/dimm_edac_mode": "SECDED\n",
    "sys/devices/system/edac/mc/mc0/dimm1/dimm_edac_mode": "SECDED\n",
    "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
    "sys/fs/cgroup/system.slice/cpu.max": "150000 100000\n",
    "sys/fs/cgroup/system.slice/memory.max": "max\n",
    "sys/fs/cgroup/system.slice/job/cpu.max": "max 100000\n",
    "sys/fs/cgroup/system.slice/job/memory.max": "1048576\n",
    f"{CPU}/online": "0-3\n",
    f"{CPU}/smt/active": "1\n",
    f"{CPU}/intel_pstate/no_turbo": "1\n",
    **{f"{CPU}/cpu{core}/topology/thread_siblings_list": f"{core % 2},{core % 2 + 2}\n" for core in range(4)},
    **{f"{CPU}/cpu{core}/cpufreq/cpuinfo_max_freq": "3000000\n" for core in range(4)},
    **{f"{CPU}/cpu{core}/cpufreq/scaling_governor": "powersave\n" if core == 3 else "performance\n" for core in range(4)},
}


class FakeRunner:
    """Answers commands from a table of «tool or a word of the command» to (status, stdout, stderr) or an exception."""

    def __init__(self, **answers):
        self.answers = answers
        self.commands = []

    def __call__(self, command, limit_s):
        self.commands.append(list(command))
        for word in reversed(command):
            answer = self.answers.get(word.lstrip("-").replace("-", "_"))
            if isinstance(answer, Exception):
                raise answer
            if answer is not None:
                return subprocess.CompletedProcess(list(command), *answer)
        raise FileNotFoundError(command[0])


def hang(tool):
    return subprocess.TimeoutExpired([tool], 10)


def tree(folder, files):
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return folder


def collect(root, run=None, environment=None, nvml=lambda: None):
    return collect_provenance(["samepath"], None, root=root, run=run or FakeRunner(), environment=environment or {}, nvml=nvml)


@pytest.fixture
def server(tmp_path):
    return tree(tmp_path, SERVER)


def test_a_host_that_tells_everything_is_recorded_in_full(server):
    cpu = read_cpu(Probe(server, FakeRunner()))
    assert (cpu.model, cpu.vendor, cpu.microcode) == ("Example CPU @ 3.00GHz", "GenuineIntel", "0x2b")
    assert (cpu.cores_physical, cpu.cores_logical, cpu.cores_usable, cpu.affinity) == (2, 4, 3, "0-2")
    assert cpu.frequency_hz_max == 3_000_000_000
    assert cpu.governors == (CoreSet("performance", "0-2"), CoreSet("powersave", "3"))
    assert (cpu.turbo, cpu.smt) == (False, True)
    assert cpu.float_flags == FloatFlags(fma=True, avx2=True, avx512f=False)
    assert cpu.numa_nodes == (CoreSet("node0", "0-1"), CoreSet("node1", "2-3"))
    assert cpu.clock_source == "tsc"


def test_memory_system_and_load_of_that_host_are_recorded(server):
    provenance = collect(server)
    assert provenance.memory.total_bytes == 16 * 2**20
    assert provenance.memory.swap_bytes == 2 * 2**20
    assert provenance.memory.ecc == "SECDED"
    assert provenance.load_average == LoadAverage(0.5, 1.25, 2.0)
    assert provenance.virtualisation.product == "Example Inc. Server 1"
    if platform.system() == "Linux":
        assert provenance.operating_system.name == "Example Linux 9"
        assert provenance.operating_system.kernel_build == "#1 SMP PREEMPT_RT"


def test_an_empty_host_gives_unknowns_with_reasons_and_no_exception(tmp_path):
    record = collect(tmp_path).as_dict()
    for part in ("cpu", "limits", "memory", "load_average", "virtualisation"):
        for name, value in record[part].items():
            facts = value.values() if isinstance(value, dict) else [value]
            assert all(re.fullmatch(r"unknown: .+", fact) for fact in facts), (part, name, value)
    assert record["gpus"] == "none found"
    assert record["working_folder"] == "unknown: git is not installed"
    assert json.loads(json.dumps(record)) == record


def test_a_system_that_is_not_linux_is_named_by_the_platform(tmp_path, monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "release", lambda: "23.1.0")
    system = collect(tmp_path).operating_system
    assert (system.name, system.kernel) == ("Darwin", "23.1.0")


def test_files_that_hold_nonsense_are_unknown(tmp_path):
    nonsense = dict.fromkeys(SERVER, "\udcff nonsense".encode("utf-8", "surrogateescape").decode("latin-1"))
    record = collect(tree(tmp_path, nonsense)).as_dict()
    assert record["cpu"]["cores_logical"].startswith("unknown: ")
    assert record["cpu"]["turbo"].startswith("unknown: ")
    assert record["limits"]["cpu_quota_cores"].startswith("unknown: ")
    assert record["load_average"]["tasks_1_min"].startswith("unknown: ")


def test_a_folder_in_place_of_a_file_is_unknown(tmp_path):
    (tmp_path / "proc/cpuinfo").mkdir(parents=True)
    assert read_cpu(Probe(tmp_path, FakeRunner())).model.startswith("unknown: /proc/cpuinfo: ")


def test_an_unknown_survives_as_itself_and_reads_as_a_reason():
    assert isinstance(Unknown.because("no file"), Unknown)
    assert Unknown.because("no file") == "unknown: no file"


def test_cores_that_differ_are_not_averaged_into_one_answer(tmp_path):
    mixed = CPUINFO.format(core=0) + "\n" + CPUINFO.format(core=1).replace("0x2b", "0x2c").replace(" fma", "")
    cpu = read_cpu(Probe(tree(tmp_path, {"proc/cpuinfo": mixed}), FakeRunner()))
    assert cpu.microcode == "0x2b; 0x2c"
    assert cpu.float_flags.fma == "unknown: some cores have fma, others have not"
    assert cpu.float_flags.avx2 is True


@pytest.mark.parametrize(("text", "cores"), [("0", (0,)), ("0-3,8", (0, 1, 2, 3, 8)), ("", ())])
def test_core_lists_are_read_and_written_as_the_kernel_does(text, cores):
    assert parse_cores(text) == cores
    assert format_cores(cores) == text


def test_the_boost_switch_tells_of_turbo_where_intel_has_none(tmp_path):
    assert read_cpu(Probe(tree(tmp_path, {f"{CPU}/cpufreq/boost": "1\n"}), FakeRunner())).turbo is True


def test_the_tightest_limit_of_the_groups_above_counts_in_cgroup_v2(server):
    assert read_limits(Probe(server)) == CgroupLimits("v2", 1.5, 1048576)


def test_no_limit_up_to_the_true_root_group_means_no_limit(tmp_path):
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cgroup.controllers": "cpu memory\n"}
    assert read_limits(Probe(tree(tmp_path, files))) == CgroupLimits("v2", None, None)


def test_a_limit_above_a_group_that_hides_the_root_is_unknown(tmp_path):
    files = {
        "proc/self/cgroup": "0::/../../elsewhere\n",
        "sys/fs/cgroup/cgroup.controllers": "\n",
        "sys/fs/cgroup/cgroup.type": "domain\n",
    }
    limits = read_limits(Probe(tree(tmp_path, files)))
    assert isinstance(limits.cpu_quota_cores, Unknown)
    assert isinstance(limits.memory_limit_bytes, Unknown)


def test_quota_and_memory_are_read_from_cgroup_v1(tmp_path):
    files = {
        "proc/self/cgroup": "3:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n0::/\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "2097152\n",
    }
    assert read_limits(Probe(tree(tmp_path, files))) == CgroupLimits("v1", 0.5, 2097152)


def test_no_limit_is_recognised_in_cgroup_v1(tmp_path):
    files = {
        "proc/self/cgroup": "3:memory:/\n2:cpu:/\n",
        "sys/fs/cgroup/cpu/release_agent": "\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    }
    assert read_limits(Probe(tree(tmp_path, files))) == CgroupLimits("v1", None, None)


def test_error_correction_comes_from_the_firmware_where_there_is_no_edac(tmp_path):
    run = FakeRunner(dmidecode=(0, "\tLocation: System Board\n\tError Correction Type: Multi-bit ECC\n", ""))
    assert read_memory(Probe(tmp_path, run)).ecc == "Multi-bit ECC"


def test_firmware_without_error_correction_says_none(tmp_path):
    run = FakeRunner(dmidecode=(0, "\tError Correction Type: None\n", ""))
    assert read_memory(Probe(tmp_path, run)).ecc == "none"


def test_firmware_that_may_not_be_read_leaves_error_correction_unknown(tmp_path):
    run = FakeRunner(dmidecode=(1, "", "Permission denied\n"))
    assert read_memory(Probe(tmp_path, run)).ecc.endswith("and dmidecode exited with status 1")


def test_a_hypervisor_s_firmware_tables_are_not_believed(tmp_path):
    files = {"proc/cpuinfo": CPUINFO.format(core=0).replace(" fma", " fma hypervisor")}
    run = FakeRunner(dmidecode=(0, "\tError Correction Type: Multi-bit ECC\n", ""))
    assert read_memory(Probe(tree(tmp_path, files), run)).ecc.startswith("unknown: ")
    assert run.commands == []


def test_a_machine_without_signs_and_with_a_tool_that_says_none_is_bare(server):
    found = read_virtualisation(Probe(server, FakeRunner(systemd_detect_virt=(1, "none\n", ""))))
    assert (found.hypervisor_flag, found.virtual_machine, found.container) == (False, "none", "none")


def test_a_container_is_seen_by_the_tool_by_its_marks_or_by_its_groups(tmp_path):
    by_tool = read_virtualisation(Probe(tmp_path, FakeRunner(container=(0, "lxc\n", ""), vm=(0, "kvm\n", ""))))
    assert (by_tool.virtual_machine, by_tool.container) == ("kvm", "lxc")
    group = tree(tmp_path / "group", {"proc/1/cgroup": "0::/kubepods.slice/pod1\n"})
    assert read_virtualisation(Probe(group, FakeRunner())).container == "kubepods"
    mark = tree(tmp_path / "mark", {".dockerenv": ""})
    assert read_virtualisation(Probe(mark, FakeRunner(systemd_detect_virt=(1, "none\n", "")))).container == "docker"


def test_no_sign_of_a_container_proves_nothing_without_the_tool(server):
    found = read_virtualisation(Probe(server, FakeRunner())).container
    assert found == "unknown: no sign of one, but systemd-detect-virt is not installed"


def test_a_load_average_that_cannot_be_read_is_unknown(tmp_path):
    assert isinstance(read_load_average(Probe(tmp_path)).tasks_1_min, Unknown)


def test_git_tells_commit_changes_and_untracked_files(tmp_path):
    run = FakeRunner(
        is_inside_work_tree=(0, "true\n", ""),
        HEAD=(0, "c0ffee\n", ""),
        porcelain=(0, " M a.py\n?? b.py\n", ""),
        **{"provenance.py": (0, "provenance.py\n", "")},
    )
    provenance = collect(tmp_path, run)
    assert provenance.working_folder == Checkout("c0ffee", dirty=True, untracked=True)
    assert provenance.samepath.checkout == Checkout("c0ffee", dirty=True, untracked=True)


def test_untracked_files_alone_do_not_make_a_checkout_dirty(tmp_path):
    run = FakeRunner(is_inside_work_tree=(0, "true\n", ""), HEAD=(0, "c0ffee\n", ""), porcelain=(0, "?? traces/\n", ""))
    assert collect(tmp_path, run).working_folder == Checkout("c0ffee", dirty=False, untracked=True)


def test_samepath_installed_below_another_project_does_not_take_its_commit(tmp_path):
    run = FakeRunner(
        is_inside_work_tree=(0, "true\n", ""),
        HEAD=(0, "c0ffee\n", ""),
        porcelain=(0, "", ""),
        **{"provenance.py": (0, "", "")},
    )
    provenance = collect(tmp_path, run)
    assert provenance.samepath.checkout is None
    assert provenance.working_folder == Checkout("c0ffee", dirty=False, untracked=False)


def test_a_folder_outside_any_checkout_has_no_commit(tmp_path):
    run = FakeRunner(git=(128, "", "fatal: not a git repository (or any of the parent directories): .git\n"))
    assert collect(tmp_path, run).working_folder is None


def test_a_git_that_fails_otherwise_leaves_the_commit_unknown(tmp_path):
    run = FakeRunner(git=(128, "", "fatal: detected dubious ownership in repository at '/home/someone'\n"))
    assert collect(tmp_path, run).working_folder == "unknown: git exited with status 128"


def test_a_git_that_hangs_leaves_the_commit_unknown(tmp_path):
    provenance = collect(tmp_path, FakeRunner(git=hang("git")))
    assert provenance.working_folder == "unknown: git gave no answer within 10 s"
    assert provenance.samepath.checkout == provenance.working_folder


def test_a_status_that_hangs_still_leaves_the_commit(tmp_path):
    run = FakeRunner(is_inside_work_tree=(0, "true\n", ""), HEAD=(0, "c0ffee\n", ""), porcelain=hang("git"))
    checkout = collect(tmp_path, run).working_folder
    assert checkout.commit == "c0ffee"
    assert isinstance(checkout.dirty, Unknown)


def test_git_itself_is_understood(tmp_path, monkeypatch):
    if isinstance(Probe().call("git", "--version"), Unknown):
        pytest.skip("git is not installed")
    monkeypatch.chdir(tmp_path)
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    for words in (("init", "--quiet"), ("commit", "--quiet", "--allow-empty", "--no-verify", "-m", "first")):
        assert run_command([*git, *words], 10).returncode == 0
    (tmp_path / "new.txt").write_text("new")
    checkout = collect(tmp_path, run_command).working_folder
    assert re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", checkout.commit)
    assert (checkout.dirty, checkout.untracked) == (False, True)


def test_gpus_are_listed_by_nvidia_smi_where_nvml_is_missing(tmp_path):
    lines = "NVIDIA H200, 570.86.15, 143771, Enabled\nNVIDIA T400, 570.86.15, [N/A], [N/A]\n"
    gpus = collect(tmp_path, FakeRunner(nvidia_smi=(0, lines, ""))).gpus
    assert gpus[0] == GpuInfo("NVIDIA H200", "570.86.15", 143771 * 2**20, ecc=True)
    assert gpus[1].name == "NVIDIA T400"
    assert isinstance(gpus[1].memory_bytes, Unknown)
    assert isinstance(gpus[1].ecc, Unknown)


def test_an_nvidia_smi_that_fails_or_hangs_leaves_the_gpus_unknown(tmp_path):
    failing = collect(tmp_path, FakeRunner(nvidia_smi=(9, "", "no driver\n")))
    assert failing.gpus == "unknown: nvidia-smi exited with status 9"
    hanging = collect(tmp_path, FakeRunner(nvidia_smi=hang("nvidia-smi")))
    assert hanging.gpus == "unknown: nvidia-smi gave no answer within 10 s"


def test_an_nvidia_smi_that_sees_no_device_finds_none(tmp_path):
    assert collect(tmp_path, FakeRunner(nvidia_smi=(0, "No devices were found\n", ""))).gpus == "none found"


def test_a_gpu_of_another_maker_is_listed_by_its_kernel_driver(tmp_path):
    files = {
        "sys/class/drm/card0/device/uevent": "DRIVER=amdgpu\nPCI_ID=1002:744C\n",
        "sys/class/drm/card0-DP-1/device/uevent": "DRIVER=amdgpu\n",
    }
    gpus = collect(tree(tmp_path, files)).gpus
    assert [(gpu.name, gpu.driver) for gpu in gpus] == [("PCI 1002:744C", "amdgpu")]


class NvmlError(Exception):
    """What the fake NVML raises."""


def fake_nvml(utilisation, calls):
    def rates(index):
        if utilisation[index] is None:
            raise NvmlError
        return SimpleNamespace(gpu=utilisation[index])

    def refuse(*_):
        raise NvmlError

    return SimpleNamespace(
        NVMLError=NvmlError,
        nvmlShutdown=lambda: calls.append("shutdown"),
        nvmlDeviceGetCount=lambda: len(utilisation),
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetUtilizationRates=rates,
        nvmlDeviceGetName=lambda _: b"NVIDIA H200",
        nvmlSystemGetDriverVersion=lambda: "570.86.15",
        nvmlDeviceGetMemoryInfo=lambda _: SimpleNamespace(total=2**30),
        nvmlDeviceGetEccMode=refuse,
    )


def test_nvml_is_preferred_and_shut_down_again(tmp_path):
    calls = []
    run = FakeRunner(nvidia_smi=(0, "other, 1, 1, Enabled\n", ""))
    (gpu,) = collect(tmp_path, run, nvml=lambda: fake_nvml([0], calls)).gpus
    assert (gpu.name, gpu.driver, gpu.memory_bytes) == ("NVIDIA H200", "570.86.15", 2**30)
    assert isinstance(gpu.ecc, Unknown)
    assert calls == ["shutdown"]


def test_the_busiest_gpu_that_can_be_read_gives_the_ratio():
    calls = []
    meter = GpuMeter(lambda: fake_nvml([25, None, 75], calls))
    assert meter.ratio() is None
    meter.open()
    assert meter.ratio() == 0.75
    meter.close()
    meter.close()
    assert meter.ratio() is None
    assert calls == ["shutdown"]


def test_a_real_command_that_hangs_is_cut_off_and_one_that_is_missing_is_named():
    impatient = Probe(run=lambda command, _: run_command(command, 0.01))
    assert impatient.ask(sys.executable, "-c", "import time; time.sleep(60)").startswith("unknown: ")
    assert isinstance(Probe().call("no-such-tool-of-samepath"), NotInstalled)


def test_only_the_listed_environment_is_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    environment = {"PYTHONHASHSEED": "0", "LD_PRELOAD": "/home/ann/lib.so:/home/ann/b.so", "API_TOKEN": "hunter2"}
    provenance = collect(tmp_path, environment=environment)
    assert provenance.environment == {"PYTHONHASHSEED": "0", "LD_PRELOAD": "~/lib.so:~/b.so"}
    assert "hunter2" not in json.dumps(provenance.as_dict())


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("/home/ann", "~"),
        ("/home/ann/study.yaml", "~/study.yaml"),
        ("--out=/home/ann/runs", "--out=~/runs"),
        ("-I/home/ann/include", "-I~/include"),
        ("'LDFLAGS=-L/home/ann/lib -Wl,-rpath,/home/ann/lib'", "'LDFLAGS=-L~/lib -Wl,-rpath,~/lib'"),
        ("file:///home/ann/x", "file://~/x"),
        ("/home/anna/x", "/home/anna/x"),
        ("/home/ann.old/x", "/home/ann.old/x"),
        ("/backup/home/ann/x", "/backup/home/ann/x"),
    ],
)
def test_the_home_folder_is_hidden_where_a_path_begins_with_it(text, hidden, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    assert hide_home(text) == hidden


def test_a_home_at_the_root_hides_nothing(monkeypatch):
    monkeypatch.setenv("HOME", "/")
    assert hide_home("/usr/bin/python") == "/usr/bin/python"


def test_a_working_folder_that_is_gone_is_unknown(tmp_path, monkeypatch):
    def gone():
        raise FileNotFoundError

    monkeypatch.setattr(Path, "cwd", gone)
    assert collect(tmp_path).working_folder == "unknown: the working folder is gone"


def test_the_names_of_the_presented_host_stay_out(server):
    assert "unspoken-host" not in json.dumps(collect(server).as_dict())


def test_date_command_and_seed_are_those_handed_in(tmp_path):
    clock = SimpleNamespace(utc_iso=lambda: "2024-02-29T12:00:00+00:00", monotonic_s=lambda: 0.0)
    provenance = collect_provenance(["samepath", "study"], 7, clock, root=tmp_path, run=FakeRunner())
    assert (provenance.date_utc, provenance.command, provenance.seed) == (
        "2024-02-29T12:00:00+00:00",
        ("samepath", "study"),
        7,
    )


def test_this_host_is_described_in_plain_json_without_its_name_or_a_home():
    home = str(Path.home())
    record = collect_provenance([f"{home}/bin/tool", f"--out={home}/runs"], None).as_dict()
    assert json.loads(json.dumps(record)) == record
    assert set(record) == {
        "date_utc",
        "command",
        "seed",
        "samepath",
        "working_folder",
        "python",
        "libraries",
        "differs_from_lock",
        "environment",
        "operating_system",
        "cpu",
        "limits",
        "virtualisation",
        "memory",
        "gpus",
        "load_average",
    }
    assert {"numpy", "pyarrow", "scipy"} <= set(record["libraries"])
    host = re.compile(rf"(?<![\w-]){re.escape(socket.gethostname())}(?![\w-])")
    for text in texts(record):
        assert home == "/" or home not in text
        assert not host.search(text)


def texts(value):
    """Yield every text in JSON data, without the keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts(item)


def test_collecting_imports_no_simulator_and_no_library_it_names():
    names = "'numba', 'carla', 'rapier3d', 'scipy', 'pyarrow'"
    code = (
        "import sys; from samepath.instrument.host.provenance import collect_provenance; collect_provenance([], None); "
        f"sys.exit(any(name in sys.modules for name in ({names})))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
