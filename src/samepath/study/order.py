"""The order in which a plan is run, drawn from its seed: the same file gives the same order.

Each cell has a lot of its own in every block, keyed by its folder: a cell more in a study leaves the order of the others.
"""

from collections.abc import Sequence

from samepath.base.streams import stream
from samepath.study.levels import MACHINE_LOADS
from samepath.study.records import Order, PlannedCell, Scalar, Slot


def draw_slots(cells: Sequence[PlannedCell], order: Order, blocks: int, seed: int) -> tuple[Slot, ...]:
    """Return every repeat of every cell once; each block holds an even share of every cell."""
    slots = []
    for block in range(blocks):
        for index in _sequence(cells, order, block, seed):
            first, stop = share(cells[index].repeats, block, blocks)
            if first < stop:
                slots.append(Slot(block, index, first, stop))
    return tuple(slots)


def share(repeats: int, block: int, blocks: int) -> tuple[int, int]:
    """Return which repeats belong to a block: first and stop. Shares differ by one at most."""
    return repeats * block // blocks, repeats * (block + 1) // blocks


def loads_of(cell: PlannedCell) -> tuple[tuple[str, Scalar], ...]:
    """Return the loads of the whole machine that a cell asks for: slow to change, so that order may group by them."""
    return tuple((name, cell.condition[name]) for name in MACHINE_LOADS if name in cell.condition)


def _sequence(cells: Sequence[PlannedCell], order: Order, block: int, seed: int) -> list[int]:
    listed = list(range(len(cells)))
    if order is Order.LISTED:
        return listed

    def lot(purpose: str, name: str) -> bytes:
        return stream(seed, "order", purpose, block, name).bytes(16)

    lots = {index: lot("cell", cells[index].folder) for index in listed}
    if order is Order.RANDOM:
        return sorted(listed, key=lambda index: (lots[index], index))
    loads = {index: loads_of(cells[index]) for index in listed}
    load_lots = {load: (lot("load", repr(load)), repr(load)) for load in loads.values()}
    return sorted(listed, key=lambda index: (load_lots[loads[index]], lots[index], index))
