"""The records of a recorder file. Metres, degrees, seconds, in CARLA's frame; ``actor`` is the id at the time of recording."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

MAGIC: Final = "CARLA_RECORDER"
VERSION: Final = 2
NO_ACTOR: Final = 0xFFFFFFFF  # in a collision: scenery


class ActorKind(IntEnum):
    """What an added actor is to the recorder."""

    OTHER = 0
    VEHICLE = 1
    WALKER = 2
    TRAFFIC_LIGHT = 3
    INVALID = 4


@dataclass(frozen=True)
class LogHeader:
    """What a file says of itself."""

    map_name: str
    started_unix_s: int
    version: int = VERSION


class LogAttribute(NamedTuple):
    """An attribute of an added actor, as text; ``type`` is CARLA's number."""

    type: int
    id: str
    value: str


class AddedActor(NamedTuple):
    """An actor that appeared in a frame."""

    actor: int
    kind: int
    x_m: float
    y_m: float
    z_m: float
    roll_deg: float
    pitch_deg: float
    yaw_deg: float
    uid: int
    type: str
    attributes: tuple[LogAttribute, ...] = ()

    @property
    def role(self) -> str:
        """The role name, empty where there is none."""
        return next((attribute.value for attribute in self.attributes if attribute.id == "role_name"), "")


class Parent(NamedTuple):
    """An actor that was attached to another in a frame."""

    actor: int
    parent: int


class LogCollision(NamedTuple):
    """Two actors that touch in a frame; NO_ACTOR is scenery. ``number`` counts collisions."""

    number: int
    actor: int
    other: int
    actor_is_hero: bool = False
    other_is_hero: bool = False


class LogPose(NamedTuple):
    """Where an actor is."""

    actor: int
    x_m: float
    y_m: float
    z_m: float
    roll_deg: float
    pitch_deg: float
    yaw_deg: float


class SignalLight(NamedTuple):
    """What a traffic light shows, and for how long its controller has been in this state."""

    actor: int
    frozen: bool
    elapsed_s: float
    shows: int


class VehicleInput(NamedTuple):
    """How a vehicle is driven."""

    actor: int
    steer: float
    throttle: float
    brake: float
    hand_brake: bool
    gear: int


class WalkerInput(NamedTuple):
    """How fast a walker wants to walk."""

    actor: int
    speed_mps: float


class VehicleLights(NamedTuple):
    """Which of a vehicle's lights are on, as CARLA's flags."""

    actor: int
    flags: int


class Door(NamedTuple):
    """A door that was opened or closed in a frame."""

    actor: int
    door: int
    is_open: bool


class StreetLamp(NamedTuple):
    """A street light that changed in a frame; the colour is linear, 0..1."""

    number: int
    intensity: float
    red: float
    green: float
    blue: float
    alpha: float
    is_on: bool
    group: int


class Kinematics(NamedTuple):
    """Velocities of an actor (additional data)."""

    actor: int
    vx_mps: float
    vy_mps: float
    vz_mps: float
    wx_degps: float
    wy_degps: float
    wz_degps: float


class LogBox(NamedTuple):
    """A bounding box or trigger volume: middle and half size (additional data)."""

    actor: int
    x_m: float
    y_m: float
    z_m: float
    half_x_m: float
    half_y_m: float
    half_z_m: float


class LightTimes(NamedTuple):
    """The times of a traffic light that were set in a frame (additional data)."""

    actor: int
    green_s: float
    yellow_s: float
    red_s: float


@dataclass(frozen=True)
class Content:
    """Everything in a frame. ``visual_s`` and ``platform_s`` are clocks of the server."""

    added: tuple[AddedActor, ...] = ()
    removed: tuple[int, ...] = ()
    parents: tuple[Parent, ...] = ()
    hits: tuple[LogCollision, ...] = ()
    doors: tuple[Door, ...] = ()
    placed: tuple[LogPose, ...] = ()
    signal_lights: tuple[SignalLight, ...] = ()
    vehicles: tuple[VehicleInput, ...] = ()
    walkers: tuple[WalkerInput, ...] = ()
    vehicle_lights: tuple[VehicleLights, ...] = ()
    lamps: tuple[StreetLamp, ...] = ()
    kinematics: tuple[Kinematics, ...] = ()
    boxes: tuple[LogBox, ...] = ()
    triggers: tuple[LogBox, ...] = ()
    light_times: tuple[LightTimes, ...] = ()
    visual_s: float | None = None
    platform_s: float | None = None


@dataclass(frozen=True)
class LogFrame:
    """A frame: its number from 1, when it began, how long it lasted (-1: the recording ended before that was known)."""

    number: int
    elapsed_s: float
    duration_s: float
    content: Content
