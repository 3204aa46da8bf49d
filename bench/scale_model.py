"""A lockstep tick of clusters that nobody has: measured costs in, the time of a step out. Pure, and the same on every run.

Virtual time. The main server is one thread: it steps the world, plans, sends a tick to one node after the other, and takes in
results in the order in which they arrive. Its network card sends and receives one thing after the other, too. Nodes draw side
by side, each for as long as its cameras take times a ratio drawn from measured ones; the step is over when the last result has
been taken in. Four shapes of cluster:

* ``through main``: every frame passes through the main server to whoever listens elsewhere;
* ``node to node``: frames go to listeners directly, and the main server sees digests;
* ``relays``: the same with a relay for each rack, which passes the tick on and brings the results of its rack in one message;
* ``racks``: the same with a coordinator of its own in each rack, so that the main server plans for racks, not for nodes.
"""

import heapq
import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from samepath.core.streams import stream

SHAPES: Final = ("through main", "node to node", "relays", "racks")
_TICKS: Final = 20  # whose mean is the step: ratios of drawing times differ from tick to tick


class CoordinatorCost(NamedTuple):
    """What the coordinator itself computes in a tick of so many nodes and sensors, in seconds.

    ``due_s`` for the tick's begin, ``result_s`` for each node's results, ``plan_s`` for sharing out anew, spread over the ticks
    between two times. ``rounds``: in so many parts it has a tick drawn, one after the other, so that memory has a bound.
    """

    nodes: int
    sensors: int
    due_s: float
    result_s: float
    plan_s: float
    rounds: int = 1


@dataclass(frozen=True)
class Parameters:
    """What was measured, in seconds and bytes; ``half_round_trip_s`` and ``bytes_per_s`` are of the network, see the page."""

    coordinator: tuple[CoordinatorCost, ...]
    world_s: float  # of a tick, then per vehicle and per sensor that is due
    world_vehicle_s: float
    world_sensor_s: float
    state_bytes: float  # of a tick for every node, then per vehicle and per sensor
    state_vehicle_bytes: float
    state_sensor_bytes: float
    send_s: float  # on the main server, to send a node its tick, then per request in it
    send_request_s: float
    receive_s: float  # to take in a node's result, then per sensor in it
    receive_sensor_s: float
    draw_s: float  # one camera of 180x120, in the median
    draw_ratios: tuple[float, ...]  # shares of a tick against their median, rising: who is late
    frame_bytes: float
    half_round_trip_s: float
    bytes_per_s: float
    cameras_per_vehicle: int = 8
    rack: int = 32

    def coordinator_of(self, nodes: int, sensors: int) -> CoordinatorCost:
        """The costs at the measured size nearest to this one, by the ratio of sizes; sizes that are drawn are measured."""
        return min(
            self.coordinator,
            key=lambda cost: (
                abs(math.log(cost.nodes / nodes)) + abs(math.log(cost.sensors / sensors)),
                cost.nodes,
                cost.sensors,
            ),
        )

    def plain(self) -> dict[str, Any]:
        """As JSON data."""
        return {**vars(self), "coordinator": [list(cost) for cost in self.coordinator], "draw_ratios": list(self.draw_ratios)}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> "Parameters":
        """The parameters of :meth:`plain`."""
        costs = tuple(CoordinatorCost(*cost) for cost in plain["coordinator"])
        return cls(**{**plain, "coordinator": costs, "draw_ratios": tuple(plain["draw_ratios"])})


class Step(NamedTuple):
    """A step, in milliseconds, and the parts that it is made of; they overlap, so they are not a sum.

    ``main_ms`` is how long the main server's thread was busy, ``network_ms`` its network card, ``drawing_ms`` how long the
    slowest node drew, ``ideal_ms`` how long drawing took in the median.
    """

    shape: str
    nodes: int
    sensors: int
    step_ms: float
    main_ms: float
    network_ms: float
    drawing_ms: float
    ideal_ms: float

    @property
    def efficiency(self) -> float:
        """Of all the time of all nodes, the part in which they drew."""
        return self.ideal_ms / self.step_ms


def needed_sizes(nodes: int, sensors: int, rack: int) -> set[tuple[int, int]]:
    """The sizes of which the coordinator's costs are wanted for a cluster, as one and as racks."""
    racks = math.ceil(nodes / rack)
    own = {(nodes, sensors)}
    return own if racks == 1 else own | {(racks, sensors), (math.ceil(nodes / racks), math.ceil(sensors / racks))}


def step(shape: str, nodes: int, sensors: int, p: Parameters) -> Step:
    """The mean over some ticks."""
    if shape not in SHAPES:
        raise ValueError(f"a shape of {SHAPES} was wanted, but {shape!r} came")
    ticks = [_Tick(shape, nodes, sensors, p, number).run() for number in range(_TICKS)]
    means = [sum(values) / _TICKS for values in zip(*ticks, strict=True)]
    return Step(shape, nodes, sensors, *(round(1e3 * value, 4) for value in means))


class _Server:
    """A thread, or a network card: one thing after the other."""

    def __init__(self) -> None:
        self.free_s = 0.0
        self.busy_s = 0.0

    def work(self, from_s: float, seconds: float) -> float:
        """Do something as soon as it can be done; returns when it is done."""
        self.free_s = max(self.free_s, from_s) + seconds
        self.busy_s += seconds
        return self.free_s


class _Tick:
    def __init__(self, shape: str, nodes: int, sensors: int, p: Parameters, number: int) -> None:
        self.shape, self.nodes, self.sensors, self.p = shape, nodes, sensors, p
        self.chance = stream(number, "bench", "scale", nodes, sensors)
        self.main, self.card = _Server(), _Server()
        vehicles = math.ceil(sensors / p.cameras_per_vehicle)
        self.tick_bytes = p.state_bytes + p.state_vehicle_bytes * vehicles + p.state_sensor_bytes * sensors
        self.world_s = p.world_s + p.world_vehicle_s * vehicles + p.world_sensor_s * sensors
        racks = math.ceil(nodes / p.rack) if shape in ("relays", "racks") else 1
        self.racks = racks if racks > 1 else 0  # a single rack needs no relay

    def run(self) -> tuple[float, float, float, float, float]:
        p, share = self.p, self.sensors / self.nodes
        plans = self.shape == "racks" and self.racks > 0
        whole = p.coordinator_of(self.racks if plans else self.nodes, self.sensors)
        # A rack that plans for itself has rounds of its own, and they are fewer.
        rounds = self._rack_cost(math.ceil(self.nodes / self.racks)).rounds if plans else whole.rounds
        now_s = self.main.work(0.0, self.world_s + whole.due_s + whole.plan_s)
        slowest_s = 0.0
        for number in range(rounds):
            size = self.tick_bytes if number == 0 else 0.0
            drawing_s = share / rounds * p.draw_s * self._ratios()
            slowest_s += float(drawing_s.max())
            each = whole._replace(result_s=whole.result_s / rounds)
            if self.racks:
                now_s = self._by_racks(now_s, drawing_s, share / rounds, size, each)
            else:
                now_s = self._flat(now_s, drawing_s, share / rounds, size, each)
        return now_s, self.main.busy_s, self.card.busy_s, slowest_s, share * p.draw_s

    def _ratios(self) -> "np.ndarray[Any, np.dtype[np.float64]]":
        drawn = self.chance.integers(0, len(self.p.draw_ratios), self.nodes)
        return np.array(self.p.draw_ratios)[drawn]

    def _send(self, thread: _Server, card: _Server, from_s: float, requests: float, size: float) -> float:
        """Send a tick; returns when it is there."""
        sent_s = thread.work(from_s, self.p.send_s + requests * self.p.send_request_s)
        return card.work(sent_s, size / self.p.bytes_per_s) + self.p.half_round_trip_s

    def _flat(self, from_s: float, drawing_s: Any, share: float, size: float, cost: CoordinatorCost) -> float:  # noqa: ANN401
        p = self.p
        arrivals = []
        for took_s in drawing_s:
            there_s = self._send(self.main, self.card, from_s, share, size)
            arrivals.append(there_s + float(took_s) + p.half_round_trip_s)
        heapq.heapify(arrivals)
        now_s = from_s
        # Frames that pass through come in and go out again over the same card.
        passing_s = 2.0 * share * p.frame_bytes / p.bytes_per_s if self.shape == "through main" else 0.0
        while arrivals:
            there_s = self.card.work(heapq.heappop(arrivals), passing_s)
            now_s = self.main.work(there_s, p.receive_s + share * p.receive_sensor_s + cost.result_s)
        return now_s

    def _rack_cost(self, nodes: int) -> CoordinatorCost:
        return self.p.coordinator_of(nodes, max(1, round(self.sensors * nodes / self.nodes)))

    def _by_racks(self, from_s: float, drawing_s: Any, share: float, size: float, cost: CoordinatorCost) -> float:  # noqa: ANN401
        """A tick over relays. A relay that coordinates plans for its own nodes; the main server then takes in racks."""
        p, plans = self.p, self.shape == "racks"
        arrivals = []
        for rack in range(self.racks):
            own = drawing_s[rack :: self.racks]
            relay, card = _Server(), _Server()
            there_s = self._send(self.main, self.card, from_s, share * len(own), size)
            local = self._rack_cost(len(own)) if plans else None
            there_s = relay.work(there_s, (local.due_s + local.plan_s) / local.rounds if local is not None else 0.0)
            back = []
            for took_s in own:
                node_s = self._send(relay, card, there_s, share, size)
                back.append(node_s + float(took_s) + p.half_round_trip_s)
            done_s = there_s
            for arrived_s in sorted(back):
                each_s = p.receive_s + share * p.receive_sensor_s
                each_s += local.result_s / local.rounds if local is not None else 0.0
                done_s = relay.work(arrived_s, each_s)
            arrivals.append((relay.work(done_s, p.send_s) + p.half_round_trip_s, len(own)))
        now_s = from_s
        for arrived_s, count in sorted(arrivals):
            # Planned in the rack, a rack is one result; only passed on, every node's is still looked at here.
            looked_at_s = cost.result_s if plans else count * cost.result_s
            now_s = self.main.work(arrived_s, p.receive_s + share * count * p.receive_sensor_s + looked_at_s)
        return now_s


def slowest_of(count: int, ratios: tuple[float, ...]) -> float:
    """The mean of the largest of so many draws from measured values, which are given rising: exact, not drawn.

    P(largest <= x_i) = (i / n)^count. Beyond as many draws as there are values the answer is the largest of them, and the truth
    may be worse.
    """
    total = len(ratios)
    before, mean = 0.0, 0.0
    for index, value in enumerate(ratios, start=1):
        upto = (index / total) ** count
        mean += value * (upto - before)
        before = upto
    return mean


def main_parts_ms(nodes: int, sensors: int, p: Parameters) -> tuple[float, float, float]:
    """What the main server's thread does in a tick without racks: the world and its requests, coordinating, messages."""
    cost, vehicles = p.coordinator_of(nodes, sensors), math.ceil(sensors / p.cameras_per_vehicle)
    world_s = p.world_s + p.world_vehicle_s * vehicles + p.world_sensor_s * sensors
    messages_s = cost.rounds * nodes * (p.send_s + p.receive_s) + sensors * (p.send_request_s + p.receive_sensor_s)
    return 1e3 * world_s, 1e3 * (cost.due_s + cost.plan_s + nodes * cost.result_s), 1e3 * messages_s


def last_within(steps: list[Step], limit_ms: float) -> Step | None:
    """The largest cluster whose step is within a limit."""
    good = [point for point in steps if point.step_ms <= limit_ms]
    return max(good, key=lambda point: point.nodes, default=None)


def thinned(values: list[float], most: int) -> tuple[float, ...]:
    """So many of rising values, evenly, the last among them: a distribution that fits into a file."""
    rising = sorted(values)
    if len(rising) <= most:
        return tuple(rising)
    at = [bisect_right(range(len(rising)), (len(rising) - 1) * k / (most - 1)) - 1 for k in range(most)]
    return tuple(rising[index] for index in at)
