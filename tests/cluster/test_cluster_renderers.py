"""Nodes that draw on a graphics card beside nodes that do not: one cluster, the bytes of one server. The card is emulated."""

import shutil

import pytest

pytest.importorskip("numba")
pytest.importorskip("zmq")

from samepath.cluster.running import ClusterPlan
from samepath.core.errors import InputError
from samepath.simulator.sensors.cuda import rays, renderer
from samepath.simulator.sensors.cuda.driver import CardError
from samepath.simulator.sensors.cuda.host_device import COMPILER
from tests.support.clustering import Cluster
from tests.support.emulated_card import EmulatedCard
from tests.support.scenes import scenario
from tests.support.serving import served

needs_compiler = pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"{COMPILER} is not installed")


@pytest.fixture(scope="module")
def alone():
    """What a single server sends."""
    with served() as server:
        return scenario(server)


@pytest.fixture
def cards(monkeypatch):
    """The cards that were opened; whoever asks for NVIDIA's driver gets another emulated one."""
    opened = []

    def card():
        opened.append(EmulatedCard())
        return opened[-1]

    monkeypatch.setattr(renderer, "CudaDriver", card)
    monkeypatch.setattr(rays, "CudaDriver", card)
    return opened


def mixed(**changes):
    # In turn, so that both kinds draw, however slow an emulated card is.
    cluster = Cluster(main_changes={"policy": "round-robin"}, **changes)
    cluster.add(renderer="cuda")
    cluster.add(renderer="software")
    return cluster


@needs_compiler
def test_a_node_with_a_card_and_one_without_send_what_a_single_server_sends(alone, cards):
    cluster = mixed()
    try:
        assert scenario(cluster) == alone
        status = cluster.main.look()
        assert all(node.frames for node in status.nodes)
        assert status.desynchronised == 0
    finally:
        cluster.close()
    launched = {kernel for card in cards for kernel in card.launched}
    assert {"paint", "ray_cast"} <= launched, "cameras and rays were on the card"


@needs_compiler
def test_a_node_whose_card_is_lost_goes_on_with_the_same_bytes_and_says_so(alone, cards):
    cluster = mixed()
    try:
        for card in cards:
            card.lost = True
        assert scenario(cluster) == alone
        assert all(node.frames for node in cluster.main.look().nodes)
        said = [line for line in cluster.lines if "in software from now on, with the same bytes" in line]
        # Once for cameras and once for rays.
        assert [line.split()[1] for line in sorted(said)] == ["cameras", "rays"], cluster.lines
    finally:
        cluster.close()


def test_a_node_without_a_card_draws_in_software_and_says_so(alone, monkeypatch):
    def none():
        raise CardError("renderer 'cuda' needs an NVIDIA card, but this machine shows none: draw in software")

    monkeypatch.setattr(renderer, "CudaDriver", none)
    monkeypatch.setattr(rays, "CudaDriver", none)
    cluster = mixed()
    try:
        assert scenario(cluster) == alone
        assert any("cameras are drawn in software: renderer 'cuda' needs an NVIDIA card" in line for line in cluster.lines)
    finally:
        cluster.close()


def test_a_cluster_takes_no_renderer_that_promises_no_bytes():
    with pytest.raises(InputError, match="one of software, cuda, auto was wanted for a cluster's nodes, but 'opengl' came"):
        ClusterPlan(renderer="opengl")
