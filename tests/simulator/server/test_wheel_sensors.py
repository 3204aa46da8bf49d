"""CARLA's own client and sensors: no frame lost, none out of place, several listeners, and limits that have names."""

import json
import os
import subprocess
import sys

import pytest

from samepath.simulator.sensors.building import build_code
from tests.support import SUPPORT
from tests.support.serving import served

pytest.importorskip("carla")
pytest.importorskip("numba")

SCRIPTS = SUPPORT / "wheel_sensor_scripts.py"


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """A client waits 20 s at most; building code on first use may take longer."""
    build_code(print)


def run(name, folder, given=""):
    """Run a script against a fresh server and return what it printed."""
    with served(map_name="t-junction", data_folder=folder / "data") as server:
        done = subprocess.run(
            [sys.executable, str(SCRIPTS), name, str(server.port)],
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, "CARLA_CACHE_DIR": str(folder / "cache")},
        )
        assert done.returncode == 0, f"{done.returncode}: {done.stderr[-2000:]}\n{server.lines}"
        assert not [line for line in server.lines if "error of ours" in line or "silent" in line]
        return json.loads(done.stdout.splitlines()[-1])


def test_every_sensor_sends_every_frame_that_is_due_from_where_the_snapshot_says(tmp_path):
    found = run("exact", tmp_path)
    assert found["places"] == 12  # it moves all the time
    assert found["more"] == 0
    apart = {"sensor.lidar.ray_cast": 3, "sensor.other.imu": 2, "sensor.other.obstacle": 2}
    events = found["told"].pop("sensor.camera.dvs")
    assert [frame for frame, _ in events] == sorted({frame for frame, _ in events} & set(range(1, 13)))
    assert len(events) >= 3  # it drives, so that something changes
    assert all(same for _, same in events)
    for kind, told in found["told"].items():
        # The first frame is the first tick's: none is lost between spawning, listening and ticking.
        assert [frame for frame, _ in told] == list(range(1, 13, apart.get(kind, 1))), kind
        assert len(told) == found["due"][kind]
        assert all(same for _, same in told), kind


def test_several_clients_listen_to_one_camera_and_get_the_same(tmp_path):
    found = run("listeners", tmp_path)
    for part, count in (("together", 3), ("without", 2), ("again", 3)):
        assert len(found[part]) == count
        assert all(right for right, _ in found[part]), part
        assert len({digest for _, digest in found[part]}) == 1
    assert found["silent"] == 0


WRONG = [
    ("sensor.camera.rgb", "image_size_x", "0", "image_size_x: a whole number from 1 to 8192 pixels was wanted, but '0' came"),
    ("sensor.camera.depth", "image_size_y", "100000", "image_size_y: a whole number from 1 to 8192 pixels was wanted"),
    ("sensor.camera.normals", "image_size_x", "8192", None),
    ("sensor.camera.semantic_segmentation", "fov", "0", "fov: a number from 1 to 170 degrees was wanted, but '0' came"),
    ("sensor.camera.optical_flow", "fov", "400", "fov: a number from 1 to 170 degrees was wanted, but '400' came"),
    ("sensor.camera.instance_segmentation", "sensor_tick", "-1", "sensor_tick: a number from 0 to 86400 s was wanted"),
    ("sensor.camera.dvs", "positive_threshold", "-1", "positive_threshold: a number above 0 and at most 100 was wanted"),
    ("sensor.lidar.ray_cast", "channels", "1000000", "channels: a whole number from 1 to 1024 was wanted, but '1000000' came"),
    ("sensor.lidar.ray_cast", "range", "-5", "range: a number above 0 and at most 10000 m was wanted, but '-5' came"),
    ("sensor.lidar.ray_cast", "points_per_second", "1000000000", "points_per_second: at most 16777216 rays in a measurement"),
    ("sensor.lidar.ray_cast_semantic", "horizontal_fov", "400", "horizontal_fov: a number above 0 and at most 360 degrees"),
    ("sensor.other.radar", "range", "-1", "range: a number above 0 and at most 10000 m was wanted"),
    ("sensor.other.radar", "vertical_fov", "0", "vertical_fov: a number above 0 and at most 175 degrees was wanted"),
    ("sensor.other.radar", "points_per_second", "100000000", "points_per_second: at most 65536 rays in a measurement"),
    ("sensor.other.imu", "noise_accel_stddev_x", "-1", "noise_accel_stddev_x: a number from 0 to 1000000 m/s² was wanted"),
    ("sensor.other.gnss", "noise_alt_stddev", "-1", "noise_alt_stddev: a number from 0 to 1000000 m was wanted"),
    ("sensor.other.obstacle", "distance", "-1", "distance: a number above 0 and at most 10000 m was wanted"),
]  # fmt: skip


def test_attributes_out_of_range_are_refused_by_name_and_limit(tmp_path):
    found = run("limits", tmp_path, json.dumps([item[:3] for item in WRONG]))
    for (kind, _, _, words), said in zip(WRONG, found["said"], strict=True):
        if words is None:  # 8192 x 600 pixels are many, but not too many
            assert said == ""
            continue
        assert f"{kind}: {words}" in said
        assert "\n" not in said.strip()
    assert found["alive"]
