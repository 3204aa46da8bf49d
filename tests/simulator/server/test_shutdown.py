"""SIGTERM and SIGINT end a server within five seconds, whatever it is doing: with code 0, no child left, its files whole.

Real processes and real signals. Five seconds is the promise itself, which is why there is a deadline here.
"""

import signal
import socket
import struct
from contextlib import ExitStack

import pytest

from samepath.simulator.carla.codec import stream_of
from samepath.simulator.carla.recorder_file import open_log
from samepath.simulator.carla.records import Settings, write_settings
from tests.support.processes_left import wait_until_gone
from tests.support.serve_processes import serve_pool, until
from tests.support.serving import described

PROMISE_S = 5.0
SIGNALS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
SYNCHRONOUS = write_settings(Settings(synchronous_mode=True, fixed_delta_seconds=0.05))
MOUNT = ((1.5, 0.0, 2.0), (0.0, 0.0, 0.0))
LANES = "".join(f'<lane id="-{k}" type="driving"><width sOffset="0" a="3" b="0" c="0" d="0"/></lane>' for k in range(1, 7))
# Thirty kilometres of bent motorway: nothing in it is out of bounds, and it takes many seconds to build.
SLOW_MAP = (
    '<OpenDRIVE><header revMajor="1" revMinor="4"/><road length="30000" id="7" junction="-1"><planView><geometry s="0" x="0" '
    'y="0" hdg="0" length="30000"><arc curvature="0.0001"/></geometry></planView><lanes><laneSection s="0"><center>'
    f'<lane id="0" type="none"/></center><right>{LANES}</right></laneSection></lanes></road></OpenDRIVE>'
)
MAP_PARAMETERS = [2.0, 50.0, 1.0, 0.6, True, True, True]


@pytest.fixture(scope="module")
def pool():
    with serve_pool() as found:
        yield found


def ends_well(server, number):
    """Send the signal; hold the server to its promise."""
    children = [child.pid for child in server.children()]
    server.signal(number)
    code = server.wait(PROMISE_S)
    assert code is not None, f"it is still there after {PROMISE_S:g} s: {server.lines}"
    assert code == 0, server.lines
    wait_until_gone(children)
    assert "samepath serve: stopping" in server.lines
    assert not [line for line in server.lines if "Traceback" in line or "Error" in line]


def with_cameras(client, count, width, height):
    """Put a vehicle with cameras on the map, in synchronous mode; the ids of their streams."""
    client.value("set_episode_settings", SYNCHRONOUS)
    points = client.value("get_map_info")[1]
    car = client.value("spawn_actor", described("vehicle.tesla.model3"), points[0])[0]
    camera = described("sensor.camera.rgb", image_size_x=width, image_size_y=height)
    made = [client.value("spawn_actor_with_parent", camera, MOUNT, car, 0, "") for _ in range(count)]
    return [stream_of(bytes(record[5])) for record in made]


def listening(server, client, stack, streams):
    """Listen to streams as CARLA's client does: ask for the token, then connect."""
    for stream_id in streams:
        client.value("get_sensor_token", stream_id)
    return [stack.enter_context(server.listener(stream_id)) for stream_id in streams]


@SIGNALS
def test_while_the_code_of_its_sensors_is_built(pool, tmp_path, number):
    building = "def build(log):\n    log('building')\n    import threading; threading.Event().wait()\n"
    with pool.serve(tmp_path, first=f"{building}samepath.simulator.server.server.build_code = build") as server:
        server.line("building")
        ends_well(server, number)
        assert not [line for line in server.lines if "serving map" in line]


@SIGNALS
def test_while_idle(pool, tmp_path, number):
    with pool.serve(tmp_path) as server, server.ready().client() as client:
        assert client.value("version") == "0.9.16"
        ends_well(server, number)


@SIGNALS
def test_in_a_tick_with_sensors(pool, tmp_path, number):
    with pool.serve(tmp_path) as server, server.ready().client() as client, ExitStack() as stack:
        streams = with_cameras(client, 2, 1280, 720)
        first, *_ = listening(server, client, stack, streams)
        for _ in range(3):
            client.send("tick_cue")
        first.message()  # so that the next tick is under way
        ends_well(server, number)


@SIGNALS
def test_while_a_map_is_tried(pool, tmp_path, number):
    with pool.serve(tmp_path) as server, server.ready().client() as client:
        client.send("copy_opendrive_to_file", SLOW_MAP, MAP_PARAMETERS)
        until(server.children, "the process that tries the map")
        ends_well(server, number)


@SIGNALS
def test_while_a_map_is_built(pool, tmp_path, number):
    # The server builds a map once another process has found that this can be done, which is left out here.
    with (
        pool.serve(tmp_path, first="map_trial.MapTrial.run = lambda *_: os.write(2, b'tried\\n') and None") as server,
        server.ready().client() as client,
    ):
        client.send("copy_opendrive_to_file", SLOW_MAP, MAP_PARAMETERS)
        server.line("^tried$")
        ends_well(server, number)


@SIGNALS
def test_in_a_backlog_of_calls(pool, tmp_path, number):
    with pool.serve(tmp_path) as server, server.ready().client() as first, ExitStack() as stack:
        first.value("set_episode_settings", SYNCHRONOUS)
        clients = [first, *(stack.enter_context(server.client()) for _ in range(7))]
        for client in clients:
            for _ in range(500):  # of which 64 wait for the world and the others on their way
                client.send("tick_cue")
        assert first.receive()[1] is None
        ends_well(server, number)


@SIGNALS
def test_in_a_backlog_of_ticks_with_cameras(pool, tmp_path, number):
    with pool.serve(tmp_path) as server, server.ready().client() as first, ExitStack() as stack:
        listening(server, first, stack, with_cameras(first, 2, 800, 600))
        clients = [first, *(stack.enter_context(server.client()) for _ in range(7))]
        for client in clients:
            for _ in range(64):
                client.send("tick_cue")
        assert first.receive()[1] is None
        ends_well(server, number)


@SIGNALS
def test_with_clients_that_do_not_read(pool, tmp_path, number):
    with pool.serve(tmp_path) as server, server.ready().client() as client, ExitStack() as stack:
        streams = with_cameras(client, 1, 1280, 720)
        listening(server, client, stack, streams)  # nobody ever reads from it
        for _ in range(4):
            client.value("tick_cue")
        deaf = stack.enter_context(server.client())
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(200):
            deaf.send("get_actor_definitions")
        assert client.value("version") == "0.9.16"
        ends_well(server, number)


@SIGNALS
def test_with_half_a_message_and_silent_connections(pool, tmp_path, number):
    with pool.serve(tmp_path) as server, server.ready().client() as client, ExitStack() as stack:
        client.socket.sendall(b"\x94\x00\x01\xdb\x00\x10\x00\x00half")
        for port in (server.port, server.stream_port):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
        reset = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        reset.close()
        ends_well(server, number)


@SIGNALS
def test_with_a_recording_open(pool, tmp_path, number):
    with pool.serve(tmp_path, "--data", "data") as server, server.ready().client() as client:
        client.value("set_episode_settings", SYNCHRONOUS)
        client.value("start_recorder", "run.log", True)
        for _ in range(5):
            client.value("tick_cue")
        ends_well(server, number)
    assert len(list(open_log(tmp_path / "data" / "run.log").frames())) >= 5


@SIGNALS
def test_with_a_journal_which_is_whole(pool, tmp_path, number):
    with pool.serve(tmp_path, "--journal", "journal") as server, server.ready().client() as client:
        client.value("set_episode_settings", SYNCHRONOUS)
        frames = [client.value("tick_cue") for _ in range(5)]
        for _ in range(3):
            client.send("tick_cue")
        ends_well(server, number)
    with pool.serve(tmp_path, "--journal", "journal", "--resume") as server, server.ready().client() as client:
        assert client.value("tick_cue") in range(frames[-1] + 1, frames[-1] + 5)
        ends_well(server, number)


@SIGNALS
def test_while_a_world_is_loaded(pool, tmp_path, number):
    with pool.serve(tmp_path) as server, server.ready().client() as client:
        client.send("load_new_episode", "double-mini-roundabout", True, 0xFFFF)
        ends_well(server, number)
