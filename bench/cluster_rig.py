"""A cluster for benchmarks: the main server in this process, its nodes in processes of their own, and stop watches inside.

Vehicles stand still and nobody fetches the pictures: what is drawn is the same in every tick and for every number of nodes, and
no client takes a core away from them.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.thesis.wire import RpcConnection, ServerAddress
from samepath.cluster import coordinator as c
from samepath.cluster.main import MainServer
from samepath.cluster.messages import TickResult
from samepath.cluster.placement.processes import NODE_MODULE, ProcessPlacement
from samepath.cluster.placement.records import NodeSpec
from samepath.cluster.settings import MainSettings, Timeouts
from samepath.core.clock import SYSTEM_CLOCK
from samepath.simulator.carla import blueprints
from samepath.simulator.carla.codec import stream_of
from samepath.simulator.carla.records import AttributeValue, Description, Settings, write_settings
from samepath.simulator.server.rendering import RenderRequest, RenderResult, SceneView
from samepath.simulator.server.server import ServerSettings
from samepath.simulator.traffic.traffic import TrafficSettings

STEP_S = 0.05
_JOIN_S = 300.0
_MOUNT = ((1.5, 0.0, 2.0), (0.0, 0.0, 0.0))


@dataclass
class Tick:
    """One tick of the main server, by its own stop watch: showing it to the nodes until every frame exists."""

    begin_s: float
    end_s: float = 0.0
    busy_s: dict[str, float] = field(default_factory=dict)

    @property
    def work_s(self) -> float:
        """From the view to the last frame."""
        return self.end_s - self.begin_s

    @property
    def overhead_s(self) -> float:
        """What it took beyond the drawing of the node that drew longest."""
        return self.work_s - max(self.busy_s.values(), default=0.0)


class Rig:
    """A cluster. ``handicaps`` has one number per node: how many times slower it draws than it could."""

    def __init__(
        self,
        handicaps: Sequence[float],
        *,
        policy: str = "measured",
        timeouts: Timeouts | None = None,
        map_name: str = "town",
        threads: int = 1,
        module: str = NODE_MODULE,
        traffic: TrafficSettings | None = None,
    ) -> None:
        self.ticks: list[Tick] = []
        self.shown: tuple[SceneView, tuple[RenderRequest, ...]] | None = None
        self.lines: list[str] = []
        self.began: Callable[[], None] = lambda: None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        settings = MainSettings(
            server=ServerSettings(port=0, map_name=map_name, data_folder=Path("never-made"), traffic=traffic),
            policy=policy,
            timeouts=timeouts or Timeouts(),
        )
        placement = ProcessPlacement(self.lines.append, module=module)
        self.main = MainServer(settings, self.lines.append, placement, failed=self.lines.append)
        self._call(self.main.start())
        for number, handicap in enumerate(handicaps, start=1):
            order = NodeSpec(f"node-{number}", number, self.main.link.endpoint, handicap=handicap, threads=threads)
            self.main.place(order)
        self.wait_for(len(handicaps))
        self._watch()
        self.caller = RpcConnection(ServerAddress("main", "127.0.0.1", self.main.port))
        self.caller.value("set_episode_settings", write_settings(Settings(synchronous_mode=True, fixed_delta_seconds=STEP_S)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        self.caller.close()
        self._call(self.main.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Any) -> Any:  # noqa: ANN401 - any coroutine
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_JOIN_S)

    def members(self) -> list[c.Member]:
        """The nodes that draw."""
        return c.renderers(self.main.shell.state)

    def wait_for(self, nodes: int) -> None:
        """Wait until so many nodes draw."""
        end_s = SYSTEM_CLOCK.monotonic_s() + _JOIN_S
        while len(self.members()) < nodes:
            if SYSTEM_CLOCK.monotonic_s() > end_s or any(" was refused: " in line for line in self.lines):
                raise RuntimeError(f"{nodes} nodes did not join: {self.lines[-5:]}")
            SYSTEM_CLOCK.sleep_s(0.02)

    def _watch(self) -> None:
        """Put stop watches around a tick's work and around what nodes say of theirs."""
        shell = self.main.shell
        render, feed = shell.render, shell.feed

        def timed_render(view: SceneView, requests: Sequence[RenderRequest]) -> Sequence[RenderResult]:
            self.shown = view, tuple(requests)
            self.ticks.append(Tick(SYSTEM_CLOCK.monotonic_s()))
            self.began()
            try:
                return render(view, requests)
            finally:
                self.ticks[-1].end_s = SYSTEM_CLOCK.monotonic_s()

        def timed_feed(event: c.Event) -> None:
            if isinstance(event, c.NodeMessage) and isinstance(event.message, TickResult) and event.message.results:
                member = shell.state.members.get(event.peer)
                if member is not None and self.ticks:
                    self.ticks[-1].busy_s[member.name] = event.message.busy_s
            feed(event)

        shell.render = timed_render  # type: ignore[method-assign]
        shell.feed = timed_feed  # type: ignore[method-assign]

    # -- the scene ---------------------------------------------------------------------------------------------------

    def fill(self, cars: int) -> list[int]:
        """Put vehicles on places all over the map."""
        points = self.caller.value("get_map_info")[1]
        chosen = [points[k * len(points) // cars] for k in range(cars)]
        return [self.caller.value("spawn_actor", described("vehicle.tesla.model3"), place)[0] for place in chosen]

    def cameras(self, cars: Sequence[int], width: int, height: int, homes: Sequence[int] = ()) -> None:
        """Put a camera on each of these vehicles, wanted by turns at these homes, or at every node."""
        size = described("sensor.camera.rgb", image_size_x=width, image_size_y=height)
        numbers = homes or [member.number for member in self.members()]
        for k, car in enumerate(cars):
            record = self.caller.value("spawn_actor_with_parent", size, _MOUNT, car, 0, "")
            # Between ticks nobody else looks at the audience.
            self.main._runner.episode.connections.subscriptions.add(stream_of(bytes(record[5])), numbers[k % len(numbers)])

    def tick(self, count: int = 1) -> list[Tick]:
        """Tick so often; returns what the stop watches say."""
        first = len(self.ticks)
        for _ in range(count):
            self.caller.value("tick_cue")
        return self.ticks[first:]

    # -- processes ---------------------------------------------------------------------------------------------------

    def pin(self, main: set[int], nodes: Sequence[set[int]]) -> None:
        """Keep the main server and its nodes, one after the other, on these cores."""
        pin(os.getpid(), main)
        for member, cores in zip(self.members(), nodes, strict=True):
            pin(member.hello.pid, cores)


def described(blueprint_id: str, **attributes: int) -> Description:
    """A blueprint with these attributes."""
    blueprint = blueprints.find(blueprint_id)
    known = {attribute.id: attribute for attribute in blueprint.attributes}
    values = tuple(AttributeValue(name, int(known[name].type), str(value)) for name, value in attributes.items())
    return Description(blueprint.uid, blueprint.id, values)


def pin(pid: int, cores: set[int]) -> None:
    """Keep all threads of a process on these cores; threads it starts later stay with them."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            os.sched_setaffinity(int(task.name), cores)
        except ProcessLookupError:
            continue  # it has ended meanwhile
