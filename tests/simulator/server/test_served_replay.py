"""What a server did is replayed without its clients: the world, the states that they saw, every byte that sensors sent."""

import shutil
from pathlib import Path

import pytest

from samepath.core.errors import InputError
from samepath.simulator.carla.records import Settings, write_settings
from samepath.simulator.maps import load_map
from samepath.simulator.replay.recording import RecordingDamagedError
from samepath.simulator.replay.replay import ReplayDiffersError, open_file
from samepath.simulator.replay.served import pack_journal
from samepath.simulator.server.commands import WorldStep
from samepath.simulator.server.journal_files import RecordKind
from tests.support.journal_scenario import SEES, Desk, begin, kept, play
from tests.support.serving import call, described

pytestmark = pytest.mark.slow
TICKS = 12


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """A busy session, recorded: the file, where it was, and the digests of every tick."""
    folder = tmp_path_factory.mktemp("session")
    desk = Desk(kept(folder / "journal", keep_all=True, every_ticks=4), data=folder / "data")
    first = begin(desk, sees=SEES)
    states = []
    for number in range(TICKS):
        play(desk, first, [number])
        states.append(desk.state())
    desk.close()
    path = folder / "session.recording"
    pack_journal(folder / "journal", path)
    return path, states, len(desk.sent)


def test_every_tick_has_the_digest_it_had_and_sensors_send_the_same_bytes(session):
    path, states, sent = session
    with open_file(path, sensors=True) as replay:
        replay.play()
        assert (replay.episode.frame, replay.world.digest) == (states[-1][0], states[-1][2])
        assert replay.steps == TICKS
        assert replay.frames == sent > 0


def test_it_goes_back_and_forth_by_snapshots(session):
    path, states, _ = session
    with open_file(path) as replay:
        replay._every = 4
        replay.play()
        for tick in (11, 3, 4, 9, 0, 1, 12, 8):
            replay.until(tick)
            assert replay.tick == tick
            if tick:
                assert (replay.episode.frame, replay.time_s, replay.world.digest) == states[tick - 1][:3]
        car = replay.actor(replay.actors[0].id)
        assert car.command is not None


@pytest.mark.skipif(not SEES, reason="needs samepath[sensors]")
def test_a_camera_sees_the_scene_at_any_tick(session):
    with open_file(session[0]) as replay:
        replay.until(5)
        before = replay.camera(size=(64, 36))
        assert before.shape == (36, 64, 3)
        assert before.std() > 5
        replay.until(12)
        replay.until(5)
        assert (replay.camera(size=(64, 36)) == before).all()


def test_maps_that_a_client_sent_and_ticks_of_the_wall_clock_are_replayed(tmp_path):
    desk = Desk(kept(tmp_path / "journal", keep_all=True), data=tmp_path / "data", map_name="t-junction")
    shape = [2.0, 50.0, 1.0, 0.6, True, True, True]
    desk.ask("set_episode_settings", write_settings(Settings(synchronous_mode=False)))
    for step_s in (0.031, 0.04, 0.0333):
        desk.runner._do(WorldStep(step_s))
    desk.runner._do(call(desk.episode, "copy_opendrive_to_file", load_map("oval").xodr, shape))
    desk.ask("load_new_episode", "OpenDriveMap", False, 0xFFFF)
    made = desk.ask("spawn_actor", described("vehicle.audi.tt"), desk.ask("get_map_info")[1][0])[0]
    desk.ask("apply_control_to_vehicle", made, [0.8, 0.1, 0.0, False, False, False, 0])
    for step_s in (0.05, 0.07, 0.02):
        desk.runner._do(WorldStep(step_s))
    digest = desk.episode.world.digest
    desk.close()
    pack_journal(tmp_path / "journal", tmp_path / "a.recording")
    with open_file(tmp_path / "a.recording") as replay:
        replay.play()
        assert replay.world.digest == digest
        assert replay.steps == 6
        replay.until(1)
        replay.until(6)
        assert replay.world.digest == digest


def test_the_journal_of_a_server_that_was_killed_is_replayed_up_to_its_last_whole_tick(session, tmp_path):
    folder = session[0].parent / "journal"
    killed = tmp_path / "journal"
    shutil.copytree(folder, killed)
    for path in killed.glob("snapshot-*"):
        path.unlink()
    last = sorted(killed.glob("part-*.journal"))[-1]
    last.write_bytes(last.read_bytes()[:-40])
    with open_file(killed) as replay:
        replay.play()
        assert replay.ended == "the server was killed"
        assert replay.world.digest == session[1][replay.steps - 1][2]


def test_a_journal_that_does_not_begin_at_the_beginning_is_refused(session, tmp_path):
    folder = tmp_path / "journal"
    shutil.copytree(session[0].parent / "journal", folder)
    (folder / "part-000000.journal").unlink()
    with pytest.raises(InputError, match="what came before it was not kept: record with serve --record"):
        open_file(folder)


def test_a_journal_for_resuming_removes_what_it_does_not_need_and_one_that_keeps_all_does_not(tmp_path):
    parts = {}
    for keep_all in (False, True):
        folder = tmp_path / str(keep_all)
        desk = Desk(kept(folder, keep_all=keep_all, every_ticks=2), data=tmp_path / "data", map_name="t-junction")
        desk.ask("set_episode_settings", write_settings(Settings(synchronous_mode=True, fixed_delta_seconds=0.05)))
        for _ in range(12):
            desk.ask("tick_cue")
        desk.close()
        parts[keep_all] = sorted(path.name for path in folder.glob("part-*"))
    assert parts[True][0] == "part-000000.journal"
    assert parts[False][0] != "part-000000.journal"
    with pytest.raises(InputError, match="was not kept"):
        open_file(tmp_path / "False")
    with open_file(tmp_path / "True") as replay:
        assert replay.play().steps == 12


def test_what_comes_out_differently_is_said_with_its_tick(session):
    with open_file(session[0]) as replay:
        records = list(replay.recording.records)
        index = [k for k, record in enumerate(records) if record.kind is RecordKind.TICK][6]
        frame, digest, states = records[index].fields
        records[index] = records[index]._replace(fields=[frame, bytes(reversed(digest)), states])
        object.__setattr__(replay.recording, "records", records)
        with pytest.raises(ReplayDiffersError, match=f"frame {frame} came out differently"):
            replay.play()
        assert replay.position == 6


@pytest.mark.skipif(not SEES, reason="needs samepath[sensors]")
def test_a_sensor_byte_that_differs_is_noticed(session):
    with open_file(session[0], sensors=True) as replay:
        records = list(replay.recording.records)
        index = [k for k, record in enumerate(records) if record.kind is RecordKind.SENT][3]
        records[index] = records[index]._replace(fields=[records[index].fields[0], bytes(16)])
        object.__setattr__(replay.recording, "records", records)
        with pytest.raises(ReplayDiffersError, match="messages of sensors at tick 4"):
            replay.play()


def test_broken_recordings_of_a_server_are_refused(session, tmp_path):
    data = session[0].read_bytes()
    broken = tmp_path / "broken.recording"
    for content, error, words in (
        (data[:-1], RecordingDamagedError, "cut short"),
        (data[:100], RecordingDamagedError, "cut short"),
        (data[:-200] + bytes([data[-200] ^ 1]) + data[-199:], RecordingDamagedError, "is not the one that was written"),
        (data.replace(b"recording 1\n", b"recording 9\n", 1), InputError, "format 9 came; a newer samepath wrote it"),
        (b"RIFF" + data, InputError, "the file begins with 'RIFF"),
        (b"", InputError, "a recording of samepath was wanted"),
    ):
        broken.write_bytes(content)
        with pytest.raises(error, match=words) as caught:
            open_file(broken)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="this folder is none"):
        open_file(Path(tmp_path))


def test_a_server_that_made_no_tick_has_nothing_to_replay(tmp_path):
    desk = Desk(kept(tmp_path / "journal", keep_all=True), data=tmp_path / "data", map_name="t-junction")
    desk.ask("get_episode_settings")
    desk.close()
    with pytest.raises(InputError, match="made no tick"):
        pack_journal(tmp_path / "journal", tmp_path / "a.recording")
    assert not (tmp_path / "a.recording").exists()
