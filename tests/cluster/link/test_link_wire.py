"""The pure parts: letters, room in a ring, and what waits for whom."""

from collections import deque
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samepath.cluster.link import LinkLimits, wire
from samepath.cluster.link.memory import Ring, compose, gather
from samepath.cluster.link.sockets import Account, Piece
from samepath.cluster.link.wire import MalformedError

LIMITS = LinkLimits(message_bytes=200, bulk_bytes=100, bulk_parts=5, embedded_bytes=20)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**64 - 1), st.binary(max_size=200), st.lists(st.binary(max_size=100), max_size=5))
def test_a_letter_holds_what_was_put_into_it(read, message, bulk):
    (frame, *after), size, piece = compose(read, message, bulk, None, LIMITS)
    letter = wire.unpack(frame, len(after), LIMITS)
    assert (letter.kind, letter.read, letter.message) == (wire.DATA, read, message)
    assert gather(letter, after, lambda _: None) == (tuple(bulk), 0)
    assert size >= sum(map(len, (frame, *after)))
    assert piece is None
    assert after == [part for part in bulk if len(part) > 20]


@settings(max_examples=500, deadline=None)
@given(st.data())
def test_a_letter_that_was_tampered_with_is_a_letter_or_malformed_and_nothing_else(data):
    bulk = data.draw(st.lists(st.binary(max_size=30), max_size=3))
    (frame, *after), _, _ = compose(0, b"message", bulk, None, LIMITS)
    changed = bytearray(frame)
    for _ in range(data.draw(st.integers(0, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(changed[: data.draw(st.integers(0, len(changed)))])
    try:
        letter = wire.unpack(cut, len(after), LIMITS)
        gather(letter, after, lambda _: None)
    except MalformedError:
        return
    assert len(letter.message) <= 200


@pytest.mark.parametrize("read", [wire.unpack_offer, wire.unpack_answer, wire.unpack_want])
@given(st.binary(max_size=50))
def test_what_is_said_about_memory_is_understood_or_malformed(read, noise):
    with suppress(MalformedError):
        read(noise)


def test_offers_and_answers_come_back_as_they_were():
    offer = wire.Offer(wire.ARENA, 7, 4_000_000, 1000, 1 << 33, b"0123456789abcdef")
    assert wire.unpack_offer(wire.pack_offer(offer)) == offer
    answer = wire.Answer(wire.BOARD, 7, True, b"0123456789abcdef")
    assert wire.unpack_answer(wire.pack_answer(answer)) == answer
    assert wire.unpack_want(wire.pack_want(12)) == 12


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 64), st.lists(st.integers(0, 80), max_size=60))
def test_pieces_in_use_never_overlap_and_a_ring_that_is_empty_takes_all_it_can(capacity, steps):
    """A number up to the capacity is a piece wanted; one beyond frees the oldest."""
    ring, used = Ring(capacity), deque()
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
    ring = Ring(10)
    assert ring.reserve(11) is None
    assert ring.reserve(10) == 0
    assert ring.reserve(1) is None
    ring.release(10)
    assert ring.reserve(10) == 10


def test_an_account_knows_what_waits_and_which_memory_is_free():
    account = Account(LinkLimits(waiting_messages=4, waiting_bytes=100, report_messages=2))
    for n in range(3):
        account.post(10, Piece(1, 10 * n, 10 * n + 10) if n else None)
    assert (account.waiting, account.waiting_bytes, account.oldest(1), account.oldest(0)) == (3, 30, 10, None)
    assert account.settle(1) is None
    assert account.settle(2) == Piece(1, 10, 20)
    assert (account.waiting, account.oldest(1)) == (1, 20)
    for wrong in (1, 4):
        with pytest.raises(MalformedError):
            account.settle(wrong)
    assert not account.is_full()
    account.post(90, None)
    assert account.is_full()
    assert account.settle(4) == Piece(1, 20, 30)
    assert (account.waiting, account.waiting_bytes, account.is_full()) == (0, 0, False)
    for _ in range(4):
        assert not account.is_full()
        account.post(1, None)
    assert account.is_full()


def test_an_account_asks_for_a_report_after_many_messages_or_much_memory():
    account = Account(LinkLimits(report_messages=3, board_bytes=400))
    account.take(99)
    assert not account.owes_report(0)
    account.take(1)
    assert account.owes_report(0)
    assert not account.owes_report(1000)
    account.post(1, None)
    assert not account.owes_report(0)
    for _ in range(3):
        account.take(0)
    assert account.owes_report(10**9)
