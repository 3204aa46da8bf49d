"""A session that was recorded once comes out with the same digests, tick for tick, whatever has changed in the code since."""

import pytest

from samepath.core.errors import SimulatorError
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.journal_files import RecordKind, read_part
from samepath.simulator.server.resume import _play
from tests.support.recorded_session import FILE, TICKS
from tests.support.serving import episode


@pytest.fixture(scope="module")
def records():
    return read_part(FILE).records


def played(records):
    host = Episode(episode("town").context, "town")
    host.rehearsed = True  # the recording that a client began then is not written again
    _play(host, records)
    return host


def test_it_is_played_to_its_end_and_every_tick_has_its_digest(records):
    kinds = [record.kind for record in records]
    assert kinds.count(RecordKind.TICK) == TICKS + 11
    assert {RecordKind.CALL, RecordKind.MAP, RecordKind.LEFT, RecordKind.GONE, RecordKind.UNHEARD} < set(kinds)
    host = played(records)
    assert host.frame == [record for record in records if record.kind is RecordKind.TICK][-1].fields[0]
    assert host.map.name == "OpenDriveMap"


def test_a_session_that_comes_out_otherwise_is_noticed_at_that_tick(records):
    at = [number for number, record in enumerate(records) if record.kind is RecordKind.TICK][7]
    frame, digest, states = records[at].fields
    other = [*records[:at], records[at]._replace(fields=[frame, bytes(16), states])]
    assert len(digest) == 16
    with pytest.raises(SimulatorError, match=f"frame {frame} came out differently"):
        played(other)


def test_a_call_that_is_left_out_is_noticed_too(records):
    ticks = [number for number, record in enumerate(records) if record.kind is RecordKind.TICK]
    missing = ticks[20] - 1  # the call that ticked
    assert records[missing].kind is RecordKind.CALL
    with pytest.raises(SimulatorError, match="came out differently"):
        played([*records[:missing], *records[missing + 1 :]])
