"""Datasets as one MCAP file: read back by the library, as true as the folder they stand for, the same bytes every time."""

import base64
import io
import json
import sys

import jsonschema
import numpy as np
import pytest
from mcap.reader import make_reader
from PIL import Image
from test_dataset import RIG, settings

from samepath.core.errors import InputError
from samepath.simulator.dataset.recording import record
from samepath.simulator.sensors.rig import parse_rig

FLOW = "  - {name: flow, type: sensor.camera.optical_flow, attributes: {image_size_x: 32, image_size_y: 24}}\n"
SEMANTIC = "  - {name: names, type: sensor.lidar.ray_cast_semantic, at: [0, 0, 2], attributes: {range: 60}}\n"
EVERYTHING = parse_rig(RIG + FLOW + SEMANTIC, "r")
TICKS = (6, 12, 18, 24, 30)


def asked(**changes):
    return settings(**{"rig": EVERYTHING, "format": "mcap", **changes})


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The same recording as files and as MCAP."""
    base = tmp_path_factory.mktemp("mcap")
    record(settings(rig=EVERYTHING), base / "files")
    result = record(asked(), base / "one")
    return base / "files", base / "one", result


@pytest.fixture(scope="module")
def found(folders):
    """Messages by topic, each with its time; and the file's summary."""
    with (folders[1] / "dataset.mcap").open("rb") as stream:
        reader = make_reader(stream)
        messages = {}
        for schema, channel, message in reader.iter_messages():
            assert (schema.encoding, channel.message_encoding) == ("jsonschema", "json")
            content = json.loads(message.data)
            jsonschema.validate(content, json.loads(schema.data))
            known = json.loads(schema.data)["properties"]
            assert set(content) == set(known), schema.name
            messages.setdefault(channel.topic, []).append((schema.name, message.log_time, content))
        (attachment,) = reader.iter_attachments()
        assert attachment.data == (folders[1] / "dataset.json").read_bytes()
    return messages


def file_of(folder, tick, name):
    return (folder / "frames" / f"{tick:06d}" / name).read_bytes()


def test_the_file_replaces_the_frames(folders):
    files, single, result = folders
    assert sorted(path.name for path in single.iterdir()) == ["dataset.json", "dataset.mcap", "index.json"]
    assert (result.frames, result.written) == (5, 5)
    index, other = (json.loads((folder / "index.json").read_text()) for folder in (single, files))
    assert index["digest"] == other["digest"] == result.digest
    assert [frame["tick"] for frame in index["frames"]] == list(TICKS)


def test_every_topic_has_a_message_per_frame_at_the_time_of_the_simulation(found):
    cameras = {"eye", "depth", "labels", "things", "flow"}
    sensors = {f"/sensors/{name}" for name in cameras | {"lidar", "names", "radar", "gnss"}}
    views = {f"/sensors/{name}/calibration" for name in cameras} | {"/sensors/eye/boxes", "/sensors/flow/boxes"}
    assert set(found) == {"/labels", "/tf", "/objects"} | sensors | views
    for topic, messages in found.items():
        assert [time_ns for _, time_ns, _ in messages] == [tick * 50_000_000 for tick in TICKS], topic


def test_pictures_and_labels_are_those_of_the_folder(folders, found):
    files, _, _ = folders
    for number, tick in enumerate(TICKS):
        assert found["/labels"][number][2] == json.loads(file_of(files, tick, "labels.json"))
        for name in ("eye", "depth", "labels", "things"):
            schema, _, content = found[f"/sensors/{name}"][number]
            assert (schema, content["format"]) == ("foxglove.CompressedImage", "png")
            assert base64.b64decode(content["data"]) == file_of(files, tick, f"{name}.png")
    _, _, flow = found["/sensors/flow"][2]
    array = np.frombuffer(base64.b64decode(flow["data"]), flow["dtype"]).reshape(flow["shape"])
    assert np.array_equal(array, np.load(io.BytesIO(file_of(files, 18, "flow.npy"))))


def cloud_of(content):
    kinds = {5: "<u4", 7: "<f4"}
    dtype = np.dtype(
        {
            "names": [field["name"] for field in content["fields"]],
            "formats": [kinds[field["type"]] for field in content["fields"]],
            "offsets": [field["offset"] for field in content["fields"]],
            "itemsize": content["point_stride"],
        }
    )
    return np.frombuffer(base64.b64decode(content["data"]), dtype)


def test_points_are_those_of_the_folder_with_y_to_the_left(folders, found):
    files, _, _ = folders
    for name, columns in (("lidar", ["intensity"]), ("names", ["cosine", "id", "label"])):
        points, rows = cloud_of(found[f"/sensors/{name}"][0][2]), np.load(io.BytesIO(file_of(files, 6, f"{name}.npy")))
        assert len(points) == len(rows) > 100
        for field, column in zip(["x", "y", "z", *columns], rows.T, strict=True):
            assert np.array_equal(points[field], -column if field == "y" else column)
    points, rows = cloud_of(found["/sensors/radar"][0][2]), np.load(io.BytesIO(file_of(files, 6, "radar.npy")))
    assert np.array_equal(points["velocity"], rows[:, 0])
    azimuth, altitude, depth = rows[:, 1:].T.astype(float)
    np.testing.assert_allclose(points["x"], depth * np.cos(altitude) * np.cos(azimuth), rtol=1e-6)
    np.testing.assert_allclose(points["y"], -depth * np.cos(altitude) * np.sin(azimuth), rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(points["z"], depth * np.sin(altitude), rtol=1e-6, atol=1e-5)


def turned(rotation, vector):
    """A vector turned by a quaternion."""
    w, axis = rotation["w"], np.array([rotation[name] for name in "xyz"])
    return vector + 2.0 * np.cross(axis, np.cross(axis, vector) + w * vector)


def xyz(given):
    return np.array([given[name] for name in "xyz"])


def test_a_box_goes_through_the_transforms_and_the_calibration_to_its_pixels(found):
    """What a viewer does: from the world to the camera, to its optical frame, to the picture."""
    transforms = {transform["child_frame_id"]: transform for transform in found["/tf"][-1][2]["transforms"]}
    assert {transform["parent_frame_id"] for transform in transforms.values()} == {
        "world",
        *(f"sensors/{name}" for name in ("eye", "depth", "labels", "things", "flow")),
    }
    (box,) = [entity for entity in found["/objects"][-1][2]["entities"] if entity["id"] == "2"]
    (cube,) = box["cubes"]
    assert {"key": "label", "value": "car"} in box["metadata"]
    half = xyz(cube["size"]) / 2.0
    signs = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    pose = cube["pose"]
    corners = [turned(pose["orientation"], half * sign) + xyz(pose["position"]) for sign in signs]

    def backwards(name, point):
        rotation = transforms[name]["rotation"]
        back = {**{axis: -rotation[axis] for axis in "xyz"}, "w": rotation["w"]}
        return turned(back, point - xyz(transforms[name]["translation"]))

    seen = np.array([backwards("sensors/eye/optical", backwards("sensors/eye", corner)) for corner in corners])
    lens = found["/sensors/eye/calibration"][-1][2]
    matrix = np.array(lens["K"]).reshape(3, 3)
    pixels = seen @ matrix.T
    pixels = pixels[:, :2] / pixels[:, 2:] + 0.5  # from the middle of the first pixel to its corner
    (outline,) = found["/sensors/eye/boxes"][-1][2]["points"]
    drawn = np.array([[point["x"], point["y"]] for point in outline["points"]])
    assert np.all(seen[:, 2] > 5.0)
    assert np.all(pixels.min(axis=0) - 1.0 <= drawn.min(axis=0))
    assert np.all(drawn.max(axis=0) <= pixels.max(axis=0) + 1.0)
    assert np.ptp(drawn[:, 0]) > 0.8 * np.ptp(pixels[:, 0])
    assert found["/sensors/eye/boxes"][-1][2]["texts"][0]["text"] == "car 2"


def test_the_same_recording_is_the_same_file_also_when_it_was_interrupted(folders, tmp_path):
    _, single, result = folders

    def stop(tick, frames):
        if frames == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record(asked(), tmp_path / "two", on_frame=stop)
    assert not (tmp_path / "two" / "dataset.mcap").exists()
    again = record(asked(), tmp_path / "two", threads=2)
    assert (again.frames, again.written) == (5, 2)
    for name in ("dataset.json", "dataset.mcap", "index.json"):
        assert (tmp_path / "two" / name).read_bytes() == (single / name).read_bytes()
    # Once more: nothing is drawn, and what an interruption at the very end left behind goes.
    (tmp_path / "two" / "frames" / "000006").mkdir(parents=True)
    finished = record(asked(), tmp_path / "two")
    assert (finished.frames, finished.written, finished.digest) == (5, 0, result.digest)
    assert not (tmp_path / "two" / "frames").exists()


def test_jpeg_pictures_say_so(tmp_path):
    record(asked(images="jpeg", most=1), tmp_path / "j")
    with (tmp_path / "j" / "dataset.mcap").open("rb") as stream:
        ((_, _, message),) = make_reader(stream).iter_messages(topics=["/sensors/eye"])
    content = json.loads(message.data)
    assert content["format"] == "jpeg"
    with Image.open(io.BytesIO(base64.b64decode(content["data"]))) as picture:
        assert picture.size == (160, 96)


def test_without_the_library_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcap", None)
    with pytest.raises(InputError, match=r"needs the library mcap, which is not installed: pip install 'samepath\[mcap\]'"):
        record(asked(), tmp_path / "n")
    assert not (tmp_path / "n").exists()


def test_an_unknown_format_is_refused():
    with pytest.raises(InputError, match="format: files, mcap, coco or kitti was wanted, but 'bag' came"):
        settings(format="bag")
