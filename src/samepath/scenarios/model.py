"""Scenario files: YAML in, a checked record out. Nothing runs before everything in the file has been looked at."""

import csv
import io
from collections.abc import Callable, Mapping
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from samepath.core.catalogue import PropType, VehicleType, WalkerType, actor_type
from samepath.core.documents import read_yaml, validate
from samepath.core.errors import InputError, SamepathError, unknown
from samepath.core.files import regular
from samepath.core.trig import heading_deg
from samepath.core.units import SPEED_UNITS_MPS, parse_duration_s, parse_length_m, parse_quantity

# Nothing of a scenario is farther from the origin.
_LIMIT_M: Final = 1e5
# The controller that drives by what its camera and its LiDAR show, and the rig it has unless another is named.
CAMERA: Final = "camera"
CAMERA_RIG: Final = "driver"
# The paper authors' own inputs: one waypoint a line.
HEADER: Final = ["AgentNo", "AgentType", "X", "Y", "V", "Colour"]


def _as_error(convert: Callable[[str], float]) -> Callable[[object], float]:
    """Let pydantic see our errors as its own."""

    def converted(value: object) -> float:
        try:
            return convert(str(value))
        except SamepathError as error:
            raise ValueError(str(error)) from error

    return converted


def _speed(text: str) -> float:
    return parse_quantity(text, SPEED_UNITS_MPS, "speed", "8 m/s, 30 km/h or 8")


Length = Annotated[float, BeforeValidator(_as_error(parse_length_m))]
Duration = Annotated[float, BeforeValidator(_as_error(parse_duration_s))]
Speed = Annotated[float, BeforeValidator(_as_error(_speed))]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ActorSpec(_Model):
    """One actor: what it is, where it goes, how fast, and who drives it."""

    id: int = Field(ge=1)
    type: str
    path: tuple[tuple[float, float], ...] = Field(min_length=1)
    speed: Speed = Field(default=8.0, ge=0, le=100)
    look_ahead: Length = Field(default=2.0, gt=0, le=100)
    heading_deg: float | None = None
    start_delay: Duration = Field(default=0.0, ge=0)
    after_collision: Literal["go on", "remove", "fall"] = "go on"
    # When to be at each point of the path; then speed is what the times say, and bends do not slow it down.
    times: tuple[Duration, ...] | None = None
    start_speed: Speed = Field(default=0.0, ge=0, le=100)
    # A function of the user's own, or CAMERA: the driver that goes by what its own sensors show.
    controller: str | None = None
    process: tuple[str, ...] | None = None
    # Sensors that its controller may look through: a built-in rig or a file.
    rig: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _check(self) -> "ActorSpec":
        kind = actor_type(self.type)
        for x_m, y_m in self.path:
            if abs(x_m) > _LIMIT_M or abs(y_m) > _LIMIT_M:
                raise ValueError(f"waypoint ({x_m:g}, {y_m:g}) is farther than {_LIMIT_M:g} m from the origin")
        if isinstance(kind, PropType) and len(self.path) > 1:
            raise ValueError(f"a {self.type} stands still: give it one point, not a path")
        if not isinstance(kind, PropType) and self.controller is None and self.process is None and len(self.path) < 2:
            raise ValueError("a path of at least two points is needed to follow")
        if self.controller is not None and self.process is not None:
            raise ValueError("either a controller or a process drives an actor, not both")
        if self.controller is not None and self.controller != CAMERA and self.controller.count(":") != 1:
            raise ValueError(f"a controller is named module:function, or {CAMERA}, not {self.controller!r}")
        if self.controller == CAMERA and (not isinstance(kind, VehicleType) or len(self.path) < 2):
            raise ValueError(f"the controller {CAMERA} drives a vehicle along a path of at least two points")
        if self.rig is not None and self.controller is None and self.process is None:
            raise ValueError("rig: only a controller of its own, or a process, looks through an actor's sensors: name one")
        if self.after_collision == "fall" and isinstance(kind, VehicleType):
            raise ValueError("only walkers fall")
        if self.times is not None:
            self._check_times(self.times)
        if self.start_speed and (self.times is None or not isinstance(kind, VehicleType)):
            raise ValueError("start_speed: only vehicles with times start with a speed")
        return self

    def _check_times(self, times: tuple[float, ...]) -> None:
        if len(times) != len(self.path) or len(times) < 2:
            raise ValueError(
                f"times: one for each of the {len(self.path)} points of the path was wanted, but {len(times)} came"
            )
        if times[0] != 0.0 or any(after <= before for before, after in pairwise(times)):
            raise ValueError("times: from 0, each later than the one before was wanted")
        if self.start_delay or self.controller is not None or self.process is not None:
            raise ValueError("times: neither start_delay nor a controller goes with them")

    @property
    def looks_through(self) -> str | None:
        """The rig whose frames its controller may ask for; None: it has no sensors."""
        return self.rig or (CAMERA_RIG if self.controller == CAMERA else None)

    @property
    def start_heading_deg(self) -> float:
        """The heading it starts with: given, or along the first piece of its path."""
        if self.heading_deg is not None or len(self.path) < 2:
            return self.heading_deg or 0.0
        (x0, y0), (x1, y1) = self.path[:2]
        return heading_deg(x1 - x0, y1 - y0)


class BoxSpec(_Model):
    """A box of scenery beside what the map has."""

    name: str
    at: tuple[float, float]
    size: tuple[float, float, float]
    yaw_deg: float = 0.0

    @model_validator(mode="after")
    def _check(self) -> "BoxSpec":
        if min(self.size) <= 0:
            raise ValueError(f"a box needs a positive size, not {self.size}")
        return self


class TrafficSpec(_Model):
    """Traffic beside the actors of a scenario: how many of each, and whether drivers have destinations or turn by chance.

    Only the simulator samepath plays it, on a map with roads.
    """

    vehicles: int = Field(default=0, ge=0, le=2000)
    walkers: int = Field(default=0, ge=0, le=2000)
    routes: Literal["random-turns", "destinations"] = "random-turns"

    @model_validator(mode="after")
    def _check(self) -> "TrafficSpec":
        if not self.vehicles and not self.walkers:
            raise ValueError("traffic of at least one vehicle or walker was wanted, but none came")
        return self


class ScenarioSpec(_Model):
    """A scenario file."""

    name: str
    description: str = ""
    map: str = "flat"
    duration: Duration = Field(default=20.0, gt=0, le=3600)
    step: Duration = Field(default=0.05, gt=0, le=1)
    substeps: int = Field(default=5, ge=1, le=100)
    end: Literal["last-waypoint", "first-collision", "duration"] = "last-waypoint"
    actors: tuple[ActorSpec, ...] = ()
    boxes: tuple[BoxSpec, ...] = ()
    traffic: TrafficSpec | None = None

    @model_validator(mode="after")
    def _check(self) -> "ScenarioSpec":
        if not self.actors and self.traffic is None:
            raise ValueError("at least one actor was wanted, or traffic, but neither came")
        if self.traffic is not None and self.map == "flat":
            raise ValueError("traffic needs roads: choose a map such as town, not flat")
        if self.traffic is not None and not self.actors and self.end == "last-waypoint":
            raise ValueError("traffic never arrives: with traffic alone choose end: duration or first-collision")
        ids = [actor.id for actor in self.actors]
        if len(set(ids)) != len(ids):
            raise ValueError(f"actor ids must be distinct, but {ids} came")
        if ids != list(range(1, len(ids) + 1)):
            raise ValueError(f"actor ids must be 1, 2, 3, ... in order, but {ids} came")
        ticks = self.duration / self.step
        if abs(ticks - round(ticks)) > 1e-6:
            raise ValueError(f"a duration of {self.duration:g} s is no whole number of steps of {self.step:g} s")
        return self

    @property
    def population(self) -> int:
        """How many actors there are, with those of the traffic: their ids are 1 to this."""
        return len(self.actors) + (self.traffic.vehicles + self.traffic.walkers if self.traffic else 0)

    @property
    def ego(self) -> int | None:
        """Who is under test: the first actor that looks through sensors, or else the first vehicle of the scenario's own."""
        looking = (actor.id for actor in self.actors if actor.looks_through)
        driving = (actor.id for actor in self.actors if isinstance(actor_type(actor.type), VehicleType))
        return next(looking, None) or next(driving, None)

    def driven_by_camera(self) -> "ScenarioSpec":
        """The same scenario, its ego driven by what its own camera and LiDAR show."""
        ego = self.ego
        if ego is None:
            raise InputError(f"scenario {self.name}: ego: a vehicle was wanted to be driven by its camera, but there is none")
        if self.map == "flat":
            raise InputError(f"scenario {self.name}: ego: the flat ground has no lanes to see: choose a scenario with a map")
        mine = self.actors[ego - 1].model_dump()
        # Times are the script's; the driver goes by what it sees, from a standstill.
        mine |= {"controller": CAMERA, "process": None, "times": None, "start_speed": 0.0}
        spec = ActorSpec(**mine)
        return self.model_copy(update={"actors": tuple(spec if actor.id == ego else actor for actor in self.actors)})

    @property
    def ticks(self) -> int:
        """How many steps the duration is."""
        return round(self.duration / self.step)


def built_in_scenarios() -> dict[str, str]:
    """Return the scenarios that come with samepath: name -> YAML text."""
    folder = resources.files("samepath.scenarios") / "data"
    files = [file for file in folder.iterdir() if file.name.endswith(".yaml")]
    found = {file.name.removesuffix(".yaml"): file.read_text("utf-8") for file in files}
    return dict(sorted(found.items()))


def load_scenario(name_or_path: str) -> ScenarioSpec:
    """Read a built-in scenario or a file (YAML, OpenSCENARIO, or the paper authors' CSV)."""
    known = built_in_scenarios()
    if name_or_path in known:
        return parse_scenario(known[name_or_path], f"scenario {name_or_path}")
    path = Path(name_or_path)
    if path.suffix == ".xosc":
        # Imported here: it brings the map reader along, which nobody else needs to know a scenario.
        from samepath.openscenario import scenario_data

        return build_scenario(scenario_data(path), str(path))
    if path.suffix not in (".yaml", ".yml", ".txt", ".csv"):
        raise unknown("scenario", name_or_path, known)
    try:
        text = regular(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if path.suffix in (".txt", ".csv"):
        return scenario_from_authors(text, str(path))
    return parse_scenario(text, str(path))


def parse_scenario(text: str, where: str) -> ScenarioSpec:
    """Check a scenario file's text."""
    return build_scenario(read_yaml(text, where, "scenario", ScenarioSpec.model_fields), where)


def build_scenario(data: Mapping[str, Any], where: str) -> ScenarioSpec:
    """Check a scenario's plain data."""
    return validate(ScenarioSpec, data, where, _model_at)


def _model_at(location: list[str | int]) -> type[BaseModel]:
    parts: dict[str | int, type[BaseModel]] = {"actors": ActorSpec, "boxes": BoxSpec, "traffic": TrafficSpec}
    return parts.get(location[0], ScenarioSpec) if len(location) > 1 else ScenarioSpec


def scenario_from_authors(text: str, where: str) -> ScenarioSpec:
    """Read waypoints per agent; speeds are metres per second. The authors' own town is not ours: the ground is flat."""
    rows = [row for row in csv.reader(io.StringIO(text), skipinitialspace=True) if any(field.strip() for field in row)]
    if not rows or [field.strip() for field in rows[0]] != HEADER:
        raise InputError(
            f"{where}, line 1: the header {','.join(HEADER)} was wanted, but {','.join(rows[0]) if rows else 'nothing'} came"
        )
    agents: dict[int, dict[str, Any]] = {}
    for line, row in enumerate(rows[1:], start=2):
        if len(row) != len(HEADER):
            raise InputError(f"{where}, line {line}: {len(HEADER)} values were wanted, but {len(row)} came")
        try:
            number, kind, x_m, y_m, speed_mps = int(row[0]), row[1].strip(), float(row[2]), float(row[3]), float(row[4])
        except ValueError as error:
            raise InputError(f"{where}, line {line}: {error}") from error
        agent = agents.setdefault(number, {"id": number, "type": kind, "path": [], "speed": speed_mps})
        agent["path"].append([x_m, y_m])
    for agent in agents.values():
        if isinstance(actor_type(agent["type"]), WalkerType):
            # The authors' pedestrians cover 0.98 m a second in their logs whatever V says.
            agent["speed"] = min(agent["speed"], 1.0)
    name = where.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    data = {"name": name, "description": "waypoints of the paper's authors", "map": "flat", "duration": 20.0, "end": "duration"}
    return build_scenario({**data, "actors": [agents[number] for number in sorted(agents)]}, where)
