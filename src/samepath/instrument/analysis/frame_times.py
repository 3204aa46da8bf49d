"""How long frames took, and in them the game and drawing, over all repeats of a cell: what Unreal's ``stat unit`` shows.

The paper asks for it twice: to watch an engine with it (Section IV-E), and to log the latency of the game loop beside actors'
positions (Section VII-D2). Times are the host's: no figure of them is in a digest or a verdict.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from samepath.instrument.traces.records import HostLog

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TimeSummary:
    """Seconds: in the median frame, in all but one of a hundred, and in the longest."""

    median_s: float
    p99_s: float
    max_s: float

    @classmethod
    def of(cls, values_s: Floats) -> "TimeSummary":
        """Summarise the times of at least one frame."""
        median_s, p99_s = np.quantile(values_s, [0.5, 0.99], method="inverted_cdf").tolist()
        return cls(median_s, p99_s, float(values_s.max()))

    def words(self) -> str:
        """Print it in milliseconds: ``2.51 ms (99 %: 4.1 ms)``."""
        return f"{1e3 * self.median_s:.3g} ms (99 %: {1e3 * self.p99_s:.3g} ms)"


@dataclass(frozen=True)
class FrameTimes:
    """The frames of a cell: a whole one until the next began, the work in it but for drawing, and drawing."""

    frames: int
    frame: TimeSummary
    game: TimeSummary
    draw: TimeSummary

    def words(self) -> str:
        """Say it in one line."""
        parts = f"frame {self.frame.words()}, game {self.game.words()}, draw {self.draw.words()}"
        return f"{self.frames} frames, in the median: {parts}"


class FrameTimesFinder:
    """Notes the frames of every repeat while somebody else reads the host logs."""

    def __init__(self) -> None:
        self._columns: tuple[list[Floats], list[Floats], list[Floats]] = ([], [], [])

    def watch(self, host_logs: Iterable[tuple[int, HostLog]]) -> Iterator[tuple[int, HostLog]]:
        """Yield the logs as they come."""
        for repeat, log in host_logs:
            for column, values in zip(self._columns, (log.frame_s, log.game_s, log.draw_s), strict=True):
                if len(values):
                    column.append(values)
            yield repeat, log

    def result(self) -> FrameTimes | None:
        """Return what was found; None where the engine tells no times of frames."""
        if not all(self._columns):
            return None
        frame, game, draw = (np.concatenate(column) for column in self._columns)
        return FrameTimes(len(frame), TimeSummary.of(frame), TimeSummary.of(game), TimeSummary.of(draw))
