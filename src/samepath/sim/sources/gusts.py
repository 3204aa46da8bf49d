"""Gusts of wind from a seeded stream, or from none (``unseeded-random``, Section IV-E: control of pseudo-random numbers)."""

import numpy as np

from samepath.base.streams import stream, unseeded
from samepath.base.trig import sincos_deg
from samepath.sim.scenarios.simulation import Simulation
from samepath.sim.world.catalogue import VehicleType
from samepath.sim.world.records import Vector


class Gusts:
    """Pushes every vehicle sideways, in every step, by a normally distributed force of standard deviation ``size_n``.

    With a seed, the stream is named by vehicle and tick, and repeats. With ``seed`` None it comes from the operating system's
    entropy: the simulation is as it was, but nobody wrote down the seed.
    """

    def __init__(self, size_n: float, seed: int | None) -> None:
        self._size_n = size_n
        self._seed = seed

    def before_step(self, simulation: Simulation) -> None:
        """Blow."""
        world = simulation.world
        for actor in world.actors:
            if isinstance(world.kind(actor.id), VehicleType):
                force_n = self._size_n * float(self._generator(actor.id, world.tick_count).standard_normal())
                sine, cosine = sincos_deg(world.state(actor.id).pose.yaw_deg)
                world.add_force(actor.id, Vector(-force_n * sine, force_n * cosine))

    def close(self) -> None:
        """Nothing to let go of."""

    def _generator(self, actor_id: int, tick: int) -> np.random.Generator:
        return unseeded() if self._seed is None else stream(self._seed, "gust", actor_id, tick)
