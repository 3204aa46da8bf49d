"""The pure parts: packets, room in a ring, and what waits for whom."""

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samepath.cluster.link import LinkLimits, wire
from samepath.cluster.link.memory import RingAllocator
from samepath.cluster.link.wire import Extent, FlowControl, MalformedError

LIMITS = LinkLimits(message_bytes=200, bulk_bytes=100, bulk_parts=5, inline_bytes=20)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**64 - 1), st.binary(max_size=200), st.lists(st.binary(max_size=100), max_size=5))
def test_a_letter_holds_what_was_put_into_it(read, message, bulk):
    (frame, *after), size, extent = wire.pack_bulk(read, message, bulk, None, LIMITS)
    packet = wire.unpack(frame, len(after), LIMITS)
    assert (packet.kind, packet.read, packet.message) == (wire.PacketKind.DATA, read, message)
    assert wire.unpack_bulk(packet, after, lambda _: None) == (tuple(bulk), 0)
    assert size >= sum(map(len, (frame, *after)))
    assert extent is None
    assert after == [part for part in bulk if len(part) > 20]


@settings(max_examples=500, deadline=None)
@given(st.data())
def test_a_letter_that_was_tampered_with_is_a_letter_or_malformed_and_nothing_else(data):
    bulk = data.draw(st.lists(st.binary(max_size=30), max_size=3))
    (frame, *after), _, _ = wire.pack_bulk(0, b"message", bulk, None, LIMITS)
    changed = bytearray(frame)
    for _ in range(data.draw(st.integers(0, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(changed[: data.draw(st.integers(0, len(changed)))])
    try:
        packet = wire.unpack(cut, len(after), LIMITS)
        wire.unpack_bulk(packet, after, lambda _: None)
    except MalformedError:
        return
    assert len(packet.message) <= 200


CONTROLS = [
    wire.LinkHello(True),
    wire.SegmentOffer(wire.SegmentUse.ARENA, 7, 4_000_000, 1000, 1 << 33, b"0123456789abcdef"),
    wire.SegmentReply(wire.SegmentUse.BROADCAST, 7, True, b"0123456789abcdef"),
    wire.GrowRequest(12),
    wire.Unmap(7),
    wire.PipesOffer(4_000_000, 10, 11, ("pipe:[123]", "pipe:[124]")),
    wire.PipesReply(True),
]


@pytest.mark.parametrize("kind", [type(control) for control in CONTROLS])
@given(st.binary(max_size=50))
def test_what_links_say_to_each_other_is_understood_or_malformed(kind, noise):
    try:
        found = wire.unpack_control(kind, noise)
    except MalformedError:
        return
    assert isinstance(found, kind)
    assert wire.unpack_control(kind, wire.pack_control(found)) == found


@pytest.mark.parametrize("control", CONTROLS)
def test_control_messages_come_back_as_they_were(control):
    assert wire.unpack_control(type(control), wire.pack_control(control)) == control


@pytest.mark.parametrize(
    "control",
    [
        wire.GrowRequest(-1),
        wire.GrowRequest(2**60),
        wire.SegmentReply(3, 0, True, bytes(16)),
        wire.SegmentReply(wire.SegmentUse.ARENA, 2**32, True, bytes(16)),
        wire.SegmentReply(wire.SegmentUse.ARENA, 0, True, bytes(15)),
    ],
)
def test_control_messages_out_of_bounds_are_malformed(control):
    with pytest.raises(MalformedError):
        wire.unpack_control(type(control), wire.pack_control(control))


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 64), st.lists(st.integers(0, 80), max_size=60))
def test_extents_in_use_never_overlap_and_a_ring_that_is_empty_takes_all_it_can(capacity, steps):
    """A number up to the capacity is an extent wanted; one beyond frees the oldest."""
    ring, used = RingAllocator(capacity), deque()
    for step in steps:
        if step > capacity:
            if used:
                ring.release(sum(used.popleft()))
            continue
        if step == 0:
            continue
        start = ring.reserve(step)
        assert start is not None or used
        if start is not None:
            assert start % capacity + step <= capacity
            cells = {cell % capacity for cell in range(start, start + step)}
            for other, length in used:
                assert cells.isdisjoint(cell % capacity for cell in range(other, other + length))
            used.append((start, step))


def test_a_ring_refuses_more_than_it_has():
    ring = RingAllocator(10)
    assert ring.reserve(11) is None
    assert ring.reserve(10) == 0
    assert ring.reserve(1) is None
    ring.release(10)
    assert ring.reserve(10) == 10


def test_an_account_knows_what_waits_and_which_memory_is_free():
    flow = FlowControl(LinkLimits(waiting_messages=4, waiting_bytes=100, ack_messages=2))
    for n in range(3):
        flow.on_sent(10, Extent(1, 10 * n, 10 * n + 10) if n else None)
    assert (flow.waiting, flow.waiting_bytes, flow.oldest(1), flow.oldest(0)) == (3, 30, 10, None)
    assert flow.on_read_by_peer(1) is None
    assert flow.on_read_by_peer(2) == Extent(1, 10, 20)
    assert (flow.waiting, flow.oldest(1)) == (1, 20)
    for wrong in (1, 4):
        with pytest.raises(MalformedError):
            flow.on_read_by_peer(wrong)
    assert not flow.is_full()
    flow.on_sent(90, None)
    assert flow.is_full()
    assert flow.on_read_by_peer(4) == Extent(1, 20, 30)
    assert (flow.waiting, flow.waiting_bytes, flow.is_full()) == (0, 0, False)
    for _ in range(4):
        assert not flow.is_full()
        flow.on_sent(1, None)
    assert flow.is_full()


def test_an_account_asks_for_a_report_after_many_messages_or_much_memory():
    flow = FlowControl(LinkLimits(ack_messages=3, broadcast_bytes=400))
    flow.on_received(99)
    assert not flow.owes_ack(0)
    flow.on_received(1)
    assert flow.owes_ack(0)
    assert not flow.owes_ack(1000)
    flow.on_sent(1, None)
    assert not flow.owes_ack(0)
    for _ in range(3):
        flow.on_received(0)
    assert flow.owes_ack(10**9)
