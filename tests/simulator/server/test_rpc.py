"""The RPC port: calls in, answers back; whoever misbehaves loses only its own connection."""

import socket
import struct
from contextlib import suppress

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samepath.simulator.carla.codec import Framer
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.server.methods import methods
from samepath.simulator.server.rpc import MalformedCallError, parse
from tests.support.serving import RawClient, served

SMALL = ServerLimits(message_bytes=20_000, structured_bytes=2_000)


@pytest.fixture(scope="module")
def server():
    with served() as found:
        yield found


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=100, deadline=None)
@given(st.lists(VALUES, max_size=6), st.lists(st.integers(1, 30), max_size=40))
def test_messages_come_out_whole_however_they_were_cut(values, cuts):
    stream = b"".join(map(msgpack.packb, values))
    framer, found, at = Framer(SMALL.message_bytes, MalformedCallError), [], 0
    for cut in [*cuts, len(stream)]:
        found += framer.feed(stream[at : at + cut])
        at += cut
    assert [msgpack.unpackb(item) for item in found] == values


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_noise_is_calls_or_malformed_and_nothing_else(noise):
    calls = []
    with suppress(MalformedCallError):
        calls += [parse(message, SMALL) for message in Framer(SMALL.message_bytes, MalformedCallError).feed(noise)]
    assert all(call.id is None or 0 <= call.id < 1 << 32 for call in calls)
    assert all(isinstance(call.name, str) for call in calls)


@pytest.mark.parametrize(
    "noise",
    [
        b"\xc1",
        b"\x91" * 3000,
        msgpack.packb("hello"),
        msgpack.packb([0, 1, "version"]),
        msgpack.packb([1, 1, None, None]),
        msgpack.packb([0, -1, "version", []]),
        msgpack.packb([0, 1, b"version", []]),
        msgpack.packb([0, 1, "version", {}]),
        msgpack.packb({1: 2}),
        b"\x94\x00\x01\xa4\xff\xff\xff\xff\x90",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_malformed_bytes_close_that_connection_with_one_line(server, noise):
    server.lines.clear()
    with RawClient(server) as good, RawClient(server) as bad:
        bad.socket.sendall(noise)
        assert bad.is_closed()
        assert good.value("version") == "0.9.16"
    assert len([line for line in server.lines if "was disconnected" in line]) == 1


def test_lengths_beyond_all_bounds_close_the_connection_without_being_waited_for():
    with served(limits=SMALL) as server:
        for head in (b"\xdb\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff"):
            with RawClient(server) as bad:
                bad.socket.sendall(head)
                try:
                    for _ in range(100):
                        bad.socket.sendall(b"\xc0" * 1000)
                except OSError:
                    continue
                assert bad.is_closed()
        with RawClient(server) as good:
            assert good.value("version") == "0.9.16"


def test_a_large_text_is_taken_and_a_large_structure_is_refused():
    with served(limits=SMALL) as server, RawClient(server) as client:
        error, result = client.ask("copy_opendrive_to_file", "<" * 10_000, [2.0, 50.0, 1.0, 0.6, True, True, True])
        assert error is None
        assert result[0][0] is True  # no OpenDRIVE, and said so
        error, _ = client.ask("get_actors_by_id", [1] * 5_000)
        assert "more than 2000 bytes" in error
        # What is not supported is not even looked at.
        _, result = client.ask("apply_color_texture_to_objects", ["x"], 0, [1, 1, [0] * 5_000])
        assert "not supported by samepath" in result[0][1][0]
        assert client.value("version") == "0.9.16"


def test_an_unknown_method_is_refused_and_the_connection_stays(server):
    with RawClient(server) as client:
        error, result = client.ask("make_coffee")
        assert "no method 'make_coffee'" in error
        assert result is None
        assert client.value("version") == "0.9.16"


@pytest.mark.parametrize("name", sorted(methods()))
def test_wrong_arguments_are_refused_in_one_line(server, name):
    method = methods()[name]
    with RawClient(server) as client:
        for arguments in ([None] * (len(method.readers) + 1), [{"a": 1}] * len(method.readers), [[[]]] * 20):
            if method.handler is None or not (arguments or method.readers):
                continue
            if len(arguments) == len(method.readers) == 0:
                continue
            error, result = client.ask(name, *arguments)
            if error is None:  # an array of anything may be an empty batch
                assert name == "apply_batch"
                continue
            assert result is None
            assert name in error
            assert "\n" not in error
        assert client.value("version") == "0.9.16"


def test_answers_come_in_the_order_of_the_calls(server):
    with RawClient(server) as client:
        sent = [client.send(name) for name in ("get_map_info", "version", "get_spectator", "version") * 50]
        assert [client.receive()[0] for _ in sent] == sent


def test_a_quick_call_does_not_overtake_the_one_before_it(server):
    with RawClient(server) as client:
        settings = client.value("get_episode_settings")
        settings[8] = 1234.0
        client.send("set_episode_settings", settings)
        client.send("get_episode_settings")
        client.receive()
        assert client.receive()[2][0][1][8] == 1234.0


def test_a_notification_is_done_and_not_answered(server):
    with RawClient(server) as client:
        client.socket.sendall(msgpack.packb([2, "set_imui_gravity", [[True], 3.5]]))
        assert client.value("get_imui_gravity") == 3.5


def test_one_client_too_many_is_turned_away():
    with served(limits=ServerLimits(connections=2)) as server, RawClient(server) as a, RawClient(server) as b:
        assert a.value("version") == b.value("version")
        with RawClient(server) as c:
            assert c.is_closed()
        assert any("turned away" in line for line in server.lines)
        assert a.value("version") == "0.9.16"


def test_a_client_that_never_reads_its_answers_stops_only_itself():
    limits = ServerLimits(unread_answer_bytes=100_000)
    with served(limits=limits) as server, RawClient(server) as good, RawClient(server, timeout_s=1.0) as greedy:
        request = msgpack.packb([0, 1, "get_map_data", [[False]]])
        with pytest.raises(TimeoutError):
            while True:
                greedy.socket.sendall(request * 1000)
        for _ in range(20):
            assert good.value("version") == "0.9.16"
            good.value("get_episode_info")


def test_half_a_call_and_silence_harms_nobody(server):
    with RawClient(server) as half, RawClient(server) as good:
        half.socket.sendall(msgpack.packb([0, 1, "version", [[False]]])[:-3])
        for _ in range(10):
            assert good.value("version") == "0.9.16"
        half.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with RawClient(server) as good:
        assert good.value("version") == "0.9.16"


def test_a_client_that_goes_takes_its_traffic_manager_with_it(server):
    with RawClient(server) as client:
        assert client.value("add_traffic_manager_running", ["127.0.0.1", 8000]) is True
        assert client.value("add_traffic_manager_running", ["127.0.0.1", 8000]) is False
        assert client.value("get_traffic_manager_running", 8000) == ["127.0.0.1", 8000]
    with RawClient(server) as client:
        for _ in range(100):
            if not client.value("is_traffic_manager_running", 8000):
                break
        assert client.value("get_traffic_manager_running", 8000) == ["", 0]
        assert client.value("add_traffic_manager_running", ["127.0.0.1", 8000]) is True
        assert client.value("destroy_traffic_manager", 8000) is True
