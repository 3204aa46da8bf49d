"""A cluster in threads of the test's process: a main server and nodes with real sockets, real keys and real links."""

import asyncio
import threading
import time
from contextlib import contextmanager

from samepath.cluster.link.keys import make_keys
from samepath.cluster.main import MainServer
from samepath.cluster.node import Node, NodeSettings
from samepath.cluster.settings import MainSettings, Timeouts
from samepath.simulator.server.server import ServerSettings

PATIENT = Timeouts(reissue_s=20.0, fence_s=40.0, silent_s=40.0)


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def call(self, work, timeout_s=60.0):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout_s)

    def start(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(60)
        self.loop.close()


class ThreadedNode:
    """A node in this process."""

    def __init__(self, cluster, name, **changes):
        self.name = name
        self.lines = cluster.lines
        self.settings = NodeSettings(
            name=name,
            ordinal=0,
            main_endpoint=cluster.main.link.endpoint,
            main_public=cluster.main.keys.public,
            public=cluster.keys.public,
            secret=cluster.keys.secret,
            **changes,
        )
        self._loop = Loop()
        self._made = threading.Event()
        self.ended = self._loop.start(self._run())
        assert self._made.wait(60)

    async def _run(self):
        self.node = Node(self.settings, lambda line: self.lines.append(f"{self.name}: {line}"))
        self._made.set()
        return await self.node.run()

    @property
    def port(self):
        return self.node._rpc_port

    @property
    def stream_port(self):
        return self.node._stream_port

    def stop(self):
        self.node.stop("the test is over")
        code = self.ended.result(60)
        self._loop.close()
        return code


class Cluster:
    """A main server and its nodes. ``port`` and ``stream_port`` are the last node's, as a test of a server wants them."""

    def __init__(self, timeouts=PATIENT, placement=None, main_changes=None, **changes):
        self.lines = []
        self.keys = make_keys()
        self.stopped = []
        self.loop = Loop()
        self.nodes = []
        server = ServerSettings(**{"port": 0, "map_name": "t-junction", **changes})
        settings = MainSettings(server=server, timeouts=timeouts, **(main_changes or {}))
        self.main = MainServer(
            settings, self.lines.append, placement, known=lambda public: public == self.keys.public, failed=self.stopped.append
        )
        self.loop.call(self.main.start())

    def add(self, name=None, **changes):
        """Start a node and wait until it works."""
        node = ThreadedNode(self, name or f"node-{len(self.nodes) + 1}", **changes)
        self.nodes.append(node)
        wait_for(lambda: self.is_working(node.name) or node.ended.done(), f"{node.name} joins: {self.lines}", 300.0)
        wait_for(lambda: any(line.startswith(f"{node.name}: ") and "serves" in line for line in self.lines), self.lines)
        return node

    def is_working(self, name):
        return any(member.name == name and member.state == "working" for member in self.main.shell.members())

    @property
    def port(self):
        return self.nodes[-1].port

    @property
    def stream_port(self):
        return self.nodes[-1].stream_port

    def close(self):
        for node in self.nodes:
            if not node.ended.done():
                node.stop()
        self.loop.call(self.main.stop())
        self.loop.close()


def wait_for(is_so, what, timeout_s=60.0):
    end_s = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < end_s, f"waited in vain: {what}"
        time.sleep(0.005)


@contextmanager
def clustered(nodes=2, **changes):
    """A cluster of so many nodes."""
    cluster = Cluster(**changes)
    try:
        for _ in range(nodes):
            cluster.add()
        yield cluster
    finally:
        cluster.close()
