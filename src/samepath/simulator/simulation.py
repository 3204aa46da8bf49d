"""A scenario running: the world, the agents in it, and what ends it. One call advances one tick.

Agents decide from tick n and all their commands take effect in tick n + 1, in the order of their ids: nobody sees what another
decides in the same tick, and no order of a container reaches the world. Everything the future depends on goes into a snapshot,
agents included, so that a run that is restored goes on with the bits of one that never stopped. What is not fixed by the
scenario and its settings (the order of spawning, the meshes' order, where chance comes from) stands in one place, the
:class:`Arrangement`, where a study of sources of non-determinism exchanges it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from samepath.core.catalogue import PropType, VehicleType, WalkerType, actor_type
from samepath.core.errors import InputError, SimulatorError
from samepath.core.states import Collision, Command, Pose, Vector
from samepath.core.streams import stream
from samepath.core.trig import sincos_deg
from samepath.scenarios.agents import (
    Agent,
    CallableAgent,
    DecisionRecorder,
    DecisionReplay,
    Decisions,
    DrivingAgent,
    FedAgent,
    ProcessAgent,
    SensorReading,
    StandingAgent,
    TimedWalkingAgent,
    WalkingAgent,
    WorldView,
    no_sensors,
)
from samepath.scenarios.astar import Grid, rasterise
from samepath.scenarios.camera_driver import CameraAgent
from samepath.scenarios.drivers import Steering, VehicleFollower, VehicleSettings
from samepath.scenarios.model import CAMERA, ActorSpec, ScenarioSpec, build_scenario
from samepath.scenarios.paths import Path, TimedWalk, interpolate, timetable_of
from samepath.scenarios.run_inputs import InputFeed, InputRecorder, driven_from_outside
from samepath.scenarios.walkers import WalkerFollower, WalkerSettings
from samepath.simulator.maps import Mesh, load_map
from samepath.simulator.maps.surfaces import GROUND_LABELS
from samepath.simulator.physics.engine import PhysicsSettings
from samepath.simulator.traffic.traffic import Newcomer, Traffic, TrafficSettings, newcomers
from samepath.simulator.world.signals import Signals
from samepath.simulator.world.world import StaticMesh, World

if TYPE_CHECKING:  # sensors bring a compiler along, which nobody needs who does not look
    from samepath.simulator.perception import Perception

OFF_MAP_M: Final = 3.0
LAST_WAYPOINT: Final = "every actor reached its last waypoint"
FIRST_COLLISION: Final = "first collision"
TIME_OVER: Final = "simulated time is over"
DURATION: Final = "duration"
# More than the rounding of a sum of steps, less than any step.
_ROUNDING_S: Final = 1e-9


@dataclass(frozen=True)
class SimulationSettings:
    """What a study may vary beside the scenario itself; None leaves the scenario's own value.

    ``duration_s`` ends a run that has not ended before. ``renderer`` draws what controllers look at.
    """

    step_s: float | None = None
    substeps: int | None = None
    solver_iterations: int = 4
    physics_threads: int = 0
    grid_m: float = 0.25
    queue: str = "stable"
    seed: int = 0
    duration_s: float | None = None
    renderer: str = "software"


@dataclass(frozen=True)
class StepResult:
    """What one tick brought."""

    tick: int
    collisions: tuple[Collision, ...]
    destroyed: tuple[int, ...]
    ended: str | None


@dataclass(frozen=True)
class PartlyReplayed:
    """What of a run is as it once was: the ego's commands, or, with ``sight``, what sensors show to whom looks through them.

    All else goes on by itself. It tells apart what varies: the world, the ego, or what it sees.
    """

    decisions: Decisions
    sight: bool = False


class Simulation:
    """A scenario in its world. With ``decisions`` there are no agents: what they once decided is replayed by simulated time.

    ``record_to`` takes down what is applied in every step, and who has finished; ``inputs`` all that went into the run.
    With a ``feed`` that is played again, by step; ``open_loop`` says that it has the commands of everybody, so that there are
    no agents, and otherwise it has those from outside. ``partly`` replays a part of what was once decided.
    """

    def __init__(
        self,
        scenario: ScenarioSpec,
        settings: SimulationSettings | None = None,
        arrangement: "Arrangement | None" = None,
        *,
        decisions: Decisions | None = None,
        record_to: DecisionRecorder | None = None,
        inputs: InputRecorder | None = None,
        feed: InputFeed | None = None,
        open_loop: bool = True,
        partly: "PartlyReplayed | None" = None,
    ) -> None:
        self.inputs = inputs
        self._partly = partly
        self.feed = feed
        self._is_open_loop = feed is not None and open_loop
        self.scenario = scenario
        self._arrangement = arrangement or Arrangement()
        self.settings = settings or SimulationSettings()
        step_s = self.settings.step_s or scenario.step
        if inputs is not None:
            inputs.log.step_s = step_s
        physics = PhysicsSettings(
            step_s=step_s,
            substeps=self.settings.substeps or scenario.substeps,
            solver_iterations=self.settings.solver_iterations,
            threads=self.settings.physics_threads,
        )
        self.world = World(physics, self._arrangement.statics(scenario.map), place=scenario.map)
        for box in scenario.boxes:
            self.world.add_box(box.name, Pose(box.at[0], box.at[1], yaw_deg=box.yaw_deg), box.size)
        self.commands: dict[int, Command] = {}
        self._note_types()
        self._met: set[tuple[int, int | None, str]] = set()
        for spec in self._arrangement.order(scenario.actors):
            self._spawn(spec)
        self.traffic, self.signals = self._traffic()
        for newcomer in self._newcomers():
            self._join(newcomer)
        self._record_to = record_to
        self._replay = DecisionReplay(decisions, self._types) if decisions is not None else None
        self._ego_replay = DecisionReplay(partly.decisions, self._types) if partly is not None and not partly.sight else None
        self.agents = self._agents()
        self._shown = self._shown_run()
        self.perception = self._perception()

    @property
    def replays(self) -> bool:
        """Are there no agents, only what they once decided?"""
        return self._replay is not None or self._is_open_loop

    def _agents(self) -> dict[int, Agent]:
        if self.replays:
            return {}
        fed = driven_from_outside(self.scenario) if self.feed is not None else frozenset[int]()
        replayed = None if self._ego_replay is None else self.scenario.ego
        own = (spec for spec in self.scenario.actors if spec.id != replayed)
        return {spec.id: FedAgent(spec.id) if spec.id in fed else self._agent(spec) for spec in own}

    def _perception(self) -> "Perception | None":
        """The sensors that agents look through; none where nobody does, as in a replay of what everybody decided."""
        if self.replays or not any(spec.looks_through for spec in self.scenario.actors):
            return None
        from samepath.simulator.perception import Perception

        world = self.world if self._shown is None else self._shown.world
        return Perception.of(self.scenario, world, self.settings.renderer)

    def _shown_run(self) -> "Simulation | None":
        """The run that sensors are shown instead of this one: as recorded, step by step, in a world of its own."""
        if self._partly is None or not self._partly.sight:
            return None
        return Simulation(self.scenario, self.settings, decisions=self._partly.decisions)

    def _note_types(self) -> None:
        self._types = {spec.id: actor_type(spec.type).name for spec in self.scenario.actors}
        self._things = {number for number, name in self._types.items() if isinstance(actor_type(name), PropType)}

    def _spawn(self, spec: ActorSpec) -> None:
        kind = actor_type(spec.type)
        x_m, y_m = spec.path[0]
        lift_m = kind.height_m / 2 + 0.02 if isinstance(kind, WalkerType) else 0.03
        pose = Pose(x_m, y_m, ground_height_m(self.world, x_m, y_m) + lift_m, yaw_deg=spec.start_heading_deg)
        try:
            number = self.world.spawn(spec.type, pose, spec.id)
        except SimulatorError as error:
            raise InputError(f"scenario {self.scenario.name}: actors[{spec.id - 1}]: {error}") from error
        if number != spec.id:
            raise SimulatorError(f"actor {spec.id} got the id {number}")
        if spec.start_speed:
            sine, cosine = sincos_deg(spec.start_heading_deg)
            self.world.set_velocity(number, Vector(spec.start_speed * cosine, spec.start_speed * sine, 0.0))

    def _traffic(self) -> tuple[Traffic | None, Signals | None]:
        """Who decides for the traffic, if there is any, and the lights it goes by."""
        if self._traffic_settings is None:
            return None, None
        road_map = load_map(self.scenario.map)
        traffic = Traffic(road_map, self._traffic_settings, self.world.settings.step_s)
        return traffic, Signals(traffic.net.plan)

    @property
    def _traffic_settings(self) -> TrafficSettings | None:
        wanted = self.scenario.traffic
        if wanted is None:
            return None
        by_plan = wanted.routes == "destinations"
        return TrafficSettings(wanted.vehicles, wanted.walkers, destinations=by_plan, seed=self.settings.seed)

    def _newcomers(self) -> tuple[Newcomer, ...]:
        """The actors of the traffic; where a scenario's own actors begin nobody of the traffic does."""
        if self._traffic_settings is None:
            return ()
        taken = [(actor.path[0][0], actor.path[0][1]) for actor in self.scenario.actors]
        return newcomers(load_map(self.scenario.map), self._traffic_settings, taken)

    def _join(self, newcomer: Newcomer) -> None:
        """Put an actor of the traffic into the world, behind all others."""
        x_m, y_m = newcomer.x_m, newcomer.y_m
        pose = Pose(x_m, y_m, ground_height_m(self.world, x_m, y_m) + newcomer.lift_m, yaw_deg=newcomer.yaw_deg)
        try:
            number = self.world.spawn(newcomer.type, pose)
        except SimulatorError as error:
            raise InputError(f"scenario {self.scenario.name}: traffic: {error}") from error
        self._types[number] = newcomer.type
        if self.traffic is not None:
            self.traffic.add(number, newcomer, self.world.kind(number))

    def _agent(self, spec: ActorSpec) -> Agent:
        kind = actor_type(spec.type)
        if isinstance(kind, PropType):
            return StandingAgent(spec.id)
        if spec.controller is not None and spec.controller != CAMERA:
            return CallableAgent(spec.id, spec.controller)
        if spec.process is not None:
            return ProcessAgent(spec.id, spec.process, spec.type, sees=spec.rig is not None)
        if isinstance(kind, VehicleType):
            return self._driving(spec, kind)
        if spec.times is not None:
            walk = TimedWalk(spec.path, timetable_of(spec.path, spec.times), self.world.settings.step_s)
            return TimedWalkingAgent(spec.id, walk)
        return WalkingAgent(spec.id, self._walker(spec, kind), spec.path[0], spec.start_delay)

    def _driving(self, spec: ActorSpec, kind: VehicleType) -> Agent:
        driver = _driver(spec, self.world.settings.step_s)
        if spec.controller == CAMERA:
            return CameraAgent(spec.id, driver, spec.start_delay, kind.length_m, kind.width_m)
        return DrivingAgent(spec.id, driver, spec.start_delay)

    def _walker(self, spec: ActorSpec, kind: WalkerType) -> WalkerFollower:
        grid = _walkable_grid(self.scenario.map, self.settings.grid_m, self._bounds())
        settings = WalkerSettings(
            step_s=self.world.settings.step_s,
            speed_mps=spec.speed,
            look_ahead_m=spec.look_ahead,
            radius_m=kind.radius_m,
            queue=self.settings.queue,
        )
        seed, draw = self.settings.seed, self._arrangement.chance

        def chance(plans: int) -> np.random.Generator:
            return draw(seed, "walker", spec.id, plans)

        return WalkerFollower(grid, spec.path[1:], settings, chance)

    def _bounds(self) -> tuple[float, float, float, float]:
        xs = [x for actor in self.scenario.actors for x, _ in actor.path]
        ys = [y for actor in self.scenario.actors for _, y in actor.path]
        return min(xs) - 30.0, min(ys) - 30.0, max(xs) + 30.0, max(ys) + 30.0

    def view(self, *, lasting: bool = False) -> WorldView:
        """Return what agents see now; ``lasting``: also through their sensors while the world goes on."""
        look: Callable[[int], Mapping[str, SensorReading]]
        look = no_sensors if self.perception is None else self.perception.sensors
        if lasting and self.perception is not None:
            look = self.perception.look_now()
        return WorldView(self.world.tick_count, self.world.time_s, self.world.states(), self._types, look)

    def decide(self, view: WorldView) -> dict[int, Command]:
        """Ask every agent that is still there, by id; or look up what was decided by this time."""
        if self._replay is not None:
            return self._replay.commands(view)
        if self.feed is not None:
            step = self.world.tick_count
            if self._is_open_loop:
                return self.feed.commands(step, view.states)
            # Before anybody is asked: these know nothing of steps.
            for agent in self.agents.values():
                if isinstance(agent, FedAgent):
                    agent.command = self.feed.command(step, agent.actor_id)
        found = {number: agent.decide(view) for number, agent in sorted(self.agents.items()) if number in view.states}
        if self.traffic is not None and self.signals is not None:
            found.update(self.traffic.decide(view.states, view.types, self.signals.shown()))
        return found

    def step(self, step_s: float | None = None) -> StepResult:
        """Advance by one tick: agents decide from what they see now, physics moves everything, collisions take effect."""
        return self.advance(self.decide(self.view()), step_s)

    def advance(self, commands: dict[int, Command], step_s: float | None = None, decided_step: int | None = None) -> StepResult:
        """Apply commands and advance by one tick, of the fixed step unless a game loop gives another.

        ``decided_step`` says before which step those who decided saw the world; None: before this one.
        """
        here, start_s = self.world.states(), self.world.time_s
        if self._ego_replay is not None and self.scenario.ego is not None:
            # By the time of this step, whichever frame it falls into: what is replayed must not come late.
            commands = {**commands, **self._ego_replay.held(start_s, {self.scenario.ego} & set(here))}
        self.commands = commands
        for number, command in sorted(commands.items()):
            if number in here and number not in self._things:
                self.world.apply(number, command)
        collisions = tuple(collision for collision in self.world.tick(step_s) if self._is_new(collision))
        if self.perception is not None:
            self._look_on(step_s, commands)
        if self.signals is not None:
            self.signals.tick(self.world.settings.step_s if step_s is None else step_s)
        destroyed = tuple(number for number in self._hit(collisions) if self._take(number))
        finished = self._finished(start_s)
        if self._record_to is not None:
            self._record_to.note(start_s, here, commands, finished.union(destroyed))
        if self.inputs is not None:
            self.inputs.step(self.world.tick_count - 1, step_s, here, commands, decided_step, finished)
        return StepResult(self.world.tick_count, collisions, destroyed, self._end(collisions, finished))

    def _look_on(self, step_s: float | None, commands: dict[int, Command]) -> None:
        """Let sensors follow the step: of this world, or of the one they are shown, up to the same time."""
        if self.perception is None:
            return
        if self._shown is None:
            self.perception.follow(step_s, commands)
            return
        while self._shown.world.time_s < self.world.time_s - _ROUNDING_S:
            self._shown.step()
            self.perception.follow(None, self._shown.commands)

    def _finished(self, start_s: float) -> frozenset[int]:
        """Who has nothing left to do? Asked once a step: agents in a thread may finish at any moment."""
        if self._replay is not None:
            return self._replay.finished(start_s)
        if self.feed is not None and self._is_open_loop:
            return self.feed.finished(self.world.tick_count - 1)
        found = frozenset(number for number, agent in self.agents.items() if agent.finished)
        if self._ego_replay is None or self.scenario.ego is None:
            return found
        return found | ({self.scenario.ego} & self._ego_replay.finished(start_s))

    def _is_new(self, collision: Collision) -> bool:
        """Count a collision when two first touch, not at every tick of their contact."""
        key = (collision.actor, collision.other, collision.scenery)
        if key in self._met:
            return False
        self._met.add(key)
        return True

    def _hit(self, collisions: tuple[Collision, ...]) -> list[int]:
        return sorted({number for hit in collisions for number in (hit.actor, hit.other) if number is not None})

    def _take(self, number: int) -> bool:
        """Do what a scenario says of an actor that was hit; True if it is gone."""
        # Actors of the traffic go on.
        wish = self.scenario.actors[number - 1].after_collision if number <= len(self.scenario.actors) else "go on"
        if wish == "remove":
            self.world.destroy(number)
            return True
        if wish == "fall":
            self.world.knock_down(number)
        return False

    def _end(self, collisions: tuple[Collision, ...], finished: frozenset[int]) -> str | None:
        until_s = self.settings.duration_s
        if until_s is not None and self.world.time_s >= until_s - _ROUNDING_S:
            return DURATION
        if self.scenario.end == "first-collision" and collisions:
            return FIRST_COLLISION
        here = self.world.states()
        own = (spec.id for spec in self.scenario.actors)
        if self.scenario.end == "last-waypoint" and all(number in finished for number in own if number in here):
            return LAST_WAYPOINT
        over = self.world.time_s >= self.scenario.duration - 0.5 * self.world.settings.step_s
        return TIME_OVER if over else None

    def close(self) -> None:
        """End what agents have started, and let go of what they look through."""
        for agent in self.agents.values():
            agent.close()
        if self.perception is not None:
            self.perception.close()
        if self._shown is not None:
            self._shown.close()

    def snapshot(self) -> bytes:
        """Return everything the future depends on, agents included."""
        if self._partly is not None:
            raise SimulatorError("a run of which a part is replayed has no snapshot: take one of the run itself")
        memory = {str(number): agent.to_plain() for number, agent in self.agents.items()}
        # Scenery has no number: None cannot be compared with one.
        met = [list(key) for key in sorted(self._met, key=lambda key: (key[0], -1 if key[1] is None else key[1], key[2]))]
        extra = {
            "scenario": self.scenario.model_dump(mode="json"),
            "settings": self.settings.__dict__,
            "agents": memory,
            "met": met,
            "decisions": self._replay and asdict(self._replay.decisions),
        }
        if self.traffic is not None and self.signals is not None:
            extra["traffic"] = {**self.traffic.to_plain(), "lights": self.signals.snapshot()}
        if self.perception is not None:
            extra["perception"] = self.perception.to_plain()
        return self.world.snapshot(extra)

    @classmethod
    def restore(cls, packed: bytes, feed: InputFeed | None = None, *, open_loop: bool = True) -> "Simulation":
        """Go on from a snapshot, bit for bit, also in another process; one of a replay needs its ``feed``."""
        world, extra = World.restore_with_extra(packed)
        if not isinstance(extra, dict) or "scenario" not in extra:
            raise SimulatorError("the snapshot is of a world without a scenario: use World.restore")
        simulation = cls.__new__(cls)
        simulation.inputs = None
        simulation._partly = simulation._ego_replay = simulation._shown = None
        simulation.feed = feed
        simulation._is_open_loop = feed is not None and open_loop
        simulation.scenario = build_scenario(extra["scenario"], "snapshot")
        simulation.settings = SimulationSettings(**extra["settings"])
        simulation.world = world
        simulation._arrangement = Arrangement()
        simulation.commands = {}
        simulation._note_types()
        simulation._types.update({actor.id: actor.type for actor in world.actors})
        simulation.traffic, simulation.signals = simulation._traffic()
        if simulation.traffic is not None:
            simulation.traffic.recall(extra["traffic"])
            simulation.signals = Signals.restore(simulation.traffic.net.plan, extra["traffic"]["lights"])
        simulation._met = {(a, b, name) for a, b, name in extra["met"]}
        decisions = extra["decisions"]
        simulation._record_to = None
        simulation._replay = DecisionReplay(Decisions(**decisions), simulation._types) if decisions else None
        simulation.agents = simulation._agents()
        for number, plain in extra["agents"].items():
            if int(number) in simulation.agents:
                simulation.agents[int(number)].recall(plain)
        simulation.perception = simulation._perception()
        if simulation.perception is not None and "perception" in extra:
            simulation.perception.recall(extra["perception"])
        return simulation


@lru_cache(maxsize=256)
def _driver(spec: ActorSpec, step_s: float) -> VehicleFollower:
    """A driver is immutable, so repeats share it; the speeds along its path are worked out once."""
    kind = actor_type(spec.type)
    if not isinstance(kind, VehicleType):
        raise SimulatorError(f"a {spec.type} cannot be driven")
    settings = VehicleSettings(
        step_s=step_s,
        cruise_mps=spec.speed,
        look_ahead_m=spec.look_ahead,
        rear_m=kind.wheel_base_m / 2,
        steering=Steering(kind.wheel_base_m, kind.max_steer_deg),
    )
    timetable = timetable_of(spec.path, spec.times) if spec.times is not None else None
    return VehicleFollower(Path(interpolate(spec.path)), settings, timetable)


def ground_height_m(world: World, x_m: float, y_m: float) -> float:
    """Return the height of the ground under a point; where there is none the point is off the map."""
    hit = world.cast_ray(Vector(x_m, y_m, 200.0), Vector(0.0, 0.0, -1.0), 400.0, fixed_only=True)
    if hit is None:
        raise InputError(f"({x_m:g}, {y_m:g}) is off the map: there is no ground there")
    return 200.0 - hit[0]


def check_on_map(scenario: ScenarioSpec) -> None:
    """Refuse paths of vehicles that leave the drivable surface and of walkers that leave the walkable one."""
    if scenario.map == "flat":
        return
    road_map = load_map(scenario.map)
    low_x, low_y, high_x, high_y = road_map.bounds_m
    for index, actor in enumerate(scenario.actors):
        for number, (x_m, y_m) in enumerate(actor.path):
            where = f"scenario {scenario.name}: actors[{index}].path[{number}]: ({x_m:g}, {y_m:g})"
            if not (low_x <= x_m <= high_x and low_y <= y_m <= high_y):
                raise InputError(
                    f"{where} is off the map {scenario.map}, which is x {low_x:g}..{high_x:g}, y {low_y:g}..{high_y:g}"
                )
            if isinstance(actor_type(actor.type), VehicleType):
                near = road_map.waypoint(x_m, y_m)
                off_m = max(0.0, ((near.x_m - x_m) ** 2 + (near.y_m - y_m) ** 2) ** 0.5 - near.lane_width_m / 2)
                if off_m > OFF_MAP_M:
                    raise InputError(
                        f"{where} is {off_m:.1f} m off the road; the nearest lane is at ({near.x_m:.1f}, {near.y_m:.1f})"
                    )


@lru_cache(maxsize=8)
def _statics(map_name: str) -> tuple[StaticMesh, ...]:
    """The map's solid parts: all ground in one mesh, because one large mesh is quicker to meet than many small ones."""
    if map_name == "flat":
        return ()
    return merged(load_map(map_name).meshes)


def merged(meshes: Sequence[Mesh]) -> tuple[StaticMesh, ...]:
    """Return the solid ones of a map's meshes as physics takes them: the ground as one, then scenery, both in their order."""
    solid = [mesh for mesh in meshes if mesh.is_physical]
    ground = [mesh for mesh in solid if mesh.label in GROUND_LABELS]
    offsets = np.cumsum([0, *(len(mesh.vertices) for mesh in ground)])
    vertices = np.concatenate([mesh.vertices for mesh in ground])
    triangles = np.concatenate([mesh.triangles + offset for mesh, offset in zip(ground, offsets, strict=False)])
    scenery = [
        StaticMesh(mesh.name, mesh.vertices, mesh.triangles, ground=False) for mesh in solid if mesh.label not in GROUND_LABELS
    ]
    return (StaticMesh("ground", vertices, triangles.astype(np.int32), ground=True), *scenery)


@dataclass(frozen=True)
class Arrangement:
    """How a scenario is put together: where its order and its chance come from.

    Everything here is deterministic; :mod:`samepath.simulator.sources` puts something else in its place, on purpose.
    """

    order: Callable[[tuple[ActorSpec, ...]], Sequence[ActorSpec]] = tuple
    statics: Callable[[str], tuple[StaticMesh, ...]] = _statics
    chance: Callable[..., np.random.Generator] = stream


@lru_cache(maxsize=8)
def _walkable_grid(map_name: str, cell_m: float, bounds: tuple[float, float, float, float]) -> Grid:
    low_x, low_y, high_x, high_y = bounds
    if map_name == "flat":
        corners = [(low_x, low_y), (high_x, low_y), (high_x, high_y), (low_x, high_y)]
        return rasterise([np.array(corners)], cell_m=cell_m)
    rings = [polygon.vertices[:, :2] for polygon in load_map(map_name).walkable]
    return rasterise(rings, cell_m=cell_m)


# A study's plain values, as a file has them; what is no number, or none that makes sense, goes no further than here.
Values = Mapping[str, str | float | int | bool]


def number(values: Values, name: str, least: float = -math.inf, most: float = math.inf) -> float:
    """Return a value that must be a finite number within limits."""
    value = values[name]
    if isinstance(value, bool | str) or not math.isfinite(value) or not least <= value <= most:
        raise InputError(f"{name}: a number{_range(least, most)} was wanted, but {value!r} came")
    return float(value)


def whole(values: Values, name: str, least: int, most: int) -> int:
    """Return a value that must be a whole number within limits."""
    value = values[name]
    if isinstance(value, bool | str) or not least <= value <= most or value != int(value):
        raise InputError(f"{name}: a whole number{_range(least, most)} was wanted, but {value!r} came")
    return int(value)


def settings_from(values: Values, seed: int, duration_s: float | None = None) -> SimulationSettings:
    """Build the simulation's settings; 0 substeps stands for the scenario's own."""
    return SimulationSettings(
        step_s=number(values, "step_s", 1e-5, 1.0),
        substeps=whole(values, "substeps", 0, 100) or None,
        solver_iterations=whole(values, "solver_iterations", 1, 1000),
        physics_threads=whole(values, "physics_threads", 0, 1024),
        grid_m=number(values, "grid_m", 0.01, 10.0),
        queue=str(values["queue"]),
        seed=seed,
        duration_s=duration_s,
        renderer=str(values.get("renderer", "software")),
    )


def _range(least: float, most: float) -> str:
    if math.isfinite(least) and math.isfinite(most):
        return f" from {least:g} to {most:g}"
    return f" of at least {least:g}" if math.isfinite(least) else ""
