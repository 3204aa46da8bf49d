"""Decisions of the cluster, one at a time: an event in, effects out. Whole schedules of faults are in the simulation."""

import pytest
from msgspec.structs import replace

from samepath.cluster import coordinator as c
from samepath.cluster import messages as m
from samepath.cluster.settings import Timeouts
from samepath.core.states import Pose
from samepath.simulator.server.rendering import RenderRequest

CONFIG = c.ClusterConfig("1", "same code", "this boot", {}, Timeouts(reissue_s=0.5, fence_s=2.0))
MAP = c.MapFacts(m.NewEpisode(1, "Town01", "town", "the map"), b"<OpenDRIVE/>")
DIGEST = b"d" * 16


def request(sensor, frame=7):
    head = bytes(8) + frame.to_bytes(8, "little") + bytes(32)
    return RenderRequest(sensor, sensor + 100, "sensor.camera.rgb", (), head, Pose(), None, sensor, 1, 0.0, 0.05)


def hello(name="node-1", **changes):
    fields = {
        "name": name, "version": "1", "fingerprint": "same code", "host": "here", "boot": "this boot", "pid": 5,
        "rpc_host": "127.0.0.1", "rpc_port": 1, "stream_port": 2, "cores": 1,
    }  # fmt: skip
    return m.Hello(**{**fields, **changes})


class Run:
    """A state that goes on, with a clock of the test's own."""

    def __init__(self, **changes):
        self.state, self.now_s = replace(c.ClusterState(CONFIG, MAP), **changes), 0.0

    def on(self, event, after_s=0.0):
        self.now_s += after_s
        self.state, effects = c.step(self.state, event, self.now_s)
        return effects

    def says(self, peer, message, *bulk, after_s=0.0):
        return self.on(c.NodeMessage(peer, message, bulk), after_s)

    def join(self, *names):
        for name in names:
            self.says(name.encode(), hello(name))
            self.says(name.encode(), m.MapReady(1, "the map", "a picture"))
        return self

    def due(self, *sensors, frame=7, homes=(0,), lockstep=True):
        frames = tuple(c.DueFrame(request(sensor, frame), homes) for sensor in sensors)
        return self.on(c.TickDue(frame, DIGEST, frames, lockstep, 0.05))

    def result(self, peer, *sensors, frame=7, digest=DIGEST, after_s=0.0):
        results = tuple(m.SensorResult(sensor, True, "", False, 0.001) for sensor in sensors)
        payloads = [b"%d at %d" % (sensor, frame) for sensor in sensors]
        return self.says(peer, m.TickResult(frame, digest, 0.001, results), *payloads, after_s=after_s)


def kinds(effects):
    return [type(effect).__name__ for effect in effects]


def only(effects, kind):
    return [effect for effect in effects if isinstance(effect, kind)]


def orders(effects):
    return {
        order.peer: [request.sensor for request in order.requests]
        for sent in only(effects, c.SendTick)
        for order in sent.orders
    }


def test_a_node_is_welcomed_builds_the_map_and_is_introduced():
    run = Run()
    met = run.says(b"node-1", hello())
    assert kinds(met) == ["NodeMet", "Send", "Send"]
    assert [type(sent.message).__name__ for sent in only(met, c.Send)] == ["Welcome", "NewEpisode"]
    assert not c.renderers(run.state)
    assert kinds(run.says(b"node-1", m.MapReady(1, "the map", "a picture"))) == ["Introduce"]
    assert [member.name for member in c.renderers(run.state)] == ["node-1"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [({"version": "2"}, "install the same version"), ({"fingerprint": "x"}, "fingerprint"), ({"name": "node-9"}, "already")],
)
def test_a_node_that_is_another_one_is_refused_and_cut_off_a_little_later(changes, why):
    run = Run().join("node-9")
    refused = run.says(b"other", hello(**changes))
    assert why in only(refused, c.Problem)[0].line
    assert isinstance(only(refused, c.Send)[0].message, m.Refused)
    assert run.says(b"other", m.Heartbeat(0)) == ()
    assert c.deadline_s(run.state) == 2.0
    assert kinds(run.on(c.TimePassed(), 2.0)) == ["Disconnect"]
    assert run.says(b"other", hello("node-3")) == ()  # there is no way back into a connection that was cut


def test_a_node_with_another_map_or_another_picture_is_refused():
    run = Run().join("node-1")
    for peer, ready in ((b"a", m.MapReady(1, "another map", "a picture")), (b"b", m.MapReady(1, "the map", "another picture"))):
        run.says(peer, hello(peer.decode()))
        assert kinds(run.says(peer, ready)) == ["Problem", "Send", "NodeLost"]
    assert [member.name for member in run.state.members.values()] == ["node-1"]


def test_a_tick_goes_to_everybody_and_is_over_when_every_frame_is_there():
    run = Run().join("node-1", "node-2", "node-3")
    sent = run.due(1, 2)
    assert sorted(map(len, orders(sent).values())) == [0, 1, 1]
    first, second = (peer for peer, sensors in orders(sent).items() if sensors)
    there = run.result(first, *orders(sent)[first])
    assert [delivered.drawn_by for delivered in only(there, c.Deliver)] == [run.state.members[first].number]
    assert kinds(run.result(second, *orders(sent)[second]))[-1] == "RoundOver"
    (over,) = only(run.on(c.SendsDrained()), c.TickOver)
    assert [result.sensor for result in over.results] == [1, 2]
    assert run.state.tick is None


def test_a_tick_without_frames_is_over_at_once_but_is_shown_to_all():
    run = Run().join("node-1", "node-2")
    assert kinds(run.due()) == ["SendTick", "RoundOver"]


def test_what_a_lost_node_owed_is_given_to_another_and_its_late_result_has_no_effect():
    run = Run().join("node-1", "node-2")
    sent = orders(run.due(1, 2))
    lost = run.on(c.PeerLost(b"node-1", "its process ended"))
    assert orders(lost) == {b"node-2": sent[b"node-1"]}
    assert only(lost, c.NodeLost)[0].failed
    assert run.result(b"node-1", *sent[b"node-1"]) == ()
    run.result(b"node-2", *sent[b"node-2"])
    assert "RoundOver" in kinds(run.result(b"node-2", *sent[b"node-1"]))


def test_what_is_late_is_given_to_another_as_well_and_the_second_result_is_dropped():
    run = Run().join("node-1", "node-2")
    sent = orders(run.due(1, 2))
    run.result(b"node-2", *sent[b"node-2"])
    run.says(b"node-1", m.Heartbeat(0), after_s=0.4)
    late_s = c.deadline_s(run.state)
    assert late_s == pytest.approx(0.5 + 4 * run.state.members[b"node-1"].pending[0].expected_s)
    again = run.on(c.TimePassed(), late_s - run.now_s)
    assert orders(again) == {b"node-2": sent[b"node-1"]}
    assert len(only(run.result(b"node-2", *sent[b"node-1"]), c.Deliver)) == 1
    assert only(run.result(b"node-1", *sent[b"node-1"]), c.Deliver) == []


def test_requests_of_an_earlier_tick_are_not_given_again_and_who_still_owes_them_is_taken_out():
    run = Run().join("node-1", "node-2")
    sent = orders(run.due(1, 2))
    run.result(b"node-2", *sent[b"node-2"])
    run.on(c.TimePassed(), 1.0)
    run.result(b"node-2", *sent[b"node-1"])
    run.on(c.SendsDrained())
    assert orders(run.due(1, 2, frame=8)) == {b"node-1": [], b"node-2": [1, 2]}
    run.result(b"node-2", 1, 2, frame=8)
    run.says(b"node-2", m.Heartbeat(0))
    fenced = run.on(c.TimePassed(), c.deadline_s(run.state) - run.now_s)
    assert "it has not drawn tick 7" in only(fenced, c.Problem)[0].line
    assert only(fenced, c.NodeLost)[0].fenced


def test_a_node_that_is_slow_but_speaks_is_given_longer_than_a_frozen_one():
    run = Run().join("node-1", "node-2")
    run.due(1, 2)
    for _ in range(9):
        for peer in (b"node-1", b"node-2"):
            assert only(run.says(peer, m.Heartbeat(0), after_s=0.25), c.NodeLost) == []
        assert only(run.on(c.TimePassed()), c.NodeLost) == []
    run.says(b"node-2", m.Heartbeat(0))
    fenced = run.on(c.TimePassed(), 1.1)  # now node-1 has sent nothing for longer than two heartbeats
    assert [lost.member.name for lost in only(fenced, c.NodeLost) if lost.fenced] == ["node-1"]


def heartbeats(run, seconds, *peers):
    """Let time pass in which only heartbeats come; returns all effects."""
    found = []
    for _ in range(int(2 * seconds)):
        run.now_s += 0.5
        for peer in peers:
            found += run.says(peer, m.Heartbeat(0))
        found += run.on(c.TimePassed())
    return found


def test_the_last_node_that_can_draw_is_not_taken_out_while_it_sends_heartbeats():
    run = Run().join("node-1")
    run.due(1)
    found = heartbeats(run, 100.0, b"node-1")
    assert only(found, c.NodeLost) == []
    # It is asked again, with twice the time between two requests.
    assert [orders([sent]) for sent in only(found, c.SendTick)] == [{b"node-1": [1]}] * 3
    assert len(run.state.members[b"node-1"].pending) == 1
    assert "RoundOver" in kinds(run.result(b"node-1", 1))


def test_the_last_node_that_can_draw_is_taken_out_when_it_is_silent():
    run = Run().join("node-1")
    run.due(1)
    assert only(run.on(c.TimePassed(), 4.9), c.NodeLost) == []
    assert only(run.on(c.TimePassed(), 0.1), c.NodeLost)[0].fenced


def test_a_node_of_which_part_of_a_message_comes_is_not_frozen():
    """Over a slow link a picture takes longer than a node may be silent, and heartbeats wait behind it."""
    run = Run().join("node-1", "node-2")
    (sender,) = [peer for peer, sensors in orders(run.due(1)).items() if sensors]
    other = b"node-2" if sender == b"node-1" else b"node-1"
    for _ in range(30):
        assert only(run.on(c.PeerHeard(sender)), c.NodeLost) == []
        assert only(heartbeats(run, 0.5, other), c.NodeLost) == []
    assert run.on(c.PeerHeard(b"a stranger")) == ()
    lost = only(heartbeats(run, 1.5, other), c.NodeLost)
    assert [each.member.peer for each in lost] == [sender]


def test_a_slow_node_is_taken_out_when_another_one_has_drawn_what_it_owes():
    run = Run().join("node-1", "node-2")
    (slow,) = [peer for peer, sensors in orders(run.due(1)).items() if sensors]
    other = b"node-2" if slow == b"node-1" else b"node-1"
    assert only(heartbeats(run, 30.0, b"node-1", b"node-2"), c.NodeLost) == []
    run.result(other, 1)
    run.on(c.SendsDrained())
    assert [lost.member.peer for lost in only(heartbeats(run, 20.0, b"node-1", b"node-2"), c.NodeLost)] == [slow]


def test_of_two_nodes_that_hang_the_one_that_was_heard_last_is_kept():
    run = Run().join("node-1", "node-2")
    run.due(1, 2)
    run.says(b"node-1", m.Heartbeat(0), after_s=1.0)
    lost = only(run.on(c.TimePassed(), 2.0), c.NodeLost)
    assert [each.member.name for each in lost] == ["node-2"]


class SlowNodes:
    """Two nodes that take ``draws_s`` for a frame of sensor 1, and come again ``joins_s`` after they were taken out."""

    def __init__(self, draws_s, *, silent, joins_s=3.0):
        self.run, self.draws_s, self.silent, self.joins_s = Run().join("a", "b"), draws_s, silent, joins_s
        self.lost, self.failed = [], []
        self.ends_s, self.joins = {}, {}
        self.note(self.run.due(1))

    def note(self, effects):
        for peer, sensors in orders(effects).items():
            if sensors:
                self.ends_s.setdefault(peer, self.run.now_s + self.draws_s)
        for each in only(effects, c.NodeLost):
            self.lost.append(each.member.name)
            self.joins[self.run.now_s + self.joins_s] = each.member.name[0] + str(len(self.lost))
        self.failed += only(effects, c.TickFailed)

    def until_over(self, limit_s):
        """How long the frame takes, in steps of half a second."""
        run = self.run
        while run.now_s < limit_s and not self.failed:
            run.now_s += 0.5
            for at_s in [at_s for at_s in self.joins if at_s <= run.now_s]:
                name = self.joins.pop(at_s)
                self.note(run.says(name.encode(), hello(name)))
                self.note(run.says(name.encode(), m.MapReady(1, "the map", "a picture")))
            for peer in list(run.state.members):
                if self.ends_s.get(peer, 1e9) <= run.now_s:
                    self.note(effects := run.result(peer, 1))
                    if "RoundOver" in kinds(effects):
                        return run.now_s
                elif not self.silent or peer not in self.ends_s:
                    self.note(run.says(peer, m.Heartbeat(0)))
            self.note(run.on(c.TimePassed()))
        return None


@pytest.mark.parametrize(("draws_s", "silent"), [(25.0, False), (70.0, False), (4.0, True), (12.0, True), (30.0, True)])
def test_a_frame_that_takes_longer_than_any_node_is_given_ends_all_the_same(draws_s, silent):
    """All nodes were taken out and joined again for ever, and no client got a tick."""
    nodes = SlowNodes(draws_s, silent=silent)
    over_s = nodes.until_over(1000.0)
    assert nodes.failed == []
    assert over_s is not None
    assert over_s <= 3.0 * draws_s + 5.0
    assert len(nodes.lost) <= (5 if silent else 0)


def test_a_frame_that_no_node_can_draw_fails_the_tick_by_the_name_of_its_sensor():
    nodes = SlowNodes(1e6, silent=False)
    assert nodes.until_over(1000.0) is None
    (failed,) = nodes.failed
    assert 120.0 <= nodes.run.now_s <= 121.0
    assert "no node has drawn sensor 1 (sensor.camera.rgb) within" in failed.why
    assert not failed.no_node
    assert nodes.run.state.tick is None
    deadline_s = c.deadline_s(nodes.run.state)
    assert deadline_s is None or deadline_s > nodes.run.now_s


def test_nodes_that_die_of_a_frame_again_and_again_fail_the_tick_too():
    run = Run()
    run.due(1)
    for k in range(200):
        name = f"node-{k}"
        run.join(name)
        failed = only(run.on(c.PeerLost(name.encode(), "its process ended")), c.TickFailed)
        failed += only(run.on(c.TimePassed(), 1.0), c.TickFailed)
        if failed:
            break
    assert "sensor 1" in failed[0].why
    assert run.now_s == pytest.approx(120.0, abs=5.0)


def test_each_new_frame_gives_a_tick_its_whole_time_again():
    run = Run().join("node-1", "node-2")
    sent = orders(run.due(1, 2))
    assert only(heartbeats(run, 19.0, b"node-1", b"node-2"), c.NodeLost) == []
    run.result(b"node-2", *sent[b"node-2"])
    assert only(heartbeats(run, 118.0, b"node-1", b"node-2"), c.TickFailed) == []
    assert only(heartbeats(run, 3.0, b"node-1", b"node-2"), c.TickFailed)


def test_a_node_has_longer_for_a_sensor_that_cost_another_its_place_until_a_frame_comes_in_time():
    run = Run().join("node-1", "node-2", "node-3")
    (frozen,) = [peer for peer, sensors in orders(run.due(1)).items() if sensors]
    second, third = [peer for peer in (b"node-1", b"node-2", b"node-3") if peer != frozen]
    run.now_s += 0.6
    run.on(c.TimePassed())
    run.on(c.TimePassed(), 0.6)
    assert all(run.state.members[peer].pending for peer in (second, third))
    found = heartbeats(run, 1.0, second, third)
    assert [lost.member.peer for lost in only(found, c.NodeLost)] == [frozen]
    assert run.state.evictions == {1: 1}
    asked_s = run.state.members[second].pending[0].at_s
    while second in run.state.members:
        heartbeats(run, 0.5, third)
    assert 4.0 <= run.now_s - asked_s <= 4.6  # it was silent, too, and had twice as long
    assert run.state.evictions == {1: 2}
    run.result(third, 1)
    run.on(c.SendsDrained())
    assert run.state.evictions == {1: 2}  # that took longer than a frozen node is waited for
    run.due(1, frame=8)
    run.result(third, 1, frame=8, after_s=0.5)
    assert run.state.evictions == {}


def test_nothing_is_kept_of_evictions_over_sensors_that_are_gone():
    run = Run().join("node-1", "node-2")
    run.due(1)
    heartbeats(run, 5.0, b"node-2")
    assert run.state.evictions == {1: 1}
    run.on(c.NewsMade(((m.NewActors((), (1,), 0), b""),), MAP))
    assert run.state.evictions == {}


def test_in_real_time_a_frame_that_is_never_drawn_costs_even_the_last_node_its_place_in_the_end():
    run = Run().join("node-1")
    run.due(1, lockstep=False)
    assert only(heartbeats(run, 119.0, b"node-1"), c.NodeLost) == []
    assert only(heartbeats(run, 60.0, b"node-1"), c.NodeLost)[0].fenced


def test_a_node_that_holds_another_state_is_fenced_and_its_frames_do_not_count():
    run = Run().join("node-1", "node-2")
    sent = orders(run.due(1, 2))
    wrong = run.result(b"node-1", *sent[b"node-1"], digest=b"other")
    assert only(wrong, c.Deliver) == []
    assert only(wrong, c.NodeLost)[0].fenced
    assert orders(wrong) == {b"node-2": sent[b"node-1"]}


def test_without_a_node_a_tick_waits_and_then_fails_by_name():
    run = Run()
    assert kinds(run.due(1)) == []
    assert c.deadline_s(run.state) == 60.0
    run.join("node-1")
    assert orders(c.step(run.state, c.TimePassed(), 0.0)[1]) == {}
    assert run.state.members[b"node-1"].pending
    alone = Run()
    alone.due(1)
    assert "1 frames to draw and no node" in only(alone.on(c.TimePassed(), 60.0), c.TickFailed)[0].why


def test_a_tick_waits_for_nodes_that_build_the_map_that_was_loaded_but_not_for_ever():
    """A legal map of 300 km of lanes took two nodes more than a minute, and the run stopped."""
    run = Run().join("node-1", "node-2")
    other = c.MapFacts(m.NewEpisode(2, "x", "x", "map 2"), b"<OpenDRIVE/>")
    run.on(c.NewsMade(((other.message, other.xodr),), other))
    run.due(1)
    assert only(heartbeats(run, 599.0, b"node-1", b"node-2"), c.TickFailed) == []
    late = Run(**{name: getattr(run.state, name) for name in run.state.__struct_fields__})
    late.now_s = run.now_s
    (failed,) = only(heartbeats(late, 2.0, b"node-1", b"node-2"), c.TickFailed)
    assert "no node to draw them for 600 s" in failed.why
    given = run.says(b"node-2", m.MapReady(2, "map 2", "a picture"))
    assert orders(given)[b"node-2"] == [1]
    # Now it has as long for the frame as in any other tick.
    assert only(heartbeats(run, 119.0, b"node-1", b"node-2"), c.TickFailed) == []


@pytest.mark.parametrize(("lost", "fails"), [(0, False), (3, False), (4, True)])
def test_a_tick_waits_longer_for_nodes_that_join_but_not_if_they_are_lost_again_and_again(lost, fails):
    run = Run()
    run.due(1)
    for k in range(lost):
        run.join(f"lost-{k}")
        run.on(c.PeerLost(f"lost-{k}".encode(), "its process ended"))
    run.says(b"node-1", hello("node-1"))
    failed = only(heartbeats(run, 90.0, b"node-1"), c.TickFailed)
    assert [each.no_node for each in failed] == [True] * fails


def test_a_drained_node_gets_nothing_more_and_goes_when_it_owes_nothing_and_has_no_clients():
    run = Run().join("node-1", "node-2")
    run.says(b"node-1", m.ClientCall(3, 0.0), b"a call")
    assert run.on(c.DrainWanted("node-1")) == ()
    assert orders(run.due(1, 2)) == {b"node-1": [], b"node-2": [1, 2]}
    assert "NodeDrained" in kinds(run.says(b"node-1", m.ClientGone(3)))
    lost = run.on(c.PeerLost(b"node-1", "its connection ended"))
    assert only(lost, c.Problem) == []


def test_in_real_time_who_is_busy_misses_the_tick_and_no_frame_overtakes_another():
    run = Run().join("node-1")
    assert kinds(run.due(1, lockstep=False)) == ["SendTick", "TickOver"]
    assert only(run.due(1, frame=8, lockstep=False), c.FramesDropped)[0].count == 1
    late = run.result(b"node-1", 1, after_s=0.2)
    assert only(late, c.FrameDrawn)[0].late_s == pytest.approx(0.15)
    assert only(late, c.Remember)
    assert len(only(late, c.Deliver)) == 1


def test_news_are_waited_for_by_all_who_follow_but_not_for_ever():
    run = Run().join("node-1", "node-2")
    run.on(c.NewsMade(((m.NewSettings(b"", b""), b""),), MAP))
    assert [type(sent.message).__name__ for sent in only(run.on(c.SyncWanted()), c.Send)] == ["Sync", "Sync"]
    assert run.says(b"node-1", m.Synced(1)) == ()
    assert kinds(run.says(b"node-2", m.Synced(1))) == ["SyncOver"]
    run.on(c.SyncWanted())
    for peer in (b"node-1", b"node-2"):
        run.says(peer, m.Heartbeat(0), after_s=4.0)
    assert "SyncOver" in kinds(run.on(c.TimePassed(), 2.0))


def test_a_map_that_changed_while_a_node_built_another_is_sent_again():
    run = Run()
    run.says(b"node-1", hello())
    other = c.MapFacts(m.NewEpisode(2, "x", "x", "map 2"), b"<OpenDRIVE/>")
    run.on(c.NewsMade(((other.message, other.xodr),), other))
    (sent,) = only(run.says(b"node-1", m.MapReady(1, "the map", "a picture")), c.Send)
    assert sent.message.episode == 2
    assert "Introduce" in kinds(run.says(b"node-1", m.MapReady(2, "map 2", "a picture")))


# What the simulation of whole clusters found, each as short as it can be told.


def test_who_joins_while_others_take_in_news_is_not_waited_for():
    """It was never asked, so the whole world stood still for the ten seconds that nodes may take."""
    run = Run().join("node-1")
    run.says(b"node-2", hello("node-2"))
    run.on(c.SyncWanted())
    run.says(b"node-2", m.MapReady(1, "the map", "a picture"))
    assert kinds(run.says(b"node-1", m.Synced(1))) == ["SyncOver"]


def test_a_node_that_was_late_and_answers_is_given_what_only_late_ones_draw():
    """It was left idle until the others were taken out, twenty seconds later."""
    run = Run().join("node-1", "node-2")
    sent = orders(run.due(1, 2))
    run.on(c.TimePassed(), 0.6)
    assert [member.suspected for member in c.in_order(run.state)] == [True, True]
    assert orders(run.result(b"node-1", *sent[b"node-1"])) == {b"node-1": sent[b"node-2"]}


def test_what_a_late_node_says_of_a_sensor_that_is_gone_is_not_kept():
    run = Run().join("node-1")
    run.due(1, lockstep=False)
    run.on(c.NewsMade(((m.NewActors((), (1,), 0), b""),), MAP))
    run.result(b"node-1", 1)
    assert not run.state.members[b"node-1"].pending
    assert not run.state.balance.costs.sensor_s
    assert not run.state.delivered


def test_what_a_late_node_says_of_the_sensors_of_another_map_is_not_kept():
    run = Run().join("node-1")
    run.due(1, lockstep=False)
    run.on(c.NewsMade(((m.NewEpisode(2, "Town02", "town", "the map"), b""),), MAP))
    run.result(b"node-1", 1)
    assert not run.state.balance.costs.sensor_s
    assert not run.state.delivered


def test_nobody_is_late_while_the_frames_of_a_round_wait_to_be_sent():
    """The deadline of a second result that nobody needs was in the past, and was waited for again and again."""
    run = Run().join("node-1", "node-2")
    sent = orders(run.due(1, 2))
    run.on(c.TimePassed(), 0.6)
    run.says(b"node-3", hello("node-3"))
    run.says(b"node-3", m.MapReady(1, "the map", "a picture"))
    there = run.result(b"node-1", *sent[b"node-1"])
    there += run.result(b"node-2", *sent[b"node-2"])
    assert "RoundOver" in kinds(there)
    assert run.state.members[b"node-3"].pending
    assert c.deadline_s(run.state) >= run.now_s + 1.0


@pytest.mark.parametrize("heard_s", [4.38, 14.22, 11.4])
def test_at_the_deadline_of_a_silent_node_it_is_taken_out_whatever_is_rounded(heard_s):
    run = Run().join("node-1")
    run.now_s = heard_s
    run.says(b"node-1", m.Heartbeat(0))
    run.now_s = c.deadline_s(run.state)
    assert "NodeLost" in kinds(run.on(c.TimePassed()))


def test_a_node_that_was_told_to_go_while_it_built_the_map_does_not_join():
    run = Run()
    run.says(b"node-1", hello())
    assert "NodeDrained" in kinds(run.on(c.DrainWanted("node-1")))
    assert run.says(b"node-1", m.MapReady(1, "the map", "a picture")) == ()
    assert not c.renderers(run.state)


def test_a_round_that_begins_because_somebody_joined_begins_once_even_if_another_hangs():
    """Taking out who hangs goes on with the tick, too: the newcomer was asked for every frame twice."""
    run = Run().join("node-1")
    run.due(1)
    run.join("node-2")
    run.on(c.TimePassed(), 0.6)
    run.result(b"node-2", 1)
    run.on(c.SendsDrained())
    run.on(c.DrainWanted("node-1"))  # which still owes its frame of tick 7
    run.on(c.PeerLost(b"node-2", "its process ended"))
    run.due(1, frame=8)
    run.says(b"node-3", hello("node-3"))
    joined = run.says(b"node-3", m.MapReady(1, "the map", "a picture"), after_s=30.0)
    assert [member.name for member in (lost.member for lost in only(joined, c.NodeLost))] == ["node-1"]
    assert [orders([sent]) for sent in only(joined, c.SendTick)] == [{b"node-3": [1]}]


def test_a_node_that_joins_during_a_tick_has_no_listeners_of_that_tick():
    """Schedule 35933 of the simulation: it may have the number of a node that was lost in this tick, and had some."""
    run = Run().join("node-1", "node-2")
    run.due(1, homes=(1,))
    run.on(c.PeerLost(b"node-1", "its process ended"))
    run.on(c.PeerLost(b"node-2", "its process ended"))
    run.says(b"again", hello("node-1"))
    given = run.says(b"again", m.MapReady(1, "the map", "a picture"))
    assert [order.homes for sent in only(given, c.SendTick) for order in sent.orders] == [((),)]
    assert not c.listens(run.state.members[b"again"], 7)
    assert c.listens(run.state.members[b"again"], 8)


def test_a_node_has_not_drawn_for_longer_than_it_was_waited_for():
    """What it says of itself decides when it is late: one that is wrong about it would get all the time in the world."""
    run = Run().join("node-1")
    run.due(1)
    results = (m.SensorResult(1, True, "", False, 1e6),)
    run.says(b"node-1", m.TickResult(7, DIGEST, 1e6, results), b"a picture", after_s=0.1)
    run.on(c.SendsDrained())
    run.due(1, frame=8)
    assert run.state.members[b"node-1"].pending[0].expected_s <= 0.1
