"""Driving AirSim: cars of its settings.json are put where the script has them, commanded, and read with the time of its clock.

AirSim's frame is NED: x north, y east, z down, metres. Ours has the same x and y and z up; yaw turns the same way. Places come
relative to where a vehicle was put by settings.json, which are added here; heights are left relative to that.

In synchronous mode the program is paused, and told to go on for a while; it says when it is paused again. How far it went in
between is read from its clock, because it pauses at the end of a frame and not at the moment asked for.
"""

import asyncio
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType, TracebackType
from typing import Any, Final, Self

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SimulatorError, printable
from samepath.core.states import VehicleCommand
from samepath.core.trig import sincos_deg
from samepath.engines.airsim.simulator import FRAMES, AirSimSettings
from samepath.engines.in_process import Vector, angles_deg
from samepath.engines.remote import ActorSample, RemoteContact, RemoteWorld, find_server
from samepath.scenarios.scripts import STANDING, PlanarState, Pose2D, Script

HOW_TO: Final = "start AirSim in car mode, or give host and port in the settings"
_LONGEST_WORDS: Final = 200


class AirSimConnection:
    """A client that is connected; :attr:`client` may be used inside :meth:`asking`, where its errors become one line of ours.

    The client talks MessagePack-RPC in an asyncio loop of its own and counts time-outs in whole seconds. Where a connection is
    closed it connects again but does not ask again, so that it waits for its time-out then too.
    """

    def __init__(self, settings: AirSimSettings) -> None:
        self.api = _imported()
        self.settings = settings
        self._lost = False
        # The client takes the thread's loop, and finds none to speak of in newer Pythons.
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self.client: Any = self.api.CarClient(settings.host, settings.port, settings.timeout_s)

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
        where = f"AirSim at {self.settings.address}"
        words = printable(" ".join(str(error).split()))[:_LONGEST_WORDS]
        if "timed out" in words or "Retry connection" in words or "Stream is closed" in words:
            self._lost = True
            try:
                find_server("AirSim", self.settings.host, self.settings.port, HOW_TO)
            except SimulatorError:
                return SimulatorError(f"{where} is gone {when}: it gave no answer, and nobody listens there any more")
            return SimulatorError(
                f"{where} gave no answer that can be read {when} within {self.settings.timeout_s:g} s: "
                "does it hang? timeout_s sets the limit"
            )
        return SimulatorError(f"{where} failed {when}: {words or type(error).__name__}")

    def tidy(self, call: Callable[[], object]) -> None:
        """Make a last call, where the program is there to hear it."""
        if not self._lost:
            try:
                call()
            except Exception:
                self._lost = True

    def close(self) -> None:
        """Close the connection and end what the client left in its loop."""
        with suppress(Exception):
            self.client.client.close()
        if not self._loop.is_closed():
            with suppress(Exception):
                left = asyncio.all_tasks(self._loop)
                for task in left:
                    task.cancel()
                self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.close()
        asyncio.set_event_loop(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _imported() -> ModuleType:
    """Import the client. What it imports puts the current folder on the path of modules, which is taken back."""
    path = list(sys.path)
    try:
        return import_module("cosysairsim")
    except ImportError as error:
        raise SimulatorError(f"cosysairsim cannot be imported ({error}): pip install 'samepath[airsim]'") from error
    finally:
        sys.path[:] = path


Quaternion = tuple[float, float, float, float]  # w, x, y, z


@dataclass(frozen=True)
class VehicleHome:
    """A vehicle of settings.json: its name, and where it starts, north and east of Player Start."""

    name: str
    north_m: float
    east_m: float


def homes_of(script: Script, settings: AirSimSettings, text: str) -> dict[int, VehicleHome]:
    """Return who plays whom, from the settings that the program says it has; refuse those a study cannot be run with."""
    where = f"settings.json of AirSim at {settings.address}"
    try:
        found = json.loads(text)
        cars = found.get("Vehicles") or {}
        clock, speed = str(found.get("ClockType", "")), float(found.get("ClockSpeed", 1.0))
        homes = {name: VehicleHome(name, float(car.get("X", 0.0)), float(car.get("Y", 0.0))) for name, car in cars.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise SimulatorError(f"{where} cannot be read ({error})") from error
    if found.get("SimMode") != "Car":
        raise SimulatorError(f'{where}: "SimMode": "Car" was wanted, but {found.get("SimMode")!r} is set')
    if settings.synchronous and clock != "SteppableClock":
        raise SimulatorError(
            f'{where}: "ClockType": "SteppableClock" was wanted, because any other clock goes on while the program is paused, '
            f"but {clock!r} is set"
        )
    if abs(speed - settings.clock_speed) > 1e-9:
        raise SimulatorError(f"{where}: ClockSpeed is {speed:g}, but time_scale is {settings.clock_speed:g}: set both alike")
    if len(settings.vehicles) != len(script.roles):
        raise SimulatorError(
            f"vehicles: {len(script.roles)} names were wanted for {script.name}, but {len(settings.vehicles)} came"
        )
    for name in settings.vehicles:
        if name not in homes:
            known = ", ".join(homes) or "none"
            raise SimulatorError(f"{where}: a vehicle {name} was wanted, but it has {known}: give their names as vehicles")
    return {role.number: homes[name] for role, name in zip(script.roles, settings.vehicles, strict=True)}


def pose_of(start: Pose2D, home: VehicleHome, down_m: float) -> tuple[Vector, Quaternion]:
    """Return a start as AirSim takes it: relative to the vehicle's home, at the height it stands at."""
    sine, cosine = sincos_deg(start.yaw_deg / 2)
    return (start.x_m - home.north_m, start.y_m - home.east_m, down_m), (cosine, 0.0, 0.0, sine)


def state_of(home: VehicleHome, place: Vector, turn: Quaternion, velocity: Vector) -> dict[str, float]:
    """Return a vehicle in our frame and units."""
    w, x, y, z = turn
    # What the rotation makes of forward, right and down, in NED; only z changes its sign for us.
    forward = 1 - 2 * (y * y + z * z), 2 * (x * y + w * z), -2 * (x * z - w * y)
    right_z, up_z = -2 * (y * z + w * x), 1 - 2 * (x * x + y * y)
    roll, pitch, yaw = angles_deg(forward, right_z, up_z)
    return {
        "x_m": home.north_m + place[0],
        "y_m": home.east_m + place[1],
        "z_m": -place[2],
        "roll_deg": roll,
        "pitch_deg": pitch,
        "yaw_deg": yaw,
        "vx_mps": velocity[0],
        "vy_mps": velocity[1],
        "vz_mps": -velocity[2],
    }


def vector_of(record: object, what: str) -> Vector:
    """Read a vector of the client's, which takes whatever a program sends."""
    x, y, z = _floats(record, ("x_val", "y_val", "z_val"), what)
    return x, y, z


def turn_of(record: object) -> Quaternion:
    """Read a rotation of the client's."""
    w, x, y, z = _floats(record, ("w_val", "x_val", "y_val", "z_val"), "an orientation")
    return w, x, y, z


def _floats(record: object, names: tuple[str, ...], what: str) -> list[float]:
    fields: Mapping[str, object] = getattr(record, "__dict__", {})
    found = [fields.get(name) for name in names]
    good = [float(value) for value in found if isinstance(value, float | int) and math.isfinite(value)]
    if len(good) != len(names):
        raise SimulatorError(f"AirSim sent {str(fields or record)[:80]!r} where {what} was wanted")
    return good


# How long to wait before asking again whether the program has paused.
_AGAIN_S: Final = 0.001
_NANOS: Final = 1_000_000_000


class AirSimWorld(RemoteWorld):
    """A script in AirSim's level, paused."""

    def __init__(self, link: AirSimConnection, script: Script, settings: AirSimSettings) -> None:
        self._link, self._settings = link, settings
        self._homes: dict[int, VehicleHome] = {}
        self._names: dict[str, int] = {}
        self._start_ns = 0
        try:
            with link.asking("before the run"):
                self._check_version()
                self._set_up(script)
        except BaseException:
            self.close()
            raise

    def _check_version(self) -> None:
        client = self._link.client
        if client.ping() is not True:
            raise SimulatorError(f"the program at {self._settings.address} does not answer as AirSim does")
        ours, least = client.getClientVersion(), client.getMinRequiredClientVersion()
        if not isinstance(least, int) or ours < least:
            raise SimulatorError(f"AirSim wants a client of version {least}, but cosysairsim is {ours}: install a newer one")

    def _set_up(self, script: Script) -> None:
        client, settings = self._link.client, self._settings
        if settings.level and not client.simLoadLevel(settings.level):
            raise SimulatorError(f"AirSim at {settings.address} could not load the level {settings.level}")
        self._homes = homes_of(script, settings, client.getSettingsString())
        self._names = {home.name: number for number, home in self._homes.items()}
        client.simPause(False)
        client.reset()
        client.simPause(True)
        for role in script.roles:
            home = self._homes[role.number]
            client.enableApiControl(True, home.name)
            down_m = vector_of(client.simGetVehiclePose(home.name).position, "a position")[2]
            place, (w, x, y, z) = pose_of(role.start, home, down_m)
            api = self._link.api
            client.simSetVehiclePose(api.Pose(api.Vector3r(*place), api.Quaternionr(x, y, z, w)), True, home.name)
            self.command(role.number, STANDING)
        for _ in range(round(settings.settle_s / settings.control_s)):
            self._continue()
        self._start_ns = self._state(min(self._homes))[0]

    def sample(self) -> list[ActorSample]:
        """Ask for every car's state; each comes with the time it is of."""
        with self._link.asking("during the run"):
            found = []
            for number, home in self._homes.items():
                stamp_ns, kinematics = self._state(number)
                state = state_of(
                    home,
                    vector_of(kinematics.position, "a position"),
                    turn_of(kinematics.orientation),
                    vector_of(kinematics.linear_velocity, "a velocity"),
                )
                observed = PlanarState(state["x_m"], state["y_m"], state["yaw_deg"], state["vx_mps"], state["vy_mps"])
                found.append(ActorSample(number, (stamp_ns - self._start_ns) / _NANOS, state, observed))
            return found

    def _state(self, number: int) -> tuple[int, Any]:
        told = self._link.client.getCarState(self._homes[number].name)
        stamp_ns, kinematics = getattr(told, "timestamp", None), getattr(told, "kinematics_estimated", None)
        if not isinstance(stamp_ns, int) or not hasattr(kinematics, "linear_velocity"):
            raise SimulatorError(f"AirSim sent {str(told)[:80]!r} where the state of a car was wanted")
        return stamp_ns, kinematics

    def command(self, number: int, command: VehicleCommand) -> None:
        """Set pedals and wheel; reverse is a gear of its own."""
        controls = self._link.api.CarControls(
            throttle=command.throttle,
            steering=command.steer,
            brake=command.brake,
            handbrake=command.hand_brake,
            is_manual_gear=command.reverse,
            manual_gear=-1 if command.reverse else 0,
        )
        with self._link.asking("during the run"):
            self._link.client.setCarControls(controls, self._homes[number].name)

    def step(self) -> None:
        """Go on for a tick, and wait until the program says that it is paused."""
        with self._link.asking("during the run"):
            self._continue()

    def _continue(self) -> None:
        client, settings = self._link.client, self._settings
        if settings.continue_for == FRAMES:
            client.simContinueForFrames(settings.frames)
        else:
            # AirSim takes seconds of the wall clock: it multiplies them by ClockSpeed.
            client.simContinueForTime(settings.control_s / settings.clock_speed)
        until_s = SYSTEM_CLOCK.monotonic_s() + settings.timeout_s
        while client.simIsPause() is not True:
            if SYSTEM_CLOCK.monotonic_s() > until_s:
                raise SimulatorError(
                    f"AirSim at {settings.address} was to go on for a moment, but did not pause again "
                    f"within {settings.timeout_s:g} s"
                )
            SYSTEM_CLOCK.sleep_s(_AGAIN_S)

    def run(self) -> None:
        """End the pause."""
        with self._link.asking("at the start"):
            self._link.client.simPause(False)

    def contacts(self) -> list[RemoteContact]:
        """Ask every car for its last contact since it was asked before."""
        found = []
        with self._link.asking("during the run"):
            for number, home in self._homes.items():
                told = self._link.client.simGetCollisionInfo(home.name)
                stamp_ns, name = getattr(told, "time_stamp", None), getattr(told, "object_name", None)
                if not isinstance(stamp_ns, int | float) or not isinstance(name, str):
                    raise SimulatorError(f"AirSim sent {str(told)[:80]!r} where a collision was wanted")
                if told.has_collided:
                    other = self._names.get(name)
                    time_s = (int(stamp_ns) - self._start_ns) / _NANOS
                    found.append(RemoteContact(time_s, number, other, "" if other is not None else name))
        return found

    def close(self) -> None:
        """Let the cars go and the program run on, as it was found."""
        client = self._link.client
        for home in self._homes.values():
            self._link.tidy(lambda name=home.name: client.enableApiControl(False, name))  # type: ignore[misc]
        if self._homes:
            self._link.tidy(lambda: client.simPause(False))
        self._link.close()
