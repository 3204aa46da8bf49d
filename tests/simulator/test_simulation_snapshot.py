"""A snapshot of a running scenario holds who has met whom, scenery among them."""

from samepath.scenarios.model import load_scenario
from samepath.simulator.simulation import Simulation


def test_one_who_has_met_a_wall_and_somebody_can_be_kept():
    simulation = Simulation(load_scenario("table1-test2"))
    try:
        simulation.step()
        met = {(1, None, "wall"), (1, 2, ""), (1, None, "fence"), (2, None, "")}
        simulation._met = set(met)
        restored = Simulation.restore(simulation.snapshot())
        assert restored._met == met
        restored.close()
    finally:
        simulation.close()
