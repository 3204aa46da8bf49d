"""Control commands and their way from a client to the tick that felt them."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from samepath.sim.cluster.watching.recent import Commands
from samepath.sim.cluster.watching.status import CommandRecord
from samepath.sim.server.commands import Touch
from samepath.sim.server.rpc import Call

CONTROLS: Final = frozenset({"apply_control_to_vehicle", "apply_ackermann_control_to_vehicle", "apply_control_to_walker"})
"""The methods of which, within a tick, one per actor counts."""


class Given(NamedTuple):
    """A command on its way: who gave it, for whom, when it came."""

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
        self._waiting: list[Given] = []

    def came(self, call: Call, at_s: float) -> None:
        """A call is about to be made."""
        for method, actor in _controls(call):
            self._number += 1
            client = getattr(call.caller, "client", 0)
            name = f"{call.caller.home}.{client}.{self._number}"
            self._waiting.append(Given(name, actor, method, call.caller.home, at_s))

    def felt(self, frame: int, now_s: float) -> None:
        """A tick has felt all that came: of each actor's commands the last one of the node with the highest number."""
        waiting, self._waiting = self._waiting, []
        winners: dict[int, Given] = {}
        for one in waiting:
            if one.actor not in winners or one.home >= winners[one.actor].home:
                winners[one.actor] = one
        for one in waiting:
            latency_s = max(now_s - one.at_s, 0.0)
            self.recent.add(CommandRecord(one.id, one.actor, one.method, frame, latency_s, winners[one.actor] is one))


def _controls(call: Call) -> Iterator[tuple[str, int]]:
    if call.method.name in CONTROLS:
        yield call.method.name, call.arguments[0]
    elif call.method.name == "apply_batch":
        commands: tuple[Any, ...] = call.arguments[0]
        for one in commands:
            if isinstance(one, Touch) and one.method in CONTROLS:
                yield one.method, one.actor
