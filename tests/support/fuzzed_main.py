"""A main server's side of a cluster without sockets: what a node says is handed to it, and what it does is watched."""

import time

from msgspec.structs import replace

from samepath import __version__
from samepath.cluster import coordinator as c
from samepath.cluster import messages as m
from samepath.cluster.identity import boot_id, fingerprint, map_digest
from samepath.cluster.link.wire import Received
from samepath.cluster.monitor.counters import Counters
from samepath.cluster.settings import Timeouts, link_limits
from samepath.cluster.shell import ClusterShell
from samepath.core.states import Pose
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.server.rendering import RenderRequest
from tests.support.serving import episode


class _Link:
    """A link to nobody: everything is taken, nothing is sent."""

    def __init__(self):
        self.cut = []
        self.sent = 0

    def check(self, message, bulk=()):
        pass

    def has_room(self, peer):
        return True

    def is_local(self, peer):
        return False

    def send(self, peer, message, bulk=()):
        m.from_main(message)  # whatever is sent can be read
        self.sent += 1

    def broadcast(self, messages, bulk, own=None):
        for message in messages.values():
            m.from_main(message)
        self.sent += len(messages)
        return {}

    def disconnect(self, peer):
        self.cut.append(peer)

    def watch(self, fd, key):
        pass

    def unwatch(self, fd):
        pass

    def poll(self, timeout_s):
        return []


class FuzzedMain:
    """One node that has joined and owes two frames, whatever it says. A node that was taken out is followed by another."""

    def __init__(self, folder):
        self.episode = episode(folder=folder, limits=ServerLimits(connections=8))
        self.lines = []
        self.link = _Link()
        self.counters = Counters(0.0)
        limits = self.episode.context.limits
        self.limits = link_limits(limits)
        config = c.ClusterConfig(__version__, fingerprint(), boot_id(), {}, Timeouts(silent_s=1e9), limits.connections)
        self.shell = ClusterShell(self, self.link, self.counters, config, "measured", limits, self.lines.append)
        self.joined = 0
        self.delivered = 0

    # What the shell asks of a main server.

    def expected_nodes(self):
        return ()

    def on_node_lost(self, member, *, failed):
        pass

    def on_node_drained(self, name):
        pass

    def answer_aside(self, call):
        pass

    def deliver(self, frame):
        self.delivered += 1

    # What a node says.

    def hear(self, content, bulk):
        """Take a message of the node, as the link would hand it over; returns whether the node is still a member."""
        member = self._member()
        self.shell._on_link_event(Received(member.peer, content, bulk))
        self.shell.work.clear()
        self.lines.clear()
        return member.peer in self.shell.state.members

    def _member(self):
        found = next(iter(self.shell.members()), None)
        if found is None:
            self.joined += 1
            peer = self.joined.to_bytes(16, "little")
            name = f"node-{self.joined % 3}"
            hello = m.Hello(name, __version__, fingerprint(), "host", boot_id() + "x", 1, "127.0.0.1", 1, 2, 1)
            ready = m.MapReady(self.episode.id, map_digest(self.episode.map.road_map), "picture")
            for message in (hello, ready):
                self.shell._on_link_event(Received(peer, m.encode(message), ()))
            (found,) = self.shell.members()
        requests = {number: _request(number) for number in (1, 2)}
        # One frame is waited for in lockstep, two are late in real time.
        now_s = time.monotonic()
        owed = tuple(c.Assignment(frame, requests, now_s, 0.1) for frame in (1, 2, 3))
        found = replace(found, pending=owed)
        self.shell.state = replace(
            self.shell.state,
            frame=3,
            tick=c.Tick(3, {1: (), 2: ()}, (), due=requests, is_sent=True),
            real_time={1: (now_s, 0.05), 2: (now_s, 0.05)},
            members={found.peer: found},
        )
        return found


def _request(number):
    return RenderRequest(number, number, "sensor.camera.rgb", (), bytes(48), Pose(), None, number, 1, 0.0, 0.05)
