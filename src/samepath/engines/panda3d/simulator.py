"""The adapter of Panda3D: scripts of vehicles on a plain, in fixed steps, in a game loop or with a variable step."""

from collections.abc import Mapping

from samepath.engines.in_process import VARIABLE_STEP, InProcessSettings, InProcessSimulator, InProcessWorld
from samepath.engines.interface import GAME_LOOP, SYNCHRONOUS, Scalar
from samepath.scenarios.scripts import Script


class Panda3D(InProcessSimulator):
    """Bullet's ray-cast vehicles. Numbers are Bullet's own 32-bit floats, widened, after the step they belong to."""

    name = "panda3d"
    summary = "Panda3D with Bullet: synchronous, game loop or variable step; only synchronous steps promise bits"
    package = "panda3d"
    oldest = (1, 10, 13)
    modes = (SYNCHRONOUS, GAME_LOOP, VARIABLE_STEP)

    def world(self, script: Script, settings: InProcessSettings, values: Mapping[str, Scalar]) -> InProcessWorld:
        """Set up a script in Bullet."""
        from samepath.engines.panda3d.engine import PandaWorld

        return PandaWorld(script, settings)
