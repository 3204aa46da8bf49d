"""The worker's side of a load: ``python -m samepath.instrument.conditions.worker TASK``, busy for a share of every period.

Periods differ by up to a quarter from each other, in a fixed order, so that workers neither march in step with each other nor
with the kernel's ticks. The kernel may count utilisation by sampling at those ticks: a worker in step with them would be seen
always busy or never, and workers in step with each other would load the machine in bursts that a simulator feels as a rhythm.

Work for a GPU goes through PyTorch, CuPy or the CUDA driver itself, whichever is there. A kernel is launched without waiting
and waited for by sleeping, not spinning: a GPU load should not be a CPU load.
"""

import ctypes
import importlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.processes import die_with_parent
from samepath.instrument.conditions.worker_pool import SHARE, SchedulingState, SharedNumbers, done_at, ready_at

# Short enough that a simulator with a step of 50 ms sees an even load, long enough that waking up is a small part of it.
PERIOD_S: Final = 0.02
# Multiples of the golden ratio, modulo 1, fill an interval evenly and never repeat: jitter without a random generator.
_GOLDEN: Final = 0.6180339887498949

Unit = Callable[[], float]
"""A short piece of work; returns how much was done."""
Maker = Callable[[Mapping[str, Any]], tuple[Unit, int]]
"""Makes a worker's unit of work from its settings; the number is its answer to the owner, from 1."""


def cpu_unit(settings: Mapping[str, Any]) -> tuple[Unit, int]:
    """Return work for one core: some microseconds of counting."""

    def count() -> float:
        for _ in range(200):
            pass
        return 200.0

    return count, 1


def memory_unit(settings: Mapping[str, Any]) -> tuple[Unit, int]:
    """Return work for the memory: copying parts of an array too large for any cache. What is done counts bytes moved."""
    import numpy as np

    part = 2**20
    parts = max(1, settings["array_bytes"] // part)
    source = np.ones((parts, part // 8))
    target = np.zeros_like(source)
    place = 0

    def copy() -> float:
        nonlocal place
        np.copyto(target[place], source[place])
        place = (place + 1) % parts
        return 2.0 * part  # read once and written once

    return copy, 1


def gpu_unit(settings: Mapping[str, Any]) -> tuple[Unit, int]:
    """Return work for the first GPU, through the first back end that works here."""
    name, kernel = first_kernel(settings["backends"])
    return unit_of(kernel), 1 + settings["backends"].index(name)


KINDS: Final[dict[str, Maker]] = {"CPU": cpu_unit, "memory": memory_unit, "GPU": gpu_unit}


def serve(shared: SharedNumbers, worker: int, unit: Unit, parent: int) -> None:
    """Be busy for the share that the owner set, in every period, until the parent is gone."""
    phase, done = worker * _GOLDEN % 1, 0.0
    now_s = SYSTEM_CLOCK.monotonic_s
    while os.getppid() == parent:
        phase = (phase + _GOLDEN) % 1
        period_s = PERIOD_S * (0.75 + 0.5 * phase)
        start_s = now_s()
        end_s = start_s + shared[SHARE] * period_s
        while now_s() < end_s:
            done += unit()
        shared[done_at(worker)] = done
        rest_s = start_s + period_s - now_s()
        if rest_s > 0:
            SYSTEM_CLOCK.sleep_s(rest_s)


def main(task: Mapping[str, Any]) -> None:
    """Do the task; ends with the parent."""
    # Ctrl-C is for the study, which ends its workers in order; a worker that died of it first would look like a failed load.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(task["parent"])
    scheduling, settings = task["scheduling"], task["settings"]
    try:
        SchedulingState(tuple(scheduling["cores"]), scheduling["nice"], scheduling["policy"]).apply()
    except OSError as error:
        raise RuntimeError(f"the cores and priority of load workers cannot be restored ({error.strerror})") from error
    if task["kind"] == "command":
        tool = settings["argv"][0]
        os.execv(shutil.which(tool) or tool, settings["argv"])  # noqa: S606 - a fixed command
    unit, answer = KINDS[task["kind"]](settings)
    shared = SharedNumbers(settings["workers"], settings["handle"])
    shared[ready_at(settings["index"])] = answer
    serve(shared, settings["index"], unit, task["parent"])


UNIT_S: Final = 0.001
"""How long one launch should keep the GPU busy: short beside a period, long beside the cost of a launch."""
_SIDE: Final = 1024
_THREADS: Final = 256


Mark = TypeVar("Mark")
"""A back end's own object for a moment in the GPU's queue: an event."""


class Kernel(Protocol[Mark]):
    """Work that takes the GPU a time proportional to ``rounds``."""

    def launch(self, rounds: int) -> None:
        """Hand the work over and return."""
        ...

    def mark(self) -> Mark:
        """Return a mark behind all that was launched."""
        ...

    def wait(self, mark: Mark) -> None:
        """Sleep until the GPU has reached a mark."""
        ...


class _Event(Protocol):
    """An event of PyTorch or CuPy, as far as it is used here."""

    def record(self) -> object: ...

    def synchronize(self) -> object: ...


class TorchKernel:
    """Matrix products through PyTorch."""

    def __init__(self) -> None:
        torch: Any = importlib.import_module("torch")
        if not torch.cuda.is_available():
            raise RuntimeError("this PyTorch sees no GPU")
        self._torch = torch
        self._left = torch.full((_SIDE, _SIDE), 0.5, device="cuda")
        self._out = torch.empty_like(self._left)

    def launch(self, rounds: int) -> None:
        for _ in range(rounds):
            self._torch.mm(self._left, self._left, out=self._out)

    def mark(self) -> _Event:
        event: _Event = self._torch.cuda.Event(blocking=True)
        event.record()
        return event

    def wait(self, mark: _Event) -> None:
        mark.synchronize()


class CupyKernel:
    """Matrix products through CuPy."""

    def __init__(self) -> None:
        cupy: Any = importlib.import_module("cupy")
        if cupy.cuda.runtime.getDeviceCount() < 1:
            raise RuntimeError("this CuPy sees no GPU")
        self._cupy = cupy
        self._left = cupy.full((_SIDE, _SIDE), 0.5, dtype="float32")
        self._out = cupy.empty_like(self._left)

    def launch(self, rounds: int) -> None:
        for _ in range(rounds):
            self._cupy.matmul(self._left, self._left, out=self._out)

    def mark(self) -> _Event:
        event: _Event = self._cupy.cuda.Event(block=True, disable_timing=True)
        event.record()
        return event

    def wait(self, mark: _Event) -> None:
        mark.synchronize()


# One multiply and add after the other in every thread, and a store so that they are not optimised away.
_PTX: Final = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry busy(.param .u64 out, .param .u32 rounds)
{
    .reg .pred %p<2>;
    .reg .f32 %f<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [rounds];
    mov.u32 %r2, %tid.x;
    cvt.rn.f32.u32 %f1, %r2;
    mov.u32 %r3, 0;
AGAIN:
    fma.rn.f32 %f1, %f1, 0f3F7FFFFF, 0f3F000000;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, %r1;
    @%p1 bra AGAIN;
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r2, 4;
    add.s64 %rd2, %rd2, %rd3;
    st.global.f32 [%rd2], %f1;
    ret;
}
\0"""
_BLOCKING_SYNC: Final = 4
_EVENT_BLOCKING: Final = 1
_EVENT_NO_TIMING: Final = 2
_MULTIPROCESSOR_COUNT: Final = 16


class DriverKernel:
    """A small kernel through the CUDA driver, which is there wherever an NVIDIA GPU works."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxSetFlags_v2", device, _BLOCKING_SYNC)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        self._call("cuModuleLoadData", ctypes.byref(module), _PTX)
        self._function, self._out = ctypes.c_void_p(), ctypes.c_uint64()
        self._call("cuModuleGetFunction", ctypes.byref(self._function), module, b"busy")
        self._call("cuMemAlloc_v2", ctypes.byref(self._out), ctypes.c_size_t(4 * _THREADS))
        count = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(count), _MULTIPROCESSOR_COUNT, device)
        self._blocks = 8 * count.value

    def _call(self, name: str, *words: object) -> None:
        status = getattr(self._cuda, name)(*words)
        if status != 0:
            raise RuntimeError(f"{name} failed with status {status}")

    def launch(self, rounds: int) -> None:
        count = ctypes.c_uint(1000 * rounds)
        values = [ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in (self._out, count)]
        parameters = (ctypes.c_void_p * 2)(*values)
        self._call("cuLaunchKernel", self._function, self._blocks, 1, 1, _THREADS, 1, 1, 0, None, parameters, None)

    def mark(self) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        self._call("cuEventCreate", ctypes.byref(event), _EVENT_BLOCKING | _EVENT_NO_TIMING)
        self._call("cuEventRecord", event, None)
        return event

    def wait(self, mark: ctypes.c_void_p) -> None:
        self._call("cuEventSynchronize", mark)
        self._call("cuEventDestroy_v2", mark)


BACKENDS: Final[dict[str, Callable[[], Kernel[Any]]]] = {"torch": TorchKernel, "cupy": CupyKernel, "driver": DriverKernel}


def first_kernel(names: Sequence[str], backends: dict[str, Callable[[], Kernel[Any]]] | None = None) -> tuple[str, Kernel[Any]]:
    """Return the first of the named back ends that works here; raises RuntimeError with every reason if none does."""
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # the order in which NVML counts
    reasons = []
    for name in names:
        try:
            return name, (backends or BACKENDS)[name]()
        except Exception as error:  # a broken library must not hide one that works
            reasons.append(f"{name}: {error}")
    raise RuntimeError(f"no way to load the GPU works ({'; '.join(reasons)})")


def unit_of(kernel: Kernel[Mark]) -> Callable[[], float]:
    """Return a function that keeps the GPU busy for about a millisecond and returns 1.

    One launch is always in flight while the next is handed over, so that the GPU does not wait for us.
    """
    rounds = calibrated(kernel)
    pending: list[Mark] = []

    def unit() -> float:
        kernel.launch(rounds)
        pending.append(kernel.mark())
        if len(pending) > 1:
            kernel.wait(pending.pop(0))
        return 1.0

    return unit


def calibrated(kernel: Kernel[Mark], now_s: Callable[[], float] = SYSTEM_CLOCK.monotonic_s) -> int:
    """Return how many rounds take about ``UNIT_S``; doubled from one until they take clearly longer than a launch costs."""
    kernel.launch(1)
    kernel.wait(kernel.mark())  # the first launch loads and compiles
    rounds = 1
    while True:
        start_s = now_s()
        kernel.launch(rounds)
        kernel.wait(kernel.mark())
        took_s = now_s() - start_s
        if took_s >= 4 * UNIT_S or rounds >= 2**20:
            return max(1, round(rounds * UNIT_S / took_s))
        rounds *= 2


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except Exception as problem:  # one line for the owner, who shows the last
        sys.exit(" ".join(str(problem).split()) or type(problem).__name__)
