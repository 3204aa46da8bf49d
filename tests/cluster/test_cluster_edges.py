"""Edges of a cluster: maps that take long to build, sensors that go, cameras that remember, nodes that are wanted no more."""

import threading
from contextlib import suppress

import pytest

pytest.importorskip("numba")
pytest.importorskip("zmq")

from msgspec.structs import replace

from samepath.cluster.assignment import Balance, assign, forget_sensors, learn
from samepath.cluster.placement.records import NodeExit, NodeSpec
from samepath.cluster.settings import Timeouts
from samepath.core.states import Pose
from samepath.simulator.server.rendering import RenderRequest
from tests.support.clustering import Cluster, clustered, wait_for
from tests.support.scenes import (
    HEAD_BYTES,
    RGB,
    Doors,
    drive,
    frame_of,
    listen,
    mount,
    spawn,
    spawn_cars,
    stream_of,
    synchronous,
    transform,
)
from tests.support.serving import RawClient, served

TICKS = 10


def main_doors(cluster):
    return Doors(cluster.main.port, cluster.main.stream_port)


def order(sensor, frame):
    return RenderRequest(sensor, sensor, "sensor.camera.rgb", tuple(RGB.items()), b"", Pose(), None, 1, frame, 0.0, 0.05)


def events(doors, other_doors):
    """What event cameras send while two cars drive: a camera that sees no change sends nothing."""
    with RawClient(doors) as client:
        synchronous(client)
        client.ask("load_new_episode", "", False, 0xFFFF)  # events hold the time of the episode, which begins again
        cars = spawn_cars(client, 2)
        cameras = [
            mount(client, there, car, "sensor.camera.dvs", RGB) for car, there in zip(cars, (doors, other_doors), strict=True)
        ]
        pictures = mount(client, doors, cars[0], "sensor.camera.rgb", RGB)
        drive(client, cars, [pictures], TICKS)
        last, found = client.value("tick_cue"), []
        for camera in cameras:
            frame = 0
            while frame != last:
                message = camera.message()
                frame = frame_of(message)
                found.append((frame, message[HEAD_BYTES:]))
            camera.socket.close()
        pictures.socket.close()
        return [(frame - last, payload) for frame, payload in found]


def test_event_cameras_that_move_between_nodes_send_the_same_events():
    with served() as server:
        alone = events(server, server)
    assert len(alone) >= TICKS
    with clustered(3, main_changes={"policy": "random"}) as cluster:
        assert events(cluster, main_doors(cluster)) == alone
        assert cluster.main.shell.state.balance.moved > 0
        assert cluster.main.counters.reissued == 0


def test_a_node_that_builds_another_map_is_not_taken_for_one_that_hangs():
    with clustered(1, timeouts=Timeouts(reissue_s=0.5, fence_s=1.0)) as cluster:
        drawing, gate = cluster.nodes[0].node._render_thread, threading.Event()
        build = drawing._build

        def slowly(work):
            gate.wait(60)
            return build(work)

        drawing._build = slowly
        with RawClient(cluster) as client:
            client.ask("load_new_episode", "oval", True, 0xFFFF)
            synchronous(client)
            (car,) = spawn_cars(client, 1)
            record = spawn(client, "sensor.camera.rgb", transform(1.5, 0.0, 2.0), parent=car, **RGB)
            with listen(cluster, stream_of(record)) as there:
                later = threading.Timer(2.5, gate.set)
                later.start()
                frame = client.value("tick_cue")
                assert gate.is_set()
                assert frame_of(there.message()) == frame
        assert cluster.main.counters.fenced == 0


def test_nothing_is_kept_of_sensors_that_are_gone():
    with clustered(1) as cluster, RawClient(cluster) as client:
        main, shell = cluster.main, cluster.main.shell
        synchronous(client)
        cars = spawn_cars(client, 1)
        records = [spawn(client, "sensor.camera.rgb", transform(1.5, 0.0, 2.0), parent=cars[0], **RGB) for _ in range(2)]
        listeners = [listen(cluster, stream_of(record)) for record in records]
        main.thumbnail(records[0][0])
        main.thumbnail(records[1][0])
        drive(client, cars, listeners, 2)
        assert set(shell.thumbnails) == set(shell.state.balance.where) == {record[0] for record in records}
        main.thumbnail(records[0][0])
        client.value("destroy_actor", records[0][0])
        left = {records[1][0]}
        assert set(shell.thumbnails) == set(shell.state.balance.where) == set(main.counters.sensor_frames) == left
        assert not shell.thumbnails_wanted
        client.ask("load_new_episode", "oval", True, 0xFFFF)
        assert not shell.thumbnails
        assert not shell.state.balance.where
        assert not main.counters.sensor_frames
        assert shell.state.delivered == {}
        for listener in listeners:
            listener.socket.close()


def test_costs_and_places_of_sensors_are_forgotten():
    orders = [order(sensor, 1) for sensor in (5, 6, 7)]
    balance, _ = assign(Balance(), orders, [1, 2], {})
    balance = replace(balance, costs=learn(balance.costs, 1, orders, 0.1, {5: 0.1, 6: 0.1, 7: 0.1}))
    balance = forget_sensors(balance, [5])
    assert set(balance.where) == set(balance.costs.sensor_s) == {6, 7}
    balance = forget_sensors(balance, None)
    assert balance.where == balance.costs.sensor_s == {}


def test_a_tick_that_waits_for_a_node_shows_that_and_ends_when_the_cluster_stops():
    cluster = Cluster(timeouts=Timeouts(no_node_s=3600.0))
    doors = main_doors(cluster)
    cluster.main._placed["node-7"] = None
    with RawClient(doors) as client:

        def tick():
            with suppress(EOFError, OSError, AssertionError):  # the connection ends
                client.ask("tick_cue")

        synchronous(client)
        (car,) = spawn_cars(client, 1)
        record = spawn(client, "sensor.camera.rgb", transform(1.5, 0.0, 2.0), parent=car, **RGB)
        with listen(doors, stream_of(record)):
            asking = threading.Thread(target=tick)
            asking.start()
            wait_for(lambda: cluster.main.status().waiting_for == ("node-7",), "the status says who is missing")
            cluster.main._placed.clear()
            cluster.close()
            asking.join(60)
            assert not asking.is_alive()
    assert cluster.stopped == []


class Ledger:
    """A placement that only writes down what is asked of it."""

    def __init__(self):
        self.asked, self.ends = [], []

    def start(self, order, _keys):
        self.asked.append(("start", order.name))

    def stop(self, name):
        self.asked.append(("stop", name))

    def restart(self, name, _pid):
        self.asked.append(("restart", name))

    def ended(self):
        ends, self.ends = self.ends, []
        return ends

    def close(self):
        pass


def test_a_node_that_has_not_joined_yet_is_stopped_when_it_is_wanted_no_more():
    placement = Ledger()
    cluster = Cluster(placement=placement)
    try:
        cluster.main.place(NodeSpec("node-1", 1, cluster.main.link.endpoint))
        cluster.main.scale(2)
        cluster.main.scale(1)
        wait_for(lambda: ("stop", "node-2") in placement.asked, placement.asked)
        assert placement.asked == [("start", "node-1"), ("start", "node-2"), ("stop", "node-2")]
        assert cluster.main.shell._missing() == ("node-1",)
    finally:
        cluster.main._placed.clear()
        cluster.close()


def test_the_log_says_when_a_node_is_not_started_again():
    placement = Ledger()
    cluster = Cluster(placement=placement)
    try:
        for number in (1, 2):
            cluster.main.place(NodeSpec(f"node-{number}", number, cluster.main.link.endpoint))
        placement.ends.append(NodeExit("node-1", 1, "ended by itself with exit code 2", restarts=False))
        line = "node-1 ended by itself with exit code 2 and is not started again: 1 nodes are left"
        wait_for(lambda: line in cluster.lines, cluster.lines)
        assert cluster.main.expected_nodes() == ("node-2",)
    finally:
        cluster.main._placed.clear()
        cluster.close()
