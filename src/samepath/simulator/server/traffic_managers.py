"""Traffic managers of clients: what is held back for their sake, and how one is woken that sleeps for ever.

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

A moment is not always enough: on a machine with more work than cores a thread may be late by many. A traffic manager that made
a cycle after every tick, and after the last one no call at all for seconds, has lost its wake-up: it is woken (``wake``),
and all goes on as if nothing had been lost.

A load is another danger, in real time. CARLA's client lets go of its episode as soon as a load has been answered, and has
none until it has asked for the new one; its traffic manager's thread goes on meanwhile, and the first look at the episode ends
the process. So whatever that thread asks for is answered when the client has its new episode: it asks for the stream of its
states then, and the first of these makes it stop the thread and begin anew.

Vehicles that are taken out are the last. A traffic manager that is not synchronous runs freely: it asks for the settings again
and again until there is a new state, and then makes a cycle, in which it looks every vehicle up in the newest state. That of
two hundred vehicles takes tens of milliseconds. If a state without them comes meanwhile, CARLA's client reads memory that
nobody has set (``Episode::GetState`` has no such actor): a speed limit is chance, and now and then it ends the process. So a
state that somebody is missing from is given out when every such traffic manager asks for the settings, and those are answered
a moment later. What follows the state waits behind it, but for answers that the cycle needs to come to its end.

Lives in the event loop.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol

import msgpack
import numpy as np

from samepath.simulator.carla.records import SpawnCommand
from samepath.simulator.carla.streams import ids_in

ASKS: Final = "get_episode_settings"  # the last call of a cycle
_CYCLES: Final = "get_vehicle_light_states"  # a call of every cycle, with or without vehicles
CUES: Final = frozenset({"tick_cue", "set_episode_settings"})  # after their answers a client ticks its traffic managers
_LOADS: Final = "load_new_episode"
_LOADED: Final = "get_sensor_token"  # the last call of a load: the client has its new episode
_LOADING: Final = frozenset({_LOADS, "version", "get_episode_info", _LOADED})  # calls of the thread that loads
_SPAWNS: Final = frozenset({"spawn_actor", "spawn_actor_with_parent"})  # answered after a state that has the actor
_BATCH: Final = "apply_batch"
_NOTED: Final = CUES | _LOADING | _SPAWNS | {ASKS}

# What a traffic manager needs to come to the end of its cycle; "" is every call that is not noted.
_CYCLE_ANSWERS: Final = frozenset({"", ASKS})

# From the answer of the settings to that of the tick. The loop's timers round up to 1 ms; a tick that took longer than this
# anyhow is not held back at all.
_APART_S: Final = 0.0002
# The longest that a tick is held back: a thread that does not ask for so long is not on its way to the wait.
_LONGEST_S: Final = 0.02
# A traffic manager that is silent for so long when its cycle is due is looked at; it is woken if it answers but makes no call
# for another while. All of that together may not take longer than the last.
_SILENT_S: Final = 3.0
_SURE_S: Final = 1.0
_WAKE_S: Final = 10.0
_LOOK_S: Final = 0.5
# How long answers wait for a client that has been told of its new world and does not enter it: a load that failed, or a client
# that does it in another way.
_ENTER_S: Final = 1.0
# How long a state may wait for a cycle to end; and how long after it the settings are told: the client has two threads, one
# that takes the state and one that waits for the settings.
_CYCLE_S: Final = 1.0
_TAKEN_S: Final = 0.005
_MOST_BEHIND_BYTES: Final = 64 << 20  # of messages that wait behind such a state, in real time
# A synchronous traffic manager asks once for every tick of its client, who waits for the cycle; the client may ask, too. It has
# not asked at all when it is new.
_ASKS_WHEN_FREE: Final = 8
_TICKS_WHEN_FREE: Final = 3


_MOST_BYTES: Final = 4096
_ALIVE: Final[tuple[str, list[bool]]] = ("health_check_remote_TM", [])
_NOTIFY: Final = (("set_synchronous_mode", [False]), ("set_synchronous_mode", [True]))


class ManagerOwner(Protocol):
    """Whose traffic managers they are."""

    name: str
    host: str

    def heed(self, on: bool) -> None:
        """Take its calls, or let them wait."""
        ...


class _Phase(Enum):
    """Since the last tick was answered, a traffic manager ..."""

    TICKED = "has done nothing"
    CYCLING = "is in its cycle"
    SETTLED = "has asked for the settings: its cycle is over"


@dataclass
class _Manager:
    """The traffic managers of one connection.

    ``doubted``: a tick waited for it in vain, and it has not asked since. ``due``: its own client was answered a tick,
    after a cycle, so the next one follows. ``late``: that cycle had not ended by then, so its next question belongs to that
    cycle. ``has_batch``: its cycle has made its batch. ``heard_s``: when its client last called or was answered a tick.
    ``load``: its client loads a map. ``asks``: how often it has asked for the settings since its client was last answered a
    tick, and ``ticks``, how many ticks that was since it last asked. ``free``: one of them is more than a synchronous one
    could come to. ``asked``: what tells those who ask, when the state that waits has been given out.
    """

    ports: set[int] = field(default_factory=set)
    phase: _Phase = _Phase.TICKED
    settled_s: float = 0.0
    doubted: bool = False
    due: bool = False
    late: bool = False
    has_batch: bool = False
    heard_s: float = 0.0
    waking: asyncio.Task[None] | None = None
    load: "_Load | None" = None
    asks: int = 0
    ticks: int = 0
    free: bool = False
    asked: list[Callable[[], None]] = field(default_factory=list)

    def wait_s(self, now_s: float) -> float:
        """How long a tick's answer is to be held back for it."""
        if self.phase is _Phase.CYCLING and not self.doubted:
            return _LONGEST_S
        return self.settled_s + _APART_S - now_s

    @property
    def must_be_met(self) -> bool:
        """May it be in a cycle at any time? One whose client loads a map gets no answers in it, and is not waited for."""
        return self.free and self.load is None


@dataclass(eq=False)
class _Load:
    """A map that a client loads, and the answers that wait until it is there."""

    sends: list[Callable[[], None]] = field(default_factory=list)
    timer: asyncio.TimerHandle | None = None


@dataclass(eq=False)
class _Held:
    """An answer that waits."""

    client: ManagerOwner
    send: Callable[[], None]
    until_s: float
    timer: asyncio.TimerHandle | None = None


class TrafficManagers:
    """The traffic managers of all connections of a server or a node, and the answers that wait for them."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._managers: dict[ManagerOwner, _Manager] = {}
        self._held: list[_Held] = []
        self._looking = False
        self._state = b""  # the last one that was given out, as long as there are traffic managers
        self._behind: list[Callable[[], None]] | None = None  # a state that waits for cycles to end, and what follows it
        self._behind_bytes = 0
        self._latest: asyncio.TimerHandle | None = None

    def called(self, client: ManagerOwner, name: str, arguments: tuple[Any, ...]) -> str:
        """Take note of a call that came; gives its name if the answer to it matters here."""
        self._note(client, name, arguments)
        if name == _BATCH:
            if self._ends_cycle(client):
                return ""
            commands, do_tick = arguments
            spawns = do_tick or any(isinstance(command, SpawnCommand) for command in commands)
            return name if spawns else ""
        return name if name in _NOTED else ""

    def _ends_cycle(self, client: ManagerOwner) -> bool:
        """Is a batch the one with which a traffic manager ends its cycle? It makes one in each, before its client goes on."""
        manager = self._managers.get(client)
        if manager is None or manager.phase is not _Phase.CYCLING or manager.has_batch:
            return False
        manager.has_batch = True
        return True

    def _note(self, client: ManagerOwner, name: str, arguments: tuple[Any, ...]) -> None:
        if name == "add_traffic_manager_running":
            ((_, port),) = arguments
            self._managers.setdefault(client, _Manager()).ports.add(port)
            if not self._looking:
                self._look()
            return
        manager = self._managers.get(client)
        if manager is None:
            return
        manager.heard_s = asyncio.get_running_loop().time()
        if name == "destroy_traffic_manager":
            manager.ports.discard(arguments[0])
            if not manager.ports:
                self.gone(client)
        elif name == _LOADS:
            manager.load = manager.load or _Load()
            self._give_out()
        elif name == _CYCLES and manager.phase is _Phase.TICKED:
            # Later in the same tick it is the user's own call.
            manager.phase, manager.has_batch = _Phase.CYCLING, False

    def tell_settings(self, client: ManagerOwner, send: Callable[[], None]) -> None:
        """Tell somebody the settings: a traffic manager waits in a moment, and ticks wait for that moment."""
        manager = self._managers.get(client) if self._managers else None
        if manager is None:
            send()
            return
        manager.asks, manager.ticks = manager.asks + 1, 0
        manager.free = manager.free or manager.asks >= _ASKS_WHEN_FREE
        if self._behind is not None and manager.must_be_met:
            manager.asked.append(lambda: self.tell_settings(client, send))
            self._give_out()
            return
        send()
        ends = manager.phase is _Phase.CYCLING
        if not manager.late:
            manager.phase = _Phase.SETTLED
        manager.late, manager.doubted, manager.settled_s = False, False, asyncio.get_running_loop().time()
        if ends:
            self._look_again()

    def gone(self, client: ManagerOwner) -> None:
        """A client has disconnected, or its traffic managers are no more."""
        manager = self._managers.pop(client, None)
        if manager is None:
            return
        if manager.waking is not None:
            manager.waking.cancel()
        self._end_load(manager)
        self._tell(manager)
        self._give_out()
        self._look_again()

    def is_loading(self, client: ManagerOwner) -> bool:
        """Does a client with a traffic manager load a map?"""
        manager = self._managers.get(client)
        return manager is not None and manager.load is not None

    def answer(self, client: ManagerOwner, name: str, send: Callable[[], None]) -> None:
        """Send an answer: now, or as soon as it is safe. ``name`` is that of the call, if ``called`` gave it."""
        if self._behind is not None and (name not in _CYCLE_ANSWERS or client not in self._managers):
            self._behind.append(lambda: self.answer(client, name, send))
            return
        manager = self._managers.get(client) if self._managers else None
        load = None if manager is None else manager.load
        if load is not None and name not in _LOADING:
            load.sends.append(send)
            return
        if name in CUES:
            self._hold(client, send)
        elif name == ASKS:
            self.tell_settings(client, send)
        else:
            send()
        if manager is None or load is None:
            return
        if name == _LOADED:
            self._end_load(manager)
        elif name == _LOADS:
            if load.timer is not None:
                load.timer.cancel()
            load.timer = asyncio.get_running_loop().call_later(_ENTER_S, self._end_load, manager)

    def _end_load(self, manager: _Manager) -> None:
        load, manager.load = manager.load, None
        if load is None:
            return
        if load.timer is not None:
            load.timer.cancel()
        for send in load.sends:
            send()

    def state(self, state: bytes, send: Callable[[], None]) -> None:
        """Give out a state: now, or where somebody is missing from it when no free traffic manager is in its cycle."""
        before, self._state = self._state, state if self._managers else b""
        must_wait = before and any(manager.must_be_met for manager in self._managers.values()) and _is_missing(before, state)
        if must_wait and self._behind is None:
            self._behind, self._behind_bytes = [], 0
            self._latest = asyncio.get_running_loop().call_later(_CYCLE_S, self._give_out_late)
        self.in_order(send, len(state))

    def prepare(self, prepare: Callable[[], None]) -> None:
        """Prepare a state for clients that connect; it may not overtake another state."""
        self.in_order(prepare, 0)

    def in_order(self, send: Callable[[], None], size_bytes: int = 0) -> None:
        """Send what a sensor measured, or change who listens to it: what may not overtake a state."""
        if self._behind is None:
            send()
            return
        self._behind.append(send)
        self._behind_bytes += size_bytes
        if self._behind_bytes > _MOST_BEHIND_BYTES:
            self._give_out_late()

    def _give_out(self) -> None:
        """Give out the state that waits, and what follows it, if every traffic manager to be met asks for the settings."""
        met = [manager for manager in self._managers.values() if manager.must_be_met]
        if self._behind is None or not all(manager.asked for manager in met):
            return
        behind, self._behind = self._behind, None
        if self._latest is not None:
            self._latest.cancel()
        for manager in self._managers.values():
            if manager.asked:
                asyncio.get_running_loop().call_later(_TAKEN_S, self._tell, manager)
        for send in behind:
            send()

    def _give_out_late(self) -> None:
        """Wait no longer: who has not asked meanwhile is not as free as it looked, or too slow."""
        for manager in self._managers.values():
            if not manager.asked:
                manager.free, manager.asks, manager.ticks = False, 0, 0
        self._give_out()

    def _tell(self, manager: _Manager) -> None:
        asked, manager.asked = manager.asked, []
        if manager.load is not None:
            manager.load.sends += asked
            return
        for send in asked:
            send()

    def _hold(self, client: ManagerOwner, send: Callable[[], None]) -> None:
        """Send the answer to a tick when no traffic manager is on its way to wait for it."""
        if not self._managers:
            send()
            return
        now_s = asyncio.get_running_loop().time()
        if self._wait_s(now_s) <= 0.0:
            self._send(client, send)
            return
        self._held.append(_Held(client, send, now_s + _LONGEST_S))
        self._look_again()

    def _wait_s(self, now_s: float) -> float:
        return max((manager.wait_s(now_s) for manager in self._managers.values()), default=0.0)

    def _look_again(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        for held in self._held:
            if held.timer is not None:
                held.timer.cancel()
            held.timer = loop.call_at(min(now_s + self._wait_s(now_s), held.until_s), self._release, held)

    def _release(self, held: _Held) -> None:
        self._held.remove(held)
        for manager in self._managers.values():
            manager.doubted = manager.doubted or manager.phase is _Phase.CYCLING
        self._send(held.client, held.send)

    def _send(self, client: ManagerOwner, send: Callable[[], None]) -> None:
        for owner, manager in self._managers.items():
            manager.due = owner is client and manager.phase is not _Phase.TICKED
            manager.late, manager.has_batch = manager.phase is _Phase.CYCLING, False
            manager.phase = _Phase.TICKED
        own = self._managers.get(client)
        if own is not None:
            own.heard_s = asyncio.get_running_loop().time()
            own.asks, own.ticks = 0, own.ticks + 1
            own.free = own.free or own.ticks >= _TICKS_WHEN_FREE
        send()

    def _look(self) -> None:
        """Look for traffic managers that sleep, now and then, as long as there are any."""
        loop = asyncio.get_running_loop()
        for client, manager in self._managers.items():
            # Of several of one client nobody knows which one sleeps, and waking another would make a cycle too many.
            if (
                manager.due
                and manager.phase is _Phase.TICKED
                and len(manager.ports) == 1
                and loop.time() - manager.heard_s > _SILENT_S
            ):
                manager.due = False
                manager.waking = loop.create_task(self._wake(client, manager))
        self._looking = bool(self._managers)
        if self._looking:
            loop.call_later(_LOOK_S, self._look)

    async def _wake(self, client: ManagerOwner, manager: _Manager) -> None:
        (port,), heard_s = manager.ports, manager.heard_s
        try:
            async with asyncio.timeout(_WAKE_S):
                woken = await wake(client.host, port, _SURE_S, lambda: manager.heard_s == heard_s, client.heed)
        except (OSError, TimeoutError) as error:
            why = f"port {port} of {client.host} did not let us: {type(error).__name__}"
            self._log(f"{client.name} seems to wait for its own traffic manager, which cannot be woken: {why}")
        else:
            if woken:
                self._log(f"the traffic manager of {client.name} had lost its wake-up and was woken")
        finally:
            manager.waking = None


def _is_missing(before: bytes, after: bytes) -> bool:
    """Is somebody of one state not in the next one?"""
    old, new = ids_in(before), ids_in(after)
    if np.array_equal(old, new):
        return False
    return not np.isin(old, new).all()


async def wake(host: str, port: int, sure_s: float, waits: Callable[[], bool], heed: Callable[[bool], None]) -> bool:
    """Wake a traffic manager through the port it listens on, if it still ``waits`` some time after it was found alive.

    Its thread waits for a notification that has come and gone, with ``step_begin`` set. ``set_synchronous_mode(false)``
    notifies it again; it then makes the cycle that was due, no other, for it looked at the mode before it began to wait. The
    mode must be back before it looks again, so both calls go in one message, and its own calls are not taken (``heed``) until
    both are answered. A client that was stopped, or is short of time, answers late and then makes its calls: it is left alone.
    """
    reader, writer = await asyncio.open_connection(host, port)
    try:
        await _ask(reader, writer, _ALIVE)
        await asyncio.sleep(sure_s)
        if not waits():
            return False
        heed(False)
        try:
            await _ask(reader, writer, *_NOTIFY)
        finally:
            heed(True)
        return True
    finally:
        writer.close()


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *calls: tuple[str, list[bool]]) -> None:
    """Make calls and wait for as many answers, whatever they say."""
    writer.write(b"".join(msgpack.packb([0, number, *call]) for number, call in enumerate(calls)))
    unpacker = msgpack.Unpacker(max_buffer_size=_MOST_BYTES)
    answers = 0
    while answers < len(calls):
        data = await reader.read(_MOST_BYTES)
        if not data:
            raise ConnectionError("it hung up")
        try:
            unpacker.feed(data)
            answers += sum(1 for _ in unpacker)
        except (ValueError, msgpack.UnpackException) as error:
            raise ConnectionError("it sent no MessagePack") from error
