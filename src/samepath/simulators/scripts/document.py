"""A script as JSON, for programs in other languages. Its shape has a version; ``docs/engines/scripts.md`` explains its keys."""

import json
from dataclasses import asdict
from typing import Any, Final

from samepath.simulators.scripts.driving import follower_of
from samepath.simulators.scripts.records import Role, Script

FORMAT: Final = "samepath-script"
VERSION: Final = 1


def document(script: Script) -> dict[str, Any]:
    """Return a script as plain data: actors instead of roles, and each vehicle's track, worked out."""
    plain = asdict(script)
    del plain["roles"]
    actors = [_actor(role, script.step_s) for role in script.roles]
    return {"format": FORMAT, "version": VERSION, **plain, "actors": actors}


def _actor(role: Role, control_s: float) -> dict[str, Any]:
    left_out = ("number", "look_ahead_m")  # the first is called id, the second is one of driving's
    plain = {"id": role.number, **{name: value for name, value in asdict(role).items() if name not in left_out}}
    if role.wheels is not None:
        # Where to be and how fast: whoever follows it needs neither interpolate nor look at bends.
        follower = follower_of(role, role.wheels.chassis, control_s)
        points, speeds = follower.path.points, follower.speeds_mps
        plain["track"] = [[x_m, y_m, speed_mps] for (x_m, y_m), speed_mps in zip(points, speeds, strict=True)]
    return plain


def to_json(script: Script) -> str:
    """Return the document as text; the same script is always the same text, and numbers are exact."""
    return json.dumps(document(script), allow_nan=False)
