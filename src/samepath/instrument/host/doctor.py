"""Screening a host before a study: what on it can make repeats differ, and what to do about it.

:func:`read_host` asks the host and changes nothing; :func:`examine` judges what came, as a pure function.

The memory test writes patterns to a bounded part of the memory, against stuck and flipping bits. It is no memtest86: the
operating system chooses the physical pages, caches stand between the test and the memory, and the rest of the memory is in use
meanwhile. A wrong word proves a fault; a clean pass says nothing about other pages.

The memory of graphics cards, tested as the machine's own is: patterns are written there, read back and compared exactly.

It goes through NVIDIA's driver alone, which is there wherever a card works. The words are made and compared on the processor:
a wrong one may also come from the bus. It proves a fault of the card or its way there, and a clean pass says nothing of
memory that others hold. ``cuda_memtest`` (the paper, Section VII-C2) has patterns of its own and takes all of it.
"""

import ctypes
import importlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, Protocol

import numpy as np
import psutil
from numpy.typing import NDArray

from samepath.core.clock import SYSTEM_CLOCK, Clock
from samepath.core.errors import InputError, SamepathError, printable
from samepath.core.streams import stream
from samepath.core.units import parse_quantity
from samepath.instrument.host.facts import CPU_FOLDER, CoreSet, Virtualisation
from samepath.instrument.host.gpu import GpuInfo, NvmlLoader, load_nvml
from samepath.instrument.host.locked import Versions, installed_version
from samepath.instrument.host.probe import Probe, Unknown
from samepath.instrument.host.provenance import Provenance, collect_provenance

DEFAULT_BYTES: Final = 256 * 2**20
LEAST_BYTES: Final = 2**20
SHARE_OF_AVAILABLE: Final = 4  # at most a quarter, so that the test pushes nothing into swap
WORD_BYTES: Final = 8
BLOCK_WORDS: Final = 2**17  # 1 MiB: what is compared at a time, so that checking needs little memory of its own
LISTED_MAX: Final = 1000
SHOWN_MAX: Final = 3
SIZE_UNITS: Final = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}

Words = NDArray[np.uint64]
Maker = Callable[[int, int], Words]
Progress = Callable[[str, int], None]
Hook = Callable[[str, Words], None]


@dataclass(frozen=True)
class WrongWord:
    """A word that was not read as it was written; ``index`` counts the words of 64 bits from the start of the test."""

    pattern: str
    index: int
    written: int
    read: int

    @property
    def bits(self) -> tuple[int, ...]:
        """The bits that differ, 0 being the least significant."""
        return tuple(bit for bit in range(8 * WORD_BYTES) if (self.written ^ self.read) >> bit & 1)


@dataclass(frozen=True)
class MemoryTest:
    """What a test found. ``wrong_count`` is exact; ``wrong_words`` lists the first of them, at most ``LISTED_MAX``."""

    bytes_tested: int
    patterns: tuple[str, ...]
    wrong_count: int
    wrong_words: tuple[WrongWord, ...]


def parse_size_bytes(text: str) -> int:
    """Read ``256MiB``, ``1 GiB`` or ``500MB`` as bytes; ``0`` stands for no test."""
    example = "256MiB, 1GiB, 500MB, or 0 for no test"
    size = parse_quantity(text, SIZE_UNITS, "memory size", example)
    if size == 0:
        return 0
    if text.strip()[-1].isdigit() or text.strip().endswith("."):
        raise InputError(f"a memory size like {example} was wanted, but {text!r} came: add a unit ({', '.join(SIZE_UNITS)})")
    if size < LEAST_BYTES:
        raise InputError(f"a memory size of at least 1MiB, or 0 for no test, was wanted, but {text!r} came")
    return int(size)


def format_size(size_bytes: float) -> str:
    """Print an amount of memory for people."""
    for unit in ("GiB", "MiB", "KiB"):
        if size_bytes >= SIZE_UNITS[unit]:
            return f"{size_bytes / SIZE_UNITS[unit]:.4g} {unit}"
    return f"{size_bytes:.4g} B"


def bounded_bytes(wanted_bytes: int, available_bytes: int) -> int:
    """Return how much may be tested: whole words, at most a quarter of what is available."""
    return max(0, min(wanted_bytes, available_bytes // SHARE_OF_AVAILABLE)) // WORD_BYTES * WORD_BYTES


def count_steps(size_bytes: int) -> int:
    """Return how many steps :func:`check_memory` reports: each block is written and read once for each pattern."""
    return 2 * len(_patterns(0)) * len(_blocks(size_bytes // WORD_BYTES))


def check_memory(
    size_bytes: int = DEFAULT_BYTES, *, seed: int = 0, progress: Progress | None = None, before_reading: Hook | None = None
) -> MemoryTest:
    """Write every pattern to all words, then read it back and compare exactly.

    ``progress`` gets the pattern's name and the steps done; ``before_reading`` gets the words between writing and reading,
    so that the test itself can be tested. Raises ``MemoryError`` where so much cannot be had.
    """
    memory = _OwnWords(size_bytes // WORD_BYTES)

    def hook(pattern: str) -> None:
        if before_reading is not None:
            before_reading(pattern, memory.words)

    return check_words(memory, seed=seed, progress=progress, before_reading=hook)


class WordMemory(Protocol):
    """Memory that is tested: ``count`` words of 64 bits."""

    count: int

    def write(self, start: int, words: Words) -> None:
        """Write words from ``start`` on."""
        ...

    def read(self, start: int, stop: int) -> Words:
        """Return the words as they are read this one time."""
        ...


class _OwnWords:
    """Words of this machine's memory."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.words: Words = np.empty(count, dtype=np.uint64)

    def write(self, start: int, words: Words) -> None:
        self.words[start : start + len(words)] = words

    def read(self, start: int, stop: int) -> Words:
        # Copied first: a bit that wavers must be compared and shown as it was read this one time.
        return self.words[start:stop].copy()


def check_words(
    memory: WordMemory,
    *,
    seed: int = 0,
    progress: Progress | None = None,
    before_reading: Callable[[str], None] | None = None,
) -> MemoryTest:
    """Do the same with any memory that words can be written to and read from."""
    blocks = _blocks(memory.count)
    wrong: list[WrongWord] = []
    wrong_count = steps = 0
    patterns = _patterns(seed)

    def report(pattern: str) -> None:
        nonlocal steps
        steps += 1
        if progress is not None:
            progress(pattern, steps)

    for name, make in patterns.items():
        for start, stop in blocks:
            memory.write(start, make(start, stop))
            report(name)
        if before_reading is not None:
            before_reading(name)
        for start, stop in blocks:
            written = make(start, stop)
            read = memory.read(start, stop)
            differing = np.flatnonzero(written != read)
            wrong_count += len(differing)
            listed = differing[: LISTED_MAX - len(wrong)].tolist()
            wrong.extend(WrongWord(name, start + place, int(written[place]), int(read[place])) for place in listed)
            report(name)
    return MemoryTest(memory.count * WORD_BYTES, tuple(patterns), wrong_count, tuple(wrong))


def describe(test: MemoryTest) -> str:
    """Say what a test found, with the first wrong words in full."""
    where = f"{format_size(test.bytes_tested)} with {len(test.patterns)} patterns"
    shown = "; ".join(
        f"word {word.index}, bits {', '.join(map(str, word.bits))}"
        f" ({word.pattern}: wrote {word.written:#018x}, read {word.read:#018x})"
        for word in test.wrong_words[:SHOWN_MAX]
    )
    return f"{test.wrong_count} wrong in {where}, first {shown}" if test.wrong_count else f"no wrong word in {where}"


def _blocks(words: int) -> list[tuple[int, int]]:
    return [(start, min(start + BLOCK_WORDS, words)) for start in range(0, words, BLOCK_WORDS)]


def _patterns(seed: int) -> dict[str, Maker]:
    """Name the patterns in order; each is followed by its complement, so that every bit is both 0 and 1 several times."""

    def constant(byte: int) -> Maker:
        word = int.from_bytes(bytes([byte]) * WORD_BYTES, "little")
        return lambda start, stop: np.full(stop - start, word, dtype=np.uint64)

    def address(start: int, stop: int) -> Words:
        return np.arange(start, stop, dtype=np.uint64)

    def chance(start: int, stop: int) -> Words:
        # Keyed by the block, so that reading makes the same words again without keeping them.
        return stream(seed, "memory test", start).integers(0, 2**64, size=stop - start, dtype=np.uint64)

    def complement(make: Maker) -> Maker:
        return lambda start, stop: np.invert(make(start, stop))

    return {
        "0x00": constant(0x00),
        "0xFF": constant(0xFF),
        "0x55": constant(0x55),
        "0xAA": constant(0xAA),
        "address": address,
        "address, complement": complement(address),
        "random": chance,
        "random, complement": complement(chance),
    }


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
class ExaminedHost:
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
    installed: Versions = installed_version,
) -> ExaminedHost:
    """Ask the host everything; never raises. The last five stand for the system's own answers, for tests."""
    return ExaminedHost(
        # First: it reads the load.
        facts=collect_provenance([], None, clock, root=probe.root, run=probe.run, nvml=nvml, installed=installed),
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
    found = [process for process in map(_measure, others) if process is not None and process.core_ratio > BUSY_RATIO]
    return tuple(sorted(found, key=lambda process: (-process.core_ratio, process.name))[:3])


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


def examine(
    host: ExaminedHost,
    memory_test: MemoryTest | Unknown,
    gpu_tests: Mapping[str, MemoryTest | Unknown] | str | None = None,
) -> tuple[Diagnosis, ...]:
    """Judge a host and the result of a memory test, or the reason why there is none.

    ``gpu_tests`` are those of graphics cards by name, or one line: why there is nothing to test; None: nobody asked.
    """
    tested = _diagnose(MEMORY, MEMORY.name, memory_test)
    if host.tools["memtester"]:
        tested = replace(tested, advice=f"{tested.advice} On the running system memtester, which is installed, tests more.")
    gpus = host.facts.gpus
    named = {"GPU": gpus} if isinstance(gpus, str) else {f"GPU {number}": gpu for number, gpu in enumerate(gpus)}
    found = (_diagnose(topic, topic.name, topic.fact(host)) for topic in TOPICS)
    cards = (_diagnose(GPU, name, gpu) for name, gpu in named.items())
    tests = {GPU_MEMORY.name: gpu_tests} if isinstance(gpu_tests, str) else dict(gpu_tests or {})
    return (tested, *found, *cards, *(_diagnose(GPU_MEMORY, name, test) for name, test in tests.items()))


class Topic(NamedTuple):
    """What is looked at, how it is judged, and the words for it; ``advice`` continues a sentence."""

    name: str
    fact: Callable[[ExaminedHost], Any]
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
    names = {governor.name for governor in governors}
    finding = "; ".join(f"{governor.name} on cores {governor.cores}" for governor in governors)
    if any(name != "performance" and not name.startswith("unknown") for name in names):
        return "warning", finding
    return ("good" if names == {"performance"} else "unknown"), finding


def _load(host: ExaminedHost) -> Judgement:
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


def _gpu(gpu: GpuInfo | str) -> Judgement:
    if isinstance(gpu, str):
        return "good", gpu
    size = f"memory {gpu.memory_bytes}" if isinstance(gpu.memory_bytes, Unknown) else format_size(gpu.memory_bytes)
    ecc = gpu.ecc if isinstance(gpu.ecc, Unknown) else "on" if gpu.ecc else "off"
    return ("unknown" if isinstance(gpu.ecc, Unknown) else "good" if gpu.ecc else "note"), f"{gpu.name}, {size}, ECC {ecc}"


def _gpu_memory(test: MemoryTest | str) -> Judgement:
    if isinstance(test, str):
        return "good", test
    return "warning" if test.wrong_count else "good", describe(test)


def _busy_named(busy: tuple[BusyProcess, ...]) -> Judgement:
    named = ", ".join(f"{process.name} ({process.core_ratio:.0%} of a core)" for process in busy)
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
    Topic("libraries", lambda host: host.facts.differs_from_lock,
        lambda differing: ("note", ", ".join(differing)) if differing else ("good", "the versions of the lock"),
        "samepath was tested with the versions of its lock; another version of a library that computes may give other bits.",
        "install the locked versions where bits must be those of another machine: pip install 'NAME==VERSION'"),
    Topic("tools", lambda host: host.tools, _tools,
        "They make load (stress-ng), bind memory (numactl) and test it (memtester); samepath needs none of them.",
        "install those that the study calls for"),
)
GPU: Final = Topic("GPU", lambda host: host.facts.gpus, _gpu,
    "A wrong bit in graphics memory shows in rendered sensors and in physics on the GPU.",
    "test it with cuda_memtest before a long study, and switch ECC on where the card has it")
GPU_MEMORY: Final = Topic("GPU memory test", lambda _: None, _gpu_memory,
    "A wrong bit in graphics memory shows in rendered sensors; this test takes a part of what is free there.",
    "draw nothing on a card with a wrong bit; cuda_memtest tests all of its memory")
# fmt: on


LIBRARY: Final = "libcuda.so.1"
NO_CARD: Final = "no NVIDIA card to test"
CARDS_MOST: Final = 16
_OUT_OF_MEMORY: Final = 2

Loader = Callable[[], Any]


class CardFaultError(SamepathError):
    """A call of the driver failed; the message is one line."""


def load_driver() -> Any:  # noqa: ANN401 - a library without types
    """Return the driver's library; raises OSError where there is none."""
    return ctypes.CDLL(LIBRARY)


def check_gpu_memory(
    wanted_bytes: int, load: Loader = load_driver, progress: Callable[[int], Progress] | None = None
) -> dict[str, MemoryTest | Unknown] | str:
    """Test the memory of every card, at most a quarter of what is free there; by the card's name, or one line: there is none.

    ``progress`` gets the number of a card and returns what is told of its steps.
    """
    try:
        driver = _CardDriver(load())
        count = driver.count()
    except OSError:
        return f"{NO_CARD}: NVIDIA's driver is not installed"
    except (CardFaultError, AttributeError) as error:
        return f"{NO_CARD}: {error}"
    if not count:
        return f"{NO_CARD}: the driver shows none"
    found: dict[str, MemoryTest | Unknown] = {}
    for number in range(min(count, CARDS_MOST)):
        name = f"GPU {number} memory test"
        try:
            found[name] = _check(driver, number, wanted_bytes, progress(number) if progress else None)
        except CardFaultError as error:
            found[name] = Unknown.because(str(error))
    return found


def _check(driver: "_CardDriver", number: int, wanted_bytes: int, progress: Progress | None) -> MemoryTest | Unknown:
    with driver.opened(number):
        size_bytes = bounded_bytes(wanted_bytes, driver.free_bytes())
        if size_bytes < LEAST_BYTES:
            return Unknown.because("too little of the card's memory is free for a test")
        with driver.allocated(size_bytes) as address:
            return check_words(_CardWords(driver, address, size_bytes // WORD_BYTES), progress=progress)


class _CardWords:
    """Words of 64 bits on a card, written and read block by block."""

    def __init__(self, driver: "_CardDriver", address: int, count: int) -> None:
        self._driver, self._address, self.count = driver, address, count

    def write(self, start: int, words: Words) -> None:
        """Copy words to the card."""
        words = np.ascontiguousarray(words)
        self._driver.call("cuMemcpyHtoD_v2", self._at(start), ctypes.c_void_p(words.ctypes.data), ctypes.c_size_t(words.nbytes))

    def read(self, start: int, stop: int) -> Words:
        """Copy words from the card; memory of this machine that held something else before is never taken for them."""
        words: Words = np.full(stop - start, 0xDEAD_BEEF_DEAD_BEEF, np.uint64)
        self._driver.call("cuMemcpyDtoH_v2", ctypes.c_void_p(words.ctypes.data), self._at(start), ctypes.c_size_t(words.nbytes))
        return words

    def _at(self, start: int) -> ctypes.c_uint64:
        return ctypes.c_uint64(self._address + start * WORD_BYTES)


class _CardDriver:
    """The few calls of the driver's library that a test needs."""

    def __init__(self, library: Any) -> None:  # noqa: ANN401
        self._library = library
        self.call("cuInit", 0)

    def call(self, name: str, *words: object) -> None:
        """Call a function of the library; anything but success becomes a line."""
        status = getattr(self._library, name)(*words)
        if status == _OUT_OF_MEMORY:
            raise CardFaultError("the card's memory for a test could not be had")
        if status != 0:
            raise CardFaultError(printable(f"{name} failed with status {status}"))

    def count(self) -> int:
        """How many cards there are."""
        found = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(found))
        return found.value

    @contextmanager
    def opened(self, number: int) -> Iterator[None]:
        """Use a card, and let go of it."""
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), number)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        try:
            self.call("cuCtxSetCurrent", context)
            yield
        finally:
            # Whatever state the card is in: what failed before is what is told.
            self._library.cuDevicePrimaryCtxRelease_v2(device)

    def free_bytes(self) -> int:
        """How much memory of the card is free."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    @contextmanager
    def allocated(self, size_bytes: int) -> Iterator[int]:
        """Hold memory of the card, and give it back."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size_bytes))
        try:
            yield address.value
        finally:
            self._library.cuMemFree_v2(address)
