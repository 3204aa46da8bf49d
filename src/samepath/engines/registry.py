"""The table of simulators: name -> import path, plus those that other packages announce as entry points."""

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Final

from samepath.core.errors import SimulatorError, unknown
from samepath.engines.interface import Simulator

ENTRY_POINT_GROUP: Final = "samepath.simulators"

BUILT_IN: Final[Mapping[str, str]] = {
    "samepath": "samepath.engines.samepath:Samepath",
    "samepath-game-loop": "samepath.engines.samepath.game_loop:SamepathGameLoop",
    "babylon": "samepath.engines.babylon:Babylon",
    "carla": "samepath.engines.carla:Carla",
    "airsim": "samepath.engines.airsim:AirSim",
    "beamng": "samepath.engines.beamng:BeamNG",
    "godot": "samepath.engines.godot:Godot",
    "gymnasium": "samepath.engines.gymnasium:Gymnasium",
    "metadrive": "samepath.engines.metadrive:MetaDrive",
    "mujoco": "samepath.engines.mujoco:MuJoCo",
    "panda3d": "samepath.engines.panda3d:Panda3D",
    "pymunk": "samepath.engines.pymunk:Pymunk",
    "torcs": "samepath.engines.torcs:Torcs",
    "sumo": "samepath.engines.sumo:Sumo",
    "command": "samepath.engines.command:CommandSimulator",
    "control-exact": "samepath.engines.reference:Exact",
    "control-gaussian": "samepath.engines.reference:Gaussian",
    "control-rare": "samepath.engines.reference:Rare",
    "control-two-outcomes": "samepath.engines.reference:TwoOutcomes",
    "control-late-bystander": "samepath.engines.reference:LateBystander",
    "control-ends-early": "samepath.engines.reference:EndsEarly",
    "control-destroyed": "samepath.engines.reference:Destroyed",
    "control-leaky": "samepath.engines.reference:Leaky",
    "control-below-resolution": "samepath.engines.reference:BelowResolution",
}


def table() -> dict[str, str]:
    """Return every known name and its import path; nothing is imported."""
    announced = {point.name: point.value for point in entry_points(group=ENTRY_POINT_GROUP)}
    return {**announced, **BUILT_IN}


def create(name: str) -> Simulator:
    """Import and construct the simulator called ``name``; ``module:Class`` works too, for one that is not registered."""
    # Built-in names come first anyway; asking all installed packages takes milliseconds, which every worker would pay.
    target = BUILT_IN.get(name) or table().get(name, name if ":" in name else None)
    if target is None:
        raise unknown("simulator", name, table())
    module, _, attribute = target.partition(":")
    try:
        simulator = getattr(import_module(module), attribute)()
    except (ImportError, AttributeError) as error:
        raise SimulatorError(f"simulator {name!r} at {target} cannot be loaded: {error}") from error
    if not isinstance(simulator, Simulator):
        raise SimulatorError(f"simulator {name!r} at {target} is not a samepath Simulator")
    return simulator
