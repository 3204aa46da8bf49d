"""What a server has done before it says that it serves: all that a client's first calls would wait for."""

import socket

import msgpack
import pytest

from samepath.simulator.server import maps
from samepath.simulator.server.server import SimulatorServer
from tests.support.serve_processes import serve_pool
from tests.support.serving import served

pytest.importorskip("numba")


def test_the_mesh_that_every_client_asks_for_first_is_there_before_the_server_starts():
    maps.served_map.cache_clear()
    with served(map_name="t-junction") as server:
        assert "navigation" in vars(server._runner.episode.map)


def test_a_client_that_comes_while_the_map_is_built_is_let_in(monkeypatch):
    # CARLA's client tries to connect once: refused, it would wait for its whole time-out without a socket.
    waiting = []
    make_runner = SimulatorServer._make_runner

    def connect_first(self):
        waiting.append(socket.create_connection(("127.0.0.1", self._calls.port), timeout=5.0))
        return make_runner(self)

    monkeypatch.setattr(SimulatorServer, "_make_runner", connect_first)
    with served() as server, waiting[0] as early:
        early.sendall(msgpack.packb([0, 1, "version", [[False]]]))
        early.settimeout(60.0)
        assert early.recv(1)
        assert server.port == early.getpeername()[1]


@pytest.fixture(scope="module")
def pool():
    with serve_pool() as found:
        yield found


BUILD = "def build(log):\n    log('the code is built')\nsamepath.simulator.server.server.build_code = build"
FAIL = "def build(log):\n    raise MemoryError\nsamepath.simulator.server.server.build_code = build"


def place(server, words):
    (found,) = [number for number, line in enumerate(server.lines) if words in line]
    return found


def test_the_code_of_sensors_is_built_before_a_server_says_that_it_serves(pool, tmp_path):
    with pool.serve(tmp_path, first=BUILD) as server, server.ready().client() as client:
        assert place(server, "the code is built") < place(server, "serving map")
        assert client.value("version")


def test_a_server_that_is_told_so_serves_before_the_code_of_sensors_is_built(pool, tmp_path):
    with pool.serve(tmp_path, "--sensors-later", first=BUILD) as server, server.ready().client() as client:
        assert client.value("version")
        assert not [line for line in server.lines if "the code is built" in line]
        # What builds is a process of its own, which ends with the server.
        children = [child for child in server.children() if "samepath.simulator.sensors.building" in child.cmdline()]
        assert len(children) == 1
        server.signal(15)
        assert server.wait(60) == 0
        assert not children[0].is_running()


def test_a_server_whose_sensors_cannot_be_built_serves_the_rest(pool, tmp_path):
    with pool.serve(tmp_path, first=FAIL) as server, server.ready().client() as client:
        server.line("the code of cameras, LiDARs and radars cannot be built: MemoryError")
        assert client.value("version")
