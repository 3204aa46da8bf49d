"""Traffic managers of clients, and why the answer to a tick sometimes waits for one.

CARLA's client can lose a wake-up of its own. In synchronous mode its traffic manager works in a thread: after each cycle that
thread asks for the episode's settings, looks whether ``step_begin`` is set, and if not waits on a condition variable. Whoever
called ``world.tick()`` sets ``step_begin`` and notifies as soon as the tick has been answered, without holding the mutex
(``TrafficManagerLocal::SynchronousTick``). If that falls between the look and the wait, nobody is notified, and both wait for
ever. It takes two answers that reach the client together: that of the settings and that of the tick. A server that needs
longer for a tick than the client for a look hardly ever sends them so; a quick one does, in one tick of four.

So they are kept apart, by time, for no call follows by which the thread would tell that it waits. Settings are answered at
once, also while a tick is being made; a tick is answered when every traffic manager whose cycle was seen has its settings, and
has had them for a moment. Only the answer is held back, for only the client that ticks is in danger: the state and the sensors
have been sent, and nothing in the world depends on it.

Lives in the event loop.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

ASKS: Final = "get_episode_settings"  # the last call of a cycle
_CYCLES: Final = "get_vehicle_light_states"  # a call of every cycle, with or without vehicles
CUES: Final = frozenset({"tick_cue", "set_episode_settings"})  # after their answers a client ticks its traffic managers
NOTED: Final = CUES | {ASKS}

# From the answer of the settings to that of the tick. The loop's timers round up to 1 ms; a tick that took longer than this
# anyhow is not held back at all.
_APART_S: Final = 0.0002
# The longest that a tick is held back: a thread that does not ask for so long is not on its way to the wait.
_LONGEST_S: Final = 0.02


class _Phase(Enum):
    """Since the last tick was answered, a traffic manager ..."""

    TICKED = "has done nothing"
    CYCLING = "is in its cycle"
    SETTLED = "has asked for the settings: its cycle is over"


@dataclass
class _Manager:
    """The traffic managers of one connection; ``doubted``: a tick waited for it in vain, and it has not asked since."""

    ports: set[int] = field(default_factory=set)
    phase: _Phase = _Phase.TICKED
    settled_s: float = 0.0
    doubted: bool = False

    def wait_s(self, now_s: float) -> float:
        """How long a tick's answer is to be held back for it."""
        if self.phase is _Phase.CYCLING and not self.doubted:
            return _LONGEST_S
        return self.settled_s + _APART_S - now_s


@dataclass(eq=False)
class _Held:
    """An answer that waits."""

    send: Callable[[], None]
    until_s: float
    timer: asyncio.TimerHandle | None = None


class Managers:
    """The traffic managers of all connections of a server or a node, and the answers that wait for them."""

    def __init__(self) -> None:
        self._managers: dict[object, _Manager] = {}
        self._held: list[_Held] = []

    def called(self, caller: object, name: str, arguments: tuple[Any, ...]) -> None:
        """Take note of a call that came."""
        if name == "add_traffic_manager_running":
            ((_, port),) = arguments
            self._managers.setdefault(caller, _Manager()).ports.add(port)
            return
        manager = self._managers.get(caller)
        if manager is None:
            return
        if name == "destroy_traffic_manager":
            manager.ports.discard(arguments[0])
            if not manager.ports:
                self.gone(caller)
        elif name == _CYCLES and manager.phase is _Phase.TICKED:
            # Later in the same tick it is the user's own call.
            manager.phase = _Phase.CYCLING

    def settled(self, caller: object) -> None:
        """Somebody has been told the settings: a traffic manager waits in a moment, and ticks wait for that moment."""
        manager = self._managers.get(caller)
        if manager is None:
            return
        ends = manager.phase is _Phase.CYCLING
        manager.phase, manager.doubted, manager.settled_s = _Phase.SETTLED, False, asyncio.get_running_loop().time()
        if ends:
            self._look_again()

    def gone(self, caller: object) -> None:
        """Its traffic managers are no more."""
        if self._managers.pop(caller, None) is not None:
            self._look_again()

    def hold(self, send: Callable[[], None]) -> None:
        """Send the answer to a tick: now, or as soon as it is safe."""
        if not self._managers:
            send()
            return
        now_s = asyncio.get_running_loop().time()
        if self._wait_s(now_s) <= 0.0:
            self._send(send)
            return
        self._held.append(_Held(send, now_s + _LONGEST_S))
        self._look_again()

    def _wait_s(self, now_s: float) -> float:
        return max((one.wait_s(now_s) for one in self._managers.values()), default=0.0)

    def _look_again(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        for held in self._held:
            if held.timer is not None:
                held.timer.cancel()
            held.timer = loop.call_at(min(now_s + self._wait_s(now_s), held.until_s), self._release, held)

    def _release(self, held: _Held) -> None:
        self._held.remove(held)
        for one in self._managers.values():
            one.doubted = one.doubted or one.phase is _Phase.CYCLING
        self._send(held.send)

    def _send(self, send: Callable[[], None]) -> None:
        for one in self._managers.values():
            one.phase = _Phase.TICKED
        send()
