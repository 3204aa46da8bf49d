"""Exports, opened with the libraries they are for: the same rows, at the same times, at the mirrored places."""

import json
import math

import numpy as np
import pytest

import samepath
from samepath.core.errors import SamepathError
from samepath.instrument.exporting import export
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.store import store_repeats
from tests.conftest import header

CHANNELS = ("x_m", "y_m", "z_m", "yaw_deg")
STEP_S = 0.05


def run(repeat):
    recorder = Recorder(repeat, CHANNELS, STEP_S)
    recorder.actor(1, "vehicle.tesla.model3")
    recorder.actor(2, "walker.pedestrian.0001")
    for tick in range(4):
        recorder.state(tick, 1, {"x_m": tick / 3 + 0.1 * repeat, "y_m": 2.0, "z_m": 0.0, "yaw_deg": 30.0})
        if tick < 2:
            recorder.state(tick, 2, {"x_m": 5.0, "y_m": -tick / 7, "z_m": 0.9, "yaw_deg": 0.0})
    recorder.event(2, "collision", 1, other=2)
    recorder.end(3, "done")
    return recorder.finish()


@pytest.fixture
def trace(tmp_path):
    folder = tmp_path / "trace"
    store_repeats(folder, header(channels=CHANNELS, step_s=STEP_S), [run(0), run(1)])
    return folder


def test_a_table_is_read_back_to_the_same_bits(trace, tmp_path):
    (again,) = samepath.load(export(trace, tmp_path / "t.csv", to="csv"))
    assert len(again.runs) == 2
    for number in (0, 1):
        wanted, came = run(number), again.load(number)
        assert came.tick.tolist() == wanted.tick.tolist()
        assert came.actor.tolist() == wanted.actor.tolist()
        order = [came.channels.index(name) for name in CHANNELS]
        assert np.array_equal(came.values[:, order], wanted.values)


def test_mcap_opens_with_its_library(trace, tmp_path):
    from mcap.reader import make_reader

    with export(trace, tmp_path / "t.mcap", to="mcap").open("rb") as file:
        messages = [
            (channel.topic, schema.name, message.log_time, json.loads(message.data))
            for schema, channel, message in make_reader(file).iter_messages()
        ]
    assert {topic for topic, *_ in messages} == {f"/repeat_{n}/{what}" for n in (0, 1) for what in ("actors", "events")}
    scenes = [row for row in messages if row[0] == "/repeat_1/actors"]
    assert [row[2] for row in scenes] == [0, 50_000_000, 100_000_000, 150_000_000]
    assert [len(row[3]["entities"]) for row in scenes] == [2, 2, 1, 1]
    (cube,) = scenes[1][3]["entities"][0]["cubes"]
    place, turned = cube["pose"]["position"], cube["pose"]["orientation"]
    assert place["x"] == 1 / 3 + 0.1
    assert place["y"] == -2.0  # right-handed: y to the left
    assert place["z"] == pytest.approx(cube["size"]["z"] / 2)
    assert 2 * math.atan2(turned["z"], turned["w"]) == pytest.approx(math.radians(-30.0))
    hits = [row[3]["message"] for row in messages if row[1] == "foxglove.Log" and "collision" in row[3]["message"]]
    assert hits == ["collision actor 1 and 2"] * 2


def test_equal_traces_give_equal_mcap_files(trace, tmp_path):
    first, other = (export(trace, tmp_path / name, to="mcap").read_bytes() for name in ("a.mcap", "b.mcap"))
    assert first == other


def test_rerun_opens_with_its_library(trace, tmp_path):
    from rerun.chunk import RrdReader

    chunks = list(RrdReader(str(export(trace, tmp_path / "t.rrd", to="rerun"))).stream())
    entities = {str(chunk.entity_path) for chunk in chunks}
    assert {f"/repeat_{n}/actor_{a}" for n in (0, 1) for a in (1, 2)} <= entities
    ticks = [
        chunk.to_record_batch()
        for chunk in chunks
        if str(chunk.entity_path) == "/repeat_1/actor_1" and "tick" in chunk.timeline_names
    ]
    table = ticks[0].to_pydict()
    assert table["tick"] == [0, 1, 2, 3]
    (places,) = [values for name, values in table.items() if name.endswith("translation")]
    assert [row[0][:2] for row in places] == [pytest.approx([tick / 3 + 0.1, -2.0], abs=1e-6) for tick in range(4)]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"to": "cvs"}, "did you mean"),
        ({"to": "mcap"}, "ends in .mcap"),
        ({"cell": "other"}, "other"),
        ({"repeats": [9]}, "none of the repeats"),
    ],
)
def test_bad_input_is_one_line(trace, tmp_path, changes, told):
    with pytest.raises(SamepathError, match=told):
        export(trace, tmp_path / "t.csv", **{"to": "csv", **changes})
    assert not (tmp_path / "t.csv").exists()


def test_only_chosen_repeats_are_written(trace, tmp_path):
    text = export(trace, tmp_path / "t.csv", to="csv", repeats=[1]).read_text()
    assert {line.split(",")[0] for line in text.splitlines()[1:]} == {"1"}


def test_more_rows_than_a_viewer_holds_are_refused(trace, tmp_path, monkeypatch):
    monkeypatch.setattr("samepath.instrument.exporting.ROWS_MOST", 3)
    with pytest.raises(SamepathError, match="choose repeats with --repeats"):
        export(trace, tmp_path / "t.csv", to="csv")
