"""Who listens to which stream: this server's own clients, and those of rendering nodes."""

from collections.abc import Iterator

HERE = 0
"""The home of clients that are connected to the main server itself."""


class Audience:
    """For every stream the homes of its listeners, by the number of the node they are connected to."""

    def __init__(self) -> None:
        self._homes: dict[int, set[int]] = {}

    def __contains__(self, stream_id: int) -> bool:
        return stream_id in self._homes

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._homes))

    def add(self, stream_id: int, home: int = HERE) -> None:
        """Somebody will listen."""
        self._homes.setdefault(stream_id, set()).add(home)

    def discard(self, stream_id: int, home: int = HERE) -> None:
        """Nobody listens there any more."""
        homes = self._homes.get(stream_id)
        if homes is not None:
            homes.discard(home)
            if not homes:
                del self._homes[stream_id]

    def end(self, stream_id: int) -> None:
        """The stream is over."""
        self._homes.pop(stream_id, None)

    def leave(self, home: int) -> None:
        """A node is gone, and its clients with it."""
        for stream_id in list(self._homes):
            self.discard(stream_id, home)

    def homes(self, stream_id: int) -> tuple[int, ...]:
        """Where the listeners of a stream are."""
        return tuple(sorted(self._homes.get(stream_id, ())))
