"""One actor's body as the engine keeps it, and as plain data in a snapshot."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import rapier3d

from samepath.base.errors import SimulatorError
from samepath.sim.physics.frames import Quaternion, Triple
from samepath.sim.physics.wheels import fit_wheels
from samepath.sim.world.catalogue import ActorType, VehicleType
from samepath.sim.world.catalogue.packing import type_from, type_to
from samepath.sim.world.records import VehicleCommand, WalkerCommand

NOTHING: Final[Triple] = (0.0, 0.0, 0.0)
_COMMANDS: Final[dict[str, type[VehicleCommand | WalkerCommand]]] = {
    one.__name__: one for one in (VehicleCommand, WalkerCommand)
}


class BrokenActorsError(SimulatorError):
    """The state of some actors became infinite or no number; ``actors`` are their ids."""

    def __init__(self, actors: list[int]) -> None:
        super().__init__(f"the state of actors {actors} became infinite or no number: check forces and poses")
        self.actors = actors


class BodyState(NamedTuple):
    """A body after a step, in CARLA's frame; the rotation is Rapier's quaternion."""

    position_m: Triple
    rotation: Quaternion
    velocity_mps: Triple
    spin_radps: Triple


@dataclass
class Body:
    """An actor's body. Mutable: owned by the engine alone.

    ``friction`` None leaves every wheel its own. ``torque_nm`` is in Rapier's frame; both pushes last for the next tick.
    """

    kind: ActorType
    handle: Any
    vehicle: Any = None
    command: VehicleCommand | WalkerCommand | None = None
    gear: int = 1
    friction: float | None = None
    fallen: bool = False
    force_n: Triple = NOTHING
    torque_nm: Triple = NOTHING
    simulated: bool = True
    weight: float = 1.0

    @property
    def tyre_friction(self) -> float:
        """The friction of the tyres, all wheels taken together."""
        if self.friction is not None:
            return self.friction
        return self.kind.mean_friction if isinstance(self.kind, VehicleType) else 0.0

    def fit(self, friction: float | None) -> None:
        """Fit a vehicle's wheels."""
        if not isinstance(self.kind, VehicleType):
            raise SimulatorError(f"{self.kind.name} has no wheels")
        self.vehicle = fit_wheels(self.handle, self.kind, friction)
        self.friction = friction

    def to_data(self, number: int, blobs: list[bytes]) -> dict[str, Any]:
        """Return plain data; wheels are added to ``blobs``."""
        wheels = None
        if self.vehicle is not None:
            wheels = len(blobs)
            blobs.append(self.vehicle.to_bytes())
        return {
            "id": number,
            "type": type_to(self.kind),
            "handle": [self.handle.index, self.handle.generation],
            "wheels": wheels,
            "command": None if self.command is None else [type(self.command).__name__, self.command.__dict__],
            "gear": self.gear,
            "friction": self.friction,
            "fallen": self.fallen,
            "force_n": list(self.force_n),
            "torque_nm": list(self.torque_nm),
            "simulated": self.simulated,
            "weight": self.weight,
        }

    @classmethod
    def from_data(cls, data: dict[str, Any], blobs: list[bytes]) -> "Body":
        """Read what :meth:`to_data` wrote."""
        command, wheels = data["command"], data["wheels"]
        return cls(
            kind=type_from(data["type"]),
            handle=rapier3d.RigidBodyHandle.from_raw_parts(*data["handle"]),
            vehicle=None if wheels is None else rapier3d.DynamicRayCastVehicleController.from_bytes(blobs[wheels]),
            command=None if command is None else _COMMANDS[command[0]](**command[1]),
            gear=data["gear"],
            friction=data["friction"],
            fallen=data["fallen"],
            force_n=(data["force_n"][0], data["force_n"][1], data["force_n"][2]),
            torque_nm=(data["torque_nm"][0], data["torque_nm"][1], data["torque_nm"][2]),
            simulated=data["simulated"],
            weight=data["weight"],
        )
