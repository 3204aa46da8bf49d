"""One trial: a cluster is started, drives the scenario under faults, and everything its sensors sent is named by a digest."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from samepath.base.clock import SYSTEM_CLOCK
from samepath.base.digests import link
from samepath.base.errors import ClusterError
from samepath.sim.cluster.client.remote import Remote, connect
from samepath.sim.cluster.main import Main
from samepath.sim.cluster.members import WORKING
from samepath.sim.cluster.placement.processes import ProcessPlacement
from samepath.sim.cluster.placement.records import NodeOrder
from samepath.sim.cluster.settings import MainSettings, Patience
from samepath.sim.cluster.trial.ears import Ears, Heard
from samepath.sim.cluster.trial.faults import Fault
from samepath.sim.cluster.trial.scene import SceneSettings, Stage, drive, put_up
from samepath.sim.cluster.watching.status import ClusterStatus
from samepath.sim.server.server import ServerSettings

_JOIN_S: Final = 300.0
_FRAME_S: Final = 120.0
_SPARED: Final = "node-1"
"""Clients listen through this node too, so no fault is for it."""


@dataclass(frozen=True)
class TrialSettings:
    """A trial: how many nodes, for how long, which faults, and through how many of them clients listen.

    ``policy`` is how sensors are shared out; ``random`` draws a node for every sensor anew in every tick.
    """

    nodes: int = 2
    ticks: int = 100
    scene: SceneSettings = field(default_factory=SceneSettings)
    faults: tuple[Fault, ...] = ()
    policy: str = "measured"
    shared_memory: bool = True
    listen_at_node: bool = False
    patience: Patience = field(default_factory=lambda: Patience(again_s=0.3, fence_s=1.5))


@dataclass(frozen=True)
class Outcome:
    """What came of a trial. ``digests``: for every sensor one digest over everything it sent, tick by tick."""

    digests: Mapping[int, bytes]
    frames: int
    irregular: tuple[str, ...]
    status: ClusterStatus
    faults: tuple[str, ...]
    tick_s: tuple[float, ...]

    @property
    def digest(self) -> str:
        """One digest over all."""
        return link(b"", b"".join(self.digests.values())).hex()


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="samepath trial", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


def run_trial(settings: TrialSettings, log: Callable[[str], None] = lambda _: None) -> Outcome:
    """Run one trial from start to end; nothing of it is left when this returns."""
    trial = _Trial(settings, log)
    try:
        return trial.run()
    finally:
        trial.close()


class _Trial:
    def __init__(self, settings: TrialSettings, log: Callable[[str], None]) -> None:
        self._settings = settings
        self._log = log
        self._loop = _Loop()
        self._ears = Ears()
        self._done: list[str] = []
        self._stopped: list[str] = []
        self._frozen: list[int] = []
        self._timers: list[threading.Timer] = []
        server = ServerSettings(port=0, map_name=settings.scene.map_name)
        main = MainSettings(
            server=server, policy=settings.policy, shared_memory=settings.shared_memory, patience=settings.patience
        )
        self._main = Main(main, log, ProcessPlacement(log), failed=self._stopped.append)
        asyncio.run_coroutine_threadsafe(self._main.start(), self._loop.loop).result(60.0)

    def run(self) -> Outcome:
        settings, main = self._settings, self._main
        for number in range(1, settings.nodes + 1):
            main.place(self._order(number))
        self._await_nodes(settings.nodes)
        with connect(f"127.0.0.1:{main.port}") as world:
            stage = put_up(world, settings.scene)
            first = self._listen(world, stage)
            times = [self._tick(world, stage, tick) for tick in range(settings.ticks)]
        for timer in self._timers:
            timer.join()
        heard = self._ears.heard()
        return Outcome(
            digests={sensor: link(b"", b"".join(one.digests)) for sensor, one in heard.items()},
            frames=sum(len(one.frames) for one in heard.values()),
            irregular=tuple(_irregular(heard, first, settings.ticks)),
            status=main.look(),
            faults=tuple(self._done),
            tick_s=tuple(times),
        )

    def _order(self, number: int) -> NodeOrder:
        return NodeOrder(f"node-{number}", number, self._main.link.endpoint, shared_memory=self._settings.shared_memory)

    def _await_nodes(self, count: int) -> None:
        end_s = SYSTEM_CLOCK.monotonic_s() + _JOIN_S
        while sum(1 for one in self._main.roster.all() if one.state == WORKING) < count:
            if SYSTEM_CLOCK.monotonic_s() > end_s:
                raise ClusterError(f"{count} nodes were wanted, but only some joined within {_JOIN_S:g} s")
            SYSTEM_CLOCK.sleep_s(0.02)

    def _listen(self, world: Remote, stage: Stage) -> int:
        """Listen to all sensors; every second one through a node, if clients are to be there too. Returns the first frame."""
        main = self._main
        spared = main.roster.by_name(_SPARED)
        through = None
        if self._settings.listen_at_node and spared is not None:
            through = connect(spared.address)
        for number, (sensor, stream_id) in enumerate(stage.sensors):
            if through is not None and spared is not None and number % 2:
                through.call("get_sensor_token", stream_id).result(30.0)
                self._ears.listen(sensor, "127.0.0.1", spared.hello.stream_port, stream_id)
            else:
                world.call("get_sensor_token", stream_id).result(30.0)
                self._ears.listen(sensor, "127.0.0.1", main.stream_port, stream_id)
        if through is not None:
            through.close()
        return self._main.look().frame + 1

    def _tick(self, world: Remote, stage: Stage, tick: int) -> float:
        """One tick, and everything that is due of it; the time from the cue to the last byte."""
        if self._stopped:
            raise ClusterError(self._stopped[0])
        drive(world, stage, tick)
        due = [one for one in self._settings.faults if one.tick == tick]
        for fault in due:
            timer = threading.Timer(fault.after_s, self._do, (fault,))
            timer.daemon = True
            self._timers.append(timer)
            timer.start()
        start_s = SYSTEM_CLOCK.monotonic_s()
        world.tick().result(_FRAME_S)
        self._ears.wait(tick + 1, _FRAME_S)
        return SYSTEM_CLOCK.monotonic_s() - start_s

    # -- faults ------------------------------------------------------------------------------------------------------

    def _do(self, fault: Fault) -> None:
        """Let something go wrong with a node of ours."""
        spare = (_SPARED,) if self._settings.listen_at_node else ()
        if fault.kind == "add":
            number = max(one.number for one in self._main.roster.all()) + 1 if self._main.roster.all() else 1
            if number <= 2 * self._settings.nodes + 2:
                self._main.place(self._order(number))
                self._done.append(str(fault))
            return
        there = [one for one in self._main.roster.all() if one.state == WORKING and one.name not in spare]
        if not there:
            return
        member = there[int(fault.pick * len(there))]
        if fault.kind == "drain":
            if len(there) > 1:
                self._main.drain(member.name)
                self._done.append(f"{fault} ({member.name})")
            return
        with suppress(ProcessLookupError):
            os.kill(member.hello.pid, signal.SIGKILL if fault.kind == "kill" else signal.SIGSTOP)
            if fault.kind == "freeze":
                self._frozen.append(member.hello.pid)
            self._done.append(f"{fault} ({member.name})")

    def close(self) -> None:
        """End everything."""
        for timer in self._timers:
            timer.cancel()
        for pid in self._frozen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._ears.close()
        asyncio.run_coroutine_threadsafe(self._main.stop(), self._loop.loop).result(60.0)
        self._loop.close()


def _irregular(heard: Mapping[int, Heard], first: int, ticks: int) -> list[str]:
    """What is lost, doubled or out of order: every sensor sends exactly one message a tick."""
    wanted = list(range(first, first + ticks))
    return [
        f"sensor {sensor}: frames {one.frames[:3]} ... ({len(one.frames)}), not {first} to {first + ticks - 1}"
        for sensor, one in heard.items()
        if one.frames != wanted
    ]
