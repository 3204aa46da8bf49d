"""What is to be played: a scenario of ours that a CARLA server can be asked for, and where on its map."""

import math
import re
from typing import Final

from samepath.base.errors import InputError
from samepath.simulators import scripts
from samepath.simulators.scripts import Place, Script

_SPAWN_POINT: Final = re.compile(r"\s*spawn\s*:\s*(\d{1,6})\s*")


def read_script(name_or_path: str) -> Script:
    """Read one of our scenarios or a file; what a server of somebody else cannot be asked for is refused."""
    script = scripts.read_script(name_or_path)
    where = f"scenario {script.name}"
    if script.boxes:
        raise InputError(f"{where}: boxes cannot be put into a CARLA world: use props, such as static.prop.streetbarrier")
    if script.end == "first-collision":
        raise InputError(f"{where}: end: last-waypoint or duration was wanted, because CARLA tells of collisions late")
    for index, role in enumerate(script.roles):
        if role.after_collision == "fall":
            raise InputError(f"{where}: actors[{index}]: after_collision: go on or remove was wanted: how to fall is CARLA's")
    return script


def read_anchor(text: str) -> int | Place | None:
    """Read ``spawn:12`` (a recommended spawn point of the map), ``x,y,yaw`` in metres and degrees, or nothing."""
    if not text.strip():
        return None
    match = _SPAWN_POINT.fullmatch(text)
    if match:
        return int(match[1])
    try:
        x_m, y_m, yaw_deg = (float(part) for part in text.split(","))
    except ValueError:
        x_m = math.nan
    if not (abs(x_m) <= 1e6 and abs(y_m) <= 1e6 and abs(yaw_deg) <= 1e6):
        raise InputError(f"anchor: spawn:12 or x,y,yaw such as 10.5,-3,90 was wanted, but {text!r} came")
    return Place(x_m, y_m, yaw_deg)
