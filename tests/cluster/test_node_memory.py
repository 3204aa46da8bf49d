"""What a rendering node keeps for a client ends with the client, whatever the main server still owes it."""

import asyncio
from types import SimpleNamespace

import msgpack
import pytest

pytest.importorskip("numba")
pytest.importorskip("zmq")

from samepath.cluster import messages as m
from samepath.cluster.node import Node, NodeSettings
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.server.methods import methods
from samepath.simulator.server.rpc import Connection, RpcServer

REQUEST = msgpack.packb([0, 1, "get_spectator", [[False]]])


class Wire(asyncio.Transport):
    """A transport to nobody."""

    def __init__(self):
        super().__init__({"peername": ("127.0.0.1", 1)})

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def get_write_buffer_size(self):
        return 0

    def is_closing(self):
        return False

    def write(self, data):
        pass

    def abort(self):
        pass


def test_a_client_that_leaves_while_its_calls_are_with_the_main_server_is_forgotten():
    async def run():
        node = Node(NodeSettings("node-1", 1, "", "", "", ""), print)
        node._link = SimpleNamespace(wake=lambda: None, try_send=lambda *_: False)
        server = RpcServer(methods(), node._forward, lambda _: None, node._forward, node._gone, print, ServerLimits(), None)
        for _ in range(3):
            client = Connection(server)
            client.connection_made(Wire())
            client.data_received(REQUEST * 5)
            assert client.hold_bytes() > 0
            assert len(server.memory._holders) == 1
            client.connection_lost(None)
            assert client.hold_bytes() == 0
            assert not server.memory._holders
            assert not server.connections
        assert server.memory.held_bytes == 0
        assert not node._clients
        assert not node._client_numbers
        sent = [message for message, _ in node._outgoing]
        assert sum(isinstance(message, m.ClientCall) for message in sent) == 15
        assert [message.client for message in sent if isinstance(message, m.ClientGone)] == [1, 2, 3]
        # The main server's answers come all the same, and find nobody.
        node._answer_client(m.CallResult(1, 1), b"\xc0")

    asyncio.run(run())
