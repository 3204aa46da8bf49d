"""Memory of the card: pieces that grow, pictures that outlive their renderer, and how arrays lie one behind the other."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

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
