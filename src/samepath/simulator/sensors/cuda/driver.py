"""The graphics card itself: memory, copies, launches and the compiler, through NVIDIA's own bindings.

Everything that can go wrong here is somebody's machine: no driver, an old one, a card that is full or gone. Each becomes one
line that says so. The kernels are compiled at first use for the very card that is there (seconds), and kept.
"""

import ctypes
import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from samepath.core.errors import SimulatorError
from samepath.simulator.sensors.raster.compiled import cache_folder

HERE: Final = Path(__file__).parent
HEADERS: Final = ("core.h", "light.h", "triangles.h", "paint.h", "rays.h", "kernels.h")
# Rounded as written: nothing is fused, approximated or flushed, whatever the compiler's defaults are.
FLAGS: Final = ("--std=c++17", "--fmad=false", "--prec-div=true", "--prec-sqrt=true", "--ftz=false")
KERNELS: Final = (
    "scatter", "sky", "streets", "glow", "begin", "cull", "rank", "light", "raster", "fill", "shadow_raster", "shadow_fill",
    "paint", "average", "rain", "vignette", "ray_faces", "ray_balls", "ray_cast", "ray_points",
)  # fmt: skip
_SOURCE: Final = b'#include "kernels.h"\n'
_OLDEST: Final = (7, 5)
"""The oldest generation of cards that the compiler still knows."""


class CardError(SimulatorError):
    """The card, its driver or its compiler cannot draw. What was to be drawn can be drawn elsewhere, with the same bytes."""


class Driver(Protocol):
    """What the device needs of a card. Streams work through what they are given in order; only events order two of them.

    Addresses are plain numbers. Copies and launches return at once; memory of this machine that is copied from or to must stay
    until an event that was recorded behind the copy has passed. An event may be recorded again: who holds or waits for it then
    means the latest record before that.
    """

    told: str
    multiprocessors: int
    dlpack_device: tuple[int, int]
    """As DLPack names it: 2 for CUDA, and the number of the card."""

    def allocate(self, size: int) -> int:
        """Memory of the card; what it holds is anything."""
        ...

    def release(self, address: int) -> None:
        """Give memory back, once nothing that was started uses it."""
        ...

    def pinned(self, size: int) -> NDArray[np.uint8]:
        """Memory of this machine that the card can copy from and to by itself; it lives as long as a view of it."""
        ...

    def stream(self) -> Any:  # noqa: ANN401
        """A new stream."""
        ...

    def upload(self, to: int, given: NDArray[Any], stream: Any) -> None:  # noqa: ANN401
        """Copy an array to the card."""
        ...

    def download(self, to: NDArray[Any], given: int, stream: Any) -> None:  # noqa: ANN401
        """Copy from the card into an array."""
        ...

    def clear(self, to: int, size: int, stream: Any) -> None:  # noqa: ANN401
        """Write zeros."""
        ...

    def launch(
        self,
        kernel: str,
        blocks: int,
        rows: int,
        threads: int,
        work: bytes,
        stream: Any,  # noqa: ANN401
        *,
        many: bool = False,
    ) -> None:
        """Start ``rows`` rows of ``blocks`` blocks of ``threads`` threads, all with the same record.

        ``many`` takes the kernel that was compiled for many worlds.
        """
        ...

    def event(self) -> Any:  # noqa: ANN401
        """A new event, which has passed."""
        ...

    def record(self, event: Any, stream: Any) -> None:  # noqa: ANN401
        """Let an event pass once all that the stream was given until now is done."""
        ...

    def hold(self, stream: Any, event: Any) -> None:  # noqa: ANN401
        """Let a stream go on only once an event has passed."""
        ...

    def wait(self, event: Any) -> None:  # noqa: ANN401
        """Wait until an event has passed."""
        ...

    def finish(self) -> None:
        """Wait until everything that was started is done."""
        ...

    def close(self) -> None:
        """Let go of the card."""
        ...


def kernel_names(*, many: bool) -> tuple[str, ...]:
    """Which kernels there are; rays are cast for one world at a time."""
    return tuple([name for name in KERNELS if not (many and name.startswith("ray_"))])


def compiled_kernels(nvrtc: Any, architecture: str, *, many: bool = False) -> tuple[bytes, bytes]:  # noqa: ANN401
    """The kernels for one generation of cards (``sm_90``), as machine code, and as the assembly it was made of."""
    headers = [(HERE / name).read_bytes() for name in HEADERS]
    names = [name.encode() for name in HEADERS]
    program = _compiler(nvrtc.nvrtcCreateProgram(_SOURCE, b"kernels.cu", len(headers), headers, names))
    try:
        flags = [f"--gpu-architecture={architecture}".encode(), *(flag.encode() for flag in _flags(many=many))]
        (failed,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
        if int(failed):
            text = bytearray(_compiler(nvrtc.nvrtcGetProgramLogSize(program)))
            _compiler(nvrtc.nvrtcGetProgramLog(program, text))
            lines = text.decode("utf-8", "replace").replace("\0", "").splitlines()
            said = next((line for line in lines if "error" in line), f"error {int(failed)}")
            raise CardError(f"NVRTC could not compile the CUDA renderer for {architecture}: {said}")
        made = bytearray(_compiler(nvrtc.nvrtcGetCUBINSize(program)))
        _compiler(nvrtc.nvrtcGetCUBIN(program, made))
        assembly = bytearray(_compiler(nvrtc.nvrtcGetPTXSize(program)))
        _compiler(nvrtc.nvrtcGetPTX(program, assembly))
        return bytes(made), bytes(assembly)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _flags(*, many: bool) -> tuple[str, ...]:
    return (*FLAGS, "-DMANY_WORLDS") if many else FLAGS


def _compiler(answer: tuple[Any, ...]) -> Any:  # noqa: ANN401
    if int(answer[0]):
        raise CardError(f"the compiler NVRTC failed: {getattr(answer[0], 'name', answer[0])}")
    return answer[1] if len(answer) > 1 else None


def kept_kernels(nvrtc: Any, architecture: str, *, many: bool = False) -> bytes:  # noqa: ANN401
    """The machine code for one generation of cards, compiled if that was not done yet: it takes seconds."""
    _, major, minor = nvrtc.nvrtcVersion()
    digest = hashlib.blake2b(f"{architecture} {major}.{minor} {' '.join(_flags(many=many))}".encode(), digest_size=12)
    for name in HEADERS:
        digest.update(name.encode() + b"\0" + (HERE / name).read_bytes())
    kept = cache_folder(HERE)
    if kept is None:
        return compiled_kernels(nvrtc, architecture, many=many)[0]
    path = kept / f"{architecture}-{digest.hexdigest()}.cubin"
    if not path.exists():
        made, _ = compiled_kernels(nvrtc, architecture, many=many)
        # The finished file appears under its name at once: of two processes neither reads half of one.
        with tempfile.NamedTemporaryFile(dir=kept, delete=False) as whole:
            whole.write(made)
        Path(whole.name).replace(path)
    return path.read_bytes()


class CudaDriver:
    """The first card of this machine (``CUDA_VISIBLE_DEVICES`` chooses another)."""

    dlpack_device = (2, 0)

    def __init__(self) -> None:
        try:
            from cuda.bindings import driver, nvrtc
        except ModuleNotFoundError as error:
            raise CardError(f"renderer 'cuda' needs {error.name}: pip install 'samepath[cuda]'") from None
        self._cuda, self._closed = driver, False
        # The bindings look for the driver's library at the first call, and raise what they like if there is none.
        try:
            answer = driver.cuInit(0)
        except Exception:  # RuntimeError in some versions, one of their own in others
            raise CardError("renderer 'cuda' needs NVIDIA's driver, which is not installed here: draw in software") from None
        self._checked(answer)
        if not self._checked(driver.cuDeviceGetCount()):
            raise CardError("renderer 'cuda' needs an NVIDIA card, but this machine shows none: draw in software")
        device = self._checked(driver.cuDeviceGet(0))
        name = self._checked(driver.cuDeviceGetName(128, device)).split(b"\0")[0].decode("utf-8", "replace")
        version = self._checked(driver.cuDriverGetVersion())
        self.told = f"{name}, driver for CUDA {version // 1000}.{version % 1000 // 10}"
        kinds = driver.CUdevice_attribute
        major = self._checked(driver.cuDeviceGetAttribute(kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
        minor = self._checked(driver.cuDeviceGetAttribute(kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
        if (major, minor) < _OLDEST:
            raise CardError(f"renderer 'cuda' needs a card of generation 7.5 or later, but {name} is {major}.{minor}")
        self.multiprocessors = int(
            self._checked(driver.cuDeviceGetAttribute(kinds.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device))
        )
        # The primary one is shared with whatever else uses the card in this process, so that PyTorch can read our memory.
        self._device, self._context = device, self._checked(driver.cuDevicePrimaryCtxRetain(device))
        self._current()
        self._check_compiler(nvrtc, version)
        self._nvrtc, self._architecture = nvrtc, f"sm_{major}{minor}"
        self._modules: list[Any] = []
        # Those for many worlds are compiled by whoever draws many.
        self._kernels = {False: self._load(many=False)}
        # A launch gets the address of a list of addresses, here of one. The record is that of the launch before, mostly.
        self._record, self._record_of = ctypes.create_string_buffer(0), b""
        self._arguments = ctypes.c_void_p()
        self._arguments_at = ctypes.addressof(self._arguments)
        self._events: list[Any] = []
        self._streams: list[Any] = []
        self._pinned = _PinnedPool(self._host_allocate, self._host_free)

    def _checked(self, answer: tuple[Any, ...]) -> Any:  # noqa: ANN401
        """What a call returned; what it complains about becomes one line."""
        failed = answer[0]
        if int(failed):
            known = self._cuda.CUresult
            too_old = "its driver is too old for the compiler: update it, or install an older NVRTC"
            reasons = {
                known.CUDA_ERROR_OUT_OF_MEMORY: "it has not enough memory left: take fewer or smaller cameras",
                known.CUDA_ERROR_NO_DEVICE: "there is none that may be used",
                known.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: "its driver and the driver's library are of different versions",
                known.CUDA_ERROR_NO_BINARY_FOR_GPU: too_old,
                known.CUDA_ERROR_UNSUPPORTED_PTX_VERSION: too_old,
            }
            reason = reasons.get(failed, f"it failed with {getattr(failed, 'name', failed)}")
            raise CardError(f"the graphics card cannot draw: {reason}")
        return answer[1] if len(answer) > 1 else None

    def _current(self) -> None:
        """Contexts belong to threads, and a renderer may be made by one thread and used by another."""
        self._checked(self._cuda.cuCtxSetCurrent(self._context))

    @staticmethod
    def _check_compiler(nvrtc: Any, version: int) -> None:  # noqa: ANN401
        try:
            _, major, minor = nvrtc.nvrtcVersion()
        except Exception:  # as above
            raise CardError("renderer 'cuda' needs the compiler NVRTC: pip install 'samepath[cuda]'") from None
        # Machine code of a newer major version is not promised to load.
        if major > version // 1000:
            have = f"{version // 1000}.{version % 1000 // 10}"
            raise CardError(
                f"NVRTC {major}.{minor} was found, but the driver is for CUDA {have}: update the driver, "
                f"or pip install 'cuda-bindings<{major}' and NVRTC of CUDA {version // 1000}"
            )

    def _load(self, *, many: bool) -> dict[str, Any]:
        code = kept_kernels(self._nvrtc, self._architecture, many=many)
        module = self._checked(self._cuda.cuModuleLoadData(code))
        self._modules.append(module)
        names = kernel_names(many=many)
        return {name: self._checked(self._cuda.cuModuleGetFunction(module, name.encode())) for name in names}

    def allocate(self, size: int) -> int:
        """Memory of the card."""
        self._current()
        return int(self._checked(self._cuda.cuMemAlloc(size)))

    def release(self, address: int) -> None:
        """Give memory back. The driver waits by itself until nothing uses it."""
        self._current()
        self._checked(self._cuda.cuMemFree(address))

    def pinned(self, size: int) -> NDArray[np.uint8]:
        """Memory that the card copies from and to."""
        self._current()
        return self._pinned.take(size)

    def _host_allocate(self, size: int) -> int:
        return int(self._checked(self._cuda.cuMemHostAlloc(size, self._cuda.CU_MEMHOSTALLOC_PORTABLE)))

    def _host_free(self, address: int) -> None:
        # Called when arrays die, in any thread, perhaps at the interpreter's end: nobody is left to be told.
        self._cuda.cuCtxSetCurrent(self._context)
        self._cuda.cuMemFreeHost(address)

    def stream(self) -> Any:  # noqa: ANN401
        """A new stream that waits for no other."""
        self._current()
        made = self._checked(self._cuda.cuStreamCreate(int(self._cuda.CUstream_flags.CU_STREAM_NON_BLOCKING)))
        self._streams.append(made)
        return made

    def upload(self, to: int, given: NDArray[Any], stream: Any) -> None:  # noqa: ANN401
        """Copy an array to the card."""
        # Every tick begins with a copy, so this is where a tick finds out which thread it is in.
        self._current()
        if given.nbytes:
            self._checked(self._cuda.cuMemcpyHtoDAsync(to, given.ctypes.data, given.nbytes, stream))

    def download(self, to: NDArray[Any], given: int, stream: Any) -> None:  # noqa: ANN401
        """Copy from the card into an array."""
        if to.nbytes:
            self._checked(self._cuda.cuMemcpyDtoHAsync(to.ctypes.data, given, to.nbytes, stream))

    def clear(self, to: int, size: int, stream: Any) -> None:  # noqa: ANN401
        """Write zeros."""
        if size:
            self._checked(self._cuda.cuMemsetD8Async(to, 0, size, stream))

    def launch(
        self,
        kernel: str,
        blocks: int,
        rows: int,
        threads: int,
        work: bytes,
        stream: Any,  # noqa: ANN401
        *,
        many: bool = False,
    ) -> None:
        """Start a kernel; the driver copies its record before this returns."""
        if many not in self._kernels:
            self._current()
            self._kernels[many] = self._load(many=many)
        if work is not self._record_of:
            self._record, self._record_of = ctypes.create_string_buffer(work, len(work)), work
            self._arguments.value = ctypes.addressof(self._record)
        self._checked(
            self._cuda.cuLaunchKernel(
                self._kernels[many][kernel], blocks, rows, 1, threads, 1, 1, 0, stream, self._arguments_at, 0
            )
        )

    def event(self) -> Any:  # noqa: ANN401
        """A new event."""
        self._current()
        made = self._checked(self._cuda.cuEventCreate(int(self._cuda.CUevent_flags.CU_EVENT_DISABLE_TIMING)))
        self._events.append(made)
        return made

    def record(self, event: Any, stream: Any) -> None:  # noqa: ANN401
        """Put an event behind all that a stream was given."""
        self._checked(self._cuda.cuEventRecord(event, stream))

    def hold(self, stream: Any, event: Any) -> None:  # noqa: ANN401
        """Let a stream wait for an event."""
        self._checked(self._cuda.cuStreamWaitEvent(stream, event, 0))

    def wait(self, event: Any) -> None:  # noqa: ANN401
        """Wait for an event."""
        self._current()
        self._checked(self._cuda.cuEventSynchronize(event))

    def finish(self) -> None:
        """Wait until everything is done."""
        self._current()
        self._checked(self._cuda.cuCtxSynchronize())

    def close(self) -> None:
        """Let go of the card, whatever state it is in."""
        if self._closed:
            return
        self._closed = True
        self._cuda.cuCtxSetCurrent(self._context)
        for event in self._events:
            self._cuda.cuEventDestroy(event)
        for stream in self._streams:
            self._cuda.cuStreamDestroy(stream)
        for module in self._modules:
            self._cuda.cuModuleUnload(module)
        # The context owns pinned memory, and somebody may still look at frames: it goes with the last of them.
        self._pinned.close(lambda: self._cuda.cuDevicePrimaryCtxRelease(self._device))


_POOL_BYTES_MAX: Final = 1 << 30


class _PinnedPool:
    """Pinned memory, used again: taking a piece costs milliseconds, and every tick needs the same sizes.

    A piece comes back by itself when the last array that looks into it dies: frames may be kept by whoever got them.
    """

    def __init__(self, allocate: Callable[[int], int], free: Callable[[int], None]) -> None:
        self._allocate, self._free = allocate, free
        self._idle: dict[int, list[int]] = {}
        self._idle_bytes, self._lent = 0, 0
        self._closed: Callable[[], object] | None = None

    def take(self, size: int) -> NDArray[np.uint8]:
        """A piece of at least ``size`` bytes."""
        # A few sizes instead of all of them, so that pieces fit again when cameras come and go.
        room = max(4096, 1 << (size - 1).bit_length()) if size < 1 << 20 else -(-size // (1 << 20)) << 20
        idle = self._idle.get(room)
        if idle:
            address = idle.pop()
            self._idle_bytes -= room
        else:
            address = self._allocate(room)
        self._lent += 1
        return np.asarray(_Pinned(self, address, room))[:size]

    def give(self, address: int, room: int) -> None:
        """Take a piece back."""
        self._lent -= 1
        if self._closed is None and self._idle_bytes + room <= _POOL_BYTES_MAX:
            self._idle.setdefault(room, []).append(address)
            self._idle_bytes += room
            return
        self._free(address)
        if self._closed is not None and not self._lent:
            self._closed()

    def close(self, last: Callable[[], object]) -> None:
        """Free what is idle; what is still looked into follows when it dies, and ``last`` is called behind all of them."""
        for addresses in self._idle.values():
            for address in addresses:
                self._free(address)
        self._idle.clear()
        self._closed = last
        if not self._lent:
            last()


class _Pinned:
    """One piece: NumPy keeps it alive through the array interface, and its end gives the memory back."""

    def __init__(self, pool: _PinnedPool, address: int, room: int) -> None:
        self._pool, self._address, self._room = pool, address, room
        self.__array_interface__ = {"shape": (room,), "typestr": "|u1", "data": (address, False), "version": 3}

    def __del__(self) -> None:
        self._pool.give(self._address, self._room)
