"""The world that a simulated cluster plays, who listens to it, and chance: what main server, nodes and clients all know.

A measurement is a digest of all that it may depend on: whatever a node, a journal or a message gets wrong shows in its bytes.
"""

from collections import deque
from hashlib import blake2b
from typing import NamedTuple

import msgpack

from samepath.cluster import coordinator as c
from samepath.cluster import messages as m
from samepath.core.states import Pose
from samepath.core.streams import stream
from samepath.simulator.server.rendering import RenderRequest

STEP_S = 0.05
NEVER_S = 1e6
"""A frame that takes so long must fail its tick."""
MAIN = 0
"""Where the main server's own clients are at home."""
VERSION, FINGERPRINT, BOOT, PICTURE = "1", "f", "this host", "a picture"
_AT = Pose(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


class Violation(Exception):  # noqa: N818 - the name of what it is
    """Something that is promised does not hold."""


def check(holds, words):
    if not holds:
        raise Violation(words)


class Chance:
    """Numbers of one stream, drawn in advance: a call of numpy's for each would be half of the time."""

    def __init__(self, seed, *key):
        self._generator, self._drawn = stream(seed, "cluster world", *key), []

    def unit(self):
        if not self._drawn:
            self._drawn = self._generator.random(64).tolist()
        return self._drawn.pop()

    def below(self, count):
        return int(self.unit() * count)

    def between(self, low, high):
        return low + (high - low) * self.unit()

    def happens(self, probability):
        return self.unit() < probability

    def pick(self, choices):
        return choices[int(self.unit() * len(choices))]

    def integers(self, below):
        """For the simulated disk, which asks as it would ask numpy."""
        return self.below(below)

    def choice(self, choices):
        return self.pick(choices)


def digest(*parts):
    """What is measured depends on exactly these."""
    return blake2b(msgpack.packb(parts), digest_size=8).digest()


def measured(road_map, state, request):
    """A measurement: payload and memory, or an error. One server and every node compute this same function."""
    if request.type_id == "broken":
        return b"", b"", "it cannot be drawn"
    remembered = request.memory if request.type_id == "events" else b""
    payload = digest("payload", road_map, state, request.sensor, request.head, remembered)
    return payload, digest("memory", remembered, request.head) if request.type_id == "events" else b"", ""


class Sensor(NamedTuple):
    """A sensor of the stand-in world, due every ``period`` ticks."""

    id: int
    kind: str
    period: int
    cost_s: float
    size_bytes: int


class Episode:
    """A world whose state is a digest of all calls and ticks before. Plain data, so that a snapshot is all of it."""

    def __init__(self, real_time):
        self.id, self.frame, self.settings, self.lockstep = 1, 0, 1, not real_time
        self.state, self.next_id = b"first", 10
        self.sensors, self.memory = {}, {}

    def plain(self):
        sensors = [list(sensor) for sensor in self.sensors.values()]
        return [
            self.id,
            self.frame,
            self.settings,
            self.lockstep,
            self.state,
            self.next_id,
            sensors,
            sorted(self.memory.items()),
        ]

    def restore(self, plain):
        self.id, self.frame, self.settings, self.lockstep, self.state, self.next_id, sensors, memory = plain
        self.sensors = {sensor[0]: Sensor(*sensor) for sensor in sensors}
        self.memory = dict(memory)

    def change(self, call):
        """All that a call changes but what a tick does."""
        self.state = digest(self.state, call)
        kind, argument = call[2], call[3]
        if kind == "spawn":
            self.sensors[self.next_id] = Sensor(self.next_id, *argument)
            self.next_id += 1
        elif kind == "destroy" and argument in self.sensors:
            del self.sensors[argument]
            self.memory.pop(argument, None)
        elif kind == "settings":
            self.settings += 1
        elif kind == "mode":
            self.settings, self.lockstep = self.settings + 1, argument
        elif kind == "map":
            self.id, self.settings, self.sensors, self.memory = self.id + 1, self.settings + 1, {}, {}

    def step(self):
        """Tick; what is due then."""
        self.frame += 1
        self.state = digest(self.state, self.frame)
        head = bytes(8) + self.frame.to_bytes(8, "little")
        return tuple(
            RenderRequest(
                sensor.id, sensor.id, sensor.kind, (("image_size_x", "400"), ("image_size_y", "300")), head, _AT, None, 1, 1,
                0.0, STEP_S, memory=self.memory.get(sensor.id, b""), size_bytes=sensor.size_bytes,
            )
            for sensor in self.sensors.values()
            if self.frame % sensor.period == 0
        )  # fmt: skip

    @property
    def map_facts(self):
        return c.MapFacts(m.NewEpisode(self.id, "town", "town", f"map {self.id}"), b"xodr")


class Listener:
    """Somebody who hears a stream at one place. ``due``: frames of lockstep that must come, in this order."""

    def __init__(self):
        self.due, self.last = deque(), 0
