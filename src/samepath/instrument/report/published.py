"""Published figures, and what must be said beside them: where they come from, and how ours were made.

What was published about CARLA, for orientation beside one's own figures: numbers, where they stand, and where they disagree.

Greg Chance, Abanoub Ghobrial, Kevin McAreavey, Séverin Lemaignan, Tony Pipe, Kerstin Eder: *On Determinism of Game Engines used
for Simulation-based Autonomous Vehicle Verification*; Table I, and the summary files behind Figs 5, 6b and 7b that the authors
keep beside their logs. CARLA 0.9.6 in synchronous mode with steps of 0.05 s, 1000 repeats per test and load.

The numbers disagree in three places; what is shown, and why:

- Values near 1e-13 m are what rounding leaves of a variance taken over equal numbers. The logs have three decimals: such a
  value says that the logs are equal at their resolution, 1 mm.
- The file behind Fig. 5 gives test 4 at 95 % load as 1.9794 m, where Table I and the file behind Fig. 7b have 0.59 m. Table I
  is followed.
- The names of the two files of figures before and after the collision are exchanged; their titles are right. Table I tells:
  0.31 m are two vehicles (test 2), 0.59 m a vehicle and a pedestrian (test 4).

How the runs were made, said beside what they showed: how many processes, by which clock, with what work in a frame.

A spread that comes from late frames depends on how much time a frame has and on what it has to do in it. A game loop that is
run 20 times as fast as real time, with a little arithmetic where an engine would render, is not the loop of any engine: its
figures must not stand beside CARLA's without that being said. Bits that repeat within one process need not repeat in a fresh
one, so the number of processes is told too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from samepath.core.units import format_length
from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.analysis.factors import joined, variant_of

AUTHORS: Final = "Chance, Ghobrial, McAreavey, Lemaignan, Pipe and Eder"
TITLE: Final = "On Determinism of Game Engines used for Simulation-based Autonomous Vehicle Verification"
SYSTEM: Final = "CARLA 0.9.6, synchronous, steps of 0.05 s, 1000 repeats"
PUBLISHED_LOADS: Final = (0.0, 0.25, 0.50, 0.75, 0.95)
LOG_RESOLUTION_M: Final = 0.001
_ROUNDING_M: Final = 1e-9


@dataclass(frozen=True)
class PublishedTest:
    """One of the paper's six tests. Per load (``PUBLISHED_LOADS``): max sigma of whole runs, before and after the collision.

    ``before_m`` and ``after_m`` are empty where no collision happens or none was published.
    """

    test: int
    actors: str
    unrestricted_sigma_m: float
    restricted_sigma_m: float
    max_sigma_m: tuple[float, ...]
    before_m: tuple[float, ...] = ()
    after_m: tuple[float, ...] = ()

    @property
    def scenario(self) -> str:
        """The name under which samepath has it."""
        return f"table1-test{self.test}"


TESTS: Final = (
    PublishedTest(1, "two vehicles", 0.03, 7.0e-3, (1.53e-12, 1.43e-13, 0.007, 2.17e-3, 0.029724961)),
    PublishedTest(
        2,
        "two vehicles that collide",
        0.31,
        9.8e-3,
        (1.36e-2, 0.013568011, 0.013568011, 0.159231258, 0.313163764),
        before_m=(1.53e-12, 1.43e-13, 1.43e-13, 0.009843605, 0.027598893),
        after_m=(0.013557618, 0.013568011, 0.013568011, 0.159231258, 0.313163764),
    ),
    PublishedTest(3, "two vehicles and a pedestrian", 0.07, 5.2e-4, (6.32e-5, 1.43e-13, 1.43e-13, 5.22e-4, 0.067444136)),
    PublishedTest(
        4,
        "two vehicles and a pedestrian, who is hit",
        0.59,
        1.5e-12,
        (0.429740433, 0.420604432, 0.314320278, 0.274750227, 0.589855609),
        before_m=(1.46e-12, 1.43e-13, 1.43e-13, 1.43e-13, 0.02932933),
        after_m=(0.429740433, 0.420604432, 0.314320278, 0.274750227, 0.589855609),
    ),
    PublishedTest(5, "two pedestrians", 5.6e-13, 5.6e-13, (5.62e-13, 5.71e-14, 5.71e-14, 5.71e-14, 5.71e-14)),
    PublishedTest(6, "two pedestrians who collide", 5.6e-13, 5.6e-13, (5.62e-13, 6.07e-14, 6.07e-14, 6.07e-14, 6.07e-14)),
)
_BY_SCENARIO: Final = {test.scenario: test for test in TESTS}

NOTE_SOURCE: Final = (
    f"CARLA as published: {AUTHORS}, “{TITLE}”, Table I and Figs 5, 6b and 7b ({SYSTEM}). Restricted there: before the "
    "collision and at most 75 % load. For orientation only: another simulator, another machine."
)
NOTE_ZERO: Final = (
    "0 at the log's resolution: published as 1e-12 m or less, which is what rounding leaves of a variance over equal numbers; "
    "the logs have three decimals (1 mm)."
)
NOTE_TEST_4: Final = (
    "Test 4 at 95 % load: the file behind Fig. 5 has 1.98 m, where Table I and the file behind Fig. 7b have 0.59 m. Table I is "
    "followed."
)
NOTE_PHASES: Final = (
    "The names of the authors' two files on phases are exchanged; Table I tells which is which: up to 0.31 m after the "
    "collision is test 2, up to 0.59 m test 4."
)


def published(scenario: str) -> PublishedTest | None:
    """Return what was published about a scenario; None where nothing was."""
    return _BY_SCENARIO.get(scenario)


def published_among(scenarios: Iterable[str]) -> tuple[PublishedTest, ...]:
    """Return the published tests that are among these scenarios, in the paper's order."""
    names = set(scenarios)
    return tuple(test for test in TESTS if test.scenario in names)


def as_measured(value_m: float) -> float:
    """Return a published sigma as it would have been measured: what is only rounding is an exact zero."""
    return 0.0 if value_m < _ROUNDING_M else value_m


def published_length(value_m: float) -> str:
    """Print a published sigma; ``0 *`` refers to the note on zeros."""
    return "0 *" if as_measured(value_m) == 0 else format_length(value_m)


UNLIKE_PUBLISHED: Final = (
    "CARLA was stepped synchronously, waiting for no clock, and rendered with Unreal Engine: beside a game loop at another "
    "time scale, with other work in a frame, its figures show where a spread begins, not how large yours should be."
)
_SHARED: Final = {
    "process": "a fresh process for every repeat, forked from one that had run nothing",
    "cold": "a new interpreter for every repeat",
    "batch": "several repeats in a process: what one leaves, the next finds",
    "inline": "one repeat after the other in samepath's own process",
}


def processes_of(cell: CellAnalysis) -> int | None:
    """Return in how many processes the repeats ran: as many as were the first in theirs; None where nobody noted it."""
    return sum(place.position == 0 for place in cell.places) or None


def isolation_words(cell: CellAnalysis) -> tuple[str, str]:
    """Say in how many processes the repeats ran, and what they shared; nothing where nobody noted it."""
    processes = processes_of(cell)
    if processes is None:
        return "", ""
    kinds = dict.fromkeys(place.isolation for place in cell.places)
    return _processes(processes), "; ".join(_SHARED.get(kind, kind) for kind in kinds)


def time_words(cell: CellAnalysis) -> tuple[str, str]:
    """Say by which clock the runs went, and what stood for rendering; nothing where no clock drove them, or nobody noted it."""
    scale, work_s = cell.header.time_scale, cell.header.frame_work_s
    if scale is None:
        return "", ""
    pace = "real time" if scale == 1 else f"{scale:g} times real time"
    return pace, f"{1000 * work_s:g} ms of arithmetic in each frame stands for rendering" if work_s else ""


def how_run_notes(cells: Sequence[CellAnalysis], *, beside_published: bool) -> tuple[str, ...]:
    """Say the same of all cells together, and where CARLA's published figures are shown, that they are of no such loop."""
    return (*_time_notes(cells, beside_published=beside_published), *_isolation_notes(cells))


def _time_notes(cells: Sequence[CellAnalysis], *, beside_published: bool) -> list[str]:
    groups: dict[tuple[str, str], dict[str, None]] = {}
    for cell in cells:
        words = time_words(cell)
        if words[0]:
            groups.setdefault(words, {})[variant_of(cell.header) or cell.header.cell] = None
    notes = [
        f"Run by the wall clock at {pace}: {joined(list(variants))}{f'; {work}' if work else ''}."
        for (pace, work), variants in groups.items()
    ]
    return [*notes, UNLIKE_PUBLISHED] if notes and beside_published else notes


def _isolation_notes(cells: Sequence[CellAnalysis]) -> list[str]:
    groups: dict[str, list[CellAnalysis]] = {}
    for cell in cells:
        shared = isolation_words(cell)[1]
        if shared:
            groups.setdefault(shared, []).append(cell)
    notes = []
    for shared, found in groups.items():
        repeats, processes = sum(cell.repeats for cell in found), sum(processes_of(cell) or 0 for cell in found)
        notes.append(f"{repeats} repeats in {_processes(processes)}: {shared}.")
    return notes


def _processes(number: int) -> str:
    return "1 process" if number == 1 else f"{number} processes"


def how_run_object(cell: CellAnalysis) -> dict[str, object]:
    """Return the same as plain data; null where nobody noted it, and for the time scale where no clock drove the runs."""
    return {
        "isolation": sorted({place.isolation for place in cell.places}),
        "processes": processes_of(cell),
        "time_scale": cell.header.time_scale,
        "frame_work_s": cell.header.frame_work_s,
    }
