"""Where variance comes from: state that leaks between repeats of a process, and the ego controller against the world.

A leak (a cache, a generator that is not reset, memory laid out by what ran before) makes repeats of one process depend on their
place in it. It is looked for in two ways: the first repeats of processes against later ones, and a cell whose repeats share
processes against the same cell in fresh ones. The controller is told from the world by replaying its recorded commands: what
still varies is the world's.

Which share of the variance is the world's, the ego's, and that of what the ego sees?

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

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.units import format_length
from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.analysis.divergence import RepeatDeviation
from samepath.instrument.analysis.effects import SignedResult, combine, compare_rates, compare_sizes, correct
from samepath.instrument.analysis.factors import by_variant, find_twins, variant_of
from samepath.instrument.analysis.verdict import largest_outcome_upper

SHARED: Final = ("batch", "inline")
FRESH: Final = ("process", "cold")


@dataclass(frozen=True)
class Leak:
    """The result of one comparison that would show state leaking between repeats of a process.

    ``kind`` "position": repeats that are the first of their process against later ones, over all cells of a variant (``cell``
    is then "24 cells" or the like) or in one; ``twin`` is empty. ``kind`` "twin": a cell whose repeats share processes against
    the same cell run in fresh ones. ``leaks`` is None where it cannot be told. ``p_value`` is corrected for the number of
    comparisons; None where all repeats have the same bits.
    """

    kind: str
    variant: str
    scenario: str
    cell: str
    twin: str
    leaks: bool | None
    p_value: float | None
    text: str

    def words(self) -> str:
        """Say it in one line."""
        return f"{self.variant}, {self.cell}: {self.text}"


def find_leaks(cells: Sequence[CellAnalysis], confidence: float = 0.95) -> tuple[Leak, ...]:
    """Look at every variant whose repeats share processes, and at every such cell that has a twin in fresh processes."""
    made = [comparison for variant, members in by_variant(cells).items() for comparison in _by_position(variant, members)]
    for twins in find_twins(cells, "isolation"):
        for shared in SHARED:
            made += [_by_twin(twins[shared], twins[fresh]) for fresh in FRESH if shared in twins and fresh in twins]
    # All together, as with effects: a study of fifty cells makes fifty comparisons, and chance alone would show two or three.
    corrected = iter(correct([comparison.p_value for comparison in made if comparison.p_value is not None]))
    leaks = []
    for comparison in made:
        p_value = None if comparison.p_value is None else next(corrected)
        leak = comparison.conclude(p_value, 1 - confidence)
        if leak.leaks or not comparison.only_if_shown:
            leaks.append(leak)
    return tuple(leaks)


@dataclass(frozen=True)
class _Comparison:
    """A comparison before its p-value is corrected, and what to say if it shows something and if it does not."""

    kind: str
    variant: str
    scenario: str
    cell: str
    twin: str
    p_value: float | None
    attainable: float
    is_leak: bool | None
    shown: str
    not_shown: str
    only_if_shown: bool = False

    def conclude(self, corrected: float | None, threshold: float) -> Leak:
        leaks: bool | None
        if corrected is None:
            leaks, text = False, self.not_shown
        elif corrected < threshold:
            leaks, text = self.is_leak, f"{self.shown} (corrected p = {corrected:.2g})"
        # With so few repeats no result at all could have come below the threshold: that none did says nothing.
        elif self.attainable >= threshold:
            leaks, text = None, f"{self.not_shown}, but these are too few to tell"
        else:
            leaks, text = False, f"{self.not_shown} (corrected p = {corrected:.2g})"
        return Leak(self.kind, self.variant, self.scenario, self.cell, self.twin, leaks, corrected, text)


@dataclass(frozen=True)
class _ProcessOrder:
    """A cell's repeats in the order of their processes: the first of each process, and the later ones."""

    cell: CellAnalysis
    first: tuple[RepeatDeviation, ...]
    later: tuple[RepeatDeviation, ...]

    @property
    def odd(self) -> tuple[int, int]:
        """How many first and how many later repeats are not of the largest outcome."""
        largest = _largest({outcome.digest: len(outcome.repeats) for outcome in self.cell.outcomes})
        usual = {repeat for outcome in self.cell.outcomes if outcome.digest == largest for repeat in outcome.repeats}
        return sum(deviation.repeat not in usual for deviation in self.first), sum(
            deviation.repeat not in usual for deviation in self.later
        )

    def tests(self) -> tuple[SignedResult, SignedResult]:
        """Are first repeats odd more or less often, and are they farther from the mean path or nearer?"""
        rates = compare_rates((self.odd[0], len(self.first)), (self.odd[1], len(self.later)))
        deviations_m = [[deviation.max_deviation_m for deviation in group] for group in (self.first, self.later)]
        return rates, compare_sizes(deviations_m, (0.0, 1.0))


def _by_position(variant: str, cells: Sequence[CellAnalysis]) -> list[_Comparison]:
    """Hold the first repeats of their processes against later ones: over all cells of a variant, then in each one."""
    orders = [order for cell in cells if (order := _order(cell)) is not None]
    if not orders:
        return []
    varying = [order for order in orders if len(order.cell.outcomes) > 1]
    count = _count(orders)
    who = orders[0].cell.header.cell if len(orders) == 1 else f"{len(orders)} cells"
    if not varying:
        same = f"no sign that state leaks between repeats: {count}, all bit-identical within their cell"
        return [_Comparison("position", variant, "", who, "", None, 0.0, None, "", same)]
    both = [order.tests() for order in varying]
    pooled = [combine([rates for rates, _ in both]), combine([sizes for _, sizes in both])]
    singles = []
    for order, tests in zip(varying, both, strict=True):
        header = order.cell.header
        where = ("position", variant, header.scenario, header.cell, "")
        follows = _follows_from_position(order)
        p_value, attainable = _smallest(tests, follows)
        texts = _shown([order], tests, follows), f"no sign that state leaks between repeats in {_count([order])}"
        singles.append(_Comparison(*where, p_value, attainable, True, *texts, only_if_shown=len(orders) > 1))
    if len(orders) == 1:
        return singles
    texts = _shown(varying, pooled), f"no sign that state leaks between repeats in {count}"
    return [_Comparison("position", variant, "", who, "", *_smallest(pooled), True, *texts), *singles]


def _order(cell: CellAnalysis) -> _ProcessOrder | None:
    """Sort a cell's repeats by their place; None where nothing is known of it or every process ran one repeat."""
    positions = {place.repeat: place.position for place in cell.places}
    known = [deviation for deviation in cell.deviations if deviation.repeat in positions]
    first = tuple(deviation for deviation in known if positions[deviation.repeat] == 0)
    later = tuple(deviation for deviation in known if positions[deviation.repeat] > 0)
    return _ProcessOrder(cell, first, later) if first and later else None


def _count(orders: Sequence[_ProcessOrder]) -> str:
    first, later = sum(len(order.first) for order in orders), sum(len(order.later) for order in orders)
    return f"{first + later} repeats in {first} process{'es' if first > 1 else ''}"


def _shown(orders: Sequence[_ProcessOrder], tests: Sequence[SignedResult], follows: float = 1.0) -> str:
    """Say what shows the leak: the outcomes, or else the distances."""
    rates, sizes = (1.0 if test.p_value is None else test.p_value for test in tests)
    if follows < min(rates, sizes):
        return "state leaks between repeats: the outcome depends on how many repeats the process ran before"
    if rates <= sizes:
        first, later = sum(len(order.first) for order in orders), sum(len(order.later) for order in orders)
        odd_first, odd_later = (sum(order.odd[side] for order in orders) for side in (0, 1))
        return (
            f"state leaks between repeats: {odd_first} of {first} repeats that were the first of their process differ from the "
            f"usual outcome of their cell, but {odd_later} of {later} later ones"
        )
    way = "farther from" if tests[1].sign < 0 else "nearer to"
    return f"state leaks between repeats: the first ones of their process are {way} the mean path than later ones"


def _by_twin(cell: CellAnalysis, twin: CellAnalysis) -> _Comparison:
    """Hold a cell whose repeats share processes against the same cell in fresh ones: the same outcomes, as far apart?"""
    apart = f"in fresh processes ({twin.header.cell})"
    both = Counter({outcome.digest: len(outcome.repeats) for outcome in cell.outcomes})
    both.update({outcome.digest: len(outcome.repeats) for outcome in twin.outcomes})
    count = f"{cell.repeats} repeats that share processes and {twin.repeats} {apart}"
    header = cell.header
    who = ("twin", variant_of(header), header.scenario, header.cell, twin.header.cell)
    if len(both) == 1:
        return _Comparison(*who, None, 0.0, None, "", f"no sign that state leaks between repeats: {count} have the same bits")
    usual = _largest(both)
    odd = [sum(len(outcome.repeats) for outcome in side.outcomes if outcome.digest != usual) for side in (cell, twin)]
    tests = [
        compare_rates((odd[1], twin.repeats), (odd[0], cell.repeats)),
        compare_sizes([[pair.apart_m for pair in side.pairs] for side in (twin, cell)], (0.0, 1.0)),
    ]
    p_value, attainable = _smallest(tests)
    varies = (len(cell.outcomes) > 1, len(twin.outcomes) > 1)
    is_leak, shown = {
        (True, False): (True, f"state leaks between repeats: they vary when they share a process and do not {apart}"),
        (False, False): (True, f"state leaks between repeats: they always end elsewhere than {apart}"),
        (False, True): (
            False,
            f"no leak: repeats vary only {apart}, so the source is something that differs between processes",
        ),
        (True, True): (None, f"repeats vary in shared processes and {apart}, but differently: sharing a process has an effect"),
    }[varies]
    not_shown = f"no difference is shown between {count}"
    return _Comparison(*who, p_value, attainable, is_leak, shown, not_shown)


def _largest(sizes: Mapping[str, int]) -> str:
    """The digest that most repeats have. Ties go by the digest itself: by the order of repeats they would favour first ones."""
    return min(sizes, key=lambda digest: (-sizes[digest], digest))


def _smallest(tests: Sequence[SignedResult], *bounds: float) -> tuple[float, float]:
    """The smallest p-value of several tests of the same repeats, times their number; and the smallest that it could be."""
    count = len(tests) + len(bounds)
    found = [1.0 if test.p_value is None else test.p_value for test in tests]
    return min(1.0, count * min(*found, *bounds)), min(1.0, count * min(test.attainable for test in tests))


def _follows_from_position(order: _ProcessOrder) -> float:
    """Bound the chance that the outcome is a function of the position though it has nothing to do with it; 1 if it is none.

    Of all ways to deal the outcomes to the repeats, no more than outcomes ^ positions are functions of the position.
    """
    positions = {place.repeat: place.position for place in order.cell.places}
    seen: dict[int, set[int]] = {}
    sizes = []
    for index, outcome in enumerate(order.cell.outcomes):
        members = [repeat for repeat in outcome.repeats if repeat in positions]
        sizes.append(len(members))
        for repeat in members:
            seen.setdefault(positions[repeat], set()).add(index)
    if any(len(outcomes) > 1 for outcomes in seen.values()):
        return 1.0
    ways = math.lgamma(sum(sizes) + 1) - sum(math.lgamma(size + 1) for size in sizes)
    return math.exp(min(0.0, len(seen) * math.log(len(sizes)) - ways))


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
class ControllerSide:
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
    in_loop: ControllerSide
    replayed: ControllerSide
    source: str
    p_value: float | None
    confidence: float

    def words(self) -> str:
        """Say which of the two varies, and the evidence."""
        loop = self._side("with the controller in the loop", self.in_loop)
        replay = self._side("with its commands replayed", self.replayed)
        chance = "" if self.p_value is None else f" (p = {self.p_value:.2g})"
        return f"{self.variant}, {self.scenario}: {_SAYS[self.source]}: {loop}; {replay}{chance}"

    def _side(self, what: str, side: ControllerSide) -> str:
        if side.varies:
            far = format_length(side.max_deviation_m or 0.0)
            return f"{what} {side.divergent} of {side.repeats} repeats diverge, by up to {far} from the mean"
        upper = largest_outcome_upper(0, side.repeats, self.confidence)
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


def _side(cell: CellAnalysis) -> ControllerSide:
    return ControllerSide(cell.header.cell, cell.repeats, cell.divergent, cell.summary.max_deviation_m)


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


SEES_REPLAYED, EGO_REPLAYED = "sees-replayed", "ego-replayed"
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
