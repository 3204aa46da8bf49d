"""A bounded pattern test of main memory, against stuck and flipping bits.

It is no memtest86: the operating system chooses the physical pages, caches stand between the test and the memory, and the
rest of the memory is in use meanwhile. A wrong word is a proof of a fault; a clean pass says nothing about other pages.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.base.errors import InputError
from samepath.base.streams import stream
from samepath.base.units import parse_quantity

DEFAULT_BYTES: Final = 256 * 2**20
LEAST_BYTES: Final = 2**20
SHARE_OF_AVAILABLE: Final = 4  # at most a quarter, so that the test pushes nothing into swap
WORD_BYTES: Final = 8
BLOCK_WORDS: Final = 2**17  # 1 MiB: what is compared at a time, so that checking needs little memory of its own
LISTED_MAX: Final = 1000
SHOWN_MAX: Final = 3
SIZE_UNITS: Final = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}

Words = NDArray[np.uint64]
Maker = Callable[[int, int], Words]
Progress = Callable[[str, int], None]
Hook = Callable[[str, Words], None]


@dataclass(frozen=True)
class WrongWord:
    """A word that was not read as it was written; ``index`` counts the words of 64 bits from the start of the test."""

    pattern: str
    index: int
    written: int
    read: int

    @property
    def bits(self) -> tuple[int, ...]:
        """The bits that differ, 0 being the least significant."""
        return tuple(bit for bit in range(8 * WORD_BYTES) if (self.written ^ self.read) >> bit & 1)


@dataclass(frozen=True)
class MemoryTest:
    """What a test found. ``wrong_count`` is exact; ``wrong_words`` lists the first of them, at most ``LISTED_MAX``."""

    bytes_tested: int
    patterns: tuple[str, ...]
    wrong_count: int
    wrong_words: tuple[WrongWord, ...]


def parse_size_bytes(text: str) -> int:
    """Read ``256MiB``, ``1 GiB`` or ``500MB`` as bytes; ``0`` stands for no test."""
    example = "256MiB, 1GiB, 500MB, or 0 for no test"
    size = parse_quantity(text, SIZE_UNITS, "memory size", example)
    if size == 0:
        return 0
    if text.strip()[-1].isdigit() or text.strip().endswith("."):
        raise InputError(f"a memory size like {example} was wanted, but {text!r} came: add a unit ({', '.join(SIZE_UNITS)})")
    if size < LEAST_BYTES:
        raise InputError(f"a memory size of at least 1MiB, or 0 for no test, was wanted, but {text!r} came")
    return int(size)


def format_size(size_bytes: float) -> str:
    """Print an amount of memory for people."""
    for unit in ("GiB", "MiB", "KiB"):
        if size_bytes >= SIZE_UNITS[unit]:
            return f"{size_bytes / SIZE_UNITS[unit]:.4g} {unit}"
    return f"{size_bytes:.4g} B"


def bounded_bytes(wanted_bytes: int, available_bytes: int) -> int:
    """Return how much may be tested: whole words, at most a quarter of what is available."""
    return max(0, min(wanted_bytes, available_bytes // SHARE_OF_AVAILABLE)) // WORD_BYTES * WORD_BYTES


def count_steps(size_bytes: int) -> int:
    """Return how many steps :func:`check_memory` reports: each block is written and read once for each pattern."""
    return 2 * len(_patterns(0)) * len(_blocks(size_bytes // WORD_BYTES))


def check_memory(
    size_bytes: int = DEFAULT_BYTES, *, seed: int = 0, progress: Progress | None = None, before_reading: Hook | None = None
) -> MemoryTest:
    """Write every pattern to all words, then read it back and compare exactly.

    ``progress`` gets the pattern's name and the steps done; ``before_reading`` gets the words between writing and reading,
    so that the test itself can be tested. Raises ``MemoryError`` where so much cannot be had.
    """
    words: Words = np.empty(size_bytes // WORD_BYTES, dtype=np.uint64)
    blocks = _blocks(len(words))
    wrong: list[WrongWord] = []
    wrong_count = steps = 0
    patterns = _patterns(seed)

    def report(pattern: str) -> None:
        nonlocal steps
        steps += 1
        if progress is not None:
            progress(pattern, steps)

    for name, make in patterns.items():
        for start, stop in blocks:
            words[start:stop] = make(start, stop)
            report(name)
        if before_reading is not None:
            before_reading(name, words)
        for start, stop in blocks:
            written = make(start, stop)
            # Copied first: a bit that wavers must be compared and shown as it was read this one time.
            read = words[start:stop].copy()
            differing = np.flatnonzero(written != read)
            wrong_count += len(differing)
            listed = differing[: LISTED_MAX - len(wrong)].tolist()
            wrong.extend(WrongWord(name, start + place, int(written[place]), int(read[place])) for place in listed)
            report(name)
    return MemoryTest(len(words) * WORD_BYTES, tuple(patterns), wrong_count, tuple(wrong))


def describe(test: MemoryTest) -> str:
    """Say what a test found, with the first wrong words in full."""
    where = f"{format_size(test.bytes_tested)} with {len(test.patterns)} patterns"
    shown = "; ".join(
        f"word {one.index}, bits {', '.join(map(str, one.bits))}"
        f" ({one.pattern}: wrote {one.written:#018x}, read {one.read:#018x})"
        for one in test.wrong_words[:SHOWN_MAX]
    )
    return f"{test.wrong_count} wrong in {where}, first {shown}" if test.wrong_count else f"no wrong word in {where}"


def _blocks(words: int) -> list[tuple[int, int]]:
    return [(start, min(start + BLOCK_WORDS, words)) for start in range(0, words, BLOCK_WORDS)]


def _patterns(seed: int) -> dict[str, Maker]:
    """Name the patterns in order; each is followed by its complement, so that every bit is both 0 and 1 several times."""

    def constant(byte: int) -> Maker:
        word = int.from_bytes(bytes([byte]) * WORD_BYTES, "little")
        return lambda start, stop: np.full(stop - start, word, dtype=np.uint64)

    def address(start: int, stop: int) -> Words:
        return np.arange(start, stop, dtype=np.uint64)

    def chance(start: int, stop: int) -> Words:
        # Keyed by the block, so that reading makes the same words again without keeping them.
        return stream(seed, "memory test", start).integers(0, 2**64, size=stop - start, dtype=np.uint64)

    def complement(make: Maker) -> Maker:
        return lambda start, stop: np.invert(make(start, stop))

    return {
        "0x00": constant(0x00),
        "0xFF": constant(0xFF),
        "0x55": constant(0x55),
        "0xAA": constant(0xAA),
        "address": address,
        "address, complement": complement(address),
        "random": chance,
        "random, complement": complement(chance),
    }
