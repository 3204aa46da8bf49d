"""Arrays that stay on the card, for whoever reads DLPack: PyTorch, JAX, CuPy. Nothing is copied.

``torch.from_dlpack(array)`` looks into the very memory that was drawn to. DLPack is a C record with a function that is called
when the reader is done; until then, and as long as the array itself lives, the memory stays.
"""

import ctypes
from typing import Any, Final

import numpy as np

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
