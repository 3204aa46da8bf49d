"""Coverage: which situations a test came to, repeat by repeat, and whether that is the same in all of them.

A test that passes in every repeat may still test other things each time. A situation is a lane that was driven on, a band of
speed, a band of distance to the nearest other actor, a collision between two actors, any other event, a way to end.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from samepath.instrument.monitors.view import Floats, RunsView
from samepath.instrument.traces.records import EventKind

SPEED_BANDS_MPS: Final = (0.1, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0)
DISTANCE_BANDS_M: Final = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_MOST_SITUATIONS: Final = 10_000
# Of so many actors distances to the nearest other are looked at: pairs grow with the square.
_MOST_PAIRED: Final = 30


@dataclass(frozen=True, order=True)
class CoveredSituation:
    """Something that happens to an actor (0: to the whole run)."""

    kind: str  # "lane", "speed", "distance", "collision", "event" or "end"
    actor: int
    what: str

    def words(self) -> str:
        who = f"actor {self.actor}, " if self.actor else ""
        return f"{who}{self.kind} {self.what}"


@dataclass(frozen=True)
class CellCoverage:
    """In how many repeats each situation came about. Stable: each in all of them."""

    repeats: int
    situations: tuple[tuple[CoveredSituation, int], ...]

    @property
    def unstable(self) -> tuple[tuple[CoveredSituation, int], ...]:
        """Situations that only some repeats came to, the rarest first."""
        some = [entry for entry in self.situations if entry[1] < self.repeats]
        return tuple(sorted(some, key=lambda entry: (entry[1], entry[0])))

    @property
    def stable(self) -> bool:
        """Does every repeat come to the same situations?"""
        return not self.unstable

    def words(self) -> str:
        """Say it in one line."""
        total = len(self.situations)
        if self.stable:
            return f"all {self.repeats} repeats come to the same {total} situations"
        rare, count = self.unstable[0]
        return (
            f"{total - len(self.unstable)} of {total} situations come about in every repeat; "
            f"{rare.words()} in {count} of {self.repeats}"
        )


class CoverageFinder:
    """Collects situations, block by block."""

    def __init__(self) -> None:
        self._counts: Counter[CoveredSituation] = Counter()
        self._repeats = 0

    def look(self, view: RunsView) -> None:
        """Look at more repeats."""
        self._repeats += len(view.repeats)
        everybody = view.ids("all")
        for actor in everybody:
            self._bands(actor, "speed", view.speed(actor), SPEED_BANDS_MPS, "m/s")
            if len(everybody) > 1 and actor in everybody[:_MOST_PAIRED]:
                distance = view.nearest(actor, everybody, view.distance)
                self._bands(actor, "distance", distance, DISTANCE_BANDS_M, "m")
            if view.scene.roads is not None and not view.is_walker(actor):
                self._lanes(view, actor)
        for run in view.runs:
            found = {
                CoveredSituation("collision", event.actor or 0, _partner(event.other))
                if event.kind == EventKind.COLLISION
                else CoveredSituation("event", event.actor or 0, event.kind)
                for event in run.events
                if event.kind != EventKind.END
            }
            self._counts.update(sorted({*found, CoveredSituation("end", 0, run.end.reason)}))

    def _bands(self, actor: int, kind: str, values: Floats, bands: tuple[float, ...], unit: str) -> None:
        edges = np.array(bands)
        place = np.searchsorted(edges, values, "right")
        for index in range(len(bands) + 1):
            count = int(((place == index) & np.isfinite(values)).any(axis=1).sum())
            if count:
                self._counts[CoveredSituation(kind, actor, _band(bands, index, unit))] += count

    def _lanes(self, view: RunsView, actor: int) -> None:
        numbers = view.on_road(actor, lambda roads, x, y: roads.lane_number(x, y), "lane number")
        names = view.roads.lane_names()
        for number in np.unique(numbers[np.isfinite(numbers)]).astype(int).tolist():
            count = int((numbers == number).any(axis=1).sum())
            self._counts[CoveredSituation("lane", actor, names[number])] += count

    def result(self) -> CellCoverage:
        """What was found, by name."""
        # Of too many those are kept that only some repeats came to: cut off by name, an unstable cell could be called stable.
        rare_first = sorted(self._counts.items(), key=lambda entry: (entry[1] == self._repeats, entry[0]))
        return CellCoverage(self._repeats, tuple(sorted(rare_first[:_MOST_SITUATIONS])))


def _band(bands: tuple[float, ...], index: int, unit: str) -> str:
    if index == 0:
        return f"below {bands[0]:g} {unit}"
    if index == len(bands):
        return f"from {bands[-1]:g} {unit} on"
    return f"{bands[index - 1]:g} to {bands[index]:g} {unit}"


def _partner(other: int | None) -> str:
    return "with scenery" if other is None else f"with actor {other}"
