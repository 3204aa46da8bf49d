"""Time in asynchronous mode, on a clock of the test's own: ticks are due when they are due, and lost time is lost."""

import pytest

from samepath.simulator.server.runner import (
    FRAME_S,
    AnswerEvent,
    ListenerExpected,
    Outbox,
    StatePrepared,
    StreamEnded,
    StreamMessage,
    TickPacer,
)
from tests.support.serving import episode


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self):
        self.now_s = 100.0

    def monotonic_s(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


def asynchronous(step_s=None):
    host = episode()
    host.settings = host.settings._replace(synchronous_mode=False, fixed_delta_seconds=step_s)
    return host


def test_a_synchronous_world_waits_for_a_client(clock):
    pace = TickPacer(clock)
    clock.now_s += 50.0
    assert pace.wait_s(episode()) is None


def test_a_frame_is_due_after_its_time_and_as_long_as_what_passed(clock):
    host, pace = asynchronous(), TickPacer(clock)
    assert pace.wait_s(host) == pytest.approx(FRAME_S)
    clock.now_s += 0.01
    assert pace.wait_s(host) == pytest.approx(FRAME_S - 0.01)
    clock.now_s += FRAME_S
    assert pace.wait_s(host) == 0.0
    assert pace.step_s(host) == pytest.approx(FRAME_S + 0.01)
    assert pace.wait_s(host) == pytest.approx(FRAME_S)


def test_a_fixed_step_comes_as_often_as_the_clock_says(clock):
    host, pace = asynchronous(0.02), TickPacer(clock)
    done = 0
    for _ in range(1000):
        clock.now_s += 0.003
        while pace.wait_s(host) == 0.0:
            assert pace.step_s(host) == 0.02
            done += 1
    assert done == pytest.approx(3.0 / 0.02, abs=1)


def test_a_server_that_was_held_up_does_not_hurry_for_ever(clock):
    host, pace = asynchronous(0.05), TickPacer(clock)
    clock.now_s += 3600.0
    done = 0
    while pace.wait_s(host) == 0.0:
        pace.step_s(host)
        done += 1
    assert done <= 6
    variable, pace = asynchronous(), TickPacer(clock)
    clock.now_s += 3600.0
    assert pace.step_s(variable) <= 0.25


def test_time_spent_in_synchronous_mode_is_not_made_up_for(clock):
    host, pace = asynchronous(), TickPacer(clock)
    assert pace.wait_s(episode()) is None
    clock.now_s += 10.0
    assert pace.wait_s(episode()) is None
    assert pace.wait_s(host) == pytest.approx(FRAME_S)


def test_the_world_rests_after_a_load(clock):
    host, pace = asynchronous(0.01), TickPacer(clock)
    clock.now_s += 1.0
    pace.rest(host)
    assert pace.wait_s(host) == pytest.approx(0.05)


def test_mail_is_handed_over_in_the_order_it_was_written():
    delivered = []
    mail = Outbox(delivered.append)
    mail.post()
    assert delivered == []
    mail.expect(5, 0)
    mail.lossless = True
    mail.publish(1, b"state")
    mail.publish(5, b"measured")
    mail.answer("caller", 7, b"done")
    mail.lossless = False
    mail.publish(1, b"next")
    mail.prepare(b"fresh")
    mail.forget(5)
    mail.post()
    mail.post()
    (posts,) = delivered
    assert posts == [
        ListenerExpected(5, 0),
        StreamMessage(1, b"state", lossless=True),
        StreamMessage(5, b"measured", lossless=True),
        AnswerEvent("caller", 7, b"done"),
        StreamMessage(1, b"next", lossless=False),
        StatePrepared(b"fresh"),
        StreamEnded(5),
    ]
