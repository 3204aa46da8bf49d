"""The tests of CARLA's own client, unchanged, against a node of a two-node cluster instead of a server."""

import pytest

pytest.importorskip("carla")
pytest.importorskip("numba")
pytest.importorskip("zmq")

from tests.simulator.server import test_wheel, test_wheel_sensors
from tests.support.clustering import clustered

# All their tests; of the two helpers called ``run`` the fixture of test_wheel is the one that tests ask for by name.
globals().update({name: value for name, value in vars(test_wheel_sensors).items() if name.startswith("test_")})
globals().update({name: value for name, value in vars(test_wheel).items() if name.startswith("test_") or name == "run"})


@pytest.fixture(autouse=True)
def _on_a_node(monkeypatch):
    for module in (test_wheel, test_wheel_sensors):
        monkeypatch.setattr(module, "served", clustered)
