"""Clients that are killed while the world makes their tick: the tick is made, others go on, nothing of the dead is left."""

import os
import signal
import socket
import struct
import subprocess
import sys
import threading

import msgpack
import pytest

from samepath.core.streams import stream
from samepath.simulator.server import ticking
from tests.support.serve_processes import until
from tests.support.serving import RawClient, RawListener, described, served

WAIT_S = 60.0
SYNCHRONOUS = [True, False, [True, 0.05], True, 0.01, 10, 0.0, False, 0.0, 0.0, True]
# Sends calls as fast as it can and reads nothing.
CLIENT = """
import socket, sys
line = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
line.sendall(bytes.fromhex(sys.argv[2]))
print("sent", flush=True)
sys.stdin.read()
"""


def reset(line):
    """Close a connection as the kernel does for a killed process that has not read its answers."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line.close()


def test_a_process_that_is_killed_while_its_tick_is_made_leaves_a_world_that_goes_on(monkeypatch):
    inside, go_on = threading.Event(), threading.Event()
    real = ticking._carry

    def slow(episode):
        if not go_on.is_set() and episode.settings.synchronous_mode:
            inside.set()
            assert go_on.wait(WAIT_S)
        real(episode)

    with served() as server, RawClient(server) as good:
        good.ask("set_episode_settings", SYNCHRONOUS)
        frame = server._runner.episode.frame
        monkeypatch.setattr(ticking, "_carry", slow)
        ticks = b"".join(msgpack.packb([0, number, "tick_cue", [[False]]]) for number in range(3))
        command = [sys.executable, "-c", CLIENT, str(server.port), ticks.hex()]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
            assert client.stdout.readline() == b"sent\n"
            assert inside.wait(WAIT_S)
            os.kill(client.pid, signal.SIGKILL)
            client.wait()
        go_on.set()
        assert frame < good.value("tick_cue") <= frame + 4
        # What had arrived is done, also after the death of the one who asked.
        until(lambda: server._runner.episode.frame == frame + 4, "the ticks of both")
        assert server.failures.empty()
        assert not [line for line in server.lines if "error of ours" in line]


@pytest.mark.parametrize("listens", [False, True])
def test_clients_that_vanish_at_any_byte_cost_nobody_else_a_tick(listens):
    chance = stream(5, "vanishing clients", int(listens))
    with served() as server, RawClient(server) as good:
        good.ask("set_episode_settings", SYNCHRONOUS)
        spot = good.value("get_map_info")[1][0]
        car = good.value("spawn_actor", described("vehicle.audi.tt"), spot)[0]
        place = [[0.0, 0.0, 2.0], [0.0, 0.0, 0.0]]
        imu = good.value("spawn_actor_with_parent", described("sensor.other.imu"), place, car, 0, "")
        episode = server._runner.episode
        stream_id = episode.actors.find(imu[0]).stream_id
        made = good.value("tick_cue")
        one = msgpack.packb([0, 1, "tick_cue", [[False]]])
        for _ in range(60):
            with RawClient(server) as bad:
                if listens:
                    bad.value("get_sensor_token", stream_id)
                    listener = RawListener(server, stream_id)
                size = int(chance.integers(1, 3 * len(one)))
                bad.socket.sendall((one * 3)[:size])
                reset(bad.socket)
                if listens:
                    reset(listener.socket)
            before = made
            made = good.value("tick_cue")
            assert before < made <= before + 4
        assert server.failures.empty()
        assert len(episode.connections.callers) <= 2
        assert not [line for line in server.lines if "error of ours" in line]
