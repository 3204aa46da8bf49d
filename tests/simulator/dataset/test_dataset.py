"""Datasets: documented files, the same bytes every time, frames whole or not at all, and truth that fits the pictures."""

import hashlib
import json

import numpy as np
import pytest
from PIL import Image

from samepath.core.errors import InputError, StoreError
from samepath.scenarios.model import build_scenario
from samepath.simulator.dataset.files import FrameFolder, RecordSettings, weather_of
from samepath.simulator.dataset.recording import record
from samepath.simulator.sensors.labels import Label
from samepath.simulator.sensors.rig import parse_rig

RIG = """
name: test
sensors:
  - &eye {name: eye, type: sensor.camera.rgb, at: [0.3, 0, 1.6], attributes: {image_size_x: 160, image_size_y: 96, fov: 70}}
  - {<<: *eye, name: depth, type: sensor.camera.depth}
  - {<<: *eye, name: labels, type: sensor.camera.semantic_segmentation}
  - {<<: *eye, name: things, type: sensor.camera.instance_segmentation}
  - {name: lidar, type: sensor.lidar.ray_cast, at: [0, 0, 2], attributes: {range: 60, noise_stddev: 0.01}}
  - {name: radar, type: sensor.other.radar, at: [2.5, 0, 0.7]}
  - {name: imu, type: sensor.other.imu, attributes: {sensor_tick: 0.3}}
  - {name: gnss, type: sensor.other.gnss}
"""


def on_road(along_m):
    """A point on the right lane of a straight piece of road."""
    return [-66.92 + 0.92848 * along_m, -25.88 + 0.37139 * along_m]


SCENARIO = {
    "name": "behind",
    "map": "t-junction",
    "duration": 1.5,
    "end": "duration",
    "actors": [
        {"id": 1, "type": "vehicle.tesla.model3", "path": [on_road(-40), on_road(40)], "speed": 4.0},
        {"id": 2, "type": "vehicle.audi.tt", "path": [on_road(-26), on_road(40)], "speed": 4.0},
    ],
}


def settings(**changes):
    return RecordSettings(**{"scenario": build_scenario(SCENARIO, "s"), "rig": parse_rig(RIG, "r"), "every": 6, **changes})


def digests(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.blake2b(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "one"
    ticks = []
    result = record(settings(), folder, on_frame=lambda tick, frames: ticks.append((tick, frames)))
    return folder, result, ticks


def picture(path):
    with Image.open(path) as opened:
        return opened.copy()


def labels_of(folder, tick):
    return json.loads((folder / "frames" / f"{tick:06d}" / "labels.json").read_text())


def test_every_sixth_tick_becomes_a_frame(dataset):
    folder, result, ticks = dataset
    assert ticks == [(6, 1), (12, 2), (18, 3), (24, 4), (30, 5)]
    assert (result.frames, result.written) == (5, 5)
    index = json.loads((folder / "index.json").read_text())
    assert [frame["folder"] for frame in index["frames"]] == [f"frames/{tick:06d}" for tick in (6, 12, 18, 24, 30)]
    assert index["reason"] == result.reason == "simulated time is over"
    assert index["digest"] == result.digest


def test_the_same_recording_gives_the_same_bytes_with_two_threads_too(dataset, tmp_path):
    folder, _, _ = dataset
    record(settings(), tmp_path / "two", threads=2)
    assert digests(tmp_path / "two") == digests(folder)


def test_a_recording_that_was_interrupted_goes_on(dataset, tmp_path):
    folder, _, _ = dataset
    out = tmp_path / "again"

    def stop(tick, frames):
        if frames == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record(settings(), out, on_frame=stop)
    assert not (out / "index.json").exists()
    (out / "frames" / ".000018.partial").mkdir()
    (out / "frames" / ".000018.partial" / "eye.png").write_bytes(b"half")
    result = record(settings(), out)
    assert (result.frames, result.written) == (5, 3)
    assert digests(out) == digests(folder)


def test_pictures_points_and_labels_are_as_documented(dataset):
    folder, _, _ = dataset
    frame = folder / "frames" / "000030"
    truth = labels_of(folder, 30)
    assert {path.name for path in frame.iterdir()} == {
        "eye.png", "depth.png", "labels.png", "things.png", "lidar.npy", "radar.npy", "labels.json",
    }  # fmt: skip
    eye, depth, labels, things = (picture(frame / f"{name}.png") for name in ("eye", "depth", "labels", "things"))
    assert (eye.mode, depth.mode, labels.mode, things.mode) == ("RGB", "RGB", "L", "RGB")
    assert eye.size == labels.size == (160, 96)
    ids = np.array(things)[..., 1] + 256 * np.array(things)[..., 2].astype(int)
    car = ids == 2
    assert np.all(np.array(labels)[car] == Label.CAR)
    (other,) = truth["objects"]
    view = other["cameras"]["eye"]
    rows, columns = np.nonzero(car)
    assert view["box_px"] == [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    assert view["visible_px"] == car.sum()
    assert 0.0 <= view["occluded_ratio"] < 0.1
    metres = np.array(depth).astype(float) @ [1.0, 256.0, 65536.0] * 1000.0 / (256**3 - 1)
    rear_m = view["centre_m"][0] - other["box"]["extent_m"][0]
    assert metres[car].min() == pytest.approx(rear_m, abs=0.3)
    points, detections = np.load(frame / "lidar.npy"), np.load(frame / "radar.npy")
    assert (points.dtype, points.shape[1]) == (np.float32, 4)
    assert detections.shape[1] == 4
    assert truth["sensors"]["gnss"]["latitude_deg"] > 0
    assert set(other["box"]["pose"]) == {"x_m", "y_m", "z_m", "roll_deg", "pitch_deg", "yaw_deg"}


def test_boxes_project_with_the_calibration_onto_the_pixels(dataset):
    folder, _, _ = dataset
    truth = labels_of(folder, 30)
    lens = truth["sensors"]["eye"]["calibration"]
    (other,) = truth["objects"]
    view = other["cameras"]["eye"]
    x, y, z = np.array(view["corners_m"]).T
    columns = lens["width_px"] / 2 + lens["focal_px"] * y / x
    rows = lens["height_px"] / 2 - lens["focal_px"] * z / x
    left, top, right, bottom = view["box_px"]
    assert columns.min() - 1 <= left
    assert right <= columns.max() + 1
    assert rows.min() - 1 <= top
    assert bottom <= rows.max() + 1
    assert (right - left) > 0.8 * (columns.max() - columns.min())


def test_sensors_are_in_a_frame_when_they_measure_at_its_tick(dataset):
    folder, _, _ = dataset
    # Every 0.3 s from the first tick on: ticks 1, 7, 13, ... none of which is a multiple of six.
    assert all("imu" not in labels_of(folder, tick)["sensors"] for tick in (6, 12, 18, 24, 30))


def test_cameras_with_the_same_view_share_their_truth(dataset):
    folder, _, _ = dataset
    sensors = labels_of(folder, 6)["sensors"]
    assert {name: sensor.get("view") for name, sensor in sensors.items()} == {
        "eye": "eye", "depth": "eye", "labels": "eye", "things": "eye", "lidar": None, "radar": None, "gnss": None,
    }  # fmt: skip


def test_jpeg_is_for_colour_only(tmp_path):
    record(settings(images="jpeg", most=1), tmp_path / "j")
    names = {path.name for path in (tmp_path / "j" / "frames" / "000006").iterdir()}
    assert "eye.jpg" in names
    assert {"depth.png", "labels.png"} <= names
    assert picture(tmp_path / "j" / "frames" / "000006" / "eye.jpg").size == (160, 96)


def test_another_dataset_in_the_folder_is_refused(dataset, tmp_path):
    folder, _, _ = dataset
    with pytest.raises(InputError, match="holds another dataset"):
        record(settings(seed=1), folder)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="is not an empty folder"):
        record(settings(), tmp_path)


def test_a_frame_that_cannot_be_written_leaves_nothing(tmp_path):
    frames = FrameFolder(tmp_path)
    frames.write(1, {"a": b"1"})
    with pytest.raises(StoreError, match="frames before it are whole"):
        frames.write(2, {"a": b"1", "no/such": b"2"})
    assert frames.done() == {1}
    assert [path.name for path in frames.folder.iterdir()] == ["000001"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"every": 0}, "every: a whole number of ticks from 1 to 1000000 was wanted, but 0 came"),
        ({"most": 0}, "frames: a whole number of at least 1 was wanted, but 0 came"),
        ({"images": "gif"}, "images: png or jpeg was wanted, but 'gif' came"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, words):
    with pytest.raises(InputError, match=words):
        settings(**changes)


def test_weather_is_read_by_carlas_names():
    assert weather_of({"sun_altitude_angle": "-20"}).sun_altitude_angle == -20.0
    with pytest.raises(InputError, match="a number was wanted for cloudiness, but 'much' came"):
        weather_of({"cloudiness": "much"})
    from samepath.core.errors import UnknownNameError

    with pytest.raises(UnknownNameError, match="did you mean 'cloudiness'"):
        weather_of({"cloudines": "1"})


def test_night_is_darker_than_day(dataset, tmp_path):
    folder, _, _ = dataset
    record(settings(most=1, weather=weather_of({"sun_altitude_angle": "-30"})), tmp_path / "n")
    day, night = (np.array(picture(dataset / "frames" / "000006" / "eye.png")).mean() for dataset in (folder, tmp_path / "n"))
    assert night < 0.5 * day
