"""Facts about the CPU, as far as the kernel shows them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from samepath.conditions.probe import Probe, Unknown

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
