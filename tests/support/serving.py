"""A server in a thread of the test's process, a raw client for it, and an episode without any socket."""

import asyncio
import queue
import socket
import struct
import threading
from contextlib import contextmanager
from pathlib import Path

import msgpack

from samepath.simulator.carla import blueprints
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.carla.records import AttributeValue, Description
from samepath.simulator.server.episode import Episode, EpisodeContext
from samepath.simulator.server.maps import MapLibrary
from samepath.simulator.server.methods import methods
from samepath.simulator.server.rpc import Sender
from samepath.simulator.server.server import ServerSettings, SimulatorServer
from tests.support.rpc import RawRpc

LIMITS = ServerLimits()


@contextmanager
def served(**changes):
    """Run a server on free ports; yields it with ``lines``, its log, and ``failures``, what it stopped at."""
    lines, ready, failed = [], threading.Event(), []
    failures = queue.SimpleQueue()
    settings = ServerSettings(**{"port": 0, "map_name": "t-junction", **changes})
    loop = asyncio.new_event_loop()
    server = SimulatorServer(settings, lines.append, failures.put)
    server.lines, server.failures = lines, failures

    def run():
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(server.start())
        except Exception as error:
            failed.append(error)
            ready.set()
            return
        ready.set()
        loop.run_forever()
        loop.run_until_complete(server.stop())
        loop.run_until_complete(asyncio.sleep(0.01))

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(60)
    try:
        if failed:
            raise failed[0]
        yield server
    finally:
        if not failed:
            loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


# For an answer to come at all: on a busy machine the first camera's code takes a minute to build.
PATIENCE_S = 120.0


class RawClient(RawRpc):
    """Speaks MessagePack-RPC by hand to a server of this process, or of a host."""

    def __init__(self, server, timeout_s=PATIENCE_S):
        super().__init__(getattr(server, "host", "127.0.0.1"), server.port, timeout_s)


class RawListener:
    """Listens to a stream by hand."""

    def __init__(self, server, stream_id, timeout_s=PATIENCE_S):
        self.socket = socket.create_connection((getattr(server, "host", "127.0.0.1"), server.stream_port), timeout=timeout_s)
        self.socket.sendall(struct.pack("<I", stream_id))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def _exactly(self, size):
        data, got = bytearray(size), 0
        while got < size:  # into one buffer: the largest picture comes in a thousand pieces
            more = self.socket.recv_into(memoryview(data)[got:])
            if not more:
                raise EOFError
            got += more
        return bytes(data)

    def message(self):
        (size,) = struct.unpack("<I", self._exactly(4))
        assert size > 0
        return self._exactly(size)


class Box:
    """An outbox that keeps everything."""

    def __init__(self):
        self.sent, self.expected, self.forgotten, self.prepared = [], [], [], []

    def publish(self, stream_id, payload):
        self.sent.append((stream_id, payload))

    def prepare(self, payload):
        self.prepared.append(payload)

    def expect(self, stream_id, home):
        self.expected.append(stream_id)

    def forget(self, stream_id):
        self.forgotten.append(stream_id)

    def of(self, stream_id):
        return [payload for number, payload in self.sent if number == stream_id]


def episode(map_name="t-junction", aliases=(), folder=Path("never-made"), limits=LIMITS, draw_debug=False):
    """An episode in synchronous mode; its outbox is ``place.outbox`` and its log ``place.outbox.lines``."""
    box = Box()
    box.lines = []
    log = box.lines.append
    found = Episode(
        EpisodeContext(MapLibrary(dict(aliases), log, limits), box, Path(folder), 2001, limits, log, draw_debug), map_name
    )
    found.settings = found.settings._replace(synchronous_mode=True, fixed_delta_seconds=0.05)
    return found


class Somebody:
    """A client who is connected to the server itself, or to a node, and reads no answers."""

    name = "somebody"

    def __init__(self, home=0, stream_port=None):
        self.home, self.stream_port = home, stream_port

    def answer(self, call_id, result):
        pass


def call(host, name, *arguments, caller=None):
    """Call a method as the wire would, arguments checked, and return what the handler returned."""
    method, caller = methods()[name], caller or Somebody()
    plain = msgpack.unpackb(msgpack.packb(list(arguments)))
    return method.call(host, Sender(caller, caller.home), method.read(plain))


def described(blueprint_id, **attributes):
    blueprint = blueprints.find(blueprint_id)
    values = tuple(AttributeValue(name, int(blueprint.attribute(name).type), str(value)) for name, value in attributes.items())
    return Description(blueprint.uid, blueprint.id, values)


def ticks(host, count):
    for _ in range(count):
        call(host, "tick_cue")
