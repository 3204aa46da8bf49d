"""Our scenario for the project that runs in MetaDrive: the script as JSON, and how time is to pass.

The cars are MetaDrive's own, in its own size, weight and power; from the script they have start, track and law of driving.
"""

import json

from samepath.base.errors import InputError
from samepath.simulators.metadrive.settings import STEP_S, STEPS_PER_TICK, TICK_S, MetaDriveSettings
from samepath.simulators.scripts import Script, document


def check_script(script: Script) -> Script:
    """Refuse what the project has no bodies for."""
    for role in script.roles:
        if role.kind != "vehicle":
            raise InputError(
                f"scenario {script.name}: vehicles were wanted, but actor {role.number} is a {role.kind}: "
                "MetaDrive is driven with vehicles only, as in table1-test1 and table1-test2"
            )
    if script.boxes:
        raise InputError(f"scenario {script.name}: an open plain was wanted, but it has boxes: MetaDrive is driven without any")
    return script


def run_json(script: Script, settings: MetaDriveSettings, last_tick: int | None) -> str:
    """Return everything a run needs, as text."""
    plain = document(script) | {
        "mode": settings.mode,
        "step_s": STEP_S,
        "steps_per_tick": STEPS_PER_TICK,
        "ticks": round(script.duration_s / TICK_S),
        "last_tick": last_tick or 0,
        "settle_steps": settings.settle_steps,
        "control_s": settings.control_s,
        "time_scale": settings.time_scale,
        "frame_s": settings.frame_s,
        "max_steps": settings.max_steps,
        "ticks_at_once": settings.ticks_at_once,
    }
    return json.dumps(plain, allow_nan=False)
