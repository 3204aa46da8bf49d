"""Memory of the card: pieces that grow, pictures that outlive their renderer, and arrays that others read in place.

Those speak DLPack (PyTorch, JAX, CuPy): ``torch.from_dlpack(array)`` looks into the very memory that was drawn to. DLPack is
a C record with a function that is called when the reader is done; until then, and as long as the array itself lives, the
memory stays.
"""

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np

from samepath.simulator.sensors.cuda.driver import Driver

_ALIGNED: Final = 256


class DeviceMemory:
    """Memory of the card that grows when more is asked for than it has; what it held is then lost."""

    def __init__(self, driver: Driver) -> None:
        self._driver, self.address, self._room = driver, 0, 0

    def holds(self, size: int) -> bool:
        """Is there room for so many bytes without moving?"""
        return size <= self._room

    def reserve(self, size: int) -> int:
        """Make sure of so many bytes, and say where they are."""
        if size > self._room:
            # A quarter more than asked for: actors and cameras come and go.
            room = _aligned(size + size // 4)
            self.close()
            self.address, self._room = self._driver.allocate(room), room
        return self.address

    def sections(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Room for several arrays, one behind the other; where each begins."""
        starts = starts_of(sizes)
        base = self.reserve(starts[-1])
        return tuple([base + start for start in starts[:-1]])

    def close(self) -> None:
        """Give it back, once nobody draws from it."""
        if self.address:
            self._driver.finish()
            address, self.address, self._room = self.address, 0, 0
            self._driver.release(address)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def starts_of(sizes: Sequence[int]) -> list[int]:
    """Where arrays of so many bytes begin when they lie one behind the other, and where the last one ends."""
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + -(-size // _ALIGNED) * _ALIGNED)
    return starts


def blocks_of(amount: int, threads: int) -> int:
    """How many blocks of so many threads an amount of work takes."""
    return max(-(-amount // threads), 1)


class CardPictures:
    """Memory of the card that lives as long as somebody looks into it. ``places`` are where each array begins."""

    def __init__(self, driver: Driver, sizes: Sequence[int]) -> None:
        self._memory = DeviceMemory(driver)
        # At least a byte: an array without numbers has an address all the same.
        self.places = self._memory.sections([max(size, 1) for size in sizes])
        self.device = driver.dlpack_device

    def __del__(self) -> None:
        # Whoever looked into it last may do so when the card is gone already: nobody is left to be told.
        with suppress(Exception):
            self._memory.close()


_CODES: Final = {"i": 0, "u": 1, "f": 2}
_NAME: Final = b"dltensor"


class _Tensor(ctypes.Structure):
    """``DLTensor``, then the two fields that make it a ``DLManagedTensor``; field by field as in dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    )  # fmt: skip


# What readers still look into, by the address of the record: the record itself, its shape, and who owns the memory.
_lent: dict[int, tuple[Any, ...]] = {}


def _give_back(address: int) -> None:
    _lent.pop(address, None)


def _capsule_ends(capsule: int) -> None:
    # A reader that has taken the record has renamed the capsule, and calls the deleter itself.
    if ctypes.pythonapi.PyCapsule_IsValid(ctypes.c_void_p(capsule), _NAME):
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]
        _give_back(pointer(capsule, _NAME))


# C calls these: they must live as long as the process does.
_Called = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_GIVE_BACK, _CAPSULE_ENDS = _Called(_give_back), _Called(_capsule_ends)


class CardArray:
    """An array in the memory of a device. ``owner`` keeps that memory."""

    def __init__(self, address: int, shape: tuple[int, ...], kind: str, device: tuple[int, int], owner: object) -> None:
        self.address, self.shape, self.dtype, self._device, self._owner = address, shape, np.dtype(kind), device, owner

    def __dlpack_device__(self) -> tuple[int, int]:
        """The kind of device (2: CUDA) and its number."""
        return self._device

    def __dlpack__(self, **_: object) -> object:
        """A capsule for one reader. Pictures are finished before anybody gets them, so its stream need not wait."""
        shape = (ctypes.c_int64 * len(self.shape))(*self.shape)
        made = _Tensor(
            self.address, *self._device, len(self.shape), _CODES[self.dtype.kind], 8 * self.dtype.itemsize, 1, shape, None, 0,
            None, ctypes.cast(_GIVE_BACK, ctypes.c_void_p),
        )  # fmt: skip
        address = ctypes.addressof(made)
        _lent[address] = made, shape, self._owner
        capsule = ctypes.pythonapi.PyCapsule_New
        capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        result: object = capsule(address, _NAME, ctypes.cast(_CAPSULE_ENDS, ctypes.c_void_p))
        return result
