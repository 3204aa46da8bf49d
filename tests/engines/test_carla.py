"""The CARLA adapter against our own server: it repeats itself, holds what it should hold, and leaves nothing behind."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("carla")

from tests.support.carla_process import in_client, served

TEST2 = {"scenario": "table1-test2"}
SHORT = """
name: short
map: t-junction
duration: 3 s
actors:
  - {id: 1, type: vehicle.mercedes-benz.coupe, speed: 8 m/s, path: [[-74.96, -29.1], [-65.68, -25.38], [-56.39, -21.67]]}
  - {id: 2, type: walker.pedestrian.0001, speed: 1.4 m/s, after_collision: remove, path: [[-67.5, -26.1], [-60.0, -25.5]]}
"""


@pytest.fixture(scope="module")
def port():
    with served() as (_, number):
        yield number


@pytest.fixture
def short(tmp_path):
    (tmp_path / "short.yaml").write_text(SHORT)
    return str(tmp_path / "short.yaml")


def test_the_adapter_conforms_and_is_held_to_the_bit_where_the_server_is(port, short):
    assert in_client("kit", port=port, scenario=short) == {}


@pytest.fixture(scope="module")
def tests(port):
    """Tests 2 and 4 of the paper and some traffic in different ways, all in one process."""
    first = {**TEST2, "duration_s": 4.0}
    traffic = {"scenario": "autopilot", "duration_s": 4.0}
    requests = {
        "test 2": TEST2,
        "test 4": {"scenario": "table1-test4"},
        "first 4 s": first,
        "one by one": {**first, "settings": {"batch": False}},
        "as OpenDRIVE": {**first, "settings": {"map": "opendrive"}},
        "not reloaded": {**first, "settings": {"reload": "none"}},
        "finer steps": {**first, "settings": {"fixed_delta_s": 0.025}},
        "no substeps": {**first, "settings": {"substeps": 0}},
        # The server may have to compile its renderer first.
        "watched": {**TEST2, "duration_s": 0.5, "settings": {"sensors": "small", "timeout_s": 100}},
        "watched again": {**TEST2, "duration_s": 0.5, "settings": {"sensors": "small"}},
        "unwatched": {**TEST2, "duration_s": 0.5},
        "badly watched": {**TEST2, "duration_s": 0.5, "settings": {"sensors": "smal"}},
        "traffic": traffic,
        "other places": {**traffic, "seed": 1},
    }
    found = in_client("runs", port=port, requests=list(requests.values()), sensor_wait_s=0.03, vehicles=3)
    return dict(zip(requests, found, strict=True))


def test_two_vehicles_meet_and_the_sensor_tells_of_it_once(tests):
    (collision,) = tests["test 2"]["events"]
    assert collision[1:] == ["collision", 1, 2, ""]
    assert 200 < collision[0] < 230
    # The second brakes at its last waypoint, and the first is held up behind it: tyres hold sideways, nobody slides off.
    assert tests["test 2"]["reason"] == "simulated time is over"
    assert tests["test 2"]["rows"] == 2 * tests["test 2"]["end"]
    assert tests["test 2"]["times"] == [0.05, 0.1, pytest.approx(0.15)]


def test_a_pedestrian_who_was_hit_is_taken_away_half_a_second_later(tests):
    (hit, gone) = tests["test 4"]["events"]
    assert hit[1:] == ["collision", 1, 3, ""]
    assert gone == [hit[0] + 11, "destroy", 3, None, ""]


def test_what_leaves_the_world_as_it_is_leaves_every_bit_as_it_is(tests):
    for name in ("one by one", "as OpenDRIVE", "not reloaded"):
        assert tests[name]["digest"] == tests["first 4 s"]["digest"], name


def test_what_changes_the_physics_changes_the_bits(tests):
    assert len({tests[name]["digest"] for name in ("first 4 s", "finer steps", "no substeps")}) == 3
    assert tests["finer steps"]["end"] == tests["first 4 s"]["end"] == 80


def test_a_rig_rides_along_and_every_tick_has_the_digest_of_every_sensor(tests):
    seen = tests["watched"]["sensors"]
    kinds = {name: kind for name, kind, _, _ in seen}
    assert set(kinds) == {"front", "front-depth", "front-labels", "lidar", "radar", "imu", "gnss"}
    for name in kinds:
        assert [tick for other, _, tick, _ in seen if other == name] == list(range(1, 11)), name
    assert len({digest for name, _, _, digest in seen if name == "front"}) > 1, "somebody moves, and is seen to"
    assert tests["watched again"]["sensors"] == seen, "on our own server, to the bit"
    assert tests["watched again"]["digest"] == tests["watched"]["digest"] == tests["unwatched"]["digest"]
    assert tests["unwatched"]["sensors"] == []
    assert tests["badly watched"]["error"].startswith("unknown rig 'smal': did you mean 'small'?")


def test_the_log_holds_the_numbers_of_the_client_which_are_32_bit_floats(tests):
    assert all(test["float32"] for test in tests.values() if "error" not in test)


def test_traffic_needs_no_script_and_follows_the_seed(tests):
    assert len(tests["traffic"]["actors"]) == 3
    assert all(name.startswith("vehicle.") for name in tests["traffic"]["actors"])
    assert tests["traffic"]["digest"] != tests["other places"]["digest"]


def test_without_synchronous_time_the_run_is_recorded_as_it_came(port):
    free = {"synchronous": False, "settle_s": 0.1, "lead_s": 0.1}
    fixed, variable = in_client(
        "runs",
        port=port,
        requests=[
            {"scenario": "table1-test1", "duration_s": 0.5, "settings": free},
            {"scenario": "table1-test1", "duration_s": 0.5, "settings": {**free, "fixed_delta_s": 0.0}},
        ],
    )
    assert fixed["end"] == variable["end"] == 10
    assert fixed["float32"]
    assert not variable["float32"], "states between two frames are interpolated"


def test_nothing_is_left_behind_by_a_run_or_by_one_that_failed(port, short, tmp_path):
    crowded = tmp_path / "crowded.yaml"
    crowded.write_text(SHORT.replace("[-67.5, -26.1]", "[-74.96, -29.1]"))
    boxed = tmp_path / "boxed.yaml"
    boxed.write_text(SHORT + "boxes:\n  - {name: wall, at: [0, 0], size: [1, 1, 1]}\n")
    results = in_client(
        "runs",
        port=port,
        requests=[
            {"scenario": short, "duration_s": 0.5},
            {"scenario": str(crowded)},
            {"scenario": str(boxed)},
            {"scenario": "table1-test2", "settings": {"map": "town"}},
            {"scenario": "table1-test2", "settings": {"map": "Town03"}},
            {"scenario": "table1-test2", "settings": {"map": "town", "anchor": "spawn:9999"}},
            {"scenario": "autopilot", "settings": {"vehicles": 900}},
        ],
    )
    assert results[0]["actors"] == ["vehicle.mercedes-benz.coupe", "walker.pedestrian.0001"]
    words = [result.get("error", "") for result in results]
    for text, expected in zip(
        words[1:],
        (
            "walker.pedestrian.0001 could not be spawned at (-75.0, -29.1, 1.1): Spawn failed because of collision",
            "boxes cannot be put into a CARLA world",
            "off the map Carla/Maps/town: give anchor",
            "unknown map of the server 'Town03'",
            "the map has spawn points 0 to",
            "vehicles: 900 were wanted, but the map Carla/Maps/town has",
        ),
        strict=True,
    ):
        assert expected in text
        assert "\n" not in text
    assert in_client("leftovers", port=port) == {"synchronous": False, "fixed_delta_s": None, "actors": []}


def test_a_second_client_that_ticks_is_noticed(port):
    assert "another client ticks the server" in in_client("ticked_by_two", port=port)


def test_a_server_of_another_version_is_refused_and_one_that_goes_away_is_missed_in_one_line():
    refused, missed = in_client("loses_its_server", timeout_s=10.0)
    assert "the client is of CARLA 0.9.16, the server at 127.0.0.1:" in refused
    assert "of 0.9.13; such a pair can crash: install carla==0.9.13, or give any_version: true" in refused
    assert "gave no answer after tick 5 within 10 s: is it still running?" in missed
    assert "\n" not in refused + missed


def test_a_study_in_fresh_interpreters_finds_it_bit_identical(port, short, tmp_path):
    (tmp_path / "small.yaml").write_text(f"""
name: small
design:
  simulators: [{{simulator: carla, expect: bit-identical}}]
  scenarios: [{short}, autopilot]
  repeats: 2
  duration: 3 s
settings: {{port: {port}, vehicles: 3}}
execution: {{isolation: cold}}
""")
    command = [
        sys.executable,
        "-m",
        "samepath",
        "study",
        str(tmp_path / "small.yaml"),
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    cells = json.loads(done.stdout)["cells"]
    assert [cell["verdict"] for cell in cells] == ["bit-identical"] * 2
