"""``samepath demo``: one test in two worlds, in half a minute: one repeats to the bit, one does not, and it is shown why.

Nothing of it is prepared: it is a study like any other, small enough to wait for. The game loop steps by the wall clock, as
game engines do, so that its repeats part on every machine, each time elsewhere.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from samepath.core.errors import InputError
from samepath.core.units import format_length
from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.analysis.explain import Explanation
from samepath.instrument.evaluation import Report
from samepath.instrument.explaining import explain
from samepath.instrument.progress import ShowStudy
from samepath.instrument.study_run import run_study

LOCKSTEP: Final = "lockstep"
GAME_LOOP: Final = "game loop"
REPEATS: Final = 6
STUDY: Final[dict[str, Any]] = {
    "name": "demo",
    "description": "One test in two worlds",
    "design": {
        "simulators": [
            {"simulator": "samepath", "as": LOCKSTEP, "expect": "bit-identical"},
            {
                "simulator": "samepath-game-loop",
                "as": GAME_LOOP,
                "settings": {"mode": "variable", "time_scale": 20.0, "frame_cost_s": 0.001},
            },
        ],
        "scenarios": ["table1-test2"],
        "tolerance": "1 cm",
        "repeats": REPEATS,
    },
    "execution": {"isolation": "batch"},
}


@dataclass(frozen=True)
class Demo:
    """What came of it: the report, why the repeats of the game loop part, and where in the viewer that is."""

    folder: Path
    report: Report
    explanation: Explanation

    def lines(self) -> Iterator[str]:
        """Tell it, from the question to the reason."""
        same, other = (self._cell(name) for name in (LOCKSTEP, GAME_LOOP))
        yield f"One test: a car turns into the way of another. Two worlds, {REPEATS} repeats in each."
        yield f"  {LOCKSTEP}: {_told(same)}"
        yield f"  {GAME_LOOP}: {_told(other)}"
        first = other.first_divergence
        if first is not None:
            yield f"They part at {first.time_s:.2f} s: {first.words()}."
            partings = self.explanation.partings
            yield partings[0].sentences()[0] if partings else f"Cause: {self.explanation.cause}."

    @property
    def place(self) -> str:
        """Where in the viewer to look: the game loop, where its repeats part, beside the world that does not."""
        first = self._cell(GAME_LOOP).first_divergence
        numbers = {cell.header.variant: number for number, cell in enumerate(self.report.cells)}
        return f"#cell={numbers[GAME_LOOP]},{numbers[LOCKSTEP]}" + ("" if first is None else f"&tick={first.tick}")

    def _cell(self, variant: str) -> CellAnalysis:
        return next(cell for cell in self.report.cells if cell.header.variant == variant)


def demo(out: str | os.PathLike[str] = "runs/demo", *, progress: bool | ShowStudy = True) -> Demo:
    """Run the demo's study into a folder, or read it where it has been run, and explain it."""
    result = run_study(STUDY, out, progress=progress, command="samepath demo")
    if result.report is None or len(result.report.cells) != 2:
        raise InputError(f"{out}: the demo did not finish: {'; '.join(result.problems) or 'run it again'}")
    name = next(cell.header.cell for cell in result.report.cells if cell.header.variant == GAME_LOOP)
    return Demo(result.folder, result.report, explain(result.folder, cell=name))


def _told(cell: CellAnalysis) -> str:
    if len(cell.outcomes) == 1:
        return f"all {cell.repeats} repeats are the same to the bit"
    far = format_length(cell.summary.max_deviation_m or 0.0)
    others = cell.repeats - len(cell.endings[0].repeats) if cell.endings else 0
    luck = f"; {others} of {cell.repeats} come to something else" if others else ""
    return f"{len(cell.outcomes)} different runs, up to {far} from their mean{luck}"
