"""Screening a host before a study: what on it can make repeats differ, and what to do about it.

:func:`read_host` asks the host and changes nothing; :func:`examine` judges what came, as a pure function.
"""

import importlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

import psutil

from samepath.base.clock import SYSTEM_CLOCK, Clock
from samepath.base.words import printable
from samepath.conditions.cpu_facts import CPU_FOLDER, CoreSet
from samepath.conditions.gpu import Gpu, NvmlLoader, load_nvml
from samepath.conditions.host_facts import Virtualisation
from samepath.conditions.memory_test import MemoryTest, describe, format_size
from samepath.conditions.probe import Probe, Unknown
from samepath.conditions.provenance import Provenance, collect_provenance

Status = Literal["good", "note", "warning", "unknown"]
Judgement = tuple[Status, str]

TOOLS: Final = ("stress-ng", "numactl", "memtester")
SAMPLE_S, BUSY_RATIO = 0.5, 0.05
LOAD_NOTE, LOAD_WARNING = 0.25, 0.75  # of the cores; up to 75 % the paper stayed within its tolerance, before collisions
CAP_SYS_NICE: Final = 23
STEADY_CLOCKS, GUEST_CLOCKS = ("tsc", "arch_sys_counter"), ("kvm-clock", "hyperv_clocksource_tsc_page", "xen")


@dataclass(frozen=True)
class Diagnosis:
    """One finding about the host, what it means for repeatability and what to do."""

    topic: str
    status: Status
    finding: str
    meaning: str
    advice: str


@dataclass(frozen=True)
class BusyProcess:
    """Another process and the share of one core it took."""

    name: str
    core_ratio: float


@dataclass(frozen=True)
class Host:
    """What is examined: what every measurement records, ``rights`` with the scheduler, ``tools`` found or not, and more."""

    facts: Provenance
    busy: tuple[BusyProcess, ...] | Unknown
    isolated: str
    swap_used_bytes: int | Unknown
    rights: Mapping[str, bool | Unknown]
    aslr: int | Unknown
    tools: Mapping[str, bool]


def read_soft_limit(name: str) -> int | Unknown:
    """Return a limit of this process, such as RLIMIT_NICE; -1 where there is none."""
    try:
        resource = importlib.import_module("resource")
        return int(resource.getrlimit(getattr(resource, name))[0])
    except (ImportError, AttributeError, OSError, ValueError):
        return Unknown.because(f"the system has no {name}")


def read_host(
    probe: Probe,
    clock: Clock = SYSTEM_CLOCK,
    *,
    nvml: NvmlLoader = load_nvml,
    processes: Callable[[], Iterable[psutil.Process]] = psutil.process_iter,
    soft_limit: Callable[[str], int | Unknown] = read_soft_limit,
    find_tool: Callable[[str], str | None] = shutil.which,
) -> Host:
    """Ask the host everything; never raises. The last four stand for the system's own answers, for tests."""
    return Host(
        facts=collect_provenance([], None, clock, root=probe.root, run=probe.run, nvml=nvml),  # first: it reads the load
        busy=_busy(clock, processes),
        isolated=probe.read(f"{CPU_FOLDER}/isolated"),
        swap_used_bytes=_swap_used_bytes(probe),
        rights=_rights(probe, soft_limit),
        aslr=probe.read_int("proc/sys/kernel/randomize_va_space"),
        tools={tool: find_tool(tool) is not None for tool in TOOLS},
    )


def _busy(clock: Clock, processes: Callable[[], Iterable[psutil.Process]]) -> tuple[BusyProcess, ...] | Unknown:
    """Measure the other processes over a short while, the busiest first; one that ends meanwhile is left out."""
    try:
        others = [process for process in processes() if process.pid != os.getpid() and _measure(process)]  # starts measuring
    except (OSError, psutil.Error) as error:
        return Unknown.because(f"the processes cannot be listed: {type(error).__name__}")
    clock.sleep_s(SAMPLE_S)
    found = [one for one in map(_measure, others) if one is not None and one.core_ratio > BUSY_RATIO]
    return tuple(sorted(found, key=lambda one: (-one.core_ratio, one.name))[:3])


def _measure(process: psutil.Process) -> BusyProcess | None:
    try:
        name = printable(process.name())
        return BusyProcess(name, process.cpu_percent(None) / 100)
    except (OSError, psutil.Error):
        return None


def _swap_used_bytes(probe: Probe) -> int | Unknown:
    amounts = dict(re.findall(r"^(SwapTotal|SwapFree):\s*(\d+) kB$", probe.read("proc/meminfo"), re.MULTILINE))
    if len(amounts) != 2:
        return Unknown.because("/proc/meminfo does not tell SwapTotal and SwapFree")
    return (int(amounts["SwapTotal"]) - int(amounts["SwapFree"])) * 1024


def _rights(probe: Probe, soft_limit: Callable[[str], int | Unknown]) -> dict[str, bool | Unknown]:
    capable = _may_schedule(probe)

    def allowed(name: str, above: int) -> bool | Unknown:
        limit = soft_limit(name)
        # -1 is «unlimited». RLIMIT_NICE counts from 20 - nice, so that 21 allows -1.
        if capable is True or (not isinstance(limit, Unknown) and (limit == -1 or limit > above)):
            return True
        return capable if isinstance(capable, Unknown) else limit if isinstance(limit, Unknown) else False

    return {"negative nice": allowed("RLIMIT_NICE", 20), "real-time scheduling": allowed("RLIMIT_RTPRIO", 0)}


def _may_schedule(probe: Probe) -> bool | Unknown:
    """Say whether CAP_SYS_NICE is effective; it is what makes root mighty here, and containers often drop it."""
    effective = re.search(r"^CapEff:\s*([0-9a-fA-F]+)$", probe.read("proc/self/status"), re.MULTILINE)
    if effective is None:
        return Unknown.because("/proc/self/status does not tell CapEff")
    has = bool(int(effective[1], 16) >> CAP_SYS_NICE & 1)
    namespace = probe.read("proc/self/uid_map")
    # The kernel honours it in the first user namespace only; root of a rootless container has it in vain.
    return has and (isinstance(namespace, Unknown) or namespace.split() == ["0", "0", "4294967295"])


def examine(host: Host, memory_test: MemoryTest | Unknown) -> tuple[Diagnosis, ...]:
    """Judge a host and the result of a memory test, or the reason why there is none."""
    tested = _diagnose(MEMORY, MEMORY.name, memory_test)
    if host.tools["memtester"]:
        tested = replace(tested, advice=f"{tested.advice} On the running system memtester, which is installed, tests more.")
    gpus = host.facts.gpus
    named = {"GPU": gpus} if isinstance(gpus, str) else {f"GPU {number}": gpu for number, gpu in enumerate(gpus)}
    found = (_diagnose(topic, topic.name, topic.fact(host)) for topic in TOPICS)
    return (tested, *found, *(_diagnose(GPU, name, gpu) for name, gpu in named.items()))


class Topic(NamedTuple):
    """What is looked at, how it is judged, and the words for it; ``advice`` continues a sentence."""

    name: str
    fact: Callable[[Host], Any]
    judge: Callable[[Any], Judgement]
    meaning: str
    advice: str


def _diagnose(topic: Topic, name: str, fact: object) -> Diagnosis:
    status, finding = topic.judge(fact) if not isinstance(fact, Unknown) else ("unknown", str(fact))
    advice = f"{topic.advice[0].upper()}{topic.advice[1:]}."
    if topic.name != MEMORY.name and status in ("good", "unknown"):
        advice = "Nothing." if status == "good" else f"Find out by hand; where it applies, {topic.advice}."
    return Diagnosis(name, status, finding, topic.meaning, advice)


def _ecc(kind: str) -> Judgement:
    if "Unknown" in kind:
        return "unknown", f"unknown: the memory controllers say {kind}"
    corrects = all(re.search(r"ECC|SECDED|S\d+ECD\d+ED", part) for part in kind.split("; "))
    return ("good" if corrects else "note"), kind


def _governor(governors: tuple[CoreSet, ...]) -> Judgement:
    names = {one.name for one in governors}
    finding = "; ".join(f"{one.name} on cores {one.cores}" for one in governors)
    if any(name != "performance" and not name.startswith("unknown") for name in names):
        return "warning", finding
    return ("good" if names == {"performance"} else "unknown"), finding


def _load(host: Host) -> Judgement:
    tasks, cores = host.facts.load_average.tasks_1_min, host.facts.cpu.cores_logical
    if isinstance(tasks, Unknown) or isinstance(cores, Unknown):
        return "unknown", tasks if isinstance(tasks, Unknown) else str(cores)
    status: Status = "warning" if tasks > LOAD_WARNING * cores else "note" if tasks > LOAD_NOTE * cores else "good"
    return status, f"{tasks:g} runnable tasks on {cores} cores over the last minute"


def _virtual(seen: Virtualisation) -> Judgement:
    signs = {"virtual machine": seen.virtual_machine, "container": seen.container}
    found = {what: sign for what, sign in signs.items() if not isinstance(sign, Unknown) and sign != "none"}
    if seen.hypervisor_flag is True:
        found = {"virtual machine": "the CPU shows a hypervisor"} | found
    if found:
        return "warning" if "virtual machine" in found else "note", ", ".join(
            f"{what} ({sign})" for what, sign in found.items()
        )
    unknown = [sign for sign in signs.values() if isinstance(sign, Unknown)]
    return ("unknown", unknown[0]) if unknown else ("good", "neither virtual machine nor container")


def _scheduling(rights: Mapping[str, bool | Unknown]) -> Judgement:
    words = {True: "allowed", False: "not allowed"}
    finding = ", ".join(f"{name} {right if isinstance(right, Unknown) else words[right]}" for name, right in rights.items())
    if any(isinstance(right, Unknown) for right in rights.values()):
        return "unknown", finding
    return ("good" if all(rights.values()) else "note"), finding


def _tools(tools: Mapping[str, bool]) -> Judgement:
    groups = {"found": [tool for tool in tools if tools[tool]], "not found": [tool for tool in tools if not tools[tool]]}
    finding = "; ".join(f"{what}: {', '.join(names)}" for what, names in groups.items() if names)
    return ("note" if groups["not found"] else "good"), finding


def _gpu(gpu: Gpu | str) -> Judgement:
    if isinstance(gpu, str):
        return "good", gpu
    size = f"memory {gpu.memory_bytes}" if isinstance(gpu.memory_bytes, Unknown) else format_size(gpu.memory_bytes)
    ecc = gpu.ecc if isinstance(gpu.ecc, Unknown) else "on" if gpu.ecc else "off"
    return ("unknown" if isinstance(gpu.ecc, Unknown) else "good" if gpu.ecc else "note"), f"{gpu.name}, {size}, ECC {ecc}"


def _busy_named(busy: tuple[BusyProcess, ...]) -> Judgement:
    named = ", ".join(f"{one.name} ({one.core_ratio:.0%} of a core)" for one in busy)
    return ("warning", named) if named else ("good", f"none seen above {BUSY_RATIO:.0%} of a core")


# fmt: off
MEMORY: Final = Topic("memory test", lambda _: None, lambda test: ("warning" if test.wrong_count else "good", describe(test)),
    "A wrong bit makes repeats differ by chance; this test cannot choose physical pages and is no memtest86.",
    "run memtest86 from a boot medium before a long study, and measure nothing on a machine with a wrong bit")
TOPICS: Final = (
    Topic("ECC", lambda host: host.facts.memory.ecc, _ecc,
        "Without error correction a flipped bit goes unseen; that is rare, and matters over thousands of hours.",
        "use a machine with ECC memory for long studies"),
    Topic("CPU governor", lambda host: host.facts.cpu.governors, _governor,
        "A clock rate that follows the load shifts the timing of threads and of real-time steps.",
        "set the performance governor (cpupower frequency-set -g performance)"),
    Topic("turbo", lambda host: host.facts.cpu.turbo, lambda on: ("note", "on") if on else ("good", "off"),
        "Turbo makes speed depend on temperature and neighbours, so repeats differ in timing.",
        "switch it off in the firmware or in /sys/devices/system/cpu"),
    Topic("SMT", lambda host: host.facts.cpu.smt, lambda on: ("note", "on") if on else ("good", "off"),
        "Two threads that share a core slow each other down by an amount that changes.",
        "switch it off (write off to /sys/devices/system/cpu/smt/control) or leave every second thread idle"),
    Topic("isolated cores", lambda host: host.isolated, lambda cores: ("good", f"cores {cores}") if cores else ("note", "none"),
        "On a core that is not isolated the scheduler may put other work beside the simulator.",
        "boot with isolcpus= and pin the simulator to those cores"),
    Topic("CPU quota", lambda host: host.facts.limits.cpu_quota_cores,
        lambda cores: ("good", "no limit") if cores is None else ("warning", f"{cores:g} cores"),
        "A quota stops the process in the middle of a tick until the next period.",
        "lift the quota of the control group and pin cores instead"),
    Topic("memory limit", lambda host: host.facts.limits.memory_limit_bytes,
        lambda limit: ("good", "no limit") if limit is None else ("note", format_size(limit)),
        "Near the limit memory is reclaimed, which stalls a run, and beyond it the run is killed.",
        "see that the limit leaves room for all workers at once"),
    Topic("swap", lambda host: host.swap_used_bytes,
        lambda used: ("warning", f"{format_size(used)} in use") if used > 0 else ("good", "not in use"),
        "Memory that must come back from swap stalls a tick for milliseconds.",
        "free memory, then switch swap off for the study (swapoff -a)"),
    Topic("clock source", lambda host: host.facts.cpu.clock_source,
        lambda source: ("good" if source in STEADY_CLOCKS else "note" if source in GUEST_CLOCKS else "warning", source),
        "A slow or coarse clock makes timing noisy for simulators that follow real time.",
        "let the kernel use tsc where it is stable (clocksource=tsc)"),
    Topic("busy processes", lambda host: host.busy, _busy_named,
        "Other work interrupts the simulator's threads and may change their order.", "stop what the study does not need"),
    Topic("load", lambda host: host, _load,
        "The spread of repeats grows with the load; the paper's restricted results keep to 75 % at most.",
        "wait until the machine is idle or use fewer workers"),
    Topic("virtualisation", lambda host: host.facts.virtualisation, _virtual,
        "What shares the machine from outside is not seen here and takes time from the runs.",
        "measure on bare metal, or reserve whole cores for this guest"),
    Topic("NUMA", lambda host: host.facts.cpu.numa_nodes,
        lambda nodes: ("note" if len(nodes) > 1 else "good", f"{len(nodes)} node{'s' * (len(nodes) > 1)}"),
        "Memory of another node answers later; binding to a core made the spread about 2 % smaller in the paper.",
        "bind each run to one node (numactl --cpunodebind=0 --membind=0)"),
    Topic("priority", lambda host: host.rights, _scheduling,
        "A higher priority makes the spread under load smaller, though it does not remove it.",
        "raise the limits nice and rtprio in /etc/security/limits.conf or grant CAP_SYS_NICE"),
    Topic("ASLR", lambda host: host.aslr, lambda mode: ("note", f"on (mode {mode})") if mode else ("good", "off"),
        "Random addresses change the order of whatever is sorted or hashed by address.",
        "run the simulator under setarch -R to see whether it matters"),
    Topic("tools", lambda host: host.tools, _tools,
        "They make load (stress-ng), bind memory (numactl) and test it (memtester); samepath needs none of them.",
        "install those that the study calls for"),
)
GPU: Final = Topic("GPU", lambda host: host.facts.gpus, _gpu,
    "A wrong bit in graphics memory shows in rendered sensors and in physics on the GPU.",
    "test it with cuda_memtest before a long study, and switch ECC on where the card has it")
# fmt: on
