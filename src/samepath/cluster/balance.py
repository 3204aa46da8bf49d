"""Who draws what: measured costs in, an assignment out. Pure: the time is measured elsewhere.

A sensor's cost is its time on a node of speed 1, learned from measurements and guessed from its pixels before the first. A
node's slowness is how many times as long as expected its ticks take. The assignment changes nothing but the time: bytes are the
same wherever they are made. So it may be approximate, but it should be calm: a sensor that moves costs its new node a cold
cache, and event cameras carry their memory along.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from samepath.core.errors import unknown
from samepath.core.streams import stream
from samepath.simulator.server.rendering import RenderRequest

POLICIES: Final = ("measured", "round-robin", "random")
# Before anything is measured: seconds for a picture, per pixel, and for a ray. Only their ratios matter.
_PICTURE_S: Final = 0.5e-3
_PIXEL_S: Final = 1e-8
_RAY_S: Final = 7e-8
# What it costs to bring a byte to a listener at another node, on one host: two copies through shared memory.
_AWAY_S_PER_BYTE: Final = 0.5e-9
# How much of an estimate a new measurement replaces: about the last ten count.
_LEARN_RATIO: Final = 0.2
# How many ticks pass before it is asked whether sensors should move, and by which part the slowest node must become faster for
# it: below that, noise in the measurements would make sensors wander for nothing.
_REBALANCE_TICKS: Final = 16
_WORTH_RATIO: Final = 0.15


@dataclass(frozen=True)
class NodeShare:
    """Part of a tick: the node, by its number, and the requests it is given, with what that is expected to take."""

    node: int
    requests: tuple[RenderRequest, ...]
    expected_s: float


class LoadBalancer:
    """Keeps every sensor where it is as long as that is about as good as anything else."""

    def __init__(self, costs: "CostModel", policy: str = "measured") -> None:
        if policy not in POLICIES:
            raise unknown("policy", policy, POLICIES)
        self.costs = costs
        self.policy = policy
        self.moved = 0
        self._where: dict[int, int] = {}
        self._nodes: set[int] = set()
        self._calls = 0

    def where(self, sensor: int) -> int | None:
        """The node that has drawn for a sensor last."""
        return self._where.get(sensor)

    def placed(self) -> dict[int, int]:
        """For every sensor the node that draws it."""
        return dict(self._where)

    def forget_node(self, node: int) -> None:
        """A node is gone; its sensors will be put elsewhere."""
        self.costs.forget_node(node)
        self._where = {sensor: at for sensor, at in self._where.items() if at != node}

    def forget_sensors(self, sensors: Iterable[int] | None) -> None:
        """Sensors are gone, or all of them."""
        for sensor in self.costs.known() if sensors is None else sensors:
            self.costs.forget_sensor(sensor)
            self._where.pop(sensor, None)

    def assign(
        self, requests: Sequence[RenderRequest], nodes: Sequence[int], homes: Mapping[int, Sequence[int]] | None = None
    ) -> tuple[NodeShare, ...]:
        """Share out the requests of a tick over nodes, by number; ``homes`` says for each sensor at which nodes it is heard."""
        if not nodes:
            raise ValueError("there is no node to draw")
        if self.policy == "round-robin":
            placed = {request.sensor: nodes[k % len(nodes)] for k, request in enumerate(requests)}
        elif self.policy == "random":
            drawn = stream(0, "balance", requests[0].frame).integers(0, len(nodes), len(requests)).tolist()
            placed = {request.sensor: nodes[k] for request, k in zip(requests, drawn, strict=True)}
        else:
            placed = self._placed(requests, nodes, homes or {})
        for request in requests:
            before = self._where.get(request.sensor)
            if before is not None and before != placed[request.sensor]:
                self.moved += 1
            self._where[request.sensor] = placed[request.sensor]
        shares = []
        for node in nodes:
            own = tuple(request for request in requests if placed[request.sensor] == node)
            if own:
                expected_s = sum(self.costs.cost_s(request) for request in own) * self.costs.slowness(node)
                shares.append(NodeShare(node, own, expected_s))
        return tuple(shares)

    def _placed(
        self, requests: Sequence[RenderRequest], nodes: Sequence[int], homes: Mapping[int, Sequence[int]]
    ) -> dict[int, int]:
        """Everybody stays, those without a place go where there is room; every now and then, and if it pays, all anew."""
        allowed = set(nodes)
        stay = {
            request.sensor: at for request in requests if (at := self._where.get(request.sensor)) is not None and at in allowed
        }
        if len(stay) < len(requests):
            without = [request for request in requests if request.sensor not in stay]
            stay |= self._spread(without, nodes, homes, self._loads(requests, nodes, stay))
        self._calls += 1
        if self._calls % _REBALANCE_TICKS and set(nodes) == self._nodes:
            return stay
        self._nodes = allowed
        fresh = self._spread(requests, nodes, homes)
        slowest_s = max(self._loads(requests, nodes, stay).values())
        return fresh if max(self._loads(requests, nodes, fresh).values()) < (1.0 - _WORTH_RATIO) * slowest_s else stay

    def _loads(self, requests: Sequence[RenderRequest], nodes: Sequence[int], placed: Mapping[int, int]) -> dict[int, float]:
        loads = dict.fromkeys(nodes, 0.0)
        for request in requests:
            if request.sensor in placed:
                node = placed[request.sensor]
                loads[node] += self.costs.cost_s(request) * self.costs.slowness(node)
        return loads

    def _spread(
        self,
        requests: Sequence[RenderRequest],
        nodes: Sequence[int],
        homes: Mapping[int, Sequence[int]],
        loads: dict[int, float] | None = None,
    ) -> dict[int, int]:
        """Longest first, each where it is done soonest (Graham's LPT rule, at most 4/3 of the best there is on equal nodes).

        Where that is equal it stays where it is. Ties break by number, so that the same measurements give the same assignment.
        """
        loads = dict.fromkeys(nodes, 0.0) if loads is None else dict(loads)
        placed = {}
        for request in sorted(requests, key=lambda request: (-self.costs.cost_s(request), request.sensor)):
            at, there = self._where.get(request.sensor), tuple(homes.get(request.sensor, ()))
            cost_s, away_s = self.costs.cost_s(request), size_bytes(request) * _AWAY_S_PER_BYTE
            done_s = {
                node: loads[node] + cost_s * self.costs.slowness(node) + (0.0 if there == (node,) else away_s) for node in nodes
            }
            best = min(nodes, key=lambda node: (done_s[node], node != at, node))
            placed[request.sensor] = best
            loads[best] += cost_s * self.costs.slowness(best)
        return placed


class CostModel:
    """What is known of the costs of sensors and the speed of nodes.

    Two things are measured: now and then each request by itself, which tells sensors apart, and every tick as a whole, which is
    cheaper to draw (cameras share work) and tells how a node stands. A node's slowness is the product of both.
    """

    def __init__(self) -> None:
        self._cost_s: dict[int, float] = {}
        self._measured: set[int] = set()
        self._slowness: dict[int, float] = {}
        self._tick_slowness: dict[int, float] = {}

    def cost_s(self, request: RenderRequest) -> float:
        """What a request costs on a node of speed 1."""
        found = self._cost_s.get(request.sensor)
        if found is None:
            found = self._cost_s[request.sensor] = guess_s(request)
        return found

    def known_s(self, sensor: int) -> float | None:
        """What is known of a sensor's cost."""
        return self._cost_s.get(sensor)

    def is_measured(self, sensor: int) -> bool:
        """Has this sensor been measured by itself?"""
        return sensor in self._measured

    def slowness(self, node: int) -> float:
        """How many times as long as a node of speed 1 a node takes."""
        return self._slowness.get(node, 1.0) * self._tick_slowness.get(node, 1.0)

    def learn(self, node: int, requests: Sequence[RenderRequest], busy_s: float, each_s: Mapping[int, float]) -> None:
        """Take in what a tick took on a node: all of it, or each request by itself where that was measured."""
        if each_s:
            self._learn_each(node, [request for request in requests if each_s.get(request.sensor, 0.0) > 0.0], each_s)
            return
        expected_s = sum(self.cost_s(request) for request in requests) * self._slowness.get(node, 1.0)
        if expected_s > 0.0 and busy_s > 0.0:
            self._tick_slowness[node] = _follow(self._tick_slowness.get(node), busy_s / expected_s)

    def _learn_each(self, node: int, requests: Sequence[RenderRequest], each_s: Mapping[int, float]) -> None:
        """The node is as slow as most of its requests say (their median); one that took longer than that is expensive."""
        if not requests:
            return
        found = median(each_s[request.sensor] / self.cost_s(request) for request in requests)
        slow = self._slowness[node] = _follow(self._slowness.get(node), found)
        for request in requests:
            before = self.cost_s(request) if request.sensor in self._measured else None
            self._cost_s[request.sensor] = _follow(before, each_s[request.sensor] / slow)
            self._measured.add(request.sensor)

    def forget_node(self, node: int) -> None:
        """A node is gone; another one under its number may be of another speed."""
        self._slowness.pop(node, None)
        self._tick_slowness.pop(node, None)

    def known(self) -> tuple[int, ...]:
        """The sensors of which something is known."""
        return tuple(self._cost_s)

    def forget_sensor(self, sensor: int) -> None:
        self._cost_s.pop(sensor, None)
        self._measured.discard(sensor)


def _follow(before: float | None, now: float) -> float:
    """An exponential mean; the first value counts at once."""
    return now if before is None else (1.0 - _LEARN_RATIO) * before + _LEARN_RATIO * now


def guess_s(request: RenderRequest) -> float:
    """What a request may cost, from the sensor's attributes."""
    given = dict(request.attributes)

    def number(name: str, default: float) -> float:
        try:
            return float(given.get(name, default))
        except ValueError:
            return default

    if "image_size_x" in given:
        return _PICTURE_S + _PIXEL_S * number("image_size_x", 800.0) * number("image_size_y", 600.0)
    return _PICTURE_S + _RAY_S * number("points_per_second", 56000.0) * max(request.delta_s, number("sensor_tick", 0.0))


def size_bytes(request: RenderRequest) -> float:
    """About how many bytes come of a request."""
    given = dict(request.attributes)
    if "image_size_x" not in given:
        return 0.0
    return 4.0 * float(given["image_size_x"]) * float(given["image_size_y"])
