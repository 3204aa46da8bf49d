"""Wind on a vehicle's hull, summed over its panels in order or as threads finish (``parallel-accumulation``, IV-A and IV-B).

Addition of floats is not associative: (x + y) + z and x + (y + z) may differ in the last bit. A sum in a fixed order repeats
that error exactly; a sum in the order in which parallel workers happen to finish does not.
"""

import itertools
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Lock
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.base.trig import sincos_deg
from samepath.sim.scenarios.simulation import Simulation
from samepath.sim.world.catalogue import VehicleType
from samepath.sim.world.records import ActorState, Vector

AIR_KGPM3: Final = 1.2
WIND_MPS: Final = (3.0, -4.0)
_WORKERS: Final = 4
_POINTS: Final = 512

Floats = NDArray[np.float64]


class Panels:
    """A steady wind presses on ``count`` panels around every vehicle: f = 1/2 rho A (v_rel . n)^2 n where it meets them.

    The pressure on a panel is the mean over 512 points of it, which is the work that is shared out. ``parallel`` workers add
    what they have as soon as they have it, as atomic additions on a GPU do; otherwise panels are added in order.
    Either way the sum is of 32-bit floats, the precision of the physics engine.
    """

    def __init__(self, count: int, *, parallel: bool) -> None:
        headings = np.arange(count) * (360.0 / count)
        turns = [sincos_deg(float(one)) for one in headings]
        self._normals = [(cosine, sine) for sine, cosine in turns]
        self._area_m2 = 12.0 / count
        self._weights: Floats = np.linspace(0.5, 1.5, _POINTS)
        self._pool = ThreadPoolExecutor(_WORKERS) if parallel else None

    def before_step(self, simulation: Simulation) -> None:
        """Press."""
        world = simulation.world
        for actor in world.actors:
            if isinstance(world.kind(actor.id), VehicleType):
                world.add_force(actor.id, self._force(world.state(actor.id)))

    def close(self) -> None:
        """End the workers."""
        if self._pool is not None:
            self._pool.shutdown()

    def _force(self, state: ActorState) -> Vector:
        sine, cosine = sincos_deg(state.pose.yaw_deg)
        wind_x, wind_y = WIND_MPS[0] - state.velocity_mps.x, WIND_MPS[1] - state.velocity_mps.y
        relative = (wind_x * cosine + wind_y * sine, wind_y * cosine - wind_x * sine)
        forward, right = self._summed(relative) if self._pool is None else self._raced(self._pool, relative)
        return Vector(forward * cosine - right * sine, forward * sine + right * cosine)

    def _panel(self, index: int, relative: tuple[float, float]) -> tuple[float, float]:
        x, y = self._normals[index]
        into_mps = relative[0] * x + relative[1] * y
        if into_mps >= 0.0:
            return 0.0, 0.0
        local = np.multiply(self._weights, into_mps)
        force_n = 0.5 * AIR_KGPM3 * self._area_m2 * float(np.multiply(local, local).sum()) / _POINTS
        return -force_n * x, -force_n * y

    def _summed(self, relative: tuple[float, float]) -> tuple[float, float]:
        forward = right = np.float32(0.0)
        for index in range(len(self._normals)):
            x, y = self._panel(index, relative)
            forward += np.float32(x)
            right += np.float32(y)
        return float(forward), float(right)

    def _raced(self, pool: ThreadPoolExecutor, relative: tuple[float, float]) -> tuple[float, float]:
        total, lock, begin = [np.float32(0.0), np.float32(0.0)], Lock(), Barrier(_WORKERS)
        indices = itertools.count()

        def work() -> None:
            begin.wait()
            while (index := next(indices)) < len(self._normals):
                x, y = self._panel(index, relative)
                with lock:
                    total[0] += np.float32(x)
                    total[1] += np.float32(y)

        for one in [pool.submit(work) for _ in range(_WORKERS)]:
            one.result()
        return float(total[0]), float(total[1])
