"""Clients of any node: what a node answers, what goes to the main server, and that both are one world."""

import select
import struct

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("zmq")

from samepath.cluster.replica import ANSWERED_HERE
from samepath.simulator.carla.streams import ACTOR_STATE, WORLD_OBSERVER, WORLD_STREAM
from samepath.simulator.server.methods import methods
from tests.support.clustering import clustered, wait_for
from tests.support.scenes import (
    RGB,
    STEP,
    Doors,
    control,
    frame_of,
    listen,
    port_of,
    spawn,
    spawn_cars,
    stream_of,
    synchronous,
    transform,
)
from tests.support.serving import RawClient, RawListener


@pytest.fixture(scope="module")
def cluster():
    with clustered(2) as found:
        yield found


@pytest.fixture
def clients(cluster):
    """A client of the main server and of each node, in a world that was just loaded."""
    main = Doors(cluster.main.port, cluster.main.stream_port)
    doors = (main, *cluster.nodes)
    found = [RawClient(door) for door in doors]
    found[0].ask("load_new_episode", "t-junction", True, 0xFFFF)
    synchronous(found[0])
    for client, door in zip(found, doors, strict=True):
        client.doors = door
    yield found
    for client in found:
        client.socket.close()


def forwarded(cluster):
    """How many messages the main server has received from nodes that were no beats; beats come every half second."""
    return sum(handle.calls for handle in cluster.main.shell.handles.values())


def test_what_a_node_answers_itself_is_what_the_main_server_answers(cluster, clients):
    main, first, second = clients
    car, *_ = spawn_cars(main, 1)
    wait_for(lambda: all(node.node._replica.actors.find(car) for node in cluster.nodes), "the nodes know the car")
    before = forwarded(cluster)
    for name, *arguments in (
        ("version",),
        ("get_available_maps",),
        ("get_map_info",),
        ("get_map_data",),
        ("get_episode_settings",),
        ("get_weather_parameters",),
        ("get_actor_definitions",),
        ("get_required_files", ""),
        ("get_spectator",),
        ("get_actors_by_id", [car, main.value("get_spectator")[0]]),
        ("get_actor_bounding_box", car),
    ):
        assert first.value(name, *arguments) == second.value(name, *arguments) == main.value(name, *arguments), name
    assert forwarded(cluster) == before
    told = [client.value("get_episode_info")[0] for client in (main, first, second, main)]
    assert told == [told[-1] - 1, *told[-1:] * 3]  # who has loaded a map is told of the episode before, once
    assert set(methods()) >= ANSWERED_HERE


def test_ids_are_the_same_everywhere_and_a_spawn_is_known_to_who_asks_next(clients):
    main, first, second = clients
    points = main.value("get_map_info")[1]
    ids = [spawn(client, "vehicle.tesla.model3", points[2 * k])[0] for k, client in enumerate((main, first, second, first))]
    assert ids == list(range(ids[0], ids[0] + 4))
    for client in clients:
        assert [record[0] for record in client.value("get_actors_by_id", ids)] == ids
    assert second.value("destroy_actor", ids[1]) is True
    main.value("tick_cue")
    for client in clients:
        # The tick waits until every node knows, but not for one that the machine does not let run for a second or more.
        wait_for(lambda client=client: len(client.value("get_actors_by_id", ids)) < 4, "a node that knows")
        assert [record[0] for record in client.value("get_actors_by_id", ids)] == [ids[0], ids[2], ids[3]]


def test_a_command_takes_effect_at_the_same_tick_whoever_sends_it(clients):
    speeds = []
    for client in clients:
        client.ask("load_new_episode", "t-junction", False, 0xFFFF)
        (car,) = spawn_cars(client, 1)
        for _ in range(3):
            client.value("tick_cue")
        client.ask("apply_control_to_vehicle", car, control(1.0))
        found = []
        for _ in range(4):
            client.value("tick_cue")
            found.append(client.value("get_telemetry_data", car))
        speeds.append(found)
    assert speeds[0] == speeds[1] == speeds[2]
    assert speeds[0][-1][0] > 0.0


def test_of_two_nodes_commands_the_higher_one_counts_whichever_came_first(cluster, clients):
    main, first, second = clients
    cars = spawn_cars(main, 2)
    for order in ((first, second), (second, first)):
        for client in order:
            for car in cars:
                client.ask("apply_control_to_vehicle", car, control(0.25 if client is first else 0.75))
        main.ask("apply_control_to_vehicle", cars[0], control(1.0))
        main.value("tick_cue")
        with RawListener(main.doors, 1) as state:
            message = state.message()
        applied = [round(throttle, 3) for throttle in throttles(message, cars)]
        assert applied == [0.75, 0.75]
        # In the next tick everybody may command again.
        main.ask("apply_control_to_vehicle", cars[0], control(0.5))
        main.value("tick_cue")
    commands = cluster.main.counters.commands.stats.status()
    assert commands.overruled >= 6
    assert len({command.id for command in commands.last}) == len(commands.last)
    assert all(command.latency_s >= 0.0 for command in commands.last)


def throttles(message, cars):
    """The throttle of cars in a message of the world's state."""
    import numpy as np

    from samepath.simulator.carla.streams import ACTOR_STATE

    rows = np.frombuffer(message[48 + 36 :], ACTOR_STATE)
    return [float(rows["union"][rows["id"] == car][0][:4].copy().view("<f4")[0]) for car in cars]


def test_a_sensor_made_through_one_node_is_heard_through_any_other(clients):
    main, first, second = clients
    (car,) = spawn_cars(first, 1)
    record = spawn(first, "sensor.camera.rgb", transform(1.5, 0.0, 2.0), parent=car, **RGB)
    assert port_of(record) == first.doors.stream_port
    assert port_of(second.value("get_actors_by_id", [record[0]])[0]) == second.doors.stream_port
    assert port_of(main.value("get_actors_by_id", [record[0]])[0]) == main.doors.stream_port
    listeners = [listen(client.doors, stream_of(record)) for client in clients]
    try:
        for _ in range(3):
            frame = second.value("tick_cue")
            messages = [listener.message() for listener in listeners]
            assert {frame_of(message) for message in messages} == {frame}
            assert len(set(messages)) == 1
    finally:
        for listener in listeners:
            listener.socket.close()


def test_events_of_the_main_server_reach_listeners_of_every_node(clients):
    main, first, second = clients
    points = main.value("get_map_info")[1]
    car = spawn(main, "vehicle.tesla.model3", points[0])[0]
    (x, y, z), (_, yaw, _) = points[0]
    import math

    ahead = transform(x + 7.0 * math.cos(math.radians(yaw)), y + 7.0 * math.sin(math.radians(yaw)), z, yaw)
    spawn(main, "vehicle.tesla.model3", ahead)
    sensor = spawn(first, "sensor.other.collision", transform(0.0, 0.0, 0.0), parent=car)
    listeners = [listen(client.doors, stream_of(sensor)) for client in (first, second)]
    try:
        second.ask("apply_control_to_vehicle", car, control(1.0))
        for _ in range(80):
            first.value("tick_cue")
        messages = [listener.message() for listener in listeners]
        assert messages[0] == messages[1]
    finally:
        for listener in listeners:
            listener.socket.close()


def test_a_map_loaded_through_a_node_is_everybody_elses_too(clients):
    main, first, second = clients
    before = second.value("get_episode_info")[0]
    first.ask("load_new_episode", "double-mini-roundabout", False, 0xFFFF)
    assert first.value("get_episode_info")[0] == before  # as by CARLA, and through a node too
    for client in clients:
        assert client.value("get_map_info")[0].endswith("double-mini-roundabout")
        assert client.value("get_episode_info")[0] != before
    (car,) = spawn_cars(second, 1)
    record = spawn(second, "sensor.camera.depth", transform(0.0, 0.0, 2.0), parent=car, **RGB)
    with listen(first.doors, stream_of(record)) as there:
        frame = main.value("tick_cue")
        assert frame_of(there.message()) == frame


def test_weather_and_settings_set_through_a_node_are_everywhere_before_the_answer(clients):
    main, first, second = clients
    weather = [float(number) for number in range(14)]
    for k, client in enumerate((first, second, main)):
        weather[0] = float(k)
        error, _ = client.ask("set_weather_parameters", weather)
        assert error is None
        assert [client.value("get_weather_parameters")[0] for client in clients] == [float(k)] * 3


def test_a_client_that_leaves_a_node_takes_its_traffic_manager_and_its_listening_with_it(cluster, clients):
    main, first, _ = clients
    (car,) = spawn_cars(main, 1)
    record = spawn(main, "sensor.camera.rgb", transform(1.5, 0.0, 2.0), parent=car, **RGB)
    stream = stream_of(record)
    with RawClient(first.doors) as visitor:
        assert visitor.value("add_traffic_manager_running", ["127.0.0.1", 8123]) is True
        assert main.value("is_traffic_manager_running", 8123) is True
    wait_for(lambda: main.value("is_traffic_manager_running", 8123) is False, "the traffic manager is forgotten")
    with listen(first.doors, stream) as there:
        main.value("tick_cue")
        there.message()
        audience = cluster.main.episode.connections.subscriptions
        assert audience.homes(stream) == (1,)
    wait_for(lambda: (main.value("tick_cue"), audience.homes(stream))[1] == (), "nobody listens any more")


def test_a_bad_call_is_refused_through_a_node_as_by_the_main_server(clients):
    for name, *arguments in (
        ("destroy_actor", 4_000_000),
        ("get_actors_by_id", "nonsense"),
        ("apply_control_to_vehicle", 4_000_000, control()),
        ("no_such_method",),
        ("console_command", "x"),
        ("tick_cue", 1, 2, 3),
    ):
        answers = [client.ask(name, *arguments) for client in clients]
        assert answers[0] == answers[1] == answers[2], name


def test_an_actor_that_has_vanished_ends_no_client_of_a_node(clients):
    answers = [client.ask("get_actor_bounding_box", 4_000_000) for client in clients]
    assert answers[0] == answers[1] == answers[2]
    assert clients[1].value("get_actor_bounding_box", 4_000_000)[1] == [0.0, 0.0, 0.0]
    for name in ("set_actor_simulate_physics", "set_actor_collisions"):
        assert [client.ask(name, 4_000_000, True) for client in clients] == [(None, [[False]])] * 3


def test_in_asynchronous_mode_a_spawn_through_a_node_is_answered_when_its_state_shows_the_actor(clients):
    main, first, _ = clients
    main.value("set_episode_settings", [False, *STEP[1:]])
    with RawListener(first.doors, 1) as listener:
        for number in range(5):
            actor = spawn(first, "static.prop.trafficcone01", transform(3.0 * number, 0.0, 5.0))[0]
            message = listener.message()
            while select.select([listener.socket], [], [], 0)[0]:
                message = listener.message()
            assert actor in np.frombuffer(message[84:], ACTOR_STATE)["id"]


def test_every_node_serves_the_version_of_carlas_client_that_the_main_server_serves():
    with clustered(1, protocol="0.9.15") as cluster:
        doors = (Doors(cluster.main.port, cluster.main.stream_port), cluster.nodes[0])
        main, at_node = (RawClient(door) for door in doors)
        with main, at_node:
            synchronous(main)
            assert main.value("version") == at_node.value("version") == "0.9.15"
            definitions = at_node.value("get_actor_definitions")
            assert definitions == main.value("get_actor_definitions")
            assert min(kind for *_, attributes in definitions for _, kind, *_ in attributes) == 0
            string = 3  # counted from 0, as 0.9.15 does
            spawned = at_node.value(
                "spawn_actor", [0, "vehicle.audi.a2", [["role_name", string, "x"]]], transform(10.0, 0.0, 0.5)
            )
            assert ["role_name", string, "x"] in spawned[2][2]
            states = []
            for door in doors:
                with RawListener(door, WORLD_STREAM) as listener:
                    listener.message()
                    main.value("tick_cue")
                    states.append(listener.message())
            assert {struct.unpack_from("<Q", state)[0] for state in states} == {WORLD_OBSERVER - 1}
            assert all(struct.pack("<I", spawned[0]) in state for state in states)
