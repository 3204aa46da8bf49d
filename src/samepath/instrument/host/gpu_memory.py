"""The memory of graphics cards, tested as the machine's own is: patterns are written there, read back and compared exactly.

It goes through NVIDIA's driver alone, which is there wherever a card works. The words are made and compared on the processor:
a wrong one may also come from the bus. It proves a fault of the card or its way there, and a clean pass says nothing of
memory that others hold. ``cuda_memtest`` (the paper, Section VII-C2) has patterns of its own and takes all of it.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from samepath.core.errors import SamepathError, printable
from samepath.instrument.host.doctor import (
    LEAST_BYTES,
    WORD_BYTES,
    MemoryTest,
    Progress,
    Words,
    bounded_bytes,
    check_words,
)
from samepath.instrument.host.probe import Unknown

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
