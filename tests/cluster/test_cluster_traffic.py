"""The server's own traffic, drawn by any number of nodes: the same bytes."""

import pytest

pytest.importorskip("numba")
pytest.importorskip("zmq")

from samepath.simulator.maps import load_map
from samepath.simulator.server.maps import served_map
from samepath.simulator.traffic.traffic import TrafficSettings
from tests.support.clustering import clustered
from tests.support.scenes import EYES, scenario
from tests.support.serving import served

TOWN = {"map_name": "town", "traffic": TrafficSettings(vehicles=60, walkers=20, seed=1)}
SHORT = {"ticks": 6, "eyes": EYES[:2]}

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def town():
    """Worked out before a server is waited for: on a busy machine that takes longer than servers are given to begin."""
    served_map("town", load_map("town")).work_out()


def test_one_and_four_nodes_send_what_a_single_server_sends():
    with served(**TOWN) as server:
        alone = scenario(server, **SHORT)
    for nodes in (1, 4):
        with clustered(nodes, **TOWN) as cluster:
            assert scenario(cluster, **SHORT) == alone
            assert cluster.main.look().desynchronised == 0
    with served(**{**TOWN, "traffic": None}) as server:
        assert scenario(server, **SHORT) != alone, "the traffic must be seen, or nothing was compared"
