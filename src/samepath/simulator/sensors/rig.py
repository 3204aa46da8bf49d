"""Rigs: which sensors an actor carries, where, and with which attributes (YAML in, a checked record out), and a rig at work.

:class:`SensorSuite` measures tick by tick in a world. What a sensor measures depends on the world and the tick alone, never on
which frames were asked for before: a recording that is taken up in the middle gives the same bytes.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from samepath.core.catalogue import VehicleType
from samepath.core.documents import read_yaml, validate
from samepath.core.errors import InputError, nearest, unknown
from samepath.core.files import regular
from samepath.core.states import Command, Pose, Vector, VehicleCommand
from samepath.scenarios.model import ScenarioSpec
from samepath.simulator.maps import load_map
from samepath.simulator.physics.drivetrain import GRAVITY_MPS2
from samepath.simulator.physics.frames import attached_pose
from samepath.simulator.sensors.auto import ray_caster_of
from samepath.simulator.sensors.cameras import CAMERA_KINDS as CAMERAS
from samepath.simulator.sensors.cameras import CameraSensor, CameraView, RigRenderer
from samepath.simulator.sensors.events import EVENT, EventCamera, nanoseconds
from samepath.simulator.sensors.events import KIND as EVENTS
from samepath.simulator.sensors.inertial import Gnss, Imu, ObstacleDetector, acceleration_of, origin_of
from samepath.simulator.sensors.labels import ActorAppearance, Odometer
from samepath.simulator.sensors.lidar import WEATHER, Lidar
from samepath.simulator.sensors.radar import Radar
from samepath.simulator.sensors.renderer import CameraFrame, Channel, Lamp, Renderer, RenderScene
from samepath.simulator.sensors.scene_builder import Boxes, scene_builder_of
from samepath.simulator.sensors.sensor import GivenAttributes, NoiseKey, check_rays, interval_s, is_due
from samepath.simulator.sensors.weather import SceneWeather, is_dark
from samepath.simulator.world.world import World

# The kinds of sensors a rig may carry, by CARLA's names, and how each is built from its attributes.
SensorModel = CameraSensor | EventCamera | Lidar | Radar | Imu | Gnss | ObstacleDetector
SENSOR_KINDS: Final[Mapping[str, Callable[[GivenAttributes], SensorModel]]] = MappingProxyType(
    {
        **{kind: partial(CameraSensor.from_attributes, kind, strict=True) for kind in CAMERAS},
        EVENTS: partial(EventCamera.from_attributes, strict=True),
        "sensor.lidar.ray_cast": partial(Lidar.from_attributes, strict=True),
        "sensor.lidar.ray_cast_semantic": partial(Lidar.from_attributes, semantic=True, strict=True),
        "sensor.other.gnss": partial(Gnss.from_attributes, strict=True),
        "sensor.other.imu": partial(Imu.from_attributes, strict=True),
        "sensor.other.obstacle": partial(ObstacleDetector.from_attributes, strict=True),
        "sensor.other.radar": partial(Radar.from_attributes, strict=True),
    }
)

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_FARTHEST_M: Final = 100.0
Value = bool | int | float | str


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class MountedSensor(_Model):
    """A sensor: CARLA's type and attributes, and where it sits on the actor that carries it.

    ``at`` is x forward, y right, z up in metres from the actor's origin, for vehicles the ground under their middle.
    """

    name: str
    type: str
    at: tuple[float, float, float] = (0.0, 0.0, 0.0)
    roll: float = Field(default=0.0, ge=-360, le=360)
    pitch: float = Field(default=0.0, ge=-90, le=90)
    yaw: float = Field(default=0.0, ge=-360, le=360)
    attributes: dict[str, Value] = {}

    @field_validator("name")
    @classmethod
    def _plain(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError(f"a name of small letters, digits, - and _ was wanted, but {name!r} came")
        return name

    @model_validator(mode="after")
    def _check(self) -> "MountedSensor":
        if self.type not in SENSOR_KINDS:
            hint = nearest(self.type, SENSOR_KINDS)
            known = f"did you mean {hint!r}?" if hint else f"known: {', '.join(SENSOR_KINDS)}"
            raise ValueError(f"unknown type of sensor {self.type!r}; {known}")
        if not all(math.isfinite(metres) and abs(metres) <= _FARTHEST_M for metres in self.at):
            raise ValueError(f"at: a place within {_FARTHEST_M:g} m of the actor was wanted, but {list(self.at)} came")
        try:
            SENSOR_KINDS[self.type](self.attributes)
        except InputError as error:
            raise InputError(f"sensor {self.name!r}: {error}") from error
        return self

    @property
    def pose(self) -> Pose:
        """Where it sits."""
        return Pose(*self.at, self.roll, self.pitch, self.yaw)


class Rig(_Model):
    """Sensors, and the actor that carries them; without one, the first vehicle."""

    name: str
    description: str = ""
    actor: int | None = Field(default=None, ge=1)
    sensors: tuple[MountedSensor, ...] = Field(min_length=1, max_length=256)

    @model_validator(mode="after")
    def _check(self) -> "Rig":
        names = [sensor.name for sensor in self.sensors]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"sensors must have names of their own, but {', '.join(twice)} is there twice")
        return self


def built_in_rigs() -> dict[str, str]:
    """Return the rigs that come with samepath: name -> YAML text."""
    folder = resources.files("samepath.simulator.sensors") / "rigs"
    found = {
        file.name.removesuffix(".yaml"): file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".yaml")
    }
    return dict(sorted(found.items()))


def load_rig(name_or_path: str) -> Rig:
    """Read a built-in rig or a file."""
    known = built_in_rigs()
    if name_or_path in known:
        return parse_rig(known[name_or_path], f"rig {name_or_path}")
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        raise unknown("rig", name_or_path, known)
    try:
        text = regular(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    return parse_rig(text, str(path))


def parse_rig(text: str, where: str) -> Rig:
    """Check a rig's text."""
    return validate(Rig, read_yaml(text, where, "rig", Rig.model_fields), where, _model_at)


def _model_at(location: list[str | int]) -> type[BaseModel]:
    return MountedSensor if len(location) > 1 and location[0] == "sensors" else Rig


@dataclass(frozen=True, eq=False, slots=True)
class Measurement:
    """What a sensor measured: CARLA's content as a plain array, and where the sensor was.

    Points of a LiDAR, detections of a radar and events of an event camera (column, row, nanoseconds, polarity) are rows of
    numbers, an IMU gives accelerometer, gyroscope and compass, a
    receiver latitude, longitude and altitude, the obstacle sensor distance and actor (0: scenery), or nothing.
    """

    sensor: MountedSensor
    pose: Pose
    values: NDArray[Any]


@dataclass(eq=False, slots=True)
class _Fitted:
    """A sensor on its actor; ``number`` names its noise stream. Velocities and poses are those of the last two ticks.

    ``events`` are those of an event camera since its picture before.
    """

    mounted: MountedSensor
    model: SensorModel
    number: int
    period_s: float
    velocity_mps: Vector = field(default_factory=Vector)
    before_mps: Vector | None = None
    pose: Pose | None = None
    was: Pose | None = None
    events: NDArray[Any] | None = None


class SensorSuite:
    """Sensors at work. Call :meth:`follow` after every tick of the world, and :meth:`measure` whenever a frame is wanted.

    What a sensor measures depends on the world and the tick alone, not on which frames were wanted before. An event camera
    therefore takes its pictures as it follows, one whenever it is due.
    """

    def __init__(
        self,
        rig: Rig,
        world: World,
        *,
        boxes: Boxes = (),
        weather: SceneWeather | None = None,
        weather_felt: bool = False,
        threads: int = 1,
        renderer: str = "software",
        shared: Renderer | None = None,
    ) -> None:
        # Refused at once, not at the first picture: the scenario may run for minutes before.
        if world.place == "flat":
            raise InputError(f"rig {rig.name}: the flat ground has nothing to see: give the scenario a map")
        for sensor in rig.sensors:
            check_rays(sensor.type, sensor.attributes, world.settings.step_s)
        road_map = load_map(world.place)
        self.rig = rig
        self.parent_id = _parent(rig, world)
        self.weather = weather or SceneWeather()
        self._world = world
        self._street = scene_builder_of(road_map, boxes)
        self._origin = origin_of(road_map.georeference)
        self._caster = ray_caster_of(renderer, threads)
        self._renderer = RigRenderer(threads, renderer, shared=shared)
        self._odometer = Odometer()
        self._odometer.advance(world.states().values())
        self._start_s: float | None = None
        self._step_s = world.settings.step_s
        self._fitted = [
            _Fitted(
                sensor,
                SENSOR_KINDS[sensor.type](_felt(sensor) if weather_felt else sensor.attributes),
                number,
                float(sensor.attributes.get("sensor_tick", 0.0)),
            )
            for number, sensor in enumerate(rig.sensors)
        ]
        for fitted in self._fitted:
            if isinstance(fitted.model, EventCamera):
                fitted.model.number = fitted.number
        # Flow is motion since the tick before: what that looked like is only kept for those who need it.
        self._has_flow = any(sensor.type == "sensor.camera.optical_flow" for sensor in rig.sensors)
        self._past: RenderScene | None = None
        self._present: RenderScene | None = None

    def close(self) -> None:
        self._caster.close()
        self._renderer.close()

    @property
    def drawn_by(self) -> dict[str, str]:
        """Who draws its pictures: the back end, and what they depend on beside the world."""
        return self._renderer.facts

    def to_plain(self) -> dict[str, Any]:
        """What it remembers, but for pictures: how far walkers walked, when it began, and how its sensors moved."""
        return {
            "start_s": self._start_s,
            "step_s": self._step_s,
            "odometer": self._odometer.state(),
            "moved": [[fitted.velocity_mps, fitted.before_mps, fitted.pose, fitted.was] for fitted in self._fitted],
        }

    def recall(self, plain: Mapping[str, Any]) -> None:
        """Take up what :meth:`to_plain` returned."""
        self._start_s, self._step_s = plain["start_s"], plain["step_s"]
        self._odometer = Odometer.restore(plain["odometer"])
        for fitted, (velocity, before, pose, was) in zip(self._fitted, plain["moved"], strict=True):
            fitted.velocity_mps, fitted.before_mps = Vector(*velocity), None if before is None else Vector(*before)
            fitted.pose, fitted.was = None if pose is None else Pose(*pose), None if was is None else Pose(*was)

    def follow(self, step_s: float | None = None, commands: Mapping[int, Command] | None = None) -> None:
        """Follow a tick of the world, of the fixed step unless another one is given; ``commands`` as for :meth:`scene`."""
        world = self._world
        self._step_s = step_s or world.settings.step_s
        if self._start_s is None:
            self._start_s = world.time_s
        self._odometer.advance(world.states().values())
        if not self.is_there:
            return
        if self._has_flow:
            self._past, self._present = self._present, self._street.scene(self._looks({}), self.weather)
        for fitted in self._fitted:
            pose = self.pose_of(fitted.mounted)
            fitted.was, fitted.pose = fitted.pose, pose
            if isinstance(fitted.model, Imu | Radar):
                fitted.before_mps = fitted.velocity_mps if self._elapsed_s else None
                fitted.velocity_mps = world.velocity_at(self.parent_id, Vector(pose.x_m, pose.y_m, pose.z_m))
        # An event camera needs every picture since the one before, asked for or not: it looks as it follows.
        self._watch([fitted for fitted in self._due() if isinstance(fitted.model, EventCamera)], commands)

    def _watch(self, due: list[_Fitted], commands: Mapping[int, Command] | None) -> None:
        if not due:
            return
        cameras = [(fitted, fitted.model) for fitted in due if isinstance(fitted.model, EventCamera)]
        frames = self._renderer.draw(
            self.scene(commands), [camera.at(self.pose_of(fitted.mounted)) for fitted, camera in cameras]
        )
        for (fitted, camera), frame in zip(cameras, frames, strict=True):
            fitted.events = camera.events(frame, nanoseconds(self._world.time_s))

    @property
    def is_there(self) -> bool:
        """Is the actor that carries the sensors still in the world?"""
        return self.parent_id in self._world.states()

    @property
    def _elapsed_s(self) -> float:
        return self._world.time_s - (self._world.time_s if self._start_s is None else self._start_s)

    def pose_of(self, sensor: MountedSensor) -> Pose:
        """Where a sensor is now."""
        return attached_pose(self._world.state(self.parent_id).pose, sensor.pose)

    def scene(self, commands: Mapping[int, Command] | None = None) -> RenderScene:
        """What there is to see now; ``commands`` make brake and reversing lamps burn."""
        return self._street.scene(self._looks(commands or {}), self.weather, before=self._past, tick=self._world.tick_count)

    def _looks(self, commands: Mapping[int, Command]) -> list[ActorAppearance]:
        night = is_dark(self.weather)
        return [
            ActorAppearance(
                actor.id,
                actor.type,
                state.pose,
                lamps=_lamps(commands.get(actor.id), night=night),
                walked_m=self._odometer.walked_m(state),
            )
            for actor, state in ((actor, self._world.state(actor.id)) for actor in self._world.actors)
        ]

    def measure(self, commands: Mapping[int, Command] | None = None) -> tuple[Measurement, ...]:
        """Measure with every sensor that is due, in the order of the rig; nothing once the actor is gone."""
        due = self._due()
        return self._measure(due, self.scene(commands), Channel(0))[0] if due else ()

    def look(self, commands: Mapping[int, Command] | None = None) -> tuple[tuple[Measurement, ...], tuple[CameraView, ...]]:
        """Measure, and tell the truth behind the pictures."""
        due = self._due()
        if not due:
            return (), ()
        scene = self.scene(commands)
        measured, drawn = self._measure(due, scene, Channel.INSTANCE)
        others = [actor.id for actor in self._world.actors if actor.id != self.parent_id]
        return measured, self._renderer.views(scene, drawn, others)

    def _due(self) -> list[_Fitted]:
        return (
            [fitted for fitted in self._fitted if is_due(fitted.period_s, self._elapsed_s, self._step_s)]
            if self.is_there
            else []
        )

    def _measure(
        self, due: list[_Fitted], scene: RenderScene, truth: Channel
    ) -> tuple[tuple[Measurement, ...], dict[str, CameraFrame]]:
        """Measure with some sensors; the frames of cameras, by name, also hold the channels of ``truth``."""
        poses = [self.pose_of(fitted.mounted) for fitted in due]
        cameras = {}
        for fitted, pose in zip(due, poses, strict=True):
            if isinstance(fitted.model, CameraSensor):
                camera = fitted.model.at(pose, fitted.was, image=True)
                cameras[fitted.mounted.name] = replace(camera, channels=camera.channels | truth)
        # Rays first: on a card they fly while pictures are drawn.
        rays = {
            fitted.number: begun
            for fitted, pose in zip(due, poses, strict=True)
            if (begun := self._begun(fitted, pose, scene)) is not None
        }
        drawn = dict(zip(cameras, self._renderer.draw(scene, list(cameras.values())), strict=True)) if cameras else {}
        measured = []
        for fitted, pose in zip(due, poses, strict=True):
            if isinstance(fitted.model, CameraSensor):
                values = fitted.model.encode(drawn[fitted.mounted.name])
            elif fitted.number in rays:
                values = as_rows(rays.pop(fitted.number)())
            else:
                values = self._values(fitted, fitted.model, pose)
            measured.append(Measurement(fitted.mounted, pose, values))
        return tuple(measured), drawn

    def _begun(self, fitted: _Fitted, pose: Pose, scene: RenderScene) -> Callable[[], NDArray[np.void]] | None:
        """Begin to measure with a sensor that casts rays; what comes back waits for them. None: it casts none."""
        noise, lasts_s = self._noise_of(fitted), interval_s(fitted.period_s, self._step_s)
        match fitted.model:
            case Lidar() as lidar:
                scan = lidar.begin(self._caster, scene, pose, self._elapsed_s, lasts_s, noise)
                return lambda: scan().points
            case Radar() as radar:
                speeds = {number: state.velocity_mps for number, state in self._world.states().items()}
                return radar.begin(self._caster, scene, pose, fitted.velocity_mps, speeds, lasts_s, noise)
            case _:
                return None

    def _noise_of(self, fitted: _Fitted) -> NoiseKey:
        return NoiseKey(0, fitted.number, self._world.tick_count)

    def _values(self, fitted: _Fitted, model: SensorModel, pose: Pose) -> NDArray[Any]:
        world, noise = self._world, self._noise_of(fitted)
        match model:
            case Imu() as imu:
                felt = acceleration_of(fitted.before_mps, fitted.velocity_mps, self._step_s)
                spin = world.state(self.parent_id).angular_velocity_degps
                found = imu.measure(pose, felt, spin, GRAVITY_MPS2, noise)
                return np.array([*found.accelerometer_mps2, *found.gyroscope_radps, found.compass_rad])
            case Gnss() as gnss:
                return np.array(gnss.measure(self._origin, pose.x_m, pose.y_m, pose.z_m, noise))
            case ObstacleDetector() as obstacle:
                met = obstacle.look(world, pose, self.parent_id)
                return np.array([] if met is None else [met.distance_m, met.what if isinstance(met.what, int) else 0])
            case EventCamera():
                return as_rows(np.empty(0, EVENT) if fitted.events is None else fitted.events)
            case _:
                raise TypeError(f"a {type(model).__name__} needs a picture, or rays")


def boxes_of(scenario: ScenarioSpec) -> Boxes:
    """The boxes of scenery that a scenario puts beside what the map has, as physics has them."""
    return tuple((box.name, box.size, Pose(*box.at, yaw_deg=box.yaw_deg)) for box in scenario.boxes)


def build_scenery(scenario: ScenarioSpec) -> None:
    """Build what stands on a scenario's map; it is kept for whoever puts sensors there."""
    if scenario.map != "flat":
        scene_builder_of(load_map(scenario.map), boxes_of(scenario))


def as_rows(records: NDArray[np.void]) -> NDArray[Any]:
    """Records as rows of numbers: float32 where all fields are, else float64, which holds them all exactly."""
    names = records.dtype.names or ()
    kinds = {records.dtype[name] for name in names}
    kind = np.float32 if kinds == {np.dtype("<f4")} else np.float64
    return np.stack([records[name].astype(kind) for name in names], axis=-1)


def _felt(sensor: MountedSensor) -> dict[str, Value]:
    """The attributes of a sensor where weather is felt, unless it says otherwise itself."""
    felt: dict[str, Value] = {WEATHER: True} if sensor.type == "sensor.lidar.ray_cast" else {}
    return felt | sensor.attributes


def _parent(rig: Rig, world: World) -> int:
    """Who carries the sensors: the actor that is named, or the first vehicle, or else the first of all."""
    here = [actor.id for actor in world.actors]
    if rig.actor is not None:
        if rig.actor not in here:
            raise InputError(f"rig {rig.name}: actor: one of {', '.join(map(str, here))} was wanted, but {rig.actor} came")
        return rig.actor
    return next((number for number in here if isinstance(world.kind(number), VehicleType)), here[0])


def _lamps(command: Command | None, *, night: bool) -> Lamp:
    lamps = Lamp.POSITION | Lamp.LOW_BEAM if night else Lamp(0)
    if isinstance(command, VehicleCommand):
        lamps |= Lamp.BRAKE if command.brake > 0.0 else Lamp(0)
        lamps |= Lamp.REVERSE if command.reverse else Lamp(0)
    return lamps
