"""Recordings from elsewhere, played in a world: whatever they hold, the world goes on, and no other file is touched."""

import math
import struct

import pytest

from samepath.core.errors import InputError
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.carla.recorder_file import AddedActor, Content, LogHeader, LogPose, LogWriter, open_log
from tests.support.serving import call, episode, ticks

CAR = AddedActor(24, 1, 10.0, -2.0, 0.5, 0.0, 0.0, 90.0, 142, "vehicle.audi.tt")
HERE = ([0.0] * 3, [0.0] * 3)


def log(folder, *contents, name="run.log"):
    with (folder / name).open("wb") as file:
        writer = LogWriter(file, LogHeader("Carla/Maps/t-junction", 0))
        for content in contents:
            writer.frame(content, 0.05)
    return folder / name


def drive(frames):
    yield Content(added=(CAR,), placed=(LogPose(24, 10.0, -2.0, 0.5, 0.0, 0.0, 90.0),))
    for number in range(1, frames):
        yield Content(placed=(LogPose(24, 10.0 + number, -2.0, 0.5, 0.0, 0.0, 90.0),))


def play(host, name="run.log"):
    return call(host, "replay_file", name, 0.0, 0.0, 0, False, HERE)


def cars(host):
    return [entry.id for entry in host.actors if entry.type_id.startswith("vehicle.")]


@pytest.mark.parametrize("damage", ["number", "packet"])
def test_a_recording_that_is_broken_on_the_way_ends_the_replay_and_not_the_world(tmp_path, damage):
    host = episode(folder=tmp_path)
    if damage == "number":
        log(tmp_path, *drive(5), Content(placed=(LogPose(24, math.nan, 0.0, 0.0, 0.0, 0.0, 0.0),)), *drive(3))
    else:
        seven_walkers_in_no_bytes = struct.pack("<BIH", 9, 2, 7)
        frame = struct.pack("<BIQdd", 0, 24, 6, 0.05, 0.25) + seven_walkers_in_no_bytes + struct.pack("<BI", 1, 0)
        path = log(tmp_path, *drive(5))
        path.write_bytes(path.read_bytes() + frame)
    play(host)
    (car,) = cars(host)
    ticks(host, 12)
    assert host.player.is_over
    assert cars(host) == [car], "it is given back to physics"
    assert any(line.startswith("replay: ended at 0.15 s: ") for line in host.context.outbox.lines)


def test_a_recording_that_cannot_be_played_from_the_start_changes_nothing(tmp_path):
    host = episode(folder=tmp_path)
    log(tmp_path, *drive(50))
    play(host)
    before, player = cars(host), host.player
    log(tmp_path, Content(added=(CAR._replace(x_m=math.inf),)), name="bad.log")
    with pytest.raises(InputError, match=r"bad\.log, frame 1, actor 24"):
        play(host, "bad.log")
    assert cars(host) == before
    assert host.player is player
    ticks(host, 2)


def test_actors_that_nobody_knows_do_not_fill_the_log(tmp_path):
    host = episode(folder=tmp_path)
    log(tmp_path, Content(added=tuple(CAR._replace(actor=number, type="vehicle.\n" + "x" * 500) for number in range(2000))))
    play(host)
    said = [line for line in host.context.outbox.lines if "did not appear" in line]
    assert len(said) == 20
    assert all("\n" not in line for line in said)


@pytest.mark.parametrize("name", ["/home/me/logs/run.log", "C:\\logs\\run.log"])
def test_an_absolute_path_names_one_file_in_the_data_folder_for_all_methods(tmp_path, name):
    host = episode(folder=tmp_path)
    assert call(host, "start_recorder", name, False) == str(tmp_path / "run.log")
    assert host.context.outbox.lines[-1].endswith(f"of the absolute path {name!r} only the last part counts")
    ticks(host, 3)
    call(host, "stop_recorder")
    assert open_log(tmp_path / "run.log").extent[0] == 3
    assert "Frames: 3" in call(host, "show_recorder_file_info", name, False)
    assert "Duration" in call(host, "show_recorder_collisions", name, ord("a"), ord("a"))
    assert "Duration" in call(host, "show_recorder_actors_blocked", name, 1.0, 1.0)
    assert "Replaying" in play(host, name)
    ticks(host, 2)


def test_a_client_cannot_write_over_what_is_no_recording(tmp_path):
    host = episode(folder=tmp_path)
    (tmp_path / "results.csv").write_text("precious")
    with pytest.raises(InputError, match=r"results\.csv is there and is no recording"):
        call(host, "start_recorder", "results.csv", False)
    assert (tmp_path / "results.csv").read_text() == "precious"
    assert host.recorder is None
    ticks(host, 2)


def test_recordings_have_a_limit_together_until_some_are_deleted(tmp_path):
    host = episode(folder=tmp_path, limits=ServerLimits(recording_bytes=1 << 20, recordings_bytes=3 << 20))
    for name in ("a.log", "b.log", "b.log", "in/c.log"):
        call(host, "start_recorder", name, False)
        ticks(host, 2)
    with pytest.raises(InputError, match=r"got 3 recordings of 3 MiB, of 3 that all may take \(--recordings-mib\): delete"):
        call(host, "start_recorder", "d.log", False)
    assert not (tmp_path / "d.log").exists()
    call(host, "start_recorder", "a.log", False)
    (tmp_path / "b.log").unlink()
    call(host, "start_recorder", "d.log", False)
    ticks(host, 2)
    call(host, "stop_recorder")


def test_a_recording_that_is_played_is_not_written_over(tmp_path):
    host = episode(folder=tmp_path)
    path = log(tmp_path, *drive(9))
    whole = path.read_bytes()
    play(host)
    with pytest.raises(InputError, match=r"run\.log is being replayed"):
        call(host, "start_recorder", "run.log", False)
    assert path.read_bytes() == whole
    ticks(host, 12)
    call(host, "start_recorder", "run.log", False)
    ticks(host, 3)
    call(host, "stop_recorder")
    assert open_log(path).extent[0] == 3
