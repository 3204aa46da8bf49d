"""The same bytes from one server and from any cluster, through whichever node one looks."""

import pytest

pytest.importorskip("numba")
pytest.importorskip("zmq")

from tests.support.clustering import Cluster, clustered, wait_for
from tests.support.scenes import Doors, scenario
from tests.support.serving import served


@pytest.fixture(scope="module")
def alone():
    """What a single server sends."""
    with served() as server:
        return scenario(server)


def main_doors(cluster):
    return Doors(cluster.main.port, cluster.main.stream_port)


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_cluster_sends_what_a_single_server_sends(alone, nodes):
    with clustered(nodes) as cluster:
        assert scenario(cluster) == alone
        status = cluster.main.look()
        assert status.frames == 12 * 10
        assert status.desynchronised == 0
        assert status.late_frames == status.dropped_frames == 0
        wait_for(lambda: cluster.main.counters.compared >= 12 * nodes, "every node's state of every tick is compared")
        drawn = [node.frames for node in status.nodes]
        assert all(drawn), drawn
        assert sum(drawn) == 120


def test_main_and_nodes_show_the_same_to_clients_of_either(alone):
    with clustered(2) as cluster:
        assert scenario(main_doors(cluster), other_doors=cluster) == alone


def test_frames_for_clients_of_the_node_that_draws_them_never_reach_the_main_server(alone):
    with clustered(1) as cluster:
        counts = cluster.main.link.counts
        assert scenario(cluster.nodes[0]) == alone
        assert (counts.shared_bytes, counts.passed_bytes) == (0, 0)
        assert counts.wire_bytes < 100_000


@pytest.mark.parametrize("policy", ["random", "round-robin"])
def test_frames_for_clients_of_another_node_go_from_node_to_node(alone, policy):
    """Whoever listens is at one node or at another, and who draws is decided without regard for that."""
    with clustered(3, main_changes={"policy": policy}) as cluster:
        assert scenario(cluster.nodes[0], other_doors=cluster.nodes[1]) == alone
        counts = cluster.main.link.counts
        # All that the main server looked at itself was who needs what: the first frame of each pair of nodes comes by way of
        # it, as the reader does not know the writer's memory yet.
        assert counts.passed_bytes > 0.5 * counts.shared_bytes > 0


def test_bytes_are_the_same_without_shared_memory(alone):
    with clustered(0, main_changes={"shared_memory": False}) as cluster:
        cluster.add()
        cluster.add()
        assert scenario(cluster, other_doors=cluster.nodes[0]) == alone
        assert cluster.main.link.counts.shared_bytes == 0


def test_a_node_of_another_machine_gets_its_bytes_over_the_wire(alone):
    with clustered(1) as cluster:
        cluster.add(shared_memory=False)
        link = cluster.main.link
        assert [link.is_local(member.peer) for member in cluster.main.shell.members()] == [True, False]
        assert scenario(main_doors(cluster)) == alone


def test_round_robin_and_threads_change_no_byte(alone):
    cluster = Cluster(main_changes={"policy": "round-robin"})
    try:
        cluster.add(threads=2)
        cluster.add()
        assert scenario(cluster) == alone
    finally:
        cluster.close()


def test_nodes_come_and_go_while_it_drives(alone):
    with clustered(1) as cluster:
        found = []

        def change(tick):
            if tick == 3:
                cluster.add()
            if tick == 6:
                cluster.nodes[0].stop()

        found = scenario(main_doors(cluster), before_tick=change)
        assert found == alone
        assert [member.name for member in cluster.main.shell.members()] == ["node-2"]


def test_a_drained_node_draws_no_more_and_goes(alone):
    with clustered(2) as cluster:

        def change(tick):
            if tick == 4:
                assert "nothing more" in cluster.main.drain("node-1")
                wait_for(cluster.nodes[0].ended.done, "the drained node goes")

        assert scenario(main_doors(cluster), before_tick=change) == alone
        assert cluster.nodes[0].ended.result() == 0
        assert any("it was drained" in line for line in cluster.lines)
