"""The tests of CARLA's own client, unchanged, against a node of a two-node cluster instead of a server."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("carla")
pytest.importorskip("numba")
pytest.importorskip("zmq")
sys.path.insert(0, str(Path(__file__).parents[1] / "server"))

import test_wheel
import test_wheel_sensors
from clustering import clustered
from test_wheel_sensors import *  # noqa: F403, I001 - the fixture of the other one is to count
from test_wheel import *  # noqa: F403


@pytest.fixture(autouse=True)
def _on_a_node(monkeypatch):
    for module in (test_wheel, test_wheel_sensors):
        monkeypatch.setattr(module, "served", clustered)
