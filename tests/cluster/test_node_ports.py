"""A node whose port another program has waits for it; a node on a port that a user chose ends with an error."""

import socket
from contextlib import contextmanager

import pytest

pytest.importorskip("numba")
pytest.importorskip("zmq")

from samepath.cluster.node import LEFT
from samepath.cluster.placement import child
from samepath.cluster.placement.records import NodeKeys, NodeSpec
from samepath.core.errors import InputError
from samepath.core.network import PortTakenError
from tests.support.clustering import Cluster, ThreadedNode, wait_for


@contextmanager
def two_ports(taken):
    """The first of two ports in a row, of which another program has one."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            kept, other = (first, second) if taken == 0 else (second, first)
            other.close()
            kept.listen(1)
            yield port, kept
            return


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    made.close()


@pytest.mark.parametrize("taken", [0, 1])
def test_a_node_waits_until_a_port_that_no_user_chose_is_free(cluster, taken):
    with two_ports(taken) as (port, other):
        node = ThreadedNode(cluster, "node-1", port=port, waits_for_port=True)
        cluster.nodes.append(node)
        wait_for(lambda: cluster.lines, "the node says that it waits")
        assert cluster.lines == [
            f"node-1: 127.0.0.1:{port} or {port + 1} is taken by another program: node-1 starts when both are free"
        ]
        other.close()
        wait_for(lambda: cluster.is_working("node-1"), cluster.lines, 300.0)
        assert (node.port, node.stream_port) == (port, port + 1)


def test_a_node_that_waits_for_its_port_ends_when_it_is_told_to(cluster):
    with two_ports(0) as (port, _):
        node = ThreadedNode(cluster, "node-1", port=port, waits_for_port=True)
        wait_for(lambda: cluster.lines, "the node says that it waits")
        assert node.stop() == LEFT


def test_a_node_on_a_port_that_a_user_chose_ends_with_one_line(cluster):
    with two_ports(1) as (port, _):
        node = ThreadedNode(cluster, "node-1", port=port)
        with pytest.raises(PortTakenError, match=f"127.0.0.1:{port + 1} cannot be served .*choose another --port"):
            node.ended.result(60)
        node._loop.close()


@pytest.mark.parametrize(("step", "waits"), [(2, True), (0, False)])
def test_who_chose_the_port_decides_whether_a_placed_node_waits(monkeypatch, step, waits):
    found = []

    def run_node(settings, _log):
        found.append(settings.waits_for_port)
        if not settings.waits_for_port:
            raise PortTakenError("127.0.0.1:5002 cannot be served")
        return LEFT

    monkeypatch.setattr("samepath.cluster.node.run_node", run_node)
    spec, keys = NodeSpec("node-1", 1, "tcp://127.0.0.1:9", port=5002, port_step=step), NodeKeys("m", "p", "s")
    if waits:
        assert child.become_node(spec, keys) == LEFT
    else:
        words = "port 5002 or 5003 of 127.0.0.1 is taken by another program: choose another --node-port"
        with pytest.raises(InputError, match=words):
            child.become_node(spec, keys)
    assert found == [waits]
