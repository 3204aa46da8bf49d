"""What is to be played: a scenario of ours as roles on a map, moved to another place of it if asked."""

import math
import re
from dataclasses import dataclass, replace
from typing import Final

from samepath.base.errors import InputError
from samepath.base.trig import sincos_deg, wrap_deg
from samepath.sim.scenarios.model import ActorSpec, ScenarioSpec, load_scenario
from samepath.sim.world.catalogue import PropType, WalkerType, actor_type

Point = tuple[float, float]

_SPAWN_POINT: Final = re.compile(r"\s*spawn\s*:\s*(\d{1,6})\s*")


@dataclass(frozen=True)
class Place:
    """A point of a map and a heading there."""

    x_m: float
    y_m: float
    yaw_deg: float


@dataclass(frozen=True)
class Role:
    """An actor of a scenario: what it is, where it starts and where it goes. ``kind`` is vehicle, walker or prop."""

    number: int
    type: str
    kind: str
    start: Place
    path: tuple[Point, ...]
    speed_mps: float
    look_ahead_m: float
    start_s: float
    removed_when_hit: bool


@dataclass(frozen=True)
class Script:
    """A scenario. ``ends_early``: it is over when everybody has arrived."""

    name: str
    map: str
    duration_s: float
    roles: tuple[Role, ...]
    ends_early: bool


def read_script(name_or_path: str) -> Script:
    """Read one of our scenarios or a file; what a server of somebody else cannot be asked for is refused."""
    spec = load_scenario(name_or_path)
    _check(spec)
    roles = tuple(_role(actor) for actor in spec.actors)
    return Script(spec.name, spec.map, spec.duration, roles, spec.end == "last-waypoint")


def _check(spec: ScenarioSpec) -> None:
    where = f"scenario {spec.name}"
    if spec.boxes:
        raise InputError(f"{where}: boxes cannot be put into a CARLA world: use props, such as static.prop.streetbarrier")
    if spec.end == "first-collision":
        raise InputError(f"{where}: end: last-waypoint or duration was wanted, because CARLA tells of collisions late")
    for index, actor in enumerate(spec.actors):
        if actor.controller is not None or actor.process is not None:
            raise InputError(f"{where}: actors[{index}]: controllers of your own run on the simulator samepath only")
        if actor.after_collision == "fall":
            raise InputError(f"{where}: actors[{index}]: after_collision: go on or remove was wanted: how to fall is CARLA's")


def _role(actor: ActorSpec) -> Role:
    kind = actor_type(actor.type)
    word = "walker" if isinstance(kind, WalkerType) else "prop" if isinstance(kind, PropType) else "vehicle"
    return Role(
        number=actor.id,
        type=actor.type,
        kind=word,
        start=Place(*actor.path[0], actor.start_heading_deg),
        path=actor.path,
        speed_mps=actor.speed,
        look_ahead_m=actor.look_ahead,
        start_s=actor.start_delay,
        removed_when_hit=actor.after_collision == "remove",
    )


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


def moved(script: Script, anchor: Place) -> Script:
    """Turn and shift the whole scenario so that its first actor starts at ``anchor``."""
    origin = script.roles[0].start
    turn_deg = anchor.yaw_deg - origin.yaw_deg
    sine, cosine = sincos_deg(turn_deg)

    def there(point: Point) -> Point:
        x, y = point[0] - origin.x_m, point[1] - origin.y_m
        return anchor.x_m + (x * cosine - y * sine), anchor.y_m + (x * sine + y * cosine)

    def role(one: Role) -> Role:
        x_m, y_m = there((one.start.x_m, one.start.y_m))
        start = Place(x_m, y_m, wrap_deg(one.start.yaw_deg + turn_deg))
        return replace(one, start=start, path=tuple(there(point) for point in one.path))

    return replace(script, roles=tuple(role(one) for one in script.roles))
