"""Who draws what: measured costs in, an assignment out. Frozen records and functions of them: the time is measured elsewhere.

A sensor's cost is its time on a node of speed 1, learned from measurements. Before the first it is guessed from its pixels or
rays, and from how far such guesses were off for others of its kind. A node needs some time for whatever it draws in a tick, and
so many times a sensor's cost for each: a card draws forty pictures in nearly the time of one, so that time over cost would
call it slow as long as it is given little, and it would be given little. The assignment changes nothing but the time: bytes are
the same wherever they are made. So it may be approximate, but it should be calm: a sensor that moves costs its new node a cold
cache, and event cameras carry their memory along.

Dictionaries in these records are never changed, only replaced.
"""

import math
from collections import Counter
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
# it: below that, noise in the measurements would make sensors wander for nothing. It is asked sooner when something is new (a
# node, a sensor): what was guessed of it is known after a tick or two.
_REBALANCE_TICKS: Final = 16
_SOON_TICKS: Final = frozenset({2, 4, 8})
_WORTH_RATIO: Final = 0.05
# How far a tick's time is off by chance, as a part of it; how much a node as a whole may change from tick to tick, and how
# much one of its two figures alone. The first two make about the last ten ticks count.
_NOISE_RATIO: Final = 0.2
_DRIFT_RATIO: Final = 0.05
_ALONE_RATIO: Final = 0.01
# A node of which nothing is known: speed 1, give or take ten times that, and a fixed part of a millisecond or less.
_UNKNOWN_SLOWNESS: Final = 10.0
_UNKNOWN_FIXED_S: Final = 1e-3
_SLOWNESS_LEAST: Final = 1e-5
# One tick counts as at most so many times what was expected: a process that was not let run for a second is no slow node.
_BELIEVED_RATIO: Final = 8.0
# What is held against a node that draws nothing fades, by this part each time that it is asked whether sensors should move:
# the reason may be gone, and only a sensor can tell. One that was ten times too slow is tried again after about 2000 ticks.
_FADING_RATIO: Final = 0.02


class NodeShare(msgspec.Struct, frozen=True):
    """Part of a tick: the node, by its number, and the requests it is given, with what that is expected to take."""

    node: int
    requests: tuple[RenderRequest, ...]
    expected_s: float


class NodeSpeed(msgspec.Struct, frozen=True):
    """What a node takes to draw: ``fixed_s`` for whatever is drawn together, and ``slowness`` times the cost of each request.

    A Kalman filter of two numbers: with each measurement both are corrected as far as they are uncertain. What requests take
    together and what each takes by itself tells them apart, and so does a share that changes.
    """

    fixed_s: float = 0.0
    slowness: float = 1.0
    fixed_var: float = _UNKNOWN_FIXED_S**2
    both_var: float = 0.0
    slowness_var: float = _UNKNOWN_SLOWNESS**2
    ticks: int = 0  # that were measured as a whole, and those of which each request was
    eachs: int = 0
    usual_s: float = 0.0  # what its requests of a tick cost, lately

    def takes_s(self, cost_s: float, times: int = 1) -> float:
        """What requests of this cost in all take, drawn so many times anew; nothing takes no time."""
        return times * self.fixed_s + self.slowness * cost_s if cost_s > 0.0 else 0.0

    def is_for_many(self, cost_s: float, count: int) -> bool:
        """Would it take more than about twice as long to draw these one by one? What one takes then says little about it."""
        return count * self.fixed_s > self.slowness * cost_s


def measured(node: NodeSpeed, cost_s: float, times: int, took_s: float) -> NodeSpeed:
    """Take in that requests of this cost in all, drawn so many times anew, took so long."""
    fixed_s, slowness = node.fixed_s, node.slowness
    noise_s = _NOISE_RATIO * took_s
    if node.eachs if times > 1 else node.ticks:
        expected_s = node.takes_s(cost_s, times)
        took_s = min(took_s, _BELIEVED_RATIO * expected_s)
        noise_s = _NOISE_RATIO * expected_s
    # Mostly it is the whole node that becomes slower or faster, so both figures drift together.
    together, alone = _DRIFT_RATIO**2, _ALONE_RATIO**2
    fixed_var = node.fixed_var + together * fixed_s**2 + alone * (fixed_s + 0.1 * node.takes_s(cost_s)) ** 2
    both_var = node.both_var + together * fixed_s * slowness
    slowness_var = node.slowness_var + (together + alone) * slowness**2
    # How uncertain the expected time is together with each figure, and by itself.
    with_fixed = times * fixed_var + cost_s * both_var
    with_slowness = times * both_var + cost_s * slowness_var
    time_var = times * with_fixed + cost_s * with_slowness + noise_s**2
    off_s = took_s - (times * fixed_s + slowness * cost_s)
    return msgspec.structs.replace(
        node,
        fixed_s=max(fixed_s + with_fixed / time_var * off_s, 0.0),
        slowness=max(slowness + with_slowness / time_var * off_s, _SLOWNESS_LEAST),
        fixed_var=fixed_var - with_fixed**2 / time_var,
        both_var=both_var - with_fixed * with_slowness / time_var,
        slowness_var=slowness_var - with_slowness**2 / time_var,
        usual_s=_follow(node.usual_s or None, cost_s),
    )


def faded(node: NodeSpeed) -> NodeSpeed:
    """What is known of a node that has drawn nothing for a while."""
    kept = 1.0 - _FADING_RATIO
    return msgspec.structs.replace(
        node,
        fixed_s=kept * node.fixed_s,
        slowness=kept * node.slowness,
        fixed_var=node.fixed_var + (_DRIFT_RATIO * node.fixed_s) ** 2,
        both_var=node.both_var + _DRIFT_RATIO**2 * node.fixed_s * node.slowness,
        slowness_var=node.slowness_var + (_DRIFT_RATIO * node.slowness) ** 2,
    )


_UNKNOWN: Final = NodeSpeed()


class Costs(msgspec.Struct, frozen=True):
    """What is known of the costs of sensors and the speed of nodes.

    Two things are measured: now and then each request by itself, which tells sensors apart, and every tick as a whole, which is
    cheaper to draw (cameras share work) and tells how a node stands.
    """

    sensor_s: dict[int, float] = {}  # measured by themselves
    kinds: dict[str, float] = {}  # how many times its guess a sensor of this kind costs; outlives the sensors
    nodes: dict[int, NodeSpeed] = {}
    beyond_s: dict[int, float] = {}  # what a node's answer takes beyond drawing: the way there and back, and what waits on it

    def cost_s(self, request: RenderRequest) -> float:
        """What a request costs on a node of speed 1."""
        found = self.sensor_s.get(request.sensor)
        return guess_s(request) * self.kinds.get(request.type_id, 1.0) if found is None else found

    def is_measured(self, sensor: int) -> bool:
        return sensor in self.sensor_s

    def node(self, number: int) -> NodeSpeed:
        """What is known of a node."""
        return self.nodes.get(number, _UNKNOWN)

    def slowness(self, number: int) -> float:
        """How many times as long as a node of speed 1 a node takes for what it usually draws in a tick."""
        node = self.node(number)
        return node.takes_s(node.usual_s) / node.usual_s if node.usual_s > 0.0 else node.slowness

    def wants_each(self, number: int, requests: Sequence[RenderRequest], *, is_turn: bool, is_rare_turn: bool) -> bool:
        """Should a node draw these one by one, to tell what each costs? ``is_turn``: it is time to look again.

        Not before it has drawn something as a whole, which tells what it takes for anything at all. A node that draws many in
        the time of one is asked rarely: a tick takes many times as long for it, and tells little about sensors.
        """
        node = self.node(number)
        if node.ticks == 0:
            return False
        if node.is_for_many(sum(self.cost_s(request) for request in requests), len(requests)):
            return is_rare_turn
        return is_turn or not node.eachs or any(not self.is_measured(request.sensor) for request in requests)

    def expected_s(self, number: int, requests: Sequence[RenderRequest], *, each: bool = False) -> float:
        """How long a node is waited for until it has drawn these, together or each by itself."""
        cost_s = sum(self.cost_s(request) for request in requests)
        return self.node(number).takes_s(cost_s, len(requests) if each else 1) + self.beyond_s.get(number, 0.0)


def learn(costs: Costs, number: int, requests: Sequence[RenderRequest], busy_s: float, each_s: Mapping[int, float]) -> Costs:
    """Take in what a tick took on a node: all of it, or each request by itself where that was measured."""
    if not each_s:
        cost_s = sum(costs.cost_s(request) for request in requests)
        if cost_s <= 0.0 or busy_s <= 0.0:
            return costs
        node = measured(costs.node(number), cost_s, 1, busy_s)
        node = msgspec.structs.replace(node, ticks=node.ticks + 1)
        return msgspec.structs.replace(costs, nodes={**costs.nodes, number: node})
    timed = [request for request in requests if each_s.get(request.sensor, 0.0) > 0.0]
    if not timed:
        return costs
    before, cost_s = costs.node(number), sum(costs.cost_s(request) for request in timed)
    node = measured(before, cost_s, len(timed), sum(each_s[request.sensor] for request in timed))
    node = msgspec.structs.replace(node, usual_s=before.usual_s, eachs=node.eachs + 1)
    if node.is_for_many(cost_s, len(timed)):
        return msgspec.structs.replace(costs, nodes={**costs.nodes, number: node})
    # Of what a request took by itself, a part is the node's; what is left is never less than a tenth, whatever chance did.
    drawn_s = {new.sensor: max(each_s[new.sensor] - node.fixed_s, 0.1 * each_s[new.sensor]) for new in timed}
    # The node is as slow as most of its requests say (their median); one that took longer than that is expensive.
    typical = median(drawn_s[new.sensor] / costs.cost_s(new) for new in timed)
    slow = _follow(before.slowness if before.eachs else None, typical)
    own_s = {sensor: took_s / slow for sensor, took_s in drawn_s.items()}
    sensors = {sensor: _follow(costs.sensor_s.get(sensor), took_s) for sensor, took_s in own_s.items()}
    # How long whole ticks take stays what it is: the node counts as that much faster as its requests count as more expensive.
    dearer = sum(sensors.values()) / cost_s
    node = msgspec.structs.replace(
        node,
        slowness=max(node.slowness / dearer, _SLOWNESS_LEAST),
        both_var=node.both_var / dearer,
        slowness_var=node.slowness_var / dearer**2,
        usual_s=node.usual_s * dearer,
    )
    off: dict[str, list[float]] = {}
    for new in timed:
        off.setdefault(new.type_id, []).append(own_s[new.sensor] / guess_s(new))
    kinds = {kind: _follow(costs.kinds.get(kind), median(ratios)) for kind, ratios in off.items()}
    return msgspec.structs.replace(
        costs,
        sensor_s={**costs.sensor_s, **sensors},
        kinds={**costs.kinds, **kinds},
        nodes={**costs.nodes, number: node},
    )


def learn_beyond(costs: Costs, node: int, beyond_s: float) -> Costs:
    """Take in how much longer than it drew a node was waited for.

    Across hosts that can be far longer than drawing. It is learned by steps that grow with it: a slow link is known after a
    dozen ticks, one freeze of seconds does not make a node be waited for as long the next time.
    """
    known_s = costs.beyond_s.get(node, 0.0)
    step_s = min(beyond_s, 2.0 * known_s + _BEYOND_STEP_S, _BEYOND_MOST_S)
    return msgspec.structs.replace(costs, beyond_s={**costs.beyond_s, node: known_s + _LEARN_RATIO * (step_s - known_s)})


class Balance(msgspec.Struct, frozen=True):
    """Where every sensor is drawn, and what is known about that.

    ``calls`` counts assignments, ``moved`` sensors that moved; ``since`` is the last call with a sensor that was new
    or a node that had nothing to draw before.
    """

    policy: str = "measured"
    costs: Costs = Costs()
    where: dict[int, int] = {}
    nodes: frozenset[int] = frozenset()
    calls: int = 0
    moved: int = 0
    since: int = 0

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
            nodes={number: known for number, known in costs.nodes.items() if number != node},
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
        if (balance.calls + 1) % _REBALANCE_TICKS == 0:
            balance = _faded(balance, nodes)
        placed, rebalanced = _placed(balance, requests, nodes, homes)
    moved = sum(1 for sensor, node in placed.items() if balance.where.get(sensor, node) != node)
    was_idle = frozenset(placed.values()) - frozenset(balance.where.values())
    is_new = bool(was_idle) or rebalanced != balance.nodes or any(sensor not in balance.where for sensor in placed)
    after = msgspec.structs.replace(
        balance,
        where=balance.where if placed.items() <= balance.where.items() else {**balance.where, **placed},
        nodes=rebalanced,
        calls=balance.calls + 1,
        moved=balance.moved + moved,
        since=balance.calls + 1 if is_new else balance.since,
    )
    return after, shares_of(balance.costs, requests, nodes, placed)


def shares_of(
    costs: Costs, requests: Sequence[RenderRequest], nodes: Sequence[int], placed: Mapping[int, int]
) -> tuple[NodeShare, ...]:
    """The shares of nodes, in the nodes' order, each in the requests' order."""
    own: dict[int, list[RenderRequest]] = {node: [] for node in nodes}
    for request in requests:
        own[placed[request.sensor]].append(request)
    return tuple(NodeShare(node, tuple(part), costs.expected_s(node, part)) for node, part in own.items() if part)


def _faded(balance: Balance, nodes: Sequence[int]) -> Balance:
    """Let what is known of nodes fade that draw nothing, though they could."""
    working = frozenset(balance.where.values())
    known = balance.costs.nodes
    idle = {node: faded(known[node]) for node in nodes if node in known and node not in working}
    if not idle:
        return balance
    return msgspec.structs.replace(balance, costs=msgspec.structs.replace(balance.costs, nodes={**known, **idle}))


def spread(
    costs: Costs,
    requests: Sequence[RenderRequest],
    nodes: Sequence[int],
    homes: Mapping[int, Sequence[int]],
    where: Mapping[int, int],
    loads: Mapping[int, float] | None = None,
) -> dict[int, int]:
    """Where requests are done soonest; where it costs next to nothing, at the node that they are listened to."""
    before = dict.fromkeys(nodes, 0.0) if loads is None else dict(loads)  # 0: the node draws nothing so far
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
    speed = {node: costs.node(node) for node in nodes}
    rows = [(-costs.cost_s(request), request.sensor, request) for request in requests]
    for negative_s, sensor, request in sorted(rows, key=lambda row: row[:2]):
        cost_s = -negative_s
        at, there = where.get(sensor), tuple(homes.get(sensor, ()))
        away_s = _AWAY_S + size_bytes(request) * _AWAY_S_PER_BYTE if there else 0.0
        done_s = {
            node: (loaded[node] or speed[node].fixed_s) + cost_s * speed[node].slowness + (0.0 if there == (node,) else away_s)
            for node in nodes
        }
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
    even_s = _even_s(costs, loaded)
    counts = Counter(placed.values())
    for _ in requests:
        most = max(nodes, key=lambda node: (loaded[node], -node))
        least = min(nodes, key=lambda node: (loaded[node] or costs.node(node).fixed_s, node))
        if loaded[most] <= (1.0 + _EVEN_RATIO) * even_s:
            break
        # The one whose move leaves the longer of the two shortest.
        begun_s = loaded[least] or costs.node(least).fixed_s
        moves = [
            (
                max(loaded[most] - _takes_s(costs, request, most, homes), begun_s + _takes_s(costs, request, least, homes)),
                request,
            )
            for request in requests
            if placed[request.sensor] == most
        ]
        slowest_s, moved = min(moves, key=lambda move: (move[0], move[1].sensor), default=(loaded[most], None))
        if moved is None or slowest_s >= loaded[most]:
            break
        counts.subtract((most,))
        loaded[most] = loaded[most] - _takes_s(costs, moved, most, homes) if counts[most] else 0.0
        loaded[least] = begun_s + _takes_s(costs, moved, least, homes)
        counts.update((least,))
        placed[moved.sensor] = least
    return placed


def _even_s(costs: Costs, loaded: Mapping[int, float]) -> float:
    """How long a tick would take if its work could be cut at will: by as many nodes as make it shorter.

    Those with the smallest fixed part come first: one whose fixed part is longer than the tick is no help.
    """
    nodes = sorted(loaded, key=lambda node: (costs.node(node).fixed_s, node))
    work = sum(
        max(load - costs.node(node).fixed_s, 0.0) / costs.node(node).slowness for node, load in loaded.items() if load > 0.0
    )
    best_s, speed, fixed = math.inf, 0.0, 0.0
    for node in nodes:
        speed += 1.0 / costs.node(node).slowness
        fixed += costs.node(node).fixed_s / costs.node(node).slowness
        best_s = min(best_s, (work + fixed) / speed)
    return best_s


def _home(request: RenderRequest, nodes: Sequence[int], homes: Mapping[int, Sequence[int]]) -> int | None:
    """The only node that listens to a request, if there is one and it may draw."""
    there = tuple(homes.get(request.sensor, ()))
    return there[0] if len(there) == 1 and there[0] in nodes else None


def _takes_s(costs: Costs, request: RenderRequest, node: int, homes: Mapping[int, Sequence[int]]) -> float:
    """What a request adds at a node that draws: drawing, and bringing it to who listens elsewhere."""
    away = any(home != node for home in homes.get(request.sensor, ()))
    away_s = _AWAY_S + size_bytes(request) * _AWAY_S_PER_BYTE if away else 0.0
    return costs.cost_s(request) * costs.node(node).slowness + away_s


def _placed(
    balance: Balance, requests: Sequence[RenderRequest], nodes: Sequence[int], homes: Mapping[int, Sequence[int]]
) -> tuple[dict[int, int], frozenset[int]]:
    """Everybody stays, those without a place go where there is room; every now and then, and if it pays, all anew."""
    costs, where, allowed = balance.costs, balance.where, frozenset(nodes)
    stay = {request.sensor: at for request in requests if (at := where.get(request.sensor)) is not None and at in allowed}
    if len(stay) < len(requests):
        without = [request for request in requests if request.sensor not in stay]
        stay |= spread(costs, without, nodes, homes, where, _loads(costs, requests, nodes, stay, homes))
    call = balance.calls + 1
    if call % _REBALANCE_TICKS and call - balance.since not in _SOON_TICKS and allowed == balance.nodes:
        return stay, balance.nodes
    fresh = spread(costs, requests, nodes, homes, where)
    slowest_s = max(_loads(costs, requests, nodes, stay, homes).values())
    fresh_s = max(_loads(costs, requests, nodes, fresh, homes).values())
    # Faster, or as fast and with far fewer frames that are drawn for somebody at another node; or a node gets something to do
    # that never drew: it may be as fast as all the others together, and nobody knows.
    fewer = _away(requests, stay, homes) - _away(requests, fresh, homes)
    pays = fresh_s < (1.0 - _WORTH_RATIO) * slowest_s or (
        (fewer > _WORTH_RATIO * len(requests) or _tries(costs, stay, fresh)) and fresh_s <= (1.0 + _HOME_RATIO) * slowest_s
    )
    return (fresh if pays else stay), allowed


def _tries(costs: Costs, stay: Mapping[int, int], fresh: Mapping[int, int]) -> bool:
    """Does a node of which nothing is known get its first sensors?"""
    return any(not costs.node(node).ticks for node in frozenset(fresh.values()) - frozenset(stay.values()))


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
            loads[node] = (loads[node] or costs.node(node).fixed_s) + _takes_s(costs, request, node, homes)
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
