"""Sensors as large as a server takes, drawn by a node and heard at another: what may be asked for can be carried."""

import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

pytest.importorskip("numba")
pytest.importorskip("zmq")

from samepath.cluster import shell
from samepath.cluster.coordinator import by_name
from samepath.cluster.link.wire import LinkLimits
from samepath.simulator.server import rendering
from tests.support.clustering import clustered, wait_for
from tests.support.scenes import (
    HEAD_BYTES,
    Doors,
    frame_of,
    listen,
    mount,
    spawn,
    spawn_cars,
    stream_of,
    synchronous,
    transform,
)
from tests.support.serving import RawClient

FLOW = "sensor.camera.optical_flow"


def states(cluster):
    return [member.state for member in cluster.main.shell.members()]


@pytest.mark.slow
def test_two_event_cameras_whose_memories_were_beyond_a_message_go_on_being_drawn():
    # What each remembers is six bytes a pixel: together more than the 16 MiB of a message, in which it once travelled.
    size = {"image_size_x": "1200", "image_size_y": "1200"}
    with clustered(1) as cluster, RawClient(cluster) as client, ExitStack() as stack:
        synchronous(client)
        cars = spawn_cars(client, 2)
        listeners = [stack.enter_context(mount(client, cluster, car, "sensor.camera.dvs", size)) for car in cars]
        for car in cars:
            client.ask("enable_actor_constant_velocity", car, [20.0, 0.0, 0.0])
        client.value("tick_cue")  # nothing can have changed since the first picture, so there is no message of it
        last = client.value("tick_cue")
        for listener in listeners:
            message = listener.message()
            assert frame_of(message) == last
            assert struct.unpack_from("<II", message, HEAD_BYTES) == (1200, 1200)
            assert len(message) > HEAD_BYTES + 12
        assert states(cluster) == ["working"]
        assert not [line for line in cluster.lines if "silent" in line]


@pytest.mark.slow
def test_the_largest_optical_flow_reaches_a_listener_at_another_node():
    with clustered(2) as cluster, RawClient(cluster.nodes[0]) as client, ExitStack() as stack:
        synchronous(client)
        (car,) = spawn_cars(client, 1)
        size = {"image_size_x": "4096", "image_size_y": "2048"}
        # Heard at both, so that whoever draws it, the other one must be sent it.
        stream = stream_of(spawn(client, FLOW, transform(1.5, 0.0, 2.0), parent=car, **size))
        listeners = [stack.enter_context(listen(doors, stream)) for doors in cluster.nodes]
        client.value("tick_cue")
        for listener in listeners:
            assert len(listener.message()) == HEAD_BYTES + 12 + 8 * 4096 * 2048
        assert states(cluster) == ["working", "working"]


def test_what_is_due_at_once_is_drawn_in_rounds_and_every_frame_arrives(monkeypatch):
    # As if forty of the largest cameras were due: two of these are more than a round is meant to bring.
    monkeypatch.setattr(rendering, "ROUND_BYTES", 20_000)
    with clustered(2) as cluster, RawClient(cluster.nodes[0]) as client, ExitStack() as stack:
        synchronous(client)
        cars = spawn_cars(client, 2)
        doors = [*cluster.nodes, *cluster.nodes]
        size = {"image_size_x": "64", "image_size_y": "64"}
        listeners = [
            stack.enter_context(mount(client, there, car, "sensor.camera.rgb", size)) for car in cars for there in doors
        ]
        for _ in range(2):
            last = client.value("tick_cue")
            assert [frame_of(listener.message()) for listener in listeners] == [last] * len(listeners)
        assert states(cluster) == ["working", "working"]


def test_a_node_that_reads_in_bursts_is_sent_the_rest_when_it_has_read_on():
    with clustered(2) as cluster, RawClient(cluster.nodes[0]) as client, ExitStack() as stack:
        synchronous(client)
        (car,) = spawn_cars(client, 1)
        size = {"image_size_x": "64", "image_size_y": "64"}
        streams = [
            stream_of(spawn(client, "sensor.camera.rgb", transform(1.5, 0.0, 2.0), parent=car, **size)) for _ in range(4)
        ]
        listeners = [stack.enter_context(listen(doors, stream)) for stream in streams for doors in cluster.nodes]
        for peer in cluster.main.link._peers.values():  # two frames of a tick are more than may wait for a node
            peer.flow._limits = LinkLimits(waiting_bytes=20_000)
        for _ in range(2):
            last = client.value("tick_cue")
            assert [frame_of(listener.message()) for listener in listeners] == [last] * len(listeners)
        assert states(cluster) == ["working", "working"]
        assert all(not handle.unsent and not handle.unsent_bytes for handle in cluster.main.shell.handles.values())


def never_reads(cluster, name):
    """A node as main sees one that lives and takes nothing off its link."""
    stuck = by_name(cluster.main.shell.state, name)
    cluster.main.link._peers[stuck.peer].flow._limits = LinkLimits(waiting_bytes=0)
    return stuck


def test_a_node_that_never_reads_on_is_taken_out_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr(shell, "_UNSENT_BYTES", 20_000)
    with clustered(2) as cluster, RawClient(Doors(cluster.main.port, cluster.main.stream_port)) as client:
        never_reads(cluster, "node-2")
        for k in range(8):
            spawn(client, "static.prop.streetbarrier", transform(900.0 + 5.0 * k, 900.0, 2.0), role_name="x" * 4_000)
        # The line comes after the change of who is there.
        wait_for(lambda: any("node-2 was taken out: it does not read" in line for line in cluster.lines), cluster.lines)
        assert states(cluster) == ["working"]


def test_a_tick_does_not_wait_for_ever_for_a_node_that_never_reads_on():
    with (
        clustered(2) as cluster,
        RawClient(Doors(cluster.main.port, cluster.main.stream_port)) as client,
        ThreadPoolExecutor(1) as other,
    ):
        synchronous(client)
        stuck = cluster.main.shell.handle(never_reads(cluster, "node-2"))
        ticked = other.submit(client.value, "tick_cue")
        wait_for(lambda: stuck.unsent, "the tick waits for node-2")
        stuck.read_on_s -= 3600.0
        ticked.result(60)
        assert states(cluster) == ["working"]
        assert any("node-2 was taken out: it has read nothing" in line for line in cluster.lines)


def test_nothing_is_kept_anywhere_of_sensors_that_have_come_and_gone():
    with clustered(2) as cluster, RawClient(cluster.nodes[0]) as client:
        synchronous(client)
        (car,) = spawn_cars(client, 1)
        for k in range(6):
            for kind in ("sensor.camera.dvs", "sensor.camera.rgb", "sensor.lidar.ray_cast"):
                varied = {"image_size_x": str(40 + k), "image_size_y": "32"} if "camera" in kind else {"range": str(10 + k)}
                record = spawn(client, kind, transform(1.5, 0.0, 2.0), parent=car, **varied)
                with listen(cluster.nodes[k % 2], stream_of(record)):
                    client.value("tick_cue")
                    client.value("tick_cue")
                client.value("destroy_actor", record[0])
        client.value("tick_cue")
        main = cluster.main
        wait_for(lambda: not any(node.node._delivered for node in cluster.nodes), "nodes forget the streams")
        wait_for(lambda: not any(node.node._hub._early or node.node._hub._listeners for node in cluster.nodes), "and listeners")
        assert main.shell.state.delivered == {}
        assert main.shell.state.balance.where == {}
        assert main.shell.state.balance.costs.sensor_s == {}
        assert main.counters.sensor_frames == {}
        assert main.shell.thumbnails == {}
        assert not any(member.pending for member in main.shell.members())
        assert not any(handle.unsent for handle in main.shell.handles.values())
