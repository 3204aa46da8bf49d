"""Nodes that are processes, and what happens to them: killed, frozen, added, drained; no byte changes, no frame is lost."""

import hashlib
import os
import signal
import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("numba")
pytest.importorskip("zmq")

from samepath.cluster.settings import Timeouts
from tests.support.clustering import Cluster, wait_for
from tests.support.faults import Fault, FaultRunSettings, SceneSettings, StreamRecord, run_with_faults, schedule
from tests.support.scenes import RGB, Doors, listen, spawn, spawn_cars, stream_of, synchronous, transform
from tests.support.serving import RawClient

SCENE = SceneSettings(map_name="t-junction", cameras=6, width=48, height=32)
TICKS = 60
FAULTS = (
    Fault(5, "kill", 0.002, 0.99),
    Fault(12, "add", 0.0, 0.0),
    Fault(25, "freeze", 0.001, 0.99),
    Fault(40, "kill", 0.0, 0.5),
)


def test_killed_frozen_and_added_nodes_change_no_byte():
    quiet = run_with_faults(FaultRunSettings(nodes=1, ticks=TICKS, scene=SCENE))
    assert quiet.irregular == ()
    assert quiet.frames == TICKS * (6 + 5)
    assert len(set(quiet.digests.values())) == len(quiet.digests)
    lines = []
    # A machine that stands still for two or three seconds must not cost node-1 its place: who listens there would go with it.
    timeouts = Timeouts(reissue_s=0.3, fence_s=5.0)
    hurt = run_with_faults(
        FaultRunSettings(
            nodes=3, ticks=TICKS, scene=SCENE, faults=FAULTS, listen_at_node=True, timeouts=timeouts, policy="random"
        ),
        lines.append,
    )
    assert {fault.partition(" ")[0] for fault in hurt.faults} >= {"kill", "freeze", "add"}
    assert hurt.irregular == ()
    assert hurt.digests == quiet.digests
    assert hurt.neighbour_bytes > quiet.neighbour_bytes == 0
    assert hurt.status.desynchronised == 0
    assert hurt.status.late_frames == hurt.status.dropped_frames == 0
    assert any("its process ended" in line or "its connection ended" in line for line in lines)
    assert any("was taken out" in line for line in lines), lines


def test_a_frame_is_counted_as_heard_only_with_its_digest(monkeypatch):
    record, counted = StreamRecord(), []

    def digest(content, **sizes):
        counted.append(len(record.frames))
        return hashlib.blake2b(content, **sizes)

    monkeypatch.setattr("tests.support.faults.hashlib", SimpleNamespace(blake2b=digest))
    record.add(7, b"one")
    record.add(8, b"two")
    assert counted == [0, 1]  # who waits for the second frame and reads the digests then has both
    assert record.frames == [7, 8]
    assert len(record.digests) == 2


def test_schedules_of_faults_repeat_and_differ_by_seed():
    assert schedule(3, 500, 8) == schedule(3, 500, 8) != schedule(4, 500, 8)
    assert all(2 <= fault.tick < 500 for fault in schedule(5, 500, 50))


def test_a_tick_without_any_node_stops_the_run_and_says_who_is_missing():
    cluster = Cluster(timeouts=Timeouts(no_node_s=0.5))
    try:
        cluster.main._placed["node-7"] = None
        with RawClient(Doors(cluster.main.port, cluster.main.stream_port)) as client:
            synchronous(client)
            (car,) = spawn_cars(client, 1)
            record = spawn(client, "sensor.camera.rgb", transform(1.5, 0.0, 2.0), parent=car, **RGB)
            with listen(Doors(cluster.main.port, cluster.main.stream_port), stream_of(record)):
                error, result = client.ask("tick_cue")
        words = str(error or result)
        assert "missing is node-7" in words
        wait_for(lambda: cluster.stopped, "it stops")  # told by another thread than the one that answered
        assert "no node to draw them" in cluster.stopped[0]
    finally:
        cluster.main._placed.clear()
        cluster.close()


def test_a_tick_waits_for_a_node_that_is_on_its_way():
    cluster = Cluster()
    try:
        doors = Doors(cluster.main.port, cluster.main.stream_port)
        with RawClient(doors) as client:
            synchronous(client)
            (car,) = spawn_cars(client, 1)
            record = spawn(client, "sensor.camera.rgb", transform(1.5, 0.0, 2.0), parent=car, **RGB)
            with listen(doors, stream_of(record)) as there:
                later = threading.Timer(0.3, cluster.add)
                later.start()
                frame = client.value("tick_cue")
                later.join()
                assert int.from_bytes(there.message()[8:16], "little") == frame
    finally:
        cluster.close()


def test_real_time_counts_what_is_late_and_what_is_left_out():
    cluster = Cluster()
    try:
        cluster.add(handicap=40.0)
        doors = Doors(cluster.main.port, cluster.main.stream_port)
        with RawClient(doors) as client:
            (car,) = spawn_cars(client, 1)
            for _ in range(3):
                size = {"image_size_x": "200", "image_size_y": "150"}
                record = spawn(client, "sensor.camera.rgb", transform(1.5, 0.0, 2.0), parent=car, **size)
            with listen(doors, stream_of(record)) as there:
                frames = [int.from_bytes(there.message()[8:16], "little") for _ in range(4)]
                assert frames == sorted(set(frames))
                # As published: ticks go on, and another thread counts a frame for all first, for its node afterwards.
                wait_for(lambda: any(node.dropped_frames for node in cluster.main.status().nodes), "frames are left out")
                wait_for(lambda: any(node.late_frames for node in cluster.main.status().nodes), "frames are late")
                status = cluster.main.status()
                assert status.mode == "real time"
                assert status.worst_lateness_s > 0.0
                assert status.late_frames > 0
                assert status.dropped_frames > 0
                assert status.nodes[0].late_frames > 0
                assert status.nodes[0].dropped_frames > 0
    finally:
        cluster.close()


def test_no_node_outlives_a_main_server_that_is_killed(tmp_path):
    import subprocess
    import sys

    import psutil

    process = subprocess.Popen(
        [sys.executable, "-m", "samepath", "cluster", "start", "--nodes", "2", "--placement", "processes", "--port", "0",
         "--page-port", "0", "--link-port", "0", "--run", str(tmp_path / "run")],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(iter(process.stderr.readline, "")))
    reader.start()
    try:
        wait_for(lambda: sum("has joined" in line for line in lines) == 2 or process.poll() is not None, lines, 300.0)
        assert process.poll() is None, lines
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) >= 2
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    psutil.wait_procs(children, timeout=60)
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    reader.join(60)
    process.stderr.close()
