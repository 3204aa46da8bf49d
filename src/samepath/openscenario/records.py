"""What an OpenSCENARIO file says, as frozen records. Metres, seconds and degrees, in CARLA's frame: yaw clockwise from above.

Lateral numbers (offsets, t) are positive to the right of the direction of driving or of the road's reference line; the reader
turns the file's signs. A heading that is None follows the lane.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Heading:
    """A heading given with a place: absolute, or beside that of the lane, road or entity."""

    yaw_deg: float
    is_relative: bool


@dataclass(frozen=True)
class WorldPlace:
    """A point of the map."""

    x_m: float
    y_m: float
    heading: Heading | None


@dataclass(frozen=True)
class LanePlace:
    """A point of a lane."""

    road: int
    lane: int
    s_m: float
    offset_m: float
    heading: Heading | None


@dataclass(frozen=True)
class RoadPlace:
    """A point beside a road's reference line."""

    road: int
    s_m: float
    t_m: float
    heading: Heading | None


@dataclass(frozen=True)
class RelativeToWorld:
    """Beside an entity, along the axes of the world."""

    entity: str
    dx_m: float
    dy_m: float
    heading: Heading | None


@dataclass(frozen=True)
class RelativeToObject:
    """Beside an entity, along its own axes: ahead and to the right."""

    entity: str
    ahead_m: float
    right_m: float
    heading: Heading | None


@dataclass(frozen=True)
class RelativeToLane:
    """Lanes beside an entity's and metres further along them."""

    entity: str
    lanes: int
    ds_m: float
    offset_m: float
    heading: Heading | None
    along_lane: bool


@dataclass(frozen=True)
class RelativeToRoad:
    """Along an entity's road."""

    entity: str
    ds_m: float
    dt_m: float
    heading: Heading | None


@dataclass(frozen=True)
class RouteStart:
    """So many metres along a route, in a lane."""

    route: "Route"
    s_m: float
    lane: int | None
    offset_m: float
    heading: Heading | None


FilePlace = (
    WorldPlace | LanePlace | RoadPlace | RelativeToWorld | RelativeToObject | RelativeToLane | RelativeToRoad | RouteStart
)


@dataclass(frozen=True)
class Route:
    """Places to pass."""

    places: tuple[FilePlace, ...]


@dataclass(frozen=True)
class Dynamics:
    """How a value goes to its target: at once, or in a time, over a distance, or at a rate."""

    shape: Literal["step", "linear", "sinusoidal", "cubic"]
    dimension: Literal["time", "distance", "rate"]
    value: float


@dataclass(frozen=True)
class ChangeSpeed:
    """To a speed, or to one relative to an entity's."""

    dynamics: Dynamics
    value: float
    entity: str | None = None
    is_factor: bool = False
    continuous: bool = False


@dataclass(frozen=True)
class SpeedProfile:
    """From speed to speed: (speed, seconds or None: as fast as it can)."""

    entries: tuple[tuple[float, float | None], ...]
    entity: str | None


@dataclass(frozen=True)
class KeepDistance:
    """A distance, or a gap in time, to an entity in front."""

    entity: str
    distance_m: float | None
    gap_s: float | None
    freespace: bool
    continuous: bool
    acceleration_mps2: float
    deceleration_mps2: float
    speed_mps: float


@dataclass(frozen=True)
class ChangeLane:
    """To a lane, or so many lanes beside an entity's."""

    dynamics: Dynamics
    value: int
    entity: str | None
    offset_m: float


@dataclass(frozen=True)
class ChangeOffset:
    """Beside the middle of the lane, or beside an entity."""

    shape: str
    acceleration_mps2: float
    value_m: float
    entity: str | None
    continuous: bool


@dataclass(frozen=True)
class KeepBeside:
    """A distance to the side of an entity; ``side``: 1 to its right, -1 to its left, 0 where it is."""

    entity: str
    distance_m: float | None
    side: int
    freespace: bool
    continuous: bool
    acceleration_mps2: float
    deceleration_mps2: float
    speed_mps: float


@dataclass(frozen=True)
class FollowRoute:
    """Turn where the route turns; with ``ends`` the action ends at the last place."""

    route: Route
    ends: bool


@dataclass(frozen=True)
class ClothoidPiece:
    """Curvature from start to end, to the right; from a place, or from where the one before ends, after a turn on the spot."""

    start: FilePlace | None
    bend_start_per_m: float
    bend_end_per_m: float
    length_m: float
    turn_deg: float = 0.0


@dataclass(frozen=True)
class Clothoids:
    """Pieces one after another; the first may begin where the entity is."""

    pieces: tuple[ClothoidPiece, ...]


@dataclass(frozen=True)
class Nurbs:
    """A rational B-spline; its degree is one less than its order."""

    order: int
    places: tuple[FilePlace, ...]
    weights: tuple[float, ...]
    knots: tuple[float, ...]


Curve = tuple[FilePlace, ...] | Clothoids | Nurbs


@dataclass(frozen=True)
class FollowTrajectory:
    """Along corners or a curve; with ``times_s`` when to be there, counted from ``from_start`` of the run or of the action.

    Times are those of the corners, of the ends of clothoids or of the control points of NURBS.
    """

    curve: Curve
    times_s: tuple[float, ...] | None
    from_start: bool


@dataclass(frozen=True)
class Teleport:
    """Be somewhere else."""

    place: FilePlace


@dataclass(frozen=True)
class Synchronise:
    """Be at a place when another is at another."""

    master: str
    master_place: FilePlace
    place: FilePlace
    final_mps: float | None
    relative_to_master: bool


@dataclass(frozen=True)
class SetParameter:
    """Give a parameter another value."""

    name: str
    value: str


@dataclass(frozen=True)
class DriveItself:
    """A driver of the user's own takes over; here, one that keeps its lane, its speed and its distance."""


@dataclass(frozen=True)
class LeftOut:
    """An action that changes nothing of who is where: weather, lights, colours."""

    name: str


FileAction = (
    ChangeSpeed
    | SpeedProfile
    | KeepDistance
    | ChangeLane
    | ChangeOffset
    | KeepBeside
    | FollowRoute
    | FollowTrajectory
    | Teleport
    | Synchronise
    | SetParameter
    | DriveItself
    | LeftOut
)

Rule = Literal["greaterThan", "lessThan", "equalTo", "greaterOrEqual", "lessOrEqual", "notEqualTo"]


@dataclass(frozen=True)
class TimeIs:
    """The simulated time."""

    value_s: float
    rule: Rule


@dataclass(frozen=True)
class ParameterIs:
    """A parameter's value."""

    name: str
    value: str
    rule: Rule


@dataclass(frozen=True)
class ElementIs:
    """The state of a part of the storyboard."""

    kind: str
    name: str
    state: str


@dataclass(frozen=True)
class JudgedAfterwards:
    """A condition that ScenarioRunner judges a run by: no trigger."""

    name: str


@dataclass(frozen=True)
class DistanceIs:
    """To an entity or a place; ``measure`` is euclidean, longitudinal or lateral."""

    entity: str | None
    place: FilePlace | None
    value_m: float
    rule: Rule
    freespace: bool
    measure: str


@dataclass(frozen=True)
class HeadwayIs:
    """Seconds to where an entity is now."""

    entity: str
    value_s: float
    rule: Rule
    freespace: bool


@dataclass(frozen=True)
class TimeToCollisionIs:
    """Seconds until the distance to an entity or a place is gone, at today's speeds."""

    entity: str | None
    place: FilePlace | None
    value_s: float
    rule: Rule
    freespace: bool


@dataclass(frozen=True)
class Reaches:
    """Within so many metres of a place."""

    place: FilePlace
    tolerance_m: float


@dataclass(frozen=True)
class Travelled:
    """So many metres since the start."""

    value_m: float


@dataclass(frozen=True)
class SpeedIs:
    """The speed, or with an entity the difference of speeds."""

    value_mps: float
    rule: Rule
    entity: str | None = None


@dataclass(frozen=True)
class AccelerationIs:
    """The acceleration along the way."""

    value_mps2: float
    rule: Rule


@dataclass(frozen=True)
class StandsStill:
    """For so long."""

    duration_s: float


@dataclass(frozen=True)
class AtRoadEnd:
    """For so long."""

    duration_s: float


@dataclass(frozen=True)
class OffRoad:
    """For so long."""

    duration_s: float


@dataclass(frozen=True)
class Touches:
    """Another entity, or anybody."""

    entity: str | None


ValueTest = TimeIs | ParameterIs | ElementIs | JudgedAfterwards
EntityTest = (
    DistanceIs
    | HeadwayIs
    | TimeToCollisionIs
    | Reaches
    | Travelled
    | SpeedIs
    | AccelerationIs
    | StandsStill
    | AtRoadEnd
    | OffRoad
    | Touches
)


@dataclass(frozen=True)
class FileCondition:
    """What must hold, for whom (``every``: for all of them), since how long, and at which edge."""

    name: str
    test: ValueTest | EntityTest
    entities: tuple[str, ...]
    every: bool
    delay_s: float
    edge: str


# Any group, all of its conditions. None: there is no trigger.
FileTrigger = tuple[tuple[FileCondition, ...], ...]


@dataclass(frozen=True)
class NamedAction:
    """An action of an event; global ones have no actors."""

    name: str
    action: FileAction
    is_global: bool


@dataclass(frozen=True)
class StoryEvent:
    """Actions that begin together."""

    name: str
    priority: str
    times_max: int
    actions: tuple[NamedAction, ...]
    start: FileTrigger | None


@dataclass(frozen=True)
class StoryManeuver:
    """Events of the same actors."""

    name: str
    events: tuple[StoryEvent, ...]


@dataclass(frozen=True)
class ManeuverGroup:
    """Who does what."""

    name: str
    times_max: int
    actors: tuple[str, ...]
    uses_triggering: bool
    maneuvers: tuple[StoryManeuver, ...]


@dataclass(frozen=True)
class Act:
    """Groups that begin together."""

    name: str
    groups: tuple[ManeuverGroup, ...]
    start: FileTrigger | None
    stop: FileTrigger | None


@dataclass(frozen=True)
class Story:
    """Acts."""

    name: str
    acts: tuple[Act, ...]


@dataclass(frozen=True)
class Entity:
    """Somebody or something: ``type`` is a name of our catalogue, ``ahead_m`` how far its middle is before its own point."""

    name: str
    type: str
    length_m: float
    width_m: float
    ahead_m: float
    acceleration_mps2: float
    deceleration_mps2: float
    speed_mps_max: float

    @property
    def kind(self) -> str:
        """Vehicle, walker or static."""
        return self.type.partition(".")[0]


@dataclass(frozen=True)
class ScenarioFile:
    """A whole file. ``latches``: conditions once met stay met, as in ScenarioRunner; ``left_out`` lists what is not played."""

    name: str
    description: str
    map: str
    entities: tuple[Entity, ...]
    first: tuple[tuple[str, FileAction], ...]
    stories: tuple[Story, ...]
    stop: FileTrigger | None
    parameters: tuple[tuple[str, str], ...]
    latches: bool
    left_out: tuple[str, ...]
