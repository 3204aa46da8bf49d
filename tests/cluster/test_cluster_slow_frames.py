"""Frames that take longer than a node may be late: the tick ends, or fails by name, and nodes keep their places."""

import threading
from contextlib import contextmanager

import pytest

pytest.importorskip("numba")
pytest.importorskip("zmq")

from samepath.cluster.settings import Timeouts
from tests.support.clustering import clustered, wait_for
from tests.support.scenes import RGB, Doors, frame_of, listen, spawn, spawn_cars, stream_of, synchronous, transform
from tests.support.serving import RawClient

# A heartbeat comes every 0.5 s, so nodes seem frozen most of the time, as they do while they draw the largest frames.
HURRIED = Timeouts(reissue_s=0.05, fence_s=0.05, silent_s=60.0)


@contextmanager
def camera(cluster):
    """A client of the main server that listens to a camera, whose frames no node draws until the gate opens."""
    doors, gate = Doors(cluster.main.port, cluster.main.stream_port), threading.Event()
    for node in cluster.nodes:
        hold(node.node._render_thread, gate)
    try:
        with RawClient(doors) as client:
            synchronous(client)
            (car,) = spawn_cars(client, 1)
            record = spawn(client, "sensor.camera.rgb", transform(1.5, 0.0, 2.0), parent=car, **RGB)
            with listen(doors, stream_of(record)) as there:
                yield client, there, gate
    finally:
        gate.set()


def hold(drawing, gate):
    draw = drawing._draw

    def slowly(work):
        if work.requests:
            gate.wait(60)
        return draw(work)

    drawing._draw = slowly


def taken_out(cluster):
    return [line for line in cluster.lines if "was taken out" in line and "tick" in line.partition(":")[0]]


def test_a_frame_that_is_late_at_every_node_is_drawn_by_the_one_that_is_kept():
    with clustered(2, timeouts=HURRIED) as cluster, camera(cluster) as (client, there, gate):

        def open_gate():
            wait_for(lambda: taken_out(cluster) and cluster.main.counters.reissued >= 3, "the last node is asked again")
            gate.set()

        opening = threading.Thread(target=open_gate)
        opening.start()
        frame = client.value("tick_cue")
        assert frame_of(there.message()) == frame
        opening.join(60)
        assert len(taken_out(cluster)) == 1
        assert [member.state for member in cluster.main.shell.members()] == ["working"]
        assert cluster.main.health().complaint(60.0) == ""


def test_a_frame_that_no_node_draws_fails_the_tick_with_the_name_of_the_sensor():
    timeouts = Timeouts(reissue_s=0.05, fence_s=30.0, frame_s=0.5, no_node_s=0.5)
    with clustered(2, timeouts=timeouts) as cluster, camera(cluster) as (client, _, _):
        error, result = client.ask("tick_cue")
        words = str(error or result)
        assert "no node has drawn sensor" in words
        assert "sensor.camera.rgb, 60x40" in words
        assert "--node-timeout" in words
        wait_for(lambda: cluster.stopped, "it stops")  # told by another thread than the one that answered
        assert "no node has drawn sensor" in cluster.stopped[0]
        assert not taken_out(cluster)


def test_a_tick_that_waits_for_a_slow_node_is_no_hang_for_probes():
    with clustered(1, timeouts=Timeouts(reissue_s=0.05)) as cluster, camera(cluster) as (client, there, gate):
        runner = cluster.main._runner

        def open_gate():
            wait_for(lambda: runner._busy_since_s is not None and cluster.main.shell.waiting_for, "a tick waits for the node")
            runner._busy_since_s -= 3600.0
            wait_for(lambda: cluster.main.health().busy_s < 60.0, "the wait counts as work")
            gate.set()

        opening = threading.Thread(target=open_gate)
        opening.start()
        frame = client.value("tick_cue")
        assert frame_of(there.message()) == frame
        opening.join(60)
