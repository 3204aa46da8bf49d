"""Plain data for views and orders: numbers in arrays as their bytes, everything else as MessagePack."""

from collections.abc import Sequence
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from samepath.sim.server.codec import WireError


def packed(value: object) -> bytes:
    """Pack plain data."""
    made: bytes = msgpack.packb(value, use_bin_type=True)
    return made


def unpacked(data: bytes | memoryview, what: str) -> Any:  # noqa: ANN401 - plain data of any shape
    """Unpack plain data."""
    try:
        return msgpack.unpackb(data, raw=False, use_list=True, strict_map_key=True)
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        raise WireError(f"{what}: MessagePack was wanted, but {type(error).__name__} came of it") from None


def table(rows: Sequence[Sequence[float]], columns: int) -> bytes:
    """Rows of numbers, to the bit."""
    return np.array(rows, "<f8").reshape(-1, columns).tobytes()


def rows_of(data: bytes, columns: int) -> list[list[float]]:
    """The rows of :func:`table`."""
    found: list[list[float]] = np.frombuffer(data, "<f8").reshape(-1, columns).tolist()
    return found


def numbers(values: Sequence[int]) -> bytes:
    """Whole numbers."""
    return np.array(values, "<i8").tobytes()


def numbers_of(data: bytes) -> list[int]:
    """The whole numbers of :func:`numbers`."""
    array: NDArray[np.int64] = np.frombuffer(data, "<i8")
    found: list[int] = array.tolist()
    return found
