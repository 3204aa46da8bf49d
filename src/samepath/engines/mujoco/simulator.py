"""The adapter of MuJoCo: scripts of vehicles on a plain, in fixed steps or in a loop on the wall clock."""

from collections.abc import Mapping
from typing import ClassVar

from samepath.engines.in_process import InProcessSettings, InProcessSimulator, InProcessWorld
from samepath.engines.interface import GAME_LOOP, SYNCHRONOUS, Scalar
from samepath.scenarios.scripts import Script


class MuJoCo(InProcessSimulator):
    """Vehicles of a body, springs, knuckles and wheels, in double precision."""

    name = "mujoco"
    summary = "MuJoCo, vehicles on four sprung wheels: synchronous, or a loop on the wall clock; only the first promises bits"
    package = "mujoco"
    oldest = (3, 2)
    modes = (SYNCHRONOUS, GAME_LOOP)
    own_settings: ClassVar[Mapping[str, Scalar]] = {"substeps": 10, "max_steps": 20}

    def world(self, script: Script, settings: InProcessSettings, values: Mapping[str, Scalar]) -> InProcessWorld:
        """Set up a script in MuJoCo."""
        from samepath.engines.mujoco.engine import MujocoWorld

        return MujocoWorld(script, settings)
