"""Who draws what: measured costs in, an assignment out. Frozen records and functions of them: the time is measured elsewhere.

A sensor's cost is its time on a node of speed 1, learned from measurements. Before the first it is guessed from its pixels or
rays, and from how far such guesses were off for others of its kind. A node's slowness is how many times as long as expected its
ticks take. The assignment changes nothing but the time: bytes are the same wherever they are made. So it may be approximate,
but it should be calm: a sensor that moves costs its new node a cold cache, and event cameras carry their memory along.

Dictionaries in these records are never changed, only replaced.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Final

import msgspec

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


class NodeShare(msgspec.Struct, frozen=True):
    """Part of a tick: the node, by its number, and the requests it is given, with what that is expected to take."""

    node: int
    requests: tuple[RenderRequest, ...]
    expected_s: float


class Costs(msgspec.Struct, frozen=True):
    """What is known of the costs of sensors and the speed of nodes.

    Two things are measured: now and then each request by itself, which tells sensors apart, and every tick as a whole, which is
    cheaper to draw (cameras share work) and tells how a node stands. A node's slowness is the product of both.
    """

    sensor_s: dict[int, float] = {}  # measured by themselves
    kinds: dict[str, float] = {}  # how many times its guess a sensor of this kind costs; outlives the sensors
    by_request: dict[int, float] = {}  # how slow nodes are by that
    by_tick: dict[int, float] = {}

    def cost_s(self, request: RenderRequest) -> float:
        """What a request costs on a node of speed 1."""
        found = self.sensor_s.get(request.sensor)
        return guess_s(request) * self.kinds.get(request.type_id, 1.0) if found is None else found

    def is_measured(self, sensor: int) -> bool:
        return sensor in self.sensor_s

    def slowness(self, node: int) -> float:
        """How many times as long as a node of speed 1 a node takes."""
        return self.by_request.get(node, 1.0) * self.by_tick.get(node, 1.0)


def learn(costs: Costs, node: int, requests: Sequence[RenderRequest], busy_s: float, each_s: Mapping[int, float]) -> Costs:
    """Take in what a tick took on a node: all of it, or each request by itself where that was measured."""
    if each_s:
        timed = [request for request in requests if each_s.get(request.sensor, 0.0) > 0.0]
        if not timed:
            return costs
        # The node is as slow as most of its requests say (their median); one that took longer than that is expensive.
        slow = _follow(costs.by_request.get(node), median(each_s[new.sensor] / costs.cost_s(new) for new in timed))
        # How long whole ticks take is known relative to this: it stays what it is, or a node that became slow would count so
        # twice, by its ticks and by its requests, and be waited for as long as both together say.
        by_tick = dict(costs.by_tick)
        if node in by_tick:
            by_tick[node] *= costs.by_request.get(node, 1.0) / slow
        sensors = {new.sensor: _follow(costs.sensor_s.get(new.sensor), each_s[new.sensor] / slow) for new in timed}
        off: dict[str, list[float]] = {}
        for new in timed:
            off.setdefault(new.type_id, []).append(each_s[new.sensor] / slow / guess_s(new))
        kinds = {kind: _follow(costs.kinds.get(kind), median(ratios)) for kind, ratios in off.items()}
        return msgspec.structs.replace(
            costs,
            sensor_s={**costs.sensor_s, **sensors},
            kinds={**costs.kinds, **kinds},
            by_request={**costs.by_request, node: slow},
            by_tick=by_tick,
        )
    expected_s = sum(costs.cost_s(request) for request in requests) * costs.by_request.get(node, 1.0)
    if expected_s <= 0.0 or busy_s <= 0.0:
        return costs
    slow = _follow(costs.by_tick.get(node), busy_s / expected_s)
    return msgspec.structs.replace(costs, by_tick={**costs.by_tick, node: slow})


class Balance(msgspec.Struct, frozen=True):
    """Where every sensor is drawn, and what is known about that. ``calls`` counts assignments, ``moved`` sensors that moved."""

    policy: str = "measured"
    costs: Costs = Costs()
    where: dict[int, int] = {}
    nodes: frozenset[int] = frozenset()
    calls: int = 0
    moved: int = 0

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise unknown("policy", self.policy, POLICIES)


def forget_node(balance: Balance, node: int) -> Balance:
    """A node is gone, and its sensors will be put elsewhere; another one under its number may be of another speed."""
    costs = balance.costs
    return msgspec.structs.replace(
        balance,
        costs=msgspec.structs.replace(
            costs,
            by_request={number: slow for number, slow in costs.by_request.items() if number != node},
            by_tick={number: slow for number, slow in costs.by_tick.items() if number != node},
        ),
        where={sensor: at for sensor, at in balance.where.items() if at != node},
    )


def forget_sensors(balance: Balance, sensors: Iterable[int] | None) -> Balance:
    """Sensors are gone, or all of them (None)."""
    if sensors is None:
        return msgspec.structs.replace(balance, costs=msgspec.structs.replace(balance.costs, sensor_s={}), where={})
    gone = frozenset(sensors)
    return msgspec.structs.replace(
        balance,
        costs=msgspec.structs.replace(
            balance.costs, sensor_s={sensor: cost for sensor, cost in balance.costs.sensor_s.items() if sensor not in gone}
        ),
        where={sensor: at for sensor, at in balance.where.items() if sensor not in gone},
    )


def assign(
    balance: Balance,
    requests: Sequence[RenderRequest],
    nodes: Sequence[int],
    homes: Mapping[int, Sequence[int]],
) -> tuple[Balance, tuple[NodeShare, ...]]:
    """Share out the requests of a tick over nodes, by number; ``homes`` says for each sensor at which nodes it is heard."""
    if not nodes:
        raise ValueError("there is no node to draw")
    if balance.policy == "round-robin":
        placed = {request.sensor: nodes[k % len(nodes)] for k, request in enumerate(requests)}
        rebalanced = frozenset(nodes)
    elif balance.policy == "random":
        drawn = stream(0, "balance", requests[0].frame).integers(0, len(nodes), len(requests)).tolist()
        placed = {request.sensor: nodes[k] for request, k in zip(requests, drawn, strict=True)}
        rebalanced = frozenset(nodes)
    else:
        placed, rebalanced = _placed(balance, requests, nodes, homes)
    moved = sum(1 for sensor, node in placed.items() if balance.where.get(sensor, node) != node)
    after = msgspec.structs.replace(
        balance,
        where=balance.where if placed.items() <= balance.where.items() else {**balance.where, **placed},
        nodes=rebalanced,
        calls=balance.calls + 1,
        moved=balance.moved + moved,
    )
    return after, shares_of(balance.costs, requests, nodes, placed)


def shares_of(
    costs: Costs, requests: Sequence[RenderRequest], nodes: Sequence[int], placed: Mapping[int, int]
) -> tuple[NodeShare, ...]:
    """The shares of nodes, in the nodes' order, each in the requests' order."""
    own: dict[int, list[RenderRequest]] = {node: [] for node in nodes}
    for request in requests:
        own[placed[request.sensor]].append(request)
    return tuple(
        NodeShare(node, tuple(part), sum(costs.cost_s(request) for request in part) * costs.slowness(node))
        for node, part in own.items()
        if part
    )


def spread(
    costs: Costs,
    requests: Sequence[RenderRequest],
    nodes: Sequence[int],
    homes: Mapping[int, Sequence[int]],
    where: Mapping[int, int],
    loads: Mapping[int, float] | None = None,
) -> dict[int, int]:
    """Longest first, each where it is done soonest (Graham's LPT rule, at most 4/3 of the best there is on equal nodes).

    Where that is equal it stays where it is. Ties break by number, so that the same measurements give the same assignment.
    """
    loaded = dict.fromkeys(nodes, 0.0) if loads is None else dict(loads)
    placed = {}
    for request in sorted(requests, key=lambda request: (-costs.cost_s(request), request.sensor)):
        at, there = where.get(request.sensor), tuple(homes.get(request.sensor, ()))
        cost_s, away_s = costs.cost_s(request), size_bytes(request) * _AWAY_S_PER_BYTE
        done_s = {node: loaded[node] + cost_s * costs.slowness(node) + (0.0 if there == (node,) else away_s) for node in nodes}
        best = min(nodes, key=lambda node: (done_s[node], node != at, node))
        placed[request.sensor] = best
        loaded[best] += cost_s * costs.slowness(best)
    return placed


def _placed(
    balance: Balance, requests: Sequence[RenderRequest], nodes: Sequence[int], homes: Mapping[int, Sequence[int]]
) -> tuple[dict[int, int], frozenset[int]]:
    """Everybody stays, those without a place go where there is room; every now and then, and if it pays, all anew."""
    costs, where, allowed = balance.costs, balance.where, frozenset(nodes)
    stay = {request.sensor: at for request in requests if (at := where.get(request.sensor)) is not None and at in allowed}
    if len(stay) < len(requests):
        without = [request for request in requests if request.sensor not in stay]
        stay |= spread(costs, without, nodes, homes, where, _loads(costs, requests, nodes, stay))
    if (balance.calls + 1) % _REBALANCE_TICKS and allowed == balance.nodes:
        return stay, balance.nodes
    fresh = spread(costs, requests, nodes, homes, where)
    slowest_s = max(_loads(costs, requests, nodes, stay).values())
    pays = max(_loads(costs, requests, nodes, fresh).values()) < (1.0 - _WORTH_RATIO) * slowest_s
    return (fresh if pays else stay), allowed


def _loads(
    costs: Costs, requests: Sequence[RenderRequest], nodes: Sequence[int], placed: Mapping[int, int]
) -> dict[int, float]:
    loads = dict.fromkeys(nodes, 0.0)
    for request in requests:
        if request.sensor in placed:
            node = placed[request.sensor]
            loads[node] += costs.cost_s(request) * costs.slowness(node)
    return loads


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
