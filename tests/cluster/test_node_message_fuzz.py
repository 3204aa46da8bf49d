"""Messages between main server and nodes, from a grammar: each is a message or refused, at a bounded cost. Long: bench fuzz."""

import msgpack
import pytest

pytest.importorskip("zmq")

from bench import fuzz
from samepath.cluster import messages as m
from samepath.cluster.link import wire
from samepath.cluster.settings import link_limits
from samepath.simulator.carla.codec import WireError
from samepath.simulator.carla.limits import ServerLimits
from tests.support.fuzzed_main import FuzzedMain
from tests.support.grammars.node_messages import OF_MAIN, OF_NODES, message_of_main, message_of_node, packet

LIMITS = link_limits(ServerLimits())


def test_twelve_hundred_messages_of_a_node_leave_the_main_server_alive_at_a_bounded_cost(tmp_path):
    found = fuzz.run_node_messages(1_200, 7, tmp_path)
    assert found.failures == ()
    assert found.taken > 200
    assert found.refused > 200
    assert found.delivered > 0


def test_a_node_that_speaks_for_more_clients_than_it_may_have_is_taken_out(tmp_path):
    target = FuzzedMain(tmp_path)
    call = msgpack.packb([0, 1, "get_map_info", [["", ""]]])
    stayed = [target.hear(m.encode(m.ClientCall(client, 1.0)), (call,)) for client in range(1, 10)]
    assert stayed == [True] * 8 + [False]


def test_messages_are_the_same_whenever_they_are_made():
    for make in (message_of_node, message_of_main, packet):
        assert make(7, 41) == make(7, 41)
        assert len({repr(make(7, number)) for number in range(40)}) > 30


@pytest.mark.parametrize(
    ("make", "read", "kinds"), [(message_of_node, m.from_node, OF_NODES), (message_of_main, m.from_main, OF_MAIN)]
)
def test_the_grammar_makes_every_message_and_each_is_read_or_refused(make, read, kinds):
    seen = set()
    for number in range(1_500):
        content, _ = make(7, number)
        try:
            seen.add(type(read(content)))
        except WireError as error:
            assert "\n" not in str(error)
    assert seen == set(kinds)


def test_packets_are_taken_apart_or_malformed():
    taken = 0
    for number in range(3_000):
        first, *after = packet(7, number)
        try:
            found = wire.unpack(first, len(after), LIMITS)
            bulk, _ = wire.unpack_bulk(found, after, lambda part: bytes(part.length) if part.length < 1000 else None)
            taken += 1
            assert [len(part) for part in bulk] == [part.length for part in found.parts]
        except wire.MalformedError:
            continue
        for kind in (wire.LinkHello, wire.SegmentOffer, wire.SegmentReply, wire.GrowRequest):
            try:
                wire.unpack_control(kind, found.message)
            except wire.MalformedError:
                continue
    assert taken > 300


@pytest.mark.parametrize(
    "content",
    [
        ["TickResult", 1, b"", 0.0, [[1, False, "", False, 0.0]] * 20_000],
        ["TickResult", 1, b"", 0.0, [[1, False, "x" * 100_000, False, 0.0]]],
    ],
)
def test_a_result_of_more_sensors_or_words_than_there_may_be_is_refused(content):
    with pytest.raises(WireError):
        m.from_node(m._encoder.encode(content))
