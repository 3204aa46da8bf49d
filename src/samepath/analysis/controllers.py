"""Controllers: is it the ego controller or the world that varies?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from samepath.analysis.cell import CellAnalysis
from samepath.analysis.comparisons import compare_rates, compare_sizes
from samepath.analysis.factors import find_twins, variant_of
from samepath.analysis.inference import clopper_pearson
from samepath.base.units import format_length

IN_LOOP: Final = "in-loop"
REPLAYED: Final = "replayed"
_SAYS: Final = {
    "controller": "the controller is the source",
    "world": "the world varies by itself; that the controller adds to it is not shown",
    "both": "the world varies by itself, and the controller adds to it",
    "neither": "neither the controller nor the world is seen to vary",
    "replay": "only the replay varies: replaying is not exact here, and nothing follows for the controller",
    "undecided": "only the runs with the controller vary, but so few that chance explains it",
}


@dataclass(frozen=True)
class Side:
    """One of the two cells: its repeats, how many diverge from the largest outcome, and the largest deviation."""

    cell: str
    repeats: int
    divergent: int
    max_deviation_m: float | None

    @property
    def varies(self) -> bool:
        """Has it more than one outcome?"""
        return self.divergent > 0


@dataclass(frozen=True)
class ControllerSource:
    """The same world with the controller in the loop and with its recorded commands replayed (the paper, VII-C5).

    ``source``: "controller" (only runs with the controller vary), "world" (both vary), "both" (both vary, the runs with the
    controller more), "neither", "replay" (only the replay varies), or "undecided" (only runs with the controller vary, but not
    beyond chance). ``p_value`` is that of the comparison; None where neither varies.
    """

    variant: str
    simulator: str
    scenario: str
    in_loop: Side
    replayed: Side
    source: str
    p_value: float | None
    confidence: float

    def words(self) -> str:
        """Say which of the two varies, and the evidence."""
        loop = self._side("with the controller in the loop", self.in_loop)
        replay = self._side("with its commands replayed", self.replayed)
        chance = "" if self.p_value is None else f" (p = {self.p_value:.2g})"
        return f"{self.variant}, {self.scenario}: {_SAYS[self.source]}: {loop}; {replay}{chance}"

    def _side(self, what: str, side: Side) -> str:
        if side.varies:
            far = format_length(side.max_deviation_m or 0.0)
            return f"{what} {side.divergent} of {side.repeats} repeats diverge, by up to {far} from the mean"
        upper = clopper_pearson(0, side.repeats, self.confidence)[1]
        return f"{what} all {side.repeats} repeats are the same (true rate below {100 * upper:.3g} %)"


def find_controllers(cells: Sequence[CellAnalysis], confidence: float = 0.95) -> tuple[ControllerSource, ...]:
    """Hold cells against each other that are equal but for the condition ``controller``."""
    found = []
    for twins in find_twins(cells, "controller"):
        if IN_LOOP in twins and REPLAYED in twins:
            loop, replay = twins[IN_LOOP], twins[REPLAYED]
            source, p_value = _source(loop, replay, 1 - confidence)
            header = loop.header
            sides = _side(loop), _side(replay)
            found.append(
                ControllerSource(variant_of(header), header.simulator, header.scenario, *sides, source, p_value, confidence)
            )
    return tuple(found)


def _side(cell: CellAnalysis) -> Side:
    return Side(cell.header.cell, cell.repeats, cell.divergent, cell.summary.max_deviation_m)


def _source(loop: CellAnalysis, replay: CellAnalysis, threshold: float) -> tuple[str, float | None]:
    rate = compare_rates((replay.divergent, replay.repeats), (loop.divergent, loop.repeats))
    match loop.divergent > 0, replay.divergent > 0:
        case False, False:
            return "neither", None
        case False, True:
            return "replay", rate.p_value
        case True, False:
            certain = rate.p_value is not None and rate.p_value < threshold
            return "controller" if certain else "undecided", rate.p_value
    size = compare_sizes([[pair.apart_m for pair in cell.pairs] for cell in (replay, loop)], (0.0, 1.0))
    adds = size.p_value is not None and size.p_value < threshold and size.sign > 0
    return "both" if adds else "world", size.p_value
