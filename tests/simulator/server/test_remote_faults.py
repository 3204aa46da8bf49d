"""Connections that are cut anywhere, nodes that freeze or vanish, another server: every call is done once and in its turn."""

import socket
import threading

import msgpack
import pytest

from samepath.client import (
    CallFailedError,
    RetryPolicy,
    Rotation,
    Settings,
    Status,
    TicketLostError,
    TicketTimeoutError,
    Transform,
    Vector,
    VehicleControl,
    connect,
)
from samepath.core.errors import InputError
from samepath.simulator.server.actors import VehicleEntry
from tests.support.cutting import proxied, random_cuts
from tests.support.serve_processes import until
from tests.support.serving import RawClient, served

HASTY = RetryPolicy(silence_s=60.0, pause_s=0.02)
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def shared():
    with served() as found:
        yield found


@pytest.fixture
def server(shared):
    """The same server with an empty world in synchronous mode."""
    with connect(f"127.0.0.1:{shared.port}") as world:
        world.load()
        world.apply_settings(Settings(synchronous_mode=True, fixed_delta_seconds=0.05)).result(LIMIT_S)
    return shared


def vehicles(server):
    return [entry.id for entry in server._runner.episode.actors.all(VehicleEntry)]


def in_the_air(row, column):
    return Transform(Vector(10.0 * row, 10.0 * column, 50.0), Rotation())


def make_calls(world, count, row=0):
    """Spawns, and after each a control of the first and a look at it; all of them at once, none waited for."""
    first = world.spawn("vehicle.tesla.model3", in_the_air(row, -1)).result(LIMIT_S).id
    tickets = []
    for number in range(count):
        tickets.append(world.spawn("vehicle.tesla.model3", in_the_air(row + 1 + number // 20, number % 20)))
        tickets.append(world.control(first, VehicleControl(throttle=number / count)))
        tickets.append(world.last_control(first))
    return first, tickets


def check_calls(tickets, count):
    """Everything worked and was done in order; gives the ids."""
    assert [ticket.status for ticket in tickets] == [Status.SUCCESS] * len(tickets)
    assert [ticket.result().throttle for ticket in tickets[2::3]] == [number / count for number in range(count)]
    return [ticket.result().id for ticket in tickets[::3]]


@pytest.mark.parametrize(("seed", "up_bytes", "down_bytes"), [(1, 4000, 12_000), (2, 1200, 100_000), (3, 100_000, 3000)])
def test_calls_over_a_line_that_is_cut_all_the_time_are_done_once_and_in_order(server, seed, up_bytes, down_bytes):
    count = 200
    with proxied(server, random_cuts(seed, up_bytes, down_bytes)) as proxy, connect_through(proxy) as world:
        first, tickets = make_calls(world, count)
        world.wait(tickets, LIMIT_S)
        ids = check_calls(tickets, count)
        assert ids == list(range(first + 1, first + 1 + count))
        assert vehicles(server) == [first, *ids]
        assert proxy.cut > 20


def connect_through(*proxies, retry=HASTY):
    """Connect; the greeting may be cut, then try again."""
    for _ in range(100):
        try:
            return connect(*(proxy.address for proxy in proxies), retry=retry)
        except InputError:
            continue
    raise AssertionError("never connected")


def test_two_clients_over_bad_lines_do_not_get_in_each_others_way(server):
    count, found = 60, {}

    def work(row, proxy):
        with connect_through(proxy) as world:
            first, tickets = make_calls(world, count, row)
            world.wait(tickets, LIMIT_S)
            found[row] = [first, *check_calls(tickets, count)]

    with (
        proxied(server, random_cuts(4, 3000, 9000)) as first_proxy,
        proxied(server, random_cuts(5, 3000, 9000)) as second_proxy,
    ):
        threads = [threading.Thread(target=work, args=given) for given in ((0, first_proxy), (100, second_proxy))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found[0] == sorted(found[0])
    assert found[100] == sorted(found[100])
    assert vehicles(server) == sorted(found[0] + found[100])


def test_when_one_node_vanishes_the_next_one_is_asked(server):
    count = 100
    with proxied(server) as near, proxied(server) as far, connect(near.address, far.address, retry=HASTY) as world:
        first, tickets = make_calls(world, count)
        tickets[30].result(LIMIT_S)
        near.vanish()
        world.wait(tickets, LIMIT_S)
        ids = check_calls(tickets, count)
        assert far.connections == 1
        assert vehicles(server) == [first, *ids]


def test_what_a_frozen_node_sends_when_it_wakes_up_is_not_done_again(server):
    count = 30
    policy = RetryPolicy(silence_s=0.2, pause_s=0.02)
    with proxied(server) as near, proxied(server) as far, connect(near.address, far.address, retry=policy) as world:
        first = world.spawn("vehicle.tesla.model3", in_the_air(0, -1)).result(LIMIT_S).id
        near.freeze()
        late = [world.spawn("vehicle.tesla.model3", in_the_air(1 + n // 20, n % 20)) for n in range(count)]
        world.wait(late, LIMIT_S)
        ticks = [world.tick(), world.tick()]
        world.destroy(late[0].result().id).result(LIMIT_S)
        assert far.connections >= 1
        near.thaw()
        near.drain()
        with RawClient(server) as raw:
            for _ in range(20):  # by now the server has seen what was held back
                raw.value("get_episode_info")
        assert ticks[1].result() == ticks[0].result() + 1 == server._runner.episode.frame
        assert vehicles(server) == [first, *(item.result().id for item in late[1:])]


def test_a_time_out_says_so_and_leaves_the_ticket_pending(server):
    with proxied(server) as proxy, connect(proxy.address, retry=HASTY) as world:
        proxy.freeze()
        ticket = world.tick()
        with pytest.raises(TicketTimeoutError, match=r"tick_cue: no answer within 0.01 s; ticket 1 is still pending"):
            ticket.result(0.01)
        with pytest.raises(TicketTimeoutError, match="1 of 1 tickets are still pending"):
            world.wait([ticket], 0.01)
        assert (ticket.status, ticket.error, ticket.latency_s, ticket.frame) == (Status.PENDING, None, None, None)
        proxy.thaw()
        assert ticket.result(LIMIT_S) == ticket.frame == server._runner.episode.frame


class StandingClock:
    """Goes on when it is told to."""

    now_s = 0.0

    def monotonic_s(self):
        return self.now_s


def test_when_nobody_answers_any_more_pending_calls_are_lost_and_later_ones_refused(server):
    policy, clock = RetryPolicy(silence_s=60.0, give_up_s=3.0, pause_s=0.02), StandingClock()
    with proxied(server) as proxy:
        world = connect(proxy.address, retry=policy, clock=clock)
        assert world.tick().result(LIMIT_S)
        proxy.vanish()
        tickets = [world.tick(), world.tick()]
        until(lambda: "refused" in world._transport._trouble, "an attempt to connect again")
        clock.now_s += 3.0
        world.wait(tickets, LIMIT_S)
        for ticket in tickets:
            with pytest.raises(
                TicketLostError, match=r"nothing was answered for 3 s \(.*refused\).*whether it was done is not known"
            ):
                ticket.result()
        with pytest.raises(TicketLostError, match="given up"):
            world.tick()
        world.close()


def test_an_idle_client_outlives_its_connection(server):
    clock = StandingClock()
    with (
        proxied(server) as near,
        proxied(server) as far,
        connect(near.address, far.address, retry=RetryPolicy(give_up_s=0.2), clock=clock) as world,
    ):
        frame = world.tick().result(LIMIT_S)
        assert world._transport.settled(LIMIT_S)
        near.vanish()
        clock.now_s += 1000.0  # longer than a pending call would have been waited for
        assert world.tick().result(LIMIT_S) == frame + 1


def test_a_call_that_is_pending_when_the_client_closes_is_lost(server):
    with proxied(server) as proxy:
        world = connect(proxy.address, retry=HASTY)
        proxy.freeze()
        ticket = world.tick()
        world.close(wait_s=0.0)
        with pytest.raises(TicketLostError, match="tick_cue: the connection was closed; whether it was done is not known"):
            ticket.result()
        with pytest.raises(TicketLostError, match="closed"):
            world.tick()
        world.close()


def test_another_server_at_the_same_place_is_another_world(server):
    """As if the server had been started anew between two calls: nothing is done in a world that the client has never seen."""
    with served() as other, proxied(server) as proxy, connect(proxy.address, retry=HASTY) as world:
        assert world.tick().result(LIMIT_S)
        proxy.move(other)
        proxy.hang_up()
        for ticket in (world.spawn("vehicle.tesla.model3", in_the_air(0, 0)), world.tick()):
            with pytest.raises(TicketLostError, match="none of its earlier ones is known: this is another world, connect anew"):
                ticket.result(LIMIT_S)
        assert vehicles(other) == []


def test_the_servers_own_words_come_back(server):
    with connect(f"127.0.0.1:{server.port}") as world:
        ticket = world.destroy(9999)
        with pytest.raises(CallFailedError, match=r"^unable to destroy actor: not found$"):
            ticket.result(LIMIT_S)
        assert ticket.error == "unable to destroy actor: not found"
        assert ticket.status is Status.FAILED
        assert ticket.latency_s > 0.0
        assert world.tick().result(LIMIT_S) > 0  # what comes after goes on


def answering(reply):
    """A server that answers everything with the same bytes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def work():
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(reply)
            connection.recv(1000)

    thread = threading.Thread(target=work)
    thread.start()
    return listener, thread


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no answer to a call came"),
        (b"\xc1", "no MessagePack came"),
        (msgpack.packb([1, 0, "no such function", None]), "this server has no tickets"),
    ],
)
def test_something_else_than_a_samepath_server_is_named(reply, words):
    listener, thread = answering(reply)
    with pytest.raises(InputError, match=rf"127\.0\.0\.1:\d+: {words}.*samepath serve"):
        connect(f"127.0.0.1:{listener.getsockname()[1]}")
    thread.join()
    listener.close()


def test_an_address_that_is_none_and_a_server_that_is_not_there_are_named():
    for wrong in ("127.0.0.1", "2000", ":2000", "localhost:", "localhost:0", "localhost:65536", "localhost:²", "::1:2000", ""):
        with pytest.raises(InputError, match=r"an address such as 127\.0\.0\.1:2000 was wanted, but "):
            connect(wrong)
    with socket.socket() as taken:  # so that no other process gets this port meanwhile; it does not listen
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"127\.0\.0\.1:{port}: Connection refused.*: start one with samepath serve"):
            connect(f"127.0.0.1:{port}")
