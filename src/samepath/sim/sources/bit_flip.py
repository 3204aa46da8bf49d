"""A single event upset: one bit of one number in memory turns over (``bit-flip``, Section IV-D: memory without ECC)."""

from typing import Final

import numpy as np

from samepath.base.streams import stream, unseeded
from samepath.sim.scenarios.simulation import Simulation

LOW_BITS: Final = 8
_NUMBERS: Final = ("x_m", "y_m", "x", "y", "z")


class BitFlip:
    """Turns over one of the 8 lowest mantissa bits of one number of one actor's state, once, before a tick drawn in advance.

    Physics holds its state in 32-bit floats, so a bit of such a float is turned. With ``seed`` None the cosmic ray comes from
    the operating system's entropy; with a seed it strikes the same place every time. A flip may be masked: a walker's velocity
    along the ground is set anew in every step, so of walkers only the position is struck.
    """

    def __init__(self, ticks: int, seed: int | None) -> None:
        self._generator = unseeded() if seed is None else stream(seed, "bit-flip")
        self._tick = int(self._generator.integers(1, max(2, ticks)))
        self.struck: str | None = None

    def before_step(self, simulation: Simulation) -> None:
        """Strike, when the tick has come and somebody is there to be struck."""
        world = simulation.world
        if self.struck is not None or world.tick_count < self._tick or not world.actors:
            return
        draw = self._generator
        actor = world.actors[int(draw.integers(len(world.actors)))]
        walks = actor.type.startswith("walker.")
        name = _NUMBERS[int(draw.integers(2 if walks else len(_NUMBERS)))]
        bit = int(draw.integers(LOW_BITS))
        state = world.state(actor.id)
        if name in ("x_m", "y_m"):
            world.set_pose(actor.id, state.pose._replace(**{name: flipped(getattr(state.pose, name), bit)}))
        else:
            velocity = state.velocity_mps
            world.set_velocity(actor.id, velocity._replace(**{name: flipped(getattr(velocity, name), bit)}))
        self.struck = f"bit {bit} of {name} of actor {actor.id} before tick {world.tick_count + 1}"

    def close(self) -> None:
        """Nothing to let go of."""


def flipped(value: float, bit: int) -> float:
    """Return the 32-bit float that differs from ``value`` in this bit of its mantissa."""
    bits = np.array([value], np.float32).view(np.uint32) ^ np.uint32(1 << bit)
    return float(bits.view(np.float32)[0])
