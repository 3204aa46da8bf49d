"""The main server's side of a tick: orders go out, frames come in, and whoever fails is replaced without a frame being lost.

It belongs to the episode's thread, and with it the link: between result and barrier there is no other thread. In lockstep a
tick is over when every due frame exists. In real time it is over at once; frames come when they come, and what is late or left
out is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from samepath.base.clock import SYSTEM_CLOCK
from samepath.base.errors import SamepathError
from samepath.sim.cluster.balance import Balance, Costs, Share
from samepath.sim.cluster.link.errors import LinkError, TooLargeError
from samepath.sim.cluster.members import DRAINING, WORKING, Issue, Member
from samepath.sim.cluster.messages import Leave, Seen, Tick, shown, written
from samepath.sim.cluster.numbers import Numbers
from samepath.sim.cluster.settings import Patience
from samepath.sim.cluster.state_digests import digest_bytes
from samepath.sim.server.audience import HERE
from samepath.sim.server.viewing.order import Made, Order, pack_orders

if TYPE_CHECKING:
    from samepath.sim.cluster.roster import Roster
    from samepath.sim.maps import RoadMap
    from samepath.sim.server.audience import Audience
    from samepath.sim.server.viewing.view import View

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
