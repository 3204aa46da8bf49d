"""The cluster that is measured, in processes of its own: a main server, and its nodes as children of that.

``python -m bench.thesis.server PARENT`` reads from its standard input what to start, and
ends with its parent.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

from bench.thesis.wire import ServerAddress
from samepath.cluster.monitor.client import MonitorAddress, SilentError, find_cluster, read_status
from samepath.cluster.monitor.status import ClusterStatus
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import ClusterError, InputError
from samepath.core.processes import die_with_parent

_LOOK_EVERY_S: Final = 0.05
_START_S: Final = 300.0  # the first start on a machine compiles
_END_S: Final = 20.0


class Measured(Protocol):
    """A cluster that can be measured."""

    main: ServerAddress

    def status(self) -> ClusterStatus | None:
        """How it stood a moment ago; None: it has not said so yet."""
        ...


def nodes_of(cluster: Measured) -> list[ServerAddress]:
    """Where the nodes take calls, in their order."""
    addresses: list[ServerAddress] = []
    status = cluster.status()
    if status is None:
        raise ClusterError("a cluster that says how it stands was wanted, but it says nothing")
    for node in sorted(status.nodes, key=lambda node: node.ordinal):
        host, _, port = node.address.rpartition(":")
        addresses.append(ServerAddress(node.name, host, int(port)))
    return addresses


class RunningCluster:
    """A cluster in its processes."""

    def __init__(self, process: "subprocess.Popen[bytes]", folder: Path, log: Path) -> None:
        self._process = process
        self._folder = folder
        self._log = log
        self._site: MonitorAddress | None = None
        self.main = ServerAddress("main", "127.0.0.1", 0)

    def status(self) -> ClusterStatus:
        """Ask its live page."""
        if self._site is None:
            self._site = find_cluster(self._folder)
        return read_status(self._site)

    def wait_for(self, nodes: int) -> None:
        """Wait until all nodes draw."""
        end_s = SYSTEM_CLOCK.monotonic_s() + _START_S
        while SYSTEM_CLOCK.monotonic_s() < end_s:
            if self._process.poll() is not None:
                raise ClusterError(f"the cluster to be measured did not start: {self._last_line()}")
            with suppress(SilentError):
                status = self.status()
                if sum(1 for node in status.nodes if node.state == "working") == nodes:
                    self.main = ServerAddress("main", "127.0.0.1", int((self._folder / "port").read_text("utf-8")))
                    return
            SYSTEM_CLOCK.sleep_s(_LOOK_EVERY_S)
        raise ClusterError(f"{nodes} nodes did not join within {_START_S:.0f} s: look at {self._log}")

    def _last_line(self) -> str:
        with suppress(OSError, IndexError):
            return self._log.read_text("utf-8").splitlines()[-1]
        return "it said nothing"


@contextmanager
def running(nodes: int, map_name: str, threads: int, log: Path) -> Iterator[RunningCluster]:
    """Run a cluster; ``log`` takes what it says."""
    with tempfile.TemporaryDirectory(prefix="samepath-bench-") as name:
        folder = Path(name)
        order = {"nodes": nodes, "map": map_name, "threads": threads, "folder": name}
        with log.open("ab") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(os.getpid())], stdin=subprocess.PIPE, stdout=said, stderr=said,
                process_group=0,  # a terminal's Ctrl-C is for the one who measures
            )  # fmt: skip
        try:
            if process.stdin is None:
                raise RuntimeError("a pipe was asked for")
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.close()
            cluster = RunningCluster(process, folder, log)
            cluster.wait_for(nodes)
            yield cluster
        finally:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(_END_S)


def _serve(order: dict[str, object]) -> None:
    from samepath.cluster.running import ClusterPlan, run_cluster
    from samepath.cluster.settings import MainSettings
    from samepath.simulator.server.server import ServerSettings

    folder = Path(str(order["folder"]))

    def log(line: str) -> None:
        print(line, flush=True)
        _, at, rest = line.partition(" on 127.0.0.1:")
        if line.startswith("main server: ") and at:
            partial = folder / "port.partial"
            partial.write_text(rest.partition(",")[0], "utf-8")
            partial.rename(folder / "port")

    server = ServerSettings(port=0, map_name=str(order["map"]), data_folder=folder)
    main = MainSettings(server=server, run_folder=folder, page_port=0)
    nodes, threads = order["nodes"], order["threads"]
    if not isinstance(nodes, int) or not isinstance(threads, int):
        raise InputError("numbers of nodes and threads were wanted")
    run_cluster(ClusterPlan(main=main, nodes=nodes, placement="processes", threads=threads), log)


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    try:
        _serve(json.loads(sys.stdin.buffer.readline()))
    except (InputError, ClusterError) as error:
        print(error, flush=True)
        sys.exit(2)
