"""Control commands and their way from a client to the tick that felt them."""

from collections import deque
from typing import Final, NamedTuple

from samepath.sim.cluster.watching.recent import Commands
from samepath.sim.cluster.watching.status import CommandRecord
from samepath.sim.server.rpc import Call

# Of more commands than this between two ticks the first are not listed; they count for the world all the same.
_WAITING_MOST: Final = 100_000


class Given(NamedTuple):
    """A command: its id, for whom, by which method, through which node, when it came."""

    id: str
    actor: int
    method: str
    home: int
    at_s: float


class CommandLog:
    """Gives every command an id, and says after the next tick which of them counted and how long that took."""

    def __init__(self) -> None:
        self.recent = Commands()
        self._number = 0
        self._call: Call | None = None
        self._at_s = 0.0
        self._waiting: deque[Given] = deque(maxlen=_WAITING_MOST)

    def begin(self, call: Call, at_s: float) -> None:
        """A call that came at a time is about to be made: what commands it holds, the episode tells."""
        self._call, self._at_s = call, at_s

    def commanded(self, actor: int, home: int) -> None:
        """The call that is being made holds a command for an actor."""
        if self._call is None:
            return
        self._number += 1
        method, client = self._call.method.name, str(getattr(self._call.caller, "client", 0))
        number = str(self._number)
        if method == "samepath_call":
            client, number, method = (str(one) for one in self._call.arguments[:3])
        self._waiting.append(Given(f"{self._call.caller.home}.{client}.{number}", actor, method, home, self._at_s))

    def felt(self, frame: int, now_s: float) -> None:
        """A tick has felt all that came: of each actor's commands the last one of the node with the highest number."""
        waiting = tuple(self._waiting)
        self._waiting.clear()
        winners: dict[int, Given] = {}
        for one in waiting:
            if one.actor not in winners or one.home >= winners[one.actor].home:
                winners[one.actor] = one
        for one in waiting:
            latency_s = max(now_s - one.at_s, 0.0)
            self.recent.add(CommandRecord(one.id, one.actor, one.method, frame, latency_s, winners[one.actor] is one))
