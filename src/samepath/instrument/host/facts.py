"""Facts about the host besides its GPUs: CPU, operating system, memory, virtualisation, load, limits of the control group.

Read from files of the kernel, through a :class:`Probe`, so that a test can present another machine. What cannot be read is
``Unknown`` with the reason, never a guess: on a virtual machine much of this is hidden, and a report must say so.
"""

import os
import platform
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from samepath.instrument.host.probe import Probe, Unknown

CPU_FOLDER = "sys/devices/system/cpu"


@dataclass(frozen=True)
class CoreSet:
    """Cores that have something in common, written as the kernel does: ``0-3,8``."""

    name: str
    cores: str


@dataclass(frozen=True)
class FloatFlags:
    """Instruction sets that change floating point results between otherwise equal programs."""

    fma: bool | Unknown
    avx2: bool | Unknown
    avx512f: bool | Unknown


@dataclass(frozen=True)
class Cpu:
    """The CPU; in a virtual machine, what the hypervisor shows of it.

    ``affinity`` lists the cores this process may use and ``cores_usable`` counts them.
    """

    model: str
    vendor: str
    microcode: str
    cores_physical: int | Unknown
    cores_logical: int | Unknown
    cores_usable: int | Unknown
    affinity: str
    frequency_hz_max: int | Unknown
    governors: tuple[CoreSet, ...] | Unknown
    turbo: bool | Unknown
    smt: bool | Unknown
    float_flags: FloatFlags
    numa_nodes: tuple[CoreSet, ...] | Unknown
    clock_source: str


def read_cpu(probe: Probe) -> Cpu:
    """Collect the facts about the CPU."""
    affinity = _affinity(probe)
    return Cpu(
        model=cpuinfo_value(probe, "model name"),
        vendor=cpuinfo_value(probe, "vendor_id"),
        microcode=cpuinfo_value(probe, "microcode"),
        cores_physical=_cores_physical(probe),
        cores_logical=_count(probe.read(f"{CPU_FOLDER}/online")),
        cores_usable=_count(affinity),
        affinity=affinity,
        frequency_hz_max=_frequency_hz_max(probe),
        governors=_governors(probe),
        turbo=_turbo(probe),
        smt=probe.read_flag(f"{CPU_FOLDER}/smt/active"),
        float_flags=FloatFlags(has_flag(probe, "fma"), has_flag(probe, "avx2"), has_flag(probe, "avx512f")),
        numa_nodes=_numa_nodes(probe),
        clock_source=probe.read("sys/devices/system/clocksource/clocksource0/current_clocksource"),
    )


def cpuinfo_value(probe: Probe, name: str) -> str:
    """Return a field of ``/proc/cpuinfo``; where cores differ, all its values in order of appearance."""
    text = probe.read("proc/cpuinfo")
    if isinstance(text, Unknown):
        return text
    values = dict.fromkeys(re.findall(rf"^{re.escape(name)}[ \t]*:[ \t]*(\S.*)$", text, re.MULTILINE))
    return "; ".join(values) or Unknown.because(f"/proc/cpuinfo has no {name!r}")


def has_flag(probe: Probe, flag: str) -> bool | Unknown:
    """Say whether x86 cores list ``flag``; the flags of other architectures are not known here."""
    flags = cpuinfo_value(probe, "flags")
    if isinstance(flags, Unknown):
        return flags
    have = [flag in core.split() for core in flags.split(";")]
    return have[0] if len(set(have)) == 1 else Unknown.because(f"some cores have {flag}, others have not")


def parse_cores(text: str) -> tuple[int, ...] | Unknown:
    """Return the cores that the kernel's notation ``0-3,8`` names."""
    if isinstance(text, Unknown):
        return text
    cores: list[int] = []
    for part in filter(None, text.split(",")):
        ends = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if ends is None:
            return Unknown.because(f"{text!r} is no list of cores")
        cores.extend(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return tuple(cores)


def format_cores(cores: Iterable[int]) -> str:
    """Write cores in the kernel's notation: ``0-3,8``."""
    spans: list[list[int]] = []
    for core in sorted(set(cores)):
        if spans and spans[-1][1] == core - 1:
            spans[-1][1] = core
        else:
            spans.append([core, core])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in spans)


def _count(cores: str) -> int | Unknown:
    parsed = parse_cores(cores)
    return parsed if isinstance(parsed, Unknown) else len(parsed)


def _affinity(probe: Probe) -> str:
    status = probe.read("proc/self/status")
    if isinstance(status, Unknown):
        return status
    allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
    return allowed[1] if allowed else Unknown.because("/proc/self/status has no 'Cpus_allowed_list'")


def _cores_physical(probe: Probe) -> int | Unknown:
    # Core ids repeat between the dies of some packages; the set of threads that share a core is unique.
    siblings = {probe.read(path) for path in probe.find(f"{CPU_FOLDER}/cpu[0-9]*/topology/thread_siblings_list")}
    failed = sorted(text for text in siblings if isinstance(text, Unknown))
    if failed:
        return Unknown(failed[0])
    return len(siblings) or Unknown.because(f"no core topology in /{CPU_FOLDER}")


def _frequency_hz_max(probe: Probe) -> int | Unknown:
    found = [probe.read_int(path) for path in probe.find(f"{CPU_FOLDER}/cpu[0-9]*/cpufreq/cpuinfo_max_freq")]
    known = [khz * 1000 for khz in found if not isinstance(khz, Unknown)]
    return max(known) if known else Unknown.because(f"no readable cpufreq in /{CPU_FOLDER}")


def _governors(probe: Probe) -> tuple[CoreSet, ...] | Unknown:
    cores: dict[str, list[int]] = {}
    for path in probe.find(f"{CPU_FOLDER}/cpu[0-9]*/cpufreq/scaling_governor"):
        core = int(path.split("/")[4].removeprefix("cpu"))
        governor = probe.read(path)
        cores.setdefault("unknown: not readable" if isinstance(governor, Unknown) else governor, []).append(core)
    if not cores:
        return Unknown.because(f"no cpufreq in /{CPU_FOLDER}")
    return tuple(CoreSet(name, format_cores(members)) for name, members in sorted(cores.items()))


def _turbo(probe: Probe) -> bool | Unknown:
    no_turbo = probe.read_flag(f"{CPU_FOLDER}/intel_pstate/no_turbo")
    if not isinstance(no_turbo, Unknown):
        return not no_turbo
    boost = probe.read_flag(f"{CPU_FOLDER}/cpufreq/boost")
    return Unknown.because(f"no turbo switch in /{CPU_FOLDER}") if isinstance(boost, Unknown) else boost


def _numa_nodes(probe: Probe) -> tuple[CoreSet, ...] | Unknown:
    paths = probe.find("sys/devices/system/node/node[0-9]*/cpulist")
    if not paths:
        return Unknown.because("no nodes in /sys/devices/system/node")
    return tuple(CoreSet(path.split("/")[4], probe.read(path)) for path in paths)


CONTAINER_MARKS = {".dockerenv": "docker", "run/.containerenv": "podman"}
CONTAINER_WORDS = ("docker", "kubepods", "libpod", "lxc", "containerd")


@dataclass(frozen=True)
class OperatingSystem:
    """The operating system; ``kernel_build`` tells, among others, a real-time kernel from an ordinary one."""

    name: str
    kernel: str
    kernel_build: str
    machine: str
    libc: str


@dataclass(frozen=True)
class MemoryInfo:
    """Memory and swap; ``ecc`` is the kind of error correction, ``none`` where there is none."""

    total_bytes: int | Unknown
    swap_bytes: int | Unknown
    ecc: str


@dataclass(frozen=True)
class Virtualisation:
    """Whether a hypervisor or a container stands between the run and the machine; ``none`` where a tool says so.

    ``hypervisor_flag`` is what the CPU shows (hypervisors may hide it), ``product`` how the firmware calls the machine.
    """

    hypervisor_flag: bool | Unknown
    virtual_machine: str
    container: str
    product: str


@dataclass(frozen=True)
class LoadAverage:
    """Mean number of runnable tasks over the last 1, 5 and 15 minutes."""

    tasks_1_min: float | Unknown
    tasks_5_min: float | Unknown
    tasks_15_min: float | Unknown


def read_operating_system(probe: Probe) -> OperatingSystem:
    """Collect the facts about the operating system."""
    machine = platform.machine() or Unknown.because("the platform does not name its processor")
    system = platform.system()
    if system != "Linux":
        silent = Unknown.because("the platform does not name it")
        name, kernel, build = (text or silent for text in (system, platform.release(), platform.version()))
        return OperatingSystem(name, kernel, build, machine, _libc())
    kernel, build = probe.read("proc/sys/kernel/osrelease"), probe.read("proc/sys/kernel/version")
    return OperatingSystem(_distribution(probe), kernel, build, machine, _libc())


def read_memory(probe: Probe) -> MemoryInfo:
    """Collect the facts about memory."""
    return MemoryInfo(_meminfo_bytes(probe, "MemTotal"), _meminfo_bytes(probe, "SwapTotal"), _ecc(probe))


def read_virtualisation(probe: Probe) -> Virtualisation:
    """Collect the signs of a virtual machine and of a container."""
    return Virtualisation(
        hypervisor_flag=has_flag(probe, "hypervisor"),
        virtual_machine=_detect_virtual(probe, "--vm"),
        container=_container(probe),
        product=_product(probe),
    )


def read_load_average(probe: Probe) -> LoadAverage:
    """Read the load average."""
    text = probe.read("proc/loadavg")
    if isinstance(text, Unknown):
        return LoadAverage(text, text, text)
    numbers = re.match(r"(\d+\.\d+) (\d+\.\d+) (\d+\.\d+)", text)
    if numbers is None:
        reason = Unknown.because("/proc/loadavg holds no three numbers")
        return LoadAverage(reason, reason, reason)
    return LoadAverage(float(numbers[1]), float(numbers[2]), float(numbers[3]))


def _distribution(probe: Probe) -> str:
    text = probe.read("etc/os-release")
    if isinstance(text, Unknown):
        text = probe.read("usr/lib/os-release")
    if isinstance(text, Unknown):
        return text
    name = re.search(r"^PRETTY_NAME=[\"']?(.*?)[\"']?$", text, re.MULTILINE)
    return name[1] if name else Unknown.because("/etc/os-release has no PRETTY_NAME")


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or Unknown.because("the C library does not name itself")
    except (AttributeError, ValueError, OSError):
        return Unknown.because("not the GNU C library")


def _meminfo_bytes(probe: Probe, name: str) -> int | Unknown:
    text = probe.read("proc/meminfo")
    if isinstance(text, Unknown):
        return text
    amount = re.search(rf"^{name}:\s*(\d+) kB$", text, re.MULTILINE)
    return int(amount[1]) * 1024 if amount else Unknown.because(f"/proc/meminfo has no {name}")


def _ecc(probe: Probe) -> str:
    controllers = probe.find("sys/devices/system/edac/mc/mc[0-9]*")
    if not controllers:
        return _ecc_from_firmware(probe)
    paths = [path for folder in controllers for path in probe.find(f"{folder}/*/*edac_mode")]
    modes = [probe.read(path) for path in paths]
    return _joined(modes) or Unknown.because("the EDAC driver names no mode")


def _ecc_from_firmware(probe: Probe) -> str:
    no_edac = "no memory controller in /sys/devices/system/edac/mc"
    # Hypervisors write made-up memory into the firmware tables of their guests.
    if has_flag(probe, "hypervisor") is True:
        return Unknown.because(f"{no_edac}, and a hypervisor hides the memory")
    tables = probe.ask("dmidecode", "--type", "16")
    if isinstance(tables, Unknown):
        return Unknown.because(f"{no_edac}, and {tables.removeprefix('unknown: ')}")
    kinds = re.findall(r"^\s*Error Correction Type: (.+)$", tables, re.MULTILINE)
    telling = [kind for kind in kinds if kind not in {"Unknown", "Other", "<OUT OF SPEC>"}]
    return _joined(telling) or Unknown.because(f"{no_edac}, and dmidecode names no error correction type")


def _joined(kinds: Iterable[str]) -> str:
    unique = sorted(set(kinds))
    return "none" if unique == ["None"] else "; ".join(unique)


def _detect_virtual(probe: Probe, kind: str) -> str:
    answer = probe.call("systemd-detect-virt", kind)
    if isinstance(answer, Unknown):
        return answer
    # Status 1 goes with the answer «none».
    said = answer.stdout.strip()
    return said or Unknown.because(f"systemd-detect-virt exited with status {answer.returncode}")


def _container(probe: Probe) -> str:
    detected = _detect_virtual(probe, "--container")
    if not isinstance(detected, Unknown) and detected != "none":
        return detected
    for path, name in CONTAINER_MARKS.items():
        if probe.exists(path):
            return name
    groups = probe.read("proc/1/cgroup")
    for word in CONTAINER_WORDS:
        if not isinstance(groups, Unknown) and word in groups:
            return word
    if isinstance(detected, Unknown):
        return Unknown.because(f"no sign of one, but {detected.removeprefix('unknown: ')}")
    return detected


def _product(probe: Probe) -> str:
    vendor, product = (probe.read(f"sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name"))
    known = [text for text in (vendor, product) if text and not isinstance(text, Unknown)]
    return " ".join(known) or (vendor if isinstance(vendor, Unknown) else Unknown.because("the firmware gives no name"))


MOUNT = "sys/fs/cgroup"

# Version 1 writes «no limit» as the largest whole number of pages below 2^63 bytes, which depends on the page size.
UNLIMITED_BYTES = 2**62


@dataclass(frozen=True)
class CgroupLimits:
    """The tightest limits from this process's group up to the topmost one it can see; None where there is no limit."""

    cgroup: str
    cpu_quota_cores: float | Unknown | None
    memory_limit_bytes: int | Unknown | None


@dataclass(frozen=True)
class _Membership:
    """The groups of this process: v1 by controller as (folder of the mount, path), v2 as one path."""

    legacy: dict[str, tuple[str, str]]
    unified: str | None


def read_limits(probe: Probe) -> CgroupLimits:
    """Collect the limits of this process's control group."""
    text = probe.read("proc/self/cgroup")
    if isinstance(text, Unknown):
        return CgroupLimits(text, text, text)
    member = _parse_membership(text)
    is_v1 = "cpu" in member.legacy or "memory" in member.legacy
    return CgroupLimits("v1" if is_v1 else "v2", _cpu_quota(probe, member), _memory_limit(probe, member))


def _parse_membership(text: str) -> _Membership:
    legacy: dict[str, tuple[str, str]] = {}
    unified = None
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            unified = path
        for controller in filter(None, controllers.split(",")):
            legacy[controller] = (controllers, path)
    return _Membership(legacy, unified)


def _cpu_quota(probe: Probe, member: _Membership) -> float | Unknown | None:
    if "cpu" in member.legacy:
        folders = _folders_v1(probe, member, "cpu")
        # Only the true root group has a release_agent, and it knows no quota.
        sees_root = probe.exists(f"{folders[-1]}/release_agent")
        return _tightest([_quota_v1(probe, folder) for folder in folders], sees_root)
    return _limit_v2(probe, member, "cpu.max", _parse_quota)


def _memory_limit(probe: Probe, member: _Membership) -> int | Unknown | None:
    if "memory" in member.legacy:
        folders = _folders_v1(probe, member, "memory")
        tightest = _tightest([_memory_v1(probe, folder) for folder in folders], sees_root=False)
    else:
        tightest = _limit_v2(probe, member, "memory.max", _parse_bytes)
    return int(tightest) if isinstance(tightest, float) else tightest


def _folders(mount: str, path: str) -> list[str]:
    # A process outside its cgroup namespace's root sees «/../other»; such a group is not below the mount.
    parts = [part for part in path.split("/") if part and part != ".."]
    return ["/".join([mount, *parts[:depth]]) for depth in range(len(parts), -1, -1)]


def _folders_v1(probe: Probe, member: _Membership, controller: str) -> list[str]:
    joined, path = member.legacy[controller]
    mounts = [f"{MOUNT}/{name}" for name in (joined, controller) if probe.exists(f"{MOUNT}/{name}")]
    return _folders(mounts[0] if mounts else f"{MOUNT}/{controller}", path)


def _quota_v1(probe: Probe, folder: str) -> float | Unknown | None:
    quota_us = probe.read_int(f"{folder}/cpu.cfs_quota_us")
    period_us = probe.read_int(f"{folder}/cpu.cfs_period_us")
    if isinstance(quota_us, Unknown):
        return quota_us
    if quota_us < 0:
        return None
    if isinstance(period_us, Unknown):
        return period_us
    return quota_us / period_us if period_us > 0 else Unknown.because(f"/{folder}: the period is {period_us} us")


def _memory_v1(probe: Probe, folder: str) -> int | Unknown | None:
    limit = probe.read_int(f"{folder}/memory.limit_in_bytes")
    return None if not isinstance(limit, Unknown) and limit >= UNLIMITED_BYTES else limit


def _limit_v2(
    probe: Probe, member: _Membership, name: str, parse: Callable[[str], float | Unknown | None]
) -> float | Unknown | None:
    if member.unified is None:
        return Unknown.because("/proc/self/cgroup names no group that could hold the limit")
    mount = MOUNT if probe.exists(f"{MOUNT}/cgroup.controllers") else f"{MOUNT}/unified"
    # Only the true root group has no cgroup.type, and it knows no limits.
    sees_root = probe.exists(f"{mount}/cgroup.controllers") and not probe.exists(f"{mount}/cgroup.type")
    return _tightest([parse(probe.read(f"{folder}/{name}")) for folder in _folders(mount, member.unified)], sees_root)


def _parse_quota(text: str) -> float | Unknown | None:
    if isinstance(text, Unknown):
        return text
    words = text.split()
    if words[:1] == ["max"]:
        return None
    if len(words) == 2 and all(word.isdigit() for word in words) and int(words[1]) > 0:
        return int(words[0]) / int(words[1])
    return Unknown.because(f"cpu.max holds {text!r}")


def _parse_bytes(text: str) -> int | Unknown | None:
    if isinstance(text, Unknown):
        return text
    if text == "max":
        return None
    return int(text) if text.isdigit() else Unknown.because(f"memory.max holds {text!r}")


def _tightest(limits: Sequence[float | Unknown | None], sees_root: bool) -> float | Unknown | None:
    """Choose among the limits from the process's own group upwards; silence up to the true root means no limit."""
    numbers = [limit for limit in limits if isinstance(limit, int | float)]
    if numbers:
        return min(numbers)
    return None if sees_root or None in limits else limits[0]
