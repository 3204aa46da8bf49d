"""The cluster that is measured, in processes of its own: a main server, and its nodes as children of that.

``python -m bench.thesis.server PARENT`` reads from its standard input what to start and then, a line each, when to say how the
cluster stands; it answers on its standard output, and ends with its parent. Whoever measures asks for the very moment: a status
that is published four times a second would be late by more than a short episode lasts.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Protocol

from bench.thesis.child import Child, orders, reply
from bench.thesis.placing import BusyProcesses, Layout, NodePlace, pin
from bench.thesis.plan import NodeSet
from bench.thesis.wire import ServerAddress
from samepath.cluster.monitor.status import ClusterStatus, from_json, to_json
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import ClusterError, InputError

_START_S: Final = 300.0  # the first start on a machine compiles
_LOOK_S: Final = 0.02


class Measured(Protocol):
    """A cluster that can be measured."""

    main: ServerAddress

    def status(self) -> ClusterStatus:
        """How it stands at this very moment."""
        ...


def nodes_of(cluster: Measured) -> list[ServerAddress]:
    """Where the nodes take calls, in their order."""
    addresses: list[ServerAddress] = []
    for node in sorted(cluster.status().nodes, key=lambda node: node.ordinal):
        host, _, port = node.address.rpartition(":")
        addresses.append(ServerAddress(node.name, host, int(port)))
    return addresses


class RunningCluster:
    """A cluster in its processes."""

    def __init__(self, child: Child, order: Mapping[str, object]) -> None:
        self._child = child
        port = child.ask(**order)["port"]  # comes when all nodes draw
        self.main = ServerAddress("main", "127.0.0.1", int(port))

    def status(self) -> ClusterStatus:
        """How it stands now."""
        return from_json(json.dumps(self._child.ask(status=True)["status"]).encode())


@contextmanager
def running(node_set: NodeSet, layout: Layout, map_name: str, log: Path) -> Iterator[RunningCluster]:
    """Run a cluster; ``log`` takes what it says."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="samepath-bench-"))
        child = Child("the cluster that is measured", __name__, log=log)
        stack.callback(child.close)
        nodes = [{**asdict(place), "cores": sorted(place.cores)} for place in layout.nodes]
        policy = "round-robin" if node_set.kind == "by turns" else "measured"
        order = {"map": map_name, "folder": folder, "main": sorted(layout.main), "nodes": nodes, "policy": policy}
        cluster = RunningCluster(child, order)
        busy = BusyProcesses([place.cores for place in layout.nodes if place.is_shared and place.cores])
        stack.callback(busy.close)
        yield cluster


# In the process of the main server.


class _Served:
    def __init__(self, order: dict[str, Any], given: Iterator[Any]) -> None:
        from samepath.cluster.main import MainServer
        from samepath.cluster.placement.processes import ProcessPlacement
        from samepath.cluster.settings import MainSettings
        from samepath.simulator.server.server import ServerSettings

        server = ServerSettings(port=0, map_name=str(order["map"]), data_folder=Path(str(order["folder"])))
        settings = MainSettings(server=server, policy=str(order["policy"]))
        self._failed, self._orders = "", given
        self._cores = frozenset(order["main"])
        self._places = [NodePlace(**{**node, "cores": frozenset(node["cores"])}) for node in order["nodes"]]
        self.main = MainServer(settings, self._hear, ProcessPlacement(self._hear), failed=self._fail)

    def _hear(self, line: str) -> None:
        """Log a line; a node that was to draw with a card and does not would spoil the figures, so that this is a failure."""
        if " in software" in line and any(place.renderer == "cuda" for place in self._places):
            self._failed = line
        _log(line)

    def _fail(self, words: str) -> None:
        self._failed = words
        _log(words)

    async def run(self) -> None:
        from samepath.cluster.placement.records import NodeSpec

        await self.main.start()
        try:
            for ordinal, place in enumerate(self._places, start=1):
                spec = NodeSpec(
                    f"node-{ordinal}", ordinal, self.main.link.endpoint,
                    threads=place.threads, handicap=place.handicap, renderer=place.renderer,
                )  # fmt: skip
                self.main.place(spec)
            end_s = SYSTEM_CLOCK.monotonic_s() + _START_S
            while self.main.joined() < len(self._places):
                if len(self.main.expected_nodes()) < len(self._places):
                    raise ClusterError("a node has ended and will not come again: look at the lines above")
                if SYSTEM_CLOCK.monotonic_s() > end_s:
                    raise ClusterError(f"{len(self._places)} nodes did not join within {_START_S:.0f} s")
                await asyncio.sleep(_LOOK_S)
            if self._failed:
                raise ClusterError(self._failed)
            self._pin()
            reply({"port": self.main.port})
            await asyncio.get_running_loop().run_in_executor(None, self._answer_until_the_end)
        finally:
            await self.main.stop()

    def _pin(self) -> None:
        pin(os.getpid(), self._cores)
        members: Sequence[Any] = sorted(self.main.shell.members(), key=lambda member: member.number)
        for member, place in zip(members, self._places, strict=True):
            pin(member.hello.pid, place.cores)

    def _answer_until_the_end(self) -> None:
        for _ in self._orders:
            if self._failed:
                reply({"error": self._failed})
                return
            reply({"status": json.loads(to_json(self.main.look()))})


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    """Serve what is ordered first, until there are no more orders."""
    given = orders()
    try:
        asyncio.run(_Served(next(given), given).run())
    except (InputError, ClusterError) as error:
        _log(str(error))
        sys.exit(2)


if __name__ == "__main__":
    main()
