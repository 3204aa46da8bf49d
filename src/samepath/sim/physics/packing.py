"""Plain data and blobs in one byte string: what snapshots are made of. Nothing in it is ever executed."""

import json
from typing import Any

from samepath.base.errors import SimulatorError


def dump(data: dict[str, Any], blobs: list[bytes]) -> bytes:
    """Pack plain data and blobs into one byte string: sizes first, floats as their shortest exact decimals."""
    head = json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
    sizes = [len(head), *(len(blob) for blob in blobs)]
    return b"".join([len(sizes).to_bytes(4, "little"), *(size.to_bytes(8, "little") for size in sizes), head, *blobs])


def load(packed: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Unpack what :func:`dump` made."""
    count = int.from_bytes(packed[:4], "little")
    sizes = [int.from_bytes(packed[4 + 8 * i : 12 + 8 * i], "little") for i in range(count)]
    if count < 1 or 4 + 8 * count + sum(sizes) != len(packed):
        raise SimulatorError("the snapshot is cut short or damaged: its parts do not add up")
    parts, at = [], 4 + 8 * count
    for size in sizes:
        parts.append(packed[at : at + size])
        at += size
    data: dict[str, Any] = json.loads(parts[0])
    return data, parts[1:]
