"""What went into runs, in traces: every bit comes back, equal logs are kept once, and nothing of it is in a run's digest."""

import math

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samepath.core.errors import SimulatorError, StoreError
from samepath.core.inputs import Input, InputKind, InputLog
from samepath.instrument.traces import recorder as recorders
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.records import log_digest
from samepath.instrument.traces.store import StoredCell, StoreWriter, store_repeats
from samepath.instrument.traces.tables import part_path
from tests.conftest import cell_of, header, straight_run

numbers = st.floats(allow_infinity=False, allow_nan=True, width=64)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@st.composite
def logs(draw):
    log = InputLog(covers=draw(st.frozensets(st.sampled_from(InputKind))), step_s=draw(st.sampled_from([None, 0.05])))
    step = 0
    for _ in range(draw(st.integers(0, 6))):
        step += draw(st.integers(0, 3))
        decided = draw(st.one_of(st.none(), st.integers(0, step)))
        actor = draw(st.one_of(st.none(), st.integers(0, 2**40)))
        values = tuple(draw(st.lists(numbers, max_size=3)))
        log.add(Input(step, draw(st.sampled_from(InputKind)), draw(words), actor, values, draw(words), decided))
    return log


def run(repeat: int, log: InputLog | None):
    recorder = Recorder(repeat, header().channels, header().step_s)
    recorder.actor(1, "car")
    recorder.state(1, 1, {"x_m": 1.0, "y_m": 2.0, "z_m": 0.0})
    if log is not None:
        recorder.inputs(log)
    recorder.end(1, "done")
    return recorder.finish()


def same(a: InputLog, b: InputLog) -> bool:
    return [entry.to_bytes() for entry in a] == [entry.to_bytes() for entry in b] and (a.covers, a.step_s) == (
        b.covers,
        b.step_s,
    )


@settings(max_examples=25, deadline=None)
@given(st.lists(st.one_of(st.none(), logs()), min_size=1, max_size=4))
def test_every_bit_comes_back_from_the_spool_and_from_a_part(tmp_path_factory, found):
    folder = tmp_path_factory.mktemp("cell") / "c"
    writer = StoreWriter(folder, header())
    for number, log in enumerate(found):
        writer.write(run(number, log))
    spooled = StoredCell(folder)
    read = [spooled.inputs(number) for number in range(len(found))]
    digests = spooled.input_digests()
    writer.compact()
    writer.close_lock()
    packed = StoredCell(folder)
    assert packed.input_digests() == digests == {n: log_digest(log) for n, log in enumerate(found) if log is not None}
    for number, log in enumerate(found):
        for back in (read[number], packed.inputs(number)):
            assert (back is None) == (log is None)
            assert log is None or same(back, log)


def test_runs_with_the_same_inputs_share_one_log_on_disk(tmp_path):
    log = InputLog([Input(0, InputKind.DRAW, "gust", 1, (0.5,))])
    other = InputLog([Input(0, InputKind.DRAW, "gust", 1, (0.25,))])
    store_repeats(tmp_path / "c", header(), [run(number, log if number != 3 else other) for number in range(6)])
    assert pq.ParquetFile(part_path(tmp_path / "c", 0)).read(columns=["repeats"])["repeats"].to_pylist() == [
        [0, 1, 2, 4, 5],
        [3],
    ]


def test_a_part_that_gets_more_repeats_has_the_bytes_of_one_that_was_written_at_once(tmp_path):
    runs = [run(number, InputLog([Input(number % 3, InputKind.STEP, values=(0.05,))])) for number in range(7)]
    store_repeats(tmp_path / "once", header(), runs)
    for number in (0, 1, 2):
        with StoreWriter(tmp_path / "parts", header()) as writer:
            for repeat in runs[number::3]:
                writer.write(repeat)
    assert part_path(tmp_path / "parts", 0).read_bytes() == part_path(tmp_path / "once", 0).read_bytes()


def test_a_repeat_that_is_run_again_has_its_new_log_only(tmp_path):
    first, second = InputLog([Input(0, InputKind.STEP, values=(0.05,))]), InputLog([Input(0, InputKind.STEP, values=(0.06,))])
    store_repeats(tmp_path / "c", header(), [run(0, first), run(1, first)])
    store_repeats(tmp_path / "c", header(), [run(1, second)])
    cell = StoredCell(tmp_path / "c")
    assert same(cell.inputs(0), first)
    assert same(cell.inputs(1), second)
    store_repeats(tmp_path / "c", header(), [run(1, None)])
    assert StoredCell(tmp_path / "c").inputs(1) is None


def test_traces_of_before_have_no_inputs_and_are_read_as_ever(tmp_path):
    cell = store_repeats(tmp_path / "c", header(), [straight_run(0), straight_run(1)])
    assert not part_path(tmp_path / "c", 0).exists()
    assert cell.inputs(1) is None
    assert cell.input_digests() == {}
    assert cell_of([straight_run(0)]).inputs(0) is None


def test_inputs_are_no_part_of_a_runs_digest():
    assert run(0, None).digest == run(0, InputLog([Input(0, InputKind.DRAW, "gust", 1, (0.5,))])).digest


def test_a_damaged_log_is_refused_by_its_file(tmp_path):
    store_repeats(tmp_path / "c", header(), [run(0, InputLog([Input(0, InputKind.STEP, values=(0.05,))]))])
    path = part_path(tmp_path / "c", 0)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(StoreError, match=r"part-000000\.inputs\.parquet is not a whole Parquet file"):
        StoredCell(tmp_path / "c").inputs(0)


def test_a_log_whose_numbers_were_changed_is_refused(tmp_path):
    store_repeats(tmp_path / "c", header(), [run(0, InputLog([Input(0, InputKind.STEP, values=(0.05,))]))])
    path = part_path(tmp_path / "c", 0)
    table = pq.ParquetFile(path).read()
    forged = table.set_column(table.schema.get_field_index("step"), "step", [[[1]]])
    pq.write_table(forged.cast(table.schema), path)
    with pytest.raises(StoreError, match="is not the one that was written"):
        StoredCell(tmp_path / "c").inputs(0)


def test_a_run_has_one_log(monkeypatch):
    recorder = Recorder(4, header().channels, header().step_s)
    recorder.inputs(InputLog())
    with pytest.raises(SimulatorError, match="repeat 4: what went into the run was given before"):
        recorder.inputs(InputLog())
    with pytest.raises(SimulatorError, match="given before"):
        recorder.in_step()
    monkeypatch.setattr(recorders, "INPUTS_MOST", 1)
    two = InputLog([Input(0, InputKind.STEP, values=(0.05,)), Input(1, InputKind.STEP, values=(0.05,))])
    with pytest.raises(SimulatorError, match="at most 1 inputs of a run are kept, but 2 came"):
        Recorder(5, header().channels, header().step_s).inputs(two)


def test_in_step_the_commands_of_the_rows_are_the_inputs():
    recorder = Recorder(0, ("x_m", "y_m", "throttle_ratio", "brake_ratio"), 0.05)
    recorder.actor(1, "car")
    recorder.actor(2, "walker")
    for tick, throttle in enumerate((0.0, 0.5, 0.5, 0.25)):
        recorder.state(tick, 1, {"x_m": 0.0, "y_m": 0.0, "throttle_ratio": throttle, "brake_ratio": 0.0})
        recorder.state(tick, 2, {"x_m": 0.0, "y_m": 0.0})
    recorder.in_step()
    recorder.end(3, "done")
    log = recorder.finish().inputs
    assert log.covers == {InputKind.STEP, InputKind.COMMAND}
    told = [(entry.step, entry.actor, entry.values[0], entry.decided_step) for entry in log if entry.actor == 1]
    assert told == [(0, 1, 0.5, 0), (2, 1, 0.25, 2)], "tick 0 is the start; a command that holds on is listed once"
    assert [math.isnan(entry.values[0]) for entry in log if entry.actor == 2] == [True]


def test_in_step_with_gaps_between_rows_commands_are_not_known():
    recorder = Recorder(0, ("x_m", "y_m", "throttle_ratio"), 0.05, log_every=2)
    recorder.actor(1, "car")
    for tick in range(5):
        recorder.state(tick, 1, {"x_m": 0.0, "y_m": 0.0, "throttle_ratio": float(tick)})
    recorder.in_step()
    recorder.end(4, "done")
    log = recorder.finish().inputs
    assert (log.covers, len(log)) == ({InputKind.STEP}, 0)
    assert np.isclose(log.step_s, 0.05)
