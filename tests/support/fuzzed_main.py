"""A main server's membership and scheduler without sockets: what a node says is handed to them, and what they do is watched."""

import time

from samepath import __version__
from samepath.cluster import messages as m
from samepath.cluster.identity import boot_id, fingerprint, map_digest
from samepath.cluster.link.wire import Received
from samepath.cluster.membership import Assignment, Membership
from samepath.cluster.monitor.counters import Counters
from samepath.cluster.scheduler import Scheduler
from samepath.cluster.settings import Timeouts, link_limits
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

    def send(self, peer, message, bulk=()):
        m.from_main(message)  # whatever is sent can be read
        self.sent += 1

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
        self.membership = Membership(self, self.link, self.counters, Timeouts(silent_s=1e9), {}, limits, self.lines.append)
        self.scheduler = Scheduler(self, self.membership, self.counters, Timeouts(), "measured")
        self.joined = 0
        self.delivered = 0

    # What membership and scheduler ask of a main server.

    def expected_nodes(self):
        return ()

    def on_tick_result(self, member, result, bulk, now_s):
        self.scheduler.on_tick_result(member, result, bulk, now_s)

    def on_sensors_gone(self, sensors):
        self.scheduler.on_sensors_gone(sensors)

    def on_node_lost(self, member, *, failed):
        self.scheduler.on_node_lost(member)

    def answer_aside(self, call):
        pass

    def deliver(self, request, payload, drawn_by):
        self.delivered += 1

    def remember(self, sensor, memory):
        pass

    # What a node says.

    def hear(self, content, bulk):
        """Take a message of the node, as the link would hand it over; returns whether the node is still a member."""
        member = self._member()
        self.membership._on_event(Received(member.peer, content, bulk))
        self.membership.work.clear()
        self.lines.clear()
        return self.membership.by_name(member.name) is member

    def _member(self):
        found = next(iter(self.membership.all()), None)
        if found is None:
            self.joined += 1
            peer = self.joined.to_bytes(16, "little")
            name = f"node-{self.joined % 3}"
            hello = m.Hello(name, __version__, fingerprint(), "host", boot_id() + "x", 1, "127.0.0.1", 1, 2, 1)
            ready = m.MapReady(self.episode.id, map_digest(self.episode.scene.road_map), "picture")
            for message in (hello, ready):
                self.membership._on_event(Received(peer, m.encode(message), ()))
            (found,) = self.membership.all()
        requests = {number: _request(number) for number in (1, 2)}
        # One frame is waited for in lockstep, two are late in real time.
        now_s = time.monotonic()
        self.scheduler.frame, self.scheduler._due, self.scheduler._done = 3, requests, {}
        self.scheduler._real_time_ticks = {1: (now_s, 0.05), 2: (now_s, 0.05)}
        found.pending = [Assignment(frame, requests, now_s, 0.1) for frame in (1, 2, 3)]
        return found


def _request(number):
    return RenderRequest(number, number, "sensor.camera.rgb", (), bytes(48), Pose(), None, number, 1, 0.0, 0.05)
