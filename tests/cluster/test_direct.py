"""Frames from node to node: when a result counts, and what goes over the wire between two nodes."""

import threading

import pytest

pytest.importorskip("zmq")

from samepath.cluster import messages as m
from samepath.cluster.direct import PATIENCE_S, DirectFrames, LateFrames, endpoint_of
from samepath.cluster.link.keys import make_keys
from samepath.cluster.link.neighbours import NeighbourFrame, Neighbours
from samepath.cluster.link.node_link import NodeLink
from samepath.cluster.link.wire import LinkLimits, LinkLostError
from samepath.cluster.records import Member, NodeMessage
from samepath.core.clock import SYSTEM_CLOCK

LONGEST_S = 120.0


def member(number, membership):
    hello = m.Hello(f"node-{number}", "1", "f", "host", "boot", 7, "10.0.0.1", 1, 2, 1)
    return Member(f"peer {membership}".encode(), number, hello, False, 0.0, membership=membership)


def result(frame, *sensors):
    """Of a tick: sensors, each with the nodes that its frame went to."""
    results = tuple(m.SensorResult(sensor, False, "", False, 0.0, homes) for sensor, homes in sensors)
    return NodeMessage(b"peer 11", m.TickResult(frame, b"", 0.0, results))


class TestWhenAResultCounts:
    @pytest.fixture
    def direct(self):
        return DirectFrames()

    def test_at_once_where_nothing_is_under_way(self, direct):
        event = result(5, (7, ()))
        assert direct.on_result(member(1, 11), event, {1, 2}, 0.0) == [event]
        assert direct.deadline_s() is None

    def test_when_all_its_frames_are_where_they_were_sent(self, direct):
        event = result(5, (7, (2, 3)), (8, (2,)))
        assert direct.on_result(member(1, 11), event, {1, 2, 3}, 0.0) == []
        assert direct.on_held(2, m.FramesHeld(11, 5, (7, 8))) == []
        assert direct.on_held(3, m.FramesHeld(11, 4, (7,))) == []  # of another tick
        assert direct.on_held(3, m.FramesHeld(12, 5, (7,))) == []  # of somebody else
        assert direct.on_held(3, m.FramesHeld(11, 5, (7,))) == [event]
        assert direct.deadline_s() is None

    def test_also_if_the_frames_are_quicker_than_the_result(self, direct):
        event = result(5, (7, (2,)))
        assert direct.on_held(2, m.FramesHeld(11, 5, (7,))) == []
        assert direct.on_result(member(1, 11), event, {1, 2}, 0.0) == [event]

    def test_without_those_of_a_node_that_is_gone_or_never_was(self, direct):
        assert direct.on_result(member(1, 11), result(5, (7, (9,))), {1, 2}, 0.0) == [result(5, (7, (9,)))]
        event = result(5, (7, (2,)))
        assert direct.on_result(member(1, 11), event, {1, 2}, 0.0) == []
        assert direct.on_lost(member(2, 12)) == [event]

    def test_never_if_its_node_is_gone(self, direct):
        direct.on_result(member(1, 11), result(5, (7, (2,))), {1, 2}, 0.0)
        assert direct.on_lost(member(1, 11)) == []
        assert direct.on_held(2, m.FramesHeld(11, 5, (7,))) == []

    def test_what_takes_too_long_is_asked_for_once(self, direct):
        direct.on_result(member(1, 11), result(5, (7, (2, 3))), {1, 2, 3}, 10.0)
        direct.on_held(2, m.FramesHeld(11, 5, (7,)))
        assert direct.deadline_s() == 10.0 + PATIENCE_S
        assert direct.overdue(10.0) == []
        assert direct.overdue(10.0 + PATIENCE_S) == [LateFrames(b"peer 11", 5, (3,))]
        assert direct.overdue(20.0) == []
        assert direct.on_held(3, m.FramesHeld(11, 5, (7,))) == []  # it has been asked for again

    def test_nothing_is_kept_of_ticks_of_long_ago(self, direct):
        direct.on_held(2, m.FramesHeld(11, 5, (7,)))
        direct.on_result(member(1, 11), result(6, (7, (2,))), {1, 2}, 0.0)
        direct.on_tick(6 + 64)
        assert direct.held == 0
        assert direct.deadline_s() is None


def test_an_address_of_ipv6_is_put_in_brackets():
    assert endpoint_of("10.0.0.1", 7) == "tcp://10.0.0.1:7"
    assert endpoint_of("fd00::1", 7) == "tcp://[fd00::1]:7"


class Door:
    """A node's door, on loopback, and what it was sent."""

    def __init__(self, limits=None):
        self.keys, self.lines, self.held = make_keys(), [], []
        self._came = threading.Condition()
        self.neighbours = Neighbours(
            "127.0.0.1", self.keys, limits or LinkLimits(), "auto", self._on_held, self.lines.append
        )  # fmt: skip
        self.endpoint = f"tcp://127.0.0.1:{self.neighbours.port}"

    def _on_held(self, *what):
        with self._came:
            self.held.append(what)
            self._came.notify_all()

    def wait(self, count):
        with self._came:
            assert self._came.wait_for(lambda: len(self.held) >= count, LONGEST_S), self.lines


def until(is_so):
    start_s = SYSTEM_CLOCK.monotonic_s()
    while not is_so():
        assert SYSTEM_CLOCK.monotonic_s() - start_s < LONGEST_S
        SYSTEM_CLOCK.sleep_s(0.002)


@pytest.fixture
def doors():
    made = [Door(), Door()]
    yield made
    for door in made:
        door.neighbours.close()


def acquainted(first, second):
    first.neighbours.meet(2, 12, second.endpoint, second.keys.public)
    second.neighbours.meet(1, 11, first.endpoint, first.keys.public)
    until(lambda: first.neighbours.reaches(2))


FRAME = NeighbourFrame(7, 70, b"head", b"picture " * 5000)


class TestBetweenNodes:
    def test_frames_are_held_until_they_are_taken_and_only_once(self, doors):
        first, second = doors
        acquainted(first, second)
        first.neighbours.send(2, 11, 5, [FRAME, FRAME._replace(sensor=8, stream=80, payload=b"")])
        second.wait(1)
        assert second.held == [(11, 5, (7, 8))]
        assert second.neighbours.take(11, 5, 70) == FRAME.head + FRAME.payload
        assert second.neighbours.take(11, 5, 70) is None
        assert second.neighbours.take(12, 5, 80) is None  # nobody else's
        assert second.neighbours.take(11, 5, 80) == b"head"

    def test_a_tick_forgets_those_before_it_in_real_time_later(self, doors):
        first, second = doors
        acquainted(first, second)
        first.neighbours.send(2, 11, 5, [FRAME])
        second.wait(1)
        second.neighbours.forget(6, lossless=False)
        second.neighbours.forget(5, lossless=True)
        assert second.neighbours.take(11, 5, 70) is not None
        first.neighbours.send(2, 11, 6, [FRAME])
        second.wait(2)
        second.neighbours.forget(7, lossless=True)
        assert second.neighbours.take(11, 6, 70) is None

    def test_what_claims_to_be_of_somebody_else_is_not_held(self, doors):
        first, second = doors
        acquainted(first, second)
        first.neighbours.send(2, 99, 5, [FRAME])
        first.neighbours.send(2, 11, 6, [FRAME])
        second.wait(1)
        assert second.held == [(11, 6, (7,))]
        assert second.neighbours.take(99, 5, 70) is None

    def test_who_was_not_named_is_not_let_in(self, doors):
        first, second = doors
        first.neighbours.meet(2, 12, second.endpoint, second.keys.public)
        until(lambda: any("go through the main server" in line for line in first.lines))
        assert not first.neighbours.reaches(2)
        assert any("is not known here" in line for line in second.lines)
        second.neighbours.meet(1, 11, first.endpoint, first.keys.public)  # it is tried again
        until(lambda: first.neighbours.reaches(2))

    def test_who_is_parted_from_sends_nothing_more(self, doors):
        first, second = doors
        acquainted(first, second)
        first.neighbours.part(2)
        assert not first.neighbours.reaches(2)
        first.neighbours.send(2, 11, 5, [FRAME])
        second.neighbours.part(1)
        assert second.held == []

    def test_a_door_holds_no_more_than_may_be_under_way(self):
        limits = LinkLimits(waiting_bytes=len(FRAME.head + FRAME.payload) + 10)
        first, second = Door(), Door(limits)
        try:
            acquainted(first, second)
            for frame in (5, 6):
                first.neighbours.send(2, 11, frame, [FRAME])
            first.neighbours.send(2, 11, 7, [FRAME._replace(payload=b"")])
            second.wait(2)
            assert [frame for _, frame, _ in second.held] == [5, 7]
        finally:
            first.neighbours.close()
            second.neighbours.close()

    def test_what_are_no_frames_ends_the_connection(self, doors):
        first, second = doors
        second.neighbours.meet(1, 11, first.endpoint, first.keys.public)
        link = NodeLink(second.endpoint, first.keys, second.keys.public, shared_memory=False)
        try:
            link.send(b"nonsense")
            with pytest.raises(LinkLostError):
                until(lambda: link.poll(0.5) is None)
        finally:
            link.close()
        assert any("no frames was cut off" in line for line in second.lines)
