"""Scenarios as engines need them: who there is, where everybody starts, where they go and how they are driven.

:func:`read_script` gives plain frozen records, :func:`controller_of` a controller that drives one of the actors from outside an
engine, and :func:`document` the same as versioned JSON, for programs in other languages.

The frame is CARLA's: x forward, y right, z up, left-handed, metres; yaw in degrees. Seen from above, yaw turns clockwise: 90
degrees look along y. An actor's place is its middle on the ground.

Controllers are pure steps from what was observed to a command, the same for the same observation, whichever engine it comes
from: what differs between engines is then the engine. Vehicles follow waypoints 0.1 m apart, speed by PID, steering by pure
pursuit: the controllers of the simulator samepath. Pedestrians walk straight from waypoint to waypoint and around nobody: where
one can walk in a foreign world is not known.
"""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple, Protocol

from samepath.core.catalogue import Engine, PropType, VehicleType, WalkerType, actor_type
from samepath.core.errors import InputError, SimulatorError
from samepath.core.states import Command, VehicleCommand, WalkerCommand
from samepath.core.trig import sincos_deg, wrap_deg
from samepath.scenarios.drivers import Steering, VehicleFollower, VehicleObservation, VehicleSettings
from samepath.scenarios.model import ActorSpec, ScenarioSpec, built_in_scenarios, load_scenario, parse_scenario
from samepath.scenarios.paths import SPACING_M, Path, TimedWalk, interpolate, timetable_of

Point = tuple[float, float]

# The JSON document's shape has a version; ``docs/engines/scripts.md`` explains its keys.
FORMAT: Final = "samepath-script"
VERSION: Final = 1

# The part of the weight on the driven wheels, as in the simulator samepath.
_DRIVEN_SHARE: Final = {"front": 0.55, "rear": 0.5, "all": 1.0}
ARRIVAL_M: Final = 0.1
# How hard a run-up accelerates, which every car of the catalogue can, and the time between its points.
RUN_UP_MPS2: Final = 2.0
_RUN_UP_PART_S: Final = 0.25
# Simulated time is a sum of steps: more than its rounding, less than any step.
_ROUNDING_S: Final = 1e-6
STANDING: Final = VehicleCommand(brake=1.0, hand_brake=True)
WAITING: Final = WalkerCommand()
_GRAVITY_MPS2: Final = 9.81
# Below this speed the engine gives what it gives here: power divided by no speed is no force.
_SLOWEST_MPS: Final = 1.0


@dataclass(frozen=True)
class Pose2D:
    """A point of a map and a heading there."""

    x_m: float
    y_m: float
    yaw_deg: float


@dataclass(frozen=True)
class BodyDimensions:
    """An upright box around an actor; a walker is the capsule in it. ``mass_kg`` 0: it cannot be moved."""

    length_m: float
    width_m: float
    height_m: float
    mass_kg: float


@dataclass(frozen=True)
class Chassis:
    """What steering depends on; ``rear_m`` is how far the rear axle is behind the vehicle's middle."""

    wheel_base_m: float
    rear_m: float
    max_steer_deg: float


@dataclass(frozen=True)
class Wheels:
    """What makes a body a vehicle: two axles at equal distances from its middle, and what drives and stops it.

    ``power_w`` is the most that reaches the wheels, ``brake_n`` what all brakes do together, ``driven`` front, rear or all.
    """

    wheel_base_m: float
    track_m: float
    radius_m: float
    clearance_m: float
    max_steer_deg: float
    friction: float
    driven: str
    driven_share: float
    power_w: float
    brake_n: float
    drag_area_m2: float
    rolling_resistance: float

    @property
    def chassis(self) -> Chassis:
        """What steering depends on."""
        return Chassis(self.wheel_base_m, self.wheel_base_m / 2, self.max_steer_deg)


@dataclass(frozen=True)
class Driving:
    """How a path is followed. Speed by PID, gains per m/s of error; steering by pure pursuit of a point on the path.

    That point is ``look_ahead_m`` + ``look_ahead_s`` x speed beyond the nearest waypoint. Waypoints are ``spacing_m`` apart.
    """

    look_ahead_m: float
    look_ahead_s: float
    spacing_m: float
    arrival_m: float
    lateral_acceleration_mps2: float
    braking_mps2: float
    creep_mps: float
    proportional: float
    integral: float
    derivative: float
    integral_limit: float


@dataclass(frozen=True)
class Role:
    """An actor of a scenario: what it is, where it starts and where it goes. ``kind`` is vehicle, walker or prop.

    It sets off at ``start_s``. ``after_collision`` is go on, remove or fall. Props have no
    ``driving``, only vehicles have ``wheels``. ``times_s`` says when to be at each point of the path, ``start_mps`` how fast
    it is at the start.
    """

    number: int
    type: str
    kind: str
    start: Pose2D
    path: tuple[Point, ...]
    speed_mps: float
    look_ahead_m: float
    start_s: float
    after_collision: str
    body: BodyDimensions
    wheels: Wheels | None = None
    driving: Driving | None = None
    times_s: tuple[float, ...] | None = None
    start_mps: float = 0.0

    @property
    def removed_when_hit(self) -> bool:
        """Is it taken away when it was hit?"""
        return self.after_collision == "remove"


@dataclass(frozen=True)
class SceneryBox:
    """A box of scenery that stands on the ground: its middle, and its size along its own axes."""

    name: str
    place: Pose2D
    size_m: tuple[float, float, float]


@dataclass(frozen=True)
class Script:
    """A scenario. ``end`` is last-waypoint (everybody who is there has arrived), first-collision or duration.

    At ``duration_s`` it is over in any case. ``step_s`` is the tick of its traces and how often drivers are asked, ``substeps``
    how often physics steps in it where an engine lets us choose.
    """

    name: str
    description: str
    map: str
    duration_s: float
    step_s: float
    substeps: int
    end: str
    roles: tuple[Role, ...]
    boxes: tuple[SceneryBox, ...] = field(default=())

    @property
    def ends_early(self) -> bool:
        """Is it over when everybody has arrived?"""
        return self.end == "last-waypoint"

    @property
    def ticks(self) -> int:
        """How many ticks its duration is."""
        return round(self.duration_s / self.step_s)


def script_names() -> tuple[str, ...]:
    """Return the names of the scenarios that come with samepath and that every engine can play: those without traffic."""
    return tuple(name for name, text in built_in_scenarios().items() if parse_scenario(text, name).traffic is None)


def read_script(name_or_path: str) -> Script:
    """Read one of our scenarios or a file (YAML, or the paper authors' CSV).

    Controllers of the user's own are refused: they are written for the simulator samepath.
    """
    spec = load_scenario(name_or_path)
    if spec.traffic is not None:
        raise InputError(f"scenario {spec.name}: traffic: our own traffic runs on the simulator samepath only")
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
        boxes=tuple(SceneryBox(box.name, Pose2D(*box.at, box.yaw_deg), box.size) for box in spec.boxes),
    )


def _role(actor: ActorSpec) -> Role:
    kind = actor_type(actor.type)
    word, body = _looks(kind)
    return Role(
        number=actor.id,
        type=actor.type,
        kind=word,
        start=Pose2D(*actor.path[0], actor.start_heading_deg),
        path=actor.path,
        speed_mps=actor.speed,
        look_ahead_m=actor.look_ahead,
        start_s=actor.start_delay,
        after_collision=actor.after_collision,
        body=body,
        wheels=_wheels_of(kind) if isinstance(kind, VehicleType) else None,
        driving=None if isinstance(kind, PropType) else _driving(actor),
        times_s=actor.times,
        start_mps=actor.start_speed,
    )


def _looks(kind: VehicleType | WalkerType | PropType) -> tuple[str, BodyDimensions]:
    if isinstance(kind, WalkerType):
        return "walker", BodyDimensions(2 * kind.radius_m, 2 * kind.radius_m, kind.height_m, kind.mass_kg)
    word = "prop" if isinstance(kind, PropType) else "vehicle"
    return word, BodyDimensions(kind.length_m, kind.width_m, kind.height_m, kind.mass_kg)


def _wheels_of(kind: VehicleType) -> Wheels:
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


def moved(script: Script, anchor: Pose2D) -> Script:
    """Turn and shift the whole scenario so that its first actor starts at ``anchor``."""
    origin = script.roles[0].start
    turn_deg = anchor.yaw_deg - origin.yaw_deg
    sine, cosine = sincos_deg(turn_deg)

    def there(point: Point) -> Point:
        x, y = point[0] - origin.x_m, point[1] - origin.y_m
        return anchor.x_m + (x * cosine - y * sine), anchor.y_m + (x * sine + y * cosine)

    def turned(pose: Pose2D) -> Pose2D:
        return Pose2D(*there((pose.x_m, pose.y_m)), wrap_deg(pose.yaw_deg + turn_deg))

    roles = (replace(role, start=turned(role.start), path=tuple(map(there, role.path))) for role in script.roles)
    boxes = (replace(box, place=turned(box.place)) for box in script.boxes)
    return replace(script, roles=tuple(roles), boxes=tuple(boxes))


def with_run_up(script: Script) -> Script:
    """Let a script begin at rest: who starts with a speed gets a run-up, everybody else waits for that long.

    Most engines put cars down and cannot throw them. The run-up goes straight to where the actor starts, at ``RUN_UP_MPS2``;
    all reach their own starts at the same time, and from there on the plan is the script's own, that much later.
    """
    fastest_mps = max(role.start_mps for role in script.roles)
    if fastest_mps == 0.0:
        return script
    ticks = math.ceil(fastest_mps / RUN_UP_MPS2 / script.step_s - _ROUNDING_S)
    lead_s = ticks * script.step_s
    roles = tuple(_run_up(role, lead_s) for role in script.roles)
    return replace(script, roles=roles, duration_s=script.duration_s + lead_s)


def tracks_by_place(script: Script) -> Script:
    """Make timed roles fit drivers who follow a track by place: they set off in time, and go as fast as planned at each place.

    Who stands on its way and goes on later cannot be told to such a driver: that is refused.
    """
    return replace(script, roles=tuple(_by_place(script, role) for role in script.roles))


def _by_place(script: Script, role: Role) -> Role:
    if role.times_s is None or role.kind == "prop":
        return role
    where = f"scenario {script.name}: actor {role.number}"
    timetable = timetable_of(role.path, role.times_s)
    if role.kind != "vehicle":
        raise InputError(f"{where}: no walkers with times were wanted: this engine's walkers go at one speed")
    if timetable.waits:
        raise InputError(
            f"{where}: nobody who stands on the way and goes on later was wanted: this engine's drivers go by place"
        )
    return replace(role, start_s=timetable.starts_s)


def _run_up(role: Role, lead_s: float) -> Role:
    if role.times_s is None:
        return replace(role, start_s=role.start_s + lead_s)
    times_s = tuple(time_s + lead_s for time_s in role.times_s)
    if role.start_mps == 0.0:
        return replace(role, path=(role.path[0], *role.path), times_s=(0.0, *times_s))
    sine, cosine = sincos_deg(role.start.yaw_deg)
    lasts_s = role.start_mps / RUN_UP_MPS2
    parts = math.ceil(lasts_s / _RUN_UP_PART_S)
    behind: list[Point] = []
    before_s: list[float] = []
    for part in range(parts):
        # v = a t from rest: so far behind the start with this much time left.
        gone_s = lasts_s * part / parts
        left_m = 0.5 * RUN_UP_MPS2 * (lasts_s * lasts_s - gone_s * gone_s)
        behind.append((role.path[0][0] - left_m * cosine, role.path[0][1] - left_m * sine))
        before_s.append(lead_s - lasts_s + gone_s)
    if before_s[0] > _ROUNDING_S:
        behind, before_s = [behind[0], *behind], [0.0, *before_s]
    else:
        before_s[0] = 0.0
    start = Pose2D(*behind[0], role.start.yaw_deg)
    return replace(role, start=start, path=(*behind, *role.path), times_s=(*before_s, *times_s), start_mps=0.0)


class PlanarState(NamedTuple):
    """What a controller observes of its own actor: where it is in the plane and how it moves."""

    x_m: float
    y_m: float
    yaw_deg: float
    vx_mps: float
    vy_mps: float


class ActorController(Protocol):
    """Drives one actor."""

    finished: bool

    def decide(self, observed: PlanarState, time_s: float) -> Command:
        """Choose the command for the next step."""
        ...


class VehicleController:
    """Follows a path with a vehicle."""

    def __init__(self, role: Role, chassis: Chassis, control_s: float) -> None:
        self._follower = follower_of(role, chassis, control_s)
        self._state = self._follower.initial_state()
        self._start_s = role.start_s - _ROUNDING_S
        self.finished = False

    def decide(self, observed: PlanarState, time_s: float) -> Command:
        """Steer towards the path, at the speed it allows."""
        if time_s < self._start_s:
            return STANDING
        sine, cosine = sincos_deg(observed.yaw_deg)
        speed_mps = observed.vx_mps * cosine + observed.vy_mps * sine
        command, self._state = self._follower.step(
            VehicleObservation(observed.x_m, observed.y_m, cosine, sine, speed_mps), self._state, time_s
        )
        self.finished = self._state.stopped
        return command


class WalkerController:
    """Walks straight from waypoint to waypoint."""

    def __init__(self, role: Role, control_s: float) -> None:
        self._ahead = list(role.path[1:])
        self._behind = role.path[0]
        self._speed_mps = role.speed_mps
        self._control_s = control_s
        self._start_s = role.start_s - _ROUNDING_S
        self.finished = False

    def decide(self, observed: PlanarState, time_s: float) -> Command:
        """Walk towards the next waypoint, and stop at the last."""
        if time_s < self._start_s:
            return WAITING
        here = (observed.x_m, observed.y_m)
        while self._ahead and _is_reached(here, self._behind, self._ahead[0]):
            self._behind = self._ahead.pop(0)
        if not self._ahead:
            self.finished = True
            return WAITING
        x, y = self._ahead[0][0] - here[0], self._ahead[0][1] - here[1]
        size = math.sqrt(x * x + y * y)
        speed_mps = self._speed_mps if len(self._ahead) > 1 else min(self._speed_mps, size / self._control_s)
        return WalkerCommand(x / size, y / size, speed_mps)


class TimedWalkerController:
    """Walks by a timetable."""

    def __init__(self, role: Role, control_s: float) -> None:
        if role.times_s is None:
            raise SimulatorError(f"actor {role.number} has no timetable")
        self._walk = TimedWalk(role.path, timetable_of(role.path, role.times_s), control_s)
        self.finished = False

    def decide(self, observed: PlanarState, time_s: float) -> Command:
        """Go to where to be next."""
        self.finished = time_s >= self._walk.timetable.end_s - _ROUNDING_S
        return self._walk.step(observed.x_m, observed.y_m, time_s)


def _is_reached(here: Point, behind: Point, ahead: Point) -> bool:
    """Is the waypoint near, or passed on the way from the one before it?"""
    x, y = ahead[0] - here[0], ahead[1] - here[1]
    return x * x + y * y <= ARRIVAL_M * ARRIVAL_M or x * (ahead[0] - behind[0]) + y * (ahead[1] - behind[1]) <= 0.0


def follower_of(role: Role, chassis: Chassis, control_s: float) -> VehicleFollower:
    """Return the controller of a vehicle: its path every 0.1 m, the speed wanted there, and a pure step."""
    settings = VehicleSettings(
        step_s=control_s,
        cruise_mps=role.speed_mps,
        look_ahead_m=role.look_ahead_m,
        rear_m=chassis.rear_m,
        steering=Steering(chassis.wheel_base_m, chassis.max_steer_deg),
    )
    timetable = timetable_of(role.path, role.times_s) if role.times_s is not None else None
    return VehicleFollower(Path(interpolate(role.path)), settings, timetable)


def scripted_chassis(role: Role) -> Chassis:
    """What steering depends on where an engine's vehicle is built from the script's own numbers."""
    return _wheels(role).chassis


def controller_of(role: Role, chassis_of: Callable[[Role], Chassis], control_s: float) -> ActorController | None:
    """Return what drives a role, asked every ``control_s``; props have nothing.

    ``chassis_of`` tells what a vehicle is like in the engine; where it was built from the script, :func:`scripted_chassis`.
    """
    if role.kind == "vehicle":
        return VehicleController(role, chassis_of(role), control_s)
    if role.kind != "walker":
        return None
    return WalkerController(role, control_s) if role.times_s is None else TimedWalkerController(role, control_s)


def drive_force_n(role: Role, throttle: float, speed_mps: float) -> float:
    """What all driven wheels of a vehicle push with: the engine's power at this speed, as far as the tyres hold.

    For engines that take forces instead of pedals: F = throttle min(P / v, friction m g share of the weight on driven wheels).
    """
    wheels, mass_kg = _wheels(role), role.body.mass_kg
    grip_n = wheels.friction * mass_kg * _GRAVITY_MPS2 * wheels.driven_share
    return throttle * min(wheels.power_w / max(abs(speed_mps), _SLOWEST_MPS), grip_n)


def brake_force_n(role: Role, brake: float) -> float:
    """What all brakes of a vehicle hold it back with, as far as the tyres hold."""
    wheels = _wheels(role)
    return brake * min(wheels.brake_n, wheels.friction * role.body.mass_kg * _GRAVITY_MPS2)


def _wheels(role: Role) -> Wheels:
    if role.wheels is None:
        raise SimulatorError(f"actor {role.number}, a {role.type}, has no wheels")
    return role.wheels


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
        points, speeds = follower.path.points, follower.planned_mps
        plain["track"] = [[x_m, y_m, speed_mps] for (x_m, y_m), speed_mps in zip(points, speeds, strict=True)]
    return plain


def to_json(script: Script) -> str:
    """Return the document as text; the same script is always the same text, and numbers are exact."""
    return json.dumps(document(script), allow_nan=False)
