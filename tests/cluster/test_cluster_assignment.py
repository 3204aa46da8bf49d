"""Sharing out: measured costs, nodes of different speed, no wandering."""

import math
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from samepath.cluster.assignment import (
    Balance,
    assign,
    forget_node,
    forget_sensors,
    guess_s,
    learn,
    learn_beyond,
    shares_of,
)
from samepath.core.errors import SamepathError
from samepath.core.states import Pose
from samepath.core.streams import stream
from samepath.simulator.server.rendering import RenderRequest


def order(sensor, width=180, height=120, type_id="sensor.camera.rgb", frame=1):
    head = bytes(8) + frame.to_bytes(8, "little") + bytes(32)
    attributes = (("image_size_x", str(width)), ("image_size_y", str(height)))
    return RenderRequest(sensor, sensor, type_id, attributes, head, Pose(), None, 0, 1, 0.0, 0.05)


def run(balance, orders, slowness, cost_s, ticks=200):
    """Let it learn from nodes of known speed and sensors of known cost; returns what it knows, and the last tick's time."""
    for tick in range(ticks):
        balance, shares = assign(balance, orders, sorted(slowness), {})
        for share in shares:
            true_s = {request.sensor: cost_s[request.sensor] * slowness[share.node] for request in share.requests}
            each_s = true_s if tick % 64 == 1 or any(not balance.costs.is_measured(sensor) for sensor in true_s) else {}
            costs = learn(balance.costs, share.node, share.requests, sum(true_s.values()), each_s)
            balance = replace(balance, costs=costs)
    last_s = max(sum(cost_s[request.sensor] for request in share.requests) * slowness[share.node] for share in shares)
    return balance, last_s


def played(nodes, orders, cost_s, ticks, noise=0.0, balance=None):
    """How long each tick takes on nodes of (fixed part, slowness), off by chance; measured as the coordinator does."""
    chance = stream(7, "noise of a balance")
    balance, took_s = balance or Balance(), []
    for tick in range(1, ticks + 1):
        balance, shares = assign(balance, orders, sorted(nodes), {})
        busy_s = []
        for share in shares:
            fixed_s, slowness = nodes[share.node]
            each = balance.costs.wants_each(share.node, share.requests, is_turn=tick % 64 == 1, is_rare_turn=tick % 1024 == 1)
            own_s = {request.sensor: slowness * cost_s[request.sensor] for request in share.requests}
            off = math.exp(noise * chance.standard_normal())
            each_s = {sensor: off * (fixed_s + its_s) for sensor, its_s in own_s.items()} if each else {}
            busy_s.append(sum(each_s.values()) if each else off * (fixed_s + sum(own_s.values())))
            costs = learn(balance.costs, share.node, share.requests, busy_s[-1], each_s)
            balance = replace(balance, costs=costs)
        took_s.append(max(busy_s))
    return balance, took_s


CARD = (0.7e-3, 0.011)
SOFTWARE = (0.0, 1.0)
SHARING = (0.4e-3, 0.6)  # in software, where pictures of a tick share work


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
@pytest.mark.parametrize(
    ("others", "cameras"), [((SOFTWARE,) * 3, 40), ((SHARING,) * 10, 40), ((SOFTWARE,) * 3, 10), ((SHARING,), 10)]
)
def test_slower_nodes_beside_a_card_do_not_make_ticks_longer(others, cameras, noise):
    """A card draws forty pictures in nearly the time of one: found out within some ticks, whoever draws beside it."""
    orders, cost_s = [order(k) for k in range(cameras)], dict.fromkeys(range(cameras), 0.9e-3)
    nodes = dict(enumerate([*others, CARD], start=1))
    _, took_s = played(nodes, orders, cost_s, 200, noise)
    alone_s = CARD[0] + CARD[1] * cameras * 0.9e-3
    assert mean(took_s[100:]) < (1.15 + 1.5 * noise) * alone_s
    assert mean(took_s[8:24]) < (1.3 + 2.5 * noise) * alone_s
    # And where it comes later, when everything has its place.
    slower = dict(enumerate(others, start=1))
    before, _ = played(slower, orders, cost_s, 40, noise)
    _, took_s = played(nodes, orders, cost_s, 120, noise, before)
    assert mean(took_s[60:]) < (1.15 + 1.5 * noise) * alone_s


def test_the_fixed_part_of_a_node_is_told_from_what_each_sensor_takes():
    orders, cost_s = [order(k) for k in range(40)], dict.fromkeys(range(40), 0.9e-3)
    balance, _ = played({1: CARD, 2: SHARING}, orders, cost_s, 64)
    card, sharing = balance.costs.node(1), balance.costs.node(2)
    assert card.fixed_s == pytest.approx(0.7e-3, rel=0.2)
    assert sharing.fixed_s == pytest.approx(0.4e-3, rel=0.2)
    assert balance.costs.slowness(1) < 0.1 * sharing.slowness


def test_a_node_that_draws_many_in_the_time_of_one_is_seldom_asked_for_one_by_one():
    """For a card that is a tick of 28 ms instead of one of 1 ms, and tells nothing about sensors."""
    orders, cost_s = [order(k) for k in range(40)], dict.fromkeys(range(40), 0.9e-3)
    balance, took_s = played({1: CARD}, orders, cost_s, 1100)
    assert [tick for tick, s in enumerate(took_s, start=1) if s > 0.02] == [2, 1025]
    assert not balance.costs.sensor_s  # its guess is better than that
    assert balance.costs.expected_s(1, orders) == pytest.approx(1.1e-3, rel=0.05)
    assert balance.costs.expected_s(1, orders, each=True) == pytest.approx(28.4e-3, rel=0.2)


def test_a_node_that_was_found_too_slow_is_tried_again_seldom():
    """Nothing is heard of a node that draws nothing, and the reason may be gone."""
    orders, cost_s = [order(k) for k in range(6)], dict.fromkeys(range(6), 1e-3)
    balance, took_s = played({1: SOFTWARE, 2: (0.0, 40.0)}, orders, cost_s, 3000)
    slow = sum(s > 0.01 for s in took_s[20:])
    assert 0 < slow < 40  # of 2980 ticks
    _, took_s = played({1: SOFTWARE, 2: SOFTWARE}, orders, cost_s, 3000, balance=balance)
    assert took_s[-1] == pytest.approx(3e-3)


def test_one_tick_of_seconds_is_not_believed():
    orders, cost_s = [order(k) for k in range(8)], dict.fromkeys(range(8), 1e-3)
    balance, _ = played({1: SOFTWARE, 2: SOFTWARE}, orders, cost_s, 40)
    before_s = balance.costs.expected_s(1, orders)
    costs = learn(balance.costs, 1, [request for request in orders if balance.where[request.sensor] == 1], 5.0, {})
    assert costs.expected_s(1, orders) < 4 * before_s


def test_larger_pictures_are_guessed_to_cost_more():
    assert guess_s(order(1, 1440, 960)) > 5 * guess_s(order(1))


def test_fast_nodes_get_more():
    orders = [order(k) for k in range(40)]
    cost_s = dict.fromkeys(range(40), 0.001)
    slowness = {1: 1.0, 2: 1.0, 3: 3.0, 4: 3.0}
    _, measured_s = run(Balance(), orders, slowness, cost_s)
    _, in_turn_s = run(Balance("round-robin"), orders, slowness, cost_s)
    best_s = 0.040 / (1 + 1 + 1 / 3 + 1 / 3)
    assert measured_s < 1.15 * best_s
    assert in_turn_s == pytest.approx(0.030)
    assert in_turn_s / measured_s > 1.5


def test_dear_sensors_are_found_out_by_measuring():
    orders = [order(k) for k in range(12)]
    cost_s = {k: 0.011 if k == 5 else 0.001 for k in range(12)}
    assert run(Balance(), orders, {1: 1.0, 2: 1.0}, cost_s)[1] == pytest.approx(0.011, rel=0.1)


def test_what_a_kind_of_sensor_costs_is_known_before_a_new_one_of_it_is_measured():
    """Lidars cost twelve times their guess here, cameras what was guessed; both are spawned anew, under other numbers."""
    cameras, lidars = (
        [order(k, type_id=kind) for k in range(first, first + 6)] for kind, first in (("camera", 0), ("lidar", 6))
    )
    cost_s = {request.sensor: guess_s(request) * (12.0 if request.type_id == "lidar" else 1.0) for request in cameras + lidars}
    balance, _ = run(Balance(), cameras + lidars, {1: 1.0, 2: 1.0}, cost_s)
    assert balance.costs.kinds["lidar"] / balance.costs.kinds["camera"] == pytest.approx(12.0, rel=0.05)
    balance = forget_sensors(balance, None)
    assert not balance.costs.sensor_s
    fresh = [order(20, type_id="lidar"), *(order(k, type_id="camera") for k in range(21, 33))]
    assert [balance.costs.is_measured(request.sensor) for request in fresh] == [False] * 13
    _, shares = assign(balance, fresh, [1, 2], {})
    assert [len(share.requests) for share in shares] in ([1, 12], [12, 1])  # one lidar is as much as twelve cameras
    assert sorted(len(share.requests) for share in assign(Balance(), fresh, [1, 2], {})[1]) == [6, 7]


def test_a_slow_link_is_waited_for_and_a_freeze_is_not_taken_for_one():
    """Deadlines follow from what a share is expected to take: the way of the frames is a part of it."""
    costs = Balance().costs
    for _ in range(20):
        costs = learn_beyond(costs, 1, 0.6)
        costs = learn_beyond(costs, 2, 0.001)
    shares = shares_of(costs, [order(1), order(2)], [1, 2], {1: 1, 2: 2})
    drawn_s = costs.cost_s(order(1))
    assert 0.4 < shares[0].expected_s - drawn_s <= 0.6
    assert shares[1].expected_s - drawn_s == pytest.approx(0.001, rel=0.05)
    frozen = learn_beyond(costs, 2, 5.0)
    assert frozen.beyond_s[2] < 0.012
    for _ in range(1000):
        costs = learn_beyond(costs, 1, 3600.0)
    assert costs.beyond_s[1] <= 2.0
    assert forget_node(Balance(costs=costs), 1).costs.beyond_s.keys() == {2}


def test_nothing_moves_without_a_reason():
    orders = [order(k) for k in range(20)]
    before, _ = run(Balance(), orders, {1: 1.0, 2: 1.04}, dict.fromkeys(range(20), 0.001), 50)
    after, _ = run(before, orders, {1: 1.0, 2: 1.04}, dict.fromkeys(range(20), 0.001), 500)
    assert after.moved == before.moved


def test_a_sensor_is_drawn_where_it_is_listened_to_if_that_costs_nothing():
    orders = [order(k, 400, 300) for k in range(4)]
    homes = {0: (2,), 1: (1,), 2: (2,), 3: (1,)}
    _, shares = assign(Balance(), orders, [1, 2], homes)
    assert {request.sensor: share.node for share in shares for request in share.requests} == {0: 2, 1: 1, 2: 2, 3: 1}


def test_sensors_come_home_as_far_as_nodes_stay_evenly_loaded():
    """Spawned before anybody listens, they are shared out by cost; once somebody does, they are drawn there."""
    orders = [order(k) for k in range(16)]
    cost_s = {k: 0.001 + 0.0001 * (k % 5) for k in range(16)}
    slowness = dict.fromkeys(range(1, 5), 1.0)
    balance, even_s = run(Balance(), orders, slowness, cost_s)
    homes = {k: (1 + k // 4,) for k in range(16)}
    away = [k for k in range(16) if balance.where[k] != homes[k][0]]
    assert len(away) > 3
    for _ in range(16):
        balance, shares = assign(balance, orders, [1, 2, 3, 4], homes)
    assert {request.sensor: (share.node,) for share in shares for request in share.requests} == homes
    # All listened to at one node: it keeps what it can do as soon as the others do theirs, and gives the rest away.
    _, shares = assign(Balance(costs=balance.costs), orders, [1, 2, 3, 4], dict.fromkeys(range(16), (3,)))
    took_s = {share.node: sum(cost_s[request.sensor] for request in share.requests) for share in shares}
    assert set(took_s) == {1, 2, 3, 4}
    assert took_s[3] == max(took_s.values())
    assert took_s[3] < 1.4 * even_s


@given(
    st.integers(1, 8),
    st.lists(st.integers(1, 400), min_size=1, max_size=30),
    st.sampled_from(["measured", "round-robin", "random"]),
)
def test_every_order_is_given_to_exactly_one_node(nodes, sizes, policy):
    orders = [order(k, size, size) for k, size in enumerate(sizes)]
    balance = Balance(policy)
    for present in (list(range(1, nodes + 1)), [nodes], list(range(1, nodes + 2))):
        balance, shares = assign(balance, orders, present, {})
        assert sorted(request.sensor for share in shares for request in share.requests) == list(range(len(sizes)))
        assert {share.node for share in shares} <= set(present)


def test_a_policy_that_is_none_is_refused():
    with pytest.raises(SamepathError, match="policy"):
        Balance("best")


def test_a_node_that_became_slow_counts_as_slow_once():
    """Schedule 48292 of the simulation: 700 times by its ticks and 700 times by its requests, half a million times in all."""
    requests = [order(k) for k in range(4)]
    costs = Balance().costs
    for request in requests:
        costs = learn(costs, 2, [request], guess_s(request), {request.sensor: guess_s(request)})
    usual_s = sum(costs.cost_s(request) for request in requests)
    for _ in range(30):
        costs = learn(costs, 1, requests, 700 * usual_s, {})
    assert costs.slowness(1) == pytest.approx(700, rel=0.01)
    costs = learn(costs, 1, requests, 0.0, {request.sensor: 700 * costs.cost_s(request) for request in requests})
    assert costs.slowness(1) == pytest.approx(700, rel=0.01)
