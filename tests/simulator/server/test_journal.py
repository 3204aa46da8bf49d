"""A server that dies is continued: the same world, the same bytes, from whatever was on disk."""

import errno
import os
import resource
import shutil
import sys
from collections import Counter
from contextlib import contextmanager

import pytest

from samepath.core.errors import InputError
from samepath.core.streams import stream
from samepath.simulator.maps import load_map
from samepath.simulator.server import journal as journal_file
from samepath.simulator.server import snapshot
from samepath.simulator.server import snapshot as makers
from samepath.simulator.server.actors import ActorEntry
from samepath.simulator.server.commands import CallerGone, NodeLeft, StreamUnheard
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.journal_files import RecordKind, numbers_of, part_path, read_part, snapshot_path
from samepath.simulator.server.methods import methods
from samepath.simulator.server.resume import JournalConfig, origin_of, resume
from samepath.simulator.server.rpc import Call
from tests.support.journal_scenario import SEES, Client, Desk, begin, calls_of, kept, play, resumed
from tests.support.serving import LIMITS, call

TICKS = 36


class Clock:
    """A clock that the test moves; the date stands still, so that recordings are alike."""

    def __init__(self):
        self.now_s = 100.0

    def monotonic_s(self):
        return self.now_s

    def utc_iso(self):
        return "2026-01-01T00:00:00+00:00"


def died(folder, into, torn_bytes=0):
    """The folder as a process leaves it that is killed now; of the last bytes some may be missing."""
    shutil.copytree(folder, into, ignore=shutil.ignore_patterns(".lock", "*.partial"))
    parts, _ = numbers_of(into)
    if torn_bytes:
        path = part_path(into, parts[-1])
        os.truncate(path, max(0, path.stat().st_size - torn_bytes))
    return into


@pytest.fixture(autouse=True)
def closed():
    yield
    while Desk.open:
        Desk.open.pop().close()


def run_whole(folder, *, sees):
    """The run that nothing interrupts: its first car, its state after every tick, what its sensors sent in every tick."""
    desk = Desk(data=folder, clock=Clock())
    first = begin(desk, sees=sees)
    states, sent = [desk.state()], []
    for number in range(TICKS):
        desk.sent.clear()
        play(desk, first, [number])
        states.append(desk.state())
        sent.append(list(desk.sent))
    desk.ask("stop_recorder")
    return first, states, sent, (folder / "run.log").read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run_whole(tmp_path_factory.mktemp("whole"), sees=False)


def test_the_scenario_is_worth_it(whole):
    _, states, sent, recording = whole
    counts = Counter(number for message in sent for number, _ in message)
    imu, gnss, collision, obstacle = range(2, 6)
    assert counts[imu] == counts[gnss] == TICKS
    assert counts[collision] > 3
    assert counts[obstacle] > 3
    assert len({state[2] for state in states}) == len(states)
    assert len(recording) > 10_000


def go_on(desk, whole, after, calls=(), until=TICKS):
    """Listen again, make what is left of the calls, and compare every tick with the run that nothing interrupted."""
    first, states, sent, recording = whole
    desk.listen()
    for number in range(after, until):
        desk.sent.clear()
        for name, *arguments in calls or calls_of(first, number):
            desk.ask(name, *arguments)
        calls = ()
        assert desk.state() == states[number + 1]
        assert desk.sent == sent[number]
    desk.ask("stop_recorder")
    if until == TICKS:
        assert (desk.episode.context.data_folder / "run.log").read_bytes() == recording


def test_a_server_killed_between_any_two_calls_goes_on_with_the_same_bytes(tmp_path):
    (tmp_path / "whole").mkdir()
    whole = run_whole(tmp_path / "whole", sees=SEES)
    first = whole[0]
    chance = stream(11, "kills")
    kills = sorted(chance.choice(range(12, TICKS - 1), 3, replace=False).tolist())
    desk = Desk(kept(tmp_path / "journal", every_ticks=10), data=tmp_path / "data", clock=Clock())
    assert begin(desk, sees=SEES) == first
    for number in range(max(kills) + 1):
        calls = list(calls_of(first, number))
        stop = int(chance.integers(0, len(calls))) if number in kills else len(calls)
        for name, *arguments in calls[:stop]:
            desk.ask(name, *arguments)
        if number in kills:
            shutil.copytree(tmp_path / "data", tmp_path / f"data {number}")
            died(tmp_path / "journal", tmp_path / f"journal {number}")
            after = Desk(resumed(tmp_path / f"journal {number}"), data=tmp_path / f"data {number}", clock=Clock())
            assert after.episode.world.digest == desk.episode.world.digest
            assert after.episode.frame == desk.episode.frame
            # What was answered holds: only the calls that were not made are.
            go_on(after, whole, number, calls[stop:], min(TICKS, number + 6))
            for name, *arguments in calls[stop:]:
                desk.ask(name, *arguments)
    assert desk.lines == ["time: synchronous, ticks come from clients", f"recording to {tmp_path / 'data' / 'run.log'}"]
    parts, snapshots = numbers_of(tmp_path / "journal")
    assert parts == snapshots  # two of them are kept
    assert len(parts) == 2


def journaled(tmp_path, whole, ticks, **settings):
    desk = Desk(kept(tmp_path / "journal", **settings), data=tmp_path / "data", clock=Clock())
    assert begin(desk) == whole[0]
    play(desk, whole[0], range(ticks))
    return desk


def test_without_a_snapshot_everything_is_played_again(tmp_path, whole):
    journaled(tmp_path, whole, 13)
    died(tmp_path / "journal", tmp_path / "left")
    desk = Desk(resumed(tmp_path / "left"), data=tmp_path / "data", clock=Clock())
    assert desk.lines[-1] == "resumed from the beginning: frame 14"
    assert desk.state() == whole[1][13]
    # Whoever dies again is resumed again.
    play(desk, whole[0], [13])
    died(tmp_path / "left", tmp_path / "again")
    desk = Desk(resumed(tmp_path / "again"), data=tmp_path / "data", clock=Clock())
    assert desk.lines[-1] == "resumed from snapshot 1: frame 15"
    go_on(desk, whole, 14)
    # Also across the first crash, should the snapshot that was taken then be lost.
    died(tmp_path / "left", tmp_path / "once more")
    snapshot_path(tmp_path / "once more", 1).unlink()
    desk = Desk(resumed(tmp_path / "once more"), data=tmp_path / "data", clock=Clock())
    assert desk.lines[-1] == "resumed from the beginning: frame 15"
    assert desk.state() == whole[1][14]
    assert [record.kind for record in read_part(part_path(tmp_path / "once more", 1)).records[:2]] == [
        RecordKind.HEAD,
        RecordKind.RESUMED,
    ]


def test_a_torn_tail_is_cut_off_and_the_last_whole_tick_can_be_asked_for(tmp_path, whole):
    journaled(tmp_path, whole, 12, every_ticks=10)
    left = died(tmp_path / "journal", tmp_path / "left", torn_bytes=3)
    assert read_part(part_path(left, 1)).torn
    desk = Desk(data=tmp_path / "data", clock=Clock())
    found = resume(left, desk.episode.context, whole_ticks=True)
    os.close(found.lock)
    assert not read_part(part_path(left, 1)).torn
    assert found.episode.frame == 12
    assert found.episode.world.digest == whole[1][11][2]
    found.episode.recorder.close()
    desk = Desk(resumed(left), data=tmp_path / "data", clock=Clock())
    go_on(desk, whole, 11)


def test_a_part_cut_anywhere_is_read_up_to_its_last_whole_record(tmp_path, whole):
    journaled(tmp_path, whole, 2)
    path = part_path(tmp_path / "journal", 0)
    data, full = path.read_bytes(), read_part(path)
    assert full.records[0].kind is RecordKind.HEAD
    assert not full.torn
    ends = [0, *(record.end for record in full.records)]
    chance = stream(3, "cuts")
    for cut in {*range(200), *chance.integers(0, len(data), 200).tolist(), *ends}:
        (tmp_path / "cut").write_bytes(data[:cut])
        part = read_part(tmp_path / "cut")
        assert part.records == tuple(record for record in full.records if record.end <= cut)
        assert part.torn == (cut not in ends)
    for at in chance.integers(0, len(data), 50).tolist():
        (tmp_path / "cut").write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        assert read_part(tmp_path / "cut").records == tuple(record for record in full.records if record.end <= at)


def test_a_damaged_snapshot_is_passed_over_for_the_one_before(tmp_path, whole):
    journaled(tmp_path, whole, 24, every_ticks=10)
    left = died(tmp_path / "journal", tmp_path / "left")
    path = snapshot_path(left, 2)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    desk = Desk(resumed(left), data=tmp_path / "data", clock=Clock())
    assert "snapshot 2 does not lead to where the server was" in desk.lines[0]
    assert desk.lines[-1] == "resumed from snapshot 1: frame 25"
    go_on(desk, whole, 24)


def test_a_snapshot_that_leads_elsewhere_is_not_believed(tmp_path, whole):
    other = Desk(data=tmp_path / "data", clock=Clock())
    begin(other)
    play(other, whole[0], range(9))
    other.ask("add_actor_impulse", whole[0], [0.0, 0.0, 1.0])  # not much, but not what happened
    play(other, whole[0], range(9, 10))
    journaled(tmp_path, whole, 12, every_ticks=10)
    left = died(tmp_path / "journal", tmp_path / "left")
    snapshot_path(left, 1).write_bytes(snapshot.take(other.episode))
    desk = Desk(resumed(left), data=tmp_path / "data", clock=Clock())
    assert "frame 12 came out differently" in desk.lines[0]
    assert desk.lines[-1] == "resumed from the beginning: frame 13"
    assert desk.state() == whole[1][12]


def test_damage_in_the_middle_loses_what_came_after_and_says_so(tmp_path, whole):
    journaled(tmp_path, whole, 24, every_ticks=10)
    left = died(tmp_path / "journal", tmp_path / "left")
    snapshot_path(left, 2).unlink()
    path = part_path(left, 1)
    os.truncate(path, path.stat().st_size // 2)
    desk = Desk(resumed(left), data=tmp_path / "data", clock=Clock())
    assert "part 1 of the journal is damaged: what came after it is lost" in desk.lines
    assert 11 < desk.episode.frame < 21
    assert desk.episode.world.digest == whole[1][desk.episode.frame - 1][2] or desk.episode.ranks == {}
    assert (left / "part-000002.lost").exists()


@contextmanager
def disk_of(size):
    """No file may grow beyond a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    sys.dont_write_bytecode = True  # half a module's would be kept
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = False


def test_a_full_disk_ends_the_journal_with_one_line_and_the_server_goes_on(tmp_path, whole):
    desk = journaled(tmp_path, whole, 5)
    path = part_path(tmp_path / "journal", 0)
    before = path.stat().st_size
    play(desk, whole[0], [5])
    size = path.stat().st_size
    with disk_of(size + 5 * (size - before) // 2):  # two ticks more and a half
        play(desk, whole[0], range(6, 11))
        desk.journal.snapshot(desk.episode)
    (line,) = [line for line in desk.lines if line.startswith("the journal")]
    assert line.startswith("the journal ends, the server goes on without: ")
    assert not desk.journal.is_on
    assert desk.state() == whole[1][11]
    left = died(tmp_path / "journal", tmp_path / "left")
    after = Desk(resumed(left), data=tmp_path / "data", clock=Clock())
    assert any(line.startswith("the journal was ended: ") for line in after.lines)
    assert 7 < after.episode.frame < 11
    assert after.episode.world.digest in {item[2] for item in whole[1]}


def test_no_room_for_a_snapshot_is_said_once_and_the_journal_goes_on(tmp_path, whole):
    desk = journaled(tmp_path, whole, 1)
    with disk_of(1_000_000):
        for _ in range(2):
            desk.journal.snapshot(desk.episode)
            desk.journal.drain()
    (line,) = [line for line in desk.lines if "no snapshot" in line]
    assert "resuming will take longer" in line
    assert "\n" not in line
    play(desk, whole[0], range(1, 3))
    # Each began a part; what came of the snapshots themselves is gone.
    assert [path.name for path in sorted((tmp_path / "journal").iterdir())] == [
        ".lock",
        "part-000000.journal",
        "part-000001.journal",
        "part-000002.journal",
    ]
    after = Desk(resumed(died(tmp_path / "journal", tmp_path / "left")), data=tmp_path / "data", clock=Clock())
    assert after.state() == whole[1][3]


def test_a_read_only_folder_is_resumed_without_a_journal(tmp_path, whole, monkeypatch):
    journaled(tmp_path, whole, 4)
    left = died(tmp_path / "journal", tmp_path / "left")
    before = {path.name: path.read_bytes() for path in left.iterdir()}
    opened = os.open

    def refused(path, flags, *rest, **more):
        if str(path).startswith(str(left)) and flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return opened(path, flags, *rest, **more)

    monkeypatch.setattr(journal_file.os, "open", refused)
    desk = Desk(resumed(left), data=tmp_path / "data", clock=Clock())
    assert desk.lines[-1] == f"{left} is read-only: the server goes on without a journal"
    play(desk, whole[0], range(4, 6))
    assert desk.state() == whole[1][6]
    assert {path.name: path.read_bytes() for path in left.iterdir()} == before


def test_what_other_code_made_is_refused_by_name(tmp_path, monkeypatch):
    desk = Desk(kept(tmp_path / "journal"), map_name="t-junction")
    desk.ask("get_spectator")
    desk.journal.close()
    assert origin_of(tmp_path / "journal").map_name == "t-junction"
    ours = makers.made_by()["samepath"]
    monkeypatch.setattr(makers, "made_by", lambda: {"samepath": ours, "rapier3d": "9.9"})
    with pytest.raises(InputError, match=r"made with rapier3d .*, but here is 9\.9"):
        Desk(resumed(tmp_path / "journal"))


def test_a_folder_with_no_journal_with_another_or_of_a_running_server_is_refused(tmp_path):
    with pytest.raises(InputError, match="holds no journal of samepath"):
        Desk(resumed(tmp_path))
    with pytest.raises(InputError, match="cannot be read"):
        Desk(resumed(tmp_path / "nowhere"))
    desk = Desk(kept(tmp_path / "journal"), map_name="t-junction")
    with pytest.raises(InputError, match="of a server that is running"):
        Desk(resumed(tmp_path / "journal"))
    desk.journal.close()
    # Nothing has happened in it yet: it may be begun anew.
    desk = Desk(kept(tmp_path / "journal"), map_name="t-junction")
    desk.ask("get_spectator")
    desk.journal.close()
    with pytest.raises(InputError, match="holds a journal already: resume it"):
        Desk(kept(tmp_path / "journal"), map_name="t-junction")
    (tmp_path / "file").write_text("")
    with pytest.raises(Exception, match="could not be created"):
        Desk(kept(tmp_path / "file" / "journal"))


def test_a_recording_that_is_played_is_played_again_from_where_it_began(tmp_path):
    desk = Desk(kept(tmp_path / "journal", every_ticks=5), data=tmp_path / "data", clock=Clock())
    first = begin(desk)
    play(desk, first, range(19))
    desk.ask("stop_recorder")
    desk.ask("replay_file", "run.log", 0.0, 0.0, 0, False, [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    for _ in range(2):
        desk.ask("tick_cue")
    assert snapshot.obstacle(desk.episode) == "a recording is being played"
    parts = numbers_of(tmp_path / "journal")
    after = Desk(resumed(died(tmp_path / "journal", tmp_path / "left")), data=tmp_path / "data", clock=Clock())
    assert after.episode.player is not None
    for server in (desk, after):
        for _ in range(12):
            server.ask("tick_cue")
    assert after.state() == desk.state()
    assert after.episode.player.is_over
    # No snapshot while it was played, one as soon as it was over; the second server began without one.
    assert parts[0][-1] < numbers_of(tmp_path / "journal")[0][-1]
    assert numbers_of(tmp_path / "left")[1][-1] == numbers_of(tmp_path / "left")[0][-1]
    assert any("a recording is being played" in line for line in after.lines)
    again = Desk(resumed(died(tmp_path / "left", tmp_path / "again")), data=tmp_path / "data", clock=Clock())
    assert again.state() == desk.state()


def test_a_map_that_a_client_sent_is_in_the_journal_and_in_the_snapshot(tmp_path):
    shape = [2.0, 50.0, 1.0, 0.6, True, True, True]
    sent = [load_map(name).xodr for name in ("t-junction", "double-mini-roundabout")]
    desk = Desk(kept(tmp_path / "journal"), map_name="oval")

    def send(host, xodr):
        host.runner._do(call(host.episode, "copy_opendrive_to_file", xodr, shape))  # read beside the world, as the server does

    send(desk, sent[0])
    desk.ask("load_new_episode", "OpenDriveMap", True, 0xFFFF)
    desk.ask("tick_cue")
    send(desk, sent[1])
    desk.ask("get_spectator")
    loaded, waiting = desk.episode.map.road_map.xodr, desk.episode.context.maps.sent.xodr
    assert loaded == sent[0]
    after = Desk(resumed(died(tmp_path / "journal", tmp_path / "left")), map_name="oval")
    again = Desk(resumed(died(tmp_path / "left", tmp_path / "again")), map_name="oval")
    assert "resumed from the beginning" in after.lines[-1]
    assert "resumed from snapshot 1" in again.lines[-1]
    for server in (after, again):
        assert server.episode.map.road_map.xodr == loaded
        assert server.episode.context.maps.sent.xodr == waiting
        assert server.state() == desk.state()
        assert server.episode.id == desk.episode.id == 2


def test_ticks_of_the_wall_clock_are_played_again_with_their_length(tmp_path):
    clock = Clock()
    desk = Desk(kept(tmp_path / "journal", every_s=1.0), map_name="t-junction", clock=clock)
    spot = desk.ask("get_map_info")[1][0]
    car = desk.ask("spawn_actor", [0, "vehicle.audi.tt", []], spot)[0]
    desk.ask("apply_control_to_vehicle", car, [0.8, 0.1, 0.0, False, False, False, 0])
    for passed_s in stream(5, "frames").uniform(0.02, 0.12, 40):
        clock.now_s += float(passed_s)
        desk.runner._tick_by_clock()
        desk.journal.drain()  # the clock stands still meanwhile: a snapshot must not be late
    _, snapshots = numbers_of(tmp_path / "journal")
    assert snapshots == [1, 2]
    after = Desk(resumed(died(tmp_path / "journal", tmp_path / "left")), map_name="t-junction", clock=clock)
    assert after.state() == desk.state()
    shutil.rmtree(tmp_path / "left")
    left = died(tmp_path / "journal", tmp_path / "left")
    snapshot_path(left, 2).unlink()
    after = Desk(resumed(left), map_name="t-junction", clock=clock)
    assert "snapshot 1" in after.lines[-1]
    assert after.state() == desk.state()


def test_clients_are_gone_after_a_resume_and_their_numbers_hold(tmp_path):
    desk = Desk(kept(tmp_path / "journal"), map_name="t-junction")
    sensor = desk.ask("spawn_actor", [0, "sensor.other.gnss", []], [[0.0, 0.0, 5.0], [0.0, 0.0, 0.0]])
    stream_id = next(actor.stream_id for actor in desk.episode.actors if actor.id == sensor[0])
    first = desk.client
    assert desk.ask("add_traffic_manager_running", ["127.0.0.1", 8000])
    desk.ask("get_sensor_token", stream_id)
    desk.client = Client()
    assert desk.ask("add_traffic_manager_running", ["127.0.0.1", 8001])
    desk.runner._do(CallerGone(first))
    desk.runner._do(StreamUnheard(stream_id, 0))
    desk.runner._do(CallerGone(Client()))  # one that never called
    assert list(desk.episode.connections.traffic_managers) == [8001]
    desk.journal.flush()
    kinds = [record.kind for record in read_part(part_path(tmp_path / "journal", 0)).records]
    assert kinds.count(RecordKind.CALLER) == 2
    assert kinds[-2:] == [RecordKind.GONE, RecordKind.UNHEARD]
    desk.client.home = 3
    desk.ask("get_sensor_token", stream_id)
    desk.runner._do(NodeLeft(3))
    assert list(desk.episode.connections.subscriptions) == []
    desk.journal.flush()
    assert read_part(part_path(tmp_path / "journal", 0)).records[-1][:2] == (RecordKind.LEFT, [3])
    after = Desk(resumed(died(tmp_path / "journal", tmp_path / "left")), map_name="t-junction")
    assert after.episode.connections.traffic_managers == {}
    assert list(after.episode.connections.subscriptions) == []


def test_quick_calls_are_not_written_and_one_without_its_bytes_ends_the_journal(tmp_path):
    desk = Desk(kept(tmp_path / "journal"), map_name="t-junction")
    desk.ask("get_episode_settings")
    desk.journal.flush()
    assert len(read_part(part_path(tmp_path / "journal", 0)).records) == 1
    desk.runner._do(Call(desk.client, 1, methods()["get_spectator"], ()))
    assert desk.lines == ["the journal ends, the server goes on without: a call of get_spectator came without its bytes"]


def test_an_episode_that_a_snapshot_cannot_hold_is_played_again_instead(tmp_path, whole):
    desk = Desk(kept(tmp_path / "journal", every_ticks=2), data=tmp_path / "data", clock=Clock())
    begin(desk)
    desk.episode.something_new = 1
    play(desk, whole[0], range(6))
    (line,) = [line for line in desk.lines if "snapshot" in line]
    assert "snapshots do not know something_new" in line
    after = Desk(resumed(died(tmp_path / "journal", tmp_path / "left")), data=tmp_path / "data", clock=Clock())
    assert after.lines[-1] == "resumed from the beginning: frame 7"
    assert after.state() == whole[1][6]


def test_a_snapshot_of_what_was_restored_is_the_same_snapshot(tmp_path, whole):
    desk = Desk(data=tmp_path / "data", clock=Clock())
    first = begin(desk)
    for ticks in (range(1), range(1, 10), range(10, 21)):
        play(desk, first, ticks)
        packed = snapshot.take(desk.episode)
        back = snapshot.restore(packed, desk.episode.context)
        assert snapshot.take(back) == packed
        assert back.world.digest == desk.episode.world.digest
        assert back.actors.states.tobytes() == desk.episode.actors.states.tobytes()
    # What it holds is not what a fresh episode has.
    assert back.hidden
    assert back.hidden == desk.episode.hidden
    assert back.lamps == desk.episode.lamps
    assert back.lamps.states[1].intensity == 77.0
    assert back.debug.shapes == desk.episode.debug.shapes != ()
    assert len(back.tickets) == 1
    assert back.recorder.state() == desk.episode.recorder.state()
    assert back.actors.find(first + 6).physics.mass == 2222.0
    assert back.actors.find(first + 2).ackermann == desk.episode.actors.find(first + 2).ackermann
    assert back.weather.cloudiness == 70.0


def test_no_answer_is_sent_before_the_journal_has_its_call(tmp_path):
    desk = Desk(kept(tmp_path / "journal"), map_name="t-junction")
    seen = []

    def deliver(posts):
        records = read_part(part_path(tmp_path / "journal", 0)).records
        seen.append(sum(record.kind is RecordKind.CALL for record in records))
        desk.events.extend(posts)

    desk.runner._outbox._deliver = deliver
    for _ in range(3):
        desk.ask("get_spectator")
    assert seen == [1, 2, 3]


def test_a_durable_journal_says_the_same(tmp_path, whole):
    journaled(tmp_path, whole, 3, every_ticks=2, durable=True)
    desk = Desk(resumed(died(tmp_path / "journal", tmp_path / "left")), data=tmp_path / "data", clock=Clock())
    assert desk.state() == whole[1][3]


def test_an_error_of_ours_in_a_snapshot_does_not_stop_the_server(tmp_path, monkeypatch):
    monkeypatch.setattr("samepath.simulator.server.snapshot.take", lambda _: 1 // 0)
    desk = Desk(kept(tmp_path / "journal", every_ticks=1), map_name="t-junction")
    desk.ask("get_spectator")
    assert not desk.journal.snapshot(desk.episode)
    assert desk.lines == [
        "no snapshot at frame 1, resuming will take longer: ZeroDivisionError: integer division or modulo by zero"
    ]
    assert desk.journal.is_on


def test_everything_of_an_episode_is_known_to_snapshots():
    desk = Desk(map_name="t-junction")
    assert snapshot.obstacle(desk.episode) == ""

    def kinds(kind):
        return {kind, *(deeper for item in kind.__subclasses__() for deeper in kinds(item))}

    assert {kind.__name__ for kind in kinds(ActorEntry)} == set(snapshot._KINDS)
    assert not set(snapshot._FIELDS) & snapshot._OTHERS
    assert set(vars(desk.episode)) == set(snapshot._FIELDS) | snapshot._OTHERS


def test_a_journal_is_kept_only_where_it_is_asked_for(tmp_path):
    desk = Desk(None, map_name="t-junction", data=tmp_path)
    assert desk.journal is None
    assert isinstance(desk.episode, Episode)
    assert list(tmp_path.iterdir()) == []
    assert JournalConfig(tmp_path).settings.every_s == 10.0
    assert origin_of_round_trip(tmp_path).limits == LIMITS


def origin_of_round_trip(folder):
    desk = Desk(JournalConfig(folder / "journal", extra={"nodes": 4}), map_name="t-junction", data=folder / "data")
    desk.journal.close()
    found = origin_of(folder / "journal")
    assert found.extra == {"nodes": 4}
    assert found.data_folder == folder / "data"
    return found
