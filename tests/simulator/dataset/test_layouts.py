"""Datasets of many runs, and in the layouts of COCO and KITTI: read by COCO's own library, and held against geometry."""

import hashlib
import json
import math

import numpy as np
import pytest
from PIL import Image
from test_dataset import RIG, SCENARIO

from samepath.core.errors import InputError
from samepath.scenarios.model import build_scenario
from samepath.simulator.dataset.files import RecordSettings
from samepath.simulator.dataset.runs import DatasetSettings, drawn_seed, drawn_weather, record_runs
from samepath.simulator.sensors.rig import parse_rig

COCO = pytest.importorskip("pycocotools.coco").COCO
DENSE = "range: 60, points_per_second: 300000, rotation_frequency: 20, dropoff_general_rate: 0"
TURNED = RIG
for before, after in (
    ("at: [0.3, 0, 1.6]", "at: [0.3, 0.2, 1.6], yaw: 7, pitch: -3"),
    ("at: [0, 0, 2]", "at: [-0.4, 0.1, 2], yaw: 20"),
    ("range: 60, noise_stddev: 0.01", DENSE),
):
    assert before in TURNED
    TURNED = TURNED.replace(before, after)
WALKER = {"id": 3, "type": "walker.pedestrian.0001", "path": [[-86.68, -30.34], [-77.39, -26.62]], "speed": 1.2}


def asked(layout, runs=1, rig=TURNED, **changes):
    scenario = build_scenario({**SCENARIO, "actors": [*SCENARIO["actors"], WALKER]}, "s")
    recording = RecordSettings(scenario=scenario, rig=parse_rig(rig, "r"), every=15, seed=4, format=layout)
    return DatasetSettings(recording, runs, **changes)


def files(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.blake2b(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The same two runs in three layouts."""
    base = tmp_path_factory.mktemp("layouts")
    results = {name: record_runs(asked(name, 2, random_weather=True), base / name) for name in ("files", "coco", "kitti")}
    return base, results


@pytest.fixture(scope="module")
def labels(folders):
    """What is true of the frames, in their order."""
    base, _ = folders
    return [json.loads(path.read_text()) for path in sorted((base / "files").rglob("labels.json"))]


def seen_in(labels, view="eye"):
    return [(actor, actor["cameras"][view]) for actor in labels["objects"] if (actor["cameras"].get(view) or {}).get("box_px")]


def test_runs_have_seeds_and_weathers_of_their_own_from_named_streams(folders):
    base, results = folders
    index = json.loads((base / "files" / "index.json").read_text())
    assert [run["seed"] for run in index["runs"]] == [drawn_seed(4, 0), drawn_seed(4, 1)]
    for number, run in enumerate(index["runs"]):
        own = json.loads((base / "files" / run["folder"] / "dataset.json").read_text())
        assert own["seed"] == run["seed"]
        assert own["weather"] == run["weather"] == vars_of(drawn_weather(4, number))
    assert index["runs"][0]["digest"] != index["runs"][1]["digest"]
    assert {result.frames for result in results.values()} == {4}
    # More runs change none of those before.
    assert [asked("files", 500, random_weather=True).run(number).weather for number in range(3)] == [
        drawn_weather(4, number) for number in range(3)
    ]
    weathers = [drawn_weather(4, number) for number in range(300)]
    assert 60 < sum(weather.precipitation > 0.0 for weather in weathers) < 150
    assert 40 < sum(weather.fog_density > 0.0 for weather in weathers) < 110
    assert all(weather.wetness >= weather.precipitation for weather in weathers)
    altitudes = [weather.sun_altitude_angle for weather in weathers]
    assert min(altitudes) < -10.0
    assert max(altitudes) > 60.0


def vars_of(weather):
    return {name: getattr(weather, name) for name in weather.__slots__}


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword")  # pycocotools 2.0.11 under NumPy 2
def test_cocos_library_reads_it_and_every_mask_is_what_is_seen(folders, labels, capsys):
    base, _ = folders
    coco = COCO(str(base / "coco" / "annotations" / "instances.json"))
    capsys.readouterr()  # it talks
    assert len(coco.imgs) == 4
    assert {category["name"] for category in coco.loadCats(coco.getCatIds())} >= {"person", "car", "truck", "bicycle"}
    for frame, image in zip(labels, coco.loadImgs(sorted(coco.imgs)), strict=True):
        assert (image["tick"], image["camera"]) == (frame["tick"], "eye")
        with Image.open(base / "coco" / "images" / image["file_name"]) as picture:
            assert picture.size == (image["width"], image["height"]) == (160, 96)
        of_files = base / "files" / "runs" / f"{image['run']:03d}" / "frames" / f"{frame['tick']:06d}"
        assert (base / "coco" / "images" / image["file_name"]).read_bytes() == (of_files / "eye.png").read_bytes()
        with Image.open(of_files / "things.png") as picture:
            things = np.asarray(picture).astype(int)
        found = coco.loadAnns(coco.getAnnIds(imgIds=[image["id"]]))
        wanted = seen_in(frame)
        assert [label["actor_id"] for label in found] == [actor["id"] for actor, _ in wanted]
        for annotation, (actor, seen) in zip(found, wanted, strict=True):
            left, top, right, bottom = seen["box_px"]
            assert annotation["bbox"] == [left, top, right - left, bottom - top]
            assert annotation["area"] == seen["visible_px"]
            assert annotation["category_id"] == actor["label"]
            # An independent witness: the camera of instances has the id in green and blue.
            assert np.array_equal(coco.annToMask(annotation), things[..., 1] + 256 * things[..., 2] == actor["id"])
    assert len(coco.anns) >= 4


def numbers_of(path):
    found = {}
    for line in path.read_text().splitlines():
        name, _, values = line.partition(": ")
        found[name] = np.array([float(value) for value in values.split()])
    return found


def test_kittis_labels_boxes_and_scans_fit_each_other(folders, labels):
    """By the development kit alone: boxes built from labels, projected by the calibration, hold the points of the scan."""
    base, _ = folders
    place = base / "kitti" / "training"
    assert (base / "kitti" / "ImageSets" / "train.txt").read_text().split() == [f"{number:06d}" for number in range(4)]
    index = json.loads((base / "kitti" / "index.json").read_text())
    inside = 0
    for number, frame in enumerate(labels):
        name = f"{number:06d}"
        assert index["frames"][number]["tick"] == frame["tick"]
        calibration = numbers_of(place / "calib" / f"{name}.txt")
        projection, to_camera = calibration["P2"].reshape(3, 4), calibration["Tr_velo_to_cam"].reshape(3, 4)
        np.testing.assert_allclose(to_camera[:, :3] @ to_camera[:, :3].T, np.eye(3), atol=1e-9)
        assert np.linalg.det(to_camera[:, :3]) == pytest.approx(1.0), "right-handed on both sides"
        points = np.fromfile(place / "velodyne" / f"{name}.bin", "<f4").reshape(-1, 4)
        before = points[:, :3] @ to_camera[:, :3].T + to_camera[:, 3]
        lines = (place / "label_2" / f"{name}.txt").read_text().splitlines()
        wanted = seen_in(frame)
        assert len(lines) == len(wanted)
        for line, (actor, seen) in zip(lines, wanted, strict=True):
            kind, *values = line.split()
            cut, hidden, alpha, left, top, right, bottom, height, width, length, x, y, z, turn = map(float, values)
            assert kind == {12: "Pedestrian", 14: "Car"}[actor["label"]]
            assert (left, top, right + 1, bottom + 1) == tuple(seen["box_px"])
            assert hidden == (0 if seen["occluded_ratio"] <= 0.1 else 1 if seen["occluded_ratio"] <= 0.5 else 2)
            assert cut == pytest.approx(seen["truncated_ratio"], abs=0.006)
            assert math.cos(alpha - turn + math.atan2(x, z)) == pytest.approx(1.0, abs=1e-6)
            # The box as the development kit builds it: turned about y, standing on its place.
            corners = np.array([[i * length / 2, -j * height, k * width / 2] for i in (-1, 1) for j in (0, 1) for k in (-1, 1)])
            sine, cosine = math.sin(turn), math.cos(turn)
            corners = corners @ np.array([[cosine, 0, sine], [0, 1, 0], [-sine, 0, cosine]]).T + [x, y, z]
            pixels = np.c_[corners, np.ones(8)] @ projection.T
            u, v = pixels[:, 0] / pixels[:, 2], pixels[:, 1] / pixels[:, 2]
            if cut < 0.01:
                # What is seen lies within the projected box, up to what pitching the camera bends and half a pixel.
                assert u.min() - 2.0 <= left
                assert right <= u.max() + 2.0
                assert v.min() - 2.0 <= top
                assert bottom <= v.max() + 2.0
                if actor["label"] == 14 and seen["occluded_ratio"] < 0.01:
                    assert right - left > 0.6 * (u.max() - u.min())
            own = (before - [x, y, z]) @ np.array([[cosine, 0, sine], [0, 1, 0], [-sine, 0, cosine]])
            half = np.array([length / 2 + 0.1, height + 0.15, width / 2 + 0.1])
            inside += int(
                np.all((np.abs(own[:, [0, 2]]) < half[[0, 2]]) & (own[:, [1]] < 0.1) & (own[:, [1]] > -half[1]), axis=1).sum()
            )
    assert inside > 50, "the LiDAR's points lie in the boxes of the labels"


def test_the_same_command_writes_the_same_bytes_and_goes_on_where_it_was_interrupted(folders, tmp_path):
    base, results = folders

    class StoppedError(Exception):
        pass

    def stop(_, frames):
        if frames == 3:
            raise StoppedError

    for layout in ("coco", "kitti"):
        wanted = asked(layout, 2, random_weather=True)
        with pytest.raises(StoppedError):
            record_runs(wanted, tmp_path / layout, on_frame=stop)
        again = record_runs(wanted, tmp_path / layout)
        assert (again.frames, again.written, again.digest) == (4, 1, results[layout].digest)
        assert files(tmp_path / layout) == files(base / layout)
        assert record_runs(wanted, tmp_path / layout).written == 0
        with pytest.raises(InputError, match="another dataset"):
            record_runs(asked(layout, 3, random_weather=True), tmp_path / layout)
        assert not (tmp_path / layout / "runs").exists()


def test_what_cannot_be_is_refused_in_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    blind = "name: blind\nsensors:\n  - {name: imu, type: sensor.other.imu}\n"
    eye = "name: eye\nsensors:\n  - {name: eye, type: sensor.camera.rgb}\n"
    for settings, said in (
        (asked("coco", rig=blind), r"--format coco: a rig with a sensor\.camera\.rgb was wanted, but blind has none"),
        (asked("kitti", rig=eye), r"--format kitti: a rig with a sensor\.lidar\.ray_cast was wanted, but eye has none"),
    ):
        with pytest.raises(InputError, match=said):
            record_runs(settings, tmp_path / "out")
    for runs in (0, 1001):
        with pytest.raises(InputError, match=f"runs: a whole number from 1 to 1000 was wanted, but {runs} came"):
            asked("coco", runs)
    flat = build_scenario({**SCENARIO, "map": "flat"}, "s")
    with pytest.raises(InputError, match="flat"):
        record_runs(DatasetSettings(RecordSettings(scenario=flat, rig=parse_rig(RIG, "r"), format="coco")), tmp_path / "out")
    monkeypatch.setattr("samepath.simulator.dataset.layouts.find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"pip install 'samepath\[coco\]'"):
        record_runs(asked("coco"), tmp_path / "out")
    assert not (tmp_path / "out").exists()
