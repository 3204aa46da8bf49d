"""What is measured: numbers of nodes, resolutions, rising numbers of vehicles, and for how long."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from samepath.core.digests import fingerprint
from samepath.core.errors import InputError

Mode = Literal["lockstep", "real time"]
MODES: Final[tuple[Mode, ...]] = ("lockstep", "real time")
VEHICLES: Final = (1, 2, 4, 8, 12, 16, 24, 32, 40)
QUICK_VEHICLES: Final = (2, 8, 16)
LEAST_FRAMES_PER_S: Final = 10.0
"""Below so many steps a second CARLA 0.9 no longer ran in real time: the limit that the thesis marks in its figures."""
_MOST_VEHICLES: Final = 250


class Resolution(NamedTuple):
    """The size of a picture."""

    width: int
    height: int

    def __str__(self) -> str:
        return f"{self.width}x{self.height}"

    @classmethod
    def of(cls, text: str) -> "Resolution":
        """Read ``180x120``."""
        width, _, height = text.partition("x")
        if not (width.isdecimal() and height.isdecimal() and 1 <= int(width) <= 8192 and 1 <= int(height) <= 8192):
            raise InputError(f"a resolution such as 180x120 was wanted, but {text!r} came")
        return cls(int(width), int(height))


RESOLUTIONS: Final = (Resolution(180, 120), Resolution(360, 240), Resolution(720, 480), Resolution(1440, 960))


class Cell(NamedTuple):
    """One episode of the experiment, by what is varied."""

    mode: Mode
    nodes: int
    resolution: Resolution
    vehicles: int

    def __str__(self) -> str:
        return f"{self.mode}, {_count(self.nodes, 'node')}, {self.resolution}, {_count(self.vehicles, 'vehicle')}"


@dataclass(frozen=True)
class Plan:
    """The experiment. An episode lasts ``ticks`` ticks or ``episode_s``, whichever comes first, after a time to settle.

    In lockstep ticks come as fast as they can, in real time one every ``step_s``.
    """

    nodes: tuple[int, ...]
    vehicles: tuple[int, ...] = VEHICLES
    resolutions: tuple[Resolution, ...] = RESOLUTIONS
    modes: tuple[Mode, ...] = MODES
    map_name: str = "town"
    step_s: float = 0.05
    settle_s: float = 2.0
    ticks: int = 400
    episode_s: float = 8.0
    threads: int = 1

    def __post_init__(self) -> None:
        _checked("numbers of nodes", self.nodes, 1024)
        _checked("numbers of vehicles", self.vehicles, _MOST_VEHICLES)
        if not self.resolutions or not self.modes:
            raise InputError("at least one resolution and one mode was wanted, but none came")
        for name in ("step_s", "settle_s", "episode_s", "ticks", "threads"):
            if not 0.0 < getattr(self, name) < 1e6:
                raise InputError(f"a positive {name} was wanted, but {getattr(self, name)!r} came")

    def cells(self) -> tuple[Cell, ...]:
        """All episodes in the order in which they are run: vehicles are only ever added."""
        return tuple(
            Cell(mode, nodes, resolution, vehicles)
            for nodes in self.nodes
            for mode in self.modes
            for resolution in self.resolutions
            for vehicles in self.vehicles
        )

    def digest(self) -> str:
        """A name for the experiment: results of another one are not mixed with its own."""
        return fingerprint(asdict(self))


def quick(nodes: Sequence[int]) -> Plan:
    """An experiment of about two minutes: few vehicles, short episodes, the smallest and the largest number of nodes."""
    ends = tuple(sorted({min(nodes), max(nodes)}))
    return Plan(ends, QUICK_VEHICLES, settle_s=0.4, ticks=150, episode_s=1.0)


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _checked(what: str, values: tuple[int, ...], most: int) -> None:
    rising = all(a < b for a, b in pairwise(values))
    if not values or not rising or values[0] < 1 or values[-1] > most:
        words = ",".join(map(str, values)) or "nothing"
        raise InputError(f"rising {what} from 1 to {most} were wanted, but {words} came")
