"""What meddles with the world before each step of physics."""

from typing import Protocol

from samepath.sim.scenarios.simulation import Simulation


class Disturbance(Protocol):
    """Called before every step of a game loop, in the order in which the loop was given them."""

    def before_step(self, simulation: Simulation) -> None:
        """Push, or change what is stored."""

    def close(self) -> None:
        """Let go of everything."""
