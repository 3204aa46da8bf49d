"""A whole cluster from start to end: the main server, who places its nodes, and the page it is watched on.

Order matters at both ends. At the start the main server listens before the first node is placed, so that no node has to try
twice; the monitor comes before the nodes, so that somebody who waits for them sees why. At the end the monitor goes first (it
must not report a cluster that falls apart on purpose), then the nodes are told to go, then their placement clears up.
"""

import asyncio
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from samepath.cluster.autoscale import ScaleRule, ScaleState, SetNodes, decide, leaving, seen_of
from samepath.cluster.link.keys import Keys, KnownKeys, make_keys, read_keys, write_keys
from samepath.cluster.main import MainServer
from samepath.cluster.monitor.client import RUN_FOLDER, new_token, publish_address, remove_address
from samepath.cluster.monitor.web import MonitorServer
from samepath.cluster.placement.processes import ProcessPlacement
from samepath.cluster.placement.ray_placement import RayPlacement
from samepath.cluster.placement.records import NodeSpec
from samepath.cluster.settings import MainSettings, Timeouts
from samepath.core.errors import EpisodeFailedError, InputError
from samepath.core.network import is_everywhere, is_loopback
from samepath.core.processes import ShutdownSignals, shutdown_signals
from samepath.core.service import Pulse
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.sensors.building import start_build
from samepath.simulator.sensors.renderer import check_same_bytes
from samepath.simulator.server.dialects import NEWEST
from samepath.simulator.server.journal import JournalSettings
from samepath.simulator.server.resume import JournalConfig, origin_of
from samepath.simulator.server.server import ServerSettings

MAIN_KEYS: Final = "main"
NODE_KEYS: Final = "node"
_EXTRA: Final = "cluster"
# How long one call or tick of the main server may take before probes fail. Waiting for nodes does not count: that has limits
# of its own (``Timeouts``).
STALL_S: Final = 90.0
# How often it is looked whether nodes are to be added or let go: as often as the status is made.
_LOOK_S: Final = 0.25


@dataclass(frozen=True)
class ClusterPlan:
    """A cluster to be run. ``nodes`` are started by Ray or as plain processes; 0: none, they are started by hand.

    ``ray`` is the address of an existing Ray cluster, None: a Ray of our own. Nodes listen on ``node_host``. Each has the port
    ``node_port``, for one node per host; None: the k-th has those 2 k above the main server's, or any if that has any. ``keys``
    is the folder of keys for nodes started by hand. ``scale`` has nodes added and let go by load, beginning with ``nodes``.
    ``core_sets`` are the cores of one node after the other, in turn. ``renderer`` is who draws on every node.
    """

    main: MainSettings = field(default_factory=MainSettings)
    nodes: int = 1
    placement: Literal["ray", "processes"] = "ray"
    ray: str | None = None
    node_host: str = "127.0.0.1"
    node_port: int | None = None
    threads: int = 1
    keys: Path | None = None
    scale: ScaleRule | None = None
    core_sets: tuple[tuple[int, ...], ...] = ()
    renderer: str = "software"

    def __post_init__(self) -> None:
        check_same_bytes(self.renderer)
        if self.scale is not None and not self.scale.nodes_least <= self.nodes <= self.scale.nodes_most:
            raise InputError(
                f"--nodes {self.nodes} is outside --scale {self.scale.nodes_least}..{self.scale.nodes_most}: "
                "leave --nodes out, or choose a number within"
            )
        if self.ray is not None and self.placement != "ray":
            raise InputError(f"--ray {self.ray} asks for Ray, --placement {self.placement} for something else: leave one out")
        if is_everywhere(self.main.link_host):
            raise InputError(
                f"--link-host is where nodes find the main server, and {self.main.link_host} is no address to go to: "
                "give one of this machine that they reach"
            )

    def remembered(self) -> dict[str, Any]:
        """How the cluster is run, as plain data that its journal keeps."""
        main = self.main
        return {
            "nodes": self.nodes,
            "placement": self.placement,
            "ray": self.ray,
            "node_host": self.node_host,
            "node_port": self.node_port,
            "threads": self.threads,
            "renderer": self.renderer,
            "keys": None if self.keys is None else str(self.keys.absolute()),
            "scale": None if self.scale is None else [self.scale.nodes_least, self.scale.nodes_most, self.scale.target_s],
            "host": main.server.host,
            "port": main.server.port,
            "protocol": main.server.protocol,
            "time_scale": main.server.time_scale,
            "map_s": main.server.limits.map_s,
            "map_bytes": main.server.limits.map_bytes,
            "link_host": main.link_host,
            "link_port": main.link_port,
            "shared_memory": main.shared_memory,
            "compress": main.compress,
            "core_sets": [list(cores) for cores in self.core_sets],
            "policy": main.policy,
            "fence_s": main.timeouts.fence_s,
            "page_host": main.page_host,
            "page_port": main.page_port,
        }

    def keeping(self, journal: JournalConfig) -> "ClusterPlan":
        """The same with a journal, from which it can be resumed."""
        said = {**self.remembered(), "journal_durable": journal.settings.durable}
        server = replace(self.main.server, journal=replace(journal, extra={_EXTRA: said}))
        return replace(self, main=replace(self.main, server=server))


def resumed_plan(journal: Path, run_folder: Path | None) -> ClusterPlan:
    """How the cluster of a journal was run, to go on with its world."""
    origin = origin_of(journal)
    said = origin.extra.get(_EXTRA)
    if said is None:
        raise InputError(f"the journal in {journal} is no cluster's: go on with samepath serve --journal {journal} --resume")
    server = ServerSettings(
        host=said["host"],
        port=said["port"],
        map_name=origin.map_name,
        aliases=origin.aliases,
        map_files=origin.map_files,
        data_folder=origin.data_folder,
        limits=ServerLimits(map_s=said["map_s"], map_bytes=said["map_bytes"]),
        draw_debug=origin.draw_debug,
        protocol=said.get("protocol", NEWEST),  # journals of before have none
        time_scale=said.get("time_scale", 1.0),
        traffic=origin.traffic,
        weather_felt=origin.weather_felt,
        journal=JournalConfig(journal, JournalSettings(durable=said["journal_durable"]), resume=True, extra=origin.extra),
    )
    main = MainSettings(
        server=server,
        link_host=said["link_host"],
        link_port=said["link_port"],
        shared_memory=said["shared_memory"],
        compress=said.get("compress", "auto"),  # journals of before have none
        policy=said["policy"],
        timeouts=Timeouts.with_patience(said.get("fence_s", Timeouts.fence_s)),
        run_folder=run_folder,
        page_host=said["page_host"],
        page_port=said["page_port"],
    )
    return ClusterPlan(
        main=main,
        nodes=said["nodes"],
        placement=said["placement"],
        ray=said["ray"],
        node_host=said["node_host"],
        node_port=said["node_port"],
        threads=said["threads"],
        keys=None if said["keys"] is None else Path(said["keys"]),
        scale=None if said.get("scale") is None else ScaleRule(*said["scale"]),
        core_sets=tuple(tuple(cores) for cores in said.get("core_sets", ())),
        renderer=said.get("renderer", "software"),
    )


Beside = Callable[[str, int], "subprocess.Popen[bytes]"]


def run_cluster(plan: ClusterPlan, log: Callable[[str], None], beside: Beside | None = None) -> None:
    """Run a cluster until SIGINT, SIGTERM or a request to stop; nothing of it is left when this returns.

    ``beside`` starts a process that looks on, when host and port of the main server are known.

    A second signal ends this process at once; nodes and whoever placed them see that and go by themselves.
    """
    placement: RayPlacement | ProcessPlacement | None = None
    if plan.nodes:
        # Once here, not in each node of this host; nodes of other hosts build it before they join. In a process of its own:
        # the main server draws nothing.
        start_build().wait()
        if plan.placement == "ray":
            placement = RayPlacement(log, address=plan.ray, link_is_loopback=is_loopback(plan.main.link_host))
        else:
            placement = ProcessPlacement(log)
    with shutdown_signals() as end:
        asyncio.run(_Cluster(plan, placement, log, beside).run(end))


class _Cluster:
    def __init__(
        self,
        plan: ClusterPlan,
        placement: RayPlacement | ProcessPlacement | None,
        log: Callable[[str], None],
        beside: Beside | None,
    ) -> None:
        self._plan, self._placement, self._log, self._beside = plan, placement, log, beside
        self._looker: subprocess.Popen[bytes] | None = None
        self._trouble = ""

    async def run(self, end: ShutdownSignals) -> None:
        """Run until the first signal, a request to stop, or a tick that no node can draw."""
        plan = self._plan
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        end.call_on_first(self._stop)
        keys, known = _keys(plan.keys, self._log) if plan.keys is not None else (None, None)
        self._main = MainServer(plan.main, self._log, self._placement, keys=keys, known=known, failed=self._fail)
        await self._main.start()
        Pulse(self._complaint)
        monitor: MonitorServer | None = None
        scaling: asyncio.Task[None] | None = None
        try:
            monitor = self._start_monitor()
            await self._begin()
            if plan.scale is not None:
                scaling = asyncio.create_task(self._scale(plan.scale))
                scaling.add_done_callback(self._on_scaling_ended)
            await self._over.wait()
            self._log("stopping")
        finally:
            if scaling is not None:
                scaling.cancel()  # before nodes go: it would ask for others
            if self._looker is not None:
                self._looker.terminate()
                await asyncio.to_thread(self._looker.wait)
            if monitor is not None:
                monitor.stop()
                remove_address(plan.main.run_folder or RUN_FOLDER)
            await self._main.stop()
        if self._trouble:
            raise EpisodeFailedError(self._trouble)

    async def _begin(self) -> None:
        """Say where everything is and have the nodes started."""
        plan, main = self._plan, self._main
        server = plan.main.server
        self._log(f"main server: map {server.map_name} on {server.host}:{main.port}, nodes join at {main.link.endpoint}")
        if self._beside is not None:
            self._looker = self._beside(server.host, main.port)
        if isinstance(self._placement, RayPlacement):
            self._log("starting Ray on loopback" if plan.ray is None else f"joining the Ray cluster at {plan.ray}")
            # Seconds, in another thread: clients of the main server are served meanwhile.
            await self._loop.run_in_executor(None, self._placement.open)
        first = NodeSpec(
            name="node-1",
            ordinal=1,
            main_endpoint=main.link.endpoint,
            host=plan.node_host,
            port=(server.port and server.port + 2) if plan.node_port is None else plan.node_port,
            threads=plan.threads,
            shared_memory=plan.main.shared_memory,
            port_step=2 if plan.node_port is None else 0,
            core_sets=plan.core_sets,
            compress=plan.main.compress,
            renderer=plan.renderer,
        )
        for ordinal in range(1, plan.nodes + 1):
            main.place(first.another(ordinal))

    async def _scale(self, rule: ScaleRule) -> None:
        """Look at the status as often as it is made, and have nodes added or let go."""
        main, state = self._main, ScaleState()
        while True:
            await asyncio.sleep(_LOOK_S)
            status, placed = main.status(), main.expected_nodes()
            if status is None:
                continue
            state, actions = decide(rule, state, seen_of(status, placed), status.at_s)
            for action in actions:
                if not isinstance(action, SetNodes):
                    self._log(action.line)
                    continue
                self._log(f"{action.nodes} nodes instead of {len(placed)}: {action.why}")
                if action.nodes > len(placed):
                    main.scale(action.nodes)
                for name in leaving(status, placed, action.nodes):
                    main.drain(name)

    def _on_scaling_ended(self, scaling: "asyncio.Task[None]") -> None:
        """Nobody would notice otherwise: a cluster that no longer follows its load must say so."""
        if not scaling.cancelled() and (error := scaling.exception()) is not None:
            self._fail(f"error of ours while scaling: {type(error).__name__}: {error}")

    def _start_monitor(self) -> MonitorServer | None:
        settings = self._plan.main
        if settings.page_port is None:
            return None
        token = new_token()
        monitor = MonitorServer(
            self._main.status,
            self._main.thumbnail,
            _Actions(self._main, self._stop),
            token,
            host=settings.page_host,
            port=settings.page_port,
            log=self._log,
            complaint=self._complaint,
            notes=lambda: self._main.health().notes(),
        )
        # The port is bound by now: whoever finds the address in the folder is answered, if a little later.
        publish_address(settings.run_folder or RUN_FOLDER, monitor.url, token)
        monitor.start()
        self._log(f"live page: {monitor.url}")
        return monitor

    def _complaint(self) -> str:
        return self._main.health().complaint(STALL_S)

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)

    def _fail(self, words: str) -> None:
        self._trouble = self._trouble or words  # the first failure is the reason, what follows is its consequence
        self._stop()


class _Actions:
    """What may be asked for from outside."""

    def __init__(self, main: MainServer, stop: Callable[[], None]) -> None:
        self._main, self._stop = main, stop

    def drain(self, node: str) -> str:
        """Give this node nothing more."""
        return self._main.drain(node)

    def scale(self, nodes: int) -> str:
        """Have so many nodes."""
        return self._main.scale(nodes)

    def stop(self) -> str:
        """End the cluster."""
        self._stop()
        return "the cluster stops"


def _keys(folder: Path, log: Callable[[str], None]) -> tuple[Keys, Callable[[str], bool]]:
    """Return the main server's keys and who else is let in: whoever has a public key in the folder.

    Missing pairs are made: the main server's, and one that a node started by hand can use.
    """
    for name in (MAIN_KEYS, NODE_KEYS):
        if not (folder / f"{name}.secret").exists() and not (folder / f"{name}.public").exists():
            write_keys(folder, name, make_keys())
    return read_keys(folder, MAIN_KEYS), KnownKeys(folder, MAIN_KEYS, log)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))
