"""The table of simulators: name -> import path, plus those that other packages announce as entry points."""

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Final

from samepath.base.errors import SimulatorError
from samepath.base.suggest import unknown
from samepath.simulators.interface import Simulator

ENTRY_POINT_GROUP: Final = "samepath.simulators"

BUILT_IN: Final[Mapping[str, str]] = {
    "samepath": "samepath.simulators.samepath:Samepath",
    "samepath-game-loop": "samepath.simulators.samepath.game_loop:SamepathGameLoop",
    "babylon": "samepath.simulators.babylon:Babylon",
    "carla": "samepath.simulators.carla:Carla",
    "airsim": "samepath.simulators.airsim:AirSim",
    "beamng": "samepath.simulators.beamng:BeamNG",
    "godot": "samepath.simulators.godot:Godot",
    "gymnasium": "samepath.simulators.gymnasium:Gymnasium",
    "metadrive": "samepath.simulators.metadrive:MetaDrive",
    "mujoco": "samepath.simulators.mujoco:MuJoCo",
    "panda3d": "samepath.simulators.panda3d:Panda3D",
    "pymunk": "samepath.simulators.pymunk:Pymunk",
    "torcs": "samepath.simulators.torcs:Torcs",
    "sumo": "samepath.simulators.sumo:Sumo",
    "command": "samepath.simulators.command:Command",
    "control-exact": "samepath.simulators.controls:Exact",
    "control-gaussian": "samepath.simulators.controls:Gaussian",
    "control-rare": "samepath.simulators.controls:Rare",
    "control-two-outcomes": "samepath.simulators.controls:TwoOutcomes",
    "control-late-bystander": "samepath.simulators.controls:LateBystander",
    "control-ends-early": "samepath.simulators.controls:EndsEarly",
    "control-destroyed": "samepath.simulators.controls:Destroyed",
    "control-leaky": "samepath.simulators.controls:Leaky",
    "control-below-resolution": "samepath.simulators.controls:BelowResolution",
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
