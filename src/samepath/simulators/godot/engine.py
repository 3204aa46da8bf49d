"""What the project tells from inside Godot, in our frame and units. Nothing is rounded on the way.

Godot's numbers have 32 bits; they are widened. A car is where the middle of its mass is, on the ground: x_m and y_m are the
engine's own, z_m is less by the height that the middle has in a car at rest.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from samepath.simulators.godot.scene import centre_of_mass_m
from samepath.simulators.godot.settings import NAME, STEPS_PER_TICK
from samepath.simulators.processes.axes import CAR, rows
from samepath.simulators.processes.telling import REASONS, Reader
from samepath.simulators.scripts import Role


def reader_of(roles: Sequence[Role]) -> Reader:
    """Return who reads the lines of a run with these cars."""
    return Reader(NAME, CAR, [role.number for role in roles], STEPS_PER_TICK, REASONS)


def states(reader: Reader, roles: Sequence[Role]) -> NDArray[np.float64]:
    """Return what was told: float64[tick, car, channel]."""
    return rows(reader.cars(), np.array([centre_of_mass_m(role) for role in roles]))
