"""Which slot goes to which host: all slots of a cell to one, in the plan's order.

Hosts differ, and what differs between the repeats of a cell must not be the host. So a cell belongs to the host that takes its
first slot, and to no other as long as a repeat of it is stored.
"""

from bisect import insort
from collections.abc import Container, Mapping, Sequence

from samepath.study.records import Slot


class SlotQueue:
    """The slots that wait. ``homes`` has the hosts of cells that have repeats already, by the cell's place in the plan."""

    def __init__(self, slots: Sequence[Slot], homes: Mapping[int, str]) -> None:
        self._slots = tuple(slots)
        self._waiting = list(range(len(self._slots)))
        self._homes = dict(homes)

    @property
    def waiting(self) -> tuple[Slot, ...]:
        """The slots that nobody has taken yet, in the plan's order."""
        return tuple(self._slots[index] for index in self._waiting)

    def take(self, host: str, permitted: Container[int]) -> Slot | None:
        """Give a host its next slot: the first of a cell that is its own, or that is nobody's and that it permits."""
        for index in self._waiting:
            cell = self._slots[index].cell
            if self._homes.get(cell) == host or (cell not in self._homes and cell in permitted):
                self._waiting.remove(index)
                self._homes[cell] = host
                return self._slots[index]
        return None

    def put_back(self, slot: Slot) -> None:
        """Have a slot wait again, in its old place."""
        insort(self._waiting, self._slots.index(slot))

    def home_of(self, cell: int) -> str | None:
        """Return the host that a cell belongs to."""
        return self._homes.get(cell)

    def cells_of(self, host: str) -> list[int]:
        """Return the cells that belong to a host."""
        return sorted(cell for cell, home in self._homes.items() if home == host)

    def set_free(self, cell: int) -> None:
        """Let any host take a cell."""
        del self._homes[cell]
