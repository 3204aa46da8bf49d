"""Both ends of a link for tests: within one thread, or with nodes as processes of their own."""

import os
import re
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

from samepath.cluster.link import Keys, LinkError, MainLink, NodeLink, Received, make_keys
from samepath.cluster.link.wire import zmq
from samepath.core.clock import SYSTEM_CLOCK

MAIN_KEYS, NODE_KEYS = make_keys(), make_keys()
PATIENCE_S = 60.0


def wait_until(done):
    end_s = SYSTEM_CLOCK.monotonic_s() + PATIENCE_S
    while not done():
        assert SYSTEM_CLOCK.monotonic_s() < end_s, "it never came"


class Pair:
    """A main server with nodes in the same thread, polled in turn."""

    def __init__(self, main, nodes, log):
        self.main, self.nodes, self.log = main, nodes, log
        self.at_main, self.at_nodes = [], [[] for _ in nodes]

    def until(self, done):
        """Poll both ends until ``done()``."""

        def poll_and_look():
            self.at_main.extend(self.main.poll(0.001))
            for node, events in zip(self.nodes, self.at_nodes, strict=True):
                events.extend(node.poll(0.001))
            return done()

        if not done():
            wait_until(poll_and_look)

    def has_room_for(self, size):
        """Has shared memory grown so far, in both directions, that a part of this size goes through it?"""
        (node,) = self.nodes
        return min(node.memory_bytes) >= size

    @property
    def peers(self):
        return [node.identity for node in self.nodes]


@contextmanager
def linked(nodes=1, *, shared=True, limits=None, node_shared=None, compress="auto"):
    with ExitStack() as stack:
        log = []
        same = {"limits": limits, "log": log.append, "compress": compress}
        main = MainLink("127.0.0.1", 0, MAIN_KEYS, NODE_KEYS.public.__eq__, shared_memory=shared, **same)
        stack.callback(main.close)
        wanted = node_shared or [shared] * nodes
        found = []
        for own_memory in wanted:
            node = NodeLink(main.endpoint, NODE_KEYS, MAIN_KEYS.public, shared_memory=own_memory, **same)
            stack.callback(node.close)
            found.append(node)
        pair = Pair(main, found, log)
        pair.until(lambda: len(main.peers()) == len(found))
        pair.until(
            lambda: all(
                node.is_local and main.is_local(node.identity)
                for node, own_memory in zip(found, wanted, strict=True)
                if own_memory and shared
            )
        )
        yield pair


def listening(**options):
    return MainLink("127.0.0.1", 0, MAIN_KEYS, NODE_KEYS.public.__eq__, **options)


@contextmanager
def raw_dealer(endpoint, identity):
    """An authenticated peer that sends what it likes."""
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.linger = 0
    socket.identity = identity
    socket.curve_publickey, socket.curve_secretkey = NODE_KEYS.public.encode(), NODE_KEYS.secret.encode()
    socket.curve_serverkey = MAIN_KEYS.public.encode()
    socket.connect(endpoint)
    try:
        yield socket
    finally:
        context.destroy(linger=0)


@contextmanager
def node_process(endpoint, *, main_public=MAIN_KEYS.public):
    """A node that sends everything back, in a process of its own."""
    secrets = {"LINK_PUBLIC": NODE_KEYS.public, "LINK_SECRET": NODE_KEYS.secret, "LINK_MAIN": main_public}
    process = subprocess.Popen(
        [sys.executable, __file__, "node", endpoint], env=os.environ | secrets, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def collect(main, count, kind=Received):
    """Poll until so many events of a kind have come; returns all events."""
    events = []
    end_s = SYSTEM_CLOCK.monotonic_s() + PATIENCE_S
    while sum(isinstance(event, kind) for event in events) < count:
        assert SYSTEM_CLOCK.monotonic_s() < end_s, f"only {events}"
        events += main.poll(1.0)
    return events


def segments_mapped(pid="self"):
    """How many segments of a link a process has in its memory."""
    return len(re.findall("memfd:samepath-link", Path(f"/proc/{pid}/maps").read_text("utf-8")))


def handles():
    return len(list(Path("/proc/self/fd").iterdir()))


def echo(endpoint):
    link = NodeLink(endpoint, Keys(os.environ["LINK_PUBLIC"], os.environ["LINK_SECRET"]), os.environ["LINK_MAIN"])
    link.send(b"here")
    try:
        while True:
            for event in link.poll(None):
                link.send(event.message, event.bulk)
    except LinkError as error:
        link.close()
        print(f"{type(error).__name__}: {error}; {segments_mapped()} segments", flush=True)


def serve():
    """A main server that takes one node, sends it its image back, and says so."""
    main = listening()
    print(main.endpoint, MAIN_KEYS.public, NODE_KEYS.public, NODE_KEYS.secret, flush=True)
    while True:
        for event in main.poll(None):
            if isinstance(event, Received):
                main.send(event.peer, b"seen", event.bulk)


if __name__ == "__main__":
    if sys.argv[1] == "node":
        echo(sys.argv[2])
    else:
        serve()
