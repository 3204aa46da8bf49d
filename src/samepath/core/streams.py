"""Chance by name.

A stream is keyed by the words and numbers that say what it is for (purpose, actor, repeat, ...), never by the order of
calls: a new consumer of chance moves no other. There is no global generator.
"""

import hashlib
import os

import numpy as np


def stream(seed: int, *key: str | int) -> np.random.Generator:
    """Return the generator of the stream named ``key`` under ``seed``; equal names give equal numbers."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (seed, *key):
        text = f"{type(part).__name__}:{part}".encode()
        digest.update(len(text).to_bytes(4, "little") + text)
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest.digest(), "little")))


def unseeded() -> np.random.Generator:
    """Return a generator keyed by the operating system's entropy: never the same twice. For sources of non-determinism only."""
    return keyed(entropy_key())


def entropy_key() -> int:
    """Draw a key from the operating system's entropy. Written down, it gives the stream again: see :func:`keyed`."""
    return int.from_bytes(os.urandom(16), "little")


def keyed(key: int) -> np.random.Generator:
    """Return the generator of a key of 128 bits."""
    return np.random.Generator(np.random.Philox(key=key))
