"""CARLA's own client against the server: every family of methods, as scripts use them."""

import json
import math
import os
import subprocess
import sys

import pytest

from tests.support import SUPPORT
from tests.support.serving import served

pytest.importorskip("carla")

SCRIPTS = SUPPORT / "wheel_scripts.py"


@pytest.fixture
def run(tmp_path):
    """Run a script against a fresh server and return what it printed."""

    def run_script(name, map_name="t-junction", **changes):
        settings = {"map_name": map_name, "aliases": {"Town03": "double-mini-roundabout"}, "data_folder": tmp_path / "data"}
        with served(**{**settings, **changes}) as server:
            found = subprocess.run(
                [sys.executable, str(SCRIPTS), name, str(server.port)],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
                env={**os.environ, "CARLA_CACHE_DIR": str(tmp_path / "cache")},
            )
            assert found.returncode == 0, f"{found.returncode}: {found.stderr[-2000:]}\n{server.lines}"
            assert not [line for line in server.lines if "error of ours" in line]
            return json.loads(found.stdout.splitlines()[-1])

    return run_script


def test_time_and_world(run):
    found = run("time_and_world")
    assert found["version"]
    assert found["waited"] == sorted(set(found["waited"]))
    assert found["heard"][1] > found["heard"][0]
    assert found["frames"][1] == found["frames"][0] + 1 == found["frames"][2]
    assert math.isclose(found["delta"], 0.1, rel_tol=1e-6)
    assert found["elapsed_grows"]
    assert found["substeps"] == 7
    assert found["map"] == "Carla/Maps/t-junction"
    assert found["points"] > 10
    assert found["topology"] > 5
    assert "/Game/Carla/Maps/Town03" in found["maps"]
    assert found["weather"] == [80.0, 12.5]
    assert found["spectator"] == ["spectator", 30.0, -20.0]


def test_actors(run):
    found = run("actors")
    assert found["taken"] == "Spawn failed because of collision at spawn position"
    assert found["nobody"]
    assert found["hero"] == ["hero", "1,2,3", "vehicle.mercedes.coupe"]
    assert found["parent"]
    assert found["cars"]
    assert found["errors"][:2] == ["", "Spawn failed because of collision at spawn position"]
    assert "4000000 not found" in found["errors"][2]
    assert found["height"] == 5.0
    assert found["box"][0] > found["box"][1] > 0.5
    assert found["box"][2] == pytest.approx(found["box"][3])
    assert found["tags"] == [14]
    assert found["left"] == []


def test_motion(run):
    found = run("motion")
    assert found["control"][:2] == pytest.approx([0.8, 0.1])
    assert found["moved"] > 4.0
    assert found["stopped"] < 0.1
    assert found["mass"] == 3000.0
    assert found["friction"] == pytest.approx([2.0] * 4)
    assert found["lights"] == 8 | 2
    assert found["cruise"] == pytest.approx(5.0, abs=1.0)
    assert found["telemetry"] == [pytest.approx(found["cruise"], abs=0.2), 1, 4]
    assert found["gains"] == pytest.approx(0.15)
    assert found["held"] == pytest.approx(3.0, abs=0.3)
    assert found["risen"] > 1.0
    assert abs(found["steer"]) < 1.0
    assert found["limit"] > 10.0


def test_sensors(run):
    found = run("sensors")
    assert found["gnss"] == pytest.approx([0.0, 0.0, 0.0], abs=1e-6)
    assert found["same"]
    assert found["hits"]
    assert all(item[:2] == [True, True] for item in found["hits"])
    assert max(item[2] for item in found["hits"]) > 5000.0
    assert found["once"]
    assert found["obstacle"][0].startswith(("vehicle.", "static."))
    assert 0.0 < found["obstacle"][1] <= 30.0
    assert found["crossed"] >= 1


def test_sensors_that_see(run):
    pytest.importorskip("numba")
    first = run("eyes")
    assert first == run("eyes")
    assert not any(first["late"].values())
    for name, item in first["found"].items():
        assert [got for got, _ in item["frames"]] == list(range(1, 11, 2 if name == "sensor.lidar.ray_cast" else 1))
        assert all(got == ticked for got, ticked in item["frames"])
        if "camera" in name:
            assert item["sizes"] == [[180, 120, 90.0]] * 10
        elif "lidar" in name:
            assert all(total == points > 100 for total, points in item["sizes"])
        else:
            assert all(item["sizes"])


def test_maps(run):
    found = run("maps")
    assert found["kept"]
    assert found["frames_go_on"]
    assert found["empty"] == []
    assert found["new_id"]
    assert "'Town07' not found" in found["unknown"]
    # Another town under a name of CARLA's: the client can see that.
    assert found["alias"] == "samepath/double-mini-roundabout/Town03"
    assert found["synchronous"] is False
    assert found["sent"] == "Carla/Maps/OpenDriveMap"
    assert found["points"] > 3
    assert "OpenDriveMap" in found["nonsense"]
    assert found["alive"] == "0.9.16"


def test_two_clients(run):
    found = run("two_clients")
    assert found["seen"] == "vehicle.tesla.model3"
    assert found["speed"] > 2.0
    assert found["third"] == "0.9.16"
    assert found["old"]
    assert found["fresh"] == ["vehicle.tesla.model3"]
    assert found["fresh_id"]


def test_recorder(run, tmp_path):
    found = run("recorder")
    assert found["path"] == str(tmp_path / "data" / "runs" / "one.log")
    assert (tmp_path / "data" / "runs" / "one.log").stat().st_size > 1000
    assert "Create" in found["info"]
    assert "vehicle.tesla.model3" in found["info"]
    assert "Frames: 60" in found["info"]
    assert found["longer"]
    assert "Actor 1" in found["hits"]
    assert "Duration" in found["blocked"]
    assert all("data folder" in item or "file name" in item for item in found["outside"])
    assert "not found" in found["absent"]
    assert "Replaying" in found["text"]
    assert found["distance"] < 0.5
    assert (found["both"], found["left"]) == (2, 1)  # played to its end it stays, stopped on the way it goes
    assert sorted(path.name for path in tmp_path.rglob("*.log")) == ["one.log"]


def test_walkers(run):
    found = run("walkers", "town")
    assert found["people"] >= 3
    assert sorted(found["moved"])[len(found["moved"]) // 2] > 2.0
    assert max(found["speeds"]) == pytest.approx(1.4, abs=0.3)
    assert found["control"] == 1.0


def test_autopilot(run):
    found = run("autopilot", "town")
    assert found["vehicles"] >= 10
    assert found["away"] < 0.6
    assert found["moved"][len(found["moved"]) // 2] > 20.0


def test_a_synchronous_traffic_manager_ticks_on(run):
    assert run("synchronous_traffic_manager")["ticks"] == 600


def test_a_client_with_a_traffic_manager_loads_maps_in_real_time(run):
    found = run("loads_with_a_traffic_manager")
    assert found == {"loads": 6, "map": "Carla/Maps/t-junction"}


def test_scenery(run):
    found = run("scenery", "town")
    assert found["houses"][0] == found["houses"][1] > 5
    assert "Buildings" in found["before"]
    assert "Buildings" not in found["after"]
    assert found["ground"][1] == pytest.approx(0.0, abs=0.3)
    assert found["point"] == found["ground"][0]
    assert found["lamps"] > 5
    assert found["lights"] > 3
    assert found["group"]
    assert found["boxes"] == 1
    assert found["shown"] == "Yellow"
    assert found["green"] == 7.0
    assert found["frozen"]
    assert found["landmark"]
    assert found["stops"] >= 1
    assert found["names"] > 10
    assert found["gravity"] == pytest.approx(9.81)


def test_gbuffers(run):
    found = run("gbuffers")
    assert found["frames"] == dict.fromkeys(found["frames"], found["ticks"])
    assert len(found["frames"]) == 13
    assert found["as_cameras"] == {"SceneColor": True, "SceneDepth": True, "GBufferA": True, "CustomStencil": True}
    assert found["black"]
    assert found["after_stop"] == 0


def test_absent(run):
    found = run("absent")
    assert "not found" in found["told"][0]
    bones, components = found["parts"]
    assert "crl_root" in bones
    assert components
    assert found["alive"] == "0.9.16"


def test_a_thousand_ticks_twice_are_the_same_to_the_bit(run):
    first, second = run("thousand_ticks"), run("thousand_ticks")
    assert first == second
    assert first["vehicles"] == 5


def test_a_hundred_vehicles_twice_are_the_same_to_the_bit(run):
    first, second = run("hundred_vehicles", "town"), run("hundred_vehicles", "town")
    assert first == second
    assert first["vehicles"] == 100
