"""What is measured: kinds and numbers of nodes, resolutions, rising numbers of vehicles, repeats, and for how long."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

from samepath.core.digests import fingerprint
from samepath.core.errors import InputError

Mode = Literal["lockstep", "real time"]
MODES: Final[tuple[Mode, ...]] = ("lockstep", "real time")
Kind = Literal["equal", "unequal", "by turns", "card"]
KINDS: Final[tuple[Kind, ...]] = ("equal", "unequal", "by turns", "card")
"""Equal nodes; unequal ones that share the work by measured cost; unequal ones that take turns, as in the thesis; and nodes of
which the first draws with an NVIDIA card (``cuda``), the others without."""
USUAL_KINDS: Final = KINDS[:3]
"""Those that need no card."""
NODES: Final = (1, 2, 3, 4)
VEHICLES: Final = (1, 2, 4, 6, 8, 10, 15, 20, 30, 40)
QUICK_VEHICLES: Final = (2, 8, 16)
REAL_TIME_VEHICLES: Final = (8, 40)
REPEATS: Final = 3
LEAST_FRAMES_PER_S: Final = 10.0
"""Below so many steps a second CARLA 0.9 no longer ran in real time: the limit that the thesis marks in its figures."""
LEAST_TICKS: Final = 5
"""So many an episode lasts at least, whatever the budget."""
SETTLE_TICKS: Final = 2
_MOST_VEHICLES: Final = 250

# What a tick costs, roughly, in seconds: only to share out a budget before anything is measured. Per picture by its pixels, per
# vehicle (its driver), per tick; then what an episode and a cluster cost beside their ticks.
_PICTURE_S, _PIXEL_S, _VEHICLE_S, _TICK_S = 0.9e-3, 1.1e-8, 0.15e-3, 3e-3
_EPISODE_S, CLUSTER_S, _EIGHT_S = 0.08, 5.0, 30.0
_EIGHT_ALL_FROM_S: Final = 900.0


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

    @property
    def pixels(self) -> int:
        return self.width * self.height


RESOLUTIONS: Final = (Resolution(180, 120), Resolution(360, 240), Resolution(720, 480), Resolution(1440, 960))


class NodeSet(NamedTuple):
    """The nodes of a cluster."""

    kind: Kind
    nodes: int

    def __str__(self) -> str:
        words = "unequal " if self.kind in ("unequal", "by turns") else ""
        card = " with a card" if self.nodes == 1 else ", one with a card"
        behind = {"by turns": " by turns", "card": card}.get(self.kind, "")
        return f"{self.nodes} {words}node{'' if self.nodes == 1 else 's'}{behind}"


class Cell(NamedTuple):
    """One episode of the experiment, by what is varied; repeats are counted from 1."""

    repeat: int
    mode: Mode
    node_set: NodeSet
    resolution: Resolution
    vehicles: int

    def __str__(self) -> str:
        return f"repeat {self.repeat}, {self.mode}, {self.node_set}, {self.resolution}, {_count(self.vehicles, 'vehicle')}"

    @property
    def least_s(self) -> float:
        """What it takes at least, roughly: so that a budget can be shared out, nothing else."""
        each_s = _PICTURE_S + _PIXEL_S * self.resolution.pixels
        drawn_s = each_s * self.vehicles / (self.node_set.nodes if self.node_set.kind in ("equal", "card") else 2)
        return _EPISODE_S + (LEAST_TICKS + SETTLE_TICKS) * (_TICK_S + drawn_s + _VEHICLE_S * self.vehicles)


@dataclass(frozen=True)
class Plan:
    """The experiment. An episode lasts ``ticks`` ticks or ``episode_s``, whichever comes first, after a time to settle.

    In lockstep ticks come as fast as they can, in real time one every ``step_s``. Real time is measured with the fewest and the
    most equal nodes, at the smallest and the largest resolution. With ``budget_s`` the time of each episode follows from what
    is left of that, at least ``LEAST_TICKS`` ticks; ``left_out`` are numbers of vehicles for which there was no time.
    """

    nodes: tuple[int, ...] = NODES
    kinds: tuple[Kind, ...] = USUAL_KINDS
    vehicles: tuple[int, ...] = VEHICLES
    resolutions: tuple[Resolution, ...] = RESOLUTIONS
    modes: tuple[Mode, ...] = MODES
    eight: bool = True
    repeats: int = REPEATS
    map_name: str = "town"
    traffic: str = "carla"
    step_s: float = 0.05
    settle_s: float = 1.0
    ticks: int = 200
    episode_s: float = 4.0
    budget_s: float | None = None
    left_out: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _checked("numbers of nodes", self.nodes, 1024)
        _checked("numbers of vehicles", self.vehicles, _MOST_VEHICLES)
        if not self.resolutions or not (self.modes or self.eight) or not self.kinds:
            raise InputError("at least one resolution, one kind of nodes and one mode was wanted, but none came")
        for name in ("step_s", "settle_s", "episode_s", "ticks", "repeats"):
            if not 0.0 < getattr(self, name) < 1e6:
                raise InputError(f"a positive {name} was wanted, but {getattr(self, name)!r} came")

    def node_sets(self) -> tuple[NodeSet, ...]:
        """The clusters that are measured. Taking turns is measured with the most nodes only: it is there to be compared."""
        return tuple(
            NodeSet(kind, nodes)
            for kind in self.kinds
            for nodes in (self.nodes if kind != "by turns" else self.nodes[-1:])
            if kind != "by turns" or nodes > 1
        )

    def cells(self) -> tuple[Cell, ...]:
        """All episodes in the order in which they are run: repeat after repeat, and vehicles are only ever added."""
        return tuple(
            Cell(repeat, mode, node_set, resolution, vehicles)
            for repeat in range(1, self.repeats + 1)
            for node_set in self.node_sets()
            for mode in self.modes
            for resolution in self.resolutions
            for vehicles in self._vehicles(mode)
            if self._has(mode, node_set, resolution)
        )

    def _vehicles(self, mode: Mode) -> tuple[int, ...]:
        if mode == "lockstep":
            return self.vehicles
        return tuple(count for count in self.vehicles if count in REAL_TIME_VEHICLES) or self.vehicles[-1:]

    def _has(self, mode: Mode, node_set: NodeSet, resolution: Resolution) -> bool:
        is_end = resolution in (min(self.resolutions), max(self.resolutions))
        if mode == "real time":
            return node_set.kind == "equal" and node_set.nodes in (self.nodes[0], self.nodes[-1]) and is_end
        return is_end or node_set.kind != "by turns"

    def digest(self) -> str:
        """A name for the experiment: results of another one are not mixed with its own. More repeats are the same one."""
        varied: dict[str, Any] = asdict(self) | {"repeats": None, "budget_s": self.budget_s is not None}
        if self.budget_s is not None:  # then the time of an episode is in its own record
            varied |= {"settle_s": None, "ticks": None, "episode_s": None}
        return fingerprint(varied)

    @property
    def eight_sizes(self) -> tuple[Resolution, ...]:
        """At which resolutions vehicles with eight cameras are tried: with little time at the smallest and the largest."""
        if not self.eight:
            return ()
        ends = tuple(sorted({min(self.resolutions), max(self.resolutions)}))
        return ends if self.budget_s is not None and self.budget_s < _EIGHT_ALL_FROM_S else self.resolutions

    def least_s(self) -> float:
        """What all of it takes at least, roughly."""
        eight_s = _EIGHT_S * len(self.eight_sizes)
        clusters = self.repeats * len(self.node_sets()) * bool(self.modes)
        return eight_s + CLUSTER_S * clusters + sum(cell.least_s for cell in self.cells())

    def eight_guess(self, resolution: Resolution, nodes: int) -> int:
        """Vehicles with eight cameras at ten pictures a second that these nodes might draw, roughly: where to begin looking."""
        return max(1, int(0.5 * nodes / (80.0 * (_PICTURE_S + _PIXEL_S * resolution.pixels))))

    def within(self, budget_s: float) -> "Plan":
        """The same in so much time: where even the shortest episodes take longer, fewer numbers of vehicles are tried."""
        plan = replace(self, budget_s=budget_s)
        while plan.least_s() > budget_s and len(plan.vehicles) > 4:
            # The first and the last stay. Of the others the one goes that leaves the smallest gap, by ratio: curves keep their
            # shape. Of equals the largest, which takes longest.
            around = zip(plan.vehicles, plan.vehicles[1:-1], plan.vehicles[2:], strict=False)
            gone = min(around, key=lambda three: (three[2] / three[0], -three[1]))[1]
            kept = tuple(count for count in plan.vehicles if count != gone)
            plan = replace(plan, vehicles=kept, left_out=tuple(sorted((*plan.left_out, gone))))
        if plan.least_s() > budget_s:
            raise InputError(
                f"--budget-s {budget_s:g}: about {plan.least_s():.0f} s were wanted at least: fewer --repeats, or --quick"
            )
        return plan

    def plain(self) -> dict[str, Any]:
        """The plan as JSON data."""
        own = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        return own | {"resolutions": [str(size) for size in self.resolutions]}


def quick(plan: Plan) -> Plan:
    """An experiment of about two minutes: few vehicles, short episodes, the smallest and the largest number of nodes, once."""
    ends = tuple(sorted({min(plan.nodes), max(plan.nodes)}))
    sizes = (min(plan.resolutions), max(plan.resolutions))
    short = replace(plan, nodes=ends, kinds=("equal", "unequal"), vehicles=QUICK_VEHICLES, resolutions=sizes)
    return replace(short, repeats=1, settle_s=0.3, ticks=60, episode_s=0.7)


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _checked(what: str, values: Sequence[int], most: int) -> None:
    rising = all(a < b for a, b in pairwise(values))
    if not values or not rising or values[0] < 1 or values[-1] > most:
        words = ",".join(map(str, values)) or "nothing"
        raise InputError(f"rising {what} from 1 to {most} were wanted, but {words} came")
