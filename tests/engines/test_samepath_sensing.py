"""The embedded simulator with sensors: frames in the trace, the same in every repeat, and seen by the analysis."""

import pytest

from samepath.core.errors import InputError, UnknownNameError
from samepath.engines import registry
from samepath.engines.interface import RunRequest
from samepath.instrument.analysis.cell import analyse_cell
from samepath.instrument.traces.cell import MemoryCell
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.records import Header

RIG = """
name: test
sensors:
  - {name: eye, type: sensor.camera.rgb, at: [0.3, 0, 1.6], attributes: {image_size_x: 90, image_size_y: 60}}
  - {name: lidar, type: sensor.lidar.ray_cast, at: [0, 0, 2], attributes: {range: 50, channels: 8, points_per_second: 16000}}
  - {name: imu, type: sensor.other.imu, attributes: {noise_accel_stddev_x: 0.1}}
"""
FRAMES = ("eye", "imu", "lidar")


@pytest.fixture
def rig(tmp_path):
    path = tmp_path / "rig.yaml"
    path.write_text(RIG)
    return str(path)


def run(name, repeat, log_every=1, duration_s=1.0, **settings):
    simulator = registry.create(name)
    info = simulator.described(settings)
    recorder = Recorder(repeat, info.channels, info.step_s, log_every)
    simulator.run(RunRequest("table1-test2", repeat, settings=settings, duration_s=duration_s), recorder)
    return recorder.finish()


def cell(repeats):
    return MemoryCell(Header("e", "c", "table1-test2", repeats[0].channels, 0.05), repeats)


def test_sensors_change_no_state_and_repeat_themselves(rig):
    repeats = [run("samepath", number, sensors=rig, sensor_samples=10) for number in range(2)]
    assert run("samepath", 0).digest == repeats[0].digest
    analysis = analyse_cell(cell(repeats))
    assert [(sensor.sensor, sensor.frames) for sensor in analysis.sensors] == [(name, 20) for name in FRAMES]
    assert analysis.judgement.verdict == "bit-identical"
    kept = {frame.tick for frame in repeats[0].sensors if frame.sample is not None}
    assert kept == {10, 20}


def test_without_a_rig_nothing_is_sensed():
    assert run("samepath", 0).sensors == ()
    assert run("samepath", 0, sensors="none").sensors == ()


def test_only_ticks_that_are_logged_are_sensed(rig):
    repeat = run("samepath", 0, log_every=4, sensors=rig, sensor_samples=2)
    assert sorted({frame.tick for frame in repeat.sensors}) == [4, 8, 12, 16, 20]
    assert sorted({frame.tick for frame in repeat.sensors if frame.sample is not None}) == [8, 16]


def test_smaller_steps_are_sensed_at_ticks(rig):
    repeat = run("samepath", 0, sensors=rig, step_s=0.025)
    assert sorted({frame.tick for frame in repeat.sensors}) == list(range(1, 21))


def test_what_is_varied_on_purpose_is_seen_by_sensors(rig):
    settings = {"sensors": rig, "mode": "lockstep", "sources": "unseeded-random", "gusts_n": 4000.0, "sensor_samples": 5}
    repeats = [run("samepath-game-loop", number, duration_s=2.0, **settings) for number in range(2)]
    analysis = analyse_cell(cell(repeats))
    eye = analysis.sensors[0]
    assert len(eye.outcomes) == 2
    assert eye.first_tick is not None
    assert eye.worst is not None
    assert 0 < eye.worst.differing <= eye.worst.elements == 90 * 60


def test_variable_steps_are_sensed_at_the_first_step_at_or_after_a_tick(rig):
    repeat = run("samepath-game-loop", 0, sensors=rig, mode="variable", time_scale=20.0)
    ticks = [frame.tick for frame in repeat.sensors if frame.sensor == "imu"]
    assert ticks == sorted(set(ticks))
    assert 5 <= len(ticks) <= 20
    assert ticks[-1] <= repeat.end.tick


def test_settings_that_make_no_sense_are_refused(rig):
    with pytest.raises(InputError, match=r"sensor_samples: a whole number from 0 to .* was wanted, but -1 came"):
        run("samepath", 0, sensors=rig, sensor_samples=-1)
    with pytest.raises(UnknownNameError, match="unknown rig 'smal': did you mean 'small'"):
        run("samepath", 0, sensors="smal")
