"""Bulk made smaller between hosts: the same bytes, chosen by measured rates, never more memory than was asked for."""

import socket
from contextlib import suppress

import pytest

pytest.importorskip("zmq")

from hypothesis import given
from hypothesis import strategies as st

from samepath.cluster import messages as m
from samepath.cluster.direct import unpacked
from samepath.cluster.link import compression, wire
from samepath.cluster.link.compression import (
    CODECS,
    LEAST_BYTES,
    Choice,
    Learned,
    PackedError,
    PackedPart,
    Packer,
    choose,
    packed,
)
from samepath.cluster.link.wire import LinkLimits, MalformedError, PacketKind, PartRef, Via
from samepath.core.states import Pose
from samepath.simulator.server.rendering import RenderRequest
from tests.support.linking import linked, wait_until

LIMITS = LinkLimits()
PICTURE = bytes(range(256)) * 4 + bytes(60_000)
NOISE = b"".join(number.to_bytes(4, "little") for number in range(0, 2**31, 2**16 + 331))


def no_memory(_):
    return None


def request(sensor=7, size_bytes=61_024, type_id="sensor.camera.rgb"):
    assert len(PICTURE) == 61_024
    return RenderRequest(sensor, sensor, type_id, (), bytes(48), Pose(), None, 0, 1, 0.0, 0.05, size_bytes=size_bytes)


def result(sensor=7, *, payload=True, memory=False):
    return m.SensorResult(sensor, payload, "", memory, 0.0)


def opened(part, *, owed=None, passes_on=False, results=None, measurement_bytes=1 << 20):
    message = m.TickResult(3, b"", 0.0, results or (result(),))
    wanted = {7: request()} if owed is None else owed
    return unpacked(message, part if isinstance(part, tuple) else (part,), wanted, measurement_bytes, lambda _: passes_on)


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.binary(max_size=5000), copies=st.integers(1, 20))
def test_what_is_packed_is_read_to_the_byte(codec, data, copies):
    part = packed(data * copies, codec)
    assert len(part) == len(data) * copies
    assert part.read() == data * copies
    assert packed(memoryview(data * copies), codec).read() == data * copies


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.data())
def test_what_is_not_what_it_says_is_refused(codec, data):
    """Shorter, longer, cut, changed: an error, never other bytes of the right length, never what was in memory before."""
    honest = packed(PICTURE, codec)
    how = data.draw(st.sampled_from(["length", "cut", "changed", "nonsense", "codec"]))
    if how == "length":
        length = data.draw(st.integers(0, 2 * len(PICTURE)).filter(lambda length: length != len(PICTURE)))
        lie = PackedPart(honest.data, codec, length)
    elif how == "cut":
        lie = PackedPart(honest.data[: data.draw(st.integers(0, len(honest.data) - 1))], codec, len(PICTURE))
    elif how == "codec":
        lie = PackedPart(honest.data, data.draw(st.integers(3, 2**32 - 1)), len(PICTURE))
    elif how == "nonsense":
        lie = PackedPart(data.draw(st.binary(max_size=200)), codec, len(PICTURE))
    else:
        at = data.draw(st.integers(0, len(honest.data) - 1))
        changed = honest.data[:at] + bytes([honest.data[at] ^ data.draw(st.integers(1, 255))]) + honest.data[at + 1 :]
        lie = PackedPart(changed, codec, len(PICTURE))
        with suppress(PackedError):  # or other pixels, as a lying node may send without a codec as well
            assert len(lie.read()) == len(PICTURE)
        return
    with pytest.raises(PackedError):
        lie.read()


def test_a_packet_carries_packed_parts_between_others():
    bulk = [b"small", packed(PICTURE, 1), NOISE, packed(PICTURE, 2)]
    frames, size, extent = wire.pack_bulk(0, b"message", bulk, None, LIMITS)
    assert extent is None
    assert len(frames) == 4
    assert size == sum(map(len, frames)) + len(b"small")  # which is counted twice
    packet = wire.unpack(frames[0], 3, LIMITS)
    found, shared = wire.unpack_bulk(packet, frames[1:], no_memory)
    assert shared == 0
    assert wire.read_parts(found) == (b"small", PICTURE, NOISE, PICTURE)


@pytest.mark.parametrize(
    ("part", "frames"),
    [
        (PartRef(Via.PACKED, 1, LIMITS.bulk_bytes + 1, 10), 1),  # unpacked it would be too large
        (PartRef(Via.PACKED, 1, 100, LIMITS.bulk_bytes + 1), 1),
        (PartRef(Via.PACKED, 1, 100, 10), 0),  # the frame is missing
        (PartRef(Via.PACKED + 1, 1, 100, 10), 1),
    ],
)
def test_packets_with_impossible_parts_are_malformed(part, frames):
    with pytest.raises(MalformedError):
        wire.unpack(wire.pack(PacketKind.DATA, 0, b"", [part]), frames, LIMITS)


def test_a_packed_frame_of_another_length_than_it_says_is_malformed():
    packet = wire.unpack(wire.pack(PacketKind.DATA, 0, b"", [PartRef(Via.PACKED, 1, 100, 10)]), 1, LIMITS)
    with pytest.raises(MalformedError):
        wire.unpack_bulk(packet, [b"too short"], no_memory)
    found, _ = wire.unpack_bulk(packet, [b"0123456789"], no_memory)
    with pytest.raises(MalformedError, match=r"cannot be unpacked|not 100 bytes"):
        wire.read_parts(found)


class Watched(PackedPart):
    """Counts how often it was unpacked."""

    times = 0

    def read(self):
        Watched.times += 1
        return super().read()


def watched(part):
    return Watched(part.data, part.codec, part.length)


def test_main_unpacks_a_frame_that_is_owed_and_passes_on_one_for_other_hosts():
    part = watched(packed(PICTURE, 1))
    assert opened(part) == (PICTURE,)
    before = Watched.times
    assert opened(part, passes_on=True) == (part,)
    assert Watched.times == before


def test_main_unpacks_nothing_that_is_larger_than_the_sensor_can_send():
    """A kilobyte that would become a gigabyte: refused by what it says, and where it lies, by what it is."""
    bomb = watched(packed(bytes(64 << 20), 2))
    assert len(bomb.data) < 1 << 14
    before = Watched.times
    for passes_on in (False, True):
        with pytest.raises(PackedError, match="sensor 7, which sends 61024 at most"):
            opened(bomb, passes_on=passes_on)
    assert Watched.times == before
    small = PackedPart(bomb.data, bomb.codec, len(PICTURE))
    with pytest.raises(PackedError, match="unpacked"):
        opened(small)


def test_main_unpacks_nothing_that_nobody_owes():
    part = watched(packed(PICTURE, 1))
    before = Watched.times
    assert opened(part, owed={}) == (b"",)
    assert opened(part, owed={8: request(8)}) == (b"",)
    with pytest.raises(PackedError, match="brings no frames"):
        unpacked(m.Heartbeat(0), (part,), {}, 1 << 20, lambda _: False)
    assert Watched.times == before


def test_payload_and_memory_share_what_a_sensor_may_send_and_memory_is_always_unpacked():
    both = (packed(PICTURE, 1), packed(NOISE, 1))
    events = request(size_bytes=len(PICTURE), type_id="sensor.camera.dvs")
    kept = opened(both, owed={7: events}, results=(result(memory=True),), passes_on=True)
    assert kept == (both[0], NOISE)
    with pytest.raises(PackedError, match="at most"):
        opened(both, results=(result(memory=True),))


def test_unpacked_bulk_is_left_alone():
    assert opened((b"plain",), owed={}) == (b"plain",)


KNOWN = Choice({1: Learned(1 / 800e6, 0.22), 2: Learned(1 / 300e6, 0.13)}, messages=1)


@pytest.mark.parametrize(("mbit", "codec"), [(20, 2), (100, 2), (1000, 1), (8000, 0), (10_000, 0), (25_000, 0)])
def test_the_codec_follows_from_the_rate_of_the_link(mbit, codec):
    assert choose(KNOWN, mbit * 1e6 / 8, "auto") == codec


def test_on_is_always_and_off_is_never_and_unknown_is_slow():
    assert choose(KNOWN, 3e9, "on") == 1
    assert choose(KNOWN, 1e3, "off") == 0
    assert choose(KNOWN, None, "auto") == 2
    assert choose(Choice({}), 3e9, "auto") == 0


def test_every_codec_is_tried_at_first_and_again_now_and_then():
    choice, tried = Choice({}), []
    for _ in range(400):
        codec = choose(choice, 50e6, "auto")
        tried.append(codec)
        choice = compression.learn(choice, codec, 1000, 200 if codec == 1 else 190, 1e-6) if codec else choice
        choice = Choice(choice.learned, choice.messages + 1)
    assert tried[:2] == [1, 2]
    assert all(set(tried[k : k + 2 * compression._TRY_EVERY + 2]) >= {1, 2} for k in range(0, 250, 50))


def test_a_sender_packs_what_is_large_and_shrinks_and_nothing_else():
    packer = Packer("on", lambda: None)
    noise = NOISE[: LEAST_BYTES + 5]
    there = packed(PICTURE, 1)
    for _ in range(4):
        found = packer.pack([b"head", PICTURE, noise, there])
        assert found[0] == b"head"
        assert isinstance(found[1], PackedPart)
        assert found[1].read() == PICTURE
        assert found[2] == noise or found[2].read() == noise
        assert found[3] is there
    assert 0 < packer.packed_bytes < packer.content_bytes
    off = Packer("off", lambda: None)
    assert off.pack([PICTURE]) == [PICTURE]


def test_the_kernel_says_how_fast_a_connection_was():
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        there, _ = listener.accept()
        with there:
            for _ in range(20):
                client.sendall(bytes(1 << 18))
                left = 1 << 18
                while left:
                    left -= len(there.recv(left))
            rate = compression.delivery_rate_b_s(client)
            assert rate is None or rate > 1e5
    assert compression.delivery_rate_b_s(client) is None  # it is closed
    assert compression.delivery_rate_b_s(None) is None


def test_over_a_wire_bulk_arrives_as_it_was_in_fewer_bytes_both_ways():
    with linked(shared=False, compress="on") as pair:
        bulk = [b"head", PICTURE, NOISE, 4 * PICTURE]
        pair.nodes[0].send(b"up", bulk, pack=True)
        pair.main.send(pair.peers[0], b"down", bulk)
        pair.until(lambda: pair.at_main and pair.at_nodes[0])
        assert [(event.message, *event.bulk) for event in (*pair.at_main, *pair.at_nodes[0])] == [
            (b"up", *bulk),
            (b"down", *bulk),
        ]
        assert pair.main.counts.wire_bytes < 0.7 * sum(map(len, bulk))


def test_what_nobody_says_may_be_packed_goes_as_it_is_and_so_does_what_shares_memory():
    for shared, pack in ((False, False), (True, True)):
        with linked(shared=shared, compress="on") as pair:
            pair.nodes[0].send(b"up", [PICTURE], pack=pack)
            pair.until(lambda pair=pair: pair.at_main)
            assert pair.nodes[0].packer.packed_bytes == 0
            assert pair.at_main[0].bulk == (PICTURE,)


def test_a_frame_is_passed_on_packed_and_one_that_is_a_lie_is_left_out_with_a_line():
    with linked(2, shared=False, compress="on") as pair:
        pair.nodes[0].send(b"drawn", [PICTURE], pack=True)
        found = []
        wait_until(lambda: found.extend(pair.main.poll(0.001, in_place=True)) or found)
        (part,) = found[0].bulk
        assert isinstance(part, PackedPart)
        pair.main.send(pair.peers[1], b"a lie", [PackedPart(part.data, part.codec, len(part) + 1)])
        pair.main.send(pair.peers[1], b"true", [b"head", part])
        pair.until(lambda: pair.at_nodes[1])
        assert [(event.message, event.bulk) for event in pair.at_nodes[1]] == [(b"true", (b"head", PICTURE))]
        assert [line for line in pair.log if "left out" in line]


def test_a_tick_goes_packed_to_all_who_are_away_and_as_it_is_to_who_shares_memory():
    tick = b"".join(number.to_bytes(8, "little") for number in range(8000))
    with linked(3, node_shared=[True, False, False], compress="on") as pair:
        messages = {peer: b"tick %d" % number for number, peer in enumerate(pair.peers)}
        for round_number in range(3):
            assert pair.main.broadcast(messages, tick, {pair.peers[1]: (PICTURE,)}) == {}
            pair.until(lambda count=round_number + 1: all(len(events) == count for events in pair.at_nodes))
        for number, events in enumerate(pair.at_nodes):
            own = (PICTURE,) if number == 1 else ()
            assert [(event.message, event.bulk) for event in events] == [(b"tick %d" % number, (tick, *own))] * 3
        assert pair.main._packer.content_bytes == 3 * len(tick)  # once a tick, whoever gets it
        assert pair.main._packer.packed_bytes < 0.6 * 3 * len(tick)
