"""A scenario of ours, or a file, as a script; moved to another place of a map if asked."""

import math
from dataclasses import replace
from typing import Final

from samepath.base.errors import InputError
from samepath.base.trig import sincos_deg, wrap_deg
from samepath.sim.control.vehicle import VehicleSettings
from samepath.sim.navigation.paths import SPACING_M
from samepath.sim.scenarios.model import ActorSpec, ScenarioSpec, built_in_scenarios, load_scenario
from samepath.sim.world.catalogue import Engine, PropType, VehicleType, WalkerType, actor_type
from samepath.simulators.scripts.records import Body, Box, Driving, Place, Point, Role, Script, Wheels

# The part of the weight on the driven wheels, as in the simulator samepath.
_DRIVEN_SHARE: Final = {"front": 0.55, "rear": 0.5, "all": 1.0}


def script_names() -> tuple[str, ...]:
    """Return the names of the scenarios that come with samepath."""
    return tuple(built_in_scenarios())


def read_script(name_or_path: str) -> Script:
    """Read one of our scenarios or a file (YAML, or the paper authors' CSV).

    Controllers of the user's own are refused: they are written for the simulator samepath.
    """
    spec = load_scenario(name_or_path)
    for index, actor in enumerate(spec.actors):
        if actor.controller is not None or actor.process is not None:
            raise InputError(
                f"scenario {spec.name}: actors[{index}]: controllers of your own run on the simulator samepath only"
            )
    return _script(spec)


def _script(spec: ScenarioSpec) -> Script:
    return Script(
        name=spec.name,
        description=spec.description,
        map=spec.map,
        duration_s=spec.duration,
        step_s=spec.step,
        substeps=spec.substeps,
        end=spec.end,
        roles=tuple(_role(actor) for actor in spec.actors),
        boxes=tuple(Box(box.name, Place(*box.at, box.yaw_deg), box.size) for box in spec.boxes),
    )


def _role(actor: ActorSpec) -> Role:
    kind = actor_type(actor.type)
    word, body = _looks(kind)
    return Role(
        number=actor.id,
        type=actor.type,
        kind=word,
        start=Place(*actor.path[0], actor.start_heading_deg),
        path=actor.path,
        speed_mps=actor.speed,
        look_ahead_m=actor.look_ahead,
        start_s=actor.start_delay,
        after_collision=actor.after_collision,
        body=body,
        wheels=_wheels(kind) if isinstance(kind, VehicleType) else None,
        driving=None if isinstance(kind, PropType) else _driving(actor),
    )


def _looks(kind: VehicleType | WalkerType | PropType) -> tuple[str, Body]:
    if isinstance(kind, WalkerType):
        return "walker", Body(2 * kind.radius_m, 2 * kind.radius_m, kind.height_m, kind.mass_kg)
    word = "prop" if isinstance(kind, PropType) else "vehicle"
    return word, Body(kind.length_m, kind.width_m, kind.height_m, kind.mass_kg)


def _wheels(kind: VehicleType) -> Wheels:
    return Wheels(
        wheel_base_m=kind.wheel_base_m,
        track_m=kind.track_m,
        radius_m=kind.wheel_radius_m,
        clearance_m=kind.clearance_m,
        max_steer_deg=kind.max_steer_deg,
        friction=kind.mean_friction,
        driven=kind.driven,
        driven_share=_DRIVEN_SHARE[kind.driven],
        power_w=_power_w(kind.engine),
        brake_n=kind.max_brake_n,
        drag_area_m2=kind.drag_area_m2,
        rolling_resistance=kind.rolling_resistance,
    )


def _power_w(engine: Engine) -> float:
    """The most power that an engine brings to the wheels: at a corner of its torque curve, torque x angular speed."""
    return engine.efficiency * max(torque_nm * rpm * math.pi / 30 for rpm, torque_nm in engine.torque_curve)


def _driving(actor: ActorSpec) -> Driving:
    """What every driver of ours is set to."""
    usual = VehicleSettings(step_s=1.0)
    return Driving(
        look_ahead_m=actor.look_ahead,
        look_ahead_s=usual.look_ahead_s,
        spacing_m=SPACING_M,
        arrival_m=usual.arrival_m,
        lateral_acceleration_mps2=usual.lateral_acceleration_mps2,
        braking_mps2=usual.braking_mps2,
        creep_mps=usual.creep_mps,
        proportional=usual.gains.proportional,
        integral=usual.gains.integral,
        derivative=usual.gains.derivative,
        integral_limit=usual.gains.integral_limit,
    )


def moved(script: Script, anchor: Place) -> Script:
    """Turn and shift the whole scenario so that its first actor starts at ``anchor``."""
    origin = script.roles[0].start
    turn_deg = anchor.yaw_deg - origin.yaw_deg
    sine, cosine = sincos_deg(turn_deg)

    def there(point: Point) -> Point:
        x, y = point[0] - origin.x_m, point[1] - origin.y_m
        return anchor.x_m + (x * cosine - y * sine), anchor.y_m + (x * sine + y * cosine)

    def place(one: Place) -> Place:
        return Place(*there((one.x_m, one.y_m)), wrap_deg(one.yaw_deg + turn_deg))

    roles = (replace(one, start=place(one.start), path=tuple(map(there, one.path))) for one in script.roles)
    boxes = (replace(one, place=place(one.place)) for one in script.boxes)
    return replace(script, roles=tuple(roles), boxes=tuple(boxes))
