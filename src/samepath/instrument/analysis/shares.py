"""Which share of the variance is the world's, the ego's, and that of what the ego sees?

The paper asks to treat the controller of an ego vehicle as a source of its own (Section VII-C5), and warns that frames which
arrive late may disturb a perception stack (Section III). Three cells tell them apart. They are alike but for the condition
``controller``:

* ``in-loop``: everything goes on by itself. Its variance is V.
* ``sees-replayed``: the ego's sensors are shown one recorded run, step by step; all else as before. What varies no longer comes
  from what is seen: V_s.
* ``ego-replayed``: the ego's commands are those of one recorded run. What still varies is the world
  with everybody else in it: V_w.

So the sensors' share is (V - V_s) / V, the ego's own (V_s - V_w) / V, the world's V_w / V. The variance of a cell is that of
positions, summed over axes, in the mean over all ticks and actors that every repeat of all three cells has. Variances are
estimates: a difference may come out below 0, which is said as 0, and whether a difference is more than chance is asked of pairs
of repeats, as everywhere (:func:`~samepath.instrument.analysis.effects.compare_sizes`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.analysis.effects import compare_sizes
from samepath.instrument.analysis.factors import find_twins, variant_of

IN_LOOP, SEES_REPLAYED, EGO_REPLAYED = "in-loop", "sees-replayed", "ego-replayed"
_LEVELS: Final = (IN_LOOP, SEES_REPLAYED, EGO_REPLAYED)


@dataclass(frozen=True)
class VarianceShares:
    """The three cells and what of the variance each source has.

    ``variance_m2`` are V, V_s and V_w of the module's text; ``columns`` is how many pairs of tick and actor they are the mean
    of. Shares are of V and add up to 1; None where nothing varies. ``p_sensors`` and ``p_ego`` say how probable such a
    difference of distances is where there is none; None where both sides are all the same.
    """

    variant: str
    scenario: str
    cells: tuple[str, str, str]
    repeats: tuple[int, int, int]
    columns: int
    variance_m2: tuple[float, float, float]
    sensors: float | None
    ego: float | None
    world: float | None
    p_sensors: float | None
    p_ego: float | None
    confidence: float

    def words(self) -> str:
        """Say it in one line."""
        who = f"{self.variant}, {self.scenario}"
        if self.sensors is None or self.ego is None or self.world is None:
            return f"{who}: nothing varies with the ego in the loop: there is no variance to share out"
        parts = [
            f"{100 * self.sensors:.3g} % from what the ego sees{self._shown(self.p_sensors)}",
            f"{100 * self.ego:.3g} % from the ego itself{self._shown(self.p_ego)}",
        ]
        rest = f"{100 * self.world:.3g} % from the world and everybody else"
        whole, seen, world = (f"{value:.3g}" for value in self.variance_m2)
        held = f"mean variance {whole} m², {seen} with its sensors shown a recorded run, {world} with its commands replayed"
        return f"{who}: the variance of positions comes to {', '.join(parts)} and {rest} ({held})"

    def _shown(self, p_value: float | None) -> str:
        if p_value is None:
            return ""
        doubt = "" if p_value < 1 - self.confidence else "not shown to be more than chance, "
        return f" ({doubt}p = {p_value:.2g})"


def find_shares(cells: Sequence[CellAnalysis], confidence: float = 0.95) -> tuple[VarianceShares, ...]:
    """Share out the variance of cells that are equal but for the condition ``controller``, where all three levels were run."""
    groups = [twins for twins in find_twins(cells, "controller") if all(level in twins for level in _LEVELS)]
    return tuple(_shares([twins[level] for level in _LEVELS], confidence) for twins in groups)


def _shares(three: Sequence[CellAnalysis], confidence: float) -> VarianceShares:
    columns = _common(three)
    whole, seen, world = (_variance_m2(cell, columns) for cell in three)
    # Held parts can only take variance away; what comes out as more is chance, and said as none.
    seen = min(seen, whole)
    world = min(world, seen)
    distances = [[pair.apart_m for pair in cell.pairs] for cell in three]
    header = three[0].header
    return VarianceShares(
        variant=variant_of(header),
        scenario=header.scenario,
        cells=(three[0].header.cell, three[1].header.cell, three[2].header.cell),
        repeats=(three[0].repeats, three[1].repeats, three[2].repeats),
        columns=len(columns),
        variance_m2=(whole, seen, world),
        sensors=_share(whole - seen, whole),
        ego=_share(seen - world, whole),
        world=_share(world, whole),
        p_sensors=compare_sizes([distances[1], distances[0]], (0.0, 1.0)).p_value,
        p_ego=compare_sizes([distances[2], distances[1]], (0.0, 1.0)).p_value,
        confidence=confidence,
    )


def _share(part: float, whole: float) -> float | None:
    return None if whole == 0.0 else part / whole


def _common(cells: Sequence[CellAnalysis]) -> frozenset[tuple[int, int]]:
    """The pairs of tick and actor that every repeat of all cells has."""
    found: frozenset[tuple[int, int]] | None = None
    for cell in cells:
        whole = _counts(cell) == cell.repeats
        ticks, actors = np.nonzero(whole.reshape(cell.spread.shape))
        here = frozenset(zip(cell.spread.ticks[ticks].tolist(), cell.spread.actor_ids[actors].tolist(), strict=True))
        found = here if found is None else found & here
    return found or frozenset()


def _counts(cell: CellAnalysis) -> NDArray[np.int64]:
    return np.asarray(cell.spread.channels[cell.spread.axes[0]].count, np.int64)


def _variance_m2(cell: CellAnalysis, columns: frozenset[tuple[int, int]]) -> float:
    spread = cell.spread
    sigma = spread.total_sigma().reshape(spread.shape)
    rows = {tick: row for row, tick in enumerate(spread.ticks.tolist())}
    places = {actor: place for place, actor in enumerate(spread.actor_ids.tolist())}
    # In a fixed order, so that the same traces give the same figure to the bit.
    values = [float(sigma[rows[tick], places[actor]]) ** 2 for tick, actor in sorted(columns)]
    return sum(values) / len(values) if values else 0.0
