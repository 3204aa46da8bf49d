"""Room in shared memory, given out in a circle. Pure: it counts, and touches no memory.

Positions only grow; a position's offset is its remainder by the capacity. A piece never wraps around the end.
"""


class Ring:
    """Who may write where. Pieces are reserved at the head and become free again from the tail."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.head = 0
        self.tail = 0

    def reserve(self, length: int) -> int | None:
        """The position of a free piece, or None if there is none."""
        if self.tail == self.head:  # empty: begin at the start again, where the memory is still warm
            self.head = self.tail = -(-self.head // self.capacity) * self.capacity
        offset = self.head % self.capacity
        start = self.head if offset + length <= self.capacity else self.head - offset + self.capacity
        if start + length - self.tail > self.capacity:
            return None
        self.head = start + length
        return start

    def release(self, position: int) -> None:
        """Everything before ``position`` has been read."""
        self.tail = min(max(self.tail, position), self.head)
