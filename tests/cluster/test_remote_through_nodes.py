"""Calls by ticket through the nodes of a cluster: as if they had been made at the main server, also when a node goes."""

import pytest

pytest.importorskip("zmq")
pytest.importorskip("numba")

from samepath.client import CallFailedError, RetryPolicy, Rotation, Settings, Status, Transform, Vector, VehicleControl, connect
from samepath.core.errors import InputError
from samepath.simulator.server.actors import VehicleEntry
from tests.support.clustering import clustered
from tests.support.cutting import proxied, random_cuts

CAR = "vehicle.tesla.model3"
HASTY = RetryPolicy(silence_s=60.0, pause_s=0.02)
LIMIT_S = 60.0


@pytest.fixture
def cluster():
    with clustered(nodes=2) as found:
        with connect(f"127.0.0.1:{found.main.port}") as world:
            world.apply_settings(Settings(synchronous_mode=True, fixed_delta_seconds=0.05)).result(LIMIT_S)
        yield found


def address(node):
    return f"127.0.0.1:{node.port}"


def in_the_air(number):
    return Transform(Vector(10.0 * (number // 20), 10.0 * (number % 20), 50.0), Rotation())


def vehicles(cluster):
    return [entry.id for entry in cluster.main._runner.episode.actors.all(VehicleEntry)]


def make_calls(world, first, numbers):
    """Spawns, and after each a control of the first and a look at it; none waited for."""
    tickets = []
    for number in numbers:
        tickets.append(world.spawn(CAR, in_the_air(number)))
        tickets.append(world.control(first, VehicleControl(throttle=number / 100)))
        tickets.append(world.last_control(first))
    return tickets


def test_a_client_whose_node_goes_has_its_calls_done_once_and_in_order_through_another(cluster):
    low, high = cluster.nodes
    with proxied(high) as door, connect(door.address, address(low), retry=HASTY) as world:
        first = world.spawn(CAR, in_the_air(0)).result(LIMIT_S).id
        tickets = make_calls(world, first, range(1, 40))
        tickets[20].result(LIMIT_S)
        door.freeze()  # so that some of them cannot have been done when the node goes
        tickets += make_calls(world, first, range(40, 80))
        high.stop()
        door.thaw()
        world.wait(tickets, LIMIT_S)
        assert {ticket.status for ticket in tickets} == {Status.SUCCESS}
        assert [ticket.result().throttle for ticket in tickets[2::3]] == [number / 100 for number in range(1, 80)]
        ids = [ticket.result().id for ticket in tickets[::3]]
        assert vehicles(cluster) == [first, *ids] == list(range(first, first + 80))
        before = cluster.main._runner.episode.frame
        ticks = [world.tick() for _ in range(5)]
        world.wait(ticks, LIMIT_S)
        assert [tick.result() for tick in ticks] == list(range(before + 1, before + 6))


def test_over_a_bad_line_to_a_node_calls_are_done_once_and_in_order(cluster):
    with (
        proxied(cluster.nodes[1], random_cuts(6, 3000, 12_000)) as bad,
        connect(address(cluster.nodes[1])) as good,
        connect_through(bad) as world,
    ):
        first = good.spawn(CAR, in_the_air(0)).result(LIMIT_S).id
        tickets = make_calls(world, first, range(1, 60))
        world.wait(tickets, LIMIT_S)
        assert [ticket.result().throttle for ticket in tickets[2::3]] == [number / 100 for number in range(1, 60)]
        assert vehicles(cluster) == [first, *(ticket.result().id for ticket in tickets[::3])] == list(range(first, first + 60))
        assert bad.cut > 5


def connect_through(proxy):
    """Connect; the greeting may be cut, then try again."""
    for _ in range(100):
        try:
            return connect(proxy.address, retry=HASTY)
        except InputError:
            continue
    raise AssertionError("never connected")


def test_of_two_clients_the_one_at_the_higher_node_wins_within_a_tick_also_after_it_has_moved(cluster):
    low, high = cluster.nodes
    with proxied(high) as door, connect(door.address, address(low), retry=HASTY) as world, connect(address(low)) as other:
        car = world.spawn(CAR, in_the_air(0)).result(LIMIT_S).id
        world.control(car, VehicleControl(throttle=0.1)).result(LIMIT_S)
        other.control(car, VehicleControl(throttle=0.9)).result(LIMIT_S)
        assert world.last_control(car).result(LIMIT_S).throttle == 0.1
        door.vanish()
        world.control(car, VehicleControl(throttle=0.2)).result(LIMIT_S)
        assert other.last_control(car).result(LIMIT_S).throttle == 0.2
        other.control(car, VehicleControl(throttle=0.9)).result(LIMIT_S)
        assert other.last_control(car).result(LIMIT_S).throttle == 0.2
        world.tick().result(LIMIT_S)
        world.control(car, VehicleControl(throttle=0.3)).result(LIMIT_S)
        other.control(car, VehicleControl(throttle=0.4)).result(LIMIT_S)
        assert world.last_control(car).result(LIMIT_S).throttle == 0.4


def test_through_a_node_errors_and_results_are_those_of_the_main_server(cluster):
    with connect(address(cluster.nodes[0])) as near, connect(f"127.0.0.1:{cluster.main.port}") as main:
        with pytest.raises(CallFailedError, match=r"^unable to destroy actor: not found$"):
            near.destroy(9999).result(LIMIT_S)
        for method in ("get_map_info", "get_episode_settings", "get_spectator", "get_weather_parameters"):
            assert near.call(method).result(LIMIT_S) == main.call(method).result(LIMIT_S)
