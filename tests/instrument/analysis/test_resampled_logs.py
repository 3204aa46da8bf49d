"""A log whose states were put between an engine's frames is never called bit-identical, and says how far off it may be."""

import numpy as np
import pytest

from samepath.core.channels import RESAMPLING
from samepath.engines.conformance import run_request
from samepath.engines.interface import RunRequest
from samepath.engines.samepath.game_loop import SamepathGameLoop
from samepath.instrument.analysis.cell import analyse_cell
from samepath.instrument.analysis.spread import GridKind
from samepath.instrument.report.document import cell_object
from samepath.instrument.report.words import limits, resolution_words
from samepath.instrument.traces.cell import MemoryCell
from samepath.instrument.traces.records import Header


class EvenClock:
    """Every frame takes 70 ms, in every run."""

    def __init__(self):
        self._now_s = 0.0

    def monotonic_s(self):
        self._now_s += 0.07
        return self._now_s

    def sleep_s(self, seconds):
        self._now_s += seconds

    def utc_iso(self):
        return "2000-01-01T00:00:00+00:00"


def analysed(mode):
    """Two runs of the game loop on a clock that is the same both times, so that they have the same bits."""
    settings = {"mode": mode, "time_scale": 1.0, "frame_cost_s": 0.0}
    requests = [RunRequest("table1-test4", repeat, settings=settings, duration_s=8.0) for repeat in (0, 1)]
    runs = [run_request(SamepathGameLoop(clock=EvenClock()), request) for request in requests]
    assert runs[0].digest == runs[1].digest
    info = SamepathGameLoop().described(settings)
    header = Header("e", mode, "table1-test4", info.channels, info.step_s, lossless=info.capabilities.lossless)
    return analyse_cell(MemoryCell(header, runs)), runs[0]


@pytest.mark.parametrize("mode", ["variable", "semi-fixed"])
def test_equal_rows_of_resampled_runs_are_identical_at_resolution_only(mode):
    cell, run = analysed(mode)
    bound_m = float(np.nanmax(run.values[:, run.channels.index(RESAMPLING)]))
    assert cell.judgement.verdict == "identical-at-resolution"
    assert "lie between the engine's frames" in cell.judgement.reason
    assert (cell.spread.resolution.kind, cell.spread.resolution.step_m) == (GridKind.RESAMPLED, bound_m)
    assert cell.before.judgement.verdict == "identical-at-resolution"
    assert "resampled" in " ".join(resolution_words(cell.spread.resolution))
    assert any("equal rows do not show that the frames were equal" in sentence for sentence in limits(cell))
    assert not any("holds the simulator's own numbers" in sentence for sentence in limits(cell))
    told = cell_object(cell)
    assert (told["log_resolution_kind"], told["log_resolution_m"], told["lossless"]) == ("resampled", bound_m, False)


@pytest.mark.parametrize("mode", ["lockstep", "real-time"])
def test_fixed_steps_are_bit_identical_and_the_simulators_own_numbers(mode):
    cell, _ = analysed(mode)
    assert cell.judgement.verdict == "bit-identical"
    assert cell.spread.resolution.kind is GridKind.LOSSLESS
    assert resolution_words(cell.spread.resolution) == ("lossless", "holds the simulator's own numbers")
