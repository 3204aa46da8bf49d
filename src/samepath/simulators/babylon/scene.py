"""Our scenario in Babylon's terms: a document for the project, which builds the world from it."""

import json
from typing import Final

from samepath.base.errors import InputError
from samepath.simulators.babylon.settings import STEPS_PER_S, STEPS_PER_TICK, TICK_S, BabylonSettings
from samepath.simulators.scripts import Role, Script, document

# Where the middle of the mass is, as a part of the height: low, as in a car.
_CENTRE_OF_MASS: Final = 0.38


def check_script(script: Script) -> Script:
    """Refuse what this project has no bodies for."""
    for role in script.roles:
        if role.kind != "vehicle":
            raise InputError(
                f"scenario {script.name}: vehicles were wanted, but actor {role.number} is a {role.kind}: "
                "Babylon.js is driven with vehicles only, as in table1-test1 and table1-test2"
            )
        if role.after_collision != "go on":
            raise InputError(
                f"scenario {script.name}: vehicles that go on after a collision were wanted, but actor {role.number} does not"
            )
    return script


def centre_of_mass_m(role: Role) -> float:
    """How high above the ground the middle of a car's mass is, which is where Havok has the car."""
    return _CENTRE_OF_MASS * role.body.height_m


def run_json(script: Script, settings: BabylonSettings, last_tick: int | None) -> str:
    """Return everything a run needs, as text."""
    plain = document(script)
    for actor, role in zip(plain["actors"], script.roles, strict=True):
        actor["centre_of_mass_m"] = centre_of_mass_m(role)
    plain |= {
        "steps_per_s": STEPS_PER_S,
        "steps_per_tick": STEPS_PER_TICK,
        "ticks": round(script.duration_s / TICK_S),
        "last_tick": last_tick or 0,
        "settle_steps": settings.settle_steps,
        "mode": settings.mode,
        "controller": settings.controller,
        "time_scale": settings.time_scale,
        "states_at_once": settings.states_at_once,
    }
    return json.dumps(plain, allow_nan=False)
