"""Driving SUMO through libsumo: it is started, told speeds, stepped and read. There is one SUMO in a process at a time."""

import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Final

from samepath.core.errors import SimulatorError
from samepath.engines.in_process import (
    CONTROLS,
    FirstContacts,
    InProcessContact,
    InProcessSettings,
    InProcessWorld,
    State,
    StepAccumulator,
)
from samepath.engines.interface import DURATION
from samepath.engines.sumo.scene import GRID, GRID_CAR_M, GRID_TICKS, SumoOptions, grid_routes, scene_of
from samepath.instrument.traces.recorder import Recorder
from samepath.scenarios.scripts import STANDING, PlanarState, Role, Script, VehicleCommand, brake_force_n, drive_force_n

with redirect_stdout(StringIO()):  # it prints a warning where pyarrow is not the one that it brings for itself
    import libsumo
    from libsumo import simulation, vehicle

_MOST_WORDS: Final = 60
# Bits of SUMO's speed mode: what a vehicle can do is regarded (2, 4); what is safe (1) or a duty (8, 16, not 32) is not.
_OBEDIENT: Final = 2 + 4 + 32
_ERRORS: Final = (libsumo.TraCIException, libsumo.FatalTraCIError)


@contextmanager
def in_words() -> Iterator[None]:
    """Turn what SUMO raises into one line."""
    try:
        yield
    except _ERRORS as error:
        raise told(error) from error


def told(error: Exception) -> SimulatorError:
    """Return what SUMO raised as one line."""
    return SimulatorError(f"SUMO: {' '.join(str(error).split()) or type(error).__name__}")


def start(net: Path | str, routes: str, step_s: float, options: SumoOptions) -> None:
    """Start SUMO with a net (a file, or its text) and routes; files are needed no longer once it has read them."""
    libsumo.close()
    with tempfile.TemporaryDirectory(prefix="samepath-sumo-") as folder:
        net_file, routes_file, said = (Path(folder) / name for name in ("scene.net.xml", "scene.rou.xml", "said.txt"))
        net_file.write_text(net if isinstance(net, str) else net.read_text("utf-8"), "utf-8")
        routes_file.write_text(routes, "utf-8")
        try:
            with _stderr_to(said):
                libsumo.start(["sumo", "-n", str(net_file), "-r", str(routes_file), *options.arguments(step_s)])
            make_step()  # vehicles that begin at 0 are there now
        except _ERRORS as error:
            words = " ".join(said.read_text("utf-8", "replace").split()[:_MOST_WORDS])
            raise SimulatorError(f"SUMO cannot be started: {words or error}") from error


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Keep what SUMO says on stderr: reasons when it fails, the same warning in every run when it does not."""
    sys.stderr.flush()
    before = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def make_step() -> None:
    """Make one of SUMO's steps."""
    libsumo.simulationStep()


def stop() -> None:
    """End SUMO; what it has in this process is gone."""
    libsumo.close()


class SumoWorld(InProcessWorld):
    """Roads with the vehicles of a script on them."""

    def __init__(self, script: Script, settings: InProcessSettings, options: SumoOptions) -> None:
        self._step_s = settings.step_s
        self._backlog = StepAccumulator(settings.step_s, settings.max_steps)
        scene = scene_of(script)
        start(scene.net, scene.routes, settings.step_s, options)
        with in_words():
            self._cars = {role.number: Car(role) for role in script.roles}
        self._touches = FirstContacts()
        self._seen: dict[int, PlanarState] = {}  # since the last step

    def see(self, number: int) -> PlanarState:
        """Return where the middle of a vehicle is and how it moves; it is read once after a step."""
        seen = self._seen.get(number)
        if seen is None:
            try:
                seen = self._seen[number] = self._cars[number].read()
            except _ERRORS as error:
                raise told(error) from error
        return seen

    def command(self, number: int, command: VehicleCommand) -> None:
        """Set what a vehicle does in every step from now on."""
        self._cars[number].command = command

    def states(self) -> Mapping[int, State]:
        """Read every vehicle."""
        return {number: state_of(self.see(number)) for number in self._cars}

    def reading(self) -> list[PlanarState]:
        """Take down every vehicle; what is seen are the numbers of the channels, in their order."""
        return [self.see(number) for number in self._cars]

    def step(self, count: int) -> None:
        """Make fixed steps; forces are those of each step."""
        cars, step_s = list(self._cars.values()), self._step_s
        try:
            for _ in range(count):
                for car in cars:
                    car.act(step_s)
                make_step()
                self._seen.clear()
                for collider, victim in collisions():
                    self._touches.add(collider, victim, (0.0, 0.0, 0.0))
        except _ERRORS as error:
            raise told(error) from error

    def advance(self, frame_s: float, on_step: Callable[[], None]) -> None:
        """Make the steps that a frame is due."""
        for _ in range(self._backlog.due(frame_s)):
            self.step(1)
            on_step()

    def touches(self) -> list[InProcessContact]:
        """Return who touched for the first time; SUMO knows no impulses."""
        return self._touches.take()

    def close(self) -> None:
        """End SUMO."""
        stop()


class Car:
    """A vehicle whose speed is what its driver's pedals make of it; where the lane goes, it goes."""

    def __init__(self, role: Role) -> None:
        self._role, self._name, self._half_m = role, str(role.number), role.body.length_m / 2
        self.command = STANDING
        vehicle.setSpeedMode(self._name, _OBEDIENT)
        vehicle.setLaneChangeMode(self._name, 0)

    def act(self, step_s: float) -> None:
        """Tell the speed of the next step: force over mass, never backwards."""
        speed_mps, command = vehicle.getSpeed(self._name), self.command
        brake = 1.0 if command.hand_brake else command.brake
        force_n = drive_force_n(self._role, command.throttle, speed_mps) - brake_force_n(self._role, brake)
        vehicle.setSpeed(self._name, max(0.0, speed_mps + force_n / self._role.body.mass_kg * step_s))

    def read(self) -> PlanarState:
        """Return where its middle is, its yaw and its velocity, in our frame."""
        return placed(self._name, self._half_m)


def placed(name: str, half_m: float) -> PlanarState:
    """Return the middle of a vehicle, its yaw and velocity in our frame: y turned over, angles from east."""
    (x, y), speed_mps = vehicle.getPosition(name), vehicle.getSpeed(name)
    yaw_deg = math.remainder(vehicle.getAngle(name) - 90.0, 360.0)
    yaw_rad = math.radians(yaw_deg)
    ahead_x, ahead_y = math.cos(yaw_rad), math.sin(yaw_rad)
    return PlanarState(x - half_m * ahead_x, -y - half_m * ahead_y, yaw_deg, speed_mps * ahead_x, speed_mps * ahead_y)


def state_of(seen: PlanarState) -> State:
    """Name the numbers, in the order of the channels."""
    x, y, yaw, vx, vy = seen
    return {"x_m": x, "y_m": y, "yaw_deg": yaw, "vx_mps": vx, "vy_mps": vy}


def present() -> list[int]:
    """Return who is on the road, by number."""
    return sorted(map(int, vehicle.getIDList()))


def collisions() -> list[tuple[int, int]]:
    """Return who ran into whom in the last step, as SUMO tells it."""
    if not simulation.getCollidingVehiclesNumber():
        return []
    return [(int(one.collider), int(one.victim)) for one in simulation.getCollisions()]


# SUMO's own traffic: a grid of streets with lights, in which nobody is driven by us.

_TYPE: Final = "vehicle.sumo.car"
_NOBODY_DRIVES: Final = [math.nan] * len(CONTROLS)


def play_grid(
    settings: InProcessSettings, options: SumoOptions, recorder: Recorder, on_tick: Callable[[int], None], last: int | None
) -> None:
    """Run the grid from its first car to its last tick."""
    start(GRID, grid_routes(), settings.step_s, options)
    try:
        with in_words():
            _play(settings.substeps, recorder, on_tick, min(GRID_TICKS, last or GRID_TICKS))
        recorder.end(min(GRID_TICKS, last or GRID_TICKS), DURATION if last and last <= GRID_TICKS else "simulated time is over")
    finally:
        stop()


def _play(substeps: int, recorder: Recorder, on_tick: Callable[[int], None], ticks: int) -> None:
    touches = FirstContacts()
    here: set[int] = set()
    half_m = GRID_CAR_M / 2
    for tick in range(1, ticks + 1):
        for _ in range(substeps):
            make_step()
            for collider, victim in collisions():
                touches.add(collider, victim, (0.0, 0.0, 0.0))
        now = present()
        for number in sorted(here.difference(now)):
            recorder.event(tick - 1, "destroy", number, detail="arrived")
        for number in now:
            if number not in here:
                recorder.actor(number, _TYPE, tick if tick > 1 else 0)
        here = set(now)
        recorder.rows(tick, now, [[*placed(str(number), half_m), *_NOBODY_DRIVES] for number in now])
        for touch in touches.take():
            recorder.event(tick, "collision", touch.actor, touch.other, touch.impulse_ns)
        on_tick(tick)
