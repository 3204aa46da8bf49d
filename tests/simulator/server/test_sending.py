"""What waits for a client's socket is counted to the byte; an episode waits for an event loop that is behind."""

import asyncio
import threading

import pytest

from samepath.simulator.server.sending import _PIECE_BYTES, HandOver, SendQueue


class Wire(asyncio.Transport):
    """A socket that takes nothing until it is told to; it pauses its writer as asyncio's do."""

    def __init__(self):
        super().__init__()
        self.queue = None
        self.taken, self.buffer, self.high, self.largest_buffer = bytearray(), bytearray(), 0, 0

    def set_write_buffer_limits(self, high=None, low=None):
        self.high = high

    def get_write_buffer_size(self):
        return len(self.buffer)

    def is_closing(self):
        return False

    def write(self, data):
        self.buffer += data
        self.largest_buffer = max(self.largest_buffer, len(self.buffer))
        if len(self.buffer) > self.high:
            self.queue.pause()

    def fetch(self):
        self.taken += self.buffer
        self.buffer.clear()
        self.queue.resume()


@pytest.fixture
def wire():
    wire = Wire()
    wire.queue = SendQueue(wire)
    return wire


def test_bytes_go_out_in_order_and_a_transport_never_has_many(wire):
    answers = [bytes([number % 256]) * size for number, size in enumerate([10, 5_000_000, 3, _PIECE_BYTES, 0, 400_000, 7])]
    for answer in answers:
        wire.queue.write(answer)
        assert wire.queue.size_bytes == sum(map(len, answers[: answers.index(answer) + 1]))
    while wire.queue.size_bytes:
        wire.fetch()
    assert bytes(wire.taken) == b"".join(answers)
    assert wire.largest_buffer <= 2 * _PIECE_BYTES


def test_what_waits_is_dropped_when_a_client_has_gone(wire):
    wire.queue.write(bytes(1_000_000))
    wire.queue.clear()
    assert wire.queue.size_bytes == wire.get_write_buffer_size() <= 2 * _PIECE_BYTES


def test_one_that_is_too_fast_waits_until_there_is_room_and_no_longer_than_the_end():
    hand_over, done = HandOver(100), threading.Semaphore(0)

    def fill():
        for _ in range(3):
            hand_over.put(150, done.release)

    thread = threading.Thread(target=fill)
    thread.start()
    assert done.acquire(timeout=60)
    assert not done.acquire(timeout=0.05)
    hand_over.take(150)
    assert done.acquire(timeout=60)
    hand_over.close()
    assert done.acquire(timeout=60)
    thread.join(60)
    assert not thread.is_alive()
