"""A journal survives power cuts: on a simulated disk that loses, tears and reorders whatever was not synced."""

import errno
import threading
import zlib
from itertools import pairwise

import msgpack
import pytest

from samepath.core.files import SystemDisk
from samepath.core.streams import stream
from samepath.simulator.server.journal import EpisodeJournal, JournalOrigin, JournalSettings
from samepath.simulator.server.journal_files import (
    BackgroundThread,
    JournalFiles,
    RecordKind,
    cut,
    numbers_of,
    part_path,
    read_part,
    read_tail,
    snapshot_path,
)
from tests.support.disk import FOLDER, HandBackground, SimulatedDisk
from tests.support.journal_scenario import Desk, resumed

SYNC_EVERY_S = 1.0
EVENTS = 40
HEAD = {"made_by": "a test"}


def call(number):
    """The record of the number-th thing that happened; some are larger than a sector."""
    return [number, bytes([number % 251]) * int(stream(3, "sizes", number).integers(10, 700))]


def snapshot_of(count):
    content = msgpack.packb([count, bytes([count % 251]) * 1400])
    return zlib.crc32(content).to_bytes(4, "little") + content


def count_in(packed):
    """How much had happened when a snapshot was taken; None: it is not whole."""
    if len(packed) < 5 or zlib.crc32(packed[4:]).to_bytes(4, "little") != packed[:4]:
        return None
    count, _ = msgpack.unpackb(packed[4:])
    return count


def recovered(disk):
    """How much of what happened is known, as a resume finds it, and with what; None: there is no journal."""
    parts, snapshots = numbers_of(FOLDER, disk)
    if not any(read_part(part_path(FOLDER, number), disk).records for number in parts):
        return None  # what the world began with is not known
    for start in [*reversed(snapshots), *([0] if 0 in parts else [])]:
        count = count_in(disk.read(snapshot_path(FOLDER, start))) if start else 0
        if count is None:
            continue
        tail = read_tail(FOLDER, start, disk=disk)
        for record in tail.records:
            if record.kind is RecordKind.CALL:
                assert record.fields == call(count + 1), "what is known is a beginning of what happened, without a gap"
                count += 1
        return count, start, tail
    return None


class Session:
    """Things happen one after the other, snapshots are taken, time passes. ``safe``: so much is known after any power cut."""

    def __init__(self, disk, *, durable, seed, number=0, happened=0):
        self.disk, self.durable, self.happened = disk, durable, happened
        self.background, self.lines = HandBackground(), []
        self.files = JournalFiles(
            FOLDER, self.lines.append, durable=durable, sync_every_s=SYNC_EVERY_S, disk=disk, background=self.background
        )
        self.chance = stream(seed, "session", number)
        self.number = number
        self.safe = happened if number else None  # of what was there before, all was on disk
        self.handed_over = []
        disk.while_syncing = self._meanwhile
        self._is_waiting = False

    def begin(self):
        packed = snapshot_of(self.happened) if self.number else None
        count = self.happened
        self.files.begin(self.number, HEAD, [(RecordKind.RESUMED,)] if self.number else [], packed)
        self.promise(count)

    def promise(self, count):
        if self.files.is_on:
            self.safe = max(count, self.safe or 0)

    def promised(self):
        """At this moment, on a disk that makes no errors."""
        if self.safe is None:
            return None
        old = [count for time_s, count in self.handed_over if self.background.now_s - time_s > SYNC_EVERY_S]
        return max([self.safe, *old])

    def run(self, events):
        for _ in range(events):
            self.happen()
            if self.happened % 7 == 0 and not self.files.is_storing:
                self.files.store(snapshot_of(self.happened), f"frame {self.happened}", HEAD)
            if self.chance.integers(3) == 0:
                self.background.drain()
            self.background.pass_s(int(self.chance.integers(0, 32)) / 64)  # exactly

    def happen(self):
        self.happened += 1
        self.files.add(RecordKind.CALL, *call(self.happened))
        self.files.flush()
        if self.durable:
            self.promise(self.happened)
        elif self.files.is_on:
            self.handed_over.append((self.background.now_s, self.happened))

    def _meanwhile(self):
        """While one thread waits for the disk, the other goes on."""
        if self._is_waiting:
            return
        self._is_waiting = True
        if self.durable:
            self.background.drain()
        elif self.safe is not None and self.files.is_on and self.chance.integers(2):
            self.happen()
        self._is_waiting = False


def check(session, chance, cuts):
    """Cut the power now, in several ways: what was promised is known, and so is all that was ever on disk."""
    on_disk = recovered(session.disk.synced())
    if on_disk is not None and session.safe is not None:
        session.safe = max(session.safe, on_disk[0])
    lost = 0
    for _ in range(cuts):
        found = recovered(session.disk.after_power_cut(chance))
        if session.promised() is not None:
            assert found is not None, "a journal that was begun is there"
            assert found[0] >= session.promised()
            lost = max(lost, session.happened - found[0])
    return lost


def run_and_cut(seed, *, durable, cuts=4, skips=None):
    """A session with power cuts before each operation; how many there were, and the most that one of them took."""
    disk = SimulatedDisk(seed)
    session = Session(disk, durable=durable, seed=seed)
    chance = stream(seed, "cuts")
    lost = []
    disk.before_each = lambda: lost.append(check(session, chance, cuts))
    if skips is not None:
        disk.skips = skips
    session.begin()
    session.run(EVENTS)
    session.files.close()
    assert session.lines == []
    assert recovered(disk.synced())[0] == session.happened, "a server that was stopped has everything on disk"
    assert disk.open_handles == 0
    return len(lost), max(lost)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("durable", [False, True])
def test_a_power_cut_at_any_moment_leaves_everything_that_was_promised(durable, seed):
    moments, lost = run_and_cut(seed, durable=durable)
    assert moments > 100
    # What had happened and was not answered yet may be gone; without waiting for the disk also what was.
    assert lost <= 1 if durable else lost > 1


@pytest.mark.parametrize(
    "skips",
    [
        pytest.param(lambda operation, name: True, id="none is made"),
        pytest.param(lambda operation, name: operation == "sync" and ".episode" in name, id="of snapshots"),
        pytest.param(lambda operation, name: operation == "sync" and ".journal" in name, id="of parts"),
        pytest.param(lambda operation, name: operation == "sync_folder", id="of names"),
    ],
)
@pytest.mark.parametrize("durable", [False, True])
def test_the_disk_would_show_a_missing_sync(durable, skips):
    with pytest.raises(AssertionError):
        run_and_cut(0, durable=durable, skips=skips)


@pytest.mark.parametrize("durable", [False, True])
def test_a_power_cut_while_a_journal_is_gone_on_with_loses_nothing_either(durable):
    disk = SimulatedDisk()
    session = Session(disk, durable=durable, seed=11)
    chance = stream(11, "cuts")
    left = []
    disk.before_each = lambda: left.append(disk.after_power_cut(chance)) if session.safe is not None else None
    session.begin()
    session.run(EVENTS)
    for number, second_disk in enumerate(left[::6]):
        count, start, tail = recovered(second_disk)
        second = Session(second_disk, durable=durable, seed=number, number=tail.part + 1, happened=count)
        second_disk.before_each = lambda second=second: check(second, chance, 2)
        cut(FOLDER, start, tail, second_disk)
        second.begin()
        second.run(9)
        assert second.lines == []
        count, start, _ = recovered(second_disk)
        assert count == second.happened
        assert start >= second.number


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("durable", [False, True])
def test_an_error_of_the_disk_at_any_moment_loses_nothing_that_was_safe_and_is_said(durable, error):
    whole = SimulatedDisk()
    session = Session(whole, durable=durable, seed=5)
    session.begin()
    begun = whole.operations
    session.run(EVENTS // 2)
    assert whole.operations - begun > 50
    went_on = ended = 0
    for operation in range(begun + 1, whole.operations + 1):
        disk = SimulatedDisk(operation)
        disk.faults = {operation: error}
        session = Session(disk, durable=durable, seed=5)
        session.begin()
        chance = stream(operation, "cuts")
        for _ in range(EVENTS // 8):
            session.run(4)
            # The promise of a second is the disk's: one that makes errors keeps what it had, and durably what was answered.
            session.handed_over = []
            check(session, chance, 1)
        went_on, ended = went_on + session.files.is_on, ended + (not session.files.is_on)
        session.files.close()
        check(session, chance, 1)
        assert disk.open_handles == 0
        assert all("\n" not in line for line in session.lines)
        assert len(session.lines) <= 2
        if session.files.is_on and session.lines:
            assert recovered(disk.synced())[0] == session.happened
    assert went_on
    assert ended


def test_the_first_error_of_a_sync_counts_although_the_next_sync_succeeds():
    kept = {True: 0, False: 0}
    for seed in range(8):
        disk = SimulatedDisk(seed)
        session = Session(disk, durable=False, seed=2)
        disk.while_syncing = lambda: None
        session.begin()
        session.happen()
        disk.faults = {disk.operations + 1: errno.EIO}
        session.background.pass_s(SYNC_EVERY_S)
        (line,) = session.lines
        assert line == (
            "the disk did not take /simulated/part-000000.journal (Input/output error): it is written anew with the next record"
        )
        assert recovered(disk.synced())[0] == 0
        session.background.pass_s(10 * SYNC_EVERY_S)
        session.happen()
        # Either memory still had it, and it is on disk under another file's number, or the journal has ended and says why.
        kept[session.files.is_on] += 1
        assert recovered(disk.synced())[0] == (1 if session.files.is_on else 0)
        if not session.files.is_on:
            assert "does not hold any more what was written to it" in session.lines[-1]
        session.files.close()
    assert min(kept.values()) > 0


def test_a_durable_journal_goes_on_in_another_file_when_a_sync_fails():
    for seed in range(8):
        disk = SimulatedDisk(seed)
        session = Session(disk, durable=True, seed=2)
        session.begin()
        session.happen()
        disk.faults = {disk.operations + 2: errno.EIO}  # the write, then its sync
        session.happen()
        assert session.files.is_on
        assert recovered(disk.synced())[0] == 2
        session.happen()
        assert recovered(disk.synced())[0] == 3


def test_a_file_of_zeros_is_no_record():
    disk = SimulatedDisk()
    handle = disk.create(part_path(FOLDER, 0))
    disk.append(handle, bytes(4096))
    part = read_part(part_path(FOLDER, 0), disk)
    assert part.records == ()
    assert part.torn


def test_a_part_is_read_only_behind_the_one_that_it_follows():
    """A later part may be on disk when the end of the one before is not."""
    disk = SimulatedDisk()
    session = Session(disk, durable=False, seed=1)
    session.begin()
    for _ in range(3):
        session.happen()
    session.files.store(b"no snapshot", "frame 3", HEAD)
    session.happen()
    assert recovered(disk)[0] == 4
    first = part_path(FOLDER, 0)
    records = read_part(first, disk).records
    disk.truncate(disk.open(first), records[-1].end)
    assert recovered(disk)[0] == 4
    disk.truncate(disk.open(first), records[-2].end)
    count, _, tail = recovered(disk)
    assert count == 2
    assert tail.why == "part 0 of the journal is damaged: what came after it is lost"


def test_what_did_not_lead_to_where_the_server_was_is_set_aside():
    """Else a snapshot would be believed next time, when the part that spoke against it is no longer there."""
    disk = SimulatedDisk()
    session = Session(disk, durable=False, seed=1)
    session.begin()
    session.happen()
    session.files.store(b"no snapshot", "frame 1", HEAD)
    session.happen()
    session.background.drain()
    first = part_path(FOLDER, 0)
    disk.truncate(disk.open(first), len(disk.read(first)) - 1)
    count, start, tail = recovered(disk)
    assert (count, start, tail.part) == (0, 0, 0)
    cut(FOLDER, start, tail, disk)
    assert disk.names(FOLDER) == ["part-000000.journal", "part-000001.lost", "snapshot-000001.lost"]
    again = Session(disk, durable=False, seed=1, number=tail.part + 1)
    again.begin()
    again.happen()
    assert recovered(disk)[0] == again.happened
    assert numbers_of(FOLDER, disk) == ([0, 1], [1])


def test_parts_are_found_beyond_a_million():
    disk = SimulatedDisk()
    for number in (999_999, 1_000_000, 3):
        disk.create(part_path(FOLDER, number))
        disk.create(snapshot_path(FOLDER, number))
    assert numbers_of(FOLDER, disk) == ([3, 999_999, 1_000_000],) * 2


def test_what_a_power_cut_left_half_written_is_cleared_away():
    disk = SimulatedDisk()
    disk.create(FOLDER / ".snapshot-000003.episode.77.partial")
    Session(disk, durable=False, seed=1).begin()
    assert disk.names(FOLDER) == ["part-000000.journal"]


class HeldDisk(SystemDisk):
    """A disk whose syncs wait for the test."""

    def __init__(self):
        self.goes_on, self.is_waiting = threading.Event(), threading.Event()
        self.goes_on.set()

    def sync(self, handle):
        self.is_waiting.set()
        self.goes_on.wait()
        super().sync(handle)


def test_the_episode_does_not_wait_for_a_disk_that_hangs(tmp_path):
    disk, lines = HeldDisk(), []
    files = JournalFiles(tmp_path, lines.append, disk=disk)
    files.begin(0, HEAD)
    disk.goes_on.clear()
    disk.is_waiting.clear()
    for number in range(1, 6):
        files.add(RecordKind.CALL, *call(number))
        files.flush()
    assert files.store(snapshot_of(5), "frame 5", HEAD)
    assert disk.is_waiting.wait(60.0)
    files.add(RecordKind.CALL, *call(6))
    files.flush()
    assert files.is_storing
    # In the hands of the kernel all the same: the death of the process would lose nothing.
    calls = [record.fields[0] for record in read_tail(tmp_path, 0).records if record.kind is RecordKind.CALL]
    assert calls == [1, 2, 3, 4, 5, 6]
    assert numbers_of(tmp_path) == ([0, 1], [])
    disk.goes_on.set()
    files.drain()
    assert not files.is_storing
    assert numbers_of(tmp_path) == ([0, 1], [1])
    files.close()
    assert lines == []


def test_the_background_does_one_thing_after_the_other_and_survives_an_error_of_ours():
    lines, done, later = [], [], threading.Event()
    background = BackgroundThread(lines.append)
    background.drain()
    background.submit(lambda: done.append("later"), after_s=3600.0)
    background.submit(lambda: 1 // 0)
    for number in range(5):
        background.submit(lambda number=number: done.append(number))
    background.submit(later.set, after_s=0.001)
    background.drain()
    assert done == [0, 1, 2, 3, 4]
    assert later.wait(60.0)
    assert lines == ["error of ours in the journal's thread: ZeroDivisionError: integer division or modulo by zero"]
    background.close()
    assert done == [0, 1, 2, 3, 4]


def journaled(folder, disk, background, *, durable=False):
    """An episode whose journal is kept on a simulated disk."""
    desk = Desk(map_name="t-junction", clock=background.clock())
    files = JournalFiles(folder, desk.lines.append, durable=durable, disk=disk, background=background)
    context = desk.episode.context
    journal = EpisodeJournal(
        folder,
        JournalOrigin("t-junction", data_folder=context.data_folder, limits=context.limits),
        desk.lines.append,
        JournalSettings(every_s=None, every_ticks=6, durable=durable),
        background.clock(),
        files,
    )
    journal.begin(desk.episode)
    desk.runner._journal = desk.journal = journal
    desk.runner._outbox.before = journal.flush
    desk.ask("set_episode_settings", [True, False, [True, 0.05], True, 0.01, 10, 0.0, False, 2000.0, 2000.0, False])
    return desk


def test_a_snapshot_that_is_due_while_the_disk_is_busy_is_taken_when_it_is_not(tmp_path):
    disk, background = SimulatedDisk(), HandBackground()
    desk = journaled(tmp_path / "journal", disk, background)
    assert desk.journal.snapshot(desk.episode)
    assert not desk.journal.snapshot(desk.episode)
    assert numbers_of(FOLDER, disk) == ([0, 1], [])
    background.drain()
    desk.ask("tick_cue")  # long before the next one is due
    assert numbers_of(FOLDER, disk) == ([1, 2], [1, 2])
    desk.ask("tick_cue")
    assert numbers_of(FOLDER, disk) == ([1, 2], [1, 2])
    desk.close()
    Desk.open.clear()


@pytest.mark.parametrize("durable", [False, True])
def test_an_episode_is_continued_after_a_power_cut_as_it_was(tmp_path, durable):
    disk, background = SimulatedDisk(), HandBackground()
    desk = journaled(tmp_path / "journal", disk, background, durable=durable)
    spot = desk.ask("get_map_info")[1][0]
    car = desk.ask("spawn_actor", [0, "vehicle.audi.tt", []], spot)[0]
    desk.ask("apply_control_to_vehicle", car, [0.8, 0.1, 0.0, False, False, False, 0])
    states, kept = {}, []
    disk.before_each = lambda: kept.append((len(states), background.now_s, disk.after_power_cut(stream(1, "cut", len(kept)))))
    ticked_s = []
    for _ in range(20):
        desk.ask("tick_cue")
        states[desk.episode.frame] = desk.state()
        ticked_s.append(background.now_s)
        background.pass_s(0.25)
    first = min(states)
    for number, (ticks, now_s, left) in enumerate(kept[:: len(kept) // 8]):
        after = Desk(resumed(left.save(tmp_path / f"left {number}")), map_name="t-junction", clock=background.clock())
        if after.episode.frame in states:
            assert after.state() == states[after.episode.frame]
        promised = ticks if durable else sum(now_s - time_s > SYNC_EVERY_S for time_s in ticked_s[:ticks])
        assert after.episode.frame >= first + promised - 1
        after.close()
    assert all(later[0] >= earlier[0] for earlier, later in pairwise(kept))
    desk.close()
    Desk.open.clear()
