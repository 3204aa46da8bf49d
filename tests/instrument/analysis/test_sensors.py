"""What sensors saw: compared frame by frame, found to the tick, and measured where contents were kept."""

import json

import numpy as np
import pytest

from samepath.core.errors import SimulatorError
from samepath.instrument.analysis.cell import analyse_cell
from samepath.instrument.analysis.sensors import analyse_sensors
from samepath.instrument.report.console import cell_notes
from samepath.instrument.report.document import cell_object
from samepath.instrument.traces.cell import MemoryCell
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.store import StoredCell, StoreWriter, store_repeats
from tests.conftest import STEP_S, header

CAMERA, LIDAR, IMU = "sensor.camera.rgb", "sensor.lidar.ray_cast", "sensor.other.imu"
TICKS, EVERY = 12, 4


def image(tick):
    return (np.arange(6 * 8 * 4).reshape(6, 8, 4) * (tick + 1) % 251).astype(np.uint8)


def points(tick, count=20):
    return np.arange(count * 4, dtype=np.float32).reshape(count, 4) + np.float32(tick)


def seen_run(repeat, *, change=lambda tick, picture, cloud: (picture, cloud), ticks=TICKS, every=EVERY):
    """A car that always takes the same path, with a camera and a LiDAR; ``change`` spoils what they see."""
    recorder = Recorder(repeat, ("x_m", "y_m", "z_m"), STEP_S)
    recorder.actor(1, "car")
    for tick in range(1, TICKS + 1):
        recorder.state(tick, 1, {"x_m": 0.7 * tick, "y_m": 0.0, "z_m": 0.0})
        if tick <= ticks:
            picture, cloud = change(tick, image(tick), points(tick))
            recorder.sensor(tick, "front", CAMERA, picture, keep=tick % every == 0)
            recorder.sensor(tick, "roof", LIDAR, cloud, keep=tick % every == 0)
    recorder.end(TICKS, "done")
    return recorder.finish()


def from_tick_6(tick, picture, cloud):
    """From tick 6 on, two pixels are wrong in one channel each, by 3 and by 10; half the points are 1 mm off."""
    if tick >= 6:
        for row, column, channel, by in ((2, 3, 0, 3), (5, 7, 2, 10)):
            value = int(picture[row, column, channel])
            picture[row, column, channel] = value + by if value < 200 else value - by
        cloud[::2, 0] += np.float32(0.001)
    return picture, cloud


def fewer_points(tick, picture, cloud):
    return (picture, cloud) if tick < 8 else (picture, cloud[1:])


@pytest.fixture
def runs():
    return [seen_run(0), seen_run(1), seen_run(2, change=from_tick_6), seen_run(3), seen_run(4, change=from_tick_6)]


def test_equal_frames_are_one_outcome_and_the_verdict_is_bit_identical():
    analysis = analyse_cell(MemoryCell(header(), [seen_run(n) for n in range(3)]))
    assert [(sensor.sensor, sensor.kind, sensor.frames, len(sensor.outcomes)) for sensor in analysis.sensors] == [
        ("front", CAMERA, TICKS, 1),
        ("roof", LIDAR, TICKS, 1),
    ]
    assert analysis.judgement.verdict == "bit-identical"
    assert analysis.sensors[0].words(STEP_S) == "front: 12 frames, the same bits in 3 repeats"


def test_the_first_frame_that_differs_is_found_also_where_no_content_was_kept(runs):
    front, roof = analyse_sensors(MemoryCell(header(), runs))
    for sensor in (front, roof):
        assert sensor.outcomes == ((0, 1, 3), (2, 4))
        assert (sensor.first_tick, sensor.first_repeat, sensor.divergent) == (6, 2, 2)
        assert (sensor.frames_differing, sensor.frames_compared) == (2 * (TICKS - 5), 5 * TICKS)


def test_pixels_and_points_are_counted_and_measured_at_the_kept_frames(runs):
    front, roof = analyse_sensors(MemoryCell(header(), runs))
    assert front.samples_compared == 2  # ticks 8 and 12
    assert (front.first.tick, front.first.elements, front.first.differing) == (8, 48, 2)
    assert front.first.max_difference == 10.0
    assert front.first.mean_difference == pytest.approx(13 / (48 * 3))
    assert front.first.unit == "of 255"
    assert (roof.worst.elements, roof.worst.differing) == (20, 10)
    assert roof.worst.max_difference == pytest.approx(0.001, rel=2e-2)
    assert roof.worst.unit == "m"


def test_it_is_told_at_which_frame_pixels_were_compared(runs):
    """Frames are kept every fourth tick; the first that differs is the sixth."""
    front, _ = analyse_sensors(MemoryCell(header(), runs))
    assert (front.first_tick, front.first.tick) == (6, 8)
    assert front.first_words().startswith(
        "its content was not kept; the next that was: 2 of 48 pixels at tick 8 (repeat 2), by up"
    )
    page = page_of(runs)
    assert "its content was not kept; the next that was: 2 of 48 pixels at tick 8" in page


def test_with_every_frame_kept_the_first_that_differs_is_compared_itself():
    runs = [seen_run(0, every=1), seen_run(1, every=1), seen_run(2, change=from_tick_6, every=1)]
    front, roof = analyse_sensors(MemoryCell(header(), runs))
    assert (front.first_tick, front.first.tick, front.first.repeat) == (6, 6, 2)
    assert front.first_words() == f"2 of 48 pixels, by up to 10 of 255 (mean over all: {13 / (48 * 3):.2g})"
    assert roof.first_words().startswith("10 of 20 points, by up to 0.001")
    assert "2 of 48 pixels, by up to 10 of 255" in page_of(runs)


def test_the_first_pair_is_that_of_the_repeat_which_is_named():
    """Two outcomes part at the same tick; the larger one is named, whatever the numbers of the repeats."""

    def other(tick, picture, cloud):
        picture[0, 0, 0] ^= 1 if tick >= 6 else 0
        return picture, cloud

    changes = [None, None, other, from_tick_6, from_tick_6, None]
    runs = [seen_run(n, every=1, **({} if change is None else {"change": change})) for n, change in enumerate(changes)]
    front, _ = analyse_sensors(MemoryCell(header(), runs))
    assert front.outcomes == ((0, 1, 5), (3, 4), (2,))
    assert (front.first_repeat, front.first.repeat, front.first.differing) == (3, 3, 2)


def test_of_many_outcomes_the_earliest_to_part_is_compared_too(monkeypatch):
    monkeypatch.setattr("samepath.instrument.analysis.sensors.MAX_COMPARED", 1)

    def late(number):
        def change(tick, picture, cloud):
            picture[0, 0, 0] ^= number if tick >= 10 - (number == 4) * 5 else 0
            return picture, cloud

        return change

    runs = [seen_run(0, every=1), seen_run(1, every=1), *(seen_run(n, every=1, change=late(n)) for n in (2, 3, 4))]
    front, _ = analyse_sensors(MemoryCell(header(), runs))
    assert (front.first_tick, front.first_repeat, front.first.tick, front.first.repeat) == (5, 4, 5, 4)


def test_a_difference_that_only_sensors_saw_is_not_bit_identical(runs):
    analysis = analyse_cell(MemoryCell(header(), runs))
    assert len(analysis.outcomes) == 1
    assert analysis.judgement.verdict == "within-tolerance"
    expected = (
        "front: 2 of 5 repeats see something else, first repeat 2 at tick 6 (0.6 s), in 14 of 60 frames; at most 2 of 48 pixels"
    )
    assert expected in analysis.judgement.reason
    notes = cell_notes(analysis)
    assert sum("front" in note for note in notes) == 1
    assert any(note.startswith("roof: ") and "10 of 20 points" in note for note in notes)


def test_points_that_are_missing_are_counted(runs):
    _, roof = analyse_sensors(MemoryCell(header(), [runs[0], runs[1], seen_run(2, change=fewer_points)]))
    assert (roof.first.elements, roof.first.differing, roof.first.max_difference) == (20, 1, None)


def test_frames_that_are_missing_differ(runs):
    front, _ = analyse_sensors(MemoryCell(header(), [runs[0], runs[1], seen_run(2, ticks=9)]))
    assert (front.first_tick, front.frames_differing) == (10, TICKS - 9)
    assert front.worst is None
    assert front.first_is_gap
    assert front.first_words() == "one repeat has no frame there"


def test_a_repeat_that_saw_nothing_at_all_differs(runs):
    front, _ = analyse_sensors(MemoryCell(header(), [runs[0], runs[1], seen_run(2, ticks=0)]))
    assert front.outcomes == ((0, 1), (2,))
    assert front.first_tick == 1


def test_the_json_object_holds_it_all(runs):
    found = json.loads(json.dumps(cell_object(analyse_cell(MemoryCell(header(), runs)))["sensors"]))
    assert found[0]["first_time_s"] == pytest.approx(0.6)
    assert found[0]["worst_difference"]["differing"] == 2
    assert found[1]["outcome_sizes"] == [3, 2]


def test_stored_cells_tell_what_cells_in_memory_tell(tmp_path, runs):
    expected = analyse_sensors(MemoryCell(header(), runs))
    writer = StoreWriter(tmp_path / "c", header())
    for repeat in runs[:3]:
        writer.write(repeat)
    writer.compact()
    for repeat in runs[3:]:
        writer.write(repeat)
    assert analyse_sensors(StoredCell(tmp_path / "c")) == expected
    writer.compact()
    writer.close_lock()
    assert analyse_sensors(StoredCell(tmp_path / "c")) == expected
    assert not list((tmp_path / "c" / "spool").iterdir())


def test_frames_of_which_no_content_was_kept_are_stored_too(tmp_path):
    runs = [seen_run(repeat, every=TICKS + 1) for repeat in range(2)]
    stored = store_repeats(tmp_path / "cell", header(channels=("x_m", "y_m", "z_m")), runs)
    assert analyse_sensors(stored) == analyse_sensors(MemoryCell(stored.header, runs))


def test_equal_runs_are_equal_files_and_contents_are_stored_once(tmp_path, runs):
    store_repeats(tmp_path / "a", header(), runs)
    with StoreWriter(tmp_path / "b", header()) as writer:
        for repeat in reversed(runs):
            writer.write(repeat)
            writer.compact()
    for name in ("sensors", "samples", "states", "runs"):
        first, two = ((tmp_path / folder / f"part-000000.{name}.parquet").read_bytes() for folder in "ab")
        assert first == two, name
    import pyarrow.parquet as pq

    # Three kept ticks and two sensors, once for the usual outcome; two of the ticks again for the other one.
    assert pq.read_metadata(tmp_path / "a" / "part-000000.samples.parquet").num_rows == 6 + 4


def test_a_repeat_run_again_replaces_its_frames(tmp_path, runs):
    with StoreWriter(tmp_path / "c", header()) as writer:
        for repeat in runs:
            writer.write(repeat)
        writer.compact()
        writer.write(seen_run(2))
        assert analyse_sensors(StoredCell(tmp_path / "c"))[0].outcomes == ((0, 1, 2, 3), (4,))
        writer.compact()
    assert analyse_sensors(StoredCell(tmp_path / "c"))[0].outcomes == ((0, 1, 2, 3), (4,))


def test_cells_without_sensors_have_no_files_for_them(tmp_path):
    from tests.conftest import straight_run

    cell = store_repeats(tmp_path / "c", header(), [straight_run(0), straight_run(1)])
    assert cell.sensor_tables() == ()
    assert not list((tmp_path / "c").glob("*sensors*"))


def test_the_recorder_refuses_frames_that_cannot_be():
    recorder = Recorder(0, ("x_m", "y_m"), STEP_S)
    recorder.sensor(3, "imu", IMU, np.zeros(7))
    with pytest.raises(
        SimulatorError, match=r"sensor 'imu' was sensor.other.imu at tick 3, it cannot be sensor.other.imu at tick 3"
    ):
        recorder.sensor(3, "imu", IMU, np.zeros(7))
    with pytest.raises(SimulatorError, match=r"it cannot be sensor.other.gnss at tick 4"):
        recorder.sensor(4, "imu", "sensor.other.gnss", np.zeros(3))
    with pytest.raises(SimulatorError, match="give an array of numbers"):
        recorder.sensor(4, "words", IMU, np.array([None]))


def test_the_digest_covers_shape_type_and_every_bit():
    def digest(values):
        recorder = Recorder(0, ("x_m", "y_m"), STEP_S)
        recorder.sensor(1, "one", IMU, values)
        recorder.end(1, "done")
        return recorder.finish().sensors[0].digest

    plain = np.arange(12, dtype=np.float32)
    variants = [plain, plain.reshape(3, 4), plain.astype(np.float64), plain.astype(np.int32), -plain]
    assert len({digest(variant) for variant in variants}) == len(variants)
    assert digest(plain) == digest(plain.astype(">f4")) == digest(np.repeat(plain, 2)[::2])


def test_depth_is_compared_in_metres_and_labels_are_only_counted():
    def seen(repeat, kind, values):
        recorder = Recorder(repeat, ("x_m", "y_m"), STEP_S)
        recorder.actor(1, "car")
        recorder.state(1, 1, {"x_m": 0.0, "y_m": 0.0})
        recorder.sensor(1, "eye", kind, np.array(values, np.uint8).reshape(1, 2, 4), keep=True)
        recorder.end(1, "done")
        return recorder.finish()

    step_m = 1000.0 / (2**24 - 1)
    near, far = [0, 255, 255, 255, 0, 0, 9, 255], [1, 0, 0, 255, 0, 0, 9, 255]
    (depth,) = analyse_sensors(MemoryCell(header(), [seen(n, "sensor.camera.depth", v) for n, v in enumerate((near, far))]))
    assert depth.worst.max_difference == pytest.approx(step_m)
    assert (depth.worst.differing, depth.worst.unit) == (1, "m")
    kind = "sensor.camera.semantic_segmentation"
    (labels,) = analyse_sensors(MemoryCell(header(), [seen(n, kind, v) for n, v in enumerate((near, far))]))
    assert (labels.worst.differing, labels.worst.max_difference) == (1, None)


def test_events_are_counted_by_what_they_are():
    def seen(repeat, columns):
        recorder = Recorder(repeat, ("x_m", "y_m"), STEP_S)
        recorder.actor(1, "car")
        recorder.state(1, 1, {"x_m": 0.0, "y_m": 0.0})
        events = np.array([[column, 3, 1000, 1] for column in columns], np.int64)
        recorder.sensor(1, "eye", "sensor.camera.dvs", events, keep=True)
        recorder.end(1, "done")
        return recorder.finish()

    (sensor,) = analyse_sensors(MemoryCell(header(), [seen(0, (1, 2, 3)), seen(1, (1, 2, 4))]))
    assert sensor.first_words() == "1 of 3 events"


def page_of(runs):
    from samepath.instrument.analysis.study import parse_restriction
    from samepath.instrument.report.document import Document
    from samepath.instrument.report.html import render_html

    analysis = analyse_cell(MemoryCell(header(), runs))
    return render_html(Document("t", (analysis,), parse_restriction([], [], "collision"), "samepath"))


def test_the_report_has_a_table_of_sensors(runs):
    page = page_of(runs)
    assert "What the sensors saw" in page
    assert "tick 6 (0.6\u00a0s), repeat 2" in page
    assert "2 of 48 pixels" in page
