"""What the main server counts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from samepath.sim.cluster.commands import CommandLog
from samepath.sim.cluster.watching.recent import Lateness, Meter, Problems, TickTimes
from samepath.sim.server.viewing.order import Order


@dataclass
class Numbers:
    """Counters of a cluster; they belong to the episode's thread."""

    began_s: float
    reissued: int = 0
    doubled: int = 0  # frames that two nodes drew, of which the second was dropped
    fenced: int = 0
    compared: int = 0  # digests of nodes' states held against the main server's
    desynchronised: int = 0  # of them, how many differed
    commands: CommandLog = field(default_factory=CommandLog)
    lateness: Lateness = field(default_factory=Lateness)
    problems: Problems = field(default_factory=Problems)
    digests: dict[int, bytes] = field(default_factory=dict)
    sensor_frames: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.frames = Meter(self.began_s)
        self.ticks = TickTimes(self.began_s)

    def count_orders(self, orders: Sequence[Order]) -> None:
        """Count what is due, by sensor."""
        for one in orders:
            self.sensor_frames[one.sensor] = self.sensor_frames.get(one.sensor, 0) + 1
