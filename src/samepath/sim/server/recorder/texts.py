"""What CARLA's client prints about a recording, in CARLA's wording and columns."""

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from samepath.traces.carla_log import ActorKind, Log
from samepath.traces.carla_log.records import NO_ACTOR, Content, Placed

_LETTERS: Final = {ActorKind.OTHER: "o", ActorKind.VEHICLE: "v", ActorKind.WALKER: "w", ActorKind.TRAFFIC_LIGHT: "t"}
_LIGHTS: Final = (
    "Position", "LowBeam", "HighBeam", "Brake", "RightBlinker", "LeftBlinker", "Reverse", "Fog", "Interior",
    "Special1", "Special2",
)  # fmt: skip
_CM_PER_M: Final = 100.0
LINES_MAX: Final = 100_000


def info_text(log: Log, *, everything: bool) -> str:
    """The events of a recording, or with ``everything`` all that happens in every frame."""
    lines = [*_head(log)]
    for frame in log.frames():
        found = [*_events(frame.content), *(_states(frame.content) if everything else ())]
        if found or everything:
            lines.append(f"Frame {frame.number} at {frame.elapsed_s:g} seconds")
            lines.extend(found)
        if len(lines) > LINES_MAX:
            lines.append(f"... and more: only the first {frame.number} frames are shown")
            break
    return _whole(lines, log)


def _head(log: Log) -> Iterator[str]:
    yield f"Version: {log.header.version}"
    yield f"Map: {log.header.map_name}"
    yield f"Date: {_date(log.header.started_unix_s)}"
    yield ""


def _date(unix_s: int) -> str:
    """Month, day, year and time in UTC."""
    if not 0 <= unix_s < 253402300800:
        return "unknown"
    day, _, clock = str(np.datetime64(unix_s, "s")).partition("T")
    year, month, number = day.split("-")
    return f"{month}/{number}/{year[2:]} {clock}"


def _whole(lines: list[str], log: Log) -> str:
    frames, duration_s = log.extent
    cut = ["The recording was not ended: what follows its last whole frame is left out"] if log.is_cut else []
    return "\n".join([*lines, "", *cut, f"Frames: {frames}", f"Duration: {duration_s:g} seconds", ""])


def _place(*metres: float) -> str:
    return "(" + ", ".join(f"{value * _CM_PER_M:g}" for value in metres) + ")"


def _numbers(*values: float) -> str:
    return "(" + ", ".join(f"{value:g}" for value in values) + ")"


def _events(content: Content) -> Iterator[str]:
    for one in content.added:
        yield f" Create {one.actor}: {one.type} ({one.kind}) at {_place(one.x_m, one.y_m, one.z_m)}"
        yield from (f"  {name} = {value}" for _, name, value in one.attributes)
    yield from (f" Destroy {actor}" for actor in content.removed)
    yield from (f" Parenting {actor} with {parent} (parent)" for actor, parent in content.parents)
    for hit in content.hits:
        first, second = (" (hero) " if hero else "" for hero in (hit.actor_is_hero, hit.other_is_hero))
        yield f" Collision id {hit.number} between {hit.actor}{first} with {hit.other}{second}"


def _states(content: Content) -> Iterator[str]:
    yield f" Positions: {len(content.placed)}"
    for one in content.placed:
        where, turn = _place(one.x_m, one.y_m, one.z_m), _numbers(one.roll_deg, one.pitch_deg, one.yaw_deg)
        yield f"  Id: {one.actor} Location: {where} Rotation: {turn}"
    yield f" State traffic lights: {len(content.signal_lights)}"
    for light in content.signal_lights:
        yield f"  Id: {light.actor} state: {light.shows} frozen: {int(light.frozen)} elapsedTime: {light.elapsed_s:g}"
    yield f" Vehicle animations: {len(content.vehicles)}"
    for car in content.vehicles:
        pedals = f"Steering: {car.steer:g} Throttle: {car.throttle:g} Brake: {car.brake:g}"
        yield f"  Id: {car.actor} {pedals} Handbrake: {int(car.hand_brake)} Gear: {car.gear}"
    yield f" Walker animations: {len(content.walkers)}"
    yield from (f"  Id: {walker.actor} speed: {walker.speed_mps:g}" for walker in content.walkers)
    yield f" Vehicle light animations: {len(content.vehicle_lights)}"
    for lamp in content.vehicle_lights:
        names = [name for bit, name in enumerate(_LIGHTS) if lamp.flags >> bit & 1]
        yield f"  Id: {lamp.actor} {' '.join(names) or 'None'}"
    if content.kinematics:
        yield f" Dynamic actors: {len(content.kinematics)}"
        for one_speed in content.kinematics:
            actor, *speeds = one_speed
            yield f"  Id: {actor} linear_velocity: {_numbers(*speeds[:3])} angular_velocity: {_numbers(*speeds[3:])}"
    for title, boxes in (("Actor bounding boxes", content.boxes), ("Actor trigger volumes", content.triggers)):
        if boxes:
            yield f" {title}: {len(boxes)}"
            for actor, *sizes in boxes:
                yield f"  Id: {actor} origin: {_place(*sizes[:3])} extension: {_place(*sizes[3:])}"
    if content.light_times:
        yield f" Traffic Light time events: {len(content.light_times)}"
        for times in content.light_times:
            each = f"green_time: {times.green_s:g} yellow_time: {times.yellow_s:g} red_time: {times.red_s:g}"
            yield f"  Id: {times.actor} {each}"
    if content.platform_s is not None:
        yield f" Current platform time: {content.platform_s:g}"


def collisions_text(log: Log, first: str, second: str) -> str:
    """When actors of two categories began to touch: o other, v vehicle, w walker, t traffic light, h hero, a any."""
    lines = [*_head(log), f"{'Time':>8} {'Types':>6} {'Id':>6} {'Actor 1':<35} {'Id':>6} {'Actor 2':<35}"]
    known: dict[int, tuple[str, str]] = {NO_ACTOR: ("o", "")}
    before: set[tuple[int, int]] = set()
    for frame in log.frames():
        for one in frame.content.added:
            known[one.actor] = (_LETTERS.get(ActorKind(min(one.kind, 4)), "o"), one.type)
        now: set[tuple[int, int]] = set()
        for hit in frame.content.hits:
            letters, names = zip(*(known.get(actor, ("o", "")) for actor in (hit.actor, hit.other)), strict=True)
            heroes = (hit.actor_is_hero, hit.other_is_hero)
            wanted = zip((first, second), letters, heroes, strict=True)
            if not all(asked in {"a", letter} or (asked == "h" and hero) for asked, letter, hero in wanted):
                continue
            now.add((hit.actor, hit.other))
            if (hit.actor, hit.other) not in before:
                ids = [f"{-1 if actor == NO_ACTOR else actor:>6}" for actor in (hit.actor, hit.other)]
                lines.append(
                    f"{frame.elapsed_s:>8.0f}   {letters[0]} {letters[1]}  {ids[0]} {names[0]:<35} {ids[1]} {names[1]:<35}"
                )
        before = now
    return _whole(lines, log)


def blocked_text(log: Log, least_s: float, least_cm: float) -> str:
    """Which actors moved less than ``least_cm`` for at least ``least_s``, the longest first."""
    lines = [*_head(log), f"{'Time':>8} {'Id':>6} {'Actor':<35} {'Duration':>10}"]
    types: dict[int, str] = {}
    stopped: dict[int, tuple[Placed, float, float]] = {}  # where, since when, for how long
    found: list[tuple[float, float, int]] = []
    for frame in log.frames():
        types.update({one.actor: one.type for one in frame.content.added})
        for one in frame.content.placed:
            place, since_s, for_s = stopped.get(one.actor, (one, frame.elapsed_s, 0.0))
            if _apart_cm(place, one) < least_cm or one is place:
                stopped[one.actor] = (place, since_s, for_s + max(frame.duration_s, 0.0))
            else:
                found.append((for_s, since_s, one.actor))
                stopped[one.actor] = (one, frame.elapsed_s, max(frame.duration_s, 0.0))
    found.extend((for_s, since_s, actor) for actor, (_, since_s, for_s) in stopped.items())
    for for_s, since_s, actor in sorted(found, key=lambda row: (-row[0], row[1], row[2])):
        if for_s >= least_s:
            lines.append(f"{since_s:>8.0f} {actor:>6} {types.get(actor, ''):<35} {for_s:>10.0f}")
    return _whole(lines, log)


def _apart_cm(a: Placed, b: Placed) -> float:
    return math.dist(a[1:4], b[1:4]) * _CM_PER_M
