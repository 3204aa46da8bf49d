"""Driving BeamNG.tech: a scenario is made from the script, its vehicles are put in place, commanded, stepped and read.

BeamNG's frame is right-handed, z up, metres: our y changes its sign. A vehicle is told by a reference node of its own, its
direction and its up vector. What drivers see is its centre of gravity, which is found at the start and taken to stay in place.

The program tells of no contacts. It tells how much each vehicle is damaged: where that grows, it has touched something; if
another car is near enough, that one, else scenery. Who it was and when is as good as that, and a touch without damage is none.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SimulatorError, printable
from samepath.core.states import VehicleCommand
from samepath.core.trig import sincos_deg, wrap_deg
from samepath.engines.beamng.simulator import LOOPBACK, BeamNGSettings
from samepath.engines.in_process import TICK_S, Vector, angles_deg
from samepath.engines.remote import ActorSample, RemoteContact, RemoteWorld, find_server
from samepath.engines.subprocess import EngineProcess
from samepath.scenarios.scripts import STANDING, BodyDimensions, PlanarState, Pose2D, Role, Script

# BeamNGpy's vehicle, which has types of its own that change from version to version.
BeamNGVehicle = Any
NAME: Final = "BeamNG.tech"
BINARIES: Final = ("BinLinux/BeamNG.tech.x64", "BinLinux/BeamNG.drive.x64")
HOW_TO: Final = "start it with -tcom -tport PORT, or give its folder as home"
_AGAIN_S: Final = 0.05


def binary_of(home: str) -> Path:
    """Return the program in a home folder."""
    for name in BINARIES:
        path = Path(home).expanduser() / name
        if path.is_file():
            return path
    raise SimulatorError(f"{NAME} is not installed ({home} has no {BINARIES[0]}): give the folder it was unpacked to as home")


def started(settings: BeamNGSettings) -> EngineProcess:
    """Start the program without a window, and wait until it listens."""
    _check_free(settings)
    arguments = ["-nosteam", "-tcom", "-tport", str(settings.port), "-tcom-listen-ip", LOOPBACK[0], "-headless"]
    process = EngineProcess(NAME, [str(binary_of(settings.home)), *arguments], talks=False)
    until_s = SYSTEM_CLOCK.monotonic_s() + settings.timeout_s
    try:
        while True:
            try:
                find_server(NAME, settings.host, settings.port, HOW_TO)
            except SimulatorError as error:
                if not process.running:
                    raise process.trouble("ended before it listened") from error
                if SYSTEM_CLOCK.monotonic_s() > until_s:
                    raise process.trouble(f"does not listen at {settings.address} after {settings.timeout_s:g} s") from error
            else:
                return process
            SYSTEM_CLOCK.sleep_s(_AGAIN_S)
    except BaseException:
        process.close()
        raise


def _check_free(settings: BeamNGSettings) -> None:
    try:
        find_server(NAME, settings.host, settings.port, HOW_TO)
    except SimulatorError:
        return
    raise SimulatorError(f"somebody listens at {settings.address} already: give another port, or leave out home to use it")


_LONGEST_WORDS: Final = 200
# A connection ends before the process does that held it.
_MOMENT_S: Final = 2.0


class BeamNGConnection:
    """A client that is connected; :attr:`bng` may be used inside :meth:`asking`, where its errors become one line of ours.

    Every wait has an end. Where the user gave a ``home``, the program is started with the connection and ended with it.
    """

    def __init__(self, settings: BeamNGSettings) -> None:
        try:
            import beamngpy
        except ImportError as error:
            raise SimulatorError(f"beamngpy cannot be imported ({error}): pip install 'samepath[beamng]'") from error
        self.api: Any = beamngpy
        self.settings = settings
        self._lost = False
        self._vehicles: list[BeamNGVehicle] = []
        with ExitStack() as stack:
            self._process = stack.enter_context(started(settings)) if settings.home else None
            self.bng: Any = beamngpy.BeamNGpy(
                settings.host, settings.port, quit_on_close=False, socket_timeout=settings.timeout_s
            )
            stack.callback(self._let_go)
            with self.asking("when it was greeted"):
                self.bng.open(launch=False)
            self._stack = stack.pop_all()

    def connect(self, vehicle: BeamNGVehicle) -> None:
        """Connect to a vehicle as its own method does, but with a time limit, which that leaves out."""
        from beamngpy.connection import Connection

        answer = self.bng.vehicles.start_connection(vehicle, None)
        vehicle.connection = Connection(self.settings.host, int(answer["result"]), timeout=self.settings.timeout_s)
        self._vehicles.append(vehicle)
        vehicle.connect(self.bng, tries=1)

    @contextmanager
    def asking(self, when: str) -> Iterator[None]:
        """Turn the client's errors into ours; ``when`` says what was going on."""
        try:
            yield
        except SimulatorError:
            raise
        except Exception as error:
            raise self._told(when, error) from error

    def _told(self, when: str, error: Exception) -> SimulatorError:
        where, words = f"{NAME} at {self.settings.address}", printable(" ".join(str(error).split()))[:_LONGEST_WORDS]
        gone = isinstance(error, OSError | self.api.logging.BNGDisconnectedError)
        self._lost = self._lost or gone
        if isinstance(error, TimeoutError):
            limit = f"gave no answer {when} within {self.settings.timeout_s:g} s"
            if self._process is not None:
                return self._process.trouble(limit)
            return SimulatorError(f"{where} {limit}: does it hang? timeout_s sets the limit")
        if gone and self._process is not None:
            return self._process.trouble(f"is gone {when}", _MOMENT_S)
        if gone:
            return SimulatorError(f"{where} is gone {when}: {words or type(error).__name__}")
        kind = "" if isinstance(error, self.api.logging.BNGError | self.api.logging.BNGValueError) else type(error).__name__
        return SimulatorError(f"{where} failed {when}: {': '.join(part for part in (kind, words) if part)}")

    def tidy(self, call: Callable[[], object]) -> None:
        """Make a last call, where the program is there to hear it."""
        if not self._lost:
            try:
                call()
            except Exception:
                self._lost = True

    def _let_go(self) -> None:
        for vehicle in self._vehicles:
            with suppress(Exception):
                vehicle.disconnect()
        with suppress(Exception):
            self.bng.disconnect()

    def close(self) -> None:
        """Close every connection, and end the program if it was started here."""
        self._stack.close()


Quaternion = tuple[float, float, float, float]  # x, y, z, w


def position_of(start: Pose2D) -> tuple[float, float]:
    """Return a place in BeamNG's axes."""
    return start.x_m, -start.y_m


def turned(angle_deg: float) -> Quaternion:
    """Return a rotation about the upright axis."""
    sine, cosine = sincos_deg(angle_deg / 2)
    return 0.0, 0.0, sine, cosine


def first_angle_deg(yaw_deg: float) -> float:
    """Return the angle at which a car that looks along -y unturned looks along a heading of ours."""
    return 90.0 - yaw_deg


def state_of(told: Mapping[str, Any]) -> dict[str, float]:
    """Return a vehicle in our frame and units; numbers are BeamNG's own."""
    place, velocity = vector_of(told, "pos"), vector_of(told, "vel")
    ahead, up = vector_of(told, "dir"), vector_of(told, "up")
    # The right of a car is across its direction and its up; mirroring y leaves the height of all three.
    right_z = ahead[0] * up[1] - ahead[1] * up[0]
    roll, pitch, yaw = angles_deg((ahead[0], -ahead[1], ahead[2]), right_z, up[2])
    return {
        "x_m": place[0],
        "y_m": -place[1],
        "z_m": place[2],
        "roll_deg": roll,
        "pitch_deg": pitch,
        "yaw_deg": yaw,
        "vx_mps": velocity[0],
        "vy_mps": -velocity[1],
        "vz_mps": velocity[2],
    }


def offset_of(told: Mapping[str, Any], centre: Vector) -> tuple[float, float]:
    """Return how far ahead of its reference node, and to the right of it, a car's centre of gravity is."""
    place, ahead = vector_of(told, "pos"), vector_of(told, "dir")
    size = math.hypot(ahead[0], ahead[1])
    x, y = centre[0] - place[0], centre[1] - place[1]
    return (x * ahead[0] + y * ahead[1]) / size, (x * ahead[1] - y * ahead[0]) / size


def observed_of(state: Mapping[str, float], offset: tuple[float, float]) -> PlanarState:
    """Return what a driver sees: the centre of gravity, in our frame."""
    sine, cosine = sincos_deg(state["yaw_deg"])
    ahead_m, right_m = offset
    return PlanarState(
        state["x_m"] + ahead_m * cosine - right_m * sine,
        state["y_m"] + ahead_m * sine + right_m * cosine,
        state["yaw_deg"],
        state["vx_mps"],
        state["vy_mps"],
    )


def start_of(start: Pose2D, offset: tuple[float, float]) -> Pose2D:
    """Return where the reference node is when the centre of gravity is at a start."""
    sine, cosine = sincos_deg(start.yaw_deg)
    ahead_m, right_m = offset
    return Pose2D(start.x_m - ahead_m * cosine + right_m * sine, start.y_m - ahead_m * sine - right_m * cosine, start.yaw_deg)


def may_touch(a: PlanarState, a_body: BodyDimensions, b: PlanarState, b_body: BodyDimensions, margin_m: float) -> bool:
    """Are two so near that their bodies, however they are turned, could touch?"""
    reach_m = sum(math.hypot(body.length_m, body.width_m) / 2 for body in (a_body, b_body))
    return math.hypot(a.x_m - b.x_m, a.y_m - b.y_m) <= reach_m + margin_m


def vector_of(told: Mapping[str, Any], name: str) -> Vector:
    """Read three numbers of what BeamNG told."""
    value = told.get(name)
    parts = list(value) if isinstance(value, list | tuple) else []
    if len(parts) != 3 or not all(isinstance(part, float | int) and math.isfinite(part) for part in parts):
        raise SimulatorError(f"BeamNG.tech sent {str(value)[:60]!r} where {name} of a vehicle was wanted")
    return float(parts[0]), float(parts[1]), float(parts[2])


def number_of(told: Mapping[str, Any], name: str) -> float:
    """Read a number of what BeamNG told."""
    value = told.get(name)
    if isinstance(value, bool) or not isinstance(value, float | int) or not math.isfinite(value):
        raise SimulatorError(f"BeamNG.tech sent {str(value)[:60]!r} where {name} of a vehicle was wanted")
    return float(value)


SCENARIO: Final = "samepath"
# Gears by themselves. A brake that is held at rest becomes the reverse gear: below this speed the parking brake does it.
_SHIFT_MODE: Final = "arcade"
_SLOW_MPS: Final = 1.0
# How far a car may look past where it was to look.
_AIM_DEG: Final = 3.0
# Bodies of BeamNG's own are not those of the script.
_MARGIN_M: Final = 1.0
_SENSORS: Final = ("state", "damage")


class BeamNGWorld(RemoteWorld):
    """A script in one of BeamNG's levels, paused."""

    def __init__(self, link: BeamNGConnection, script: Script, settings: BeamNGSettings) -> None:
        self._link, self._settings, self._script = link, settings, script
        self._roles: dict[int, Role] = {role.number: role for role in script.roles}
        self._cars: dict[int, BeamNGVehicle] = {}
        self._offsets: dict[int, tuple[float, float]] = {}
        self._damage: dict[int, float] = {}
        self._samples: dict[int, ActorSample] = {}
        self._start_s: dict[int, float] = {}
        self._ticks = 0
        try:
            with link.asking("before the run"):
                self._load()
                self._place()
        except BaseException:
            self.close()
            raise

    def _load(self) -> None:
        bng, api, settings = self._link.bng, self._link.api, self._settings
        from beamngpy.sensors import Damage

        if settings.synchronous:
            bng.settings.set_deterministic(settings.steps_per_second)
        else:
            bng.settings.set_nondeterministic()
            bng.settings.set_steps_per_second(settings.steps_per_second)
        scenario = api.Scenario(settings.level, SCENARIO)
        for index, role in enumerate(self._script.roles):
            car = api.Vehicle(f"car{role.number}", model=settings.model(index))
            car.sensors.attach("damage", Damage())
            x_m, y_m = position_of(role.start)
            scenario.add_vehicle(car, (x_m, y_m, 0.0), turned(first_angle_deg(role.start.yaw_deg)))
            self._cars[role.number] = car
        scenario.make(bng)
        bng.scenario.load(scenario, connect_player_vehicle=False, connect_existing_vehicles=False)
        bng.scenario.start()
        bng.control.pause()
        for car in self._cars.values():
            self._link.connect(car)
            car.set_shift_mode(_SHIFT_MODE)

    def _place(self) -> None:
        """Put everybody where the script has them, by what the program says of them once they are there."""
        bng = self._link.bng
        bng.control.step(1)
        for number, car in self._cars.items():
            self._brake(car)
            told = self._poll(number)
            centre = vector_of(car.get_mass_properties(), "center_of_gravity")
            self._offsets[number] = offset_of(told, centre)
            self._aim(number, car, vector_of(told, "pos")[2])
        bng.control.step(max(1, round(self._settings.settle_s * self._settings.steps_per_second)))
        for number in self._cars:
            told = self._poll(number)
            self._start_s[number] = number_of(told, "time")
            self._damage[number] = self._damage_of(number)

    def _aim(self, number: int, car: BeamNGVehicle, z_m: float) -> None:
        """Turn a car to its heading. Which way an unturned one looks, and which way angles count, is found out."""
        start = start_of(self._roles[number].start, self._offsets[number])
        angle_deg, x_y_m = first_angle_deg(start.yaw_deg), position_of(start)
        tries, off_deg = [angle_deg], 0.0
        for attempt in range(3):
            car.teleport((*x_y_m, z_m), turned(tries[attempt]), reset=True)
            self._link.bng.control.step(1)
            off_deg = wrap_deg(state_of(self._poll(number))["yaw_deg"] - start.yaw_deg)
            if abs(off_deg) <= _AIM_DEG:
                return
            if attempt == 0:
                tries += [angle_deg + off_deg, angle_deg - off_deg]
        raise SimulatorError(f"actor {number} was to look along {start.yaw_deg:.1f} degrees, but is {off_deg:.1f} off")

    def _poll(self, number: int) -> Mapping[str, Any]:
        sensors = self._cars[number].sensors
        sensors.poll(*_SENSORS)
        return dict(sensors["state"])

    def _damage_of(self, number: int) -> float:
        return number_of(self._cars[number].sensors["damage"], "damage")

    def sample(self) -> list[ActorSample]:
        """Ask every vehicle for its state and its damage."""
        with self._link.asking("during the run"):
            for number in self._cars:
                told = self._poll(number)
                passed_s = number_of(told, "time") - self._start_s[number]
                state = state_of(told)
                self._samples[number] = ActorSample(
                    number, self._moment(passed_s), state, observed_of(state, self._offsets[number])
                )
            return list(self._samples.values())

    def _moment(self, passed_s: float) -> float:
        """In step, time is counted; the program's own clock must agree."""
        if not self._settings.synchronous:
            return passed_s
        counted_s = self._ticks * TICK_S
        if abs(passed_s - counted_s) > TICK_S / 2:
            raise SimulatorError(
                f"BeamNG.tech's clock went {passed_s:g} s in {self._ticks} ticks of {TICK_S:g} s: "
                "does it make the steps it was asked for?"
            )
        return counted_s

    def command(self, number: int, command: VehicleCommand) -> None:
        """Set pedals and wheel."""
        car, observed = self._cars[number], self._samples[number].observed
        with self._link.asking("during the run"):
            slow = math.sqrt(observed.vx_mps**2 + observed.vy_mps**2) < _SLOW_MPS
            if command.hand_brake or (slow and command.brake > 0):
                self._brake(car)
                return
            steering = command.steer * self._settings.steer_sign
            gear = {"gear": -1} if command.reverse else {}
            car.control(steering=steering, throttle=command.throttle, brake=command.brake, parkingbrake=0.0, **gear)

    @staticmethod
    def _brake(car: BeamNGVehicle) -> None:
        car.control(steering=STANDING.steer, throttle=0.0, brake=0.0, parkingbrake=1.0)

    def step(self) -> None:
        """Make the steps of a tick."""
        with self._link.asking("during the run"):
            self._link.bng.control.step(self._settings.steps)
        self._ticks += 1

    def run(self) -> None:
        """End the pause."""
        with self._link.asking("at the start"):
            self._link.bng.control.resume()

    def contacts(self) -> list[RemoteContact]:
        """Return whose damage has grown since this was last asked."""
        found = []
        for number in self._cars:
            damage = self._damage_of(number)
            if damage > self._damage[number]:
                other = self._nearest(number)
                found.append(RemoteContact(self._samples[number].time_s, number, other, "told by damage"))
            self._damage[number] = damage
        return found

    def _nearest(self, number: int) -> int | None:
        """Return the first of the others that are near enough to have been touched."""
        here, body = self._samples[number].observed, self._roles[number].body
        for other, sample in self._samples.items():
            if other != number and may_touch(here, body, sample.observed, self._roles[other].body, _MARGIN_M):
                return other
        return None

    def close(self) -> None:
        """Leave the scenario, and the program as it is started."""
        bng = self._link.bng
        if self._cars:
            self._link.tidy(bng.control.resume)
            self._link.tidy(bng.scenario.stop)
        self._link.close()
