"""The main server's side of a tick: orders go out, frames come in, and whoever fails is replaced without a frame being lost.

It belongs to the episode's thread, and with it the link: between result and barrier there is no other thread. In lockstep a
tick is over when every due frame exists. In real time it is over at once; frames come when they come, and what is late or left
out is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from samepath.cluster.link.wire import LinkError, TooLargeError
from samepath.cluster.membership import DRAINING, WORKING, Issue, Member
from samepath.cluster.messages import Leave, Seen, Tick, shown, written
from samepath.cluster.mirror import digest_bytes
from samepath.cluster.settings import Numbers, Patience
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SamepathError, unknown
from samepath.core.streams import stream
from samepath.simulator.server.rendering import Made, Order, pack_orders
from samepath.simulator.server.streams import HERE

if TYPE_CHECKING:
    from samepath.cluster.membership import Roster
    from samepath.simulator.maps import RoadMap
    from samepath.simulator.server.rendering import View
    from samepath.simulator.server.streams import Audience


# Who draws what: measured costs in, an assignment out. Pure; the time is measured elsewhere.
#
# A sensor's cost is its time on a node of speed 1, learned from measurements and guessed from its pixels before the
# first. A node's slowness is how many times as long as expected its ticks take. The assignment changes nothing but
# the time: bytes are the same wherever they are made.

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


_TIMED_EVERY: Final = 64
_POLL_S: Final = 0.05
_DIGESTS_KEPT: Final = 64
_LONG_S: Final = 0.5
# A node says something twice a second, also while it draws; after this it is taken for frozen.
_SILENT_S: Final = 1.2
_SLOW: Final = 10.0


class NodeMissingError(SamepathError):
    """A frame cannot be made because a node is missing; the run stops."""


class StoppedError(SamepathError):
    """The cluster stops before a tick has been drawn."""


class Conductor:
    """Has the nodes draw what is due."""

    wants_every_tick = True

    def __init__(self, roster: Roster, numbers: Numbers, patience: Patience, policy: str) -> None:
        self.balance = Balance(Costs(), policy)
        self._roster = roster
        self._numbers = numbers
        self._patience = patience
        self._ticks = 0
        self.audience: Callable[[], Audience]
        self.is_lockstep: Callable[[], bool]
        self.step_s: Callable[[], float]
        self.flush: Callable[[], None]
        self.deliver: Callable[[Order, bytes, int], None]
        self.remember: Callable[[int, bytes], None]
        self.failed: Callable[[NodeMissingError], None]
        self.while_waiting: Callable[[], None] = lambda: None
        self.over = False
        """Whether the cluster stops, and nobody is to wait any more; set by any thread."""
        self.state = b""
        self.frame = 0
        self.began_s = SYSTEM_CLOCK.monotonic_s()
        self._shown = b""
        self._due: dict[int, Order] = {}
        self._made: dict[int, Made] = {}
        self._late: dict[int, tuple[float, float]] = {}  # frames of real time that are still out: when shown, and the step
        self.waiting_for: tuple[str, ...] = ()
        self.wanted_here: set[int] = set()
        """Sensors of which the main server itself wants the next payload, for a thumbnail."""
        self.kept: dict[int, tuple[Order, bytes]] = {}

    def prepare(self, road_map: RoadMap) -> None:
        """Nothing is drawn here, so nothing has to be built."""

    def close(self) -> None:
        """Nothing is held."""

    # -- a tick ------------------------------------------------------------------------------------------------------

    def work(self, view: View, orders: Sequence[Order]) -> Sequence[Made]:
        """Show a tick to all nodes and have made what is due."""
        self.flush()
        now_s = SYSTEM_CLOCK.monotonic_s()
        self._numbers.commands.felt(view.frame, now_s)
        packed = view.pack()
        self.frame, self._shown = view.frame, shown(self.state, packed)
        self._numbers.digests[view.frame] = digest_bytes(self.state, packed)
        self._numbers.digests.pop(view.frame - _DIGESTS_KEPT, None)
        self._ticks += 1
        self._numbers.count_orders(orders)
        try:
            made = self._lockstep(orders) if self.is_lockstep() else self._real_time(orders, now_s)
        except NodeMissingError as error:
            self.failed(error)
            raise
        end_s = SYSTEM_CLOCK.monotonic_s()
        self._numbers.ticks.add(end_s - self.began_s, end_s)
        return made

    def _homes(self, order: Order) -> tuple[int, ...]:
        homes = self.audience().homes(order.stream)
        return (HERE, *homes) if order.sensor in self.wanted_here and HERE not in homes else homes

    def _lockstep(self, orders: Sequence[Order]) -> list[Made]:
        self._due = {one.sensor: one for one in orders}
        self._made = {}
        try:
            self._show(self._assigned(orders))
            while len(self._made) < len(self._due):
                self._wait()
            return [self._made[one.sensor] for one in orders]
        finally:
            self._due, self.waiting_for = {}, ()

    def _assigned(self, orders: Sequence[Order]) -> tuple[Share, ...]:
        if not orders:
            return ()
        self._take_out_hanging(SYSTEM_CLOCK.monotonic_s())
        found = self._workers()
        workers = [one for one in found if not one.doubted] or found  # who hangs would make every tick wait
        homes = {one.sensor: self._homes(one) for one in orders}
        return self.balance.assign(orders, [one.number for one in workers], homes)

    def _workers(self) -> list[Member]:
        """The nodes that can draw; waits for one while there is none."""
        start_s = SYSTEM_CLOCK.monotonic_s()
        while True:
            found = self._roster.drawing()
            if found:
                return found
            missing = self._roster.missing()
            self.waiting_for = missing
            waited_s = SYSTEM_CLOCK.monotonic_s() - start_s
            if waited_s > self._patience.empty_s:
                names = ", ".join(missing) or "every node"
                raise NodeMissingError(
                    f"tick {self.frame} has {len(self._due)} frames to draw and no node to draw them for {waited_s:.0f} s: "
                    f"missing is {names}: look at its log, or start another one (samepath cluster node)"
                )
            self._go_on_waiting()
            self._roster.attend(_POLL_S)

    def _go_on_waiting(self) -> None:
        if self.over:
            raise StoppedError(f"tick {self.frame} was not drawn: the cluster stops")
        if SYSTEM_CLOCK.monotonic_s() - self.began_s > _LONG_S:
            self.while_waiting()

    def _show(self, shares: Sequence[Share]) -> None:
        """Show a tick to all nodes, and give each its orders."""
        by_node = {one.node: one for one in shares}
        timed = self._ticks % _TIMED_EVERY == 1
        messages = {}
        for member in self._roster.listening():
            share = by_node.get(member.number)
            fresh = share is not None and any(not self.balance.costs.is_measured(one.sensor) for one in share.orders)
            messages[member.peer] = self._tick(member, share, again=False, timed=timed or fresh)
        self._send(messages)

    def _tick(self, member: Member, share: Share | None, *, again: bool, timed: bool) -> bytes:
        lossless = self.is_lockstep()
        if share is None:
            return written(Tick(self.frame, lossless, b"", [], False, again))
        now_s = SYSTEM_CLOCK.monotonic_s()
        member.issued.append(Issue(self.frame, {one.sensor: one for one in share.orders}, now_s, share.expected_s, timed))
        homes = [list(self._homes(one)) for one in share.orders]
        return written(Tick(self.frame, lossless, pack_orders(share.orders), homes, timed, again))

    def _send(self, messages: dict[bytes, bytes]) -> None:
        for peer, error in self._roster.broadcast(messages, self._shown).items():
            if isinstance(error, TooLargeError):  # no node is to blame: whoever asked for the tick is told, and nobody owes it
                for member in self._roster.all():
                    member.issued = [one for one in member.issued if one.frame != self.frame]
                raise TooLargeError(f"tick {self.frame} cannot be shown to nodes: {error}")
            self._roster.fail(peer, str(error))

    # -- waiting -----------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Wait for frames; give again to others what takes too long, and take out who takes far too long."""
        self._roster.attend(self._timeout_s())
        if len(self._made) == len(self._due):
            return
        now_s = SYSTEM_CLOCK.monotonic_s()
        out = {sensor for member in self._roster.drawing() for issue in self._of_now(member) for sensor in issue.orders}
        lost = [one for sensor, one in self._due.items() if sensor not in self._made and sensor not in out]
        if lost:
            self._again(lost, exclude=())
            return
        self._take_out_hanging(now_s)
        for member in self._roster.all():
            late = [] if member.doubted else self._late_orders(member, now_s)
            if late:
                member.doubted = True
                self._again(late, exclude=(member.number,))
        self.waiting_for = tuple(one.name for one in self._roster.all() if one.issued)
        self._go_on_waiting()

    def _timeout_s(self) -> float:
        """How long to wait for messages before somebody's orders may have to be given again."""
        now_s = SYSTEM_CLOCK.monotonic_s()
        moments = [
            self._limit_s(one) for member in self._roster.drawing() for one in self._of_now(member) if not member.doubted
        ]
        return min(min((one for one in moments if one > now_s), default=now_s + _POLL_S) - now_s, _POLL_S)

    def _limit_s(self, issue: Issue) -> float:
        return issue.at_s + self._patience.again_s + self._patience.again_factor * issue.expected_s

    def _take_out_hanging(self, now_s: float) -> None:
        """Take out who owes something for far too long; what has come in the meantime is looked at first."""
        if any(self._hangs(one, now_s) for one in self._roster.all()):
            self._roster.attend(0.0)
        for member in self._roster.all():
            if self._hangs(member, now_s):
                first = member.issued[0]
                self._roster.fence(member, f"it has not drawn tick {first.frame} for {now_s - first.at_s:.1f} s")

    def _hangs(self, member: Member, now_s: float) -> bool:
        """Who still says something is slow rather than frozen, and is given longer: another one may be as slow."""
        fence_s = self._patience.fence_s
        fence_s *= 1.0 if now_s - member.heard_s > min(_SILENT_S, fence_s) else _SLOW
        return any(now_s - one.at_s > one.expected_s + fence_s for one in member.issued[:1])

    def _of_now(self, member: Member) -> list[Issue]:
        """What a node owes of this tick; one that was slow may owe frames of earlier ones, which others have drawn."""
        return [issue for issue in member.issued if issue.frame == self.frame]

    def _late_orders(self, member: Member, now_s: float) -> list[Order]:
        return [
            order
            for issue in self._of_now(member)
            if now_s > self._limit_s(issue)
            for order in issue.orders.values()
            if order.sensor in self._due and order.sensor not in self._made
        ]

    def _again(self, orders: Sequence[Order], exclude: Sequence[int]) -> None:
        """Give orders of this tick to other nodes than they were given to."""
        others = [one for one in self._workers() if one.number not in exclude]
        if not others:
            return
        self._numbers.reissued += len(orders)
        shares = Balance(self.balance.costs).assign(orders, [one.number for one in others])
        by_number = {one.number: one for one in others}
        for share in shares:
            member = by_number[share.node]
            self._send({member.peer: self._tick(member, share, again=True, timed=False)})

    # -- what comes back ---------------------------------------------------------------------------------------------

    def seen(self, member: Member, message: Seen, bulk: tuple[bytes, ...], now_s: float) -> None:
        """A node has shown what it made of a tick."""
        self._compare(member, message)
        if not message.made:
            return
        issue = next((one for one in member.issued if one.frame == message.frame and message.made[0][0] in one.orders), None)
        if issue is None:
            return
        member.issued.remove(issue)
        member.doubted = False
        self._learn(member, issue, message, now_s)
        payloads = iter(bulk)
        for sensor, carried, trouble, memory, _ in message.made:
            payload = next(payloads, b"") if carried else b""
            order = issue.orders.get(sensor)
            if order is not None:
                self._take(member, order, Made(sensor, payload, memory, trouble), message.frame, now_s)

    def _take(self, member: Member, order: Order, made: Made, frame: int, now_s: float) -> None:
        if frame == self.frame and order.sensor in self._due:
            if order.sensor in self._made:
                self._numbers.doubled += 1
                return
            self._count(member, now_s)
            self.remember(order.sensor, made.memory)
            if made.payload:
                self.deliver(order, made.payload, member.number)
            self._made[order.sensor] = Made(made.sensor, b"", made.memory, made.trouble)
            return
        if frame not in self._late:
            return
        shown_s, step_s = self._late[frame]
        late_s = now_s - shown_s - step_s
        self._count(member, now_s)
        if late_s > 0.0:
            member.late_frames += 1
        self._numbers.lateness.late(late_s)
        self.remember(order.sensor, made.memory)
        if made.payload:
            self.deliver(order, made.payload, member.number)

    def _count(self, member: Member, now_s: float) -> None:
        member.drew.add(now_s)
        self._numbers.frames.add(now_s)

    def _learn(self, member: Member, issue: Issue, message: Seen, now_s: float) -> None:
        member.busy_s += message.busy_s
        member.drawn.add(now_s, max(int(message.busy_s * 1e6), 0))
        member.step_s = now_s - issue.at_s
        member.steps += 1
        member.steps_s += member.step_s
        each_s = {sensor: cost_s for sensor, _, _, _, cost_s in message.made} if issue.timed else {}
        self.balance.costs.learn(member.number, list(issue.orders.values()), message.busy_s, each_s)

    def _compare(self, member: Member, message: Seen) -> None:
        """Hold a node's state against the main server's."""
        wanted = self._numbers.digests.get(message.frame)
        if wanted is None or not message.digest:
            return
        member.compared += 1
        self._numbers.compared += 1
        if message.digest != wanted:
            member.desynchronised += 1
            self._numbers.desynchronised += 1
            self._numbers.problems.add(message.frame, f"{member.name} holds another state than the main server")
            self._roster.fence(member, f"its state of tick {message.frame} is another one")

    # -- real time ---------------------------------------------------------------------------------------------------

    def _real_time(self, orders: Sequence[Order], now_s: float) -> list[Made]:
        """Give orders to nodes that have nothing to do; what nobody can take is left out, and counted."""
        self._late[self.frame] = (now_s, self.step_s())
        for frame in [one for one in self._late if one < self.frame - _DIGESTS_KEPT]:
            del self._late[frame]
        self._take_out_hanging(now_s)
        free = [one for one in self._roster.drawing() if not one.issued]
        shares: tuple[Share, ...] = ()
        if orders and free:
            homes = {one.sensor: self._homes(one) for one in orders}
            if len(free) == len(self._roster.drawing()):
                shares = self.balance.assign(orders, [one.number for one in free], homes)
            else:
                # Who is busy misses this tick, with the sensors it holds; those without a place go to who is free.
                numbers = [one.number for one in free]
                own = [one for one in orders if self.balance.where(one.sensor) in (*numbers, None)]
                shares = self.balance.assign(own, numbers, homes) if own else ()
        taken = {order.sensor for share in shares for order in share.orders}
        for order in orders:
            if order.sensor not in taken:
                self._drop(order)
        self._show(shares)
        return []

    def _drop(self, order: Order) -> None:
        self._numbers.lateness.drop()
        number = self.balance.where(order.sensor)
        member = next((one for one in self._roster.all() if one.number == number), None)
        if member is not None:
            member.dropped_frames += 1

    def lost(self, member: Member) -> None:
        """A node is gone. In lockstep what it owed is given to others; in real time it is left out."""
        self.balance.forget_node(member.number)
        for issue in member.issued:
            for order in issue.orders.values():
                if order.sensor not in self._due and issue.frame in self._late:
                    self._numbers.lateness.drop()
        member.issued.clear()

    def overtaken(self) -> None:
        """A frame came after a later one of the same sensor: nobody will get it."""
        self._numbers.lateness.drop()

    def forget(self, sensors: Iterable[int] | None) -> None:
        """Sensors are gone, or all of them; nothing is kept of them."""
        frames = self._numbers.sensor_frames
        for sensor in (*frames, *self.wanted_here) if sensors is None else sensors:
            self.wanted_here.discard(sensor)
            self.kept.pop(sensor, None)
            frames.pop(sensor, None)
        self.balance.forget_sensors(sensors)

    def keep(self, order: Order, payload: bytes) -> None:
        """Keep a payload that the main server itself asked for."""
        if order.sensor in self.wanted_here:
            self.wanted_here.discard(order.sensor)
            self.kept[order.sensor] = (order, payload)

    def drain(self, member: Member) -> None:
        """Give a node nothing more; its clients may stay."""
        if member.state == WORKING:
            member.state = DRAINING
            self.balance.forget_node(member.number)

    def dismiss(self, member: Member, why: str) -> None:
        """Tell a node to go."""
        try:
            self._roster.send(member, written(Leave(why)))
        except LinkError:
            return
