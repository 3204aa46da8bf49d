"""The trace store: lossless, atomic, canonical, small."""

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samepath.core.channels import LARGEST
from samepath.core.errors import StoreError
from samepath.instrument.traces import store
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.records import HostLog, HostSample
from samepath.instrument.traces.store import StoredCell, StoreWriter, store_repeats
from tests.conftest import cell_of, header, straight_run

finite = st.floats(-LARGEST, LARGEST)


def assert_same(a, b):
    assert a.digest == b.digest
    for name in ("tick", "actor", "time_s", "values", "digests"):
        assert getattr(a, name).tobytes() == getattr(b, name).tobytes(), name
    assert (a.actors, a.events, a.end) == (b.actors, b.events, b.end)
    assert a.host.samples == b.host.samples
    assert a.host.latency_s.tolist() == b.host.latency_s.tolist()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(finite, finite, finite), min_size=1, max_size=12), st.tuples(finite, finite, finite))
def test_every_bit_comes_back(tmp_path_factory, positions, impulse):
    folder = tmp_path_factory.mktemp("cell")
    recorder = Recorder(3, ("x_m", "y_m", "z_m", "throttle_ratio"), 0.05)
    recorder.actor(7, "car")
    recorder.actor(9, "walker")
    for tick, (x, y, z) in enumerate(positions):
        recorder.state(tick, 7, {"x_m": x, "y_m": y, "z_m": z, "throttle_ratio": 0.5})
        recorder.state(tick, 9, {"x_m": z, "y_m": x, "z_m": -0.0})
    recorder.event(0, "collision", 7, 9, impulse, "side on")
    recorder.end(len(positions) - 1, "done")
    sample = HostSample(0, 0.25, 0.5, (0.25, 0.75), None)
    repeat = recorder.finish(HostLog((sample,), np.array([0, 1]), np.array([0.001, 0.002])))
    cell = store_repeats(folder / "c", header(channels=recorder.channels), [repeat])
    assert_same(cell.load(3), repeat)
    assert [repeat for repeat, _ in cell.host_logs()] == [3]


def test_spooled_and_compacted_repeats_read_the_same(tmp_path):
    repeats = [straight_run(number, shift=lambda tick, actor, n=number: 1e-9 * n * tick) for number in range(7)]
    writer = StoreWriter(tmp_path / "c", header())
    for repeat in repeats[:4]:
        writer.write(repeat)
    writer.compact()
    for repeat in repeats[4:]:
        writer.write(repeat)
    mixed = StoredCell(tmp_path / "c")
    assert [run.repeat for run in mixed.runs] == list(range(7))
    blocks = list(mixed.blocks(["y_m"], digests=True))
    assert [number for block in blocks for number in block.repeats] == list(range(7))
    for repeat in repeats:
        assert_same(mixed.load(repeat.repeat), repeat)
    writer.compact()
    writer.close_lock()
    whole = StoredCell(tmp_path / "c")
    memory = cell_of(repeats)
    for axis in ("x_m", "y_m"):
        stored = np.concatenate([block.values[axis] for block in whole.blocks([axis])])
        kept = np.concatenate([block.values[axis] for block in memory.blocks([axis])])
        assert stored.tobytes() == kept.tobytes()


def test_equal_runs_are_equal_files_however_the_writing_was_interrupted(tmp_path):
    repeats = [straight_run(number) for number in range(30)]
    store_repeats(tmp_path / "a", header(), repeats)
    for part in (repeats[20:], repeats[5:20], repeats[:5]):
        store_repeats(tmp_path / "b", header(), part)
    for name in ("cell.json", "part-000000.states.parquet", "part-000000.runs.parquet"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_a_thousand_repeats_are_a_handful_of_files_of_tens_of_megabytes(tmp_path):
    """20 s logged every 0.1 s, 3 actors, 15 channels, every number different in every repeat: the worst case."""
    channels = ("x_m", "y_m", "z_m", "roll_deg", "pitch_deg", "yaw_deg", "vx_mps", "vy_mps", "vz_mps")
    channels += ("wx_degps", "wy_degps", "wz_degps", "ax_mps2", "ay_mps2", "az_mps2")
    random = np.random.default_rng(1)
    repeats, rows = 100, 600
    base = random.uniform(-50, 50, (rows, 15))
    template = straight_run(0, ticks=200, actors=3)
    from dataclasses import replace

    def noisy(number):
        values = base + random.normal(0, 1e-3, base.shape)
        digests = random.integers(0, 256, (rows, 16)).astype(np.uint8)
        return replace(template, repeat=number, channels=channels, values=values, digests=digests)

    cell = store_repeats(tmp_path / "c", header(channels=channels), (noisy(number) for number in range(repeats)))
    files = [path for path in (tmp_path / "c").rglob("*") if path.is_file() and path.name != ".lock"]
    assert len(files) == 4
    megabytes_per_thousand = sum(path.stat().st_size for path in files) / 1e6 * 1000 / repeats
    assert megabytes_per_thousand < 90
    assert len(cell.runs) == repeats


def test_identical_repeats_cost_next_to_nothing(tmp_path):
    repeats = [straight_run(number, ticks=200, actors=3) for number in range(200)]
    store_repeats(tmp_path / "c", header(), repeats)
    size = (tmp_path / "c" / "part-000000.states.parquet").stat().st_size
    assert size < 200 * 600 * 4, "less than 4 bytes a row, for 64 bytes of content"


def test_a_second_writer_on_the_same_folder_is_refused(tmp_path):
    with StoreWriter(tmp_path / "c", header()), pytest.raises(StoreError, match="another samepath"):
        StoreWriter(tmp_path / "c", header())


def test_another_cell_in_the_same_folder_is_refused(tmp_path):
    store_repeats(tmp_path / "c", header(), [straight_run(0)])
    with pytest.raises(StoreError, match="holds another cell"):
        StoreWriter(tmp_path / "c", header(cell="other"))


def test_a_truncated_part_is_refused_in_one_line(tmp_path):
    store_repeats(tmp_path / "c", header(), [straight_run(0), straight_run(1)])
    path = tmp_path / "c" / "part-000000.states.parquet"
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(StoreError, match="not a whole Parquet file") as caught:
        list(StoredCell(tmp_path / "c").blocks(["x_m"]))
    assert "\n" not in str(caught.value)


def test_another_version_is_refused_by_number(tmp_path):
    store_repeats(tmp_path / "c", header(), [straight_run(0)])
    path = tmp_path / "c" / "cell.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 99}))
    with pytest.raises(StoreError, match="version 99"):
        StoredCell(tmp_path / "c")


def test_a_full_disk_is_reported_and_damages_nothing(tmp_path, monkeypatch):
    store_repeats(tmp_path / "c", header(), [straight_run(0), straight_run(1)])

    def full(path, table):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "_write_arrow", full)
    with pytest.raises(StoreError, match="No space left"), StoreWriter(tmp_path / "c", header()) as writer:
        writer.write(straight_run(2))
    assert [run.repeat for run in StoredCell(tmp_path / "c").runs] == [0, 1]
    assert not list((tmp_path / "c").rglob("*.partial"))


def test_a_killed_writer_leaves_no_half_file_that_reads_as_whole(tmp_path):
    """Kill a real writer with -9 at a random moment, several times; what is readable must be whole, then finish."""
    script = textwrap.dedent("""
        import sys, pathlib
        sys.path.insert(0, sys.argv[2])
        from tests.conftest import header, straight_run
        from samepath.instrument.traces.store import StoreWriter
        with StoreWriter(pathlib.Path(sys.argv[1]), header()) as writer:
            done = writer.done()
            for number in range(60):
                if number not in done:
                    writer.write(straight_run(number, ticks=200))
                    print(number, flush=True)
                if number % 10 == 9:
                    writer.compact()
    """)
    command = [sys.executable, "-c", script, str(tmp_path / "c"), str(Path(__file__).parents[3])]
    for lines in (3, 11, 4, 9):
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        for _ in range(lines):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        if (tmp_path / "c" / "cell.json").exists():
            for run in StoredCell(tmp_path / "c").runs:
                assert StoredCell(tmp_path / "c").load(run.repeat).digest == run.digest
    assert subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0
    cell = StoredCell(tmp_path / "c")
    assert [run.repeat for run in cell.runs] == list(range(60))
    store_repeats(tmp_path / "undisturbed", header(), [straight_run(number, ticks=200) for number in range(60)])
    name = "part-000000.states.parquet"
    assert (tmp_path / "c" / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes()


def test_pandas_reads_the_states_as_a_tidy_table(tmp_path):
    pandas = pytest.importorskip("pandas")
    store_repeats(tmp_path / "c", header(), [straight_run(0), straight_run(1)])
    frame = pandas.read_parquet(tmp_path / "c" / "part-000000.states.parquet")
    assert {"experiment", "cell", "repeat", "tick", "time_s", "actor", "actor_type", "x_m", "digest"} <= set(frame.columns)
    assert len(frame) == 2 * 20 * 2


def test_row_groups_hold_whole_repeats(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "ROWS_PER_GROUP", 100)
    cell = store_repeats(tmp_path / "c", header(), [straight_run(number) for number in range(9)])
    assert pq.ParquetFile(tmp_path / "c" / "part-000000.states.parquet").num_row_groups == 3
    assert [len(block.repeats) for block in cell.blocks(["x_m"])] == [3, 3, 3]
    assert all(block.present is None for block in cell.blocks(["x_m"]))


def test_a_run_that_never_got_a_state_is_kept_and_counted(tmp_path):
    recorder = Recorder(1, ("x_m", "y_m", "z_m"), 0.1)
    recorder.end(0, "engine did not start", completed=False)
    silent = recorder.finish()
    store_repeats(tmp_path / "c", header(), [straight_run(0), silent])
    store_repeats(tmp_path / "c", header(), [straight_run(2)])
    cell = StoredCell(tmp_path / "c")
    assert [run.repeat for run in cell.runs] == [0, 1, 2]
    assert sorted(number for block in cell.blocks(["x_m"]) for number in block.repeats) == [0, 1, 2]
    assert_same(cell.load(1), silent)
    from samepath.instrument.analysis.cell import analyse_cell

    result = analyse_cell(cell)
    assert result.judgement.verdict == "exceeds-tolerance"
    assert "1 of 3 repeats have no states at all: repeat 1" in [finding.message for finding in result.findings]
