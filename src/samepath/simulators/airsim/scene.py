"""Our scenario in AirSim's terms, and back.

AirSim's frame is NED: x north, y east, z down, metres. Ours has the same x and y and z up; yaw turns the same way. Places come
relative to where a vehicle was put by settings.json, which are added here; heights are left relative to that.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from samepath.base.errors import SimulatorError
from samepath.base.trig import sincos_deg
from samepath.simulators.airsim.settings import AirSimSettings
from samepath.simulators.playing import Vector, angles_deg
from samepath.simulators.scripts import Place, Script

Quaternion = tuple[float, float, float, float]  # w, x, y, z


@dataclass(frozen=True)
class Home:
    """A vehicle of settings.json: its name, and where it starts, north and east of Player Start."""

    name: str
    north_m: float
    east_m: float


def homes_of(script: Script, settings: AirSimSettings, text: str) -> dict[int, Home]:
    """Return who plays whom, from the settings that the program says it has; refuse those a study cannot be run with."""
    where = f"settings.json of AirSim at {settings.address}"
    try:
        found = json.loads(text)
        cars = found.get("Vehicles") or {}
        clock, speed = str(found.get("ClockType", "")), float(found.get("ClockSpeed", 1.0))
        homes = {name: Home(name, float(one.get("X", 0.0)), float(one.get("Y", 0.0))) for name, one in cars.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise SimulatorError(f"{where} cannot be read ({error})") from error
    if found.get("SimMode") != "Car":
        raise SimulatorError(f'{where}: "SimMode": "Car" was wanted, but {found.get("SimMode")!r} is set')
    if settings.synchronous and clock != "SteppableClock":
        raise SimulatorError(
            f'{where}: "ClockType": "SteppableClock" was wanted, because any other clock goes on while the program is paused, '
            f"but {clock!r} is set"
        )
    if abs(speed - settings.clock_speed) > 1e-9:
        raise SimulatorError(f"{where}: ClockSpeed is {speed:g}, but time_scale is {settings.clock_speed:g}: set both alike")
    if len(settings.vehicles) != len(script.roles):
        raise SimulatorError(
            f"vehicles: {len(script.roles)} names were wanted for {script.name}, but {len(settings.vehicles)} came"
        )
    for name in settings.vehicles:
        if name not in homes:
            known = ", ".join(homes) or "none"
            raise SimulatorError(f"{where}: a vehicle {name} was wanted, but it has {known}: give their names as vehicles")
    return {role.number: homes[name] for role, name in zip(script.roles, settings.vehicles, strict=True)}


def pose_of(start: Place, home: Home, down_m: float) -> tuple[Vector, Quaternion]:
    """Return a start as AirSim takes it: relative to the vehicle's home, at the height it stands at."""
    sine, cosine = sincos_deg(start.yaw_deg / 2)
    return (start.x_m - home.north_m, start.y_m - home.east_m, down_m), (cosine, 0.0, 0.0, sine)


def state_of(home: Home, place: Vector, turn: Quaternion, velocity: Vector) -> dict[str, float]:
    """Return a vehicle in our frame and units."""
    w, x, y, z = turn
    # What the rotation makes of forward, right and down, in NED; only z changes its sign for us.
    forward = 1 - 2 * (y * y + z * z), 2 * (x * y + w * z), -2 * (x * z - w * y)
    right_z, up_z = -2 * (y * z + w * x), 1 - 2 * (x * x + y * y)
    roll, pitch, yaw = angles_deg(forward, right_z, up_z)
    return {
        "x_m": home.north_m + place[0],
        "y_m": home.east_m + place[1],
        "z_m": -place[2],
        "roll_deg": roll,
        "pitch_deg": pitch,
        "yaw_deg": yaw,
        "vx_mps": velocity[0],
        "vy_mps": velocity[1],
        "vz_mps": -velocity[2],
    }


def vector_of(value: Any, what: str) -> Vector:  # noqa: ANN401
    """Read a vector of the client's, which takes whatever a program sends."""
    x, y, z = _floats(value, ("x_val", "y_val", "z_val"), what)
    return x, y, z


def turn_of(value: Any) -> Quaternion:  # noqa: ANN401
    """Read a rotation of the client's."""
    w, x, y, z = _floats(value, ("w_val", "x_val", "y_val", "z_val"), "an orientation")
    return w, x, y, z


def _floats(value: Any, names: tuple[str, ...], what: str) -> list[float]:  # noqa: ANN401
    told: Mapping[str, Any] = getattr(value, "__dict__", {})
    found = [told.get(name) for name in names]
    good = [float(one) for one in found if isinstance(one, float | int) and math.isfinite(one)]
    if len(good) != len(names):
        raise SimulatorError(f"AirSim sent {str(told or value)[:80]!r} where {what} was wanted")
    return good
