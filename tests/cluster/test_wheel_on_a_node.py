"""The tests of CARLA's own client, unchanged, against a node of a two-node cluster instead of a server."""

import pytest

pytest.importorskip("carla")
pytest.importorskip("numba")
pytest.importorskip("zmq")

from tests.simulator.server import test_wheel, test_wheel_sensors
from tests.support.clustering import clustered
from tests.support.serving import served

# All their tests but those of long drives, whose length is the server's affair and not the node's: see below. Of the two
# helpers called ``run`` the fixture of test_wheel is the one that tests ask for by name.
LONG = {
    test_wheel.test_a_thousand_ticks_twice_are_the_same_to_the_bit,
    test_wheel.test_a_hundred_vehicles_twice_are_the_same_to_the_bit,
}
for module in (test_wheel_sensors, test_wheel):
    globals().update({name: value for name, value in vars(module).items() if name.startswith("test_") and value not in LONG})
run = test_wheel.run


@pytest.fixture(autouse=True)
def _on_a_node(monkeypatch):
    for module in (test_wheel, test_wheel_sensors):
        monkeypatch.setattr(module, "served", clustered)


@pytest.mark.parametrize(("script", "map_name"), [("two_hundred_ticks", "t-junction"), ("hundred_vehicles", "town")])
def test_a_drive_through_a_node_is_to_the_bit_that_of_a_server(monkeypatch, run, script, map_name):
    through_a_node = run(script, map_name)
    monkeypatch.setattr(test_wheel, "served", served)
    assert run(script, map_name) == through_a_node
    assert through_a_node["vehicles"] == (100 if script == "hundred_vehicles" else 5)
