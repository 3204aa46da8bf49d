"""Digests: short names for exact bits.

A chain digest of step t covers everything up to t, so equal digests at t mean equal histories, and two runs can be
compared without reading them. BLAKE2b with 128 bits per link: a false «equal» has a chance of about 1e-38.
"""

import hashlib
import json
from collections.abc import Mapping

LINK_BYTES = 16


def link(previous: bytes, content: bytes) -> bytes:
    """Chain ``content`` to ``previous``."""
    return hashlib.blake2b(previous + content, digest_size=LINK_BYTES).digest()


def first_link(*words: str | int) -> bytes:
    """Start a chain whose name is ``words``; the separator makes ('ab', 'c') differ from ('a', 'bc')."""
    return link(b"", "\x1f".join(str(word) for word in words).encode())


def array_digest(dtype: str, shape: tuple[int, ...], data: bytes) -> bytes:
    """Name an array by its element type, shape and little-endian bytes; the same bytes in another shape are another array.

    Takes bytes, not an array, so that those who only need digests need not import numpy.
    """
    return hashlib.blake2b(f"{dtype}\x1f{shape}\x1f".encode() + data, digest_size=LINK_BYTES).digest()


def fingerprint(settings: Mapping[str, object]) -> str:
    """Name a set of settings by its canonical JSON, in 32 hex digits."""
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"), allow_nan=False, default=str)
    return link(b"", text.encode()).hex()
