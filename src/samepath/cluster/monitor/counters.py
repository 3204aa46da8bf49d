"""What a main server counts: rates, means, quantiles, lateness, and commands on their way to a tick.

Bounded memory, no clock of its own: everything here belongs to the episode's thread and takes the time as an argument. Adding a
value costs a microsecond or two, so it may stand inside a tick.
"""

import bisect
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from samepath.cluster.monitor.status import CommandRecord, CommandStatus, Histogram, plain
from samepath.simulator.server.rendering import RenderRequest
from samepath.simulator.server.rpc import Call

MEAN_TICKS: Final = 100
QUANTILE_VALUES: Final = 1000
LAST_COMMANDS: Final = 20
LAST_PROBLEMS: Final = 20
_PROBLEM_CHARACTERS: Final = 300
_SLOTS: Final = 50
# From a tick of an empty world to one that nobody waits for.
TICK_BOUNDS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
LATENCY_BOUNDS_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
# Of more commands than this between two ticks the first are not listed; they count for the world all the same.
_PENDING_MOST: Final = 100_000


class Meter:
    """How often something happens per second, over a sliding window that is kept as slots of equal length."""

    def __init__(self, began_s: float, window_s: float = 5.0) -> None:
        self.total = 0
        self._began_s = began_s
        self._slot_s = window_s / _SLOTS
        self._slots: deque[list[int]] = deque()  # [number of the slot, count in it]

    def add(self, now_s: float, count: int = 1) -> None:
        self.total += count
        number = self._number(now_s)
        if not self._slots or self._slots[-1][0] < number:
            self._slots.append([number, 0])
            self._forget(number)
        self._slots[-1][1] += count

    def per_s(self, now_s: float) -> float:
        """The rate over the window, or since the beginning where that is shorter."""
        number = self._number(now_s)
        self._forget(number)
        since_s = max((number - _SLOTS) * self._slot_s, 0.0)
        # A first moment says nothing of a rate: at least one slot must have passed.
        covered_s = max(now_s - self._began_s - since_s, self._slot_s)
        return sum(count for _, count in self._slots) / covered_s

    def _number(self, now_s: float) -> int:
        return max(math.floor((now_s - self._began_s) / self._slot_s), 0)

    def _forget(self, number: int) -> None:
        while self._slots and self._slots[0][0] < number - _SLOTS:
            self._slots.popleft()


class RecentValues:
    """The last values, and their mean."""

    def __init__(self, size: int = MEAN_TICKS) -> None:
        self._values: deque[float] = deque(maxlen=size)

    def add(self, value: float) -> None:
        """Remember a value; the oldest is forgotten."""
        self._values.append(value)

    @property
    def last(self) -> float | None:
        return self._values[-1] if self._values else None

    @property
    def mean(self) -> float | None:
        return math.fsum(self._values) / len(self._values) if self._values else None

    @property
    def values(self) -> tuple[float, ...]:
        """Those remembered; the latest comes last."""
        return tuple(self._values)


class Quantiles:
    """Exact quantiles of the last values; the maximum is that of all values there ever were."""

    def __init__(self, size: int = QUANTILE_VALUES) -> None:
        self.count = 0
        self.max: float | None = None
        self._size = size
        self._by_age: deque[float] = deque()
        self._sorted: list[float] = []

    def add(self, value: float) -> None:
        """Remember a value; the oldest is forgotten."""
        if not math.isfinite(value):
            raise ValueError(f"a finite number was wanted, but {value} came")  # it would spoil the order for good
        self.count += 1
        self.max = value if self.max is None else max(self.max, value)
        if len(self._by_age) == self._size:
            del self._sorted[bisect.bisect_left(self._sorted, self._by_age.popleft())]
        self._by_age.append(value)
        bisect.insort(self._sorted, value)

    def quantile(self, part: float) -> float | None:
        """The smallest remembered value that at least this part of them does not exceed; None without any."""
        if not self._sorted:
            return None
        return self._sorted[max(math.ceil(part * len(self._sorted)) - 1, 0)]


class Buckets:
    """Counts of values between fixed bounds, for as long as it lives."""

    def __init__(self, bounds_s: Sequence[float]) -> None:
        self._bounds_s = tuple(bounds_s)
        self._counts = [0] * (len(self._bounds_s) + 1)
        self._sum_s = 0.0

    def add(self, value_s: float) -> None:
        """Count a value where it belongs: a bound belongs to what lies below it."""
        self._counts[bisect.bisect_left(self._bounds_s, value_s)] += 1
        self._sum_s += value_s

    def histogram(self) -> Histogram:
        return Histogram(self._bounds_s, tuple(self._counts), self._sum_s)


class TickTimes:
    """How long ticks took: the last, the mean of the last hundred, how many a second, and the counts of all."""

    def __init__(self, began_s: float) -> None:
        self._meter = Meter(began_s)
        self.recent = RecentValues()
        self.buckets = Buckets(TICK_BOUNDS_S)

    def add(self, tick_s: float, now_s: float) -> None:
        """Remember a tick that ended now."""
        self._meter.add(now_s)
        self.recent.add(tick_s)
        self.buckets.add(tick_s)

    @property
    def ticks(self) -> int:
        return self._meter.total

    def per_s(self, now_s: float) -> float:
        return self._meter.per_s(now_s)


class Lateness:
    """Frames that came late or not at all. In lockstep both stay 0: there a frame that is missing stops the run."""

    def __init__(self) -> None:
        self.late_frames = 0
        self.dropped_frames = 0
        self.worst_s = 0.0

    def late(self, lateness_s: float) -> None:
        """Count a frame that was delivered ``lateness_s`` after it was due; on time or early is not late."""
        if lateness_s > 0:
            self.late_frames += 1
            self.worst_s = max(self.worst_s, lateness_s)

    def drop(self, frames: int = 1) -> None:
        """Count frames that nobody will get."""
        self.dropped_frames += frames


class CommandStats:
    """Control commands that took effect, with their latencies."""

    def __init__(self) -> None:
        self._overruled = 0
        self._latencies = Quantiles()
        self._buckets = Buckets(LATENCY_BOUNDS_S)
        self._last: deque[CommandRecord] = deque(maxlen=LAST_COMMANDS)

    def add(self, command: CommandRecord) -> None:
        """Count a command at the tick of its effect, or at the tick in which another overruled it."""
        self._latencies.add(command.latency_s)
        self._buckets.add(command.latency_s)
        self._overruled += not command.winner
        self._last.append(command)

    def status(self) -> CommandStatus:
        found = self._latencies
        return CommandStatus(
            count=found.count,
            overruled=self._overruled,
            latency_s_median=found.quantile(0.5),
            latency_s_p99=found.quantile(0.99),
            latency_s_max=found.max,
            last=tuple(self._last),
            latencies=self._buckets.histogram(),
        )


class ProblemLog:
    """The last lines worth reading, each with the tick it belongs to."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LAST_PROBLEMS)

    def add(self, frame: int, words: str) -> None:
        """Remember a line; nothing in it moves a terminal's cursor, and it is not longer than a reader bears."""
        self._lines.append(f"tick {frame}: {plain(words[:_PROBLEM_CHARACTERS])}")

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines; the latest comes last."""
        return tuple(self._lines)


class PendingCommand(NamedTuple):
    """A command that no tick has felt yet: its id, for whom, by which method, through which node, when it came."""

    id: str
    actor: int
    method: str
    home: int
    at_s: float


class CommandTracker:
    """Gives every command an id, and says after the next tick which of them counted and how long that took."""

    def __init__(self) -> None:
        self.stats = CommandStats()
        self._number = 0
        self._call: Call | None = None
        self._at_s = 0.0
        self._pending: deque[PendingCommand] = deque(maxlen=_PENDING_MOST)

    def begin(self, call: Call, at_s: float) -> None:
        """A call that came at a time is about to be made: what commands it holds, the episode tells."""
        self._call, self._at_s = call, at_s

    def on_command(self, actor: int, home: int) -> None:
        """The call that is being made holds a command for an actor."""
        if self._call is None:
            return
        self._number += 1
        method, client = self._call.method.name, str(getattr(self._call.caller, "client", 0))
        number = str(self._number)
        if method == "samepath_call":
            client, number, method = (str(argument) for argument in self._call.arguments[:3])
        self._pending.append(PendingCommand(f"{self._call.caller.home}.{client}.{number}", actor, method, home, self._at_s))

    def on_tick(self, frame: int, now_s: float) -> None:
        """A tick has felt all that came: of each actor's commands the last one of the node with the highest number."""
        pending = tuple(self._pending)
        self._pending.clear()
        winners: dict[int, PendingCommand] = {}
        for command in pending:
            if command.actor not in winners or command.home >= winners[command.actor].home:
                winners[command.actor] = command
        for command in pending:
            latency_s = max(now_s - command.at_s, 0.0)
            wins = winners[command.actor] is command
            self.stats.add(CommandRecord(command.id, command.actor, command.method, frame, latency_s, wins))


@dataclass
class Counters:
    """What the main server counts of its cluster. They belong to the episode's thread."""

    began_s: float
    reissued: int = 0
    direct_frames: int = 0
    duplicates: int = 0  # frames that two nodes drew, of which the second was dropped
    fenced: int = 0
    compared: int = 0  # digests of nodes' states held against the main server's
    desynchronised: int = 0  # of them, how many differed
    commands: CommandTracker = field(default_factory=CommandTracker)
    lateness: Lateness = field(default_factory=Lateness)
    problems: ProblemLog = field(default_factory=ProblemLog)
    digests: dict[int, bytes] = field(default_factory=dict)
    sensor_frames: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.frames = Meter(self.began_s)
        self.ticks = TickTimes(self.began_s)

    def count_requests(self, requests: Sequence[RenderRequest]) -> None:
        """Count what is due, by sensor."""
        for request in requests:
            self.sensor_frames[request.sensor] = self.sensor_frames.get(request.sensor, 0) + 1
