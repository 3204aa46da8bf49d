"""The adapter of pymunk: scripts of vehicles seen from above, in fixed steps or in a game loop, with one thread or two."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from samepath.engines.in_process import InProcessSettings, InProcessSimulator, InProcessWorld
from samepath.engines.interface import GAME_LOOP, SYNCHRONOUS, Scalar, whole
from samepath.scenarios.scripts import Script


@dataclass(frozen=True)
class SolverSettings:
    """How Chipmunk solves a step: with one thread or two, and how often it goes through all joints and contacts.

    ``crates`` are loose ones, besides the vehicles: up to 50 joints and contacts, the second thread is left asleep.
    """

    threads: int
    iterations: int
    crates: int


def read_solver(values: Mapping[str, Scalar]) -> SolverSettings:
    """Check a study's plain values."""
    return SolverSettings(
        whole(values, "threads", 1, 2), whole(values, "iterations", 1, 1000), whole(values, "crates", 0, 10_000)
    )


class Pymunk(InProcessSimulator):
    """Chipmunk in double precision. With one thread and synchronous steps it promises bits, with two threads it does not."""

    name = "pymunk"
    summary = "pymunk (Chipmunk), vehicles seen from above: synchronous or game loop, one thread or two"
    package = "pymunk"
    oldest = (7, 0)
    modes = (SYNCHRONOUS, GAME_LOOP)
    channels = ("x_m", "y_m", "yaw_deg", "vx_mps", "vy_mps")
    own_settings: ClassVar[Mapping[str, Scalar]] = {"threads": 1, "crates": 0, "iterations": 10}

    def promises_bits(self, settings: InProcessSettings, values: Mapping[str, Scalar]) -> bool:
        """Threads of Chipmunk's solver write to the same bodies: who comes first is the machine's affair."""
        return settings.mode == SYNCHRONOUS and read_solver(values).threads == 1

    def world(self, script: Script, settings: InProcessSettings, values: Mapping[str, Scalar]) -> InProcessWorld:
        """Set up a script in Chipmunk."""
        from samepath.engines.pymunk.engine import PymunkWorld

        return PymunkWorld(script, settings, read_solver(values))
