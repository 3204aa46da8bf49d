"""Who is let into a cluster: the wrong version, code, map, picture or key is refused, and both sides say why."""

import platform

import pytest

pytest.importorskip("numba")
pytest.importorskip("zmq")

from samepath.cluster import node
from samepath.cluster.identity import REFERENCE_PICTURES
from samepath.cluster.link.keys import make_keys
from samepath.cluster.link.main_link import MainLink
from samepath.cluster.main import MainServer
from samepath.cluster.node import LEFT, LOST, REFUSED
from samepath.cluster.settings import MainSettings
from samepath.core.errors import InputError
from samepath.simulator.server.rendering import LocalRenderer
from samepath.simulator.server.server import ServerSettings
from tests.support.clustering import Cluster, ThreadedNode, wait_for


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    made.close()


def refused(cluster, words, **changes):
    """Start a node that is to be refused; returns what it and the main server said."""
    started = ThreadedNode(cluster, changes.pop("name", "node-9"), **changes)
    assert started.ended.result(60) == REFUSED
    wait_for(lambda: any(words in line for line in cluster.lines), cluster.lines)
    assert not cluster.main.shell.members()
    return [line for line in cluster.lines if words in line]


def test_another_version_is_refused_by_name(cluster, monkeypatch):
    monkeypatch.setattr(node, "__version__", "0.0.1")
    lines = refused(cluster, "samepath 0.0.1")
    assert any(line.startswith("node node-9 was refused") for line in lines)
    assert any(line.startswith("node-9: the main server refused this node") for line in lines)


def test_another_fingerprint_is_refused_by_name(cluster, monkeypatch):
    monkeypatch.setattr(node, "fingerprint", lambda: "f" * 32)
    assert "numpy, numba, llvmlite or msgpack" in refused(cluster, "f" * 32)[0]


def test_another_map_is_refused_by_name(cluster, monkeypatch):
    monkeypatch.setattr(node, "map_digest", lambda _: "another")
    assert "its map t-junction is another one: another" in refused(cluster, "its map")[0]


def test_a_node_that_draws_another_picture_is_refused(cluster, monkeypatch):
    cluster.add()
    monkeypatch.setattr(node, "reference_picture", lambda _: "other")
    second = ThreadedNode(cluster, "node-2")
    assert second.ended.result(60) == REFUSED
    assert any("test picture" in line for line in cluster.lines)
    assert [member.name for member in cluster.main.shell.members()] == ["node-1"]


def test_a_key_that_nobody_knows_is_refused(cluster):
    cluster.keys = make_keys()
    known, cluster.main._known = cluster.main._known, lambda _: False
    stranger = ThreadedNode(cluster, "stranger")
    assert stranger.ended.result(60) == REFUSED
    assert any("key" in line for line in cluster.lines), cluster.lines
    cluster.main._known = known


def test_another_main_servers_key_is_refused(cluster):
    right, cluster.main.keys = cluster.main.keys, make_keys()
    lost = ThreadedNode(cluster, "lost")
    cluster.main.keys = right
    assert lost.ended.result(60) == REFUSED
    assert not cluster.main.shell.members()


def test_a_name_that_is_taken_is_refused(cluster):
    cluster.add("node-1")
    lines = []
    second = ThreadedNode(cluster, "node-1")
    assert second.ended.result(60) == REFUSED
    wait_for(lambda: any("there is a node called node-1 already" in line for line in cluster.lines), lines)


def test_two_main_servers_on_one_port_the_second_says_so(cluster):
    settings = MainSettings(server=ServerSettings(port=0), link_port=cluster.main.link.port)
    with pytest.raises(InputError, match="another main server"):
        cluster.loop.call(MainServer(settings, lambda _: None).start())
    settings = MainSettings(server=ServerSettings(port=cluster.main.port))
    with pytest.raises(InputError, match="cannot be served"):
        cluster.loop.call(MainServer(settings, lambda _: None).start())


def test_a_node_ends_when_its_main_server_has_gone(cluster):
    link = MainLink("127.0.0.1", 0, cluster.main.keys, lambda _: True)
    right, cluster.main.link = cluster.main.link, link
    started = ThreadedNode(cluster, "node-1")
    cluster.main.link = right
    wait_for(lambda: (link.poll(0.05), link.peers())[1], "the node is connected")
    link.close()
    assert started.ended.result(60) == LOST


def test_a_node_ends_well_when_it_is_told_to(cluster):
    started = cluster.add()
    assert started.stop() == LEFT
    wait_for(lambda: not cluster.main.shell.members(), "the main server knows")


def test_the_first_node_to_come_is_refused_too_if_it_draws_another_picture(cluster, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(node, "reference_picture", lambda _: "other")
        assert "its test picture is another one than that of this version: other" in refused(cluster, "test picture")[0]
    cluster.add("node-2")  # and does not decide what others are held against


def test_the_test_picture_is_the_one_that_is_written_down():
    """If the renderer draws other bytes on purpose, write down the digest that this says."""
    renderer = LocalRenderer()
    try:
        assert REFERENCE_PICTURES.get(platform.machine(), "") in (node.reference_picture(renderer), "")
    finally:
        renderer.close()
