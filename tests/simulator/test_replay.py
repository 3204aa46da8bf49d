"""Recordings of runs: one file, the same bits, forwards and back; forks; and a clear refusal of whatever is not whole."""

import json
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from samepath.core.errors import InputError, SamepathError, UnknownNameError
from samepath.core.inputs import InputKind
from samepath.core.states import Pose, VehicleCommand
from samepath.engines.conformance import run_request
from samepath.engines.interface import RunRequest
from samepath.engines.samepath import Samepath
from samepath.engines.samepath.game_loop import SamepathGameLoop
from samepath.engines.samepath.recordings import check, record, recording_of, run_digest
from samepath.simulator.replay.fork import CommandChange, fork
from samepath.simulator.replay.recording import RecordingDamagedError, SensorDigest, read_parts, read_run, write_parts
from samepath.simulator.replay.replay import ReplayDiffersError, RunReplay, open_file
from tests.engines.test_replays import BeatClock

VARIABLE = {"mode": "variable", "time_scale": 100.0, "frame_cost_s": 0.0}


def flat_scenario(folder):
    path = folder / "flat.yaml"
    path.write_text(
        "name: flat\nduration: 1 s\nend: duration\nactors:\n  - {id: 1, type: vehicle.tesla.model3, path: [[0, 0], [50, 0]]}\n"
    )
    return str(path)


@pytest.fixture(scope="module")
def run():
    """A run with steps of any length in which two cars collide: its recording and its trace."""
    request = RunRequest("table1-test2", 0, settings=VARIABLE)
    # Uneven frames, but the same in every run of the tests: on a machine that is busy the cars might miss each other.
    return record(request, SamepathGameLoop(clock=BeatClock(0.0003, 0.0007, 0.0002, 0.0006)), origin="a test")


@pytest.fixture(scope="module")
def file(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("recording") / "run.recording"
    run[0].write(path)
    return path


def test_a_file_holds_everything_and_gives_it_back(run, file):
    recording, repeat = run
    found = read_run(file)
    assert found == recording
    assert found.trace_digest == run_digest(repeat)
    assert found.steps == len({entry.step for entry in repeat.inputs if entry.kind is InputKind.STEP})


def test_the_same_recording_is_the_same_file(run, file, tmp_path):
    run[0].write(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == file.read_bytes()


def test_it_is_played_to_its_end_and_checked_with_events(file):
    with open_file(file) as replay:
        replay.play()
        assert replay.position == replay.steps
        assert replay.ended == read_run(file).ended
    checked = check(read_run(file), "file")
    assert checked.steps == replay.steps
    assert any(event.kind == "collision" for event in checked.repeat.events)


def test_backwards_is_forwards_to_the_bit(file):
    with open_file(file) as replay:
        digests = {}
        replay.play(lambda now: digests.__setitem__(now.position, now.world.digest))
        for step in (replay.steps - 1, 7, 120, 119, 51, 50, 49, 1, 0, 77):
            replay.go_to(step)
            assert replay.position == step
            if step:
                assert replay.world.digest == digests[step]
        assert replay.back(10).position == 67
        assert replay.step(3).position == 70
        assert replay.back(1000).position == 0


def test_a_tick_is_found_in_both_directions(file):
    with open_file(file) as replay:
        for tick in (100, 40, 41, 300, 0, 7):
            replay.until(tick)
            assert replay.tick >= tick
            if replay.position:
                assert replay.back().tick < tick or tick == 0
        with pytest.raises(InputError, match="the run ended at tick"):
            replay.until(100_000)


def test_a_way_back_keeps_within_its_memory(run, monkeypatch):
    monkeypatch.setattr("samepath.simulator.replay.replay._SNAPSHOT_BYTES_MOST", 1_000_000)
    with RunReplay(run[0]) as replay:
        replay._every = 5
        replay.play()
        assert sum(map(len, replay._snapshots.values())) <= 1_000_000
        assert replay.go_to(33).position == 33


def test_who_is_there_and_under_which_command(file):
    with open_file(file) as replay:
        replay.until(120)
        actor = replay.actor(1)
        assert actor.type == "vehicle.mercedes.coupe"
        assert actor.state == replay.world.state(1)
        before = actor.command
        assert isinstance(before, VehicleCommand)
        replay.step(60)
        assert replay.back(60).actor(1).command == before, "also where a snapshot led back"
        with pytest.raises(InputError, match=r"actor 9 is not there .* there are: 1, 2"):
            replay.actor(9)


def test_pictures_from_above_and_from_cameras(file, tmp_path):
    pytest.importorskip("numba")
    with open_file(file) as replay:
        replay.until(150)
        assert replay.camera(2, size=(64, 48), path=tmp_path / "a.png").shape == (48, 64, 3)
        with Image.open(tmp_path / "a.png") as image:
            seen = np.asarray(image)
        assert (seen == replay.camera(2, size=(64, 48))).all()
        assert (seen != replay.camera(Pose(0, 0, 50, 0, -90, 0), size=(64, 48))).any()
        with Image.open(replay.draw(tmp_path / "b.png")) as image:
            assert image.size == (720 + 960, 720)
        page = replay.draw(tmp_path / "b.html").read_text()
        assert page.count("<img") == 2
        assert replay.world.digest in page
        for wrong in ("b.jpg", "b"):
            with pytest.raises(InputError, match=r"\*.html or \*.png"):
                replay.draw(tmp_path / wrong)
        with pytest.raises(InputError, match="at most 4096 pixels a side"):
            replay.camera(size=(0, 10))


def test_flat_ground_has_a_plan_but_no_camera(tmp_path):
    recording, _ = record(RunRequest(flat_scenario(tmp_path), 0), Samepath())
    with RunReplay(recording) as replay:
        replay.play()
        assert replay.world.place == "flat"
        with Image.open(replay.draw(tmp_path / "a.png")) as image:
            assert image.size == (720, 720)
        with pytest.raises(InputError, match="nothing to see"):
            replay.camera(1)


def test_a_lockstep_run_is_recorded_with_everybodys_commands_though_its_trace_has_none():
    request = RunRequest("table1-test6", 0)
    stored = run_request(Samepath(), request)
    assert len(stored.inputs) == 0
    recording = recording_of(request, "samepath", stored)
    assert {entry.actor for entry in recording.inputs} == {1, 2}
    with RunReplay(recording) as replay:
        assert replay.simulation.agents == {}
        replay.play()


def test_a_recording_that_does_not_come_out_as_the_trace_has_it_is_not_made(run):
    recording, repeat = run
    other = replace(repeat, events=repeat.events[:-1])
    request = RunRequest("table1-test2", 0, settings=VARIABLE)
    with pytest.raises(SamepathError, match="did not come out again as it is in the trace: states, events or end differ"):
        recording_of(request, "samepath-game-loop", other)
    with pytest.raises(InputError, match="what went into the run was not kept"):
        recording_of(request, "samepath-game-loop", replace(repeat, inputs=None))
    with pytest.raises(InputError, match="but the run is one of 'godot'"):
        recording_of(request, "godot", repeat)
    assert recording.steps


def test_sensors_are_held_against_the_recording(tmp_path):
    pytest.importorskip("numba")
    rig = tmp_path / "rig.yaml"
    rig.write_text("name: feel\nsensors:\n  - {name: imu, type: sensor.other.imu, at: [0, 0, 1]}\n")
    request = RunRequest("table1-test2", 0, settings={**VARIABLE, "sensors": str(rig)}, duration_s=1.0)
    recording, repeat = record(request, SamepathGameLoop())
    assert len(recording.sensors) == len(repeat.sensors) > 3
    path = tmp_path / "run.recording"
    recording.write(path)
    rig.unlink()  # the rig is in the recording
    assert check(read_run(path), "run").frames == len(repeat.sensors)
    wrong = SensorDigest(3, "imu", bytes(16))
    with pytest.raises(ReplayDiffersError, match="sensor imu measured something else"):
        check(replace(recording, sensors=(*recording.sensors[:2], wrong, *recording.sensors[3:])), "run")


def test_what_comes_out_differently_stops_the_replay_there(run):
    recording = run[0]
    digests = bytearray(recording.digests)
    digests[16 * 40] ^= 1
    with RunReplay(replace(recording, digests=bytes(digests)), "mine") as replay:
        with pytest.raises(ReplayDiffersError, match=r"mine: step 41 \(tick \d+\) came out differently .* does not repeat"):
            replay.play()
        assert ReplayDiffersError.exit_code == 1
    old = replace(recording, digests=bytes(digests), made_by={**recording.made_by, "rapier3d": "0.1"})
    with RunReplay(old) as replay, pytest.raises(ReplayDiffersError, match=r"it was made with rapier3d 0\.1, here"):
        replay.play()
    with pytest.raises(ReplayDiffersError, match="step 41 of"):
        check(replace(recording, digests=bytes(digests)), "mine")


def test_another_map_of_the_same_name_is_refused(run):
    with pytest.raises(InputError, match="was made on another map"):
        RunReplay(replace(run[0], map_digest="0" * 32))


# Forks.


def change(recording, *words):
    return [CommandChange.of_words(words, recording)]


@pytest.mark.parametrize("closed_loop", [False, True])
def test_a_fork_without_a_change_is_the_recorded_run_in_open_and_in_closed_loop(run, closed_loop):
    found = fork(run[0], 100, [], closed_loop=closed_loop)
    assert found.same
    assert found.recorded == found.forked


def test_a_changed_command_moves_its_actor_first_and_who_it_meets_later(run):
    found = fork(run[0], 100, change(run[0], "actor=2", "throttle=0", "brake=1"))
    assert not found.same
    other, changed = found.actors
    assert changed.parts_step == found.at_step + 1
    assert other.parts_step is None or other.parts_step > changed.parts_step
    assert changed.farthest_m > 1.0
    assert found.recorded.collisions
    assert found.recorded.collisions != found.forked.collisions
    assert json.loads(json.dumps(found.as_dict()))["changes"] == [{"actor": 2, "throttle": 0.0, "brake": 1.0}]


def test_the_same_fork_has_the_same_future_and_is_a_recording(run, tmp_path):
    first, other = (fork(run[0], 100, change(run[0], "actor=1", "steer=0.3"), closed_loop=True) for _ in range(2))
    assert first.as_dict() == other.as_dict()
    first.recording.write(tmp_path / "fork.recording")
    with open_file(tmp_path / "fork.recording") as replay:
        replay.play()
    again = fork(read_run(tmp_path / "fork.recording"), 100, [])
    assert again.same


def test_drivers_react_in_closed_loop_and_do_not_in_open_loop(run):
    pushed = change(run[0], "actor=1", "steer=0.2")
    open_loop, closed = (fork(run[0], 100, pushed, closed_loop=loop).actors[0] for loop in (False, True))
    assert open_loop.last_m != closed.last_m


def test_a_fork_of_a_run_with_chance_needs_chance_of_its_own(tmp_path):
    settings = {**VARIABLE, "sources": "unseeded-random,bit-flip,parallel-accumulation", "panels": 8}
    recording, _ = record(RunRequest("table1-test2", 0, settings=settings, duration_s=9.0), SamepathGameLoop())
    assert fork(recording, 60, []).same
    first, other = (fork(recording, 60, change(recording, "actor=1", "throttle=1")) for _ in range(2))
    assert first.as_dict() == other.as_dict()
    assert not first.same
    found = first.figure(tmp_path / "fork.svg")
    assert "<svg" in found.read_text()


@pytest.mark.parametrize(
    ("words", "error", "told"),
    [
        (["actor=3", "throttle=0"], InputError, "actor= one of 1, 2 was wanted, but 3 came"),
        (["throttle=0"], InputError, "actor= one of 1, 2 was wanted, but none came"),
        (["actor=1"], InputError, "what to change of actor 1 was wanted"),
        (["actor=1", "throttle"], InputError, "NAME=VALUE was wanted"),
        (["actor=1", "throtle=1"], UnknownNameError, "did you mean 'throttle'"),
        (["actor=1", "throttle=1.5"], InputError, "throttle: a number from 0 to 1 was wanted, but '1.5' came"),
        (["actor=1", "throttle=nan"], InputError, "throttle: a number from 0 to 1"),
        (["actor=1", "manual_gear=99"], InputError, "manual_gear: a number from -1 to 20"),
    ],
)
def test_changes_that_cannot_be_are_refused(run, words, error, told):
    with pytest.raises(error, match=told):
        CommandChange.of_words(words, run[0])


def test_forks_outside_of_the_run_are_refused(run):
    with pytest.raises(InputError, match="--at: a tick from 0 to"):
        fork(run[0], 10_000, [])
    with pytest.raises(InputError, match="--until: a tick after 100"):
        fork(run[0], 100, [], until_tick=90)
    assert fork(run[0], 100, [], until_tick=150).recorded.steps < 60


# What is not whole.


def test_cut_short_at_any_byte_it_is_refused(file, tmp_path):
    data, path = file.read_bytes(), tmp_path / "cut.recording"
    for size in [*range(200), *range(200, len(data), 97), len(data) - 1]:
        path.write_bytes(data[:size])
        with pytest.raises(InputError) as caught:
            open_file(path)
        assert "\n" not in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_with_any_bit_turned_it_is_refused(file, tmp_path_factory, data):
    content = bytearray(file.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path_factory.getbasetemp() / "turned.recording"
    path.write_bytes(content)
    with pytest.raises(InputError):
        open_file(path)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "the file begins with ''"),
        (b"PK\x03\x04 a zip", "the file begins with 'PK"),
        (b"samepath recording 2\nwhatever", "a recording of format 1 was wanted, but format 2 came; a newer samepath wrote it"),
        (b"samepath recording 0\nwhatever", "an older samepath wrote it"),
        (b"samepath recording one\n", "names no format"),
        (b"samepath recording 1\n" + b"\xff" * 40, "cut short or damaged"),
        (b"samepath world 2\n", "the file begins with 'samepath world 2'"),
    ],
)
def test_foreign_and_newer_files_are_refused(tmp_path, content, told):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InputError, match=told):
        open_file(path)


def rewritten(file, path, **parts):
    """A recording whose digests fit, with other parts."""
    _, found = read_parts(file)
    write_parts(path, {**found, **parts})
    return path


def head(file, **fields):
    _, found = read_parts(file)
    return json.dumps({**json.loads(found["head"]), **fields}).encode()


def test_content_that_cannot_be_is_refused_although_its_digests_fit(file, tmp_path):
    path = tmp_path / "odd.recording"
    for parts, told in (
        ({"head": b"not json"}, "does not say of what"),
        ({"head": b"[]"}, "does not say of what"),
        ({"head": head(file, what="a film")}, "but that of 'a film' came"),
        ({"head": head(file, seed="x")}, "no recording that this samepath knows"),
        ({"head": head(file, scenario={"name": "x"})}, "scenario"),
        ({"head": head(file, values={"mode": "variable"})}, "no recording that this samepath knows"),
        ({"digests": b"123"}, "no whole digests"),
        ({"digests": b""}, "at least one step"),
        ({"inputs": b"\x00"}, "no recording that this samepath knows"),
    ):
        with pytest.raises(InputError, match=told):
            open_file(rewritten(file, path, **parts))
    values = json.loads(head(file))["values"]
    with pytest.raises(InputError, match="physics_threads"):
        open_file(rewritten(file, path, head=head(file, values={**values, "physics_threads": 10**9})))


def test_a_part_that_is_larger_than_it_says_never_fills_the_memory(tmp_path):
    path = tmp_path / "bomb.recording"
    write_parts(path, {"head": b"\0" * (64 << 20)})
    data = path.read_bytes()
    assert len(data) < 1 << 20
    from samepath.simulator.replay import recording

    packed = zlib.compress(b"\0" * (64 << 20), 6)
    row = recording._Row("head", len(packed), 10, recording.link(b"", packed))
    table = recording._head(recording._encoder.encode([row]))
    path.write_bytes(table + recording.link(b"", table) + packed)
    with pytest.raises(RecordingDamagedError, match="is not as long as it says"):
        read_parts(path)
    assert struct.calcsize("<I") == recording._LENGTH_BYTES


def test_a_controller_that_a_recording_names_is_never_run(tmp_path, monkeypatch):
    (tmp_path / "evil_of_recordings.py").write_text("raise SystemExit('run!')")
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        "name: s\nduration: 1 s\nend: duration\nactors:\n  - {id: 1, type: vehicle.tesla.model3, path: [[0, 0], [50, 0]]}\n"
    )
    recording, _ = record(RunRequest(str(scenario), 0), Samepath())
    named = recording.scenario.actors[0].model_copy(update={"controller": "evil_of_recordings:drive"})
    evil = replace(recording, scenario=recording.scenario.model_copy(update={"actors": (named,)}))
    evil.write(tmp_path / "evil.recording")
    monkeypatch.syspath_prepend(str(tmp_path))
    with open_file(Path(tmp_path / "evil.recording")) as replay:
        replay.play()
    found = read_run(tmp_path / "evil.recording")
    for closed_loop in (False, True):
        fork(found, 5, change(found, "actor=1", "brake=1"), closed_loop=closed_loop)
    check(found, "evil")
