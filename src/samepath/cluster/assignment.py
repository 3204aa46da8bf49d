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
# What it costs to bring a frame to a listener at another node of one host: a message to the main server and one to the node,
# and for every byte two copies through shared memory.
_AWAY_S: Final = 0.1e-3
_AWAY_S_PER_BYTE: Final = 0.5e-9
# How evenly loaded is even enough for frames to be drawn where they are listened to, and how much more a tick may take for it.
_EVEN_RATIO: Final = 0.02
_HOME_RATIO: Final = 0.02
# How much of an estimate a new measurement replaces: about the last ten count.
_LEARN_RATIO: Final = 0.2
# What is learned at a time of how long answers take beyond drawing, at first, and the most that is believed: a node that is
# that far away is waited for, one that is farther is late.
_BEYOND_STEP_S: Final = 0.05
_BEYOND_MOST_S: Final = 2.0
# How many ticks pass before it is asked whether sensors should move, and by which part the slowest node must become faster for
# it: below that, noise in the measurements would make sensors wander for nothing.
_REBALANCE_TICKS: Final = 16
_WORTH_RATIO: Final = 0.05


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
    beyond_s: dict[int, float] = {}  # what a node's answer takes beyond drawing: the way there and back, and what waits on it

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


def learn_beyond(costs: Costs, node: int, beyond_s: float) -> Costs:
    """Take in how much longer than it drew a node was waited for.

    Across hosts that can be far longer than drawing. It is learned by steps that grow with it: a slow link is known after a
    dozen ticks, one freeze of seconds does not make a node be waited for as long the next time.
    """
    known_s = costs.beyond_s.get(node, 0.0)
    step_s = min(beyond_s, 2.0 * known_s + _BEYOND_STEP_S, _BEYOND_MOST_S)
    return msgspec.structs.replace(costs, beyond_s={**costs.beyond_s, node: known_s + _LEARN_RATIO * (step_s - known_s)})


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
            beyond_s={number: known_s for number, known_s in costs.beyond_s.items() if number != node},
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
        NodeShare(
            node,
            tuple(part),
            sum(costs.cost_s(request) for request in part) * costs.slowness(node) + costs.beyond_s.get(node, 0.0),
        )
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
    """Where requests are done soonest; where it costs next to nothing, at the node that they are listened to."""
    before = dict.fromkeys(nodes, 0.0) if loads is None else dict(loads)
    by_cost = _by_cost(costs, requests, nodes, homes, where, before)
    at_home = _at_home(costs, requests, nodes, homes, before)
    if at_home is None:
        return by_cost
    slowest_s = [max(_loads(costs, requests, nodes, placed, homes, before).values()) for placed in (at_home, by_cost)]
    return at_home if slowest_s[0] <= (1.0 + _HOME_RATIO) * slowest_s[1] else by_cost


def _by_cost(
    costs: Costs,
    requests: Sequence[RenderRequest],
    nodes: Sequence[int],
    homes: Mapping[int, Sequence[int]],
    where: Mapping[int, int],
    loads: Mapping[int, float],
) -> dict[int, int]:
    """Longest first, each where it is done soonest (Graham's LPT rule, at most 4/3 of the best there is on equal nodes).

    Where that is equal it stays where it is. Ties break by number, so that the same measurements give the same assignment.
    """
    loaded, placed = dict(loads), {}
    slowness = {node: costs.slowness(node) for node in nodes}
    rows = [(-costs.cost_s(request), request.sensor, request) for request in requests]
    for negative_s, sensor, request in sorted(rows, key=lambda row: row[:2]):
        cost_s = -negative_s
        at, there = where.get(sensor), tuple(homes.get(sensor, ()))
        away_s = _AWAY_S + size_bytes(request) * _AWAY_S_PER_BYTE if there else 0.0
        done_s = {node: loaded[node] + cost_s * slowness[node] + (0.0 if there == (node,) else away_s) for node in nodes}
        best = min(nodes, key=lambda node: (done_s[node], node != at, node))
        placed[sensor], loaded[best] = best, done_s[best]
    return placed


def _at_home(
    costs: Costs,
    requests: Sequence[RenderRequest],
    nodes: Sequence[int],
    homes: Mapping[int, Sequence[int]],
    loads: Mapping[int, float],
) -> dict[int, int] | None:
    """Each request at the one node that listens to it, as far as the nodes stay evenly loaded; None: there is none such.

    Longest first is fair and takes no notice of who listens: of equal cameras on eight nodes seven of eight would be drawn for
    somebody else. So all begin at home, and the most loaded node gives away to the least loaded until that is even enough.
    """
    wanted = {request.sensor: home for request in requests if (home := _home(request, nodes, homes)) is not None}
    if not wanted:
        return None
    rest = [request for request in requests if request.sensor not in wanted]
    own = [request for request in requests if request.sensor in wanted]
    loaded = _loads(costs, own, nodes, wanted, homes, loads)
    placed = {**wanted, **_by_cost(costs, rest, nodes, homes, {}, loaded)}
    loaded = _loads(costs, requests, nodes, placed, homes, loads)
    even_s = sum(load / costs.slowness(node) for node, load in loaded.items()) / sum(1.0 / costs.slowness(n) for n in nodes)
    for _ in requests:
        most = max(nodes, key=lambda node: (loaded[node], -node))
        least = min(nodes, key=lambda node: (loaded[node], node))
        if loaded[most] <= (1.0 + _EVEN_RATIO) * even_s:
            break
        # The one whose move leaves the longer of the two shortest.
        moves = [
            (
                max(
                    loaded[most] - _takes_s(costs, request, most, homes), loaded[least] + _takes_s(costs, request, least, homes)
                ),
                request,
            )
            for request in requests
            if placed[request.sensor] == most
        ]
        slowest_s, moved = min(moves, key=lambda move: (move[0], move[1].sensor), default=(loaded[most], None))
        if moved is None or slowest_s >= loaded[most]:
            break
        loaded[most] -= _takes_s(costs, moved, most, homes)
        loaded[least] += _takes_s(costs, moved, least, homes)
        placed[moved.sensor] = least
    return placed


def _home(request: RenderRequest, nodes: Sequence[int], homes: Mapping[int, Sequence[int]]) -> int | None:
    """The only node that listens to a request, if there is one and it may draw."""
    there = tuple(homes.get(request.sensor, ()))
    return there[0] if len(there) == 1 and there[0] in nodes else None


def _takes_s(costs: Costs, request: RenderRequest, node: int, homes: Mapping[int, Sequence[int]]) -> float:
    """What a request costs at a node: drawing, and bringing it to who listens elsewhere."""
    away = any(home != node for home in homes.get(request.sensor, ()))
    away_s = _AWAY_S + size_bytes(request) * _AWAY_S_PER_BYTE if away else 0.0
    return costs.cost_s(request) * costs.slowness(node) + away_s


def _placed(
    balance: Balance, requests: Sequence[RenderRequest], nodes: Sequence[int], homes: Mapping[int, Sequence[int]]
) -> tuple[dict[int, int], frozenset[int]]:
    """Everybody stays, those without a place go where there is room; every now and then, and if it pays, all anew."""
    costs, where, allowed = balance.costs, balance.where, frozenset(nodes)
    stay = {request.sensor: at for request in requests if (at := where.get(request.sensor)) is not None and at in allowed}
    if len(stay) < len(requests):
        without = [request for request in requests if request.sensor not in stay]
        stay |= spread(costs, without, nodes, homes, where, _loads(costs, requests, nodes, stay, homes))
    if (balance.calls + 1) % _REBALANCE_TICKS and allowed == balance.nodes:
        return stay, balance.nodes
    fresh = spread(costs, requests, nodes, homes, where)
    slowest_s = max(_loads(costs, requests, nodes, stay, homes).values())
    fresh_s = max(_loads(costs, requests, nodes, fresh, homes).values())
    # Faster, or as fast and with far fewer frames that are drawn for somebody at another node.
    fewer = _away(requests, stay, homes) - _away(requests, fresh, homes)
    pays = fresh_s < (1.0 - _WORTH_RATIO) * slowest_s or (
        fewer > _WORTH_RATIO * len(requests) and fresh_s <= (1.0 + _HOME_RATIO) * slowest_s
    )
    return (fresh if pays else stay), allowed


def _away(requests: Sequence[RenderRequest], placed: Mapping[int, int], homes: Mapping[int, Sequence[int]]) -> int:
    """How many frames are drawn at a node and listened to at another."""
    return sum(any(home != placed[request.sensor] for home in homes.get(request.sensor, ())) for request in requests)


def _loads(
    costs: Costs,
    requests: Sequence[RenderRequest],
    nodes: Sequence[int],
    placed: Mapping[int, int],
    homes: Mapping[int, Sequence[int]],
    before: Mapping[int, float] | None = None,
) -> dict[int, float]:
    loads = dict.fromkeys(nodes, 0.0) if before is None else dict(before)
    for request in requests:
        if request.sensor in placed:
            node = placed[request.sensor]
            loads[node] += _takes_s(costs, request, node, homes)
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
