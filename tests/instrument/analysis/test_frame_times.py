"""Frame, game and draw times: from the recorder to the trace, and back out of it as figures."""

import numpy as np
import pytest

from samepath.core.errors import SimulatorError
from samepath.instrument.analysis.cell import TimeSummary, analyse_cell
from samepath.instrument.report.document import cell_object
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.records import HostLog
from samepath.instrument.traces.tables import host_from_row, host_row
from tests.conftest import cell_of


def timed_run(repeat, frames):
    recorder = Recorder(repeat, ("x_m", "y_m", "z_m"), 0.05)
    recorder.actor(1, "car")
    for tick in (1, 2):
        recorder.state(tick, 1, {"x_m": float(tick), "y_m": 0.0, "z_m": 0.0})
    for tick, frame_s in frames:
        recorder.frame_times(tick, frame_s, frame_s / 4, frame_s / 2)
    recorder.end(2, "done")
    with pytest.raises(SimulatorError):
        recorder.frame_times(3, 1.0, 1.0, 1.0)
    return recorder.finish(HostLog(measured={"nice": 0}))


def test_times_are_figures_of_the_host_and_in_no_digest():
    slow, quick = timed_run(0, [(1, 0.010), (2, 0.030)]), timed_run(1, [(1, 0.002), (2, 0.004)])
    assert slow.digest == quick.digest
    assert slow.host.measured == {"nice": 0}
    found = analyse_cell(cell_of([slow, quick])).frame_times
    assert found.frames == 4
    assert (found.frame.median_s, found.frame.max_s) == (0.004, 0.030)
    assert found.draw.max_s == 0.015
    assert found.words().startswith("4 frames, in the median: frame 4 ms (99 %: 30 ms), game 1 ms")
    told = cell_object(analyse_cell(cell_of([slow, quick])))["frame_times"]
    assert told["game"] == {"median_s": 0.001, "p99_s": 0.0075, "max_s": 0.0075}


def test_a_stored_row_comes_back_whole_and_an_older_one_without_times():
    host = timed_run(0, [(1, 0.010), (2, 0.030)]).host
    row = host_row(0, host)
    again = host_from_row(row)
    for name in ("frame_ticks", "frame_s", "game_s", "draw_s"):
        assert getattr(again, name).tolist() == getattr(host, name).tolist(), name
        del row[name]
    assert len(host_from_row(row).frame_s) == 0


def test_an_engine_that_tells_no_times_has_none():
    assert analyse_cell(cell_of([timed_run(0, []), timed_run(1, [])])).frame_times is None


def test_the_median_and_the_99th_are_times_that_were_measured():
    values = np.arange(1, 201) / 1000
    assert TimeSummary.of(values) == TimeSummary(0.1, 0.198, 0.2)
