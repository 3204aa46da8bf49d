"""GPUs: which there are, and how busy they are. NVML is loaded on first use and never required."""

import contextlib
import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

from samepath.instrument.host.probe import NotInstalled, Probe, Unknown

NONE_FOUND = "none found"

NVIDIA_SMI_QUERY = "--query-gpu=name,driver_version,memory.total,ecc.mode.current"

NvmlLoader = Callable[[], ModuleType | None]


@dataclass(frozen=True)
class GpuInfo:
    """A GPU and its driver; ``ecc`` says whether its memory corrects errors at present."""

    name: str
    driver: str
    memory_bytes: int | Unknown
    ecc: bool | Unknown


def load_nvml() -> ModuleType | None:
    """Return NVML's binding, started; None where it is not installed or finds no driver. Shut it down after use."""
    try:
        # The binding's retired twin of the same name warns about itself on import, which is not this user's concern.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nvml = importlib.import_module("pynvml")
    except (ImportError, OSError):
        return None
    try:
        nvml.nvmlInit()
    except (nvml.NVMLError, OSError):
        return None
    return nvml


class GpuMeter:
    """Reads how busy the GPUs are, from :meth:`open` to :meth:`close`; without NVML there is nothing to read."""

    def __init__(self, load: NvmlLoader = load_nvml) -> None:
        self._load = load
        self._nvml: ModuleType | None = None

    def open(self) -> None:
        """Load NVML where it is installed."""
        self._nvml = self._load()

    def ratio(self) -> float | None:
        """Return the busiest GPU's utilisation, 0..1, over NVML's own window (up to a second); None if not readable."""
        nvml = self._nvml
        if nvml is None:
            return None
        ratios: list[float] = []
        for index in range(_count(nvml)):
            with contextlib.suppress(nvml.NVMLError):
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                ratios.append(nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100)
        return max(ratios, default=None)

    def close(self) -> None:
        """Release NVML."""
        nvml, self._nvml = self._nvml, None
        if nvml is not None:
            _shut_down(nvml)


def read_gpus(probe: Probe, load: NvmlLoader = load_nvml) -> tuple[GpuInfo, ...] | str:
    """List the GPUs: through NVML, else ``nvidia-smi``, else by their kernel drivers, else say that none was found."""
    nvml = load()
    if nvml is not None:
        try:
            found = tuple(_nvml_gpu(nvml, index) for index in range(_count(nvml)))
        finally:
            _shut_down(nvml)
        if found:
            return found
    return _smi_gpus(probe) or _display_gpus(probe) or NONE_FOUND


def _count(nvml: ModuleType) -> int:
    try:
        return int(nvml.nvmlDeviceGetCount())
    except nvml.NVMLError:
        return 0


def _shut_down(nvml: ModuleType) -> None:
    with contextlib.suppress(nvml.NVMLError):
        nvml.nvmlShutdown()


def _nvml_gpu(nvml: ModuleType, index: int) -> GpuInfo:
    driver = _text(_ask_nvml(nvml, "nvmlSystemGetDriverVersion"))
    handle = _ask_nvml(nvml, "nvmlDeviceGetHandleByIndex", index)
    if isinstance(handle, Unknown):
        return GpuInfo(handle, driver, handle, handle)
    memory = _ask_nvml(nvml, "nvmlDeviceGetMemoryInfo", handle)
    total = getattr(memory, "total", None)
    ecc = _ask_nvml(nvml, "nvmlDeviceGetEccMode", handle)
    return GpuInfo(
        name=_text(_ask_nvml(nvml, "nvmlDeviceGetName", handle)),
        driver=driver,
        memory_bytes=Unknown.because("NVML does not report it") if total is None else int(total),
        ecc=bool(ecc[0]) if isinstance(ecc, list | tuple) else Unknown.because("NVML does not report it"),
    )


def _ask_nvml(nvml: ModuleType, function: str, *words: object) -> object:
    try:
        return getattr(nvml, function)(*words)
    except (nvml.NVMLError, AttributeError):
        return Unknown.because(f"{function} failed")


def _text(answer: object) -> str:
    # Old bindings answer in bytes.
    if isinstance(answer, bytes):
        return answer.decode(errors="replace")
    return answer if isinstance(answer, str) else str(answer)


def _smi_gpus(probe: Probe) -> tuple[GpuInfo, ...] | Unknown | None:
    """Ask ``nvidia-smi``; None where it is not installed."""
    answer = probe.call("nvidia-smi", NVIDIA_SMI_QUERY, "--format=csv,noheader,nounits")
    if isinstance(answer, Unknown):
        return None if isinstance(answer, NotInstalled) else answer
    if answer.returncode != 0:
        return Unknown.because(f"nvidia-smi exited with status {answer.returncode}")
    rows = [[word.strip() for word in line.split(",")] for line in answer.stdout.splitlines()]
    # «No devices were found» comes on stdout too.
    return tuple(_smi_gpu(*row) for row in rows if len(row) == 4)


def _smi_gpu(name: str, driver: str, memory_mib: str, ecc: str) -> GpuInfo:
    silent = Unknown.because("nvidia-smi does not report it")
    return GpuInfo(
        name=name,
        driver=driver,
        memory_bytes=int(memory_mib) * 2**20 if memory_mib.isdigit() else silent,
        ecc={"Enabled": True, "Disabled": False}.get(ecc, silent),
    )


def _display_gpus(probe: Probe) -> tuple[GpuInfo, ...]:
    silent = Unknown.because("the kernel does not report it")
    gpus = []
    for path in probe.find("sys/class/drm/card[0-9]*/device/uevent"):
        if "-" in path.split("/")[3]:
            continue  # card0-HDMI-A-1 is a socket of card0
        facts = dict(line.partition("=")[::2] for line in probe.read(path).splitlines())
        name = f"PCI {facts['PCI_ID']}" if "PCI_ID" in facts else silent
        gpus.append(GpuInfo(name, facts.get("DRIVER", silent), silent, silent))
    return tuple(gpus)
