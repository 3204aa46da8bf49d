"""Bytes cut into messages, in whatever pieces they come; tokens, and nothing else, led elsewhere."""

import struct

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.sessions.wire import (
    SessionWireError,
    StreamCutter,
    StreamedState,
    observer_in,
    read_answer,
    read_call,
    redirected,
)
from samepath.simulator.carla.codec import Framer, answer, token, value_result
from tests.support.sessions import actor, row

LEAVES = st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.floats(width=32, allow_nan=False)
VALUES = st.recursive(
    LEAVES | st.text(max_size=9) | st.binary(max_size=9), lambda inner: st.lists(inner, max_size=4), max_leaves=10
)


def pieces(data, sizes):
    at = 0
    for size in [*sizes, len(data)]:
        if data[at : at + size]:
            yield data[at : at + size]
        at += size


@given(st.lists(VALUES, max_size=6), st.lists(st.integers(1, 20), max_size=30))
def test_objects_come_out_whole_and_unchanged_however_they_are_cut(values, sizes):
    messages = [msgpack.packb([0, number, "m", [value]]) for number, value in enumerate(values)]
    cutter, found = Framer(1 << 20, SessionWireError), []
    for piece in pieces(b"".join(messages), sizes):
        found += cutter.feed(piece)
    assert found == messages


def test_too_much_and_nonsense_are_refused():
    with pytest.raises(SessionWireError, match="more than 100 bytes"):
        list(Framer(100, SessionWireError).feed(msgpack.packb("x" * 50) * 1 + b"\xda\xff\xff" + bytes(200)))
    with pytest.raises(SessionWireError, match="no MessagePack"):
        list(Framer(1000, SessionWireError).feed(b"\xc1\xc1"))


@pytest.mark.parametrize(
    "bad", [b"\x01", b"\x94\x05\x01\xa1m\x90", msgpack.packb([0, "id", "m", []]), msgpack.packb([0, 1, 2, []])]
)
def test_what_is_no_call_is_refused(bad):
    with pytest.raises(SessionWireError):
        read_call(bad)


def test_heads_are_read_without_touching_the_rest():
    call = read_call(msgpack.packb([0, 7, "tick_cue", [[False], 1.5]]))
    assert (call.id, call.method, call.arguments) == (7, "tick_cue", msgpack.packb([[False], 1.5]))
    refused = read_answer(msgpack.packb([1, 7, "no such method", None]))
    assert (refused.id, refused.refused, refused.result) == (7, True, msgpack.packb("no such method"))


def test_a_token_leads_to_the_given_port_and_no_other_byte_changes():
    message = answer(9, value_result((token(5, 2001),)))
    changed, led = redirected(message, read_answer(message).result, 4001)
    assert (led.stream, led.port, led.host) == (5, 2001, None)
    assert changed == answer(9, value_result((token(5, 4001),)))
    same, _ = redirected(message, read_answer(message).result, 2001)
    assert same == message


def test_a_token_with_an_address_loses_it_so_that_clients_come_to_the_proxy():
    far = struct.pack("<IHBB16s", 5, 2001, 1, 1, bytes([10, 0, 0, 7]) + bytes(12))
    message = answer(9, value_result((far,)))
    changed, led = redirected(message, read_answer(message).result, 4001)
    assert (led.port, led.host) == (2001, "10.0.0.7")
    assert changed == answer(9, value_result((token(5, 4001),)))


def test_an_error_instead_of_a_token_passes_as_it_is():
    message = answer(9, msgpack.packb([[0, ["no such stream"]]]))
    assert redirected(message, read_answer(message).result, 4001) is None


def framed(kind, frame, body):
    payload = struct.pack("<QQd6f", kind, frame, 1.5, *[0.0] * 6) + body
    return struct.pack("<I", len(payload)) + payload


def state(frame, *rows):
    return framed(17, frame, struct.pack("<QdfiiiI", 3, 99.0, 0.05, 0, 0, 0, 0) + b"".join(rows))


@given(st.lists(st.integers(1, 90), max_size=40))
def test_a_stream_is_read_however_it_is_cut(sizes):
    data = state(4, row(1), row(2, 5.0)) + framed(9, 4, b"") + framed(13, 5, b"picture" * 30) + state(5)
    cutter, found = StreamCutter(), []
    for piece in pieces(data, sizes):
        found += cutter.feed(piece)
    assert [type(event).__name__ for event in found] == ["StreamedState", "StreamedFrame", "StreamedFrame", "StreamedState"]
    assert found[0].rows == row(1) + row(2, 5.0)
    assert (found[0].frame, found[0].episode, found[3].rows) == (4, 3, b"")
    assert (found[1].size_bytes, found[2].sensor_type, found[2].size_bytes) == (0, 13, 210)


def test_pictures_have_equal_digests_exactly_if_their_bytes_are_equal():
    found = [next(StreamCutter().feed(framed(13, 5, body))) for body in (b"abc", b"abc", b"abd")]
    assert found[0].digest == found[1].digest != found[2].digest


def test_collisions_are_compared_without_ports_and_ids():
    events = [
        msgpack.packb([actor(number, "vehicle.a", port), actor(number + 1, "static.wall", port), impulse])
        for number, port, impulse in ((3, 2001, [1.0, 0.0, 0.0]), (9, 4001, [1.0, 0.0, 0.0]), (3, 2001, [2.0, 0.0, 0.0]))
    ]
    digests = [next(StreamCutter().feed(framed(0, 5, event))).digest for event in events]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("bad", [struct.pack("<I", 5) + bytes(60), framed(17, 1, bytes(40)), framed(17, 1, bytes(10))])
def test_what_is_no_stream_of_carlas_is_refused(bad):
    with pytest.raises(SessionWireError):
        list(StreamCutter().feed(bad))


def test_states_are_the_only_messages_that_are_held():
    cutter = StreamCutter()
    list(cutter.feed(framed(13, 5, bytes(100_000))[:-1]))
    assert len(cutter._body) == 0
    assert isinstance(next(StreamCutter().feed(state(1, row(1)))), StreamedState)


def test_states_of_older_versions_are_found_on_the_streams_of_states_alone():
    older = framed(16, 4, state(4, row(1))[4 + 48 :])
    assert isinstance(next(StreamCutter(world=True).feed(older)), StreamedState)
    assert not isinstance(next(StreamCutter().feed(older)), StreamedState)
    assert observer_in(value_result((3, (token(9, 2001),)))) == 9
    assert observer_in(msgpack.packb([[0, ["no episode"]]])) is None
