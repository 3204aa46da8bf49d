"""Facts about the host besides its CPU and GPUs: operating system, memory, virtualisation, load."""

import os
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass

from samepath.conditions.cpu_facts import has_flag
from samepath.conditions.probe import Probe, Unknown

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
class Memory:
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


def read_memory(probe: Probe) -> Memory:
    """Collect the facts about memory."""
    return Memory(_meminfo_bytes(probe, "MemTotal"), _meminfo_bytes(probe, "SwapTotal"), _ecc(probe))


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
