"""Recordings of sessions: whole, cut off, damaged, foreign, newer."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.core.digests import first_link, link
from samepath.core.errors import StoreError
from samepath.sessions.recording import (
    MAGIC,
    ROW_BYTES,
    VERSION,
    SessionHeader,
    SessionRows,
    SessionState,
    SessionWriter,
    read_session,
)
from tests.support.sessions import MadeSession, row


@pytest.fixture
def recording(tmp_path):
    made = MadeSession(tmp_path / "one.samepath", facts={"server": "here:2000"}).connect().synchronous().spawn(7)
    for tick in range(4):
        made.drive(7, 0.1 * tick).tick(row(3), row(7, float(tick))).sensor(bytes([tick]))
    made.done()
    return made.path


def written(path, *contents):
    """A file whose chain is right, whatever is in it."""
    chain, data = first_link("session", VERSION), MAGIC
    for content in contents:
        chain = link(chain, content)
        data += len(content).to_bytes(4, "little") + chain + content
    path.write_bytes(data)
    return path


def test_what_was_written_is_read(recording):
    read = read_session(recording)
    assert read.header.facts == {"server": "here:2000"}
    assert read.truncated == ""
    assert read.end.why == "the end"
    kinds = [type(event).__name__ for event in read.events]
    assert kinds.count("SessionCall") == 10
    assert kinds.count("SessionState") == 4
    rows = SessionRows()
    states = [rows.apply(event).copy() for event in read.events if isinstance(event, SessionState)]
    assert [state.shape for state in states] == [(2, ROW_BYTES)] * 4
    assert [state[1].tobytes() for state in states] == [row(7, float(tick)) for tick in range(4)]


def test_rows_that_did_not_change_are_not_written_again(recording):
    sizes = [len(event.rows) for event in read_session(recording).events if isinstance(event, SessionState)]
    assert sizes == [2 * ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES]


def test_a_file_that_was_cut_off_anywhere_is_read_up_to_there_and_says_so(recording, tmp_path):
    whole, data = read_session(recording), recording.read_bytes()
    cut, lengths = tmp_path / "cut.samepath", set()
    for size in range(len(MAGIC), len(data), 11):  # no record is as short as that
        cut.write_bytes(data[:size])
        try:
            read = read_session(cut)
        except StoreError as error:
            assert "nothing was recorded" in str(error)
            continue
        assert read.truncated
        assert read.events == whole.events[: len(read.events)]
        lengths.add(len(read.events))
    assert lengths == set(range(len(whole.events) + 1))


def test_every_flipped_bit_is_found(recording, tmp_path):
    data = bytearray(recording.read_bytes())
    bad = tmp_path / "bad.samepath"
    for at in range(0, len(data), 13):
        changed = bytearray(data)
        changed[at] ^= 1 << (at % 8)
        bad.write_bytes(changed)
        try:
            read = read_session(bad)
        except StoreError as error:
            assert "\n" not in str(error)
        else:  # a length that grew beyond the end of the file looks like a file that was cut off there
            assert "within a record" in read.truncated


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no recording of a session"),
        (b"PK\x03\x04 something else", "no recording of a session"),
        (MAGIC, "nothing was recorded"),
        (MAGIC + b"\xff\xff\xff\xff" + bytes(100), "no record is 4294967295 bytes long"),
    ],
)
def test_foreign_files_are_refused_in_one_line(tmp_path, content, words):
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=words):
        read_session(path)


def test_a_newer_recording_is_refused_with_its_version(tmp_path):
    header = msgspec.msgpack.encode(["SessionHeader", VERSION + 1, "9.9", {}, "what we do not know"])
    with pytest.raises(StoreError, match=f"of version {VERSION + 1}, this samepath reads up to {VERSION}"):
        read_session(written(tmp_path / "newer", header))


@pytest.mark.parametrize(
    "record",
    [
        ["SessionCall", -1, 1, "m", [b"", bytes(16), 0], 0, 0.0],
        ["SessionCall", 1, 1, "m", [b"", b"short", 0], 0, 0.0],
        ["SessionCall", 1, 1, "m", [b"", bytes(16), 0], 0, float("nan")],
        ["SessionState", 1, 0.0, 0.05, 1, 0, 2, bytes(16), None, bytes(ROW_BYTES)],
        ["SessionState", 1, 0.0, 0.05, 1, 0, 1, bytes(16), b"\x05\0\0\0", bytes(ROW_BYTES)],
        ["SessionState", 1, 0.0, 0.05, 1, 0, 1, bytes(16), None, b"no row"],
        ["Unknown", 1],
        "no array",
    ],
)
def test_records_that_make_no_sense_are_refused_even_with_a_right_chain(tmp_path, record):
    header = msgspec.msgpack.encode(SessionHeader(VERSION, "test", {}))
    with pytest.raises(StoreError):
        read_session(written(tmp_path / "odd", header, msgspec.msgpack.encode(record)))


def test_nothing_may_follow_the_end(tmp_path):
    header = msgspec.msgpack.encode(SessionHeader(VERSION, "test", {}))
    end = msgspec.msgpack.encode(["SessionEnd", "over", 0])
    with pytest.raises(StoreError, match="something follows its end"):
        read_session(written(tmp_path / "odd", header, end, end))


def test_a_recording_is_never_overwritten(recording):
    with pytest.raises(StoreError, match="never overwritten"):
        SessionWriter(recording, SessionHeader(VERSION, "test", {}))


def test_a_recording_that_has_grown_too_large_ends_and_is_read_as_cut_off(tmp_path):
    writer = SessionWriter(tmp_path / "large", SessionHeader(VERSION, "test", {}), most_bytes=2000)
    made = MadeSession.__new__(MadeSession)
    made.path, made.writer, made.frame, made.calls, made.rows = tmp_path / "large", writer, 1, 0, SessionRows()
    for _ in range(100):
        made.drive(1, 0.5)
    assert "grown beyond" in writer.problem
    writer.close("over")
    read = read_session(tmp_path / "large")
    assert read.truncated
    assert 0 < len(read.events) < 200


@given(st.lists(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3)), max_size=5), max_size=12))
def test_states_put_together_are_the_states_that_were_taken_apart(states):
    writing, reading = SessionRows(), SessionRows()
    for frame, actors in enumerate(states):
        data = b"".join(row(actor, float(x)) for actor, x in actors)
        positions, rows = writing.changes(data)
        state = SessionState(frame, 0.0, 0.05, 1, 0, len(actors), bytes(16), positions, rows)
        assert np.array_equal(reading.apply(state).reshape(-1), np.frombuffer(data, np.uint8))
