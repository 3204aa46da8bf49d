"""The episode's thread: time in asynchronous mode, on a clock of the test's own; whose call is next; when answers go out."""

import math
import queue
import re
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samepath.core.errors import InputError, SamepathError
from samepath.simulator.server.commands import CallerGone, NodeLeft, StreamUnheard, apply
from samepath.simulator.server.methods import methods
from samepath.simulator.server.rpc import Call
from samepath.simulator.server.runner import (
    FRAME_S,
    AnswerEvent,
    CallAnswered,
    EpisodeRunner,
    FairQueue,
    ListenerExpected,
    LocalInbox,
    Outbox,
    StatePrepared,
    StopRequested,
    StreamEnded,
    StreamMessage,
    TickPacer,
)
from samepath.simulator.server.server import ServerSettings
from tests.support.serving import Somebody, call, episode, served


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


def run_for(clock, pace, host, seconds, tick_s):
    """Tick by the pacer's word, each tick taking ``tick_s`` of the wall clock."""
    end_s = clock.now_s + seconds
    while clock.now_s < end_s:
        wait_s = pace.wait_s(host)
        if wait_s:
            clock.now_s += wait_s
        else:
            pace.step_s(host)
            clock.now_s += tick_s


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_a_world_that_is_slower_than_the_clock_says_so_once_a_minute_with_figures(clock, scale):
    lines = []
    host, pace = asynchronous(0.05), TickPacer(clock, scale, lines.append)
    run_for(clock, pace, host, 59.0, 0.0625 / scale)
    assert lines == []
    assert pace.pace.ratio == pytest.approx(0.8 * scale, abs=0.02)
    run_for(clock, pace, host, 125.0, 0.0625 / scale)
    assert len(lines) == 3
    ratio, due = 0.8 * scale, f"{scale:g}"
    words = rf"slower than the clock: \d\d+\.\d s simulated in 6\d\.\d s, simulated/wall {ratio:.2f}, expected {due}$"
    assert all(re.search(words, line) for line in lines)


@pytest.mark.parametrize("step_s", [0.05, None])
def test_a_world_that_keeps_up_says_nothing(clock, step_s):
    lines = []
    host, pace = asynchronous(step_s), TickPacer(clock, log=lines.append)
    run_for(clock, pace, host, 300.0, 0.01)
    assert lines == []
    assert pace.pace.ratio == pytest.approx(1.0, abs=0.01)
    # In synchronous mode there is no pace, and none is left over for the time after it.
    assert pace.wait_s(episode()) is None
    assert pace.pace is None
    clock.now_s += 3600.0
    assert pace.wait_s(episode()) is None
    run_for(clock, pace, host, 300.0, 0.01)
    assert lines == []


def test_the_world_rests_after_a_load(clock):
    host, pace = asynchronous(0.01), TickPacer(clock)
    clock.now_s += 1.0
    pace.rest(host)
    assert pace.wait_s(host) == pytest.approx(0.05)


@pytest.mark.parametrize("scale", [0.5, 2.0, 20.0])
@pytest.mark.parametrize("step_s", [None, 0.05])
def test_a_world_with_a_time_scale_runs_so_much_faster_or_slower(clock, step_s, scale):
    host, pace = asynchronous(step_s), TickPacer(clock, scale)
    start_s, world_s, steps = clock.now_s, 0.0, []
    while clock.now_s < start_s + 10.0:
        clock.now_s += pace.wait_s(host)
        steps.append(pace.step_s(host))
        world_s += steps[-1]
    assert world_s == pytest.approx(scale * (clock.now_s - start_s), rel=1e-6)
    if step_s is None:  # never longer than in real time, and never rarer
        assert max(steps) == pytest.approx(FRAME_S * min(scale, 1.0))
    else:
        assert set(steps) == {step_s}


def test_a_time_scale_that_the_machine_cannot_keep_is_said(clock):
    lines = []
    host, pace = asynchronous(0.05), TickPacer(clock, 10.0, lines.append)
    for _ in range(1300):
        clock.now_s += max(pace.wait_s(host), 0.05)  # as long as a tick takes here
        pace.step_s(host)
    (line,) = lines
    assert re.search(r"slower than the clock: 60\.\d s simulated in 60\.\d s, simulated/wall 1\.00, expected 10$", line)
    kept, pace = asynchronous(0.05), TickPacer(clock, 10.0, lines.append)
    for _ in range(20_000):
        clock.now_s += pace.wait_s(kept)
        pace.step_s(kept)
    assert len(lines) == 1


@pytest.mark.parametrize("scale", [0.0, -1.0, 0.09, 101.0, float("nan"), float("inf")])
def test_a_time_scale_out_of_bounds_is_refused(scale):
    with pytest.raises(InputError, match=r"--time-scale: world seconds per second from 0\.1 to 100 were wanted"):
        ServerSettings(time_scale=scale)


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


class Client:
    """Somebody who calls; answers come as ``(id, result)``."""

    def __init__(self, home=0):
        self.home, self.stream_port, self.answers = home, None, queue.SimpleQueue()

    def answer(self, call_id, result):
        self.answers.put((call_id, result))


def calls(client, *numbers, method="get_episode_settings", arguments=()):
    return [Call(client, number, methods()[method], arguments) for number in numbers]


def order(fair):
    """Who is served in which order: (client, number), or the event itself where it is no call."""
    found = []
    while fair and not isinstance(event := fair.pop()[0], StopRequested):
        found.append((event.caller, event.id) if isinstance(event, Call) else event)
    return found


def filled(*events):
    fair = FairQueue()
    for event in events:
        fair.add(event)
    return fair


def test_clients_take_turns_and_each_keeps_the_order_of_its_calls():
    a, b, c = Client(), Client(), Client()
    fair = filled(*calls(a, 1, 2, 3, 4), *calls(b, 1, 2), *calls(c, 1))
    assert order(fair) == [(a, 1), (b, 1), (c, 1), (a, 2), (b, 2), (a, 3), (a, 4)]
    assert not fair


def test_at_most_one_call_of_each_other_client_is_done_before_mine():
    greedy, other, mine = Client(), Client(), Client()
    fair = filled(*calls(mine, 0), *calls(greedy, *range(50)), *calls(other, *range(50)))
    for _ in range(7):
        fair.pop()
    for event in calls(mine, 1):
        fair.add(event)
    assert (mine, 1) in order(fair)[:3]


def test_who_was_served_longest_ago_is_next_also_after_a_pause():
    a, b = Client(), Client()
    fair = filled(*calls(b, 0), *calls(a, 0, 1, 2))
    for _ in range(3):
        fair.pop()
    for event in calls(b, 1):
        fair.add(event)
    assert order(fair) == [(b, 1), (a, 2)]


def test_who_connects_anew_for_every_call_does_not_overtake_those_who_wait():
    waiting, fresh = Client(), [Client() for _ in range(5)]
    fair = filled(*calls(waiting, 1, 2))
    assert fair.pop()[0].id == 1
    for client in fresh:
        for event in (*calls(client, 1), CallerGone(client)):
            fair.add(event)
    assert order(fair).index((waiting, 2)) == 0
    assert not fair._served.keys() & set(fresh)  # who is gone leaves nothing behind


def test_a_client_that_goes_has_its_calls_done_first_and_stopping_comes_last():
    a, b = Client(), Client()
    fair = filled(*calls(a, 1, 2), CallerGone(a), *calls(b, 1), StopRequested(), *calls(b, 2))
    assert order(fair) == [(a, 1), (b, 1), (a, 2), CallerGone(a)]
    assert isinstance(fair.pop()[0], StopRequested)


def test_what_is_nobodys_call_is_done_at_once_in_its_order():
    a = Client()
    answered = CallAnswered(a, 9, b"")
    fair = filled(*calls(a, 1), StreamUnheard(5), answered, StreamUnheard(6))
    assert order(fair) == [StreamUnheard(5), answered, StreamUnheard(6), (a, 1)]


def test_a_node_leaves_behind_the_calls_of_its_clients():
    here, there, elsewhere = Client(), Client(home=2), Client(home=3)
    fair = filled(*calls(there, 1, 2), *calls(here, 1), *calls(elsewhere, 1), CallerGone(there), NodeLeft(2))
    found = order(fair)
    assert found.index(NodeLeft(2)) > found.index((there, 2))
    assert not fair._served.keys() & {there}
    assert order(filled(*calls(here, 1), NodeLeft(2))) == [NodeLeft(2), (here, 1)]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 3) | st.none(), max_size=60))
def test_however_calls_come_nobody_waits_for_two_of_another_and_none_is_lost(steps):
    """A number: that client makes a call; None: one call is done."""
    clients, fair, made, done = [Client() for _ in range(4)], FairQueue(), [0] * 4, []
    waits = [[] for _ in clients]  # for each client that has calls waiting: who was served since its last turn
    for step in [*steps, *[None] * len(steps)]:
        if step is not None:
            if made[step] == [caller for caller, _ in done].count(step):
                waits[step] = []
            made[step] += 1
            for event in calls(clients[step], made[step]):
                fair.add(event)
        elif fair:
            event = fair.pop()[0]
            served = clients.index(event.caller)
            done.append((served, event.id))
            for number in range(4):
                waits[number] = [] if number == served else [*waits[number], served]
        for number in range(4):
            if made[number] > [caller for caller, _ in done].count(number):
                assert len(waits[number]) == len(set(waits[number]))
    for number in range(4):
        assert [at for caller, at in done if caller == number] == list(range(1, made[number] + 1))


class HeldInbox(LocalInbox):
    """An inbox that says when the thread is to begin, so that all that was put in is there."""

    def __init__(self):
        super().__init__()
        self.begin = threading.Event()

    def get(self, timeout_s):
        assert self.begin.wait(60)
        return super().get(timeout_s)


def test_an_answer_that_is_waited_for_is_handed_over_before_others_calls_are_done():
    busy, waiting = Client(), Client()
    done, handed = [], []
    host = episode()

    def deliver(events):
        handed.append((len(done), [(event.caller, event.id) for event in events if isinstance(event, AnswerEvent)]))

    inbox, all_done = HeldInbox(), threading.Event()
    runner = EpisodeRunner(host, Outbox(deliver), pytest.fail, inbox)
    apply = runner._apply

    def watched(command):
        done.append(command)
        if len(done) == 11:
            all_done.set()
        return apply(command)

    runner._apply = watched
    for event in (*calls(busy, *range(1, 11)), *calls(waiting, 1)):
        runner.submit(event)
    runner.start()
    inbox.begin.set()
    assert all_done.wait(60)
    runner.stop()
    when = next(count for count, answers in handed if (waiting, 1) in answers)
    assert when == 2  # after the first of the busy one, and its own


def test_large_answers_are_not_collected():
    outbox = Outbox(lambda events: None)
    outbox.answer("caller", 1, bytes(5 << 20))
    assert outbox.is_full
    outbox.post()
    assert not outbox.is_full


def test_what_waits_when_the_server_stops_is_not_begun():
    begun, go_on = threading.Event(), threading.Event()
    done, client = [], Client()
    inbox = HeldInbox()
    runner = EpisodeRunner(episode(), Outbox(lambda events: None), pytest.fail, inbox)

    def held(command):
        done.append(command)
        begun.set()
        assert go_on.wait(60)
        return b""

    runner._apply = held
    for event in calls(client, *range(1, 50)):
        runner.submit(event)
    runner.start()
    inbox.begin.set()
    assert begun.wait(60)
    ending = threading.Thread(target=runner.stop)
    ending.start()
    while not runner._stopping:
        pass
    go_on.set()
    ending.join(60)
    assert len(done) == 1


def test_whoever_watches_may_slow_a_world_down_let_it_stand_and_step_it(clock):
    host, pace = asynchronous(0.05), TickPacer(clock)
    call(host, "samepath_pace", 0.5, 0)
    clock.now_s += 0.1
    assert pace.wait_s(host) == 0.0
    assert pace.step_s(host) == 0.05
    assert pace.wait_s(host) == pytest.approx(0.1)
    call(host, "samepath_pace", 0, 0)
    clock.now_s += 100.0
    assert pace.wait_s(host) is None
    assert pace.frame_s(host) == math.inf  # a world that stands is not one that hangs
    call(host, "samepath_pace", 0, 2)
    for _ in range(2):
        assert pace.wait_s(host) == 0.0
        assert pace.step_s(host) == 0.05
    assert pace.wait_s(host) is None
    call(host, "samepath_pace", 1, 0)
    assert pace.wait_s(host) == pytest.approx(0.05)  # the time that it stood is not made up for


def test_a_world_goes_on_when_whoever_let_it_stand_has_gone(clock):
    host, pace, watcher = asynchronous(0.05), TickPacer(clock), Somebody()
    call(host, "samepath_pace", 0, 0, caller=watcher)
    apply(host, CallerGone(Somebody()))
    assert pace.wait_s(host) is None
    apply(host, CallerGone(watcher))
    assert pace.wait_s(host) == pytest.approx(0.05)


@pytest.mark.parametrize(("arguments", "told"), [((0.5, 1), "a world that stands was wanted"), ((1, 0), "synchronous mode")])
def test_a_pace_that_cannot_be_is_refused(arguments, told):
    host = asynchronous() if "stands" in told else episode()
    host.settings = host.settings._replace(synchronous_mode="stands" not in told)
    with pytest.raises(SamepathError, match=told):
        call(host, "samepath_pace", *arguments)


def test_who_looks_on_is_told_of_the_others_and_of_the_streams_they_listen_to():
    host = asynchronous()
    synchronous, pace, others, heard = call(host, "samepath_watch")
    assert (synchronous, pace, list(heard)) == (False, 1.0, [])
    host.connections.callers[1] = "10.0.0.7:1234"
    host.connections.subscriptions.add(5)
    assert list(call(host, "samepath_watch")[2]) == [*others, "10.0.0.7:1234"]
    assert list(call(host, "samepath_watch")[3]) == [5]


def test_a_line_that_comes_after_the_server_has_stopped_is_still_written():
    with served() as server:
        log = server._runner.episode.context.log
    # The thread of an episode that was busy for longer than a stop waits for it: an error here would end the whole process.
    log("too late for the event loop")
    assert server.lines[-1] == "too late for the event loop"
