"""The records of a plan: a study file, checked and spelled out. Frozen, plain, and able to go through JSON unchanged."""

from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from samepath.core.digests import fingerprint
from samepath.core.verdicts import Verdict

Scalar = str | float | int | bool
MAX_REPEATS: Final = 1_000_000


class Isolation(StrEnum):
    """What the repeats of a cell share.

    ``process``: each repeat has a process of its own, forked from a server that has imported the code and run nothing.
    ``batch``: ``repeats_per_process`` repeats follow each other in one such process: what one leaves behind, the next finds.
    ``cold``: each repeat starts an interpreter of its own: hash seed, address layout and every import are new.
    ``inline``: all repeats run in samepath's own process. The fastest, and there is no watchdog.
    """

    PROCESS = "process"
    BATCH = "batch"
    COLD = "cold"
    INLINE = "inline"


class Order(StrEnum):
    """In which order cells are run.

    ``random``: shuffled anew in every block. ``split-plot``: machine loads are hard to change, so that each level is set once
    a block, levels in random order, cells within a level in random order. ``listed``: as the file has them.
    """

    RANDOM = "random"
    SPLIT_PLOT = "split-plot"
    LISTED = "listed"


class Combination(StrEnum):
    """How the levels of several factors are combined."""

    FULL = "full-factorial"
    ONE_AT_A_TIME = "one-at-a-time"
    FRACTIONAL = "fractional-factorial"
    PLACKETT_BURMAN = "plackett-burman"


@dataclass(frozen=True)
class Factor:
    """What a study varies on purpose: a condition of the host or a setting of the simulator. The first level is the base."""

    name: str
    kind: str  # "condition" or "setting"
    levels: tuple[Scalar, ...]


@dataclass(frozen=True)
class PlannedCell:
    """A cell to be run: ``folder`` is its place in the study's folder.

    ``variant`` tells apart the ways in which one simulator is used; it is the simulator's name where there is only one.
    ``expect`` is what must be found; None where nothing is said, or where fewer repeats are run than the file stated.
    ``optional``: where its simulator is not installed, the cell is left out and the study is run without it. ``until`` says
    when fewer repeats than ``repeats`` are enough; empty where they are all run.
    """

    name: str
    folder: str
    simulator: str
    scenario: str
    settings: dict[str, Scalar]
    condition: dict[str, Scalar]
    repeats: int
    expect: Verdict | None = None
    variant: str = ""
    optional: bool = False
    until: str = ""


@dataclass(frozen=True)
class Slot:
    """A stretch of a study: these repeats of one cell, run one after the other. Slots are run in the plan's order."""

    block: int
    cell: int
    first: int
    stop: int


@dataclass(frozen=True)
class Execution:
    """Stage four. ``watchdog_s`` None: twenty times what the rehearsal took, at least a minute.

    ``processes`` is how many measured repeats may run on one host at once; with more than one they disturb each other.
    """

    isolation: Isolation = Isolation.PROCESS
    repeats_per_process: int = 50
    processes: int = 1
    watchdog_s: float | None = None
    order: Order = Order.RANDOM
    blocks: int = 1
    settle_s: float = 6.0
    load_tool: str = "auto"  # auto, stress-ng or samepath


@dataclass(frozen=True)
class Judging:
    """Stage five: how to judge. ``restrict`` are the filters of Table I's restricted column.

    ``monitors`` is what a monitor file would hold, as plain data; empty where the study has none. ``limits`` are those of
    quantities besides positions, as written.
    """

    criterion: str = "deviation"
    split_at: str = "collision"
    structure: str = "fail"
    restrict: tuple[str, ...] = ()
    confidence: float = 0.95
    monitors: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """A study, checked and spelled out. ``slots`` is the order in which it is run, drawn from the seed and kept.

    ``notes`` say what the design cannot tell: which effects are mixed with which.
    """

    name: str
    description: str
    tolerance_m: float
    seed: int
    log_every: int
    cells: tuple[PlannedCell, ...]
    duration_s: float | None = None
    factors: tuple[Factor, ...] = ()
    combination: Combination = Combination.FULL
    execution: Execution = field(default_factory=Execution)
    judging: Judging = field(default_factory=Judging)
    slots: tuple[Slot, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Name of everything held equal: a folder begun under one plan is only continued under the same.

        Neither the number of repeats nor the order is part of it, so that a study can be extended; nor is how it is judged, nor
        what may be left out.
        """
        varying = ("repeats", "until", "expect", "optional")
        cells = [{key: value for key, value in cell.__dict__.items() if key not in varying} for cell in self.cells]
        held = {"isolation": self.execution.isolation.value, "repeats_per_process": self.execution.repeats_per_process}
        return fingerprint(
            {
                "name": self.name,
                "seed": self.seed,
                "log_every": self.log_every,
                "duration_s": self.duration_s,
                "execution": held,
                "cells": cells,
            }
        )

    @property
    def repeats(self) -> int:
        """How many runs that is."""
        return sum(cell.repeats for cell in self.cells)

    def isolation_of(self, cell: PlannedCell) -> Isolation:
        """Return how a cell's repeats are kept apart: a study may vary even that."""
        return Isolation(str(cell.condition.get("isolation", self.execution.isolation.value)))

    def as_dict(self) -> dict[str, object]:
        """Return the plan as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Plan":
        """Read a plan back; raises KeyError, TypeError or ValueError where it is not one."""
        cells = tuple(
            PlannedCell(**{**cell, "expect": None if cell["expect"] is None else Verdict(cell["expect"])})
            for cell in data["cells"]
        )
        execution = Execution(**data["execution"])
        execution = replace(execution, isolation=Isolation(execution.isolation), order=Order(execution.order))
        return cls(
            **{
                **data,
                "cells": cells,
                "factors": tuple(Factor(**{**factor, "levels": tuple(factor["levels"])}) for factor in data["factors"]),
                "combination": Combination(data["combination"]),
                "execution": execution,
                "judging": Judging(**{**data["judging"], "restrict": tuple(data["judging"]["restrict"])}),
                "slots": tuple(Slot(**slot) for slot in data["slots"]),
                "notes": tuple(data.get("notes", ())),
            }
        )
