"""Our scenario in Godot's terms: a document for the project, which builds the world from it."""

import json
from typing import Any, Final

from samepath.base.errors import InputError
from samepath.simulators.godot.settings import STEPS_PER_S, STEPS_PER_TICK, TICK_S, GodotSettings
from samepath.simulators.scripts import Role, Script, document

_GRAVITY_MPS2: Final = 9.81
# A car's springs, which scripts do not tell of. In Bullet's vehicle they count per kilogram of the whole car.
_CENTRE_OF_MASS: Final = 0.38  # of the car's height
_STIFFNESS_PER_S2: Final = 40.0
_COMPRESSION_PER_S: Final = 4.0
_RELAXATION_PER_S: Final = 6.0
_REST_M: Final = 0.25
_TRAVEL_M: Final = 0.2


def check_script(script: Script) -> Script:
    """Refuse what this project has no bodies for."""
    for role in script.roles:
        if role.kind != "vehicle":
            raise InputError(
                f"scenario {script.name}: vehicles were wanted, but actor {role.number} is a {role.kind}: "
                "Godot is driven with vehicles only, as in table1-test1 and table1-test2"
            )
    return script


def centre_of_mass_m(role: Role) -> float:
    """How high above the ground the middle of a car's mass is, which is where Godot has the car."""
    return _CENTRE_OF_MASS * role.body.height_m


def run_json(script: Script, settings: GodotSettings, last_tick: int | None, port: int = 0) -> str:
    """Return everything a run needs, as text; ``port`` is that of the external controller."""
    plain = document(script)
    for actor, role in zip(plain["actors"], script.roles, strict=True):
        actor["suspension"] = _suspension(role)
    plain |= {
        "steps_per_s": STEPS_PER_S,
        "steps_per_tick": STEPS_PER_TICK,
        "ticks": round(script.duration_s / TICK_S),
        "last_tick": last_tick or 0,
        "settle_steps": settings.settle_steps,
        "controller": settings.controller,
        "rendering": settings.rendering,
        "time_scale": settings.time_scale,
        "frame_sleep_us": settings.frame_sleep_us,
        "ticks_at_once": settings.ticks_at_once,
        "port": port,
    }
    return json.dumps(plain, allow_nan=False)


def _suspension(role: Role) -> dict[str, Any]:
    """Return springs on which a car stands with its wheels where the script has them."""
    radius_m = role.wheels.radius_m if role.wheels is not None else 0.0
    sag_m = _GRAVITY_MPS2 / (4 * _STIFFNESS_PER_S2)
    # Godot casts the ray of a wheel from a radius above its mount, but takes its length for that from the mount.
    ray_m = _REST_M + radius_m
    mount_m = (ray_m - sag_m) * (ray_m + radius_m) / ray_m - radius_m
    return {
        "centre_of_mass_m": centre_of_mass_m(role),
        "mount_m": mount_m,
        "rest_m": _REST_M,
        "travel_m": _TRAVEL_M,
        "stiffness_per_s2": _STIFFNESS_PER_S2,
        "compression_per_s": _COMPRESSION_PER_S,
        "relaxation_per_s": _RELAXATION_PER_S,
        "most_n": role.body.mass_kg * _GRAVITY_MPS2 * 2,
    }
