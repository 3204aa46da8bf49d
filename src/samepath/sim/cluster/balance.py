"""Who draws what: measured costs in, an assignment out. Pure; the time is measured elsewhere.

A sensor's cost is its time on a node of speed 1, learned from measurements and guessed from its pixels before the first. A
node's slowness is how many times as long as expected its ticks take. The assignment changes nothing but the time: bytes are
the same wherever they are made.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from samepath.base.streams import stream
from samepath.base.suggest import unknown
from samepath.sim.server.viewing.order import Order

# Before anything is measured: seconds for a picture, per pixel, and for a ray. Only their ratios matter.
_PICTURE_S: Final = 0.5e-3
_PIXEL_S: Final = 1e-8
_RAY_S: Final = 7e-8
_LEARN: Final = 0.2
# A move must make the slowest node faster by this part, or sensors would wander for nothing.
_WORTH: Final = 0.15
POLICIES: Final = ("measured", "round-robin", "random")
_EVERY: Final = 16
"""How many ticks pass before it is asked whether sensors should move."""
_AWAY_S_PER_BYTE: Final = 0.5e-9
"""What it costs to bring a byte to a listener at another node, on one host."""


def guess_s(order: Order) -> float:
    """What an order may cost, from its attributes."""
    given = dict(order.attributes)

    def number(name: str, default: float) -> float:
        try:
            return float(given.get(name, default))
        except ValueError:
            return default

    if "image_size_x" in given:
        return _PICTURE_S + _PIXEL_S * number("image_size_x", 800.0) * number("image_size_y", 600.0)
    return _PICTURE_S + _RAY_S * number("points_per_second", 56000.0) * max(order.delta_s, number("sensor_tick", 0.0))


def size_bytes(order: Order) -> float:
    """About how many bytes come of an order."""
    given = dict(order.attributes)
    if "image_size_x" not in given:
        return 0.0
    return 4.0 * float(given["image_size_x"]) * float(given["image_size_y"])


@dataclass(frozen=True)
class Share:
    """Part of a tick: the node, by its number, and the orders it is given, with what that is expected to take."""

    node: int
    orders: tuple[Order, ...]
    expected_s: float


class Costs:
    """What is known of costs and nodes."""

    def __init__(self) -> None:
        self._cost_s: dict[int, float] = {}
        self._measured: set[int] = set()
        self._slowness: dict[int, float] = {}
        self._in_one_go: dict[int, float] = {}

    def cost_s(self, order: Order) -> float:
        """What an order costs on a node of speed 1."""
        found = self._cost_s.get(order.sensor)
        if found is None:
            found = self._cost_s[order.sensor] = guess_s(order)
        return found

    def known_s(self, sensor: int) -> float | None:
        """What is known of a sensor's cost."""
        return self._cost_s.get(sensor)

    def is_measured(self, sensor: int) -> bool:
        """Has this sensor been measured by itself?"""
        return sensor in self._measured

    def slowness(self, node: int) -> float:
        """How many times as long as a node of speed 1 a node takes: what single orders say, times what whole ticks say."""
        return self._slowness.get(node, 1.0) * self._in_one_go.get(node, 1.0)

    def learn(self, node: int, orders: Sequence[Order], busy_s: float, each_s: Mapping[int, float]) -> None:
        """Take in what a tick took on a node: all of it, or each order by itself where that was measured."""
        if each_s:
            self._learn_each(node, [one for one in orders if each_s.get(one.sensor, 0.0) > 0.0], each_s)
            return
        expected_s = sum(self.cost_s(one) for one in orders) * self._slowness.get(node, 1.0)
        if expected_s > 0.0 and busy_s > 0.0:
            self._in_one_go[node] = _nearer(self._in_one_go.get(node), busy_s / expected_s, _LEARN)

    def _learn_each(self, node: int, orders: Sequence[Order], each_s: Mapping[int, float]) -> None:
        """The node is as slow as most of its orders say; an order that cost more than that is a dear one."""
        if not orders:
            return
        found = median(each_s[one.sensor] / self.cost_s(one) for one in orders)
        slow = self._slowness[node] = _nearer(self._slowness.get(node), found, _LEARN)
        for one in orders:
            before = self.cost_s(one) if one.sensor in self._measured else None
            self._cost_s[one.sensor] = _nearer(before, each_s[one.sensor] / slow, _LEARN)
            self._measured.add(one.sensor)

    def forget_node(self, node: int) -> None:
        """A node is gone; another one under its number may be of another speed."""
        self._slowness.pop(node, None)
        self._in_one_go.pop(node, None)

    def known(self) -> tuple[int, ...]:
        """The sensors of which something is known."""
        return tuple(self._cost_s)

    def forget_sensor(self, sensor: int) -> None:
        """A sensor is gone."""
        self._cost_s.pop(sensor, None)
        self._measured.discard(sensor)


def _nearer(before: float | None, now: float, part: float) -> float:
    """A value that follows what is measured; the first time at once."""
    return now if before is None else (1.0 - part) * before + part * now


class Balance:
    """Keeps every sensor where it is as long as that is about as good as anything else."""

    def __init__(self, costs: Costs, policy: str = "measured") -> None:
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
        self, orders: Sequence[Order], nodes: Sequence[int], homes: Mapping[int, Sequence[int]] | None = None
    ) -> tuple[Share, ...]:
        """Share out the orders of a tick over nodes, by their numbers; ``homes`` says for each sensor who listens where."""
        if not nodes:
            raise ValueError("there is no node to draw")
        if self.policy == "round-robin":
            placed = {one.sensor: nodes[k % len(nodes)] for k, one in enumerate(orders)}
        elif self.policy == "random":
            drawn = stream(0, "balance", orders[0].frame).integers(0, len(nodes), len(orders)).tolist()
            placed = {one.sensor: nodes[k] for one, k in zip(orders, drawn, strict=True)}
        else:
            placed = self._placed(orders, nodes, homes or {})
        for one in orders:
            before = self._where.get(one.sensor)
            if before is not None and before != placed[one.sensor]:
                self.moved += 1
            self._where[one.sensor] = placed[one.sensor]
        return self._shares(orders, nodes, placed)

    def _shares(self, orders: Sequence[Order], nodes: Sequence[int], placed: Mapping[int, int]) -> tuple[Share, ...]:
        made = []
        for node in nodes:
            own = tuple(one for one in orders if placed[one.sensor] == node)
            if own:
                expected_s = sum(self.costs.cost_s(one) for one in own) * self.costs.slowness(node)
                made.append(Share(node, own, expected_s))
        return tuple(made)

    def _placed(self, orders: Sequence[Order], nodes: Sequence[int], homes: Mapping[int, Sequence[int]]) -> dict[int, int]:
        """Everybody stays, those without a place go where there is room; every now and then, and if it pays, all anew."""
        allowed = set(nodes)
        stay = {one.sensor: at for one in orders if (at := self._where.get(one.sensor)) is not None and at in allowed}
        if len(stay) < len(orders):
            without = [one for one in orders if one.sensor not in stay]
            stay |= self._spread(without, nodes, homes, self._loads(orders, nodes, stay))
        self._calls += 1
        if self._calls % _EVERY and set(nodes) == self._nodes:
            return stay
        self._nodes = allowed
        fresh = self._spread(orders, nodes, homes)
        slowest_s = max(self._loads(orders, nodes, stay).values())
        return fresh if max(self._loads(orders, nodes, fresh).values()) < (1.0 - _WORTH) * slowest_s else stay

    def _loads(self, orders: Sequence[Order], nodes: Sequence[int], placed: Mapping[int, int]) -> dict[int, float]:
        loads = dict.fromkeys(nodes, 0.0)
        for one in orders:
            if one.sensor in placed:
                node = placed[one.sensor]
                loads[node] += self.costs.cost_s(one) * self.costs.slowness(node)
        return loads

    def _spread(
        self,
        orders: Sequence[Order],
        nodes: Sequence[int],
        homes: Mapping[int, Sequence[int]],
        loads: dict[int, float] | None = None,
    ) -> dict[int, int]:
        """The dearest first, each where it is done soonest; where that is equal, where it is, then where it is listened to."""
        loads = dict.fromkeys(nodes, 0.0) if loads is None else dict(loads)
        placed = {}
        for one in sorted(orders, key=lambda one: (-self.costs.cost_s(one), one.sensor)):
            at, there = self._where.get(one.sensor), tuple(homes.get(one.sensor, ()))
            cost_s, away_s = self.costs.cost_s(one), size_bytes(one) * _AWAY_S_PER_BYTE
            done_s = {
                node: loads[node] + cost_s * self.costs.slowness(node) + (0.0 if there == (node,) else away_s) for node in nodes
            }
            best = min(nodes, key=lambda node: (done_s[node], node != at, node))
            placed[one.sensor] = best
            loads[best] += cost_s * self.costs.slowness(best)
        return placed
